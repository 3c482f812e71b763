"""Groups of threads for the bodies of a rollout: a single thread a body, or lanes that share its contact points."""

from collections.abc import Iterator

from ti_sim.base.arrays import Array
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import require
from ti_sim.base.teams import Team, block_team, cpu_team, multiprocessor_count

_MIN_BLOCK, _MAX_BLOCK = 32, 128  # lanes of a block, which take one or two contact points each within these limits
# A sum over lanes takes as long as this number of contact points.
_MIN_SHARED_POINTS = 4
# A multiprocessor runs about eight blocks of 32 lanes, or 256 single threads, at the same time. A single thread takes longer for
# every point, so that single threads are faster from this number of bodies for each point and multiprocessor on.
_BODIES_PER_POINT = 8


def lanes_share_points(bodies: int, points: int) -> bool:
    """Whether lanes that share the contact points of a body are faster than one thread for each body.

    On a CPU they never are: threads wait for each other in each step, and the system may stop one of them.

    Args:
        bodies: bodies of all worlds.
        points: largest number of contact points of a body.
    """
    if require().device == "cpu" or points < _MIN_SHARED_POINTS:
        return False
    return bodies < _BODIES_PER_POINT * points * multiprocessor_count()


def point_teams(like: Array, bodies: int, points: int) -> Iterator[tuple[int, Team]]:
    """Teams of one or several launches whose groups share the contact points of a body: (number of the first body, team).

    Args:
        like: array of the container and device of the kernel's others.
        bodies: bodies of all worlds.
        points: largest number of contact points of a body.
    """
    if require().device != "cpu":
        size = _MIN_BLOCK
        while size < _MAX_BLOCK and 2 * size < points:
            size *= 2
        yield 0, block_team(like, bodies, size)
        return
    size = max(min(thread_count(), points), 1)
    groups = max(thread_count() // size, 1) if size > 1 else bodies  # all threads of a launch must run at the same time
    for first in range(0, bodies, groups):
        yield first, cpu_team(min(groups, bodies - first), size)
