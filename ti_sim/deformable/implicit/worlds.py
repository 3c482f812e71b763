"""Worlds of implicit steps on threads: their linear systems are solved side by side, and kernels take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

from ti_sim.base.parallel import thread_count

Place = TypeVar("Place")


def places_for(worlds: int) -> int:
    """Number of worlds that are simulated at a time: as many as kernels have threads."""
    return max(1, min(worlds, thread_count()))


def for_each_world(places: Sequence[Place], worlds: int, work: Callable[[Place, int], None]) -> None:
    """Call ``work(place, world)`` for all worlds, with each place in one call at a time.

    Args:
        places: what a call needs for itself (kernels with their arrays); as many calls run at a time.
        worlds: number of worlds.
        work: called in threads; worlds share nothing else that it writes.

    Raises:
        Exception: that of the first world whose call raised one; worlds that had not begun are left out.
    """
    if len(places) == 1:
        for world in range(worlds):
            work(places[0], world)
        return
    free: SimpleQueue[Place] = SimpleQueue()
    for worker in places:
        free.put(worker)

    ended = Event()

    def one(world: int) -> None:
        if ended.is_set():
            return
        worker = free.get()
        try:
            work(worker, world)
        except BaseException:
            ended.set()
            raise
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(places)) as pool:
        calls = [pool.submit(one, world) for world in range(worlds)]
        try:
            for call in calls:
                call.result()
        finally:
            ended.set()
