"""Coverage of a pixel by all faces together: the fraction of a disc around the pixel that the union of the faces covers.

The disc has the cut-off radius R of a face (``tiles.CUT_OFF``), and the weight k(rho) = 3 (1 - rho^2)^2 / (pi R^2) at rho =
distance / R. The weighted areas of faces add up exactly, so that coverage does not depend on the triangulation; the sum of a
picture's coverage is the area of the silhouette, to rounding. Faces are summed separately by orientation on the screen:
counter-clockwise corners ("front") and clockwise ones ("back"),

    N_front = sum over front faces of phi_j integral over face j of k,   N_back likewise,   A = min(max(N_front, N_back), 1)

phi is the near fade. Front and back faces of a closed surface cover the same area, so that either sum is the coverage; of an open
surface it is the larger sum. Where several layers of one or more bodies overlap, N exceeds one.

By the divergence theorem the integral over a face is a sum over its edges: whether the pixel lies in the face (its winding
number), and one term for each edge, an integral along the part of the edge within the disc,

    c = -1 / (2 pi) integral of (1 - rho^2)^3 h / rho^2 dt,   rho^2 = h^2 + t^2

with the signed distance h (positive inside) and the position t along the edge, both in units of R. The two terms of an edge
between faces of the same side cancel: such edges are left out (``find_contours``), which leaves the silhouettes. The derivative
by a point of an edge is the weight k there, along the outward normal.
"""

from typing import Any

from ti_render.raster.fragment import NEAR_FADE, cross2, triangle_setup, vec2
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# A face's code in ``contours``: 0 if it is not drawn, else +- (DRAWN + FADED if a corner is in the near fade + 1, 2, 4 for each
# edge on the contour, in the order of the corners opposite to them), negative for back faces.
FADED, DRAWN = 8, 16
# Distance of a pixel from an edge, in radii, below which ``_edge_side`` decides on which side it lies.
EXACT_TEST_BAND = 1e-4

PI = 3.141592653589793


@bundle
class CoverageGradient:
    """Derivatives of ``face_coverage`` by the screen corners, and sigma times the derivative by sigma.

    The derivative by the pixel is minus the sum of those by the corners.
    """

    a0: Any
    a1: Any
    a2: Any
    sigma: Any


@ti.func
def _face_code(screen: ti.template(), corners: ti.template(), m, f, near_depth):
    """Code of a face in ``contours``, without the bits of its edges."""
    code = 0
    v0, v1, v2 = corners[f, 0], corners[f, 1], corners[f, 2]
    min_depth = ti.min(screen[m, v0, 2], screen[m, v1, 2], screen[m, v2, 2])
    if min_depth > 0:
        inverse_area, _squared, _distance = triangle_setup(
            vec2(screen[m, v0, 0], screen[m, v0, 1]), vec2(screen[m, v1, 0], screen[m, v1, 1]),
            vec2(screen[m, v2, 0], screen[m, v2, 1]),
        )  # fmt: skip
        if inverse_area != 0:
            code = DRAWN
            if min_depth < (1.0 + NEAR_FADE) * near_depth:
                code += FADED
            # With y downwards, corners that run counter-clockwise for the eye have a negative area.
            if inverse_area > 0:
                code = -code
    return code


@kernel
def find_contours(
    serial: ti.template(), screen: ti.types.ndarray(), corners: ti.types.ndarray(), neighbours: ti.types.ndarray(), near: float,
    contours: ti.types.ndarray(),
):  # fmt: skip
    """Write contours [M, F] int32: the orientation of each face on the screen, and which of its edges lie on the contour.

    Reads screen [M, V, 3], corners [F, 8] and neighbours [F, 3] (see ``MeshTopology``). An edge is not on the contour where
    the neighbouring face has the same orientation and neither is in the near fade. No adjoint: integers.
    """
    ti.loop_config(serialize=serial)
    for m, f in ti.ndrange(contours.shape[0], contours.shape[1]):
        contours[m, f] = _face_code(screen, corners, m, f, near)
    ti.loop_config(serialize=serial)
    for m, f in ti.ndrange(contours.shape[0], contours.shape[1]):
        code = contours[m, f]
        edge_bits = 0
        for k in ti.static(range(3)):
            is_contour = 1
            if neighbours[f, k] >= 0:
                # Other threads add edge bits to the neighbour's code, which changes neither its sign nor the bits read here.
                neighbour_code = contours[m, neighbours[f, k]]
                if neighbour_code * code > 0 and (ti.abs(neighbour_code) & FADED) + (ti.abs(code) & FADED) == 0:
                    is_contour = 0
            edge_bits += is_contour << k
        if code > 0:
            contours[m, f] = code + edge_bits
        elif code < 0:
            contours[m, f] = code - edge_bits


