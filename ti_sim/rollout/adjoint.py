"""How a rollout keeps what its gradient needs, every state or checkpoints, and how its adjoint runs over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ti_sim.base.rules import Count, checked

Segment = Callable[[int, int], None]  # called with the first step of a segment and its number of steps


@dataclass(frozen=True)
class StoreAll:
    """Keep the state of every step: the fastest gradient, memory proportional to the number of steps."""

    @property
    def interval(self) -> int:
        """Steps between two states that are kept."""
        return 1

    def run_backwards(self, steps: int, *, recompute: Segment, differentiate: Segment) -> None:
        """Run the adjoint over all steps (``recompute`` is not called)."""
        differentiate(0, steps)


@checked
@dataclass(frozen=True)
class Checkpoint:
    """Keep one state in ``every`` steps and recompute the segments between them in the backward pass.

    Memory is steps / every + every states, least at every = sqrt(steps); the cost is one more forward pass
    (Griewank and Walther, Evaluating Derivatives, chapter 12).

    Attributes:
        every: steps between two checkpoints, at least 1.
    """

    every: Count

    @property
    def interval(self) -> int:
        """Steps between two states that are kept."""
        return self.every

    def run_backwards(self, steps: int, *, recompute: Segment, differentiate: Segment) -> None:
        """Run the adjoint segment by segment, from the last to the first.

        Args:
            steps: of the rollout.
            recompute: steps a segment again from its checkpoint and keeps its states; not called where all were kept.
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


def kept_interval(adjoint: Adjoint | None, steps: int) -> int:
    """Steps between two states that a rollout of ``steps`` steps keeps; without an adjoint it keeps the first only."""
    return steps + 1 if adjoint is None else adjoint.interval


def segment_length(adjoint: Adjoint, steps: int) -> int:
    """Steps whose states are there at once in the backward pass."""
    return steps if adjoint.interval == 1 else min(adjoint.interval, steps)
