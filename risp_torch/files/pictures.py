"""Picture files: read as levels of 8 or 16 bits, with errors for users, and written as PNG."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError

__all__ = ["read_picture_file", "picture_levels", "png_bytes"]

_HEADER_BYTES = 26  # of a PNG, up to its bit depth and colour type
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = (2, 6)  # colour types of PNG: RGB, RGBA


def read_picture_file(path: Path | str, name: str, read: Callable[[Any], np.ndarray]) -> np.ndarray:
    """Apply ``read`` to a picture file that pillow has opened.

    Args:
        path: the file.
        name: name of the picture in error messages.
        read: function from pillow's picture to an array, which reads all pixels.

    Returns:
        The result of ``read``.

    Raises:
        UserError: the file does not exist, is damaged or no picture, or has more than ``PIL.Image.MAX_IMAGE_PIXELS`` pixels (a
            small file can decompress to that many).
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return read(image)
    except FileNotFoundError:
        raise UserError(f"{name} does not exist (looked for {Path(path).absolute()}): check the path") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(
            f"{name} has more than {Image.MAX_IMAGE_PIXELS / 1e6:.0f} million pixels: scale it down before it is read"
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(
            f"{name} cannot be read ({_first_line(error)}): copy it again, or save it again, for example as PNG"
        ) from error


def picture_levels(path: Path) -> np.ndarray:
    """Levels of a picture file, rotated by its EXIF orientation; transparency is ignored.

    Returns:
        [H, W, 3] uint8, or uint16 where the file has more than eight bits (PNG).

    Raises:
        UserError: as ``read_picture_file``.
    """
    from PIL import ImageOps

    def levels(image: Any) -> np.ndarray:
        if image.mode.startswith("I"):  # 16 bits of grey, which pillow's own conversion would cut off at 255
            grey = np.asarray(image).clip(0, 65535).astype(np.uint16)
            return np.repeat(grey[..., None], 3, axis=2)
        if _has_sixteen_bits(path):  # of colour, of which pillow keeps eight
            image.load()  # finds what is damaged
            return _decoded_png(path)
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))

    return read_picture_file(path, f"picture {path}", levels)


def png_bytes(levels: np.ndarray) -> bytes:
    """A PNG file of a picture [H, W, 3], uint8 or uint16."""
    import av

    height, width, _ = levels.shape
    pixel_format = "rgb24" if levels.dtype == np.uint8 else "rgb48be"
    codec: Any = av.CodecContext.create("png", "w")
    codec.width, codec.height, codec.pix_fmt, codec.time_base = width, height, pixel_format, Fraction(1)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(levels), format=pixel_format)
    frame.pts = 0
    return b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])


def _has_sixteen_bits(path: Path) -> bool:
    """Whether a file is a PNG of colours of 16 bits a channel."""
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    return header.startswith(_SIGNATURE) and header[24] == 16 and header[25] in _COLOUR_TYPES


def _decoded_png(path: Path) -> np.ndarray:
    """A PNG of 16 bits as uint16 [H, W, 3]."""
    import av

    codec: Any = av.CodecContext.create("png", "r")
    try:
        frames = [*codec.decode(av.Packet(path.read_bytes())), *codec.decode(None)]
    except av.FFmpegError as error:
        raise OSError(error.strerror) from error
    if not frames:
        raise OSError("it holds no picture")
    return frames[0].reformat(format="rgb48le").to_ndarray()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
