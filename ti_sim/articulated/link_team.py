"""Teams of threads that share a world: the links of each thread, and their barriers (Taichi functions).

Links at the same level, the number of joints between them and the world, are independent of each other. The lanes of a team
(``ti_sim.base.teams``) compute the links of one level at the same time. A sweep from root to leaf is

    for level in range(level_count(world)):
        for k in range(links_at(world, level)):
            i = link_at(world, level, k)
            ...
        synchronise(world, b)

With one thread per world, it visits all links in order. In a sweep from leaf to root, each link writes what it adds to its parent
to a separate row, and the parent sums these rows in a fixed order, so the result does not depend on the number of lanes.
``share`` and ``in_share`` divide numbers that are independent of each other. A function that writes what other lanes read ends
with ``synchronise``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.articulated.tables import TREE, WorldArrays
from ti_sim.base.arrays import Array as AnyArray
from ti_sim.base.arrays import int_zeros_in_same_library, ints_in_same_library, zeros_in_same_library
from ti_sim.base.bundles import Array, Integer, bundle, with_fields
from ti_sim.base.parallel import thread_count
from ti_sim.base.rows import Row
from ti_sim.base.runtime import require, ti
from ti_sim.base.teams import (
    Team,
    block_team,
    cpu_team,
    lane_share,
    multiprocessor_count,
    reset_arrivals,
    single_threads,
    team_barrier,
)
from ti_sim.contact.collision import NEAR, PAIR
from ti_sim.rollout.time_steps import Plan

# Columns of ``LinkTeam.schedule``: links by level, and in row l the first entry of level l; children by parent, in descending
# order, and in row i the first entry of the children of link i; in row p the link of contact point p.
SCHEDULE = Row(link=1, first_link=1, child=1, first_child=1, point_link=1)

_WORLDS_PER_MULTIPROCESSOR = 64  # from there on a GPU runs one thread per world
_WARP, _MAX_LANES = 32, 128  # lanes of a GPU block: a multiple of a warp


@bundle
class LinkTeam:
    """A team of threads for each world, and the order in which it visits the links.

    Attributes:
        team: the division of the launch's threads.
        schedule: [max(N + 1, P), 5] int32, see ``SCHEDULE``.
        levels: number of levels of the tree.
        passed: [B, lanes] int32, number of barriers that each CPU thread has passed in this launch.
        gravity_bar: [B, lanes, 3] sums of the lanes, scratch memory.
    """

    team: Team
    schedule: Array
    levels: Integer
    passed: Array
    gravity_bar: Array


def link_schedule(parents: tuple[int, ...], point_counts: Sequence[int]) -> tuple[np.ndarray, int]:
    """``LinkTeam.schedule``, and the number of levels of the tree.

    Args:
        parents: of the links, which come before them; -1 for the world.
        point_counts: numbers of contact points of the links.
    """
    n, level = len(parents), [0] * len(parents)
    for i, parent in enumerate(parents):
        level[i] = level[parent] + 1 if parent >= 0 else 0
    point_link = np.repeat(range(n), point_counts)
    levels, rows = max(level) + 1, np.zeros((max(n + 1, len(point_link)), SCHEDULE.size), dtype=np.int32)
    rows[:n, SCHEDULE.link] = sorted(range(n), key=lambda i: level[i])
    rows[: levels + 1, SCHEDULE.first_link] = np.searchsorted(sorted(level), range(levels + 1))
    children = [i for parent in range(n) for i in reversed(range(n)) if parents[i] == parent]
    rows[: len(children), SCHEDULE.child] = children
    rows[: len(point_link), SCHEDULE.point_link] = point_link
    rows[: n + 1, SCHEDULE.first_child] = np.cumsum([0] + [parents.count(i) for i in range(n)])
    return rows, levels


def link_team(
    parents: tuple[int, ...], point_counts: Sequence[int], like: AnyArray, worlds: int, plan: Plan
) -> LinkTeam:
    """Team of a launch.

    Args:
        parents, point_counts: as of ``link_schedule``.
        like: array of the container and device of the kernel's others.
        worlds: B.
        plan: "world" (one thread per world), "element" (lanes over the links of a world), or "auto".
    """
    device = require().device
    if plan == "auto":
        is_full = device == "cpu" or worlds >= _WORLDS_PER_MULTIPROCESSOR * multiprocessor_count()
        plan = "world" if is_full else "element"
    if plan == "world":
        team = single_threads(like, worlds)
    elif device == "cpu":
        team = cpu_team(worlds, max(thread_count() // worlds, 1))
    else:
        warps = -(-max(len(parents), sum(point_counts)) // _WARP)
        team = block_team(like, worlds, min(warps * _WARP, _MAX_LANES))
    rows, levels = link_schedule(parents, point_counts)
    return LinkTeam(
        team, ints_in_same_library(like, rows), levels, int_zeros_in_same_library(like, (worlds, team.size)),
        zeros_in_same_library(like, (worlds, team.size, 3)),
    )  # fmt: skip


def work_rows(links: int, points: int, pairs: int, team: LinkTeam | None) -> int:
    """Number of rows of ``WorldArrays.work`` and ``BarArrays.link``.

    Links; for a team also what the links add to their parents, contact points, and what pairs add to both of their links.
    """
    return links if team is None or team.team.kind == "single" else 2 * links + points + 2 * pairs


def near_pair_columns(pairs: int, team: LinkTeam | None) -> int:
    """Number of columns of ``WorldArrays.near_pairs``: a team also has a fault of each pair, and whether the list is stale."""
    return NEAR.first_pair + (pairs if team is None or team.team.kind == "single" else 2 * pairs + 1)


def begin_launch(team: LinkTeam) -> LinkTeam:
    """The team with counters at zero, as a launch needs it."""
    if team.team.kind == "threads":
        reset_arrivals(team.team)
        team.passed[:] = 0
    return team


def in_lane(world: WorldArrays, team: LinkTeam, lane: Any) -> WorldArrays:
    """Arrays of a world for one lane of a team (in kernels)."""
    return with_fields(world, kind=team.team.kind, team=team, lane=lane)


def in_one_lane(world: WorldArrays) -> WorldArrays:
    """Arrays of a world for functions that only one lane calls (in kernels)."""
    return with_fields(world, kind="single")


def for_pair(world: WorldArrays, p: Any, first: Any) -> WorldArrays:
    """Arrays of a world for the contacts of pair p, whose first link is ``first`` (in kernels)."""
    return with_fields(world, pair_index=p, pair_first=first)


for _function in (in_lane, in_one_lane, for_pair):
    _function._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def synchronise(world: ti.template(), b):
    """Wait until all lanes of world b have arrived, and see what they have written. Every lane must call it equally often."""
    if ti.static(world.kind == "block"):
        ti.simt.block.sync()
    elif ti.static(world.kind != "single"):
        passed = world.team.passed[b, world.lane]
        world.team.passed[b, world.lane] = team_barrier(world.team.team, b, world.lane, passed)


@ti.func
def is_first_lane(world: ti.template()):
    """Whether this is lane 0, which does the work that is not divided."""
    result = True
    if ti.static(world.kind != "single"):
        result = world.lane == 0
    return result


@ti.func
def share(world: ti.template(), count):
    """How many of ``count`` numbers belong to this lane."""
    result = count
    if ti.static(world.kind != "single"):
        result = lane_share(world.team.team, world.lane, count)
    return result


@ti.func
def in_share(world: ti.template(), k):
    """Number k of this lane's ``share``."""
    result = k
    if ti.static(world.kind != "single"):
        result = world.lane + k * world.team.team.size
    return result


