"""The elastic contact of boxes and meshes has a potential: no work around closed paths, no energy from collisions."""


import numpy as np
import pytest

from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.contact_cases import CUBE, FLOOR, as_mesh, at, bodies, inputs_of, simulate
from ti_sim import Box, Cone, Cylinder, damping_for_restitution
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics
from ti_sim.contact.collision import CollisionShape, mesh_shape

MASS, MOMENT = 1.0, 0.004  # of every body of ``inputs_of``
BRICK, PLATE = CollisionShape("box", (0.025, 0.02, 0.015)), CollisionShape("box", (0.03, 0.024, 0.004))
BLOCK, LOG = mesh_shape(as_mesh(Box(0.05, 0.04, 0.03))), mesh_shape(as_mesh(Cylinder(0.02, 0.05)))
ROD, BALL = CollisionShape("capsule", (0.012, 0.02)), CollisionShape("sphere", (0.02,))
PAIRS = {
    "boxes": (CUBE, BRICK), "plates": (PLATE, PLATE), "meshes": (BLOCK, BLOCK), "box, mesh": (CUBE, LOG),
    "cylinder, cone": (mesh_shape(Cylinder(0.02, 0.05)), mesh_shape(Cone(0.02, 0.04))),
    "capsule, box": (ROD, BRICK), "sphere, box": (BALL, BRICK),
}  # fmt: skip

EXACT = ("boxes", "plates", "capsule, box", "sphere, box")  # pairs without a grid


