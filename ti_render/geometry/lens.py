"""Lens distortion (OpenCV's k1, k2, p1, p2, k3; Brown, Decentering distortion of lenses, 1966).

The rasteriser works in the undistorted image plane: every pixel centre is mapped there, so that straight edges become curves
exactly. The inverse of the distortion is computed by Newton's method; its derivatives follow from the implicit function theorem.
A model that folds back within the picture has no inverse there: such pixels show the backdrop far outside of the picture, and
have no derivatives.
"""

from ti_render.rows import row_of
from ti_sim.base.differentiable import differentiable
from ti_sim.base.runtime import ti

NEWTON_STEPS = 12
# Convergence: least determinant of the distortion's Jacobian, and largest squared residual at depth 1.
MIN_DETERMINANT, MAX_SQUARED_RESIDUAL = 1e-3, 1e-8
# Screen position of pixels for which the inverse did not converge.
UNDEFINED_POSITION = 1e6
DISTORTION_SIZE = 5

vec2 = ti.math.vec2


@differentiable()
def distort(x, y, k):
    """Distorted position of (x, y) in the plane at depth 1."""
    r2 = x * x + y * y
    radial = r2 * (r2 * (r2 * k[4] + k[1]) + k[0]) + 1.0
    doubled_product = x * y * 2.0
    return (
        x * radial + k[2] * doubled_product + k[3] * (r2 + x * x * 2.0),
        y * radial + k[2] * (r2 + y * y * 2.0) + k[3] * doubled_product,
    )


@ti.func
def _coefficients(distortion: ti.template(), r):
    return ti.Vector([distortion[r, i] for i in range(DISTORTION_SIZE)])


@ti.func
def _jacobian(x, y, k):
    """Jacobian of the distorted by the undistorted position: entries xx, xy, yx, yy, row by row."""
    linearized = distort.linearize(x, y, k)
    xx, yx = linearized.jvp((1.0, 0.0, 0.0))
    xy, yy = linearized.jvp((0.0, 1.0, 0.0))
    return xx, xy, yx, yy


@ti.func
def _undistort(distorted, k):
    """Undistorted position in the plane at depth 1, and whether Newton's method converged."""
    x, y = distorted[0], distorted[1]
    for _ in range(NEWTON_STEPS):
        predicted_x, predicted_y = distort.value(x, y, k)
        xx, xy, yx, yy = _jacobian(x, y, k)
        determinant = xx * yy - xy * yx
        if determinant > MIN_DETERMINANT:
            x -= ((predicted_x - distorted[0]) * yy - (predicted_y - distorted[1]) * xy) / determinant
            y -= ((predicted_y - distorted[1]) * xx - (predicted_x - distorted[0]) * yx) / determinant
    predicted_x, predicted_y = distort.value(x, y, k)
    xx, xy, yx, yy = _jacobian(x, y, k)
    squared_residual = (predicted_x - distorted[0]) ** 2 + (predicted_y - distorted[1]) ** 2
    converged = squared_residual < MAX_SQUARED_RESIDUAL and xx * yy - xy * yx > MIN_DETERMINANT
    return vec2(x, y), converged


@ti.func
def _distorted_position(camera: ti.template(), r, column, row, samples):
    """Position of a (sub)pixel's centre in the distorted plane at depth 1."""
    u, v = (column + 0.5) / samples, (row + 0.5) / samples
    return vec2((u - camera[r, 2]) / camera[r, 0], (v - camera[r, 3]) / camera[r, 1])


@ti.kernel
def undistort_pixels(
    camera: ti.types.ndarray(), distortion: ti.types.ndarray(), width: int, height: int, samples: int,
    centres: ti.types.ndarray(),
):  # fmt: skip
    """Compute the screen positions of the pixels' centres in the undistorted plane.

    Reads camera [n, 16], distortion [n, 5], the size of the picture [pixels] and the samples per pixel side. Writes centres
    [M, samples height, samples width, 2]. Adjoint: ``undistort_pixels_adjoint``; tangent: ``undistort_pixels_jvp``.
    """
    scale = 2.0 / ti.min(width, height)
    images = centres.shape[0]
    for m, i, j in ti.ndrange(images, centres.shape[1], centres.shape[2]):
        r = row_of(m, camera.shape[0], images)
        k = _coefficients(distortion, row_of(m, distortion.shape[0], images))
        undistorted, converged = _undistort(_distorted_position(camera, r, j, i, samples), k)
        centre = vec2(UNDEFINED_POSITION, UNDEFINED_POSITION)
        if converged:
            centre = scale * vec2(
                camera[r, 0] * undistorted[0] + camera[r, 2] - 0.5 * width,
                camera[r, 1] * undistorted[1] + camera[r, 3] - 0.5 * height,
            )
        centres[m, i, j, 0] = centre[0]
        centres[m, i, j, 1] = centre[1]


@ti.func
def _undistorted_position(camera: ti.template(), r, centres: ti.template(), m, i, j, width, height, scale):
    """The undistorted position of a pixel from its screen position."""
    return vec2(
        (centres[m, i, j, 0] / scale + 0.5 * width - camera[r, 2]) / camera[r, 0],
        (centres[m, i, j, 1] / scale + 0.5 * height - camera[r, 3]) / camera[r, 1],
    )


