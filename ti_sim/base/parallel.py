"""Sharing few, heavy loop iterations among the CPU's threads."""

from ti_sim.base.runtime import require, ti

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
