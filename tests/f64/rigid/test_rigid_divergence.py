"""Worlds that leave the finite numbers, and inputs that a rollout refuses."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.rigid_cases import INPUT_NAMES, PAIR_MODEL, pair, tilted_box, world
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll

METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world"), ("rk4", "element")]
SUBSTEPS, FRAMES = 4, 8


def unstable(inputs: RigidInputs, worlds: list[int], body: int = 1) -> RigidInputs:
    """The same with a stiffness of one body that no step is small enough for."""
    material = inputs.body_contact.copy()
    material[worlds, body, 0] = 1e30
    return replace(inputs, body_contact=material)


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=5)], ids=["store", "checkpoint"])
@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_a_diverging_world_leaves_the_others_alone(integrator: str, plan: str, adjoint: Adjoint) -> None:
    solver = RigidSolver(PAIR_MODEL, RigidSettings(dt=2e-3, substeps=SUBSTEPS, integrator=integrator, plan=plan))
    good, bad = pair("impact"), unstable(pair("impact"), [1])
    rollout = solver.rollout(bad, FRAMES, adjoint=adjoint)
    steps = rollout.diverged_step
    assert steps[1, 1] > 0 and (steps[[0, 2]] == -1).all() and steps[1, 0] == -1
    frame = -(-int(steps[1, 1]) // SUBSTEPS)  # the first frame at or after that step
    for array in (rollout.body_q, rollout.body_qd):
        assert np.isfinite(array[1, :frame, 1]).all()
        assert np.isnan(array[1, frame:, 1]).all()
    solver.check_divergence(rollout)  # two worlds go on: no error
    reference = solver.rollout(good, FRAMES, adjoint=adjoint)
    np.testing.assert_array_equal(rollout.body_q[[0, 2]], reference.body_q[[0, 2]])
    np.testing.assert_array_equal(rollout.body_q[1, :, 0], reference.body_q[1, :, 0])
    rng = np.random.default_rng(0)
    bars = rng.standard_normal(rollout.body_q.shape), rng.standard_normal(rollout.body_qd.shape)
    wanted = solver.rollout_adjoint(reference, *bars)
    for bar in bars:
        bar[1] = np.nan  # as a loss of NaN frames gives it
    actual = solver.rollout_adjoint(rollout, *bars)
    for name, a, w in zip(INPUT_NAMES, actual.arrays(), wanted.arrays(), strict=True):
        np.testing.assert_allclose(a[[0, 2]], w[[0, 2]], rtol=1e-12, atol=1e-12 * np.abs(w).max(), err_msg=name)
        assert np.isnan(a[1]).all(), name


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_divergence_of_every_world_names_body_and_step(integrator: str, plan: str) -> None:
    settings = RigidSettings(dt=2e-3, substeps=SUBSTEPS, integrator=integrator, plan=plan)
    solver = RigidSolver(PAIR_MODEL, settings)
    rollout = solver.rollout(unstable(pair("impact"), [0, 1, 2]), FRAMES)
    assert (rollout.diverged_step[:, 1] > 0).all()
    first = int(rollout.diverged_step[:, 1].min())
    with pytest.raises(DivergenceError, match=rf"'brick' .* step {first}\b") as caught:
        solver.check_divergence(rollout)
    assert (caught.value.body, caught.value.step) == ("brick", first)


def test_the_diverged_step_is_the_first_that_is_not_finite() -> None:
    """A force that is not finite acts first in step 9 (from state 9 to state 10)."""
    model = replace(PAIR_MODEL, force_body=(0, 1), force_steps=((9, 12), (3, 5)))
    inputs = pair("flight")
    inputs.body_force[0, 0, 1] = np.inf
    for plan in ("world", "element"):
        rollout = RigidSolver(model, RigidSettings(dt=1e-3, substeps=SUBSTEPS, plan=plan)).rollout(inputs, FRAMES)
        assert rollout.diverged_step.tolist() == [[10, -1], [-1, -1], [-1, -1]]
        assert np.isfinite(rollout.body_q[0, :3, 0]).all() and np.isnan(rollout.body_q[0, 3:, 0]).all()


@pytest.mark.parametrize("plan", ["world", "element"])
def test_a_start_that_is_not_finite(plan: str) -> None:
    inputs = world(pair("flight"), 0)
    inputs.body_qd0[0, 0, 4] = np.nan
    solver = RigidSolver(PAIR_MODEL, RigidSettings(dt=1e-3, substeps=2, plan=plan))
    rollout = solver.rollout(inputs, 3)
    assert rollout.diverged_step[0, 0] in (0, 1) and rollout.diverged_step[0, 1] == -1
    assert np.isnan(rollout.body_q[0, 1:, 0]).all()
    with pytest.raises(DivergenceError, match="'box'"):
        solver.check_divergence(rollout)


# --- what a user can get wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INPUT_NAMES)
def test_wrong_shapes_and_types_are_named(name: str) -> None:
    solver = RigidSolver(PAIR_MODEL, RigidSettings(dt=1e-3, substeps=2))
    inputs = pair("flight")
    array = getattr(inputs, name)
    with pytest.raises(UserError, match=rf"(?s){name} .*float32"):
        solver.rollout(replace(inputs, **{name: array.astype(np.float32)}), 2)
    wrong = np.zeros((*array.shape, 2))
    with pytest.raises(UserError, match="shape"):
        solver.rollout(replace(inputs, **{name: wrong}), 2)
    if name != "body_mass":  # which tells the number of worlds
        with pytest.raises(UserError, match=rf"{name} has shape"):
            solver.rollout(replace(inputs, **{name: np.concatenate([array, array])}), 2)


def test_the_adjoint_needs_states() -> None:
    model, inputs = tilted_box()
    solver = RigidSolver(model, RigidSettings(dt=1e-3, substeps=2))
    rollout = solver.rollout(inputs, 2)
    assert rollout.states is None
    with pytest.raises(UserError, match="StoreAll"):
        solver.rollout_adjoint(rollout, rollout.body_q, rollout.body_qd)


def test_the_adjoint_refuses_adjoints_of_the_wrong_shape_or_type() -> None:
    model, inputs = tilted_box()
    solver = RigidSolver(model, RigidSettings(dt=1e-3, substeps=2))
    rollout = solver.rollout(inputs, 4, adjoint=StoreAll())
    with pytest.raises(UserError, match="body_q_bar"):
        solver.rollout_adjoint(rollout, rollout.body_q[:, :3].copy(), rollout.body_qd)
    with pytest.raises(UserError, match="body_qd_bar"):
        solver.rollout_adjoint(rollout, rollout.body_q, rollout.body_qd.astype(np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"integrator": "euler"}, "'euler'.*'semi_implicit'.*'rk4'"),
        ({"plan": "gpu"}, "'gpu'.*'world'.*'element'"),
    ],
)
def test_bad_settings_say_what_to_do(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RigidSettings(**{"dt": 1e-3, "substeps": 2, **options})


def test_bad_checkpoints() -> None:
    with pytest.raises(UserError, match="every is 0: give a whole number of at least 1"):
        Checkpoint(every=0)


def test_bad_models() -> None:
    points = np.zeros((1, 3))
    with pytest.raises(UserError, match="contact points"):
        RigidModel(("a", "b"), (points,))
    with pytest.raises(UserError, match="a body"):
        RigidModel((), ())
    with pytest.raises(UserError, match="pair of steps"):
        RigidModel(("a",), (points,), force_body=(0,))
    with pytest.raises(UserError, match="body 1"):
        RigidModel(("a",), (points,), force_body=(1,), force_steps=((0, 1),))
    with pytest.raises(UserError, match="steps 4 to 4"):
        RigidModel(("a",), (points,), force_body=(0,), force_steps=((4, 4),))
