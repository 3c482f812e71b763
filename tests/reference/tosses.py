"""Tosses of a box, as recordings with noise, that the tests of measured motions share."""

from __future__ import annotations

import numpy as np
import torch

from risp_torch import Box, Contact, Param, Scene, Start
from risp_torch.motions import Recording

SIDES = (0.1, 0.08, 0.06)
DT = 0.01


def toss_scene(*, density: bool = False) -> Scene:
    """A box above the ground, with bounds for everything that is fitted; its mass is known, or its density unknown."""
    scene = Scene(
        frame_dt=DT, frames=30, substeps=20, name="tosses", gravity=Param(9.81, low=7.0, high=13.0)
    )  # fmt: skip
    scene.add_ground(
        contact=Contact(
            stiffness=Param(2000.0, low=300.0, high=20000.0, scale="log10"),
            damping=Param(15.0, low=2.0, high=200.0, scale="log10"),
            friction_stiffness=Param(20.0, low=2.0, high=200.0, scale="log10"),
            friction=Param(0.3, low=0.05, high=1.0, scale="log10"),
        )
    )  # fmt: skip
    mass = {"density": Param(800.0, low=200.0, high=3000.0, scale="log10")} if density else {"mass": 0.4}
    scene.add_rigid("box", shape=Box(*SIDES), start=Start(position=(0.0, 0.0, 0.1), orientation=(0.1, 0.2, 0.0, 1.0)), **mass)
    scene.add_number("poses.scale", Param(1.0, low=0.8, high=1.2))
    return scene


def tosses(
    values: dict[str, float], *, count: int = 6, frames: int = 40, noise: float = 0.0, seed: int = 0, density: bool = False
) -> list[Recording]:
    """Simulated recordings; positions are measured as ``poses.scale`` times what they are, with noise [m] in all coordinates."""
    scene, rng = toss_scene(density=density), np.random.default_rng(seed)
    starts = {
        "box.position": np.array([0.0, 0.0, 0.09]) + 0.02 * rng.standard_normal((count, 3)) * (1, 1, 0.3),
        "box.rotation": 0.4 * rng.standard_normal((count, 3)), "box.velocity": rng.uniform(-0.8, 0.8, (count, 3)) * (1, 1, 0.5),
        "box.angular_velocity": 3.0 * rng.standard_normal((count, 3)),
    }  # fmt: skip
    scale = values.get("poses.scale", 1.0)
    given = {name: torch.as_tensor(value) for name, value in (values | starts).items()}
    body_q = scene.rollout(given, frames=frames - 1).body_q.double().cpu().numpy()
    body_q[..., :3] = scale * body_q[..., :3] + noise * rng.standard_normal(body_q[..., :3].shape)
    body_q[..., 3:] += 0.1 * noise / 0.07 * rng.standard_normal(body_q[..., 3:].shape)
    body_q[..., 3:] /= np.linalg.norm(body_q[..., 3:], axis=-1, keepdims=True)
    return [Recording(f"toss_{k}", rows, DT) for k, rows in enumerate(body_q)]