@ti.func
def _edge_side(p, a, b, distance_scale):
    """1 or -1: the side of the edge a-b on which ``p`` lies, with the opposite sign for the edge b-a of the neighbouring face.

    Both faces compute the cross product from the same end point, so that rounding is the same. A pixel on the edge is treated as
    shifted by (epsilon, epsilon^2).
    """
    e = b - a
    start = a
    if b[0] < a[0] or (b[0] == a[0] and b[1] < a[1]):
        start = b
    cross = cross2(e, p - start)
    if cross == 0:
        cross = -e[1]
        if cross == 0:
            cross = e[0]
    result = 1.0
    if (cross > 0) != (distance_scale > 0):
        result = -1.0
    return result


@ti.func
def edge_sides(p, triangle: ti.template(), distances, radius):
    """[3] 1 or -1: the side of each edge on which ``p`` lies, 1 inside."""
    sides, distance_scales = vec3(1.0), triangle.distance_scales
    for k in ti.static(range(3)):
        if distances[k] < 0:
            sides[k] = -1.0
    if ti.min(ti.abs(distances[0]), ti.abs(distances[1]), ti.abs(distances[2])) < EXACT_TEST_BAND * radius:
        sides = vec3(
            _edge_side(p, triangle.a1, triangle.a2, distance_scales[0]),
            _edge_side(p, triangle.a2, triangle.a0, distance_scales[1]),
            _edge_side(p, triangle.a0, triangle.a1, distance_scales[2]),
        )  # fmt: skip
    return sides


@ti.func
def _edge_in_disc(p, a, b, inverse_squared_length, distance, radius):
    """Part of an edge within the disc: h, its range t0 to t1 of t (empty where t1 <= t0), t of ``a``, and the length of a-b."""
    h = distance / radius
    t0, t1, t_a, length = 0.0, 0.0, 0.0, 0.0
    if ti.abs(h) < 1.0 and inverse_squared_length > 0:
        e = b - a
        inverse_length = ti.sqrt(inverse_squared_length)
        length = 1.0 / (inverse_length * radius)
        t_a = (a - p).dot(e) * inverse_length / radius
        half_chord = ti.sqrt(1.0 - h * h)
        t0, t1 = ti.max(t_a, -half_chord), ti.min(t_a + length, half_chord)
    return h, t0, t1, t_a, length


@ti.func
def _edge_term(p, a, b, inverse_squared_length, distance, side, radius):
    """Term c of an edge."""
    h, t0, t1, _t_a, _edge_length = _edge_in_disc(p, a, b, inverse_squared_length, distance, radius)
    result = 0.0
    if t1 > t0:
        length = t1 - t0
        # Angle that the edge's part in the disc subtends at the pixel: positive on the inner side.
        angle = side * ti.atan2(ti.abs(h) * length, h * h + t0 * t1)
        t0_squared, t1_squared, h_squared = t0 * t0, t1 * t1, h * h
        integral_t2, integral_t4 = (
            (t1_squared * t1 - t0_squared * t0) / 3.0,
            (t1_squared * t1_squared * t1 - t0_squared * t0_squared * t0) / 5.0,
        )
        polynomial_term = (h_squared * (3.0 - h_squared) - 3.0) * length + (3.0 - 2.0 * h_squared) * integral_t2 - integral_t4
        result = -(angle + h * polynomial_term) * (0.5 / PI)
    return result


@ti.func
def face_coverage(p, triangle: ti.template(), distances, code, radius):
    """Integral of the weight over a face, without the terms of edges that are not on the contour.

    Args:
        p: pixel centre.
        triangle: the face on the screen.
        distances: [3] signed distances from the edges (``Fragment``).
        code: of the face (``find_contours``).
        radius: R.
    """
    result = 0.0
    bits = ti.abs(code)
    if code != 0:
        sides = edge_sides(p, triangle, distances, radius)
        if sides[0] + sides[1] + sides[2] > 2.5:
            result = 1.0
        if bits & 7 != 0:
            if bits & 1 != 0:
                result += _edge_term(
                    p, triangle.a1, triangle.a2, triangle.inverse_squared_lengths[0], distances[0], sides[0], radius
                )
            if bits & 2 != 0:
                result += _edge_term(
                    p, triangle.a2, triangle.a0, triangle.inverse_squared_lengths[1], distances[1], sides[1], radius
                )
            if bits & 4 != 0:
                result += _edge_term(
                    p, triangle.a0, triangle.a1, triangle.inverse_squared_lengths[2], distances[2], sides[2], radius
                )
    return result


