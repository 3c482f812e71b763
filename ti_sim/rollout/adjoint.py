"""Storage of states for the adjoint of a rollout (every state, or checkpoints), and the order of its segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ti_sim.base.rules import Count, checked

SegmentFunction = Callable[[int, int], None]  # called with the first step and the number of steps of a segment


@checked
@dataclass(frozen=True)
class StoreAll:
    """Store the state of every step: the fastest gradient, with memory proportional to the number of steps."""

    @property
    def interval(self) -> int:
        """Steps between two stored states."""
        return 1

    def run_backwards(self, steps: int, *, recompute: SegmentFunction, differentiate: SegmentFunction) -> None:
        """Run the adjoint over all steps (``recompute`` is not called)."""
        differentiate(0, steps)


@checked
@dataclass(frozen=True)
class Checkpoint:
    """Store one state every ``every`` steps and recompute the segments between them in the backward pass.

    Memory is steps / every + every states, with the minimum at every = sqrt(steps); the cost is one additional forward pass
    (Griewank and Walther, Evaluating Derivatives, chapter 12).

    Attributes:
        every: steps between two checkpoints, at least 1.
    """

    every: Count

    @property
    def interval(self) -> int:
        """Steps between two stored states."""
        return self.every

    def run_backwards(self, steps: int, *, recompute: SegmentFunction, differentiate: SegmentFunction) -> None:
        """Run the adjoint segment by segment, from the last to the first.

        Args:
            steps: number of steps of the rollout.
            recompute: simulates a segment again from its checkpoint and stores its states; not called if all were stored.
            differentiate: runs the adjoint over a segment.
        """
        if self.every == 1:
            differentiate(0, steps)
            return
        for first in reversed(range(0, steps, self.every)):
            count = min(self.every, steps - first)
            recompute(first, count)
            differentiate(first, count)


Adjoint = StoreAll | Checkpoint


def storage_interval(adjoint: Adjoint | None, steps: int, *, last: bool = False) -> int:
    """Steps between two states that a rollout of ``steps`` steps stores.

    Without an adjoint it stores the first only, or with ``last`` the first and the last.
    """
    return (steps if last else steps + 1) if adjoint is None else adjoint.interval


def segment_length(adjoint: Adjoint, steps: int) -> int:
    """Number of steps whose states are in memory at the same time in the backward pass."""
    return steps if adjoint.interval == 1 else min(adjoint.interval, steps)
