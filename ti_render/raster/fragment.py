"""Fragment, one face at one pixel: its weight in the colour, its depth and their derivatives.

Liu et al., Soft Rasterizer (ICCV 2019), eq. 1: D = sigmoid(+-d^2 / sigma), d the distance to the triangle's boundary: the face's
probability at the pixel. Outside the triangle, beyond d^2 / sigma = FADE_START, D is multiplied by exp(-tail), and the tail
exponent grows to infinity at the cut-off: the softmax weighs D against exp(depth / gamma), so that a face in front of others
dominates until D is exponentially small, and a fade that ended at the cut-off like a polynomial would end with a jump. Depth and
colour use the barycentrics of the closest point of the triangle, which lie in [0, 1], so that the denominator of the perspective
correction stays between the corners' inverse depths.
"""

from typing import Any

from ti_render.raster.tiles import CUT_OFF
from ti_sim.base.bundles import bundle
from ti_sim.base.differentiable import differentiable, smoothstep
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Fade to the cut-off: squared distance / sigma at which it begins, its strength, and the remaining fraction of its range below
# which D is set to 0.
FADE_START, FADE_STRENGTH, MIN_FADE_REMAINDER = 6.0, 20.0, 1e-3
# A face fades in while its corners' depths go from near to (1 + NEAR_FADE) near.
NEAR_FADE = 0.25
# Squared distance / sigma inside a face beyond which D is set to one.
SATURATION_LOGIT = 40.0
# Squared (height / longest edge) below which a triangle has no inside.
DEGENERATE_RATIO = 1e-12

vec2 = ti.math.vec2


@bundle
class Triangle:
    """A face on the screen, while a kernel is compiled.

    Attributes:
        a0, a1, a2: screen positions of its corners.
        depths, inverse_depths: [3] of its corners [m, 1/m].
        inverse_area: 1 / doubled signed area (0 for a triangle without inside).
        inverse_squared_lengths: [3] inverse squared lengths of the edges opposite to each corner (0 for an edge of no length).
        distance_scales: [3] factors that turn doubled sub-areas into signed distances (inside positive).
    """

    a0: Any
    a1: Any
    a2: Any
    depths: Any
    inverse_depths: Any
    inverse_area: Any
    inverse_squared_lengths: Any
    distance_scales: Any


@bundle
class Fragment:
    """A triangle at a pixel centre, while a kernel is compiled.

    Attributes:
        sigmoid: sigmoid(x), 0 beyond the cut-off.
        tail_exponent: of the fade: D = sigmoid exp(-tail_exponent).
        logit: x = +-d^2 / sigma, positive inside.
        log_derivative: d(log D)/dx.
        barycentrics: [3] of the closest point of the triangle, on the screen.
        edge: the closest edge (0, 1, 2; opposite to that corner).
        inside: whether the pixel is inside.
        distances: [3] signed, from the lines of the edges.
    """

    sigmoid: Any
    tail_exponent: Any
    logit: Any
    log_derivative: Any
    barycentrics: Any
    edge: Any
    inside: Any
    distances: Any


@ti.func
def cross2(a, b):
    """The third component of the cross product of two plane vectors."""
    return a[0] * b[1] - a[1] * b[0]


@differentiable()
def near_fade(depths, inverse_near):
    """Factor of a face's coverage: 0 for a corner at the near plane, 1 for all corners well beyond it, and smooth."""
    t = [smoothstep((depths[k] * inverse_near - 1.0) * (1.0 / NEAR_FADE)) for k in range(3)]
    return t[0] * t[1] * t[2]


@ti.func
def near_fade_gradient(depths, inverse_near):
    """``near_fade``, and the derivatives of its logarithm by the depths (zero where it is zero)."""
    fade, log_gradient = 1.0, vec3(0)
    if ti.min(depths[0], depths[1], depths[2]) * inverse_near < 1.0 + NEAR_FADE:
        fade = near_fade.value(depths, inverse_near)
        if fade > 0:
            fade_bar, _near_bar = near_fade.vjp((depths, inverse_near), 1.0 / fade)
            log_gradient = fade_bar
    return fade, log_gradient


@ti.func
def inverse_or_zero(x):
    """1 / x, or 0 for x = 0."""
    result = 0.0
    if x > 0:
        result = 1.0 / x
    return result


@ti.func
def triangle_setup(a0, a1, a2):
    """``inverse_area``, ``inverse_squared_lengths`` and ``distance_scales`` of a ``Triangle``."""
    e0, e1, e2 = a2 - a1, a0 - a2, a1 - a0
    area = cross2(e1, e2)
    squared_lengths = vec3(e0.dot(e0), e1.dot(e1), e2.dot(e2))
    inverse_squared_lengths = vec3(
        inverse_or_zero(squared_lengths[0]), inverse_or_zero(squared_lengths[1]), inverse_or_zero(squared_lengths[2])
    )
    inverse_area = 0.0
    distance_scales = vec3(0)
    max_squared_length = ti.max(squared_lengths[0], squared_lengths[1], squared_lengths[2])
    if area * area > DEGENERATE_RATIO * max_squared_length * max_squared_length:
        inverse_area = 1.0 / area
        distance_scales = ti.sqrt(inverse_squared_lengths)
        if area < 0:
            distance_scales *= -1.0
    return inverse_area, inverse_squared_lengths, distance_scales


