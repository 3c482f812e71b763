"""Springs between two particles: stiffness and damping along the connecting line, and their adjoint."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.deformable.corners import add_bar, add_corner, add_state_corner, load_dual, load_position, load_velocity

# Columns of ``spring_material``.
STIFFNESS, DAMPING, REST_LENGTH = range(3)


@ti.func
def spring_force(arrays: ti.template(), state: ti.template(), out: ti.template(), b, row, frame, e, first_slot):
    """Add the force of spring e to its two particles: -(k (|d| - L0) + c d'.u) d' on the second, with d' the direction of d from
    the first to the second and u the velocity of the second relative to the first. The force is zero if both coincide.

    Args:
        arrays: ``DeformableArrays``.
        state: [B, rows, P, 6], m and m/s.
        out: forces [N], see ``add_corner``.
        b: world.
        row: row of the state.
        frame: not used; all families of elements have the same arguments.
        e: index of the spring.
        first_slot: slot of the first corner of the first spring.
    """
    i, j = arrays.spring_indices[e, 0], arrays.spring_indices[e, 1]
    separation = load_position(state, b, row, j) - load_position(state, b, row, i)
    length = separation.norm()
    force = vec3(0.0)
    if length > 0:
        direction = separation / length
        tension = arrays.spring_material[b, e, STIFFNESS] * (length - arrays.spring_material[b, e, REST_LENGTH])
        if ti.static(arrays.features.with_damping):
            length_rate = direction.dot(load_velocity(state, b, row, j) - load_velocity(state, b, row, i))
            tension += arrays.spring_material[b, e, DAMPING] * length_rate
        force = tension * direction
    corner_slot = first_slot + 2 * e
    add_corner(arrays.gather, out, b, corner_slot, i, 0, force)
    add_corner(arrays.gather, out, b, corner_slot + 1, j, 0, -force)


@ti.func
def spring_force_adjoint(
    arrays: ti.template(), bars: ti.template(), state: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, frame, e, first_slot,
):  # fmt: skip
    """Adjoint of ``spring_force`` for the dual of the forces, dual [B, P, 3]: adds to the adjoints of positions and velocities
    (columns 0-2 and 3-5 of ``out``) and to that of the spring's material (``bars.spring_material``).
    """
    i, j = arrays.spring_indices[e, 0], arrays.spring_indices[e, 1]
    separation = load_position(state, b, row, j) - load_position(state, b, row, i)
    length = separation.norm()
    position_bar = vec3(0.0)  # of the second particle; the first has the opposite
    velocity_bar = vec3(0.0)
    if length > 0:
        direction = separation / length
        stiffness, damping = arrays.spring_material[b, e, STIFFNESS], arrays.spring_material[b, e, DAMPING]
        stretch = length - arrays.spring_material[b, e, REST_LENGTH]
        u = load_velocity(state, b, row, j) - load_velocity(state, b, row, i)
        length_rate = direction.dot(u)
        w = load_dual(dual, b, i) - load_dual(dual, b, j)
        direction_component = direction.dot(w)
        tension = stiffness * stretch + damping * length_rate
        # The virtual power is tension (direction . w).
        direction_term = damping * direction_component * (u - length_rate * direction) + tension * (
            w - direction_component * direction
        )
        position_bar = direction_term / length + stiffness * direction_component * direction
        velocity_bar = damping * direction_component * direction
        add_bar(bars.spring_material, b, e, STIFFNESS, stretch * direction_component)
        add_bar(bars.spring_material, b, e, DAMPING, length_rate * direction_component)
        add_bar(bars.spring_material, b, e, REST_LENGTH, -stiffness * direction_component)
    corner_slot = first_slot + 2 * e
    add_state_corner(arrays.gather, out, b, corner_slot, i, -position_bar, -velocity_bar)
    add_state_corner(arrays.gather, out, b, corner_slot + 1, j, position_bar, velocity_bar)


@ti.func
def spring_energy_of(arrays: ti.template(), state: ti.template(), b, row, frame, e):
    """Elastic energy of spring e [J]: k (|d| - L0)^2 / 2."""
    i, j = arrays.spring_indices[e, 0], arrays.spring_indices[e, 1]
    stretch = (
        (load_position(state, b, row, j) - load_position(state, b, row, i)).norm() - arrays.spring_material[b, e, REST_LENGTH]
    )  # fmt: skip
    return 0.5 * arrays.spring_material[b, e, STIFFNESS] * stretch * stretch
