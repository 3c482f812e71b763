"""Contact and joint forces at states: Newton's law over a step, reactions, and derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from risp_torch import (
    Bending,
    Box,
    Contact,
    DivergenceError,
    Elastic,
    Fixed,
    Forces,
    ImplicitSettings,
    LinkFrame,
    Prismatic,
    Revolute,
    Scene,
    Shell,
    SolverOptions,
    Sphere,
    Spherical,
    Start,
    State,
    UserError,
)
from risp_torch.scene.simulation.uncoupled import UncoupledSolvers
from tests.reference.gradients_in_worlds import check_torch_in_worlds
from ti_sim.meshes import box_tets, sheet_grid

DT = 5e-4
GRAVITY = torch.tensor([0.0, 0.0, -9.81], dtype=torch.float64)
FIRM = {"stiffness": 5000.0, "damping": 20.0, "friction_stiffness": 20.0, "friction": 0.5}


def tumbling(integrator: str = "semi_implicit", dt: float = DT, **contact: float) -> Scene:
    """A box and a ball that slide on the ground, one step a frame."""
    scene = Scene(frame_dt=dt, frames=6, substeps=1, integrator=integrator)
    scene.add_ground(contact=Contact(**FIRM, **contact))
    start = Start(
        position=(0.0, 0.0, 0.029), velocity=(0.3, 0.1, -0.2), angular_velocity=(0.5, 1.0, 2.0), rotation=(0.02, 0.1, 0.2)
    )  # fmt: skip
    scene.add_rigid("box", shape=Box(0.1, 0.08, 0.06), mass=0.5, start=start)
    start = Start(position=(1.0, 0.0, 0.0495), velocity=(0.1, 0.0, 0.0))
    scene.add_rigid("ball", shape=Sphere(radius=0.05), mass=0.2, start=start)
    return scene


def gripping() -> Scene:
    """A finger with dry friction, a limit and a motor presses a box against a wall, with bristles; one step a frame."""
    scene, firm = Scene(frame_dt=DT, frames=6, substeps=1), Contact(**FIRM, bristle_stiffness=2000.0)
    joint = Prismatic(
        axis=(1.0, 0.0, 0.0), rate=0.02, stiffness=500.0, rest=0.01, damping=20.0, limit_low=-0.1, limit_high=-0.0002,
        limit_stiffness=900.0, dry_friction=0.3, dry_stiffness=300.0, dry_damping=2.0,
    )  # fmt: skip
    finger = {"shape": Box(0.02, 0.02, 0.02), "mass": 0.1, "contact": firm, "collision": True}
    scene.add_link("finger", joint=joint, frame=LinkFrame(position=(-0.0298, 0.0, 0.3)), **finger)
    scene.add_link("wall", joint=Fixed(), frame=LinkFrame(position=(0.0298, 0.0, 0.3)), **finger)
    start = Start(position=(0.0, 0.0, 0.3), velocity=(0.0, 0.0, -0.1), rotation=(0.0, 0.01, 0.02))
    scene.add_rigid("box", shape=Box(0.04, 0.04, 0.04), mass=0.2, start=start, contact=firm, collision=True)
    scene.add_motors("squeeze", joints=["finger"], actions=np.linspace(-1.0, 1.0, 6)[:, None], gain=2.0)
    return scene


def soft_on_arm() -> Scene:
    """A soft block between an arm and the ground; one step a frame."""
    scene = Scene(frame_dt=DT, frames=6, substeps=1)
    contact = Contact(stiffness=400.0, damping=1.0, friction_stiffness=2.0, friction=0.3)
    scene.add_ground(contact=contact)
    scene.add_link(
        "arm", shape=Sphere(radius=0.06), joint=Revolute(axis=(0.0, 1.0, 0.0), angle=0.1, damping=0.01, stiffness=0.5), mass=0.4,
        frame=LinkFrame(length=0.2, position=(0.0, 0.0, 0.345)), contact=contact, collision=True,
    )  # fmt: skip
    scene.add_solid(
        "block", mesh=box_tets((0.2, 0.2, 0.1), (2, 2, 1)), material=Elastic(E=2e3, nu=0.3, damping=3.0), density=300.0,
        start=Start(position=(0.01, 0.0, 0.049), rotation=(0.0, 0.01, 0.1), velocity=(0.1, 0.0, -0.05)), contact=contact,
    )  # fmt: skip
    return scene


def kneeling() -> Scene:
    """Two links, the second one on the ground."""
    scene = Scene(frame_dt=DT, frames=6, substeps=1)
    scene.add_ground(contact=Contact(**FIRM))
    joint = Revolute(axis=(0.0, 1.0, 0.0), angle=0.4, rate=0.5, stiffness=2.0, rest=0.1, damping=0.02)
    scene.add_link(
        "thigh", shape=Box(0.04, 0.04, 0.2), joint=joint, mass=0.3, frame=LinkFrame(length=0.2, position=(0.0, 0.0, 0.36)),
    )  # fmt: skip
    joint = Spherical(turn=(0.1, -0.3, 0.2), rate=(0.3, 0.1, 0.2), stiffness=0.7, damping=0.01)
    scene.add_link(
        "shin", frame=LinkFrame(parent="thigh", length=0.1, position=(0.0, 0.0, -0.2)), shape=Box(0.05, 0.04, 0.2), joint=joint,
        mass=0.2,
    )  # fmt: skip
    return scene


def pendulum() -> Scene:
    """A damped pendulum with a spring and a motor; one step a frame."""
    scene = Scene(frame_dt=DT, frames=4, substeps=1)
    joint = Revolute(axis=(0.0, 1.0, 0.0), angle=0.7, rate=-1.0, stiffness=0.4, rest=0.1, damping=0.02)
    scene.add_link("rod", shape=Sphere(radius=0.02), joint=joint, mass=0.3, frame=LinkFrame(length=0.5, position=(0.0, 0.0, 1.0)))
    scene.add_motors("drive", joints=["rod"], actions=np.array([[0.5], [-0.2], [3.0], [0.1]]), gain=0.2, limit=0.25)
    return scene


def landing() -> Scene:
    """A body with two rotors on the ground; one step a frame."""
    scene = Scene(frame_dt=DT, frames=6, substeps=1)
    scene.add_ground(contact=Contact(**FIRM))
    start = Start(position=(0.0, 0.0, 0.029), velocity=(0.2, 0.1, -0.2), rotation=(0.02, 0.1, 0.2))
    scene.add_rigid("copter", shape=Box(0.1, 0.08, 0.06), mass=0.5, start=start)
    scene.add_rotors(
        "rotors", body="copter", positions=np.array([(0.05, 0.0, 0.03), (-0.05, 0.0, 0.03)]), yaw_reaction=(0.02, -0.02),
        actions=np.linspace((1.0, 2.0), (2.0, 1.5), 6),
    )  # fmt: skip
    return scene


def folded() -> Scene:
    """A cloth that slides on another one in free fall; one step a frame."""
    scene = Scene(frame_dt=DT, frames=6, substeps=1)
    material = Shell(mu=100.0, lam=60.0, damping=0.05, bending=Bending(stiffness=2e-4))
    for name, mesh, start in (
        ("lower", sheet_grid((0.2, 0.2), (2, 2)), Start(position=(0.0, 0.0, 1.0))),
        ("upper", sheet_grid((0.16, 0.12), (2, 1)), Start(
            position=(0.01, 0.02, 1.008), rotation=(0.0, 0.02, 0.3), velocity=(0.3, 0.1, -0.5),
        )),
    ):  # fmt: skip
        scene.add_cloth(name, mesh=mesh, material=material, density=0.5, start=start)
    contact = Contact(stiffness=300.0, damping=0.5, friction_stiffness=0.5, friction=0.4)
    scene.add_self_contact(contact=contact, thickness=0.01)
    return scene


def apart() -> Scene:
    """A box and a soft block that slide on the ground and do not meet, each with a separate solver; one step a frame."""
    scene = Scene(frame_dt=DT, frames=6, substeps=1)
    scene.add_ground(contact=Contact(stiffness=400.0, damping=1.0, friction_stiffness=2.0, friction=0.3))
    start = Start(position=(1.0, 0.0, 0.028), velocity=(0.3, 0.1, -0.2), rotation=(0.02, 0.1, 0.2))
    scene.add_rigid("box", shape=Box(0.1, 0.08, 0.06), mass=0.5, start=start)
    scene.add_solid(
        "block", mesh=box_tets((0.2, 0.2, 0.1), (1, 1, 1)), material=Elastic(E=2e3, nu=0.3, damping=3.0), density=300.0,
        start=Start(position=(0.0, 0.0, 0.048), rotation=(0.0, 0.01, 0.1), velocity=(0.1, 0.0, -0.05)),
    )  # fmt: skip
    return scene


def implicit(integrator: str) -> Scene:
    """A soft block that slides on the ground, one implicit step a frame."""
    scene = Scene(
        frame_dt=0.005, frames=4, substeps=1, integrator=integrator,
        solver=SolverOptions(implicit=ImplicitSettings(tolerance=1e-12)),
    )  # fmt: skip
    scene.add_ground(contact=Contact(stiffness=200.0, damping=0.5, friction_stiffness=1.0, friction=0.3))
    scene.add_solid(
        "block", mesh=box_tets((0.2, 0.2, 0.1), (1, 1, 1)), material=Elastic(E=2e3, nu=0.3), density=300.0,
        start=Start(position=(0.0, 0.0, 0.048), velocity=(0.1, 0.05, -0.1)),
    )  # fmt: skip
    return scene


def steps(scene: Scene, frames: int, parameters: dict[str, torch.Tensor] | None = None) -> list[State]:
    states = [scene.state(parameters)]
    for _ in range(frames):
        states.append(scene.step(states[-1], parameters))
    return states


def rotated(quaternion: torch.Tensor, vector: tuple[float, float, float]) -> torch.Tensor:
    """The vector [3] in world axes, turned by a quaternion (x, y, z, w)."""
    axis, vector = quaternion[:3], torch.tensor(vector, dtype=torch.float64)
    across = 2 * torch.linalg.cross(axis, vector)
    return vector + quaternion[3] * across + torch.linalg.cross(axis, across)


def assert_close(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("contact", [{}, {"bristle_stiffness": 1000.0}], ids=["viscous", "bristles"])
def test_the_ground_changes_momenta_of_rigid_bodies(contact: dict[str, float]) -> None:
    scene = tumbling(**contact)
    parameters = {"ground.contact.stiffness": torch.tensor([5000.0, 8000.0], dtype=torch.float64)}
    states = steps(scene, 4, parameters)
    forces = scene.forces(states, parameters)
    mass = torch.tensor([0.5, 0.2], dtype=torch.float64)[:, None]
    assert forces.contacts == (("box", "ground"), ("ball", "ground")) and forces.contact.shape == (2, 5, 2, 6)
    assert_close(forces.contact, forces.body_contact)
    for t in range(4):
        force, torque = forces.body_contact[:, t].split(3, dim=-1)
        assert force[..., 2].min() > 0.1
        assert_close(force, mass * ((states[t + 1].body_qd - states[t].body_qd)[..., :3] / DT - GRAVITY))
        if t:
            assert_close(torque, (states[t + 1].body_momentum - states[t].body_momentum) / DT)
        one = scene.forces(states[t], parameters)
        assert_close(one.body_contact, forces.body_contact[:, t])


def test_forces_of_a_motion_are_those_of_its_states() -> None:
    scene = tumbling()
    motion = scene.rollout(frames=4)
    forces, expected = scene.forces(motion), scene.forces(steps(scene, 4))
    for name, array in expected.arrays().items():
        assert_close(forces.arrays()[name], array)
    continued = scene.rollout(frames=2, state=scene.step(scene.state()))
    assert_close(scene.forces(continued).contact, forces.contact[:, 1:4])


def test_a_body_at_rest_carries_its_weight() -> None:
    scene = Scene(frame_dt=0.02, frames=25, substeps=20)
    scene.add_ground(contact=Contact(stiffness=4000.0, damping=80.0, friction_stiffness=20.0, friction=0.5))
    scene.add_rigid("box", shape=Box(0.1, 0.08, 0.06), mass=0.5, start=Start(position=(0.0, 0.0, 0.0299)))
    last = scene.forces(scene.rollout().last).body_contact[0, 0]
    torch.testing.assert_close(last[:3], -0.5 * GRAVITY, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(last[3:], torch.zeros(3, dtype=torch.float64), rtol=0.0, atol=1e-7)


def test_bodies_that_touch_exchange_equal_and_opposite_forces() -> None:
    scene = gripping()
    states = steps(scene, 4)
    forces = scene.forces(states)
    assert forces.contacts == (("finger", "wall"), ("finger", "box"), ("wall", "box"))
    finger, wall, box = forces.body_contact.unbind(dim=2)
    assert_close((finger + wall + box)[..., :3], torch.zeros_like(box[..., :3]))
    assert_close(forces.contact[:, :, 1], finger)
    assert finger[..., 0].abs().min() > 0.1 and wall[..., 1:3].abs().max() > 1e-3
    position = torch.stack([state.body_q[..., :3] for state in states], dim=1)
    moment = torch.linalg.cross(position, forces.body_contact[..., :3]) + forces.body_contact[..., 3:]
    assert_close(moment.sum(dim=2), torch.zeros_like(moment[:, :, 0]))
    for t in range(4):
        change = (states[t + 1].body_qd - states[t].body_qd)[:, 2, :3] / DT
        assert_close(box[:, t, :3], 0.2 * (change - GRAVITY))
        rate = (states[t + 1].joint_qd - states[t].joint_qd)[:, 0] / DT
        assert_close(forces.joint[:, t, 0] + finger[:, t, 0], 0.1 * rate)
    assert (forces.joint_limit[:, -1, 0] < 0).all() and (forces.joint_friction[:, -1, 0] != 0).all()


def test_joint_forces_of_a_pendulum() -> None:
    scene = pendulum()
    states = steps(scene, 3)
    forces = scene.forces(states)
    angle, rate = (torch.stack([getattr(state, name)[0, 0] for state in states]) for name in ("joint_q", "joint_qd"))
    # The motor is clamped in the third interval, whose row the last state has, too.
    assert_close(forces.joint_motor[0, :, 0], torch.tensor([0.1, -0.04, 0.25, 0.25], dtype=torch.float64))
    assert_close(forces.joint_passive[0, :, 0], -0.4 * (angle - 0.1) - 0.02 * rate)
    action = torch.tensor([[1.0]], dtype=torch.float64)
    assert_close(scene.forces(states[0], actions=action).joint_motor, torch.tensor([[0.2]], dtype=torch.float64))
    of_motion = scene.forces(scene.rollout(frames=1), actions=action[None])
    assert_close(of_motion.joint_motor, torch.full((1, 2, 1), 0.2, dtype=torch.float64))


def test_the_power_of_joint_forces_is_the_rate_of_the_energy() -> None:
    scene = Scene(frame_dt=2e-3, frames=400, substeps=20)
    joint = Revolute(axis=(0.0, 1.0, 0.0), angle=0.7, damping=0.05)
    scene.add_link("rod", shape=Sphere(radius=0.02), joint=joint, mass=0.3, frame=LinkFrame(length=0.5, position=(0.0, 0.0, 1.0)))
    motion = scene.rollout()
    power = (scene.forces(motion).joint * motion.joint_qd)[0, :, 0]
    height, speed, spin = motion.body_q[0, :, 0, 2], motion.body_qd[0, :, 0, :3], motion.body_qd[0, :, 0, 3:]
    energy = 0.3 * (9.81 * height + 0.5 * (speed**2).sum(dim=-1)) + 0.5 * 0.4 * 0.3 * 0.02**2 * (spin**2).sum(dim=-1)
    work = torch.trapezoid(power, dx=2e-3)
    assert work < -0.1
    torch.testing.assert_close(work, energy[-1] - energy[0], rtol=2e-3, atol=0.0)


def test_forces_on_particles_change_their_momentum() -> None:
    scene = soft_on_arm()
    states = steps(scene, 3)
    forces = scene.forces(states)
    mass = scene.simulator.adapter.particles.inputs(scene.table.values(), frames=1).particle_mass[0, :, None]
    assert forces.contacts == (("arm", "ground"), ("arm", "block"))
    for t in range(3):
        change = mass * (states[t + 1].particle_qd - states[t].particle_qd) / DT
        assert_close(forces.particle_contact[:, t].sum(dim=1), change.sum(dim=1) - mass.sum() * GRAVITY)
    on_arm = forces.contact[:, :, 1, :3]
    assert on_arm[..., 2].min() > 0.1
    ground = scene.simulator.solver.forces(scene.simulator.adapter.with_state(
        scene.simulator.adapter.inputs(scene.table.values(), frames=1), states[0]
    ))[3].sum(dim=1)  # fmt: skip
    assert ground[..., 2].min() > 0.1
    assert_close(forces.particle_contact[:, 0].sum(dim=1), ground - on_arm[:, 0])


@pytest.mark.parametrize("integrator", ["backward_euler", "bdf2", "sdirk2"])
def test_forces_at_the_end_of_implicit_steps(integrator: str) -> None:
    scene = implicit(integrator)
    states = steps(scene, 3)
    forces = scene.forces(states)
    mass = scene.simulator.adapter.inputs(scene.table.values(), frames=1).particle_mass[0, :, None]
    share = 1 - 0.5**0.5
    for t in (2, 3):
        before, last = states[t - 1].particle_qd, states[t].particle_qd
        first_stage, further = states[t].particle_history[:, 0, :, 3:], (1 - share) / share
        start, time = {
            "backward_euler": (before, 1.0), "bdf2": ((4 * before - states[t - 2].particle_qd) / 3, 2 / 3),
            "sdirk2": (further * first_stage + (1 - further) * before, share),
        }[integrator]  # fmt: skip
        expected = (mass * ((last - start) / (time * 0.005) - GRAVITY)).sum(dim=1)
        assert expected[0, 2] > 1.0 and expected[0, 0] < -1e-3
        torch.testing.assert_close(forces.particle_contact[:, t].sum(dim=1), expected, rtol=1e-8, atol=1e-8)
        assert_close(scene.forces(states[t]).particle_contact, forces.particle_contact[:, t])


def test_the_ground_and_rotors_change_the_momentum_of_their_body() -> None:
    """Thrusts are loads beside the contact: the body's momentum changes by both, and by gravity."""
    scene = landing()
    states = steps(scene, 4)
    forces = scene.forces(states)
    thrusts = torch.from_numpy(np.linspace((1.0, 2.0), (2.0, 1.5), 6))
    lever = torch.tensor([0.05, -0.05], dtype=torch.float64)
    for t in range(1, 4):
        force, torque = forces.body_contact[0, t, 0].split(3)
        up = rotated(states[t].body_q[0, 0, 3:], (0.0, 0.0, 1.0))
        thrust = thrusts[t].sum() * up
        assert force[2] > 0.1
        assert_close(force + thrust, 0.5 * ((states[t + 1].body_qd - states[t].body_qd)[0, 0, :3] / DT - GRAVITY))
        arm = lever[:, None] * rotated(states[t].body_q[0, 0, 3:], (1.0, 0.0, 0.0)) + 0.03 * up
        moment = torch.linalg.cross(arm, thrusts[t][:, None] * up).sum(dim=0) + 0.02 * (thrusts[t][0] - thrusts[t][1]) * up
        assert_close(torque + moment, (states[t + 1].body_momentum - states[t].body_momentum)[0, 0] / DT)


