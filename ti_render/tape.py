"""Rendering under ``ti.ad.Tape``: a program without torch gets the same gradient."""

from __future__ import annotations

from ti_render.inputs import RenderInputs, present_inputs
from ti_render.render import render
from ti_render.render_adjoint import add_render_adjoint
from ti_render.settings import RasterSettings
from ti_sim.base.arrays import Array
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti


@ti.ad.grad_replaced
def render_tape(inputs: RenderInputs, settings: RasterSettings, images: Array) -> None:
    """Render into ``images``; under ``ti.ad.Tape`` the gradient flows back into the inputs' ``.grad``.

    The gradient is added to the ``.grad`` of every real input that has one, and ``images.grad`` is read and kept. (``ti.ad.Tape``
    does not clear the gradients of ndarrays between two uses.) The images are rendered again for the gradient.

    Args:
        inputs: ti.ndarrays, those of which a gradient is wanted with ``needs_grad=True``.
        settings: size, softness, composition.
        images: [M, H, W, 4] ti.ndarray with ``needs_grad=True``, written.

    Raises:
        UserError: an array is no ti.ndarray, or a shape does not fit.
    """
    if not isinstance(images, ti.Ndarray) or not isinstance(inputs.body_q, ti.Ndarray):
        raise UserError("render_tape takes ti.ndarrays: use render and render_adjoint for other arrays")
    result = render(inputs, settings)
    if tuple(images.shape) != tuple(result.images.shape):
        raise UserError(f"images has shape {tuple(images.shape)}, and {tuple(result.images.shape)} is needed")
    images.copy_from(result.images)


@ti.ad.grad_for(render_tape)
def _render_tape_grad(inputs: RenderInputs, settings: RasterSettings, images: Array) -> None:
    result = render(inputs, settings)
    adjoints = {}
    for name in present_inputs(result.inputs):
        array = getattr(result.inputs, name)
        if array.grad is None:
            grad = ti.ndarray(dtype=array.dtype, shape=array.shape)
            grad.fill(0)
        else:
            grad = array.grad
        adjoints[name] = grad
    add_render_adjoint(result, images.grad, adjoints)
