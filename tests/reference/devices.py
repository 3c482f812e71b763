"""Marks of tests that a device cannot run (``RISP_DEVICE``), with the reason."""

from __future__ import annotations

import pytest

from ti_sim.base.runtime import require


def needs_cpu(reason: str) -> pytest.MarkDecorator:
    """Mark of tests that run on the CPU only."""
    return pytest.mark.skipif(require().device != "cpu", reason=reason)


def not_on_vulkan(reason: str) -> pytest.MarkDecorator:
    """Mark of tests that run on the CPU and with CUDA."""
    return pytest.mark.skipif(require().device == "vulkan", reason=reason)


long_loops = not_on_vulkan("Mesa's software driver ends the loops of a thread after 65,535 iterations, without an error")
host_arguments = not_on_vulkan(
    "Vulkan copies host arrays to Taichi arrays by extra launches, without gradients, vectors and overlaps"
)
taichi_gradients = not_on_vulkan("gradients of Taichi arrays by Taichi itself stay zero on Vulkan")
