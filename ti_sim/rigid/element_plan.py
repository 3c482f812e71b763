"""Element-parallel plan: one thread per contact point, several steps unrolled in each launch (semi-implicit Euler).

For few bodies with very many contact points, where one thread per body would leave most threads idle. A step is two parallel
loops: the loads of the points (atomic sums per body), then the update of the bodies. The results equal those of the
world-parallel plan up to the order of the sums.
"""

from ti_sim.base.arrays import Array, zeros_in_same_library
from ti_sim.base.bundles import kernel
from ti_sim.base.rows import WRENCH, Row, load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import angular_velocity, mat3, outer, rotation_matrix, rotation_matrix_adjoint, vec2
from ti_sim.contact.point_geometry import contact_arm, contact_height, contact_vector_adjoint, point_position, point_vector
from ti_sim.rigid.arrays import (
    CONTACT_SIZE,
    ROUNDING,
    STATE,
    BodyArrays,
    RigidArrays,
    add_contact_adjoint,
    load_contact,
    load_gravity,
    no_contact,
)
from ti_sim.rigid.dynamics import (
    applied_load,
    applied_load_adjoint,
    contact_margin,
    driving_load,
    driving_load_adjoint,
    load_drag,
    point_force,
    point_load_adjoint,
    semi_implicit_update,
    semi_implicit_update_adjoint,
)
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

# Compile time grows faster than the number of unrolled steps (adjoint: 4, 11, 41 s for 1, 2, 4 steps), hence the small numbers.
UNROLL = 4
ADJOINT_UNROLL = 2
# The motion of a body, which its contact points read; and the adjoints of all that they read, after those of the motion the work
# force · force_bar and the adjoints of the contact numbers.
MOTION = Row(rotation=9, velocity=3, angular_velocity=3, height=1)
POINT_BAR = Row(rotation=9, velocity=3, angular_velocity=3, height=1, work=1, contact=CONTACT_SIZE)


@ti.func
def store_motion(motion: ti.template(), b, n, rotation, v, w, z):
    """Write the motion of a body, which its contact points read, to a [B, N, 16] array."""
    for i, j in ti.static(ti.ndrange(3, 3)):
        motion[b, n, MOTION.rotation + 3 * i + j] = rotation[i, j]
    for k in ti.static(range(3)):
        motion[b, n, MOTION.velocity + k] = v[k]
        motion[b, n, MOTION.angular_velocity + k] = w[k]
    motion[b, n, MOTION.height] = z


@ti.func
def load_motion(motion: ti.template(), b, n):
    """(rotation, v, w, z) from a [B, N, 16] array."""
    rotation = mat3(0.0)
    for i, j in ti.static(ti.ndrange(3, 3)):
        rotation[i, j] = motion[b, n, MOTION.rotation + 3 * i + j]
    return (
        rotation,
        load_vec3(motion, b, n, MOTION.velocity),
        load_vec3(motion, b, n, MOTION.angular_velocity),
        motion[b, n, MOTION.height],
    )


@ti.kernel
def begin_segment(
    source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), body_inertia: ti.types.ndarray(),
    motion: ti.types.ndarray(),
):  # fmt: skip
    """Copy source [B, S, N, 13] at source_slot to slot 0 of states and write the motion [B, N, 16] that points read."""
    for b, n in ti.ndrange(motion.shape[0], motion.shape[1]):
        x, q, v, momentum = load_state(source, b, source_slot, n)
        store_state(states, b, 0, n, x, q, v, momentum)
        rotation = rotation_matrix(q)
        w = angular_velocity(rotation, load_inertia(body_inertia, b, n).inverse(), momentum)
        store_motion(motion, b, n, rotation, v, w, x.z)


@ti.kernel
def copy_slot(source: ti.types.ndarray(), source_slot: int, states: ti.types.ndarray(), slot: int):
    """Copy one slot of source [B, S, N, 13] into one slot of states."""
    for b, n, k in ti.ndrange(states.shape[0], states.shape[2], states.shape[3]):
        states[b, slot, n, k] = source[b, source_slot, n, k]


