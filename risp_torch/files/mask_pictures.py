"""Masks in the forms that segmenters write: two values of any kind, object numbers, palettes, cut-outs and shares of pixels."""

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

_CLEAR_RIM = 0.1  # share of the picture's rim: hardly any of it
_FEW_RIM, _MUCH_RIM = 0.25, 0.75  # shares of the rim that separate body and background where no value is zero
_HALF = 0.5  # of white: the bodies of masks of shares are whiter
_MIDDLE = (0.1, 0.9)  # of the largest level: between them are edges of shares, or objects
_FLAT = 0.2  # share of the pixels of a middle level that lie within others of the same level: more are an object
_MAX_LISTED = 12
_NAMED = "with --masks PATH:N (in Python: objects=N)"
_CODES = -1.0  # in place of the level of white: levels are 65536 red + 256 green + blue
_FULL = {1: 255, 2: 65535}  # largest level by bytes


@dataclass(frozen=True)
class _Pictures:
    """The numbers of mask pictures.

    Attributes:
        levels: [T, H, W] whole numbers, grey levels, palette indices or colours; or real shares.
        full: the level of a pixel that is covered as a whole; None where levels are labels and nothing else; ``_CODES``.
        light: level -> brightness of its colour, of palettes.
    """

    levels: np.ndarray
    full: float | None
    light: Mapping[int, float] | None = None


@checked
def read_masks(path: Path | str, label: str, *, number: FromZero | None = None) -> np.ndarray:
    """Masks of a folder of pictures, of one picture, or of an array of numpy (``mask_of``).

    Args:
        path: a folder of PNG or JPEG pictures, one for each frame, in the order of their names; a single picture; or .npy,
            [T, H, W], [H, W], [T, 1, H, W] or [T, H, W, 1].
        label: its name in error messages, such as "the masks".
        number: the object whose mask is wanted, of masks that hold object numbers (or any two values).

    Returns:
        float32 [T, H, W], the share of each pixel that shows the body, 0 to 1.

    Raises:
        UserError: it cannot be read, or it is not clear where the body is.
    """
    path = Path(path)
    if path.suffix.lower() in (".npy", ".npz"):
        return mask_of(read_array(path, label), f"{label} in {path}", number=number)
    pictures = read_pictures(path, label, _numbers)
    return _shares(_joined([_Pictures(*picture) for picture in pictures], f"{label} in {path}"), f"{label} in {path}", number)


@checked
def mask_of(array: np.ndarray, label: str, *, number: FromZero | None = None) -> np.ndarray:
    """Shares of pixels of an array of masks.

    - Two values are body and background, whatever they are. Zero is the background; without a zero it is the value on most of the
      picture's rim.
    - Levels between black and white on edges alone are shares of pixels, with no sRGB curve.
    - Other numbers are those of objects, of which ``number`` names one.

    Args:
        array: [T, H, W], [H, W], [T, 1, H, W] or [T, H, W, 1]: booleans, whole numbers, or shares from 0 to 1.
        label: its name in error messages.
        number: the object whose mask is wanted.

    Returns:
        float32 [T, H, W] in [0, 1].

    Raises:
        UserError: another shape; numbers of objects without ``number``; black within white up to the rim, as of an inverted mask;
            real numbers outside of 0 to 1.
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
            return _shares(_Pictures(levels, None), label, None)
        return _shares(_Pictures(array, 1.0), label, number)
    if array.dtype.kind != "b" and array.min() < 0:
        raise UserError(f"{label} hold negative numbers: give 0 for the background, and 1 or an object's number for the body")
    return _shares(_Pictures(array.astype(np.int32), _full_level(array.astype(np.int32))), label, number)


def covered_rim(masks: np.ndarray) -> float:
    """Mean share of the picture's rim that masks [T, H, W] cover, over the frames in which they cover anything."""
    covered_masks = masks[(masks > 0).any(axis=(1, 2))] if len(masks) else masks
    return float(_rim(covered_masks).mean()) if len(covered_masks) else 0.0


def _rim(masks: np.ndarray) -> np.ndarray:
    """[T, n] the pixels on the four sides of pictures [T, H, W]."""
    return np.concatenate([masks[:, 0], masks[:, -1], masks[:, 1:-1, 0], masks[:, 1:-1, -1]], axis=1)


def _full_level(levels: np.ndarray) -> float:
    """White of whole numbers: that of eight bits where they have no more."""
    largest = int(levels.max(initial=0))
    return 1.0 if largest <= 1 else float(_FULL[1] if largest <= _FULL[1] else _FULL[2])


def _numbers(image: Any) -> tuple[np.ndarray, float | None, dict[int, float] | None]:
    """Levels, level of white and brightness of a palette's colours (``_Pictures``) of pillow's picture."""
    if image.mode in ("RGBA", "LA", "PA") or (image.mode == "P" and "transparency" in image.info):
        rgba = np.asarray(image.convert("RGBA"))
        if rgba[..., 3].min() < 255:  # a cut-out: its colours are those of the body
            return rgba[..., 3].astype(np.int32), 255.0, None
        if image.mode != "P":
            image = image.convert("RGB")
    if image.mode == "P":
        palette = np.array(image.getpalette("RGB") or [0] * 768).reshape(-1, 3)
        indices = np.asarray(image).astype(np.int32)
        return indices, None, {int(k): float(palette[k].max()) if k < len(palette) else 0.0 for k in np.unique(indices)}
    kind = image.mode.split(";")[0]
    if kind == "1":
        return np.asarray(image).astype(np.int32), 1.0, None
    if kind == "F":
        return np.asarray(image, dtype=np.float64), 1.0, None
    if kind in ("L", "I"):
        levels = np.asarray(image).astype(np.int32)
        return levels, 255.0 if kind == "L" else 65535.0, None
    rgb = np.asarray(image.convert("RGB")).astype(np.int32)
    return rgb @ np.array([65536, 256, 1], dtype=np.int32), _CODES, None


