"""Inversions of which it is counted how often their error bars hold the truth: drawn from a seed, each with its own film.

A film is one of the scene with drawn numbers, as H.264 or as PNG pictures with noise. In half of the inversions it does not agree
with the scene that is fitted: its lights are drawn and unknown, or its look is solved, or only masks of the bodies are given, or
its camera stands elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import (
    LookSettings,
    MaskLoss,
    MatchedLoss,
    Scene,
    film,
    invert,
    load_scene,
    render_masks,
    write_frames,
    write_video,
)
from risp_torch.scene.rendering_parameters import RenderingParameters, default_psi

STARTS = 2  # of an inversion
MIDDLE = 0.25  # of a range at both ends: truths are drawn between these
CAMERA_TURN, CAMERA_SHIFT = math.radians(1.0), 0.03  # priors of the camera: rad, and m for a metre of distance from the origin
CRF, NOISE = (18, 23), (0.004, 0.012)  # of the films: H.264's quality, and standard deviation of stored colours
GAMMA = 2.2  # about that of sRGB
EDGE_OF_TRUE_MASKS, SAMPLES_OF_TRUE_MASKS = 0.05, 6


@dataclass(frozen=True)
class Subject:
    """A scene of the study.

    Attributes:
        unknowns: physical numbers that are read from its films.
        frames: frame intervals of a film.
        size: of the square pictures [pixels].
    """

    unknowns: tuple[str, ...]
    frames: int
    size: int = 32


SUBJECTS = {
    "toss": Subject(("body.density", "ground.contact.friction"), frames=16),
    "pendulum": Subject(("pendulum.length", "pendulum.damping"), frames=16),
    "quadrotor": Subject(("quadrotor.mass",), frames=14),
    "cube": Subject(("ground.contact.stiffness",), frames=28),
}
SAME, MASKS, LOOK, SOLVED, CAMERA = "same scene", "look, masks", "look, psi unknown", "look, matched", "camera, unknown"
# Of successive inversions of a scene: half of them do not agree with their films.
KINDS = (SAME, MASKS, SAME, LOOK, SAME, SOLVED, SAME, CAMERA, SAME, SOLVED)


@dataclass(frozen=True)
class Case:
    """One inversion: its number in the study, its scene and its kind."""

    number: int
    scene: str
    kind: str
    seed: int

    @staticmethod
    def of(number: int, seed: int) -> Case:
        """The case with this number, of the study with this seed."""
        names = list(SUBJECTS)
        return Case(number, names[number % len(names)], KINDS[number // len(names) % len(KINDS)], seed)


@dataclass(frozen=True)
class _Film:
    """Scene that is fitted, pictures, truth, and further arguments of ``invert``."""

    scene: Scene
    video: Path | None
    truth: dict[str, float]
    quality: str
    arguments: dict[str, Any] = field(default_factory=dict)


def run(case: Case, folder: Path) -> dict[str, Any]:
    """Film and invert one case.

    Args:
        case: the case.
        folder: where its film is written.

    Returns:
        JSON values: the case, and for each physical unknown its truth, estimate, error and error bar (scaled units).
    """
    began = time.perf_counter()
    random = np.random.default_rng([case.seed, case.number])
    filmed = _filmed(case, random, folder)
    unknown, arguments = [*filmed.truth, *filmed.arguments.pop("unknown", ())], filmed.arguments
    starts = [
        {name: _drawn(filmed.scene, name, random, 0.03) for name in filmed.truth} for _ in range(STARTS)
    ]  # fmt: skip
    result = invert(filmed.scene, filmed.video, unknown, starts=starts, progress=False, **arguments)
    labels = list(filmed.truth)
    places = [result.unknowns.labels.index(label) for label in labels]
    estimate = np.array([result.values[label] for label in result.unknowns.labels])
    true = estimate.copy()
    true[places] = [filmed.truth[label] for label in labels]
    errors = (result.unknowns.scaled(estimate) - result.unknowns.scaled(true))[places]
    return {
        "number": case.number, "scene": case.scene, "kind": case.kind, "seed": case.seed, "film": filmed.quality,
        "unknowns": {
            label: {"truth": filmed.truth[label], "value": result.values[label], "error": float(error), "sd": result.sd[label]}
            for label, error in zip(labels, errors, strict=True)
        },
        "converged": result.converged, "misfit": result.misfit, "doubts": result.doubts, "remarks": result.remarks,
        "seconds": round(time.perf_counter() - began, 2),
    }  # fmt: skip


def _filmed(case: Case, random: np.random.Generator, folder: Path) -> _Film:
    """The film of a case, and what ``invert`` is told about it."""
    subject = SUBJECTS[case.scene]
    scene, true = (_scene(case.scene) for _ in range(2))
    truth = {name: _drawn(scene, name, random, MIDDLE) for name in subject.unknowns}
    for name, value in truth.items():
        true.set(name, value)
    values, arguments = {}, {}
    if case.kind == CAMERA:
        arguments = {"unknown": ("camera.turn", "camera.position"), "priors": _camera_priors(scene)}
        for name, sd in arguments["priors"].items():
            true.set(name, np.asarray(scene.parameters[name].value) + sd * random.standard_normal(3))
    if case.kind in (LOOK, SOLVED):
        psi = _lights(scene)
        values = psi.values(psi.sample(1, seed=int(random.integers(2**31))))
        arguments = {"unknown": (psi,)}
    if case.kind == SOLVED:
        arguments = {"loss": MatchedLoss(LookSettings(edges="scene"))}  # the edges of the program that makes the film
    if case.kind == MASKS:  # of the bodies alone, in whatever look
        return _Film(scene, None, truth, "masks of 0 and 1", {"loss": MaskLoss(_masks(true))})
    with torch.no_grad():
        pictures, _ = film(true, values, worlds=1, frames=scene.frames)
    video, quality = _written(pictures[0].cpu().numpy(), folder, scene.fps, random)
    return _Film(scene, video, truth, quality, arguments)


def _scene(name: str) -> Scene:
    subject = SUBJECTS[name]
    scene = load_scene(name, size=subject.size)
    scene.frames = subject.frames
    return scene


def _drawn(scene: Scene, name: str, random: np.random.Generator, margin: float) -> float:
    """A number of the scene, evenly from its range without a part of it at both ends."""
    param = scene.parameters[name]
    share = random.uniform(margin, 1 - margin)
    low, high = (math.log10(bound) if param.scale == "log10" else bound for bound in (param.low, param.high))
    scaled = low + share * (high - low)
    return float(10**scaled if param.scale == "log10" else scaled)


def _lights(scene: Scene) -> RenderingParameters:
    """Rendering parameters of the lights: where the directional one comes from, and how bright both are."""
    distributions = {
        name: distribution for name, distribution in default_psi(scene).distributions.items() if name.startswith("light.")
    }
    return RenderingParameters(scene, distributions)


def _camera_priors(scene: Scene) -> Mapping[str, float]:
    distance = float(np.linalg.norm(scene.parameters["camera.position"].value))
    return {"camera.turn": CAMERA_TURN, "camera.position": CAMERA_SHIFT * distance}


def _masks(true: Scene) -> np.ndarray:
    """Masks [T, H, W] of all bodies together, 1 where more than half of a pixel shows one."""
    with torch.no_grad():
        states = true.rollout()
        shares = render_masks(true, states, union=True, edge=EDGE_OF_TRUE_MASKS, samples=SAMPLES_OF_TRUE_MASKS)
    return (shares[0, ..., 0] > 0.5).double().cpu().numpy()


def _written(pictures: np.ndarray, folder: Path, fps: float, random: np.random.Generator) -> tuple[Path, str]:
    """The film as H.264, or with noise as PNG pictures, and which."""
    if random.random() < 0.5:
        crf = int(random.integers(CRF[0], CRF[1] + 1))
        write_video(folder / "film.mp4", pictures, fps=fps, crf=crf)
        return folder / "film.mp4", f"H.264, crf {crf}"
    noise = random.uniform(*NOISE)
    noisy = np.clip(pictures, 0, 1) ** (1 / GAMMA) + noise * random.standard_normal(pictures.shape)
    write_frames(folder / "frames", np.clip(noisy, 0, 1) ** GAMMA, fps=fps)
    return folder / "frames", f"PNG, noise {255 * noise:.1f} of 255"
