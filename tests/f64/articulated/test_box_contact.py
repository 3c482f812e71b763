"""Contact of boxes with boxes: what rests, what bounces, continuity of the force, its gradient in every regime, and warnings."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.reference.contact_cases import CUBE, FLOOR, HALF, at, bodies, depth_between, distance_at_depth, inputs_of, simulate
from tests.reference.surface_energy import energy_over_ke
from ti_sim import contact_time, restitution
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.base.gradcheck import gradcheck
from ti_sim.contact.collision import CollisionShape
from ti_sim.rollout.adjoint import StoreAll

PLANK = CollisionShape("box", (0.1, 0.015, 0.008))
MASS, KE = 1.0, 1e4  # kg of every body of ``inputs_of``; N/m
MATERIAL = (KE, 20.0, 30.0, 0.5)


def turn(*vector: float) -> list[float]:
    """Quaternion of a rotation vector."""
    angle = np.linalg.norm(vector)
    return [*(np.sin(angle / 2) / max(angle, 1e-300) * np.array(vector)), np.cos(angle / 2)]


def many(one: ArticulatedInputs, worlds: int) -> ArticulatedInputs:
    """The same inputs in many worlds."""
    return ArticulatedInputs(*(np.repeat(array, worlds, axis=0) for array in one.arrays()))


def resting(shapes: list[CollisionShape], q: list, *, seconds: float, kt: float | None = None) -> ArticulatedRollout:
    """Free boxes above a fixed floor under gravity, at 0.5 ms, with the inertia of solid ones, and with bristles of stiffness kt.
    """
    model = bodies(FLOOR, *shapes, kinds=("fixed",) + ("free",) * len(shapes))
    frames = round(seconds * 10)
    inputs = inputs_of(model, np.concatenate(q), np.zeros(6 * len(shapes)), material=MATERIAL, gravity=9.81, frames=frames)
    for i, shape in enumerate(shapes):
        squares = np.square(shape.size)
        inputs.link_inertia[0, 1 + i] = MASS / 3 * np.diag(squares.sum() - squares)
    if kt is not None:
        inputs = replace(inputs, link_bristle=np.full((1, 1 + len(shapes)), kt))
    return simulate(model, inputs, 5e-4, 200)


def test_stacks_of_equal_cubes_stand_for_ten_seconds() -> None:
    for count in (2, 5):
        q = [at(0, 0, HALF + 2 * k * HALF) for k in range(count)]
        rollout = resting([CUBE] * count, q, seconds=10)
        end = rollout.joint_q[0, -1].reshape(count, 7)
        sinks = MASS * 9.81 / (4 * KE) * np.arange(count, 0, -1)  # each face carries what is above it on four corners
        np.testing.assert_allclose(end[:, 2], HALF + 2 * HALF * np.arange(count) - np.cumsum(sinks), atol=1e-8)
        np.testing.assert_allclose(end[:, :2], 0, atol=1e-9)
        assert np.abs(rollout.joint_qd[0, -1]).max() < 1e-6


def test_a_pyramid_crossed_planks_and_a_box_over_an_edge_rest() -> None:
    step = 2 * HALF
    cubes = [at((k + 0.5 * row) * 1.05 * step, 0, HALF + row * step) for row in range(3) for k in range(3 - row)]
    thick = 2 * PLANK.size[2]
    crossed = [[0, 0, (k + 0.5) * thick, *turn(0, 0, angle)] for k, angle in enumerate((0.0, np.pi / 2, 0.4))]
    over = [at(0, 0, HALF), at(0.3 * step, 0.2 * step, HALF + step)]
    ends = [at(0, 0, HALF), at(0.17, 0, HALF), at(0.085, 0, step + PLANK.size[2])]  # 1.5 cm of the plank's 20 at either end
    for shapes, q in (
        ([CUBE] * 6, cubes), ([PLANK] * 3, crossed), ([CUBE] * 2, over), ([CUBE, CUBE, PLANK], ends)
    ):  # fmt: skip
        rollout = resting(shapes, q, seconds=4, kt=1e4)  # without bristles, what leans creeps
        moved = rollout.joint_q[0, -1].reshape(-1, 7) - np.array(q)
        assert -3e-3 < moved[:, 2].min() and moved[:, 2].max() < 0
        assert np.abs(moved[:, :2]).max() < 1e-3 and np.abs(rollout.joint_qd[0, -1]).max() < 1e-3


def test_cubes_dropped_on_a_cube_anywhere_end_outside_of_it() -> None:
    worlds, rng = 160, np.random.default_rng(0)
    model = bodies(CUBE, CUBE, FLOOR, kinds=("fixed", "free", "fixed"))
    material = (4 * KE, 40.0, 30.0, 0.5)  # crossing edges have less than half of it
    one = inputs_of(model, at(0, 0, 0), np.zeros(6), material=material, gravity=9.81, frames=40)
    inputs = many(replace(one, link_inertia=0.1 * one.link_inertia), worlds)
    inputs.joint_frame[:, 0, 2] = HALF
    inputs.joint_q0[:, :2] = rng.uniform(-0.9, 0.9, (worlds, 2)) * 2 * HALF
    inputs.joint_q0[:, 2] = 3 * HALF + 2e-3
    tilted = worlds // 2
    inputs.joint_q0[tilted:, 3:] = rng.standard_normal((worlds - tilted, 4))
    inputs.joint_q0[tilted:, 2] = (2 + np.sqrt(3)) * HALF
    rollout = simulate(model, inputs, 5e-4, 40)
    poses = rollout.body_q.reshape(-1, 3, 7)
    assert depth_between(poses[:, 0], poses[:, 1]).max() < 0.25 * HALF
    assert (rollout.body_q[:, -1, 1, 2] > 2.5 * HALF).sum() > 10 and (rollout.body_q[:, -1, 1, 2] < 1.8 * HALF).sum() > 10


def test_equal_cubes_that_meet_head_on_bounce_with_the_restitution_of_their_weights() -> None:
    """Flush the points of both faces have a total weight of 16; off by more than the depth each cube adds a corner and two edges.

    Kinetic energy remains from 4 ke and 4 kd on the reduced mass, or from sqrt(22) of both, or between, where the cubes are off
    by about their depth. The error is of the order of the step.
    """
    model = bodies(CUBE, CUBE)
    towards = [0.5, *np.zeros(5), -0.5, *np.zeros(5)]
    one = inputs_of(model, at(-0.021, 0, 0) + at(0.021, 0, 0), towards, material=(KE, 10, 0, 0))
    inputs = many(one, 4)
    for world, offset in enumerate((0.0, 1e-4, 1e-3, 2e-3)):
        inputs.joint_q0[world, 8:10] = offset
    end = simulate(model, inputs, 1e-4, 800).joint_qd[:, -1]
    assert (end[:, 6] > 0.2).all()
    np.testing.assert_allclose(end[:, 0], -end[:, 6], rtol=1e-9)
    factors = (4, np.sqrt(22))
    speeds = [0.5 * float(restitution(factor * KE, factor * 10, MASS / 2)) for factor in factors]
    rtol = 1e-4 / float(contact_time(factors[0] * KE, factors[0] * 10, MASS / 2))
    np.testing.assert_allclose(end[0, 6], speeds[0], rtol=rtol)
    remains = np.sqrt((end[:, 6:9] ** 2).sum(axis=1) + inputs.link_inertia[0, 1, 0, 0] / MASS * (end[:, 9:] ** 2).sum(axis=1))
    assert (remains < (1 + rtol) * speeds[0]).all() and (remains > (1 - rtol) * speeds[1]).all(), (remains, speeds)


def test_edges_that_cross_bounce() -> None:
    model, high = bodies(CUBE, CUBE), np.sqrt(2) * HALF
    q = [0, 0, -high, *turn(np.pi / 4, 0, 0), 3e-3, 4e-3, high + 1e-3, *turn(0, np.pi / 4, 0)]
    inputs = inputs_of(model, q, [0, 0, 0.5, *np.zeros(5), -0.5, *np.zeros(3)], material=(KE, 0, 0, 0))
    end = simulate(model, inputs, 1e-4, 600).joint_qd[0, -1]
    assert end[2] < -0.4 and end[8] > 0.4
    kinetic = 0.5 * (end[:3] @ end[:3] + end[6:9] @ end[6:9]) + 0.002 * (end[3:6] @ end[3:6] + end[9:] @ end[9:])
    np.testing.assert_allclose(kinetic, 0.25, rtol=1e-3)


LOW, ACROSS = 2 * HALF - 3e-4, np.sqrt(2) * HALF
ON_EDGE = np.concatenate([np.zeros(3), turn(np.pi / 4 + 0.05, 0.02, 0.1)])
CORNER = np.array([1, -1, 0.1]) / np.sqrt(2.01) * (np.arccos(1 / np.sqrt(3)) + 0.02)  # turns a corner downwards
REGIMES = {
    "nearly flush": [1e-4, -1e-4, LOW, *turn(0, 0, 0)],  # exactly flush corners are at an edge, where the normal jumps
    "one side nearly flush": [0.007, 1e-4, LOW, *turn(0, 0, 0)],
    "face on face": [0.007, 0.003, LOW, *turn(0, 0, 0)],
    "overhang": [0.025, 0.013, LOW, *turn(1e-3, 2e-3, 0)],
    "rotated": [0.002, 0.003, LOW, *turn(0, 0, 0.6)],
    "eight corners": [2e-4, 3e-4, LOW, *turn(1e-3, 7e-4, np.pi / 4 + 0.01)],
    "tilted": [0.002, 0.003, LOW + 9e-4, *turn(0.03, 0.05, 0.2)],
    "between tilted and on edge": [0.002, 0.003, 0.0434, *turn(0.25, 0.05, 0.2)],
    "corner on face": [0.002, 0.003, (1 + np.sqrt(3)) * HALF - 1.1e-3, *turn(*CORNER)],
    "edge on face": [0.002, 0.003, HALF + ACROSS - 5e-4, *turn(np.pi / 4 + 0.02, 0.01, 0)],
    "edge over an edge": [0.015, 0.003, HALF + ACROSS - 7e-4, *turn(np.pi / 4 + 0.02, 0.01, 0.2)],
    "edges cross": [0.002, 0.003, 2 * ACROSS - 6e-4, *turn(0.03, np.pi / 4 - 0.1, 0.2)],
    "edges nearly parallel": [0.002, 0.003, 2 * ACROSS - 2.3e-3, *turn(0.03, np.pi / 4 - 0.1, 0.8)],
}


@pytest.mark.parametrize("regime", REGIMES)
def test_gradient_of_a_step_in_every_regime(regime: str) -> None:
    """Both poses, both velocities and all contact numbers."""
    rng = np.random.default_rng(3)
    model = bodies(CUBE, CUBE)
    first = ON_EDGE if regime.startswith("edges") else np.array(at(0, 0, 0))
    q = np.concatenate([first, REGIMES[regime]])
    q[:3] += 0.1
    q[7:10] += 0.1
    inputs = inputs_of(model, q, 0.05 * rng.standard_normal(12), material=(1e3, 4, 3, 0.3))
    inputs.link_contact[0, 1] *= 1.2
    solver, weights = ArticulatedSolver(model, ArticulatedSettings(1e-3, 1)), rng.standard_normal(12)
    names = ("joint_q0", "joint_qd0", "link_contact")

    def accelerations(point: dict) -> ArticulatedRollout:
        return solver.rollout(replace(inputs, **point), 1, adjoint=StoreAll())

    def loss(point: dict) -> float:
        return float(accelerations(point).joint_qd[0, -1] @ weights)

    def loss_and_gradient(point: dict) -> tuple[float, dict]:
        rollout = accelerations(point)
        seed = np.zeros_like(rollout.joint_qd)
        seed[0, -1] = weights
        bars = solver.rollout_adjoint(rollout, 0 * rollout.joint_q, seed, 0 * rollout.body_q, 0 * rollout.body_qd)
        return loss(point), {name: getattr(bars, name) for name in names}

    point = {name: getattr(inputs, name) for name in names}
    pushed = accelerations(point).joint_qd[0, -1] - inputs.joint_qd0[0]
    assert np.linalg.norm(pushed[6:9]) > 5e-5
    report = gradcheck(
        loss_and_gradient, point, loss=loss, names=names, rtol=1e-5, floor=1e-6, atol=1e-9, max_entries=30, step=1e-7, order=2
    )
    for entry in report.entries:
        assert entry.status in ("ok", "not observable"), entry
    assert sum(entry.status == "ok" for entry in report.entries) > 20


def random_poses(rng: np.random.Generator, worlds: int, depth: float) -> np.ndarray:
    """Poses of two cubes that are so deep in each other [worlds, 14]: turned at random, or nearly parallel."""
    q = np.tile(at(0, 0, 0) + at(0, 0, 0), (worlds, 1))
    q[:, 3:7] = rng.standard_normal((worlds, 4))
    q[:, 10:] = q[:, 3:7]
    q[: worlds // 2, 10:] = rng.standard_normal((worlds // 2, 4))
    q[worlds // 2 :, 10:] += 0.03 * rng.standard_normal((worlds - worlds // 2, 4))
    for k in (3, 10):
        q[:, k : k + 4] /= np.linalg.norm(q[:, k : k + 4], axis=1, keepdims=True)
    direction = rng.standard_normal((worlds, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    q[:, 7:10] = distance_at_depth(q[:, :7], q[:, 7:], direction, depth) * direction
    return q


def test_gradient_at_random_poses() -> None:
    """One direction for each of 400 pairs of poses: differences of the acceleration against the adjoint."""
    rng, worlds = np.random.default_rng(7), 400
    model = bodies(CUBE, CUBE)
    inputs = many(inputs_of(model, at(0, 0, 0) + at(0, 0, 1), np.zeros(12), material=(1e3, 4, 3, 0.3)), worlds)
    inputs.joint_q0[:] = random_poses(rng, worlds, 5e-4)
    inputs.joint_qd0[:] = 0.05 * rng.standard_normal((worlds, 12))
    solver, weights = ArticulatedSolver(model, ArticulatedSettings(1e-3, 1)), rng.standard_normal((worlds, 12))
    direction = rng.standard_normal((worlds, 14)) * np.array([HALF] * 3 + [1] * 4 + [HALF] * 3 + [1] * 4)

    def pushed(step: float) -> tuple[ArticulatedRollout, np.ndarray]:
        rollout = solver.rollout(replace(inputs, joint_q0=inputs.joint_q0 + step * direction), 1, adjoint=StoreAll())
        return rollout, np.einsum("wd,wd->w", weights, rollout.joint_qd[:, -1])

    rollout, _ = pushed(0.0)
    seed = np.zeros_like(rollout.joint_qd)
    seed[:, -1] = weights
    bars = solver.rollout_adjoint(rollout, 0 * rollout.joint_q, seed, 0 * rollout.body_q, 0 * rollout.body_qd)
    adjoint = np.einsum("wk,wk->w", bars.joint_q0, direction)
    difference = (pushed(1e-7)[1] - pushed(-1e-7)[1]) / 2e-7
    assert (np.abs(adjoint) > 1e-3).mean() > 0.9
    np.testing.assert_allclose(difference, adjoint, rtol=1e-5, atol=1e-5 * np.abs(adjoint).max())


def test_the_force_is_continuous_where_features_change() -> None:
    """A cube is turned and moved over another at a depth of 0.5 mm, through faces, edges and corners, in 20,000 steps.

    The step in which the force changes most is cut into 20, each of which changes it by less than a tenth: a jump would stay.
    """
    rng, model = np.random.default_rng(4), bodies(CUBE, CUBE)
    solver = ArticulatedSolver(model, ArticulatedSettings(1e-3, 1))
    for _ in range(4):
        start, end = random_poses(rng, 2, 5e-4)

        def path(t: np.ndarray, start: np.ndarray = start, end: np.ndarray = end) -> np.ndarray:
            q = start + t[:, None] * (end - start)
            for k in (3, 10):
                q[:, k : k + 4] /= np.linalg.norm(q[:, k : k + 4], axis=1, keepdims=True)
            direction = q[:, 7:10] / np.linalg.norm(q[:, 7:10], axis=1, keepdims=True)
            q[:, 7:10] = distance_at_depth(q[:, :7], q[:, 7:], direction, 5e-4) * direction
            inputs = many(inputs_of(model, at(0, 0, 0) + at(0, 0, 1), np.zeros(12), material=(1e3, 0, 0, 0)), len(t))
            inputs.joint_q0[:] = q
            return solver.rollout(inputs, 1).joint_qd[:, -1, 6:9]

        coarse = path(np.linspace(0, 1, 20001))
        steps = np.linalg.norm(np.diff(coarse, axis=0), axis=1)
        worst = int(steps.argmax())
        fine = path(np.linspace(worst / 20000, (worst + 1) / 20000, 21))
        assert np.linalg.norm(np.diff(fine, axis=0), axis=1).max() < 0.1 * steps.max()


def test_what_contact_cannot_resolve_warns_once() -> None:
    model = bodies(CUBE, CUBE)
    inputs = many(inputs_of(model, at(0, 0, 0) + at(0, 0, 0.0399), np.zeros(12), material=(KE, 0, 0, 0)), 2)
    solver = ArticulatedSolver(model, ArticulatedSettings(1e-3, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.rollout(inputs, 1)
    inputs.joint_q0[1, 9] = 0.028
    with pytest.warns(UserWarning, match=r"at step 0 \(0 s\) of world 1 'body 0' and 'body 1' are inside each other, deeper"):
        solver.rollout(inputs, 1)
    inputs.joint_q0[1, 9], inputs.joint_qd0[1, 8] = 0.1, -30.0
    with pytest.warns(UserWarning, match="of world 1 'body 0' and 'body 1' pass each other in one step by more than"):
        solver.rollout(inputs, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.rollout(inputs, 1)  # told before


def test_the_elastic_force_is_the_gradient_of_the_energy_of_the_features() -> None:
    rng, shapes = np.random.default_rng(6), (CUBE, PLANK)
    model = bodies(*shapes)
    for _ in range(6):
        poses = np.array([at(0, 0, 0), at(0, 0, 0)])
        poses[:, 3:] = rng.standard_normal((2, 4))
        poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        direction = rng.standard_normal(3) / 50
        poses[1, :3] = 5 * direction
        deep, apart = 0.0, 5.0
        for _ in range(12):  # to where the energy is that of a corner 0.6 mm deep
            poses[1, :3] = 0.5 * (deep + apart) * direction
            touching = energy_over_ke(shapes, poses) > 2e-7
            deep, apart = (0.5 * (deep + apart), apart) if touching else (deep, 0.5 * (deep + apart))
        inputs = inputs_of(model, poses.ravel(), np.zeros(12), material=(KE, 0, 0, 0))
        pushed = forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0).reshape(2, 6)

        def energy(moved: np.ndarray, poses: np.ndarray = poses) -> float:
            x, y, z, w = poses[1, 3:]
            a, b, c = moved[3:] / 2  # rotation in the body's frame
            turned = [x + w * a + y * c - z * b, y + w * b + z * a - x * c, z + w * c + x * b - y * a, w - x * a - y * b - z * c]
            return KE * energy_over_ke(shapes, np.array([poses[0], [*poses[1, :3] + moved[:3], *turned]]))

        slopes = [(energy(step) - energy(-step)) / 2e-6 for step in 1e-6 * np.eye(6)]
        wanted = -np.array(slopes) / np.array([MASS] * 3 + [0.004] * 3)
        np.testing.assert_allclose(pushed[1], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
