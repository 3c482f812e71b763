"""Bodies that turn without torque: energy, angular momentum and angle, in the rigid and the articulated solver; adjoints."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from risp_torch import LinkFrame, Start
from risp_torch.scene.parts.joints import Fixed, Joint, Revolute
from risp_torch.scene.scene import Scene
from risp_torch.scene.simulation.step_warnings import spin_warnings
from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.contact_cases import bodies, inputs_of
from tests.reference.numpy_rigid import quaternion_rate, rotation, unit
from tests.reference.rigid_cases import box_inertia, driven, one_body, turned
from ti_sim import Box
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import DivergenceError
from ti_sim.rigid.model import RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

HALF, MASS = (0.05, 0.03, 0.015), 0.18  # m, kg: a box of .1 x .06 x .03 m
INERTIA = box_inertia(MASS, HALF)
SPIN = np.array([0.02, 6.0, 0.01])  # rad/s, nearly about the middle axis, about which turning is unstable
TIME, FRAMES = 60.0, 60


def link(kind: str = "free", **changes: object) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """The box as a link of the articulated solver, on the world and alone."""
    model = bodies(None, kinds=(kind,))
    q = [0, 0, 0, 0, 0, 0, 1] if kind == "free" else [0, 0, 0, 1]
    inputs = inputs_of(model, q, [0, 0, 0, *SPIN][-model.velocity_count :], material=(0, 0, 0, 0), frames=FRAMES)
    return model, replace(inputs, link_mass=np.array([[MASS]]), link_inertia=INERTIA[None, None].copy(), **changes)


def poses(solver: str, integrator: str) -> tuple[np.ndarray, np.ndarray]:
    """Quaternions [FRAMES + 1, 4] and angular velocities [FRAMES + 1, 3] in the world, over TIME at steps of 1 ms."""
    substeps = round(TIME / FRAMES / 1e-3)
    if solver == "rigid":
        model, inputs = one_body(np.zeros((0, 3)), mass=MASS, inertia=INERTIA, spin=SPIN, gravity=0.0)
        rollout = RigidSolver(model, RigidSettings(dt=1e-3, substeps=substeps, integrator=integrator)).rollout(inputs, FRAMES)
    else:
        settings = ArticulatedSettings(dt=1e-3, substeps=substeps, integrator=integrator)
        model, inputs = link("spherical" if solver == "on a spherical joint" else "free")
        rollout = ArticulatedSolver(model, settings).rollout(inputs, FRAMES)
    return rollout.body_q[0, :, 0, 3:], rollout.body_qd[0, :, 0, 3:]


def exact(time: float) -> np.ndarray:
    """Quaternion after a time, by a fine integration of Euler's equations."""
    momentum, inverse = INERTIA @ SPIN, np.linalg.inv(INERTIA)

    def rate(_time: float, q: np.ndarray) -> np.ndarray:
        turn = rotation(unit(q))
        return quaternion_rate(q, turn @ inverse @ turn.T @ momentum)

    return unit(solve_ivp(rate, (0, time), [0, 0, 0, 1], method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1])


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
@pytest.mark.parametrize("solver", ["rigid", "articulated", "on a spherical joint"])
def test_a_spinning_box_keeps_energy_and_momentum_for_a_minute(solver: str, integrator: str) -> None:
    q, w = poses(solver, integrator)
    turn = rotation(q)
    momentum = np.einsum("tij,jk,tlk,tl->ti", turn, INERTIA, turn, w)
    energy = np.einsum("ti,ti->t", momentum, w)
    # The midpoint rule conserves both; Runge-Kutta's errors are of fifth order.
    assert np.abs(energy / energy[0] - 1).max() < (1e-11 if integrator == "semi_implicit" else 1e-8)
    assert np.abs(momentum - momentum[0]).max() < 1e-8 * np.linalg.norm(momentum[0])
    assert np.ptp(turn[:, 1, 1]) > 1.9  # it tumbles
    assert 2 * np.arccos(min(1.0, abs(exact(4.0) @ q[4]))) < 2e-4


