"""Bending of sheets about the interior edges of their triangles, with damping, and its adjoint.

phi is the angle between the normals of the two triangles at an edge, 0 where they are flat and positive where the edge is a
ridge seen from the normals' side. The moment is k sin((phi - phi_rest) / 2 + a), that of the energy
2 k (1 - cos((phi - phi_rest) / 2 + a)) with the actuation a, and damping times dphi/dt; each particle feels minus the moment
times dphi/dx. Neither phi nor its sine is computed: the sine and cosine of phi / 2 follow from those of phi.
"""

from typing import TypeVar

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.deformable.corners import add_bar, add_corner, add_state_corner, load_dual, load_position, load_velocity

Number = TypeVar("Number")

# Columns of ``edge_indices``: the particles opposite the edge in the first and in the second triangle, and those of the edge.
FIRST, SECOND, START, END = range(4)

# Columns of ``edge_material``.
STIFFNESS, DAMPING, REST_ANGLE = range(3)


@checked
def bending_edges(tri_indices: np.ndarray) -> np.ndarray:
    """Interior edges of a mesh of consistently wound triangles.

    Args:
        tri_indices: [T, 3] particles.

    Returns:
        [M, 4] int32: the particle opposite the edge in the first triangle, that in the second, and start and end of the edge. The
            first triangle is (start, end, first), the second (end, start, second), both counter-clockwise. Sorted by start and
            end.

    Raises:
        UserError: an edge has three triangles, or its two triangles have opposite winding.
    """
    triangles = np.asarray(tri_indices)
    triangle_count = len(triangles)
    start = triangles.T.ravel()  # corner by corner: edges 01, 12, 20
    end = triangles[:, [1, 2, 0]].T.ravel()
    opposite = triangles[:, [2, 0, 1]].T.ravel()
    low, high = np.minimum(start, end), np.maximum(start, end)
    order = np.lexsort((start > end, high, low))  # the two half-edges of an edge are adjacent, the one from the lower index first
    low, high, owner = low[order], high[order], order % max(triangle_count, 1)
    shares_edge = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    has_third = shares_edge[1:] & shares_edge[:-1]
    if has_third.any():
        k = int(np.argmax(has_third))
        raise UserError(
            f"edge {low[k]}-{high[k]} belongs to triangles {owner[k]}, {owner[k + 1]} and {owner[k + 2]}: bending needs a sheet, "
            "in which an edge has at most two triangles; remove one, or give the third its own particles"
        )
    first = order[:-1][shares_edge]
    second = order[1:][shares_edge]
    has_equal_direction = start[first] == start[second]
    if has_equal_direction.any():
        k = int(np.argmax(has_equal_direction))
        low_triangle, high_triangle = sorted((int(first[k] % triangle_count), int(second[k] % triangle_count)))
        raise UserError(
            f"triangles {low_triangle} and {high_triangle} have opposite winding at edge {start[first[k]]}-{end[first[k]]}: "
            "reverse the order of the particles of one of them"
        )
    return np.stack([opposite[first], opposite[second], start[first], end[first]], axis=1).astype(np.int32).reshape(-1, 4)


def rest_angles(positions: np.ndarray, edge_indices: np.ndarray) -> np.ndarray:
    """Angles phi of edges, for a sheet with any rest shape.

    Args:
        positions: [..., P, 3], m.
        edge_indices: [M, 4].

    Returns:
        [..., M], rad, in (-pi, pi].
    """
    corner = np.asarray(positions, dtype=np.float64)[..., edge_indices, :]
    first, second, edge = (corner[..., k, :] - corner[..., START, :] for k in (FIRST, SECOND, END))
    n1, n2 = np.cross(edge, first), np.cross(second, edge)
    return np.arctan2(-np.linalg.norm(edge, axis=-1) * (n1 * second).sum(-1), (n1 * n2).sum(-1))


@checked
def plate_rigidity(youngs_modulus: Number, poisson_ratio: Number, thickness: Number) -> Number:
    """Flexural rigidity D of a thin plate [N m]: E h^3 / (12 (1 - nu^2)), from E [Pa], nu [1] and the thickness h [m]."""
    return youngs_modulus * thickness**3 / (12 * (1 - poisson_ratio * poisson_ratio))


