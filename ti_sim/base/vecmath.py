"""Small vector maths for kernels: rotations by quaternions (x, y, z, w), each function with its adjoint.

An adjoint function takes the forward arguments and the adjoint of the result, and returns the adjoints of the arguments. All are
plain Taichi functions for hand-written adjoint kernels; none supports Taichi's own autodiff.
"""

from ti_sim.base.runtime import ti

vec2 = ti.math.vec2
vec3 = ti.math.vec3
vec4 = ti.math.vec4
mat3 = ti.math.mat3


@ti.func
def outer(a, b):
    """Outer product a b^T of two 3-vectors."""
    return mat3(a.x * b.x, a.x * b.y, a.x * b.z, a.y * b.x, a.y * b.y, a.y * b.z, a.z * b.x, a.z * b.y, a.z * b.z)


@ti.func
def offset_from_box(x, low, high):
    """Point x minus the closest point of the box between low and high; along an axis within it exactly zero.

    x minus the limited x is not always zero there: on a GPU, the multiplication that made x and the subtraction are one operation
    that rounds once, while the limited x is rounded.
    """
    offset = vec3(0.0)
    for k in ti.static(range(3)):
        if x[k] > high[k]:
            offset[k] = x[k] - high[k]
        elif x[k] < low[k]:
            offset[k] = x[k] - low[k]
    return offset


@ti.func
def rotation_matrix(q):
    """Rotation matrix of a unit quaternion (x, y, z, w)."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    return mat3(
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


@ti.func
def rotation_matrix_adjoint(q, g):
    """Adjoint of ``rotation_matrix``: the quaternion's adjoint from the matrix's adjoint ``g``."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    s01, s02, s12 = g[0, 1] + g[1, 0], g[0, 2] + g[2, 0], g[1, 2] + g[2, 1]
    a21, a02, a10 = g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]
    return 2 * vec4(
        y * s01 + z * s02 + w * a21 - 2 * x * (g[1, 1] + g[2, 2]),
        x * s01 + z * s12 + w * a02 - 2 * y * (g[0, 0] + g[2, 2]),
        x * s02 + y * s12 + w * a10 - 2 * z * (g[0, 0] + g[1, 1]),
        x * a21 + y * a02 + z * a10,
    )


@ti.func
def quaternion_rate(w, q):
    """Half the quaternion product (w, 0) q: the rate of q under the world-frame angular velocity w [rad/s]."""
    u = vec3(q[0], q[1], q[2])
    r = w * q[3] + w.cross(u)
    return 0.5 * vec4(r.x, r.y, r.z, -w.dot(u))


@ti.func
def quaternion_rate_adjoint(w, q, g):
    """Adjoint of ``quaternion_rate``: (w_bar, q_bar)."""
    u = vec3(q[0], q[1], q[2])
    gv = 0.5 * vec3(g[0], g[1], g[2])
    gw = 0.5 * g[3]
    w_bar = q[3] * gv + u.cross(gv) - gw * u
    u_bar = gv.cross(w) - gw * w
    return w_bar, vec4(u_bar.x, u_bar.y, u_bar.z, w.dot(gv))


@ti.func
def body_quaternion_rate(q, w):
    """Half the quaternion product q (w, 0): the rate of q under the body-frame angular velocity w [rad/s]."""
    u = vec3(q[0], q[1], q[2])
    r = 0.5 * (q[3] * w + u.cross(w))
    return vec4(r.x, r.y, r.z, -0.5 * u.dot(w))


@ti.func
def body_quaternion_rate_adjoint(q, w, g):
    """Adjoint of ``body_quaternion_rate``: (q_bar, w_bar)."""
    u = vec3(q[0], q[1], q[2])
    gv = 0.5 * vec3(g[0], g[1], g[2])
    gw = 0.5 * g[3]
    u_bar = w.cross(gv) - gw * w
    return vec4(u_bar.x, u_bar.y, u_bar.z, w.dot(gv)), q[3] * gv + gv.cross(u) - gw * u


@ti.func
def normalized_adjoint(q, g):
    """Adjoint of q / |q| with respect to q."""
    inverse_norm = 1 / q.norm()
    n = q * inverse_norm
    return (g - n * n.dot(g)) * inverse_norm


@ti.func
def angular_velocity(rotation, inverse_inertia, angular_momentum):
    """World-frame angular velocity R J R^T L, with J the inverse inertia in the body frame."""
    return rotation @ (inverse_inertia @ (rotation.transpose() @ angular_momentum))


@ti.func
def angular_velocity_adjoint(rotation, inverse_inertia, angular_momentum, w_bar):
    """Adjoint of ``angular_velocity``: (rotation_bar, inverse_inertia_bar, angular_momentum_bar)."""
    body_momentum = rotation.transpose() @ angular_momentum
    body_velocity_bar = rotation.transpose() @ w_bar
    body_momentum_bar = inverse_inertia.transpose() @ body_velocity_bar
    rotation_bar = outer(w_bar, inverse_inertia @ body_momentum) + outer(angular_momentum, body_momentum_bar)
    return rotation_bar, outer(body_velocity_bar, body_momentum), rotation @ body_momentum_bar
