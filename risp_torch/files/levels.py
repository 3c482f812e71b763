"""Weights and depths of pixels, from PNG files and arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.film.picture_folder import numbered_pictures
from risp_torch.files.folders import check_regular
from risp_torch.files.memory import check_memory
from risp_torch.files.pictures import read_picture_file
from ti_sim.base.errors import UserError

MILLIMETRE = 1e-3  # m per level of a depth picture
_MAX_BINARY_LEVEL = 1.5 / 255  # largest share of pictures whose levels are 0 and 1 instead of 0 and 255
_FULL_LEVELS = {"1": 1.0, "L": 255.0, "I": 65535.0, "F": 1.0}  # level of white, by pillow's mode


def read_shares(path: Path | str, label: str) -> np.ndarray:
    """Read shares of pixels, such as weights: black is 0, white is 1, linear between (no sRGB curve).

    Args:
        path: a folder of PNG pictures, one for each frame, in the order of their names; a single picture; or an array
            [T, H, W] or [H, W] as .npy. Pictures have 8 or 16 bits; in colour pictures the share is the brightest channel times
            alpha, and with a palette it is 1 for every colour except black. Integers that are all 0 or 1 are shares.
        label: name of the data in error messages, such as "the weights of pixels".

    Returns:
        float32 [T, H, W] in [0, 1]; T = 1 for a single picture.

    Raises:
        UserError: it does not exist, cannot be read, or holds numbers outside [0, 1].
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        array = read_array(path, label)
        numbers = array / np.float32(255) if array.dtype == np.uint8 and array.max() > 1 else array
        shares = np.asarray(numbers if numbers.ndim == 3 else numbers[None], dtype=np.float32)
    else:
        shares = np.stack(read_pictures(path, label, _share))
        shares = shares / np.float32(max(shares.max(), 1e-9)) if 0 < shares.max() <= _MAX_BINARY_LEVEL else shares
    if shares.ndim != 3 or not np.isfinite(shares).all() or shares.min() < 0 or shares.max() > 1:
        raise UserError(f"{label} in {path} are no numbers from 0 to 1: give shares of pixels, 1 for all of a pixel")
    return shares


def read_depths(path: Path | str, label: str = "the depths") -> np.ndarray:
    """Read depths along the camera's axis [m]; NaN where a pixel has none.

    Args:
        path: a folder of 16-bit PNG pictures, one for each frame, in millimetres, 0 where a pixel has no depth; or an array
            [T, H, W] as .npy in metres, NaN or 0 where a pixel has no depth.
        label: name of the data in error messages.

    Returns:
        float32 [T, H, W] in m.

    Raises:
        UserError: it does not exist, cannot be read, holds colours or negative numbers.
    """
    path = Path(path)
    array = read_array(path, label) if path.suffix.lower() == ".npy" else np.stack(read_pictures(path, label, _depth))
    depths = np.asarray(array if array.ndim == 3 else array[None], dtype=np.float32)
    if depths.ndim != 3:
        raise UserError(f"{label} in {path} have shape {array.shape}: give numbers [frames, height, width]")
    depths = np.where(depths == 0, np.float32(np.nan), depths)
    finite_depths = depths[np.isfinite(depths)]
    if not finite_depths.size or finite_depths.min() < 0:
        raise UserError(f"{label} in {path} have no depth above zero: give millimetres in PNG of 16 bits, or metres in .npy")
    return np.where(np.isfinite(depths), depths, np.float32(np.nan))


def read_pictures(path: Path, label: str, convert: Callable[[Any], Any]) -> list[Any]:
    """Read the pictures of a folder, or a single picture, and apply ``convert`` to each picture that pillow has opened.

    ``convert`` returns an array [H, W], of one size for all pictures, or a tuple that begins with such an array.

    Raises:
        UserError: a picture cannot be read, is missing between others, or has another size.
    """
    check_regular(path, f"{label} {path}")
    if not path.is_dir():
        return [read_picture_file(path, f"{label} {path}", convert)]
    paths = numbered_pictures(path)
    pictures, sizes = [], []
    for picture_path in paths:
        picture = read_picture_file(picture_path, f"{label} {picture_path}", convert)
        sizes.append((picture[0] if isinstance(picture, tuple) else picture).shape)
        if sizes[-1] != sizes[0]:
            two_sizes = " and ".join(f"{width} x {height}" for height, width in (sizes[0], sizes[-1]))
            raise UserError(f"{label} in {path} have pictures of {two_sizes} pixels ({picture_path.name}): give all one size")
        if not pictures:
            pixels = sizes[0][0] * sizes[0][1]
            check_memory(8 * pixels * len(paths), f"reading {len(paths)} pictures of {path}", "scale them down")
        pictures.append(picture)
    return pictures


def read_array(path: Path, label: str) -> np.ndarray:
    """The numbers of a .npy file, of any shape.

    Raises:
        UserError: it cannot be read, or holds no numbers.
    """
    check_regular(path, f"{label} {path}")
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{label} {path} cannot be read as an array of numpy ({error}): give a .npy file of numbers") from error
    if not isinstance(array, np.ndarray) or array.ndim < 2 or array.dtype.kind not in "fiub" or not array.size:
        kind = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "several arrays"
        raise UserError(f"{label} in {path} are {kind}: give numbers [frames, height, width], in a file .npy")
    return array


def _share(image: Any) -> np.ndarray:
    """[H, W] share of white."""
    if image.mode == "P":  # labels of a segmentation: colours of the palette have no meaning
        return (np.asarray(image.convert("RGB")).max(axis=-1) > 0).astype(np.float32)
    mode = image.mode.split(";")[0]
    if mode in _FULL_LEVELS:
        return np.asarray(image, dtype=np.float32) / np.float32(_FULL_LEVELS[mode])
    levels = np.asarray(image.convert("RGBA"), dtype=np.float32) / np.float32(255)
    return levels[..., :3].max(axis=-1) * levels[..., 3]


def _depth(image: Any) -> np.ndarray:
    """[H, W] depths [m] of a picture of 16 bits in millimetres."""
    if image.mode.split(";")[0] != "I":
        raise ValueError(f"its mode is {image.mode}, and depths need 16 bits of grey, in millimetres")
    return np.asarray(image, dtype=np.float32) * np.float32(MILLIMETRE)


def check_frames(array: np.ndarray, label: str, *, frames: int, size: Sequence[int], allow_single: bool = False) -> None:
    """Raise a UserError unless pictures [T, H, W] fit a film.

    Args:
        array: the pictures.
        label: name of the data in error messages.
        frames: pictures of the film; more are allowed.
        size: height and width of the film [pixels].
        allow_single: whether a single picture is accepted for all frames.
    """
    if tuple(array.shape[1:]) != tuple(size):
        raise UserError(
            f"{label} are {array.shape[2]} x {array.shape[1]} pixels, and the camera's pictures are {size[1]} x {size[0]}: "
            "give pictures of the camera's size"
        )
    if len(array) < frames and not (allow_single and len(array) == 1):
        raise UserError(
            f"{label} have {len(array)} pictures, and the scene has {frames} frames: give one for each frame"
            + (", or one for all" if allow_single else ", or simulate fewer frames")
        )
