"""The adjoint of implicit steps: every input against central differences, and how its error follows the tolerances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from tests.reference.deformable_cases import everything
from tests.reference.gradients_in_worlds import Point, gradcheck_in_worlds
from ti_sim import ImplicitSettings, StoreAll
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.solver import DeformableSolver

NAMES = tuple(field.name for field in fields(DeformableInputs))
FRAMES = 2


def touching_model() -> tuple[DeformableModel, DeformableInputs]:
    """Every family and kind of force; some contact particles stick, some slide."""
    model, inputs = everything(worlds=1, frames=FRAMES)
    inputs.particle_contact[:, ::2, 2] = 0.05  # these stick
    return replace(model, ground_height=0.3), inputs


def solver_of(model: DeformableModel, integrator: str, **settings: float) -> DeformableSolver:
    chosen = ImplicitSettings(**({"tolerance": 1e-12, "onset": 1e-3, "adjoint_tolerance": 1e-12} | settings))
    return DeformableSolver(model, DeformableSettings(dt=0.02, substeps=2, integrator=integrator, implicit=chosen))


def weights_of(rollout: DeformableRollout) -> tuple[np.ndarray, np.ndarray]:
    """Random weights of the frames of a world."""
    draw, shape = np.random.default_rng(3), rollout.particle_q.shape[1:]
    return draw.normal(size=shape), draw.normal(size=shape)


def losses_of(solver: DeformableSolver) -> Callable[[list[Point]], np.ndarray]:
    """The loss at each of many points, which are worlds of one rollout."""

    def losses(points: list[Point]) -> np.ndarray:
        worlds = (np.concatenate([at[name] for at in points]) for name in NAMES)
        rollout = solver.rollout(DeformableInputs(*worlds), FRAMES)
        arrays = rollout.particle_q, rollout.particle_qd
        return sum(array.reshape(len(points), -1) @ bar.ravel() for array, bar in zip(arrays, weights_of(rollout), strict=True))

    return losses


def gradient_of(solver: DeformableSolver, inputs: DeformableInputs) -> dict[str, np.ndarray]:
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    bars = solver.rollout_adjoint(rollout, *(bar[None] for bar in weights_of(rollout)))
    return {name: getattr(bars, name) for name in NAMES}


@pytest.mark.parametrize("integrator", ["backward_euler", "bdf2", "sdirk2"])
def test_gradient_of_every_input(integrator: str) -> None:
    """The law of contact has continuous derivatives: a difference may cross its transitions, whose second derivatives jump."""
    model, inputs = touching_model()
    solver = solver_of(model, integrator)
    gradient = gradient_of(solver, inputs)
    point = {name: getattr(inputs, name) for name in NAMES}
    assert {name for name in NAMES if np.any(gradient[name])} == set(NAMES) - {"self_contact"}
    options = {"step": 5e-5, "rtol": 1e-6}
    report = gradcheck_in_worlds(
        losses_of(solver), lambda at: gradient_of(solver, DeformableInputs(**at)), point, max_entries=2, floor=1e-2, atol=1e-8,
        min_observable=20, **options,
    )  # fmt: skip
    report.raise_if_wrong()
    draw = np.random.default_rng(5)
    direction = {name: draw.normal(size=array.shape) for name, array in point.items()}
    slopes = {name: np.array([(gradient[name] * direction[name]).sum()]) for name in NAMES}

    def along(steps: list[Point]) -> np.ndarray:
        return losses_of(solver)([{name: point[name] + at[name] * direction[name] for name in NAMES} for at in steps])

    none = {name: np.zeros(1) for name in NAMES}
    gradcheck_in_worlds(along, lambda at: slopes, none, atol=1e-7, **options).raise_if_wrong()


def test_contact_sticks_and_slides() -> None:
    """The case above has both: tangential speeds below and above mu f_n / kf."""
    model, inputs = touching_model()
    states = solver_of(model, "bdf2").rollout(inputs, FRAMES).motion.states[0, -1, model.contact]
    depth = model.ground_height - states[:, 2]
    ke, _kd, kf, mu = inputs.particle_contact[0, model.contact].T
    grip = kf * np.linalg.norm(states[:, 3:5], axis=1) / np.where(depth > 0, mu * ke * depth, np.nan)
    assert np.nansum(grip < 0.5) >= 1 and np.nansum(grip > 1.5) >= 1


def test_error_of_the_gradient_follows_the_tolerances() -> None:
    """Newton's directions are as short as their tolerance, relative to the state, and so is the change of the gradient.

    An entry of the gradient sums adjoints of every step and particle, each with the relative residual of its linear system.
    """
    model, inputs = touching_model()
    truth = gradient_of(solver_of(model, "bdf2"), inputs)

    def error(**settings: float) -> float:
        found = gradient_of(solver_of(model, "bdf2", **settings), inputs)
        seen = [name for name in NAMES if name != "self_contact"]
        return max(np.abs(found[name] - truth[name]).max() / np.abs(truth[name]).max() for name in seen)

    by_newton = {tolerance: error(tolerance=tolerance) for tolerance in (1e-1, 1e-3, 1e-6)}
    assert all(found < tolerance for tolerance, found in by_newton.items()) and by_newton[1e-1] > by_newton[1e-6], by_newton
    by_solver = {tolerance: error(adjoint_tolerance=tolerance) for tolerance in (1e-4, 1e-6, 1e-9)}
    summands = 2 * FRAMES * model.particle_count
    assert all(found < summands * tolerance for tolerance, found in by_solver.items()), (summands, by_solver)
    assert by_solver[1e-4] > 10 * by_solver[1e-9], by_solver


def test_a_world_whose_loss_is_not_finite_has_no_gradient_and_the_other_keeps_its_own() -> None:
    model, inputs = everything(worlds=2, frames=FRAMES)
    solver = solver_of(model, "sdirk2")
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    q_bar, qd_bar = (np.stack([bar, 0.5 * bar]) for bar in weights_of(rollout))
    alone = solver.rollout_adjoint(rollout, q_bar, qd_bar)
    q_bar[0, -1, -1] = np.nan
    bars = solver.rollout_adjoint(rollout, q_bar, qd_bar)
    assert np.isnan(bars.gravity[0]).all()
    np.testing.assert_array_equal(bars.gravity[1], alone.gravity[1])
    np.testing.assert_array_equal(bars.solid_material[1], alone.solid_material[1])
