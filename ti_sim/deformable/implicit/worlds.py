"""Worlds of implicit steps on threads: their linear systems are solved in parallel, and kernels run one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

from ti_sim.base.parallel import thread_count

Worker = TypeVar("Worker")


def worker_count(worlds: int) -> int:
    """Number of worlds that are simulated at a time: as many as kernels have threads."""
    return max(1, min(worlds, thread_count()))


def for_each_world(workers: Sequence[Worker], worlds: int, work: Callable[[Worker, int], None]) -> None:
    """Call ``work(worker, world)`` for all worlds, with each worker in one call at a time.

    Args:
        workers: kernels and arrays of one call each; as many calls run at a time.
        worlds: number of worlds.
        work: called in threads; worlds share nothing else that it writes.

    Raises:
        Exception: that of the first world whose call raised one; worlds that had not begun are left out.
    """
    if len(workers) == 1:
        for world in range(worlds):
            work(workers[0], world)
        return
    idle_workers: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle_workers.put(worker)

    stopped = Event()

    def run_world(world: int) -> None:
        if stopped.is_set():
            return
        worker = idle_workers.get()
        try:
            work(worker, world)
        except BaseException:
            stopped.set()
            raise
        finally:
            idle_workers.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        calls = [pool.submit(run_world, world) for world in range(worlds)]
        try:
            for call in calls:
                call.result()
        finally:
            stopped.set()
