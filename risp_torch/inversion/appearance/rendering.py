"""Pictures of a solved look by the renderer, with gradients in the motion and the camera."""

from __future__ import annotations

import torch

from risp_torch.inversion.appearance.model.palette import Palette
from risp_torch.inversion.appearance.model.shadow import shadows_of
from risp_torch.scene.view.textured import render_textured
from risp_torch.scene.view.unlit import UnlitRenderInputs


def picture_of_bodies(
    unlit_inputs: UnlitRenderInputs, palette: Palette, colors: torch.Tensor, shade: torch.Tensor
) -> torch.Tensor:
    """[M, H, W, 4] bodies in colours [B, N, 3] of a palette, and brightness [B, M / B, F, 3] of faces; rgb and alpha."""
    faces = colors[:, torch.as_tensor(palette.corner)]  # [B, F, T, 3]
    if palette.lattice.divisions == 1:
        return unlit_inputs.render((faces[:, None] * shade[:, :, :, None]).flatten(0, 1))
    texels = torch.as_tensor(palette.lattice.texels).to(faces)
    return render_textured(unlit_inputs, shade.flatten(0, 1), torch.einsum("jit,bftc->bfjic", texels, faces))


def shadows_in(unlit_inputs: UnlitRenderInputs, cast: torch.Tensor) -> torch.Tensor:
    """[M, H, W, 3] what shadows of colours [B, K, 3] add to the plate."""
    amounts = shadows_of(unlit_inputs).unflatten(0, (unlit_inputs.worlds, -1))
    return torch.einsum("bmkhw,bkc->bmhwc", amounts, cast).flatten(0, 1)
