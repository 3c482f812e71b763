"""Time stepping of a scene: frames, physics steps and integrator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, PositiveOrInfinite, checked
from ti_sim.rollout.time_steps import ExplicitIntegrator, Plan, check_integrator, check_plan

Integrator = ExplicitIntegrator  # those of all solvers; a motion refuses those that its solver does not have (``simulation``)
LAST_STEP = 2**31 - 1  # of a simulation: kernels count steps in 32 bits


@checked
@dataclass(frozen=True, kw_only=True)
class TimeStepping:
    """Time stepping of a scene.

    Attributes:
        frame_dt: time between two frames [s].
        substeps: physics steps per frame.
        integrator: "semi_implicit" or "rk4".
        plan: execution plan of the solver (``RigidSettings``, ``DeformableSettings``).
        max_distance: largest distance of a body's centre of mass from the origin [m].
        controls: rows of actuation of deformable bodies per frame.
        adaptive: whether worlds of deformable bodies take only as many steps as their own parameters need.

    Raises:
        UserError: a choice is unknown, or the controls do not divide the substeps.
    """

    frame_dt: Positive
    substeps: Count
    integrator: Integrator = "semi_implicit"
    plan: Plan = "auto"
    max_distance: PositiveOrInfinite = math.inf
    controls: Count = 1
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.substeps % self.controls:
            raise UserError(
                f"controls={self.controls} and substeps={self.substeps}: give a number of controls that divides the substeps"
            )
        check_integrator(self.integrator, Integrator)
        check_plan(self.plan, self.integrator)

    @property
    def dt(self) -> float:
        """Physics step [s]."""
        return self.frame_dt / self.substeps
