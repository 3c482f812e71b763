"""Backdrop of a picture: the lit ground plane in front of the background, pixel by pixel.

The ray of a pixel meets the plane at camera depth z = 1 / (plane . (x, y, 1)), in the point eye + z (ray + x ray_x + y ray_y).
Ground and background share the pixel with weights exp(-depth / (gamma (far - near))) (``nearest_only``: the nearer one has
weight 1); the ground is drawn where its depth exceeds ``near``. It is shaded without highlights.
"""

from ti_render.arrays import FLAG, GROUND, UNIFORM, Backdrop
from ti_render.rows import row_of
from ti_render.shading.reflection import LAMBERT, UNLIT, light_surface
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.texture import sample_texture
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import kernel, with_fields
from ti_sim.base.differentiable import differentiable, sin, sqrt
from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import vec3

PLAIN, CHECKER, TEXTURED = 0, 1, 2
PATTERNS = {"plain": PLAIN, "checker": CHECKER, "texture": TEXTURED}
# Softness of the checker's edges, in units of sin(pi x / cell).
CHECKER_SOFTNESS = 0.05
PI = 3.141592653589793

vec2 = ti.math.vec2


@differentiable()
def checker_fraction(x, y, cell, origin_x, origin_y):
    """Fraction of the first colour at a point of the checker: alternates between 1 and 0, smooth at the edges of the cells."""
    wave_x, wave_y = sin((x - origin_x) * PI / cell), sin((y - origin_y) * PI / cell)
    square_x = wave_x / sqrt(wave_x * wave_x + CHECKER_SOFTNESS**2)
    square_y = wave_y / sqrt(wave_y * wave_y + CHECKER_SOFTNESS**2)
    return square_x * square_y * 0.5 + 0.5


@differentiable()
def ground_uv(x, y, cell, origin_x, origin_y):
    """Texture coordinates of a point of the ground: one cell is one copy of the texture."""
    return (x - origin_x) / cell, (y - origin_y) / cell


@ti.func
def pixel_centre(view: ti.template(), m, x, y, width, height):
    """Screen position of a pixel's centre, looked up where the lens distorts."""
    scale = 2.0 / ti.min(width, height)
    p = vec2((x + 0.5 - 0.5 * width) * scale, (y + 0.5 - 0.5 * height) * scale)
    if view.flags[FLAG.distorted] == 1:
        p = vec2(view.centres[m, y, x, 0], view.centres[m, y, x, 1])
    return p


def min_exponent() -> float:
    """Softmax exponent below which exp() is set to 0: adding it to 1 changes nothing in the working precision."""
    return -60.0 if require().precision == "f64" else -30.0


@ti.func
def inverse_temperature(view: ti.template(), m):
    """Inverse temperature of the softmax over depths, 1 / (gamma (far - near)) [1/m]."""
    return 1.0 / (view.uniforms[m, UNIFORM.gamma] * view.depth_range)


@ti.func
def backdrop_weights(view: ti.template(), inverse_depth, inverse_temperature, nearest_only):
    """Least depth of ground and background, and their softmax weights relative to it."""
    depth, e_ground, e_background = view.background_depth, 0.0, 1.0
    if inverse_depth > 1e-30 and inverse_depth * view.near < 1.0:
        z = 1.0 / inverse_depth
        exponent = (view.background_depth - z) * inverse_temperature
        if nearest_only == 1:
            if exponent > 0:
                depth, e_ground, e_background = z, 1.0, 0.0
        elif exponent >= 0:
            depth, e_ground, e_background = z, 1.0, 0.0
            if -exponent > ti.static(min_exponent()):
                e_background = ti.exp(-exponent)
        elif exponent > ti.static(min_exponent()):
            e_ground = ti.exp(exponent)
    return depth, e_ground, e_background


@ti.func
def inverse_ground_depth(view: ti.template(), m, p):
    """Inverse camera depth of the ground at a screen position [1/m] (zero or negative: no ground)."""
    plane = uniform3(view.uniforms, m, UNIFORM.plane)
    return plane[2] + plane[0] * p[0] + plane[1] * p[1]


@ti.func
def ground_point(view: ti.template(), m, p, z):
    """Point of a pixel's ray at camera depth ``z``, and the ray."""
    ray = uniform3(view.uniforms, m, UNIFORM.ray) + uniform3(view.uniforms, m, UNIFORM.ray_x) * p[0]
    ray += uniform3(view.uniforms, m, UNIFORM.ray_y) * p[1]
    return uniform3(view.uniforms, m, UNIFORM.eye) + ray * z, ray


@ti.func
def pattern_arguments(uniforms: ti.template(), row, point):
    """Arguments of ``checker_fraction`` and ``ground_uv``."""
    cell, origin = uniforms[row, UNIFORM.ground + GROUND.cell], UNIFORM.ground + GROUND.origin
    return point[0], point[1], cell, uniforms[row, origin], uniforms[row, origin + 1]


@ti.func
def ground_albedo(backdrop: ti.template(), m, point):
    """Albedo of the ground at a point."""
    albedo = uniform3(backdrop.uniforms, m, UNIFORM.ground + GROUND.color)
    if backdrop.flags[FLAG.ground_pattern] == CHECKER:
        checker_weight = checker_fraction.value(*pattern_arguments(backdrop.uniforms, m, point))
        second_color = uniform3(backdrop.uniforms, m, UNIFORM.ground + GROUND.second_color)
        albedo = second_color + (albedo - second_color) * checker_weight
    elif backdrop.flags[FLAG.ground_pattern] == TEXTURED:
        u, v = ground_uv.value(*pattern_arguments(backdrop.uniforms, m, point))
        texel, _u, _v = sample_texture(backdrop, m, backdrop.flags[FLAG.ground_texture], u, v)
        albedo *= texel
    return albedo


