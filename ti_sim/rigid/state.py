"""Load and store functions for rigid states in kernels, and the initial state from pose and velocity."""

from ti_sim.base.rows import POSE, TWIST, load_slot_vec3, load_slot_vec4, load_vec3, load_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    angular_velocity,
    angular_velocity_adjoint,
    normalized_adjoint,
    rotation_matrix,
    rotation_matrix_adjoint,
)
from ti_sim.rigid.arrays import STATE
from ti_sim.rigid.body import BodyState, load_inertia

# Added to ``diverged_step`` if the centre of a body was beyond ``max_distance``; larger than any step.
LEFT_REGION = 2**30


@ti.func
def load_state(states: ti.template(), b, slot, n):
    """``BodyState`` from a [B, slots, N, 13] array."""
    x, q = load_slot_vec3(states, b, slot, n, STATE.position), load_slot_vec4(states, b, slot, n, STATE.quaternion)
    v, momentum = load_slot_vec3(states, b, slot, n, STATE.velocity), load_slot_vec3(states, b, slot, n, STATE.momentum)
    return BodyState(x, q, v, momentum)


@ti.func
def store_state(states: ti.template(), b, slot, n, state: ti.template()):
    """Write a ``BodyState`` into a [B, slots, N, 13] array."""
    for k in ti.static(range(3)):
        states[b, slot, n, STATE.position + k] = state.position[k]
        states[b, slot, n, STATE.velocity + k] = state.velocity[k]
        states[b, slot, n, STATE.momentum + k] = state.momentum[k]
    for k in ti.static(range(4)):
        states[b, slot, n, STATE.quaternion + k] = state.quaternion[k]


@ti.func
def load_state_adjoint(state_bar: ti.template(), b, n):
    """Adjoint of a ``BodyState`` from a [B, N, 13] array."""
    x_bar, q_bar = load_vec3(state_bar, b, n, STATE.position), load_vec4(state_bar, b, n, STATE.quaternion)
    v_bar, momentum_bar = load_vec3(state_bar, b, n, STATE.velocity), load_vec3(state_bar, b, n, STATE.momentum)
    return BodyState(x_bar, q_bar, v_bar, momentum_bar)


@ti.func
def store_state_adjoint(array: ti.template(), b, n, state_bar: ti.template()):
    """Write the adjoint of a ``BodyState`` into a [B, N, 13] array."""
    for k in ti.static(range(3)):
        array[b, n, STATE.position + k] = state_bar.position[k]
        array[b, n, STATE.velocity + k] = state_bar.velocity[k]
        array[b, n, STATE.momentum + k] = state_bar.momentum[k]
    for k in ti.static(range(4)):
        array[b, n, STATE.quaternion + k] = state_bar.quaternion[k]


@ti.func
def store_frame(body_q: ti.template(), body_qd: ti.template(), b, frame, n, state: ti.template(), w):
    """Write pose and velocity of one body at one frame into [B, frames, N, 7] and [B, frames, N, 6]."""
    for k in ti.static(range(3)):
        body_q[b, frame, n, POSE.position + k] = state.position[k]
        body_qd[b, frame, n, TWIST.linear + k] = state.velocity[k]
        body_qd[b, frame, n, TWIST.angular + k] = w[k]
    for k in ti.static(range(4)):
        body_q[b, frame, n, POSE.quaternion + k] = state.quaternion[k]


@ti.func
def load_frame_adjoint(body_q_bar: ti.template(), body_qd_bar: ti.template(), b, frame, n):
    """(x_bar, q_bar, v_bar, w_bar) of one body at one frame."""
    return (
        load_slot_vec3(body_q_bar, b, frame, n, POSE.position),
        load_slot_vec4(body_q_bar, b, frame, n, POSE.quaternion),
        load_slot_vec3(body_qd_bar, b, frame, n, TWIST.linear),
        load_slot_vec3(body_qd_bar, b, frame, n, TWIST.angular),
    )  # fmt: skip


@ti.func
def add_frame_adjoint(
    body_q_bar: ti.template(), body_qd_bar: ti.template(), frame, q, momentum, body: ti.template(), state_bar: ti.template(),
    total: ti.template(),
):  # fmt: skip
    """Add the adjoint of a frame to those of its state, of which q and momentum are arguments, and of the parameters."""
    x_bar, q_bar, v_bar, w_bar = load_frame_adjoint(body_q_bar, body_qd_bar, body.world, frame, body.index)
    q_bar_from_velocity, momentum_bar, inverse_inertia_bar = frame_velocity_adjoint(q, momentum, body.inverse_inertia, w_bar)
    state_bar.position += x_bar
    state_bar.quaternion += q_bar + q_bar_from_velocity
    state_bar.velocity += v_bar
    state_bar.momentum += momentum_bar
    total.inverse_inertia += inverse_inertia_bar


