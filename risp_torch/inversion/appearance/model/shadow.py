"""Shadows on the ground under unknown lights: a dictionary of directions, each with an unknown colour.

Light that reaches the ground is a sum over directions, and what the bodies keep off is that sum over their shadows. Of each
direction k the shadow's silhouette S_k in the picture follows from the motion; the plate behind the bodies is p + sum_k c_k S_k
with unknown colours c_k, negative where light is missing. They are linear, as the colours of bodies are.
"""

from __future__ import annotations

import numpy as np
import torch

from risp_torch.scene.view.flattened import flattened
from risp_torch.scene.view.unlit import UnlitRenderInputs
from ti_sim.base.errors import UserError

# Tangent of the light's angle from the vertical, number of directions around, and parts of a step that the first is turned by.
RINGS = ((0.5, 8, 0.0), (1.0, 8, 0.5))


def slopes() -> np.ndarray:
    """[K, 2] horizontal way of the light for each metre that it falls, in each direction; the first is from above."""
    rows = [np.zeros((1, 2))]
    for tangent, count, turn in RINGS:
        angle = 2 * np.pi * (np.arange(count) + turn) / count
        rows.append(tangent * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return np.concatenate(rows)


def check_ground(height: float | None) -> None:
    """Raise a UserError if a scene has no ground."""
    if height is None:
        raise UserError("the scene has no ground for the look's shadow to fall on: add one with add_ground, or leave shadow out")


def shadows_of(unlit_inputs: UnlitRenderInputs) -> torch.Tensor:
    """[M, K, H, W] how much of a pixel's ground lies in the shadow of each direction, 0 to 1; differentiable.

    Raises:
        UserError: the scene has no ground.
    """
    check_ground(unlit_inputs.ground_height)
    directions = slopes()
    flat = flattened(unlit_inputs, directions)
    images = flat.render(torch.zeros_like(flat.arrays.albedo))
    return images[..., 3].unflatten(0, (-1, len(directions)))
