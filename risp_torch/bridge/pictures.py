"""The soft rasteriser as a differentiable torch function."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from risp_torch.bridge.checks import kernel_tensor, upstream
from ti_render import RasterSettings, RenderInputs, render_adjoint
from ti_render import render as render_arrays

_INTEGERS = ("faces", "vertex_body")
_NAMES = tuple(field.name for field in fields(RenderInputs) if field.name not in _INTEGERS)


class _Render(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, settings: RasterSettings, faces: torch.Tensor, vertex_body: torch.Tensor, *tensors: torch.Tensor | None
    ) -> torch.Tensor:
        arrays = {
            name: None if t is None else kernel_tensor(t, name) for name, t in zip(_NAMES, tensors, strict=True)
        }
        result = render_arrays(RenderInputs(faces=faces, vertex_body=vertex_body, **arrays), settings)
        if any(ctx.needs_input_grad):
            # The images are returned; only their shape, type and place matter to the adjoint.
            ctx.kept = replace(result, images=None)
            ctx.image_shape = result.images.shape
        return result.images

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, images_bar: torch.Tensor) -> Any:
        kept = ctx.kept
        images_bar = upstream(images_bar, ctx.image_shape, kept.pixel_state)
        bars = render_adjoint(replace(kept, images=images_bar), images_bar)
        return (None, None, None, *(getattr(bars, name) for name in _NAMES))


def render(inputs: RenderInputs, settings: RasterSettings) -> torch.Tensor:
    """Render M images, differentiable in every real tensor of ``inputs``.

    Args:
        inputs: tensors of the runtime's precision on its device (shapes: ``RenderInputs``).
        settings: size, softness, composition.

    Returns:
        [M, H, W, 4] linear rgb and alpha.

    Raises:
        UserError: a tensor has the wrong device, precision or shape. A second derivative raises torch's own error.
    """
    return _Render.apply(
        settings, inputs.faces, inputs.vertex_body, *(getattr(inputs, name) for name in _NAMES)
    )
