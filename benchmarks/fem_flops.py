"""Floating-point operations of one step of deformable bodies (+, -, *, /, sqrt and abs are one each).

Counted from the code of ``ti_sim.deformable`` as written: ``solids`` and ``energies`` (neo-Hookean, damped), ``triangles`` and
``air`` (membranes, damped, in air), ``bending`` (damped, without actuation, flat at rest) and ``particles`` (free, without
contact). Additions of structural zeros are not counted.
"""

from __future__ import annotations

from benchmarks.flops import CROSS
from ti_sim.deformable.families import FAMILIES, TABLES
from ti_sim.deformable.model import DeformableModel

DOT, VECTOR_ADD = 5, 3  # of 3-vectors; VECTOR_ADD is also a vector times a number
MATRIX_ADD = 9  # 3x3 matrix times a number, or plus another
MATRIX_PRODUCT = 45  # product of two
MATRIX_INNER = 17  # sum of the products of their entries
SYMMETRIC_PRODUCT = MATRIX_PRODUCT + 6  # symmetric part of a^T b
COFACTOR, COFACTOR_DIFFERENTIAL = 27, 63
QUADRATURE_POINTS = {"tet": 1, "hex": 8, "tet10": 4}

# energies.stress and stress_differential of the neo-Hookean energy: cofactor, volume, inner products, factors, terms, sums.
STRESS = COFACTOR + 7 + MATRIX_INNER + 4 + 3 + 2 * MATRIX_ADD + MATRIX_ADD
STRESS_DIFFERENTIAL = COFACTOR + 7 + (3 * MATRIX_INNER + 2) + 10 + 4 * MATRIX_ADD + COFACTOR_DIFFERENTIAL + 3 * MATRIX_ADD + 6

# Triangles. Differences, columns of F, its stretch of area; stresses; damping; air; forces; corners with their sums.
GRADIENT_COLUMNS = 4 * VECTOR_ADD
AREA_STRETCH = CROSS + 2 * DOT + 7 + VECTOR_ADD
AIR = 4 * VECTOR_ADD + 1 + (DOT + 27) + VECTOR_ADD  # velocity, area, law, share of a corner
AIR_ADJOINT = 4 * VECTOR_ADD + 1 + 3 * VECTOR_ADD + (3 * DOT + 77) + 11
TRIANGLE_FORCES = (
    2 * VECTOR_ADD + GRADIENT_COLUMNS + AREA_STRETCH + (2 * DOT + 4) + 5 + (2 * VECTOR_ADD + GRADIENT_COLUMNS + 4 * DOT + 7) + AIR
    + (VECTOR_ADD + 2 * (CROSS + 4 * VECTOR_ADD)) + 17 + 7 * VECTOR_ADD
)  # fmt: skip
TRIANGLE_ADJOINT = (
    6 * VECTOR_ADD + 3 * GRADIENT_COLUMNS + AREA_STRETCH + (2 * DOT + 10) + (3 * DOT + 2 * CROSS + 23) + (8 * DOT + 18)
    + 2 * (CROSS + 10 * VECTOR_ADD) + 2 * 3 * VECTOR_ADD + AIR_ADJOINT + 2 * (CROSS + VECTOR_ADD) + 17 + 30 + 12 * VECTOR_ADD
)  # fmt: skip

# Edges. Differences, hinge, gradients of the angle; sine of its half; moment with damping; forces; corners with their sums.
HINGE = 2 * CROSS + 5 * DOT + 6
DEFLECTION = 2 * DOT + 15
EDGE_FORCES = 3 * VECTOR_ADD + HINGE + 19 + DEFLECTION + (3 * VECTOR_ADD + 3 * DOT + 5) + (3 * VECTOR_ADD + 1) + 6 * VECTOR_ADD
SIDE_ADJOINT = 3 * DOT + 21
EDGE_ADJOINT = (
    3 * VECTOR_ADD + HINGE + 19 + DEFLECTION + (6 * VECTOR_ADD + 6 * DOT + 9) + 9 * VECTOR_ADD
    + (DOT + 4 * CROSS + 2 * VECTOR_ADD + 4) + 2 * SIDE_ADJOINT + 7 * VECTOR_ADD + 9 + 3 * VECTOR_ADD + 12 * VECTOR_ADD
)  # fmt: skip

# particles.move_particle and its adjoint: acceleration, velocity, position, test for divergence; mass and gravity.
PARTICLE = (1 + 4 * VECTOR_ADD) + 2 * VECTOR_ADD + 11
PARTICLE_ADJOINT = 2 * VECTOR_ADD + (1 + VECTOR_ADD) + 3 * VECTOR_ADD + (DOT + 2) + 2 * VECTOR_ADD


def _solid_flops(nodes: int, points: int) -> int:
    """Operations of the forces of a solid element."""
    gradient, force_scatter = 9 * (2 * nodes - 3), 15 * (nodes - 1)
    per_point = 2 * gradient + STRESS + SYMMETRIC_PRODUCT + MATRIX_PRODUCT + 3 * MATRIX_ADD + force_scatter
    return (
        2 * VECTOR_ADD * (nodes - 1) + points * per_point + (points - 1) * VECTOR_ADD * (nodes - 1) + VECTOR_ADD * (2 * nodes - 1)
    )


def _solid_adjoint_flops(nodes: int, points: int) -> int:
    """Operations of the adjoint of the forces of a solid element."""
    gradient, force_scatter = 9 * (2 * nodes - 3), 15 * (nodes - 1)
    stress_flops = (
        STRESS_DIFFERENTIAL
        + 2 * SYMMETRIC_PRODUCT
        + (2 * MATRIX_PRODUCT + 4 * MATRIX_ADD)
        + (1 + MATRIX_PRODUCT + MATRIX_ADD)
        + MATRIX_INNER
        + 8
    )
    return (
        3 * VECTOR_ADD * (nodes - 1) + points * (3 * gradient + stress_flops + 2 * force_scatter)
        + (points - 1) * 2 * VECTOR_ADD * (nodes - 1) + 4 + 2 * VECTOR_ADD * (2 * nodes - 1)
    )  # fmt: skip


def element_flops(family: str) -> tuple[int, int]:
    """Operations of one element: of its forces, and of their adjoint, recomputation included."""
    if family in QUADRATURE_POINTS:
        nodes_and_points = FAMILIES[family], QUADRATURE_POINTS[family]
        return _solid_flops(*nodes_and_points), _solid_adjoint_flops(*nodes_and_points)
    return {"triangle": (TRIANGLE_FORCES, TRIANGLE_ADJOINT), "edge": (EDGE_FORCES, EDGE_ADJOINT)}[family]


def step_flops(model: DeformableModel) -> tuple[int, int]:
    """Operations of a step of one world, and of its adjoint."""
    forward, backward = PARTICLE * model.particle_count, PARTICLE_ADJOINT * model.particle_count
    for family in model.families:
        count, (force, adjoint) = len(model.tables[TABLES[family]]), element_flops(family)
        forward, backward = forward + count * force, backward + count * adjoint
    return forward, backward
