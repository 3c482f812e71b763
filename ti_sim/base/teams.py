"""Teams of threads that share a world inside one kernel: their division into groups, and their barriers.

    @kernel
    def advance(team: Team, state: Array, ...):
        ti.loop_config(block_dim=team.block_dim)
        for index in range(team_iterations(team)):
            if takes_part(team, index):
                group, lane, passed = group_of(team, index), lane_of(team, index), 0
                for step in range(steps):
                    for k in range(lane_share(team, lane, count)):
                        ...  # entry lane_entry(team, lane, k) of the ``count`` entries of the group
                    passed = team_barrier(team, group, lane, passed)

A team has one of four kinds, which a kernel knows when it is compiled:

- "single": one thread a group, which meets no barrier.
- "threads": CPU threads, which poll a counter.
- "block": a block of GPU threads a group; the barrier is that of the block.
- "grid": all blocks of the launch as one group, which poll a counter. All of them must run at the same time, so there is one
  block for each multiprocessor.

A thread that waits longer than about ten seconds lets all others pass, and ``raise_if_timed_out`` raises an error.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ti_sim.base.arrays import Array, int_zeros_in_same_library, to_numpy
from ti_sim.base.bundles import Integer, Static, bundle
from ti_sim.base.parallel import PORTION, iterations_per_task
from ti_sim.base.runtime import require, ti

_MAX_POLLS = 300_000_000  # of a thread at a barrier: about ten seconds
_TIMED_OUT = 1 << 30  # bit of a counter of arrivals: more than any target, so that every later barrier lets its threads pass
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_SOFTWARE_MULTIPROCESSORS = 2  # of a device without CUDA


@bundle
class Team:
    """A division of the threads of a launch into groups of equal size.

    Attributes:
        kind: "single", "threads", "block" or "grid".
        block_dim: threads of a GPU block.
        arrivals: [groups, 2] int32, first column: how often threads of each group arrived at a barrier since the launch began.
        groups: number of groups.
        size: threads of a group.
        portion: iterations of the outermost loop for each thread (see ``ti_sim.base.parallel``).
        zero: 0 as a run-time value: adding it atomically reads what other threads have written.
    """

    kind: Static
    block_dim: Static
    arrivals: Array
    groups: Integer
    size: Integer
    portion: Integer
    zero: Integer


def single_threads(like: Array, groups: int) -> Team:
    """A team of one thread for each group.

    Args:
        like: array of the container and device of the kernel's others.
        groups: number of groups.
    """
    return Team("single", 32, _arrivals(like, 1), groups, 1, iterations_per_task(groups), 0)


def cpu_team(groups: int, size: int) -> Team:
    """A team of CPU threads; groups times size must not exceed the number of threads.

    Args:
        groups: number of groups.
        size: threads of a group.
    """
    # Threads poll host memory, whatever the container of the kernel's arrays.
    return Team("threads", 32, np.zeros((groups, 2), dtype=np.int32), groups, size, PORTION, 0)


def block_team(like: Array, groups: int, size: int) -> Team:
    """A team of one GPU block for each group.

    Args:
        like: array of the container and device of the kernel's others.
        groups: number of groups.
        size: threads of a block, a multiple of 32 up to 1,024.
    """
    return Team("block", size, _arrivals(like, 1), groups, size, 1, 0)


def grid_team(like: Array, block_dim: int) -> Team:
    """A team of all blocks of a launch, one for each multiprocessor, as one group.

    Args:
        like: array of the container and device of the kernel's others.
        block_dim: threads of a block.
    """
    return Team("grid", block_dim, _arrivals(like, 1), 1, block_dim * multiprocessor_count(), 1, 0)


def _arrivals(like: Array, groups: int) -> Array:
    return int_zeros_in_same_library(like, (groups, 2))


def reset_arrivals(team: Team) -> None:
    """Set the counters of arrivals to zero, as a launch needs them."""
    if hasattr(team.arrivals, "zero_"):
        team.arrivals.zero_()
    else:
        team.arrivals.fill(0)


def raise_if_timed_out(team: Team) -> None:
    """Raise a RuntimeError if a thread of a launch timed out at a barrier; waits for the launch."""
    if team.kind in ("threads", "grid") and (to_numpy(team.arrivals)[:, 0] >= _TIMED_OUT).any():
        raise RuntimeError(
            "threads of a simulation timed out at a barrier, because the system ran others in their place: choose plan='world'"
        )


@cache
def multiprocessor_count() -> int:
    """Number of multiprocessors of the GPU that kernels run on."""
    if require().device != "cuda":
        return _SOFTWARE_MULTIPROCESSORS
    driver = ctypes.CDLL("nvcuda.dll" if ctypes.sizeof(ctypes.c_wchar) == 2 else "libcuda.so.1")
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetAttribute(ctypes.byref(count), _MULTIPROCESSORS, 0):
        raise RuntimeError("the CUDA driver does not report the number of multiprocessors")
    return count.value


@ti.func
def team_iterations(team: ti.template()):
    """Number of iterations of a kernel's outermost loop."""
    return team.groups * team.size * team.portion


