"""Teams of threads: every kind of barrier lets threads see what the others have written, and none waits forever."""

import numpy as np
import pytest

from tests.reference.team_kernels import accumulate, rotate
from ti_sim.base import teams
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import require
from ti_sim.base.team_sums import team_rows
from ti_sim.base.teams import Team, block_team, cpu_team, grid_team, multiprocessor_count, raise_if_timed_out, single_threads

LIKE = np.zeros(1, dtype=np.float32)


def team_of(kind: str, groups: int) -> Team:
    if kind == "single":
        return single_threads(LIKE, groups)
    if kind == "threads":
        return cpu_team(groups, max(thread_count() // groups, 1))
    return block_team(LIKE, groups, 64) if kind == "block" else grid_team(LIKE, 64)


def skip_unless_it_runs(kind: str, groups: int) -> None:
    device = require().device
    if kind in ("block", "grid") and device == "cpu" or kind == "threads" and device != "cpu":
        pytest.skip(f"a team of kind {kind!r} does not run on {device}")
    if kind == "grid" and (groups > 1 or device == "vulkan"):
        pytest.skip("a grid is one group, and Mesa's software driver does not run its blocks at the same time")


@pytest.mark.threads
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("kind", ["single", "threads", "block", "grid"])
def test_threads_see_what_others_have_written(kind: str, groups: int) -> None:
    skip_unless_it_runs(kind, groups)
    numbers = np.random.default_rng(0).integers(0, 1000, (groups, 217)).astype(np.int32)
    current, team = numbers.copy(), team_of(kind, groups)
    rotate(team, 41, current, np.zeros_like(numbers))
    raise_if_timed_out(team)
    np.testing.assert_array_equal(current, np.roll(numbers, -41, axis=1) + 41)


@pytest.mark.threads
@pytest.mark.parametrize("count", [1, 5, 217])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("kind", ["single", "threads", "block", "grid"])
def test_every_lane_has_the_sum(kind: str, groups: int, count: int) -> None:
    skip_unless_it_runs(kind, groups)
    steps, team = 7, team_of(kind, groups)
    numbers = np.random.default_rng(0).standard_normal((groups, count, 3)).astype(np.float32)
    wanted = numbers.sum(axis=1, dtype=np.float64) * (2 - 0.5 ** (steps - 1))
    runs = []
    for _ in range(2):
        sums, team = np.zeros((groups, team.size, 3), dtype=np.float32), team_of(kind, groups)
        accumulate(team, team_rows(LIKE, team, 3), steps, numbers.copy(), sums)
        raise_if_timed_out(team)
        np.testing.assert_array_equal(sums, np.repeat(sums[:, :1], team.size, axis=1))
        runs.append(sums)
    np.testing.assert_allclose(runs[0][:, 0], wanted, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(runs[0], runs[1])


def test_a_thread_that_waits_for_one_that_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    if require().device != "cpu":
        pytest.skip("threads of a CPU poll")
    monkeypatch.setattr(teams, "_MAX_POLLS", 1000)
    team = cpu_team(1, 8 * thread_count())  # more threads than run at the same time
    rotate(team, 3, np.zeros((1, 5), np.int64), np.zeros((1, 5), np.int64))
    with pytest.raises(RuntimeError, match="timed out at a barrier"):
        raise_if_timed_out(team)


def test_every_device_has_multiprocessors() -> None:
    assert multiprocessor_count() >= 1
