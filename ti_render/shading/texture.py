"""Bilinear lookup in texture images, differentiable in the texels and in the texture coordinates.

u runs to the right and v upwards; texel (row, column) of a w x h image has its centre at u = (column + 1/2) / w,
v = 1 - (row + 1/2) / h. Indices beyond the image are clamped or wrap around.
"""

from ti_render.rows import is_finite, row_of
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Columns of the table of textures: first texel, width, height, wrap (1) or clamp (0).
FIRST_TEXEL, WIDTH, HEIGHT, WRAP = 0, 1, 2, 3


@ti.func
def _index(i, size, wrap):
    result = ti.min(ti.max(i, 0), size - 1)
    if wrap == 1:
        result = i - ti.cast(ti.floor(ti.cast(i, float) / size), ti.i32) * size
        result = ti.min(ti.max(result, 0), size - 1)
    return result


@ti.func
def texture_taps(textures: ti.template(), t, u, v):
    """The four texels around (u, v) of texture ``t`` (upper left, upper right, lower left, lower right), and the
    bilinear weights of the right and the lower ones."""
    width, height, wrap = textures[t, WIDTH], textures[t, HEIGHT], textures[t, WRAP]
    x, y = u * width - 0.5, (1.0 - v) * height - 0.5
    # Coordinates so far beyond the image that the integers would overflow are replaced by 0.
    if not (is_finite(x) and is_finite(y) and ti.abs(x) < 1e8 and ti.abs(y) < 1e8):
        x, y = 0.0, 0.0
    left, upper = ti.floor(x), ti.floor(y)
    i0, j0 = ti.cast(left, ti.i32), ti.cast(upper, ti.i32)
    x0, x1 = _index(i0, width, wrap), _index(i0 + 1, width, wrap)
    y0, y1 = _index(j0, height, wrap), _index(j0 + 1, height, wrap)
    first_texel = textures[t, FIRST_TEXEL]
    texel_indices = ti.math.ivec4(
        first_texel + y0 * width + x0, first_texel + y0 * width + x1, first_texel + y1 * width + x0, first_texel + y1 * width + x1
    )
    return texel_indices, x - left, y - upper


@ti.func
def sample_texture(view: ti.template(), m, t, u, v):
    """Colour of texture ``t`` at (u, v), and its derivatives by u and v."""
    texel_indices, fx, fy = texture_taps(view.textures, t, u, v)
    texels_row = row_of(m, view.texels.shape[0], view.images)
    c00, c10 = load_vec3(view.texels, texels_row, texel_indices[0], 0), load_vec3(view.texels, texels_row, texel_indices[1], 0)
    c01, c11 = load_vec3(view.texels, texels_row, texel_indices[2], 0), load_vec3(view.texels, texels_row, texel_indices[3], 0)
    upper, lower = c00 + (c10 - c00) * fx, c01 + (c11 - c01) * fx
    colour_by_x = (c10 - c00) * (1.0 - fy) + (c11 - c01) * fy
    return upper + (lower - upper) * fy, colour_by_x * view.textures[t, WIDTH], (upper - lower) * view.textures[t, HEIGHT]


@ti.func
def add_texels(view: ti.template(), bars: ti.template(), m, t, u, v, colour_bar):
    """Adds the adjoint of a looked-up colour to those of the four texels."""
    texel_indices, fx, fy = texture_taps(view.textures, t, u, v)
    texels_row = row_of(m, bars.texels.shape[0], view.images)
    for k in ti.static(range(3)):
        bars.texels[texels_row, texel_indices[0], k] += colour_bar[k] * (1.0 - fx) * (1.0 - fy)
        bars.texels[texels_row, texel_indices[1], k] += colour_bar[k] * fx * (1.0 - fy)
        bars.texels[texels_row, texel_indices[2], k] += colour_bar[k] * (1.0 - fx) * fy
        bars.texels[texels_row, texel_indices[3], k] += colour_bar[k] * fx * fy


@ti.func
def texels_tangent(view: ti.template(), dots: ti.template(), c, m, t, u, v):
    """Tangent of a looked-up colour by the texels' tangents [K, n, X, 3] in column ``c``."""
    texel_indices, fx, fy = texture_taps(view.textures, t, u, v)
    texels_row = row_of(m, dots.texels.shape[1], view.images)
    result = vec3(0)
    for k in ti.static(range(3)):
        upper = (
            dots.texels[c, texels_row, texel_indices[0], k] * (1.0 - fx) + dots.texels[c, texels_row, texel_indices[1], k] * fx
        )
        lower = (
            dots.texels[c, texels_row, texel_indices[2], k] * (1.0 - fx) + dots.texels[c, texels_row, texel_indices[3], k] * fx
        )
        result[k] = upper * (1.0 - fy) + lower * fy
    return result
