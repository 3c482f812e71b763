"""Spheres, capsules, cylinders and cones on the ground plane: they touch as the round bodies that they are."""

import numpy as np
import pytest
import torch

from risp_torch import Contact, LinkFrame, Prismatic, Scene, Start
from tests.reference import numpy_rigid
from tests.reference.articulated import motion
from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.articulated_robots import Link, Robot
from tests.reference.rigid_adjoints import rigid_gradcheck
from tests.reference.rigid_cases import GRAVITY, INPUT_NAMES, stacked, turned
from ti_sim import Box, Capsule, Cone, Cylinder, Shape, Sphere, contact_points, mass_properties
from ti_sim.articulated.model import ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import StoreAll

LYING = turned((0.0, 1.0, 0.0), np.pi / 2)  # axis along x


def body(
    shape: Shape, *, height: float, turn=(0.0, 0.0, 0.0, 1.0), velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0),
    material=(2e3, 4.0, 8.0, 0.5), density: float = 1000.0, per_area: bool = False,
) -> tuple[RigidModel, RigidInputs]:  # fmt: skip
    """One body in one world; ``height`` of its centre of mass."""
    solid = mass_properties(shape)
    model = RigidModel(("body",), (contact_points(shape, per_area=per_area),))
    nothing = np.zeros((1, 1, 3))
    return model, RigidInputs(
        np.array([[[0.0, 0.0, height, *turn]]]), np.array([[[*velocity, *spin]]], float),
        np.array([[density * solid.volume]]), density * solid.inertia_per_density[None, None], np.array([[material]], float),
        np.array([[0.0, 0.0, -GRAVITY]]), nothing, nothing,
    )  # fmt: skip


def zoo(seed: int = 3) -> tuple[RigidModel, RigidInputs]:
    """Bodies of every kind in two worlds, all of them touching the ground at random orientations."""
    shapes = (Sphere(0.03), Capsule(0.02, 0.04), Cylinder(0.03, 0.03), Cone(0.03, 0.05), Box(0.05, 0.04, 0.03))
    rng, worlds = np.random.default_rng(seed), []
    for _ in range(2):
        bodies = []
        for shape in shapes:
            patches = isinstance(shape, Box)
            model, inputs = body(
                shape, height=0.0, turn=rng.standard_normal(4), velocity=(*rng.uniform(-0.3, 0.3, 2), -0.2),
                spin=rng.uniform(-4, 4, 3), per_area=patches, material=(2e6, 3e3, 2e3, 0.4) if patches else (1e3, 1.0, 4.0, 0.4),
            )  # fmt: skip
            r = numpy_rigid.rotation(numpy_rigid.unit(inputs.body_q0[:, :, 3:]))
            inputs.body_q0[0, 0, 2] = -2e-3 - numpy_rigid.contact_arms(r, model.contact_points[0][None])[0][..., 2].min()
            bodies.append((model, inputs))
        joined = [np.concatenate(arrays, axis=1) for arrays in zip(*(i.arrays()[:5] for _, i in bodies), strict=True)]
        worlds.append(RigidInputs(*joined, *bodies[0][1].arrays()[5:]))
    model = RigidModel(tuple("abcde"), tuple(m.contact_points[0] for m, _ in bodies))
    return model, stacked(worlds)


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_every_kind_of_point_against_numpy(integrator: str) -> None:
    model, inputs = zoo()
    settings = RigidSettings(dt=5e-4, substeps=10, integrator=integrator, plan="world")
    wanted = numpy_rigid.rollout(model, settings, inputs, 12)
    assert {numpy_rigid.APART, numpy_rigid.STICKING, numpy_rigid.SLIDING} <= set(np.unique(wanted.pattern))
    rollout = RigidSolver(model, settings).rollout(inputs, 12)
    np.testing.assert_allclose(rollout.body_q, wanted.body_q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rollout.body_qd, wanted.body_qd, rtol=0, atol=1e-7)