@kernel
def advance_unrolled(
    count: ti.template(), states: ti.types.ndarray(), first_slot: int, motion: ti.types.ndarray(), load: ti.types.ndarray(),
    body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(), write_frames: int, diverged_step: ti.types.ndarray(),
    first_step: int, substeps: int, reach: float, rigid: RigidArrays,
):  # fmt: skip
    """Advance by ``count`` steps from slot first_slot of states [B, slots, N, 13], writing the slots after it.

    Reads the inputs of the bodies, contact points and force table. motion [B, N, 16] and load [B, N, 6] (force, torque; zero
    between steps) pass data between the loops. Hand-written adjoint: ``advance_unrolled_adjoint``.
    """
    for u in ti.static(range(count)):
        for b, p in ti.ndrange(rigid.body_mass.shape[0], rigid.point_count):
            n = rigid.point_body[p]
            rotation, v, w, z = load_motion(motion, b, n)
            local = point_position(rigid.point, p)
            height = z - rigid.ground + contact_height(rigid.turning, rigid.point, p, local, rotation)
            contact = load_contact(rigid, b, n)
            height -= contact[ROUNDING]
            if height < contact_margin(rigid, v, w, contact, n):
                arm, share = contact_arm(rigid.turning, rigid.point, p, local, rotation)
                arm.z -= contact[ROUNDING]
                f = share * point_force(height, v + w.cross(arm), contact, rigid.dt)
                torque = arm.cross(f)
                for k in ti.static(range(3)):
                    ti.atomic_add(load[b, n, WRENCH.force + k], f[k])
                    ti.atomic_add(load[b, n, WRENCH.torque + k], torque[k])
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if diverged_step[b, n] < 0:
                step = first_step + u
                x, q, v, momentum = load_state(states, b, first_slot + u, n)
                inverse_inertia = load_inertia(rigid.body_inertia, b, n).inverse()
                before = rotation_matrix(q)
                applied, applied_torque = applied_load(rigid, before, b, n, step)
                if ti.static(rigid.driven):
                    driving, driving_torque = driving_load(
                        rigid, before, v, angular_velocity(before, inverse_inertia, momentum), load_drag(rigid, b, n),
                        b, n, step // substeps,
                    )  # fmt: skip
                    applied += driving
                    applied_torque += driving_torque
                x, q, v, momentum = semi_implicit_update(
                    x, q, v, momentum,
                    load_vec3(load, b, n, WRENCH.force) + applied,
                    load_vec3(load, b, n, WRENCH.torque) + applied_torque,
                    rigid.body_mass[b, n], inverse_inertia, load_gravity(rigid, b), rigid.dt,
                )  # fmt: skip
                store_state(states, b, first_slot + u + 1, n, x, q, v, momentum)
                rotation = rotation_matrix(q)
                w = angular_velocity(rotation, inverse_inertia, momentum)
                store_motion(motion, b, n, rotation, v, w, x.z)
                for k in ti.static(range(6)):
                    load[b, n, WRENCH.force + k] = 0
                if write_frames == 1 and (step + 1) % substeps == 0:
                    store_frame(body_q, body_qd, b, (step + 1) // substeps, n, x, q, v, w)
                wrong = divergence_code(x, q, v, momentum, reach)
                if wrong > 0:
                    diverged_step[b, n] = step + wrong


@ti.func
def add_point_adjoint(
    rigid: ti.template(), load_bar: ti.template(), point_bar: ti.template(), b, n, p, height, local, rotation, v, w
):
    """Add the adjoint of the load of point p on body n of world b to point_bar [B, N, POINT_BAR.size].

    Args:
        rigid: arrays of the bodies.
        load_bar: [B, N, 6] adjoints of the bodies' loads.
        point_bar: [B, N, POINT_BAR.size] sums of the points' adjoints.
        b, n, p: world, body, point.
        height: of the point above the ground [m].
        local: position of the point in the body's frame [m].
        rotation, v, w: of the body.
    """
    contact = load_contact(rigid, b, n)
    arm, share = contact_arm(rigid.turning, rigid.point, p, local, rotation)
    arm.z -= contact[ROUNDING]
    force_bar = load_vec3(load_bar, b, n, WRENCH.force)
    torque_bar = load_vec3(load_bar, b, n, WRENCH.torque)
    f, f_bar, height_bar, u_bar, _s_bar, contact_bar = point_load_adjoint(
        rigid, height, v + w.cross(arm), vec2(0.0), arm, share, contact, force_bar, torque_bar, vec2(0.0)
    )
    arm_bar = share * f.cross(torque_bar) + u_bar.cross(w)
    arm_bar.z += height_bar
    contact_bar[ROUNDING] = -arm_bar.z
    rotation_bar = outer(arm_bar, local)
    if ti.static(rigid.turning):
        vector_bar = contact_vector_adjoint(rigid.point, p, rotation, arm_bar, f.dot(f_bar))
        rotation_bar += outer(vector_bar, point_vector(rigid.point, p))
    w_bar = arm.cross(u_bar)
    for i, j in ti.static(ti.ndrange(3, 3)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.rotation + 3 * i + j], rotation_bar[i, j])
    for k in ti.static(range(3)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.velocity + k], u_bar[k])
        ti.atomic_add(point_bar[b, n, POINT_BAR.angular_velocity + k], w_bar[k])
    ti.atomic_add(point_bar[b, n, POINT_BAR.height], height_bar)
    for k in ti.static(range(CONTACT_SIZE)):
        ti.atomic_add(point_bar[b, n, POINT_BAR.contact + k], contact_bar[k])
    ti.atomic_add(point_bar[b, n, POINT_BAR.work], share * f.dot(force_bar))


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
    for u in ti.static(range(count - 1, -1, -1)):
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if diverged_step[b, n] < 0:
                step = first_step + u
                inverse_inertia = load_inertia(rigid.body_inertia, b, n).inverse()
                x, q, v, momentum = load_state(states, b, first_slot + u, n)
                _x, q_next, _v, momentum_next = load_state(states, b, first_slot + u + 1, n)
                x_bar, q_bar, v_bar, momentum_bar = load_state_adjoint(state_bar, b, n)
                inverse_inertia_bar = mat3(0.0)
                if (step + 1) % substeps == 0:
                    fx_bar, fq_bar, fv_bar, fw_bar = load_frame_adjoint(
                        body_q_bar, body_qd_bar, b, (step + 1) // substeps, n
                    )
                    wq_bar, wl_bar, inverse_inertia_bar = frame_velocity_adjoint(
                        q_next, momentum_next, inverse_inertia, fw_bar
                    )
                    x_bar += fx_bar
                    q_bar += fq_bar + wq_bar
                    v_bar += fv_bar
                    momentum_bar += wl_bar
                q_bar, rotation_bar, v_bar, momentum_bar, j_bar = semi_implicit_update_adjoint(
                    q, momentum_next, rigid.body_mass[b, n], inverse_inertia, rigid.dt, x_bar, q_bar, v_bar, momentum_bar
                )
                inverse_inertia_bar += j_bar
                g_bar = rigid.dt * v_bar
                force_bar, torque_bar = rigid.dt / rigid.body_mass[b, n] * v_bar, rigid.dt * momentum_bar
                rotation = rotation_matrix(q)
                applied_bar, work = applied_load_adjoint(rigid, bars, rotation, b, n, step, force_bar, torque_bar)
                w = angular_velocity(rotation, inverse_inertia, momentum)
                store_motion(motion, b, n, rotation, v, w, x.z)
                rotation_bar += applied_bar
                if ti.static(rigid.driven):
                    driving_bar, driving_v_bar, w_bar, drag_bar, driving_work = driving_load_adjoint(
                        rigid, bars, rotation, v, w, load_drag(rigid, b, n), b, n, step // substeps, force_bar, torque_bar,
                    )  # fmt: skip
                    wq_bar, wl_bar, wj_bar = frame_velocity_adjoint(q, momentum, inverse_inertia, w_bar)
                    q_bar += wq_bar
                    v_bar += driving_v_bar
                    momentum_bar += wl_bar
                    inverse_inertia_bar += wj_bar
                    rotation_bar += driving_bar
                    work += driving_work
                    for k in ti.static(range(2)):
                        bars.body_drag[b, n, k] = bars.body_drag[b, n, k] + drag_bar[k]
                bars.body_mass[b, n] = bars.body_mass[b, n] - work / rigid.body_mass[b, n]
                q_bar += rotation_matrix_adjoint(q, rotation_bar)
                add_inertia_adjoint(bars.body_inertia, b, n, inverse_inertia, inverse_inertia_bar)
                for k in ti.static(range(3)):
                    ti.atomic_add(bars.gravity[b, k], g_bar[k])
                    load_bar[b, n, WRENCH.force + k] = force_bar[k]
                    load_bar[b, n, WRENCH.torque + k] = torque_bar[k]
                store_state_adjoint(state_bar, b, n, x_bar, q_bar, v_bar, momentum_bar)
                for k in ti.static(range(POINT_BAR.size)):
                    point_bar[b, n, k] = 0
        for b, p in ti.ndrange(rigid.body_mass.shape[0], rigid.point_count):
            n = rigid.point_body[p]
            rotation, v, w, z = load_motion(motion, b, n)
            local = point_position(rigid.point, p)
            height = z - rigid.ground + contact_height(rigid.turning, rigid.point, p, local, rotation)
            contact = load_contact(rigid, b, n)
            height -= contact[ROUNDING]
            if height < contact_margin(rigid, v, w, contact, n) and diverged_step[b, n] < 0:
                add_point_adjoint(rigid, load_bar, point_bar, b, n, p, height, local, rotation, v, w)
        for b, n in ti.ndrange(rigid.body_mass.shape[0], rigid.body_mass.shape[1]):
            if diverged_step[b, n] < 0:
                _x, q, _v, momentum = load_state(states, b, first_slot + u, n)
                inverse_inertia = load_inertia(rigid.body_inertia, b, n).inverse()
                rotation_bar, v_bar, w_bar, z_bar = load_motion(point_bar, b, n)
                wq_bar, wl_bar, j_bar = frame_velocity_adjoint(q, momentum, inverse_inertia, w_bar)
                q_bar = rotation_matrix_adjoint(q, rotation_bar) + wq_bar
                add_inertia_adjoint(bars.body_inertia, b, n, inverse_inertia, j_bar)
                state_bar[b, n, STATE.position + 2] = state_bar[b, n, STATE.position + 2] + z_bar
                for k in ti.static(range(3)):
                    state_bar[b, n, STATE.velocity + k] = state_bar[b, n, STATE.velocity + k] + v_bar[k]
                    state_bar[b, n, STATE.momentum + k] = state_bar[b, n, STATE.momentum + k] + wl_bar[k]
                for k in ti.static(range(4)):
                    state_bar[b, n, STATE.quaternion + k] = state_bar[b, n, STATE.quaternion + k] + q_bar[k]
                contact_bar = no_contact()
                for k in ti.static(range(CONTACT_SIZE)):
                    contact_bar[k] = point_bar[b, n, POINT_BAR.contact + k]
                add_contact_adjoint(bars, rigid, b, n, contact_bar)
                bars.body_mass[b, n] = bars.body_mass[b, n] - point_bar[b, n, POINT_BAR.work] / rigid.body_mass[b, n]


