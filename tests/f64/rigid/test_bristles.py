"""Friction that sticks, and rounded contact points: closed forms, the plain numpy stepper, and adjoints.

The law with bristles has kinks where a limit is reached, besides those of the contact itself. As in ``test_rigid_gradients``,
differences are taken over steps so small that no contact point takes another branch, which the numpy stepper counts.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.devices import long_loops
from tests.reference.rigid_adjoints import rigid_gradcheck
from tests.reference.rigid_cases import (
    ALL_NAMES,
    GRAVITY,
    INPUT_NAMES,
    PAIR_MODEL,
    box_inertia,
    box_points,
    one_body,
    pair,
)
from ti_sim.base.errors import UserError
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

MODEL = replace(PAIR_MODEL, has_bristles=True, has_contact_radii=True)
NAMES = (*INPUT_NAMES, "body_bristle", "body_radius")
SETTINGS = RigidSettings(dt=5e-4, substeps=7)
FRAMES = 6
STEPS = {
    "body_q0": 1e-7, "body_qd0": 1e-6, "body_mass": 1e-6, "body_inertia": 1e-9, "body_contact": 1e-6, "gravity": 6e-5,
    "body_force": 1e-5, "force_point": 1e-6, "body_bristle": 3e-6, "body_radius": 1e-9,
}  # fmt: skip
KT = {"sliding": 3e3, "sticking": 800.0, "resting": 800.0, "impact": 1.5e4}
HALF = (0.05, 0.05, 0.03)
MASS, KE = 0.5, 2000.0


def cases(regime: str) -> RigidInputs:
    """The two bodies in three worlds, with bristles and contact radii; their corners are drawn in by the radius."""
    base, rng = pair(regime, seed=10 if regime == "impact" else 3), np.random.default_rng(11)
    radius = 2e-3 * rng.uniform(0.5, 1.0, base.body_mass.shape)
    lifted = base.body_q0.copy()
    lifted[..., 2] += radius
    kt = KT[regime] * rng.uniform(0.9, 1.1, base.body_mass.shape)
    return replace(base, body_q0=lifted, body_bristle=kt, body_radius=radius)


def batch(worlds: list[RigidInputs]) -> RigidInputs:
    names = [name for name in ALL_NAMES if getattr(worlds[0], name) is not None]
    return RigidInputs(**{name: np.concatenate([getattr(one, name) for one in worlds]) for name in names})


def single(inputs: RigidInputs, b: int) -> RigidInputs:
    return replace(inputs, **{name: getattr(inputs, name)[b : b + 1].copy() for name in NAMES})


@pytest.mark.parametrize("regime", list(KT))
def test_motion_is_that_of_the_numpy_stepper(regime: str) -> None:
    inputs = cases(regime)
    wanted = numpy_rigid.rollout(MODEL, SETTINGS, inputs, FRAMES)
    rollout = RigidSolver(MODEL, SETTINGS).rollout(inputs, FRAMES)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-10)


def moved_points(inputs: RigidInputs) -> list[RigidInputs]:
    points = []
    for name in NAMES:
        array = getattr(inputs, name)
        for index in np.ndindex(array.shape):
            for k in (-2, -1, 1, 2):
                moved = array.copy()
                moved[index] += k * STEPS[name] * max(1.0, abs(array[index])) * (1e4 if name == "body_bristle" else 1.0)
                points.append(replace(inputs, **{name: moved}))
    return points


@pytest.mark.parametrize("regime", list(KT))
def test_no_branch_switches_between_the_points_of_a_difference(regime: str) -> None:
    base = cases(regime)
    points = [point for b in range(3) for point in (single(base, b), *moved_points(single(base, b)))]
    motion = numpy_rigid.rollout(MODEL, SETTINGS, batch(points), FRAMES)
    pattern = np.stack(np.split(motion.pattern, 3, axis=1), axis=1)
    assert (pattern == pattern[:, :, :1]).all()
    branches = set(np.unique(motion.pattern[..., :7]))
    wanted = {
        "sliding": {numpy_rigid.SLIPPED_AND_SLIDING}, "sticking": {numpy_rigid.STICKING}, "resting": {numpy_rigid.STICKING},
        "impact": {numpy_rigid.APART, numpy_rigid.UNLOADED, numpy_rigid.STICKING, numpy_rigid.SLIPPED_AND_SLIDING},
    }  # fmt: skip
    assert wanted[regime] <= branches


@pytest.mark.parametrize("every", [1, 9])
@pytest.mark.parametrize("regime", list(KT))
def test_adjoint_of_every_input(regime: str, every: int) -> None:
    base = cases(regime) if every == 1 else single(cases(regime), 1)
    adjoint, units = StoreAll() if every == 1 else Checkpoint(every=every), {"body_bristle": 1e4}  # N/cm
    floor = 1e-3 if regime == "impact" else 1e-4
    solver = RigidSolver(MODEL, SETTINGS)
    report = rigid_gradcheck(solver, base, NAMES, FRAMES, adjoint, units=units, step=STEPS, rtol=1e-5, floor=floor)
    report.raise_if_wrong()
    seen = {entry.name for entry in report.entries if entry.status == "ok"}
    felt = {"body_bristle"} if regime in ("sticking", "impact") else set()  # a steady slide and rest do not feel its stiffness
    assert felt | {"body_radius", "body_contact", "body_q0", "body_qd0", "body_mass", "gravity"} <= seen


def test_radius_alone_in_both_plans() -> None:
    """Balls about the corners: the same motion and gradient in both plans, and in a model whose points have that radius."""
    inputs = replace(cases("impact"), body_bristle=None)
    inputs = replace(inputs, body_radius=np.full_like(inputs.body_radius, 1.5e-3))
    model = replace(MODEL, has_bristles=False)
    bars = [np.random.default_rng(2).standard_normal((3, FRAMES + 1, 2, size)) for size in (7, 6)]
    runs = {}
    for plan in ("world", "element"):
        solver = RigidSolver(model, replace(SETTINGS, plan=plan))
        rollout = solver.rollout(inputs, FRAMES, adjoint=StoreAll())
        runs[plan] = rollout.body_q, solver.rollout_adjoint(rollout, *bars)
    np.testing.assert_allclose(runs["world"][0], runs["element"][0], rtol=0, atol=1e-13)
    for name in (*INPUT_NAMES, "body_radius"):
        one, other = (getattr(runs[plan][1], name) for plan in runs)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max(), err_msg=name)
    balls = [np.concatenate([p, np.full((len(p), 1), 1.5e-3), np.zeros((len(p), 4))], axis=1) for p in model.contact_points]
    plain = replace(model, has_contact_radii=False, contact_points=tuple(balls))
    motion = RigidSolver(plain, SETTINGS).rollout(replace(inputs, body_radius=None), FRAMES)
    np.testing.assert_allclose(motion.body_q, runs["world"][0], rtol=0, atol=1e-14)


def on_a_slope(angle: float, *, mu: float = 0.5, kt: float = 1000.0, kf: float = 5.0) -> tuple[RigidModel, RigidInputs]:
    """A box at rest on its spring, with gravity turned by ``angle`` [rad] towards x."""
    depth = MASS * GRAVITY * np.cos(angle) / (4 * KE)
    model, inputs = one_body(
        box_points(HALF), mass=MASS, inertia=box_inertia(MASS, HALF), position=(0.0, 0.0, HALF[2] - depth),
        ke=KE, kd=10.0, kf=kf, mu=mu,
    )  # fmt: skip
    gravity = GRAVITY * np.array([[np.sin(angle), 0.0, -np.cos(angle)]])
    return replace(model, has_bristles=True), replace(inputs, gravity=gravity, body_bristle=np.array([[kt]]))


@long_loops
def test_no_creep_below_the_cone() -> None:
    """10^5 steps on a slope of 20 degrees: the box moves by what four bristles give, and stays; without them it creeps."""
    model, inputs = on_a_slope(np.radians(20.0), kf=25.0)  # damped, so that nothing slips on the way to rest
    settings = RigidSettings(dt=1e-4, substeps=1000)
    body_q = RigidSolver(model, settings).rollout(inputs, 100).body_q[0, :, 0]
    assert np.abs(body_q[50:] - body_q[-1]).max() < 1e-12
    # Corners move by what the bristles give; the centre, above them, also tilts.
    tilt = 2 * np.arcsin(body_q[-1, 4])
    corner = body_q[-1, 0] - HALF[2] * np.sin(tilt)
    np.testing.assert_allclose(corner, MASS * GRAVITY * np.sin(np.radians(20.0)) / (4 * 1000.0), rtol=1e-3)
    plain = RigidSolver(replace(model, has_bristles=False), settings).rollout(replace(inputs, body_bristle=None), 100)
    creep = plain.body_q[0, -1, 0, 0] - plain.body_q[0, 50, 0, 0]
    np.testing.assert_allclose(creep, 5.0 * MASS * GRAVITY * np.sin(np.radians(20.0)) / (4 * 25.0), rtol=1e-2)


@long_loops
def test_slip_above_the_cone() -> None:
    """On 40 degrees with mu = 0.5 the box accelerates by g (sin - mu cos) after the bristles have given way."""
    angle = np.radians(40.0)
    model, inputs = on_a_slope(angle)
    body_qd = RigidSolver(model, RigidSettings(dt=1e-4, substeps=1000)).rollout(inputs, 10).body_qd[0, :, 0, 0]
    np.testing.assert_allclose(np.diff(body_qd)[3:], 0.1 * GRAVITY * (np.sin(angle) - 0.5 * np.cos(angle)), rtol=1e-5)


@long_loops
def test_a_sliding_box_stops_and_stays() -> None:
    """It stops within v^2 / (2 mu g), and what the bristles store turns it back by less than they give."""
    model, inputs = on_a_slope(0.0, mu=0.4, kt=4000.0, kf=20.0)
    inputs = replace(inputs, body_qd0=np.array([[[0.5, 0.3, 0.0, 0.0, 0.0, 0.0]]]))
    body_q = RigidSolver(model, RigidSettings(dt=1e-4, substeps=1000)).rollout(inputs, 20).body_q[0, :, 0]
    way, speed = np.hypot(*(body_q[-1, :2] - body_q[0, :2])), np.hypot(0.5, 0.3)
    given = 0.4 * MASS * GRAVITY / (4 * 4000.0)
    assert abs(way - speed**2 / (2 * 0.4 * GRAVITY)) < 2 * given + 0.01 * way
    np.testing.assert_allclose(body_q[-1, 1] / body_q[-1, 0], 0.6, rtol=1e-2)  # along its velocity
    assert np.abs(body_q[10:] - body_q[-1]).max() < 1e-9


def test_no_bristle_is_the_law_without() -> None:
    inputs = replace(pair("impact"), body_bristle=np.zeros((3, 2)))
    plain = RigidSolver(PAIR_MODEL, SETTINGS).rollout(pair("impact"), FRAMES)
    bristled = RigidSolver(replace(PAIR_MODEL, has_bristles=True), SETTINGS).rollout(inputs, FRAMES)
    np.testing.assert_allclose(bristled.body_q, plain.body_q, rtol=0, atol=1e-14)


def test_what_does_not_fit_is_refused() -> None:
    model, inputs = on_a_slope(0.1)
    with pytest.raises(UserError, match="bristles need integrator='semi_implicit'"):
        RigidSolver(model, RigidSettings(dt=1e-3, substeps=1, integrator="rk4"))
    with pytest.raises(UserError, match="the inputs have no body_bristle, and the model has has_bristles=True"):
        RigidSolver(model, SETTINGS).rollout(replace(inputs, body_bristle=None), 1)
    with pytest.raises(UserError, match="the inputs have body_bristle, and the model has has_bristles=False"):
        RigidSolver(replace(model, has_bristles=False), SETTINGS).rollout(inputs, 1)
