"""Masks in the formats of segmentation tools: binary, object labels, palettes, alpha channels and shares of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.levels import read_array, read_pictures
from ti_sim.base.errors import UserError
from ti_sim.base.rules import FromZero, checked

__all__ = ["covered_rim", "mask_of", "read_masks"]

_MAX_CLEAR_RIM = 0.1  # share of the picture's rim with value 0, below which 0 is not the background
_BODY_RIM, _BACKGROUND_RIM = 0.25, 0.75  # of two nonzero values: largest share of the rim of a body, least of a background
_HALF = 0.5  # relative to white
_MIDDLE_RANGE = (0.1, 0.9)  # relative to white: levels between are edges of shares, or object labels
_MIN_INTERIOR = 0.2  # a larger share of middle pixels whose neighbours have the same level indicates object labels
_MAX_LISTED = 12
_OBJECT_OPTION = "with --masks PATH:N (in Python: objects=N)"
_RGB_CODES = -1.0  # value of ``full`` if levels are 65536 red + 256 green + blue
_FULL_LEVELS = {1: 255, 2: 65535}  # largest level, by bytes


@dataclass(frozen=True)
class _MaskPictures:
    """Levels of mask pictures.

    Attributes:
        levels: [T, H, W] integers: grey levels, palette indices or colour codes; or floats: shares.
        full: level of a fully covered pixel; None if levels are labels; ``_RGB_CODES`` if they are colour codes.
        brightness: of pictures with a palette: level -> brightness of its colour, 0 to 255.
    """

    levels: np.ndarray
    full: float | None
    brightness: Mapping[int, float] | None = None


@checked
def read_masks(path: Path | str, label: str, *, number: FromZero | None = None) -> np.ndarray:
    """Masks of a folder of pictures, of one picture, or of an array of numpy (``mask_of``).

    Args:
        path: a folder of PNG or JPEG pictures, one for each frame, in the order of their names; a single picture; or .npy,
            [T, H, W], [H, W], [T, 1, H, W] or [T, H, W, 1].
        label: name of the masks in error messages, such as "the masks".
        number: label of the object, in masks of object labels (or of any two values).

    Returns:
        float32 [T, H, W], the share of each pixel that shows the body, 0 to 1.

    Raises:
        UserError: the masks cannot be read, or are ambiguous.
    """
    path = Path(path)
    if path.suffix.lower() in (".npy", ".npz"):
        return mask_of(read_array(path, label), f"{label} in {path}", number=number)
    pictures = read_pictures(path, label, _levels_of_image)
    return _shares(
        _stacked([_MaskPictures(*picture) for picture in pictures], f"{label} in {path}"), f"{label} in {path}", number
    )


@checked
def mask_of(array: np.ndarray, label: str, *, number: FromZero | None = None) -> np.ndarray:
    """Shares of pixels from an array of masks.

    - Any two values are body and background. Zero is the background; without a zero, the background is the value on most of the
      picture's rim.
    - If levels between black and white occur on edges only, levels are shares of pixels (linear, no sRGB curve).
    - Other numbers are object labels; ``number`` selects one.

    Args:
        array: [T, H, W], [H, W], [T, 1, H, W] or [T, H, W, 1]: booleans, integers, or shares from 0 to 1.
        label: name of the masks in error messages.
        number: label of the object.

    Returns:
        float32 [T, H, W] in [0, 1].

    Raises:
        UserError: another shape; object labels without ``number``; a white rim with black inside, as in an inverted mask; floats
            outside 0 to 1.
    """
    array = np.asarray(array)
    if array.ndim == 4 and 1 in (array.shape[1], array.shape[3]):
        array = array[:, 0] if array.shape[1] == 1 else array[..., 0]
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.dtype.kind not in "fiub" or not array.size:
        raise UserError(f"{label} are {array.dtype} of shape {array.shape}: give numbers [frames, height, width]")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise UserError(f"{label} are no numbers from 0 to 1: give shares of pixels (the logistic function of logits)")
        largest = float(array.max())
        if 0 < largest < _HALF and len(np.unique(array)) == 2:  # bytes of 0 and 1, or 1 and 2, that were divided by 255
            levels = (array == largest).astype(np.int32) + int(array.min() > 0)
            return _shares(_MaskPictures(levels, None), label, None)
        return _shares(_MaskPictures(array, 1.0), label, number)
    if array.dtype.kind != "b" and array.min() < 0:
        raise UserError(f"{label} hold negative numbers: give 0 for the background, and 1 or an object's number for the body")
    return _shares(_MaskPictures(array.astype(np.int32), _full_level(array.astype(np.int32))), label, number)


def covered_rim(masks: np.ndarray) -> float:
    """Mean share of the picture's rim that masks [T, H, W] cover, over the frames with a nonempty mask."""
    covered_masks = masks[(masks > 0).any(axis=(1, 2))] if len(masks) else masks
    return float(_rim(covered_masks).mean()) if len(covered_masks) else 0.0


