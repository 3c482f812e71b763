"""Launches many steps by the threads of a team."""

from typing import Any

from ti_sim.base.launcher import Launcher
from ti_sim.base.parallel import ThreadTuner
from ti_sim.base.runtime import require
from ti_sim.base.teams import Team, raise_if_timed_out, reset_arrivals


class StepLauncher:
    """A kernel of many steps with its arguments bound."""

    def __init__(self, kernel: Any, team: Team, *arguments: Any) -> None:
        """Set the arguments.

        Args:
            kernel: kernel of ``element_plan`` or ``lane_plan`` whose first arguments are the first step, the number of steps, the
                number of threads in a group, the step whose state before it is in row 0 of the states, and the team.
            team: the threads; on a CPU the number in a group is an argument of each launch.
            arguments: the arguments after the team.
        """
        self._team = team
        self._launch = Launcher(kernel, team, *arguments, integers=4)

    def run(self, first: int, steps: int, thread_tuner: ThreadTuner | None, *, first_step: int, direction: int) -> None:
        """Run ``steps`` steps.

        Args:
            first: first step.
            steps: number of steps.
            thread_tuner: chooses the number of threads on a CPU; without it, and on a GPU, all of the team run all steps in one
                launch.
            first_step: step whose state before it is in row 0 of the states.
            direction: 1 for ascending steps, -1 for descending ones.

        Raises:
            RuntimeError: a thread timed out at a barrier because the system did not schedule another one.
        """

        def launch(threads: int, executed_steps: int, count: int) -> None:
            reset_arrivals(self._team)
            self._launch(first + direction * executed_steps, count, threads, first_step)
            raise_if_timed_out(self._team)

        if require().device == "cpu" and thread_tuner is not None:
            thread_tuner.run(launch, steps)
        else:
            launch(self._team.size, 0, steps)
