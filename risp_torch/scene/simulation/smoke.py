"""Adapter of smoke."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.smoke import SmokeInputs, SmokeSettings, SmokeSolver
from ti_sim.smoke.model import STABLE


@dataclass(frozen=True)
class SmokeStates(States):
    """Motion of smoke; there are no bodies (N = 0).

    Attributes:
        smoke: [B, T, X, Y] density [1].
    """

    smoke: torch.Tensor | None = None

    @property
    def placement(self) -> torch.Tensor:
        """[B, T, X, Y] density."""
        return self.smoke

    def arrays(self) -> dict[str, torch.Tensor]:
        """As ``States.arrays``."""
        return super().arrays() | {"smoke": self.smoke}


class SmokeAdapter(SolverAdapter):
    """Smoke in a plane; a state is its density and the velocities at the faces."""

    def __init__(self, spec: SceneSpec) -> None:
        """Make the adapter of a scene's smoke (UserError: the scene has bodies, too)."""
        if spec.bodies or spec.deformables:
            raise UserError(f"{spec.smoke.name} fills the picture: a scene with smoke has no bodies")
        self.spec = spec

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        return None if spec.smoke is None else cls(spec)

    @property
    def refinable(self) -> bool:
        """False: each step blurs, so that shorter steps approach no limit."""
        return False

    @property
    def numbers_per_frame(self) -> int:
        """As ``SolverAdapter.numbers_per_frame``."""
        return 3 * math.prod(self.spec.smoke.model.cells)

    def make_solver(self) -> SmokeSolver:
        """As ``SolverAdapter.make_solver``."""
        stepping, smoke = self.spec.stepping, self.spec.smoke
        return SmokeSolver(smoke.model, SmokeSettings(dt=stepping.dt, substeps=stepping.substeps, advection=smoke.advection))

    def step_warnings(self, solver: SmokeSolver) -> list[str]:
        """A warning if the upper bound of the viscosity is unstable, which would end a search. Advection is always stable."""
        bound = self.spec.table[f"{self.spec.smoke.name}.viscosity"].high
        max_viscosity = STABLE * self.spec.smoke.model.cell**2 / self.spec.stepping.dt
        if bound is None or bound <= max_viscosity:
            return []
        return [
            f"{self.spec.smoke.name}.viscosity may be up to {bound:.3g} m2/s, and steps of {self.spec.stepping.dt:.3g} s are "
            f"stable up to {max_viscosity:.3g}: take more substeps, or lower the bound"
        ]

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> SmokeInputs:
        """As ``SolverAdapter.inputs``."""
        return self.spec.smoke.inputs(values, frames)

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``."""
        density, _, _, failed = arrays
        no_bodies = density.new_zeros(*density.shape[:2], 0, 7)
        return SmokeStates(no_bodies, no_bodies[..., :6], failed, smoke=density)

    def start(self, values: Values) -> tuple[torch.Tensor, None]:
        """As ``SolverAdapter.start``: there are no bodies."""
        return values["gravity"].new_zeros(len(values["gravity"]), 0, 7), None

    def start_placement(self, values: Values) -> torch.Tensor:
        """Density [B, X, Y] at the start."""
        return self.spec.smoke.start(values)

    def check_forces(self) -> None:
        """As ``SolverAdapter.check_forces``."""
        raise UserError(f"{self.spec.smoke.name} is smoke, which has no contact and no joint forces: bodies have them")

    def without_escapes(self, states: States, *_arguments: Any, **_options: Any) -> States:
        """The motion unchanged: smoke cannot leave the box."""
        return states

    def rollout(
        self, values: Values, *, frames: int, actions: torch.Tensor | None, state: State | None, adjoint: Adjoint | None,
        states_per_interval: int = 1,
    ) -> States:  # fmt: skip
        """As ``SolverAdapter.rollout``, at the frames alone.

        Raises:
            UserError: states between the frames are wanted, for a film with a clock.
        """
        if states_per_interval > 1:
            raise UserError("smoke has states at the frames alone: leave set_film out, and give a frame_dt that fits the film")
        return super().rollout(values, frames=frames, actions=actions, state=state, adjoint=adjoint)