def _rim(masks: np.ndarray) -> np.ndarray:
    """[T, n] the pixels on the four sides of pictures [T, H, W]."""
    return np.concatenate([masks[:, 0], masks[:, -1], masks[:, 1:-1, 0], masks[:, 1:-1, -1]], axis=1)


def _full_level(levels: np.ndarray) -> float:
    """Level of white of integer levels: 1, 255 or 65535, the least that is not exceeded."""
    largest = int(levels.max(initial=0))
    return 1.0 if largest <= 1 else float(_FULL_LEVELS[1] if largest <= _FULL_LEVELS[1] else _FULL_LEVELS[2])


def _levels_of_image(image: Any) -> tuple[np.ndarray, float | None, dict[int, float] | None]:
    """Levels, level of white and brightness of palette colours (fields of ``_MaskPictures``) of pillow's picture."""
    if image.mode in ("RGBA", "LA", "PA") or (image.mode == "P" and "transparency" in image.info):
        rgba = np.asarray(image.convert("RGBA"))
        if rgba[..., 3].min() < 255:  # the alpha channel is the mask; colours are those of the body
            return rgba[..., 3].astype(np.int32), 255.0, None
        if image.mode != "P":
            image = image.convert("RGB")
    if image.mode == "P":
        palette = np.array(image.getpalette("RGB") or [0] * 768).reshape(-1, 3)
        indices = np.asarray(image).astype(np.int32)
        return indices, None, {int(k): float(palette[k].max()) if k < len(palette) else 0.0 for k in np.unique(indices)}
    mode = image.mode.split(";")[0]
    if mode == "1":
        return np.asarray(image).astype(np.int32), 1.0, None
    if mode == "F":
        return np.asarray(image, dtype=np.float64), 1.0, None
    if mode in ("L", "I"):
        levels = np.asarray(image).astype(np.int32)
        return levels, 255.0 if mode == "L" else 65535.0, None
    rgb = np.asarray(image.convert("RGB")).astype(np.int32)
    return rgb @ np.array([65536, 256, 1], dtype=np.int32), _RGB_CODES, None


def _stacked(pictures: Sequence[_MaskPictures], label: str) -> _MaskPictures:
    """All pictures of a folder as one array.

    Raises:
        UserError: they are of different kinds.
    """
    if len({picture.full for picture in pictures}) > 1:
        raise UserError(f"{label} are pictures of different kinds: save them all in one way, for example as black and white PNG")
    levels, full = np.stack([picture.levels for picture in pictures]), pictures[0].full
    brightness = {key: value for picture in pictures for key, value in (picture.brightness or {}).items()} or None
    if full == _RGB_CODES:
        channels = np.stack([levels >> 16, levels >> 8 & 255, levels & 255])
        if (channels == channels[0]).all() or len(_values(levels)) > 2:
            levels, full = channels.max(axis=0), 255.0
        else:
            full = None
    if brightness and any(brightness[key] != value for picture in pictures for key, value in picture.brightness.items()):
        # Palettes differ between frames, so indices are replaced by the brightness of their colours.
        levels = np.stack([np.vectorize(picture.brightness.get)(picture.levels) for picture in pictures]).astype(np.int32)
        full, brightness = 255.0, None
    if full == 65535.0 and levels.max() <= 255:  # 8-bit levels in a 16-bit file
        full = 255.0
    return _MaskPictures(levels, full, brightness)