def advance(
    rk4: bool, source: Array, source_slot: int, states: Array, store_every: int, body_q: Array, body_qd: Array, write_frames: int,
    diverged_step: Array, first_step: int, steps: int, substeps: int, reach: float, rigid: RigidArrays,
) -> None:  # fmt: skip
    """Advance by ``steps`` steps with the arguments of ``world_plan.advance``."""
    assert not rk4, "settings allow the element plan for semi-implicit steps only"
    b, n = rigid.body_mass.shape
    motion, load = zeros_in_same_library(states, (b, n, MOTION.size)), zeros_in_same_library(states, (b, n, WRENCH.size))
    keep_all = store_every == 1
    work = states if keep_all else zeros_in_same_library(states, (b, UNROLL + 1, n, states.shape[3]))
    begin_segment(source, source_slot, states, rigid.body_inertia, motion)
    if not keep_all:
        copy_slot(source, source_slot, work, 0)
    done = 0
    while done < steps:
        to_checkpoint = steps if keep_all else store_every - done % store_every
        count = block_length(min(steps - done, to_checkpoint), UNROLL)
        advance_unrolled(
            count, work, done if keep_all else 0, motion, load, body_q, body_qd, write_frames, diverged_step,
            first_step + done, substeps, reach, rigid,
        )  # fmt: skip
        done += count
        if not keep_all:
            if done % store_every == 0:
                copy_slot(work, count, states, done // store_every)
            copy_slot(work, count, work, 0)


def advance_adjoint(
    rk4: bool, states: Array, diverged_step: Array, state_bar: Array, body_q_bar: Array, body_qd_bar: Array,
    first_step: int, steps: int, substeps: int, rigid: RigidArrays, bars: BodyArrays,
) -> None:  # fmt: skip
    """Adjoint of ``advance`` over a segment with all its states in ``states``, as ``world_plan.advance_adjoint``."""
    assert not rk4, "settings allow the element plan for semi-implicit steps only"
    b, n = rigid.body_mass.shape
    motion = zeros_in_same_library(states, (b, n, MOTION.size))
    load_bar = zeros_in_same_library(states, (b, n, WRENCH.size))
    point_bar = zeros_in_same_library(states, (b, n, POINT_BAR.size))
    left = steps
    while left > 0:
        count = block_length(left, ADJOINT_UNROLL)
        left -= count
        advance_unrolled_adjoint(
            count, states, left, motion, load_bar, point_bar, diverged_step, state_bar, body_q_bar, body_qd_bar,
            first_step + left, substeps, rigid, bars,
        )  # fmt: skip


def block_length(steps: int, unroll: int) -> int:
    """Number of steps of the next launch: ``unroll``, or 1 for the remainder, so that two kernels are enough for any length."""
    return unroll if steps >= unroll else 1
