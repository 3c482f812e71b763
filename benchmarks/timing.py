"""Times of functions: warmed up, repeated in turns, and the least of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ti_sim.base.runtime import require, ti


def best_time(function: Callable[[], object], *, repeats: int) -> float:
    """As ``best_times``, of one function."""
    return best_times({"": function}, repeats=repeats)[""]


def best_times(functions: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """Call every function once to warm up, then all of them in turns; in turns, so that other load meets all alike.

    Args:
        functions: what to time, by name.
        repeats: timed calls of each.

    Returns:
        The least wall time of each function [s], from the call to the last written number, by its name.
    """
    for function in functions.values():
        function()
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            least[name] = min(least[name], seconds(function))
    return least


def seconds(function: Callable[[], object]) -> float:
    """Wall time of one call [s], from the call to the last written number."""
    _finish()
    began = time.perf_counter()
    function()
    _finish()
    return time.perf_counter() - began


def _finish() -> None:
    """Wait for the kernels of a GPU; on the CPU they have returned."""
    if require().device == "cuda":
        import torch

        ti.sync()
        torch.cuda.synchronize()
