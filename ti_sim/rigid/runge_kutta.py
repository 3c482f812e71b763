"""Classical fourth-order Runge-Kutta steps of a rigid body, with adjoints (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    angular_velocity_adjoint,
    normalized_adjoint,
    quaternion_rate,
    quaternion_rate_adjoint,
    rotation_matrix_adjoint,
    vec3,
)
from ti_sim.rigid.body import (
    BodyState,
    Wrench,
    add_state,
    assign_state,
    copy_state,
    motion_of,
    sum_parameter_adjoints,
    zero_load_inputs_adjoint,
    zero_parameter_adjoint,
    zero_state,
)
from ti_sim.rigid.dynamics import body_load, body_load_adjoint
from ti_sim.rollout.runge_kutta import next_stage_time, stage_weight


@ti.func
def rates(rigid: ti.template(), body: ti.template(), state: ti.template(), step, frame):
    """Time derivatives of a state at one stage; the length of its quaternion may differ from 1 by rounding and stage error."""
    motion = motion_of(state, state.quaternion.normalized(), body)
    load = body_load(rigid, body, motion, step, frame)
    x_rate, q_rate = state.velocity, quaternion_rate(motion.angular_velocity, state.quaternion)
    v_rate, momentum_rate = load.force / body.mass + body.gravity, load.torque
    return BodyState(x_rate, q_rate, v_rate, momentum_rate)


@ti.func
def rates_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), state: ti.template(), step, frame,
    rate_bar: ti.template(), parameter_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``rates``: adds to the sums of the parameters' adjoints, and returns that of the state."""
    q, unit_quaternion = state.quaternion, state.quaternion.normalized()
    motion = motion_of(state, unit_quaternion, body)
    w_bar, q_bar = quaternion_rate_adjoint(motion.angular_velocity, q, rate_bar.quaternion)
    force_bar, torque_bar = rate_bar.velocity / body.mass, rate_bar.momentum
    load_bar = Wrench(force_bar, torque_bar)
    total = zero_load_inputs_adjoint()
    total.angular_velocity += w_bar
    body_load_adjoint(rigid, bars, body, motion, 0, step, frame, load_bar, total)
    rotation_bar, inverse_inertia_bar, momentum_bar = angular_velocity_adjoint(
        motion.rotation, body.inverse_inertia, state.momentum, total.angular_velocity
    )
    parameter_bar.mass -= total.force_dot_bar / body.mass
    parameter_bar.inverse_inertia += inverse_inertia_bar
    parameter_bar.contact += total.contact
    parameter_bar.gravity += rate_bar.velocity
    parameter_bar.drag += total.drag
    unit_quaternion_bar = rotation_matrix_adjoint(unit_quaternion, total.rotation + rotation_bar)
    x_bar, v_bar = vec3(0.0, 0.0, total.height), total.velocity + rate_bar.position
    q_bar += normalized_adjoint(q, unit_quaternion_bar)
    return BodyState(x_bar, q_bar, v_bar, momentum_bar)


@ti.func
def extrapolate_stage(start: ti.template(), duration, rate: ti.template(), stage: ti.template()):
    """Overwrite ``stage`` by ``start`` plus ``duration`` [s] times ``rate``."""
    stage.position = start.position + duration * rate.position
    stage.quaternion = start.quaternion + duration * rate.quaternion
    stage.velocity = start.velocity + duration * rate.velocity
    stage.momentum = start.momentum + duration * rate.momentum


@ti.func
def runge_kutta_step(rigid: ti.template(), body: ti.template(), state: ti.template(), step, frame):
    """Advance the state by one classical Runge-Kutta step; the quaternion is normalised at the end."""
    stage_state, total = copy_state(state), zero_state()
    for stage in range(4):
        rate, weight = rates(rigid, body, stage_state, step, frame), stage_weight(stage)
        total.position += weight * rate.position
        total.quaternion += weight * rate.quaternion
        total.velocity += weight * rate.velocity
        total.momentum += weight * rate.momentum
        extrapolate_stage(state, rigid.dt * next_stage_time(stage), rate, stage_state)
    state.position += rigid.dt * total.position
    state.quaternion = (state.quaternion + rigid.dt * total.quaternion).normalized()
    state.velocity += rigid.dt * total.velocity
    state.momentum += rigid.dt * total.momentum


@ti.func
def recompute_stage(rigid: ti.template(), body: ti.template(), state: ti.template(), stage, step, frame):
    """State in which a stage evaluates the rates, computed again from the start of the step, and the weighted sum of the rates
    of the quaternion in the stages before.
    """
    stage_state, total = copy_state(state), zero_state()
    for earlier_stage in range(stage):
        rate = rates(rigid, body, stage_state, step, frame)
        total.quaternion += stage_weight(earlier_stage) * rate.quaternion
        extrapolate_stage(state, rigid.dt * next_stage_time(earlier_stage), rate, stage_state)
    return stage_state, total.quaternion


@ti.func
def runge_kutta_step_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), state: ti.template(), step, frame,
    state_bar: ti.template(), parameter_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``runge_kutta_step``: stages in reverse order, with the state of each stage computed again.

    Replaces the adjoint of the state after the step by that of the state before it, and adds to the sums of the parameters'
    adjoints.
    """
    _end_state, q_sum = recompute_stage(rigid, body, state, 4, step, frame)
    q_end_bar = normalized_adjoint(state.quaternion + rigid.dt * q_sum, state_bar.quaternion)
    state_bar.quaternion = q_end_bar
    end_bar, stage_bar, step_bar = copy_state(state_bar), zero_state(), zero_parameter_adjoint()
    stage = 3
    while stage >= 0:
        stage_state, _sum = recompute_stage(rigid, body, state, stage, step, frame)
        weight, duration = rigid.dt * stage_weight(stage), rigid.dt * next_stage_time(stage)
        rate_bar = zero_state()
        rate_bar.position = weight * end_bar.position + duration * stage_bar.position
        rate_bar.quaternion = weight * end_bar.quaternion + duration * stage_bar.quaternion
        rate_bar.velocity = weight * end_bar.velocity + duration * stage_bar.velocity
        rate_bar.momentum = weight * end_bar.momentum + duration * stage_bar.momentum
        stage_state_bar = rates_adjoint(rigid, bars, body, stage_state, step, frame, rate_bar, step_bar)
        assign_state(stage_bar, stage_state_bar)
        add_state(state_bar, stage_state_bar)
        stage -= 1
    sum_parameter_adjoints(parameter_bar, step_bar)
