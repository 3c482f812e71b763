"""Shapes by which links meet each other, the pairs of links that may meet, and the tables of both that kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ti_sim.base.errors import UserError

ShapeKind = Literal["sphere", "capsule", "box"]

# Sizes that each kind takes.
_SIZES = {"sphere": "(radius,)", "capsule": "(radius, half length)", "box": "(half size x, half size y, half size z)"}

# Columns of a shape's row.
SHAPE_POSITION = 0  # 3, in the link frame
SHAPE_QUATERNION = 3  # 4, unit
HALF_SIZE = 7  # 3, of a box; else zero
RADIUS = 10  # of a sphere or capsule; else zero
HALF_LENGTH = 11  # of a capsule; else zero
BOUND = 12  # radius of the sphere about the centre that holds the shape; negative for a link without shape
SLACK = 13  # how far the centre may move before the list of near pairs is made anew [m]
SHAPE_SIZE = 14

# Columns of a pair's row. In a pair of a box and another shape the box is second.
FIRST_LINK, SECOND_LINK, MEETING, CONTACTS = range(4)

# How the shapes of a pair meet.
ROUND_ROUND, ROUND_BOX, BOX_BOX = range(3)

# Columns of a world's list of near pairs: how many there are (negative before the first list), how many tests of shapes against
# each other and how many lists were made so far, and the pairs.
NEAR_COUNT, TEST_COUNT, LIST_COUNT, FIRST_NEAR = range(4)

_SLACK_PART = 0.5  # of a shape's bounding radius


@dataclass(frozen=True)
class CollisionShape:
    """Shape by which a link meets other links, rigid on the link and the same in every world.

    Attributes:
        kind: "sphere", "capsule" (along z of the shape's frame) or "box".
        size: m; (radius,), (radius, half length of the straight part) or the three half sizes.
        position: centre in the link frame [m].
        quaternion: (x, y, z, w) of the shape's frame in the link frame, of any length above zero.
    """

    kind: ShapeKind
    size: tuple[float, ...]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        if self.kind not in _SIZES:
            raise UserError(f"collision shape of unknown kind {self.kind!r}: choose one of {', '.join(_SIZES)}")
        needed = _SIZES[self.kind].count(",") + (self.kind != "sphere")
        if np.shape(self.size) != (needed,) or not all(0 < x < np.inf for x in self.size):
            raise UserError(
                f"the size of a {self.kind} is {_SIZES[self.kind]}, all above zero and finite: {self.size!r} does not fit"
            )
        if np.shape(self.position) != (3,) or not np.isfinite(self.position).all():
            raise UserError(f"the position of a collision shape is three finite numbers in m: {self.position!r} does not fit")
        if np.shape(self.quaternion) != (4,) or not 0 < np.linalg.norm(self.quaternion) < np.inf:
            raise UserError(
                f"the quaternion of a collision shape is four finite numbers, not all zero: {self.quaternion!r} does not fit"
            )

    @property
    def bound(self) -> float:
        """Radius of the sphere about the centre that holds the shape [m]."""
        return float(np.linalg.norm(self.size) if self.kind == "box" else np.sum(self.size))

    def row(self) -> np.ndarray:
        """Numbers that kernels read but for the slack, [SHAPE_SIZE] float64."""
        row = np.zeros(SHAPE_SIZE)
        row[SHAPE_POSITION : SHAPE_POSITION + 3] = self.position
        row[SHAPE_QUATERNION : SHAPE_QUATERNION + 4] = np.asarray(self.quaternion, dtype=float) / np.linalg.norm(self.quaternion)
        if self.kind == "box":
            row[HALF_SIZE : HALF_SIZE + 3] = self.size
        else:
            row[RADIUS : RADIUS + len(self.size)] = self.size
        row[BOUND] = self.bound
        return row


def check_shapes(
    names: tuple[str, ...],
    shapes: tuple[CollisionShape | None, ...],
    pairs: tuple[tuple[int, int], ...] | None,
) -> None:
    """Raise a UserError for shapes and pairs that do not fit the links."""
    n = len(names)
    if shapes and len(shapes) != n:
        raise UserError(f"collision_shape holds {len(shapes)} entries for {n} links: give one per link (None for none), or ()")
    met: set[frozenset[int]] = set()
    for pair in pairs or ():
        if len(pair) != 2 or not all(0 <= i < n for i in pair) or pair[0] == pair[1]:
            raise UserError(f"collision_pairs holds {pair!r}: a pair is two different links out of 0 to {n - 1}")
        if frozenset(pair) in met:
            raise UserError(f"collision_pairs holds {names[pair[0]]!r} and {names[pair[1]]!r} twice: list each pair once")
        met.add(frozenset(pair))
        for i in pair:
            if not shapes or shapes[i] is None:
                raise UserError(f"collision_pairs names link {names[i]!r}, which has no collision_shape: give it one")


def possible_pairs(
    parents: tuple[int, ...], joint_types: tuple[str, ...], shapes: tuple[CollisionShape | None, ...]
) -> list[tuple[int, int]]:
    """Pairs of links with shapes that may meet.

    Left out are links that are rigid on each other (joined by fixed joints, or both rigid on the world), and links with one
    joint between them, that is a link and its parent, whatever other links are rigid on either.
    """
    rigid = list(range(len(parents)))  # first link of those that a link is joined to by fixed joints
    for i, (parent, kind) in enumerate(zip(parents, joint_types, strict=True)):
        if kind == "fixed" and parent >= 0:
            rigid[i] = rigid[parent]
    still = [parents[i] < 0 and joint_types[i] == "fixed" for i in rigid]
    carrier = [rigid[parents[i]] if parents[i] >= 0 else -1 for i in rigid]
    shaped = [i for i, shape in enumerate(shapes) if shape is not None]
    return [
        (i, j)
        for at, i in enumerate(shaped)
        for j in shaped[at + 1 :]
        if rigid[i] != rigid[j] and carrier[i] != rigid[j] and carrier[j] != rigid[i] and not (still[i] and still[j])
    ]


def shape_rows(shapes: tuple[CollisionShape | None, ...], moves: np.ndarray) -> np.ndarray:
    """Table of shapes, one row per link, [max(N, 1), SHAPE_SIZE] float64.

    A shape's slack is half its bounding radius, of a large one among small ones no more than twice the median's; of one that
    cannot move it is zero.
    """
    rows = np.zeros((max(len(shapes), 1), SHAPE_SIZE))
    rows[:, BOUND] = -1
    for i, shape in enumerate(shapes):
        if shape is not None:
            rows[i] = shape.row()
    bounds = rows[rows[:, BOUND] > 0, BOUND]
    for i in range(len(shapes)):
        if shapes[i] is not None and moves[i]:
            rows[i, SLACK] = _SLACK_PART * min(rows[i, BOUND], 2 * float(np.median(bounds)))
    return rows


def pair_rows(shapes: tuple[CollisionShape | None, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """Table of pairs: first link, second link, how they meet, number of contacts to look at, [max(P, 1), 4] int32."""
    rows = []
    for i, j in pairs:
        if shapes[i].kind == "box" and shapes[j].kind != "box":
            i, j = j, i
        if shapes[i].kind == "box":
            rows.append((i, j, BOX_BOX, 16))
        elif shapes[j].kind == "box":
            rows.append((i, j, ROUND_BOX, 3 if shapes[i].kind == "capsule" else 1))
        else:
            rows.append((i, j, ROUND_ROUND, 1))
    return np.array(rows or [(0, 0, 0, 0)], dtype=np.int32)
