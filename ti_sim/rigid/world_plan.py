"""World-parallel plan: one thread per body and world, a whole rollout (or checkpoint segment) in one launch.

The bodies of this solver collide with the ground only, so they are independent of each other. The loops have ``spread``
iterations per body (see ``ti_sim.base.parallel``).
"""

from ti_sim.base.bundles import kernel
from ti_sim.base.rows import load_slot_vec3, load_slot_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import angular_velocity, mat3, rotation_matrix, rotation_matrix_adjoint, vec2, vec3
from ti_sim.contact.bristle import copy_bristles
from ti_sim.rigid.arrays import STATE, BodyArrays, RigidArrays, add_contact_adjoint, load_contact, load_gravity, no_contact
from ti_sim.rigid.dynamics import (
    applied_load,
    applied_load_adjoint,
    contact_load,
    contact_load_adjoint,
    driving_load,
    driving_load_adjoint,
    load_drag,
    semi_implicit_update,
    semi_implicit_update_adjoint,
)
from ti_sim.rigid.runge_kutta import runge_kutta_step, runge_kutta_step_adjoint
from ti_sim.rigid.state import (
    add_inertia_adjoint,
    divergence_code,
    frame_velocity_adjoint,
    load_frame_adjoint,
    load_inertia,
    load_state,
    load_state_adjoint,
    store_frame,
    store_state,
    store_state_adjoint,
)

# Number of steps whose parameter adjoints are summed before they are added to the sum over the rollout.
_SUM_STEPS = 128


