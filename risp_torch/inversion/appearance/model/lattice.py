"""Places of colours in a face whose edges are divided evenly: mesh colours (Yuksel, Keyser and House, ACM TOG 29, 2010).

A face whose edges have t divisions has (t + 1)(t + 2) / 2 colours. Colour (i, j) is at the first corner plus i / t of the edge
to the second corner plus j / t of the edge to the third. Between these points the colour is bilinear; in the cells along the edge
between the second and the third corner, which are halves of squares, it is linear. Two faces have the same colours along a common
edge if their colours at the lattice points of that edge are equal.
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
        """Indices [n, t + 1] of the colours along n edges, from corners ``first`` [n] to ``second`` [n], numbered 0 to 2."""
        steps = np.arange(self.divisions + 1)[:, None]
        corner = np.eye(3, dtype=np.int64)
        lattice_index = (self.divisions - steps) * corner[first][:, None] + steps * corner[second][:, None]  # [n, t + 1, 3]
        return self.number[lattice_index[..., 1], lattice_index[..., 2]]

    def weights(self, corner_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The four colours around each of n points, and their weights in the interpolated colour.

        Args:
            corner_weights: [n, 3] weights of the corners of a face: barycentric coordinates of a point, times any factor.

        Returns:
            Indices [n, 4] of colours, and weights [n, 4] with the same sum as the corner weights of their point.
        """
        total = corner_weights.sum(axis=1)
        x, y = (self.divisions * corner_weights[:, 1:] / np.maximum(total, 1e-300)[:, None]).T
        i = np.clip(np.floor(x).astype(np.int64), 0, self.divisions - 1)
        j = np.clip(np.floor(y).astype(np.int64), 0, self.divisions - 1 - i)
        x, y = x - i, y - j
        far_weight = np.where(i + j < self.divisions - 1, x * y, 0.0)
        far_color = self.number[np.minimum(i + 1, self.divisions), np.minimum(j + 1, self.divisions)]
        colors = np.stack([self.number[i, j], self.number[i + 1, j], self.number[i, j + 1], np.maximum(far_color, 0)], axis=1)
        return colors, total[:, None] * np.stack([1 - x - y + far_weight, x - far_weight, y - far_weight, far_weight], axis=1)

    @cached_property
    def texels(self) -> np.ndarray:
        """[t + 1, t + 1, T] weights of the T colours in the texels (row j, column i) of a square texture.

        A bilinear lookup in this texture gives the colours of the lattice. Texels beyond the edge between the second and the
        third corner, outside of the face, are extrapolated linearly from their three neighbours nearer to the first corner.
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
