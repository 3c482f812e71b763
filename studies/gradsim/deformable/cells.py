"""One cell of table 3: the film of a drawn deformable body, and its numbers found from it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import (
    Inversion,
    LuminanceLoss,
    NewtonSteps,
    PixelLoss,
    Scene,
    SearchStages,
    StateLoss,
    film,
    invert,
    write_video,
)
from studies.gradsim.deformable.scenes import KINDS, Drawn, deformable_scene, draw, finer, starts_of, velocities, volumes
from studies.gradsim.presets import CRF
from ti_sim import Count

SOURCES = {"lossless": "film without loss", "mp4": f"film, H.264 at crf {CRF:g}", "states": "3D positions"}
FEW = 40  # unknowns of a search that needs no coarse one before it
PRIOR_MASS = 0.35  # standard deviation of the masses about a uniform density, as a part of it; for compressed films
PRIOR_SPEED = 1.0  # m/s, of the velocities about an affine field; for compressed films
TOLD = 0.1  # relative error bar of a mode that counts as told


def estimate_drawn(
    *, kind: str, index: int, seed: int, source: str, size: int, rounds: Count
) -> dict[str, Any]:  # fmt: skip
    """Draw a body, film it, and find its numbers from the film, or from the positions of its particles.

    Args:
        kind: of the body, one of ``KINDS``.
        index, seed: of the draw.
        source: one of ``SOURCES``.
        size: side of the pictures [pixels].
        rounds: of Levenberg-Marquardt steps over a growing horizon; half of it for the numbers of each particle, which start
            from what their coarse kind found.

    Returns:
        "start" (the first one) and "estimate": unknown -> value; "errors" and "bars": number of the paper's table -> mean of
        |error| and of the error bar, as parts of the truth; "ratios": |error| / bar of each unknown that the film tells;
        "modes": what ``mode_errors`` says; "fits", "converged", "loss".
    """
    drawn = draw(kind, index, seed=seed)
    scene = deformable_scene(drawn, size=size)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        target = _target(scene, source, Path(folder))
        starts, options = starts_of(kind) if not KINDS[kind].coarse else [], _options(rounds)
        if KINDS[kind].coarse:
            first = _found_coarsely(drawn, target, size, options)
            starts, options = [first], _many(first, source, rounds)
        result = _invert(scene, target, KINDS[kind].unknown, starts, options)
    estimate = values_of(result)
    return {
        "start": starts[0], "estimate": estimate, "errors": relative_errors(drawn, estimate),
        "bars": relative_bars(drawn, result), "ratios": ratios(drawn, result), "modes": mode_errors(drawn, result),
        "fits": result.fits, "converged": result.converged, "loss": float(result.losses[result.best]),
    }  # fmt: skip


def values_of(result: Inversion) -> dict[str, np.ndarray]:
    """Unknown -> its estimate, in its own shape."""
    row = result.final[result.best]
    return {
        name: row[group].reshape(np.shape(result.unknowns.params[name].value)) for name, group in result.unknowns.groups.items()
    }


def relative_errors(drawn: Drawn, values: Mapping[str, Any]) -> dict[str, float]:
    """Mean absolute errors of values of the unknowns, as parts of the truth, by the paper's names.

    Scales: the mean over particles of |error| / truth. Velocities: the mean length of the error over the mean speed.
    """
    if drawn.kind in ("affine", "velocity"):
        true = velocities(drawn.values)
        away = np.linalg.norm(velocities(values) - true, axis=1)
        return {"v": float(away.mean() / np.linalg.norm(true, axis=1).mean())}
    return {
        short(name): float(np.abs(np.asarray(values[name]) / np.asarray(true) - 1).mean())
        for name, true in drawn.values.items()
        if name in KINDS[drawn.kind].unknown
    }


def relative_bars(drawn: Drawn, result: Inversion) -> dict[str, float]:
    """Mean error bars as parts of the truth, by the paper's names, of what the film tells.

    Of velocities that of the field: the mean over particles of the root of the summed variances, over the mean speed.
    """
    if drawn.kind in ("affine", "velocity"):
        return {"v": _field_bar(drawn, result)}
    observable, sd = np.array(result.uncertainty.observable), np.array(list(result.sd.values()))
    observable_sd = {name: sd[group][observable[group]] for name, group in result.unknowns.groups.items()}
    return {short(name): float(group.mean() * math.log(10)) for name, group in observable_sd.items() if len(group)}


def _field_bar(drawn: Drawn, result: Inversion) -> float:
    indices = np.flatnonzero(result.uncertainty.observable)
    slopes = []  # of the field, which is linear in its unknowns
    for one in np.eye(len(result.uncertainty.observable))[indices]:
        groups = result.unknowns.groups.items()
        slopes.append(velocities({name: one[group].reshape(np.shape(drawn.values[name])) for name, group in groups}))
    variances = np.einsum("kvc,kl,lvc->v", slopes, result.uncertainty.covariance[np.ix_(indices, indices)], slopes)
    return float(np.sqrt(variances).mean() / np.linalg.norm(velocities(drawn.values), axis=1).mean())


def ratios(drawn: Drawn, result: Inversion) -> list[float]:
    """|error| / error bar of each unknown that the film tells (``Uncertainty.observable``)."""
    unknowns = result.unknowns
    away = np.abs(unknowns.scaled(result.final[result.best]) - unknowns.scaled(_row(drawn, result)))
    is_observable = np.array(result.uncertainty.observable)
    return (away[is_observable] / np.array(list(result.sd.values()))[is_observable]).tolist()


def mode_errors(drawn: Drawn, result: Inversion) -> dict[str, Any]:
    """Errors of the amplitudes of the modes (``Uncertainty.modes``), as parts of a mass or of the typical velocity.

    A mode is a unit vector: of one that is a single particle, the error is that particle's.

    Returns:
        "of": modes in all; "seen": those known to better than a quarter of the ranges; "error": the mean |error| of these;
        "told": those with an error bar of at most ``TOLD``; "told_error": the mean |error| of these; "told_bar": their mean bar.
        Empty where unknowns differ in their units.
    """
    unknowns, bars = result.unknowns, result.uncertainty
    ranges = unknowns.scaled_range()
    if drawn.kind == "affine" or not len(bars.mode_sd):
        return {}
    size = ranges[0] * math.log(10) if unknowns.scales[0] == "log10" else ranges[0] / _speed(drawn)
    away = (unknowns.scaled(result.final[result.best]) - unknowns.scaled(_row(drawn, result))) / ranges
    errors, sd = np.abs(bars.modes.T @ away) * size, bars.mode_sd * size
    is_observable, told = np.arange(len(sd)) < (bars.observable_modes or 0), sd <= TOLD
    return {
        "of": len(sd), "seen": int(is_observable.sum()), "error": _mean(errors[is_observable]), "told": int(told.sum()),
        "told_error": _mean(errors[told]), "told_bar": _mean(sd[told]),
    }  # fmt: skip


def baselines(kind: str, index: int, *, seed: int, others: int) -> dict[str, dict[str, float]]:
    """Errors of guesses without a film: the average of other draws, and another draw.

    Args:
        kind: of the body.
        index, seed: of its draw.
        others: draws that are averaged.

    Returns:
        "average" and "random" -> the paper's name -> relative error.
    """
    drawn = draw(kind, index, seed=seed)
    rows = [_per_volume(draw(kind, 1000 + k, seed=seed)) for k in range(others)]
    average = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    other = _per_volume(draw(kind, 2000 + index, seed=seed))
    return {key: relative_errors(drawn, _with_volume(drawn, row)) for key, row in (("average", average), ("random", other))}


def short(name: str) -> str:
    """The paper's name of an unknown."""
    return {"body.mu": "mu", "body.lam": "lambda", "body.mass": "m", "body.density": "m", "body.velocity": "v"}[name]