def check(model: RigidModel, inputs: RigidInputs, settings: RigidSettings, *, frames: int = 2, few: int | None = 8) -> set[str]:
    """Compare the adjoint of a random loss with differences; the inputs that it reacts to."""
    step = {"body_q0": 1e-7, "body_qd0": 1e-6, "body_mass": 1e-7, "body_inertia": 1e-10, "body_contact": 1e-6, "gravity": 1e-5,
            "body_force": 1e-5, "force_point": 1e-6}  # fmt: skip
    report = rigid_gradcheck(
        RigidSolver(model, settings), inputs, INPUT_NAMES, frames, StoreAll(), step=step, rtol=2e-5, floor=1e-3, max_entries=few
    )
    report.raise_if_wrong()
    return {entry.name for entry in report.entries if entry.status == "ok"}


def test_adjoint_of_every_kind_of_point() -> None:
    model, inputs = zoo()
    settings = RigidSettings(dt=5e-4, substeps=4, plan="world")
    pattern = numpy_rigid.rollout(model, settings, inputs, 2).pattern
    touched = (pattern != numpy_rigid.APART).any(axis=(0, 1))
    assert touched.any(axis=1).all() and touched[2, :8].any() and touched[3, :5].any() and touched[4].any()
    reacts = check(model, inputs, settings, few=30)
    assert {"body_q0", "body_qd0", "body_mass", "body_inertia", "body_contact", "gravity"} <= reacts


def test_the_plan_by_elements_gives_the_same() -> None:
    model, inputs = zoo()
    results = []
    for plan in ("world", "element"):
        solver = RigidSolver(model, RigidSettings(dt=5e-4, substeps=4, plan=plan))
        rollout = solver.rollout(inputs, 2, adjoint=StoreAll())
        rng = np.random.default_rng(0)
        bars = rng.standard_normal(rollout.body_q.shape), rng.standard_normal(rollout.body_qd.shape)
        results.append((rollout.body_q, rollout.body_qd, *solver.rollout_adjoint(rollout, *bars).arrays()))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * max(np.abs(one).max(), 1e-300))


def test_a_cylinder_that_stands_upright_has_a_gradient() -> None:
    """Where the lowest point of its rims has no place; differences lead out of that region, and back on its other side."""
    model, inputs = body(Cylinder(0.03, 0.04), height=0.0198, velocity=(0.01, -0.02, 0.0), spin=(0.1, 0.2, 0.3))
    settings = RigidSettings(dt=5e-4, substeps=10)
    assert (numpy_rigid.rollout(model, settings, inputs, 2).pattern[..., :4] == numpy_rigid.STICKING).all()
    assert "body_q0" in check(model, inputs, settings, few=None)
    inputs.body_qd0[..., 3:] = 0.0
    assert "body_q0" in check(model, inputs, settings, few=None)  # and it stays upright to the last bit


def test_nothing_jumps_where_the_lowest_point_goes_around_the_rim() -> None:
    count, tilt = 24, 2e-3
    model, one = body(Cylinder(0.03, 0.04), height=0.0196, velocity=(0.0, 0.0, -0.1))
    inputs = stacked([one] * count)
    angles = 2 * np.pi * np.arange(count) / count + 0.1
    inputs.body_q0[:, 0, 3:] = [turned((np.cos(a), np.sin(a), 0.0), tilt) for a in angles]
    rollout = RigidSolver(model, RigidSettings(dt=5e-4, substeps=20)).rollout(inputs, 1)
    ahead = np.stack([np.cos(angles), np.sin(angles)], 1)
    spin, moved = rollout.body_qd[:, 1, 0, 3:], rollout.body_qd[:, 1, 0, :3]
    along = np.einsum("bi,bi->b", ahead, spin[:, :2])  # the cylinder rights itself about the axis of its tilt
    assert np.ptp(along) < 1e-9 * abs(along[0]) and along[0] < -0.05
    assert np.ptp(moved[:, 2]) < 1e-9 * abs(moved[0, 2])
    assert np.abs(spin[:, 2]).max() < 1e-12 and np.abs(spin[:, :2] - along[:, None] * ahead).max() < 1e-9


