"""Rollouts of links with one thread per world and with a team of threads per world, and their adjoints."""

from dataclasses import replace

import numpy as np

from tests.reference.articulated_robots import hand, quadruped, tree, varied
from tests.reference.bristle_cases import pinched, touching_pair
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.runtime import require
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll

Case = tuple[ArticulatedModel, ArticulatedInputs, ArticulatedSettings, Adjoint]


def _with_dry_friction(inputs: ArticulatedInputs) -> ArticulatedInputs:
    """Joints that stick and slip."""
    shape = inputs.joint_qd0.shape
    friction, stiffness, damping, deflection = (np.full(shape, value) for value in (0.2, 5.0, 0.05, 0.01))
    return replace(
        inputs, joint_dry_friction=friction, joint_dry_stiffness=stiffness, joint_dry_damping=damping, joint_bristle0=deflection
    )


def _coupled_hand(worlds: int, frames: int) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """The hand with coupled joints in two fingers, all of them at rest."""
    model, inputs = varied(hand(), worlds, frames=frames)
    model = replace(model, joint_coupling=((4, 3, 0.7), (7, 6, -0.5)))
    return model, replace(inputs, joint_qd0=0.0 * inputs.joint_qd0)


def _with_bristles(inputs: ArticulatedInputs) -> ArticulatedInputs:
    """Contacts with bristles."""
    return replace(inputs, link_bristle=np.full(inputs.link_mass.shape, 300.0))


def _repeated(model: ArticulatedModel, inputs: ArticulatedInputs, worlds: int) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """One world's inputs for several worlds."""
    arrays = {name: np.repeat(array, worlds, 0) for name, array in inputs.named_arrays().items() if array is not None}
    return model, replace(inputs, **arrays)


def team_case(name: str, worlds: int) -> Case:
    """Model, inputs, settings and adjoint of a rollout by name, one of ``TEAM_CASES``."""
    settings = ArticulatedSettings(1e-3, 10)
    if name == "hand":
        return *varied(hand(), worlds, frames=3), settings, StoreAll()
    if name == "hand, rk4":
        return *varied(hand(), worlds, frames=3), replace(settings, integrator="rk4"), Checkpoint(every=20)
    if name == "quadruped on the ground":
        return *varied(quadruped(), worlds, frames=3), settings, Checkpoint(every=20)
    if name == "tree on bristles with dry friction":
        model, inputs = varied(tree(), worlds, frames=3)
        return model, _with_bristles(_with_dry_friction(inputs)), settings, StoreAll()
    if name == "coupled joints":
        return *_coupled_hand(worlds, 3), settings, StoreAll()
    if name == "pinched box with bristles":
        return *_repeated(*pinched("box", 2.5, frames=3, off=0.004), worlds), settings, StoreAll()
    model, inputs = touching_pair(("sphere", "capsule"), mu=0.3, kt=0.0, frames=2)
    return *_repeated(model, replace(inputs, link_bristle=None), worlds), settings, StoreAll()


TEAM_CASES = (
    "hand", "hand, rk4", "quadruped on the ground", "tree on bristles with dry friction", "coupled joints",
    "pinched box with bristles", "sphere and capsule",
)  # fmt: skip


def assert_equal_in_teams(case: Case, tolerance: float) -> None:
    """Assert that frames, marks and every adjoint agree for the plans "world" and "element".

    Args:
        case: of ``team_case``.
        tolerance: largest difference of two numbers, over the largest number of their array (and 1e-9 of that of all arrays).
    """
    model, inputs, settings, adjoint = case
    dtype = require().numpy_dtype
    arrays = {name: array.astype(dtype) for name, array in inputs.named_arrays().items() if array is not None}
    inputs, results = replace(inputs, **arrays), []
    for plan in ("world", "element"):
        solver = ArticulatedSolver(model, replace(settings, plan=plan))
        rollout = solver.rollout(inputs, inputs.frame_count, adjoint=adjoint)
        weights = [np.cos(np.arange(array.size)).reshape(array.shape).astype(dtype) for array in rollout.frame_arrays]
        bars = solver.rollout_adjoint(rollout, *weights).named_arrays()
        frames = dict(zip(solver.frame_names, rollout.frame_arrays, strict=True))
        marks = {"diverged_step": rollout.diverged_step, "diverged_link": rollout.diverged_link, "tests": rollout.pair_tests}
        results.append(frames | bars | marks)
    sizes = {name: np.abs(array).max() for name, array in results[0].items() if array is not None and array.size}
    for name, size in sizes.items():
        expected, difference = results[0][name], tolerance * (size + 1e-9 * max(sizes.values()))
        assert np.isfinite(expected).all(), name
        np.testing.assert_allclose(results[1][name], expected, rtol=0.0, atol=difference, err_msg=name)
