"""Semi-implicit Euler step of a particle and its adjoint, as ``particle_step``, in rows of four numbers (``base.quads``)."""

import numpy as np

from ti_sim.base.arrays import Array, to_numpy
from ti_sim.base.bundles import Integer, Static, bundle
from ti_sim.base.quads import Quads, as_quad, quad_zeros
from ti_sim.base.rows import add_vec4, load_slot_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.contact.law import CONTACT_LAW, contact_force_adjoint
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import GROUND_CONTACT, HELD, LOADED, PRESCRIBED, DeformableModel
from ti_sim.deformable.particle_step import LARGEST, ground_force


@bundle
class LaneParticles:
    """The particles of B worlds: particle p of world b has row b P + p.

    Attributes:
        position, velocity: the current state [m], [m/s].
        force: of copy c, in row (b copies + c) P + p [N].
        mobility: [B P], step over mass [s/kg].
        gravity: of each world, times the step [m/s].
        is_special: [P] int32, whether a particle is held or loaded, or collides with the ground.
        count: number P of particles of a world.
        copies: chunks of the elements and particles of a world, each of which has a copy of the forces.
    """

    position: Quads
    velocity: Quads
    force: Quads
    mobility: Array
    gravity: Quads
    is_special: Array
    count: Integer
    copies: Static


@bundle
class LaneParticleBars:
    """Adjoints of the particles.

    Attributes:
        dual: of the forces on the particles, from their step to that of the elements.
        position, velocity: of the current state without the forces of the elements.
        position_part, velocity_part: the rest, by copies as ``LaneParticles.force``.
        motion: sum of the adjoints of velocities, which determines that of gravity; and in the fourth column that of the masses,
            without the factor 1 / dt.
        particle_q, particle_qd: [B, frames + 1, P, 3] of the frames.
    """

    dual: Quads
    position: Quads
    velocity: Quads
    position_part: Quads
    velocity_part: Quads
    motion: Quads
    particle_q: Array
    particle_qd: Array


def lane_particles(model: DeformableModel, inputs: DeformableInputs, *, dt: float, copies: int) -> LaneParticles:
    """``LaneParticles`` of a model and its inputs, without a state."""
    worlds, count = inputs.world_count, model.particle_count
    gravity = np.zeros((worlds, 4), dtype=np.float32)
    gravity[:, :3] = np.float32(dt) * to_numpy(inputs.gravity)
    with np.errstate(divide="ignore"):  # masses of held particles may be zero
        mobility = np.float32(dt) / to_numpy(inputs.particle_mass).reshape(-1)
    table = model.particle_table
    is_special = (table[:, HELD] == 1) | (table[:, LOADED] >= 0) | (table[:, GROUND_CONTACT] == 1)
    return LaneParticles(
        *(quad_zeros(worlds, count) for _ in range(2)), quad_zeros(worlds, copies, count), mobility, gravity,
        is_special.astype(np.int32), count, copies,
    )  # fmt: skip


def lane_particle_bars(particles: LaneParticles, frame_bars: tuple[Array, Array]) -> LaneParticleBars:
    """Zeros for the adjoints of particles, with those of positions and velocities at the frames."""
    rows, copied_rows = len(particles.position), len(particles.force)
    return LaneParticleBars(
        *(quad_zeros(rows) for _ in range(3)), *(quad_zeros(copied_rows) for _ in range(2)), quad_zeros(rows), *frame_bars
    )


@ti.func
def stored_state(states: ti.template(), first):
    """Position and velocity in three rows of ``states``, as rows of four numbers."""
    xy, zu, vw = states[first], states[first + 1], states[first + 2]
    return ti.Vector([xy[0], xy[1], zu[0], 0.0]), ti.Vector([zu[1], vw[0], vw[1], 0.0])


@ti.func
def store_state(states: ti.template(), first, x, v):
    """Write a state to three rows of ``states``."""
    states[first] = ti.Vector([x[0], x[1]])
    states[first + 1] = ti.Vector([x[2], v[0]])
    states[first + 2] = ti.Vector([v[1], v[2]])


@ti.func
def sum_copies(particles: ti.template(), copied: ti.template(), first):
    """Sum of the rows of a particle in all copies, of which ``first`` is the first."""
    total = copied[first] * 1.0
    for copy in ti.static(range(1, particles.copies)):
        total += copied[first + copy * particles.count]
    return total


@ti.func
def clear_copies(particles: ti.template(), copied: ti.template(), first):
    """Set the rows of ``sum_copies`` to zero; after all loads, since a store makes the kernel load addresses again."""
    for copy in ti.static(range(particles.copies)):
        copied[first + copy * particles.count] = ti.Vector([0.0, 0.0, 0.0, 0.0])


@ti.func
def touches_ground(arrays: ti.template(), p, x, v, settings: ti.template()):
    """Whether the ground may exert a force on a particle."""
    return arrays.particle_table[p, GROUND_CONTACT] == 1 and x[2] - settings.ground < settings.dt * ti.abs(v[2])


