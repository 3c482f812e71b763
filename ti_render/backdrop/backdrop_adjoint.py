"""Adjoint of ground and background."""

from ti_render.backdrop.backdrop import (
    CHECKER,
    TEXTURED,
    backdrop_weights,
    checker_share,
    depth_rate,
    far_colour,
    ground_albedo,
    ground_colour,
    ground_point,
    ground_uv,
    image_taps,
    inverse_ground_depth,
    pixel_centre,
    vec2,
)
from ti_render.rows import row_of
from ti_render.shading.lighting import (
    LAMBERT,
    UNLIT,
    add3,
    light_surface_adjoint,
)
from ti_render.shading.surface import (
    BACKGROUND_IMAGE,
    DEPTH,
    DIRECTIONALS,
    DISTORTED,
    GROUND_PATTERN,
    GROUND_TEXTURE,
    NORMAL,
    POINTS,
    WITH_ENVIRONMENT,
    WITH_SHADOWS,
)
from ti_render.shading.texture import add_texels, sample_texture
from ti_render.shading.uniforms import BACKGROUND, EYE, GROUND, PLANE, RAY, RAY_X, RAY_Y, SOFTNESS, uniform3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _pattern_adjoint(
    flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point, albedo_bar,
    bars: ti.template(), row, texels_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``ground_albedo``: adds to bars[row] and texels_bar, returns the adjoint of the point."""
    cell, x0, y0 = uniforms[m, GROUND + 7], uniforms[m, GROUND + 8], uniforms[m, GROUND + 9]
    first = uniform3(uniforms, m, GROUND)
    place_bar = ti.Vector([0.0, 0.0, 0.0, 0.0, 0.0])
    if flags[GROUND_PATTERN] == CHECKER:
        share = checker_share.value(point[0], point[1], cell, x0, y0)
        add3(bars, row, GROUND, albedo_bar * share)
        add3(bars, row, GROUND + 4, albedo_bar * (1.0 - share))
        g = checker_share.vjp(
            (point[0], point[1], cell, x0, y0), albedo_bar.dot(first - uniform3(uniforms, m, GROUND + 4))
        )
        for k in ti.static(range(5)):
            place_bar[k] = g[k]
    elif flags[GROUND_PATTERN] == TEXTURED:
        u, v = ground_uv.value(point[0], point[1], cell, x0, y0)
        texel, along_u, along_v = sample_texture(texels, textures, m, images, flags[GROUND_TEXTURE], u, v)
        add3(bars, row, GROUND, albedo_bar * texel)
        texel_bar = albedo_bar * first
        add_texels(texels_bar, textures, m, images, flags[GROUND_TEXTURE], u, v, texel_bar)
        h = ground_uv.vjp((point[0], point[1], cell, x0, y0), (along_u.dot(texel_bar), along_v.dot(texel_bar)))
        for k in ti.static(range(5)):
            place_bar[k] = h[k]
    else:
        add3(bars, row, GROUND, albedo_bar)
    for k in ti.static(range(3)):
        bars[row, GROUND + 7 + k] = bars[row, GROUND + 7 + k] + place_bar[2 + k]
    return vec3(place_bar[0], place_bar[1], 0.0)


@ti.kernel
def draw_backdrop_adjoint(
    shading: ti.template(), flags: ti.types.ndarray(), texels: ti.types.ndarray(), textures: ti.types.ndarray(),
    uniforms: ti.types.ndarray(), maps: ti.types.ndarray(), frame: ti.types.ndarray(), image: ti.types.ndarray(),
    centres: ti.types.ndarray(), hard: int, near: float, background_depth: float, depth_range: float, spread: int,
    pictures_bar: ti.types.ndarray(), bars: ti.types.ndarray(), texels_bar: ti.types.ndarray(), maps_bar: ti.types.ndarray(),
    image_bar: ti.types.ndarray(), centres_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``draw_backdrop`` from pictures_bar [M, H, W, 3].

    Adds to bars [M H, U] (one row of uniforms' adjoints for each row of pixels, which one thread owns), texels_bar, maps_bar,
    image_bar and centres_bar (shapes of what they belong to).
    """
    images, height, width = pictures_bar.shape[0], pictures_bar.shape[1], pictures_bar.shape[2]
    for index in range(images * height * spread):
        if index % spread > 0:
            continue
        row = index // spread
        m, y = row // height, row % height
        rate = depth_rate(uniforms, m, depth_range)
        rate_bar = 0.0
        eye_bar, ray_bar, ray_x_bar, ray_y_bar, plane_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0)
        top_bar, bottom_bar = vec3(0), vec3(0)
        for x in range(width):
            g = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
            if g[0] != 0 or g[1] != 0 or g[2] != 0:
                p = pixel_centre(flags, centres, m, x, y, width, height)
                inverse_depth = inverse_ground_depth(uniforms, m, p)
                _d, e_ground, e_background = backdrop_weights(inverse_depth, near, background_depth, rate, hard)
                share = e_ground / (e_ground + e_background)
                if share < 1:
                    if ti.static(shading != DEPTH and shading != NORMAL):
                        far_bar = g * (1.0 - share)
                        if flags[BACKGROUND_IMAGE] == 1:
                            i0, i1, j0, j1, fx, fy = image_taps(image, x, y, width, height)
                            r = row_of(m, image.shape[0], images)
                            for k in ti.static(range(3)):
                                image_bar[r, j0, i0, k] += far_bar[k] * (1.0 - fx) * (1.0 - fy)
                                image_bar[r, j0, i1, k] += far_bar[k] * fx * (1.0 - fy)
                                image_bar[r, j1, i0, k] += far_bar[k] * (1.0 - fx) * fy
                                image_bar[r, j1, i1, k] += far_bar[k] * fx * fy
                        else:
                            f = (y + 0.5) / height
                            top_bar += far_bar * (1.0 - f)
                            bottom_bar += far_bar * f
                if share > 0:
                    z = 1.0 / inverse_depth
                    z_bar, p_bar = 0.0, vec2(0)
                    if share < 1:
                        contrast = g.dot(
                            ground_colour(shading, flags, texels, textures, uniforms, maps, frame, m, images, p, z)
                            - far_colour(
                                shading, flags, uniforms, image, m, images, x, y, width, height, background_depth
                            )
                        ) * (share * (1.0 - share))  # fmt: skip
                        z_bar -= contrast * rate
                        rate_bar += contrast * (background_depth - z)
                    if ti.static(shading == DEPTH):
                        z_bar += share * g.sum()
                    elif ti.static(shading != NORMAL):
                        point, ray = ground_point(uniforms, m, p, z)
                        albedo = ground_albedo(flags, uniforms, texels, textures, m, images, point)
                        _n, point_bar, albedo_bar = light_surface_adjoint(
                            UNLIT if ti.static(shading == UNLIT) else LAMBERT, uniforms, maps, frame, m, flags[DIRECTIONALS],
                            flags[POINTS], flags[WITH_ENVIRONMENT], flags[WITH_SHADOWS], vec3(0.0, 0.0, 1.0), point, albedo, 0,
                            g * share, bars, row, maps_bar,
                        )  # fmt: skip
                        point_bar += _pattern_adjoint(
                            flags, uniforms, texels, textures, m, images, point, albedo_bar, bars, row, texels_bar
                        )
                        eye_bar += point_bar
                        ray_bar += point_bar * z
                        ray_x_bar += point_bar * (z * p[0])
                        ray_y_bar += point_bar * (z * p[1])
                        z_bar += point_bar.dot(ray)
                        p_bar += vec2(
                            point_bar.dot(uniform3(uniforms, m, RAY_X)), point_bar.dot(uniform3(uniforms, m, RAY_Y))
                        ) * z
                    inverse_bar = -z_bar * z * z
                    plane_bar += vec3(p[0], p[1], 1.0) * inverse_bar
                    if flags[DISTORTED] == 1:
                        p_bar += vec2(uniforms[m, PLANE], uniforms[m, PLANE + 1]) * inverse_bar
                        centres_bar[m, y, x, 0] += p_bar[0]
                        centres_bar[m, y, x, 1] += p_bar[1]
        add3(bars, row, EYE, eye_bar)
        add3(bars, row, RAY, ray_bar)
        add3(bars, row, RAY_X, ray_x_bar)
        add3(bars, row, RAY_Y, ray_y_bar)
        add3(bars, row, PLANE, plane_bar)
        add3(bars, row, BACKGROUND, top_bar)
        add3(bars, row, BACKGROUND + 3, bottom_bar)
        bars[row, SOFTNESS + 1] = bars[row, SOFTNESS + 1] - rate_bar * rate / uniforms[m, SOFTNESS + 1]
