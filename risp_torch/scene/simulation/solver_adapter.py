"""Interface between a simulator and a solver: from a scene's parameters to its inputs, and from its frames to states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values, outside_transforms
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.motors import Motors
from risp_torch.scene.parts.rotors import Rotors
from risp_torch.scene.simulation.continuation import after_frame, initial_arrays, last_state, with_state
from risp_torch.scene.simulation.escapes import without_escapes
from risp_torch.scene.simulation.finer_frames import finer_inputs, finer_solver
from risp_torch.scene.simulation.states_at_frames import inputs_at_states, stacked
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State, check_state_arrays
from risp_torch.scene.states import States, joined_placement
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.warn import warn
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver


class SolverAdapter(ABC):
    """Makes a solver's inputs of a scene and states of its frames. Each solver has a subclass in a separate file.

    Attributes:
        actuators: rotors or motors, which ``actions`` drive.
        actuator_kind: their name in messages.
        derived: arrays of a state that are computed from others, and not read.
    """

    spec: SceneSpec
    actuator_kind: ClassVar[str] = "rotors and no motors"
    derived: ClassVar[frozenset[str]] = frozenset()
    actuators: tuple[Rotors, ...] | tuple[Motors, ...] = ()

    @classmethod
    @abstractmethod
    def of(cls, spec: SceneSpec) -> SolverAdapter | None:
        """The adapter of a scene; None if this class does not simulate it.

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
    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> Arrays:
        """The solver's arrays from the start of the scene; differentiable.

        Args:
            values: parameters [B, ...] (``ParameterTable.values``).
            frames: number of simulated frame intervals.
            actions: [B or 1, F, A] in place of the actuators' own, or None.

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
        return not self.spec.stepping.solver.adaptive

    @property
    def numbers_per_frame(self) -> int:
        """Numbers that a world has at each frame."""
        return 13 * len(self.spec.bodies) + 6 * self.spec.particle_count

    def without_escapes(
        self, states: States, table: ParameterTable, parameters: Mapping[str, torch.Tensor] | None, *, states_per_interval: int
    ) -> States:
        """A motion of the scene in which worlds are marked as diverged if a body has left its range (``escapes``)."""
        return without_escapes(self.spec, table, states, parameters, states_per_interval=states_per_interval)

    def state(self, values: Values) -> State:
        """The state at the start for parameter values [B, ...]; differentiable, except the ``derived`` arrays."""
        return State(**initial_arrays(self.inputs(values, frames=1)))

    def rollout(
        self, values: Values, *, frames: int, actions: torch.Tensor | None, state: State | None, adjoint: Adjoint | None,
        states_per_interval: int = 1,
    ) -> States:  # fmt: skip
        """Simulate (arguments: ``inputs``, ``Simulator.rollout``)."""
        first = 0 if state is None else state.frame
        if first and actions is not None:
            actions = torch.cat([actions.new_zeros(len(actions), first, *actions.shape[2:]), actions], dim=1)
        inputs, diverged = self.inputs(values, frames=first + frames, actions=actions), None
        if state is not None:
            inputs = after_frame(inputs, first)
            self.check_state(inputs, state)
            state, diverged = self.without_diverged(state)
            inputs = self.with_state(inputs, state)
        arrays, last_arrays, failed = self.simulate(
            inputs, frames, state=state, adjoint=adjoint, first_frame=first, states_per_interval=states_per_interval
        )
        if diverged is not None:
            arrays, last_arrays = _diverged_arrays(arrays, diverged), _diverged_arrays(last_arrays, diverged)
            failed = torch.where(diverged[:, None], torch.zeros_like(failed), failed)
        states = self.states(values, *arrays.values(), failed)
        return replace(states, last=last_state(states, arrays, last_arrays, frame=first + frames))

    def check_forces(self) -> None:
        """Check that the scene has contact or joint forces.

        Raises:
            UserError: it has none.
        """
        return  # solvers without forces raise

    def forces(self, values: Values, states: Sequence[State], *, rows: Sequence[int], actions: torch.Tensor | None) -> Forces:
        """Contact and joint forces [B, T, ...] at T states.

        Args:
            values: parameters [B, ...].
            states: of successive frames.
            rows: frame interval of each state, whose rows over time it reads.
            actions: [B or 1, F, A] from the first state on, or None.

        Raises:
            UserError: the actions or states do not fit, or the solver does not compute forces.
        """
        first, worlds = states[0].frame, len(values["gravity"])
        if actions is not None:
            actions = torch.cat([actions.new_zeros(len(actions), first, *actions.shape[2:]), actions], dim=1)
        inputs = self.inputs(values, frames=rows[-1] + 1, actions=actions)
        continued_inputs = after_frame(inputs, rows[0])
        for state in states:
            self.check_state(continued_inputs, state)
        arrays = self.force_state(inputs, states)
        finite = torch.stack([state.finite for state in states], dim=1).flatten()
        if not finite.any():
            raise DivergenceError(
                f"every world of the state at frame {first} has diverged: give a state whose numbers are finite",
                body="", step=first,
            )  # fmt: skip
        batched_inputs, replacement = self.inputs_at_states(inputs, arrays, rows), int(finite.int().argmax())
        if not finite.all():
            finite_arrays = (_replace_diverged(array, finite, replacement) for array in batched_inputs.arrays())
            batched_inputs = batched_inputs.with_arrays(finite_arrays)
        results = _diverged_arrays(bridge.forces(self.solver, batched_inputs), ~finite)
        return self.named_forces({name: array.unflatten(0, (worlds, len(states))) for name, array in results.items()})

    def force_state(self, inputs: Arrays, states: Sequence[State]) -> dict[str, torch.Tensor]:
        """The arrays [B, T, ...] of the states that forces depend on, by name."""
        return stacked(states)

    def inputs_at_states(self, inputs: Arrays, state: Mapping[str, torch.Tensor], rows: Sequence[int]) -> Arrays:
        """The inputs of all states as worlds of one batch (arguments: ``states_at_frames.inputs_at_states``)."""
        return inputs_at_states(inputs, state, rows)

    def named_forces(self, arrays: Mapping[str, torch.Tensor]) -> Forces:
        """The arrays of the solver's ``forces`` [B, T, ...] as those of bodies and particles."""
        raise NotImplementedError

    def simulate(
        self,
        inputs: Arrays,
        frames: int,
        *,
        state: State | None,
        adjoint: Adjoint | None,
        first_frame: int,
        states_per_interval: int,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:
        """Run the solver.

        Args:
            inputs: its arrays.
            frames: number of frame intervals.
            state: initial state, if it is not the start.
            adjoint, states_per_interval: as of ``Simulator.rollout``.
            first_frame: frame of the initial state.

        Returns:
            The arrays at the frames [B, frames between + 1, ...] and the other arrays of the last state [B, ...] by name, and
            the failed steps [B, bodies].
        """
        solver = self.solver
        if states_per_interval > 1:
            solver, inputs = self._finer_solver(states_per_interval), finer_inputs(inputs, states_per_interval)
        results = bridge.rollout(
            solver, inputs, frames * states_per_interval, adjoint=adjoint, first_frame=first_frame * states_per_interval
        )
        names, count = solver.last_names(inputs), len(solver.frame_names)
        arrays = dict(zip(solver.frame_names, results[:count], strict=True))
        return arrays, dict(zip(names, results[count:-1], strict=True)), results[-1]

    def with_state(self, inputs: Arrays, state: State) -> Arrays:
        """The solver's arrays with the initial state ``state``."""
        return with_state(inputs, state)

    def check_state(self, inputs: Arrays, state: State) -> None:
        """Raise a UserError for a state of another scene or of other worlds, or arrays of it that contradict each other.

        Args:
            inputs: the solver's arrays for the simulation from this state, with the initial state of the scene.
            state: the state.
        """
        expected = {name: array.shape for name, array in initial_arrays(inputs).items() if not name.endswith("_bristle")}
        steps = ("substeps",) if self.spec.stepping.solver.adaptive else ()
        check_state_arrays(state, expected, optional=(*self.solver.last_names(inputs), *self.derived, *steps))

    def without_diverged(self, state: State) -> tuple[State, torch.Tensor | None]:
        """The state with diverged worlds replaced by a finite one, and [B] bool, the worlds that have diverged; None for none.

        Raises:
            DivergenceError: all worlds have diverged.
        """
        finite = state.finite
        if finite.all():
            return state, None
        if not finite.any():
            raise DivergenceError(
                f"every world of the state at frame {state.frame} has diverged: start from a state whose numbers are finite",
                body="", step=state.frame,
            )  # fmt: skip
        replacement = int(finite.int().argmax())

        def replace_diverged(array: torch.Tensor) -> torch.Tensor:
            return torch.where(finite.reshape(-1, *[1] * (array.ndim - 1)), array, array.detach()[replacement])

        return state.map(replace_diverged), ~finite

    def _finer_solver(self, states_per_interval: int) -> Solver:
        """``finer_solver``, made once: solvers keep tables."""
        if states_per_interval not in self._finer_solvers:
            self._finer_solvers[states_per_interval] = finer_solver(self.solver, states_per_interval)
        return self._finer_solvers[states_per_interval]

    @cached_property
    def _finer_solvers(self) -> dict[int, Solver]:
        return {}

    def check(self, parameters: Mapping[str, object], actions: torch.Tensor | None) -> None:
        """Raise a UserError for actions without actuators, or actions given twice.

        Args:
            parameters: parameters that replace the scene's own.
            actions: see ``Scene.rollout``.
        """
        if actions is None:
            return
        if not self.actuators:
            raise UserError(f"there are actions, but the scene has no {self.actuator_kind}: leave them out, or add some")
        replaced = [name for group in self.actuators if (name := f"{group.name}.actions") in parameters]
        if replaced:
            raise UserError(f"the actions are given twice, as {replaced[0]} and as actions: leave one of the two out")


def _replace_diverged(array: torch.Tensor, finite: torch.Tensor, replacement: int) -> torch.Tensor:
    """An array [M, ...] with one of its rows in place of those that are not ``finite`` [M]."""
    return torch.where(finite.reshape(-1, *[1] * (array.ndim - 1)), array, array.detach()[replacement])


def _diverged_arrays(arrays: Mapping[str, torch.Tensor], diverged: torch.Tensor) -> dict[str, torch.Tensor]:
    """Arrays [B, ...], NaN in worlds that diverged, and so are their derivatives."""
    factor = torch.where(diverged, torch.nan, 1.0)
    return {
        name: array * factor.to(array.dtype).reshape(-1, *[1] * (array.ndim - 1)) if array.is_floating_point() else array
        for name, array in arrays.items()
    }


def action_rows(actions: object, worlds: int | None) -> tuple[torch.Tensor | None, int | None]:
    """Actions as a tensor of the runtime, and the number of worlds: that of the actions, if the parameters do not determine it.
    """
    if actions is None:
        return None, worlds
    rows = torch.as_tensor(actions, dtype=bridge.bridge_dtype(), device=bridge_device())
    return rows, rows.shape[0] if worlds is None and rows.ndim == 3 and rows.shape[0] > 1 else worlds
