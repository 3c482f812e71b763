"""Load and store functions for rigid states in kernels, and the initial state from pose and velocity."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    angular_velocity,
    angular_velocity_adjoint,
    mat3,
    normalized_adjoint,
    rotation_matrix,
    rotation_matrix_adjoint,
    vec3,
    vec4,
)

# Added to ``diverged_step`` if the centre of a body was beyond ``max_distance``; larger than any step.
LEFT_REGION = 2**30


@ti.func
def load_inertia(body_inertia: ti.template(), b, n):
    """Inertia [kg m2] of body n of world b from a [B, N, 3, 3] array."""
    inertia = mat3(0.0)
    for i, j in ti.static(ti.ndrange(3, 3)):
        inertia[i, j] = body_inertia[b, n, i, j]
    return inertia


@ti.func
def load_state(states: ti.template(), b, slot, n):
    """(x, q, v, L) from a [B, slots, N, 13] array."""
    return (
        vec3(states[b, slot, n, 0], states[b, slot, n, 1], states[b, slot, n, 2]),
        vec4(states[b, slot, n, 3], states[b, slot, n, 4], states[b, slot, n, 5], states[b, slot, n, 6]),
        vec3(states[b, slot, n, 7], states[b, slot, n, 8], states[b, slot, n, 9]),
        vec3(states[b, slot, n, 10], states[b, slot, n, 11], states[b, slot, n, 12]),
    )


@ti.func
def store_state(states: ti.template(), b, slot, n, x, q, v, momentum):
    """Write (x, q, v, L) into a [B, slots, N, 13] array."""
    for k in ti.static(range(3)):
        states[b, slot, n, k] = x[k]
        states[b, slot, n, 7 + k] = v[k]
        states[b, slot, n, 10 + k] = momentum[k]
    for k in ti.static(range(4)):
        states[b, slot, n, 3 + k] = q[k]


@ti.func
def load_state_adjoint(state_bar: ti.template(), b, n):
    """(x_bar, q_bar, v_bar, L_bar) from a [B, N, 13] array."""
    return (
        vec3(state_bar[b, n, 0], state_bar[b, n, 1], state_bar[b, n, 2]),
        vec4(state_bar[b, n, 3], state_bar[b, n, 4], state_bar[b, n, 5], state_bar[b, n, 6]),
        vec3(state_bar[b, n, 7], state_bar[b, n, 8], state_bar[b, n, 9]),
        vec3(state_bar[b, n, 10], state_bar[b, n, 11], state_bar[b, n, 12]),
    )


@ti.func
def store_state_adjoint(state_bar: ti.template(), b, n, x_bar, q_bar, v_bar, momentum_bar):
    """Write (x_bar, q_bar, v_bar, L_bar) into a [B, N, 13] array."""
    for k in ti.static(range(3)):
        state_bar[b, n, k] = x_bar[k]
        state_bar[b, n, 7 + k] = v_bar[k]
        state_bar[b, n, 10 + k] = momentum_bar[k]
    for k in ti.static(range(4)):
        state_bar[b, n, 3 + k] = q_bar[k]


@ti.func
def store_frame(body_q: ti.template(), body_qd: ti.template(), b, frame, n, x, q, v, w):
    """Write pose and velocity of one body at one frame into [B, frames, N, 7] and [B, frames, N, 6]."""
    for k in ti.static(range(3)):
        body_q[b, frame, n, k] = x[k]
        body_qd[b, frame, n, k] = v[k]
        body_qd[b, frame, n, 3 + k] = w[k]
    for k in ti.static(range(4)):
        body_q[b, frame, n, 3 + k] = q[k]


@ti.func
def load_frame_adjoint(body_q_bar: ti.template(), body_qd_bar: ti.template(), b, frame, n):
    """(x_bar, q_bar, v_bar, w_bar) of one body at one frame."""
    return (
        vec3(body_q_bar[b, frame, n, 0], body_q_bar[b, frame, n, 1], body_q_bar[b, frame, n, 2]),
        vec4(
            body_q_bar[b, frame, n, 3], body_q_bar[b, frame, n, 4],
            body_q_bar[b, frame, n, 5], body_q_bar[b, frame, n, 6],
        ),
        vec3(body_qd_bar[b, frame, n, 0], body_qd_bar[b, frame, n, 1], body_qd_bar[b, frame, n, 2]),
        vec3(body_qd_bar[b, frame, n, 3], body_qd_bar[b, frame, n, 4], body_qd_bar[b, frame, n, 5]),
    )  # fmt: skip


@ti.func
def frame_velocity_adjoint(q, momentum, inverse_inertia, w_bar):
    """Adjoint of a frame's angular velocity R J R^T L: (q_bar, momentum_bar, inverse_inertia_bar)."""
    rotation_bar, inverse_inertia_bar, momentum_bar = angular_velocity_adjoint(
        rotation_matrix(q), inverse_inertia, momentum, w_bar
    )
    return rotation_matrix_adjoint(q, rotation_bar), momentum_bar, inverse_inertia_bar


