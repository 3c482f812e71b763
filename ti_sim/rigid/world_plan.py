"""World-parallel plan: one thread per body and world, a whole rollout (or checkpoint segment) in one launch.

The bodies of this solver collide with the ground only, so they are independent of each other. Only one of
``iterations_per_body`` iterations of a loop computes a body (see ``ti_sim.base.parallel``).
"""

from ti_sim.base.bundles import kernel
from ti_sim.base.rows import load_slot_vec3, load_slot_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import angular_velocity, rotation_matrix, rotation_matrix_adjoint, vec3
from ti_sim.contact.bristle import copy_bristles
from ti_sim.rigid.arrays import STATE, BodyArrays, FrameArrays, RigidArrays, add_contact_adjoint
from ti_sim.rigid.body import (
    Wrench,
    add_parameter_adjoint,
    clear_parameter_adjoint,
    load_body,
    motion_of,
    zero_load_inputs_adjoint,
    zero_parameter_adjoint,
)
from ti_sim.rigid.dynamics import body_load, body_load_adjoint, semi_implicit_update, semi_implicit_update_adjoint
from ti_sim.rigid.runge_kutta import runge_kutta_step, runge_kutta_step_adjoint
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

# Number of steps whose parameter adjoints are summed before they are added to the sum over the rollout.
_SUM_STEPS = 128


@ti.func
def step_state(rk4: ti.template(), rigid: ti.template(), body: ti.template(), state: ti.template(), step, frame):
    """Advance the state by one step of the selected integrator. Adjoint: ``step_state_adjoint``.

    Args:
        rk4: whether the integrator is Runge-Kutta; otherwise semi-implicit Euler.
        rigid: ``RigidArrays``.
        body, state: ``Body`` and ``BodyState``.
        step: step of the rollout.
        frame: frame interval of the step.
    """
    if ti.static(rk4):
        runge_kutta_step(rigid, body, state, step, frame)
    else:
        motion = motion_of(state, state.quaternion, body)
        load = body_load(rigid, body, motion, step, frame)
        semi_implicit_update(state, load, body, rigid.dt)


