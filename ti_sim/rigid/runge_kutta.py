"""Classical fourth-order Runge-Kutta rates of a rigid body, with adjoints (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    angular_velocity,
    angular_velocity_adjoint,
    mat3,
    normalized_adjoint,
    quaternion_rate,
    quaternion_rate_adjoint,
    rotation_matrix,
    rotation_matrix_adjoint,
    vec2,
    vec3,
    vec4,
)
from ti_sim.rigid.arrays import no_contact
from ti_sim.rigid.dynamics import (
    applied_load,
    applied_load_adjoint,
    contact_load,
    contact_load_adjoint,
    driving_load,
    driving_load_adjoint,
)
from ti_sim.rollout.runge_kutta import stage_ahead, stage_weight


@ti.func
def rates(
    x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
    rigid: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """Time derivatives (x', q', v', L') at one stage; the length of q may differ from 1 by rounding and stage error."""
    rotation = rotation_matrix(q.normalized())
    w = angular_velocity(rotation, inverse_inertia, momentum)
    force, torque = contact_load(rigid, x, rotation, v, w, contact, b, n, first, last)
    applied, applied_torque = applied_load(rigid, rotation, b, n, step)
    force += applied
    torque += applied_torque
    if ti.static(rigid.driven):
        driving, driving_torque = driving_load(rigid, rotation, v, w, drag, b, n, step // substeps)
        force += driving
        torque += driving_torque
    return v, quaternion_rate(w, q), force / mass + gravity, torque


@ti.func
def rates_adjoint(
    x, q, v, momentum, x_rate_bar, q_rate_bar, v_rate_bar, momentum_rate_bar,
    mass, inverse_inertia, contact, b, n, step,
    rigid: ti.template(), bars: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """Adjoint of ``rates``.

    Returns:
        (z_bar, q_bar, v_bar, momentum_bar, mass_bar, inverse_inertia_bar, contact_bar, drag_bar); the adjoint of gravity is
        v_rate_bar.
    """
    unit = q.normalized()
    rotation = rotation_matrix(unit)
    w = angular_velocity(rotation, inverse_inertia, momentum)
    w_bar, q_bar = quaternion_rate_adjoint(w, q, q_rate_bar)
    force_bar = v_rate_bar / mass
    z_bar, rotation_bar, v_bar, contact_w_bar, contact_bar, work = contact_load_adjoint(
        rigid, x, rotation, v, w, contact, b, n, 0, first, last, force_bar, momentum_rate_bar
    )
    applied_bar, applied_work = applied_load_adjoint(rigid, bars, rotation, b, n, step, force_bar, momentum_rate_bar)
    w_bar += contact_w_bar
    rotation_bar += applied_bar
    work += applied_work
    drag_bar = vec2(0.0)
    if ti.static(rigid.driven):
        driving_bar, driving_v_bar, driving_w_bar, drag_bar, driving_work = driving_load_adjoint(
            rigid, bars, rotation, v, w, drag, b, n, step // substeps, force_bar, momentum_rate_bar
        )
        rotation_bar += driving_bar
        v_bar += driving_v_bar
        w_bar += driving_w_bar
        work += driving_work
    w_rotation_bar, inverse_inertia_bar, momentum_bar = angular_velocity_adjoint(
        rotation, inverse_inertia, momentum, w_bar
    )
    unit_bar = rotation_matrix_adjoint(unit, rotation_bar + w_rotation_bar)
    q_bar += normalized_adjoint(q, unit_bar)
    return z_bar, q_bar, v_bar + x_rate_bar, momentum_bar, -work / mass, inverse_inertia_bar, contact_bar, drag_bar


@ti.func
def runge_kutta_step(
    x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
    rigid: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """One classical Runge-Kutta step of (x, q, v, L); the quaternion is normalised at the end."""
    xs, qs, vs, ls = x, q, v, momentum
    x_sum, q_sum, v_sum, l_sum = vec3(0.0), vec4(0.0), vec3(0.0), vec3(0.0)
    for stage in range(4):
        x_rate, q_rate, v_rate, l_rate = rates(
            xs, qs, vs, ls, mass, inverse_inertia, contact, gravity, b, n, step,
            rigid, first, last, drag, substeps,
        )  # fmt: skip
        weight, ahead = stage_weight(stage), rigid.dt * stage_ahead(stage)
        x_sum += weight * x_rate
        q_sum += weight * q_rate
        v_sum += weight * v_rate
        l_sum += weight * l_rate
        xs, qs, vs, ls = x + ahead * x_rate, q + ahead * q_rate, v + ahead * v_rate, momentum + ahead * l_rate
    return x + rigid.dt * x_sum, (q + rigid.dt * q_sum).normalized(), v + rigid.dt * v_sum, momentum + rigid.dt * l_sum


@ti.func
def stage_state(
    stage, x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
    rigid: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """State at which a stage evaluates the rates, recomputed from the start of the step, and the weighted sum of the rates of q.
    """
    xs, qs, vs, ls = x, q, v, momentum
    q_sum = vec4(0.0)
    for earlier in range(stage):
        x_rate, q_rate, v_rate, l_rate = rates(
            xs, qs, vs, ls, mass, inverse_inertia, contact, gravity, b, n, step,
            rigid, first, last, drag, substeps,
        )  # fmt: skip
        q_sum += stage_weight(earlier) * q_rate
        ahead = rigid.dt * stage_ahead(earlier)
        xs, qs, vs, ls = x + ahead * x_rate, q + ahead * q_rate, v + ahead * v_rate, momentum + ahead * l_rate
    return xs, qs, vs, ls, q_sum


@ti.func
def runge_kutta_step_adjoint(
    x, q, v, momentum, x_bar, q_bar, v_bar, momentum_bar,
    mass, inverse_inertia, contact, gravity, b, n, step,
    rigid: ti.template(), bars: ti.template(), first, last, drag, substeps,
):  # fmt: skip
    """Adjoint of ``runge_kutta_step``: stages in reverse order, with the state of each stage recomputed.

    Returns:
        (x_bar, q_bar, v_bar, momentum_bar, mass_bar, inverse_inertia_bar, contact_bar, gravity_bar, drag_bar).
    """
    _x, _q, _v, _l, q_sum = stage_state(
        4, x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
        rigid, first, last, drag, substeps,
    )  # fmt: skip
    q_end_bar = normalized_adjoint(q + rigid.dt * q_sum, q_bar)
    x_total, q_total, v_total, l_total = x_bar, q_end_bar, v_bar, momentum_bar
    xs_bar, qs_bar, vs_bar, ls_bar = vec3(0.0), vec4(0.0), vec3(0.0), vec3(0.0)
    mass_bar = 0.0
    inverse_inertia_bar = mat3(0.0)
    contact_bar = no_contact()
    gravity_bar = vec3(0.0)
    drag_bar = vec2(0.0)
    stage = 3
    while stage >= 0:
        xs, qs, vs, ls, _sum = stage_state(
            stage, x, q, v, momentum, mass, inverse_inertia, contact, gravity, b, n, step,
            rigid, first, last, drag, substeps,
        )  # fmt: skip
        weight, ahead = rigid.dt * stage_weight(stage), rigid.dt * stage_ahead(stage)
        v_rate_bar = weight * v_bar + ahead * vs_bar
        z_bar, sq_bar, sv_bar, sl_bar, m_bar, j_bar, theta_bar, stage_drag_bar = rates_adjoint(
            xs, qs, vs, ls,
            weight * x_bar + ahead * xs_bar, weight * q_end_bar + ahead * qs_bar, v_rate_bar,
            weight * momentum_bar + ahead * ls_bar,
            mass, inverse_inertia, contact, b, n, step,
            rigid, bars, first, last, drag, substeps,
        )  # fmt: skip
        gravity_bar += v_rate_bar
        mass_bar += m_bar
        inverse_inertia_bar += j_bar
        contact_bar += theta_bar
        drag_bar += stage_drag_bar
        xs_bar, qs_bar, vs_bar, ls_bar = vec3(0.0, 0.0, z_bar), sq_bar, sv_bar, sl_bar
        x_total += xs_bar
        q_total += qs_bar
        v_total += vs_bar
        l_total += ls_bar
        stage -= 1
    return x_total, q_total, v_total, l_total, mass_bar, inverse_inertia_bar, contact_bar, gravity_bar, drag_bar
