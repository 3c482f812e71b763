"""Adjoint of ground and background."""

from ti_render.arrays import FLAG, GROUND, UNIFORM, Backdrop, BackdropArrays
from ti_render.backdrop.backdrop import (
    CHECKER,
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
    pattern_arguments,
    pixel_centre,
    vec2,
    without_highlights,
)
from ti_render.rows import row_of
from ti_render.shading.reflection import add3, add_light_sums, light_surface_adjoint, make_light_sums
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.texture import add_texels, sample_texture
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _pattern_adjoint(backdrop: ti.template(), bars: ti.template(), row, m, point, albedo_bar):
    """Adjoint of ``ground_albedo``: adds to row ``row`` of the uniforms' adjoints and to the texels', returns the point's."""
    first_column, second_column = UNIFORM.ground + GROUND.color, UNIFORM.ground + GROUND.second_color
    first_color, pattern_args = uniform3(backdrop.uniforms, m, first_column), pattern_arguments(backdrop.uniforms, m, point)
    pattern_args_bar = ti.Vector([0.0, 0.0, 0.0, 0.0, 0.0])
    if backdrop.flags[FLAG.ground_pattern] == CHECKER:
        checker_weight = checker_fraction.value(*pattern_args)
        add3(bars.uniforms, row, first_column, albedo_bar * checker_weight)
        add3(bars.uniforms, row, second_column, albedo_bar * (1.0 - checker_weight))
        checker_args_bar = checker_fraction.vjp(
            pattern_args, albedo_bar.dot(first_color - uniform3(backdrop.uniforms, m, second_column))
        )
        for k in ti.static(range(5)):
            pattern_args_bar[k] = checker_args_bar[k]
    elif backdrop.flags[FLAG.ground_pattern] == TEXTURED:
        u, v = ground_uv.value(*pattern_args)
        texel, colour_by_u, colour_by_v = sample_texture(backdrop, m, backdrop.flags[FLAG.ground_texture], u, v)
        add3(bars.uniforms, row, first_column, albedo_bar * texel)
        texel_bar = albedo_bar * first_color
        add_texels(backdrop, bars, m, backdrop.flags[FLAG.ground_texture], u, v, texel_bar)
        uv_args_bar = ground_uv.vjp(pattern_args, (colour_by_u.dot(texel_bar), colour_by_v.dot(texel_bar)))
        for k in ti.static(range(5)):
            pattern_args_bar[k] = uv_args_bar[k]
    else:
        add3(bars.uniforms, row, first_column, albedo_bar)
    cell_bar = vec3(pattern_args_bar[2], pattern_args_bar[3], pattern_args_bar[4])
    add3(bars.uniforms, row, UNIFORM.ground + GROUND.cell, cell_bar)
    return vec3(pattern_args_bar[0], pattern_args_bar[1], 0.0)


@ti.func
def _background_adjoint(backdrop: ti.template(), bars: ti.template(), m, x, y, width, height, background_bar):
    """Adjoint of the background's colour: adds to that of the image, or returns those of the gradient's ends."""
    top_bar, bottom_bar = vec3(0), vec3(0)
    if backdrop.flags[FLAG.background_image] == 1:
        i0, i1, j0, j1, fx, fy = image_taps(backdrop.background_image, x, y, width, height)
        image_row = row_of(m, backdrop.background_image.shape[0], backdrop.images)
        for k in ti.static(range(3)):
            bars.background_image[image_row, j0, i0, k] += background_bar[k] * (1.0 - fx) * (1.0 - fy)
            bars.background_image[image_row, j0, i1, k] += background_bar[k] * fx * (1.0 - fy)
            bars.background_image[image_row, j1, i0, k] += background_bar[k] * (1.0 - fx) * fy
            bars.background_image[image_row, j1, i1, k] += background_bar[k] * fx * fy
    else:
        fraction = (y + 0.5) / height
        top_bar = background_bar * (1.0 - fraction)
        bottom_bar = background_bar * fraction
    return top_bar, bottom_bar


