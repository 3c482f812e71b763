"""Placement of a picture's pixels in the stored picture of a film: rotation, pixel aspect, crop and scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

__all__ = ["Placement", "StoredPicture"]


@checked
@dataclass(frozen=True, kw_only=True)
class StoredPicture:
    """Format of the stored pictures of a film.

    Attributes:
        width, height: stored size [pixels].
        pixel_aspect: width of a stored pixel over its height.
        quarter_turns: clockwise rotations by 90 degrees, 0 to 3, from the stored picture to the shown one.
    """

    width: Count
    height: Count
    pixel_aspect: Fraction = Fraction(1)
    quarter_turns: Annotated[int, Rule(integer=True, minimum=0, maximum=3)] = 0

    @property
    def turned_size(self) -> tuple[int, int]:
        """Width and height after the quarter turns [stored pixels]."""
        return (self.height, self.width) if self.quarter_turns % 2 else (self.width, self.height)

    @property
    def turned_aspect(self) -> Fraction:
        """Width of a pixel over its height after the quarter turns."""
        return 1 / self.pixel_aspect if self.quarter_turns % 2 else self.pixel_aspect

    @property
    def shown_size(self) -> tuple[int, int]:
        """Width and height as shown [square pixels]."""
        shown = Placement.shown(self)
        return shown.width, shown.height

    @property
    def sizes(self) -> str:
        """For messages: sizes of the whole picture, as shown, with turns alone, and as stored."""
        sizes = dict.fromkeys((self.shown_size, self.turned_size, (self.width, self.height)))
        return " or ".join(f"{width}x{height}" for width, height in sizes)

    def whole_picture(self, width: int, height: int) -> tuple[Placement, int] | None:
        """The whole picture of this size (as shown, rotated, or as stored), and the missing rotations; None for other sizes."""
        if (width, height) == self.shown_size:
            return Placement.shown(self), 0
        if (width, height) == self.turned_size:
            return Placement.turned(self), 0
        return (Placement.turned(self), self.quarter_turns) if (width, height) == (self.width, self.height) else None


@checked
@dataclass(frozen=True, kw_only=True)
class Placement:
    """Grid of a picture's pixels in a stored picture.

    Points are in pixels, with x to the right and y down from the upper left corner, so that the first pixel's centre is (0.5,
    0.5). The point p of the picture is the point offset + scale p of the turned one, which is the stored picture after its
    quarter turns.

    Attributes:
        stored: the stored picture.
        width, height: size of the picture [pixels].
        scale: (x, y), size of a pixel of the picture [stored pixels, after rotation].
        offset: (x, y) of the picture's upper left corner in the rotated picture [stored pixels].
    """

    stored: StoredPicture
    width: Count
    height: Count
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)

    @staticmethod
    def turned(stored: StoredPicture) -> Placement:
        """The whole picture, rotated as shown, with the stored pixels."""
        width, height = stored.turned_size
        return Placement(stored=stored, width=width, height=height)

    @staticmethod
    def shown(stored: StoredPicture) -> Placement:
        """The whole picture as shown, in square pixels.

        Square pixels have the longer side of the stored ones: colours are averaged, not interpolated. To make pixels exactly
        square, less than one pixel is cropped, half on each side.
        """
        turned = Placement.turned(stored)
        aspect = stored.turned_aspect
        if aspect == 1:
            return turned
        width, height = (int(turned.width * aspect), turned.height) if aspect < 1 else (turned.width, int(turned.height / aspect))
        side = (float(1 / aspect), 1.0) if aspect < 1 else (1.0, float(aspect))
        return turned.resampled(max(width, 1), max(height, 1), side)

    def within(self, width: int, height: int) -> Placement | None:
        """This placement relative to whole pictures of this size (``StoredPicture.whole_picture``); None for other sizes."""
        scaling = self.stored.whole_picture(width, height)
        if scaling is None:
            return None
        full_frame, turns = scaling
        scale, corner = np.array(full_frame.scale), np.array(full_frame.offset)
        x, y = (self.offset - corner) / scale
        scale_x, scale_y = self.scale / scale
        return replace(
            self, stored=StoredPicture(width=width, height=height, quarter_turns=turns), offset=(float(x), float(y)),
            scale=(float(scale_x), float(scale_y)),
        )  # fmt: skip

    def resampled(self, width: int, height: int, side: Sequence[float]) -> Placement:
        """Another grid with the same centre, whose pixels have the size ``side`` (x, y) [pixels of this picture]."""
        corner = (0.5 * (self.width - width * side[0]), 0.5 * (self.height - height * side[1]))
        from_corner = self._from_corner(corner)
        return replace(from_corner, width=width, height=height, scale=(self.scale[0] * side[0], self.scale[1] * side[1]))

    def cropped(self, x: int, y: int, width: int, height: int) -> Placement:
        """A part of the picture: its upper left corner and its size [pixels of this picture].

        Raises:
            UserError: the part exceeds the picture.
        """
        if min(x, y) < 0 or min(width, height) < 1 or x + width > self.width or y + height > self.height:
            raise UserError(
                f"the part {x},{y},{width},{height} does not lie in a picture of {self.width}x{self.height} pixels: give X,Y of "
                "its upper left corner, and its width and height"
            )
        return replace(self._from_corner((x, y)), width=width, height=height)

    def resized(self, width: int, height: int) -> Placement:
        """The same part in fewer pixels, with the same pixel aspect.

        If the ratio of the sides differs slightly, less than one new pixel is cropped, half on each side.

        Raises:
            UserError: the pictures would be enlarged, or their aspect changed.
        """
        if width > self.width or height > self.height:
            raise UserError(
                f"{self.width}x{self.height} pixels cannot be made {width}x{height}: films are made smaller, not larger, so give "
                "a smaller size"
            )
        side = min(self.width / width, self.height / height)
        if self.width / side - width >= 1 or self.height / side - height >= 1:
            size_in_proportion = (round(width * side), round(height * side))
            corner = ((self.width - size_in_proportion[0]) // 2, (self.height - size_in_proportion[1]) // 2)
            raise UserError(
                f"{self.width}x{self.height} pixels made {width}x{height} would be squeezed: cut out a part of that shape first, "
                f"for example --crop {corner[0]},{corner[1]},{size_in_proportion[0]},{size_in_proportion[1]}"
            )
        return self.resampled(width, height, (side, side))

    def composed(self, inner: Placement) -> Placement:
        """Placement in the stored picture of a part of this picture, from its placement in this picture (without rotation)."""
        scale = (self.scale[0] * inner.scale[0], self.scale[1] * inner.scale[1])
        return replace(self._from_corner(inner.offset), width=inner.width, height=inner.height, scale=scale)

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole picture, in square pixels."""
        return self == Placement.shown(self.stored)

    @property
    def pixel_aspect(self) -> float:
        """Width of a pixel over its height."""
        return float(self.stored.turned_aspect) * self.scale[0] / self.scale[1]

    def turned_points(self, points: Any) -> np.ndarray:
        """Points [..., 2] of this picture in the rotated picture [stored pixels]."""
        return np.asarray(self.offset) + np.asarray(self.scale) * np.asarray(points, dtype=np.float64)

    def stored_points(self, points: Any) -> np.ndarray:
        """Points [..., 2] of this picture in the stored picture [stored pixels]."""
        x, y = np.moveaxis(self.turned_points(points), -1, 0)
        width, height = self.stored.width, self.stored.height
        stored_by_turns = {0: (x, y), 1: (y, height - x), 2: (width - x, height - y), 3: (width - y, x)}
        return np.stack(stored_by_turns[self.stored.quarter_turns], axis=-1)

    def to_json(self) -> dict[str, Any]:
        """The placement as JSON values, for ``video.json``."""
        aspect = self.stored.pixel_aspect
        return {
            "stored": [self.stored.width, self.stored.height], "pixel_aspect": [aspect.numerator, aspect.denominator],
            "quarter_turns": self.stored.quarter_turns, "scale": list(self.scale), "offset": list(self.offset),
        }  # fmt: skip

    @staticmethod
    def from_json(record: Mapping[str, Any], width: int, height: int) -> Placement:
        """Inverse of ``to_json``, for a picture of this size."""
        stored = StoredPicture(
            width=int(record["stored"][0]), height=int(record["stored"][1]), pixel_aspect=Fraction(*record["pixel_aspect"]),
            quarter_turns=int(record["quarter_turns"]) % 4,
        )  # fmt: skip
        scale, offset = ((float(pair[0]), float(pair[1])) for pair in (record["scale"], record["offset"]))
        return Placement(stored=stored, width=width, height=height, scale=scale, offset=offset)

    def _from_corner(self, corner: Sequence[float]) -> Placement:
        """The same grid with another upper left corner [pixels of this picture]."""
        x, y = self.turned_points(corner)
        return replace(self, offset=(float(x), float(y)))
