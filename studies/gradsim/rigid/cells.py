"""Identifications of tosses as cells: from pixels without loss, from an mp4, and from the true states."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from risp_torch import Inversion, StateLoss, film, read_video, write_video
from risp_torch.files.report import write_strip
from studies.gradsim.presets import CRF, Preset
from studies.gradsim.rigid.identify import far_guess, identify, range_guess
from studies.gradsim.tosses import Toss, draw_toss, toss_scene

Source = Literal["lossless", "mp4", "states"]
FAR = 5.0  # largest factor by which a guess is wrong


def identified(
    index: int, *, seed: int, units: str, size: int, frames: int, unknowns: Sequence[str], source: Source,
    start: Literal["far", "range"], strip: str | None = None,
) -> Mapping[str, Any]:
    """Identify numbers of a toss.

    Args:
        index, seed, units: of the toss.
        size: side of the pictures [pixels].
        frames: frame intervals.
        unknowns: names of the numbers.
        source: what they are read from.
        start: a guess that is wrong by up to ``FAR``, or one from the whole allowed range.
        strip: file for a strip of the film and the estimate, if wanted.
    """
    toss = draw_toss(index, seed=seed, units=units)
    scene, random = toss_scene(toss, size=size, frames=frames), np.random.default_rng([seed, index, 1])
    truth = {name: toss.values[name] for name in unknowns}
    guess = far_guess(truth, random, most=FAR) if start == "far" else range_guess(scene, unknowns, random)
    with torch.no_grad():
        pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
    with tempfile.TemporaryDirectory() as folder:
        if source == "states":
            result = identify(scene, None, guess, random=random, loss=StateLoss(None, scene.rollout()))
        elif source == "lossless":
            result = identify(scene, pictures[0], guess, random=random)
        else:
            path = Path(folder) / "film.mp4"
            write_video(path, pictures[0], fps=scene.fps, crf=CRF)
            result = identify(scene, path, guess, random=random, lossless=torch.as_tensor(read_video(path)).to(pictures))
    if strip is not None:
        _write_strip(Path(strip), toss, pictures[0], {name: result.values[name] for name in unknowns})
    return {"shape": toss.shape, "volume": toss.volume, "truth": truth, "guess": guess} | outcome(result, truth)


def outcome(result: Inversion, truth: Mapping[str, float]) -> dict[str, Any]:
    """Estimates, error bars and verdicts of an inversion of numbers on logarithmic scales, as JSON values.

    Returns:
        "values"; "error" and "bar" (one standard deviation), as parts of the truth and of the estimate; "observable", whether the
        film leaves the number free; "converged", "fits", "misfit", "loss", "doubts", "remarks", "unseen", "rounds".
    """
    labels = result.unknowns.labels
    return {
        "values": {name: result.values[name] for name in truth},
        "error": {name: result.values[name] / truth[name] - 1 for name in truth},
        "bar": {name: math.log(10) * result.sd[name] for name in truth},
        "observable": dict(zip(labels, result.uncertainty.observable, strict=True)),
        "converged": result.converged, "fits": result.fits, "misfit": result.misfit, "loss": float(result.losses[result.best]),
        "doubts": list(result.doubts), "remarks": list(result.remarks), "unseen": list(result.uncertainty.unobservable),
        "rounds": len(result.history.losses),
    }  # fmt: skip


def test_tosses(preset: Preset) -> list[int]:
    """Indices of the held-out tosses: those after the training films."""
    return list(range(preset.train, preset.train + preset.test))


def _write_strip(path: Path, toss: Toss, target: torch.Tensor, estimate: Mapping[str, float]) -> None:
    """Frames of the film, of the estimate, and their difference."""
    scene = toss_scene(toss.with_values(estimate), size=target.shape[1], frames=len(target) - 1)
    with torch.no_grad():
        pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_strip(path, target.cpu().numpy(), pictures[0].cpu().numpy(), fps=scene.fps, frames=8)