@kernel
def draw_backdrop_adjoint(
    serial: ti.template(), backdrop: Backdrop, iterations_per_row: int, pictures_bar: ti.types.ndarray(), bars: BackdropArrays
):
    """Adjoint of ``draw_backdrop`` from pictures_bar [M, H, W, 3].

    Adds to ``bars``, of which the uniforms have a row [M H, U] for each row of pixels, which one thread owns.
    """
    images, height, width = pictures_bar.shape[0], pictures_bar.shape[1], pictures_bar.shape[2]
    ti.loop_config(serialize=serial)
    for index in range(images * height * iterations_per_row):
        if index % iterations_per_row > 0:
            continue
        row = index // iterations_per_row
        m, y = row // height, row % height
        beta = inverse_temperature(backdrop, m)
        beta_bar = 0.0
        eye_bar, ray_bar, ray_x_bar, ray_y_bar, plane_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0)
        top_bar, bottom_bar = vec3(0), vec3(0)
        light_sums = make_light_sums()
        for x in range(width):
            colour_bar = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
            if colour_bar[0] != 0 or colour_bar[1] != 0 or colour_bar[2] != 0:
                p = pixel_centre(backdrop, m, x, y, width, height)
                inverse_depth = inverse_ground_depth(backdrop, m, p)
                _d, e_ground, e_background = backdrop_weights(backdrop, inverse_depth, beta, backdrop.nearest_only)
                ground_weight = e_ground / (e_ground + e_background)
                if ground_weight < 1:
                    if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
                        pixel_top_bar, pixel_bottom_bar = _background_adjoint(
                            backdrop, bars, m, x, y, width, height, colour_bar * (1.0 - ground_weight)
                        )
                        top_bar += pixel_top_bar
                        bottom_bar += pixel_bottom_bar
                if ground_weight > 0:
                    z = 1.0 / inverse_depth
                    z_bar, p_bar = 0.0, vec2(0)
                    if ground_weight < 1:
                        ground, background = (
                            ground_quantity(backdrop, m, p, z),
                            background_quantity(backdrop, m, x, y, width, height),
                        )
                        exponent_bar = colour_bar.dot(ground - background) * (ground_weight * (1.0 - ground_weight))
                        z_bar -= exponent_bar * beta
                        beta_bar += exponent_bar * (backdrop.background_depth - z)
                    if ti.static(backdrop.shading == DEPTH):
                        z_bar += ground_weight * colour_bar.sum()
                    elif ti.static(backdrop.shading != NORMAL):
                        point, ray = ground_point(backdrop, m, p, z)
                        albedo = ground_albedo(backdrop, m, point)
                        _n, point_bar, albedo_bar = light_surface_adjoint(
                            without_highlights(backdrop),
                            bars,
                            row,
                            light_sums,
                            m,
                            vec3(0.0, 0.0, 1.0),
                            point,
                            albedo,
                            0,
                            colour_bar * ground_weight,
                        )
                        point_bar += _pattern_adjoint(backdrop, bars, row, m, point, albedo_bar)
                        eye_bar += point_bar
                        ray_bar += point_bar * z
                        ray_x_bar += point_bar * (z * p[0])
                        ray_y_bar += point_bar * (z * p[1])
                        z_bar += point_bar.dot(ray)
                        ray_x, ray_y = (
                            uniform3(backdrop.uniforms, m, UNIFORM.ray_x),
                            uniform3(backdrop.uniforms, m, UNIFORM.ray_y),
                        )
                        p_bar += vec2(point_bar.dot(ray_x), point_bar.dot(ray_y)) * z
                    inverse_depth_bar = -z_bar * z * z
                    plane_bar += vec3(p[0], p[1], 1.0) * inverse_depth_bar
                    if backdrop.flags[FLAG.distorted] == 1:
                        plane = uniform3(backdrop.uniforms, m, UNIFORM.plane)
                        p_bar += vec2(plane[0], plane[1]) * inverse_depth_bar
                        bars.centres[m, y, x, 0] += p_bar[0]
                        bars.centres[m, y, x, 1] += p_bar[1]
        add_light_sums(without_highlights(backdrop), bars, row, 0, light_sums)
        add3(bars.uniforms, row, UNIFORM.eye, eye_bar)
        add3(bars.uniforms, row, UNIFORM.ray, ray_bar)
        add3(bars.uniforms, row, UNIFORM.ray_x, ray_x_bar)
        add3(bars.uniforms, row, UNIFORM.ray_y, ray_y_bar)
        add3(bars.uniforms, row, UNIFORM.plane, plane_bar)
        add3(bars.uniforms, row, UNIFORM.top, top_bar)
        add3(bars.uniforms, row, UNIFORM.bottom, bottom_bar)
        gamma_bar = beta_bar * beta / backdrop.uniforms[m, UNIFORM.gamma]
        bars.uniforms[row, UNIFORM.gamma] = bars.uniforms[row, UNIFORM.gamma] - gamma_bar