def test_cloths_that_touch_exchange_equal_and_opposite_forces() -> None:
    scene = folded()
    states = steps(scene, 4)
    forces = scene.forces(states)
    mass = scene.simulator.adapter.inputs(scene.table.values(), frames=1).particle_mass[0, :, None]
    assert_close(forces.particle_contact.sum(dim=2), torch.zeros(1, 5, 3, dtype=torch.float64))
    for t in range(4):
        change = mass * ((states[t + 1].particle_qd - states[t].particle_qd) / DT - GRAVITY)
        for cloth in (slice(9), slice(9, None)):
            assert_close(forces.particle_contact[:, t, cloth].sum(dim=1), change[:, cloth].sum(dim=1))
        assert forces.particle_contact[0, t, 9:, 2].sum() > 0.1


def test_forces_of_two_solvers_are_those_of_each() -> None:
    scene = apart()
    assert isinstance(scene.simulator.adapter, UncoupledSolvers)
    states = steps(scene, 4)
    forces = scene.forces(states)
    assert forces.contacts == (("box", "ground"),)
    mass = scene.simulator.adapter.particles.inputs(scene.table.values(), frames=1).particle_mass[0, :, None]
    for t in range(4):
        change = (states[t + 1].body_qd - states[t].body_qd)[..., :3] / DT - GRAVITY
        assert forces.body_contact[0, t, 0, 2] > 0.1
        assert_close(forces.body_contact[:, t, :, :3], 0.5 * change)
        change = mass * ((states[t + 1].particle_qd - states[t].particle_qd) / DT - GRAVITY)
        assert forces.particle_contact[0, t, :, 2].sum() > 0.1
        assert_close(forces.particle_contact[:, t].sum(dim=1), change.sum(dim=1))


