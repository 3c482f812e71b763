"""A thread of a team that shares worlds of smoke: its part of the cells of the worlds."""

from ti_sim.base.bundles import Integer, bundle
from ti_sim.base.runtime import ti
from ti_sim.base.teams import Team, lane_share, team_barrier


@bundle
class Thread:
    """A thread inside a kernel.

    Attributes:
        team: its team.
        group: its group in the team.
        lane: its number in the group.
        first: first world of the group.
        worlds: number of worlds of the group.
    """

    team: Team
    group: Integer
    lane: Integer
    first: Integer
    worlds: Integer


@ti.func
def thread_of(team: ti.template(), group, lane, worlds):
    """A thread of a team that shares ``worlds`` worlds, the same number in each group."""
    count = worlds // team.groups
    return Thread(team, group, lane, group * count, count)


@ti.func
def share(thread: ti.template(), count):
    """Number of entries, of ``count`` in the group, that are the thread's."""
    return lane_share(thread.team, thread.lane, count)


@ti.func
def cell_of(thread: ti.template(), k, x, y):
    """World, and indices in a grid of x times y, of the thread's entry k."""
    entry = thread.lane + k * thread.team.size
    return thread.first + entry // (x * y), entry // y % x, entry % y


@ti.func
def barrier(thread: ti.template(), passed):
    """``team_barrier`` of the thread's group."""
    return team_barrier(thread.team, thread.group, thread.lane, passed)
