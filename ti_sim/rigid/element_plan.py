"""Element-parallel plan: one thread per contact point, several steps unrolled in each launch (semi-implicit Euler).

For few bodies with very many contact points, where one thread per body would leave most threads idle. A step is two parallel
loops: the loads of the points (atomic sums per body), then the update of the bodies. The results equal those of the
world-parallel plan up to the order of the sums.
"""

from ti_sim.base.arrays import Array, zeros_in_same_library
from ti_sim.base.bundles import kernel
from ti_sim.base.rows import WRENCH, Row, add_vec3, add_vec4, load_vec3, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, rotation_matrix_adjoint, vec2
from ti_sim.contact.law import contact_force
from ti_sim.contact.point_geometry import point_position
from ti_sim.rigid.arrays import (
    CONTACT_SIZE,
    STATE,
    BodyArrays,
    FrameArrays,
    RigidArrays,
    add_contact_adjoint,
    load_contact,
    zero_contact,
)
from ti_sim.rigid.body import (
    Motion,
    Wrench,
    add_inertia_adjoint,
    add_parameter_adjoint,
    load_body,
    motion_of,
    zero_load_inputs_adjoint,
    zero_parameter_adjoint,
)
from ti_sim.rigid.dynamics import (
    add_external_loads,
    add_external_loads_adjoint,
    add_point_load_adjoint,
    contact_margin,
    point_arm,
    point_height,
    semi_implicit_update,
    semi_implicit_update_adjoint,
)
from ti_sim.rigid.state import (
    add_frame_adjoint,
    divergence_code,
    frame_velocity_adjoint,
    load_state,
    load_state_adjoint,
    store_frame,
    store_state,
    store_state_adjoint,
)

# Compile time grows faster than the number of unrolled steps (adjoint: 4, 11, 41 s for 1, 2, 4 steps), hence the small numbers.
UNROLL = 4
ADJOINT_UNROLL = 2
# MOTION: motion of a body, which its contact points read. POINT_BAR: adjoints of the motion and of the contact parameters, and
# force · force_bar, summed over the points of a body.
MOTION = Row(rotation=9, velocity=3, angular_velocity=3, height=1)
POINT_BAR = Row(rotation=9, velocity=3, angular_velocity=3, height=1, force_dot_bar=1, contact=CONTACT_SIZE)


@ti.func
def store_motion(array: ti.template(), b, n, motion: ti.template()):
    """Write a ``Motion`` to a [B, N, 16] array."""
    for i, j in ti.static(ti.ndrange(3, 3)):
        array[b, n, MOTION.rotation + 3 * i + j] = motion.rotation[i, j]
    store_vec3(array, b, n, MOTION.velocity, motion.velocity)
    store_vec3(array, b, n, MOTION.angular_velocity, motion.angular_velocity)
    array[b, n, MOTION.height] = motion.height


@ti.func
def load_motion(array: ti.template(), b, n):
    """``Motion`` from a [B, N, 16] array."""
    rotation = mat3(0.0)
    for i, j in ti.static(ti.ndrange(3, 3)):
        rotation[i, j] = array[b, n, MOTION.rotation + 3 * i + j]
    v, w = load_vec3(array, b, n, MOTION.velocity), load_vec3(array, b, n, MOTION.angular_velocity)
    height = array[b, n, MOTION.height]
    return Motion(rotation, v, w, height)


@ti.func
def load_wrench(array: ti.template(), b, n):
    """``Wrench`` from a [B, N, 6] array."""
    force, torque = load_vec3(array, b, n, WRENCH.force), load_vec3(array, b, n, WRENCH.torque)
    return Wrench(force, torque)


@kernel
def begin_segment(
    source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), motion: ti.types.ndarray(), rigid: RigidArrays
):
    """Copy source [B, S, N, 13] at source_slot to slot 0 of states and write the motion [B, N, 16] that points read."""
    for b, n in ti.ndrange(motion.shape[0], motion.shape[1]):
        state = load_state(source, b, source_slot, n)
        store_state(states, b, 0, n, state)
        body = load_body(rigid, b, n)
        body_motion = motion_of(state, state.quaternion, body)
        store_motion(motion, b, n, body_motion)


