"""Tangents of ground and background in all columns."""

from ti_render.arrays import BACKDROP_COLUMN, FLAG, GROUND, UNIFORM, Backdrop, BackdropArrays, TangentWork
from ti_render.backdrop.backdrop import (
    CHECKER,
    PLAIN,
    TEXTURED,
    backdrop_weights,
    background_quantity,
    checker_fraction,
    ground_albedo,
    ground_point,
    ground_quantity,
    ground_uv,
    image_taps,
    inverse_ground_depth,
    inverse_temperature,
    is_evenly_lit,
    pattern_arguments,
    pixel_centre,
    vec2,
    without_highlights,
)
from ti_render.rows import add_to3, get3, put3, row_of
from ti_render.shading.reflection import SCRATCH, light_columns
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.texture import sample_texture, texels_tangent
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def pixel_tangent(view: ti.template(), dots: ti.template(), m, c, y, x):
    """Tangent of a pixel centre's screen position in column ``c``."""
    result = vec2(0)
    if view.flags[FLAG.distorted] == 1:
        result = vec2(dots.centres[m, c, y, x, 0], dots.centres[m, c, y, x, 1])
    return result


@ti.func
def inverse_depth_tangent(view: ti.template(), dots: ti.template(), m, row, p, p_dot):
    """Tangent of ``inverse_ground_depth``; the uniforms' tangents are in row ``row``."""
    plane, plane_dot = uniform3(view.uniforms, m, UNIFORM.plane), uniform3(dots.uniforms, row, UNIFORM.plane)
    return plane_dot[2] + plane_dot[0] * p[0] + plane_dot[1] * p[1] + plane[0] * p_dot[0] + plane[1] * p_dot[1]


@ti.func
def inverse_temperature_tangent(view: ti.template(), dots: ti.template(), m, row, beta):
    """Tangent of ``inverse_temperature``."""
    return -beta * dots.uniforms[row, UNIFORM.gamma] / view.uniforms[m, UNIFORM.gamma]


@ti.func
def _pattern_tangent(backdrop: ti.template(), dots: ti.template(), m, row, c, point, point_dot):
    """Tangent of ``ground_albedo`` in column ``c``."""
    first_column, second_column = UNIFORM.ground + GROUND.color, UNIFORM.ground + GROUND.second_color
    first_color, second_color = uniform3(backdrop.uniforms, m, first_column), uniform3(backdrop.uniforms, m, second_column)
    albedo_dot = uniform3(dots.uniforms, row, first_column)
    pattern_args, pattern_args_dot = (
        pattern_arguments(backdrop.uniforms, m, point),
        pattern_arguments(dots.uniforms, row, point_dot),
    )
    if backdrop.flags[FLAG.ground_pattern] == CHECKER:
        checker_weight = checker_fraction.value(*pattern_args)
        checker_dot = checker_fraction.jvp(pattern_args, pattern_args_dot)
        second_color_dot = uniform3(dots.uniforms, row, second_column)
        albedo_dot = (
            second_color_dot + (albedo_dot - second_color_dot) * checker_weight + (first_color - second_color) * checker_dot
        )
    elif backdrop.flags[FLAG.ground_pattern] == TEXTURED:
        u, v = ground_uv.value(*pattern_args)
        u_dot, v_dot = ground_uv.jvp(pattern_args, pattern_args_dot)
        texel, colour_by_u, colour_by_v = sample_texture(backdrop, m, backdrop.flags[FLAG.ground_texture], u, v)
        texel_dot = colour_by_u * u_dot + colour_by_v * v_dot
        texel_dot += texels_tangent(backdrop, dots, c, m, backdrop.flags[FLAG.ground_texture], u, v)
        albedo_dot = albedo_dot * texel + first_color * texel_dot
    return albedo_dot