@checked
def edge_stiffness(rigidity: float | np.ndarray, particle_rest: np.ndarray, edge_indices: np.ndarray) -> np.ndarray:
    """Stiffness of edges for which a sheet bends as a plate: k = 2 D L^2 / (A1 + A2), L the length of the edge, A1, A2 the areas.

    At a small curvature kappa along the direction d, an edge at the angle alpha to d bends by phi = kappa / 2 ((h1 + h2) sin^2
    alpha + (s1 - s2) sin 2 alpha - cos^2 alpha (s1 (L - s1) / h1 + s2 (L - s2) / h2)), where the triangles have the heights h1,
    h2 over the edge with the feet s1, s2 on it. Its energy is k phi^2 / 4. The sum is D kappa^2 / 2 per area

    - for every d on a mesh of equilateral triangles;
    - for d along the sides of a grid of squares, each split by a diagonal; along and across the diagonals it is 3 times and 1
      times that if all diagonals are parallel, and 3/2 times if they alternate.

    On other meshes the stiffness deviates by similar, non-uniform factors: it depends on the directions of the mesh edges. In
    addition, the energy of edges has no Poisson ratio, which matters for saddle shapes. Boundary edges have no bending stiffness,
    so a sheet of n rows of triangles is softer by about 1 / n.

    Args:
        rigidity: D [N m], one number, or one per edge; for tensors, multiply the stiffness for 1 N m by them.
        particle_rest: [P, 3] rest positions [m].
        edge_indices: [M, 4].

    Returns:
        [M], N m.
    """
    corner = np.asarray(particle_rest, dtype=np.float64)[edge_indices]
    first, second, edge = (corner[:, k] - corner[:, START] for k in (FIRST, SECOND, END))
    double_areas = np.linalg.norm(np.cross(edge, first), axis=1) + np.linalg.norm(np.cross(second, edge), axis=1)
    return rigidity * 4 * (edge * edge).sum(1) / double_areas


@ti.func
def hinge(edge, first, second):
    """Geometry of an edge and its two triangles, from vectors relative to the start of the edge.

    Args:
        edge: vector to the end of the edge [m].
        first: vector to the opposite particle of the first triangle [m].
        second: vector to that of the second triangle [m].

    Returns:
        (n1, n2, inverse1, inverse2, length, inverse_square, t1, t2): normals of the triangles, of twice their areas in length;
        the inverses of the squares of these lengths [1/m4], both zero if a triangle has no area; the length of the edge, and the
        inverse of its square; the feet of both particles on the edge, 0 at the start and 1 at the end. Then dphi/dx [1/m] of the
        opposite particles is -length inverse1 n1 and -length inverse2 n2, that of the end of the edge is minus their sum weighted
        by t1 and t2, and that of its start makes the sum zero.
    """
    n1, n2 = edge.cross(first), second.cross(edge)
    edge_squared, n1_squared, n2_squared = edge.dot(edge), n1.dot(n1), n2.dot(n2)
    inverse_square, inverse1, inverse2 = 0.0, 0.0, 0.0
    if n1_squared > 0 and n2_squared > 0:
        inverse_square, inverse1, inverse2 = 1 / edge_squared, 1 / n1_squared, 1 / n2_squared
    t1, t2 = first.dot(edge) * inverse_square, second.dot(edge) * inverse_square
    return n1, n2, inverse1, inverse2, ti.sqrt(edge_squared), inverse_square, t1, t2


@ti.func
def half_angle_plus(sine, cosine, offset):
    """Sine and cosine of phi / 2 + offset, from those of phi, for phi in (-pi, pi)."""
    # The larger of sin(phi / 2) and cos(phi / 2) from its square, the other from sin(phi) = 2 sin(phi / 2) cos(phi / 2).
    large = ti.sqrt(0.5 + 0.5 * ti.abs(cosine))
    small = 0.5 * sine / large
    half_sine, half_cosine = small, large
    if cosine < 0:
        half_sine, half_cosine = large, small
        if sine < 0:
            half_sine, half_cosine = -large, -small
    if offset != 0:
        offset_sine, offset_cosine = ti.sin(offset), ti.cos(offset)
        half_sine, half_cosine = (
            half_sine * offset_cosine + half_cosine * offset_sine,
            half_cosine * offset_cosine - half_sine * offset_sine,
        )
    return half_sine, half_cosine


@ti.func
def deflection(arrays: ti.template(), b, frame, e, second, n1, n2, inverse1, inverse2, length):
    """Sine and cosine of (phi - phi_rest) / 2 + a of edge e, from its ``hinge``."""
    scale = ti.sqrt(inverse1) * ti.sqrt(inverse2)
    offset = arrays.edge_actuation[b, frame, e] - 0.5 * arrays.edge_material[b, e, REST_ANGLE]
    return half_angle_plus(-length * scale * n1.dot(second), scale * n1.dot(n2), offset)


