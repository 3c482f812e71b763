"""The rigid solver in single precision: long checkpointed rollouts, light bodies, gradients good to a thousandth."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import numpy_rigid
from tests.reference.devices import long_loops
from tests.reference.repeated import to_the_last_bit
from tests.reference.rigid_cases import INPUT_NAMES, PAIR_MODEL, box_inertia, box_points, cast, one_body, pair, tilted_box
from ti_sim.base.errors import UserError
from ti_sim.contact.law import surface_offset
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

# A single world of the plan "world" has one thread.
METHODS = [
    ("semi_implicit", "world"), ("rk4", "world"),
    *(pytest.param(integrator, "element", marks=pytest.mark.threads) for integrator in ("semi_implicit", "rk4")),
]  # fmt: skip
LOWER = replace(PAIR_MODEL, ground_height=PAIR_MODEL.ground_height - surface_offset())  # where the law sees the ground
STEPS = {
    "body_q0": 1e-7, "body_qd0": 1e-6, "body_mass": 1e-6, "body_inertia": 1e-9, "body_contact": 1e-5, "gravity": 1e-5,
    "body_force": 1e-5, "force_point": 1e-6,
}  # fmt: skip


@long_loops
@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_twenty_thousand_steps_in_a_tenth_of_the_memory(integrator: str) -> None:
    """A box is thrown, slides to rest, and is pushed in between. The two ways add the same numbers in another order."""
    half, mass = (0.05, 0.03, 0.02), 0.4
    model, inputs = one_body(
        box_points(half), mass=mass, inertia=box_inertia(mass, half), position=(0, 0, 0.024), velocity=(0.8, -0.3, -0.2),
        spin=(0.3, -0.2, 1.0), ke=2e3, kd=20.0, kf=5.0, mu=0.4, force=(1.5, 2.0, -0.5), at=(0.02, -0.01, 0.01),
        steps=(3000, 9000),
    )  # fmt: skip
    inputs = cast(inputs, np.float32)
    frames, substeps, every = 100, 200, 141
    solver = RigidSolver(model, RigidSettings(dt=5e-5, substeps=substeps, integrator=integrator, plan="world"))
    full = solver.rollout(inputs, frames, adjoint=StoreAll())
    lean = solver.rollout(inputs, frames, adjoint=Checkpoint(every=every))
    segment = (every + 1) * full.states[0, 0].nbytes  # recomputed in the backward pass, one at a time
    assert full.states.shape[1] == frames * substeps + 1
    assert lean.states.nbytes + segment <= full.states.nbytes / 10
    np.testing.assert_array_equal(lean.body_q, full.body_q)
    np.testing.assert_array_equal(lean.body_qd, full.body_qd)
    rng = np.random.default_rng(0)
    bars = [rng.standard_normal(array.shape).astype(np.float32) for array in (full.body_q, full.body_qd)]
    wanted, actual = solver.rollout_adjoint(full, *bars), solver.rollout_adjoint(lean, *bars)
    for name, a, w in zip(INPUT_NAMES, actual.arrays(), wanted.arrays(), strict=True):
        assert np.isfinite(w).all() and w.any(), name
        # The terms of the inertia's adjoint cancel: their sizes add up to ninety times the largest entry.
        rtol = 3e-5 if name == "body_inertia" else 1e-6 if to_the_last_bit() else 2e-5  # 20,000^1/2 roundings of 6e-8: 8e-6
        np.testing.assert_allclose(a, w, rtol=0, atol=rtol * np.abs(w).max(), err_msg=name)
    for name in ("body_q0", "body_qd0") if to_the_last_bit() else ():  # carried, not summed: recomputed states are the same
        np.testing.assert_array_equal(getattr(actual, name), getattr(wanted, name))


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_frames_are_those_of_double_precision_to_rounding(integrator: str, plan: str) -> None:
    model, inputs = tilted_box()
    settings = RigidSettings(dt=5e-4, substeps=8, integrator=integrator, plan=plan)
    wanted = numpy_rigid.rollout(model, settings, inputs, 20)
    rollout = RigidSolver(model, settings).rollout(cast(inputs, np.float32), 20)
    assert rollout.body_q.dtype == np.float32
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-4)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-2)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("regime", ["flight", "sliding", "sticking", "impact"])
def test_gradient_against_differences_of_the_numpy_stepper(regime: str, integrator: str, plan: str) -> None:
    """Along a random direction of each input; the steps are those of the f64 tests, which see no contact switch."""
    base, settings = pair(regime), RigidSettings(dt=5e-4, substeps=7, integrator=integrator, plan=plan)
    solver = RigidSolver(PAIR_MODEL, settings)
    rollout = solver.rollout(cast(base, np.float32), 6, adjoint=Checkpoint(every=9))
    rng = np.random.default_rng(5)
    q_bar, qd_bar = rng.standard_normal(rollout.body_q.shape), rng.standard_normal(rollout.body_qd.shape)
    bars = solver.rollout_adjoint(rollout, q_bar.astype(np.float32), qd_bar.astype(np.float32))
    for name, bar in zip(INPUT_NAMES, bars.arrays(), strict=True):
        array = getattr(base, name)
        direction = rng.standard_normal(array.shape) * np.maximum(1.0, np.abs(array))
        ends = []
        for sign in (-1, 1):
            moved = replace(base, **{name: array + sign * STEPS[name] * direction})
            frames = numpy_rigid.rollout(LOWER, settings, moved, 6)
            ends.append(np.sum(q_bar * frames.body_q) + np.sum(qd_bar * frames.body_qd))
        difference = (ends[1] - ends[0]) / (2 * STEPS[name])
        size = np.linalg.norm(bar.astype(np.float64) * direction)
        np.testing.assert_allclose(np.sum(bar * direction), difference, rtol=0, atol=2e-3 * size + 1e-5, err_msg=name)


@long_loops
@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_a_box_of_five_grams_comes_to_rest_and_has_a_gradient(integrator: str, plan: str) -> None:
    half, mass, ke = (0.01, 0.01, 0.005), 0.005, 20.0
    model, inputs = one_body(
        box_points(half), mass=mass, inertia=box_inertia(mass, half), position=(0, 0, 0.02), velocity=(0.1, 0, 0), ke=ke,
        kd=0.1, kf=0.2, mu=0.5,
    )  # fmt: skip
    solver = RigidSolver(model, RigidSettings(dt=5e-4, substeps=100, integrator=integrator, plan=plan))
    rollout = solver.rollout(cast(inputs, np.float32), 20, adjoint=StoreAll())
    np.testing.assert_allclose(rollout.body_q[0, -1, 0, 2], half[2] - mass * 9.81 / (4 * ke), atol=1e-6)
    np.testing.assert_allclose(rollout.body_qd[0, -1, 0], 0.0, atol=1e-4)
    last = np.zeros_like(rollout.body_q)
    last[0, -1, 0, 2] = 1.0
    bars = solver.rollout_adjoint(rollout, last, np.zeros_like(rollout.body_qd))
    depth = mass * 9.81 / (4 * ke)
    np.testing.assert_allclose(bars.body_mass, -depth / mass, rtol=1e-3)
    np.testing.assert_allclose(bars.body_contact[0, 0, 0], depth / ke, rtol=1e-3)
    np.testing.assert_allclose(bars.gravity[0, 2], mass / (4 * ke), rtol=1e-3)


def test_double_precision_inputs_are_refused() -> None:
    model, inputs = tilted_box()
    with pytest.raises(UserError, match="(?s)body_q0 .*float64"):
        RigidSolver(model, RigidSettings(dt=1e-3, substeps=2)).rollout(inputs, 2)
