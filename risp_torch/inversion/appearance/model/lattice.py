"""Places of colours in a face whose edges are divided evenly: mesh colours (Yuksel, Keyser and House, ACM TOG 29, 2010).

A face with t divisions of an edge has (t + 1)(t + 2) / 2 colours, at (i, j): i / t of the way from its first corner to its second
and j / t of that to its third. Between them the colour is bilinear; in the cells along the edge between the second and the third
corner, which are halves of squares, it is linear. Colours of neighbouring faces agree along an edge where those at it do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Lattice:
    """The lattice of t divisions.

    Attributes:
        divisions: t of an edge, at least 1.
    """

    divisions: int

    @cached_property
    def places(self) -> np.ndarray:
        """[T, 2] i and j of each colour; the face's corners are at (0, 0), (t, 0) and (0, t)."""
        t = self.divisions
        return np.array([(i, j) for j in range(t + 1) for i in range(t + 1 - j)])

    @cached_property
    def number(self) -> np.ndarray:
        """[t + 1, t + 1] number of the colour at (i, j), -1 outside of the face."""
        number = np.full((self.divisions + 1,) * 2, -1)
        number[tuple(self.places.T)] = np.arange(len(self.places))
        return number

    @cached_property
    def neighbours(self) -> np.ndarray:
        """[E, 2] colours at the ends of the edges of the sub-faces."""
        i, j = self.places[self.places.sum(axis=1) < self.divisions].T
        lower_left, right, up = self.number[i, j], self.number[i + 1, j], self.number[i, j + 1]
        return np.stack([np.concatenate([lower_left, lower_left, right]), np.concatenate([right, up, up])], axis=1)

    def along(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """[n, t + 1] colours on the way from the corners ``first`` [n] of faces (0, 1, 2) to the corners ``second``."""
        steps = np.arange(self.divisions + 1)[:, None]
        corner = np.eye(3, dtype=np.int64)
        lattice_index = (self.divisions - steps) * corner[first][:, None] + steps * corner[second][:, None]  # [n, t + 1, 3]
        return self.number[lattice_index[..., 1], lattice_index[..., 2]]

    def weights(self, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Colours [n, 4], and their weights [n, 4], of points of faces with weights of the corners [n, 3]; sums are kept."""
        total = corners.sum(axis=1)
        x, y = (self.divisions * corners[:, 1:] / np.maximum(total, 1e-300)[:, None]).T
        i = np.clip(np.floor(x).astype(np.int64), 0, self.divisions - 1)
        j = np.clip(np.floor(y).astype(np.int64), 0, self.divisions - 1 - i)
        x, y = x - i, y - j
        across = np.where(i + j < self.divisions - 1, x * y, 0.0)
        corner = self.number[np.minimum(i + 1, self.divisions), np.minimum(j + 1, self.divisions)]
        colors = np.stack([self.number[i, j], self.number[i + 1, j], self.number[i, j + 1], np.maximum(corner, 0)], axis=1)
        return colors, total[:, None] * np.stack([1 - x - y + across, x - across, y - across, across], axis=1)

    @cached_property
    def texels(self) -> np.ndarray:
        """[t + 1, t + 1, T] weights of the colours in a square of texels, row j and column i, whose bilinear lookup is the same.

        Beyond the edge between the second and the third corner, texels continue the colours linearly.
        """
        side = self.divisions + 1
        texels = np.zeros((side, side, len(self.places)))
        for total in range(2 * side - 1):
            for i in range(max(0, total - self.divisions), min(total, self.divisions) + 1):
                j = total - i
                if total <= self.divisions:
                    texels[j, i, self.number[i, j]] = 1.0
                else:
                    texels[j, i] = texels[j, i - 1] + texels[j - 1, i] - texels[j - 1, i - 1]
        return texels
