"""Smoke by teams of threads, with all steps in one launch, as on a GPU: against the launches of a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.devices import not_on_vulkan
from tests.reference.smoke_cases import CELL, CELLS, inputs_of, obstructed, solver_of
from ti_sim import Checkpoint, StoreAll, UserError
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import require
from ti_sim.base.teams import block_team, cpu_team
from ti_sim.smoke import SmokeInputs, SmokeModel, SmokeSolver, poisson, solver

# Mesa's software driver ends the loops of a thread after 65,536 iterations in all.
FRAMES = 1 if require().device == "vulkan" else 3


@pytest.fixture
def by_team(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers take all steps in one launch."""
    on_cpu = require().device == "cpu"
    monkeypatch.setattr(
        solver, "device_team", lambda like, worlds: cpu_team(1, thread_count()) if on_cpu else block_team(like, worlds, 64)
    )


def results_of(smoke: SmokeSolver, inputs: SmokeInputs, adjoint: StoreAll | Checkpoint, weights: list[np.ndarray]) -> list:
    rollout = smoke.rollout(inputs, FRAMES, adjoint=adjoint)
    return [*rollout.frame_arrays, *smoke.rollout_adjoint(rollout, *weights).arrays()]


@pytest.mark.threads
@pytest.mark.parametrize(
    ("advection", "model", "adjoint"),
    [
        ("semi_lagrangian", obstructed(), Checkpoint(every=4)), ("semi_lagrangian", SmokeModel(CELLS, CELL), StoreAll()),
        ("maccormack", obstructed(), StoreAll()), ("maccormack", SmokeModel(CELLS, CELL), Checkpoint(every=4)),
        ("cubic", obstructed(), Checkpoint(every=4)),
    ],
    ids=["obstacles", "box", "maccormack-obstacles", "maccormack-box", "cubic-obstacles"],
)  # fmt: skip
def test_a_team_takes_the_steps_and_adjoints_of_a_cpu(
    advection: str, model: SmokeModel, adjoint: StoreAll | Checkpoint, monkeypatch: pytest.MonkeyPatch, by_team: None
) -> None:
    inputs, random = inputs_of(model, FRAMES), np.random.default_rng(1)
    smoke = solver_of(model, advection)
    weights = [random.normal(size=rows.shape) for rows in smoke.rollout(inputs, FRAMES).frame_arrays]
    found = results_of(smoke, inputs, adjoint, weights)
    with monkeypatch.context() as patch:
        patch.setattr(solver, "device_team", lambda like, worlds: None)
        wanted = results_of(smoke, inputs, adjoint, weights)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11 * np.abs(other).max(), rtol=0)


@not_on_vulkan("Mesa's software driver lets threads wait for their block at each atomic operation in loops of unequal length")
@pytest.mark.threads
def test_projections_around_many_obstacles_converge_or_are_an_error(monkeypatch: pytest.MonkeyPatch, by_team: None) -> None:
    """Cells closed at random cut regions off; a thin wall between two rooms leaves a gap."""
    obstacle = np.random.default_rng(2).random((16, 12)) < 0.3
    obstacle[8, 1:] = True
    smoke = solver_of(SmokeModel(obstacle.shape, CELL, obstacle), substeps=1)
    inputs = inputs_of(smoke.model, 1)
    found = smoke.rollout(inputs, 1).frame_arrays
    monkeypatch.setattr(poisson, "_MAX_ITERATIONS", 2)
    with pytest.raises(UserError, match="did not converge"):
        smoke.rollout(inputs, 1)
    monkeypatch.setattr(solver, "device_team", lambda like, worlds: None)
    for one, other in zip(found, smoke.rollout(inputs, 1).frame_arrays, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.threads
def test_a_world_that_is_not_finite_leaves_the_others_alone(by_team: None) -> None:
    smoke, inputs = solver_of(obstructed()), inputs_of(obstructed(), FRAMES)
    wanted = smoke.rollout(inputs, FRAMES)
    inputs.density0[0, 1, 1] = np.inf
    found = smoke.rollout(inputs, FRAMES)
    assert found.diverged.tolist() == [True, False]
    assert found.diverged_step.tolist() == [1, -1]
    assert np.isnan(found.density[0, 1:]).all()
    for one, other in zip(found.frame_arrays, wanted.frame_arrays, strict=True):
        np.testing.assert_allclose(one[1], other[1], atol=1e-12)
