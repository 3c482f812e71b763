"""Floating-point operations of one semi-implicit rigid step, counted from the code (+, -, *, /, sqrt are one each)."""

from __future__ import annotations

ROTATION = 39  # rotation_matrix: 3 entries of 5, 6 of 4
PRODUCT = 15  # 3x3 matrix times vector
CROSS = 9
ANGULAR_VELOCITY = 3 * PRODUCT
NORMALIZE = 13
QUATERNION_RATE = 24
HEIGHT = 8

# contact_load, per point that touches: height, arm, its velocity, force while it sticks, sums of force and torque.
TOUCHING = HEIGHT + (PRODUCT + 1) + (CROSS + 3) + 11 + 3 + (CROSS + 3)
# semi_implicit_update without its rotation matrix, which is that of the contact.
UPDATE = 12 + 6 + ANGULAR_VELOCITY + 6 + QUATERNION_RATE + 8 + NORMALIZE

OUTER = 9
ANGULAR_VELOCITY_ADJOINT = 5 * PRODUCT + 3 * OUTER + 9
ROTATION_ADJOINT = 42
NORMALIZE_ADJOINT = 32
QUATERNION_RATE_ADJOINT = 49
CONTACT_FORCE_ADJOINT = 18

# contact_load_adjoint, per point that touches: the forward numbers again, then the adjoints of the ten that it reads.
TOUCHING_ADJOINT = (
    HEIGHT + (PRODUCT + 1) + (CROSS + 3) + 11  # height, arm, velocity, force
    + (CROSS + 3) + CONTACT_FORCE_ADJOINT
    + (2 * CROSS + 4) + 1 + 3 + (CROSS + 3) + 2 * OUTER + 4 + 6  # arm, z, v, w, rotation, material, work
)  # fmt: skip
UPDATE_ADJOINT = (
    ANGULAR_VELOCITY + QUATERNION_RATE + 8
    + NORMALIZE_ADJOINT + QUATERNION_RATE_ADJOINT + ANGULAR_VELOCITY_ADJOINT + 13
)  # fmt: skip
# The rest of the loop of advance_adjoint: two adjoints of the velocity and rotation, and the sums.
REST_ADJOINT = ANGULAR_VELOCITY_ADJOINT + ROTATION_ADJOINT + 61


def step_flops(points: int, touching: int) -> int:
    """Of one step of a body with ``points`` contact points, of which ``touching`` touch and stick."""
    return ROTATION + ANGULAR_VELOCITY + UPDATE + HEIGHT * (points - touching) + TOUCHING * touching


def adjoint_flops(points: int, touching: int) -> int:
    """Of the adjoint of that step, with what it computes again."""
    body = ROTATION + ANGULAR_VELOCITY + UPDATE_ADJOINT + REST_ADJOINT
    return body + HEIGHT * (points - touching) + TOUCHING_ADJOINT * touching
