"""Coverage of a pixel by all faces together: the share that their union has of a disc around the pixel.

The disc has the cut-off radius R of a face's reach, and the weight k(rho) = 3 (1 - rho^2)^2 / (pi R^2) at rho = distance / R. The
weighted area of faces adds up exactly, whatever their edges within the union are, so that coverage does not depend on the
triangulation; the area of a picture's coverage is the area of the silhouette, to rounding. With s = 1 for faces whose corners run
one way round on the screen ("front") and the other way ("back") apart,

    N_front = sum over front faces of phi_j integral over face j of k,   N_back likewise,   A = min(max(N_front, N_back), 1)

phi is the near fade. Front and back faces of a closed surface cover the same, so that either sum is the coverage; of an open
surface one sum or the other is. Where parts of one or several bodies lie behind each other, N exceeds one.

By the divergence theorem the integral over a face is a sum over its edges: whether the pixel lies in the face (its winding
number), and for each edge the term that the edge's reach within the disc takes from it or adds to it,

    c = -1 / (2 pi) integral of (1 - rho^2)^3 h / rho^2 dt,   rho^2 = h^2 + t^2

with the signed distance h (positive inside) and the position t along the edge, both in units of R. The two terms of an edge
between faces of the same side cancel: such edges are left out (``find_contours``), which leaves the silhouettes. The derivative
by a point of an edge is the weight k there, along the outward normal.
"""

from typing import Any

from ti_render.raster.fragment import NEAR_FADE, cross2, setup, vec2
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# A face's code in ``contours``: 0 if it is not drawn, else +- (DRAWN + FADED if a corner is in the near fade + 1, 2, 4 for each
# edge that counts, in the order of the corners opposite to them), negative for faces that show their back.
FADED, DRAWN = 8, 16
# Fraction of the radius within which the side of an edge on which a pixel lies is determined without rounding.
CLOSE = 1e-4

PI = 3.141592653589793


@bundle
class CoverageRates:
    """Derivatives of ``face_coverage`` by the screen corners, and by sigma times sigma.

    The derivative by the pixel is minus the sum of those by the corners.
    """

    a0: Any
    a1: Any
    a2: Any
    sigma: Any


@ti.func
def _face_code(screen: ti.template(), corners: ti.template(), m, f, near_depth):
    """Code of a face with none of its edges."""
    code = 0
    v0, v1, v2 = corners[f, 0], corners[f, 1], corners[f, 2]
    nearest = ti.min(screen[m, v0, 2], screen[m, v1, 2], screen[m, v2, 2])
    if nearest > 0:
        inverse_area, _squared, _distance = setup(
            vec2(screen[m, v0, 0], screen[m, v0, 1]), vec2(screen[m, v1, 0], screen[m, v1, 1]),
            vec2(screen[m, v2, 0], screen[m, v2, 1]),
        )  # fmt: skip
        if inverse_area != 0:
            code = DRAWN
            if nearest < (1.0 + NEAR_FADE) * near_depth:
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
    """Write contours [M, F] int32: the side that each face shows, and which of its edges count.

    Reads screen [M, V, 3], corners [F, 8] and neighbours [F, 3] (see ``MeshTopology``). An edge does not count where the face on
    its other side shows the same side and neither is in the near fade. No adjoint: integers.
    """
    ti.loop_config(serialize=serial)
    for m, f in ti.ndrange(contours.shape[0], contours.shape[1]):
        contours[m, f] = _face_code(screen, corners, m, f, near)
    ti.loop_config(serialize=serial)
    for m, f in ti.ndrange(contours.shape[0], contours.shape[1]):
        code = contours[m, f]
        edges = 0
        for k in ti.static(range(3)):
            counts = 1
            if neighbours[f, k] >= 0:
                # Other threads add edges to that code, which changes neither its sign nor these bits.
                neighbour_code = contours[m, neighbours[f, k]]
                if neighbour_code * code > 0 and (ti.abs(neighbour_code) & FADED) + (ti.abs(code) & FADED) == 0:
                    counts = 0
            edges += counts << k
        if code > 0:
            contours[m, f] = code + edges
        elif code < 0:
            contours[m, f] = code - edges


@ti.func
def _side(p, a, b, to_distance):
    """1 or -1: the side of the edge a-b on which ``p`` lies, exactly opposite for the edge b-a of the face on its other side.

    The products start from the same end for both faces. A pixel on the edge counts as moved by (epsilon, epsilon^2).
    """
    e = b - a
    start = a
    if b[0] < a[0] or (b[0] == a[0] and b[1] < a[1]):
        start = b
    value = cross2(e, p - start)
    if value == 0:
        value = -e[1]
        if value == 0:
            value = e[0]
    result = 1.0
    if (value > 0) != (to_distance > 0):
        result = -1.0
    return result


@ti.func
def edge_sides(p, triangle: ti.template(), distances, radius):
    """[3] 1 or -1: the side of each edge on which ``p`` lies, 1 inside."""
    sides, to_distance = vec3(1.0), triangle.to_distance
    for k in ti.static(range(3)):
        if distances[k] < 0:
            sides[k] = -1.0
    if ti.min(ti.abs(distances[0]), ti.abs(distances[1]), ti.abs(distances[2])) < CLOSE * radius:
        sides = vec3(
            _side(p, triangle.a1, triangle.a2, to_distance[0]), _side(p, triangle.a2, triangle.a0, to_distance[1]),
            _side(p, triangle.a0, triangle.a1, to_distance[2]),
        )  # fmt: skip
    return sides


