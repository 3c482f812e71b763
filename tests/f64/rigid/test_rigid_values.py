"""The rigid solver against a plain numpy stepper, and its plans and ways of keeping states against each other."""

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.rigid_cases import INPUT_NAMES, PAIR_MODEL, REGIMES, pair, tilted_box
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world"), ("rk4", "element")]


def random_bars(rollout: RigidRollout, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Adjoints of all frames, standard normal."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(rollout.body_q.shape), rng.standard_normal(rollout.body_qd.shape)


def assert_same(actual: RigidInputs, wanted: RigidInputs, rtol: float) -> None:
    """Compare adjoints array by array, relative to the largest entry of each."""
    for name, a, w in zip(INPUT_NAMES, actual.arrays(), wanted.arrays(), strict=True):
        np.testing.assert_allclose(a, w, rtol=0, atol=rtol * max(np.abs(w).max(), 1e-300), err_msg=name)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_tilted_box_hitting_the_ground(integrator: str, plan: str) -> None:
    model, inputs = tilted_box()
    settings = RigidSettings(dt=5e-4, substeps=8, integrator=integrator, plan=plan)
    frames = 40
    wanted = numpy_rigid.rollout(model, settings, inputs, frames)
    assert set(np.unique(wanted.pattern)) >= {numpy_rigid.APART, numpy_rigid.STICKING, numpy_rigid.SLIDING}
    rollout = RigidSolver(model, settings).rollout(inputs, frames)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10 * max(1.0, np.abs(wanted.body_qd).max()))
    assert (rollout.diverged_step == -1).all()


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("regime", REGIMES)
def test_two_bodies_in_three_worlds(integrator: str, plan: str, regime: str) -> None:
    settings = RigidSettings(dt=5e-4, substeps=7, integrator=integrator, plan=plan)
    wanted = numpy_rigid.rollout(PAIR_MODEL, settings, pair(regime), 9)
    rollout = RigidSolver(PAIR_MODEL, settings).rollout(pair(regime), 9)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10 * max(1.0, np.abs(wanted.body_qd).max()))


def test_frame_zero_is_the_start_with_a_unit_quaternion() -> None:
    model, inputs = tilted_box()
    rollout = RigidSolver(model, RigidSettings(dt=5e-4, substeps=3)).rollout(inputs, 1)
    q = inputs.body_q0[..., 3:]
    np.testing.assert_allclose(rollout.body_q[:, 0, :, :3], inputs.body_q0[..., :3], atol=1e-15)
    np.testing.assert_allclose(rollout.body_q[:, 0, :, 3:], q / np.linalg.norm(q), atol=1e-15)
    np.testing.assert_allclose(rollout.body_qd[:, 0], inputs.body_qd0, atol=1e-13)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_every_way_of_keeping_states_gives_the_same(integrator: str, plan: str) -> None:
    frames, substeps = 9, 7  # 63 steps
    inputs = pair("impact")
    settings = RigidSettings(dt=5e-4, substeps=substeps, integrator=integrator, plan=plan)
    reference = RigidSolver(PAIR_MODEL, RigidSettings(dt=5e-4, substeps=substeps, integrator=integrator, plan="world"))
    wanted = reference.rollout(inputs, frames, adjoint=StoreAll())
    bars = random_bars(wanted)
    wanted_bars = reference.rollout_adjoint(wanted, *bars)
    solver = RigidSolver(PAIR_MODEL, settings)
    without = solver.rollout(inputs, frames)
    np.testing.assert_allclose(without.body_q, wanted.body_q, rtol=0, atol=1e-10)
    for adjoint in [StoreAll(), *(Checkpoint(every=k) for k in (1, 5, 7, 8, 16, 62, 63, 64, 1000))]:
        rollout = solver.rollout(inputs, frames, adjoint=adjoint)
        np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-10, err_msg=str(adjoint))
        np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10, err_msg=str(adjoint))
        assert_same(solver.rollout_adjoint(rollout, *bars), wanted_bars, 1e-10)


def test_the_adjoint_can_be_taken_twice_and_leaves_its_arguments_alone() -> None:
    inputs = pair("impact")
    before = [array.copy() for array in inputs.arrays()]
    solver = RigidSolver(PAIR_MODEL, RigidSettings(dt=5e-4, substeps=4))
    for adjoint in (StoreAll(), Checkpoint(every=6)):
        rollout = solver.rollout(inputs, 5, adjoint=adjoint)
        body_q, bars = rollout.body_q.copy(), random_bars(rollout)
        kept = [bar.copy() for bar in bars]
        first = solver.rollout_adjoint(rollout, *bars)
        assert_same(solver.rollout_adjoint(rollout, *bars), first, 1e-12)
        np.testing.assert_array_equal(rollout.body_q, body_q)
        for bar, copy in zip(bars, kept, strict=True):
            np.testing.assert_array_equal(bar, copy)
    for array, copy in zip(inputs.arrays(), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_worlds_do_not_see_each_other() -> None:
    inputs = pair("impact")
    solver = RigidSolver(PAIR_MODEL, RigidSettings(dt=5e-4, substeps=7))
    together = solver.rollout(inputs, 6)
    for b in range(3):
        alone = solver.rollout(RigidInputs(*(np.ascontiguousarray(a[b : b + 1]) for a in inputs.arrays())), 6)
        np.testing.assert_array_equal(alone.body_q[0], together.body_q[b])


@pytest.mark.parametrize("plan", ["world", "element"])
def test_bodies_without_points_or_forces(plan: str) -> None:
    model = RigidModel(("a", "b"), (np.zeros((0, 3)), np.zeros((0, 3))))
    source = pair("flight")
    inputs = RigidInputs(*source.arrays()[:6], source.body_force[:, :1].copy(), source.force_point[:, :1].copy())
    settings = RigidSettings(dt=1e-3, substeps=5, plan=plan)
    wanted = numpy_rigid.rollout(model, settings, inputs, 4)
    solver = RigidSolver(model, settings)
    rollout = solver.rollout(inputs, 4, adjoint=StoreAll())
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-12)
    bars = solver.rollout_adjoint(rollout, *random_bars(rollout))
    assert not bars.body_force.any() and not bars.force_point.any() and not bars.body_contact.any()
    assert bars.body_inertia.any()
