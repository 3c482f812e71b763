"""Forces of the ground at states between implicit steps, and their adjoint: those at the end of the last stage of a step."""

import numpy as np

from ti_sim.base.bundles import kernel, views
from ti_sim.base.rows import add_vec4, load_slot_vec3, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import compiled_in_double, ti, without_cfg_optimisation
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.implicit.ground import ground_bars, ground_law
from ti_sim.deformable.implicit.stages import Stage, stages_of
from ti_sim.deformable.model import GROUND_CONTACT, HELD, DeformableModel
from ti_sim.rollout.time_steps import ImplicitIntegrator

STAGE_STATE = 1  # row of ``end_states`` at the end of the step; row 0 is one step before


def last_stage(integrator: ImplicitIntegrator) -> Stage:
    """The stage that ends a step."""
    return list(stages_of(integrator, 1, initial_count=2))[-1]


def _end_states(integrator: ImplicitIntegrator, history: np.ndarray, dt: float) -> np.ndarray:
    """States one step before, of which positions alone are read, and at the end of a step, [B, 2, P, 6].

    Adjoint: ``_end_states_adjoint``.

    Args:
        integrator: the formula.
        history: [B, 2 or 3, P, 6] results of stages (``ContinuedInputs``).
        dt: step [s].
    """
    stage, rows = last_stage(integrator), history[:, [0, -1]].copy()
    if integrator != "bdf2":  # y_hat is the start of the step, or a combination of it and the result of the first stage
        x_hat = rows[:, 1, :, :3] - stage.gamma * dt * rows[:, 1, :, 3:]
        stage_weight, start_weight = (0.0, 1.0) if integrator == "backward_euler" else stage.weights
        rows[:, 0, :, :3] = (x_hat - stage_weight * rows[:, 0, :, :3]) / start_weight
    return rows


def _end_states_adjoint(integrator: ImplicitIntegrator, bar: np.ndarray, dt: float, count: int) -> np.ndarray:
    """Adjoint of ``_end_states``, [B, count, P, 6]."""
    stage, result = last_stage(integrator), np.zeros((len(bar), count, *bar.shape[2:]))
    result[:, -1] = bar[:, 1]
    if integrator == "bdf2":
        result[:, 0] += bar[:, 0]
        return result
    stage_weight, start_weight = (0.0, 1.0) if integrator == "backward_euler" else stage.weights
    before_bar = bar[:, 0, :, :3] / start_weight
    result[:, 0, :, :3] -= stage_weight * before_bar
    result[:, -1, :, :3] += before_bar
    result[:, -1, :, 3:] -= stage.gamma * dt * before_bar
    return result


@ti.func
def end_ground_law(end_states: ti.template(), particle_contact: ti.template(), b, p, gamma, onset, ground):
    """``ground_law`` of particle p at the end of a step."""
    x = load_slot_vec3(end_states, b, STAGE_STATE, p, PARTICLE.position)
    x_hat = x - gamma * load_slot_vec3(end_states, b, STAGE_STATE, p, PARTICLE.velocity)
    previous_height = end_states[b, 0, p, PARTICLE.position + 2]
    return ground_law(x, x_hat, previous_height, ground, gamma, onset, 0.0, load_vec4(particle_contact, b, p, 0))


@kernel
def sum_ground_forces(
    end_states: ti.types.ndarray(), particle_contact: ti.types.ndarray(), table: ti.types.ndarray(), force: ti.types.ndarray(),
    gamma: float, onset: float, ground: float,
):  # fmt: skip
    """Write the force of the ground on each particle, [B, P, 3] N. Hand-written adjoint: ``sum_ground_forces_adjoint``."""
    for b, p in ti.ndrange(force.shape[0], force.shape[1]):
        if table[p, HELD] == 0 and table[p, GROUND_CONTACT] == 1:
            f, _by_x, _by_x_hat, _normal_by, _friction_by, _tangent, _friction_by_kf_mu = end_ground_law(
                end_states, particle_contact, b, p, gamma, onset, ground
            )
            store_vec3(force, b, p, 0, f)


@kernel
def sum_ground_forces_adjoint(
    end_states: ti.types.ndarray(), particle_contact: ti.types.ndarray(), table: ti.types.ndarray(),
    force_bar: ti.types.ndarray(), end_states_bar: ti.types.ndarray(), contact_bar: ti.types.ndarray(),
    gamma: float, onset: float, ground: float,
):  # fmt: skip
    """Adjoint of ``sum_ground_forces``: writes the adjoints of ``end_states`` and of the contacts, which hold zeros on entry."""
    for b, p in ti.ndrange(force_bar.shape[0], force_bar.shape[1]):
        if table[p, HELD] == 0 and table[p, GROUND_CONTACT] == 1:
            w = load_vec3(force_bar, b, p, 0)
            _f, by_x, by_x_hat, normal_by, friction_by, tangent, friction_by_kf_mu = end_ground_law(
                end_states, particle_contact, b, p, gamma, onset, ground
            )
            x_hat_bar = by_x_hat.transpose() @ w
            x_bar = by_x.transpose() @ w + x_hat_bar
            previous_height_bar, particle_contact_bar = ground_bars(normal_by, friction_by, tangent, friction_by_kf_mu, w)
            for k in ti.static(range(3)):
                end_states_bar[b, STAGE_STATE, p, PARTICLE.position + k] = x_bar[k]
                end_states_bar[b, STAGE_STATE, p, PARTICLE.velocity + k] = -gamma * x_hat_bar[k]
            end_states_bar[b, 0, p, PARTICLE.position + 2] = previous_height_bar
            add_vec4(contact_bar, b, p, 0, particle_contact_bar)


@compiled_in_double
@without_cfg_optimisation
def ground_forces(
    model: DeformableModel, history: np.ndarray, contact: np.ndarray, *, integrator: ImplicitIntegrator, dt: float, onset: float
) -> np.ndarray:
    """Forces of the ground at the end of the step that led to a state, [B, P, 3] f64, N.

    Args:
        model: particles and ground.
        history: [B, 2 or 3, P, 6] results of stages (``ContinuedInputs``), f64.
        contact: [B, P, 4] contact numbers, f64.
        integrator: the formula.
        dt: step [s].
        onset: see ``ImplicitSettings`` [m].
    """
    force, gamma = np.zeros((*contact.shape[:2], 3)), last_stage(integrator).gamma * dt
    end_states = _end_states(integrator, history, dt)
    sum_ground_forces(*views(end_states, contact, model.particle_table, force, gamma, float(onset), float(model.ground_height)))
    return force


@compiled_in_double
@without_cfg_optimisation
def ground_forces_adjoint(
    model: DeformableModel, history: np.ndarray, contact: np.ndarray, force_bar: np.ndarray, *, integrator: ImplicitIntegrator,
    dt: float, onset: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Adjoint of ``ground_forces``: those of history and contact, f64."""
    end_states, gamma = _end_states(integrator, history, dt), last_stage(integrator).gamma * dt
    bar, contact_bar = np.zeros_like(end_states), np.zeros_like(contact)
    sum_ground_forces_adjoint(*views(
        end_states, contact, model.particle_table, force_bar, bar, contact_bar, gamma, float(onset), float(model.ground_height)
    ))  # fmt: skip
    return _end_states_adjoint(integrator, bar, dt, history.shape[1]), contact_bar
