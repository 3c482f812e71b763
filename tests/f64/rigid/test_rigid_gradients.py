"""Adjoints of every input of the rigid solver against central differences.

The loss is a random linear functional of all frames. The contact law has kinks (touching, f_n = 0, stick and slip), so
the loss is smooth only between the points where some contact point takes another branch. Differences are therefore taken
over steps so small that no branch changes: the first test counts the branches of every contact point in every evaluation
of the forces with the numpy stepper, at every point that the differences use, and asserts that they are the same.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.rigid_adjoints import rigid_gradcheck
from tests.reference.rigid_cases import INPUT_NAMES, PAIR_MODEL, REGIMES, pair, stacked, tilted_box, world
from ti_sim.rigid.model import RigidInputs, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world"), ("rk4", "element")]
FLOOR = 1e-4  # below it an entry is compared absolutely, to 1e-9
DT, SUBSTEPS, FRAMES = 5e-4, 7, 6
# h = step * max(1, |x|), so that h is small against the number itself (an inertia is 1e-4 kg m2).
STEPS = {
    "body_q0": 1e-7,
    "body_qd0": 1e-6,
    "body_mass": 1e-6,
    "body_inertia": 1e-9,
    "body_contact": 1e-6,
    "gravity": 6e-5,
    "body_force": 1e-5,
    "force_point": 1e-6,
}
BRANCHES = {
    "flight": {numpy_rigid.APART},
    "sliding": {numpy_rigid.SLIDING, numpy_rigid.APART},
    "sticking": {numpy_rigid.STICKING, numpy_rigid.APART},
    "resting": {numpy_rigid.STICKING, numpy_rigid.APART},
    "impact": {numpy_rigid.APART, numpy_rigid.UNLOADED, numpy_rigid.STICKING, numpy_rigid.SLIDING},
}
# What no frame depends on: adjoint and difference are both zero. A resting body turns about no axis and meets no force.
WITHOUT_EFFECT = {"flight": {"body_contact"}, "resting": {"body_inertia", "force_point"}}


def settings(integrator: str, plan: str = "world") -> RigidSettings:
    return RigidSettings(dt=DT, substeps=SUBSTEPS, integrator=integrator, plan=plan)


def moved_points(inputs: RigidInputs) -> list[RigidInputs]:
    """Every point that the differences of a world use, x + k h for k in -2, -1, 1, 2, each as a batch of one."""
    points = []
    for name in INPUT_NAMES:
        array = getattr(inputs, name)
        for index in np.ndindex(array.shape):
            h = STEPS[name] * max(1.0, abs(array[index]))
            for k in (-2, -1, 1, 2):
                moved = array.copy()
                moved[index] += k * h
                points.append(replace(inputs, **{name: moved}))
    return points


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
@pytest.mark.parametrize("regime", REGIMES)
def test_no_contact_switches_between_the_points_of_a_difference(regime: str, integrator: str) -> None:
    base = pair(regime)
    worlds = [world(base, b) for b in range(base.world_count)]
    batch = stacked([point for w in worlds for point in (w, *moved_points(w))])
    motion = numpy_rigid.rollout(PAIR_MODEL, settings(integrator), batch, FRAMES)
    pattern = motion.pattern
    pattern = np.stack(np.split(pattern, len(worlds), axis=1), axis=1)  # [evaluations, worlds, points, N, P]
    assert (pattern == pattern[:, :, :1]).all()
    assert set(np.unique(pattern[:, :, 0, :, :7])) == BRANCHES[regime]
    if regime in ("sliding", "sticking", "resting"):  # the lower four points of each body touch, all the time
        assert (pattern[:, :, 0, :, :4] != numpy_rigid.APART).all()


@pytest.mark.parametrize("world_count", [1, 3])
@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("regime", REGIMES)
def test_adjoint_of_every_input(regime: str, integrator: str, plan: str, world_count: int) -> None:
    base = pair(regime)
    base = base if world_count == 3 else world(base, 1)
    solver = RigidSolver(PAIR_MODEL, settings(integrator, plan))
    adjoint = Checkpoint(every=9) if world_count == 1 else StoreAll()
    report = rigid_gradcheck(solver, base, INPUT_NAMES, FRAMES, adjoint, step=STEPS, rtol=1e-5, floor=FLOOR)
    report.raise_if_wrong()
    seen = {entry.name for entry in report.entries if entry.status == "ok"}
    assert seen == set(INPUT_NAMES) - WITHOUT_EFFECT.get(regime, set())
    if regime == "impact" and world_count == 3:
        columns = {entry.index[2] for entry in report.entries if entry.name == "body_contact" and entry.status == "ok"}
        assert columns == {0, 1, 2, 3}  # ke, kd, kf and mu


def test_gradient_adds_up_to_the_change_over_many_contact_onsets() -> None:
    """Its integral over a start height that moves contact onsets through many steps is the change of the motion.

    A contact force that set in with a jump would make the motion jump with it; the gradient between the jumps would be right
    for every difference quotient, and miss them all.
    """
    count, span = 2001, 4e-3
    model, start = tilted_box()
    inputs = stacked([start] * count)
    inputs.body_q0[:, 0, 2] += np.linspace(0.0, span, count)
    solver = RigidSolver(model, RigidSettings(dt=5e-4, substeps=20))
    rollout = solver.rollout(inputs, 20, adjoint=StoreAll())
    onsets = numpy_rigid.rollout(model, solver.settings, world(inputs, 0), 20).onset.sum()
    moved = numpy_rigid.rollout(model, solver.settings, world(inputs, count - 1), 20)
    first = (moved.pattern != numpy_rigid.APART).any(axis=(1, 2, 3)).argmax()
    assert onsets > 3 and first > 1
    weight = np.zeros_like(rollout.body_q)
    weight[:, -1, :, :3] = 1.0
    slope = solver.rollout_adjoint(rollout, weight, np.zeros_like(rollout.body_qd)).body_q0[:, 0, 2]
    value = rollout.body_q[:, -1, :, :3].sum(axis=(1, 2))
    step = span / (count - 1)
    assert abs(step * (slope[1:] + slope[:-1]).sum() / 2 - (value[-1] - value[0])) < 2e-3 * np.abs(np.diff(value)).sum()
    assert np.abs(np.diff(value)).max() < 3 * step * np.abs(slope).max()