@ti.func
def image_taps(image: ti.template(), x, y, width, height):
    """Columns and rows of the four texels of a background image around a pixel, and the bilinear weights."""
    rows, columns = image.shape[1], image.shape[2]
    u = ti.min(ti.max((x + 0.5) / width * columns - 0.5, 0.0), columns - 1.0)
    v = ti.min(ti.max((y + 0.5) / height * rows - 0.5, 0.0), rows - 1.0)
    i, j = ti.cast(ti.floor(u), ti.i32), ti.cast(ti.floor(v), ti.i32)
    return i, ti.min(i + 1, columns - 1), j, ti.min(j + 1, rows - 1), u - i, v - j


@ti.func
def background_colour(backdrop: ti.template(), m, x, y, width, height):
    """Colour of the background image, or of the gradient from top to bottom, at a pixel."""
    result = vec3(0)
    if backdrop.flags[FLAG.background_image] == 1:
        i0, i1, j0, j1, fx, fy = image_taps(backdrop.background_image, x, y, width, height)
        image_row = row_of(m, backdrop.background_image.shape[0], backdrop.images)
        for k in ti.static(range(3)):
            upper = (
                backdrop.background_image[image_row, j0, i0, k] * (1.0 - fx)
                + backdrop.background_image[image_row, j0, i1, k] * fx
            )
            lower = (
                backdrop.background_image[image_row, j1, i0, k] * (1.0 - fx)
                + backdrop.background_image[image_row, j1, i1, k] * fx
            )
            result[k] = upper * (1.0 - fy) + lower * fy
    else:
        fraction = (y + 0.5) / height
        top, bottom = uniform3(backdrop.uniforms, m, UNIFORM.top), uniform3(backdrop.uniforms, m, UNIFORM.bottom)
        result = top * (1.0 - fraction) + bottom * fraction
    return result


def without_highlights(backdrop: Backdrop) -> Backdrop:
    """The backdrop with the shading of the ground, without highlights; for kernels."""
    return with_fields(backdrop, shading=UNLIT if backdrop.shading == UNLIT else LAMBERT)


without_highlights._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def ground_quantity(backdrop: ti.template(), m, p, z):
    """Shaded quantity (colour, depth or normal) of the ground at depth ``z``."""
    quantity = vec3(z)
    if ti.static(backdrop.shading == NORMAL):
        quantity = vec3(0.0, 0.0, 1.0)
    elif ti.static(backdrop.shading != DEPTH):
        point, _ray = ground_point(backdrop, m, p, z)
        albedo = ground_albedo(backdrop, m, point)
        quantity = light_surface(without_highlights(backdrop), m, vec3(0.0, 0.0, 1.0), point, albedo, 0)
    return quantity


@ti.func
def background_quantity(backdrop: ti.template(), m, x, y, width, height):
    """Shaded quantity (colour, depth or normal) of the background."""
    quantity = vec3(0)
    if ti.static(backdrop.shading == DEPTH):
        quantity = vec3(backdrop.background_depth)
    elif ti.static(backdrop.shading != NORMAL):
        quantity = background_colour(backdrop, m, x, y, width, height)
    return quantity


@ti.func
def is_evenly_lit(backdrop: ti.template()):
    """Whether the ground's colour is the same everywhere: no pattern, directional lights only, and no shadows."""
    result = 0
    if ti.static(backdrop.shading != DEPTH):
        if backdrop.flags[FLAG.ground_pattern] == PLAIN and backdrop.flags[FLAG.shadows] == 0:
            if backdrop.flags[FLAG.lights] == backdrop.flags[FLAG.directional]:
                result = 1
    return result


@kernel
def draw_backdrop(backdrop: Backdrop, image_indices: ti.types.ndarray(), iterations_per_row: int, pictures: ti.types.ndarray()):
    """Draw ground and background into the images ``image_indices`` [K] int32 of pictures [M, H, W, 3 or 4], with alpha 0.

    Adjoint: ``draw_backdrop_adjoint``; tangent: ``draw_backdrop_jvp``.
    """
    height, width = pictures.shape[1], pictures.shape[2]
    for index in range(image_indices.shape[0] * height * iterations_per_row):
        if index % iterations_per_row > 0:
            continue
        m, y = image_indices[index // iterations_per_row // height], index // iterations_per_row % height
        beta = inverse_temperature(backdrop, m)
        is_even, ground, is_shaded = is_evenly_lit(backdrop), vec3(0), 0
        for x in range(width):
            p = pixel_centre(backdrop, m, x, y, width, height)
            inverse_depth = inverse_ground_depth(backdrop, m, p)
            _d, e_ground, e_background = backdrop_weights(backdrop, inverse_depth, beta, backdrop.nearest_only)
            ground_weight = e_ground / (e_ground + e_background)
            colour = vec3(0)
            if ground_weight < 1:
                colour = background_quantity(backdrop, m, x, y, width, height) * (1.0 - ground_weight)
            if ground_weight > 0:
                if is_even == 0 or is_shaded == 0:
                    ground = ground_quantity(backdrop, m, p, 1.0 / inverse_depth)
                    is_shaded = 1
                colour += ground_weight * ground
            for k in ti.static(range(3)):
                pictures[m, y, x, k] = colour[k]
            if pictures.shape[3] == 4:
                pictures[m, y, x, 3] = 0.0