@ti.func
def _background_tangent(backdrop: ti.template(), dots: ti.template(), m, row, c, x, y, width, height):
    """Tangent of the background's colour."""
    result = vec3(0)
    if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
        if backdrop.flags[FLAG.background_image] == 1:
            i0, i1, j0, j1, fx, fy = image_taps(backdrop.background_image, x, y, width, height)
            image_row = row_of(m, dots.background_image.shape[1], backdrop.images)
            for k in ti.static(range(3)):
                upper = (
                    dots.background_image[c, image_row, j0, i0, k] * (1.0 - fx)
                    + dots.background_image[c, image_row, j0, i1, k] * fx
                )
                lower = (
                    dots.background_image[c, image_row, j1, i0, k] * (1.0 - fx)
                    + dots.background_image[c, image_row, j1, i1, k] * fx
                )
                result[k] = upper * (1.0 - fy) + lower * fy
        else:
            fraction = (y + 0.5) / height
            result = uniform3(dots.uniforms, row, UNIFORM.top) * (1.0 - fraction)
            result += uniform3(dots.uniforms, row, UNIFORM.bottom) * fraction
    return result


@ti.func
def _moves_ground(backdrop: ti.template(), dots: ti.template(), row):
    """Whether a column changes where on the ground the pixels' rays end, or the weights of ground and background.

    Reads row ``row`` of the uniforms' tangents: camera, plane, gamma, and the pattern's cell and origin.
    """
    size = ti.abs(dots.uniforms[row, UNIFORM.gamma])
    for k in ti.static(range(3)):
        for column in ti.static((UNIFORM.eye, UNIFORM.ray, UNIFORM.ray_x, UNIFORM.ray_y, UNIFORM.plane)):
            size += ti.abs(dots.uniforms[row, column + k])
        size += ti.abs(dots.uniforms[row, UNIFORM.ground + GROUND.cell + k])
    return not size == 0 or backdrop.flags[FLAG.distorted] == 1


@ti.func
def _changes_backdrop(backdrop: ti.template(), work: ti.template(), c):
    """Whether column ``c`` changes ground or background; shadows of bodies may."""
    return work.column_flags[c] & BACKDROP_COLUMN != 0 or backdrop.flags[FLAG.shadows] == 1


@ti.func
def _point_tangent(backdrop: ti.template(), dots: ti.template(), m, row, p, p_dot, ray, z, z_dot):
    """Tangent of ``ground_point``."""
    ray_dot = uniform3(dots.uniforms, row, UNIFORM.ray) + uniform3(dots.uniforms, row, UNIFORM.ray_x) * p[0]
    ray_dot += uniform3(dots.uniforms, row, UNIFORM.ray_y) * p[1]
    ray_dot += uniform3(backdrop.uniforms, m, UNIFORM.ray_x) * p_dot[0]
    ray_dot += uniform3(backdrop.uniforms, m, UNIFORM.ray_y) * p_dot[1]
    return uniform3(dots.uniforms, row, UNIFORM.eye) + ray * z_dot + z * ray_dot


@ti.func
def _put_pixel(pictures_dot: ti.template(), pixel, rgb_dot):
    for k in ti.static(range(3)):
        pictures_dot[pixel + k] = rgb_dot[k]
    pictures_dot[pixel + 3] = 0.0


@ti.func
def _even_tangent(
    backdrop: ti.template(), dots: ti.template(), work: ti.template(), first_scratch, m, c, x, y, width, height, ground_weight
):
    """Tangent of a pixel in column ``c`` from colour_dot of the ground, which is the same everywhere, or without ground."""
    result = vec3(0)
    if _changes_backdrop(backdrop, work, c):
        if ground_weight < 1:
            row = m * work.column_flags.shape[0] + c
            result += (1.0 - ground_weight) * _background_tangent(backdrop, dots, m, row, c, x, y, width, height)
        if ground_weight > 0:
            result += ground_weight * get3(work.scratch, first_scratch + c * SCRATCH.size + SCRATCH.colour_dot)
    return result