@ti.kernel
def copy_slot(source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), slot: int):
    """Copy one slot of source [B, S, N, 13] into one slot of states."""
    for b, n, k in ti.ndrange(states.shape[0], states.shape[2], states.shape[3]):
        states[b, slot, n, k] = source[b, source_slot, n, k]


@kernel
def advance_unrolled(
    count: ti.template(), states: ti.types.ndarray(), first_slot: int, motion: ti.types.ndarray(), load: ti.types.ndarray(),
    frames: FrameArrays, first_step: int, substeps: int, max_distance: float, rigid: RigidArrays,
):  # fmt: skip
    """Advance by ``count`` steps from slot first_slot of states [B, slots, N, 13], writing the slots after it.

    Reads the inputs of the bodies, contact points and force table. motion [B, N, 16] and load [B, N, 6] (force, torque; zero
    between steps) pass data between the loops. Hand-written adjoint: ``advance_unrolled_adjoint``.
    """
    for unrolled_step in ti.static(range(count)):
        for b, p in ti.ndrange(rigid.body_mass.shape[0], rigid.point_count):
            n = rigid.point_body[p]
            body_motion = load_motion(motion, b, n)
            local_position = point_position(rigid.point, p)
            contact = load_contact(rigid, b, n)
            height = point_height(rigid, body_motion, contact, p, local_position)
            if height < contact_margin(rigid, body_motion, contact, n):
                arm, weight = point_arm(rigid, body_motion, contact, p, local_position)
                velocity = body_motion.velocity + body_motion.angular_velocity.cross(arm)
                ke, kd, kf, mu = contact[0], contact[1], contact[2], contact[3]
                f = weight * contact_force(height, velocity, ke, kd, kf, mu, rigid.dt)
                torque = arm.cross(f)
                for k in ti.static(range(3)):
                    ti.atomic_add(load[b, n, WRENCH.force + k], f[k])
                    ti.atomic_add(load[b, n, WRENCH.torque + k], torque[k])
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if frames.diverged_step[b, n] < 0:
                step = first_step + unrolled_step
                state = load_state(states, b, first_slot + unrolled_step, n)
                body, body_load = load_body(rigid, b, n), load_wrench(load, b, n)
                motion_before = motion_of(state, state.quaternion, body)
                add_external_loads(rigid, body, motion_before, step, step // substeps, body_load)
                semi_implicit_update(state, body_load, body, rigid.dt)
                store_state(states, b, first_slot + unrolled_step + 1, n, state)
                motion_after = motion_of(state, state.quaternion, body)
                store_motion(motion, b, n, motion_after)
                for k in ti.static(range(6)):
                    load[b, n, WRENCH.force + k] = 0
                if frames.write == 1 and (step + 1) % substeps == 0:
                    store_frame(frames.body_q, frames.body_qd, b, (step + 1) // substeps, n, state, motion_after.angular_velocity)
                code = divergence_code(state, max_distance)
                if code > 0:
                    frames.diverged_step[b, n] = step + code


@ti.func
def add_point_adjoint(
    rigid: ti.template(), load_bar: ti.template(), point_bar: ti.template(), b, n, p, local_position, height,
    motion: ti.template(),
):  # fmt: skip
    """Add the adjoint of the load of point p on body n of world b to point_bar [B, N, POINT_BAR.size].

    Args:
        rigid: arrays of the bodies.
        load_bar: [B, N, 6] adjoints of the bodies' loads.
        point_bar: [B, N, POINT_BAR.size] sums of the points' adjoints.
        b, n, p: world, body, point.
        local_position: position of the point in the body's frame [m].
        height: of the point above the ground [m].
        motion: ``Motion`` of the body.
    """
    contact, body_load_bar, total = load_contact(rigid, b, n), load_wrench(load_bar, b, n), zero_load_inputs_adjoint()
    add_point_load_adjoint(rigid, motion, contact, p, local_position, height, vec2(0.0), vec2(0.0), body_load_bar, total)
    for i, j in ti.static(ti.ndrange(3, 3)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.rotation + 3 * i + j], total.rotation[i, j])
    for k in ti.static(range(3)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.velocity + k], total.velocity[k])
        ti.atomic_add(point_bar[b, n, POINT_BAR.angular_velocity + k], total.angular_velocity[k])
    ti.atomic_add(point_bar[b, n, POINT_BAR.height], total.height)
    for k in ti.static(range(CONTACT_SIZE)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.contact + k], total.contact[k])
    ti.atomic_add(point_bar[b, n, POINT_BAR.force_dot_bar], total.force_dot_bar)


