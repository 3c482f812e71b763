"""Sharing few, heavy loop iterations among the CPU's threads."""

import time
from collections.abc import Callable

from ti_sim.base.runtime import require, ti

_MOST_TRIES = 300_000_000  # of a thread that waits for others: some ten seconds
_FIRST_STEPS, _MOST_STEPS = 4, 4096  # in a launch whose time is taken
_ROUND_SECONDS = 0.02  # launches that take less become longer

PORTION = 512  # loop iterations that Taichi's CPU scheduler gives a thread at least, whatever the loop's settings say


def spread_of(tasks: int) -> int:
    """Loop iterations to count for each of ``tasks`` heavy tasks, of which the first does the work.

    On the CPU about 32 portions of 512 iterations result, so that the threads share the tasks; on CUDA it is 1.
    """
    if require().device != "cpu":
        return 1
    return min(max(32 * PORTION // max(tasks, 1), 1), PORTION)


def serial_for(iterations: int) -> bool:
    """Whether a loop of so few, light iterations is better run by one thread than by waking the others (on the CPU)."""
    return require().device == "cpu" and iterations <= 8 * PORTION


def thread_count() -> int:
    """Number of the CPU's threads that kernels run on."""
    require()
    return int(ti.lang.impl.current_cfg().cpu_max_num_threads)


@ti.func
def barrier_wait(meeting: ti.template(), b, team, meetings, nothing):
    """Wait until all threads of a team have come here, inside of a kernel.

    Args:
        meeting: [B, 2] int32, row b for the team of world b: how often its members have arrived since the row was zero, and
            whether one has given up waiting (then the results are void).
        b: row.
        team: number of threads; each must run at the same time as the others.
        meetings: how many meetings of the team there were before since the row was zero.
        nothing: 0, which the compiler must not know: adding it reads what other threads have written.
    """
    if team > 1:
        ti.atomic_add(meeting[b, 0], 1)
        tries = 0
        while ti.atomic_add(meeting[b, 0], nothing) < team * (meetings + 1) and tries < _MOST_TRIES:
            tries += 1
        if tries >= _MOST_TRIES:
            meeting[b, 1] = 1


class ThreadTuner:
    """Chooses how many threads the next steps of a rollout take: a team, or one thread where others need the cores.

    The threads of a team wait for one another in every step, so that it is slow where the system takes one of them off its
    core. Both ways are timed again and again, and the faster one does most steps. They give the same results.
    """

    def __init__(self, team: int) -> None:
        """Begin with the team of this size."""
        self._sizes = (team, 1) if team > 1 else (1,)
        self._seconds = [0.0] * len(self._sizes)
        self._turn = 0
        self._steps = _FIRST_STEPS

    def run(self, launch: Callable[[int, int, int], None], steps: int) -> None:
        """Call ``launch(threads, first step, count)`` until all ``steps`` are done."""
        done = 0
        while done < steps:
            # The first round only wakes the threads up. Then both ways are timed, and what is slower every eighth round again.
            other = len(self._sizes) > 1 and (self._turn == 2 or self._turn % 8 == 7)
            preferred = 0 if self._turn < 3 else self._seconds.index(min(self._seconds))
            chosen = 1 - preferred if other else preferred
            count = min(max(self._steps // 4, 2) if other else self._steps, steps - done)
            began = time.perf_counter()
            launch(self._sizes[chosen], done, count)
            seconds = time.perf_counter() - began
            self._seconds[chosen] = seconds / count
            done += count
            self._turn += 1
            if not other and seconds < _ROUND_SECONDS:
                self._steps = min(2 * self._steps, _MOST_STEPS)
