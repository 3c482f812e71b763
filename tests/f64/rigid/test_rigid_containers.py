"""The rigid rollout in numpy, torch and taichi arrays, and on a tape."""

import numpy as np
import pytest
import torch

from tests.reference.devices import taichi_gradients
from tests.reference.rigid_cases import INPUT_NAMES, PAIR_MODEL, pair
from tests.reference.taichi_arrays import as_numpy, taichi_array, taichi_zeros, weighted_sum
from ti_sim.base.errors import UserError
from ti_sim.base.tape import Tape
from ti_sim.rigid.ad_tape import RigidTape
from ti_sim.rigid.model import RigidInputs, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

FRAMES = 5


def solver(plan="world"):
    return RigidSolver(PAIR_MODEL, RigidSettings(dt=5e-4, substeps=7, plan=plan))


@pytest.mark.parametrize("plan", ["world", "element"])
@pytest.mark.parametrize("make", [torch.from_numpy, taichi_array], ids=["torch", "taichi"])
def test_containers_give_identical_numbers(make, plan):
    rng = np.random.default_rng(1)
    q_bar, qd_bar = rng.standard_normal((3, FRAMES + 1, 2, 7)), rng.standard_normal((3, FRAMES + 1, 2, 6))
    for adjoint in (StoreAll(), Checkpoint(every=6)):
        engine = solver(plan)
        wanted = engine.rollout(pair("impact"), FRAMES, adjoint=adjoint)
        wanted_bars = engine.rollout_adjoint(wanted, q_bar, qd_bar)
        inputs = RigidInputs(*(make(array.copy()) for array in pair("impact").arrays()))
        actual = engine.rollout(inputs, FRAMES, adjoint=adjoint)
        bars = engine.rollout_adjoint(actual, make(q_bar.copy()), make(qd_bar.copy()))
        kind = type(inputs.body_mass)
        assert all(isinstance(a, kind) for a in (actual.body_q, actual.body_qd, actual.diverged_step, *bars.arrays()))
        np.testing.assert_allclose(as_numpy(actual.body_q), wanted.body_q, rtol=0, atol=1e-14)
        np.testing.assert_allclose(as_numpy(actual.body_qd), wanted.body_qd, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(as_numpy(actual.diverged_step), wanted.diverged_step)
        for name, a, w in zip(INPUT_NAMES, bars.arrays(), wanted_bars.arrays(), strict=True):
            # Worlds and bodies add to shared sums in any order: equal to rounding.
            np.testing.assert_allclose(as_numpy(a), w, rtol=0, atol=1e-13 * np.abs(w).max(), err_msg=name)


@pytest.mark.parametrize("make", [torch.from_numpy, taichi_array], ids=["torch", "taichi"])
def test_a_diverged_world_is_marked_in_every_container(make):
    source = pair("impact")
    source.body_contact[1, 1, 0] = 1e30
    engine = RigidSolver(PAIR_MODEL, RigidSettings(dt=2e-3, substeps=4))
    rollout = engine.rollout(RigidInputs(*(make(array.copy()) for array in source.arrays())), 8, adjoint=StoreAll())
    assert as_numpy(rollout.diverged_step)[1, 1] > 0
    assert np.isnan(as_numpy(rollout.body_q)[1, -1, 1]).all()
    bars = engine.rollout_adjoint(rollout, rollout.body_q, rollout.body_qd)
    for bar in bars.arrays():
        assert np.isnan(as_numpy(bar)[1]).all() and np.isfinite(as_numpy(bar)[[0, 2]]).all()


def test_torch_inputs_that_require_a_gradient_are_read_without_one():
    inputs = RigidInputs(*(torch.from_numpy(array.copy()).requires_grad_() for array in pair("impact").arrays()))
    with torch.no_grad():
        rollout = solver().rollout(inputs, FRAMES, adjoint=StoreAll())
    assert not rollout.body_q.requires_grad
    np.testing.assert_allclose(rollout.body_q.cpu().numpy(), solver().rollout(pair("impact"), FRAMES).body_q, atol=1e-14)


@taichi_gradients
@pytest.mark.parametrize("adjoint", [None, Checkpoint(every=8)], ids=["store", "checkpoint"])
@pytest.mark.parametrize("plan", ["world", "element"])
def test_tape_used_three_times(plan, adjoint):
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((3, FRAMES + 1, 2, 7))
    engine = solver(plan)
    reference = engine.rollout(pair("impact"), FRAMES, adjoint=StoreAll())
    wanted = engine.rollout_adjoint(reference, weight, np.zeros_like(reference.body_qd))
    inputs = RigidInputs(*(taichi_array(array, needs_grad=True) for array in pair("impact").arrays()))
    body_q = taichi_zeros(3, FRAMES + 1, 2, 7)
    body_qd = taichi_zeros(3, FRAMES + 1, 2, 6)
    loss = taichi_zeros(1)
    weights = taichi_array(weight)
    rollout = RigidTape(engine, FRAMES, adjoint=adjoint)
    for _ in range(3):
        with Tape(loss):
            rollout(inputs, body_q, body_qd)
            weighted_sum(body_q, weights, loss)
        np.testing.assert_allclose(loss.to_numpy()[0], np.sum(weight * reference.body_q), rtol=1e-12)
        for name, array, bar in zip(INPUT_NAMES, inputs.arrays(), wanted.arrays(), strict=True):
            gradient = array.grad.to_numpy()
            np.testing.assert_allclose(gradient, bar, rtol=0, atol=1e-12 * max(np.abs(bar).max(), 1e-300), err_msg=name)


def test_a_solver_is_not_recorded_on_a_tape():
    """Its kernels have hand-written adjoints, which ``RigidTape`` calls: Taichi's own differentiation would not."""
    inputs = RigidInputs(*(taichi_array(array, needs_grad=True) for array in pair("impact").arrays()))
    engine, loss = solver(), taichi_zeros(1)
    with pytest.raises(UserError, match="RigidSolver.rollout cannot be recorded on a tape: use RigidTape"), Tape(loss):
        engine.rollout(inputs, FRAMES)
    assert np.isfinite(as_numpy(engine.rollout(inputs, FRAMES).body_q)).all()  # the tape has ended


@taichi_gradients
def test_one_rollout_twice_on_a_tape_with_different_inputs():
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((3, FRAMES + 1, 2, 7))
    engine = solver()
    rollout = RigidTape(engine, FRAMES)
    loss, weights = taichi_zeros(1), taichi_array(weight)
    runs = []
    for seed in (3, 4):
        inputs = RigidInputs(*(taichi_array(array, needs_grad=True) for array in pair("impact", seed=seed).arrays()))
        frames = [taichi_zeros(3, FRAMES + 1, 2, size) for size in (7, 6)]
        runs.append((seed, inputs, frames))
    with Tape(loss):
        for _, inputs, frames in runs:
            rollout(inputs, *frames)
            weighted_sum(frames[0], weights, loss)
    for seed, inputs, _ in runs:
        reference = engine.rollout(pair("impact", seed=seed), FRAMES, adjoint=StoreAll())
        wanted = engine.rollout_adjoint(reference, weight, np.zeros_like(reference.body_qd))
        for name, array, bar in zip(INPUT_NAMES, inputs.arrays(), wanted.arrays(), strict=True):
            np.testing.assert_allclose(
                array.grad.to_numpy(), bar, rtol=0, atol=1e-12 * np.abs(bar).max(), err_msg=f"{name}, seed {seed}"
            )