# --- rolling, through a scene ------------------------------------------------------------------------------------------------


def rolling_scene(shape: Shape, *, height: float, orientation=(0.0, 0.0, 0.0, 1.0), friction: float = 0.2) -> Scene:
    scene = Scene(frame_dt=0.02, frames=100, substeps=40)
    scene.add_ground(contact=Contact(stiffness=2e4, damping=20.0, friction_stiffness=100.0, friction=friction))
    scene.add_rigid("body", shape=shape, density=1000.0, start=Start(orientation=orientation, position=(0.0, 0.0, height)))
    return scene


ROUND = {  # shape, orientation, points that touch, moment of inertia per m r2 about the axis that it rolls about
    "sphere": (Sphere(0.05), (0.0, 0.0, 0.0, 1.0), 1, 0.4),
    "capsule": (Capsule(0.05, 0.1), LYING, 2, (0.5 * 0.1 + 0.4 * 4 / 3 * 0.05) / (0.1 + 4 / 3 * 0.05)),
    "cylinder": (Cylinder(0.05, 0.1), LYING, 2, 0.5),
}


@pytest.mark.parametrize("kind", ROUND)
def test_round_bodies_slide_and_then_roll_without_loss(kind: str) -> None:
    """Closed forms: v = v0 - mu g t while sliding; then v0 / (1 + I / m r2), for ever. Axis along x, motion along y."""
    shape, orientation, points, moment = ROUND[kind]
    mass = 1000.0 * mass_properties(shape).volume
    scene = rolling_scene(shape, height=0.05 - mass * GRAVITY / (points * 2e4), orientation=orientation)
    speed = 0.5
    with torch.no_grad():
        states = scene.rollout({"body.velocity": torch.tensor([0.0, speed, 0.0])})
    v, w = states.body_qd[0, :, 0, 1].cpu().numpy(), states.body_qd[0, :, 0, 3].cpu().numpy()
    early = np.arange(3)  # it rolls after v0 / (mu g) / (1 + m r2 / I), a few frames
    np.testing.assert_allclose(v[early], speed - 0.2 * GRAVITY * 0.02 * early, atol=1e-9)
    np.testing.assert_allclose(w[early], -0.2 * GRAVITY / (moment * 0.05) * 0.02 * early, atol=1e-8)
    np.testing.assert_allclose(v[30:], speed / (1 + moment), rtol=1e-9)
    np.testing.assert_allclose(w[30:], -v[30:] / 0.05, rtol=1e-9)
    with torch.no_grad():
        given = {"body.velocity": [0.0, speed, 0.0], "body.angular_velocity": [-speed / 0.05, 0.0, 0.0]}
        states = scene.rollout({name: torch.tensor(value) for name, value in given.items()})
    np.testing.assert_allclose(states.body_qd[0, -1, 0, 1], speed, rtol=1e-9)  # 0.31 m/s after 2 s as a polyhedron
    np.testing.assert_allclose(states.body_q[0, -1, 0, 1], speed * 2.0, rtol=1e-9)
    np.testing.assert_allclose(states.body_q[0, :, 0, 2], states.body_q[0, 0, 0, 2], atol=1e-12)


def test_a_cylinder_stands_and_rights_itself() -> None:
    shape = Cylinder(0.03, 0.05)
    weight = 1000.0 * mass_properties(shape).volume * GRAVITY
    scene = rolling_scene(shape, height=0.026)
    with torch.no_grad():
        states = scene.rollout({"body.rotation": torch.tensor([[0.0, 0.0, 0.0], [0.02, 0.01, 0.0]])})
    height = states.body_q[:, -1, 0, 2].cpu().numpy()
    np.testing.assert_allclose(height, 0.025 - weight / (4 * 2e4), atol=1e-7)
    tilt = 2 * states.body_q[:, -1, 0, 3:5].norm(dim=-1).cpu().numpy()
    assert tilt[0] < 1e-9 and tilt[1] < 1e-4


# --- links -------------------------------------------------------------------------------------------------------------------