def _joined(pictures: Sequence[_Pictures], label: str) -> _Pictures:
    """All pictures of a folder as one array.

    Raises:
        UserError: they are of different kinds.
    """
    if len({picture.full for picture in pictures}) > 1:
        raise UserError(f"{label} are pictures of different kinds: save them all in one way, for example as black and white PNG")
    levels, full = np.stack([picture.levels for picture in pictures]), pictures[0].full
    light = {key: value for picture in pictures for key, value in (picture.light or {}).items()} or None
    if full == _CODES:
        channels = np.stack([levels >> 16, levels >> 8 & 255, levels & 255])
        if (channels == channels[0]).all() or len(_values(levels)) > 2:
            levels, full = channels.max(axis=0), 255.0
        else:
            full = None
    if light and any(light[key] != value for picture in pictures for key, value in picture.light.items()):
        # Palettes differ between frames, so that indices mean nothing and colours do.
        levels = np.stack([np.vectorize(picture.light.get)(picture.levels) for picture in pictures]).astype(np.int32)
        full, light = 255.0, None
    if full == 65535.0 and levels.max() <= 255:  # of eight bits, in a file of sixteen
        full = 255.0
    return _Pictures(levels, full, light)


def _shares(pictures: _Pictures, label: str, number: int | None) -> np.ndarray:
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
        return (levels == _body_of(pictures, values, label)).astype(np.float32)
    real = levels.dtype.kind == "f"
    if real or pictures.full is not None and not _holds_objects(levels, values, pictures.full):
        masks = (levels / pictures.full).astype(np.float32)
        _check_rim(masks, label)
        return masks
    raise UserError(
        f"{label} hold the numbers {_listed(values)}, as of several objects: name the one that is compared, {_NAMED} or BODY=N"
    )


def _body_of(pictures: _Pictures, values: np.ndarray, label: str) -> Any:
    """Which of two values is the body."""
    first, second = values
    rim = float((_rim(pictures.levels) == first).mean())
    if first != 0:
        if rim >= _MUCH_RIM or rim <= _FEW_RIM:
            return second if rim >= _MUCH_RIM else first
        raise UserError(
            f"{label} hold the numbers {_listed(values)}, and both lie on the picture's rim: say which is the body, {_NAMED}"
        )
    if rim < _CLEAR_RIM:
        light = pictures.light
        if light is not None and light[int(first)] > light[int(second)]:
            return first  # a white body, the first colour of its palette
        _refuse_inverted(label, 1 - rim)
    return second


def _check_rim(masks: np.ndarray, label: str) -> None:
    """Refuse shares that are white all along the rim and black within."""
    rim = _rim(masks)
    if (rim > _HALF).mean() > 1 - _CLEAR_RIM and (masks < _HALF).any():
        _refuse_inverted(label, float((rim > _HALF).mean()))


def _refuse_inverted(label: str, rim: float) -> None:
    raise UserError(
        f"{label} are white on {100 * rim:.0f} % of the picture's rim and black within, as inverted masks are: invert them, or "
        f"say which number the body's pixels have, {_NAMED}, such as 0 for black"
    )


def _holds_objects(levels: np.ndarray, values: np.ndarray, full: float) -> bool:
    """Whether levels are numbers of objects and not shares: no pixel is nearly white, or middle levels fill areas.

    Pixels of a share lie on edges; those of an object lie within others of the same level.
    """
    low, high = (fraction * full for fraction in _MIDDLE)
    if values[-1] <= _HALF * full:
        return True
    middle = (levels > low) & (levels < high)
    if not middle.any():
        return False
    inside = np.ones(levels[:, 1:-1, 1:-1].shape, dtype=bool)
    for down in (0, 1, 2):
        for right in (0, 1, 2):
            rows, columns = slice(down, levels.shape[1] - 2 + down), slice(right, levels.shape[2] - 2 + right)
            inside &= levels[:, rows, columns] == levels[:, 1:-1, 1:-1]
    return bool((inside & middle[:, 1:-1, 1:-1]).sum() > _FLAT * middle.sum())


def _values(levels: np.ndarray) -> np.ndarray:
    """The different levels, ascending."""
    if levels.dtype.kind != "f" and levels.max() <= _FULL[2]:
        return np.flatnonzero(np.bincount(levels.ravel()))  # without sorting all pixels
    return np.unique(levels)


def _listed(values: np.ndarray) -> str:
    texts = [f"{float(value):g}" for value in values[:_MAX_LISTED]]
    return ", ".join(texts) + (f" and {len(values) - _MAX_LISTED} more" if len(values) > _MAX_LISTED else "")
