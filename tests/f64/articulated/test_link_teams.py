"""A team of threads per world computes what one thread computes, up to the order of sums."""

import numpy as np
import pytest

from tests.reference.devices import not_on_vulkan
from tests.reference.link_team_cases import TEAM_CASES, assert_equal_in_teams, team_case
from ti_sim.articulated.link_team import SCHEDULE, link_schedule


@not_on_vulkan("f64 has no sine there")
@pytest.mark.threads
@pytest.mark.parametrize("worlds", [1, 3])
@pytest.mark.parametrize("name", TEAM_CASES)
def test_a_team_computes_what_one_thread_computes(name: str, worlds: int) -> None:
    assert_equal_in_teams(team_case(name, worlds), 1e-9)


def test_a_schedule_has_every_link_once_after_its_parent_and_every_child() -> None:
    parents = (-1, 0, 1, 0, 3, 0, -1, 6, 5)
    rows, levels = link_schedule(parents, (0, 3, 0, 0, 5, 0, 0, 4, 1))
    assert levels == 3
    assert rows[:13, SCHEDULE.point_link].tolist() == [1] * 3 + [4] * 5 + [7] * 4 + [8]
    first = rows[: levels + 1, SCHEDULE.first_link]
    by_level = [sorted(rows[first[level] : first[level + 1], SCHEDULE.link]) for level in range(levels)]
    assert by_level == [[0, 6], [1, 3, 5, 7], [2, 4, 8]]
    for i in range(len(parents)):
        children = rows[rows[i, SCHEDULE.first_child] : rows[i + 1, SCHEDULE.first_child], SCHEDULE.child]
        np.testing.assert_array_equal(children, [j for j in reversed(range(len(parents))) if parents[j] == i])