@ti.func
def _edge_gradient(p, a, b, inverse_squared_length, distance, distance_scale, radius):
    """Derivatives of an edge's term in ``face_coverage`` by its corners, and sigma times the derivative by sigma."""
    h, t0, t1, t_a, edge_length = _edge_in_disc(p, a, b, inverse_squared_length, distance, radius)
    a_gradient, b_gradient, sigma_derivative = vec2(0), vec2(0), 0.0
    if t1 > t0:
        t0_squared, t1_squared, one_minus_h2 = t0 * t0, t1 * t1, 1.0 - h * h
        integral_t2, integral_t4 = (
            (t1_squared * t1 - t0_squared * t0) / 3.0,
            (t1_squared * t1_squared * t1 - t0_squared * t0_squared * t0) / 5.0,
        )
        integral = one_minus_h2 * one_minus_h2 * (t1 - t0) - 2.0 * one_minus_h2 * integral_t2 + integral_t4
        first_moment = (t1_squared - t0_squared) * (
            0.5 * one_minus_h2 * (one_minus_h2 - t0_squared - t1_squared)
            + (t0_squared * t0_squared + t0_squared * t1_squared + t1_squared * t1_squared) / 6.0
        )
        b_integral = (first_moment - t_a * integral) / edge_length
        e = b - a
        outward = vec2(e[1], -e[0]) * (distance_scale * (3.0 / PI) / radius)
        a_gradient, b_gradient = outward * (integral - b_integral), outward * b_integral
        sigma_derivative = -h * integral * (1.5 / PI)
    return a_gradient, b_gradient, sigma_derivative


@ti.func
def face_coverage_gradient(p, triangle: ti.template(), distances, code, radius):
    """``CoverageGradient`` of a face; arguments of ``face_coverage``."""
    a0_gradient, a1_gradient, a2_gradient, sigma_derivative = vec2(0), vec2(0), vec2(0), 0.0
    bits, inverse_squared_lengths, distance_scales = ti.abs(code), triangle.inverse_squared_lengths, triangle.distance_scales
    if bits & 1 != 0:
        start_gradient, end_gradient, sigma_term = _edge_gradient(
            p, triangle.a1, triangle.a2, inverse_squared_lengths[0], distances[0], distance_scales[0], radius
        )
        a1_gradient += start_gradient
        a2_gradient += end_gradient
        sigma_derivative += sigma_term
    if bits & 2 != 0:
        start_gradient, end_gradient, sigma_term = _edge_gradient(
            p, triangle.a2, triangle.a0, inverse_squared_lengths[1], distances[1], distance_scales[1], radius
        )
        a2_gradient += start_gradient
        a0_gradient += end_gradient
        sigma_derivative += sigma_term
    if bits & 4 != 0:
        start_gradient, end_gradient, sigma_term = _edge_gradient(
            p, triangle.a0, triangle.a1, inverse_squared_lengths[2], distances[2], distance_scales[2], radius
        )
        a0_gradient += start_gradient
        a1_gradient += end_gradient
        sigma_derivative += sigma_term
    return CoverageGradient(a0_gradient, a1_gradient, a2_gradient, sigma_derivative)


@ti.func
def union_coverage(front_sum, back_sum):
    """A, from the sums over front and back faces."""
    return ti.min(ti.max(front_sum, back_sum, 0.0), 1.0)


@ti.func
def union_coverage_gradient(front_sum, back_sum):
    """Derivatives of A by both sums: 1 for the larger sum, 0 for the other; both 0 where A is 0 or 1."""
    front_derivative, back_derivative = 0.0, 0.0
    larger_sum = ti.max(front_sum, back_sum)
    if larger_sum > 0 and larger_sum < 1:
        if front_sum >= back_sum:
            front_derivative = 1.0
        else:
            back_derivative = 1.0
    return front_derivative, back_derivative