@kernel
def draw_backdrop_jvp(
    backdrop: Backdrop, iterations_per_row: int, dots: BackdropArrays, work: TangentWork, images: int, height: int, width: int,
    pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``draw_backdrop``: writes pictures_dot [M K H W 4], a flat array, with zeros in the last channel.

    A thread is a row of pixels. Where the ground's colour is the same everywhere, its tangents are computed at the first pixel
    of the ground.
    """
    columns = work.column_flags.shape[0]
    for index in range(images * height * iterations_per_row):
        if index % iterations_per_row > 0:
            continue
        first_scratch = index // iterations_per_row * columns * SCRATCH.size
        m, y = index // iterations_per_row // height, index // iterations_per_row % height
        beta = inverse_temperature(backdrop, m)
        is_even, is_shaded = is_evenly_lit(backdrop), 0
        for c in range(columns):
            if _moves_ground(backdrop, dots, m * columns + c):
                is_even = 0
        for x in range(width):
            p = pixel_centre(backdrop, m, x, y, width, height)
            inverse_depth = inverse_ground_depth(backdrop, m, p)
            _d, e_ground, e_background = backdrop_weights(backdrop, inverse_depth, beta, backdrop.nearest_only)
            ground_weight = e_ground / (e_ground + e_background)
            if ground_weight == 0 or is_even * is_shaded == 1:
                for c in range(columns):
                    row = m * columns + c
                    result = _even_tangent(backdrop, dots, work, first_scratch, m, c, x, y, width, height, ground_weight)
                    _put_pixel(pictures_dot, 4 * ((row * height + y) * width + x), result)
                continue
            background, ground, albedo, z = vec3(0), vec3(0), vec3(0), 1.0 / inverse_depth
            point, ray = ground_point(backdrop, m, p, z)
            if ground_weight < 1:
                ground = ground_quantity(backdrop, m, p, z)
                background = background_quantity(backdrop, m, x, y, width, height)
            if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
                albedo = ground_albedo(backdrop, m, point)
            for c in range(columns):
                result, row, offset = vec3(0), m * columns + c, first_scratch + c * SCRATCH.size
                if _changes_backdrop(backdrop, work, c):
                    if ground_weight < 1:
                        result += (1.0 - ground_weight) * _background_tangent(backdrop, dots, m, row, c, x, y, width, height)
                    point_dot, albedo_dot = vec3(0), uniform3(dots.uniforms, row, UNIFORM.ground + GROUND.color)
                    if backdrop.flags[FLAG.ground_pattern] != PLAIN or _moves_ground(backdrop, dots, row):
                        p_dot = pixel_tangent(backdrop, dots, m, c, y, x)
                        z_dot = -z * z * inverse_depth_tangent(backdrop, dots, m, row, p, p_dot)
                        beta_dot = inverse_temperature_tangent(backdrop, dots, m, row, beta)
                        exponent_dot = (backdrop.background_depth - z) * beta_dot - beta * z_dot
                        result += ground_weight * (1.0 - ground_weight) * exponent_dot * (ground - background)
                        if ti.static(backdrop.shading == DEPTH):
                            result += vec3(ground_weight * z_dot)
                        elif ti.static(backdrop.shading != NORMAL):
                            point_dot = _point_tangent(backdrop, dots, m, row, p, p_dot, ray, z, z_dot)
                            albedo_dot = _pattern_tangent(backdrop, dots, m, row, c, point, point_dot)
                    if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
                        put3(work.scratch, offset + SCRATCH.normal_dot, vec3(0))
                        put3(work.scratch, offset + SCRATCH.point_dot, point_dot)
                        put3(work.scratch, offset + SCRATCH.albedo_dot, albedo_dot)
                _put_pixel(pictures_dot, 4 * ((row * height + y) * width + x), result)
            if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
                light_columns(without_highlights(backdrop), dots, work, first_scratch, m, vec3(0.0, 0.0, 1.0), point, albedo, 0)
                is_shaded = 1
                for c in range(columns):
                    if _changes_backdrop(backdrop, work, c):
                        colour_dot = get3(work.scratch, first_scratch + c * SCRATCH.size + SCRATCH.colour_dot)
                        pixel = 4 * (((m * columns + c) * height + y) * width + x)
                        add_to3(pictures_dot, pixel, ground_weight * colour_dot)
