"""What a picture shows where no face is: a lit horizontal ground plane in front of a uniform background.

Per image nine numbers: the plane's inverse depth as an affine function of the screen position (3), the lit ground colour
(3), the background colour (3). A ray R^T ((u - cx) / fx, (v - cy) / fy, 1) from -R^T t meets the plane z = h at the
camera depth z_g = (h - o_z) / d_z, and d_z is affine in (u, v).
"""

from ti_render.project import camera_rotation, camera_translation
from ti_render.rows import row_of
from ti_render.shade import add_light, light_vector
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

BACKDROP_SIZE = 9


@ti.func
def _plane(camera: ti.template(), r, height_of_ground, width, height):
    """Ray's upward slope as c0 + cx sx + cy sy (a vector), and the plane's height over the camera."""
    rotation = camera_rotation(camera, r)
    half = 0.5 * ti.min(width, height)
    x = rotation[0, 2] / camera[r, 0]
    y = rotation[1, 2] / camera[r, 1]
    middle = x * (0.5 * width - camera[r, 2]) + y * (0.5 * height - camera[r, 3]) + rotation[2, 2]
    t = camera_translation(camera, r)
    rise = height_of_ground + rotation[0, 2] * t[0] + rotation[1, 2] * t[1] + rotation[2, 2] * t[2]
    return vec3(x * half, y * half, middle), rise


@ti.kernel
def backdrop(
    camera: ti.types.ndarray(), ambient: ti.types.ndarray(), light: ti.types.ndarray(), background: ti.types.ndarray(),
    ground: ti.types.ndarray(), with_ground: int, width: int, height: int, result: ti.types.ndarray(),
):  # fmt: skip
    """Prepare the backdrop of every image.

    Reads camera [n, 16], ambient [n, 3], light [n, 6], background [n, 3], ground [n, 4] (albedo rgb, height [m]). Writes
    result [M, 9]: inverse ground depth (coefficients of sx, sy, 1) [1/m], lit ground colour, background colour.
    Adjoint: ``backdrop_adjoint``, by hand.
    """
    images = result.shape[0]
    for m in range(images):
        r = row_of(m, background.shape[0], images)
        for k in ti.static(range(3)):
            result[m, k] = 0.0
            result[m, 3 + k] = 0.0
            result[m, 6 + k] = background[r, k]
        if with_ground == 1:
            row_ground = row_of(m, ground.shape[0], images)
            row_ambient = row_of(m, ambient.shape[0], images)
            row_light = row_of(m, light.shape[0], images)
            slope, rise = _plane(camera, row_of(m, camera.shape[0], images), ground[row_ground, 3], width, height)
            towards, _ = light_vector(light, row_light)
            cosine = ti.max(towards[2], 0.0)
            for k in ti.static(range(3)):
                # A camera in the plane sees none of it.
                if rise != 0:
                    result[m, k] = slope[k] / rise
                result[m, 3 + k] = ground[row_ground, k] * (
                    ambient[row_ambient, k] + light[row_light, 3 + k] * cosine
                )


@ti.kernel
def backdrop_adjoint(
    camera: ti.types.ndarray(), ambient: ti.types.ndarray(), light: ti.types.ndarray(), background: ti.types.ndarray(),
    ground: ti.types.ndarray(), with_ground: int, width: int, height: int, result_bar: ti.types.ndarray(),
    camera_bar: ti.types.ndarray(), ambient_bar: ti.types.ndarray(), light_bar: ti.types.ndarray(),
    background_bar: ti.types.ndarray(), ground_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``backdrop``: adds to the adjoints of its five inputs (their shapes). Reads result_bar [M, 9]."""
    images = result_bar.shape[0]
    for m in range(images):
        row_background = row_of(m, background.shape[0], images)
        for k in ti.static(range(3)):
            background_bar[row_background, k] += result_bar[m, 6 + k]
        if with_ground == 1:
            row_ground = row_of(m, ground.shape[0], images)
            row_ambient = row_of(m, ambient.shape[0], images)
            row_light = row_of(m, light.shape[0], images)
            towards, inverse_length = light_vector(light, row_light)
            cosine = ti.max(towards[2], 0.0)
            intensity_bar, cosine_bar = vec3(0), 0.0
            for k in ti.static(range(3)):
                g = result_bar[m, 3 + k]
                intensity = light[row_light, 3 + k]
                ground_bar[row_ground, k] += g * (ambient[row_ambient, k] + intensity * cosine)
                received_bar = g * ground[row_ground, k]
                ambient_bar[row_ambient, k] += received_bar
                intensity_bar[k] = received_bar * cosine
                cosine_bar += received_bar * intensity
            if cosine <= 0:
                cosine_bar = 0.0
            add_light(light_bar, row_light, towards, inverse_length, vec3(0.0, 0.0, cosine_bar), intensity_bar)
            plane_bar = vec3(result_bar[m, 0], result_bar[m, 1], result_bar[m, 2])
            r = row_of(m, camera.shape[0], images)
            slope, rise = _plane(camera, r, ground[row_ground, 3], width, height)
            if rise != 0 and (plane_bar[0] != 0 or plane_bar[1] != 0 or plane_bar[2] != 0):
                _add_plane(camera, camera_bar, r, width, height, plane_bar / rise, -slope.dot(plane_bar) / (rise * rise))
                ground_bar[row_ground, 3] += -slope.dot(plane_bar) / (rise * rise)


@ti.func
def _add_plane(camera: ti.template(), camera_bar: ti.template(), r, width, height, slope_bar, rise_bar):
    """Adjoint of ``_plane`` to the camera."""
    rotation = camera_rotation(camera, r)
    t = camera_translation(camera, r)
    half = 0.5 * ti.min(width, height)
    x_bar = slope_bar[0] * half + slope_bar[2] * (0.5 * width - camera[r, 2])
    y_bar = slope_bar[1] * half + slope_bar[2] * (0.5 * height - camera[r, 3])
    x, y = rotation[0, 2] / camera[r, 0], rotation[1, 2] / camera[r, 1]
    camera_bar[r, 0] -= x_bar * x / camera[r, 0]
    camera_bar[r, 1] -= y_bar * y / camera[r, 1]
    camera_bar[r, 2] -= slope_bar[2] * x
    camera_bar[r, 3] -= slope_bar[2] * y
    camera_bar[r, 6] += x_bar / camera[r, 0] + rise_bar * t[0]
    camera_bar[r, 9] += y_bar / camera[r, 1] + rise_bar * t[1]
    camera_bar[r, 12] += slope_bar[2] + rise_bar * t[2]
    for k in ti.static(range(3)):
        camera_bar[r, 13 + k] += rise_bar * rotation[k, 2]
