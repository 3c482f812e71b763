"""The rigid solver against closed forms and conservation laws."""

import numpy as np
import pytest

from tests.reference.numpy_rigid import rotation
from tests.reference.rigid_cases import GRAVITY, box_inertia, box_points, one_body, stacked, tilted_box, turned
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidRollout, RigidSolver

NO_POINTS = np.zeros((0, 3))
METHODS = [("semi_implicit", "world"), ("semi_implicit", "element"), ("rk4", "world"), ("rk4", "element")]
INTEGRATORS = ["semi_implicit", "rk4"]
HALF = (0.05, 0.03, 0.02)


def simulate(
    model: RigidModel,
    inputs: RigidInputs,
    *,
    time: float,
    dt: float,
    integrator: str = "semi_implicit",
    plan: str = "auto",
    frames: int = 1,
) -> RigidRollout:
    """Run for ``time`` seconds in steps of ``dt``."""
    substeps = round(time / dt / frames)
    assert np.isclose(substeps * frames * dt, time)
    solver = RigidSolver(model, RigidSettings(dt=dt, substeps=substeps, integrator=integrator, plan=plan))
    return solver.rollout(inputs, frames)


def angular_momentum(rollout: RigidRollout) -> np.ndarray:
    """R I R^T w of world 0, body 0, at every frame, [frames + 1, 3]."""
    r = rotation(rollout.body_q[0, :, 0, 3:])
    return np.einsum("tij,jk,tlk,tl->ti", r, rollout.inputs.body_inertia[0, 0], r, rollout.body_qd[0, :, 0, 3:])


def energy(model: RigidModel, rollout: RigidRollout) -> np.ndarray:
    """Kinetic energy, potential energy and that of the contact springs of world 0, body 0, [frames + 1], J."""
    inputs = rollout.inputs
    mass, ke = inputs.body_mass[0, 0], inputs.body_contact[0, 0, 0]
    x, q = rollout.body_q[0, :, 0, :3], rollout.body_q[0, :, 0, 3:]
    v, w = rollout.body_qd[0, :, 0, :3], rollout.body_qd[0, :, 0, 3:]
    height = x[:, None, 2] + np.einsum("tj,pj->tp", rotation(q)[:, 2], model.contact_points[0])
    depth = np.maximum(0.0, model.ground_height - height)
    spin = np.einsum("ti,ti->t", angular_momentum(rollout), w)
    return 0.5 * mass * (v**2).sum(1) - mass * x @ inputs.gravity[0] + 0.5 * spin + 0.5 * ke * (depth**2).sum(1)


def rate(errors: list[float]) -> float:
    """Observed order of convergence from errors at dt, dt / 2, dt / 4, ..."""
    return float(np.mean(np.log2(np.array(errors[:-1]) / np.array(errors[1:]))))


# --- in flight ---------------------------------------------------------------------------------------------------------


