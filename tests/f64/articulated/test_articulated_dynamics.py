"""Articulated bodies against MuJoCo, a dense numpy reference, closed forms and conservation laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from tests.reference import articulated as reference
from tests.reference import articulated_robots as robots
from tests.reference.articulated_robots import Link, Robot
from tests.reference.numpy_rigid import rotation
from tests.reference.rigid_cases import GRAVITY, box_inertia, box_points
from ti_sim.articulated import single_state as kernels
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver

INTEGRATORS = ["semi_implicit", "rk4"]
ROBOTS: dict[str, Callable[[], Robot]] = {
    "pendulum": lambda: robots.pendulum(0.7, 1.3, radius=0.1, damping=0.2, stiffness=1.0, rest=0.3, armature=0.05),
    "double_pendulum": lambda: robots.double_pendulum((1.0, 0.7), (1.0, 2.0), damping=0.1),
    "hand": robots.hand,
    "arm": robots.arm,
    "quadruped": robots.quadruped,
    "tree": robots.tree,
    "other tree": lambda: robots.tree(1),
}
STATES = 20
# Both sides are compared with MuJoCo, so that what the kernels are compared with elsewhere is known to be right.
BOTH = pytest.mark.parametrize("side", [pytest.param(reference, id="reference"), pytest.param(kernels, id="kernels")])


def close(actual: np.ndarray, wanted: np.ndarray, tolerance: float, what: str = "") -> None:
    """Compare world by world, relative to the largest number of each."""
    for b, (a, w) in enumerate(zip(np.asarray(actual), np.asarray(wanted), strict=True)):
        np.testing.assert_allclose(a, w, rtol=0, atol=tolerance * max(np.abs(w).max(), 1e-300), err_msg=f"{what} world {b}")


def world(inputs: ArticulatedInputs, b: int, *, times: int = 1) -> ArticulatedInputs:
    """One world of several, repeated."""
    return inputs.with_arrays(np.repeat(array[b : b + 1], times, 0) for array in inputs.arrays())


# --- against MuJoCo -----------------------------------------------------------------------------------------------------


class InMujoco:
    """A robot in MuJoCo, addressed in the order of the robot's own links."""

    def __init__(self, robot: Robot) -> None:
        self.mujoco = pytest.importorskip("mujoco")
        self.robot, self.model = robot, self.mujoco.MjModel.from_xml_string(robot.mjcf())
        self.data = self.mujoco.MjData(self.model)
        self.body = [self.model.body(f"link{i}").id for i in range(len(robot.links))]
        self.coordinate: list[int] = []  # where MuJoCo keeps each coordinate: its quaternions begin with w
        self.velocity: list[int] = []
        for i, link in enumerate(robot.links):
            if link.joint != "fixed":
                joint = self.model.joint(f"joint{i}")
                first = int(joint.qposadr[0])
                turn = {4: [1, 2, 3, 0], 7: [0, 1, 2, 4, 5, 6, 3]}.get(reference.COORDINATES[link.joint], [0])
                self.coordinate += [first + k for k in turn]
                self.velocity += [int(joint.dofadr[0]) + k for k in range(reference.VELOCITIES[link.joint])]

    def evaluate(self, inputs: ArticulatedInputs, b: int) -> dict[str, np.ndarray]:
        """Accelerations, poses, velocities, mass matrix and link Jacobians in the state that a world starts from."""
        data, model, mujoco = self.data, self.model, self.mujoco
        data.qpos[self.coordinate], data.qvel[self.velocity] = inputs.joint_q0[b], inputs.joint_qd0[b]
        data.xfrc_applied[self.body] = inputs.link_wrench[b, 0]
        driven = [i for i, link in enumerate(self.robot.links) if link.gain]
        for k, i in enumerate(driven):
            d = sum(reference.VELOCITIES[link.joint] for link in self.robot.links[:i])
            target = self.robot.links[i].servo_stiffness / self.robot.links[i].gain * inputs.servo_target[b, 0, d]
            data.ctrl[k] = inputs.action[b, 0, d] + target
        mujoco.mj_forward(model, data)
        mass = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, mass)
        jacobians = np.zeros((len(self.body), 6, model.nv))
        for body, jacobian in zip(self.body, jacobians, strict=True):
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], body)
        jacobians = jacobians[:, :, self.velocity]
        return {
            "acceleration": data.qacc[self.velocity],
            "position": data.xpos[self.body],
            "rotation": data.xmat[self.body].reshape(-1, 3, 3),
            "velocity": jacobians @ inputs.joint_qd0[b],
            "mass": mass[np.ix_(self.velocity, self.velocity)],
            "jacobian": jacobians,
            "motor": data.actuator_force.copy(),
        }


