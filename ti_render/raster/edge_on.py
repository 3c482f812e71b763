"""Faces that are nearly edge-on, where the boundary point nearest to a pixel leaps from the face's near side to its far side.

As a face turns through its edge, its two long sides change places on the screen. The distance to the face goes on smoothly, but
the nearest point, and with it depth and colour, would jump. In faces that are steep against the picture, that point therefore
gives way to an even mixture of the nearest points of all three edges, which is the same on both sides of the turn:

    b + s (e - b),   e = sum_k w_k b_k / sum_k w_k,   w_k = exp(-d_k^2 / sigma)

with b_k the nearest point of edge k and d_k its distance from the pixel. s = 1 - smoothstep((steepest / slope)^2) is zero where
the slope, the relative change of the depth per unit of the screen, is below ``steepest``, and one for a face that is edge-on.
"""

from ti_sim.base.differentiable import Vector, clip, differentiable, exp, inverse, smoothstep, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

vec2 = ti.math.vec2


def _depth_slope(a0, a1, a2, inverse_depths):
    """Doubled area of a screen triangle, times its mean inverse depth, and area times the gradient of the inverse depth."""
    e1, e2 = a1 - a0, a2 - a0
    i1, i2 = inverse_depths[1] - inverse_depths[0], inverse_depths[2] - inverse_depths[0]
    area = e1[0] * e2[1] - e1[1] * e2[0]
    mean = (inverse_depths[0] + inverse_depths[1] + inverse_depths[2]) * (1.0 / 3.0)
    return area * mean, e1 * i2 - e2 * i1


@differentiable(constant=["steepest"])
def _steepness(a0, a1, a2, inverse_depths, steepest):
    """s, for a face whose depth gradient is above ``steepest`` (which must not be flat)."""
    area, gradient = _depth_slope(a0, a1, a2, inverse_depths)
    return 1.0 - smoothstep(area * area * (steepest * steepest) * inverse(gradient.dot(gradient)))


@ti.func
def is_steep(a0, a1, a2, inverse_depths, steepest):
    """Whether s > 0: the depth gradient of a face is above ``steepest``."""
    e1, e2 = a1 - a0, a2 - a0
    gradient = e1 * (inverse_depths[2] - inverse_depths[0]) - e2 * (inverse_depths[1] - inverse_depths[0])
    area = (e1[0] * e2[1] - e1[1] * e2[0]) * (inverse_depths[0] + inverse_depths[1] + inverse_depths[2]) / 3.0
    return gradient.dot(gradient) > area * area * steepest * steepest


@ti.func
def steepness(a0, a1, a2, inverse_depths, steepest):
    """s of a face."""
    result = 0.0
    if is_steep(a0, a1, a2, inverse_depths, steepest):
        result = _steepness.value(a0, a1, a2, inverse_depths, steepest)
    return result


@ti.func
def steepness_rates(a0, a1, a2, inverse_depths, steepest):
    """s of a face, and its derivatives by the screen corners and the depths."""
    result, r0, r1, r2, depth_rates = 0.0, vec2(0), vec2(0), vec2(0), vec3(0)
    if is_steep(a0, a1, a2, inverse_depths, steepest):
        linearized = _steepness.linearize(a0, a1, a2, inverse_depths, steepest)
        result = linearized.value
        b0, b1, b2, inverse_bar, _steepest_bar = linearized.vjp(1.0)
        r0, r1, r2, depth_rates = b0, b1, b2, -inverse_bar * inverse_depths * inverse_depths
    return result, r0, r1, r2, depth_rates


def _edge_parameter(a, b):
    """Parameter in [0, 1] of the point of the segment a-b that is closest to the origin, and its squared distance."""
    e = b - a
    squared = e.dot(e)
    long = squared > 0.0
    t = clip(where(long, -a.dot(e) * inverse(where(long, squared, 1.0)), 0.0), 0.0, 1.0)
    r = a + e * t
    return t, r.dot(r)


@differentiable()
def even_point(a0, a1, a2, inverse_sigma):
    """Barycentrics e of a pixel at the origin of the screen."""
    (t0, d0), (t1, d1), (t2, d2) = _edge_parameter(a1, a2), _edge_parameter(a2, a0), _edge_parameter(a0, a1)
    min_distance = where(d0 < d1, where(d0 < d2, d0, d2), where(d1 < d2, d1, d2))
    w0, w1, w2 = (exp((min_distance - d) * inverse_sigma) for d in (d0, d1, d2))
    scale = inverse(w0 + w1 + w2)
    return Vector([
        (w1 * t1 + w2 * (1.0 - t2)) * scale, (w2 * t2 + w0 * (1.0 - t0)) * scale, (w0 * t0 + w1 * (1.0 - t1)) * scale,
    ])  # fmt: skip


@ti.func
def mixed_barycentrics(p, triangle: ti.template(), b, steep, inverse_sigma):
    """Barycentrics b + s (e - b) of the pixel centre ``p`` in a face with s = ``steep``, and e (0 for s = 0)."""
    mixed, even = b, vec3(0)
    if steep > 0:
        even = even_point.value(triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, inverse_sigma)
        mixed = b + (even - b) * steep
    return mixed, even