def test_free_fall_of_rk4_is_exact() -> None:
    model, inputs = one_body(NO_POINTS, mass=0.3, position=(1, 2, 3), velocity=(0.5, -1, 4))
    rollout = simulate(model, inputs, time=1.0, dt=1e-2, integrator="rk4", frames=10)
    t = np.linspace(0, 1, 11)[:, None]
    wanted = np.array([1, 2, 3]) + t * np.array([0.5, -1, 4]) + 0.5 * t**2 * np.array([0, 0, -GRAVITY])
    np.testing.assert_allclose(rollout.body_q[0, :, 0, :3], wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd[0, :, 0, 2], 4 - GRAVITY * t[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("plan", ["world", "element"])
def test_free_fall_of_semi_implicit_euler_is_first_order(plan: str) -> None:
    model, inputs = one_body(NO_POINTS, velocity=(0, 0, 4))
    errors = []
    for dt in (0.01, 0.005, 0.0025):
        rollout = simulate(model, inputs, time=1.0, dt=dt, plan=plan)
        np.testing.assert_allclose(rollout.body_qd[0, 1, 0, 2], 4 - GRAVITY, atol=1e-11)
        errors.append(4 - GRAVITY / 2 - rollout.body_q[0, 1, 0, 2])
    np.testing.assert_allclose(errors, [GRAVITY * dt / 2 for dt in (0.01, 0.005, 0.0025)], atol=1e-11)  # g t dt / 2


def spinning() -> tuple[RigidModel, RigidInputs]:
    """An asymmetric body without torque, turning about no principal axis, its inertia not diagonal."""
    r = rotation(turned((1, -1, 2), 0.6))
    inertia = r @ np.diag([1e-4, 2.5e-4, 3e-4]) @ r.T
    return one_body(NO_POINTS, mass=0.2, inertia=inertia, turn=turned((0, 1, 1), 1.0), spin=(4, 6, -3), gravity=0.0)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_torque_free_rotation_keeps_its_angular_momentum(integrator: str, plan: str) -> None:
    rollout = simulate(*spinning(), time=1.0, dt=1e-3, integrator=integrator, plan=plan, frames=20)
    momentum = angular_momentum(rollout)
    np.testing.assert_allclose(momentum, momentum[:1].repeat(21, 0), rtol=0, atol=1e-12 * np.linalg.norm(momentum[0]))
    assert np.linalg.norm(rollout.body_qd[0, -1, 0, 3:] - rollout.body_qd[0, 0, 0, 3:]) > 0.5  # though w does change
    np.testing.assert_allclose(np.linalg.norm(rollout.body_q[..., 3:], axis=-1), 1.0, atol=1e-14)


@pytest.mark.parametrize(("integrator", "order"), [("semi_implicit", 2), ("rk4", 4)])
def test_torque_free_rotation_converges(integrator: str, order: int) -> None:
    model, inputs = spinning()
    steps = [0.02, 0.01, 0.005, 0.0025]
    exact = simulate(model, inputs, time=1.0, dt=2.5e-4, integrator="rk4").body_q[0, -1, 0, 3:]
    drifts, errors = [], []
    for dt in steps:
        rollout = simulate(model, inputs, time=1.0, dt=dt, integrator=integrator, frames=10)
        drifts.append(np.abs(energy(model, rollout) / energy(model, rollout)[0] - 1).max())
        errors.append(float(np.linalg.norm(rollout.body_q[0, -1, 0, 3:] - exact)))
    assert rate(errors) > order - 0.15
    if integrator == "semi_implicit":  # the midpoint rule keeps the energy itself
        assert max(drifts) < 1e-13
    else:
        assert rate(drifts) > order - 0.15 and drifts[-1] < 1e-8


def test_intermediate_axis_tumbles_and_the_others_do_not() -> None:
    ends = []
    for axis in range(3):
        spin = np.full(3, 1e-3)
        spin[axis] = 10.0
        model, inputs = one_body(NO_POINTS, inertia=np.diag([1.0, 2.0, 3.0]), spin=spin, gravity=0.0)
        rollout = simulate(model, inputs, time=5.0, dt=1e-3, integrator="rk4", frames=200)
        w_body = np.einsum("tji,tj->ti", rotation(rollout.body_q[0, :, 0, 3:]), rollout.body_qd[0, :, 0, 3:])
        ends.append(w_body[:, axis].min())
    assert ends[0] > 9.99 and ends[2] > 9.99
    assert ends[1] < -9.9


def test_rotation_of_the_world_rotates_the_flight() -> None:
    model, inputs = one_body(
        NO_POINTS, inertia=np.diag([1.0, 2.0, 3.0]), turn=turned((1, 2, 3), 0.4), velocity=(1, 2, 3), spin=(3, 1, -2),
        force=(1, 0, 2), at=(0.1, 0.2, 0.0), steps=(10, 60),
    )  # fmt: skip
    q = turned((2, -1, 1), 1.1)
    r = rotation(q)
    x, y, z, w = q
    left = np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])  # q times a quaternion
    body_q0, body_qd0 = inputs.body_q0.copy(), inputs.body_qd0.copy()
    body_q0[0, 0, 3:] = left @ body_q0[0, 0, 3:]
    body_qd0[0, 0] = np.concatenate([r @ body_qd0[0, 0, :3], r @ body_qd0[0, 0, 3:]])
    moved = RigidInputs(
        body_q0, body_qd0, *inputs.arrays()[2:5], inputs.gravity @ r.T, inputs.body_force @ r.T, inputs.force_point
    )
    a = simulate(model, inputs, time=0.2, dt=2e-3).body_q[0, -1, 0]
    b = simulate(model, moved, time=0.2, dt=2e-3).body_q[0, -1, 0]
    np.testing.assert_allclose(b, np.concatenate([r @ a[:3], left @ a[3:]]), atol=1e-12)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_impulse_at_a_point(integrator: str, plan: str) -> None:
    impulse, at, dt, mass = np.array([0.02, -0.01, 0.03]), np.array([0.01, 0.02, -0.03]), 1e-7, 0.4
    q = turned((1, 2, 3), 0.8)
    model, inputs = one_body(
        NO_POINTS, mass=mass, inertia=box_inertia(mass, HALF), turn=q, gravity=0.0, force=impulse / dt, at=at, steps=(2, 3)
    )
    rollout = simulate(model, inputs, time=6 * dt, dt=dt, integrator=integrator, plan=plan, frames=6)
    r = rotation(q)
    spin = r @ np.linalg.solve(box_inertia(mass, HALF), r.T @ np.cross(r @ at, impulse))
    assert not rollout.body_qd[0, :3].any()  # nothing before the window
    np.testing.assert_allclose(rollout.body_qd[0, 3:, 0, :3], np.tile(impulse / mass, (4, 1)), rtol=1e-12)
    np.testing.assert_allclose(rollout.body_qd[0, 3:, 0, 3:], np.tile(spin, (4, 1)), rtol=1e-4)


