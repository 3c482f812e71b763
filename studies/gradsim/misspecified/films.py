"""A film of the study of wrong models, and the density that is read from it.

Films have no discrepancy but the one of their row: ground without friction or with perfectly elastic contact is assumed, a
rigid object is taken for a soft one or a soft one for a rigid one, the film is path-traced in a look that the model does not
have, or its camera stands elsewhere. Each film is fitted plainly, as the paper does, and by the rule of ``checks``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import MaskLoss, Scene, read_video, write_video
from risp_torch.files.report import write_strip
from risp_torch.risp import photoreal_film, write_photoreal_frames
from studies.gradsim.misspecified.checks import (
    CAMERA_SHIFT,
    CAMERA_TURN,
    NO_EXPLANATION,
    Fit,
    Target,
    examine,
    far_of,
    fit,
    pictures_of,
)
from studies.gradsim.misspecified.scenes import (
    DAMPING,
    FRICTION,
    KINDS,
    STIFFNESS,
    THICKNESS,
    Model,
    Thrown,
    draw_thrown,
    middle,
    scene_of,
)
from studies.gradsim.presets import CRF, INSIDE
from studies.gradsim.tosses import MASS, RANGES
from ti_render.photoreal import MitsubaSettings

PERFECT, PHOTOREAL, CAMERA = "perfect", "photoreal", "camera"
SAMPLES = 32  # paths of a pixel of path-traced films
SOURCES = ("lossless", "mp4")
PLAIN, EARLY, RULE, SOLVED, MASKS = "plain", "early", "rule", "solved look", "masks"
ROUNDED = 1e-6  # decades: bars of films without noise are no smaller, as single precision leaves some 1e-7 of a number


@dataclass(frozen=True)
class Variant:
    """A row of the table.

    Attributes:
        title: for the table.
        kinds: kinds of objects that are filmed.
        named: what the rule has to name.
        paper: mean relative error of the paper; None where it has no such row.
        asked: mean relative error asked of us.
    """

    title: str
    kinds: tuple[str, ...]
    named: str
    paper: float | None
    asked: float | None


VARIANTS = {
    PERFECT: Variant("perfect model", KINDS, NO_EXPLANATION, 0.1071, 0.002),
    "friction": Variant("unmodelled friction", KINDS, "friction", 0.1866, 0.0933),
    "elasticity": Variant("perfectly elastic", KINDS, "damping", 0.2281, 0.1140),
    "rigid-as-soft": Variant("rigid as deformable", ("rigid",), "kind", 0.3462, 0.1731),
    "soft-as-rigid": Variant("deformable as rigid", ("soft",), "kind", 0.4974, 0.2487),
    PHOTOREAL: Variant("photorealistic target", KINDS, "look", 0.1793, 0.02),
    CAMERA: Variant("wrong camera", KINDS, "camera", None, None),
}


def assumed(variant: str, kind: str) -> Model:
    """The assumptions of a row's model about an object of a kind."""
    if variant == "friction":
        return Model(kind=kind, known={FRICTION: 0.0})
    if variant == "elasticity":
        return Model(kind=kind, known={DAMPING: 0.0})
    if variant == "rigid-as-soft":
        return Model(kind="soft", known={STIFFNESS: middle(STIFFNESS)})
    if variant == "soft-as-rigid":
        return Model(kind="rigid")
    return Model(kind=kind)


