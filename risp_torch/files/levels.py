"""Pictures that hold numbers in place of colours: masks, weights and depths, from PNG files and arrays of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.film.picture_folder import numbered_pictures
from risp_torch.files.memory import check_memory
from risp_torch.files.pictures import opened_picture
from ti_sim.base.errors import UserError

MILLIMETRE = 1e-3  # m of a level in a depth picture
_LARGEST = {"1": 1.0, "L": 255.0, "I": 65535.0, "F": 1.0}  # level of full coverage by pillow's mode


def read_shares(path: Path | str, what: str) -> np.ndarray:
    """Shares of pixels, such as coverage by a body: white is 1, black is 0, with no sRGB curve between.

    Args:
        path: a folder of PNG pictures, one for each frame, in the order of their names; a single picture; or an array
            [T, H, W] or [H, W] as .npy. Pictures have 8 or 16 bits; of colours the brightest channel counts, times alpha, and of
            a palette every colour but black.
        what: what errors call it, such as "the masks".

    Returns:
        float32 [T, H, W] in [0, 1]; T = 1 for a single picture.

    Raises:
        UserError: it does not exist, cannot be read, or holds numbers outside [0, 1].
    """
    shares = _read(Path(path), what, _share)
    if not np.isfinite(shares).all() or shares.min() < 0 or shares.max() > 1:
        raise UserError(f"{what} in {path} are no numbers from 0 to 1: give shares of pixels, 1 for all of a pixel")
    return shares


def read_depths(path: Path | str, what: str = "the depths") -> np.ndarray:
    """Depths along the camera's axis [m]; NaN where there is none.

    Args:
        path: a folder of PNG pictures, one for each frame, of 16 bits, in millimetres, with 0 where there is none; or an array
            [T, H, W] as .npy in metres, with NaN or 0 where there is none.
        what: what errors call it.

    Returns:
        float32 [T, H, W] in m.

    Raises:
        UserError: it does not exist, cannot be read, holds colours or negative numbers.
    """
    depths = _read(Path(path), what, _depth)
    depths = np.where(depths == 0, np.float32(np.nan), depths)
    known = depths[np.isfinite(depths)]
    if not known.size or known.min() < 0:
        raise UserError(f"{what} in {path} have no depth above zero: give millimetres in PNG of 16 bits, or metres in .npy")
    return np.where(np.isfinite(depths), depths, np.float32(np.nan))


def _read(path: Path, what: str, convert: Any) -> np.ndarray:
    """[T, H, W] float32 of a folder, a picture or an array; ``convert`` makes numbers of pillow's picture."""
    if path.suffix.lower() == ".npy":
        return _array(path, what)
    if not path.is_dir():
        return opened_picture(path, f"{what} {path}", convert)[None]
    names = numbered_pictures(path)
    pictures: list[np.ndarray] = []
    for name in names:
        picture = opened_picture(name, f"{what} {name}", convert)
        if pictures and picture.shape != pictures[0].shape:
            sizes = " and ".join(f"{width} x {height}" for height, width in (pictures[0].shape, picture.shape))
            raise UserError(f"{what} in {path} have pictures of {sizes} pixels ({name.name}): give all one size")
        if not pictures:
            check_memory(8 * picture.size * len(names), f"reading {len(names)} pictures of {path}", "scale them down")
        pictures.append(picture)
    return np.stack(pictures)


def _array(path: Path, what: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{what} {path} cannot be read as an array of numpy ({error}): give a .npy file of numbers") from error
    if array.ndim not in (2, 3) or array.dtype.kind not in "fiub" or not array.size:
        raise UserError(f"{what} in {path} are {array.dtype} of shape {array.shape}: give numbers [frames, height, width]")
    return np.asarray(array if array.ndim == 3 else array[None], dtype=np.float32)


def _share(image: Any) -> np.ndarray:
    """[H, W] share of white."""
    if image.mode == "P":  # labels of a segmentation: the palette's colours say nothing
        return (np.asarray(image.convert("RGB")).max(axis=-1) > 0).astype(np.float32)
    kind = image.mode.split(";")[0]
    if kind in _LARGEST:
        return np.asarray(image, dtype=np.float32) / np.float32(_LARGEST[kind])
    levels = np.asarray(image.convert("RGBA"), dtype=np.float32) / np.float32(255)
    return levels[..., :3].max(axis=-1) * levels[..., 3]


def _depth(image: Any) -> np.ndarray:
    """[H, W] depths [m] of a picture of 16 bits in millimetres."""
    if image.mode.split(";")[0] != "I":
        raise ValueError(f"its mode is {image.mode}, and depths need 16 bits of grey, in millimetres")
    return np.asarray(image, dtype=np.float32) * np.float32(MILLIMETRE)


def check_frames(array: np.ndarray, what: str, *, frames: int, size: Sequence[int], one: bool = False) -> None:
    """Raise a UserError unless pictures [T, H, W] fit a film.

    Args:
        array: the pictures.
        what: what errors call them.
        frames: pictures of the film; more are allowed.
        size: height and width of the film [pixels].
        one: whether a single picture serves all frames.
    """
    if tuple(array.shape[1:]) != tuple(size):
        raise UserError(
            f"{what} are {array.shape[2]} x {array.shape[1]} pixels, and the camera's pictures are {size[1]} x {size[0]}: "
            "give pictures of the camera's size"
        )
    if len(array) < frames and not (one and len(array) == 1):
        raise UserError(
            f"{what} have {len(array)} pictures, and the scene has {frames} frames: give one for each frame"
            + (", or one for all" if one else ", or simulate fewer frames")
        )
