"""Dry friction of joints: closed forms of sticking and sliding, adjoints against central differences, and what is refused.

The law has two kinks, where the bristle begins to slip and where its force reaches the friction. Derivatives there are one-sided:
the gradient checks use states in which every step lies off the kinks: ``kink_distance`` repeats the deflections from the rates
of every step, and the tests assert that no step is closer to a kink than the central differences reach, and that some joints slip
and others stick. A derivative then does not see a change of branch.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.articulated_adjoints import NAMES, check_adjoint
from tests.reference.articulated_robots import Link, Robot, bob
from tests.reference.rigid_cases import GRAVITY
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, inverse_dynamics
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

DRY = ("joint_dry_friction", "joint_dry_stiffness", "joint_dry_damping", "joint_bristle0")


def with_friction(
    inputs: ArticulatedInputs, friction: object, stiffness: object, damping: object = 0.0, bristle0: object = 0.0
) -> ArticulatedInputs:
    """The inputs with dry friction, each number broadcast to [B, D]."""
    shape = inputs.joint_qd0.shape
    given = zip(DRY, (friction, stiffness, damping, bristle0), strict=True)
    return replace(inputs, **{name: np.array(np.broadcast_to(np.asarray(value, float), shape)) for name, value in given})


def slider(*, mass: float = 1.5, stiffness: float = 0.0, gravity: float = 0.0, frames: int = 1) -> tuple:
    """A block on a rail along x, and gravity along the rail."""
    robot = Robot((Link(-1, "prismatic", (1.0, 0.0, 0.0), mass=mass, stiffness=stiffness),), (gravity, 0.0, 0.0))
    return robot.model(), robot.inputs(frames=frames)


def run(model: ArticulatedModel, inputs: ArticulatedInputs, dt: float, substeps: int, frames: int) -> ArticulatedRollout:
    return ArticulatedSolver(model, ArticulatedSettings(dt, substeps)).rollout(inputs, frames)


# -- physics --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pull", "loaded"), [(0.45, 0.0), (0.999, 0.999)])
def test_a_block_below_breakaway_deflects_by_force_over_stiffness_and_does_not_creep(pull: float, loaded: float) -> None:
    """A sudden load overshoots to twice its deflection; one close to breakaway therefore begins with a loaded bristle."""
    mass, stiffness, frames = 1.5, 4e3, 100
    model, inputs = slider(mass=mass, gravity=pull / mass, frames=frames)
    inputs = with_friction(inputs, 1.0, stiffness, 0.8 * np.sqrt(stiffness * mass), loaded / stiffness)
    x = run(model, inputs, 1e-3, 1000, frames).joint_q[0, :, 0]  # 1e5 steps
    assert np.abs(x[1:] - (pull - loaded) / stiffness).max() < 1e-9
    assert np.abs(x[2:] - x[1]).max() < 1e-12


def test_a_pendulum_below_breakaway_stays_where_it_was_put() -> None:
    mass, length, angle, friction, stiffness, frames = 0.7, 0.4, 0.5, 2.8, 2e3, 100
    robot = Robot((Link(-1, "revolute", **bob(length, mass)),))
    inputs = with_friction(robot.inputs(frames=frames), friction, stiffness, 8.0)
    inputs.joint_q0[:] = angle
    x = run(robot.model(), inputs, 1e-3, 1000, frames).joint_q[0, :, 0]
    rest = x[1]
    held = mass * GRAVITY * length * np.sin(rest)
    assert held < 0.5 * friction
    assert abs(angle - rest - held / stiffness) < 1e-9
    assert np.abs(x[2:] - rest).max() < 1e-12


def test_an_alternating_load_below_breakaway_does_not_ratchet() -> None:
    """A load that is never reversed but oscillates, for which Dahl's model drifts."""
    mass, stiffness, frames = 1.0, 4e3, 200
    model, inputs = slider(mass=mass, frames=frames)
    inputs = with_friction(inputs, 1.0, stiffness, 2 * np.sqrt(stiffness * mass))
    inputs.link_wrench[0, :, 0, 0] = np.where(np.arange(frames) % 2, 0.2, 0.8)
    x = run(model, inputs, 1e-3, 500, frames).joint_q[0, 1:, 0]  # 1e5 steps
    assert np.abs(x[0::2] - 0.8 / stiffness).max() < 1e-9 and np.abs(x[1::2] - 0.2 / stiffness).max() < 1e-9


def test_a_sliding_block_decelerates_by_friction_over_mass_and_stops_after_its_energy() -> None:
    mass, friction, stiffness, speed, dt = 1.5, 2.0, 1e6, 0.8, 1e-5
    model, inputs = slider(mass=mass, frames=100)
    inputs = with_friction(inputs, friction, stiffness, np.sqrt(stiffness * mass), friction / stiffness)
    inputs.joint_qd0[:] = speed
    rollout = run(model, inputs, dt, 1000, 100)
    stops = speed * mass / friction
    early = int(0.9 * stops / (1000 * dt))
    np.testing.assert_allclose(np.diff(rollout.joint_qd[0, : early + 1, 0]) / (1000 * dt), -friction / mass, rtol=1e-9)
    # It stops after v^2 m / (2 f_c); the bristle then pushes it back by less than its deflection f_c / s.
    assert rollout.joint_q[0, -1, 0] == pytest.approx(speed**2 * mass / (2 * friction), abs=speed * dt + friction / stiffness)
    assert np.abs(rollout.joint_qd[0, -1]).max() < 1e-12


