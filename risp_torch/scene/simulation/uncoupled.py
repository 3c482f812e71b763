"""Adapter of bodies and deformable bodies that do not collide with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch

from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values
from risp_torch.scene.simulation.articulated import ArticulatedAdapter
from risp_torch.scene.simulation.deformable import DeformableAdapter
from risp_torch.scene.simulation.rigid import RigidAdapter
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver


class UncoupledSolvers(SolverAdapter):
    """Bodies and deformable bodies of one scene, each with a separate solver."""

    def __init__(self, bodies: SolverAdapter, particles: DeformableAdapter) -> None:
        """Combine the adapters of a scene's bodies and of its deformable bodies."""
        self.bodies, self.particles, self.spec = bodies, particles, particles.spec
        self.actuators, self.actuator_kind = bodies.actuators, bodies.actuator_kind

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        if not spec.bodies or not spec.deformables:
            return None
        return cls(ArticulatedAdapter.of(spec) or RigidAdapter(spec), DeformableAdapter(spec))

    def make_solver(self) -> Solver:
        """Raise a UserError: there are two solvers."""
        raise UserError("bodies and deformable bodies of this scene have separate solvers: use one of these")

    def step_warnings(self, solver: Solver) -> list[str]:
        """No warnings: the adapters ``bodies`` and ``particles`` issue the warnings."""
        return []

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> Arrays:
        """Raise a UserError: there are two solvers."""
        raise UserError("bodies and deformable bodies of this scene have separate solvers: use the inputs of one of these")

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``: the bodies' arrays at the frames, then the particles'."""
        *bodies, particle_q, particle_qd, diverged = arrays
        return self._joined(self.bodies.states(values, *bodies), self.particles.states(values, particle_q, particle_qd, diverged))

    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``SolverAdapter.start``."""
        return self.bodies.start(values)[0], self.particles.start(values)[1]

    def state(self, values: Values) -> State:
        """As ``SolverAdapter.state``."""
        return replace(self.bodies.state(values), **self.particles.state(values).arrays())

    def rollout(
        self, values: Values, *, frames: int, actions: torch.Tensor | None, state: State | None, adjoint: Adjoint | None,
        states_per_interval: int = 1,
    ) -> States:  # fmt: skip
        """As ``SolverAdapter.rollout``."""
        body_state, particle_state = (None, None) if state is None else _split(state)
        options: dict[str, Any] = {"frames": frames, "adjoint": adjoint, "states_per_interval": states_per_interval}
        particle_states = self.particles.rollout(values, actions=None, state=particle_state, **options)
        body_states = self.bodies.rollout(values, actions=actions, state=body_state, **options)
        return self._joined(body_states, particle_states)

    def forces(self, values: Values, states: Sequence[State], *, rows: Sequence[int], actions: torch.Tensor | None) -> Forces:
        """As ``SolverAdapter.forces``."""
        body_states, particle_states = zip(*map(_split, states), strict=True)
        particles = self.particles.forces(values, particle_states, rows=rows, actions=None)
        bodies = self.bodies.forces(values, body_states, rows=rows, actions=actions)
        return replace(bodies, particle_contact=particles.particle_contact)

    @staticmethod
    def _joined(bodies: States, particles: States) -> States:
        return replace(
            bodies, particle_q=particles.particle_q, particle_qd=particles.particle_qd,
            diverged_step=torch.cat([bodies.diverged_step, particles.diverged_step], dim=1),
            last=None if bodies.last is None else replace(bodies.last, **particles.last.arrays()),
        )  # fmt: skip


def _split(state: State) -> tuple[State, State]:
    """The state of the bodies, and that of the deformable bodies."""
    arrays = state.arrays()
    particles = {name: array for name, array in arrays.items() if name.startswith("particle_") or name == "substeps"}
    bodies = {name: array for name, array in arrays.items() if name not in particles}
    return State(frame=state.frame, **bodies), State(frame=state.frame, **particles)
