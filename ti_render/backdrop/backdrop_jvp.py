"""Tangents of ground and background in all columns."""

from ti_render.backdrop.backdrop import (
    CHECKER,
    TEXTURED,
    backdrop_weights,
    checker_share,
    depth_rate,
    far_colour,
    ground_colour,
    ground_point,
    ground_uv,
    image_taps,
    inverse_ground_depth,
    pixel_centre,
    vec2,
)
from ti_render.rows import put3, row_of
from ti_render.shading.lighting import (
    BASE_DOT,
    COLOUR_DOT,
    LAMBERT,
    NORMAL_DOT,
    POINT_DOT,
    SCRATCH_SIZE,
    UNLIT,
    light_columns,
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
from ti_render.shading.texture import sample_texture, texels_tangent
from ti_render.shading.uniforms import BACKGROUND, EYE, GROUND, PLANE, RAY, RAY_X, RAY_Y, SOFTNESS, uniform3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _pattern_jvp(
    flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point, point_dot,
    dots: ti.template(), r, texels_dot: ti.template(), c,
):  # fmt: skip
    """``ground_albedo`` and its tangent in column ``c``, whose uniforms' tangents are in row ``r``."""
    first, second = uniform3(uniforms, m, GROUND), uniform3(uniforms, m, GROUND + 4)
    albedo, albedo_dot = first, uniform3(dots, r, GROUND)
    place = (point[0], point[1], uniforms[m, GROUND + 7], uniforms[m, GROUND + 8], uniforms[m, GROUND + 9])
    place_dot = (point_dot[0], point_dot[1], dots[r, GROUND + 7], dots[r, GROUND + 8], dots[r, GROUND + 9])
    if flags[GROUND_PATTERN] == CHECKER:
        share = checker_share.value(*place)
        share_dot = checker_share.jvp(place, place_dot)
        second_dot = uniform3(dots, r, GROUND + 4)
        albedo_dot = second_dot + (albedo_dot - second_dot) * share + (first - second) * share_dot
        albedo = second + (first - second) * share
    elif flags[GROUND_PATTERN] == TEXTURED:
        u, v = ground_uv.value(*place)
        u_dot, v_dot = ground_uv.jvp(place, place_dot)
        texel, along_u, along_v = sample_texture(texels, textures, m, images, flags[GROUND_TEXTURE], u, v)
        texel_dot = along_u * u_dot + along_v * v_dot
        texel_dot += texels_tangent(texels_dot, textures, c, m, images, flags[GROUND_TEXTURE], u, v)
        albedo_dot = albedo_dot * texel + first * texel_dot
        albedo = first * texel
    return albedo, albedo_dot


@ti.func
def _far_tangent(
    shading: ti.template(), flags: ti.template(), uniforms_dot: ti.template(), dots, image: ti.template(),
    image_dot: ti.template(), m, images, c, x, y, width, height,
):  # fmt: skip
    """Tangent of the background's colour."""
    result = vec3(0)
    if ti.static(shading != DEPTH and shading != NORMAL):
        if flags[BACKGROUND_IMAGE] == 1:
            i0, i1, j0, j1, fx, fy = image_taps(image, x, y, width, height)
            r = row_of(m, image_dot.shape[1], images)
            for k in ti.static(range(3)):
                upper = image_dot[c, r, j0, i0, k] * (1.0 - fx) + image_dot[c, r, j0, i1, k] * fx
                lower = image_dot[c, r, j1, i0, k] * (1.0 - fx) + image_dot[c, r, j1, i1, k] * fx
                result[k] = upper * (1.0 - fy) + lower * fy
        else:
            f = (y + 0.5) / height
            result = uniform3(uniforms_dot, dots, BACKGROUND) * (1.0 - f)
            result += uniform3(uniforms_dot, dots, BACKGROUND + 3) * f
    return result


@ti.kernel
def draw_backdrop_jvp(
    shading: ti.template(), flags: ti.types.ndarray(), texels: ti.types.ndarray(), textures: ti.types.ndarray(),
    uniforms: ti.types.ndarray(), maps: ti.types.ndarray(), frame: ti.types.ndarray(), image: ti.types.ndarray(),
    centres: ti.types.ndarray(), hard: int, near: float, background_depth: float, depth_range: float, spread: int,
    active: ti.types.ndarray(), texels_dot: ti.types.ndarray(), uniforms_dot: ti.types.ndarray(), maps_dot: ti.types.ndarray(),
    image_dot: ti.types.ndarray(), centres_dot: ti.types.ndarray(), scratch: ti.types.ndarray(),
    pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``draw_backdrop``: writes pictures_dot [M, K, H, W, 4] (last channel 0) from the inputs' tangents
    (texels_dot [K, n, X, 3], uniforms_dot [M K, U], maps_dot [M L, K, R, R, 4], image_dot [K, n, h, w, 3], centres_dot
    [M, K, H, W, 2]) and active [K]. scratch [M H K 20] is the workspace of the rows of pixels."""
    images, columns, height, width = (
        pictures_dot.shape[0], pictures_dot.shape[1], pictures_dot.shape[2], pictures_dot.shape[3],
    )  # fmt: skip
    for index in range(images * height * spread):
        if index % spread > 0:
            continue
        row = index // spread * columns * SCRATCH_SIZE
        m, y = index // spread // height, index // spread % height
        rate = depth_rate(uniforms, m, depth_range)
        for x in range(width):
            p = pixel_centre(flags, centres, m, x, y, width, height)
            inverse_depth = inverse_ground_depth(uniforms, m, p)
            _d, e_ground, e_background = backdrop_weights(inverse_depth, near, background_depth, rate, hard)
            share = e_ground / (e_ground + e_background)
            far, ground, point, ray, albedo, z = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0), 0.0
            if share > 0:
                z = 1.0 / inverse_depth
                point, ray = ground_point(uniforms, m, p, z)
                if share < 1:
                    ground = ground_colour(shading, flags, texels, textures, uniforms, maps, frame, m, images, p, z)
                    far = far_colour(shading, flags, uniforms, image, m, images, x, y, width, height, background_depth)
            for c in range(columns):
                result, dots, here = vec3(0), m * columns + c, c * SCRATCH_SIZE
                if share < 1:
                    result += (1.0 - share) * _far_tangent(
                        shading, flags, uniforms_dot, dots, image, image_dot, m, images, c, x, y, width, height
                    )
                if share > 0:
                    p_dot = vec2(0)
                    if flags[DISTORTED] == 1:
                        p_dot = vec2(centres_dot[m, c, y, x, 0], centres_dot[m, c, y, x, 1])
                    inverse_dot = (
                        uniforms_dot[dots, PLANE + 2] + uniforms_dot[dots, PLANE] * p[0] + uniforms_dot[dots, PLANE + 1] * p[1]
                        + uniforms[m, PLANE] * p_dot[0] + uniforms[m, PLANE + 1] * p_dot[1]
                    )  # fmt: skip
                    z_dot = -z * z * inverse_dot
                    rate_dot = -rate * uniforms_dot[dots, SOFTNESS + 1] / uniforms[m, SOFTNESS + 1]
                    result += share * (1.0 - share) * ((background_depth - z) * rate_dot - rate * z_dot) * (ground - far)
                    if ti.static(shading == DEPTH):
                        result += vec3(share * z_dot)
                    elif ti.static(shading != NORMAL):
                        point_dot = uniform3(uniforms_dot, dots, EYE) + ray * z_dot + z * (
                            uniform3(uniforms_dot, dots, RAY) + uniform3(uniforms_dot, dots, RAY_X) * p[0]
                            + uniform3(uniforms_dot, dots, RAY_Y) * p[1] + uniform3(uniforms, m, RAY_X) * p_dot[0]
                            + uniform3(uniforms, m, RAY_Y) * p_dot[1]
                        )  # fmt: skip
                        own, own_dot = _pattern_jvp(
                            flags, uniforms, texels, textures, m, images, point, point_dot, uniforms_dot, dots, texels_dot, c
                        )
                        albedo = own
                        put3(scratch, row + here + NORMAL_DOT, vec3(0))
                        put3(scratch, row + here + POINT_DOT, point_dot)
                        put3(scratch, row + here + BASE_DOT, own_dot)
                for k in ti.static(range(3)):
                    pictures_dot[m, c, y, x, k] = result[k]
                pictures_dot[m, c, y, x, 3] = 0.0
            if ti.static(shading != DEPTH and shading != NORMAL):
                if share > 0:
                    light_columns(
                        UNLIT if ti.static(shading == UNLIT) else LAMBERT, uniforms, maps, frame, m, flags[DIRECTIONALS],
                        flags[POINTS], flags[WITH_ENVIRONMENT], flags[WITH_SHADOWS], vec3(0.0, 0.0, 1.0), point, albedo, 0,
                        active, uniforms_dot, maps_dot, scratch, row,
                    )  # fmt: skip
                    for c in range(columns):
                        for k in ti.static(range(3)):
                            pictures_dot[m, c, y, x, k] = (
                                pictures_dot[m, c, y, x, k] + share * scratch[row + c * SCRATCH_SIZE + COLOUR_DOT + k]
                            )
