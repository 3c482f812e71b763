"""Parameters of a camera for a part of its pictures: rotated by quarter turns, cropped and resampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from risp_torch.files.film.placement import Placement
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param

_QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # about z, right to down: clockwise in the picture


@dataclass(frozen=True)
class Rearrangement:
    """new[i] = factor[i] old[order[i]] + shift[i] for the numbers of a parameter."""

    order: np.ndarray
    factor: np.ndarray
    shift: np.ndarray

    @staticmethod
    def from_matrix(matrix: np.ndarray, shift: Any = 0.0) -> Rearrangement:
        """matrix @ old + shift, with a matrix [n, n] that has one number in each row and column."""
        order = np.abs(matrix).argmax(axis=1)
        return Rearrangement(order, matrix[np.arange(len(matrix)), order], np.broadcast_to(shift, len(matrix)))

    def apply(self, number: Any) -> Any:
        """The new numbers, in a ``Param`` with its bounds where they were in one."""
        if not isinstance(number, Param):
            return self._rearranged(number)
        low, high = (None if bound is None else self._rearranged(bound) for bound in (number.low, number.high))
        if low is not None and high is not None:
            low, high = np.minimum(low, high), np.maximum(low, high)
        elif (self.factor < 0).any() and (low is not None or high is not None):
            raise UserError("a camera with numbers that have one bound only cannot be turned: give both bounds, or none")
        return replace(number, value=self._rearranged(number.value), low=low, high=high)

    def _rearranged(self, number: Any) -> np.ndarray:
        old = np.broadcast_to(np.asarray(number, dtype=np.float64), len(self.order))
        return self.factor * old[self.order] + self.shift


def placed_parameters(width: int, height: int, placement: Placement) -> tuple[np.ndarray, Mapping[str, Rearrangement]]:
    """The numbers of a camera, rearranged for a crop of its pictures.

    With p the camera's image points, the part's are (p - offset) / scale: focal lengths and principal point change. Distortion
    applies to normalised coordinates, and does not change. A quarter turn of the picture is one of the camera about its axis.

    Args:
        width, height: of the camera's pictures [pixels]: those of the film as shown, or as stored, turned or not.
        placement: of the part.

    Returns:
        Rotation [3, 3] from the camera's old axes to the new ones, and the change of ``focal``, ``center``, ``turn`` and
        ``distortion``.

    Raises:
        UserError: the camera's pictures are of another size than the film's.
    """
    stored = placement.stored
    full_frame, turns = stored.whole_picture(width, height) or (None, 0)
    if full_frame is None:
        raise UserError(
            f"the camera's pictures are {width}x{height} pixels, and the film was cut from pictures of {stored.sizes}: give the "
            "camera that took these, or one of the part's size"
        )
    scale = np.asarray(full_frame.scale) / placement.scale
    shift = (np.asarray(full_frame.offset) - placement.offset) / placement.scale
    rotation = np.linalg.matrix_power(_QUARTER, turns)
    plane = rotation[:2, :2]
    # Of a turned picture (x right, y down) the corner that becomes the upper left one is the new origin.
    corner = -(plane @ [stored.width, stored.height]).clip(max=0.0) if turns else np.zeros(2)
    tangential = np.eye(5)
    tangential[2:4, 2:4] = plane[::-1, ::-1]  # p2, p1 are a vector of the picture
    return rotation, {
        "focal": Rearrangement.from_matrix(np.diag(scale) @ np.abs(plane)),
        "center": Rearrangement.from_matrix(np.diag(scale) @ plane, scale * corner + shift),
        "turn": Rearrangement.from_matrix(rotation),
        "distortion": Rearrangement.from_matrix(tangential),
    }
