"""Kernels in which threads of a team need each other's numbers in every step."""

from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.team_sums import team_sum
from ti_sim.base.teams import (
    Team,
    group_of,
    lane_entry,
    lane_of,
    lane_share,
    takes_part,
    team_barrier,
    team_iterations,
    team_thread,
)


@kernel
def rotate(team: Team, steps: int, current: ti.types.ndarray(), following: ti.types.ndarray()):
    """In each step every number of current [groups, N] becomes that of its right neighbour plus 1, by way of following."""
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(team)):
        if takes_part(team, index):
            group, lane, passed = group_of(team, index), lane_of(team, index), 0
            count = current.shape[1]
            for _ in range(steps):
                for k in range((count - lane + team.size - 1) // team.size):
                    i = lane + k * team.size
                    following[group, i] = current[group, (i + 1) % count] + 1
                passed = team_barrier(team, group, lane, passed)
                for k in range((count - lane + team.size - 1) // team.size):
                    current[group, lane + k * team.size] = following[group, lane + k * team.size]
                passed = team_barrier(team, group, lane, passed)


@kernel
def accumulate(
    team: Team, rows: ti.types.ndarray(), steps: int, numbers: ti.types.ndarray(), sums: ti.types.ndarray()
):
    """Sums of numbers [groups, N, 3] over N, as every lane sees them: [groups, lanes, 3]; numbers are then halved."""
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(team)):
        if takes_part(team, index):
            thread = team_thread(team, index)
            count = numbers.shape[1]
            for _ in range(steps):
                total = ti.Vector([0.0, 0.0, 0.0])
                for k in range(lane_share(team, thread.lane, count)):
                    entry = lane_entry(team, thread.lane, k)
                    for column in ti.static(range(3)):
                        total[column] += numbers[thread.group, entry, column]
                        numbers[thread.group, entry, column] = 0.5 * numbers[thread.group, entry, column]
                team_sum(team, rows, thread, total, count)
                for column in ti.static(range(3)):
                    sums[thread.group, thread.lane, column] = sums[thread.group, thread.lane, column] + total[column]
