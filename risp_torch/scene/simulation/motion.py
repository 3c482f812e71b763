"""Interface between a simulator and a solver: from a scene's parameters to its inputs, and from its frames to states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import Values, outside_transforms
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.motors import Motors
from risp_torch.scene.parts.rotors import Rotors
from risp_torch.scene.simulation.escapes import without_escapes
from risp_torch.scene.simulation.finer_frames import finer_inputs, finer_solver
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.states import States, joined_placement
from ti_sim.base.errors import UserError
from ti_sim.base.warn import warn
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver

State = tuple[torch.Tensor, ...]


class Motion(ABC):
    """Motion of a scene's bodies: a solver, its inputs and its frames. Each solver has a subclass in a separate file.

    Attributes:
        actuators: rotors or motors, which ``actions`` drive.
        actuator_kind: their name in messages.
        state_arrays: arrays of an initial state.
    """

    spec: SceneSpec
    actuator_kind: ClassVar[str] = "rotors and no motors"
    state_arrays: ClassVar[int] = 2
    actuators: tuple[Rotors, ...] | tuple[Motors, ...] = ()

    @classmethod
    @abstractmethod
    def of(cls, spec: SceneSpec) -> Motion | None:
        """The motion of a scene; None if this class does not simulate it.

        Raises:
            UserError: it does, and the scene has parts that its solver does not support.
        """

    @cached_property
    def solver(self) -> Solver:
        """The solver, made at first use.

        Warns:
            UserWarning: the physics step is too long for the scene's own parameters.

        Raises:
            UserError: the scene has features that the solver does not support.
        """
        with outside_transforms():
            solver = self.make_solver()
            sentences = self.step_warnings(solver)
        for sentence in sentences:
            warn(sentence)
        return solver

    @abstractmethod
    def make_solver(self) -> Solver:
        """The solver of the scene's bodies (errors: ``solver``)."""

    @abstractmethod
    def step_warnings(self, solver: Solver) -> list[str]:
        """Warnings about a too long physics step for the scene's own parameters."""

    @abstractmethod
    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None, state0: State | None = None) -> Arrays:
        """The solver's arrays; differentiable.

        Args:
            values: parameters [B, ...] (``ParameterTable.values``).
            frames: number of simulated frame intervals.
            actions: [B or 1, F, A] in place of the actuators' own, or None.
            state0: initial state in place of the scene's (``Scene.rollout``), or None.

        Raises:
            UserError: the actions do not fit.
        """

    @abstractmethod
    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """The arrays at the frames that ``bridge.rollout`` returns as states."""

    @abstractmethod
    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Poses [B, N, 7] of the bodies (m, unit quaternions) and positions [B, P, 3] of the particles at the start, or None."""

    def start_placement(self, values: Values) -> torch.Tensor:
        """The initial placement (``States.placement``, one frame of it) for parameter values [B, ...]."""
        return joined_placement(*self.start(values))

    @property
    def refinable(self) -> bool:
        """Whether the motion has states between its frames, and approaches a limit with shorter steps."""
        return not self.spec.stepping.adaptive

    @property
    def numbers_per_frame(self) -> int:
        """Numbers that a world has at each frame."""
        return 13 * len(self.spec.bodies) + 6 * self.spec.particle_count

    def without_escapes(
        self, states: States, table: ParameterTable, parameters: Mapping[str, torch.Tensor] | None, *, between: int
    ) -> States:
        """A motion of the scene in which worlds are marked as diverged if a body has left its range (``escapes``)."""
        return without_escapes(self.spec, table, states, parameters, between=between)

    def rollout(
        self, values: Values, *, frames: int, actions: torch.Tensor | None, state0: State | None, adjoint: Adjoint | None,
        between: int = 1,
    ) -> States:  # fmt: skip
        """Simulate (arguments: ``inputs``, ``Simulator.rollout``)."""
        inputs = self.inputs(values, frames=frames, actions=actions, state0=state0)
        solver = self.solver
        if between > 1:
            solver, inputs = self._finer_solver(between), finer_inputs(inputs, between)
        return self.states(values, *bridge.rollout(solver, inputs, frames * between, adjoint=adjoint))

    def _finer_solver(self, between: int) -> Solver:
        """``finer_solver``, made once: solvers keep tables."""
        if between not in self._finer:
            self._finer[between] = finer_solver(self.solver, between)
        return self._finer[between]

    @cached_property
    def _finer(self) -> dict[int, Solver]:
        return {}

    def check(self, given: Mapping[str, object], actions: torch.Tensor | None, state0: State | None) -> None:
        """Raise a UserError for actions without actuators, actions given twice, or a wrong number of state arrays.

        Args:
            given: parameters that replace the scene's own.
            actions, state0: see ``Scene.rollout``.
        """
        if state0 is not None and len(state0) != self.state_arrays:
            raise UserError(f"state0 has {len(state0)} arrays, and this scene needs {self.state_arrays}: see Scene.rollout")
        if actions is None:
            return
        if not self.actuators:
            raise UserError(f"there are actions, but the scene has no {self.actuator_kind}: leave them out, or add some")
        replaced = [name for group in self.actuators if (name := f"{group.name}.actions") in given]
        if replaced:
            raise UserError(f"the actions are given twice, as {replaced[0]} and as actions: leave one of the two out")


def action_rows(actions: object, worlds: int | None) -> tuple[torch.Tensor | None, int | None]:
    """Actions as a tensor of the runtime, and the number of worlds: that of the actions, if the parameters do not determine it.
    """
    if actions is None:
        return None, worlds
    rows = torch.as_tensor(actions, dtype=bridge.bridge_dtype(), device=bridge_device())
    return rows, rows.shape[0] if worlds is None and rows.ndim == 3 and rows.shape[0] > 1 else worlds
