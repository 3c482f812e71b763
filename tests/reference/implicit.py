"""Implicit stages in plain numpy: what their states must fulfil, from the equations."""

from __future__ import annotations

import numpy as np

from tests.reference.deformable import internal_forces
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel


def soft_plus(y: np.ndarray, width: np.ndarray | float) -> np.ndarray:
    """0 below 0, y above ``width``, and between them the cubic with the same slopes at both ends."""
    t = np.clip(y / width, 0.0, 1.0)
    return np.where(y >= width, y, width * (2 * t**2 - t**3))


def grip(y: np.ndarray) -> np.ndarray:
    """y below 1/2, 1 above 3/2, and between them the parabola with the same slopes at both ends."""
    return np.where(y <= 0.5, y, np.where(y >= 1.5, 1.0, 1 - (1.5 - y) ** 2 / 2))


def ground_forces(
    model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, q_hat: np.ndarray, gamma: float, onset: float
) -> np.ndarray:
    """Forces of the ground [B, P, 3] on particles that come from q_hat and end at q [B, P, 3], N."""
    forces, touching = np.zeros(q.shape), np.asarray(model.contact, dtype=int)
    ke, kd, kf, mu = np.moveaxis(np.asarray(inputs.particle_contact)[:, touching], -1, 0)
    depth = model.ground_height - q[:, touching, 2]
    came = soft_plus(model.ground_height - q_hat[:, touching, 2], onset)
    normal = soft_plus(ke * depth + kd * (depth - came) / gamma, ke * onset)
    u = (q - q_hat)[:, touching, :2] / gamma
    speed, limit = np.linalg.norm(u, axis=-1), mu * normal
    pull = limit * grip(kf * speed / np.where(limit > 0, limit, np.inf))
    friction = -(pull / np.where(speed > 0, speed, 1.0))[..., None] * u
    forces[:, touching] = np.concatenate([friction, normal[..., None]], -1)
    return forces


def imbalance(
    model: DeformableModel, inputs: DeformableInputs, q: np.ndarray, qd: np.ndarray, hat: tuple[np.ndarray, np.ndarray],
    gamma: float, frame: int, onset: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What is left of both equations of a stage, q = q_hat + gamma qd and M qd = M qd_hat + gamma f(q, qd).

    Args:
        model, inputs: the bodies and their numbers.
        q, qd: [B, P, 3] result of the stage, m and m/s.
        hat: q_hat and qd_hat [B, P, 3].
        gamma: s.
        frame: frame interval of loads and actuations.
        onset: m.

    Returns:
        [B, free, 3] of free particles, m and N.
    """
    forces = internal_forces(model, inputs, q, qd, frame) + ground_forces(model, inputs, q, hat[0], gamma, onset)
    for world, load in zip(forces, np.asarray(inputs.load)[:, frame], strict=True):
        np.add.at(world, np.asarray(model.loaded, dtype=int), load)
    mass = np.asarray(inputs.particle_mass)[..., None]
    forces = forces + mass * np.asarray(inputs.gravity)[:, None]
    free = np.setdiff1d(np.arange(q.shape[1]), np.concatenate([model.fixed, model.prescribed]))
    return (q - hat[0] - gamma * qd)[:, free], (mass * (qd - hat[1]) / gamma - forces)[:, free]
