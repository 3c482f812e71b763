"""Launches of kernels inside a function: their number, kernels and times, and the cost of a launch."""

# No postponed annotations here: a kernel's must be types.
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import FrameType
from typing import Any

import torch

from benchmarks.timing import best_time
from ti_sim.base.runtime import require, ti

ARRAY_ARGUMENTS = 8  # number of arguments of the kernel that measures the cost of an array
CALLS = 50


@dataclass(frozen=True)
class Launches:
    """Launches of a call of a function.

    Attributes:
        counts: launches by name of kernel.
        seconds: time inside the kernels by name, the least of several calls.
        arrays: arguments that are arrays, of all launches.
    """

    counts: dict[str, int]
    seconds: dict[str, float]
    arrays: int

    @property
    def total(self) -> int:
        """Number of all launches."""
        return sum(self.counts.values())

    @property
    def inside(self) -> float:
        """Seconds inside all kernels."""
        return sum(self.seconds.values())

    def least(self, other: "Launches") -> "Launches":
        """The launches of both, which are of the same function, with the lesser times."""
        seconds = {name: min(time_, other.seconds.get(name, time_)) for name, time_ in self.seconds.items()}
        return Launches(self.counts, seconds, self.arrays)


def watch_launches(function: Callable[[], object], *, repeats: int) -> Launches:
    """Call a function several times and watch its launches.

    Python reports the calls of the compiled launcher (``sys.setprofile``), so that the time of a kernel is that from its call to
    its return, without Python's overhead.

    Args:
        function: to call, warmed up.
        repeats: calls.
    """
    observations = []
    for _ in range(repeats):
        profiler = _LaunchProfiler(wait=require().device == "cuda")
        before = sys.getprofile()
        sys.setprofile(profiler)
        try:
            function()
        finally:
            sys.setprofile(before)
        observations.append(Launches(dict(profiler.counts), dict(profiler.seconds), profiler.arrays))
    return reduce(Launches.least, observations)


class _LaunchProfiler:
    """The profile function: adds up the calls of the launcher. ``wait``: until the kernel of a GPU is done."""

    def __init__(self, *, wait: bool) -> None:
        self._wait = wait
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.arrays = 0
        self._began = 0.0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and getattr(argument, "__name__", "") == "launch_kernel":
            if event == "c_call":
                self._began = time.perf_counter()
                return
            if self._wait:
                ti.sync()
            elapsed = time.perf_counter() - self._began
            # The kernel's name in ``ti_sim.base.fast_launch``, and in Taichi's own launcher.
            name = (frame.f_locals.get("kernel") or frame.f_locals["self"]).func.__name__
            self.counts[name] += 1
            self.seconds[name] += elapsed
            self.arrays += sum(hasattr(value, "shape") for value in frame.f_locals["args"])


@dataclass(frozen=True)
class LaunchCost:
    """Overhead of a launch.

    Attributes:
        launch: of a kernel without arrays [s].
        array: of each argument that is a torch tensor [s].
    """

    launch: float
    array: float

    def of(self, launches: Launches) -> float:
        """Of all launches of a call [s]."""
        return self.launch * launches.total + self.array * launches.arrays


@ti.kernel
def without_arrays(count: int):
    """Empty kernel. No adjoint: a measurement."""
    for _ in range(count):
        pass


@ti.kernel
def with_arrays(
    count: int, a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray(), d: ti.types.ndarray(),
    e: ti.types.ndarray(), f: ti.types.ndarray(), g: ti.types.ndarray(), h: ti.types.ndarray(),
):  # fmt: skip
    """Adds the first entries of a to g [1] to that of h [1]. No adjoint: a measurement."""
    for _ in range(count):
        h[0] += a[0] + b[0] + c[0] + d[0] + e[0] + f[0] + g[0]


def launch_cost(*, repeats: int) -> LaunchCost:
    """Measure the overhead with kernels that do almost nothing."""
    arrays = [torch.zeros(1, device=require().device) for _ in range(ARRAY_ARGUMENTS)]

    def repeat(launch: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                launch()

        return run

    without = best_time(repeat(lambda: without_arrays(1)), repeats=repeats) / CALLS
    with_all = best_time(repeat(lambda: with_arrays(1, *arrays)), repeats=repeats) / CALLS
    return LaunchCost(without, max(with_all - without, 0.0) / ARRAY_ARGUMENTS)
