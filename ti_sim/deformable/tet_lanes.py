"""Forces of tetrahedra with four nodes and of neo-Hookean material, and their adjoint, ``LANES`` tetrahedra at a time.

As ``solids.solid_force`` and ``solid_force_adjoint``, for kernels that are compiled ``with_vector_code``. A last block of fewer
tetrahedra repeats the last one with the weight 0.
"""

from typing import Any

from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, LaneMatrix, LaneVector, constant_lanes, lane_numbers
from ti_sim.base.runtime import ti
from ti_sim.deformable.corners import PARTICLE, output_row
from ti_sim.deformable.energies import inner, neo_hookean_differential, neo_hookean_stress, symmetric_product
from ti_sim.deformable.solids import SOLID_MATERIAL

_VOLUME = 9  # column of a rest table, after the gradients of nodes 1, 2 and 3


@ti.func
def lane_tets(first, stop):
    """Tetrahedra of the lanes: first, first + 1, ... below ``stop``, then the last one again."""
    return ti.Vector([ti.min(first + lane, stop - 1) for lane in range(LANES)])


@ti.func
def lane_weights(first, stop):
    """1 for lanes below ``stop``, 0 for those that repeat the last tetrahedron."""
    return ti.select(lane_numbers() < ti.cast(stop - first, float), constant_lanes(1.0), constant_lanes(0.0))


@ti.func
def corner_particles(indices: ti.template(), tets, corner: ti.template()):
    """Particles at a corner of each tetrahedron."""
    return ti.Vector([indices[tets[lane], corner] for lane in range(LANES)])


@ti.func
def gather_state(states: ti.template(), b, row, particles, column: ti.template()):
    """Positions (or velocities) of particles in a row of states [B, rows, P, 6]."""
    return LaneVector(
        ti.Vector([states[b, row, particles[lane], column] for lane in range(LANES)]),
        ti.Vector([states[b, row, particles[lane], column + 1] for lane in range(LANES)]),
        ti.Vector([states[b, row, particles[lane], column + 2] for lane in range(LANES)]),
    )


@ti.func
def gather_rows(rows: ti.template(), b, particles):
    """First three columns of rows [B, P, columns]."""
    return LaneVector(
        ti.Vector([rows[b, particles[lane], 0] for lane in range(LANES)]),
        ti.Vector([rows[b, particles[lane], 1] for lane in range(LANES)]),
        ti.Vector([rows[b, particles[lane], 2] for lane in range(LANES)]),
    )


@ti.func
def rest_column(rest: ti.template(), tets, column: ti.template()):
    """A column of the rest table [E, 1, 10] of tetrahedra."""
    return ti.Vector([rest[tets[lane], 0, column] for lane in range(LANES)])


@ti.func
def rest_gradient(rest: ti.template(), tets, node: ti.template()):
    """Rest gradient of the shape function of node 1, 2 or 3 [1/m]."""
    first = ti.static(3 * (node - 1))
    return LaneVector(rest_column(rest, tets, first), rest_column(rest, tets, first + 1), rest_column(rest, tets, first + 2))


@ti.func
def gradient_matrix(
    d1: ti.template(), d2: ti.template(), d3: ti.template(), g1: ti.template(), g2: ti.template(), g3: ti.template()
):
    """d1 g1^T + d2 g2^T + d3 g3^T: gradient of the field with these differences of nodes 1, 2 and 3 to node 0."""
    return LaneMatrix(
        d1[0] * g1[0] + d2[0] * g2[0] + d3[0] * g3[0],
        d1[0] * g1[1] + d2[0] * g2[1] + d3[0] * g3[1],
        d1[0] * g1[2] + d2[0] * g2[2] + d3[0] * g3[2],
        d1[1] * g1[0] + d2[1] * g2[0] + d3[1] * g3[0],
        d1[1] * g1[1] + d2[1] * g2[1] + d3[1] * g3[1],
        d1[1] * g1[2] + d2[1] * g2[2] + d3[1] * g3[2],
        d1[2] * g1[0] + d2[2] * g2[0] + d3[2] * g3[0],
        d1[2] * g1[1] + d2[2] * g2[1] + d3[2] * g3[1],
        d1[2] * g1[2] + d2[2] * g2[2] + d3[2] * g3[2],
    )


@ti.func
def add_lanes(gather: ti.template(), out: ti.template(), b, particles, column: ti.template(), value: ti.template()):
    """Add a ``LaneVector`` to three columns of the particles of its lanes, one after the other: lanes may share a particle."""
    for lane in ti.static(range(LANES)):
        target = output_row(gather, particles[lane])
        x = out[b, target, column] + value[0][lane]
        y = out[b, target, column + 1] + value[1][lane]
        z = out[b, target, column + 2] + value[2][lane]
        out[b, target, column] = x
        out[b, target, column + 1] = y
        out[b, target, column + 2] = z