@pytest.mark.parametrize("kind", ["prismatic", "revolute"])
def test_an_oscillation_loses_four_times_friction_over_stiffness_in_a_period(kind: str) -> None:
    mass, spring, friction, start = 2.0, 50.0, 0.5, 0.2
    robot = Robot((Link(-1, kind, (0.0, 0.0, 1.0), mass=mass, inertia=mass * np.eye(3), stiffness=spring),), (0.0, 0.0, 0.0))
    period = 2 * np.pi * np.sqrt(mass / spring)
    substeps = 20000
    inputs = with_friction(robot.inputs(frames=4), friction, 1e6, 200.0)
    inputs.joint_q0[:] = start
    x = run(robot.model(), inputs, period / substeps, substeps, 4).joint_q[0, :, 0]
    lost = 4 * friction / spring
    np.testing.assert_allclose(x[:5], start - lost * np.arange(5), atol=2e-4 * start)


def test_a_ball_joint_sticks_about_every_axis() -> None:
    robot = Robot((Link(-1, "spherical", mass=0.5, com=(0.0, 0.0, -0.3), inertia=0.02 * np.eye(3)),), (1.0, -2.0, -9.0))
    inputs = with_friction(robot.inputs(frames=20), 0.8, 500.0, 2.0)
    x = run(robot.model(), inputs, 1e-3, 500, 20).joint_q[0]
    assert np.abs(x[-1, :2]).min() > 1e-4 and np.abs(x[-1] - x[-2]).max() < 1e-12
    lower = replace(inputs, joint_dry_friction=0.1 * inputs.joint_dry_friction)
    assert np.abs(run(robot.model(), lower, 1e-3, 500, 20).joint_q[0, -1, :2]).max() > 0.05


# -- no friction ----------------------------------------------------------------------------------------------------------


def test_joints_of_zero_friction_move_as_joints_without_it() -> None:
    model, inputs = slider(stiffness=30.0, gravity=0.3)
    inputs.joint_qd0[:] = 0.4
    plain, zero = (run(model, given, 1e-3, 200, 1) for given in (inputs, with_friction(inputs, 0.0, 0.0)))
    for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(zero, name))


# -- adjoints -------------------------------------------------------------------------------------------------------------

STEP, SUBSTEPS, FRAMES = 5e-3, 6, 2