@ti.kernel
def undistort_pixels_adjoint(
    serial: ti.template(), camera: ti.types.ndarray(), distortion: ti.types.ndarray(), width: int, height: int, samples: int,
    centres: ti.types.ndarray(), centres_bar: ti.types.ndarray(), camera_bar: ti.types.ndarray(),
    distortion_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``undistort_pixels``: adds to camera_bar and distortion_bar, once for each row of pixels."""
    scale = 2.0 / ti.min(width, height)
    images = centres.shape[0]
    ti.loop_config(serialize=serial)
    for m, i in ti.ndrange(images, centres.shape[1]):
        r = row_of(m, camera.shape[0], images)
        k_row = row_of(m, distortion.shape[0], images)
        k = _coefficients(distortion, k_row)
        intrinsics_bar, k_sum = ti.math.vec4(0), ti.Vector([0.0 for _ in range(DISTORTION_SIZE)])
        for j in range(centres.shape[2]):
            centre_bar_x, centre_bar_y = centres_bar[m, i, j, 0] * scale, centres_bar[m, i, j, 1] * scale
            if (centre_bar_x != 0 or centre_bar_y != 0) and centres[m, i, j, 0] != UNDEFINED_POSITION:
                undistorted = _undistorted_position(camera, r, centres, m, i, j, width, height, scale)
                distorted = _distorted_position(camera, r, j, i, samples)
                xx, xy, yx, yy = _jacobian(undistorted[0], undistorted[1], k)
                determinant = xx * yy - xy * yx
                undistorted_bar_x, undistorted_bar_y = centre_bar_x * camera[r, 0], centre_bar_y * camera[r, 1]
                # The inverse transposed Jacobian times the adjoint of the undistorted position.
                distorted_bar = vec2(
                    (undistorted_bar_x * yy - undistorted_bar_y * yx) / determinant,
                    (undistorted_bar_y * xx - undistorted_bar_x * xy) / determinant,
                )
                _x, _y, k_term = distort.vjp((undistorted[0], undistorted[1], k), (-distorted_bar[0], -distorted_bar[1]))
                k_sum += k_term
                intrinsics_bar += ti.math.vec4(
                    centre_bar_x * undistorted[0] - distorted_bar[0] * distorted[0] / camera[r, 0],
                    centre_bar_y * undistorted[1] - distorted_bar[1] * distorted[1] / camera[r, 1],
                    centre_bar_x - distorted_bar[0] / camera[r, 0], centre_bar_y - distorted_bar[1] / camera[r, 1],
                )  # fmt: skip
        for n in ti.static(range(4)):
            camera_bar[r, n] += intrinsics_bar[n]
        for n in ti.static(range(DISTORTION_SIZE)):
            distortion_bar[k_row, n] += k_sum[n]


@ti.kernel
def undistort_pixels_jvp(
    camera: ti.types.ndarray(), distortion: ti.types.ndarray(), width: int, height: int, samples: int,
    centres: ti.types.ndarray(), camera_dot: ti.types.ndarray(), distortion_dot: ti.types.ndarray(),
    centres_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``undistort_pixels``: writes centres_dot [M, K, H, W, 2] from camera_dot [K, n, 16] and
    distortion_dot [K, n, 5]."""
    scale = 2.0 / ti.min(width, height)
    images = centres.shape[0]
    for m, c, i, j in ti.ndrange(images, centres_dot.shape[1], centres.shape[1], centres.shape[2]):
        r = row_of(m, camera.shape[0], images)
        k_row = row_of(m, distortion.shape[0], images)
        k = _coefficients(distortion, k_row)
        k_dot = ti.Vector([distortion_dot[c, k_row, n] for n in range(DISTORTION_SIZE)])
        undistorted = _undistorted_position(camera, r, centres, m, i, j, width, height, scale)
        distorted = _distorted_position(camera, r, j, i, samples)
        distorted_x_dot, distorted_y_dot = distort.jvp((undistorted[0], undistorted[1], k), (0.0, 0.0, k_dot))
        rhs = vec2(
            -(camera_dot[c, r, 2] + distorted[0] * camera_dot[c, r, 0]) / camera[r, 0] - distorted_x_dot,
            -(camera_dot[c, r, 3] + distorted[1] * camera_dot[c, r, 1]) / camera[r, 1] - distorted_y_dot,
        )
        xx, xy, yx, yy = _jacobian(undistorted[0], undistorted[1], k)
        determinant = xx * yy - xy * yx
        result = vec2(0)
        if centres[m, i, j, 0] != UNDEFINED_POSITION:
            x_dot, y_dot = (rhs[0] * yy - rhs[1] * xy) / determinant, (rhs[1] * xx - rhs[0] * yx) / determinant
            result = scale * vec2(
                camera_dot[c, r, 0] * undistorted[0] + camera[r, 0] * x_dot + camera_dot[c, r, 2],
                camera_dot[c, r, 1] * undistorted[1] + camera[r, 1] * y_dot + camera_dot[c, r, 3],
            )
        for n in ti.static(range(2)):
            centres_dot[m, c, i, j, n] = result[n]
