"""Numbers that all fragments of an image share, gathered into one row per image: its uniforms.

Row m holds, from the column named: the eye [m], the world ray of the picture's middle and its change with the screen position
(a point at camera depth z is eye + z (ray + x ray_x + y ray_y)), the ground's inverse depth as an affine function of the screen
position, softness, ambient light, environment, ground, background, and then the directional lights (unit vector towards the
light, intensity), the point lights (position, intensity) and the materials (specular rgb, shininess).
"""

from ti_render.rows import is_finite, row_of
from ti_sim.base.differentiable import Vector, differentiable, normalize
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

EYE, RAY, RAY_X, RAY_Y, PLANE, SOFTNESS, AMBIENT, ENVIRONMENT, GROUND, BACKGROUND, LIGHTS = (
    0, 3, 6, 9, 12, 15, 17, 20, 47, 57, 63,
)  # fmt: skip
LIGHT_SIZE, MATERIAL_SIZE, GROUND_SIZE = 6, 4, 10
GROUND_HEIGHT = GROUND + 3


def uniforms_size(directional: int, point: int, materials: int) -> int:
    """Columns of the uniforms for these numbers of lights and materials."""
    return LIGHTS + LIGHT_SIZE * (directional + point) + MATERIAL_SIZE * materials


@ti.func
def uniform3(uniforms: ti.template(), m, column):
    """Three neighbouring uniforms."""
    return vec3(uniforms[m, column], uniforms[m, column + 1], uniforms[m, column + 2])


@differentiable(constant=("half_width", "half_height", "half"))
def camera_frame(intrinsics, row0, row1, row2, translation, half_width, half_height, half):
    """Eye, ray of the picture's middle and its derivatives by the screen position, of a pinhole with rotation rows row0..2."""
    eye = -(row0 * translation[0] + row1 * translation[1] + row2 * translation[2])
    fx, fy, cx, cy = (intrinsics[i] for i in range(4))
    ray_x, ray_y = row0 * (half / fx), row1 * (half / fy)
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
def _camera_parts(camera: ti.template(), r):
    return (
        ti.math.vec4(camera[r, 0], camera[r, 1], camera[r, 2], camera[r, 3]),
        vec3(camera[r, 4], camera[r, 5], camera[r, 6]),
        vec3(camera[r, 7], camera[r, 8], camera[r, 9]),
        vec3(camera[r, 10], camera[r, 11], camera[r, 12]),
        vec3(camera[r, 13], camera[r, 14], camera[r, 15]),
    )


@ti.func
def _sound_direction(light: ti.template(), r, i):
    """Direction of a light, or zero where it is not finite."""
    d = vec3(light[r, i, 0], light[r, i, 1], light[r, i, 2])
    if not is_finite(d.dot(d)):
        d = vec3(0)
    return d


@ti.func
def _put(target: ti.template(), m, column, v):
    for k in ti.static(range(3)):
        target[m, column + k] = v[k]


