"""Times of functions: warmed up, repeated in turns, and the least of them."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ti_sim.base.runtime import require, ti


@dataclass(frozen=True)
class Timing:
    """The least of several repeats.

    Attributes:
        wall: s, from the call to the last written number.
        cpu: s of all threads of the process; on a busy machine it says more than ``wall`` about serial work.
    """

    wall: float
    cpu: float


def best_time(function: Callable[[], object], *, repeats: int) -> Timing:
    """As ``best_times``, of one function."""
    return best_times({"": function}, repeats=repeats)[""]


def best_times(functions: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, Timing]:
    """Call every function once to warm up, then all of them in turns; in turns, so that other load meets all alike.

    Args:
        functions: what to time, by name.
        repeats: timed calls of each.

    Returns:
        The least wall time and the least CPU time of each function, by its name.
    """
    for function in functions.values():
        function()
    least = {name: (float("inf"), float("inf")) for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            least[name] = tuple(map(min, least[name], _once(function)))
    return {name: Timing(*times) for name, times in least.items()}


def _once(function: Callable[[], object]) -> tuple[float, float]:
    _finish()
    cpu, wall = time.process_time(), time.perf_counter()
    function()
    _finish()
    return time.perf_counter() - wall, time.process_time() - cpu


def _finish() -> None:
    """Wait for the kernels of a GPU; on the CPU they have returned."""
    if require().device == "cuda":
        import torch

        ti.sync()
        torch.cuda.synchronize()


def peak_memory() -> float:
    """Largest memory [bytes] that the process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
