"""Small rigid models and inputs that the tests of the rigid solver share. Numpy float64; convert where f32 is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from ti_sim.rigid.model import RigidInputs, RigidModel

GRAVITY = 9.81
_CONTINUED = ("body_momentum0", "contact_bristle0")  # of rollouts that continue another one
ALL_NAMES = tuple(field.name for field in fields(RigidInputs) if field.name not in _CONTINUED)
DRIVEN_NAMES = tuple(name for name in ALL_NAMES if name not in ("body_bristle", "body_radius"))  # of a model of points alone
INPUT_NAMES = tuple(name for name in DRIVEN_NAMES if name not in ("body_wrench", "body_drag"))  # of one that is not driven either


def box_points(half: Sequence[float]) -> np.ndarray:
    """The 8 corners of a box with half sides [m], the 4 lower ones first."""
    return np.array([(x, y, z) for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)]) * np.asarray(half, float)


def box_inertia(mass: float, half: Sequence[float]) -> np.ndarray:
    """Inertia of a solid box about its centre [kg m2]."""
    squares = np.asarray(half, float) ** 2
    return np.diag(mass / 3 * (squares.sum() - squares))


def turned(axis: Sequence[float], angle: float) -> np.ndarray:
    """Quaternion x, y, z, w of a turn by ``angle`` [rad] about ``axis``."""
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.array([*(np.sin(angle / 2) * axis), np.cos(angle / 2)])


def one_body(
    points: np.ndarray,
    *,
    mass: float = 1.0,
    inertia: np.ndarray | None = None,
    position: Sequence[float] = (0.0, 0.0, 0.0),
    turn: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    velocity: Sequence[float] = (0.0, 0.0, 0.0),
    spin: Sequence[float] = (0.0, 0.0, 0.0),
    ke: float = 0.0,
    kd: float = 0.0,
    kf: float = 0.0,
    mu: float = 0.0,
    gravity: float = GRAVITY,
    force: Sequence[float] | None = None,
    at: Sequence[float] = (0.0, 0.0, 0.0),
    steps: tuple[int, int] = (0, 1),
) -> tuple[RigidModel, RigidInputs]:
    """A model of one body in one world, with at most one applied force in the given steps."""
    model = RigidModel(
        body_names=("block",),
        contact_points=(np.reshape(np.asarray(points, float), (-1, 3)),),
        force_body=() if force is None else (0,),
        force_steps=() if force is None else (steps,),
    )
    inertia = np.eye(3) * mass if inertia is None else inertia
    inputs = RigidInputs(
        body_q0=np.array([[[*position, *turn]]], float),
        body_qd0=np.array([[[*velocity, *spin]]], float),
        body_mass=np.array([[mass]], float),
        body_inertia=np.array(inertia, float)[None, None],
        body_contact=np.array([[[ke, kd, kf, mu]]], float),
        gravity=np.array([[0.0, 0.0, -gravity]]),
        body_force=np.zeros((1, 1, 3)) if force is None else np.array([[force]], float),
        force_point=np.array([[at]], float),
    )
    return model, inputs


def stacked(worlds: Sequence[RigidInputs]) -> RigidInputs:
    """Several inputs as the worlds of one."""
    return RigidInputs(*(np.concatenate(arrays) for arrays in zip(*(w.arrays() for w in worlds), strict=True)))


def world(inputs: RigidInputs, b: int) -> RigidInputs:
    """One world of several, as a batch of one."""
    return RigidInputs(*(np.ascontiguousarray(array[b : b + 1]) for array in inputs.arrays()))


def cast(inputs: RigidInputs, dtype: type) -> RigidInputs:
    """The same numbers in another precision."""
    return RigidInputs(*(array.astype(dtype) for array in inputs.arrays()))


def tilted_box() -> tuple[RigidModel, RigidInputs]:
    """A spinning box that hits the ground tilted, slides, and is pushed off its centre of mass for a while."""
    half = (0.05, 0.03, 0.02)
    return one_body(
        box_points(half),
        mass=0.4,
        inertia=box_inertia(0.4, half) + 1e-5 * np.array([[0, 1, 2], [1, 0, -1], [2, -1, 0]]),
        position=(0.1, -0.2, 0.055),
        turn=2.0 * turned((1.0, 2.0, -0.5), 0.7),
        velocity=(0.8, -0.3, -0.5),
        spin=(3.0, -2.0, 5.0),
        ke=2e3,
        kd=2.0,
        kf=5.0,
        mu=0.4,
        force=(1.0, 2.0, 3.0),
        at=(0.03, -0.02, 0.01),
        steps=(37, 160),
    )


# --- two bodies in three worlds, in every regime of the contact law ---------------------------------------------------

_HALVES = ((0.05, 0.03, 0.02), (0.03, 0.04, 0.03))
_MASSES = (0.4, 0.25)
PAIR_MODEL = RigidModel(
    body_names=("box", "brick"),
    contact_points=(box_points(_HALVES[0]), box_points(_HALVES[1])[:7]),
    force_body=(1, 0),
    force_steps=((3, 19), (10, 33)),
    ground_height=-0.01,
)
# height of each box above its depth at rest [m], tilt [rad], speed, spin, force, and (ke, kd, kf, mu)
_REGIMES = {
    "flight": (1.0, 0.8, 1.0, 5.0, 1.0, (1e3, 1.0, 4.0, 0.5)),
    "sliding": (0.0, 4e-3, 1.0, 0.05, 0.1, (1e3, 1.0, 60.0, 0.2)),
    "sticking": (0.0, 4e-3, 0.01, 0.05, 0.1, (1e3, 1.0, 4.0, 0.8)),
    "resting": (0.0, 0.0, 0.0, 0.0, 0.0, (1e3, 1.0, 4.0, 0.5)),
    "impact": (4e-3, 0.15, 0.9, 4.0, 1.0, (2e4, 15.0, 10.0, 0.3)),
}
REGIMES = tuple(_REGIMES)


def pair(regime: str, *, seed: int = 3) -> RigidInputs:
    """Inputs of ``PAIR_MODEL`` for three worlds in one of ``REGIMES``."""
    height, tilt, speed, spin, force, material = _REGIMES[regime]
    rng = np.random.default_rng(seed)
    b, n = 3, 2
    body_q0, body_qd0 = np.zeros((b, n, 7)), np.zeros((b, n, 6))
    mass = np.array(_MASSES) * rng.uniform(0.9, 1.1, (b, n))
    body_contact = np.array(material) * rng.uniform(0.9, 1.1, (b, n, 4))
    inertia = np.zeros((b, n, 3, 3))
    for i, k in np.ndindex(b, n):
        half = _HALVES[k]
        depth = mass[i, k] * GRAVITY / (4 * body_contact[i, k, 0])
        slack = 0.0 if height == 0.0 or regime == "flight" else np.sin(tilt) * np.linalg.norm(half[:2])
        turn = rng.uniform(0.9, 1.1) * turned([*rng.standard_normal(2), 0.3 * rng.standard_normal()], tilt)
        lift = height * rng.uniform(0.5, 1.0) + slack
        body_q0[i, k] = [*rng.uniform(-0.5, 0.5, 2), PAIR_MODEL.ground_height + half[2] - depth + lift, *turn]
        heading = rng.uniform(0, 2 * np.pi)
        body_qd0[i, k, :3] = speed * np.array([np.cos(heading), np.sin(heading), -0.5 if height else 0.0])
        body_qd0[i, k, 3:] = spin * rng.uniform(-1, 1, 3)
        skew = rng.uniform(-0.05, 0.05, (3, 3))
        inertia[i, k] = box_inertia(mass[i, k], half) @ (np.eye(3) + skew + skew.T)
        inertia[i, k] = (inertia[i, k] + inertia[i, k].T) / 2
    return RigidInputs(
        body_q0=body_q0,
        body_qd0=body_qd0,
        body_mass=mass,
        body_inertia=inertia,
        body_contact=body_contact,
        gravity=np.array([0.0, 0.0, -GRAVITY]) + (0.0 if regime == "resting" else 0.1) * rng.standard_normal((b, 3)),
        body_force=force * rng.uniform(-1, 1, (b, 2, 3)),
        force_point=0.03 * rng.uniform(-1, 1, (b, 2, 3)),
    )


def driven(model: RigidModel, inputs: RigidInputs, *, frames: int, seed: int = 5) -> tuple[RigidModel, RigidInputs]:
    """The same with wrenches over ``frames`` frame intervals and drag, about as strong as gravity."""
    rng = np.random.default_rng(seed)
    b, n = inputs.body_mass.shape
    weight = GRAVITY * inputs.body_mass[:, None, :, None]
    push, twist = weight * rng.uniform(-1, 1, (b, frames, n, 3)), 0.02 * weight * rng.uniform(-1, 1, (b, frames, n, 3))
    drag = rng.uniform(0.5, 1.0, (b, n, 2)) * (0.5, 2e-3)
    return replace(model, has_wrenches=True), replace(inputs, body_wrench=np.concatenate([push, twist], -1), body_drag=drag)