@ti.func
def frame_velocity_adjoint(q, momentum, inverse_inertia, w_bar):
    """Adjoint of a frame's angular velocity R J R^T L: (q_bar, momentum_bar, inverse_inertia_bar)."""
    rotation_bar, inverse_inertia_bar, momentum_bar = angular_velocity_adjoint(
        rotation_matrix(q), inverse_inertia, momentum, w_bar
    )
    return rotation_matrix_adjoint(q, rotation_bar), momentum_bar, inverse_inertia_bar


@ti.func
def divergence_code(state: ti.template(), max_distance):
    """0 if the state is valid, else the number that is added to the step in ``diverged_step``.

    A state is valid if every number is finite and below 1e18 (whose square is finite in f32; else 1), and the centre of mass is
    within ``max_distance`` [m] of the origin (else 1 + LEFT_REGION).
    """
    x, q, v, momentum = state.position, state.quaternion, state.velocity, state.momentum
    squared_norm = x.dot(x) + q.dot(q) + v.dot(v) + momentum.dot(momentum)
    result = 0
    if ti.math.isnan(squared_norm) or ti.math.isinf(squared_norm) or squared_norm > 1e36:
        result = 1
    elif x.dot(x) > max_distance * max_distance:
        result = 1 + LEFT_REGION
    return result


@ti.kernel
def initialise_state(
    body_q0: ti.types.ndarray(), body_qd0: ti.types.ndarray(), body_inertia: ti.types.ndarray(),
    states: ti.types.ndarray(), body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(),
):  # fmt: skip
    """Write the first state (slot 0) and frame 0 from the initial poses and velocities.

    Reads body_q0 [B, N, 7], body_qd0 [B, N, 6], body_inertia [B, N, 3, 3]; writes states [B, slots, N, 13], body_q [B, frames +
    1, N, 7] and body_qd [B, frames + 1, N, 6] (m, m/s, rad/s). Normalises the quaternion. Hand-written adjoint:
    ``initialise_state_adjoint``.
    """
    for b, n in ti.ndrange(body_q0.shape[0], body_q0.shape[1]):
        x = load_vec3(body_q0, b, n, POSE.position)
        q = load_vec4(body_q0, b, n, POSE.quaternion).normalized()
        v = load_vec3(body_qd0, b, n, TWIST.linear)
        w = load_vec3(body_qd0, b, n, TWIST.angular)
        momentum = angular_velocity(rotation_matrix(q), load_inertia(body_inertia, b, n), w)
        state = BodyState(x, q, v, momentum)
        store_state(states, b, 0, n, state)
        store_frame(body_q, body_qd, b, 0, n, state, w)


@ti.kernel
def initialise_state_adjoint(
    body_q0: ti.types.ndarray(), body_qd0: ti.types.ndarray(), body_inertia: ti.types.ndarray(),
    state_bar: ti.types.ndarray(), body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    body_q0_bar: ti.types.ndarray(), body_qd0_bar: ti.types.ndarray(), body_inertia_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``initialise_state``.

    Reads the same inputs, state_bar [B, N, 13] and the adjoints of frame 0; adds to the adjoints of body_q0, body_qd0 and
    body_inertia. L0 = R I R^T w0 has the form of ``angular_velocity``, so the adjoint of that function is used.
    """
    for b, n in ti.ndrange(body_q0.shape[0], body_q0.shape[1]):
        raw_quaternion = load_vec4(body_q0, b, n, POSE.quaternion)
        q = raw_quaternion.normalized()
        w = load_vec3(body_qd0, b, n, TWIST.angular)
        x_bar, q_bar, v_bar, w_bar = load_frame_adjoint(body_q_bar, body_qd_bar, b, 0, n)
        momentum_bar = load_vec3(state_bar, b, n, STATE.momentum)
        rotation_bar, inertia_bar, momentum_w_bar = angular_velocity_adjoint(
            rotation_matrix(q), load_inertia(body_inertia, b, n), w, momentum_bar
        )
        for k in ti.static(range(4)):
            q_bar[k] += state_bar[b, n, STATE.quaternion + k]
        raw_quaternion_bar = normalized_adjoint(raw_quaternion, q_bar + rotation_matrix_adjoint(q, rotation_bar))
        for k in ti.static(range(3)):
            x_bar_sum = body_q0_bar[b, n, POSE.position + k] + x_bar[k]
            body_q0_bar[b, n, POSE.position + k] = x_bar_sum + state_bar[b, n, STATE.position + k]
            v_bar_sum = body_qd0_bar[b, n, TWIST.linear + k] + v_bar[k]
            body_qd0_bar[b, n, TWIST.linear + k] = v_bar_sum + state_bar[b, n, STATE.velocity + k]
            body_qd0_bar[b, n, TWIST.angular + k] = body_qd0_bar[b, n, TWIST.angular + k] + w_bar[k] + momentum_w_bar[k]
        for k in ti.static(range(4)):
            body_q0_bar[b, n, POSE.quaternion + k] = body_q0_bar[b, n, POSE.quaternion + k] + raw_quaternion_bar[k]
        for i, j in ti.static(ti.ndrange(3, 3)):
            body_inertia_bar[b, n, i, j] = body_inertia_bar[b, n, i, j] + inertia_bar[i, j]
