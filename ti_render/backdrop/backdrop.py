"""What a picture shows where no face is: the lit ground plane in front of the background, pixel by pixel.

The ray of a pixel meets the plane at camera depth z = 1 / (plane . (x, y, 1)), in the point eye + z (ray + x ray_x + y ray_y).
Ground and background share the pixel with weights exp(-depth / (gamma (far - near))) (``hard``: the nearer one has it all); the
ground takes part where its depth exceeds ``near``. It is shaded without highlights.
"""

from ti_render.rows import row_of
from ti_render.shading.lighting import (
    LAMBERT,
    UNLIT,
    light_surface,
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
from ti_render.shading.texture import sample_texture
from ti_render.shading.uniforms import BACKGROUND, EYE, GROUND, PLANE, RAY, RAY_X, RAY_Y, SOFTNESS, uniform3
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
def ground_point(uniforms: ti.template(), m, p, z):
    """Point of a pixel's ray at camera depth ``z``, and the ray."""
    ray = uniform3(uniforms, m, RAY) + uniform3(uniforms, m, RAY_X) * p[0] + uniform3(uniforms, m, RAY_Y) * p[1]
    return uniform3(uniforms, m, EYE) + ray * z, ray


@ti.func
def ground_albedo(
    flags: ti.template(), uniforms: ti.template(), texels: ti.template(), textures: ti.template(), m, images, point
):
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
def image_taps(image: ti.template(), x, y, width, height):
    """Columns and rows of the four texels of a background image around a pixel, and the fractions of the way."""
    rows, columns = image.shape[1], image.shape[2]
    u = ti.min(ti.max((x + 0.5) / width * columns - 0.5, 0.0), columns - 1.0)
    v = ti.min(ti.max((y + 0.5) / height * rows - 0.5, 0.0), rows - 1.0)
    i, j = ti.cast(ti.floor(u), ti.i32), ti.cast(ti.floor(v), ti.i32)
    return i, ti.min(i + 1, columns - 1), j, ti.min(j + 1, rows - 1), u - i, v - j


@ti.func
def background_colour(flags: ti.template(), uniforms: ti.template(), image: ti.template(), m, images, x, y, width, height):
    """Colour of the background image, or of the gradient from top to bottom, at a pixel."""
    result = vec3(0)
    if flags[BACKGROUND_IMAGE] == 1:
        i0, i1, j0, j1, fx, fy = image_taps(image, x, y, width, height)
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
def ground_colour(
    shading: ti.template(), flags: ti.template(), texels: ti.template(), textures: ti.template(), uniforms: ti.template(),
    maps: ti.template(), frame: ti.template(), m, images, p, z,
):  # fmt: skip
    """What the colour channels hold for the ground at depth ``z``."""
    colour = vec3(z)
    if ti.static(shading == NORMAL):
        colour = vec3(0.0, 0.0, 1.0)
    elif ti.static(shading != DEPTH):
        point, _ray = ground_point(uniforms, m, p, z)
        colour = light_surface(
            UNLIT if ti.static(shading == UNLIT) else LAMBERT, uniforms, maps, frame, m, flags[DIRECTIONALS], flags[POINTS],
            flags[WITH_ENVIRONMENT], flags[WITH_SHADOWS], vec3(0.0, 0.0, 1.0), point,
            ground_albedo(flags, uniforms, texels, textures, m, images, point), 0,
        )  # fmt: skip
    return colour


@ti.func
def far_colour(
    shading: ti.template(), flags: ti.template(), uniforms: ti.template(), image: ti.template(), m, images, x, y, width, height,
    background_depth,
):  # fmt: skip
    """What the colour channels hold for the background."""
    colour = vec3(0)
    if ti.static(shading == DEPTH):
        colour = vec3(background_depth)
    elif ti.static(shading != NORMAL):
        colour = background_colour(flags, uniforms, image, m, images, x, y, width, height)
    return colour


@ti.kernel
def draw_backdrop(
    shading: ti.template(), flags: ti.types.ndarray(), texels: ti.types.ndarray(), textures: ti.types.ndarray(),
    uniforms: ti.types.ndarray(), maps: ti.types.ndarray(), frame: ti.types.ndarray(), image: ti.types.ndarray(),
    centres: ti.types.ndarray(), hard: int, near: float, background_depth: float, depth_range: float, spread: int,
    pictures: ti.types.ndarray(),
):  # fmt: skip
    """Draw ground and background into every picture [M, H, W, 3 or 4], alpha (where there is one) 0.

    Reads the flags (``surface``), texels and textures, uniforms [M, U], shadow maps and their frame, the background image and
    the pixels' centres (dummies where the flags say that there are none). Adjoint: ``draw_backdrop_adjoint``; tangent:
    ``draw_backdrop_jvp``.
    """
    images, height, width = pictures.shape[0], pictures.shape[1], pictures.shape[2]
    for index in range(images * height * spread):
        if index % spread > 0:
            continue
        m, y = index // spread // height, index // spread % height
        rate = depth_rate(uniforms, m, depth_range)
        for x in range(width):
            p = pixel_centre(flags, centres, m, x, y, width, height)
            inverse_depth = inverse_ground_depth(uniforms, m, p)
            _d, e_ground, e_background = backdrop_weights(
                inverse_depth, near, background_depth, rate, hard
            )
            share = e_ground / (e_ground + e_background)
            colour = vec3(0)
            if share < 1:
                colour = far_colour(
                    shading, flags, uniforms, image, m, images, x, y, width, height, background_depth
                ) * (1.0 - share)
            if share > 0:
                colour += share * ground_colour(
                    shading, flags, texels, textures, uniforms, maps, frame, m, images, p, 1.0 / inverse_depth
                )
            for k in ti.static(range(3)):
                pictures[m, y, x, k] = colour[k]
            if pictures.shape[3] == 4:
                pictures[m, y, x, 3] = 0.0