def many(one: ArticulatedInputs, worlds: int) -> ArticulatedInputs:
    """The same inputs in many worlds."""
    return ArticulatedInputs(*(np.repeat(array, worlds, axis=0) for array in one.arrays()))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def work(shapes: tuple[CollisionShape, CollisionShape], rng: np.random.Generator, points: int) -> tuple[float, float]:
    """Work of the elastic force and torque on the second body around a closed path of its pose, and the sum of the magnitudes.

    The path is an ellipse in position and quaternion, through poses at which the shapes are a few millimetres in each other.
    """
    angle = 2 * np.pi * np.arange(points) / points
    first = unit(rng.standard_normal(4))
    turns, places = rng.standard_normal((3, 4)), rng.standard_normal((3, 3))
    turn = turns[0] + 0.1 * (np.outer(np.cos(angle), turns[1]) + np.outer(np.sin(angle), turns[2]))
    turn_rate = 0.1 * (np.outer(np.cos(angle), turns[2]) - np.outer(np.sin(angle), turns[1]))
    length = np.linalg.norm(turn, axis=1, keepdims=True)
    quaternion = turn / length
    rate = (turn_rate - quaternion * np.sum(quaternion * turn_rate, axis=1, keepdims=True)) / length
    xyz, w = quaternion[:, :3], quaternion[:, 3:]
    spin = 2 * (w * rate[:, :3] - rate[:, 3:] * xyz - np.cross(xyz, rate[:, :3]))  # in the body's frame
    direction, size = unit(places[0]), 4e-3
    shift = size * (np.outer(np.cos(angle), places[1]) + np.outer(np.sin(angle), places[2]))
    velocity = size * (np.outer(np.cos(angle), places[2]) - np.outer(np.sin(angle), places[1]))
    model = bodies(*shapes)
    one = inputs_of(model, at(0, 0, 0) + at(0, 0, 1), np.zeros(12), material=(1e3, 0, 0, 0))

    def wrench(distance: float, poses: slice) -> np.ndarray:
        rows = [np.zeros_like(shift), np.tile(first, (points, 1)), distance * direction + shift, quaternion]
        q = np.ascontiguousarray(np.concatenate(rows, axis=1)[poses])
        return forward_dynamics(model, many(one, len(q)), q, np.zeros((len(q), 12)))[:, 6:]

    low, high = 0.0, 0.2
    for _ in range(12):  # the distance at which the path just touches
        middle, few = 0.5 * (low + high), slice(None, None, max(points // 40, 1))
        low, high = (middle, high) if np.abs(wrench(middle, few)).max() > 0 else (low, middle)
    pushed = wrench(low - 5e-3, slice(None))
    power = MASS * np.sum(pushed[:, :3] * velocity, axis=1) + MOMENT * np.sum(pushed[:, 3:] * spin, axis=1)
    return float(power.mean()), float(np.abs(power).mean())


@pytest.mark.parametrize("kind", PAIRS)
def test_the_elastic_force_does_no_work_around_closed_paths(kind: str) -> None:
    """In a mesh the force jumps where two maxima along an edge are equal, which costs the sum over the path accuracy."""
    rng = np.random.default_rng(2)
    results = np.array([work(PAIRS[kind], rng, 4000) for _ in range(8)])
    assert (results[:, 1] > 1e-5).sum() >= 6
    assert np.abs(results[:, 0]).max() < (1e-5 if kind in EXACT else 3e-3) * results[:, 1].max()
    assert np.median(np.abs(results[:, 0])) < 3e-4 * results[:, 1].max()


def energies(kind: str, *, restitution: float, dt: float, worlds: int) -> np.ndarray:
    """Kinetic energy after over that before frictionless collisions of two bodies at random poses."""
    rng, ke = np.random.default_rng(5), 5e5
    model, kd = bodies(*PAIRS[kind]), 0.0 if restitution == 1 else float(damping_for_restitution(ke, restitution, MASS / 8))
    one = inputs_of(model, at(-0.05, 0, 0) + at(0.05, 0, 0), [0.7, *np.zeros(5), -0.7, *np.zeros(5)], material=(ke, kd, 0, 0))
    one.link_inertia[:] = 4e-4 * np.eye(3)
    inputs = many(one, worlds)
    inputs.joint_q0[:, 1:3] = rng.uniform(-0.02, 0.02, (worlds, 2))
    for k in (3, 10):
        inputs.joint_q0[:, k : k + 4] = unit(rng.standard_normal((worlds, 4)))
    for k in (3, 9):
        inputs.joint_qd0[:, k : k + 3] = rng.uniform(-10, 10, (worlds, 3))
    qd = simulate(model, inputs, dt, round(0.12 / dt)).joint_qd[:, [0, -1]].reshape(worlds, 2, 2, 6)
    kinetic = 0.5 * MASS * (qd[..., :3] ** 2).sum(axis=(2, 3)) + 0.5 * 4e-4 * (qd[..., 3:] ** 2).sum(axis=(2, 3))
    assert np.abs(qd[:, 1] - qd[:, 0]).max(axis=(1, 2)).astype(bool).mean() > 0.5  # they hit
    return kinetic[:, 1] / kinetic[:, 0]


@pytest.mark.parametrize("kind", PAIRS)
def test_collisions_conserve_energy_to_the_order_of_the_step(kind: str) -> None:
    coarse, fine = (np.abs(energies(kind, restitution=1.0, dt=dt, worlds=48) - 1) for dt in (4e-5, 1e-5))
    assert fine.max() < 0.02 and np.quantile(fine, 0.8) < 0.5 * np.quantile(coarse, 0.8)
    damped = energies(kind, restitution=0.7, dt=2e-5, worlds=48)
    assert damped.max() < 1.01 and damped.min() < 0.9


def cylinder_on_floor(sections: int, kd: float, *, frames: int = 1) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A lying cylinder of radius 4 cm at about its depth at rest."""
    radius = 0.04
    model = bodies(FLOOR, mesh_shape(Cylinder(radius, 0.06, sections=sections)), kinds=("fixed", "free"))
    q = [-0.3, 0.0, radius - 4e-4, np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]
    inputs = inputs_of(model, q, np.zeros(6), material=(2e4, kd, 60.0, 0.6), frames=frames)
    inputs.link_inertia[0, 1] = np.diag([0.0007, 0.0007, 0.5 * radius**2])
    return model, inputs


def test_adjoint_of_a_cylinder_that_spins_on_a_box() -> None:
    rng = np.random.default_rng(3)
    model, inputs = cylinder_on_floor(16, 30.0)
    inputs.joint_q0[0, 2:] += [-1e-3, *0.01 * rng.standard_normal(4)]
    inputs.joint_qd0[0] = [0.3, 0.1, -0.2, 1.0, -2.0, 8.0]
    steps = {"joint_q0": 1e-7, "joint_frame": 1e-7, "gravity": 1e-4, "link_wrench": 1e-4, "joint_damping": 1e-4}
    steps["servo_damping"] = 1e-4
    reacts = check_adjoint(model, inputs, ArticulatedSettings(1e-4, 4), few=13, steps=steps)
    assert {"joint_q0", "joint_qd0", "link_contact"} <= reacts


@pytest.mark.parametrize(("sections", "kd"), [(6, 30.0), (64, 0.0)])
def test_a_cylinder_rolls_down_a_slope_of_a_box_as_a_round_body(sections: int, kd: float) -> None:
    """By 2/3 of the gravity along the slope, whatever the number of sides and the damping of the contact."""
    angle = 0.3
    model, inputs = cylinder_on_floor(sections, kd, frames=4)
    inputs.gravity[0] = 9.81 * np.sin(angle), 0.0, -9.81 * np.cos(angle)
    speed = simulate(model, inputs, 1e-4, 1000).joint_qd[0, :, 0]
    np.testing.assert_allclose((speed[-1] - speed[1]) / 0.3, 2 / 3 * 9.81 * np.sin(angle), rtol=5e-3)
