"""Forces of the ground at states between implicit steps, and their adjoint: those at the end of the last stage of a step."""

import numpy as np

from ti_sim.base.bundles import kernel, views
from ti_sim.base.rows import add_vec4, load_slot_vec3, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import compiled_in_double, compiled_lightly, ti
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.implicit.ground import ground_bars, ground_law
from ti_sim.deformable.implicit.stages import Stage, stages_of
from ti_sim.deformable.model import GROUND_CONTACT, HELD, DeformableModel
from ti_sim.rollout.time_steps import ImplicitIntegrator

STAGE_STATE = 1  # row of ``arrived`` with the state; row 0 is one step before


def last_stage(integrator: ImplicitIntegrator) -> Stage:
    """The stage that ends a step."""
    return list(stages_of(integrator, 1, initial_count=2))[-1]


def _arrived(integrator: ImplicitIntegrator, history: np.ndarray, dt: float) -> np.ndarray:
    """States one step before, of which positions alone are read, and at the end of a step, [B, 2, P, 6].

    Adjoint: ``_arrived_adjoint``.

    Args:
        integrator: the formula.
        history: [B, 2 or 3, P, 6] results of stages (``ContinuedInputs``).
        dt: step [s].
    """
    stage, rows = last_stage(integrator), history[:, [0, -1]].copy()
    if integrator != "bdf2":  # y_hat is the start of the step, or a combination of it and the result of the first stage
        x_hat = rows[:, 1, :, :3] - stage.gamma * dt * rows[:, 1, :, 3:]
        further, weight = (0.0, 1.0) if integrator == "backward_euler" else stage.weights
        rows[:, 0, :, :3] = (x_hat - further * rows[:, 0, :, :3]) / weight
    return rows


def _arrived_adjoint(integrator: ImplicitIntegrator, bar: np.ndarray, dt: float, count: int) -> np.ndarray:
    """Adjoint of ``_arrived``, [B, count, P, 6]."""
    stage, result = last_stage(integrator), np.zeros((len(bar), count, *bar.shape[2:]))
    result[:, -1] = bar[:, 1]
    if integrator == "bdf2":
        result[:, 0] += bar[:, 0]
        return result
    further, weight = (0.0, 1.0) if integrator == "backward_euler" else stage.weights
    before_bar = bar[:, 0, :, :3] / weight
    result[:, 0, :, :3] -= further * before_bar
    result[:, -1, :, :3] += before_bar
    result[:, -1, :, 3:] -= stage.gamma * dt * before_bar
    return result


@ti.func
def law_at(arrived: ti.template(), particle_contact: ti.template(), b, p, gamma, onset, ground):
    """``ground_law`` of particle p at the end of a step."""
    x = load_slot_vec3(arrived, b, STAGE_STATE, p, PARTICLE.position)
    x_hat = x - gamma * load_slot_vec3(arrived, b, STAGE_STATE, p, PARTICLE.velocity)
    before = arrived[b, 0, p, PARTICLE.position + 2]
    return ground_law(x, x_hat, before, ground, gamma, onset, 0.0, load_vec4(particle_contact, b, p, 0))


@kernel
def sum_ground_forces(
    arrived: ti.types.ndarray(), particle_contact: ti.types.ndarray(), table: ti.types.ndarray(), force: ti.types.ndarray(),
    gamma: float, onset: float, ground: float,
):  # fmt: skip
    """Write the force of the ground on each particle, [B, P, 3] N. Hand-written adjoint: ``sum_ground_forces_adjoint``."""
    for b, p in ti.ndrange(force.shape[0], force.shape[1]):
        if table[p, HELD] == 0 and table[p, GROUND_CONTACT] == 1:
            f, _by_x, _by_x_hat, _normal_by, _slide_by, _tangent, _along = law_at(
                arrived, particle_contact, b, p, gamma, onset, ground
            )
            store_vec3(force, b, p, 0, f)


@kernel
def sum_ground_forces_adjoint(
    arrived: ti.types.ndarray(), particle_contact: ti.types.ndarray(), table: ti.types.ndarray(), force_bar: ti.types.ndarray(),
    arrived_bar: ti.types.ndarray(), contact_bar: ti.types.ndarray(), gamma: float, onset: float, ground: float,
):  # fmt: skip
    """Adjoint of ``sum_ground_forces``: writes the adjoints of ``arrived`` and of the contacts, which hold zeros on entry."""
    for b, p in ti.ndrange(force_bar.shape[0], force_bar.shape[1]):
        if table[p, HELD] == 0 and table[p, GROUND_CONTACT] == 1:
            w = load_vec3(force_bar, b, p, 0)
            _f, by_x, by_x_hat, normal_by, slide_by, tangent, along = law_at(
                arrived, particle_contact, b, p, gamma, onset, ground
            )
            x_hat_bar = by_x_hat.transpose() @ w
            x_bar = by_x.transpose() @ w + x_hat_bar
            before_bar, numbers_bar = ground_bars(normal_by, slide_by, tangent, along, w)
            for k in ti.static(range(3)):
                arrived_bar[b, STAGE_STATE, p, PARTICLE.position + k] = x_bar[k]
                arrived_bar[b, STAGE_STATE, p, PARTICLE.velocity + k] = -gamma * x_hat_bar[k]
            arrived_bar[b, 0, p, PARTICLE.position + 2] = before_bar
            add_vec4(contact_bar, b, p, 0, numbers_bar)


@compiled_in_double
@compiled_lightly
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
    arrived = _arrived(integrator, history, dt)
    sum_ground_forces(*views(arrived, contact, model.particle_table, force, gamma, float(onset), float(model.ground_height)))
    return force


@compiled_in_double
@compiled_lightly
def ground_forces_adjoint(
    model: DeformableModel, history: np.ndarray, contact: np.ndarray, force_bar: np.ndarray, *, integrator: ImplicitIntegrator,
    dt: float, onset: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Adjoint of ``ground_forces``: those of history and contact, f64."""
    arrived, gamma = _arrived(integrator, history, dt), last_stage(integrator).gamma * dt
    bar, contact_bar = np.zeros_like(arrived), np.zeros_like(contact)
    sum_ground_forces_adjoint(*views(
        arrived, contact, model.particle_table, force_bar, bar, contact_bar, gamma, float(onset), float(model.ground_height)
    ))  # fmt: skip
    return _arrived_adjoint(integrator, bar, dt, history.shape[1]), contact_bar