@ti.func
def sub_areas(p, triangle: ti.template()):
    """Doubled signed areas of the triangles of ``p`` with the edges opposite to each corner."""
    d, u, v = p - triangle.a0, triangle.a1 - triangle.a0, triangle.a2 - triangle.a0
    s2 = cross2(u, d)
    s1 = cross2(d, v)
    return vec3(cross2(u, v) - s1 - s2, s1, s2)


@ti.func
def edge_point(p, a, b, inverse_squared_length):
    """Parameter in [0, 1] of the point of the segment a-b that is closest to ``p``, and the squared distance."""
    t = ti.min(ti.max((p - a).dot(b - a) * inverse_squared_length, 0.0), 1.0)
    offset = p - a - t * (b - a)
    return t, offset.dot(offset)


@ti.func
def closest_point(p, triangle: ti.template(), distances, degenerate):
    """Barycentrics of the boundary point that is closest to an outside pixel, its squared distance and its edge.

    Only edges with a negative signed distance can hold it; for a degenerate triangle all edges are tried.
    """
    b = vec3(0)
    min_squared_distance, edge = 1e30, 0
    if distances[0] < 0 or degenerate:
        t, squared_distance = edge_point(p, triangle.a1, triangle.a2, triangle.inverse_squared_lengths[0])
        b, min_squared_distance, edge = vec3(0.0, 1.0 - t, t), squared_distance, 0
    if distances[1] < 0 or degenerate:
        t, squared_distance = edge_point(p, triangle.a2, triangle.a0, triangle.inverse_squared_lengths[1])
        if squared_distance < min_squared_distance:
            b, min_squared_distance, edge = vec3(t, 0.0, 1.0 - t), squared_distance, 1
    if distances[2] < 0 or degenerate:
        t, squared_distance = edge_point(p, triangle.a0, triangle.a1, triangle.inverse_squared_lengths[2])
        if squared_distance < min_squared_distance:
            b, min_squared_distance, edge = vec3(1.0 - t, t, 0.0), squared_distance, 2
    return b, min_squared_distance, edge


@ti.func
def inside_complement(logit):
    """1 - D of an inside pixel with logit d^2 / sigma."""
    complement = 0.0
    if logit < SATURATION_LOGIT:
        complement = 1.0 / (1.0 + ti.exp(logit))
    return complement


@ti.func
def outside_probability(y):
    """Of an outside pixel with y = d^2 / sigma: sigmoid(-y) (0 beyond the cut-off), the tail exponent, and -d(log D)/dy."""
    t = ti.max((y - FADE_START) / (CUT_OFF - FADE_START), 0.0)
    remainder = 1.0 - t
    sigmoid, tail_exponent, log_decay = 0.0, 0.0, 0.0
    if remainder > MIN_FADE_REMAINDER:
        sigmoid = 1.0 / (1.0 + ti.exp(y))
        tail_exponent = FADE_STRENGTH * t * t / remainder
        log_decay = 1.0 - sigmoid + FADE_STRENGTH * t * (2.0 - t) / (remainder * remainder * (CUT_OFF - FADE_START))
    return sigmoid, tail_exponent, log_decay


@ti.func
def sub_areas_adjoint(p, triangle: ti.template(), areas_bar):
    """Adjoint of the three independent ``sub_areas`` (each depends on two corners and p): adjoints of the corners."""
    r0, r1, r2 = triangle.a0 - p, triangle.a1 - p, triangle.a2 - p
    return (
        vec2(-r2[1], r2[0]) * areas_bar[1] + vec2(r1[1], -r1[0]) * areas_bar[2],
        vec2(r2[1], -r2[0]) * areas_bar[0] + vec2(-r0[1], r0[0]) * areas_bar[2],
        vec2(-r1[1], r1[0]) * areas_bar[0] + vec2(r0[1], -r0[0]) * areas_bar[1],
    )


@ti.func
def edge_parameter_adjoint(p, a, b, t, inverse_squared_length, t_bar):
    """Adjoint of the parameter t of ``edge_point`` to the two corners (zero where t was clipped)."""
    a_bar, b_bar = vec2(0), vec2(0)
    if t > 0 and t < 1:
        e, r = b - a, p - a
        b_bar = (r - 2.0 * t * e) * (inverse_squared_length * t_bar)
        a_bar = e * (-inverse_squared_length * t_bar) - b_bar
    return a_bar, b_bar


