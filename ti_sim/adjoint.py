"""How a rollout keeps what its gradient needs: every state, or checkpoints and recomputation."""

from __future__ import annotations

from dataclasses import dataclass

from ti_sim.base.rules import Count, checked


@dataclass(frozen=True)
class StoreAll:
    """Keep the state of every step: the fastest gradient, memory proportional to the number of steps."""


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


Adjoint = StoreAll | Checkpoint
