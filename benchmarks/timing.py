"""Minimum times of functions after warm-up, with interleaved repetitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ti_sim.base.runtime import require, ti


def best_time(function: Callable[[], object], *, repeats: int) -> float:
    """As ``best_times``, of one function."""
    return best_times({"": function}, repeats=repeats)[""]


def best_times(functions: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """Call every function once to warm up, then all of them in interleaved rounds, so that other load affects all equally.

    Args:
        functions: to time, by name.
        repeats: timed calls of each.

    Returns:
        The least wall time of each function [s], from the call to the last written number, by its name.
    """
    for function in functions.values():
        function()
    best_seconds = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            best_seconds[name] = min(best_seconds[name], wall_seconds(function))
    return best_seconds


def wall_seconds(function: Callable[[], object]) -> float:
    """Wall time of one call [s], from the call to the last written number."""
    _synchronize()
    start_time = time.perf_counter()
    function()
    _synchronize()
    return time.perf_counter() - start_time


def _synchronize() -> None:
    """Wait for the kernels of a GPU; on the CPU they have returned."""
    if require().device == "cuda":
        import torch

        ti.sync()
        torch.cuda.synchronize()