@ti.func
def divergence_code(x, q, v, momentum, reach):
    """0 if the state is valid, else the number that is added to the step in ``diverged_step``.

    A state is valid if every number is finite and below 1e18 (whose square is finite in f32; else 1), and the centre of mass is
    within ``reach`` [m] of the origin (else 1 + LEFT_REGION).
    """
    size = x.dot(x) + q.dot(q) + v.dot(v) + momentum.dot(momentum)
    result = 0
    if ti.math.isnan(size) or ti.math.isinf(size) or size > 1e36:
        result = 1
    elif x.dot(x) > reach * reach:
        result = 1 + LEFT_REGION
    return result


@ti.kernel
def begin(
    body_q0: ti.types.ndarray(), body_qd0: ti.types.ndarray(), body_inertia: ti.types.ndarray(),
    states: ti.types.ndarray(), body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(),
):  # fmt: skip
    """Write the first state (slot 0) and frame 0 from the initial poses and velocities.

    Reads body_q0 [B, N, 7], body_qd0 [B, N, 6], body_inertia [B, N, 3, 3]; writes states [B, slots, N, 13], body_q [B, frames +
    1, N, 7] and body_qd [B, frames + 1, N, 6] (m, m/s, rad/s). Normalises the quaternion. Hand-written adjoint:
    ``begin_adjoint``.
    """
    for b, n in ti.ndrange(body_q0.shape[0], body_q0.shape[1]):
        x = vec3(body_q0[b, n, 0], body_q0[b, n, 1], body_q0[b, n, 2])
        q = vec4(body_q0[b, n, 3], body_q0[b, n, 4], body_q0[b, n, 5], body_q0[b, n, 6]).normalized()
        v = vec3(body_qd0[b, n, 0], body_qd0[b, n, 1], body_qd0[b, n, 2])
        w = vec3(body_qd0[b, n, 3], body_qd0[b, n, 4], body_qd0[b, n, 5])
        momentum = angular_velocity(rotation_matrix(q), load_inertia(body_inertia, b, n), w)
        store_state(states, b, 0, n, x, q, v, momentum)
        store_frame(body_q, body_qd, b, 0, n, x, q, v, w)


@ti.kernel
def begin_adjoint(
    body_q0: ti.types.ndarray(), body_qd0: ti.types.ndarray(), body_inertia: ti.types.ndarray(),
    state_bar: ti.types.ndarray(), body_q_bar: ti.types.ndarray(), body_qd_bar: ti.types.ndarray(),
    body_q0_bar: ti.types.ndarray(), body_qd0_bar: ti.types.ndarray(), body_inertia_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``begin``.

    Reads the same inputs, state_bar [B, N, 13] and the adjoints of frame 0; adds to the adjoints of body_q0, body_qd0 and
    body_inertia. L0 = R I R^T w0 has the form of ``angular_velocity``, so the adjoint of that function is used.
    """
    for b, n in ti.ndrange(body_q0.shape[0], body_q0.shape[1]):
        raw = vec4(body_q0[b, n, 3], body_q0[b, n, 4], body_q0[b, n, 5], body_q0[b, n, 6])
        q = raw.normalized()
        w = vec3(body_qd0[b, n, 3], body_qd0[b, n, 4], body_qd0[b, n, 5])
        x_bar, q_bar, v_bar, w_bar = load_frame_adjoint(body_q_bar, body_qd_bar, b, 0, n)
        momentum_bar = vec3(state_bar[b, n, 10], state_bar[b, n, 11], state_bar[b, n, 12])
        rotation_bar, inertia_bar, momentum_w_bar = angular_velocity_adjoint(
            rotation_matrix(q), load_inertia(body_inertia, b, n), w, momentum_bar
        )
        for k in ti.static(range(4)):
            q_bar[k] += state_bar[b, n, 3 + k]
        raw_bar = normalized_adjoint(raw, q_bar + rotation_matrix_adjoint(q, rotation_bar))
        for k in ti.static(range(3)):
            body_q0_bar[b, n, k] = body_q0_bar[b, n, k] + x_bar[k] + state_bar[b, n, k]
            body_qd0_bar[b, n, k] = body_qd0_bar[b, n, k] + v_bar[k] + state_bar[b, n, 7 + k]
            body_qd0_bar[b, n, 3 + k] = body_qd0_bar[b, n, 3 + k] + w_bar[k] + momentum_w_bar[k]
        for k in ti.static(range(4)):
            body_q0_bar[b, n, 3 + k] = body_q0_bar[b, n, 3 + k] + raw_bar[k]
        for i, j in ti.static(ti.ndrange(3, 3)):
            body_inertia_bar[b, n, i, j] = body_inertia_bar[b, n, i, j] + inertia_bar[i, j]


@ti.func
def add_inertia_adjoint(body_inertia_bar: ti.template(), b, n, inverse_inertia, inverse_inertia_bar):
    """Add the inertia's adjoint -J^T J_bar J^T, for J = I^-1."""
    transposed = inverse_inertia.transpose()
    inertia_bar = -(transposed @ inverse_inertia_bar @ transposed)
    for i, j in ti.static(ti.ndrange(3, 3)):
        body_inertia_bar[b, n, i, j] = body_inertia_bar[b, n, i, j] + inertia_bar[i, j]

