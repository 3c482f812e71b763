"""Launches of kernels inside a function: how many, which, and how long each runs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class Launches:
    """What a call of a function launched.

    Attributes:
        counts: launches by name of kernel.
        seconds: time inside the kernels by name, the least of several calls.
    """

    counts: dict[str, int]
    seconds: dict[str, float]

    @property
    def number(self) -> int:
        """All launches."""
        return sum(self.counts.values())

    @property
    def inside(self) -> float:
        """Seconds inside all kernels."""
        return sum(self.seconds.values())


def watch_launches(function: Callable[[], object], *, repeats: int) -> Launches:
    """Call a function several times and watch its launches; on the CPU, where a launch returns when the kernel is done.

    Python reports the calls of the compiled launcher (``sys.setprofile``), so that the time of a kernel is that from its call to
    its return, without what Python does about it.

    Args:
        function: what to call, warm.
        repeats: calls.
    """
    counts: dict[str, int] = {}
    least: dict[str, float] = {}
    for _ in range(repeats):
        watch = _Watch()
        before = sys.getprofile()
        sys.setprofile(watch)
        try:
            function()
        finally:
            sys.setprofile(before)
        counts = dict(watch.counts)
        least = {name: min(least.get(name, float("inf")), seconds) for name, seconds in watch.seconds.items()}
    return Launches(counts, least)


class _Watch:
    """The profile function: adds up the calls of the launcher."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self._began = 0.0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and getattr(argument, "__name__", "") == "launch_kernel":
            if event == "c_call":
                self._began = time.perf_counter()
                return
            spent = time.perf_counter() - self._began
            name = frame.f_locals["self"].func.__name__
            self.counts[name] += 1
            self.seconds[name] += spent
