"""Simulated tosses of ContactNets' cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from scenes.real import contactnets_cube as cube


def simulated_tosses(
    values: Mapping[str, Any], *, count: int, frames: int, seed: int, height: float, spread: float, fall: float, substeps: int
) -> np.ndarray:
    """Poses [count, frames, 1, 7] of tosses with random starts, in the scene's lengths.

    Args:
        values: numbers of the scene.
        count: of the tosses.
        frames: of each, the start included.
        seed: of the starts.
        height: mean height of the centre [m].
        spread: standard deviation of its place [m].
        fall: largest vertical velocity [m/s]; 1 m/s along the ground.
        substeps: physics steps in a frame.
    """
    scene, random = cube.make_scene(substeps=substeps), np.random.default_rng(seed)
    starts = {
        "cube.position": np.array([0.0, 0.0, height]) + spread * random.standard_normal((count, 3)),
        "cube.rotation": random.standard_normal((count, 3)), "cube.velocity": random.uniform(-1, 1, (count, 3)) * (1, 1, fall),
        "cube.angular_velocity": 4.0 * random.standard_normal((count, 3)),
    }  # fmt: skip
    given = {name: torch.as_tensor(value) for name, value in {**values, **starts}.items()}
    return scene.rollout(given, frames=frames - 1).body_q.cpu().numpy().copy()
