"""Long films in chunks: how many images fit into a memory limit, and which rows of each array belong to a chunk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from risp_torch.files.memory import available_bytes, check_memory
from ti_render import RasterSettings, RenderInputs
from ti_sim.base.errors import UserError

PIXEL_BYTES = 72  # of a pixel, in single precision: the renderer's state and the colours
VERTEX_REALS, FACE_REALS, IMAGE_REALS = 6, 12, 256
UNCHECKED_BYTES = 2**28  # bytes that are used without a check of the available memory
NUM_PASSES = 2  # forward and adjoint, each for every vertex, face and image
SHARED_INPUT = "vertices_rest"  # [V, 3], shared by all images


@dataclass(frozen=True)
class Chunk:
    """Images ``first`` to ``last`` - 1 of ``images``."""

    first: int
    last: int
    images: int

    def rows(self, count: int) -> slice:
        """The rows of an array with ``count`` rows that these images need (image m uses row m count // images)."""
        return slice(self.first * count // self.images, (self.last - 1) * count // self.images + 1)

    def rows_of(self, name: str, tensor: torch.Tensor, *, axis: int = 0) -> torch.Tensor:
        """The rows along ``axis`` of one input of the renderer that these images need."""
        if self.last - self.first == self.images or (name == SHARED_INPUT and tensor.ndim - axis == 2):
            return tensor
        rows = self.rows(tensor.shape[axis])
        return tensor.narrow(axis, rows.start, rows.stop - rows.start)


def image_bytes(inputs: RenderInputs, settings: RasterSettings, *, columns: int = 0) -> int:
    """Estimate of the working memory of one image [bytes], besides the inputs and the output images.

    72 bytes a sample in single precision (antialias² samples a pixel, and the texels of the shadow maps), 12 reals a face and 6 a
    vertex, twice for the adjoint, and the same again for every column of a forward derivative, including its images. It is
    an upper bound: pixels far from all faces need less.

    Args:
        inputs, settings: of the renderer.
        columns: columns of a forward derivative.
    """
    size = inputs.body_q.element_size()
    samples = settings.width * settings.height * settings.antialias**2
    if settings.shadows is not None and inputs.directional is not None:
        samples += inputs.directional.shape[-2] * settings.shadows.resolution**2
    vertices, faces = inputs.vertices_rest.shape[-2], inputs.albedo.shape[-3]
    reals = NUM_PASSES * (VERTEX_REALS * vertices + FACE_REALS * faces + IMAGE_REALS)
    pixels = samples * PIXEL_BYTES * size // 4
    return (pixels + reals * size) * (1 + columns)


def plan_chunks(inputs: RenderInputs, settings: RasterSettings, memory_limit: float | None, *, columns: int = 0) -> list[Chunk]:
    """Chunks of the images that each fit into the limit.

    Args:
        inputs, settings: of the renderer.
        memory_limit: bytes of working memory (see ``image_bytes``); None renders all images at once or, if the machine does not
            have the memory for that, as many as fit into half of the available memory.
        columns: columns of a forward derivative.

    Raises:
        UserError: a single image needs more, or the output images do not fit into the machine's memory.
    """
    images = inputs.body_q.shape[0]
    picture_bytes = image_bytes(inputs, settings, columns=columns)
    output_bytes = images * settings.width * settings.height * 4 * inputs.body_q.element_size() * (1 + columns)
    if output_bytes + images * picture_bytes > UNCHECKED_BYTES:
        available = _available_bytes(inputs.body_q)
        subject = f"{images} pictures of {settings.width} x {settings.height} pixels" if images > 1 else "one picture"
        check_memory(output_bytes + picture_bytes, subject, "take fewer or smaller ones", available=available)
        if memory_limit is None and output_bytes + images * picture_bytes > available:
            memory_limit = max((available - output_bytes) // 2, picture_bytes)
    if memory_limit is None:
        return [Chunk(0, images, images)]
    memory_limit = int(memory_limit)
    if memory_limit < picture_bytes:
        raise UserError(
            f"the memory limit is {memory_limit} bytes, and one picture of {settings.width} x {settings.height} pixels needs "
            f"{picture_bytes}: give at least that, or take smaller pictures"
        )
    row_counts = {t.shape[0] for name, t in real_inputs(inputs).items() if name != SHARED_INPUT or t.ndim == 3}
    row_counts = {count for count in row_counts if count and images % count == 0}  # the renderer raises for other counts
    return [Chunk(first, last, images) for first, last in _spans(images, row_counts, memory_limit // picture_bytes)]


def _available_bytes(tensor: torch.Tensor) -> int:
    """Available memory on the device of a tensor [bytes]."""
    return torch.cuda.mem_get_info(tensor.device)[0] if tensor.is_cuda else available_bytes()


def real_inputs(inputs: RenderInputs) -> dict[str, torch.Tensor]:
    """The tensors of ``inputs`` by name, without those that are None and without the mesh."""
    named = ((name, getattr(inputs, name)) for name in inputs.__dataclass_fields__ if name != "mesh")
    return {name: tensor for name, tensor in named if tensor is not None}


def _spans(images: int, row_counts: Iterable[int], max_images: int) -> list[tuple[int, int]]:
    """Cut the images into spans of at most ``max_images`` such that in each of them every array has whole rows, or one."""
    images_per_row = [images // count for count in row_counts]
    spans, first = [], 0
    while first < images:
        last = min(first + max_images, images)
        while not all(first // b == (last - 1) // b or (first % b == 0 and last % b == 0) for b in images_per_row):
            last -= 1
        spans.append((first, last))
        first = last
    return spans