# --- on the ground -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
@pytest.mark.parametrize("mass", [0.4, 0.005])
def test_resting_depth_of_a_box_on_four_vertices(mass: float, integrator: str, plan: str) -> None:
    ke = 2500 * mass
    model, inputs = one_body(
        box_points(HALF), mass=mass, inertia=box_inertia(mass, HALF), position=(0, 0, HALF[2] + 2e-3), ke=ke, kd=15 * mass,
        kf=10 * mass, mu=0.5,
    )  # fmt: skip
    rollout = simulate(model, inputs, time=1.0, dt=5e-4, integrator=integrator, plan=plan)
    depth = mass * GRAVITY / (4 * ke)
    np.testing.assert_allclose(rollout.body_q[0, -1, 0], [0, 0, HALF[2] - depth, 0, 0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(rollout.body_qd[0, -1, 0], 0.0, atol=1e-7)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_resting_depth_on_a_single_point(integrator: str) -> None:
    model, inputs = one_body([0, 0, 0], mass=0.2, position=(0, 0, 1e-3), ke=500.0, kd=8.0, kf=5.0, mu=0.5)
    rollout = simulate(model, inputs, time=1.0, dt=5e-4, integrator=integrator)
    np.testing.assert_allclose(rollout.body_q[0, -1, 0, 2], -0.2 * GRAVITY / 500, atol=1e-9)


@pytest.mark.parametrize(("integrator", "plan"), METHODS)
def test_stopping_distance_of_a_sliding_block(integrator: str, plan: str) -> None:
    """Coulomb friction until u_c = mu m g / (n kf), an exponential stop below it: v^2 / (2 mu g) + u_c^2 / (2 mu g)."""
    mass, mu, speed, kf, ke = 0.4, 0.3, 0.6, 40.0, 4000.0
    points = np.array([(x, y, 0.0) for x in (-1, 1) for y in (-1, 1)]) * 0.05  # level with the centre: no pitching
    model, inputs = one_body(
        points, mass=mass, position=(0, 0, -mass * GRAVITY / (4 * ke)), velocity=(speed * 0.8, speed * 0.6, 0),
        ke=ke, kd=20.0, kf=kf, mu=mu,
    )  # fmt: skip
    slow = mu * mass * GRAVITY / (4 * kf)
    coulomb = speed**2 / (2 * mu * GRAVITY)
    wanted = coulomb + slow**2 / (2 * mu * GRAVITY)
    dt = 2e-4
    rollout = simulate(model, inputs, time=1.0, dt=dt, integrator=integrator, plan=plan)
    travelled = rollout.body_q[0, -1, 0, :2]
    allowed = speed * dt if integrator == "semi_implicit" else 1e-6
    np.testing.assert_allclose(travelled, wanted * np.array([0.8, 0.6]), atol=allowed)
    assert abs(np.linalg.norm(travelled) - coulomb) < 1e-3 * coulomb + allowed
    np.testing.assert_allclose(rollout.body_qd[0, -1, 0], 0.0, atol=1e-7)


def test_stopping_distance_of_a_box_that_pitches() -> None:
    mass, mu, speed = 0.4, 0.2, 0.8
    model, inputs = one_body(
        box_points(HALF), mass=mass, inertia=box_inertia(mass, HALF), position=(0, 0, HALF[2] - mass * GRAVITY / 32e3),
        velocity=(speed, 0, 0), ke=8e3, kd=40.0, kf=400.0, mu=mu,
    )  # fmt: skip
    rollout = simulate(model, inputs, time=1.0, dt=1e-4)
    np.testing.assert_allclose(rollout.body_q[0, -1, 0, 0], speed**2 / (2 * mu * GRAVITY), rtol=0.01)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("kd", [0.0, 0.5])
def test_a_bounce_gains_no_energy(kd: float, integrator: str) -> None:
    """Beyond what the step puts in, which falls at least linearly with dt."""
    _, source = tilted_box()
    material = np.array([[[2e3, kd, 5.0, 0.3]]])
    model = RigidModel(("box",), (box_points(HALF),))
    force = np.zeros((1, 1, 3))
    inputs = RigidInputs(*source.arrays()[:4], material, source.gravity, force, force)
    gains = []
    for dt in (4e-4, 2e-4, 1e-4):
        joule = energy(model, simulate(model, inputs, time=0.4, dt=dt, integrator=integrator, frames=200))
        gains.append(max(0.0, float(np.max(joule - np.minimum.accumulate(joule)))) / joule[0])
    assert gains[0] < 0.05
    assert gains[2] < max(0.5 * gains[0], 1e-6)
    lost = 1 - joule[-1] / joule[0]
    assert lost > 0.05  # friction and damping did work


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("damping_ratio", [0.0, 0.05, 0.3])
def test_restitution_of_a_single_point_is_that_of_the_damped_oscillator(damping_ratio: float, integrator: str) -> None:
    """Contact lasts from x = 0 until the force, ke c - kd u_n, is zero; the body leaves with the speed it has then."""
    mass, ke, speed = 0.2, 1000.0, 1.5
    omega = np.sqrt(ke / mass)
    model, inputs = one_body(
        [0, 0, 0], mass=mass, position=(0, 0, 1e-3), velocity=(0, 0, -speed), ke=ke, kd=2 * damping_ratio * omega * mass,
        gravity=0.0,
    )  # fmt: skip
    decay, damped = damping_ratio * omega, omega * np.sqrt(1 - damping_ratio**2)
    phase = np.arctan2(2 * decay * damped, decay**2 - damped**2)
    wanted = -np.exp(-decay * phase / damped) * (np.cos(phase) - decay / damped * np.sin(phase))
    errors = []
    for dt in (1e-4, 2.5e-5):
        rollout = simulate(model, inputs, time=0.1, dt=dt, integrator=integrator)
        errors.append(abs(rollout.body_qd[0, -1, 0, 2] / speed - wanted))
    assert errors[0] < 1e-3 and errors[1] < 3e-4
    assert wanted == pytest.approx({0.0: 1.0, 0.05: 0.862, 0.3: 0.46}[damping_ratio], abs=0.02)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_body_of_five_grams(integrator: str) -> None:
    """Scaling masses, inertias, contact coefficients and forces together leaves the motion as it is."""
    model, heavy = tilted_box()
    scale = 0.005 / heavy.body_mass[0, 0]
    factors = np.array([scale, scale, scale, 1.0])
    light = RigidInputs(
        heavy.body_q0, heavy.body_qd0, heavy.body_mass * scale, heavy.body_inertia * scale, heavy.body_contact * factors,
        heavy.gravity, heavy.body_force * scale, heavy.force_point,
    )  # fmt: skip
    rollout = simulate(model, stacked([heavy, light]), time=0.16, dt=5e-4, integrator=integrator, frames=8)
    np.testing.assert_allclose(rollout.body_q[1], rollout.body_q[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_qd[1], rollout.body_qd[0], rtol=0, atol=1e-7)
