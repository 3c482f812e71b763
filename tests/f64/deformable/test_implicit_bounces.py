"""Bounces, slides and rest of a particle on the ground with implicit steps, at all phases of the onset in a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.deformable_cases import inputs_for
from ti_sim import ImplicitSettings, StoreAll, contact_time, restitution
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.solver import DeformableSolver

INTEGRATORS = ("backward_euler", "bdf2", "sdirk2")
BEGINNINGS = (*((each, 2.5) for each in INTEGRATORS), ("bdf2", 0.0))  # and gaps at the start, in steps
MASS, KE, PHASES = 1.0, 1e4, 20
CONTACT_TIME = float(contact_time(KE, 0.0, MASS))
MODEL = DeformableModel(particle_rest=np.zeros((1, 3)), contact=np.array([0]))


def falling(
    dt: float, contact: tuple[float, ...], velocity: tuple[float, ...] = (0.0, 0.0, -1.0), gap: float = 2.5,
    frames: int = 1,
) -> tuple[DeformableInputs, np.ndarray]:
    """A particle in ``PHASES`` worlds without gravity, at heights of ``gap`` to ``gap`` + 1 steps above the ground."""
    heights = (gap + np.arange(PHASES) / PHASES) * dt
    q, qd = np.zeros((PHASES, 1, 3)), np.zeros((PHASES, 1, 3))
    q[:, 0, 2], qd[:, 0] = heights, velocity
    material = np.tile(contact, (PHASES, 1, 1))
    inputs = inputs_for(
        MODEL, worlds=PHASES, frames=frames, particle_q0=q, particle_qd0=qd, particle_mass=MASS, particle_contact=material
    )
    return inputs, heights


def every(step: int, inputs: DeformableInputs) -> DeformableInputs:
    """The inputs of one in ``step`` phases."""
    return inputs.with_arrays(np.ascontiguousarray(each[::step]) for each in inputs.arrays())


def solver_of(integrator: str, dt: float, steps: int, model: DeformableModel = MODEL) -> DeformableSolver:
    settings = ImplicitSettings(tolerance=1e-12, adjoint_tolerance=1e-12)
    return DeformableSolver(model, DeformableSettings(dt=dt, substeps=steps, integrator=integrator, implicit=settings))


def gradient_of(solver: DeformableSolver, rollout: DeformableRollout, axis: int) -> DeformableInputs:
    """Adjoints of the sum of the last positions along an axis."""
    bar = np.zeros_like(rollout.particle_q)
    bar[:, -1, 0, axis] = 1
    return solver.rollout_adjoint(rollout, bar, np.zeros_like(bar))


@pytest.mark.parametrize(("integrator", "gap"), BEGINNINGS)
def test_slope_of_a_bounce_at_every_phase(integrator: str, gap: float) -> None:
    """d z / d z0 is minus the ratio of the speeds. Backward Euler damps the bounce itself: the ratio is that of its steps.

    The table of the page has four times as many phases (``test_bounce_phases``).
    """
    dt = CONTACT_TIME / 30
    for kd in (0.0, 18.0):
        inputs = every(2, falling(dt, (KE, kd, 0.0, 0.0), gap=gap)[0])
        solver = solver_of(integrator, dt, 44)
        rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
        slope, speed = gradient_of(solver, rollout, 2).particle_q0[:, 0, 2], rollout.particle_qd[:, -1, 0, 2]
        np.testing.assert_allclose(slope, -speed, rtol=0.01 if gap else 0.015)
        np.testing.assert_allclose(speed, speed.mean(), rtol=1e-3)
        if integrator != "backward_euler":
            np.testing.assert_allclose(slope, -float(restitution(KE, kd, MASS)), rtol=0.02)


@pytest.mark.parametrize(("integrator", "gap"), BEGINNINGS)
def test_slope_of_a_slide_at_every_phase(integrator: str, gap: float) -> None:
    """The particle slides at first, and sticks before it leaves."""
    dt = CONTACT_TIME / 30
    inputs, heights = falling(dt, (KE, 18.0, 400.0, 0.3), (0.5, 0.0, -1.0), gap=gap)
    solver = solver_of(integrator, dt, 44)
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    x, slope = rollout.particle_q[:, -1, 0, 0], gradient_of(solver, rollout, 0).particle_q0[:, 0, 2]
    secant = (x[-1] - x[0]) / (heights[-1] - heights[0])
    assert secant > 0.3 and rollout.particle_qd[0, -1, 0, 0] < 0.1
    np.testing.assert_allclose(slope, secant, rtol=0.02)


@pytest.mark.parametrize(("integrator", "gap"), [*((each, 1.3) for each in INTEGRATORS), ("bdf2", 0.0)])
def test_no_bounce_returns_more_energy_than_it_had(integrator: str, gap: float) -> None:
    """Steps from ten times the time of the contact to a tenth of it, after every step, at twenty phases."""
    for kd in (0.0, 18.0):
        for steps_in_contact in (0.1, 0.5, 1, 2, 10):
            dt = CONTACT_TIME / steps_in_contact
            steps = 8 + int(2 * steps_in_contact)
            inputs, _ = falling(dt, (KE, kd, 0.0, 0.0), gap=gap, frames=steps)
            rollout = solver_of(integrator, dt, 1).rollout(inputs, steps)
            assert (rollout.diverged_step == -1).all()
            assert rollout.particle_qd[..., 2].max() <= 1.0


@pytest.mark.parametrize("steps_in_contact", [10, 30])
def test_impulses_in_the_first_step_of_bdf2_count_once(steps_in_contact: int) -> None:
    """Velocities after a bounce with friction are those of contacts that begin later."""
    dt, ends = CONTACT_TIME / steps_in_contact, []
    for gap in (0.0, 2.5):
        inputs, _ = falling(dt, (KE, 18.0, 40.0, 0.3), (0.5, 0.0, -1.0), gap=gap)
        ends.append(solver_of("bdf2", dt, 4 * steps_in_contact).rollout(every(2, inputs), 1).particle_qd[:, -1, 0])
    np.testing.assert_allclose(ends[0][:, [0, 2]], ends[1][:, [0, 2]], rtol=1 / steps_in_contact**2, atol=0)


@pytest.mark.parametrize(("integrator", "gap"), [*((each, 1.5) for each in INTEGRATORS), ("bdf2", 0.1)])
def test_gradients_of_bounces_are_those_of_differences(integrator: str, gap: float) -> None:
    """By each height, velocity, mass, stiffness, damping and friction, in worlds of five phases of the onset."""
    dt = CONTACT_TIME / 5
    inputs, _ = falling(dt, (KE, 18.0, 40.0, 0.3), (0.3, 0.2, -1.0), gap=gap)
    inputs = every(4, inputs)
    solver = solver_of(integrator, dt, 12)
    weights = np.random.default_rng(2).normal(size=(2, PHASES // 4, 1, 3))

    def losses(name: str, column: int, change: float) -> np.ndarray:
        array = getattr(inputs, name).copy()
        array.reshape(len(array), -1)[:, column] += change
        rollout = solver.rollout(replace(inputs, **{name: array}), 1)
        return (weights[0] * rollout.particle_q[:, -1] + weights[1] * rollout.particle_qd[:, -1]).sum((1, 2))

    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    bars = np.zeros((2, *rollout.particle_q.shape))
    bars[:, :, -1] = weights
    gradient = solver.rollout_adjoint(rollout, *bars)
    for name, steps in (
        ("particle_q0", (1e-7,) * 3), ("particle_qd0", (1e-5,) * 3), ("particle_mass", (1e-5,)),
        ("particle_contact", (1e-2, 1e-4, 1e-4, 1e-5)),
    ):  # fmt: skip
        for column, step in enumerate(steps):
            found = getattr(gradient, name).reshape(len(weights[0]), -1)[:, column]
            difference = (losses(name, column, step) - losses(name, column, -step)) / (2 * step)
            assert np.abs(difference).max() > 0
            np.testing.assert_allclose(found, difference, atol=2e-6 * np.abs(difference).max(), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_particle_rests_where_its_weight_is_the_force(integrator: str) -> None:
    inputs = inputs_for(
        MODEL, particle_q0=(0.0, 0.0, 0.003), particle_mass=MASS, particle_contact=(KE, 150.0, 0.0, 0.0), gravity=(0, 0, -9.81)
    )
    rollout = solver_of(integrator, 0.005, 200).rollout(inputs, 1)
    assert rollout.particle_q[0, -1, 0, 2] == pytest.approx(-9.81 * MASS / KE, rel=1e-9)
    assert abs(rollout.particle_qd[0, -1, 0, 2]) < 1e-9


def test_nothing_moves_in_the_first_step_of_a_body_at_rest() -> None:
    """Neither a particle that the ground bears, within the depth of the onset or below, nor one that hangs on a spring."""
    model = DeformableModel(
        particle_rest=np.array([[0.0, 0, 0], [0, 0, 2], [0, 0, 1]]), contact=np.array([0]), fixed=np.array([1]),
        spring_indices=np.array([[1, 2]]),
    )  # fmt: skip
    onset = 1e-5
    mass, gravity = KE * np.array([1e-3, onset / 6, onset / 100]) / 10, (0.0, 0.0, -10.0)
    depth = np.array([1e-3, 0.0, onset * (0.06 ** (1 / 3) - 1)])  # where KE times the mean depth is the weight
    inputs = inputs_for(
        model, worlds=3, particle_mass=mass[:, None], particle_contact=(KE, 18.0, 40.0, 0.3), gravity=gravity,
        spring_material=np.array([(100.0, 0.0, 0.5)]),
    )  # fmt: skip
    inputs.particle_q0[:, 0, 2] = -depth
    inputs.particle_mass[:, 2] = 100.0 * 0.5 / 10
    rollout = solver_of("bdf2", 0.01, 3, model).rollout(inputs, 1)
    np.testing.assert_allclose(rollout.motion.states[..., 5], 0.0, atol=1e-10)
    np.testing.assert_allclose(rollout.particle_q[:, -1], inputs.particle_q0, atol=1e-13)


def test_bdf2_has_second_order_where_contact_lasts() -> None:
    """A particle swings on the spring and damper of its contact from the first step on, and friction slows it."""
    ke, kd, kf, gravity, time = 400.0, 2.0, 1.5, 10.0, 0.5
    start, speed, slide, rest = -0.03, 0.1, 0.2, -gravity / ke
    inputs = inputs_for(
        MODEL, particle_q0=(0, 0, start), particle_qd0=(slide, 0, speed), particle_contact=(ke, kd, kf, 10.0),
        gravity=(0, 0, -gravity),
    )  # fmt: skip
    root = -kd / 2 + 1j * np.sqrt(ke - kd * kd / 4)
    real = start - rest
    swing = (real - 1j * (speed + kd / 2 * real) / root.imag) * np.exp(root * time)
    exact = (slide / kf * (1 - np.exp(-kf * time)), rest + swing.real, slide * np.exp(-kf * time), (root * swing).real)
    errors = []
    for steps in (100, 200, 400):
        end = solver_of("bdf2", time / steps, steps).rollout(inputs, 1)
        found = (*end.particle_q[0, 1, 0, [0, 2]], *end.particle_qd[0, 1, 0, [0, 2]])
        errors.append(np.hypot(*np.reshape((np.subtract(found, exact)) / (1, 1, kf, abs(root)), (2, 2))))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 2) < 0.06), orders
