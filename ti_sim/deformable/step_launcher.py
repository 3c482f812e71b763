"""Launches many steps of the element plan: on a CPU many steps per launch by a group of threads, on a GPU one step per launch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.base.arrays import Array, int_zeros_in_same_library
from ti_sim.base.launcher import Launcher
from ti_sim.base.parallel import ThreadTuner
from ti_sim.deformable.element_plan import Slots


class StepLauncher:
    """A kernel of the element plan with its arguments bound."""

    def __init__(
        self, kernel: Any, slots: Slots, *arguments: Any, worlds: int, like: Array, before: Sequence[Launcher] = (),
        after: Sequence[Launcher] = (),
    ) -> None:  # fmt: skip
        """Set the arguments.

        Args:
            kernel: ``element_plan.step_all`` or ``step_all_adjoint``.
            slots: slots of the elements.
            arguments: arguments of the kernel, beginning with ``states``.
            worlds: number of worlds B.
            like: an array of the container and device of the others.
            before: launchers that are called with the step number before each step, on a GPU.
            after: launchers that are called after each step.
        """
        self._copies = slots.copies
        self._before, self._after = before, after
        # CPU threads use a barrier in host memory, whatever the container of the other arrays.
        self._barrier = np.zeros((worlds, 2), dtype=np.int32) if slots.copies else int_zeros_in_same_library(like, (1, 2))
        self._launch = Launcher(kernel, self._barrier, slots, *arguments, integers=4)

    def run(self, first: int, steps: int, thread_tuner: ThreadTuner, *, direction: int) -> None:
        """Run ``steps`` steps.

        Args:
            first: first step.
            steps: number of steps.
            thread_tuner: chooses the number of threads.
            direction: 1 for ascending steps, -1 for descending ones.

        Raises:
            RuntimeError: a thread timed out at a barrier because the system did not schedule another one.
        """
        if not self._copies:
            for step in range(first, first + direction * steps, direction):
                for launch in self._before:
                    launch(step)
                self._launch(step, 1, 1, 0)
                for launch in self._after:
                    launch(step)
            return

        def launch_group(threads: int, executed_steps: int, count: int) -> None:
            self._barrier.fill(0)
            self._launch(first + direction * executed_steps, count, threads, 0)
            if self._barrier[:, 1].any():
                raise RuntimeError("threads of a simulation timed out at a barrier: choose plan='world'")

        thread_tuner.run(launch_group, steps)
