"""Contact of meshes with all shapes: against boxes' closed forms, momentum, rest, and adjoints through a contact."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.contact_cases import BALL, CRATE, PEBBLE, at, bodies, depth_between, inputs_of, mesh_of
from tests.reference.numpy_rigid import rotation
from ti_sim import Box
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.contact.collision import CollisionShape
from ti_sim.rollout.adjoint import StoreAll

SLAB = mesh_of(Box(0.24, 0.2, 0.16), field_cells=16)  # the crate, as a mesh
SHAPES = {"sphere": BALL, "capsule": CollisionShape("capsule", (0.06, 0.07)), "box": CRATE, "mesh": SLAB}
DIAGONAL = np.array([0.12, 0.1, 0.08])  # of the crate
UPRIGHT = np.array([DIAGONAL[1], -DIAGONAL[0], 0, DIAGONAL[2] + np.linalg.norm(DIAGONAL)])  # turns it upwards


def push(model: ArticulatedModel, inputs: ArticulatedInputs) -> np.ndarray:
    """Accelerations of free bodies, as a step of 1e-3 s shows them, [B, N, 6]: linear and, in the body's frame, angular."""
    rollout = ArticulatedSolver(model, ArticulatedSettings(1e-3, 1)).rollout(inputs, 1, adjoint=StoreAll())
    return ((rollout.joint_qd[:, -1] - rollout.joint_qd[:, 0]) / 1e-3).reshape(len(rollout.joint_qd), -1, 6)


@pytest.mark.parametrize(
    ("kind", "q"),
    [
        ("sphere", at(0.03, -0.02, 0.175)),
        ("sphere", at(0.215, 0.01, -0.02)),
        ("capsule", [0.02, 0.01, 0.13, 0, 1, 0, 1]),  # lies on it: both ends and the middle
    ],
)
def test_the_mesh_of_a_box_acts_as_the_box_does(kind: str, q: list) -> None:
    results = []
    for solid in (CRATE, SLAB):
        # The pebble is no part of a pair: both models run the same kernel.
        model = bodies(solid, SHAPES[kind], PEBBLE, collision_pairs=((0, 1),))
        results.append(push(model, inputs_of(model, at(0, 0, 0) + q + at(5, 0, 0), np.zeros(18), material=(1e3, 5, 3, 0.5))))
    assert np.abs(results[0][..., :3]).max() > 1
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "mesh"])
def test_every_contact_with_a_mesh_conserves_momentum(kind: str) -> None:
    rng = np.random.default_rng(3)
    model = bodies(PEBBLE, SHAPES[kind])
    q = np.array(at(0.3, 0.3, 0.3) + at(0.3, 0.3, 0.3))
    q[3:7], q[10:] = rng.standard_normal(4), rng.standard_normal(4)
    q[7:10] += np.array([0.1, 0.12, 0.08]) * (0.9 if kind == "sphere" else 1.0)
    inputs = inputs_of(model, q, rng.standard_normal(12), material=(1e3, 5, 3, 0.5))
    acceleration, q = push(model, inputs)[0], q.reshape(2, 7)
    assert np.abs(acceleration[:, :3]).min() > 1e-2
    turn = rotation(q[:, 3:] / np.linalg.norm(q[:, 3:], axis=1, keepdims=True))
    turning = np.einsum("bij,bj->bi", turn, acceleration[:, 3:])
    np.testing.assert_allclose(acceleration[0, :3], -acceleration[1, :3], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((np.cross(q[:, :3], acceleration[:, :3]) + 0.004 * turning).sum(axis=0), 0, atol=1e-9)


def test_stacked_mesh_boxes_rest_at_the_depth_of_their_weight() -> None:
    """Two boxes on a fixed one, each smaller than the one below: a face has the root of the weights of its features and of those
    below it as stiffness.

    Points within a cell of the field from an edge are a little less deep, so that some sink 3 % more, and the boxes lean while
    they settle.
    """
    ke, heights = 1e4, (0.16, 0.12, 0.1)
    sides = (0.6, 0.3, 0.2)
    shapes = [mesh_of(Box(side, side, height)) for side, height in zip(sides, heights, strict=True)]

    def stiffness(below: int, shift: np.ndarray) -> float:
        """Of the box above: 16, and the points on the face below that it covers."""
        rows = shapes[below].features
        top = (np.abs(rows[:, 2] - 0.5 * heights[below]) < 1e-9) & ~rows[:, 3:6].any(axis=1)
        covered = top & (np.abs(rows[:, :2] - shift) < 0.5 * sides[below + 1]).all(axis=1)
        return ke * np.sqrt(16 + rows[covered, 6].sum())

    model = bodies(*shapes, kinds=("fixed", "free", "free"))
    middle, upper = 0.5 * (heights[0] + heights[1]), 0.5 * heights[0] + heights[1] + 0.5 * heights[2]
    q = at(0.02, 0.01, middle) + at(0.02, 0.01, upper)
    inputs = inputs_of(model, q, np.zeros(12), material=(ke, 20, 20, 0.5), gravity=9.81)
    inputs = replace(inputs, link_bristle=np.full((1, 3), 1e4))
    rollout = ArticulatedSolver(model, ArticulatedSettings(5e-4, 4000)).rollout(inputs, 1)
    q = rollout.joint_q[0, -1].reshape(2, 7)
    lower_depth, upper_depth = 2 * 9.81 / stiffness(0, np.array([0.02, 0.01])), 9.81 / stiffness(1, np.zeros(2))
    np.testing.assert_allclose([middle - q[0, 2], upper - middle + q[0, 2] - q[1, 2]], [lower_depth, upper_depth], rtol=0.05)
    np.testing.assert_allclose(q[:, :2], [[0.02, 0.01]] * 2, atol=3e-4)
    assert np.abs(rollout.joint_qd[0, -1]).max() < 1e-4


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "mesh"])
def test_adjoint_of_every_input_through_a_hit_on_a_mesh(kind: str) -> None:
    """A mesh rigid on an arm that turns about a joint, hit by a free body.

    The forces have kinks where the points of contact cross the field's cells half-way between the nodes, at most once in 1e5
    steps of the differences, and where contacts begin: those that are there are deep from the first step on.
    """
    rng = np.random.default_rng(5)
    tilted = replace(PEBBLE, position=tuple(0.02 * rng.standard_normal(3)), quaternion=tuple(rng.standard_normal(4)))
    other = SHAPES[kind]
    model = ArticulatedModel(
        ("arm", "finger", "body"), (-1, 0, -1), ("revolute", "fixed", "free"), np.array([[0.3, 0.2, 1.0]] * 3),
        collision_shape=(None, tilted, other),
    )  # fmt: skip
    reach = 0.7 if kind in ("sphere", "capsule") else 1.0
    q = np.concatenate([[0.2], reach * np.array([0.09, 0.1, 0.07]), rng.standard_normal(4)])
    inputs = inputs_of(model, q, 0.3 * rng.standard_normal(7), material=(800, 4, 3, 0.2), gravity=9.81, frames=2)
    inputs.joint_frame[:] += 0.03 * rng.standard_normal(inputs.joint_frame.shape)
    inputs.link_com[:] = 0.03 * rng.standard_normal(inputs.link_com.shape)
    inputs.link_contact[:] *= rng.uniform(1, 1.3, inputs.link_contact.shape)
    reacts = check_adjoint(model, inputs, ArticulatedSettings(2e-3, 5), few=8)
    assert {"joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_com", "link_contact"} <= reacts