@ti.kernel
def gather_uniforms(
    serial: ti.template(),
    camera: ti.types.ndarray(), softness: ti.types.ndarray(), ambient: ti.types.ndarray(), environment: ti.types.ndarray(),
    ground: ti.types.ndarray(), background: ti.types.ndarray(), directional: ti.types.ndarray(), point: ti.types.ndarray(),
    material: ti.types.ndarray(), directionals: int, points: int, materials: int, with_ground: int, width: int, height: int,
    uniforms: ti.types.ndarray(),
):  # fmt: skip
    """Gather the uniforms of every image.

    Reads the arrays of ``RenderInputs`` of these names (dummies where the counts are zero) and the picture's size [pixels].
    Writes uniforms [M, U]. Adjoint: ``gather_uniforms_adjoint``; tangent: ``gather_uniforms_jvp``.
    """
    images = uniforms.shape[0]
    ti.loop_config(serialize=serial)
    for m in range(images):
        intrinsics, row0, row1, row2, translation = _camera_parts(camera, row_of(m, camera.shape[0], images))
        eye, ray, ray_x, ray_y = camera_frame.value(
                intrinsics, row0, row1, row2, translation, 0.5 * width, 0.5 * height, 0.5 * ti.min(width, height)
            )
        _put(uniforms, m, EYE, eye)
        _put(uniforms, m, RAY, ray)
        _put(uniforms, m, RAY_X, ray_x)
        _put(uniforms, m, RAY_Y, ray_y)
        _put(uniforms, m, PLANE, vec3(0))
        g = row_of(m, ground.shape[0], images)
        rise = ground[g, 3] - eye[2]
        # A camera in the plane sees none of it.
        if with_ground == 1 and rise != 0:
            plane = ground_plane.value(eye, ray, ray_x, ray_y, rise)
            _put(uniforms, m, PLANE, plane)
        for k in ti.static(range(2)):
            uniforms[m, SOFTNESS + k] = softness[row_of(m, softness.shape[0], images), k]
        for k in ti.static(range(3)):
            uniforms[m, AMBIENT + k] = ambient[row_of(m, ambient.shape[0], images), k]
        for i, k in ti.ndrange(9, 3):
            uniforms[m, ENVIRONMENT + 3 * i + k] = environment[row_of(m, environment.shape[0], images), i, k]
        for k in range(GROUND_SIZE):
            uniforms[m, GROUND + k] = ground[g, k]
        for i, k in ti.ndrange(2, 3):
            uniforms[m, BACKGROUND + 3 * i + k] = background[row_of(m, background.shape[0], images), i, k]
        for i in range(directionals):
            r = row_of(m, directional.shape[0], images)
            towards = light_direction.value(_sound_direction(directional, r, i))
            _put(uniforms, m, LIGHTS + LIGHT_SIZE * i, towards)
            for k in ti.static(range(3)):
                uniforms[m, LIGHTS + LIGHT_SIZE * i + 3 + k] = directional[r, i, 3 + k]
        for i, k in ti.ndrange(points, LIGHT_SIZE):
            uniforms[m, LIGHTS + LIGHT_SIZE * (directionals + i) + k] = point[row_of(m, point.shape[0], images), i, k]
        for i, k in ti.ndrange(materials, MATERIAL_SIZE):
            uniforms[m, LIGHTS + LIGHT_SIZE * (directionals + points) + MATERIAL_SIZE * i + k] = material[
                row_of(m, material.shape[0], images), i, k
            ]