def test_articulated_bodies_move_as_rigid_ones() -> None:
    """A thrown box that tumbles under gravity and a force at its centre of mass: to rounding."""
    model, inputs = one_body(
        np.zeros((0, 3)), mass=MASS, inertia=INERTIA, spin=3 * SPIN, velocity=(1, 2, 3), turn=turned((1, 2, 3), 0.7)
    )
    twin, numbers = link()
    start = inputs.body_q0[0, 0]
    own_spin = rotation(unit(start[3:])).T @ (3 * SPIN)
    push = np.array([0.1, -0.2, 0.3])
    wrench = np.tile([*push, 0, 0, 0], (1, FRAMES, 1, 1))
    numbers = replace(
        numbers, joint_q0=start[None], joint_qd0=np.array([[1, 2, 3, *own_spin]]), gravity=inputs.gravity, link_wrench=wrench
    )
    pushed = replace(model, force_body=(0,), force_steps=((0, 4000),))
    inputs = replace(inputs, body_force=push[None, None], force_point=np.zeros((1, 1, 3)))
    found = ArticulatedSolver(twin, ArticulatedSettings(1e-3, 40)).rollout(numbers, FRAMES)
    wanted = RigidSolver(pushed, RigidSettings(1e-3, 40)).rollout(inputs, FRAMES)
    np.testing.assert_allclose(found.body_q, wanted.body_q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.body_qd, wanted.body_qd, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["free", "spherical"])
def test_adjoint_of_a_link_that_turns_alone(kind: str) -> None:
    """With the centre of mass beside the origin, armatures, a wrench, and half a radian a step."""
    model, inputs = link(kind)
    draw = np.random.default_rng(0)
    inertia = 1e4 * INERTIA  # large against the steps of the differences
    skew = 0.1 * inertia[0, 0] * draw.uniform(-1, 1, (3, 3))
    short = {"link_wrench": draw.normal(size=(1, 1, 1, 6)), "action": inputs.action[:, :1]}
    inputs = replace(
        inputs, **short, servo_target=inputs.servo_target[:, :1], link_com=0.03 * draw.normal(size=(1, 1, 3)),
        link_inertia=inertia + skew + skew.T + np.zeros((1, 1, 3, 3)), joint_qd0=inputs.joint_qd0 + draw.normal(size=(1, 1)),
        joint_q0=inputs.joint_q0 + 0.3 * draw.normal(size=inputs.joint_q0.shape),
        joint_armature=draw.uniform(0, 1, inputs.joint_armature.shape),
    )  # fmt: skip
    seen = check_adjoint(model, inputs, ArticulatedSettings(dt=0.05, substeps=4), 12)
    assert {"joint_q0", "joint_qd0", "link_inertia", "joint_armature", "link_wrench", "joint_frame"} <= seen
    assert kind == "free" or {"link_mass", "link_com"} <= seen


def compound(kind: str = "free", *, frames: int = FRAMES) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """Three boxes on one another by fixed joints, and a fourth of its own; the first hangs on the world."""
    frame = np.random.default_rng(3).uniform(-1, 1, (4, 7)) * np.array([0.08] * 3 + [1.0] * 4)
    frame[:, 6] = 1
    model = ArticulatedModel(
        ("base", "arm", "hand", "other"), (-1, 0, 1, -1), (kind, "fixed", "fixed", "free"), np.ones((4, 3)),
        contact_points=(np.zeros((0, 3)), np.zeros((0, 3)), np.array([[0.02, 0.01, -0.03]]), np.zeros((0, 3))),
        ground_height=-10.0,
    )  # fmt: skip
    start = [0, 0, 0, 0, 0, 0, 1]
    q = [*(start if kind == "free" else start[3:]), *start]
    qd = [*[0, 0, 0, *SPIN][-(6 if kind == "free" else 3) :], 0, 0, 0, *SPIN]
    inputs = inputs_of(model, q, qd, material=(1e3, 2, 3, 0.5), frames=frames)
    mass = np.array([[MASS, 0.05, 0.1, MASS]])
    com = 0.02 * np.random.default_rng(4).normal(size=(1, 4, 3))
    return model, replace(
        inputs, link_mass=mass, link_com=com, link_inertia=mass[..., None, None] / MASS * INERTIA, joint_frame=frame[None].copy()
    )


