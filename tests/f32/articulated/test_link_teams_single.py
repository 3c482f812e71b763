"""Teams of threads of links in single precision, in which GPUs without f64 sines run them."""

import pytest

from tests.reference.link_team_cases import assert_equal_in_teams, team_case


@pytest.mark.threads
@pytest.mark.parametrize("name", ["hand", "quadruped on the ground"])
def test_a_team_computes_what_one_thread_computes(name: str) -> None:
    assert_equal_in_teams(team_case(name, 3), 2e-3)
