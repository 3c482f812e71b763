"""What a picture shows where no face is: the lit ground plane in front of the background, pixel by pixel.

The ray of a pixel meets the plane at camera depth z = 1 / (plane . (x, y, 1)), in the point eye + z (ray + x ray_x + y ray_y).
Ground and background share the pixel with weights exp(-depth / (gamma (far - near))) (``hard``: the nearer one has it all); the
ground takes part where its depth exceeds ``near``. It is shaded without highlights.
"""

from ti_render.lighting import (
    BASE_DOT,
    COLOUR_DOT,
    LAMBERT,
    NORMAL_DOT,
    POINT_DOT,
    SCRATCH_SIZE,
    UNLIT,
    add3,
    light_columns,
    light_surface,
    light_surface_adjoint,
)
from ti_render.rows import put3, row_of
from ti_render.surface import (
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
from ti_render.texture import add_texels, sample_texture, texels_tangent
from ti_render.uniforms import BACKGROUND, EYE, GROUND, PLANE, RAY, RAY_X, RAY_Y, SOFTNESS, uniform3
from ti_sim.base.differentiable import differentiable, sin, sqrt
from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import vec3

PLAIN, CHECKER, TEXTURED = 0, 1, 2
PATTERNS = {"plain": PLAIN, "checker": CHECKER, "texture": TEXTURED}
# Softness of the checker's edges, in the sine of the place in a cell.
CHECKER_SOFTNESS = 0.05
PI = 3.141592653589793

vec2 = ti.math.vec2


@differentiable()
def checker_share(x, y, cell, origin_x, origin_y):
    """Share of the first colour at a place of the checker: near 1 and 0 in turn, smooth at the edges of the cells."""
    wave_x, wave_y = sin((x - origin_x) * PI / cell), sin((y - origin_y) * PI / cell)
    square_x = wave_x / sqrt(wave_x * wave_x + CHECKER_SOFTNESS**2)
    square_y = wave_y / sqrt(wave_y * wave_y + CHECKER_SOFTNESS**2)
    return square_x * square_y * 0.5 + 0.5


@differentiable()
def ground_uv(x, y, cell, origin_x, origin_y):
    """Texture place of a point of the ground: one cell is one copy of the texture."""
    return (x - origin_x) / cell, (y - origin_y) / cell


@ti.func
def pixel_centre(flags: ti.template(), centres: ti.template(), m, x, y, width, height):
    """Screen position of a pixel's centre, looked up where the lens distorts."""
    scale = 2.0 / ti.min(width, height)
    p = vec2((x + 0.5 - 0.5 * width) * scale, (y + 0.5 - 0.5 * height) * scale)
    if flags[DISTORTED] == 1:
        p = vec2(centres[m, y, x, 0], centres[m, y, x, 1])
    return p


def negligible() -> float:
    """Softmax exponent below which exp() counts as 0: beyond what the working precision adds to 1."""
    return -60.0 if require().precision == "f64" else -30.0


@ti.func
def depth_rate(uniforms: ti.template(), m, depth_range):
    """1 / (gamma (far - near)) [1/m]."""
    return 1.0 / (uniforms[m, SOFTNESS + 1] * depth_range)


@ti.func
def backdrop_weights(inverse_depth, near, background_depth, rate, hard):
    """Least depth of ground and background, and their softmax weights relative to it."""
    depth, e_ground, e_background = background_depth, 0.0, 1.0
    if inverse_depth > 1e-30 and inverse_depth * near < 1.0:
        z = 1.0 / inverse_depth
        t = (background_depth - z) * rate
        if hard == 1:
            if t > 0:
                depth, e_ground, e_background = z, 1.0, 0.0
        elif t >= 0:
            depth, e_ground, e_background = z, 1.0, 0.0
            if -t > ti.static(negligible()):
                e_background = ti.exp(-t)
        elif t > ti.static(negligible()):
            e_ground = ti.exp(t)
    return depth, e_ground, e_background


@ti.func
def inverse_ground_depth(uniforms: ti.template(), m, p):
    """Inverse camera depth of the ground at a screen position [1/m] (not positive: there is none)."""
    return uniforms[m, PLANE + 2] + uniforms[m, PLANE] * p[0] + uniforms[m, PLANE + 1] * p[1]


@ti.func
def _ground_point(uniforms: ti.template(), m, p, z):
    ray = uniform3(uniforms, m, RAY) + uniform3(uniforms, m, RAY_X) * p[0] + uniform3(uniforms, m, RAY_Y) * p[1]
    return uniform3(uniforms, m, EYE) + ray * z, ray


@ti.func
def _pattern(flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point):
    """Albedo of the ground at a point."""
    albedo = uniform3(uniforms, m, GROUND)
    cell, x0, y0 = uniforms[m, GROUND + 7], uniforms[m, GROUND + 8], uniforms[m, GROUND + 9]
    if flags[GROUND_PATTERN] == CHECKER:
        share = checker_share.value(point[0], point[1], cell, x0, y0)
        second = uniform3(uniforms, m, GROUND + 4)
        albedo = second + (albedo - second) * share
    elif flags[GROUND_PATTERN] == TEXTURED:
        u, v = ground_uv.value(point[0], point[1], cell, x0, y0)
        texel, _u, _v = sample_texture(texels, textures, m, images, flags[GROUND_TEXTURE], u, v)
        albedo *= texel
    return albedo


@ti.func
def _pattern_adjoint(
    flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point, albedo_bar,
    bars: ti.template(), row, texels_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``_pattern``: adds to bars[row] and texels_bar, returns the adjoint of the point."""
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


@ti.func
def _pattern_jvp(
    flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point, point_dot,
    dots: ti.template(), r, texels_dot: ti.template(), c,
):  # fmt: skip
    """``_pattern`` and its tangent in column ``c``, whose uniforms' tangents are in row ``r``."""
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
def _image_taps(image: ti.template(), x, y, width, height):
    """Columns and rows of the four texels of a background image around a pixel, and the fractions of the way."""
    rows, columns = image.shape[1], image.shape[2]
    u = ti.min(ti.max((x + 0.5) / width * columns - 0.5, 0.0), columns - 1.0)
    v = ti.min(ti.max((y + 0.5) / height * rows - 0.5, 0.0), rows - 1.0)
    i, j = ti.cast(ti.floor(u), ti.i32), ti.cast(ti.floor(v), ti.i32)
    return i, ti.min(i + 1, columns - 1), j, ti.min(j + 1, rows - 1), u - i, v - j


@ti.func
def _background_colour(flags: ti.template(), uniforms: ti.template(), image: ti.template(), m, images, x, y, width, height):
    result = vec3(0)
    if flags[BACKGROUND_IMAGE] == 1:
        i0, i1, j0, j1, fx, fy = _image_taps(image, x, y, width, height)
        r = row_of(m, image.shape[0], images)
        for k in ti.static(range(3)):
            upper = image[r, j0, i0, k] * (1.0 - fx) + image[r, j0, i1, k] * fx
            lower = image[r, j1, i0, k] * (1.0 - fx) + image[r, j1, i1, k] * fx
            result[k] = upper * (1.0 - fy) + lower * fy
    else:
        f = (y + 0.5) / height
        result = uniform3(uniforms, m, BACKGROUND) * (1.0 - f) + uniform3(uniforms, m, BACKGROUND + 3) * f
    return result


@ti.func
def _ground_colour(
    shading: ti.template(), flags: ti.template(), texels: ti.template(), textures: ti.template(), uniforms: ti.template(),
    maps: ti.template(), frame: ti.template(), m, images, p, z,
):  # fmt: skip
    colour = vec3(z)
    if ti.static(shading == NORMAL):
        colour = vec3(0.0, 0.0, 1.0)
    elif ti.static(shading != DEPTH):
        point, _ray = _ground_point(uniforms, m, p, z)
        colour = light_surface(
            UNLIT if ti.static(shading == UNLIT) else LAMBERT, uniforms, maps, frame, m, flags[DIRECTIONALS], flags[POINTS],
            flags[WITH_ENVIRONMENT], flags[WITH_SHADOWS], vec3(0.0, 0.0, 1.0), point,
            _pattern(flags, uniforms, texels, textures, m, images, point), 0,
        )  # fmt: skip
    return colour


@ti.func
def _far_colour(
    shading: ti.template(), flags: ti.template(), uniforms: ti.template(), image: ti.template(), m, images, x, y, width, height,
    background_depth,
):  # fmt: skip
    colour = vec3(0)
    if ti.static(shading == DEPTH):
        colour = vec3(background_depth)
    elif ti.static(shading != NORMAL):
        colour = _background_colour(flags, uniforms, image, m, images, x, y, width, height)
    return colour


@ti.kernel
def draw_backdrop(
    shading: ti.template(), flags: ti.types.ndarray(), texels: ti.types.ndarray(), textures: ti.types.ndarray(),
    uniforms: ti.types.ndarray(), maps: ti.types.ndarray(), frame: ti.types.ndarray(), image: ti.types.ndarray(),
    centres: ti.types.ndarray(), hard: int, near: float, background_depth: float, depth_range: float,
    pictures: ti.types.ndarray(),
):  # fmt: skip
    """Draw ground and background into every picture [M, H, W, 4], alpha 0.

    Reads the flags (``surface``), texels and textures, uniforms [M, U], shadow maps and their frame, the background image and
    the pixels' centres (dummies where the flags say that there are none). Adjoint: ``draw_backdrop_adjoint``; tangent:
    ``draw_backdrop_jvp``.
    """
    images, height, width = pictures.shape[0], pictures.shape[1], pictures.shape[2]
    for m, y, x in ti.ndrange(images, height, width):
        p = pixel_centre(flags, centres, m, x, y, width, height)
        inverse_depth = inverse_ground_depth(uniforms, m, p)
        _d, e_ground, e_background = backdrop_weights(
            inverse_depth, near, background_depth, depth_rate(uniforms, m, depth_range), hard
        )
        share = e_ground / (e_ground + e_background)
        colour = vec3(0)
        if share < 1:
            colour = _far_colour(
                shading, flags, uniforms, image, m, images, x, y, width, height, background_depth
            ) * (1.0 - share)
        if share > 0:
            colour += share * _ground_colour(
                shading, flags, texels, textures, uniforms, maps, frame, m, images, p, 1.0 / inverse_depth
            )
        for k in ti.static(range(3)):
            pictures[m, y, x, k] = colour[k]
        pictures[m, y, x, 3] = 0.0


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
                            i0, i1, j0, j1, fx, fy = _image_taps(image, x, y, width, height)
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
                            _ground_colour(shading, flags, texels, textures, uniforms, maps, frame, m, images, p, z)
                            - _far_colour(
                                shading, flags, uniforms, image, m, images, x, y, width, height, background_depth
                            )
                        ) * (share * (1.0 - share))  # fmt: skip
                        z_bar -= contrast * rate
                        rate_bar += contrast * (background_depth - z)
                    if ti.static(shading == DEPTH):
                        z_bar += share * g.sum()
                    elif ti.static(shading != NORMAL):
                        point, ray = _ground_point(uniforms, m, p, z)
                        albedo = _pattern(flags, uniforms, texels, textures, m, images, point)
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
                point, ray = _ground_point(uniforms, m, p, z)
                if share < 1:
                    ground = _ground_colour(shading, flags, texels, textures, uniforms, maps, frame, m, images, p, z)
                    far = _far_colour(shading, flags, uniforms, image, m, images, x, y, width, height, background_depth)
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


@ti.func
def _far_tangent(
    shading: ti.template(), flags: ti.template(), uniforms_dot: ti.template(), dots, image: ti.template(),
    image_dot: ti.template(), m, images, c, x, y, width, height,
):  # fmt: skip
    """Tangent of the background's colour."""
    result = vec3(0)
    if ti.static(shading != DEPTH and shading != NORMAL):
        if flags[BACKGROUND_IMAGE] == 1:
            i0, i1, j0, j1, fx, fy = _image_taps(image, x, y, width, height)
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
