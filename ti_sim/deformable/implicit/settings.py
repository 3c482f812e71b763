"""Settings of implicit steps."""

from __future__ import annotations

from dataclasses import dataclass

from ti_sim.base.rules import Count, Positive, checked


@checked
@dataclass(frozen=True, kw_only=True)
class ImplicitSettings:
    """Convergence and contact of implicit steps.

    Attributes:
        tolerance: a step has converged when Newton's next correction is expected to change no velocity by more [m/s]. Errors of
            states and of gradients are proportional to it.
        iterations: maximum number of iterations of Newton's method in a stage; a stage that needs more has failed.
        onset: depth over which the ground's stiffness sets in at rest [m]; it is added to the travel of a step (``ground``).
        adjoint_tolerance: relative size of the residual of the adjoint's linear systems, and of the next correction (except for
            bodies that are too large to factor, and on a GPU) [1]; errors of gradients are also proportional to it.
    """

    tolerance: Positive = 1e-6
    iterations: Count = 60
    onset: Positive = 1e-5
    adjoint_tolerance: Positive = 1e-9