def _shares(pictures: _MaskPictures, label: str, number: int | None) -> np.ndarray:
    """[T, H, W] float32 shares of pixels (``mask_of``)."""
    levels = pictures.levels
    values = _values(levels)
    if number is not None:
        if number not in values:
            raise UserError(f"{label} hold no object {number}: they have {_listed(values)}")
        return (levels == number).astype(np.float32)
    if len(values) == 1:
        return np.full(levels.shape, float(values[0] > 0), dtype=np.float32)
    if len(values) == 2 and (levels.dtype.kind != "f" or tuple(values) == (0, 1)):
        return (levels == _body_value(pictures, values, label)).astype(np.float32)
    is_real = levels.dtype.kind == "f"
    if is_real or pictures.full is not None and not _holds_objects(levels, values, pictures.full):
        masks = (levels / pictures.full).astype(np.float32)
        _check_rim(masks, label)
        return masks
    raise UserError(
        f"{label} hold the numbers {_listed(values)}, as of several objects: name the one that is compared, {_OBJECT_OPTION} or "
        "BODY=N"
    )


def _body_value(pictures: _MaskPictures, values: np.ndarray, label: str) -> Any:
    """The one of two values that marks the body."""
    first_value, second_value = values
    rim_share = float((_rim(pictures.levels) == first_value).mean())
    if first_value != 0:
        if rim_share >= _BACKGROUND_RIM or rim_share <= _BODY_RIM:
            return second_value if rim_share >= _BACKGROUND_RIM else first_value
        raise UserError(
            f"{label} hold the numbers {_listed(values)}, and both lie on the picture's rim: say which is the body, "
            f"{_OBJECT_OPTION}"
        )
    if rim_share < _MAX_CLEAR_RIM:
        brightness = pictures.brightness
        if brightness is not None and brightness[int(first_value)] > brightness[int(second_value)]:
            return first_value  # a white body, the first colour of its palette
        _refuse_inverted(label, 1 - rim_share)
    return second_value


def _check_rim(masks: np.ndarray, label: str) -> None:
    """Refuse shares that are white along the rim and black inside."""
    rim_pixels = _rim(masks)
    if (rim_pixels > _HALF).mean() > 1 - _MAX_CLEAR_RIM and (masks < _HALF).any():
        _refuse_inverted(label, float((rim_pixels > _HALF).mean()))


def _refuse_inverted(label: str, rim_share: float) -> None:
    raise UserError(
        f"{label} are white on {100 * rim_share:.0f} % of the picture's rim and black within, as inverted masks are: invert "
        f"them, or say which number the body's pixels have, {_OBJECT_OPTION}, such as 0 for black"
    )


def _holds_objects(levels: np.ndarray, values: np.ndarray, full: float) -> bool:
    """Whether levels are object labels and not shares: no pixel is nearly white, or middle levels fill areas.

    Pixels with a share between 0 and 1 lie on edges; most pixels of an object have neighbours of the same level.
    """
    low, high = (fraction * full for fraction in _MIDDLE_RANGE)
    if values[-1] <= _HALF * full:
        return True
    is_middle = (levels > low) & (levels < high)
    if not is_middle.any():
        return False
    is_interior = np.ones(levels[:, 1:-1, 1:-1].shape, dtype=bool)
    for row_offset in (0, 1, 2):
        for column_offset in (0, 1, 2):
            rows, columns = (
                slice(row_offset, levels.shape[1] - 2 + row_offset),
                slice(column_offset, levels.shape[2] - 2 + column_offset),
            )
            is_interior &= levels[:, rows, columns] == levels[:, 1:-1, 1:-1]
    return bool((is_interior & is_middle[:, 1:-1, 1:-1]).sum() > _MIN_INTERIOR * is_middle.sum())


def _values(levels: np.ndarray) -> np.ndarray:
    """The different levels, ascending."""
    if levels.dtype.kind != "f" and levels.max() <= _FULL_LEVELS[2]:
        return np.flatnonzero(np.bincount(levels.ravel()))  # without sorting all pixels
    return np.unique(levels)


def _listed(values: np.ndarray) -> str:
    texts = [f"{float(value):g}" for value in values[:_MAX_LISTED]]
    return ", ".join(texts) + (f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else "")