def test_the_force_of_rk4_is_that_of_its_first_stage() -> None:
    """It is the force of a semi-implicit step from the same state; steps change the momentum by it, up to their square."""
    errors = []
    for dt in (2e-5, 1e-5):
        scene = tumbling("rk4", dt)
        states = steps(scene, 2)
        force = scene.forces(states).body_contact[0, 1]
        assert force[:, 2].min() > 0.1
        assert_close(force, tumbling(dt=dt).forces(states[1]).body_contact[0])
        mass = torch.tensor([0.5, 0.2], dtype=torch.float64)[:, None]
        change = mass * ((states[2].body_qd - states[1].body_qd)[0, :, :3] / dt - GRAVITY)
        errors.append(float((change - force[:, :3]).norm() / force[:, :3].norm()))
    assert errors[0] < 0.05 and errors[1] == pytest.approx(errors[0] / 2, rel=0.1)


def arrays_of(state: State) -> dict[str, np.ndarray]:
    skipped = ("body_q", "body_qd") if state.joint_q is not None else ("particle_driving",)
    skipped += ("particle_q", "particle_qd") if state.particle_history is not None else ()
    return {name: array.detach().cpu().numpy() for name, array in state.arrays().items() if name not in skipped}


GRADIENTS: dict[str, tuple[Callable[[], Scene], tuple[str, ...]]] = {
    "rigid": (lambda: tumbling(bristle_stiffness=1000.0), ("ground.contact.stiffness", "ground.contact.bristle_stiffness")),
    "links": (gripping, (
        "finger.stiffness", "finger.dry_friction", "finger.limit_high", "squeeze.actions", "finger.contact.stiffness",
        "finger.contact.bristle_stiffness",
    )),
    "links on the ground": (kneeling, ("thigh.stiffness", "shin.length", "ground.contact.stiffness")),
    "bdf2": (lambda: implicit("bdf2"), ("ground.contact.stiffness", "ground.contact.friction")),
    "sdirk2": (lambda: implicit("sdirk2"), ("ground.contact.damping", "ground.contact.friction_stiffness")),
    "rk4": (lambda: tumbling("rk4"), ("ground.contact.stiffness", "ground.contact.friction")),
    "rotors": (landing, ("copter.mass", "ground.contact.stiffness", "ground.contact.friction_stiffness")),
    "self-contact": (folded, ("self_contact.stiffness", "self_contact.damping", "self_contact.friction")),
    "uncoupled": (apart, ("ground.contact.stiffness", "ground.contact.damping")),
    "coupled": (soft_on_arm, (
        "arm.stiffness", "arm.contact.stiffness", "block.contact.stiffness", "block.contact.friction_stiffness",
    )),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    make, names = GRADIENTS[name]
    scene = make()
    state = steps(scene, 3)[-1].detach()
    point = {name: array[0] for name, array in arrays_of(state).items()}
    point |= {name: np.asarray(scene.parameters[name].value, dtype=np.float64) for name in names}

    def losses(leaves: dict[str, torch.Tensor]) -> torch.Tensor:
        parameters = {key: leaves[key] for key in names}
        arrays = {key: leaves[key] for key in leaves if key not in names}
        if "particle_history" in arrays:
            arrays["particle_q"], arrays["particle_qd"] = arrays["particle_history"][:, -1].detach().split(3, dim=-1)
        total = torch.zeros((), dtype=torch.float64)
        forces = scene.forces(State(frame=state.frame, **arrays), parameters)
        contact = forces.particle_contact if forces.contact is None else forces.contact[..., :3]
        assert (contact.abs().flatten(1).amax(dim=1) > 0.1).all()
        for key, array in forces.arrays().items():
            weights = torch.randn(array.shape[1:], generator=torch.Generator().manual_seed(len(key)), dtype=torch.float64)
            total = total + (weights * array).flatten(1).sum(dim=1)
        return total

    check_torch_in_worlds(losses, point, step=1e-7, rtol=1e-4, atol=1e-5, max_entries=6).raise_if_wrong()


def test_worlds_that_diverged_have_no_forces() -> None:
    scene = tumbling()
    parameters = {"box.mass": torch.tensor([0.5, 0.6], dtype=torch.float64)}
    state = scene.state(parameters)
    broken = state.replace(body_q=torch.where(torch.tensor([False, True])[:, None, None], torch.nan, state.body_q))
    forces = scene.forces(broken, parameters)
    assert forces.body_contact[1].isnan().all()
    assert_close(forces.body_contact[0], scene.forces(state, parameters).body_contact[0])
    with pytest.raises(DivergenceError, match="every world of the state at frame 0 has diverged"):
        scene.forces(state.map(lambda array: array * torch.nan), parameters)


def test_a_diverged_state_leaves_derivatives_of_the_other_states() -> None:
    scene = tumbling()
    states = steps(scene, 2)
    broken = states[1].map(lambda array: array * torch.nan)
    assert broken.body_momentum is not None
    mass = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        scene.forces([states[0], broken, states[2]], {"box.mass": mass}).body_contact[:, 2].sum(), mass
    )
    assert gradient.isfinite()