def rubbing(kinds: tuple[str, ...]) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A chain of joints; every second velocity has a friction that it overcomes, the others stick."""
    rng = np.random.default_rng(4)
    links = tuple(
        Link(
            k - 1, kind, (0.6, 0.0, 0.8), (0.1, 0.05, -0.2), mass=0.8, com=(0.05, 0.1, -0.2),
            inertia=np.diag([0.02, 0.03, 0.025]),
        )
        for k, kind in enumerate(kinds)
    )  # fmt: skip
    robot = Robot(links)
    inputs = robot.random(rng, 1, wrench=0.5)
    inputs = replace(inputs, **{name: np.repeat(getattr(inputs, name), FRAMES, axis=1) for name in
                                ("action", "servo_target", "link_wrench")})  # fmt: skip
    shape = inputs.joint_qd0.shape
    slips = np.arange(shape[1]) % 2 == 0
    between = lambda low, high: rng.uniform(low, high, shape)  # noqa: E731
    friction = np.where(slips, between(0.2, 0.3), between(60.0, 70.0))
    limit = friction / np.where(slips, between(60.0, 70.0), between(80.0, 90.0))
    inputs = replace(inputs, joint_armature=between(0.05, 0.06))
    start = between(-0.4, 0.4) * limit
    return robot.model(), with_friction(inputs, friction, friction / limit, between(0.05, 0.1), start)


def kink_distance(model: ArticulatedModel, inputs: ArticulatedInputs) -> tuple[float, set[int], set[int]]:
    """Least relative distance of any step from a kink, the velocities that slip in a step, and those that stick in one."""
    whole = replace(inputs, **{name: np.repeat(getattr(inputs, name), SUBSTEPS, axis=1) for name in
                               ("action", "servo_target", "link_wrench")})  # fmt: skip
    rates = run(model, whole, STEP, 1, FRAMES * SUBSTEPS).joint_qd[0]
    z, friction = inputs.joint_bristle0[0], inputs.joint_dry_friction[0]
    stiffness, damping, nearest = inputs.joint_dry_stiffness[0], inputs.joint_dry_damping[0], np.inf
    slipping, sticking = set(), set()
    for before, after in zip(rates[:-1], rates[1:], strict=True):
        held = np.abs(stiffness * z + damping * before)
        trial, most = z + STEP * after, friction / stiffness
        nearest = min(nearest, np.abs(held / friction - 1).min(), np.abs(np.abs(trial) / most - 1).min())
        slipping |= set(np.flatnonzero(np.abs(trial) > most))
        sticking |= set(np.flatnonzero(np.abs(trial) < most))
        z = np.clip(trial, -most, most)
    return nearest, slipping, sticking


@pytest.mark.parametrize(
    "kinds", [("revolute", "revolute"), ("prismatic", "revolute", "prismatic"), ("spherical",), ("revolute", "spherical")]
)
def test_adjoint_of_every_input_in_sticking_and_slipping(kinds: tuple[str, ...]) -> None:
    model, inputs = rubbing(kinds)
    nearest, slipping, sticking = kink_distance(model, inputs)
    assert nearest > 1e-3 and slipping and sticking and sticking - slipping
    seen = check_adjoint(model, inputs, ArticulatedSettings(STEP, SUBSTEPS), few=16)
    assert set(DRY) | {"link_mass", "joint_q0", "joint_qd0", "joint_armature", "link_inertia"} <= seen
    assert seen <= set(NAMES) | set(DRY)


@pytest.mark.parametrize("every", [1, 3, 5, 100])
def test_checkpoints_keep_the_deflections(every: int) -> None:
    model, inputs = rubbing(("revolute", "spherical"))
    solver = ArticulatedSolver(model, ArticulatedSettings(STEP, SUBSTEPS))
    gradients = []
    for adjoint in (StoreAll(), Checkpoint(every=every)):
        rollout = solver.rollout(inputs, FRAMES, adjoint=adjoint)
        bars = [np.cos(array) for array in rollout.frame_arrays]
        gradients.append(solver.rollout_adjoint(rollout, *bars).named_arrays())
    for name in DRY:
        assert np.abs(gradients[0][name]).max() > 0
    for name, array in gradients[0].items():
        np.testing.assert_allclose(gradients[1][name], array, rtol=1e-12, atol=1e-12)


def test_closed_forms_of_the_derivatives_of_a_stop() -> None:
    """Sliding throughout: x = x0 + v t - f_c t^2 / (2 m), without its discretisation."""
    mass, friction, speed, dt, steps = 1.5, 2.0, 0.8, 1e-4, 2000
    model, inputs = slider(mass=mass)
    inputs = with_friction(inputs, friction, 1e4, 0.0, friction / 1e4)
    inputs.joint_qd0[:] = speed
    solver = ArticulatedSolver(model, ArticulatedSettings(dt, steps))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    seeds = [np.zeros_like(array) for array in rollout.frame_arrays]
    seeds[0][0, -1, 0] = 1.0
    bars, time = solver.rollout_adjoint(rollout, *seeds), steps * dt
    shift = 0.5 * time * (time + dt)  # semi-implicit sum of t dt
    assert bars.joint_dry_friction[0, 0] == pytest.approx(-shift / mass, rel=1e-9)
    assert bars.link_mass[0, 0] == pytest.approx(friction * shift / mass**2, rel=1e-9)
    assert bars.joint_qd0[0, 0] == pytest.approx(time, rel=1e-9)
    assert bars.joint_dry_stiffness[0, 0] == 0.0 and bars.joint_bristle0[0, 0] == 0.0


def test_forward_and_inverse_dynamics_have_the_same_friction() -> None:
    model, inputs = rubbing(("revolute", "spherical", "prismatic"))
    q, qd = inputs.joint_q0, inputs.joint_qd0
    qdd = forward_dynamics(model, inputs, q, qd)
    assert qdd.shape == qd.shape and np.abs(inverse_dynamics(model, inputs, q, qd, qdd)).max() < 1e-9
    free = forward_dynamics(model, with_friction(inputs, 0.0, 0.0), q, qd)
    assert np.abs(qdd - free).max() > 0.1


# -- errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint_dry_stiffness": None}, "dry friction of joints needs joint_dry_stiffness"),
        ({"joint_dry_stiffness": 0.0}, "joint of 'link0' has dry friction and no joint_dry_stiffness"),
        ({"joint_dry_friction": -1.0}, "joint_dry_friction of the joint of 'link0' is -1 .* finite and not negative"),
        ({"joint_bristle0": np.nan}, "joint_bristle0 of the joint of 'link0' is nan"),
    ],
)
def test_numbers_of_friction_that_are_refused(change: dict[str, float | None], message: str) -> None:
    model, inputs = slider()
    inputs = with_friction(inputs, 1.0, 100.0)
    changed = {name: None if value is None else np.full_like(inputs.joint_qd0, value) for name, value in change.items()}
    with pytest.raises(UserError, match=message):
        run(model, replace(inputs, **changed), 1e-3, 10, 1)


def test_runge_kutta_steps_are_refused() -> None:
    model, inputs = slider()
    with pytest.raises(UserError, match="choose 'semi_implicit', or leave joint_dry_friction out"):
        ArticulatedSolver(model, ArticulatedSettings(1e-3, 10, "rk4")).rollout(with_friction(inputs, 1.0, 100.0), 1)
