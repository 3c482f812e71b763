"""The rasteriser as a differentiable torch function, in both modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from risp_torch.scene.bridge.checks import kernel_gradient, kernel_tensor
from risp_torch.scene.bridge.chunks import Chunk, plan_chunks, real_inputs
from risp_torch.scene.bridge.derivative_errors import Derivative, one_by_one, second_derivative_error, without_second_derivative
from ti_render import MeshTopology, RasterSettings, RenderInputs, RenderResult, render_adjoint, render_jvp
from ti_render import render as render_arrays
from ti_sim.base.arrays import Array
from ti_sim.base.rules import Positive, checked


class _Call:
    """One rendering call: data for its derivatives besides the tensors.

    A single chunk keeps the results of the forward pass. With several, each is rendered again for every derivative.
    """

    def __init__(self, mesh: MeshTopology, names: tuple[str, ...], settings: RasterSettings, chunks: list[Chunk]) -> None:
        self.mesh, self.names, self.settings, self.chunks = mesh, names, settings, chunks
        self.saved_result: RenderResult | None = None

    def without_result(self) -> _Call:
        """The same call without its result, for other tensors."""
        return _Call(self.mesh, self.names, self.settings, self.chunks)

    def render(self, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """All images [M, H, W, 4]."""
        if len(self.chunks) == 1:
            result = self.result(self.chunks[0], tensors)
            # The images are returned; their graph must not reference itself.
            self.saved_result = result.without_pictures()
            return result.images
        return _concatenated([self.result(chunk, tensors).images for chunk in self.chunks])

    def result(self, chunk: Chunk, tensors: tuple[torch.Tensor, ...]) -> RenderResult:
        """The result of the renderer for a chunk."""
        named = zip(self.names, tensors, strict=True)
        arrays = {name: chunk.rows_of(name, kernel_tensor(tensor, name)) for name, tensor in named}
        return render_arrays(RenderInputs(mesh=self.mesh, **arrays), self.settings)

    def chunk_result(self, chunk: Chunk, tensors: tuple[torch.Tensor, ...]) -> RenderResult:
        """The result of a chunk for a derivative: kept, or rendered again."""
        return self.result(chunk, tensors) if self.saved_result is None else self.saved_result

    def adjoint(self, images_bar: torch.Tensor, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Adjoints of all tensors."""
        images_bar = kernel_gradient(images_bar, images_bar.shape, tensors[0])
        if len(self.chunks) == 1:
            bars = render_adjoint(self.chunk_result(self.chunks[0], tensors), images_bar)
            return tuple(getattr(bars, name) for name in self.names)
        zeros = (torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors)
        total = dict(zip(self.names, zeros, strict=True))
        for chunk in self.chunks:
            chunk_bar = images_bar[chunk.first : chunk.last]
            bars = render_adjoint(self.chunk_result(chunk, tensors), chunk_bar)
            for name in self.names:
                chunk.rows_of(name, total[name]).add_(getattr(bars, name))
        return tuple(total.values())

    def tangents(self, tensors: tuple[torch.Tensor, ...], tangents: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Derivatives [M, K, H, W, 4] along the tangents [K, ...]."""
        return _concatenated([
            render_jvp(self.chunk_result(chunk, tensors), self.tangents_of_chunk(chunk, tangents)) for chunk in self.chunks
        ])  # fmt: skip

    def tangents_of_chunk(self, chunk: Chunk, tangents: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The rows of the tangents that belong to a chunk."""
        chunk_tangents = {}
        for name, tangent in tangents.items():
            chunk_tangents[name] = chunk.rows_of(name, kernel_tensor(tangent, f"tangent of {name}"), axis=1).contiguous()
        return chunk_tangents


class _Render(torch.autograd.Function):
    """Images of the tensors ``call.names``."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> torch.Tensor:
        return call.render(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.call, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, images_bar: torch.Tensor | None) -> Any:
        if images_bar is None:
            return (None,) * (1 + len(ctx.call.names))
        return None, *_Adjoint.apply(ctx.call, images_bar, *ctx.saved_tensors)

    @staticmethod
    def jvp(ctx: Any, _call: None, *tangents: torch.Tensor | None) -> torch.Tensor:
        directions = {name: t[None] for name, t in zip(ctx.call.names, tangents, strict=True) if t is not None}
        return _Tangents.apply(ctx.call, tuple(directions), *ctx.saved_tensors, *directions.values())[:, 0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        calls = [arguments[0].without_result() for _ in range(info.batch_size)]
        return one_by_one(_Render, info, in_dims, arguments, calls)


class _Adjoint(Derivative):
    """Adjoints of the tensors."""

    subject = "a picture"

    @staticmethod
    def forward(call: _Call, images_bar: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return call.adjoint(images_bar, tensors)


class _Tangents(Derivative):
    """Derivatives [M, K, H, W, 4] of the images along K tangents [K, ...] of the tensors ``tangent_names``."""

    subject = "a picture"

    @staticmethod
    def forward(call: _Call, tangent_names: tuple[str, ...], *tensors: torch.Tensor) -> torch.Tensor:
        count = len(call.names)
        return call.tangents(tensors[:count], dict(zip(tangent_names, tensors[count:], strict=True)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, tangent_names: tuple[str, ...], *tensors: torch.Tensor) -> Any:
        count = len(call.names)
        if any(dim is not None for dim in in_dims[2 : 2 + count]):
            return one_by_one(_Tangents, info, in_dims, (call, tangent_names, *tensors))
        # Batch rows become additional columns of the same pass.
        columns = []
        for tangent, dim in zip(tensors[count:], in_dims[2 + count :], strict=True):
            rows = tangent.expand(info.batch_size, *tangent.shape) if dim is None else tangent.movedim(dim, 0)
            columns.append(rows.flatten(0, 1))
        images = _Tangents.apply(call, tangent_names, *tensors[:count], *columns)
        return images.unflatten(1, (info.batch_size, -1)), 1


def _concatenated(chunks: list[torch.Tensor]) -> torch.Tensor:
    return chunks[0] if len(chunks) == 1 else torch.cat(chunks)


@checked
def render(inputs: RenderInputs, settings: RasterSettings, *, memory_limit: Positive | None = None) -> torch.Tensor:
    """Render M images, differentiable in every tensor of ``inputs``, in reverse and forward mode (also torch.func.jvp).

    Args:
        inputs: tensors of the runtime's precision on its device (shapes: ``RenderInputs``).
        settings: size, softness, composition.
        memory_limit: bytes of working memory (estimate: ``chunks.image_bytes``); larger films are rendered in chunks, and again
            in chunks for the derivatives, without results of the forward pass. None: all images at once, if the machine
            has the memory.

    Returns:
        [M, H, W, 4] linear rgb and alpha.

    Raises:
        UserError: a tensor has the wrong device, precision or shape, the limit is too low for one image, or the images do not
            fit into memory. A second derivative raises RuntimeError.
    """
    tensors = real_inputs(inputs)
    call = _Call(inputs.mesh, tuple(tensors), settings, plan_chunks(inputs, settings, memory_limit))
    return _Render.apply(call, *tensors.values())


@checked
def render_jacobian(
    inputs: RenderInputs, settings: RasterSettings, tangents: Mapping[str, Array], *, memory_limit: Positive | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and their derivatives along K directions, all in one pass.

    The results have no derivatives: if a tensor requires a gradient, a backward pass through them raises
    RuntimeError.

    Args:
        inputs, settings: as in ``render``.
        tangents: name of an input -> [K, *its shape]; other inputs are constant.
        memory_limit: see ``render``; includes the K derivatives.

    Returns:
        Images [M, H, W, 4] and derivatives [M, K, H, W, 4].

    Raises:
        UserError: as ``render``.
    """
    columns = next((len(tangent) for tangent in tangents.values()), 0)
    tensors = real_inputs(inputs)
    call = _Call(inputs.mesh, tuple(tensors), settings, plan_chunks(inputs, settings, memory_limit, columns=columns))

    def render_chunks() -> tuple[torch.Tensor, torch.Tensor]:
        images, derivatives = [], []
        for chunk in call.chunks:
            result = call.result(chunk, tuple(tensors.values()))
            images.append(result.images)
            derivatives.append(render_jvp(result, call.tangents_of_chunk(chunk, tangents)))
        return _concatenated(images), _concatenated(derivatives)

    return without_second_derivative(render_chunks, second_derivative_error("a picture"), *tensors.values(), *tangents.values())
