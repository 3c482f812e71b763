"""Semi-implicit Euler step of a particle and its adjoint: v' = v + dt (f / m + g), x' = x + dt v'.

A state is a row of [B, rows, P, 6]: position and velocity. Both execution plans use these functions.
"""

from typing import Any

from ti_sim.base.bundles import Array, Integer, Number, bundle
from ti_sim.base.rows import add_vec3, add_vec4, load_slot_vec3, load_vec3, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.contact.law import CONTACT_LAW, contact_force, contact_force_adjoint
from ti_sim.deformable.corners import PARTICLE, load_position, load_velocity
from ti_sim.deformable.model import GROUND_CONTACT, HELD, LOADED, PRESCRIBED

LARGEST = 1e18  # a larger number is treated as not finite; the square of this one is finite in f32


@bundle
class Output:
    """Arrays in which a rollout stores its states.

    Attributes:
        particle_q, particle_qd: [B, frames + 1, P, 3] positions [m] and velocities [m/s] at the frames.
        checkpoints: [B, checkpoints, P, 6] state after every ``keep_every``-th step of the rollout.
        write_frames: whether the frames are written (0 or 1).
        keep_every: number of steps between checkpoints; 0 stores none.
    """

    particle_q: Array
    particle_qd: Array
    checkpoints: Array
    write_frames: Integer
    keep_every: Integer


@bundle
class StepSettings:
    """Numbers of all steps: height of the ground [m], physics step [s], and steps of a frame interval."""

    ground: Number
    dt: Number
    substeps: Integer


@bundle
class ParticleAdjoints:
    """Adjoints of the particles.

    Attributes:
        state: [B, P, 6] of the current state.
        dual: [B, P, 3] of the forces on the particles, from their step to that of the elements.
        particle_q, particle_qd: [B, frames + 1, P, 3] of the frames.
    """

    state: Array
    dual: Array
    particle_q: Array
    particle_qd: Array


@bundle
class ParticleState:
    """Position [m] and velocity [m/s] of a particle in a kernel, or their adjoints."""

    position: Any
    velocity: Any


@ti.func
def store_particle(states: ti.template(), b, row, p, x, v):
    """Write position and velocity of particle p into a row of states."""
    for k in ti.static(range(3)):
        states[b, row, p, PARTICLE.position + k] = x[k]
        states[b, row, p, PARTICLE.velocity + k] = v[k]


@ti.func
def store_frame(states: ti.template(), b, row, frame, p, particle_q: ti.template(), particle_qd: ti.template()):
    """Write particle p of a row of states to a frame."""
    for k in ti.static(range(3)):
        particle_q[b, frame, p, k] = states[b, row, p, PARTICLE.position + k]
        particle_qd[b, frame, p, k] = states[b, row, p, PARTICLE.velocity + k]


@ti.func
def ground_force(arrays: ti.template(), b, p, x, v, ground, dt):
    """Force of the ground on particle p [N]."""
    return contact_force(
        x.z - ground, v, arrays.particle_contact[b, p, CONTACT_LAW.ke], arrays.particle_contact[b, p, CONTACT_LAW.kd],
        arrays.particle_contact[b, p, CONTACT_LAW.kf], arrays.particle_contact[b, p, CONTACT_LAW.mu], dt,
    )  # fmt: skip


@ti.func
def move_particle(arrays: ti.template(), states: ti.template(), b, row, next_row, frame, p, force, ground, dt):
    """Step particle p from one row of states to another (or the same).

    Args:
        arrays: ``DeformableArrays``.
        states: [B, rows, P, 6].
        b: world.
        row: row of the state before the step.
        next_row: row of the state after it.
        frame: frame interval of the loads and prescribed velocities.
        p: particle.
        force: force of the elements on it [N].
        ground: height of the ground [m].
        dt: step [s].

    Returns:
        Sum of the absolute entries of the new state, which is compared with ``LARGEST``.
    """
    x = load_position(states, b, row, p)
    v = load_velocity(states, b, row, p)
    if arrays.particle_table[p, HELD] == 0:
        total_force = force
        load_row = arrays.particle_table[p, LOADED]
        if load_row >= 0:
            total_force += load_slot_vec3(arrays.load, b, frame, load_row, 0)
        if arrays.particle_table[p, GROUND_CONTACT] == 1 and x.z - ground < dt * ti.abs(v.z):
            total_force += ground_force(arrays, b, p, x, v, ground, dt)
        v += dt / arrays.particle_mass[b, p] * total_force + dt * vec3(
            arrays.gravity[b, 0], arrays.gravity[b, 1], arrays.gravity[b, 2]
        )
    else:
        v = vec3(0.0)
        prescribed_row = arrays.particle_table[p, PRESCRIBED]
        if prescribed_row >= 0:
            for k in ti.static(range(3)):
                v[k] = arrays.prescribed_qd[b, frame, prescribed_row, k]
    x += dt * v
    store_particle(states, b, next_row, p, x, v)
    return absolute_sum(x) + absolute_sum(v)