@ti.func
def step_state(
    rk4: ti.template(), x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
    rigid: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """The state (x, q, v, L) after one step of the chosen integrator."""
    if ti.static(rk4):
        x, q, v, momentum = runge_kutta_step(
            x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
            rigid, first, last, drag, substeps,
        )  # fmt: skip
    else:
        rotation = rotation_matrix(q)
        w = angular_velocity(rotation, inverse_inertia, momentum)
        force, torque = contact_load(rigid, x, rotation, v, w, contact, b, n, first, last)
        if rigid.force_count > 0:
            applied, applied_torque = applied_load(rigid, rotation, b, n, step)
            force += applied
            torque += applied_torque
        if ti.static(rigid.driven):
            driving, driving_torque = driving_load(rigid, rotation, v, w, drag, b, n, step // substeps)
            force += driving
            torque += driving_torque
        x, q, v, momentum = semi_implicit_update(
            x, q, v, momentum, force, torque, mass, inverse_inertia, gravity, rigid.dt
        )
    return x, q, v, momentum


@kernel
def advance(
    rk4: ti.template(), source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), store_every: int,
    body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(), write_frames: int, diverged_step: ti.types.ndarray(),
    spread: int, first_step: int, steps: int, substeps: int, reach: float, rigid: RigidArrays,
):  # fmt: skip
    """Advance every body of every world by ``steps`` steps.

    Reads source [B, S, N, 13] at source_slot, the inputs (see ``RigidInputs``), the contact points and the force table (see
    ``RigidModel``). Writes states [B, slots, N, 13] at slots 0, 1, ... after every ``store_every`` steps, in which it
    also keeps the displacements of bristles, which it advances from those in ``rigid.bristles.now``, the frames in the segment,
    and diverged_step [B, N] (first step with a ``divergence_code``, else -1). Wrenches and drag are read only if ``driven``.
    Hand-written adjoint: ``advance_adjoint``.
    """
    bodies = rigid.body_mass.shape[1]
    for index in range(rigid.body_mass.shape[0] * bodies * spread):
        b, n = index // spread // bodies, index // spread % bodies
        if index % spread == 0 and diverged_step[b, n] < 0:
            x, q, v, momentum = load_state(source, b, source_slot, n)
            store_state(states, b, 0, n, x, q, v, momentum)
            mass = rigid.body_mass[b, n]
            inverse_inertia = load_inertia(rigid.body_inertia, b, n).inverse()
            contact = load_contact(rigid, b, n)
            g = load_gravity(rigid, b)
            first, last = rigid.point_start[n], rigid.point_start[n + 1]
            drag = load_drag(rigid, b, n)
            to_store, to_frame = store_every, substeps - first_step % substeps
            slot, frame = 0, first_step // substeps
            done = 0
            while done < steps:
                step = first_step + done
                x, q, v, momentum = step_state(
                    rk4, x, q, v, momentum, mass, inverse_inertia, contact, g, b, n, step,
                    rigid, first, last, drag, substeps,
                )  # fmt: skip
                done += 1
                to_store -= 1
                to_frame -= 1
                if to_store == 0:
                    to_store = store_every
                    slot += 1
                    store_state(states, b, slot, n, x, q, v, momentum)
                    if ti.static(rigid.bristled):
                        copy_bristles(rigid.bristles.now, 0, rigid.bristles.stored, slot, b, first, last)
                if to_frame == 0:
                    to_frame = substeps
                    frame += 1
                    if write_frames == 1:
                        w_frame = angular_velocity(rotation_matrix(q), inverse_inertia, momentum)
                        store_frame(body_q, body_qd, b, frame, n, x, q, v, w_frame)
                wrong = divergence_code(x, q, v, momentum, reach)
                if wrong > 0:
                    diverged_step[b, n] = step + wrong
                    done = steps


@ti.func
def semi_implicit_step_adjoint(
    x, q, v, momentum, momentum_next, x_bar, q_bar, v_bar, momentum_bar,
    mass_bar, inverse_inertia_bar, contact_bar, g_bar, drag_bar,
    mass, inverse_inertia, contact, b, n, step, slot, rigid: ti.template(), bars: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """Adjoint of a semi-implicit Euler step of ``step_state``, added to the sums of the adjoints of its inputs.

    Args:
        x, q, v, momentum: state at the start of the step.
        momentum_next: angular momentum at its end.
        x_bar, q_bar, v_bar, momentum_bar: adjoint of the state at its end.
        mass_bar, inverse_inertia_bar, contact_bar, g_bar, drag_bar: sums.
        mass, inverse_inertia, contact, b, n, step, rigid, first, last, drag, substeps: as of ``step_state``.
        slot: of the displacements of bristles at the start of the step.
        bars: adjoints of the inputs, to which those of applied forces, rotors and gravity are added.

    Returns:
        Adjoint of the state at the start of the step, and the sums.
    """
    rotation = rotation_matrix(q)
    w = angular_velocity(rotation, inverse_inertia, momentum)
    q_bar, rotation_bar, v_bar, momentum_bar, j_bar = semi_implicit_update_adjoint(
        q, momentum_next, mass, inverse_inertia, rigid.dt, x_bar, q_bar, v_bar, momentum_bar
    )
    inverse_inertia_bar += j_bar
    g_bar += rigid.dt * v_bar
    force_bar, torque_bar = rigid.dt / mass * v_bar, rigid.dt * momentum_bar
    z_bar, contact_rotation_bar, contact_v_bar, w_bar, theta_bar, work = contact_load_adjoint(
        rigid, x, rotation, v, w, contact, b, n, slot, first, last, force_bar, torque_bar
    )
    rotation_bar += contact_rotation_bar
    if rigid.force_count > 0:
        applied_bar, applied_work = applied_load_adjoint(rigid, bars, rotation, b, n, step, force_bar, torque_bar)
        rotation_bar += applied_bar
        work += applied_work
    if ti.static(rigid.driven):
        driving_bar, driving_v_bar, driving_w_bar, d_bar, driving_work = driving_load_adjoint(
            rigid, bars, rotation, v, w, drag, b, n, step // substeps, force_bar, torque_bar
        )
        rotation_bar += driving_bar
        contact_v_bar += driving_v_bar
        w_bar += driving_w_bar
        drag_bar += d_bar
        work += driving_work
    wq_bar, wl_bar, wj_bar = frame_velocity_adjoint(q, momentum, inverse_inertia, w_bar)
    x_bar.z += z_bar
    q_bar += rotation_matrix_adjoint(q, rotation_bar) + wq_bar
    v_bar += contact_v_bar
    momentum_bar += wl_bar
    inverse_inertia_bar += wj_bar
    mass_bar -= work / mass
    contact_bar += theta_bar
    return x_bar, q_bar, v_bar, momentum_bar, mass_bar, inverse_inertia_bar, contact_bar, g_bar, drag_bar


@kernel
def advance_adjoint(
    rk4: ti.template(), stored_states: ti.types.ndarray(), states: ti.types.ndarray(), every: int, recompute: int,
    diverged_step: ti.types.ndarray(), state_bar: ti.types.ndarray(),
    body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    spread: int, steps: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
):  # fmt: skip
    """Adjoint of ``advance`` over a whole rollout, in segments of ``every`` steps from the last to the first.

    With ``recompute``, stored_states [B, segments + 1, N, 13] holds the state at the start of each segment, and the segment is
    simulated again into states [B, every + 1, N, 13]; otherwise there is one segment and states holds it. Reads the adjoints
    of the frames; overwrites state_bar [B, N, 13] at the end by that at the start, and adds to the adjoints of the inputs. The
    adjoint of a frame is added at the end of the step that wrote it, so ``initialise_state_adjoint`` handles frame 0.
    """
    bodies = rigid.body_mass.shape[1]
    for index in range(rigid.body_mass.shape[0] * bodies * spread):
        b, n = index // spread // bodies, index // spread % bodies
        if index % spread == 0 and diverged_step[b, n] < 0:
            mass = rigid.body_mass[b, n]
            inverse_inertia = load_inertia(rigid.body_inertia, b, n).inverse()
            contact = load_contact(rigid, b, n)
            g = load_gravity(rigid, b)
            first, last = rigid.point_start[n], rigid.point_start[n + 1]
            drag = load_drag(rigid, b, n)
            x_bar, q_bar, v_bar, momentum_bar = load_state_adjoint(state_bar, b, n)
            mass_bar = 0.0
            inverse_inertia_bar = mat3(0.0)
            contact_bar = no_contact()
            g_bar = vec3(0.0)
            drag_bar = vec2(0.0)
            momentum_next = vec3(0.0)
            step = steps - 1
            while step >= 0:
                segment = step // every
                s = step - segment * every
                if step == steps - 1 or s == every - 1:
                    if recompute == 1:
                        x, q, v, momentum = load_state(stored_states, b, segment, n)
                        store_state(states, b, 0, n, x, q, v, momentum)
                        if ti.static(rigid.bristled):
                            copy_bristles(rigid.bristles.stored, segment, rigid.bristles.segment, 0, b, first, last)
                            copy_bristles(rigid.bristles.stored, segment, rigid.bristles.now, 0, b, first, last)
                        for k in range(s + 1):
                            x, q, v, momentum = step_state(
                                rk4, x, q, v, momentum, mass, inverse_inertia, contact, g,
                                b, n, segment * every + k,
                                rigid, first, last, drag, substeps,
                            )  # fmt: skip
                            store_state(states, b, k + 1, n, x, q, v, momentum)
                            if ti.static(rigid.bristled):
                                copy_bristles(rigid.bristles.now, 0, rigid.bristles.segment, k + 1, b, first, last)
                    momentum_next = load_slot_vec3(states, b, s + 1, n, STATE.momentum)
                x, q, v, momentum = load_state(states, b, s, n)
                if (step + 1) % substeps == 0:
                    frame = (step + 1) // substeps
                    q_next = load_slot_vec4(states, b, s + 1, n, STATE.quaternion)
                    fx_bar, fq_bar, fv_bar, fw_bar = load_frame_adjoint(body_q_bar, body_qd_bar, b, frame, n)
                    wq_bar, wl_bar, wj_bar = frame_velocity_adjoint(q_next, momentum_next, inverse_inertia, fw_bar)
                    x_bar += fx_bar
                    q_bar += fq_bar + wq_bar
                    v_bar += fv_bar
                    momentum_bar += wl_bar
                    inverse_inertia_bar += wj_bar
                if ti.static(rk4):
                    x_bar, q_bar, v_bar, momentum_bar, m_bar, j_bar, theta_bar, step_g_bar, d_bar = (
                        runge_kutta_step_adjoint(
                        x, q, v, momentum, x_bar, q_bar, v_bar, momentum_bar,
                        mass, inverse_inertia, contact, g, b, n, step,
                        rigid, bars, first, last, drag, substeps,
                    ))  # fmt: skip
                    mass_bar += m_bar
                    inverse_inertia_bar += j_bar
                    contact_bar += theta_bar
                    g_bar += step_g_bar
                    drag_bar += d_bar
                else:
                    (
                        x_bar, q_bar, v_bar, momentum_bar, mass_bar, inverse_inertia_bar, contact_bar, g_bar, drag_bar
                    ) = semi_implicit_step_adjoint(
                        x, q, v, momentum, momentum_next, x_bar, q_bar, v_bar, momentum_bar,
                        mass_bar, inverse_inertia_bar, contact_bar, g_bar, drag_bar,
                        mass, inverse_inertia, contact, b, n, step, s, rigid, bars, first, last, drag, substeps,
                    )  # fmt: skip
                momentum_next = momentum
                if step % _SUM_STEPS == 0:  # sums of partial sums: one sum over 1e4 steps would lose two digits in f32
                    for k in ti.static(range(3)):
                        bars.gravity[b, k] += g_bar[k]
                    add_contact_adjoint(bars, rigid, b, n, contact_bar)
                    bars.body_mass[b, n] = bars.body_mass[b, n] + mass_bar
                    add_inertia_adjoint(bars.body_inertia, b, n, inverse_inertia, inverse_inertia_bar)
                    if ti.static(rigid.driven):
                        for k in ti.static(range(2)):
                            bars.body_drag[b, n, k] = bars.body_drag[b, n, k] + drag_bar[k]
                        drag_bar = vec2(0.0)
                    mass_bar = 0.0
                    inverse_inertia_bar = mat3(0.0)
                    contact_bar = no_contact()
                    g_bar = vec3(0.0)
                step -= 1
            store_state_adjoint(state_bar, b, n, x_bar, q_bar, v_bar, momentum_bar)