def smoky() -> Scene:
    scene = Scene(frame_dt=0.04, frames=1, substeps=1)
    scene.add_smoke("smoke", cells=(4, 4), cell=0.25)
    return scene


def adaptive() -> Scene:
    scene = Scene(frame_dt=0.01, frames=1, substeps=8, solver=SolverOptions(adaptive=True))
    scene.add_solid("block", mesh=box_tets((0.2, 0.2, 0.1), (1, 1, 1)), material=Elastic(E=2e3, nu=0.3), density=300.0)
    return scene


@pytest.mark.parametrize(
    ("make", "states", "words"),
    [
        (smoky, lambda scene: scene.rollout(frames=1), "smoke is smoke, which has no contact and no joint forces"),
        (smoky, Scene.state, "smoke is smoke, which has no contact and no joint forces"),
        (lambda: implicit("bdf2"), lambda scene: scene.rollout(frames=1), "forces of 'bdf2' depend on the latest stages, which"),
        (adaptive, Scene.state, "contact forces are means over a step, and each world of an adaptive scene has its own"),
        (gripping, lambda scene: scene.rollout(frames=1), "friction of this scene has bristles, whose displacements a motion"),
        (tumbling, lambda scene: gripping().state(), "state.body_q has shape (1, 3, 7), and this scene in 1 worlds"),
        (tumbling, lambda scene: [scene.state(), scene.state()], "the states are of the frames 0, 0: give successive ones"),
        (tumbling, lambda scene: [], "there are no states: give at least one"),
    ],
)  # fmt: skip
def test_what_has_no_forces_is_refused(make: Callable[[], Scene], states: Callable[[Scene], object], words: str) -> None:
    scene = make()
    with pytest.raises(UserError, match=re.escape(words)):
        scene.forces(states(scene))


def test_second_derivatives_are_refused() -> None:
    scene = tumbling()
    state = scene.state({"box.mass": torch.tensor(0.5, dtype=torch.float64, requires_grad=True)})
    stiffness = torch.tensor(5000.0, dtype=torch.float64, requires_grad=True)
    loss = scene.forces(state, {"ground.contact.stiffness": stiffness}).contact.sum()
    (rate,) = torch.autograd.grad(loss, stiffness, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate contact forces twice"):
        rate.backward()


def test_joint_sums_are_none_without_joints() -> None:
    assert Forces().joint is None and not Forces().arrays()