@ti.func
def level_count(world: ti.template()):
    """Number of levels, one for a single thread."""
    result = 1
    if ti.static(world.kind != "single"):
        result = world.team.levels
    return result


@ti.func
def links_at(world: ti.template(), level):
    """How many links at a level belong to this lane."""
    result = world.links
    if ti.static(world.kind != "single"):
        count = world.team.schedule[level + 1, SCHEDULE.first_link] - world.team.schedule[level, SCHEDULE.first_link]
        result = share(world, count)
    return result


@ti.func
def link_at(world: ti.template(), level, k):
    """Link k of this lane at a level, in a sweep from root to leaf."""
    result = k
    if ti.static(world.kind != "single"):
        first = world.team.schedule[level, SCHEDULE.first_link]
        result = world.team.schedule[first + in_share(world, k), SCHEDULE.link]
    return result


@ti.func
def link_from_leaf(world: ti.template(), level, k):
    """Link k of this lane at a level, in a sweep from leaf to root, which visits the levels in descending order."""
    result = world.links - 1 - k
    if ti.static(world.kind != "single"):
        result = link_at(world, level, k)
    return result


@ti.func
def row_of_parent(world: ti.template(), i, parent):
    """Row of ``world.work`` that holds what link i adds to its parent: that of the parent, or one of the link's own."""
    result = parent
    if ti.static(world.kind != "single"):
        result = world.links + i
    return result


@ti.func
def point_row(world: ti.template(), p):
    """Row of ``world.work`` of contact point p, of a team."""
    return 2 * world.links + p


@ti.func
def point_count(world: ti.template()):
    """Number of contact points with the ground."""
    return world.tree[world.links - 1, TREE.end_point]


@ti.func
def first_contact_row(world: ti.template(), p):
    """Row of ``world.work`` and ``bars.link`` of the first link of pair p, before that of the second one, of a team."""
    return 2 * world.links + point_count(world) + 2 * p


@ti.func
def contact_row(world: ti.template(), i):
    """Row of ``world.work`` and ``bars.link`` to which the pair of ``for_pair`` adds what concerns link i."""
    result = i
    if ti.static(world.kind != "single"):
        result = first_contact_row(world, world.pair_index) + ti.cast(i != world.pair_first, int)
    return result


@ti.func
def contact_row_of_link(world: ti.template(), p, i):
    """``contact_row`` of link i and pair p, -1 for other links."""
    result = -1
    if world.pair[p, PAIR.first_link] == i:
        result = first_contact_row(world, p)
    elif world.pair[p, PAIR.second_link] == i:
        result = first_contact_row(world, p) + 1
    return result


@ti.func
def fault_column(world: ti.template(), p):
    """Column of ``world.near_pairs`` with 1 plus the fault of pair p in the last step, 0 for none, of a team."""
    return NEAR.first_pair + world.pairs + p


@ti.func
def stale_column(world: ti.template()):
    """Column of ``world.near_pairs`` that is 1 if a shape has moved so far that the list is stale, of a team."""
    return NEAR.first_pair + 2 * world.pairs


@ti.func
def sum_children(world: ti.template(), b, i, first_column: ti.template(), column_count: ti.template()):
    """Add what the children of link i have written to separate rows (``row_of_parent``) to columns of the link's row."""
    if ti.static(world.kind != "single"):
        for n in range(world.team.schedule[i, SCHEDULE.first_child], world.team.schedule[i + 1, SCHEDULE.first_child]):
            row = world.links + world.team.schedule[n, SCHEDULE.child]
            for column in ti.static(range(first_column, first_column + column_count)):
                world.work[b, i, column] = world.work[b, i, column] + world.work[b, row, column]