@ti.func
def bending_force(arrays: ti.template(), state: ti.template(), out: ti.template(), b, row, frame, e, first_slot):
    """Add the bending forces of edge e to its four particles; zero if one of its triangles has no area.

    Args:
        arrays: ``DeformableArrays``.
        state: [B, rows, P, 6], m and m/s.
        out: forces [N], see ``add_corner``.
        b: world.
        row: row of the state.
        frame: control row of this step.
        e: index of the edge.
        first_slot: slot of the first corner of the first edge.
    """
    i0, i1 = arrays.edge_indices[e, FIRST], arrays.edge_indices[e, SECOND]
    i2, i3 = arrays.edge_indices[e, START], arrays.edge_indices[e, END]
    x2 = load_position(state, b, row, i2)
    edge, second = load_position(state, b, row, i3) - x2, load_position(state, b, row, i1) - x2
    first = load_position(state, b, row, i0) - x2
    n1, n2, inverse1, inverse2, length, _inverse_square, t1, t2 = hinge(edge, first, second)
    g1, g2 = -length * inverse1 * n1, -length * inverse2 * n2
    g3 = -t1 * g1 - t2 * g2
    moment = 0.0
    if inverse1 > 0:
        sine, _cosine = deflection(arrays, b, frame, e, second, n1, n2, inverse1, inverse2, length)
        moment = arrays.edge_material[b, e, STIFFNESS] * sine
        if ti.static(arrays.features.with_damping):
            v2 = load_velocity(state, b, row, i2)
            angle_rate = g1.dot(load_velocity(state, b, row, i0) - v2) + g2.dot(load_velocity(state, b, row, i1) - v2)
            angle_rate += g3.dot(load_velocity(state, b, row, i3) - v2)
            moment += arrays.edge_material[b, e, DAMPING] * angle_rate
    force0, force1, force3 = -moment * g1, -moment * g2, -moment * g3
    slot = first_slot + 4 * e
    add_corner(arrays.gather, out, b, slot, i0, 0, force0)
    add_corner(arrays.gather, out, b, slot + 1, i1, 0, force1)
    add_corner(arrays.gather, out, b, slot + 2, i2, 0, -force0 - force1 - force3)
    add_corner(arrays.gather, out, b, slot + 3, i3, 0, force3)


@ti.func
def triangle_side_adjoint(
    edge, d_edge, relative_stretch, inverse_square, apex, d_apex, n, d_n, inverse, factor, t, minus_angle_bar
):
    """Contribution of one triangle of an edge to the adjoints of positions, from the change of its part of ``hinge``.

    Args:
        edge: vector from its start to its end [m].
        d_edge: its change.
        relative_stretch: relative change of its length.
        inverse_square: inverse of its squared length [1/m2].
        apex: vector from the start of the edge to the opposite particle [m].
        d_apex: its change.
        n: normal of the triangle, of twice its area in length.
        d_n: its change.
        inverse: inverse of its squared length [1/m4].
        factor: factor of n in dphi/dx of the opposite particle.
        t: foot of the opposite particle on the edge [1].
        minus_angle_bar: adjoint of -phi.

    Returns:
        (apex_bar, foot): the adjoint of the opposite particle, minus the change of its dphi/dx and minus ``minus_angle_bar``
        times dphi/dx; and the factor of n in the contribution of the change of the foot to the end of the edge.
    """
    apex_bar = -factor * d_n - factor * (relative_stretch + minus_angle_bar - 2 * inverse * n.dot(d_n)) * n
    return apex_bar, factor * ((d_apex.dot(edge) + apex.dot(d_edge)) * inverse_square - 2 * relative_stretch * t)