@kernel
def advance_unrolled_adjoint(
    count: ti.template(), states: ti.types.ndarray(), first_slot: int,
    motion: ti.types.ndarray(), load_bar: ti.types.ndarray(), point_bar: ti.types.ndarray(),
    diverged_step: ti.types.ndarray(), state_bar: ti.types.ndarray(),
    body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    first_step: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
):  # fmt: skip
    """Adjoint of ``advance_unrolled``: the steps in reverse order, each in three parallel loops.

    The first, over bodies, reads the adjoint of the frame and writes the adjoints of the loads to load_bar [B, N, 6]; the second,
    over points, sums the adjoints of the points in point_bar [B, N, POINT_BAR.size]; the third, over bodies, completes
    state_bar [B, N, 13] and the adjoints of the inputs. Reads the states of every step.
    """
    for unrolled_step in ti.static(range(count - 1, -1, -1)):
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if diverged_step[b, n] < 0:
                step = first_step + unrolled_step
                body, state = load_body(rigid, b, n), load_state(states, b, first_slot + unrolled_step, n)
                next_state, bar = load_state(states, b, first_slot + unrolled_step + 1, n), load_state_adjoint(state_bar, b, n)
                parameter_bar, total = zero_parameter_adjoint(), zero_load_inputs_adjoint()
                if (step + 1) % substeps == 0:
                    add_frame_adjoint(
                        body_q_bar, body_qd_bar, (step + 1) // substeps, next_state.quaternion, next_state.momentum, body, bar,
                        parameter_bar,
                    )  # fmt: skip
                total.rotation, inverse_inertia_bar = semi_implicit_update_adjoint(
                    state.quaternion, next_state.momentum, body, rigid.dt, bar
                )
                parameter_bar.inverse_inertia += inverse_inertia_bar
                parameter_bar.gravity += rigid.dt * bar.velocity
                force_bar, torque_bar = rigid.dt / body.mass * bar.velocity, rigid.dt * bar.momentum
                body_load_bar = Wrench(force_bar, torque_bar)
                body_motion = motion_of(state, state.quaternion, body)
                store_motion(motion, b, n, body_motion)
                add_external_loads_adjoint(rigid, bars, body, body_motion, step, step // substeps, body_load_bar, total)
                if ti.static(rigid.has_wrenches):
                    q_bar_from_velocity, momentum_bar, driven_inertia_bar = frame_velocity_adjoint(
                        state.quaternion, state.momentum, body.inverse_inertia, total.angular_velocity
                    )
                    bar.quaternion += q_bar_from_velocity
                    bar.velocity += total.velocity
                    bar.momentum += momentum_bar
                    parameter_bar.inverse_inertia += driven_inertia_bar
                    parameter_bar.drag += total.drag
                parameter_bar.mass -= total.force_dot_bar / body.mass
                bar.quaternion += rotation_matrix_adjoint(state.quaternion, total.rotation)
                add_parameter_adjoint(bars, rigid, body, parameter_bar)
                store_vec3(load_bar, b, n, WRENCH.force, force_bar)
                store_vec3(load_bar, b, n, WRENCH.torque, torque_bar)
                store_state_adjoint(state_bar, b, n, bar)
                for k in ti.static(range(POINT_BAR.size)):
                    point_bar[b, n, k] = 0
        for b, p in ti.ndrange(rigid.body_mass.shape[0], rigid.point_count):
            n = rigid.point_body[p]
            body_motion = load_motion(motion, b, n)
            local_position = point_position(rigid.point, p)
            contact = load_contact(rigid, b, n)
            height = point_height(rigid, body_motion, contact, p, local_position)
            if height < contact_margin(rigid, body_motion, contact, n) and diverged_step[b, n] < 0:
                add_point_adjoint(rigid, load_bar, point_bar, b, n, p, local_position, height, body_motion)
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if diverged_step[b, n] < 0:
                body, state = load_body(rigid, b, n), load_state(states, b, first_slot + unrolled_step, n)
                motion_bar = load_motion(point_bar, b, n)
                q_bar_from_velocity, momentum_bar, inverse_inertia_bar = frame_velocity_adjoint(
                    state.quaternion, state.momentum, body.inverse_inertia, motion_bar.angular_velocity
                )
                q_bar = rotation_matrix_adjoint(state.quaternion, motion_bar.rotation) + q_bar_from_velocity
                add_inertia_adjoint(bars.body_inertia, body, inverse_inertia_bar)
                state_bar[b, n, STATE.position + 2] = state_bar[b, n, STATE.position + 2] + motion_bar.height
                add_vec3(state_bar, b, n, STATE.velocity, motion_bar.velocity)
                add_vec3(state_bar, b, n, STATE.momentum, momentum_bar)
                add_vec4(state_bar, b, n, STATE.quaternion, q_bar)
                contact_bar = zero_contact()
                for k in ti.static(range(CONTACT_SIZE)):
                    contact_bar[k] = point_bar[b, n, POINT_BAR.contact + k]
                add_contact_adjoint(bars, rigid, b, n, contact_bar)
                bars.body_mass[b, n] = bars.body_mass[b, n] - point_bar[b, n, POINT_BAR.force_dot_bar] / body.mass


def advance(
    source: Array, source_slot: int, states: Array, store_every: int, frames: FrameArrays,
    first_step: int, steps: int, substeps: int, max_distance: float, rigid: RigidArrays,
) -> None:  # fmt: skip
    """Advance by ``steps`` semi-implicit steps with the arguments of ``world_plan.advance``."""
    b, n = rigid.body_mass.shape
    motion, load = zeros_in_same_library(states, (b, n, MOTION.size)), zeros_in_same_library(states, (b, n, WRENCH.size))
    store_all = store_every == 1
    segment_states = states if store_all else zeros_in_same_library(states, (b, UNROLL + 1, n, states.shape[3]))
    begin_segment(source, source_slot, states, motion, rigid)
    if not store_all:
        copy_slot(source, source_slot, segment_states, 0)
    executed_steps = 0
    while executed_steps < steps:
        to_checkpoint = steps if store_all else store_every - executed_steps % store_every
        count = block_length(min(steps - executed_steps, to_checkpoint), UNROLL)
        advance_unrolled(
            count, segment_states, executed_steps if store_all else 0, motion, load, frames, first_step + executed_steps,
            substeps, max_distance, rigid,
        )  # fmt: skip
        executed_steps += count
        if not store_all:
            if executed_steps % store_every == 0 or executed_steps == steps:
                copy_slot(segment_states, count, states, -(-executed_steps // store_every))
            copy_slot(segment_states, count, segment_states, 0)


def advance_adjoint(
    states: Array, diverged_step: Array, state_bar: Array, body_q_bar: Array, body_qd_bar: Array,
    first_step: int, steps: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
) -> None:  # fmt: skip
    """Adjoint of ``advance`` over a segment with all its states in ``states``, as ``world_plan.advance_adjoint``."""
    b, n = rigid.body_mass.shape
    motion = zeros_in_same_library(states, (b, n, MOTION.size))
    load_bar = zeros_in_same_library(states, (b, n, WRENCH.size))
    point_bar = zeros_in_same_library(states, (b, n, POINT_BAR.size))
    remaining_steps = steps
    while remaining_steps > 0:
        count = block_length(remaining_steps, ADJOINT_UNROLL)
        remaining_steps -= count
        advance_unrolled_adjoint(
            count, states, remaining_steps, motion, load_bar, point_bar, diverged_step, state_bar, body_q_bar, body_qd_bar,
            first_step + remaining_steps, substeps, rigid, bars,
        )  # fmt: skip


def block_length(steps: int, unroll: int) -> int:
    """Number of steps of the next launch: ``unroll``, or 1 for the remainder, so that two kernels are enough for any length."""
    return unroll if steps >= unroll else 1
