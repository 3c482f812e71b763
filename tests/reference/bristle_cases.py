"""Bodies whose contact sticks: a box between two fingers, a pair of any two shapes, and what each pair does in every step."""

from dataclasses import replace

import numpy as np

from tests.reference.contact_cases import BALL, CRATE, PEBBLE, ROD, at, inputs_of
from tests.reference.rigid_cases import GRAVITY
from ti_sim.articulated.contact_bristles import PAIR_BRISTLE_SIZE, STORED_PATCH_SIZE
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel
from ti_sim.articulated.single_state import forward_dynamics
from ti_sim.articulated.solver import ArticulatedRollout
from ti_sim.contact.collision import CollisionShape

SIZE = 0.02  # half size of the pinched box [m]
MASS = 0.2  # of it [kg]
FINGER_SIZE = 0.01
FINGERS = {"box": CollisionShape("box", (FINGER_SIZE,) * 3), "sphere": CollisionShape("sphere", (FINGER_SIZE,))}
SHAPES = {"sphere": BALL, "capsule": ROD, "box": CRATE, "mesh": PEBBLE}
KE, KT, MU = 5000.0, 2000.0, 0.5


def pinched(
    finger: str, squeeze: float, *, frames: int, off: float = 0.0, kf: float = 20.0, kt: float | None = KT, spin: float = 0.0
) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A box between two fingers on rails along x of a hand, which a motor turns about x.

    The fingers begin at the depth at which ke balances the squeeze.

    Args:
        finger: "box" or "sphere".
        squeeze: force on each finger [N].
        frames: frame intervals.
        off: of the box from the fingers along y [m].
        kf: tangential damping [N s/m].
        kt: bristle stiffness [N/m]; None for a contact without bristles.
        spin: angular velocity of the hand and of all on it [rad/s].
    """
    shape = FINGERS[finger]
    model = ArticulatedModel(
        ("hand", "left", "right", "box"), (-1, 0, 0, -1), ("revolute", "prismatic", "prismatic", "free"),
        np.array([[1.0, 0.0, 0.0]] * 4), collision_shape=(None, shape, shape, CollisionShape("box", (SIZE,) * 3)),
        collision_pairs=((1, 3), (2, 3)),
    )  # fmt: skip
    velocity = [spin, 0.0, 0.0, 0.0, 0.0, 0.0, spin, 0.0, 0.0]
    inputs = inputs_of(
        model, [0.0, 0.0, 0.0, *at(0.0, off, 0.0)], velocity, material=(KE, 20.0, kf, MU), gravity=GRAVITY, frames=frames
    )
    place = SIZE + FINGER_SIZE - squeeze / (KE * (4 if finger == "box" else 1))
    inputs.joint_frame[0, 1:3, 0] = -place, place
    inputs.link_mass[:] = 0.1, 0.1, 0.1, MASS
    inputs.link_inertia[0, 3] = MASS * (2 * SIZE) ** 2 / 6 * np.eye(3)
    inputs.joint_damping[0, 1:3] = 20.0
    inputs.motor_gain[0, :3] = 1.0
    inputs.action[0, :, 1:3] = squeeze, -squeeze
    inputs.joint_armature[0, 0] = 1e12  # the hand turns as it began to
    return model, inputs if kt is None else replace(inputs, link_bristle=np.full((1, 4), kt))


def touching_pair(
    kinds: tuple[str, str], *, mu: float, kt: float, seed: int = 5, frames: int = 2
) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A shape rigid on an arm that turns about a joint, and a free body 1.5 cm deep in it; all poses and numbers differ."""
    rng = np.random.default_rng(seed)
    shapes = [
        replace(SHAPES[kind], position=tuple(0.02 * rng.standard_normal(3)), quaternion=tuple(rng.standard_normal(4)))
        for kind in kinds
    ]
    model = ArticulatedModel(
        ("arm", "finger", "body"), (-1, 0, -1), ("revolute", "fixed", "free"), np.array([[0.3, 0.2, 1.0]] * 3),
        collision_shape=(None, *shapes),
    )  # fmt: skip
    q = np.concatenate([[0.2], rng.standard_normal(7)])
    qd = 0.3 * rng.standard_normal(7)
    inputs = inputs_of(model, q, qd, material=(800, 4, 3, mu), gravity=GRAVITY, frames=frames)
    inputs.joint_frame[:] += 0.03 * rng.standard_normal(inputs.joint_frame.shape)
    inputs.link_com[:] = 0.03 * rng.standard_normal(inputs.link_com.shape)
    inputs.link_contact[:] *= rng.uniform(1, 1.3, inputs.link_contact.shape)
    touch(model, inputs, 0.015)
    return model, replace(inputs, link_bristle=kt * rng.uniform(0.9, 1.1, (1, 3)))


def touch(model: ArticulatedModel, inputs: ArticulatedInputs, depth: float) -> None:
    """Move the last body, a free one, towards the first link until the contact is about so deep."""
    position = inputs.joint_q0[0, -7:-4]
    direction = position / np.linalg.norm(position)

    def accelerations(distance: float) -> np.ndarray:
        position[:] = distance * direction
        return forward_dynamics(model, inputs, inputs.joint_q0, inputs.joint_qd0)

    apart = accelerations(10.0)
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if np.array_equal(accelerations(middle), apart) else (middle, high)
    assert low > depth
    position[:] = (high - depth) * direction


def loads_of_pairs(model: ArticulatedModel, inputs: ArticulatedInputs, rollout: ArticulatedRollout, b: int = 0) -> np.ndarray:
    """[steps, pairs] length of the displacement after each step over its limit; NaN for pairs that do not touch.

    Reads the kept states of a rollout with ``StoreAll`` (``ti_sim.articulated.contact_bristles``).
    """
    first, size = model.bristle_columns(inputs)
    rows, pairs = np.asarray(rollout.states)[b, :-1], len(model.candidate_pairs)
    after = rows[:, first + size : first + size + PAIR_BRISTLE_SIZE * pairs].reshape(-1, pairs, PAIR_BRISTLE_SIZE)
    patch = rows[:, first + 2 * size :].reshape(-1, pairs, STORED_PATCH_SIZE)
    i, j = model.pair[:, 0], model.pair[:, 1]
    mu = 0.5 * (inputs.link_contact[b, i, 3] + inputs.link_contact[b, j, 3])
    kt = 0.5 * (inputs.link_bristle[b, i] + inputs.link_bristle[b, j])
    length = np.sqrt((after[..., :3] ** 2).sum(axis=-1) + patch[..., 4] * after[..., 3] ** 2)
    limit = mu * np.linalg.norm(patch[..., 5:8], axis=-1) / kt
    touching = (patch[..., 0] > 0) & (limit > 0)
    return np.where(touching, length / np.where(touching, limit, 1.0), np.nan)