def _per_volume(drawn: Drawn) -> dict[str, np.ndarray]:
    """Unknown -> value; masses over the particles' volumes, which are known."""
    values = {name: np.asarray(drawn.values[name]) for name in KINDS[drawn.kind].unknown}
    return {name: value / volumes(drawn.sides[0]) if name == "body.mass" else value for name, value in values.items()}


def _with_volume(drawn: Drawn, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value * volumes(drawn.sides[0]) if name == "body.mass" else value for name, value in values.items()}


def _row(drawn: Drawn, result: Inversion) -> np.ndarray:
    return np.concatenate([np.ravel(drawn.values[name]) for name in result.unknowns.groups])


def _speed(drawn: Drawn) -> float:
    """Root mean square of the components of a cloth's velocity [m/s]."""
    return float(np.sqrt((velocities(drawn.values) ** 2).mean()))


def _mean(numbers: np.ndarray) -> float | None:
    return float(numbers.mean()) if len(numbers) else None


def _options(rounds: int) -> dict[str, Any]:
    return {"search": SearchStages(steps=NewtonSteps(rounds=rounds), refine=rounds // 2)}


def _many(first: Mapping[str, np.ndarray], source: str, rounds: int) -> dict[str, Any]:
    """Options of a search for the numbers of each particle; compressed films need priors, about what was found coarsely."""
    count = sum(np.size(value) for value in first.values())
    steps = NewtonSteps(rounds=max(1, rounds // 2))
    options = {"search": SearchStages(steps=steps, refine=rounds // 2, linearise_up_to=max(FEW, count))}
    if source == "mp4":
        spread = {"body.mass": lambda mass: PRIOR_MASS * mass, "body.velocity": lambda _: PRIOR_SPEED}
        options["priors"] = {name: (value, spread[name](value)) for name, value in first.items()}
    return options


def _found_coarsely(drawn: Drawn, target: Any, size: int, options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Start of the search for the numbers of each particle: the estimate of the kind that has few."""
    coarse = KINDS[drawn.kind].coarse
    starts = starts_of(coarse)
    guess = Drawn(**{**drawn.__dict__, "kind": coarse, "values": starts[0]})
    result = _invert(deformable_scene(guess, size=size), target, KINDS[coarse].unknown, starts, options)
    return finer(drawn.kind, drawn, values_of(result))


def _target(scene: Scene, source: str, folder: Path) -> Any:
    """The data of the inversion: positions, linear frames [T, H, W, 3], or the path of an mp4."""
    if source == "states":
        return StateLoss(None, scene.rollout())
    pictures = film(scene, {}, worlds=1, frames=scene.frames)[0][0]
    if source == "lossless":
        return pictures
    write_video(folder / "film.mp4", pictures.cpu().numpy(), fps=1 / scene.frame_dt, crf=CRF)
    return folder / "film.mp4"


def _invert(
    scene: Scene, target: Any, unknown: Sequence[str], starts: list[dict[str, Any]], options: Mapping[str, Any]
) -> Inversion:  # fmt: skip
    with torch.enable_grad():
        if isinstance(target, StateLoss):
            return invert(scene, None, list(unknown), loss=target, starts=starts, progress=False, **options)
        # Compressed films keep luminance at full resolution, and colours at half.
        loss = LuminanceLoss() if isinstance(target, Path) else PixelLoss()
        return invert(scene, target, list(unknown), loss=loss, starts=starts, progress=False, **options)
