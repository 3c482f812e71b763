"""Contact of bodies with bodies: physics of single contacts, adjoints per kind of pair, near pairs, and bad input."""

from dataclasses import fields

import numpy as np
import pytest

from ti_sim.adjoint import StoreAll
from ti_sim.articulated.collision import CollisionShape
from ti_sim.articulated.instant import forward_dynamics, inverse_dynamics
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.base.gradcheck import gradcheck

NAMES = [field.name for field in fields(ArticulatedInputs)]
IDENTITY = (0.0, 0.0, 0.0, 1.0)
BALL = CollisionShape("sphere", (0.1,))
ROD = CollisionShape("capsule", (0.06, 0.12))
CRATE = CollisionShape("box", (0.12, 0.1, 0.08))


def bodies(*shapes: CollisionShape, kinds: tuple[str, ...] | None = None, **options: object) -> ArticulatedModel:
    """Links on the world, free ones unless other joints are named."""
    n = len(shapes)
    names, kinds = tuple(f"body {i}" for i in range(n)), kinds or ("free",) * n
    return ArticulatedModel(names, (-1,) * n, kinds, np.ones((n, 3)), collision_shape=shapes, **options)


def inputs_of(
    model: ArticulatedModel, q: np.ndarray, qd: np.ndarray, *, material: tuple, gravity: float = 0.0, frames: int = 1
) -> ArticulatedInputs:
    """Links of 1 kg and 0.004 kg m2 without springs, motors or other forces than gravity, joint frames at the origin."""
    n, d = model.link_count, model.velocity_count
    shapes = {field: (1, d) for field in NAMES} | {"action": (1, frames, d), "servo_target": (1, frames, d)}
    shapes |= {"joint_frame": (1, n, 7), "link_com": (1, n, 3), "link_wrench": (1, frames, n, 6)}
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    arrays["joint_q0"] = np.array(q, dtype=float).reshape(1, -1)
    arrays["joint_qd0"] = np.array(qd, dtype=float).reshape(1, -1)
    arrays["joint_frame"][..., 6] = 1
    arrays["joint_limit_low"] -= np.inf
    for name in ("joint_limit_high", "motor_limit"):
        arrays[name] += np.inf
    arrays["link_mass"] = np.ones((1, n))
    arrays["link_inertia"] = np.tile(0.004 * np.eye(3), (1, n, 1, 1))
    arrays["link_material"] = np.tile(np.array(material, dtype=float), (1, n, 1))
    arrays["gravity"] = np.array([[0, 0, -gravity]])
    return ArticulatedInputs(**arrays)


def at(*position: float) -> list[float]:
    """Coordinates of a free body that is not turned."""
    return [*position, *IDENTITY]


def simulate(
    model: ArticulatedModel, inputs: ArticulatedInputs, dt: float, substeps: int, integrator: str = "semi_implicit"
) -> ArticulatedRollout:
    """A rollout over all frames, with states kept."""
    solver = ArticulatedSolver(model, ArticulatedSettings(dt, substeps, integrator))
    return solver.rollout(inputs, inputs.frame_count, adjoint=StoreAll())
