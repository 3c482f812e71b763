"""Free rotation over one step by the implicit midpoint rule, and its adjoint (Taichi functions).

In body axes, the angular momentum p obeys p' = p x J p without torque (Euler's equations, J the inverse inertia). The midpoint
rule conserves all quadratic invariants (Hairer, Lubich and Wanner, Geometric Numerical Integration, 2006, IV.2), here |p| and the
energy p.J p / 2. With m the mean of the momenta before and after a step of length 2 h,

    m + h (J m) x m = p,    p_after = 2 m - p.

The rotation by the quaternion (h J m, 1) in body axes maps p_after exactly to p, so the momentum in world axes does not change.
The equation is solved by Newton's method to rounding, in about two iterations at 0.01 rad per step, and differentiated by the
implicit function theorem.

With a drive inertia that does not rotate with the body, ``armature`` about each axis, the equation is m + h (J m) x (m - armature
J m) = p, where J is the inverse of the sum of inertia and armature.
"""

import numpy as np

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, outer, vec3

_MAX_ITERATIONS = 12  # seven are enough at 2 rad per step
_TOLERANCE = 16.0  # in rounding units
_MAX_RELATIVE_RESIDUAL = 1e-3  # of the momentum: with a larger residual there is no solution nearby


def rounding_unit() -> float:
    """Distance from 1 to the next number of the working precision."""
    return float(np.finfo(require().numpy_dtype).eps)


rounding_unit._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def cross_matrix(v):
    """Cross-product matrix [v]x."""
    return mat3(0.0, -v.z, v.y, v.z, 0.0, -v.x, -v.y, v.x, 0.0)


@ti.func
def solve_3x3(a, b):
    """Solution x of a x = b for a 3 x 3 matrix a."""
    r0, r1, r2 = vec3(a[0, 0], a[0, 1], a[0, 2]), vec3(a[1, 0], a[1, 1], a[1, 2]), vec3(a[2, 0], a[2, 1], a[2, 2])
    c0 = r1.cross(r2)
    return (b.x * c0 + b.y * r2.cross(r0) + b.z * r0.cross(r1)) / r0.dot(c0)


@ti.func
def midpoint_terms(mean, inverse_inertia, armature, has_armature: ti.template()):
    """(J m, matrix N with d(J m x (m - armature J m)) = (J m) x dm - N J dm, m - armature J m)."""
    w = inverse_inertia @ mean
    body_momentum = mean
    if ti.static(has_armature):
        body_momentum -= armature * w
    torque_matrix = cross_matrix(body_momentum)
    if ti.static(has_armature):
        torque_matrix += mat3(
            0.0, -w.z * armature.y, w.y * armature.z, w.z * armature.x, 0.0, -w.x * armature.z,
            -w.y * armature.x, w.x * armature.y, 0.0,
        )  # fmt: skip
    return w, torque_matrix, body_momentum


@ti.func
def residual_jacobian(w, torque_matrix, inverse_inertia, h):
    """Derivative of m + h (J m) x (m - armature J m) with respect to m."""
    return mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0) + h * (cross_matrix(w) - torque_matrix @ inverse_inertia)


@ti.func
def mean_momentum(momentum, inverse_inertia, armature, h, has_armature: ti.template()):
    """Mean of the angular momenta before and after a torque-free step, in body axes.

    Args:
        momentum: angular momentum before the step [kg m2/s], 3-vector.
        inverse_inertia: J, inverse of the inertia with the armature on its diagonal [1/(kg m2)].
        armature: drive inertia about each axis, which does not rotate with the body [kg m2]; read only if ``has_armature``.
        h: half the step [s].
        has_armature: whether there is an armature.

    Returns:
        3-vector; NaN if there is no solution (only above 2 rad per step).
    """
    w = inverse_inertia @ momentum
    a = h * w
    mean = (momentum - a.cross(momentum) + a.dot(momentum) * a) / (1 + a.dot(a))  # extrapolates with constant w
    tolerance = _TOLERANCE * ti.static(rounding_unit())
    momentum_squared = momentum.dot(momentum)
    residual_squared = momentum_squared
    iteration = 0
    while iteration < _MAX_ITERATIONS:
        w, torque_matrix, body_momentum = midpoint_terms(mean, inverse_inertia, armature, has_armature)
        residual = mean + h * w.cross(body_momentum) - momentum
        residual_squared = residual.dot(residual)
        if residual_squared <= tolerance * tolerance * momentum_squared:
            iteration = _MAX_ITERATIONS
        else:
            mean -= solve_3x3(residual_jacobian(w, torque_matrix, inverse_inertia, h), residual)
            iteration += 1
    if not residual_squared <= _MAX_RELATIVE_RESIDUAL * _MAX_RELATIVE_RESIDUAL * momentum_squared:
        mean *= ti.math.nan
    return mean


@ti.func
def mean_momentum_adjoint(mean, inverse_inertia, armature, h, mean_bar, has_armature: ti.template()):
    """Adjoint of ``mean_momentum`` from its result ``mean``: (momentum_bar, inverse_inertia_bar, armature_bar)."""
    w, torque_matrix, _body_momentum = midpoint_terms(mean, inverse_inertia, armature, has_armature)
    momentum_bar = solve_3x3(residual_jacobian(w, torque_matrix, inverse_inertia, h).transpose(), mean_bar)
    armature_bar = vec3(0.0)
    if ti.static(has_armature):
        armature_bar = h * momentum_bar.cross(w) * w
    return momentum_bar, h * outer(torque_matrix.transpose() @ momentum_bar, mean), armature_bar
