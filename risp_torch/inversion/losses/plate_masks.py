"""Masks by difference: where a film differs from a plate, the picture of the background."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.files.pictures import read_picture_file
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, UnitInterval, checked

MEDIAN = "median"  # name of the plate that is each pixel's median over the film
THRESHOLD = 0.1  # of the range of sRGB
MIN_SPOT_PIXELS = 12  # pixels
_DARK_LEVEL = 0.02  # linear colour below which a pixel carries no information on exposure


def read_plate(plate: str | Path, video: torch.Tensor) -> torch.Tensor:
    """A plate [H, W, 3] of linear rgb.

    Args:
        plate: a picture file, or "median": that of each pixel and channel over the film. It shows what is there in more than half
            of the frames: bodies that rest for that long are in it.
        video: [T, H, W, 3] linear rgb.

    Raises:
        UserError: the picture cannot be read or has another size than the film.
    """
    if str(plate) == MEDIAN:
        return video.median(dim=0).values
    levels = read_picture_file(plate, f"the plate {plate}", lambda image: np.asarray(image.convert("RGB")))
    if levels.shape[:2] != tuple(video.shape[1:3]):
        sizes = [f"{shape[1]} x {shape[0]}" for shape in (levels.shape, video.shape[1:3])]
        raise UserError(f"the plate {plate} is {sizes[0]} pixels, and the film is {sizes[1]}: give a plate of the film's size")
    return torch.as_tensor(srgb_to_linear(levels / 255.0)).to(video)


def even_exposures(film: torch.Tensor, counts: torch.Tensor | None = None) -> torch.Tensor:
    """The film with the exposure of its median in every frame and channel.

    Args:
        film: [T, H, W, 3] linear colour.
        counts: [T or 1, H, W] bool, pixels from which exposures are estimated; all by default.

    Returns:
        [T, H, W, 3]: each frame over the median ratio of its pixels to those of the film's median.
    """
    plate = film.median(dim=0).values
    is_lit = (plate > _DARK_LEVEL).expand_as(film)
    if counts is not None:
        is_lit = is_lit & counts[..., None]
    ratio = torch.where(is_lit, film / plate.clamp(min=_DARK_LEVEL), torch.nan)
    gain = ratio.flatten(1, 2).nanmedian(dim=1).values
    gain = torch.where(gain.isfinite() & (gain > 0), gain, torch.ones_like(gain))
    return (film / gain[:, None, None]).clamp(0.0, 1.0)


@checked
def masks_by_difference(
    video: torch.Tensor, plate: torch.Tensor, *, threshold: UnitInterval = THRESHOLD, smallest: Count = MIN_SPOT_PIXELS
) -> torch.Tensor:
    """Masks [T, H, W] in [0, 1] of the pixels that differ from a plate.

    A pixel differs where a channel of sRGB does by more than the threshold. Single pixels are taken away (an opening), gaps
    closed (a closing), holes filled, and small spots left out. On the edge of a spot the mask is the pixel's difference in linear
    light as a share of that of the spot's inside nearby, since a pixel on an edge is a mixture of both. Shadows of bodies differ
    as well: where they are darker than the threshold, they are in the masks.

    Args:
        video: [T, H, W, 3] linear rgb.
        plate: [H, W, 3] linear rgb.
        threshold: of the range of sRGB.
        smallest: least number of pixels of a spot.

    Raises:
        UserError: nothing differs in any frame, or the plate has another size.
    """
    if tuple(plate.shape) != tuple(video.shape[1:]):
        raise UserError(f"the plate has shape {tuple(plate.shape)}, and {tuple(video.shape[1:])} is needed: that of a frame")
    linear_difference = np.linalg.norm((video - plate).double().cpu().numpy(), axis=-1)
    stored_film, stored_plate = (linear_to_srgb(pictures.double().cpu().numpy()) for pictures in (video, plate))
    spots = [_spots(picture, smallest) for picture in np.abs(stored_film - stored_plate).max(axis=-1) > threshold]
    if not np.any(spots):
        raise UserError(f"no spot of the film differs from its plate by more than {threshold:g}: give another plate or threshold")
    return torch.as_tensor(np.stack([_coverage(*frame) for frame in zip(spots, linear_difference, strict=True)])).to(video)


def _spots(differs: np.ndarray, smallest: int) -> np.ndarray:
    """[H, W] bool: the spots of pixels that differ, without holes and small ones."""
    from scipy import ndimage

    filled = ndimage.binary_fill_holes(ndimage.binary_closing(np.pad(ndimage.binary_opening(differs), 1)))[1:-1, 1:-1]
    labels, _ = ndimage.label(filled)
    sizes = np.bincount(labels.ravel())
    return (sizes[labels] >= smallest) & (labels > 0)


def _coverage(spots: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """[H, W] shares of the pixels that show a spot, from differences [H, W] in linear light."""
    from scipy import ndimage

    interior = ndimage.binary_erosion(spots, np.ones((3, 3)), border_value=1)
    spot_fraction = ndimage.uniform_filter(interior.astype(np.float64), 5)
    contrast = ndimage.uniform_filter(np.where(interior, difference, 0.0), 5) / np.maximum(spot_fraction, 1e-9)
    contrast = np.where(spot_fraction > 1e-6, contrast, difference)
    edge_share = np.clip(difference / np.maximum(contrast, 1e-9), 0.0, 1.0)
    return np.where(interior, 1.0, np.where(ndimage.binary_dilation(spots), edge_share, 0.0))
