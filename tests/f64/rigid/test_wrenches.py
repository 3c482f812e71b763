"""Wrenches and drag of rigid bodies, and the region that bodies may be in."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.rigid_adjoints import rigid_gradcheck
from tests.reference.rigid_cases import DRIVEN_NAMES, GRAVITY, PAIR_MODEL, driven, one_body, pair, stacked, world
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world"), ("rk4", "element")]
DT, SUBSTEPS, FRAMES = 5e-4, 4, 5
STEPS = {
    "body_q0": 1e-7, "body_qd0": 1e-6, "body_mass": 1e-6, "body_inertia": 1e-9, "body_contact": 1e-6, "gravity": 3e-5,
    "body_force": 1e-5, "force_point": 1e-6, "body_wrench": 1e-5, "body_drag": 1e-5,
}  # fmt: skip


def settings(integrator: str, plan: str = "world", **others: float) -> RigidSettings:
    return RigidSettings(dt=DT, substeps=SUBSTEPS, integrator=integrator, plan=plan, **others)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("regime", ["flight", "impact"])
def test_frames_are_those_of_the_equations(regime: str, integrator: str, plan: str) -> None:
    model, inputs = driven(PAIR_MODEL, pair(regime), frames=FRAMES + 2)
    solver = RigidSolver(model, settings(integrator, plan))
    wanted = numpy_rigid.rollout(model, solver.settings, inputs, FRAMES)
    rollout = solver.rollout(inputs, FRAMES)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10)
    still = RigidSolver(PAIR_MODEL, solver.settings).rollout(pair(regime), FRAMES)
    assert np.abs(still.body_qd - rollout.body_qd).max() > 1e-2


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=8)], ids=["store", "checkpoint"])
@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_adjoint_of_every_input(integrator: str, plan: str, adjoint: StoreAll | Checkpoint) -> None:
    """In flight with an applied force; contact together with wrenches is compared between the plans below."""
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=FRAMES + 1)
    inputs = stacked([world(inputs, 0), world(inputs, 2)])
    solver = RigidSolver(model, settings(integrator, plan))
    report = rigid_gradcheck(
        solver, inputs, DRIVEN_NAMES, FRAMES, adjoint, step=STEPS, rtol=1e-5, floor=1e-4, max_entries=16
    )
    report.raise_if_wrong()
    assert {entry.name for entry in report.entries if entry.status == "ok"} == set(DRIVEN_NAMES) - {"body_contact"}
    rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
    bars = solver.rollout_adjoint(rollout, *(np.ones_like(array) for array in rollout.frame_arrays))
    assert (bars.body_wrench[:, FRAMES:] == 0).all()  # of an interval that is not simulated


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=8)], ids=["store", "checkpoint"])
def test_plans_agree_in_contact(adjoint: StoreAll | Checkpoint) -> None:
    model, inputs = driven(PAIR_MODEL, pair("impact"), frames=FRAMES)
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((3, FRAMES + 1, 2, 7)), rng.standard_normal((3, FRAMES + 1, 2, 6))
    bars = []
    for plan in ("world", "element"):
        solver = RigidSolver(model, settings("semi_implicit", plan))
        bars.append(solver.rollout_adjoint(solver.rollout(inputs, FRAMES, adjoint=adjoint), *weights))
    for name, one, other in zip(DRIVEN_NAMES, bars[0].arrays(), bars[1].arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max(), err_msg=name)
        assert np.abs(one).max() > 0, name


# --- closed forms ------------------------------------------------------------------------------------------------------


def fly(
    integrator: str, *, frames: int, wrench: tuple[float, ...] = (0.0,) * 6, drag: tuple[float, float] = (0.0, 0.0),
    inertia: tuple[float, float, float] = (0.4, 0.4, 0.4), **body: object,
) -> RigidRollout:  # fmt: skip
    """A free body of 2 kg with one wrench through all frames, which are 0.02 s apart."""
    model, inputs = one_body(np.zeros((0, 3)), mass=2.0, inertia=np.diag(inertia), **body)
    model = replace(model, has_wrenches=True)
    inputs = replace(inputs, body_wrench=np.tile(wrench, (1, frames, 1, 1)), body_drag=np.array([[drag]]))
    return RigidSolver(model, RigidSettings(dt=5e-3, substeps=4, integrator=integrator)).rollout(inputs, frames)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_drag_slows_exponentially(integrator: str) -> None:
    frames, drag = 50, (0.6, 0.3)
    rollout = fly(integrator, frames=frames, drag=drag, gravity=0.0, velocity=(1.0, -2.0, 0.5), spin=(0.3, 0.2, -1.0))
    time = 0.02 * np.arange(frames + 1)[:, None]
    for part, rate in ((slice(0, 3), drag[0] / 2.0), (slice(3, 6), drag[1] / 0.4)):
        per_frame = (1.0 - 5e-3 * rate) ** 4 if integrator == "semi_implicit" else math.exp(-0.02 * rate)
        wanted = rollout.body_qd[0, 0, 0, part] * per_frame ** (time / 0.02)
        np.testing.assert_allclose(rollout.body_qd[0, :, 0, part], wanted, rtol=1e-9)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_terminal_velocity(integrator: str) -> None:
    terminal = 2.0 * GRAVITY / 8.0  # m g / d
    rollout = fly(integrator, frames=400, drag=(8.0, 0.0))
    fall = -rollout.body_qd[0, :, 0, 2]
    assert (np.diff(fall)[:200] > 0).all() and fall.max() < terminal * (1 + 1e-12)
    np.testing.assert_allclose(fall[-1], terminal, rtol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_torque_about_a_principal_axis(axis: int) -> None:
    """w = t torque / I and an angle of t^2 torque / (2 I) about the axis, which stays where it is; the body falls freely."""
    inertia = (0.3, 0.5, 0.7)
    wrench = np.zeros(6)
    wrench[3 + axis] = 0.2
    rollout = fly("rk4", frames=30, wrench=tuple(wrench), inertia=inertia)
    time = 0.02 * np.arange(31)
    spin = np.zeros((31, 3))
    spin[:, axis] = 0.2 / inertia[axis] * time
    np.testing.assert_allclose(rollout.body_qd[0, :, 0, 3:], spin, rtol=0, atol=1e-12)
    half = 0.25 * 0.2 / inertia[axis] * time**2
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 3 + axis], np.sin(half), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 6], np.cos(half), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_q[0, :, 0, 2], -0.5 * GRAVITY * time**2, rtol=0, atol=1e-12)


# --- the region --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_a_body_that_leaves_the_region_ends_its_world_alone(integrator: str, plan: str) -> None:
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=FRAMES)
    inputs.body_q0[1, 1, :3], inputs.body_qd0[1, 1, :3] = (0.0, 49.9985, 0.0), (0.0, 1.0, 0.0)
    nothing = {name: np.zeros_like(getattr(inputs, name)) for name in ("body_force", "body_wrench", "body_drag")}
    inputs = replace(inputs, **nothing)
    solver = RigidSolver(model, settings(integrator, plan, max_distance=50.0))
    rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
    step = rollout.diverged_step[1, 1]  # 1.5 mm to go at 0.5 mm a step
    assert 3 <= step <= 5 and rollout.diverged_step.tolist() == [[-1, -1], [-1, step], [-1, -1]]
    assert rollout.left_region.tolist() == [[False, False], [False, True], [False, False]]
    assert np.isnan(rollout.body_q[1, 2:, 1]).all() and np.isfinite(rollout.body_q[1, :, 0]).all()
    solver.check_divergence(rollout)  # two worlds go on: no error
    free = RigidSolver(model, settings(integrator, plan)).rollout(inputs, FRAMES)
    np.testing.assert_array_equal(rollout.body_q[[0, 2]], free.body_q[[0, 2]])
    bars = solver.rollout_adjoint(rollout, np.ones_like(rollout.body_q), np.ones_like(rollout.body_qd))
    assert np.isnan(bars.body_q0[1]).all() and np.isfinite(bars.body_q0[[0, 2]]).all()
    alone = world(inputs, 1)
    with pytest.raises(DivergenceError, match=rf"'brick' left the region .*farther than 50 m .*step {step}\b") as caught:
        solver.check_divergence(solver.rollout(alone, FRAMES))
    assert (caught.value.body, caught.value.step) == ("brick", step) and "finite" not in str(caught.value)


def test_numbers_that_are_not_finite_are_still_called_so() -> None:
    inputs = world(pair("flight"), 0)
    inputs.body_qd0[0, 0, 4] = np.nan
    solver = RigidSolver(PAIR_MODEL, settings("semi_implicit", max_distance=50.0))
    with pytest.raises(DivergenceError, match="'box' stopped being finite"):
        solver.check_divergence(solver.rollout(inputs, 2))


def test_solvers_refuse_inputs_that_are_not_driven_as_the_model() -> None:
    model, inputs = driven(PAIR_MODEL, pair("flight"), frames=2)
    with pytest.raises(UserError, match="neither wrenches nor drag, and the model has has_wrenches=True"):
        RigidSolver(model, settings("rk4")).rollout(pair("flight"), 2)
    with pytest.raises(UserError, match="wrenches and drag, and the model has has_wrenches=False"):
        RigidSolver(PAIR_MODEL, settings("rk4")).rollout(inputs, 2)
    with pytest.raises(UserError, match="frames=3, and there are wrenches for 2 frame intervals"):
        RigidSolver(model, settings("rk4")).rollout(inputs, 3)