@ti.func
def _reach(p, a, b, inverse_squared, distance, radius):
    """An edge within the disc: h, the first and last position t (last <= first: none), that of ``a``, and the edge's length."""
    h = distance / radius
    first, last, start, length = 0.0, 0.0, 0.0, 0.0
    if ti.abs(h) < 1.0 and inverse_squared > 0:
        e = b - a
        scale = ti.sqrt(inverse_squared)
        length = 1.0 / (scale * radius)
        start = (a - p).dot(e) * scale / radius
        half = ti.sqrt(1.0 - h * h)
        first, last = ti.max(start, -half), ti.min(start + length, half)
    return h, first, last, start, length


@ti.func
def _edge_term(p, a, b, inverse_squared, distance, side, radius):
    """c of an edge."""
    h, first, last, _start, _length = _reach(p, a, b, inverse_squared, distance, radius)
    result = 0.0
    if last > first:
        length = last - first
        # The angle of the edge's reach, seen from the pixel: positive on its inner side.
        angle = side * ti.atan2(ti.abs(h) * length, h * h + first * last)
        a2, b2, h2 = first * first, last * last, h * h
        cubes, fifths = (b2 * last - a2 * first) / 3.0, (b2 * b2 * last - a2 * a2 * first) / 5.0
        full_term = (h2 * (3.0 - h2) - 3.0) * length + (3.0 - 2.0 * h2) * cubes - fifths
        result = -(angle + h * full_term) * (0.5 / PI)
    return result


@ti.func
def face_coverage(p, triangle: ti.template(), distances, code, radius):
    """Integral of the weight over a face, less the terms of edges that do not count.

    Args:
        p: pixel centre.
        triangle: the face on the screen.
        distances: [3] signed distances from the edges (``Fragment``).
        code: of the face (``find_contours``).
        radius: R.
    """
    result = 0.0
    edges = ti.abs(code)
    if code != 0:
        sides = edge_sides(p, triangle, distances, radius)
        if sides[0] + sides[1] + sides[2] > 2.5:
            result = 1.0
        if edges & 7 != 0:
            if edges & 1 != 0:
                result += _edge_term(p, triangle.a1, triangle.a2, triangle.inverse_squared[0], distances[0], sides[0], radius)
            if edges & 2 != 0:
                result += _edge_term(p, triangle.a2, triangle.a0, triangle.inverse_squared[1], distances[1], sides[1], radius)
            if edges & 4 != 0:
                result += _edge_term(p, triangle.a0, triangle.a1, triangle.inverse_squared[2], distances[2], sides[2], radius)
    return result


@ti.func
def _edge_rates(p, a, b, inverse_squared, distance, to_distance, radius):
    """Derivatives of an edge's term in ``face_coverage`` by its corners, and by sigma times sigma."""
    h, first, last, start, length = _reach(p, a, b, inverse_squared, distance, radius)
    a_rate, b_rate, sigma_rate = vec2(0), vec2(0), 0.0
    if last > first:
        a2, b2, flat = first * first, last * last, 1.0 - h * h
        cubes, fifths = (b2 * last - a2 * first) / 3.0, (b2 * b2 * last - a2 * a2 * first) / 5.0
        integral = flat * flat * (last - first) - 2.0 * flat * cubes + fifths
        moment = (b2 - a2) * (0.5 * flat * (flat - a2 - b2) + (a2 * a2 + a2 * b2 + b2 * b2) / 6.0)
        end_share = (moment - start * integral) / length
        e = b - a
        outward = vec2(e[1], -e[0]) * (to_distance * (3.0 / PI) / radius)
        a_rate, b_rate = outward * (integral - end_share), outward * end_share
        sigma_rate = -h * integral * (1.5 / PI)
    return a_rate, b_rate, sigma_rate


@ti.func
def face_coverage_rates(p, triangle: ti.template(), distances, code, radius):
    """``CoverageRates`` of a face; arguments of ``face_coverage``."""
    g0, g1, g2, sigma_rate = vec2(0), vec2(0), vec2(0), 0.0
    edges, inverse_squared, to_distance = ti.abs(code), triangle.inverse_squared, triangle.to_distance
    if edges & 1 != 0:
        g, h, s = _edge_rates(p, triangle.a1, triangle.a2, inverse_squared[0], distances[0], to_distance[0], radius)
        g1 += g
        g2 += h
        sigma_rate += s
    if edges & 2 != 0:
        g, h, s = _edge_rates(p, triangle.a2, triangle.a0, inverse_squared[1], distances[1], to_distance[1], radius)
        g2 += g
        g0 += h
        sigma_rate += s
    if edges & 4 != 0:
        g, h, s = _edge_rates(p, triangle.a0, triangle.a1, inverse_squared[2], distances[2], to_distance[2], radius)
        g0 += g
        g1 += h
        sigma_rate += s
    return CoverageRates(g0, g1, g2, sigma_rate)


@ti.func
def union_coverage(front_sum, back_sum):
    """A of the sums over front and back faces."""
    return ti.min(ti.max(front_sum, back_sum, 0.0), 1.0)


@ti.func
def union_sides(front_sum, back_sum):
    """Derivatives of A by both sums, 0 or 1: that of the larger one, unless the pixel is wholly covered or empty."""
    front_rate, back_rate = 0.0, 0.0
    larger_sum = ti.max(front_sum, back_sum)
    if larger_sum > 0 and larger_sum < 1:
        if front_sum >= back_sum:
            front_rate = 1.0
        else:
            back_rate = 1.0
    return front_rate, back_rate
