"""Many steps of the element plan: on a CPU by threads that stay together for whole launches, on a GPU step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.base.arrays import Array, int_zeros_like_family
from ti_sim.base.launcher import Launcher
from ti_sim.base.parallel import ThreadTuner
from ti_sim.deformable.element_plan import Slots


class StepLauncher:
    """A kernel of the element plan with its arguments set."""

    def __init__(
        self, kernel: Any, slots: Slots, *arguments: Any, worlds: int, like: Array, before: Sequence[Launcher] = (),
        after: Sequence[Launcher] = (),
    ) -> None:  # fmt: skip
        """Set the arguments.

        Args:
            kernel: ``element_plan.step_all`` or ``step_all_adjoint``.
            slots: of the elements.
            arguments: of the kernel from ``states`` on.
            worlds: B.
            like: an array of the container and device of the others.
            before: what is launched with the number of each step before it, on a GPU.
            after: what is launched after it.
        """
        self._copies = slots.copies
        self._before, self._after = before, after
        # Threads of a CPU meet in host memory, whatever the container of the other arrays.
        self._meeting = np.zeros((worlds, 2), dtype=np.int32) if slots.copies else int_zeros_like_family(like, (1, 2))
        self._launch = Launcher(kernel, self._meeting, slots, *arguments, integers=4)

    def run(self, first: int, steps: int, pace: ThreadTuner, *, direction: int) -> None:
        """Take ``steps`` steps.

        Args:
            first: number of the first one.
            steps: how many.
            pace: chooses the threads.
            direction: 1 for rising numbers of steps, -1 for falling ones.

        Raises:
            RuntimeError: a thread waited for seconds for another one, which the system did not let run.
        """
        if not self._copies:
            for step in range(first, first + direction * steps, direction):
                for launch in self._before:
                    launch(step)
                self._launch(step, 1, 1, 0)
                for launch in self._after:
                    launch(step)
            return

        def launch_team(team: int, done: int, count: int) -> None:
            self._meeting.fill(0)
            self._launch(first + direction * done, count, team, 0)
            if self._meeting[:, 1].any():
                raise RuntimeError("threads of a simulation waited for each other in vain: choose plan='world'")

        pace.run(launch_team, steps)
