"""Floating-point operations of one semi-implicit articulated step (+, -, *, /, sqrt, sin, cos, min and max are one each).

Counted from the code for links that hang by revolute joints, between their limits, without contact. Sums with what is known to be
zero count as nothing.
"""

from __future__ import annotations

from benchmarks.flops import CROSS, OUTER, PRODUCT, ROTATION
from ti_sim.articulated.model import ArticulatedModel

ADD = 3  # two vectors; also a vector times a number
DOT = 5
TURNED = 30  # vector by quaternion
QUATERNIONS = 28  # product of two

# First sweep. Pose: joint frame, arm, axis, half angle, rotation, velocities, position. Inertia: rotation matrix, centre of mass,
# R I R^T, about the origin.
POSE = 2 * QUATERNIONS + 2 * TURNED + 6 + 4 * ADD + CROSS + 2 * ADD
OWN_INERTIA = ROTATION + PRODUCT + 6 * PRODUCT + ADD + 18
BIAS = 3 * CROSS + 2 * ADD  # accelerations that velocities cause
OWN_LOAD = (PRODUCT + CROSS) + (2 * CROSS + ADD) + (CROSS + 3 * ADD)  # gyroscopic, centripetal, outer wrench

# Second sweep. One velocity: column, its inertia, joint force, the three blocks less their part, the load. To the parent:
# the load of the bias, the shift of the inertia by the arm, sums.
ELIMINATED = 2 * PRODUCT + 2 * DOT + 3 + 3 * (OUTER + 18) + 2 * (1 + 2 * ADD)
JOINT_FORCE = 14
BIAS_LOAD = 4 * PRODUCT + 4 * ADD
SHIFTED = 3 * 27 + 2 * 18 + 9 + 27 + (CROSS + 3 * ADD)

# Third sweep, and the update of coordinate and velocity with the test for divergence.
SOLVED = CROSS + 3 * ADD + 2 * DOT + 3 + 2 * ADD
UPDATE = 6

# Adjoint: accelerations of the links again, adjoint of the virtual power, of the motion of the link, of the joint's force.
ACCELERATIONS = 2 * ADD + (CROSS + 2 * ADD) + (3 * CROSS + 5 * ADD)
POWER_ADJOINT = (
    ROTATION + PRODUCT + 9 * CROSS + 8 * ADD + 6 + 6 + (2 * CROSS + 2 * ADD) + (PRODUCT + ADD) + CROSS + 2 * ADD
    + 3 * PRODUCT + CROSS + 4 * PRODUCT + 2 * (CROSS + ADD) + (3 * CROSS + PRODUCT + 3 * ADD) + 3 * (PRODUCT + ADD)
    + 12 + 24 + 6 * ADD
)  # fmt: skip
PARENT_ADJOINT = 14 * CROSS + 20 * ADD
MOTION_ADJOINT = 2 * (DOT + 1) + (CROSS + 6 * ADD) + 3 * TURNED + ADD + 40
FORCE_ADJOINT = 30


def _links(model: ArticulatedModel) -> tuple[int, int]:
    """Links that move, and those of them whose parent moves too."""
    moving = [i for i in range(model.link_count) if model.moves[i]]
    return len(moving), sum(model.link_parent[i] >= 0 and bool(model.moves[model.link_parent[i]]) for i in moving)


def step_flops(model: ArticulatedModel) -> int:
    """Of one step of one world."""
    moving, carried = _links(model)
    each = POSE + OWN_INERTIA + BIAS + OWN_LOAD + ELIMINATED + JOINT_FORCE + SOLVED + UPDATE
    return moving * each + carried * (BIAS_LOAD + SHIFTED)


def adjoint_flops(model: ArticulatedModel) -> int:
    """Of the adjoint of that step, with what it computes again."""
    moving, carried = _links(model)
    each = POSE + OWN_INERTIA + ELIMINATED + SOLVED + ACCELERATIONS + POWER_ADJOINT + MOTION_ADJOINT + FORCE_ADJOINT + UPDATE
    return moving * each + carried * (SHIFTED + PARENT_ADJOINT)
