"""The pieces of work of the loss landscapes, and what is read from their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from risp_torch.inversion import sampled_frames
from studies.gradsim.landscapes.films import DENSITY, TRUE_LAME, frame_losses, rigid_scene, soft_scene
from studies.gradsim.landscapes.minima import curvature, local_minima, normalised, reach, slope
from studies.gradsim.landscapes.surrogate import NOISE, rewards, steps

FACTOR = 5.0  # either way
RANGE = (0.1, 5.0)  # of the mass over the truth: the paper's
DEEP = 0.01  # of a landscape's span: minima that hold a descent with momentum


def rigid_losses(*, kind: str, size: int, points: int, scale: str) -> dict[str, Any]:
    """Losses of all frames against the mass.

    Args:
        kind: of ``rigid_scene``.
        size: of the pictures [pixels].
        points: masses.
        scale: "linear": from .1 to 5 times the truth, as in the paper; "log10": ``FACTOR`` either way.

    Returns:
        "ratio" [N] of mass and truth, and "losses" [N, T].
    """
    ratio = np.linspace(*RANGE, points) if scale == "linear" else np.geomspace(1 / FACTOR, FACTOR, points)
    ratio = np.unique(np.append(ratio[np.abs(ratio - 1) > 1e-9], 1.0))
    scene = rigid_scene(kind, size=size)
    losses = frame_losses(scene, {DENSITY: ratio * scene.parameters[DENSITY].value})
    return {"ratio": ratio.tolist(), "losses": losses.tolist()}


def soft_losses(*, kind: str, size: int, points: int, names: list[str]) -> dict[str, Any]:
    """Losses against one or both of Lame's constants, ``FACTOR`` either way of the truth.

    Args:
        kind: of ``soft_scene``.
        size: of the pictures [pixels].
        points: along each; one more if even, so that the truth is among them.
        names: of ``LAME``.

    Returns:
        "ratio" [N], and of every sampling of frames its loss, [N] or [N, N] (first name first).
    """
    axis = np.geomspace(1 / FACTOR, FACTOR, points | 1)
    axis[len(axis) // 2] = 1.0
    grid = np.stack(np.meshgrid(*[axis] * len(names), indexing="ij"), -1).reshape(-1, len(names))
    scene = soft_scene(kind, size=size)
    losses = frame_losses(scene, {name: TRUE_LAME * column for name, column in zip(names, grid.T, strict=True)})
    result: dict[str, Any] = {"ratio": axis.tolist()}
    for sampling in ("all", "first+last"):
        result[sampling] = sampled_loss(losses, sampling).reshape([len(axis)] * len(names)).tolist()
    return result


def reinforce_steps(
    *, kind: str, size: int, frames: int, centres: list[float], samples: int, draws: int, seed: int
) -> dict[str, Any]:
    """Fraction of the steps of REINFORCE that go towards the truth.

    Args:
        kind: of ``rigid_scene``.
        size: of the pictures [pixels].
        frames: frame intervals that count.
        centres: means of the samples, masses over the truth.
        samples: films of one step.
        draws: steps at each centre.
        seed: of the samples.

    Returns:
        "right" [C]: share of the steps at each centre that have the right sign.
    """
    scene, random = rigid_scene(kind, size=size), np.random.default_rng(seed)
    truth, right = scene.parameters[DENSITY].value, []
    for centre in centres:
        drawn = random.normal(centre, NOISE, (draws, samples))
        losses = frame_losses(scene, {DENSITY: truth * drawn.ravel()})[:, : frames + 1]
        moved = steps(drawn, rewards(losses).reshape(drawn.shape), centre)
        right.append(float(np.mean(moved * (1 - centre) > 0)))
    return {"right": right}


def sampled_loss(losses: Any, sampling: str, frames: int | None = None) -> np.ndarray:
    """Mean of the losses of some frames.

    Args:
        losses: [N, T] of each frame.
        sampling: which frames (``sampled_frames``).
        frames: frame intervals that the film has, all by default.

    Returns:
        [N]; infinite where a film diverged.
    """
    losses = np.asarray(losses, dtype=np.float64)
    chosen = sampled_frames(sampling, losses.shape[1] - 1 if frames is None else frames)
    return losses[:, list(chosen)].mean(axis=1)


@dataclass(frozen=True)
class Facts:
    """Properties of a landscape along one number.

    Attributes:
        minima: values of its minima over the truth, the lowest first.
        deep: how many of them are deeper than ``DEEP`` of the span.
        reach: values over the truth between which the loss falls towards the truth.
        curvature: at the truth, by the number's natural logarithm.
        sharpness: the same of the loss over its largest value.
        slope_below, slope_above: of the loss over its largest value by the logarithm, at half and twice the truth.
    """

    minima: list[float]
    deep: int
    reach: tuple[float, float]
    curvature: float
    sharpness: float
    slope_below: float
    slope_above: float

    @staticmethod
    def of(ratio: Any, loss: Any) -> Facts:
        """Of losses [N] at values [N] over the truth."""
        ratio, loss = np.asarray(ratio), np.asarray(loss)
        share = normalised(loss)
        return Facts(
            minima=[float(ratio[i]) for (i,) in local_minima(loss)], deep=len(local_minima(loss, depth=DEEP)),
            reach=reach(ratio, loss, 1.0), curvature=curvature(ratio, loss, 1.0), sharpness=curvature(ratio, share, 1.0),
            slope_below=slope(ratio, share, 0.5), slope_above=slope(ratio, share, 2.0),
        )  # fmt: skip

    @property
    def decades(self) -> float:
        """Width of the reach in decades."""
        return float(np.log10(self.reach[1] / self.reach[0]))