@ti.func
def takes_part(team: ti.template(), index):
    """Whether an iteration of the outermost loop is that of a thread: on the CPU only the first of each portion is."""
    return index % team.portion == 0


@ti.func
def group_of(team: ti.template(), index):
    """Group of an iteration of the outermost loop."""
    group = index // team.portion
    if ti.static(team.kind != "single"):
        group = group // team.size
    return group


@ti.func
def lane_of(team: ti.template(), index):
    """Number of an iteration's thread in its group, 0 to ``size - 1``."""
    lane = 0
    if ti.static(team.kind != "single"):
        lane = index // team.portion % team.size
    return lane


@bundle
class TeamThread:
    """A thread in a kernel.

    Attributes:
        group, lane: its group, and its number in the group.
        passed: number of barriers that the group has passed in this launch.
    """

    group: Any
    lane: Any
    passed: Any


@ti.func
def team_thread(team: ti.template(), index):
    """``TeamThread`` of an iteration of the outermost loop."""
    group, lane, passed = group_of(team, index), lane_of(team, index), 0
    return TeamThread(group, lane, passed)


@ti.func
def lane_share(team: ti.template(), lane, count):
    """How many of ``count`` entries a lane takes: lane, lane + size, ..."""
    share = count
    if ti.static(team.kind != "single"):
        share = (count - lane + team.size - 1) // team.size
    return share


@ti.func
def lane_entry(team: ti.template(), lane, k):
    """Number of the k-th entry that a lane takes."""
    entry = k
    if ti.static(team.kind != "single"):
        entry = lane + k * team.size
    return entry


@ti.func
def wait_for_group(team: ti.template(), thread: ti.template()):
    """``team_barrier`` of a ``TeamThread``, which counts the barriers."""
    thread.passed = team_barrier(team, thread.group, thread.lane, thread.passed)


@ti.func
def team_barrier(team: ti.template(), group, lane, passed):
    """Wait until all threads of a group have arrived, and see what they have written.

    Args:
        team: the ``Team``.
        group: the thread's group.
        lane: its number in the group.
        passed: number of barriers that the group has passed in this launch, the same in all its threads.

    Returns:
        ``passed + 1``.
    """
    if ti.static(team.kind == "block"):
        ti.simt.block.sync()
    elif ti.static(team.kind == "grid"):
        ti.simt.grid.memfence()  # others see what this thread has written
        ti.simt.block.sync()
        if lane % team.block_dim == 0:  # one thread of a block arrives and polls
            _arrive_and_poll(team, 0, team.size // team.block_dim * (passed + 1))
        ti.simt.block.sync()
        ti.simt.grid.memfence()  # lines that others have written leave the cache
    elif ti.static(team.kind != "single"):
        if team.size > 1:
            _arrive_and_poll(team, group, team.size * (passed + 1))
    return passed + 1


@ti.func
def _arrive_and_poll(team: ti.template(), group, target):
    """Add one arrival, and wait until there are ``target``."""
    ti.atomic_add(team.arrivals[group, 0], 1)
    polls = 0
    while ti.atomic_add(team.arrivals[group, 0], team.zero) < target and polls < _MAX_POLLS:
        polls += 1
    if polls >= _MAX_POLLS:
        ti.atomic_or(team.arrivals[group, 0], _TIMED_OUT)
