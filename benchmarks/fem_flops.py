"""Floating-point operations of one step of deformable bodies (+, -, *, /, sqrt and abs are one each).

Counted from the code of ``ti_sim.deformable`` as written: ``solids`` and ``energies`` (neo-Hookean, damped), ``triangles`` and
``air`` (membranes, damped, in air), ``bending`` (damped, without actuation, flat at rest) and ``particles`` (free, touching
nothing). Sums with what is known to be zero count as nothing.
"""

from __future__ import annotations

from benchmarks.flops import CROSS
from ti_sim.deformable.families import FAMILIES, TABLES
from ti_sim.deformable.model import DeformableModel

DOT, ADD = 5, 3  # of 3-vectors; ADD is also a vector times a number
SCALED = 9  # 3x3 matrix times a number, or plus another
MATRICES = 45  # product of two
INNER = 17  # sum of the products of their entries
SYMMETRIC = MATRICES + 6  # symmetric part of a^T b
COFACTOR, COFACTOR_DIFFERENTIAL = 27, 63
POINTS = {"tet": 1, "hex": 8, "tet10": 4}

# energies.stress and stress_differential of the neo-Hookean energy: cofactor, volume, inner products, factors, terms, sums.
STRESS = COFACTOR + 7 + INNER + 4 + 3 + 2 * SCALED + SCALED
STRESS_DIFFERENTIAL = COFACTOR + 7 + (3 * INNER + 2) + 10 + 4 * SCALED + COFACTOR_DIFFERENTIAL + 3 * SCALED + 6

# Triangles. Differences, columns of F, its stretch of area; stresses; damping; air; forces; corners with their sums.
COLUMNS = 4 * ADD
STRETCH = CROSS + 2 * DOT + 7 + ADD
AIR = 4 * ADD + 1 + (DOT + 27) + ADD  # velocity, area, law, share of a corner
AIR_ADJOINT = 4 * ADD + 1 + 3 * ADD + (3 * DOT + 77) + 11
TRIANGLE = (
    2 * ADD + COLUMNS + STRETCH + (2 * DOT + 4) + 5 + (2 * ADD + COLUMNS + 4 * DOT + 7) + AIR
    + (ADD + 2 * (CROSS + 4 * ADD)) + 17 + 7 * ADD
)  # fmt: skip
TRIANGLE_ADJOINT = (
    6 * ADD + 3 * COLUMNS + STRETCH + (2 * DOT + 10) + (3 * DOT + 2 * CROSS + 23) + (8 * DOT + 18)
    + 2 * (CROSS + 10 * ADD) + 2 * 3 * ADD + AIR_ADJOINT + 2 * (CROSS + ADD) + 17 + 30 + 12 * ADD
)  # fmt: skip

# Edges. Differences, hinge, gradients of the angle; sine of its half; moment with damping; forces; corners with their sums.
HINGE = 2 * CROSS + 5 * DOT + 6
DEFLECTION = 2 * DOT + 15
EDGE = 3 * ADD + HINGE + 19 + DEFLECTION + (3 * ADD + 3 * DOT + 5) + (3 * ADD + 1) + 6 * ADD
SIDE_ADJOINT = 3 * DOT + 21
EDGE_ADJOINT = (
    3 * ADD + HINGE + 19 + DEFLECTION + (6 * ADD + 6 * DOT + 9) + 9 * ADD + (DOT + 4 * CROSS + 2 * ADD + 4)
    + 2 * SIDE_ADJOINT + 7 * ADD + 9 + 3 * ADD + 12 * ADD
)  # fmt: skip

# particles.move_particle and its adjoint: acceleration, velocity, position, test for divergence; mass and gravity.
PARTICLE = (1 + 4 * ADD) + 2 * ADD + 11
PARTICLE_ADJOINT = 2 * ADD + (1 + ADD) + 3 * ADD + (DOT + 2) + 2 * ADD


def _solid(nodes: int, points: int) -> int:
    """Of the forces of a solid."""
    gradient, spread = 9 * (2 * nodes - 3), 15 * (nodes - 1)
    point = 2 * gradient + STRESS + SYMMETRIC + MATRICES + 3 * SCALED + spread
    return 2 * ADD * (nodes - 1) + points * point + (points - 1) * ADD * (nodes - 1) + ADD * (2 * nodes - 1)


def _solid_adjoint(nodes: int, points: int) -> int:
    """Of their adjoint."""
    gradient, spread = 9 * (2 * nodes - 3), 15 * (nodes - 1)
    stresses = STRESS_DIFFERENTIAL + 2 * SYMMETRIC + (2 * MATRICES + 4 * SCALED) + (1 + MATRICES + SCALED) + INNER + 8
    return (
        3 * ADD * (nodes - 1) + points * (3 * gradient + stresses + 2 * spread)
        + (points - 1) * 2 * ADD * (nodes - 1) + 4 + 2 * ADD * (2 * nodes - 1)
    )  # fmt: skip


def element_flops(family: str) -> tuple[int, int]:
    """Of one element: of its forces, and of their adjoint with what that computes again."""
    if family in POINTS:
        sizes = FAMILIES[family], POINTS[family]
        return _solid(*sizes), _solid_adjoint(*sizes)
    return {"triangle": (TRIANGLE, TRIANGLE_ADJOINT), "edge": (EDGE, EDGE_ADJOINT)}[family]


def step_flops(model: DeformableModel) -> tuple[int, int]:
    """Of a step of one world, and of its adjoint."""
    forward, backward = PARTICLE * model.particle_count, PARTICLE_ADJOINT * model.particle_count
    for family in model.families:
        count, (force, adjoint) = len(model.tables[TABLES[family]]), element_flops(family)
        forward, backward = forward + count * force, backward + count * adjoint
    return forward, backward
