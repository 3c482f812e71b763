"""Memory that pictures and their derivatives take above the inputs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.memory import numbers_of_child_process, peak_bytes, reset_peak, resident_bytes
from benchmarks.raster.scenes import make_inputs, numpy_inputs, sphere
from ti_render import RasterSettings, RenderInputs, present_inputs, render, render_adjoint
from ti_sim.base.runtime import require, start


@dataclass(frozen=True)
class Footprint:
    """Bytes above the inputs.

    Attributes:
        held_by_result: by the result of ``render``, pictures included.
        forward: peak while the picture is drawn.
        backward: peak while its adjoint is computed, with ``held_by_result`` and the adjoints; without the pictures' adjoint,
            which belongs to the caller.
        adjoints: of the inputs, which are the result of the backward pass.
    """

    held_by_result: int
    forward: int
    backward: int
    adjoints: int


def measure(inputs: RenderInputs, settings: RasterSettings) -> Footprint:
    """Count what numpy allocates (``tracemalloc``) while one picture and its adjoint are computed on numpy arrays.

    Args:
        inputs: torch tensors.
        settings: of the pictures.
    """
    arrays = numpy_inputs(inputs)
    images_bar = np.ones((len(arrays.body_q), settings.height, settings.width, 4), dtype=np.float32)
    render_adjoint(render(arrays, settings), images_bar)
    tracemalloc.start()
    try:
        result, held_by_result, forward = _traced(lambda: render(arrays, settings))
        adjoint, _held, backward = _traced(lambda: render_adjoint(result, images_bar))
    finally:
        tracemalloc.stop()
    adjoints = sum(getattr(adjoint, name).nbytes for name in present_inputs(adjoint))
    return Footprint(held_by_result=held_by_result, forward=forward, backward=held_by_result + backward, adjoints=adjoints)


def _traced(function: Callable[[], object]) -> tuple[object, int, int]:
    """Result of a function, bytes that remain allocated, and its peak in bytes."""
    gc.collect()
    bytes_before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = function()
    _now, peak = tracemalloc.get_traced_memory()
    gc.collect()
    return result, tracemalloc.get_traced_memory()[0] - bytes_before, peak - bytes_before


def process_growth(pixels: int, faces: int, images: int, aggregation: str) -> int | None:
    """Bytes by which one forward and one backward pass raise the peak memory of a child process that has drawn 8 x 8 pixels
    before; None on other systems than Linux."""
    arguments = pixels, faces, images, aggregation, require().device
    numbers = numbers_of_child_process("benchmarks.raster.footprint", "print_growth", *arguments)
    return None if numbers is None else numbers[0]


def print_growth(pixels: int, faces: int, images: int, aggregation: str, device: str) -> None:
    """Entry point of the child process: print the growth of its peak memory in bytes."""
    start(device=device, precision="f32")
    for small in (True, False):
        inputs, settings = make_inputs(
            sphere(faces), 8 if small else pixels, images=1 if small else images, aggregation=aggregation
        )
        images_bar = torch.ones(inputs.body_q.shape[0], settings.height, settings.width, 4, device=inputs.body_q.device)
        reset_peak()
        before = resident_bytes()
        render_adjoint(render(inputs, settings), images_bar)
    print(peak_bytes() - before)
