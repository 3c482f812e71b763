"""Adjoint of ground and background."""

from ti_render.arrays import FLAG, GROUND, UNIFORM, Backdrop, BackdropArrays
from ti_render.backdrop.backdrop import (
    CHECKER,
    TEXTURED,
    backdrop_weights,
    checker_share,
    depth_rate,
    far_colour,
    ground_albedo,
    ground_colour,
    ground_place,
    ground_point,
    ground_uv,
    image_taps,
    inverse_ground_depth,
    pixel_centre,
    vec2,
    without_highlights,
)
from ti_render.rows import row_of
from ti_render.shading.reflection import add3, light_surface_adjoint
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.texture import add_texels, sample_texture
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _pattern_adjoint(backdrop: ti.template(), bars: ti.template(), row, m, point, albedo_bar):
    """Adjoint of ``ground_albedo``: adds to row ``row`` of the uniforms' adjoints and to the texels', returns the point's."""
    ground, second_color = UNIFORM.ground + GROUND.color, UNIFORM.ground + GROUND.second_color
    first_color, cell_position = uniform3(backdrop.uniforms, m, ground), ground_place(backdrop.uniforms, m, point)
    position_bar = ti.Vector([0.0, 0.0, 0.0, 0.0, 0.0])
    if backdrop.flags[FLAG.ground_pattern] == CHECKER:
        checker_weight = checker_share.value(*cell_position)
        add3(bars.uniforms, row, ground, albedo_bar * checker_weight)
        add3(bars.uniforms, row, second_color, albedo_bar * (1.0 - checker_weight))
        g = checker_share.vjp(cell_position, albedo_bar.dot(first_color - uniform3(backdrop.uniforms, m, second_color)))
        for k in ti.static(range(5)):
            position_bar[k] = g[k]
    elif backdrop.flags[FLAG.ground_pattern] == TEXTURED:
        u, v = ground_uv.value(*cell_position)
        texel, along_u, along_v = sample_texture(backdrop, m, backdrop.flags[FLAG.ground_texture], u, v)
        add3(bars.uniforms, row, ground, albedo_bar * texel)
        texel_bar = albedo_bar * first_color
        add_texels(backdrop, bars, m, backdrop.flags[FLAG.ground_texture], u, v, texel_bar)
        h = ground_uv.vjp(cell_position, (along_u.dot(texel_bar), along_v.dot(texel_bar)))
        for k in ti.static(range(5)):
            position_bar[k] = h[k]
    else:
        add3(bars.uniforms, row, ground, albedo_bar)
    cell_bar = vec3(position_bar[2], position_bar[3], position_bar[4])
    add3(bars.uniforms, row, UNIFORM.ground + GROUND.cell, cell_bar)
    return vec3(position_bar[0], position_bar[1], 0.0)


@ti.func
def _far_adjoint(backdrop: ti.template(), bars: ti.template(), m, x, y, width, height, far_bar):
    """Adjoint of the background's colour: adds to that of the image, or returns those of the gradient's ends."""
    top_bar, bottom_bar = vec3(0), vec3(0)
    if backdrop.flags[FLAG.background_image] == 1:
        i0, i1, j0, j1, fx, fy = image_taps(backdrop.background_image, x, y, width, height)
        r = row_of(m, backdrop.background_image.shape[0], backdrop.images)
        for k in ti.static(range(3)):
            bars.background_image[r, j0, i0, k] += far_bar[k] * (1.0 - fx) * (1.0 - fy)
            bars.background_image[r, j0, i1, k] += far_bar[k] * fx * (1.0 - fy)
            bars.background_image[r, j1, i0, k] += far_bar[k] * (1.0 - fx) * fy
            bars.background_image[r, j1, i1, k] += far_bar[k] * fx * fy
    else:
        f = (y + 0.5) / height
        top_bar = far_bar * (1.0 - f)
        bottom_bar = far_bar * f
    return top_bar, bottom_bar