@kernel
def advance(
    rk4: ti.template(), source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), store_every: int,
    frames: FrameArrays, iterations_per_body: int, first_step: int, steps: int, substeps: int, max_distance: float,
    rigid: RigidArrays,
):  # fmt: skip
    """Advance every body of every world by ``steps`` steps.

    Reads source [B, S, N, 13] at source_slot, the inputs (see ``RigidInputs``), the contact points and the force table (see
    ``RigidModel``). Writes states [B, slots, N, 13] to slots 0, 1, ... at the start, after every ``store_every`` steps and at the
    end, the displacements of bristles to the same slots, the frames in the segment, and diverged_step [B, N] (first step with a
    ``divergence_code``, else -1). The displacements begin with those in ``rigid.bristles.current``. Wrenches and drag are read
    only if ``has_wrenches``. Hand-written adjoint: ``advance_adjoint``.
    """
    bodies = rigid.body_mass.shape[1]
    for index in range(rigid.body_mass.shape[0] * bodies * iterations_per_body):
        b, n = index // iterations_per_body // bodies, index // iterations_per_body % bodies
        if index % iterations_per_body == 0 and frames.diverged_step[b, n] < 0:
            state = load_state(source, b, source_slot, n)
            store_state(states, b, 0, n, state)
            body = load_body(rigid, b, n)
            steps_until_store, steps_until_frame = store_every, substeps - first_step % substeps
            slot, frame = 0, first_step // substeps
            executed_steps = 0
            while executed_steps < steps:
                step = first_step + executed_steps
                step_state(rk4, rigid, body, state, step, step // substeps)
                executed_steps += 1
                steps_until_store -= 1
                steps_until_frame -= 1
                if steps_until_store == 0 or executed_steps == steps:
                    steps_until_store = store_every
                    slot += 1
                    store_state(states, b, slot, n, state)
                    if ti.static(rigid.has_bristles):
                        copy_bristles(
                            rigid.bristles.current, 0, rigid.bristles.stored, slot, b, body.first_point, body.past_point
                        )
                if steps_until_frame == 0:
                    steps_until_frame = substeps
                    frame += 1
                    if frames.write == 1:
                        w = angular_velocity(rotation_matrix(state.quaternion), body.inverse_inertia, state.momentum)
                        store_frame(frames.body_q, frames.body_qd, b, frame, n, state, w)
                code = divergence_code(state, max_distance)
                if code > 0:
                    frames.diverged_step[b, n] = step + code
                    executed_steps = steps


@ti.func
def step_state_adjoint(
    rk4: ti.template(), rigid: ti.template(), bars: ti.template(), body: ti.template(), state: ti.template(), momentum_next, slot,
    step, frame, state_bar: ti.template(), parameter_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``step_state``.

    Args:
        rk4, rigid, body, step, frame: as of ``step_state``.
        bars: adjoints of the inputs, to which those of applied forces and wrenches are added.
        state: state before the step.
        momentum_next: angular momentum after it.
        slot: of the displacements of bristles before the step.
        state_bar: adjoint of the state after the step, replaced by that of the state before it.
        parameter_bar: sums of the adjoints of the body's parameters.
    """
    if ti.static(rk4):
        runge_kutta_step_adjoint(rigid, bars, body, state, step, frame, state_bar, parameter_bar)
    else:
        q, momentum = state.quaternion, state.momentum
        motion = motion_of(state, q, body)
        total = zero_load_inputs_adjoint()
        total.rotation, inverse_inertia_bar = semi_implicit_update_adjoint(q, momentum_next, body, rigid.dt, state_bar)
        parameter_bar.inverse_inertia += inverse_inertia_bar
        parameter_bar.gravity += rigid.dt * state_bar.velocity
        force_bar, torque_bar = rigid.dt / body.mass * state_bar.velocity, rigid.dt * state_bar.momentum
        load_bar = Wrench(force_bar, torque_bar)
        body_load_adjoint(rigid, bars, body, motion, slot, step, frame, load_bar, total)
        q_bar_from_velocity, momentum_bar, inverse_inertia_bar_load = frame_velocity_adjoint(
            q, momentum, body.inverse_inertia, total.angular_velocity
        )
        state_bar.position.z += total.height
        state_bar.quaternion += rotation_matrix_adjoint(q, total.rotation) + q_bar_from_velocity
        state_bar.velocity += total.velocity
        state_bar.momentum += momentum_bar
        parameter_bar.mass -= total.force_dot_bar / body.mass
        parameter_bar.inverse_inertia += inverse_inertia_bar_load
        parameter_bar.contact += total.contact
        parameter_bar.drag += total.drag


@kernel
def advance_adjoint(
    rk4: ti.template(), stored_states: ti.types.ndarray(), states: ti.types.ndarray(), segment_steps: int, recompute: int,
    diverged_step: ti.types.ndarray(), state_bar: ti.types.ndarray(),
    body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    iterations_per_body: int, steps: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
):  # fmt: skip
    """Adjoint of ``advance`` over a whole rollout, in segments of ``segment_steps`` steps from the last to the first.

    With ``recompute``, stored_states [B, segments + 1, N, 13] holds the state at the start of each segment, and the segment is
    simulated again into states [B, segment_steps + 1, N, 13]; otherwise there is one segment and states holds it. Reads the
    adjoints of the frames; overwrites state_bar [B, N, 13] at the end by that at the start, and adds to the adjoints of the
    inputs. The adjoint of a frame is added at the end of the step that wrote it, so ``initialise_state_adjoint`` handles frame 0.
    """
    bodies = rigid.body_mass.shape[1]
    for index in range(rigid.body_mass.shape[0] * bodies * iterations_per_body):
        b, n = index // iterations_per_body // bodies, index // iterations_per_body % bodies
        if index % iterations_per_body == 0 and diverged_step[b, n] < 0:
            body = load_body(rigid, b, n)
            bar = load_state_adjoint(state_bar, b, n)
            parameter_bar = zero_parameter_adjoint()
            momentum_next = vec3(0.0)
            step = steps - 1
            while step >= 0:
                segment = step // segment_steps
                segment_step = step - segment * segment_steps
                if step == steps - 1 or segment_step == segment_steps - 1:
                    if recompute == 1:
                        current_state = load_state(stored_states, b, segment, n)
                        store_state(states, b, 0, n, current_state)
                        first_point, past_point = body.first_point, body.past_point
                        if ti.static(rigid.has_bristles):
                            copy_bristles(rigid.bristles.stored, segment, rigid.bristles.segment, 0, b, first_point, past_point)
                            copy_bristles(rigid.bristles.stored, segment, rigid.bristles.current, 0, b, first_point, past_point)
                        for k in range(segment_step + 1):
                            current_step = segment * segment_steps + k
                            step_state(rk4, rigid, body, current_state, current_step, current_step // substeps)
                            store_state(states, b, k + 1, n, current_state)
                            if ti.static(rigid.has_bristles):
                                copy_bristles(
                                    rigid.bristles.current, 0, rigid.bristles.segment, k + 1, b, first_point, past_point
                                )
                    momentum_next = load_slot_vec3(states, b, segment_step + 1, n, STATE.momentum)
                state = load_state(states, b, segment_step, n)
                if (step + 1) % substeps == 0:
                    q_next = load_slot_vec4(states, b, segment_step + 1, n, STATE.quaternion)
                    add_frame_adjoint(
                        body_q_bar, body_qd_bar, (step + 1) // substeps, q_next, momentum_next, body, bar, parameter_bar
                    )
                step_state_adjoint(
                    rk4, rigid, bars, body, state, momentum_next, segment_step, step, step // substeps, bar, parameter_bar
                )
                momentum_next = state.momentum
                if step % _SUM_STEPS == 0:  # sums of partial sums: one sum over 1e4 steps would lose two digits in f32
                    add_contact_adjoint(bars, rigid, b, n, parameter_bar.contact)
                    add_parameter_adjoint(bars, rigid, body, parameter_bar)
                    clear_parameter_adjoint(parameter_bar)
                step -= 1
            store_state_adjoint(state_bar, b, n, bar)
