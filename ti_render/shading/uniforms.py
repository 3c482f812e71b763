"""Numbers that all fragments of an image share, gathered into one row per image: its uniforms (``arrays.UNIFORM``)."""

from ti_render.arrays import FLAG, GROUND, LIGHT, LIGHT_KINDS, MATERIAL, UNIFORM, Picture, UniformArrays
from ti_render.rows import is_finite, row_of
from ti_sim.base.bundles import kernel
from ti_sim.base.differentiable import Vector, differentiable, normalize
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

# Inputs that are copied to the uniforms, and their first columns.
COPIED_INPUTS = (
    ("softness", UNIFORM.sigma), ("ambient", UNIFORM.ambient), ("environment", UNIFORM.environment), ("ground", UNIFORM.ground),
    ("background", UNIFORM.top),
)  # fmt: skip
# Inputs with a row for each light, the flag with their number, and the first column that is copied as it is.
LIGHT_ROWS = tuple((kind, getattr(FLAG, kind), LIGHT.intensity if kind == "directional" else 0) for kind in LIGHT_KINDS)


def uniforms_size(lights: int, materials: int) -> int:
    """Columns of the uniforms for these numbers of lights and materials."""
    return UNIFORM.size + LIGHT.size * lights + MATERIAL.size * materials


@ti.func
def uniform3(uniforms: ti.template(), m, column):
    """Three neighbouring uniforms."""
    return vec3(uniforms[m, column], uniforms[m, column + 1], uniforms[m, column + 2])


@ti.func
def light_column(i):
    """First column of a light in the uniforms."""
    return UNIFORM.lights + LIGHT.size * i


@differentiable(constant=("half_width", "half_height", "half_side"))
def camera_frame(intrinsics, row0, row1, row2, translation, half_width, half_height, half_side):
    """Eye, ray of the picture's centre and its derivatives by the screen position, of a pinhole with rotation rows row0..2.

    Sizes in pixels: half of the picture's width, height and shorter side.
    """
    eye = -(row0 * translation[0] + row1 * translation[1] + row2 * translation[2])
    fx, fy, cx, cy = (intrinsics[i] for i in range(4))
    ray_x, ray_y = row0 * (half_side / fx), row1 * (half_side / fy)
    middle = row0 * ((half_width - cx) / fx) + row1 * ((half_height - cy) / fy) + row2
    return eye, middle, ray_x, ray_y


@differentiable()
def ground_plane(eye, ray, ray_x, ray_y, rise):
    """Inverse camera depth of the plane ``rise`` above the eye, as coefficients of (x, y, 1)."""
    return Vector([ray_x[2] / rise, ray_y[2] / rise, ray[2] / rise])


@differentiable()
def light_direction(direction):
    """Unit vector towards a light that travels along ``direction`` (zero for a zero direction)."""
    return -normalize(direction)


@ti.func
def _camera_vectors(camera: ti.template(), r):
    return (
        ti.math.vec4(camera[r, 0], camera[r, 1], camera[r, 2], camera[r, 3]),
        vec3(camera[r, 4], camera[r, 5], camera[r, 6]),
        vec3(camera[r, 7], camera[r, 8], camera[r, 9]),
        vec3(camera[r, 10], camera[r, 11], camera[r, 12]),
        vec3(camera[r, 13], camera[r, 14], camera[r, 15]),
    )


@ti.func
def _finite_direction(light: ti.template(), r, i):
    """Direction of a light, or zero where it is not finite."""
    d = vec3(light[r, i, 0], light[r, i, 1], light[r, i, 2])
    if not is_finite(d.dot(d)):
        d = vec3(0)
    return d


@ti.func
def _put(target: ti.template(), m, column, v):
    for k in ti.static(range(3)):
        target[m, column + k] = v[k]


@ti.func
def _copy(uniforms: ti.template(), rows: ti.template(), m, column):
    """Copy the row of an input that serves image m to the uniforms, from a column on."""
    if ti.static(len(rows.shape) == 3):
        _copy_rows(uniforms, rows, m, column, rows.shape[1], rows.shape[2], 0)
    else:
        for k in range(rows.shape[1]):
            uniforms[m, column + k] = rows[row_of(m, rows.shape[0], uniforms.shape[0]), k]