@ti.func
def add_state_lanes(gather: ti.template(), out: ti.template(), b, particles, position: ti.template(), velocity: ti.template()):
    """``add_lanes`` of the adjoints of positions and velocities."""
    for lane in ti.static(range(LANES)):
        target = output_row(gather, particles[lane])
        x = out[b, target, PARTICLE.position] + position[0][lane]
        y = out[b, target, PARTICLE.position + 1] + position[1][lane]
        z = out[b, target, PARTICLE.position + 2] + position[2][lane]
        u = out[b, target, PARTICLE.velocity] + velocity[0][lane]
        v = out[b, target, PARTICLE.velocity + 1] + velocity[1][lane]
        w = out[b, target, PARTICLE.velocity + 2] + velocity[2][lane]
        out[b, target, PARTICLE.position] = x
        out[b, target, PARTICLE.position + 1] = y
        out[b, target, PARTICLE.position + 2] = z
        out[b, target, PARTICLE.velocity] = u
        out[b, target, PARTICLE.velocity + 1] = v
        out[b, target, PARTICLE.velocity + 2] = w


@ti.func
def material_column(arrays: ti.template(), b, solids, column: ti.template()):
    """A column of ``solid_material``."""
    return ti.Vector([arrays.solid_material[b, solids[lane], column] for lane in range(LANES)])


@bundle
class LaneTets:
    """The tetrahedra of the lanes in a kernel.

    Attributes:
        solids: their numbers among all solids.
        p0, p1, p2, p3: particles of their corners.
        g1, g2, g3: rest gradients of the shape functions of corners 1, 2 and 3 [1/m].
        minus_volume: negative volume [m3]; 0 in lanes that repeat the last tetrahedron.
        mu, lam, actuation: of the material.
    """

    solids: Any
    p0: Any
    p1: Any
    p2: Any
    p3: Any
    g1: Any
    g2: Any
    g3: Any
    minus_volume: Any
    mu: Any
    lam: Any
    actuation: Any


@ti.func
def load_tets(arrays: ti.template(), b, frame, first, stop, first_solid):
    """``LaneTets`` of the tetrahedra from ``first`` on, at most ``LANES`` below ``stop``."""
    tets = lane_tets(first, stop)
    indices, rest = ti.static(arrays.tet_indices, arrays.tet_rest)
    p0, p1 = corner_particles(indices, tets, 0), corner_particles(indices, tets, 1)
    p2, p3 = corner_particles(indices, tets, 2), corner_particles(indices, tets, 3)
    g1, g2, g3 = rest_gradient(rest, tets, 1), rest_gradient(rest, tets, 2), rest_gradient(rest, tets, 3)
    solids = tets + first_solid
    mu, lam = material_column(arrays, b, solids, SOLID_MATERIAL.mu), material_column(arrays, b, solids, SOLID_MATERIAL.lam)
    actuation = ti.Vector([arrays.solid_actuation[b, frame, solids[lane]] for lane in range(LANES)])
    minus_volume = (0.0 - rest_column(rest, tets, _VOLUME)) * lane_weights(first, stop)
    return LaneTets(solids, p0, p1, p2, p3, g1, g2, g3, minus_volume, mu, lam, actuation)


@ti.func
def state_gradient(tets: ti.template(), states: ti.template(), b, row, column: ti.template()):
    """Gradient in the rest shape of the positions (or velocities) in a row of states: F (or its rate)."""
    origin = gather_state(states, b, row, tets.p0, column)
    d1 = gather_state(states, b, row, tets.p1, column) - origin
    d2 = gather_state(states, b, row, tets.p2, column) - origin
    d3 = gather_state(states, b, row, tets.p3, column) - origin
    return gradient_matrix(d1, d2, d3, tets.g1, tets.g2, tets.g3)


@ti.func
def dual_gradient(tets: ti.template(), dual: ti.template(), b):
    """Gradient in the rest shape of a dual field [B, P, 3]."""
    origin = gather_rows(dual, b, tets.p0)
    d1, d2 = gather_rows(dual, b, tets.p1) - origin, gather_rows(dual, b, tets.p2) - origin
    return gradient_matrix(d1, d2, gather_rows(dual, b, tets.p3) - origin, tets.g1, tets.g2, tets.g3)


@ti.func
def scatter_stress(
    tets: ti.template(), gather: ti.template(), out: ti.template(), b, column: ti.template(), stress: ti.template()
):
    """Add a stress times -volume, multiplied by the rest gradients, to corners 1, 2 and 3, and its negative sum to corner 0."""
    f1, f2, f3 = stress @ tets.g1, stress @ tets.g2, stress @ tets.g3
    f0 = (f1 + f2 + f3) * (0.0 - 1.0)
    add_lanes(gather, out, b, tets.p1, column, f1)
    add_lanes(gather, out, b, tets.p2, column, f2)
    add_lanes(gather, out, b, tets.p3, column, f3)
    add_lanes(gather, out, b, tets.p0, column, f0)


