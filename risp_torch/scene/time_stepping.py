"""Time stepping of a scene: frames, physics steps and integrator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, PositiveOrInfinite, checked
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.rollout.time_steps import IMPLICIT, AnyIntegrator, Plan, check_integrator, check_plan

Integrator = AnyIntegrator  # those of all solvers; a motion refuses those that its solver does not have (``simulation``)
MAX_STEPS = 2**31 - 1  # of a simulation: kernels count steps in 32 bits


@checked
@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """Options of a scene's solver.

    Attributes:
        plan: execution plan (see the settings of each solver, such as ``RigidSettings``).
        max_distance: of a body's centre of mass from the origin [m]; a world in which one goes farther is treated as diverged.
        adaptive: whether every world of a rollout of deformable bodies that do not collide with rigid bodies takes no more steps
            than its own parameters need at its start (``stable_step``, with a safety margin of two fifths, in levels of a
            fifth), from an eighth of the scene's ``substeps`` to all. Position errors are about the motion in half of the
            difference between the steps.
        implicit: convergence of implicit steps.
    """

    plan: Plan = "auto"
    max_distance: PositiveOrInfinite = math.inf
    adaptive: bool = False
    implicit: ImplicitSettings = ImplicitSettings()


@checked
@dataclass(frozen=True, kw_only=True)
class TimeStepping:
    """Time stepping of a scene.

    Attributes:
        frame_dt: time between two frames [s].
        substeps: physics steps per frame.
        integrator: "semi_implicit"; "rk4" of bodies; "backward_euler", "bdf2" or "sdirk2" of deformable bodies (implicit).
        controls: rows of actuation of deformable bodies per frame.
        solver: options of the solver.

    Raises:
        UserError: a choice is unknown, the controls do not divide the substeps, or implicit steps are adaptive.
    """

    frame_dt: Positive
    substeps: Count
    integrator: Integrator = "semi_implicit"
    controls: Count = 1
    solver: SolverOptions = SolverOptions()

    def __post_init__(self) -> None:
        if self.substeps % self.controls:
            raise UserError(
                f"controls={self.controls} and substeps={self.substeps}: give a number of controls that divides the substeps"
            )
        check_integrator(self.integrator, Integrator)
        check_plan(self.solver.plan, self.integrator)
        if self.solver.adaptive and self.is_implicit:
            raise UserError(f"adaptive steps are explicit ones, and the integrator is {self.integrator!r}: leave adaptive out")

    @property
    def is_implicit(self) -> bool:
        """Whether the integrator is implicit."""
        return self.integrator in IMPLICIT

    @property
    def dt(self) -> float:
        """Physics step [s]."""
        return self.frame_dt / self.substeps
