"""Bodies flattened onto the ground along directions of light: their silhouettes in the picture are those of their shadows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from risp_torch.scene.rotations import matrix_vector, rotation_matrix
from risp_torch.scene.view.unlit import UnlitRenderInputs
from ti_sim.base.arrays import ints_in_same_library


def flattened(unlit_inputs: UnlitRenderInputs, slopes: np.ndarray) -> UnlitRenderInputs:
    """Render inputs of unlit pictures of a motion's shadows on the ground, for each direction.

    Args:
        unlit_inputs: render inputs of M unlit pictures; ``unlit_inputs.ground_height`` is not None.
        slopes: [K, 2] horizontal displacement of the light per metre of descent; 0 for vertical light.

    Returns:
        Render inputs of M K unlit pictures, ordered by picture, then direction; differentiable like ``unlit_inputs``.
    """
    world = world_vertices(unlit_inputs)
    height = world[..., 2:] - unlit_inputs.ground_height
    light_slopes = torch.as_tensor(slopes).to(world)
    shadow_xy = world[:, None, :, :2] + height[:, None] * light_slopes[:, None]  # [M, K, V, 2]
    vertices = torch.cat([shadow_xy, torch.full_like(shadow_xy[..., :1], unlit_inputs.ground_height)], dim=-1).flatten(0, 1)
    arrays = unlit_inputs.arrays
    identity_pose = world.new_tensor([[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]).expand(len(vertices), 1, 7)
    no_body = ints_in_same_library(arrays.mesh.vertex_body, np.full(len(unlit_inputs.vertex_body), -1))
    mesh = replace(arrays.mesh, vertex_body=no_body, body_count=0)
    return replace(unlit_inputs, arrays=replace(arrays, mesh=mesh, vertices_rest=vertices, body_q=identity_pose))


def world_vertices(unlit_inputs: UnlitRenderInputs) -> torch.Tensor:
    """[M, V, 3] vertices in the world frame [m], differentiable."""
    rest, body_q = unlit_inputs.arrays.vertices_rest, unlit_inputs.arrays.body_q
    rest = rest.reshape(-1, *rest.shape[-2:])
    rest = rest.repeat_interleave(len(body_q) // len(rest), dim=0)
    body = torch.as_tensor(unlit_inputs.vertex_body.astype(np.int64), device=body_q.device)
    rotated = matrix_vector(rotation_matrix(body_q[..., 3:])[:, body], rest)
    return torch.where(body[:, None] >= 0, rotated + body_q[:, body, :3], rest)
