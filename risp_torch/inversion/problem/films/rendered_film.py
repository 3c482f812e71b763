"""Films of parameter values, and the pixel loss between two films."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from risp_torch.files.video import Quality, write_video
from risp_torch.inversion.losses.loss import Loss, PictureLoss, mean_square
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.rules import Count, checked
from ti_sim.rollout.adjoint import Adjoint


@checked
def film(
    scene: Scene, values: Mapping[str, torch.Tensor], *, worlds: Count, frames: Count, adjoint: Adjoint | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Simulate and render a batch of worlds.

    Args:
        scene: the scene.
        values: parameter values [B, ...] that replace the scene's own.
        worlds: B.
        frames: frame intervals.
        adjoint: how states are kept for the gradient.

    Returns:
        Images [B, frames + 1, H, W, 3] (linear rgb) and which worlds stayed finite, [B] bool.
    """
    states = scene.rollout(values, worlds=worlds, frames=frames, adjoint=adjoint)
    return scene.render(states, values), states.finite


def film_at(scene: Scene, unknowns: Unknowns, physical: np.ndarray, loss: Loss) -> torch.Tensor:
    """Film of the scene with the unknowns at ``physical`` [K], as the loss shows it, [T, H, W, 3]."""
    states, values = motion_at(scene, unknowns, physical)
    with torch.no_grad():
        if isinstance(loss, PictureLoss):
            return loss.render(scene, states, values)[0]
        return scene.render(states, values)[0]


def motion_at(scene: Scene, unknowns: Unknowns, physical: np.ndarray) -> tuple[States, dict[str, torch.Tensor]]:
    """Motion of one world with the unknowns at ``physical`` [K], and their values [1, ...]; no gradient."""
    row = torch.as_tensor(unknowns.scaled(physical)[None], dtype=bridge_dtype(), device=bridge_device())
    with torch.no_grad():
        values = unknowns.from_scaled(row)
        return scene.rollout(values, worlds=1, frames=scene.frames), values


def shown_at(scene: Scene, unknowns: Unknowns, physical: np.ndarray, loss: Loss) -> torch.Tensor:
    """The loss's picture of the scene with the unknowns at ``physical`` [K] (``Loss.shown``), [T, H, W, 3]."""
    states, values = motion_at(scene, unknowns, physical)
    with torch.no_grad():
        return loss.shown(scene, states, values)[0]


@checked
def pixel_loss(pictures: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean squared difference of linear colours (gradSim, Eq. 1's pixel-wise loss).

    Args:
        pictures: [B, T, H, W, 3].
        target: [T', H, W, 3] with T' >= T; its first T frames are used.

    Returns:
        [B].
    """
    return mean_square(pictures, target)


@checked
def simulate_video(scene: Scene, path: str | Path, *, crf: Quality = 18) -> Path:
    """Simulate and render the scene with its own parameters and write an H.264 file (yuv420p).

    Args:
        scene: the scene.
        path: path of the .mp4.
        crf: quality, 0 best, 18 good, 28 poor.

    Returns:
        The path.
    """
    with torch.no_grad():
        pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
    write_video(path, pictures[0].cpu().numpy(), fps=scene.fps, crf=crf)
    return Path(path)
