"""Distribution of few, heavy loop iterations over the threads of the CPU."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ti_sim.base.runtime import require, ti

_FIRST_STEPS, _MAX_TIMED_STEPS = 4, 4096  # steps in a timed launch
_ROUND_SECONDS = 0.02  # the number of steps doubles while a launch takes less

PORTION = 512  # minimum number of loop iterations that Taichi's CPU scheduler assigns to a thread, whatever block_dim is


def iterations_per_task(tasks: int) -> int:
    """Loop iterations per task for ``tasks`` heavy tasks, of which only the first iteration does the work.

    On the CPU this results in about 32 portions of 512 iterations, so that all threads get tasks; on CUDA it is 1.
    """
    if require().device != "cpu":
        return 1
    return min(max(32 * PORTION // max(tasks, 1), 1), PORTION)


def runs_serially(iterations: int) -> bool:
    """Whether a loop of this many light iterations runs on one thread: it is faster there than on several (on the CPU), or
    ``repeatable_sums`` asks for it.
    """
    return require().device == "cpu" and (iterations <= 8 * PORTION or _repeatable)


_repeatable = False


@contextmanager
def repeatable_sums() -> Iterator[None]:
    """Loops whose threads add to the same numbers run on one thread (on the CPU), so that results are equal to the last bit.

    Holds for all threads of the process, because torch may run backward passes in other threads.
    """
    global _repeatable
    previous, _repeatable = _repeatable, True
    try:
        yield
    finally:
        _repeatable = previous


def sums_serially() -> bool:
    """Whether loops whose threads add to the same numbers run on one thread."""
    return _repeatable and require().device == "cpu"


def thread_count() -> int:
    """Number of CPU threads that run kernels."""
    require()
    return int(ti.lang.impl.current_cfg().cpu_max_num_threads)


class ThreadTuner:
    """Chooses the number of threads for the next steps of a rollout: a group, or one thread if other programs use the cores.

    The threads of a group wait for each other in every step, so the group is slow if the system preempts one of them. Both
    choices are timed repeatedly, and the faster one runs most steps. The results are the same.
    """

    def __init__(self, threads: int) -> None:
        """Start with a group of this many threads."""
        self._sizes = (threads, 1) if threads > 1 else (1,)
        self._seconds = [0.0] * len(self._sizes)
        self._round = 0
        self._steps = _FIRST_STEPS

    def run(self, launch: Callable[[int, int, int], None], steps: int) -> None:
        """Call ``launch(threads, first step, count)`` until all ``steps`` are done."""
        executed_steps = 0
        while executed_steps < steps:
            # The first round warms up the threads. Then both choices are timed, and the slower one again every eighth round.
            times_other_size = len(self._sizes) > 1 and (self._round == 2 or self._round % 8 == 7)
            preferred = 0 if self._round < 3 else self._seconds.index(min(self._seconds))
            choice = 1 - preferred if times_other_size else preferred
            count = min(max(self._steps // 4, 2) if times_other_size else self._steps, steps - executed_steps)
            start = time.perf_counter()
            launch(self._sizes[choice], executed_steps, count)
            seconds = time.perf_counter() - start
            self._seconds[choice] = seconds / count
            executed_steps += count
            self._round += 1
            if not times_other_size and seconds < _ROUND_SECONDS:
                self._steps = min(2 * self._steps, _MAX_TIMED_STEPS)
