"""Contact of bodies with bodies: physics of single contacts, adjoints per kind of pair, near pairs, and bad input."""

import numpy as np
import pytest

from tests.reference.articulated_adjoints import check_adjoint
from tests.reference.bristle_cases import touch
from tests.reference.contact_cases import BALL, CRATE, IDENTITY, ROD, at, bodies, inputs_of, simulate
from tests.reference.contact_law import normal_force
from tests.reference.numpy_rigid import rotation
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_dynamics, inverse_dynamics
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.contact.collision import CollisionShape


def test_equal_balls_exchange_their_velocities_and_so_do_the_gradients() -> None:
    """Both are off by the step: at 1e-4 s the velocities by 6e-6; the gradient also by the time of flight before the contact
    over its length, as the contact's place among the steps depends on the velocity."""
    model = bodies(BALL, BALL)
    qd = np.zeros(12)
    qd[0], qd[6] = 1.0, -0.5
    inputs = inputs_of(model, at(0, 0, 0) + at(0.201, 0, 0), qd, material=(1e4, 0, 0, 0))
    rollout = simulate(model, inputs, 1e-4, 300)
    np.testing.assert_allclose(rollout.joint_qd[0, -1, [0, 6]], [-0.5, 1.0], atol=2e-5)
    solver, exchange = ArticulatedSolver(model, ArticulatedSettings(1e-4, 300)), []
    for column in (0, 6):
        seed = np.zeros_like(rollout.joint_qd)
        seed[0, -1, column] = 1
        bars = solver.rollout_adjoint(rollout, 0 * rollout.joint_q, seed, 0 * rollout.body_q, 0 * rollout.body_qd)
        exchange.append(bars.joint_qd0[0, [0, 6]])
    np.testing.assert_allclose(exchange, [[0, 1], [1, 0]], atol=1e-3)


@pytest.mark.parametrize(("shape", "half", "contacts"), [(BALL, 0.1, 1), (CRATE, 0.08, 4), (ROD, 0.06, 3)])
def test_a_body_at_rest_on_a_fixed_box_sinks_by_its_weight_over_the_stiffness(
    shape: CollisionShape, half: float, contacts: int
) -> None:
    ke = 1e4
    lying = CollisionShape(shape.kind, shape.size, quaternion=(0, 1, 0, 1) if shape is ROD else IDENTITY)
    model = bodies(CollisionShape("box", (1, 1, 0.1), position=(0, 0, -0.1)), lying, kinds=("fixed", "free"))
    inputs = inputs_of(model, at(0.3, 0.2, half), np.zeros(6), material=(ke, 100, 10, 0.5), gravity=9.81)
    rollout = simulate(model, inputs, 1e-3, 600)
    np.testing.assert_allclose(rollout.joint_q[0, -1, :3], [0.3, 0.2, half - 9.81 / (contacts * ke)], atol=1e-7)
    np.testing.assert_allclose(rollout.body_q[0, -1, 0, :3], 0, atol=0)


def test_a_capsule_that_slides_over_a_fixed_ball_is_slowed_by_friction() -> None:
    mu, ke, depth = 0.4, 1e4, 1e-3
    model = bodies(BALL, ROD, kinds=("fixed", "free"))
    q = [0, 0, 0.16 - depth, *(np.array([0, 1, 0, 1]) / np.sqrt(2))]  # along x, over the ball
    inputs = inputs_of(model, q, [2.0, 0, 0, 0, 0, 0], material=(ke, 0, 1e3, mu))
    acceleration = forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)[0]
    np.testing.assert_allclose(acceleration[:3], [-mu * ke * depth, 0, ke * depth], rtol=1e-9)
    # The contact is below the middle by the radius less half the depth; angular velocities are in the link's frame.
    turning = rotation(np.array([q[3:]]))[0] @ acceleration[3:]
    np.testing.assert_allclose(turning, [0, (0.06 - depth / 2) * mu * ke * depth / 0.004, 0], rtol=1e-9, atol=1e-9)
    assert np.abs(inverse_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0, acceleration[None])).max() < 1e-9
    slow = simulate(model, inputs, 1e-4, 20).joint_qd[0, -1, 0]
    assert 2.0 - 1.2 * mu * ke * depth * 2e-3 < slow < 2.0 - 0.8 * mu * ke * depth * 2e-3


ROOT = np.sqrt(0.5)
RIM = np.array([0.12, 0, 0.08]) + 0.05 * np.array([ROOT, 0, ROOT])  # at 0.05 m from an edge of the crate
DOWN = np.array([ROOT, 0, -ROOT])  # direction of a rod over that edge, which passes it 0.03 m from its middle
TILT = (0, np.sin(3 * np.pi / 8), 0, np.cos(3 * np.pi / 8))


def over_the_edge() -> np.ndarray:
    """Force over ke of a rod over that edge: the gradient of the squared largest depth in the window of its axis."""
    place = np.linspace(-0.12, 0.12, 100001)
    window, away = 1 - (place / 0.12) ** 2, 0.05 * np.array([ROOT, 0, ROOT]) + np.outer(place + 0.03, DOWN)
    depth = 0.06 - np.linalg.norm(away, axis=1)
    best = (window * depth).argmax()
    return window[best] ** 2 * depth[best] * away[best] / np.linalg.norm(away[best])