@ti.func
def fragment_at(p, triangle: ti.template(), radius, inverse_sigma):
    """The ``Fragment`` of a triangle at the pixel centre ``p``; ``radius`` is the cut-off, sqrt(CUT_OFF sigma)."""
    sigmoid, tail_exponent, log_derivative, logit = 0.0, 0.0, 0.0, 0.0
    b = vec3(0)
    edge, inside = 0, 0
    areas = sub_areas(p, triangle)
    distances = areas * triangle.distance_scales
    min_distance = ti.min(distances[0], distances[1], distances[2])
    degenerate = triangle.inverse_area == 0
    # The distance to the triangle is at least that to the half-plane of any edge: rejects most pixels of the bounding box.
    if min_distance > -radius:
        if min_distance >= 0 and not degenerate:
            inside = 1
            logit = min_distance * min_distance * inverse_sigma
            log_derivative = inside_complement(logit)
            sigmoid = 1.0 - log_derivative
            b = areas * triangle.inverse_area
            if min_distance == distances[1]:
                edge = 1
            elif min_distance == distances[2]:
                edge = 2
        else:
            b, squared_distance, edge = closest_point(p, triangle, distances, degenerate)
            if squared_distance * inverse_sigma < CUT_OFF:
                logit = -squared_distance * inverse_sigma
                sigmoid, tail_exponent, log_derivative = outside_probability(-logit)
    return Fragment(sigmoid, tail_exponent, logit, log_derivative, b, edge, inside, distances)


@ti.func
def perspective(b, inverse_depths):
    """Perspective-correct barycentrics and depth z = 1 / sum(b / depths) of the screen barycentrics ``b``."""
    r = b * inverse_depths
    z = 1.0 / (r[0] + r[1] + r[2])
    return r * z, z


@ti.func
def barycentrics_adjoint(p, triangle: ti.template(), fragment: ti.template(), b_bar):
    """Adjoints of the screen corners from the adjoint of the barycentrics of the ``Fragment`` ``fragment``."""
    a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
    b, inverse_squared_lengths = fragment.barycentrics, triangle.inverse_squared_lengths
    if fragment.inside == 1:
        a0_bar, a1_bar, a2_bar = sub_areas_adjoint(p, triangle, (b_bar - b.dot(b_bar)) * triangle.inverse_area)
    elif fragment.edge == 0:
        a1_bar, a2_bar = edge_parameter_adjoint(
            p, triangle.a1, triangle.a2, b[2], inverse_squared_lengths[0], b_bar[2] - b_bar[1]
        )
    elif fragment.edge == 1:
        a2_bar, a0_bar = edge_parameter_adjoint(
            p, triangle.a2, triangle.a0, b[0], inverse_squared_lengths[1], b_bar[0] - b_bar[2]
        )
    else:
        a0_bar, a1_bar = edge_parameter_adjoint(
            p, triangle.a0, triangle.a1, b[1], inverse_squared_lengths[2], b_bar[1] - b_bar[0]
        )
    return a0_bar, a1_bar, a2_bar


@ti.func
def boundary_point(p, triangle: ti.template(), edge):
    """Barycentrics of the point of the nearest edge that is closest to ``p``."""
    b = vec3(0)
    if edge == 0:
        t, _ = edge_point(p, triangle.a1, triangle.a2, triangle.inverse_squared_lengths[0])
        b = vec3(0.0, 1.0 - t, t)
    elif edge == 1:
        t, _ = edge_point(p, triangle.a2, triangle.a0, triangle.inverse_squared_lengths[1])
        b = vec3(t, 0.0, 1.0 - t)
    else:
        t, _ = edge_point(p, triangle.a0, triangle.a1, triangle.inverse_squared_lengths[2])
        b = vec3(1.0 - t, t, 0.0)
    return b


@ti.func
def distance_gradient(p, triangle: ti.template(), fragment: ti.template(), inverse_sigma):
    """Gradient of x = +-d^2 / sigma by the boundary point (a vector), and that point's barycentrics: x_dot is their product
    with the corners' tangents, sum b_k gradient . a_k_dot, as d^2 is least at the boundary point."""
    b = boundary_point(p, triangle, fragment.edge)
    scale = 2.0 * inverse_sigma
    if fragment.inside == 1:
        scale = -scale
    return (p - triangle.a0 * b[0] - triangle.a1 * b[1] - triangle.a2 * b[2]) * scale, b


@ti.func
def distance_adjoint(p, triangle: ti.template(), fragment: ti.template(), logit_bar, inverse_sigma):
    """Adjoints of the screen corners from the adjoint of x = +-d^2 / sigma."""
    gradient, b = distance_gradient(p, triangle, fragment, inverse_sigma)
    gradient *= logit_bar
    return gradient * b[0], gradient * b[1], gradient * b[2]
