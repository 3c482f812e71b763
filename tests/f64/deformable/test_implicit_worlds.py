"""Worlds on threads: who works where, and what ends them."""

from __future__ import annotations

import threading
import time

import pytest

from ti_sim.deformable.implicit.worlds import for_each_world, worker_count


@pytest.mark.parametrize("places", [1, 3])
def test_every_world_is_done_once_and_no_place_is_used_by_two(places: int) -> None:
    used, done, lock = {place: 0 for place in range(places)}, [], threading.Lock()

    def work(place: int, world: int) -> None:
        with lock:
            used[place] += 1
            assert used[place] == 1
        time.sleep(1e-3)
        with lock:
            used[place] -= 1
            done.append(world)

    for_each_world(range(places), 20, work)
    assert sorted(done) == list(range(20))


@pytest.mark.parametrize("places", [1, 2])
def test_an_error_ends_the_rollout(places: int) -> None:
    begun = []

    def work(_place: int, world: int) -> None:
        begun.append(world)
        time.sleep(1e-3)
        if world in (1, 3):
            raise ValueError(f"world {world}")

    with pytest.raises(ValueError, match="world 1"):
        for_each_world(range(places), 100, work)
    assert len(begun) < 10


def test_as_many_worlds_at_a_time_as_there_are_threads() -> None:
    assert worker_count(1) == 1 and 1 <= worker_count(1000) <= 1000