@ti.func
def absolute_sum(x):
    """|x| + |y| + |z| of a 3-vector."""
    return ti.abs(x[0]) + ti.abs(x[1]) + ti.abs(x[2])


@ti.func
def particle_size(states: ti.template(), b, row, p):
    """Sum of the absolute entries of a state, as returned by ``move_particle``."""
    return absolute_sum(load_position(states, b, row, p)) + absolute_sum(load_velocity(states, b, row, p))


@ti.func
def load_particle_adjoint(bar: ti.template(), b, p):
    """Adjoint of the state of particle p from bar [B, P, 6]."""
    x_bar, v_bar = load_vec3(bar, b, p, PARTICLE.position), load_vec3(bar, b, p, PARTICLE.velocity)
    return ParticleState(x_bar, v_bar)


@ti.func
def add_frame_adjoint(particle_q_bar: ti.template(), particle_qd_bar: ti.template(), b, frame, p, state_bar: ti.template()):
    """Adjoint of ``store_frame``: add the adjoints of particle p at a frame to those of its state."""
    for k in ti.static(range(3)):
        state_bar.position[k] += particle_q_bar[b, frame, p, k]
        state_bar.velocity[k] += particle_qd_bar[b, frame, p, k]


@ti.func
def move_particle_adjoint(
    arrays: ti.template(), bars: ti.template(), states: ti.template(), previous_state_bar: ti.template(), dual: ti.template(),
    b, row, frame, p, state_bar: ti.template(), ground, dt,
):  # fmt: skip
    """Adjoint of ``move_particle`` without the elements; writes the adjoint of their force.

    Args:
        arrays, states, b, frame, p, ground, dt: as in ``move_particle``.
        bars: ``DeformableInputs`` of adjoints; those of the particle are added to.
        previous_state_bar: [B, P, 6], receives the adjoint of the state before the step, without that of the elements.
        dual: [B, P, 3], receives the adjoint of the force on the particle, for the elements.
        row: row of the state before the step; the state after it is in the next row.
        state_bar: adjoint of its state after the step.
    """
    x_bar, v_bar, force_bar = state_bar.position, state_bar.velocity, vec3(0.0)
    v_bar += dt * x_bar
    if arrays.particle_table[p, HELD] == 0:
        mass = arrays.particle_mass[b, p]
        force_bar = dt / mass * v_bar
        x = load_position(states, b, row, p)
        v = load_velocity(states, b, row, p)
        velocity_change = load_velocity(states, b, row + 1, p) - v
        gravity_change = dt * vec3(arrays.gravity[b, 0], arrays.gravity[b, 1], arrays.gravity[b, 2])
        # The force on the particle is mass (velocity_change - gravity_change) / dt.
        bars.particle_mass[b, p] = bars.particle_mass[b, p] - (velocity_change - gravity_change).dot(v_bar) / mass
        add_vec3(bars.gravity, b, p, 0, dt * v_bar)
        load_row = arrays.particle_table[p, LOADED]
        if load_row >= 0:
            for k in ti.static(range(3)):
                bars.load[b, frame, load_row, k] = bars.load[b, frame, load_row, k] + force_bar[k]
        if arrays.particle_table[p, GROUND_CONTACT] == 1 and x.z - ground < dt * ti.abs(v.z):
            _force, height_bar, u_bar, contact_bar = contact_force_adjoint(
                x.z - ground, v, arrays.particle_contact[b, p, CONTACT_LAW.ke], arrays.particle_contact[b, p, CONTACT_LAW.kd],
                arrays.particle_contact[b, p, CONTACT_LAW.kf], arrays.particle_contact[b, p, CONTACT_LAW.mu], dt, force_bar,
            )  # fmt: skip
            x_bar.z += height_bar
            v_bar += u_bar
            add_vec4(bars.particle_contact, b, p, 0, contact_bar)
    else:
        prescribed_row = arrays.particle_table[p, PRESCRIBED]
        if prescribed_row >= 0:
            for k in ti.static(range(3)):
                bars.prescribed_qd[b, frame, prescribed_row, k] = bars.prescribed_qd[b, frame, prescribed_row, k] + v_bar[k]
        v_bar = vec3(0.0)
    store_vec3(previous_state_bar, b, p, PARTICLE.position, x_bar)
    store_vec3(previous_state_bar, b, p, PARTICLE.velocity, v_bar)
    store_vec3(dual, b, p, 0, force_bar)
