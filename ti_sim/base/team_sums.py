"""Sums of vectors over the threads of a group, in a fixed order: every thread gets the same bits.

Each lane writes its vector to a row of global memory. After a barrier lane k sums column k over the lanes and writes the total,
which all lanes read after a second barrier. A team of single threads needs neither memory nor barrier.
"""

from ti_sim.base.arrays import Array, zeros_in_same_library
from ti_sim.base.runtime import ti
from ti_sim.base.teams import Team, lane_entry, lane_share, wait_for_group
from ti_sim.base.vecmath import vec4

# Numbers of a column that a lane loads at a time: a GPU waits for all of them together.
_LOADS = 32


def team_rows(like: Array, team: Team, columns: int) -> Array:
    """Memory for ``team_sum``: [groups, 1 + rows, columns], zeros; row 0 is the total, and lane k writes row 1 + k.

    Args:
        like: array of the container and device of the result.
        team: the ``Team``.
        columns: length of the longest vector.
    """
    if team.kind == "single":
        return zeros_in_same_library(like, (1, 1, 1))
    padded_size = -(-team.size // _LOADS) * _LOADS
    return zeros_in_same_library(like, (team.groups, 1 + padded_size, columns))


@ti.func
def team_sum(team: ti.template(), rows: ti.template(), thread: ti.template(), values: ti.template(), used_lanes):
    """Replace a vector of each lane by the sum over the lanes of its group. All of them must call it.

    Args:
        team: the ``Team``.
        rows: memory of ``team_rows``.
        thread: ``TeamThread`` of the lane.
        values: local vector, whose length is known when the kernel is compiled.
        used_lanes: number of lanes, counted from the first, beyond which the vectors are zero; may exceed the size of the team.
    """
    if ti.static(team.kind != "single"):
        group, lane = thread.group, thread.lane
        for k in ti.static(range(values.n)):
            rows[group, 1 + lane, k] = values[k]
        wait_for_group(team, thread)
        summed_rows = ti.min(used_lanes, team.size)
        for i in range(lane_share(team, lane, values.n)):
            column, sums = lane_entry(team, lane, i), vec4(0.0)
            for chunk in range((summed_rows + _LOADS - 1) // _LOADS):
                for k in ti.static(range(_LOADS)):
                    sums[k % 4] += rows[group, 1 + chunk * _LOADS + k, column]
            rows[group, 0, column] = (sums.x + sums.y) + (sums.z + sums.w)
        wait_for_group(team, thread)
        for k in ti.static(range(values.n)):
            values[k] = rows[group, 0, k]