@ti.func
def step_particle(
    particles: ti.template(), arrays: ti.template(), states: ti.template(), fault: ti.template(), b, p, first_row, first_copy,
    first_state, step, frame, settings: ti.template(),
):  # fmt: skip
    """Step particle p of world b.

    Args:
        particles: ``LaneParticles``.
        arrays: ``DeformableArrays``.
        states: rows of states, to which the new one is written.
        fault: [B, P] int32, see ``element_plan.ElementOutput``.
        b, p: world and particle.
        first_row: row of the world's first particle.
        first_copy: its row in the first copy.
        first_state: row of its new state, negative if it is not stored.
        step: step of the rollout.
        frame: frame interval of the step.
        settings: ``StepSettings``.
    """
    i, copy = first_row + p, first_copy + p
    force = sum_copies(particles, particles.force, copy)
    x, v = particles.position[i], particles.velocity[i]
    held = 0
    if particles.is_special[p] == 1:
        held = arrays.particle_table[p, HELD]
        load_row = arrays.particle_table[p, LOADED]
        if load_row >= 0:
            force += as_quad(load_slot_vec3(arrays.load, b, frame, load_row, 0))
        if touches_ground(arrays, p, x, v, settings):
            force += as_quad(
                ground_force(arrays, b, p, vec3(x[0], x[1], x[2]), vec3(v[0], v[1], v[2]), settings.ground, settings.dt)
            )
    v += force * particles.mobility[i] + particles.gravity[b]
    if held == 1:
        prescribed_row = arrays.particle_table[p, PRESCRIBED]
        v = ti.Vector([0.0, 0.0, 0.0, 0.0])
        if prescribed_row >= 0:
            v = as_quad(load_slot_vec3(arrays.prescribed_qd, b, frame, prescribed_row, 0))
    x += v * settings.dt
    particles.position[i] = x
    particles.velocity[i] = v
    clear_copies(particles, particles.force, copy)
    if first_state >= 0:
        store_state(states, first_state + 3 * p, x, v)
    squares = x * x + v * v
    if not squares[0] + squares[1] + squares[2] < LARGEST * LARGEST:
        if fault[b, p] == 0:
            fault[b, p] = step + 1


@ti.func
def step_particle_adjoint(
    particles: ti.template(), particle_bars: ti.template(), arrays: ti.template(), bars: ti.template(), states: ti.template(),
    b, p, first_row, first_copy, first_state, frame, is_frame, settings: ti.template(),
):  # fmt: skip
    """Adjoint of ``step_particle``: makes the state before the step the current one, and writes the adjoint of the force.

    Args:
        particles: ``LaneParticles`` with the state after the step, which is replaced.
        particle_bars: ``LaneParticleBars``.
        bars: ``DeformableInputs`` of adjoints; those of contact, loads and prescribed velocities are added to.
        first_state: row of the state of the world's first particle before the step.
        is_frame: 1 if the step ends at a frame.
        others: as in ``step_particle``.
    """
    i, copy = first_row + p, first_copy + p
    x_bar = particle_bars.position[i] + sum_copies(particles, particle_bars.position_part, copy)
    v_bar = particle_bars.velocity[i] + sum_copies(particles, particle_bars.velocity_part, copy)
    if is_frame == 1:
        x_bar += as_quad(load_slot_vec3(particle_bars.particle_q, b, frame + 1, p, 0))
        v_bar += as_quad(load_slot_vec3(particle_bars.particle_qd, b, frame + 1, p, 0))
    v_bar += x_bar * settings.dt
    mobility, next_velocity = particles.mobility[i], particles.velocity[i]
    x, v = stored_state(states, first_state + 3 * p)
    # The force on the particle is mass (velocity change - gravity dt) / dt.
    work = (next_velocity - v - particles.gravity[b]) * v_bar
    motion_bar = ti.Vector([v_bar[0], v_bar[1], v_bar[2], 0.0 - (work[0] + work[1] + work[2]) * mobility])
    force_bar = v_bar * mobility
    if particles.is_special[p] == 1:
        if arrays.particle_table[p, HELD] == 1:
            prescribed_row = arrays.particle_table[p, PRESCRIBED]
            if prescribed_row >= 0:
                for k in ti.static(range(3)):
                    bars.prescribed_qd[b, frame, prescribed_row, k] = bars.prescribed_qd[b, frame, prescribed_row, k] + v_bar[k]
            v_bar = ti.Vector([0.0, 0.0, 0.0, 0.0])
            force_bar = v_bar * 1.0
            motion_bar = v_bar * 1.0
        else:
            load_row = arrays.particle_table[p, LOADED]
            if load_row >= 0:
                for k in ti.static(range(3)):
                    bars.load[b, frame, load_row, k] = bars.load[b, frame, load_row, k] + force_bar[k]
            if touches_ground(arrays, p, x, v, settings):
                _force, height_bar, u_bar, contact_bar = contact_force_adjoint(
                    x[2] - settings.ground, vec3(v[0], v[1], v[2]), arrays.particle_contact[b, p, CONTACT_LAW.ke],
                    arrays.particle_contact[b, p, CONTACT_LAW.kd], arrays.particle_contact[b, p, CONTACT_LAW.kf],
                    arrays.particle_contact[b, p, CONTACT_LAW.mu], settings.dt, vec3(force_bar[0], force_bar[1], force_bar[2]),
                )  # fmt: skip
                x_bar += ti.Vector([0.0, 0.0, height_bar, 0.0])
                v_bar += as_quad(u_bar)
                add_vec4(bars.particle_contact, b, p, 0, contact_bar)
    particle_bars.motion[i] = particle_bars.motion[i] + motion_bar
    particle_bars.position[i] = x_bar
    particle_bars.velocity[i] = v_bar
    particle_bars.dual[i] = force_bar
    particles.position[i] = x
    particles.velocity[i] = v
    clear_copies(particles, particle_bars.position_part, copy)
    clear_copies(particles, particle_bars.velocity_part, copy)