@ti.func
def scatter_stresses(
    tets: ti.template(), gather: ti.template(), out: ti.template(), b, stress: ti.template(), viscous: ti.template()
):
    """``scatter_stress`` of the adjoints of positions and velocities together: the address of a row is computed once."""
    f1, f2, f3 = stress @ tets.g1, stress @ tets.g2, stress @ tets.g3
    u1, u2, u3 = viscous @ tets.g1, viscous @ tets.g2, viscous @ tets.g3
    add_state_lanes(gather, out, b, tets.p1, f1, u1)
    add_state_lanes(gather, out, b, tets.p2, f2, u2)
    add_state_lanes(gather, out, b, tets.p3, f3, u3)
    add_state_lanes(gather, out, b, tets.p0, (f1 + f2 + f3) * (0.0 - 1.0), (u1 + u2 + u3) * (0.0 - 1.0))


@ti.func
def tet_forces_in_lanes(
    arrays: ti.template(), states: ti.template(), out: ti.template(), b, row, frame, first, stop, first_solid
):
    """Add the forces of the tetrahedra from ``first`` on, at most ``LANES`` below ``stop``, to out [B, rows, 3] N.

    Other arguments are as for ``solids.solid_force``.
    """
    tets = load_tets(arrays, b, frame, first, stop, first_solid)
    f = state_gradient(tets, states, b, row, PARTICLE.position)
    p = neo_hookean_stress(f, tets.mu, tets.lam, tets.actuation)
    if ti.static(arrays.features.with_damping):
        rate = state_gradient(tets, states, b, row, PARTICLE.velocity)
        p += f @ (symmetric_product(f, rate) * material_column(arrays, b, tets.solids, SOLID_MATERIAL.damping))
    scatter_stress(tets, arrays.gather, out, b, 0, p * tets.minus_volume)


@ti.func
def tet_adjoints_in_lanes(
    arrays: ti.template(), bars: ti.template(), states: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, frame, first, stop, first_solid,
):  # fmt: skip
    """Adjoint of ``tet_forces_in_lanes`` with dual [B, P, 3]: adds to out [B, rows, 6] and to ``bars``.

    The formulas are those of ``solids.solid_force_adjoint``.
    """
    tets = load_tets(arrays, b, frame, first, stop, first_solid)
    f, g = state_gradient(tets, states, b, row, PARTICLE.position), dual_gradient(tets, dual, b)
    dp, parameter_derivatives = neo_hookean_differential(f, g, tets.mu, tets.lam, tets.actuation)
    eta_bar = constant_lanes(0.0)
    if ti.static(arrays.features.with_damping):
        eta = material_column(arrays, b, tets.solids, SOLID_MATERIAL.damping)
        rate = state_gradient(tets, states, b, row, PARTICLE.velocity)
        strain_rate, strain_dual = symmetric_product(f, rate), symmetric_product(f, g)
        dp += (rate @ strain_dual + g @ strain_rate) * eta
        viscous = (f @ strain_dual) * (tets.minus_volume * eta)
        scatter_stresses(tets, arrays.gather, out, b, dp * tets.minus_volume, viscous)
        eta_bar = tets.minus_volume * inner(strain_rate, strain_dual)
    else:
        scatter_stress(tets, arrays.gather, out, b, PARTICLE.position, dp * tets.minus_volume)
    mu_bar, lam_bar = tets.minus_volume * parameter_derivatives[0], tets.minus_volume * parameter_derivatives[1]
    actuation_bar = tets.minus_volume * parameter_derivatives[2]
    for lane in ti.static(range(LANES)):
        solid = tets.solids[lane]
        mu_sum = bars.solid_material[b, solid, SOLID_MATERIAL.mu] + mu_bar[lane]
        lam_sum = bars.solid_material[b, solid, SOLID_MATERIAL.lam] + lam_bar[lane]
        eta_sum = bars.solid_material[b, solid, SOLID_MATERIAL.damping] + eta_bar[lane]
        actuation_sum = bars.solid_actuation[b, frame, solid] + actuation_bar[lane]
        bars.solid_material[b, solid, SOLID_MATERIAL.mu] = mu_sum
        bars.solid_material[b, solid, SOLID_MATERIAL.lam] = lam_sum
        bars.solid_material[b, solid, SOLID_MATERIAL.damping] = eta_sum
        bars.solid_actuation[b, frame, solid] = actuation_sum
