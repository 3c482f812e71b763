"""Rollouts of rigid bodies and their adjoints: one group of threads for each body of each world, all steps in one launch.

The bodies of this solver collide with the ground only, so they are independent of each other. A group is a single thread, or
several lanes that share the contact points of the body (see ``ti_sim.base.teams``). The lanes sum the loads of the points and
repeat the other computations of a step, so that they hold the same bits and store the same numbers. Only the first lane adds to
arrays. Lanes meet at barriers where one overwrites what another may still have to read.
"""

from ti_sim.base.bundles import kernel
from ti_sim.base.rows import load_slot_vec3, load_slot_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.teams import lane_entry, lane_share, takes_part, team_iterations, team_thread, wait_for_group
from ti_sim.base.vecmath import angular_velocity, rotation_matrix, rotation_matrix_adjoint, vec3
from ti_sim.contact.bristle import copy_bristle
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


@ti.func
def copy_bristles(
    rigid: ti.template(), body: ti.template(), source: ti.template(), source_slot, target: ti.template(), target_slot
):
    """Copy the displacements of a body's bristles from one slot to another; each lane copies those of its contact points."""
    lane = body.thread.lane
    for k in range(lane_share(rigid.team, lane, body.past_point - body.first_point)):
        p = body.first_point + lane_entry(rigid.team, lane, k)
        copy_bristle(source, source_slot, target, target_slot, body.world, p)


@kernel
def advance(
    rk4: ti.template(), first_body: int, states: ti.types.ndarray(), store_every: int, frames: FrameArrays, steps: int,
    substeps: int, max_distance: float, rigid: RigidArrays,
):  # fmt: skip
    """Advance bodies by ``steps`` steps, one for each group of ``rigid.team``, counted world by world from ``first_body`` on.

    Reads slot 0 of states [B, slots, N, 13], the inputs (see ``RigidInputs``), the contact points and the force table (see
    ``RigidModel``). Writes states to slots 1, 2, ... after every ``store_every`` steps and at the end, the displacements of
    bristles to the same slots, the frames from 1 on, and diverged_step [B, N] where a ``divergence_code`` is not 0. The
    displacements begin with those in ``rigid.bristles.current``. Wrenches and drag are read only if ``has_wrenches``.
    Hand-written adjoint: ``advance_adjoint``.
    """
    bodies = rigid.body_mass.shape[1]
    ti.loop_config(block_dim=rigid.team.block_dim)
    for index in range(team_iterations(rigid.team)):
        if takes_part(rigid.team, index):
            thread = team_thread(rigid.team, index)
            b, n = (first_body + thread.group) // bodies, (first_body + thread.group) % bodies
            state, body = load_state(states, b, 0, n), load_body(rigid, b, n, thread)
            steps_until_store, steps_until_frame = store_every, substeps
            slot, frame, step = 0, 0, 0
            while step < steps:
                step_state(rk4, rigid, body, state, step, frame)
                step += 1
                steps_until_store -= 1
                steps_until_frame -= 1
                if steps_until_store == 0 or step == steps:
                    steps_until_store = store_every
                    slot += 1
                    store_state(states, b, slot, n, state)
                    if ti.static(rigid.has_bristles):
                        copy_bristles(rigid, body, rigid.bristles.current, 0, rigid.bristles.stored, slot)
                if steps_until_frame == 0:
                    steps_until_frame = substeps
                    frame += 1
                    w = angular_velocity(rotation_matrix(state.quaternion), body.inverse_inertia, state.momentum)
                    store_frame(frames.body_q, frames.body_qd, b, frame, n, state, w)
                code = divergence_code(state, max_distance)
                if code > 0:
                    frames.diverged_step[b, n] = step - 1 + code
                    step = steps


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
    rk4: ti.template(), first_body: int, stored_states: ti.types.ndarray(), states: ti.types.ndarray(), segment_steps: int,
    recompute: int, diverged_step: ti.types.ndarray(), state_bar: ti.types.ndarray(),
    body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    steps: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
):  # fmt: skip
    """Adjoint of ``advance``, in segments of ``segment_steps`` steps from the last to the first.

    With ``recompute``, stored_states [B, segments + 1, N, 13] holds the state at the start of each segment, and the segment is
    simulated again into states [B, segment_steps + 1, N, 13]; otherwise there is one segment and states holds it. Reads the
    adjoints of the frames; overwrites state_bar [B, N, 13] at the end by that at the start, and adds to the adjoints of the
    inputs. The adjoint of a frame is added at the end of the step that wrote it, so ``initialise_state_adjoint`` handles frame 0.
    """
    bodies = rigid.body_mass.shape[1]
    ti.loop_config(block_dim=rigid.team.block_dim)
    for index in range(team_iterations(rigid.team)):
        if takes_part(rigid.team, index):
            thread = team_thread(rigid.team, index)
            b, n = (first_body + thread.group) // bodies, (first_body + thread.group) % bodies
            body = load_body(rigid, b, n, thread)
            bar = load_state_adjoint(state_bar, b, n)
            parameter_bar = zero_parameter_adjoint()
            momentum_next = vec3(0.0)
            step = steps - 1
            while step >= 0:
                segment = step // segment_steps
                segment_step = step - segment * segment_steps
                if step == steps - 1 or segment_step == segment_steps - 1:
                    if recompute == 1:
                        wait_for_group(rigid.team, thread)
                        current_state = load_state(stored_states, b, segment, n)
                        store_state(states, b, 0, n, current_state)
                        if ti.static(rigid.has_bristles):
                            copy_bristles(rigid, body, rigid.bristles.stored, segment, rigid.bristles.segment, 0)
                            copy_bristles(rigid, body, rigid.bristles.stored, segment, rigid.bristles.current, 0)
                        for k in range(segment_step + 1):
                            current_step = segment * segment_steps + k
                            step_state(rk4, rigid, body, current_state, current_step, current_step // substeps)
                            store_state(states, b, k + 1, n, current_state)
                            if ti.static(rigid.has_bristles):
                                copy_bristles(rigid, body, rigid.bristles.current, 0, rigid.bristles.segment, k + 1)
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
                    if thread.lane == 0:
                        add_contact_adjoint(bars, rigid, b, n, parameter_bar.contact)
                        add_parameter_adjoint(bars, rigid, body, parameter_bar)
                    clear_parameter_adjoint(parameter_bar)
                step -= 1
            wait_for_group(rigid.team, thread)
            store_state_adjoint(state_bar, b, n, bar)
