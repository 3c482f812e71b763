"""Lanes that share the contact points of a body: the motion and gradient of one thread a body, in one launch each."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.rigid_cases import PAIR_MODEL, REGIMES, driven, one_body, pair, turned
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import require
from ti_sim.rigid import body_teams, solver
from ti_sim.rigid.body_teams import lanes_share_points, point_teams
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Adjoint, Checkpoint, StoreAll

pytestmark = pytest.mark.threads

FRAMES = 6
SETTINGS = RigidSettings(dt=5e-4, substeps=7)


def bristled(inputs: RigidInputs) -> tuple[RigidModel, RigidInputs]:
    model = replace(PAIR_MODEL, has_bristles=True, has_contact_radii=True)
    shape = inputs.body_mass.shape
    return model, replace(inputs, body_bristle=np.full(shape, 900.0), body_radius=np.full(shape, 1.5e-3))


def ball(count: int) -> tuple[RigidModel, RigidInputs]:
    """A body with points on a sphere, flattened so that hundreds touch, and one without points."""
    k = np.arange(count) + 0.5
    angle, z = k * np.pi * (3 - np.sqrt(5)), 1 - 2 * k / count
    rho = np.sqrt(1 - z * z)
    points = 0.1 * np.stack([rho * np.cos(angle), rho * np.sin(angle), np.maximum(z, -0.5)], axis=1)
    model, inputs = one_body(
        points, inertia=np.diag([4e-3, 4.2e-3, 3.9e-3]), position=(0, 0, 0.0502), turn=turned((1, 2, 0), 0.02),
        velocity=(0.3, -0.1, -0.4), spin=(1.0, 0.5, 2.0), ke=200.0, kd=0.5, kf=0.5, mu=0.4,
    )  # fmt: skip
    second = {
        name: np.repeat(getattr(inputs, name), 2, axis=1)
        for name in ("body_q0", "body_qd0", "body_mass", "body_inertia", "body_contact")
    }
    model = replace(model, body_names=("ball", "dot"), contact_points=(points, np.zeros((0, 3))))
    return model, replace(inputs, **second)


def simulate(
    model: RigidModel, inputs: RigidInputs, settings: RigidSettings, adjoint: Adjoint
) -> tuple[RigidRollout, RigidInputs]:
    engine = RigidSolver(model, settings)
    rollout = engine.rollout(inputs, FRAMES, adjoint=adjoint)
    rng = np.random.default_rng(0)
    return rollout, engine.rollout_adjoint(rollout, *(rng.standard_normal(array.shape) for array in rollout.frame_arrays))


def assert_plans_agree(model: RigidModel, inputs: RigidInputs, settings: RigidSettings, adjoint: Adjoint) -> None:
    wanted, wanted_bars = simulate(model, inputs, replace(settings, plan="world"), adjoint)
    actual, bars = simulate(model, inputs, replace(settings, plan="element"), adjoint)
    for one, other in zip(wanted.frame_arrays, actual.frame_arrays, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-13 * np.abs(one).max())
    for one, other in zip(wanted.last_arrays, actual.last_arrays, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-12 * max(np.abs(one).max(), 1e-3))
    for one, other in zip(wanted_bars.arrays(), bars.arrays(), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-11 * np.abs(one).max())


@pytest.mark.parametrize("adjoint", [StoreAll(), Checkpoint(every=9)], ids=["store", "checkpoint"])
@pytest.mark.parametrize("case", ["semi_implicit", "rk4", "bristles", "wrenches"])
@pytest.mark.parametrize("regime", REGIMES)
def test_plans_agree(regime: str, case: str, adjoint: Adjoint) -> None:
    model, inputs = PAIR_MODEL, pair(regime)
    if case == "bristles":
        model, inputs = bristled(inputs)
    elif case == "wrenches":
        model, inputs = driven(model, inputs, frames=FRAMES)
    assert_plans_agree(model, inputs, replace(SETTINGS, integrator="rk4" if case == "rk4" else "semi_implicit"), adjoint)


@pytest.mark.parametrize("points", [3, 40, 700])
def test_plans_agree_for_any_number_of_points(points: int) -> None:
    model, inputs = ball(points)
    if points > 100:
        pattern = numpy_rigid.rollout(model, SETTINGS, inputs, FRAMES).pattern
        assert (pattern[..., 0, :] != numpy_rigid.APART).sum(axis=-1).max() > 100
    assert_plans_agree(model, inputs, SETTINGS, Checkpoint(every=9))


def test_lanes_repeat_themselves_bit_by_bit() -> None:
    runs = [simulate(*ball(700), replace(SETTINGS, plan="element"), StoreAll()) for _ in range(3)]
    for rollout, bars in runs[1:]:
        for one, other in zip(runs[0][0].frame_arrays, rollout.frame_arrays, strict=True):
            np.testing.assert_array_equal(other, one)
        for one, other in zip(runs[0][1].arrays(), bars.arrays(), strict=True):
            np.testing.assert_array_equal(other, one)


def test_a_rollout_and_its_adjoint_are_a_launch_each(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = []
    for name in ("advance", "advance_adjoint"):
        kernel = getattr(solver, name)
        monkeypatch.setattr(solver, name, lambda *arguments, k=kernel, n=name: (launches.append(n), k(*arguments)))
    for adjoint in (StoreAll(), Checkpoint(every=9)):
        simulate(*one_body(np.zeros((4, 3))), replace(SETTINGS, plan="element"), adjoint)
    assert launches == ["advance", "advance_adjoint"] * 2


def test_teams_cover_every_body_once() -> None:
    like, threads = np.zeros(1), thread_count()
    for bodies, points in ((1, 1), (7, 3), (5, 90), (2, 1000)):
        teams = list(point_teams(like, bodies, points))
        covered = [first + group for first, team in teams for group in range(team.groups)]
        assert covered == list(range(bodies))
        for _, team in teams:
            if require().device == "cpu":
                assert team.kind == "threads" and team.size == min(threads, points)
                assert team.size == 1 or team.groups * team.size <= threads
            else:
                assert (team.kind, team.size) == ("block", {1: 32, 3: 32, 90: 64, 1000: 128}[points])


def test_lanes_share_points_where_a_gpu_has_more_threads_than_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    if require().device == "cpu":
        assert not lanes_share_points(1, 10_000)
        return
    monkeypatch.setattr(body_teams, "multiprocessor_count", lambda: 100)
    assert lanes_share_points(1, 8) and lanes_share_points(6000, 8) and lanes_share_points(40_000, 64)
    assert not lanes_share_points(1, 3) and not lanes_share_points(6400, 8)
