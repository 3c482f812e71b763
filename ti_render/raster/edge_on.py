"""Faces that are nearly edge-on, where the boundary point nearest to a pixel jumps from the face's near side to its far side.

When a face passes through edge-on, its two long sides swap on the screen. The distance to the face stays smooth, but the nearest
point, and with it depth and colour, would jump. In faces that are steep to the image plane, that point is therefore blended with
a weighted average of the nearest points of all three edges, which is the same just before and just after the swap:

    b + s (e - b),   e = sum_k w_k b_k / sum_k w_k,   w_k = exp(-d_k^2 / sigma)

with b_k the nearest point of edge k and d_k its distance from the pixel. The steepness s = 1 - smoothstep((edge_on_slope /
slope)^2) is zero where the slope, the relative change of the depth per unit of the screen, is below ``edge_on_slope``, and one
for a face that is edge-on.
"""

from ti_sim.base.differentiable import Vector, clip, differentiable, exp, inverse, smoothstep, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

vec2 = ti.math.vec2


def _depth_slope(a0, a1, a2, inverse_depths):
    """Doubled area of a screen triangle times its mean inverse depth, and times the gradient of the inverse depth."""
    e1, e2 = a1 - a0, a2 - a0
    inverse_depth1, inverse_depth2 = inverse_depths[1] - inverse_depths[0], inverse_depths[2] - inverse_depths[0]
    area = e1[0] * e2[1] - e1[1] * e2[0]
    mean_inverse_depth = (inverse_depths[0] + inverse_depths[1] + inverse_depths[2]) * (1.0 / 3.0)
    return area * mean_inverse_depth, e1 * inverse_depth2 - e2 * inverse_depth1


@differentiable(constant=["edge_on_slope"])
def _steepness(a0, a1, a2, inverse_depths, edge_on_slope):
    """The steepness s of a face whose slope is above ``edge_on_slope``; its depth gradient must not be zero."""
    area, gradient = _depth_slope(a0, a1, a2, inverse_depths)
    return 1.0 - smoothstep(area * area * (edge_on_slope * edge_on_slope) * inverse(gradient.dot(gradient)))


@ti.func
def is_steep(a0, a1, a2, inverse_depths, edge_on_slope):
    """Whether s > 0: the slope of a face is above ``edge_on_slope``."""
    e1, e2 = a1 - a0, a2 - a0
    gradient = e1 * (inverse_depths[2] - inverse_depths[0]) - e2 * (inverse_depths[1] - inverse_depths[0])
    area = (e1[0] * e2[1] - e1[1] * e2[0]) * (inverse_depths[0] + inverse_depths[1] + inverse_depths[2]) / 3.0
    return gradient.dot(gradient) > area * area * edge_on_slope * edge_on_slope


@ti.func
def face_steepness(a0, a1, a2, inverse_depths, edge_on_slope):
    """s of a face."""
    result = 0.0
    if is_steep(a0, a1, a2, inverse_depths, edge_on_slope):
        result = _steepness.value(a0, a1, a2, inverse_depths, edge_on_slope)
    return result


@ti.func
def face_steepness_gradient(a0, a1, a2, inverse_depths, edge_on_slope):
    """s of a face, and its derivatives by the screen corners and the depths."""
    result, a0_gradient, a1_gradient, a2_gradient, depth_gradient = 0.0, vec2(0), vec2(0), vec2(0), vec3(0)
    if is_steep(a0, a1, a2, inverse_depths, edge_on_slope):
        linearized = _steepness.linearize(a0, a1, a2, inverse_depths, edge_on_slope)
        result = linearized.value
        a0_bar, a1_bar, a2_bar, inverse_bar, _edge_on_slope_bar = linearized.vjp(1.0)
        a0_gradient, a1_gradient, a2_gradient, depth_gradient = (
            a0_bar,
            a1_bar,
            a2_bar,
            inverse_bar * inverse_depths * inverse_depths * -1.0,
        )
    return result, a0_gradient, a1_gradient, a2_gradient, depth_gradient


def _edge_parameter(a, b):
    """Parameter in [0, 1] of the point of the segment a-b that is closest to the origin, and its squared distance."""
    e = b - a
    squared_length = e.dot(e)
    has_length = squared_length > 0.0
    t = clip(where(has_length, -a.dot(e) * inverse(where(has_length, squared_length, 1.0)), 0.0), 0.0, 1.0)
    closest = a + e * t
    return t, closest.dot(closest)


@differentiable()
def edge_average_point(a0, a1, a2, inverse_sigma):
    """Barycentrics e of a pixel at the origin of the screen."""
    (t0, d0_squared), (t1, d1_squared), (t2, d2_squared) = (
        _edge_parameter(a1, a2),
        _edge_parameter(a2, a0),
        _edge_parameter(a0, a1),
    )
    min_squared = where(
        d0_squared < d1_squared,
        where(d0_squared < d2_squared, d0_squared, d2_squared),
        where(d1_squared < d2_squared, d1_squared, d2_squared),
    )
    w0, w1, w2 = (exp((min_squared - d_squared) * inverse_sigma) for d_squared in (d0_squared, d1_squared, d2_squared))
    scale = inverse(w0 + w1 + w2)
    return Vector([
        (w1 * t1 + w2 * (1.0 - t2)) * scale, (w2 * t2 + w0 * (1.0 - t0)) * scale, (w0 * t0 + w1 * (1.0 - t1)) * scale,
    ])  # fmt: skip


@ti.func
def mixed_barycentrics(p, triangle: ti.template(), b, steepness, inverse_sigma):
    """Barycentrics b + s (e - b) of the pixel centre ``p`` in a face with s = ``steepness``, and e (0 for s = 0)."""
    mixed, edge_average = b, vec3(0)
    if steepness > 0:
        edge_average = edge_average_point.value(triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, inverse_sigma)
        mixed = b + (edge_average - b) * steepness
    return mixed, edge_average