@ti.func
def _copy_rows(uniforms: ti.template(), rows: ti.template(), m, column, count, row_size, first):
    """Copy ``count`` rows, from column ``first`` on, to the uniforms, with a stride of ``row_size`` columns."""
    r = row_of(m, rows.shape[0], uniforms.shape[0])
    for i in range(count):
        for k in range(first, rows.shape[2]):
            uniforms[m, column + row_size * i + k] = rows[r, i, k]


@ti.func
def _add(rows_bar: ti.template(), uniforms_bar: ti.template(), m, column):
    """Adjoint of ``_copy``."""
    if ti.static(len(rows_bar.shape) == 3):
        _add_rows(rows_bar, uniforms_bar, m, column, rows_bar.shape[1], rows_bar.shape[2], 0)
    else:
        for k in range(rows_bar.shape[1]):
            rows_bar[row_of(m, rows_bar.shape[0], uniforms_bar.shape[0]), k] += uniforms_bar[m, column + k]


@ti.func
def _add_rows(rows_bar: ti.template(), uniforms_bar: ti.template(), m, column, count, row_size, first):
    """Adjoint of ``_copy_rows``."""
    r = row_of(m, rows_bar.shape[0], uniforms_bar.shape[0])
    for i in range(count):
        for k in range(first, rows_bar.shape[2]):
            rows_bar[r, i, k] += uniforms_bar[m, column + row_size * i + k]