@ti.func
def bending_force_adjoint(
    arrays: ti.template(), bars: ti.template(), state: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, frame, e, first_slot,
):  # fmt: skip
    """Adjoint of ``bending_force`` for the dual of the forces, dual [B, P, 3]: adds to the adjoints of positions and velocities
    (columns 0-2 and 3-5 of ``out``), and to those of the material and actuation of the edge.

    With s = w . dphi/dx the virtual power is -moment s. Its derivative contains the Hessian of phi times (moment w + damping s
    v), which is the change of dphi/dx when the particles move along that field: one directional derivative of ``hinge``.
    """
    i0, i1 = arrays.edge_indices[e, FIRST], arrays.edge_indices[e, SECOND]
    i2, i3 = arrays.edge_indices[e, START], arrays.edge_indices[e, END]
    x2 = load_position(state, b, row, i2)
    edge = load_position(state, b, row, i3) - x2
    first, second = load_position(state, b, row, i0) - x2, load_position(state, b, row, i1) - x2
    n1, n2, inverse1, inverse2, length, inverse_square, t1, t2 = hinge(edge, first, second)
    factor1, factor2 = -length * inverse1, -length * inverse2
    g1, g2 = factor1 * n1, factor2 * n2
    g3 = -t1 * g1 - t2 * g2
    h0, h1, h3 = vec3(0.0), vec3(0.0), vec3(0.0)  # adjoints of positions
    velocity_factor = 0.0  # adjoints of velocities: this factor times dphi/dx
    if inverse1 > 0:
        stiffness, damping = arrays.edge_material[b, e, STIFFNESS], arrays.edge_material[b, e, DAMPING]
        sine, cosine = deflection(arrays, b, frame, e, second, n1, n2, inverse1, inverse2, length)
        v2, w2 = load_velocity(state, b, row, i2), load_dual(dual, b, i2)
        v0, v1 = load_velocity(state, b, row, i0) - v2, load_velocity(state, b, row, i1) - v2
        w0, w1 = load_dual(dual, b, i0) - w2, load_dual(dual, b, i1) - w2
        v3, w3 = load_velocity(state, b, row, i3) - v2, load_dual(dual, b, i3) - w2
        angle_rate = g1.dot(v0) + g2.dot(v1) + g3.dot(v3)
        s = g1.dot(w0) + g2.dot(w1) + g3.dot(w3)
        moment = stiffness * sine + damping * angle_rate
        velocity_factor = -damping * s

        z0, z1, z3 = moment * w0 - velocity_factor * v0, moment * w1 - velocity_factor * v1, moment * w3 - velocity_factor * v3
        relative_stretch = edge.dot(z3) * inverse_square
        dn1, dn2 = z3.cross(first) + edge.cross(z0), z1.cross(edge) + second.cross(z3)
        minus_angle_bar = 0.5 * stiffness * cosine * s
        h0, foot1 = triangle_side_adjoint(
            edge, z3, relative_stretch, inverse_square, first, z0, n1, dn1, inverse1, factor1, t1, minus_angle_bar
        )
        h1, foot2 = triangle_side_adjoint(
            edge, z3, relative_stretch, inverse_square, second, z1, n2, dn2, inverse2, factor2, t2, minus_angle_bar
        )
        h3 = foot1 * n1 + foot2 * n2 - t1 * h0 - t2 * h1

        add_bar(bars.edge_material, b, e, STIFFNESS, -sine * s)
        add_bar(bars.edge_material, b, e, DAMPING, -angle_rate * s)
        add_bar(bars.edge_material, b, e, REST_ANGLE, minus_angle_bar)
        add_bar(bars.edge_actuation, b, frame, e, -2 * minus_angle_bar)
    u0, u1, u3 = velocity_factor * g1, velocity_factor * g2, velocity_factor * g3
    slot = first_slot + 4 * e
    add_state_corner(arrays.gather, out, b, slot, i0, h0, u0)
    add_state_corner(arrays.gather, out, b, slot + 1, i1, h1, u1)
    add_state_corner(arrays.gather, out, b, slot + 2, i2, -h0 - h1 - h3, -u0 - u1 - u3)
    add_state_corner(arrays.gather, out, b, slot + 3, i3, h3, u3)


@ti.func
def bending_energy_of(arrays: ti.template(), state: ti.template(), b, row, frame, e):
    """Elastic energy of edge e [J]."""
    x2 = load_position(state, b, row, arrays.edge_indices[e, START])
    edge = load_position(state, b, row, arrays.edge_indices[e, END]) - x2
    second = load_position(state, b, row, arrays.edge_indices[e, SECOND]) - x2
    first = load_position(state, b, row, arrays.edge_indices[e, FIRST]) - x2
    n1, n2, inverse1, inverse2, length, _inverse_square, _t1, _t2 = hinge(edge, first, second)
    energy = 0.0
    if inverse1 > 0:
        sine, cosine = deflection(arrays, b, frame, e, second, n1, n2, inverse1, inverse2, length)
        # 1 - cos without cancellation near 0.
        one_minus_cosine = 1 - cosine
        if cosine > 0:
            one_minus_cosine = sine * sine / (1 + cosine)
        energy = 2 * arrays.edge_material[b, e, STIFFNESS] * one_minus_cosine
    return energy
