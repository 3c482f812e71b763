"""Quaternion products and symmetric matrices for the articulated kernels (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3, vec4


@ti.func
def quaternion_product(a, b):
    """Product a b of two quaternions (x, y, z, w): first the rotation b, then a."""
    return vec4(
        a[3] * b[0] + b[3] * a[0] + a[1] * b[2] - a[2] * b[1],
        a[3] * b[1] + b[3] * a[1] + a[2] * b[0] - a[0] * b[2],
        a[3] * b[2] + b[3] * a[2] + a[0] * b[1] - a[1] * b[0],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    )


@ti.func
def rotated(q, x):
    """The vector x rotated by the unit quaternion q."""
    u = vec3(q[0], q[1], q[2])
    t = 2 * u.cross(x)
    return x + q[3] * t + u.cross(t)


@ti.func
def rotated_back(q, x):
    """The vector x rotated by the inverse of the unit quaternion q."""
    u = vec3(q[0], q[1], q[2])
    t = 2 * u.cross(x)
    return x - q[3] * t + u.cross(t)


@ti.func
def load_symmetric(array: ti.template(), b, i, column: ti.template()):
    """Symmetric matrix from its xx, yy, zz, xy, xz, yz in row (b, i) of an array."""
    xx, yy, zz = array[b, i, column], array[b, i, column + 1], array[b, i, column + 2]
    xy, xz, yz = array[b, i, column + 3], array[b, i, column + 4], array[b, i, column + 5]
    return mat3(xx, xy, xz, xy, yy, yz, xz, yz, zz)


@ti.func
def store_symmetric(array: ti.template(), b, i, column: ti.template(), m):
    """Write xx, yy, zz, xy, xz, yz of a symmetric matrix."""
    array[b, i, column] = m[0, 0]
    array[b, i, column + 1] = m[1, 1]
    array[b, i, column + 2] = m[2, 2]
    array[b, i, column + 3] = m[0, 1]
    array[b, i, column + 4] = m[0, 2]
    array[b, i, column + 5] = m[1, 2]


@ti.func
def load_matrix(array: ti.template(), b, i, column: ti.template()):
    """3 x 3 matrix from nine numbers in row-major order."""
    m = mat3(0.0)
    for j, k in ti.static(ti.ndrange(3, 3)):
        m[j, k] = array[b, i, column + 3 * j + k]
    return m


@ti.func
def store_matrix(array: ti.template(), b, i, column: ti.template(), m):
    """Write a 3 x 3 matrix in row-major order."""
    for j, k in ti.static(ti.ndrange(3, 3)):
        array[b, i, column + 3 * j + k] = m[j, k]


@ti.func
def crossed_columns(r, m):
    """Matrix whose columns are r x (the columns of m)."""
    return mat3(
        r.y * m[2, 0] - r.z * m[1, 0], r.y * m[2, 1] - r.z * m[1, 1], r.y * m[2, 2] - r.z * m[1, 2],
        r.z * m[0, 0] - r.x * m[2, 0], r.z * m[0, 1] - r.x * m[2, 1], r.z * m[0, 2] - r.x * m[2, 2],
        r.x * m[1, 0] - r.y * m[0, 0], r.x * m[1, 1] - r.y * m[0, 1], r.x * m[1, 2] - r.y * m[0, 2],
    )  # fmt: skip


@ti.func
def rotation_vector(q):
    """Rotation vector [rad] of a quaternion of any length, with an angle of at most pi."""
    u = vec3(q[0], q[1], q[2])
    w = q[3]
    if w < 0:
        u, w = -u, -w
    s = u.norm()
    factor = 2 / w
    if s > 0.02 * w:
        factor = 2 * ti.atan2(s, w) / s
    else:
        t = (s / w) * (s / w)
        factor *= 1 - t * (1.0 / 3 - t * (1.0 / 5 - t * (1.0 / 7 - t / 9)))
    return factor * u


@ti.func
def rotation_vector_adjoint(q, x_bar):
    """Adjoint of ``rotation_vector`` with respect to q."""
    u = vec3(q[0], q[1], q[2])
    w = q[3]
    sign = 1.0
    if w < 0:
        u, w, sign = -u, -w, -1.0
    s = u.norm()
    squared_norm = s * s + w * w
    factor = 2 / w
    factor_derivative = 2 / (w * w * w)  # derivative of the factor by s, divided by s
    if s > 0.02 * w:
        angle = ti.atan2(s, w)
        factor = 2 * angle / s
        factor_derivative = 2 * (w * s / squared_norm - angle) / (s * s * s)
    else:
        t = (s / w) * (s / w)
        factor *= 1 - t * (1.0 / 3 - t * (1.0 / 5 - t * (1.0 / 7 - t / 9)))
        factor_derivative *= -2.0 / 3 + t * (4.0 / 5 - t * (6.0 / 7 - t * (8.0 / 9 - t * 10 / 11)))
    x_bar_component = u.dot(x_bar)
    u_bar = sign * (factor * x_bar + factor_derivative * x_bar_component * u)
    return vec4(u_bar.x, u_bar.y, u_bar.z, -sign * 2 * x_bar_component / squared_norm)
