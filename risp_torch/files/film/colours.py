"""Encoding of a film's numbers: range, luma and chroma, primaries and curve, by the code points of ITU-T H.273."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from risp_torch.files.film.curves import SRGB

__all__ = ["Colours", "SRGB_COLOURS", "colours_of", "rgb_of_luma_chroma", "to_srgb_primaries"]

LIMITED, FULL = "limited", "full"
RGB, BT709, BT601 = "RGB", "BT.709", "BT.601"
_UNSPECIFIED = 2
_HD_ROWS = 720  # players take an unspecified matrix for BT.709 from this height on, and for BT.601 below
# Code points -> names; others are refused.
_MATRICES = {1: BT709, 4: "FCC", 5: BT601, 6: BT601, 7: "SMPTE 240M", 9: "BT.2020"}
_PRIMARIES = {
    1: BT709, 5: "BT.601 (625 lines)", 6: "BT.601 (525 lines)", 7: "BT.601 (525 lines)", 9: "BT.2020", 12: "Display P3",
}  # fmt: skip
_CURVES = {
    1: "BT.709", 4: "gamma 2.2", 5: "gamma 2.8", 6: "BT.709", 7: "SMPTE 240M", 8: "linear", 11: "BT.709", 13: SRGB, 14: "BT.709",
    15: "BT.709",
}  # fmt: skip
# Names of refused code points in messages.
_OTHER_MATRICES = {8: "luma and chroma of YCgCo", 10: "luma of constant luminance", 14: "luma and chroma of ICtCp"}
_OTHER_PRIMARIES = {
    4: "the primaries of BT.470M", 8: "the primaries of photographic film", 10: "the primaries of XYZ",
    11: "the primaries of the cinema's P3", 22: "the primaries of EBU 3213",
}  # fmt: skip
_OTHER_CURVES = {
    9: "a logarithm of light", 10: "a logarithm of light", 12: "the curve of BT.1361", 16: "HDR (PQ)",
    17: "the cinema's gamma 2.6", 18: "HDR (HLG)",
}  # fmt: skip
# Weights of red and blue in the luma.
_LUMA = {
    BT709: (0.2126, 0.0722), "FCC": (0.30, 0.11), BT601: (0.299, 0.114), "SMPTE 240M": (0.212, 0.087),
    "BT.2020": (0.2627, 0.0593),
}  # fmt: skip
# Chromaticities x, y of red, green and blue; white is D65.
_CHROMATICITIES = {
    BT709: ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)),
    "BT.601 (625 lines)": ((0.64, 0.33), (0.29, 0.60), (0.15, 0.06)),
    "BT.601 (525 lines)": ((0.63, 0.34), (0.31, 0.595), (0.155, 0.07)),
    "BT.2020": ((0.708, 0.292), (0.17, 0.797), (0.131, 0.046)),
    "Display P3": ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06)),
}
_D65 = (0.3127, 0.3290)


@dataclass(frozen=True, kw_only=True)
class Colours:
    """Colour encoding of a film.

    Attributes:
        range: "limited" (black 16 and white 235 of 255) or "full".
        matrix: name of the luma and chroma matrix; "RGB" without one.
        primaries: name of the primaries.
        curve: name of the transfer curve (``curves.CURVES``).
        assumed: which of the four are assumed because the film does not specify them.
        refusal: why the colours are not supported, as the end of a sentence, or "".
    """

    range: str
    matrix: str
    primaries: str
    curve: str
    assumed: tuple[str, ...] = ()
    refusal: str = ""


SRGB_COLOURS = Colours(range=FULL, matrix=RGB, primaries=BT709, curve=SRGB)


def colours_of(codes: Mapping[str, int], *, rgb: bool, full_by_format: bool, height: int, curve: str | None = None) -> Colours:
    """The encoding for a film's code points; defaults replace unspecified ones, and ``refusal`` names unsupported ones.

    Args:
        codes: "range" (1 limited, 2 full, 0 unspecified), "matrix", "primaries" and "curve", code points of H.273.
        rgb: whether the film stores red, green and blue, or grey levels: no conversion from luma and chroma.
        full_by_format: whether the range of its pixel format is full by default.
        height: height of its pictures [pixels], for the matrix that players assume.
        curve: name of the curve (``CURVES``) that replaces the film's own.
    """
    assumed, unsupported_codes = [], []

    def find_name(tag: str, supported_names: Mapping[int, str], unsupported_names: Mapping[int, str], default: str) -> str:
        code = codes[tag]
        if code == _UNSPECIFIED:
            assumed.append(tag)
        elif code not in supported_names:
            unsupported_codes.append(unsupported_names.get(code, f"an unknown {tag} (code {code})"))
        return supported_names.get(code, default)

    if not rgb and codes["range"] == 0 and not full_by_format:
        assumed.append("range")
    full = codes["range"] == 2 or codes["range"] == 0 and full_by_format
    if rgb:
        matrix = RGB
    else:
        matrix = find_name("matrix", _MATRICES, _OTHER_MATRICES, BT709 if height >= _HD_ROWS else BT601)
    primaries = find_name("primaries", _PRIMARIES, _OTHER_PRIMARIES, BT709)
    curve = curve or find_name("curve", _CURVES, _OTHER_CURVES, SRGB)
    return Colours(
        range=FULL if full else LIMITED, matrix=matrix, primaries=primaries, curve=curve, assumed=tuple(assumed),
        refusal=" and ".join(unsupported_codes),
    )  # fmt: skip


def rgb_of_luma_chroma(planes: np.ndarray, colours: Colours, bits: int) -> np.ndarray:
    """Encoded red, green and blue from luma and chroma (H.273, equations 11 to 40).

    Args:
        planes: [H, W, 3], luma and the two chromas as integers of ``bits`` bits; [H, W, 1] is grey.
        colours: encoding with range and matrix.
        bits: bits per component.

    Returns:
        float32 [H, W, 3], clipped to [0, 1].
    """
    level_scale = 2.0 ** (bits - 8)
    full = 2.0**bits - 1
    luma_offset, luma_range, chroma_range = (
        (0.0, full, full) if colours.range == FULL else (16 * level_scale, 219 * level_scale, 224 * level_scale)
    )
    luma = (planes[..., 0].astype(np.float32) - np.float32(luma_offset)) / np.float32(luma_range)
    if planes.shape[-1] == 1:
        return np.repeat(luma.clip(0, 1)[..., None], 3, axis=-1)
    cb, cr = ((planes[..., k].astype(np.float32) - np.float32(128 * level_scale)) / np.float32(chroma_range) for k in (1, 2))
    red_weight, blue_weight = (np.float32(weight) for weight in _LUMA[colours.matrix])
    rgb = np.empty((*luma.shape, 3), dtype=np.float32)
    rgb[..., 0] = luma + 2 * (1 - red_weight) * cr
    rgb[..., 2] = luma + 2 * (1 - blue_weight) * cb
    rgb[..., 1] = (luma - red_weight * rgb[..., 0] - blue_weight * rgb[..., 2]) / (1 - red_weight - blue_weight)
    return rgb.clip(0, 1, out=rgb)


def to_srgb_primaries(linear: np.ndarray, primaries: str) -> np.ndarray:
    """Convert linear colour [..., 3] to sRGB's primaries; colours outside the gamut of sRGB are clipped."""
    if primaries == BT709:
        return linear
    return (linear @ _to_srgb_matrix(primaries)).clip(0.0, 1.0)


@lru_cache(maxsize=16)
def _to_srgb_matrix(primaries: str) -> np.ndarray:
    """float32 [3, 3]: row vectors of colours with these primaries, times this matrix, have sRGB's primaries."""
    return np.linalg.solve(_to_xyz(BT709), _to_xyz(primaries)).T.astype(np.float32)


def _to_xyz(primaries: str) -> np.ndarray:
    """[3, 3] matrix from linear red, green and blue to CIE XYZ: columns are the primaries, scaled so that (1, 1, 1) is D65."""
    columns = np.array([(x / y, 1.0, (1 - x - y) / y) for x, y in _CHROMATICITIES[primaries]]).T
    x, y = _D65
    return columns * np.linalg.solve(columns, np.array([x / y, 1.0, (1 - x - y) / y]))