@pytest.mark.parametrize("kt", [None, 3e4])
def test_gradient_where_edges_cross(kt: float | None) -> None:
    """Edges and points of faces touch, no corners: one direction for each of 50 pairs of poses, also with bristles."""
    rng, half, drawn = np.random.default_rng(7), 0.02, 2000
    q = np.tile(at(0, 0, 0) + at(0, 0, 0), (drawn, 1))
    for k in (3, 10):
        q[:, k : k + 4] = rng.standard_normal((drawn, 4))
        q[:, k : k + 4] /= np.linalg.norm(q[:, k : k + 4], axis=1, keepdims=True)
    direction = rng.standard_normal((drawn, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    low, high = np.zeros((drawn, 1)), np.ones((drawn, 1))
    for _ in range(40):  # until they are 0.3 mm in each other
        q[:, 7:10] = 0.5 * (low + high) * direction
        inside = (depth_between(q[:, :7], q[:, 7:]) > 3e-4)[:, None]
        low, high = np.where(inside, 0.5 * (low + high), low), np.where(inside, high, 0.5 * (low + high))
    gaps = np.concatenate([corner_gaps(q[:, 7:], q[:, :7], half), corner_gaps(q[:, :7], q[:, 7:], half)], axis=1)
    q = q[(gaps > 0).all(axis=1)][:50]
    assert len(q) == 50
    model = bodies(*[mesh_of(Box(0.04, 0.04, 0.04), field_cells=16)] * 2)
    one = inputs_of(model, at(0, 0, 0) + at(0, 0, 1), np.zeros(12), material=(1e3, 4, 3, 0.3))
    inputs = ArticulatedInputs(*(np.repeat(array, 50, axis=0) for array in one.arrays()))
    inputs.joint_q0[:], inputs.joint_qd0[:] = q, 0.05 * rng.standard_normal((50, 12))
    if kt is not None:
        inputs = replace(inputs, link_bristle=np.full((50, 2), kt))
    solver, weights = ArticulatedSolver(model, ArticulatedSettings(1e-3, 1 if kt is None else 4)), rng.standard_normal((50, 12))
    along = rng.standard_normal((50, 14)) * np.array([half] * 3 + [1] * 4 + [half] * 3 + [1] * 4)

    def pushed(step: float) -> np.ndarray:
        moved = replace(inputs, joint_q0=inputs.joint_q0 + step * along)
        return np.einsum("wd,wd->w", weights, solver.rollout(moved, 1, adjoint=StoreAll()).joint_qd[:, -1])

    rollout = solver.rollout(inputs, 1, adjoint=StoreAll())
    seed = np.zeros_like(rollout.joint_qd)
    seed[:, -1] = weights
    bars = solver.rollout_adjoint(rollout, 0 * rollout.joint_q, seed, 0 * rollout.body_q, 0 * rollout.body_qd)
    adjoint = np.einsum("wk,wk->w", bars.joint_q0, along)
    assert (np.abs(adjoint) > 1e-3).sum() > 15
    np.testing.assert_allclose((pushed(1e-7) - pushed(-1e-7)) / 2e-7, adjoint, rtol=1e-5, atol=1e-6 * np.abs(adjoint).max())


def corner_gaps(cube: np.ndarray, other: np.ndarray, half: float) -> np.ndarray:
    """Distances of a cube's corners outside of another one [n, 8] of their poses [n, 7]; negative inside."""
    corners = half * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    places = np.einsum("nij,cj->nci", rotation(cube[:, 3:]), corners) + (cube[:, :3] - other[:, :3])[:, None]
    beyond = np.abs(np.einsum("nji,ncj->nci", rotation(other[:, 3:]), places)) - half
    return np.where((beyond > 0).any(axis=2), np.linalg.norm(np.maximum(beyond, 0), axis=2), beyond.max(axis=2))


def test_equal_mesh_cubes_stack_bounce_flush_or_not_and_hold_at_crossing_edges() -> None:
    """Off by 1 mm the points of two faces share the stiffness otherwise than flush: the cubes part a quarter slower."""
    half, cube = 0.02, mesh_of(Box(0.04, 0.04, 0.04))
    tower = bodies(SLAB, cube, cube, cube, kinds=("fixed", "free", "free", "free"))
    q = np.concatenate([at(0.01, 0.01, 0.08 + half + 2 * half * k) for k in range(3)])
    inputs = inputs_of(tower, q, np.zeros(18), material=(1e4, 20, 20, 0.5), gravity=9.81)
    rollout = ArticulatedSolver(tower, ArticulatedSettings(5e-4, 4000)).rollout(inputs, 1)
    np.testing.assert_allclose(rollout.joint_q[0, -1].reshape(3, 7)[:, :3], q.reshape(3, 7)[:, :3], atol=3e-3)
    pair, high = bodies(cube, cube), np.sqrt(2) * half
    edges = [0, 0, 0, np.sin(np.pi / 8), 0, 0, np.cos(np.pi / 8)]
    edges += [3e-3, 4e-3, 2 * high + 1e-3, 0, np.sin(np.pi / 8), 0, np.cos(np.pi / 8)]
    faces = [at(0, 0, 0) + at(x, x, 2 * half + 1e-3) for x in (0.0, 1e-4, 1e-3, 2e-3)]
    one = inputs_of(pair, edges, [0, 0, 0.5, 0, 0, 0, 0, 0, -0.5, 0, 0, 0], material=(1e4, 10, 20, 0.5))
    worlds = ArticulatedInputs(*(np.repeat(array, 5, axis=0) for array in one.arrays()))
    worlds.joint_q0[1:] = faces
    end = ArticulatedSolver(pair, ArticulatedSettings(1e-4, 800)).rollout(worlds, 1).joint_qd[:, -1]
    assert (end[:, 8] - end[:, 2] > 0.2).all()
    np.testing.assert_allclose(end[1:, 8], end[1, 8], rtol=0.3)


def test_mesh_shapes_that_are_refused() -> None:
    with pytest.raises(UserError, match="distance field, corners and a surface if it is a mesh, and only then"):
        CollisionShape("mesh", ())
    with pytest.raises(UserError, match=r"size of a mesh is \(\)"):
        CollisionShape("mesh", (1.0,), distance=PEBBLE.distance, corners=PEBBLE.corners, surface=PEBBLE.surface)
    with pytest.raises(UserError, match="no node inside it"):
        mesh_of(Box(1.0, 1.0, 0.01), field_cells=8)