@ti.func
def _copy_tangent(uniforms_dot: ti.template(), rows_dot: ti.template(), m, c, columns, column):
    """Tangent of ``_copy`` in column ``c``."""
    if ti.static(len(rows_dot.shape) == 4):
        _copy_rows_tangent(uniforms_dot, rows_dot, m, c, columns, column, rows_dot.shape[2], rows_dot.shape[3], 0)
    else:
        r = row_of(m, rows_dot.shape[1], uniforms_dot.shape[0] // columns)
        for k in range(rows_dot.shape[2]):
            uniforms_dot[m * columns + c, column + k] = rows_dot[c, r, k]


@ti.func
def _copy_rows_tangent(uniforms_dot: ti.template(), rows_dot: ti.template(), m, c, columns, column, count, row_size, first):
    """Tangent of ``_copy_rows`` in column ``c``."""
    r = row_of(m, rows_dot.shape[1], uniforms_dot.shape[0] // columns)
    for i in range(count):
        for k in range(first, rows_dot.shape[3]):
            uniforms_dot[m * columns + c, column + row_size * i + k] = rows_dot[c, r, i, k]


@ti.func
def _camera_frame_args(picture: ti.template(), camera: ti.template(), m, images):
    """Arguments of ``camera_frame``."""
    intrinsics, row0, row1, row2, translation = _camera_vectors(camera, row_of(m, camera.shape[0], images))
    return (
        intrinsics, row0, row1, row2, translation, 0.5 * picture.width, 0.5 * picture.height,
        0.5 * ti.min(picture.width, picture.height),
    )  # fmt: skip


@ti.func
def _ground_plane_args(uniforms: ti.template(), m, rise):
    """Arguments of ``ground_plane``."""
    return (
        uniform3(uniforms, m, UNIFORM.eye), uniform3(uniforms, m, UNIFORM.ray), uniform3(uniforms, m, UNIFORM.ray_x),
        uniform3(uniforms, m, UNIFORM.ray_y), rise,
    )  # fmt: skip


@kernel
def gather_uniforms(serial: ti.template(), picture: Picture, inputs: UniformArrays, uniforms: ti.types.ndarray()):
    """Gather the uniforms of every image: writes uniforms [M, U] (see ``arrays.UNIFORM``).

    Adjoint: ``gather_uniforms_adjoint``; tangent: ``gather_uniforms_jvp``.
    """
    images = uniforms.shape[0]
    ti.loop_config(serialize=serial)
    for m in range(images):
        eye, ray, ray_x, ray_y = camera_frame.value(*_camera_frame_args(picture, inputs.camera, m, images))
        _put(uniforms, m, UNIFORM.eye, eye)
        _put(uniforms, m, UNIFORM.ray, ray)
        _put(uniforms, m, UNIFORM.ray_x, ray_x)
        _put(uniforms, m, UNIFORM.ray_y, ray_y)
        _put(uniforms, m, UNIFORM.plane, vec3(0))
        rise = inputs.ground[row_of(m, inputs.ground.shape[0], images), GROUND.height] - eye[2]
        # The plane is invisible to a camera in it.
        if picture.flags[FLAG.ground] == 1 and rise != 0:
            plane = ground_plane.value(eye, ray, ray_x, ray_y, rise)
            _put(uniforms, m, UNIFORM.plane, plane)
        for name, column in ti.static(COPIED_INPUTS):
            _copy(uniforms, inputs.named(name), m, column)
        lights = 0
        for kind, flag, first in ti.static(LIGHT_ROWS):
            _copy_rows(uniforms, inputs.named(kind), m, light_column(lights), picture.flags[flag], LIGHT.size, first)
            lights += picture.flags[flag]
        for i in range(picture.flags[FLAG.directional]):
            light_row = row_of(m, inputs.directional.shape[0], images)
            to_light = light_direction.value(_finite_direction(inputs.directional, light_row, i))
            _put(uniforms, m, light_column(i), to_light)
        _copy_rows(uniforms, inputs.material, m, light_column(lights), picture.flags[FLAG.materials], MATERIAL.size, 0)


@kernel
def gather_uniforms_adjoint(
    serial: ti.template(), picture: Picture, camera: ti.types.ndarray(), directional: ti.types.ndarray(),
    uniforms: ti.types.ndarray(), uniforms_bar: ti.types.ndarray(), bars: UniformArrays,
):  # fmt: skip
    """Adjoint of ``gather_uniforms``: adds to ``bars``. Reads uniforms_bar [M, U]."""
    images = uniforms.shape[0]
    ti.loop_config(serialize=serial)
    for m in range(images):
        eye_bar, ray_bar = uniform3(uniforms_bar, m, UNIFORM.eye), uniform3(uniforms_bar, m, UNIFORM.ray)
        ray_x_bar, ray_y_bar = uniform3(uniforms_bar, m, UNIFORM.ray_x), uniform3(uniforms_bar, m, UNIFORM.ray_y)
        rise = uniforms[m, UNIFORM.ground + GROUND.height] - uniforms[m, UNIFORM.eye + 2]
        if picture.flags[FLAG.ground] == 1 and rise != 0:
            plane_bar = uniform3(uniforms_bar, m, UNIFORM.plane)
            _, ray_term, ray_x_term, ray_y_term, rise_bar = ground_plane.vjp(_ground_plane_args(uniforms, m, rise), plane_bar)
            ray_bar += ray_term
            ray_x_bar += ray_x_term
            ray_y_bar += ray_y_term
            eye_bar[2] -= rise_bar
            bars.ground[row_of(m, bars.ground.shape[0], images), GROUND.height] += rise_bar
        intrinsics_bar, row0_bar, row1_bar, row2_bar, translation_bar, _0, _1, _2 = camera_frame.vjp(
            _camera_frame_args(picture, camera, m, images), (eye_bar, ray_bar, ray_x_bar, ray_y_bar)
        )
        camera_row = row_of(m, camera.shape[0], images)
        for k in ti.static(range(4)):
            bars.camera[camera_row, k] += intrinsics_bar[k]
        for k in ti.static(range(3)):
            bars.camera[camera_row, 4 + k] += row0_bar[k]
            bars.camera[camera_row, 7 + k] += row1_bar[k]
            bars.camera[camera_row, 10 + k] += row2_bar[k]
            bars.camera[camera_row, 13 + k] += translation_bar[k]
        for name, column in ti.static(COPIED_INPUTS):
            _add(bars.named(name), uniforms_bar, m, column)
        lights = 0
        for kind, flag, first in ti.static(LIGHT_ROWS):
            _add_rows(bars.named(kind), uniforms_bar, m, light_column(lights), picture.flags[flag], LIGHT.size, first)
            lights += picture.flags[flag]
        for i in range(picture.flags[FLAG.directional]):
            light_row = row_of(m, directional.shape[0], images)
            direction_bar = light_direction.vjp(
                _finite_direction(directional, light_row, i), uniform3(uniforms_bar, m, light_column(i))
            )
            for k in ti.static(range(3)):
                bars.directional[light_row, i, k] += direction_bar[k]
        _add_rows(bars.material, uniforms_bar, m, light_column(lights), picture.flags[FLAG.materials], MATERIAL.size, 0)


@kernel
def gather_uniforms_jvp(
    picture: Picture, camera: ti.types.ndarray(), directional: ti.types.ndarray(), uniforms: ti.types.ndarray(),
    dots: UniformArrays, uniforms_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``gather_uniforms``: reads the inputs' tangents [K, ...], writes uniforms_dot [M K, U]."""
    images = uniforms.shape[0]
    columns = uniforms_dot.shape[0] // images
    for m, c in ti.ndrange(images, columns):
        row, camera_row = m * columns + c, row_of(m, camera.shape[0], images)
        intrinsics_dot, rows_dot, translation_dot = ti.math.vec4(0), mat3(0), vec3(0)
        for k in ti.static(range(4)):
            intrinsics_dot[k] = dots.camera[c, camera_row, k]
        for i, k in ti.static(ti.ndrange(3, 3)):
            rows_dot[i, k] = dots.camera[c, camera_row, 4 + 3 * i + k]
        for k in ti.static(range(3)):
            translation_dot[k] = dots.camera[c, camera_row, 13 + k]
        eye_dot, ray_dot, ray_x_dot, ray_y_dot = camera_frame.jvp(
            _camera_frame_args(picture, camera, m, images),
            (
                intrinsics_dot, vec3(rows_dot[0, 0], rows_dot[0, 1], rows_dot[0, 2]),
                vec3(rows_dot[1, 0], rows_dot[1, 1], rows_dot[1, 2]), vec3(rows_dot[2, 0], rows_dot[2, 1], rows_dot[2, 2]),
                translation_dot, 0.0, 0.0, 0.0,
            ),
        )  # fmt: skip
        _put(uniforms_dot, row, UNIFORM.eye, eye_dot)
        _put(uniforms_dot, row, UNIFORM.ray, ray_dot)
        _put(uniforms_dot, row, UNIFORM.ray_x, ray_x_dot)
        _put(uniforms_dot, row, UNIFORM.ray_y, ray_y_dot)
        _put(uniforms_dot, row, UNIFORM.plane, vec3(0))
        rise = uniforms[m, UNIFORM.ground + GROUND.height] - uniforms[m, UNIFORM.eye + 2]
        if picture.flags[FLAG.ground] == 1 and rise != 0:
            rise_dot = dots.ground[c, row_of(m, dots.ground.shape[1], images), GROUND.height] - eye_dot[2]
            plane_dot = ground_plane.jvp(
                _ground_plane_args(uniforms, m, rise), (eye_dot, ray_dot, ray_x_dot, ray_y_dot, rise_dot)
            )
            _put(uniforms_dot, row, UNIFORM.plane, plane_dot)
        for name, column in ti.static(COPIED_INPUTS):
            _copy_tangent(uniforms_dot, dots.named(name), m, c, columns, column)
        lights = 0
        for kind, flag, first in ti.static(LIGHT_ROWS):
            _copy_rows_tangent(
                uniforms_dot, dots.named(kind), m, c, columns, light_column(lights), picture.flags[flag], LIGHT.size, first
            )
            lights += picture.flags[flag]
        for i in range(picture.flags[FLAG.directional]):
            light_row = row_of(m, directional.shape[0], images)
            direction_dot = vec3(
                dots.directional[c, light_row, i, 0], dots.directional[c, light_row, i, 1], dots.directional[c, light_row, i, 2]
            )
            to_light_dot = light_direction.jvp(_finite_direction(directional, light_row, i), direction_dot)
            _put(uniforms_dot, row, light_column(i), to_light_dot)
        material_count = picture.flags[FLAG.materials]
        _copy_rows_tangent(uniforms_dot, dots.material, m, c, columns, light_column(lights), material_count, MATERIAL.size, 0)
