"""Floating-point operations of one semi-implicit articulated step (+, -, *, /, sqrt, sin, cos, min and max are one each).

Counted from the code for links with revolute joints within their limits, without contact. Additions of structural zeros are not
counted.
"""

from __future__ import annotations

from benchmarks.flops import CROSS, OUTER, PRODUCT, ROTATION
from ti_sim.articulated.model import ArticulatedModel

VECTOR_ADD = 3  # two vectors; also a vector times a number
DOT = 5
QUATERNION_ROTATION = 30  # vector by quaternion
QUATERNION_PRODUCT = 28  # product of two

# First sweep. Pose: joint frame, arm, axis, half angle, rotation, velocities, position. Inertia: rotation matrix, centre of mass,
# R I R^T, about the origin.
POSE = 2 * QUATERNION_PRODUCT + 2 * QUATERNION_ROTATION + 6 + 4 * VECTOR_ADD + CROSS + 2 * VECTOR_ADD
LINK_INERTIA = ROTATION + PRODUCT + 6 * PRODUCT + VECTOR_ADD + 18
BIAS = 3 * CROSS + 2 * VECTOR_ADD  # accelerations that velocities cause
LINK_LOAD = (PRODUCT + CROSS) + (2 * CROSS + VECTOR_ADD) + (CROSS + 3 * VECTOR_ADD)  # gyroscopic, centripetal, outer wrench

# Second sweep. One velocity: column, its inertia, joint force, the updates of the three blocks, the load. To the parent:
# the load of the bias, the shift of the inertia by the arm, sums.
ELIMINATION = 2 * PRODUCT + 2 * DOT + 3 + 3 * (OUTER + 18) + 2 * (1 + 2 * VECTOR_ADD)
JOINT_FORCE = 14
BIAS_LOAD = 4 * PRODUCT + 4 * VECTOR_ADD
INERTIA_TO_PARENT = 3 * 27 + 2 * 18 + 9 + 27 + (CROSS + 3 * VECTOR_ADD)

# Third sweep, and the update of coordinate and velocity with the test for divergence.
ACCELERATION_SOLVE = CROSS + 3 * VECTOR_ADD + 2 * DOT + 3 + 2 * VECTOR_ADD
UPDATE = 6

# Adjoint: recomputed accelerations of the links, adjoint of the virtual power, of the motion of the link, of the joint's force.
ACCELERATIONS = 2 * VECTOR_ADD + (CROSS + 2 * VECTOR_ADD) + (3 * CROSS + 5 * VECTOR_ADD)
POWER_ADJOINT = (
    ROTATION + PRODUCT + 9 * CROSS + 8 * VECTOR_ADD + 6 + 6 + (2 * CROSS + 2 * VECTOR_ADD) + (PRODUCT + VECTOR_ADD) + CROSS
    + 2 * VECTOR_ADD + 3 * PRODUCT + CROSS + 4 * PRODUCT + 2 * (CROSS + VECTOR_ADD) + (3 * CROSS + PRODUCT + 3 * VECTOR_ADD)
    + 3 * (PRODUCT + VECTOR_ADD) + 12 + 24 + 6 * VECTOR_ADD
)  # fmt: skip
PARENT_ADJOINT = 14 * CROSS + 20 * VECTOR_ADD
MOTION_ADJOINT = 2 * (DOT + 1) + (CROSS + 6 * VECTOR_ADD) + 3 * QUATERNION_ROTATION + VECTOR_ADD + 40
FORCE_ADJOINT = 30


def _links(model: ArticulatedModel) -> tuple[int, int]:
    """Numbers of moving links, and of those whose parent also moves."""
    moving = [i for i in range(model.link_count) if model.moves[i]]
    return len(moving), sum(model.link_parent[i] >= 0 and bool(model.moves[model.link_parent[i]]) for i in moving)


def step_flops(model: ArticulatedModel) -> int:
    """Operations of one step of one world."""
    moving, with_moving_parent = _links(model)
    per_link = POSE + LINK_INERTIA + BIAS + LINK_LOAD + ELIMINATION + JOINT_FORCE + ACCELERATION_SOLVE + UPDATE
    return moving * per_link + with_moving_parent * (BIAS_LOAD + INERTIA_TO_PARENT)


def adjoint_flops(model: ArticulatedModel) -> int:
    """Operations of the adjoint of that step, recomputation included."""
    moving, with_moving_parent = _links(model)
    per_link = (
        POSE
        + LINK_INERTIA
        + ELIMINATION
        + ACCELERATION_SOLVE
        + ACCELERATIONS
        + POWER_ADJOINT
        + MOTION_ADJOINT
        + FORCE_ADJOINT
        + UPDATE
    )
    return moving * per_link + with_moving_parent * (INERTIA_TO_PARENT + PARENT_ADJOINT)