@kernel
def draw_backdrop_adjoint(
    serial: ti.template(), backdrop: Backdrop, spread: int, pictures_bar: ti.types.ndarray(), bars: BackdropArrays
):
    """Adjoint of ``draw_backdrop`` from pictures_bar [M, H, W, 3].

    Adds to ``bars``, of which the uniforms have a row [M H, U] for each row of pixels, which one thread owns.
    """
    images, height, width = pictures_bar.shape[0], pictures_bar.shape[1], pictures_bar.shape[2]
    ti.loop_config(serialize=serial)
    for index in range(images * height * spread):
        if index % spread > 0:
            continue
        row = index // spread
        m, y = row // height, row % height
        rate = depth_rate(backdrop, m)
        rate_bar = 0.0
        eye_bar, ray_bar, ray_x_bar, ray_y_bar, plane_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0)
        top_bar, bottom_bar = vec3(0), vec3(0)
        for x in range(width):
            g = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
            if g[0] != 0 or g[1] != 0 or g[2] != 0:
                p = pixel_centre(backdrop, m, x, y, width, height)
                inverse_depth = inverse_ground_depth(backdrop, m, p)
                _d, e_ground, e_background = backdrop_weights(backdrop, inverse_depth, rate, backdrop.hard)
                checker_weight = e_ground / (e_ground + e_background)
                if checker_weight < 1:
                    if ti.static(backdrop.shading != DEPTH and backdrop.shading != NORMAL):
                        more_top, more_bottom = _far_adjoint(backdrop, bars, m, x, y, width, height, g * (1.0 - checker_weight))
                        top_bar += more_top
                        bottom_bar += more_bottom
                if checker_weight > 0:
                    z = 1.0 / inverse_depth
                    z_bar, p_bar = 0.0, vec2(0)
                    if checker_weight < 1:
                        ground, background = ground_colour(backdrop, m, p, z), far_colour(backdrop, m, x, y, width, height)
                        contrast = g.dot(ground - background) * (checker_weight * (1.0 - checker_weight))
                        z_bar -= contrast * rate
                        rate_bar += contrast * (backdrop.background_depth - z)
                    if ti.static(backdrop.shading == DEPTH):
                        z_bar += checker_weight * g.sum()
                    elif ti.static(backdrop.shading != NORMAL):
                        point, ray = ground_point(backdrop, m, p, z)
                        albedo = ground_albedo(backdrop, m, point)
                        _n, point_bar, albedo_bar = light_surface_adjoint(
                            without_highlights(backdrop), bars, row, m, vec3(0.0, 0.0, 1.0), point, albedo, 0, g * checker_weight
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
                    inverse_bar = -z_bar * z * z
                    plane_bar += vec3(p[0], p[1], 1.0) * inverse_bar
                    if backdrop.flags[FLAG.distorted] == 1:
                        plane = uniform3(backdrop.uniforms, m, UNIFORM.plane)
                        p_bar += vec2(plane[0], plane[1]) * inverse_bar
                        bars.centres[m, y, x, 0] += p_bar[0]
                        bars.centres[m, y, x, 1] += p_bar[1]
        add3(bars.uniforms, row, UNIFORM.eye, eye_bar)
        add3(bars.uniforms, row, UNIFORM.ray, ray_bar)
        add3(bars.uniforms, row, UNIFORM.ray_x, ray_x_bar)
        add3(bars.uniforms, row, UNIFORM.ray_y, ray_y_bar)
        add3(bars.uniforms, row, UNIFORM.plane, plane_bar)
        add3(bars.uniforms, row, UNIFORM.top, top_bar)
        add3(bars.uniforms, row, UNIFORM.bottom, bottom_bar)
        gamma_bar = rate_bar * rate / backdrop.uniforms[m, UNIFORM.gamma]
        bars.uniforms[row, UNIFORM.gamma] = bars.uniforms[row, UNIFORM.gamma] - gamma_bar