@BOTH
@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_are_those_of_mujoco(name: str, side: ModuleType) -> None:
    robot = ROBOTS[name]()
    other, model = InMujoco(robot), robot.model()
    inputs = robot.random(np.random.default_rng(5), STATES, wrench=0.2)
    wanted = [other.evaluate(inputs, b) for b in range(STATES)]
    actual = side.forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    close(actual, [w["acceleration"] for w in wanted], 1e-9)
    if name in ("hand", "arm", "quadruped", "tree"):  # motors were in their clamp, and not
        clamp = np.array([link.motor_limit for link in robot.links if link.gain])
        clamped = np.abs([w["motor"] for w in wanted]) >= clamp
        assert clamped.any() and not clamped.all()


@BOTH
@pytest.mark.parametrize("name", ROBOTS)
def test_kinematics_and_mass_matrix_are_those_of_mujoco(name: str, side: ModuleType) -> None:
    robot = ROBOTS[name]()
    other, model = InMujoco(robot), robot.model()
    inputs = robot.random(np.random.default_rng(6), 3)
    wanted = [other.evaluate(inputs, b) for b in range(3)]
    body_q, body_qd = side.forward_kinematics(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    close(body_q[..., :3], [w["position"] for w in wanted], 1e-11)
    close(rotation(body_q[..., 3:]), [w["rotation"] for w in wanted], 1e-11)
    close(body_qd, [w["velocity"] for w in wanted], 1e-11)
    close(side.mass_matrix(model, inputs, inputs.joint_q0), [w["mass"] for w in wanted], 1e-10)
    for link in range(len(robot.links)):
        jacobian = side.point_jacobian(model, inputs, inputs.joint_q0, link, np.zeros(3))
        np.testing.assert_allclose(jacobian, [w["jacobian"][link] for w in wanted], rtol=0, atol=1e-11)


# --- against the reference ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROBOTS)
def test_inverse_dynamics_invert_forward_dynamics(name: str) -> None:
    robot = ROBOTS[name]()
    model, inputs = robots.varied(robot, STATES)
    state = inputs.joint_q0, inputs.joint_qd0
    acceleration = kernels.forward_dynamics(model, inputs, *state)
    scale = np.abs(np.einsum("bde,be->bd", kernels.mass_matrix(model, inputs, inputs.joint_q0), acceleration)).max()
    remaining = kernels.inverse_dynamics(model, inputs, *state, acceleration)
    np.testing.assert_allclose(remaining, 0, rtol=0, atol=1e-9 * min(scale, 1.0))
    # And the other way: motors that add what is missing bring about the accelerations that were asked for.
    inputs = replace(inputs, motor_limit=np.full_like(inputs.motor_limit, np.inf))
    wanted = np.random.default_rng(1).standard_normal(acceleration.shape)
    missing = kernels.inverse_dynamics(model, inputs, *state, wanted)
    inputs = replace(inputs, action=inputs.action + (missing / inputs.motor_gain)[:, None])
    np.testing.assert_allclose(kernels.forward_dynamics(model, inputs, *state), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_instants_agree_with_the_reference_in_every_world(name: str) -> None:
    model, inputs = robots.varied(ROBOTS[name](), 6, frames=2)
    state = inputs.joint_q0, inputs.joint_qd0
    for actual, wanted in zip(
        kernels.forward_kinematics(model, inputs, *state), reference.forward_kinematics(model, inputs, *state), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-12 * max(1.0, np.abs(wanted).max()))
    close(kernels.mass_matrix(model, inputs, state[0]), reference.mass_matrix(model, inputs, state[0]), 1e-12, "mass")
    for frame in (0, 1):
        wanted = reference.forward_dynamics(model, inputs, *state, frame=frame)
        close(kernels.forward_dynamics(model, inputs, *state, frame=frame), wanted, 1e-10, "forward")
        some = np.random.default_rng(frame).standard_normal(wanted.shape)
        wanted = reference.inverse_dynamics(model, inputs, *state, some, frame=frame)
        close(kernels.inverse_dynamics(model, inputs, *state, some, frame=frame), wanted, 1e-11, "inverse")
    point, last = np.array([0.1, -0.2, 0.3]), len(model.link_names) - 1
    wanted = reference.point_jacobian(model, inputs, state[0], last, point)
    np.testing.assert_allclose(kernels.point_jacobian(model, inputs, state[0], last, point), wanted, rtol=0, atol=1e-12)


def test_every_number_acts_as_in_the_reference() -> None:
    model, inputs = robots.varied(robots.tree(), 3)
    before = reference.forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    for name in [name for name in inputs.named_arrays() if name != "joint_q0"]:
        grown = replace(inputs, **{name: 1.1 * getattr(inputs, name)})
        wanted = reference.forward_dynamics(model, grown, inputs.joint_q0, grown.joint_qd0)
        assert np.abs(wanted - before).max() > 0.1, name  # the case is one in which it matters
        close(kernels.forward_dynamics(model, grown, inputs.joint_q0, grown.joint_qd0), wanted, 1e-10, name)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", ["hand", "quadruped", "tree"])
def test_rollouts_agree_with_the_reference(name: str, integrator: str) -> None:
    model, inputs = robots.varied(ROBOTS[name](), 3, frames=2, seed=2)
    settings = ArticulatedSettings(dt=1e-3, substeps=4, integrator=integrator)
    joint_q, joint_qd = reference.rollout(model, settings, inputs, 2)
    rollout = ArticulatedSolver(model, settings).rollout(inputs, 2)
    np.testing.assert_array_equal(rollout.diverged_step, -1)
    close(rollout.joint_q, joint_q, 1e-10, "joint_q")
    close(rollout.joint_qd, joint_qd, 1e-10, "joint_qd")
    for frame in range(3):
        body_q, body_qd = reference.forward_kinematics(model, inputs, joint_q[:, frame], joint_qd[:, frame])
        close(rollout.body_q[:, frame], body_q, 1e-10, "body_q")
        close(rollout.body_qd[:, frame], body_qd, 1e-10, "body_qd")


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_box_hits_the_ground_as_in_the_reference(integrator: str) -> None:
    half = (0.05, 0.03, 0.02)
    robot = Robot((Link(-1, "free", com=(0.0, 0.01, 0.0), mass=0.4, inertia=box_inertia(0.4, half), points=box_points(half)),))
    inputs = replace(
        robot.inputs(),
        joint_q0=np.array([[0.1, -0.2, 0.047, 0.3, 0.1, -0.2, 0.9]]),
        joint_qd0=np.array([[0.8, -0.3, -1.5, 3.0, -2.0, 5.0]]),
        link_contact=np.array([[[2e3, 20.0, 5.0, 0.4]]]),
    )
    settings = ArticulatedSettings(dt=5e-4, substeps=60, integrator=integrator)
    joint_q, joint_qd = reference.rollout(robot.model(), settings, inputs, 1)
    assert joint_qd[0, 1, 2] > -1.0  # it did hit
    rollout = ArticulatedSolver(robot.model(), settings).rollout(inputs, 1)
    close(rollout.joint_q, joint_q, 1e-10)
    close(rollout.joint_qd, joint_qd, 1e-10)


# --- closed forms and conservation laws -----------------------------------------------------------------------------------


def simulate(
    model: ArticulatedModel, inputs: ArticulatedInputs, *, time: float, dt: float, integrator: str = "rk4", frames: int = 1
) -> ArticulatedRollout:
    """Run for ``time`` seconds in steps of ``dt``, with what the inputs have for their first frame."""
    substeps = round(time / dt / frames)
    assert np.isclose(substeps * frames * dt, time)
    held = {name: np.repeat(getattr(inputs, name)[:, :1], frames, 1) for name in ("action", "servo_target", "link_wrench")}
    inputs = replace(inputs, **held)
    return ArticulatedSolver(model, ArticulatedSettings(dt=dt, substeps=substeps, integrator=integrator)).rollout(inputs, frames)


def over_time(
    law: Callable, model: ArticulatedModel, rollout: ArticulatedRollout, b: int = 0
) -> np.ndarray | tuple[np.ndarray, ...]:
    """A law of the reference at every frame of one world."""
    inputs = world(rollout.inputs, b, times=rollout.joint_q.shape[1])
    return law(model, inputs, np.asarray(rollout.joint_q[b]), np.asarray(rollout.joint_qd[b]))


def drift(values: np.ndarray) -> float:
    """Largest change of a quantity that should stay as it began."""
    return float(np.abs(values - values[0]).max())


def slopes(errors: list[float]) -> np.ndarray:
    """Observed orders of convergence from errors at dt, dt / 2, dt / 4, ..."""
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize(("lengths", "masses"), [((1.0, 1.0), (1.0, 1.0)), ((0.6, 1.4), (2.0, 0.5))])
def test_energy_of_the_double_pendulum(lengths: tuple[float, float], masses: tuple[float, float]) -> None:
    robot = robots.double_pendulum(lengths, masses)
    inputs = replace(robot.inputs(), joint_q0=np.array([[1.2, 0.7]]))
    scale = 3 * np.mean(masses) * GRAVITY * np.mean(lengths)
    rollout = simulate(robot.model(), inputs, time=10.0, dt=1e-3, frames=200)
    assert np.ptp(np.asarray(rollout.joint_q[0, :, 1])) > 1.0
    assert drift(over_time(reference.energy, robot.model(), rollout)) < 1e-6 * scale
    errors = []
    for dt in (1e-3, 5e-4, 2.5e-4):
        rollout = simulate(robot.model(), inputs, time=10.0, dt=dt, integrator="semi_implicit", frames=200)
        errors.append(drift(over_time(reference.energy, robot.model(), rollout)))
    np.testing.assert_allclose(slopes(errors), 1.0, atol=0.1)
    assert errors[0] < 3e-2 * scale


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_period_of_small_swings(integrator: str) -> None:
    robot, angle = robots.pendulum(radius=0.2), 0.01
    inputs = replace(robot.inputs(2), joint_q0=np.full((2, 1), angle))
    inputs = replace(inputs, link_com=np.array([[[0.0, 0.0, -1.0]], [[0.0, 0.0, -0.3]]]))
    frames, dt = 1000, 1e-3
    rollout = simulate(robot.model(), inputs, time=10.0, dt=dt, integrator=integrator, frames=frames)
    for b, length in enumerate((1.0, 0.3)):
        q, t = np.asarray(rollout.joint_q[b, :, 0]), np.linspace(0, 10, frames + 1)
        falls = np.flatnonzero((q[:-1] > 0) & (q[1:] <= 0))
        crossings = t[falls] + (t[1] - t[0]) * q[falls] / (q[falls] - q[falls + 1])
        period = (crossings[-1] - crossings[0]) / (len(crossings) - 1)
        wanted = 2 * np.pi * np.sqrt((length**2 + 0.4 * 0.2**2) / (GRAVITY * length))
        np.testing.assert_allclose(period, wanted, rtol=1e-4)


def floating(com: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """One lopsided body that flies and tumbles."""
    robot = Robot((Link(-1, "free", com=com, mass=0.3, inertia=robots.lopsided(0.3, 0.4)),))
    q0 = np.array([[1.0, 2.0, 3.0, 0.1, 0.2, -0.3, 0.9]])
    return robot.model(), replace(robot.inputs(), joint_q0=q0, joint_qd0=np.array([[0.5, -1.0, 4.0, 4.0, 6.0, -3.0]]))


def test_free_fall_of_rk4_is_exact() -> None:
    rollout = simulate(*floating(), time=1.0, dt=1e-2, frames=10)
    t = np.linspace(0, 1, 11)[:, None]
    wanted = np.array([1, 2, 3]) + t * np.array([0.5, -1, 4]) - 0.5 * t**2 * np.array([0, 0, GRAVITY])
    np.testing.assert_allclose(rollout.body_q[0, :, 0, :3], wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rollout.body_qd[0, :, 0, 2], 4 - GRAVITY * t[:, 0], rtol=0, atol=1e-12)


def test_free_fall_of_semi_implicit_euler_is_first_order() -> None:
    for dt in (0.01, 0.005):
        rollout = simulate(*floating(), time=1.0, dt=dt, integrator="semi_implicit")
        np.testing.assert_allclose(3 + 4 - GRAVITY / 2 - rollout.body_q[0, 1, 0, 2], GRAVITY * dt / 2, atol=1e-11)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_a_tumbling_body_keeps_its_momentum_and_energy(integrator: str) -> None:
    model, inputs = floating((0.1, -0.05, 0.2))  # the link frame is not at the centre of mass: forces and turns couple
    inputs = replace(inputs, gravity=np.zeros((1, 3)))
    drifts = []
    for dt in (4e-3, 2e-3, 1e-3):
        rollout = simulate(model, inputs, time=1.0, dt=dt, integrator=integrator, frames=10)
        linear, angular = over_time(reference.momentum, model, rollout)
        energy = over_time(reference.energy, model, rollout)
        drifts.append([drift(linear), drift(angular), drift(energy)])
        np.testing.assert_allclose(np.linalg.norm(rollout.joint_q[0, :, 3:], axis=-1), 1.0, atol=1e-14)
    if integrator == "rk4":
        assert (np.array([slopes(list(errors)) for errors in np.transpose(drifts)]) > 4 - 0.2).all()
    assert np.linalg.norm(np.asarray(rollout.joint_qd[0, -1, 3:] - rollout.joint_qd[0, 0, 3:])) > 1.0  # though it tumbles
    assert max(drifts[-1]) < {"semi_implicit": 1e-12, "rk4": 1e-7}[integrator]  # the midpoint rule conserves all of them


def test_a_floating_robot_keeps_its_momentum_whatever_its_motors_do() -> None:
    robot = robots.quadruped()
    robot = Robot(tuple(replace(link, armature=0.0) for link in robot.links), (0.0, 0.0, 0.0))
    inputs = robot.random(np.random.default_rng(3), 1, wrench=0.0)
    rollout = simulate(robot.model(), inputs, time=0.2, dt=2.5e-4, frames=10)
    linear, angular = over_time(reference.momentum, robot.model(), rollout)
    assert np.abs(np.asarray(rollout.joint_qd[0, -1] - rollout.joint_qd[0, 0])).max() > 5.0
    assert drift(linear) < 1e-7 * np.abs(linear).max()
    assert drift(angular) < 1e-7 * np.abs(angular).max()


def test_torsion_spring_oscillates_at_its_frequency() -> None:
    robot = robots.pendulum(0.3, 0.5, radius=0.1, stiffness=6.0, rest=0.2, armature=0.01)
    inputs = replace(robot.inputs(), joint_q0=np.array([[0.9]]), gravity=np.zeros((1, 3)))
    omega = np.sqrt(6.0 / (0.5 * 0.3**2 + 0.4 * 0.5 * 0.1**2 + 0.01))
    rollout = simulate(robot.model(), inputs, time=2.0, dt=1e-3, frames=50)
    t = np.linspace(0, 2, 51)
    np.testing.assert_allclose(rollout.joint_q[0, :, 0], 0.2 + 0.7 * np.cos(omega * t), rtol=0, atol=1e-7)


def test_mass_on_a_damped_spring_along_a_slanted_slide() -> None:
    slanted = (0.0, 0.6, -0.8)
    robot = Robot((Link(-1, "prismatic", slanted, (1, 2, 3), mass=2.0, stiffness=50.0, damping=4.0, rest=0.1),))
    inputs = replace(robot.inputs(), joint_qd0=np.array([[1.5]]))
    rollout = simulate(robot.model(), inputs, time=2.0, dt=1e-3, frames=50)
    t, sag, rate = np.linspace(0, 2, 51), 0.1 + 2.0 * GRAVITY * 0.8 / 50.0, 4.0 / (2 * 2.0)
    omega = np.sqrt(50.0 / 2.0 - rate**2)
    wanted = sag + np.exp(-rate * t) * (-sag * np.cos(omega * t) + (1.5 - rate * sag) / omega * np.sin(omega * t))
    np.testing.assert_allclose(rollout.joint_q[0, :, 0], wanted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_q[0, :, 0, :3], np.array([1, 2, 3]) + wanted[:, None] * slanted, atol=1e-9)


def test_a_joint_pressed_against_its_limits_rests_where_their_springs_balance() -> None:
    low, high, stiffness, torque = -0.3, 0.5, 50.0, 0.5
    limits = {"low": low, "high": high, "limit_stiffness": stiffness}
    robot = robots.pendulum(0.1, 0.5, radius=0.05, damping=0.1, gain=torque, **limits)
    inputs = replace(robot.inputs(3), gravity=np.zeros((3, 3)), action=np.array([[[1.0]], [[-1.0]], [[0.0]]]))
    rollout = simulate(robot.model(), inputs, time=4.0, dt=1e-3, integrator="semi_implicit", frames=4)
    softness = 0.01 * (high - low)
    overshoot = (torque + np.sqrt(torque**2 + 4 * stiffness * torque * softness)) / (2 * stiffness)
    np.testing.assert_allclose(rollout.joint_q[:, -1, 0], [high + overshoot, low - overshoot, 0.0], atol=1e-6)
    assert np.abs(np.asarray(rollout.joint_qd[:, -1])).max() < 1e-6
    # With a limit on one side the softness is 0.01.
    one = replace(inputs, joint_limit_low=np.full((3, 1), -np.inf), joint_q0=np.full((3, 1), high + 0.1))
    acceleration = kernels.forward_dynamics(robot.model(), replace(one, action=0 * one.action), one.joint_q0, one.joint_qd0)
    inertia = 0.5 * 0.1**2 + 0.4 * 0.5 * 0.05**2
    np.testing.assert_allclose(acceleration, -stiffness * 0.1**2 / 0.11 / inertia, rtol=1e-10)


def test_a_joint_that_runs_into_its_limit_comes_back_as_fast() -> None:
    robot = robots.pendulum(0.1, 0.5, radius=0.05, low=-0.2, high=0.2, limit_stiffness=50.0)
    inputs = replace(robot.inputs(), gravity=np.zeros((1, 3)), joint_qd0=np.array([[3.0]]))
    rollout = simulate(robot.model(), inputs, time=0.4, dt=2e-4, frames=100)
    q, qd = np.asarray(rollout.joint_q[0, :, 0]), np.asarray(rollout.joint_qd[0, :, 0])
    inside = np.abs(q) < 0.2
    assert q.max() > 0.2 and q.min() < -0.2 and (qd[inside] < -2.9).any()
    np.testing.assert_allclose(np.abs(qd[inside]), 3.0, rtol=1e-6)


def test_motor_is_clamped_and_servo_holds() -> None:
    robot = robots.pendulum(0.5, 2.0, radius=0.1, gain=2.0, motor_limit=4.0, armature=0.3)
    inertia = 2.0 * 0.25 + 0.4 * 2.0 * 0.01 + 0.3
    inputs = replace(robot.inputs(3), action=np.array([[[3.0]], [[-3.0]], [[1.5]]]))
    acceleration = kernels.forward_dynamics(robot.model(), inputs, inputs.joint_q0, inputs.joint_qd0)
    np.testing.assert_allclose(np.asarray(acceleration)[:, 0] * inertia, [4.0, -4.0, 3.0], rtol=1e-12)
    held = robots.pendulum(0.5, 2.0, radius=0.1, servo_stiffness=200.0, servo_damping=20.0)
    inputs = replace(held.inputs(), servo_target=np.array([[[0.6]]]), link_wrench=np.zeros((1, 1, 1, 6)))
    angle = np.asarray(simulate(held.model(), inputs, time=4.0, dt=1e-3).joint_q)[0, -1, 0]
    np.testing.assert_allclose(200.0 * (0.6 - angle), 2.0 * GRAVITY * 0.5 * np.sin(angle), rtol=1e-8)


def test_spherical_pendulum_keeps_its_energy_and_vertical_angular_momentum() -> None:
    com = (0.1, 0.05, -0.5)
    inertia = robots.lopsided(1.0, 0.2)
    robot = Robot((Link(-1, "spherical", position=(0, 0, 1), turn=(0.1, 0.3, 0.2, 0.9), com=com, inertia=inertia),))
    inputs = replace(robot.inputs(), joint_q0=np.array([[0.4, -0.2, 0.1, 0.8]]), joint_qd0=np.array([[1.0, 2.0, 3.0]]))
    rollout = simulate(robot.model(), inputs, time=5.0, dt=1e-3, frames=50)
    energy = over_time(reference.energy, robot.model(), rollout)
    angular = over_time(reference.momentum, robot.model(), rollout)[1]
    assert drift(energy) < 1e-8 and drift(angular[:, 2]) < 1e-8
    assert drift(angular[:, 0]) > 1.0  # gravity turns the rest of it


def test_a_free_and_a_fixed_joint_make_one_body() -> None:
    whole = Robot((Link(-1, "free", mass=3.0, com=(0.0, 0.0, 0.1), inertia=np.diag([0.3, 0.4, 0.2])),))
    # Two halves side by side on x: I_zz, I_yy of the whole are those of the halves and m d^2 of each.
    half = {"mass": 1.5, "inertia": np.diag([0.15, 0.2 - 1.5 * 0.04, 0.1 - 1.5 * 0.04])}
    halves = Robot((Link(-1, "free", com=(0.2, 0.0, 0.1), **half), Link(0, "fixed", position=(-0.2, 0.0, 0.1), **half)))
    rng = np.random.default_rng(0)
    one = whole.random(rng, 4, wrench=0.0)
    two = replace(halves.inputs(4), joint_q0=one.joint_q0, joint_qd0=one.joint_qd0)
    wanted = kernels.forward_dynamics(whole.model(), one, one.joint_q0, one.joint_qd0)
    close(kernels.forward_dynamics(halves.model(), two, two.joint_q0, two.joint_qd0), wanted, 1e-12)
