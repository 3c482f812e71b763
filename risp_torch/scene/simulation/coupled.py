"""The motion of links and deformable bodies that collide with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.simulation.articulated import ArticulatedMotion, check_coupled_coordinates
from risp_torch.scene.simulation.deformable import DeformableMotion
from risp_torch.scene.simulation.motion import Motion
from risp_torch.scene.simulation.step_warnings import touching_particles
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver


class CoupledMotion(Motion):
    """Particles that collide with bodies, in one coupled solver."""

    actuator_kind = "motors"
    derived = ArticulatedMotion.derived

    def __init__(self, spec: SceneSpec) -> None:
        """The motion of all bodies of a scene."""
        self.spec, self.actuators = spec, spec.motors
        self.links, self.particles = ArticulatedMotion(spec), DeformableMotion(spec)

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``Motion.of``."""
        return cls(spec) if spec.bodies and len(touching_particles(spec)) else None

    def make_solver(self) -> CoupledSolver:
        """As ``Motion.make_solver``."""
        stepping, touching = self.spec.stepping, touching_particles(self.spec)
        thickness = np.concatenate([np.full(part.count, part.thickness) for part in self.spec.deformables])
        return CoupledSolver(
            CoupledModel(self.links.solver.model, self.particles.solver.model, touching, 0.5 * thickness[touching]),
            CoupledSettings(stepping.dt, stepping.substeps),
        )

    def step_warnings(self, solver: CoupledSolver) -> list[str]:
        """None: ``links`` and ``particles`` issue their own."""
        return []

    def inputs(
        self, values: Values, *, frames: int, actions: torch.Tensor | None = None
    ) -> CoupledInputs:
        """As ``Motion.inputs``."""
        return CoupledInputs(
            self.links.inputs(values, frames=frames, actions=actions), self.particles.inputs(values, frames=frames)
        )

    def check_state(self, inputs: CoupledInputs, state: State) -> None:
        """As ``ArticulatedMotion.check_state``."""
        super().check_state(inputs, state)
        check_coupled_coordinates(self.spec.bodies, state.joint_q)

    def state(self, values: Values) -> State:
        """As ``ArticulatedMotion.state``."""
        links = self.links.state(values)
        return replace(links, **self.particles.state(values).arrays())

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``Motion.states``."""
        *links, particle_q, particle_qd, diverged = arrays
        moved = self.links.states(values, *links, diverged)
        return States(moved.body_q, moved.body_qd, diverged, moved.joint_q, moved.joint_qd, particle_q, particle_qd)

    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``Motion.start``."""
        return self.links.start(values)[0], self.particles.start(values)[1]