@pytest.mark.parametrize(
    ("fixed", "shape", "q", "force"),
    [
        (ROD, ROD, [0.03, 0.1, 0.05, 0, ROOT, 0, ROOT], (0, 0.02, 0)),  # crossing
        (ROD, ROD, [0.0, 0.1, 0.02, *IDENTITY], (0, 0.02, 0)),  # side by side
        (ROD, BALL, [0.0, 0.0, 0.25, *IDENTITY], (0, 0, 0.03)),  # above an end
        (CRATE, BALL, [0.16, 0.14, 0.0, *IDENTITY], np.array([ROOT, ROOT, 0]) * (0.1 - 0.04 / ROOT)),  # beside an edge
        (CRATE, BALL, [0.1, 0.0, 0.0, *IDENTITY], (0.12, 0, 0)),  # inside
        (CRATE, ROD, [*(RIM + 0.03 * DOWN), *TILT], over_the_edge()),
    ],
)
def test_force_of_a_contact_by_hand(fixed: CollisionShape, shape: CollisionShape, q: list, force: tuple) -> None:
    model, ke = bodies(fixed, shape, kinds=("fixed", "free")), 1e3
    inputs = inputs_of(model, q, np.zeros(6), material=(ke, 0, 0, 0))
    acceleration = forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)
    np.testing.assert_allclose(acceleration[0, :3], ke * np.array(force), rtol=2e-3, atol=1e-9)


KINDS = {"sphere": BALL, "capsule": ROD, "box": CRATE}
PAIRS = [
    ("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule"), ("box", "sphere"), ("capsule", "box"), ("box", "box"),
]  # fmt: skip


