"""Pictures with an exposure: each line is the weighted mean of the pictures at a few moments (``simulation.exposure``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from risp_torch.scene.states import ExposureMotion
from ti_sim.base.errors import UserError


def exposed_pictures(
    pictures: Callable[[torch.Tensor], torch.Tensor], exposed: ExposureMotion, frames: Any = None
) -> torch.Tensor:
    """The film of a motion during its exposures, moment by moment: no more than two films are kept without a derivative.

    Args:
        pictures: from a placement [B, T, rows, columns] to images [B, T, (cameras,) H, W, C] of linear colours.
        exposed: the motion, and the weights of its moments.
        frames: slice or list of frame numbers, all by default.

    Raises:
        UserError: the weights are for pictures with another number of lines.
    """
    placement = exposed.placement if frames is None else chosen_frames(exposed.placement, frames)
    film: torch.Tensor | None = None
    for moment in range(placement.shape[2]):
        images = pictures(placement[:, :, moment])
        weighted = _as_images(exposed.weights[..., moment], images, sideways=exposed.sideways) * images
        film = weighted if film is None else film + weighted
    return film


def chosen_frames(placement: torch.Tensor, frames: Any) -> torch.Tensor:
    """Placement [B, T, ...] at a slice or list of frame numbers (UserError: it selects none that exists)."""
    try:
        return placement[:, frames]
    except (IndexError, TypeError) as error:
        count = placement.shape[1]
        raise UserError(f"render: frames is {frames!r}: give a slice or list of frame numbers from 0 to {count - 1}") from error


def weights_in_pixels(exposed: ExposureMotion, *, height: int, width: int) -> torch.Tensor:
    """Weights [B, S, H, 1] or [B, S, 1, W] of the moments in the pixels of a picture (UserError: it has another size)."""
    _check_lines(exposed.weights, width if exposed.sideways else height)
    weights = exposed.weights.transpose(1, 2)
    return weights[:, :, None] if exposed.sideways else weights[..., None]


def _check_lines(weights: torch.Tensor, lines: int) -> None:
    if lines != weights.shape[1]:
        raise UserError(
            f"the motion was simulated for pictures of {weights.shape[1]} lines, and these have {lines}: simulate "
            "it again after a change of the camera's size, and render with cameras of one size"
        )


def _as_images(weights: torch.Tensor, images: torch.Tensor, *, sideways: bool) -> torch.Tensor:
    """Weights [B, L] of lines with the axes of images [B, ..., H, W, C]."""
    axis = -2 if sideways else -3
    _check_lines(weights, images.shape[axis])
    shape = [len(weights), *[1] * (images.ndim - 1)]
    shape[axis] = weights.shape[1]
    return weights.reshape(shape)
