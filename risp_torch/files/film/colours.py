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
    """How the numbers of a film stand for colours.

    Attributes:
        range: "limited" (black 16 and white 235 of 255) or "full".
        matrix: weights of luma and chroma; "RGB" where there are none.
        primaries: the colours that red, green and blue stand for.
        curve: from light to numbers (``curves.CURVES``).
        assumed: which of the four the film does not say.
        refusal: why the colours cannot be read, as the end of a sentence, or "".
    """

    range: str
    matrix: str
    primaries: str
    curve: str
    assumed: tuple[str, ...] = ()
    refusal: str = ""


SRGB_COLOURS = Colours(range=FULL, matrix=RGB, primaries=BT709, curve=SRGB)


def colours_of(codes: Mapping[str, int], *, rgb: bool, full_by_format: bool, height: int, curve: str | None = None) -> Colours:
    """The encoding that a film's code points give; unspecified ones are assumed, unsupported ones named.

    Args:
        codes: "range" (1 limited, 2 full, 0 unspecified), "matrix", "primaries" and "curve", code points of H.273.
        rgb: whether the film stores red, green and blue.
        full_by_format: whether its format has the full range unless it says another.
        height: of its pictures [pixels], for the matrix that players assume.
        curve: taken in place of what the film says, a name of ``CURVES``.
    """
    assumed, wrong = [], []

    def named(tag: str, names: Mapping[int, str], unsupported: Mapping[int, str], default: str) -> str:
        code = codes[tag]
        if code == _UNSPECIFIED:
            assumed.append(tag)
        elif code not in names:
            wrong.append(unsupported.get(code, f"an unknown {tag} (code {code})"))
        return names.get(code, default)

    if not rgb and codes["range"] == 0 and not full_by_format:
        assumed.append("range")
    full = codes["range"] == 2 or codes["range"] == 0 and full_by_format
    if rgb:
        matrix = RGB
    else:
        matrix = named("matrix", _MATRICES, _OTHER_MATRICES, BT709 if height >= _HD_ROWS else BT601)
    primaries = named("primaries", _PRIMARIES, _OTHER_PRIMARIES, BT709)
    curve = curve or named("curve", _CURVES, _OTHER_CURVES, SRGB)
    return Colours(
        range=FULL if full else LIMITED, matrix=matrix, primaries=primaries, curve=curve, assumed=tuple(assumed),
        refusal=" and ".join(wrong),
    )  # fmt: skip


def rgb_of_luma_chroma(planes: np.ndarray, colours: Colours, bits: int) -> np.ndarray:
    """Red, green and blue of luma and chroma, before the curve is undone (H.273, equations 11 to 40).

    Args:
        planes: [H, W, 3], luma and the two chromas as whole numbers of ``bits`` bits; [H, W, 1] is grey.
        colours: range and matrix.
        bits: of the numbers.

    Returns:
        float32 [H, W, 3] in [0, 1]; what no colour has is clipped.
    """
    unit = 2.0 ** (bits - 8)
    full = 2.0**bits - 1
    black, luma_range, swing = (0.0, full, full) if colours.range == FULL else (16 * unit, 219 * unit, 224 * unit)
    luma = (planes[..., 0].astype(np.float32) - np.float32(black)) / np.float32(luma_range)
    if planes.shape[-1] == 1:
        return np.repeat(luma.clip(0, 1)[..., None], 3, axis=-1)
    cb, cr = ((planes[..., k].astype(np.float32) - np.float32(128 * unit)) / np.float32(swing) for k in (1, 2))
    of_red, of_blue = (np.float32(weight) for weight in _LUMA[colours.matrix])
    rgb = np.empty((*luma.shape, 3), dtype=np.float32)
    rgb[..., 0] = luma + 2 * (1 - of_red) * cr
    rgb[..., 2] = luma + 2 * (1 - of_blue) * cb
    rgb[..., 1] = (luma - of_red * rgb[..., 0] - of_blue * rgb[..., 2]) / (1 - of_red - of_blue)
    return rgb.clip(0, 1, out=rgb)


def to_srgb_primaries(linear: np.ndarray, primaries: str) -> np.ndarray:
    """Linear colour [..., 3] of other primaries as that of sRGB's; what a display of sRGB cannot show is clipped."""
    if primaries == BT709:
        return linear
    return (linear @ _from(primaries)).clip(0.0, 1.0)


@lru_cache(maxsize=16)
def _from(primaries: str) -> np.ndarray:
    """float32 [3, 3]: rows of colours of these primaries, times this, are those of sRGB."""
    return np.linalg.solve(_to_xyz(BT709), _to_xyz(primaries)).T.astype(np.float32)


def _to_xyz(primaries: str) -> np.ndarray:
    """[3, 3] from linear red, green and blue to CIE XYZ: columns are the primaries, scaled so that (1, 1, 1) is D65."""
    columns = np.array([(x / y, 1.0, (1 - x - y) / y) for x, y in _CHROMATICITIES[primaries]]).T
    x, y = _D65
    return columns * np.linalg.solve(columns, np.array([x / y, 1.0, (1 - x - y) / y]))
