"""Implicit stages in plain numpy: what their states must fulfil, from the equations."""

from __future__ import annotations

import numpy as np

from tests.reference.deformable import internal_forces
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel


def mean_over_path(depth: np.ndarray, travel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of max(0, c) and of its derivative over depths c around ``depth`` with weights that fall linearly to 0 at ``travel``:
    second differences of the third and second integrals of a step."""
    ends = [(w, np.maximum(depth + side * travel, 0.0)) for w, side in ((1, 1), (-2, 0), (1, -1))]
    mean = sum(w * end**3 for w, end in ends) / (6 * travel**2)
    fraction = sum(w * end**2 for w, end in ends) / (2 * travel**2)
    return mean, fraction


def grip(y: np.ndarray) -> np.ndarray:
    """y below 1/2, 1 above 3/2, and between them the parabola with the same slopes at both ends."""
    return np.where(y <= 0.5, y, np.where(y >= 1.5, 1.0, 1 - (1.5 - y) ** 2 / 2))


def ground_forces(
    model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, q_hat: np.ndarray, q_before: np.ndarray, gamma: float,
    onset: float,
) -> np.ndarray:  # fmt: skip
    """Forces of the ground [B, P, 3] on particles that come from q_hat and end at q [B, P, 3], N; a step before, they were at
    q_before.
    """
    forces, touching = np.zeros(q.shape), np.asarray(model.contact, dtype=int)
    ke, kd, kf, mu = np.moveaxis(np.asarray(inputs.particle_contact)[:, touching], -1, 0)
    velocity = (q - q_hat)[:, touching] / gamma
    u, opening = velocity[..., :2], velocity[..., 2]
    depth = model.ground_height - q[:, touching, 2] - kd * np.maximum(opening, 0.0) / ke
    travel = np.abs(q - q_before)[:, touching, 2] + onset
    mean, fraction = mean_over_path(depth, travel)
    normal = ke * mean + kd * fraction * np.maximum(-opening, 0.0)
    speed, limit = np.linalg.norm(u, axis=-1), mu * normal
    pull = limit * grip(kf * fraction * speed / np.where(limit > 0, limit, np.inf))
    friction = -(pull / np.where(speed > 0, speed, 1.0))[..., None] * u
    forces[:, touching] = np.concatenate([friction, normal[..., None]], -1)
    return forces


def imbalance(
    model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, qd: np.ndarray, hat: tuple[np.ndarray, np.ndarray],
    before: np.ndarray, gamma: float, frame: int, onset: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What is left of both equations of a stage, q = q_hat + gamma qd and M qd = M qd_hat + gamma f(q, qd).

    Args:
        model, inputs: the bodies and their numbers.
        q, qd: [B, P, 3] result of the stage, m and m/s.
        hat: q_hat and qd_hat [B, P, 3].
        before: positions one step before the result [B, P, 3].
        gamma: s.
        frame: frame interval of loads and actuations.
        onset: m.

    Returns:
        [B, free, 3] of free particles, m and N.
    """
    forces = internal_forces(model, inputs, q, qd, frame) + ground_forces(
        model, inputs, q, hat[0], before, gamma, onset
    )
    for world, load in zip(forces, np.asarray(inputs.load)[:, frame], strict=True):
        np.add.at(world, np.asarray(model.loaded, dtype=int), load)
    mass = np.asarray(inputs.particle_mass)[..., None]
    forces = forces + mass * np.asarray(inputs.gravity)[:, None]
    free = np.setdiff1d(np.arange(q.shape[1]), np.concatenate([model.fixed, model.prescribed]))
    return (q - hat[0] - gamma * qd)[:, free], (mass * (qd - hat[1]) / gamma - forces)[:, free]
