"""Motion, pictures and a gradient of a short film: the numbers that two programs compare."""

from __future__ import annotations

import numpy as np
import torch

from risp_torch import load_scene


def short_film() -> dict[str, np.ndarray]:
    """Poses, pictures and the adjoint of gravity in two worlds of the scene "cube"."""
    scene = load_scene("cube", size=48)
    gravity = torch.tensor([[0.0, 0.0, -9.81], [0.0, 0.5, -9.0]], requires_grad=True)
    states = scene.rollout({"gravity": gravity}, frames=6)
    film = scene.render(states)
    film.square().sum().backward()
    arrays = {"body_q": states.body_q, "film": film, "gravity_bar": gravity.grad}
    return {name: array.detach().cpu().numpy() for name, array in arrays.items()}