def total(inputs: ArticulatedInputs, links: slice, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Energy [T], momentum [T, 3] and angular momentum [T, 3] about the origin, of links at poses [T, N, 7]."""
    mass, com, inertia = (getattr(inputs, f"link_{name}")[0, links] for name in ("mass", "com", "inertia"))
    q, qd = q[:, links], qd[:, links]
    turn = rotation(q[..., 3:].reshape(-1, 4)).reshape(*q.shape[:2], 3, 3)
    arm = np.einsum("tnij,nj->tni", turn, com)
    place, spin = q[..., :3] + arm, qd[..., 3:]
    push = mass[:, None] * (qd[..., :3] + np.cross(spin, arm))
    turning = np.einsum("tnij,njk,tnlk,tnl->tni", turn, inertia, turn, spin)
    energy = 0.5 * (np.square(push) / mass[:, None]).sum(axis=(1, 2)) + 0.5 * (turning * spin).sum(axis=(1, 2))
    return energy, push.sum(axis=1), (np.cross(place, push) + turning).sum(axis=1)


@pytest.mark.parametrize("kind", ["free", "spherical"])
def test_boxes_on_fixed_joints_keep_energy_and_momentum_for_a_minute(kind: str) -> None:
    model, inputs = compound(kind)
    rollout = ArticulatedSolver(model, ArticulatedSettings(dt=1e-3, substeps=1000)).rollout(inputs, FRAMES)
    energy, push, turning = total(inputs, slice(0, 3), rollout.body_q[0], rollout.body_qd[0])
    assert np.abs(energy / energy[0] - 1).max() < 1e-10
    if kind == "free":
        assert np.abs(push - push[0]).max() < 1e-10 * np.abs(push).max()
        assert np.abs(turning - turning[0]).max() < 1e-8 * np.linalg.norm(turning[0])
    else:  # the joint is at the frame's place, about which its momentum stays
        place = inputs.joint_frame[0, 0, :3]
        about = turning - np.cross(place, push)
        assert np.abs(about - about[0]).max() < 1e-8 * np.linalg.norm(about[0])


def test_a_compound_moves_as_the_one_body_that_it_is() -> None:
    """Under gravity and wrenches on each link, at their own centres of mass: it accelerates as links that armature holds."""
    model, inputs = compound(frames=4)
    draw = np.random.default_rng(5)
    inputs = replace(inputs, gravity=np.array([[0.3, 0.2, -9.81]]), link_wrench=0.1 * draw.normal(size=(1, 4, 4, 6)))
    inputs.link_wrench[:] = inputs.link_wrench[:, :1]
    jointed = replace(model, joint_type=("free", "revolute", "fixed", "free"), joint_axis=np.ones((4, 3)))
    q, qd = np.insert(inputs.joint_q0, 7, 0, axis=1), np.insert(inputs.joint_qd0, 6, 0, axis=1)
    loose = inputs_of(jointed, q, qd, material=(1e3, 2, 3, 0.5), frames=4)
    loose.joint_armature[0, 6] = 1e9  # holds the joint
    names = ("link_mass", "link_com", "link_inertia", "joint_frame", "gravity", "link_wrench")
    loose = replace(loose, **{name: getattr(inputs, name) for name in names})
    found = forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    wanted = forward_dynamics(jointed, loose, q, qd)
    np.testing.assert_allclose(found, np.delete(wanted, 6, axis=1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["free", "spherical"])
def test_adjoint_of_a_compound(kind: str) -> None:
    """Every input, with a link's corner in the ground and half a radian a step."""
    model, inputs = compound(kind, frames=1)
    draw = np.random.default_rng(0)
    inertia = 1e3 * inputs.link_inertia
    skew = 0.1 * inertia.max() * draw.uniform(-1, 1, inertia.shape)
    inputs = replace(
        inputs, link_wrench=draw.normal(size=(1, 1, 4, 6)), link_inertia=inertia + skew + np.swapaxes(skew, 2, 3),
        joint_qd0=inputs.joint_qd0 + draw.normal(size=inputs.joint_qd0.shape), gravity=np.array([[0.1, 0.2, -0.3]]),
        joint_q0=inputs.joint_q0 + 0.3 * draw.normal(size=inputs.joint_q0.shape),
    )  # fmt: skip
    model = replace(model, ground_height=0.6)
    seen = check_adjoint(model, inputs, ArticulatedSettings(dt=0.02, substeps=4), 15)
    assert {"joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_com", "link_inertia", "link_contact"} <= seen


@pytest.mark.parametrize("plan", ["world", "element"])
def test_adjoint_over_more_steps_than_are_summed_at_a_time(plan: str) -> None:
    """The world plan sums adjoints over 128 steps before they join the rest: 300 steps, sliding, against differences."""
    contact = {"position": (0, 0, -9e-4), "ke": 2e3, "kd": 30.0, "kf": 5.0, "mu": 0.4}  # at its centre, about as deep as at rest
    body = one_body(np.zeros((1, 3)), mass=MASS, inertia=INERTIA, spin=SPIN, velocity=(1, 2, 0), **contact)
    model, inputs = driven(*body, frames=1)
    solver = RigidSolver(model, RigidSettings(dt=1e-3, substeps=300, plan=plan))
    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    draw = np.random.default_rng(0)
    weights = draw.normal(size=rollout.body_q.shape), draw.normal(size=rollout.body_qd.shape)
    found = solver.rollout_adjoint(rollout, *weights)

    def loss(name: str, values: np.ndarray) -> float:
        frames = solver.rollout(replace(inputs, **{name: values}), 1)
        return float(np.sum(weights[0] * frames.body_q) + np.sum(weights[1] * frames.body_qd))

    for name in ("body_drag", "gravity", "body_mass", "body_inertia", "body_contact"):
        value = getattr(inputs, name)
        change = 1e-6 * value * draw.uniform(0.5, 1.5, value.shape)
        difference = (loss(name, value + change) - loss(name, value - change)) / 2
        assert np.sum(getattr(found, name) * change) == pytest.approx(difference, rel=1e-5), name


FAST = np.array([0.14, 4.0, 0.2]) / 1e-3  # 4 rad a step, nearly about the middle axis: the midpoint rule has no solution near


def spinning(solver: str, *spins: np.ndarray) -> tuple[object, object]:
    """A solver, and inputs with a world for every spin."""
    if solver == "rigid":
        model, inputs = one_body(np.zeros((0, 3)), mass=MASS, inertia=INERTIA, gravity=0.0)
        start = {"body_qd0": np.array([[[0, 0, 0, *spin]] for spin in spins])}
        run = RigidSolver(model, RigidSettings(dt=1e-3, substeps=4))
    else:
        model, inputs = link()
        start = {"joint_qd0": np.array([[0, 0, 0, *spin] for spin in spins])}
        run = ArticulatedSolver(model, ArticulatedSettings(dt=1e-3, substeps=4))
    given = {name: array for name, array in vars(inputs).items() if array is not None}
    return run, replace(inputs, **({name: np.concatenate([array] * len(spins)) for name, array in given.items()} | start))


@pytest.mark.parametrize("solver", ["rigid", "articulated"])
def test_a_step_without_solution_diverges_in_its_world_alone(solver: str) -> None:
    """The world beside it moves, and has gradients, as if nothing had happened."""
    outcomes = []
    for second in (SPIN, FAST):
        run, inputs = spinning(solver, SPIN, second)
        rollout = run.rollout(inputs, 2, adjoint=StoreAll())
        joints = (rollout.joint_q, rollout.joint_qd) if solver == "articulated" else ()
        bars = run.rollout_adjoint(rollout, *(np.ones_like(array) for array in (*joints, rollout.body_q, rollout.body_qd)))
        outcomes.append((rollout, bars.body_inertia if solver == "rigid" else bars.link_inertia))
    (calm, calm_bar), (wild, wild_bar) = outcomes
    assert calm.diverged_step.ravel().tolist() == [-1, -1] and wild.diverged_step.ravel().tolist() == [-1, 1]
    assert np.isnan(wild.body_q[1, 1:]).all() and np.isfinite(wild.body_q[1, 0]).all()
    np.testing.assert_array_equal(wild.body_q[0], calm.body_q[0])
    np.testing.assert_array_equal(wild_bar[0], calm_bar[0])
    assert np.abs(calm_bar[0]).max() > 0 and np.isnan(wild_bar[1]).all()
    run, inputs = spinning(solver, FAST)
    with pytest.raises(DivergenceError, match=r"step 1\b"):
        run.check_divergence(run.rollout(inputs, 2))


def carrier(joint: Joint, *, speed: float, integrator: str = "semi_implicit") -> Scene:
    """A box in free flight that carries another, for a minute at 1 ms."""
    scene = Scene(frame_dt=0.1, frames=600, substeps=100, gravity=(0.0, 0.0, 0.0), integrator=integrator)
    scene.add_rigid("base", shape=Box(0.1, 0.06, 0.03), density=1000.0, start=Start(angular_velocity=(0.0, speed, 0.0)))
    scene.add_link(
        "arm", frame=LinkFrame(parent="base", position=(0.1, 0.0, 0.0)), shape=Box(0.1, 0.06, 0.03), density=1000.0, joint=joint,
    )  # fmt: skip
    return scene


def test_a_fast_base_with_moving_links_is_told_and_no_other() -> None:
    hinge = Revolute(axis=(0.0, 0.0, 1.0))
    fast = carrier(hinge, speed=6.0)
    with pytest.warns(UserWarning, match="use integrator 'rk4'"):
        solver = fast.simulator.solver
    (sentence,) = spin_warnings(fast, solver.model)
    assert "'base' spins at 6 rad/s and has moving links" in sentence and "at least 2160 substeps" in sentence
    quiet = (carrier(hinge, speed=0.5), carrier(hinge, speed=6.0, integrator="rk4"), carrier(Fixed(), speed=6.0))
    assert [spin_warnings(scene, scene.simulator.solver.model) for scene in quiet] == [[], [], []]
