"""Small films as other programs write them, from the numbers of their planes; and what these numbers mean, in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

SIZE = (48, 32)  # width and height of the films
# Code points of H.273.
BT709, UNSPECIFIED, BT601, P3, BT2020, SRGB, LINEAR, PQ, HLG = 1, 2, 6, 12, 9, 13, 8, 16, 18
LIMITED, FULL = 1, 2
LUMA = {BT709: (0.2126, 0.0722), BT601: (0.299, 0.114), BT2020: (0.2627, 0.0593)}
# CIE XYZ of red, green and blue with white D65: published matrices (IEC 61966-2-1; SMPTE EG 432-1).
XYZ_OF_SRGB = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
XYZ_OF_P3 = np.array([[0.48657, 0.26567, 0.19822], [0.22897, 0.69174, 0.07929], [0.0, 0.04511, 1.04394]])


def write_film_file(
    path: Path, planes: Sequence[Sequence[np.ndarray]], *, pixel_format: str = "yuv444p", tags: tuple[int, int, int, int],
    times: Sequence[int] | None = None, time_base: Fraction = Fraction(1, 90_000), rate: int = 30, degrees: float | None = None,
    mirrored: bool = False, pixel_aspect: Fraction | None = None,
) -> Path:  # fmt: skip
    """An H.264 file without loss.

    Args:
        path: file to write.
        planes: for each frame its planes, whole numbers [h, w].
        pixel_format: FFmpeg's name of what the planes are.
        tags: matrix, primaries, curve and range, code points of H.273.
        times: of the frames, in units of ``time_base``; one after another at ``rate`` for None.
        time_base: [s].
        rate: frames per second.
        degrees: counter-clockwise turn with which the film is to be shown.
        mirrored: whether it is to be shown mirrored.
        pixel_aspect: width of a pixel over its height.
    """
    height, width = planes[0][0].shape
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=rate, options={"qp": "0"})
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        codec = stream.codec_context
        codec.time_base = time_base
        codec.colorspace, codec.color_primaries, codec.color_trc, codec.color_range = tags
        if pixel_aspect is not None:
            codec.sample_aspect_ratio = pixel_aspect
        if degrees is not None or mirrored:
            stream.set_display_rotation(degrees or 0.0, hflip=mirrored)
        step = round(1 / (rate * time_base))
        for k, own in enumerate(planes):
            frame = filled_frame(own, pixel_format)
            frame.time_base, frame.pts = time_base, step * k if times is None else times[k]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def filled_frame(planes: Sequence[np.ndarray], pixel_format: str) -> Any:
    """A frame with these planes."""
    frame = av.VideoFrame(planes[0].shape[1], planes[0].shape[0], pixel_format)
    for plane, numbers in zip(frame.planes, planes, strict=True):
        kind = np.dtype(np.uint8 if frame.format.components[0].bits <= 8 else "<u2")
        rows = np.zeros((plane.height, plane.line_size // kind.itemsize), dtype=kind)
        rows[:, : numbers.shape[1]] = numbers
        plane.update(rows.tobytes())
    return frame


def flat_planes(numbers: Sequence[int], *, chroma: tuple[int, int] = (1, 1), size: tuple[int, int] = SIZE) -> list[np.ndarray]:
    """Planes of one luma and two chromas; chroma has a pixel for (x, y) pixels of luma."""
    width, height = size
    shapes = [(height, width)] + 2 * [(height // chroma[1], width // chroma[0])]
    return [np.full(shape, number) for shape, number in zip(shapes, numbers, strict=True)]


def grey_film(frames: int, *, size: tuple[int, int] = SIZE) -> list[list[np.ndarray]]:
    """Planes of frames that grow brighter, without colour."""
    return [flat_planes((60 + 10 * (k % 12), 128, 128), size=size) for k in range(frames)]


def pattern(size: tuple[int, int] = SIZE, seed: int = 0) -> list[np.ndarray]:
    """Planes of 8 bits of random luma without colour, the same for every call."""
    luma = np.random.default_rng(seed).integers(30, 220, (size[1], size[0]))
    return [luma, np.full(luma.shape, 128), np.full(luma.shape, 128)]


def numbers_to_rgb(numbers: Sequence[float], *, matrix: int, limited: bool, bits: int) -> np.ndarray:
    """Red, green and blue [3] before the curve, of luma and two chromas (H.273)."""
    unit, most = 2.0 ** (bits - 8), 2.0**bits - 1
    y, cb, cr = (float(number) for number in numbers)
    y = (y - 16 * unit) / (219 * unit) if limited else y / most
    cb, cr = ((c - 128 * unit) / (224 * unit if limited else most) for c in (cb, cr))
    kr, kb = LUMA[matrix]
    red, blue = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    return np.clip([red, (y - kr * red - kb * blue) / (1 - kr - kb), blue], 0, 1)


def light_of(values: np.ndarray, curve: int) -> np.ndarray:
    """Linear light of the numbers of a curve, by its definition from light to numbers, solved by bisection."""

    def number_of(light: np.ndarray) -> np.ndarray:
        if curve == SRGB:
            return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
        if curve == BT709:
            return np.where(light < 0.018, 4.5 * light, 1.099 * light**0.45 - 0.099)
        return light ** (1 / {4: 2.2, 5: 2.8, LINEAR: 1.0}[curve])

    low, high = np.zeros_like(values), np.ones_like(values)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = number_of(middle) > values
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return 0.5 * (low + high)


def area_means(picture: np.ndarray, left: float, top: float, side: tuple[float, float], size: tuple[int, int]) -> np.ndarray:
    """Means of a picture [H, W, 3] over rectangles of sides (x, y), one pixel after another by overlaps."""

    def overlaps(start: float, length: float, count: int, cells: int) -> np.ndarray:
        begins = start + length * np.arange(count)[:, None]
        shared = np.minimum(begins + length, np.arange(1, cells + 1)) - np.maximum(begins, np.arange(cells))
        return shared.clip(0) / length

    rows = overlaps(top, side[1], size[1], picture.shape[0])
    columns = overlaps(left, side[0], size[0], picture.shape[1])
    return np.einsum("ih,jw,hwc->ijc", rows, columns, picture.astype(np.float64))