def cart() -> Robot:
    """A body with a rim, a ball and patches of its own, and a wheel on an axle, all of which touch the ground."""
    sheet = contact_points(Box(0.1, 0.1, 0.1), per_area=True)
    sheet[:, 5:] *= 300.0  # so that shares are about one
    rows = np.concatenate([contact_points(Cone(0.08, 0.1)), sheet])
    body = Link(-1, "free", mass=0.5, inertia=0.02 * np.diag([1.0, 1.2, 1.5]), com=(0.01, 0.02, -0.01), points=rows)
    wheel = Link(
        0, "revolute", axis=(0.0, 0.1, 1.0), position=(0.09, 0.0, 0.0), turn=turned((1.0, 0.0, 0.0), 1.3), mass=0.2,
        inertia=0.01 * np.eye(3), com=(0.0, 0.01, 0.01), points=contact_points(Cylinder(0.06, 0.04)),
    )  # fmt: skip
    return Robot((body, wheel))


def test_adjoint_of_links_with_every_kind_of_point() -> None:
    model, inputs = cart().model(), cart().inputs(frames=2)
    inputs.joint_q0[0] = [0.1, 0.2, 0.045, *turned((1.0, 2.0, 0.3), 0.25), 0.4]
    inputs.joint_qd0[0] = [0.3, -0.1, -0.1, 0.4, 0.3, -0.5, 2.0]
    inputs.link_contact[:] = (600.0, 2.0, 3.0, 0.3)
    touching = []
    now = motion(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    for i, points in enumerate(model.contact_points):
        arm, _share = numpy_rigid.contact_arms(now.rotation[:, i : i + 1], points[None])
        height = now.position[0, i, 2] + (now.rotation[0, i] @ inputs.link_com[0, i])[2] + arm[0, 0, :, 2]
        touching.append({"patch" if kind == 5 else "rim" for kind in points[height < 0, 4]})
    assert touching == [{"rim", "patch"}, {"rim"}]
    reacts = check_adjoint(model, inputs, ArticulatedSettings(1e-3, 4), few=9)
    assert {"joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_com", "link_inertia", "link_contact"} <= reacts


def test_a_wheel_that_is_a_link_rolls_as_one() -> None:
    """A wheel on a free joint: sliding ends at two thirds of the speed. Its frame is not in its centre of mass."""
    radius, com, mass = 0.05, np.array([0.0, 0.0, 0.03]), 0.3
    robot = Robot((Link(-1, "free", mass=mass, com=com, inertia=mass * radius**2 * np.diag([0.3, 0.3, 0.5]),
                        points=contact_points(Cylinder(radius, 0.04))),))  # fmt: skip
    inputs = robot.inputs()
    inputs.joint_q0[0] = [-com[2], 0.0, radius - mass * GRAVITY / (2 * 4e3), *LYING]
    inputs.joint_qd0[0, 1] = 0.6
    inputs.link_contact[:] = (4e3, 4.0, 40.0, 0.3)
    rollout = ArticulatedSolver(robot.model(), ArticulatedSettings(5e-4, 2000)).rollout(inputs, 1)
    np.testing.assert_allclose(rollout.body_qd[0, 1, 0], [0.0, 0.4, 0.0, -0.4 / radius, 0.0, 0.0], atol=1e-6)


def test_a_link_rests_on_its_area() -> None:
    height, stiffness = 0.04, 1e6
    scene = Scene(frame_dt=0.4, frames=1, substeps=400)
    scene.add_ground(contact=Contact(stiffness=stiffness, damping=1e4, friction_stiffness=8e3, friction=0.4, per="area"))
    scene.add_link(
        "foot", joint=Prismatic(axis=(0.0, 0.0, 1.0)), shape=Box(0.06, 0.05, height), density=800.0,
        frame=LinkFrame(position=(0.0, 0.0, 0.5 * height)),
    )  # fmt: skip
    with torch.no_grad():
        depth = 0.5 * height - scene.rollout().body_q[0, -1, 0, 2].item()
    assert depth == pytest.approx(800.0 * height * GRAVITY / stiffness, rel=1e-6)