@pytest.mark.parametrize("kinds", PAIRS)
def test_every_contact_conserves_momentum(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(3)
    model = bodies(*(KINDS[kind] for kind in kinds))
    for _ in range(3):
        q = np.concatenate([np.zeros(3), rng.standard_normal(4), rng.standard_normal(7)])
        inputs = inputs_of(model, q, rng.standard_normal(12), material=(1e3, 5, 3, 0.5))
        touch(model, inputs, 0.01)
        q = inputs.joint_q0.reshape(2, 7)
        q[:, :3] += 0.3
        acceleration = forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0, dt=1e-3).reshape(2, 6)
        assert np.abs(acceleration[:, :3]).min() > 1e-2
        turning = np.einsum("bij,bj->bi", rotation(q[:, 3:] / np.linalg.norm(q[:, 3:], axis=1)[:, None]), acceleration[:, 3:])
        np.testing.assert_allclose(acceleration[0, :3], -acceleration[1, :3], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(
            (np.cross(q[:, :3], acceleration[:, :3]) + 0.004 * turning).sum(axis=0), 0, atol=1e-9
        )


@pytest.mark.parametrize("kinds", PAIRS)
def test_adjoint_of_every_input_per_kind_of_pair(kinds: tuple[str, str]) -> None:
    """A link rigid on an arm that turns about a joint, and a free body; all poses differ."""
    rng = np.random.default_rng(5)
    shapes = [
        CollisionShape(kind, KINDS[kind].size, tuple(0.02 * rng.standard_normal(3)), tuple(rng.standard_normal(4)))
        for kind in kinds
    ]
    model = ArticulatedModel(
        ("arm", "finger", "body"), (-1, 0, -1), ("revolute", "fixed", "free"), np.array([[0.3, 0.2, 1.0]] * 3),
        collision_shape=(None, *shapes),
    )  # fmt: skip
    q = np.concatenate([[0.2], rng.standard_normal(7)])
    inputs = inputs_of(model, q, 0.3 * rng.standard_normal(7), material=(800, 4, 3, 0.2), gravity=9.81, frames=2)
    inputs.joint_frame[:] += 0.03 * rng.standard_normal(inputs.joint_frame.shape)
    inputs.link_com[:] = 0.03 * rng.standard_normal(inputs.link_com.shape)
    inputs.link_contact[:] *= rng.uniform(1, 1.3, inputs.link_contact.shape)
    touch(model, inputs, 0.015)
    reacts = check_adjoint(model, inputs, ArticulatedSettings(2e-3, 5), few=10)
    assert {"joint_q0", "joint_qd0", "joint_frame", "link_mass", "link_com", "link_contact"} <= reacts


def test_adjoint_through_an_impact_on_a_box_fixed_to_the_world_in_two_worlds() -> None:
    model = bodies(CollisionShape("box", (0.5, 0.4, 0.1), (0.02, 0.01, -0.1), (0.1, 0, 0, 1)), ROD, kinds=("fixed", "free"))
    q, qd = [0.05, 0.03, 0.1005, 0.3, 0.8, 0.1, 1.0], [0.4, 0.2, -1.0, 0.5, -0.4, 0.3]
    one = inputs_of(model, q, qd, material=(2e4, 10, 3, 0.3), gravity=9.81, frames=2)
    inputs = ArticulatedInputs(*(np.concatenate([array, 1.01 * array]) for array in one.arrays()))
    settings = ArticulatedSettings(2e-3, 12)
    assert {"joint_frame", "joint_qd0", "link_contact"} <= check_adjoint(model, inputs, settings, few=16)
    rollout = simulate(model, inputs, 2e-3, 12)
    assert (rollout.joint_qd[:, 0, 2] < -0.99).all() and (rollout.joint_qd[:, -1, 2] > 0).all()  # it hit and went up
    np.testing.assert_array_equal(rollout.joint_q[0], simulate(model, one, 2e-3, 12).joint_q[0])


def crowd() -> tuple[ArticulatedModel, ArticulatedInputs, int]:
    """A hundred balls on a grid that move at random, and frames."""
    rng, frames = np.random.default_rng(2), 5
    model = bodies(*[CollisionShape("sphere", (0.05,))] * 100)
    grid = 0.11 * np.stack(np.meshgrid(range(5), range(5), range(4), indexing="ij"), axis=-1).reshape(100, 3)
    q = np.concatenate([grid, np.tile(IDENTITY, (100, 1))], axis=1)
    qd = np.concatenate([rng.standard_normal((100, 3)), np.zeros((100, 3))], axis=1)
    return model, inputs_of(model, q, qd, material=(2e3, 3, 0, 0), frames=frames), frames


def test_a_hundred_balls_take_few_tests_and_miss_no_contact() -> None:
    model, inputs, frames = crowd()
    assert len(model.candidate_pairs) == 4950
    dt, substeps = 1e-3, 20
    rollout = simulate(model, inputs, dt, substeps)
    tests, lists = rollout.pair_tests[0]
    assert tests < 0.1 * 4950 * frames * substeps and lists <= 20
    x, v = inputs.joint_q0.reshape(100, 7)[:, :3].copy(), inputs.joint_qd0.reshape(100, 6)[:, :3].copy()
    first, second = np.triu_indices(100, 1)
    touched = 0
    for _ in range(frames * substeps):  # every pair, without friction
        apart = x[first] - x[second]
        distance = np.linalg.norm(apart, axis=1)
        normal, gap = apart / distance[:, None], distance - 0.1
        size, _fraction = normal_force(-gap, np.sum(normal * (v[first] - v[second]), axis=1), 2e3, 3.0, dt)
        touched += np.count_nonzero(size)
        for k in range(3):
            v[:, k] += dt * np.bincount(first, size * normal[:, k], 100) - dt * np.bincount(second, size * normal[:, k], 100)
        x += dt * v
    assert touched > 1000
    np.testing.assert_allclose(rollout.body_q[0, -1, :, :3], x, atol=1e-9)


def test_pairs_that_may_meet() -> None:
    """A base with an arm of two links, the first with a rigid tip; a plate on the world; a free ball."""
    parents, kinds = (-1, 0, 1, 1, -1, -1), ("fixed", "revolute", "fixed", "revolute", "fixed", "free")
    model = ArticulatedModel(tuple("abcdef"), parents, kinds, np.ones((6, 3)), collision_shape=(BALL,) * 6)
    rigid_or_joined = {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 4)}
    assert set(model.candidate_pairs) == {(i, j) for i in range(6) for j in range(i + 1, 6)} - rigid_or_joined
    given = ArticulatedModel(
        tuple("abcdef"), parents, kinds, np.ones((6, 3)), collision_shape=(BALL,) * 6, collision_pairs=((5, 4),)
    )
    assert given.candidate_pairs == [(5, 4)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cone", (1.0,)), "kind 'cone' is unknown: choose 'sphere', 'capsule', 'box' or 'mesh'"),
        (("sphere", (1.0, 2.0)), r"size of a sphere is \(radius,\)"),
        (("capsule", (0.1,)), r"size of a capsule is \(radius, half length\)"),
        (("box", (1.0, -1.0, 1.0)), "size of a box is .* above zero"),
        (("sphere", (np.inf,)), "finite"),
        (("sphere", (1.0,), (0.0, np.nan, 0.0)), "position of a collision shape"),
        (("sphere", (1.0,), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)), "quaternion of a collision shape"),
    ],
)
def test_shapes_that_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        CollisionShape(*arguments)


@pytest.mark.parametrize(
    ("shapes", "pairs", "message"),
    [
        ((BALL,), None, "collision_shape holds 1 entries for 2 links"),
        ((BALL, None), ((0, 1),), "'body 1', which has no collision_shape"),
        ((BALL, BALL), ((0, 2),), "two different links out of 0 to 1"),
        ((BALL, BALL), ((1, 1),), "two different links"),
        ((BALL, BALL), ((0, 1), (1, 0)), "'body 1' and 'body 0' twice"),
    ],
)
def test_pairs_that_are_refused(shapes: tuple, pairs: tuple | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ArticulatedModel(
            ("body 0", "body 1"), (-1, -1), ("free", "free"), np.ones((2, 3)), collision_shape=shapes, collision_pairs=pairs
        )