@ti.kernel
def gather_uniforms_adjoint(
    serial: ti.template(),
    camera: ti.types.ndarray(), ground: ti.types.ndarray(), directional: ti.types.ndarray(), directionals: int, points: int,
    materials: int, with_ground: int, width: int, height: int, uniforms: ti.types.ndarray(), uniforms_bar: ti.types.ndarray(),
    camera_bar: ti.types.ndarray(), softness_bar: ti.types.ndarray(), ambient_bar: ti.types.ndarray(),
    environment_bar: ti.types.ndarray(), ground_bar: ti.types.ndarray(), background_bar: ti.types.ndarray(),
    directional_bar: ti.types.ndarray(), point_bar: ti.types.ndarray(), material_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``gather_uniforms``: adds to the adjoints of its inputs (their shapes). Reads uniforms_bar [M, U]."""
    images = uniforms.shape[0]
    ti.loop_config(serialize=serial)
    for m in range(images):
        r = row_of(m, camera.shape[0], images)
        g = row_of(m, ground.shape[0], images)
        eye_bar, ray_bar = uniform3(uniforms_bar, m, EYE), uniform3(uniforms_bar, m, RAY)
        ray_x_bar, ray_y_bar = uniform3(uniforms_bar, m, RAY_X), uniform3(uniforms_bar, m, RAY_Y)
        rise = uniforms[m, GROUND_HEIGHT] - uniforms[m, EYE + 2]
        if with_ground == 1 and rise != 0:
            _, more, more_x, more_y, rise_bar = ground_plane.vjp(
                    (uniform3(uniforms, m, EYE), uniform3(uniforms, m, RAY), uniform3(uniforms, m, RAY_X),
                     uniform3(uniforms, m, RAY_Y), rise),
                    uniform3(uniforms_bar, m, PLANE),
                )  # fmt: skip
            ray_bar += more
            ray_x_bar += more_x
            ray_y_bar += more_y
            eye_bar[2] -= rise_bar
            ground_bar[g, 3] += rise_bar
        intrinsics, row0, row1, row2, translation = _camera_parts(camera, r)
        intrinsics_bar, row0_bar, row1_bar, row2_bar, translation_bar, _0, _1, _2 = camera_frame.vjp(
                (intrinsics, row0, row1, row2, translation, 0.5 * width, 0.5 * height, 0.5 * ti.min(width, height)),
                (eye_bar, ray_bar, ray_x_bar, ray_y_bar),
            )
        for k in ti.static(range(4)):
            camera_bar[r, k] += intrinsics_bar[k]
        for k in ti.static(range(3)):
            camera_bar[r, 4 + k] += row0_bar[k]
            camera_bar[r, 7 + k] += row1_bar[k]
            camera_bar[r, 10 + k] += row2_bar[k]
            camera_bar[r, 13 + k] += translation_bar[k]
        for k in ti.static(range(2)):
            softness_bar[row_of(m, softness_bar.shape[0], images), k] += uniforms_bar[m, SOFTNESS + k]
        for k in ti.static(range(3)):
            ambient_bar[row_of(m, ambient_bar.shape[0], images), k] += uniforms_bar[m, AMBIENT + k]
        for i, k in ti.ndrange(9, 3):
            environment_bar[row_of(m, environment_bar.shape[0], images), i, k] += uniforms_bar[m, ENVIRONMENT + 3 * i + k]
        for k in range(GROUND_SIZE):
            ground_bar[g, k] += uniforms_bar[m, GROUND + k]
        for i, k in ti.ndrange(2, 3):
            background_bar[row_of(m, background_bar.shape[0], images), i, k] += uniforms_bar[m, BACKGROUND + 3 * i + k]
        for i in range(directionals):
            d = row_of(m, directional.shape[0], images)
            direction_bar = light_direction.vjp(
                    _sound_direction(directional, d, i), uniform3(uniforms_bar, m, LIGHTS + LIGHT_SIZE * i)
                )
            for k in ti.static(range(3)):
                directional_bar[d, i, k] += direction_bar[k]
                directional_bar[d, i, 3 + k] += uniforms_bar[m, LIGHTS + LIGHT_SIZE * i + 3 + k]
        for i, k in ti.ndrange(points, LIGHT_SIZE):
            point_bar[row_of(m, point_bar.shape[0], images), i, k] += uniforms_bar[
                m, LIGHTS + LIGHT_SIZE * (directionals + i) + k
            ]
        for i, k in ti.ndrange(materials, MATERIAL_SIZE):
            material_bar[row_of(m, material_bar.shape[0], images), i, k] += uniforms_bar[
                m, LIGHTS + LIGHT_SIZE * (directionals + points) + MATERIAL_SIZE * i + k
            ]


@ti.kernel
def gather_uniforms_jvp(
    camera: ti.types.ndarray(), directional: ti.types.ndarray(), directionals: int, points: int, materials: int,
    with_ground: int, width: int, height: int, uniforms: ti.types.ndarray(),
    camera_dot: ti.types.ndarray(), softness_dot: ti.types.ndarray(), ambient_dot: ti.types.ndarray(),
    environment_dot: ti.types.ndarray(), ground_dot: ti.types.ndarray(), background_dot: ti.types.ndarray(),
    directional_dot: ti.types.ndarray(), point_dot: ti.types.ndarray(), material_dot: ti.types.ndarray(),
    uniforms_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``gather_uniforms``: reads the inputs' tangents [K, ...], writes uniforms_dot [M K, U]."""
    images = uniforms.shape[0]
    columns = uniforms_dot.shape[0] // images
    for m, c in ti.ndrange(images, columns):
        r = row_of(m, camera.shape[0], images)
        g = row_of(m, ground_dot.shape[1], images)
        intrinsics, row0, row1, row2, translation = _camera_parts(camera, r)
        rows_dot = mat3(0)
        translation_dot, intrinsics_dot = vec3(0), ti.math.vec4(0)
        for k in ti.static(range(4)):
            intrinsics_dot[k] = camera_dot[c, r, k]
        for i, k in ti.static(ti.ndrange(3, 3)):
            rows_dot[i, k] = camera_dot[c, r, 4 + 3 * i + k]
        for k in ti.static(range(3)):
            translation_dot[k] = camera_dot[c, r, 13 + k]
        eye_dot, ray_dot, ray_x_dot, ray_y_dot = camera_frame.jvp(
                (intrinsics, row0, row1, row2, translation, 0.5 * width, 0.5 * height, 0.5 * ti.min(width, height)),
                (
                    intrinsics_dot, vec3(rows_dot[0, 0], rows_dot[0, 1], rows_dot[0, 2]),
                    vec3(rows_dot[1, 0], rows_dot[1, 1], rows_dot[1, 2]),
                    vec3(rows_dot[2, 0], rows_dot[2, 1], rows_dot[2, 2]), translation_dot, 0.0, 0.0, 0.0,
                ),
            )  # fmt: skip
        for k in ti.static(range(3)):
            uniforms_dot[m * columns + c, EYE + k] = eye_dot[k]
            uniforms_dot[m * columns + c, RAY + k] = ray_dot[k]
            uniforms_dot[m * columns + c, RAY_X + k] = ray_x_dot[k]
            uniforms_dot[m * columns + c, RAY_Y + k] = ray_y_dot[k]
            uniforms_dot[m * columns + c, PLANE + k] = 0.0
        rise = uniforms[m, GROUND_HEIGHT] - uniforms[m, EYE + 2]
        if with_ground == 1 and rise != 0:
            plane_dot = ground_plane.jvp(
                    (uniform3(uniforms, m, EYE), uniform3(uniforms, m, RAY), uniform3(uniforms, m, RAY_X),
                     uniform3(uniforms, m, RAY_Y), rise),
                    (eye_dot, ray_dot, ray_x_dot, ray_y_dot, ground_dot[c, g, 3] - eye_dot[2]),
                )  # fmt: skip
            for k in ti.static(range(3)):
                uniforms_dot[m * columns + c, PLANE + k] = plane_dot[k]
        for k in ti.static(range(2)):
            uniforms_dot[m * columns + c, SOFTNESS + k] = softness_dot[c, row_of(m, softness_dot.shape[1], images), k]
        for k in ti.static(range(3)):
            uniforms_dot[m * columns + c, AMBIENT + k] = ambient_dot[c, row_of(m, ambient_dot.shape[1], images), k]
        for i, k in ti.ndrange(9, 3):
            uniforms_dot[m * columns + c, ENVIRONMENT + 3 * i + k] = environment_dot[
                c, row_of(m, environment_dot.shape[1], images), i, k
            ]
        for k in range(GROUND_SIZE):
            uniforms_dot[m * columns + c, GROUND + k] = ground_dot[c, g, k]
        for i, k in ti.ndrange(2, 3):
            uniforms_dot[m * columns + c, BACKGROUND + 3 * i + k] = background_dot[
                c, row_of(m, background_dot.shape[1], images), i, k
            ]
        for i in range(directionals):
            d = row_of(m, directional.shape[0], images)
            direction_dot = vec3(directional_dot[c, d, i, 0], directional_dot[c, d, i, 1], directional_dot[c, d, i, 2])
            towards_dot = light_direction.jvp(_sound_direction(directional, d, i), direction_dot)
            for k in ti.static(range(3)):
                uniforms_dot[m * columns + c, LIGHTS + LIGHT_SIZE * i + k] = towards_dot[k]
                uniforms_dot[m * columns + c, LIGHTS + LIGHT_SIZE * i + 3 + k] = directional_dot[c, d, i, 3 + k]
        for i, k in ti.ndrange(points, LIGHT_SIZE):
            uniforms_dot[m * columns + c, LIGHTS + LIGHT_SIZE * (directionals + i) + k] = point_dot[
                c, row_of(m, point_dot.shape[1], images), i, k
            ]
        for i, k in ti.ndrange(materials, MATERIAL_SIZE):
            uniforms_dot[m * columns + c, LIGHTS + LIGHT_SIZE * (directionals + points) + MATERIAL_SIZE * i + k] = material_dot[
                c, row_of(m, material_dot.shape[1], images), i, k
            ]
