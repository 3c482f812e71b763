"""Unlit pictures with a texture for each face."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from risp_torch.scene import bridge
from risp_torch.scene.view.unlit import TEXTURE, UnlitRenderInputs
from ti_sim.base.arrays import ints_in_same_library, to_numpy


def render_textured(unlit_inputs: UnlitRenderInputs, shade: torch.Tensor, texels: torch.Tensor) -> torch.Tensor:
    """Pictures [M, H, W, 4], rgb and alpha, in colours that change bilinearly over each face; differentiable.

    Args:
        unlit_inputs: render inputs of M unlit pictures with F faces.
        shade: [M, F, 3] brightness of the faces.
        texels: [n, F, s, s, 3] colours of each face, of n worlds; row j and column i stand at i / (s - 1) of the way from the
            face's first corner to its second, and j / (s - 1) of that to its third.
    """
    worlds, faces, side = texels.shape[:3]
    mesh = unlit_inputs.arrays.mesh
    corners = np.array(to_numpy(mesh.corners))
    corners[:, TEXTURE] = np.arange(faces)
    table = np.column_stack([np.arange(faces) * side * side, np.full((faces, 2), side), np.zeros(faces, dtype=np.int64)])
    mesh = replace(
        mesh, corners=ints_in_same_library(mesh.corners, corners), textures=ints_in_same_library(mesh.textures, table),
        texel_count=faces * side * side, has_textures=True,
    )  # fmt: skip
    first_center, last_center = 0.5 / side, 1 - 0.5 / side  # centres of the first and the last texel
    corner_uv = shade.new_tensor([[first_center, last_center], [last_center, last_center], [first_center, first_center]])
    inputs = replace(
        unlit_inputs.arrays, mesh=mesh, albedo=shade[:, :, None].expand(-1, -1, 3, -1), uv=corner_uv.expand(1, faces, 3, 2),
        texels=texels.reshape(worlds, -1, 3),
    )  # fmt: skip
    return bridge.render(inputs, unlit_inputs.settings)