def film_cell(
    *, variant: str, kind: str, source: str, index: int, seed: int, size: int, frames: int, folder: str
) -> dict[str, Any]:  # fmt: skip
    """Film an object and read its density, plainly and by the rule.

    Args:
        variant: name of the row.
        source: of ``SOURCES``.
        kind, index, seed: of the object (``draw_thrown``).
        size: side of the pictures [pixels].
        frames: frame intervals.
        folder: where films and strips are written.

    Returns:
        JSON values: truth, start, every estimate with its relative error and error bar, what the rule named and tried.
    """
    thrown, model = draw_thrown(kind, index, seed=seed), assumed(variant, kind)
    true = scene_of(thrown, Model(kind=kind), size=size, frames=frames)
    run_folder = Path(folder) / f"seed-{seed}" / f"{variant}-{kind}-{source}-{index:03d}"
    run_folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng([seed, index, KINDS.index(kind), list(VARIANTS).index(variant)])
    truth, start = true_density(thrown), drawn_density(kind, random)
    if variant == CAMERA:
        move_camera(true, random)
    if variant == PHOTOREAL:
        pictures = path_traced(true, run_folder, seed=int(random.integers(2**31)))
    else:
        pictures = pictures_of(true, {}, frames=frames)
    target = compressed(pictures, run_folder / "film.mp4", fps=1 / true.frame_dt) if source == "mp4" else Target(pictures)
    examination = examine(thrown, model, target, start, size=size, frames=frames)
    fits = {PLAIN: examination.plain, EARLY: examination.early, RULE: examination.chosen}
    if variant == PHOTOREAL and "look" in examination.fits:
        fits[SOLVED] = examination.fits["look"]
    if variant == PHOTOREAL and source == "lossless":
        masks = np.asarray(read_video(run_folder / "masks" / "body"))[..., 0]
        scene = scene_of(thrown, model, size=size, frames=frames)
        fits[MASKS] = fit(scene, None, [{MASS: start}], loss=MaskLoss(masks))
    strip = run_folder / "strip.png"
    fitted = scene_of(thrown, model, size=size, frames=frames)
    write_strip(strip, target.pictures, pictures_of(fitted, examination.plain.values, frames=frames), fps=1 / true.frame_dt)
    return {
        "variant": variant, "kind": kind, "source": source, "index": index, "shape": thrown.toss.shape,
        "truth": truth, "start": start,
        "fits": {key: estimate_of(fit_result, truth) for key, fit_result in fits.items()},
        "named": examination.named, "tried": {key: fit_result.residual for key, fit_result in examination.fits.items()},
        "suspects": list(examination.plain.suspects), "strip": str(strip),
    }  # fmt: skip


def estimate_of(fitted: Fit, truth: float) -> dict[str, Any]:
    """An estimate as JSON values: relative error, error over the error bar (both in decades), and what belongs to it."""
    decades, bar = math.log10(fitted.density / truth), max(fitted.sd, ROUNDED)
    return {
        "density": fitted.density, "error": abs(fitted.density / truth - 1), "sd": bar,
        "held": abs(decades) <= INSIDE * bar, "over_bar": abs(decades) / bar, "misfit": fitted.misfit, "frames": fitted.frames,
    }  # fmt: skip


def true_density(thrown: Thrown) -> float:
    """kg/m3, of a cloth kg/m2."""
    return thrown.toss.values[MASS] * (THICKNESS if thrown.kind == "cloth" else 1.0)


def drawn_density(kind: str, random: np.random.Generator) -> float:
    """A start: drawn from the densities that objects of a kind may have, whatever the true one is."""
    low, high = RANGES["paper"].density
    return float(np.exp(random.uniform(np.log(low), np.log(high)))) * (THICKNESS if kind == "cloth" else 1.0)


def move_camera(scene: Scene, random: np.random.Generator) -> None:
    """Turn a scene's camera by 1 degree about a drawn axis, and move it by 2 cm for 2 m of distance in a drawn direction."""
    turn, shift = (vector / np.linalg.norm(vector) for vector in random.standard_normal((2, 3)))
    scene.set("camera.turn", CAMERA_TURN * turn)
    scene.set("camera.position", np.asarray(scene.parameters["camera.position"].value) + CAMERA_SHIFT * far_of(scene) * shift)


def compressed(pictures: torch.Tensor, path: Path, *, fps: float) -> Target:
    """A film [T, H, W, 3] after H.264, as it is read from the file."""
    write_video(path, pictures, fps=fps, crf=CRF)
    return Target(torch.as_tensor(read_video(path)).to(pictures), path)


def path_traced(scene: Scene, folder: Path, *, seed: int) -> torch.Tensor:
    """The film [frames + 1, H, W, 3] of a scene in a drawn look, of 8-bit pictures; masks of its body lie in the folder."""
    with torch.no_grad():
        states = scene.rollout()
    pictures = photoreal_film(scene, states, options=MitsubaSettings(samples=SAMPLES, seed=seed))
    write_photoreal_frames(folder, pictures, fps=1 / scene.frame_dt)
    return torch.as_tensor(np.asarray(read_video(folder / "frames")), dtype=torch.float32)
