"""Floating-point operations of one semi-implicit rigid step, counted from the code (+, -, *, /, sqrt are one each)."""

from __future__ import annotations

ROTATION = 39  # rotation_matrix: 3 entries of 5, 6 of 4
PRODUCT = 15  # 3x3 matrix times vector
CROSS = 9  # cross product of two 3-vectors
ANGULAR_VELOCITY = 3 * PRODUCT
NORMALIZE = 13  # a quaternion
QUATERNION_RATE = 24
HEIGHT = 8  # height of a contact point above the ground

# contact_load, per touching point: height, arm, velocity, sticking force, sums of force and torque.
TOUCHING_POINT = HEIGHT + (PRODUCT + 1) + (CROSS + 3) + 11 + 3 + (CROSS + 3)
# semi_implicit_update without the rotation matrix, which the contact has computed.
UPDATE = 12 + 6 + ANGULAR_VELOCITY + 6 + QUATERNION_RATE + 8 + NORMALIZE

OUTER = 9  # outer product of two 3-vectors
ANGULAR_VELOCITY_ADJOINT = 5 * PRODUCT + 3 * OUTER + 9
ROTATION_ADJOINT = 42
NORMALIZE_ADJOINT = 32
QUATERNION_RATE_ADJOINT = 49
CONTACT_FORCE_ADJOINT = 18

# contact_load_adjoint, per touching point: recomputed forward values, then the adjoints of the ten inputs.
TOUCHING_POINT_ADJOINT = (
    HEIGHT + (PRODUCT + 1) + (CROSS + 3) + 11  # height, arm, velocity, force
    + (CROSS + 3) + CONTACT_FORCE_ADJOINT
    + (2 * CROSS + 4) + 1 + 3 + (CROSS + 3) + 2 * OUTER + 4 + 6  # arm, z, v, w, rotation, material, work
)  # fmt: skip
UPDATE_ADJOINT = (
    ANGULAR_VELOCITY + QUATERNION_RATE + 8
    + NORMALIZE_ADJOINT + QUATERNION_RATE_ADJOINT + ANGULAR_VELOCITY_ADJOINT + 13
)  # fmt: skip
# Other operations in the loop of advance_adjoint: two adjoints of the velocity and rotation, and the sums.
LOOP_ADJOINT = ANGULAR_VELOCITY_ADJOINT + ROTATION_ADJOINT + 61


def step_flops(points: int, touching: int) -> int:
    """Operations of one step of a body with ``points`` contact points, of which ``touching`` touch and stick."""
    return ROTATION + ANGULAR_VELOCITY + UPDATE + HEIGHT * (points - touching) + TOUCHING_POINT * touching


def adjoint_flops(points: int, touching: int) -> int:
    """Operations of the adjoint of that step, recomputation included."""
    per_body = ROTATION + ANGULAR_VELOCITY + UPDATE_ADJOINT + LOOP_ADJOINT
    return per_body + HEIGHT * (points - touching) + TOUCHING_POINT_ADJOINT * touching
