"""Adapter of links and deformable bodies that collide with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
import torch

from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values
from risp_torch.scene.simulation.articulated import ArticulatedAdapter, check_coupled_coordinates
from risp_torch.scene.simulation.deformable import DeformableAdapter
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.simulation.step_warnings import colliding_particles
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver


class CoupledAdapter(SolverAdapter):
    """Particles that collide with bodies, in one coupled solver."""

    actuator_kind = "motors"
    derived = ArticulatedAdapter.derived

    def __init__(self, spec: SceneSpec) -> None:
        """Make the adapter of all bodies of a scene."""
        self.spec, self.actuators = spec, spec.motors
        self.links, self.particles = ArticulatedAdapter(spec), DeformableAdapter(spec)

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        return cls(spec) if spec.bodies and len(colliding_particles(spec)) else None

    def make_solver(self) -> CoupledSolver:
        """As ``SolverAdapter.make_solver``."""
        stepping, contact_particles = self.spec.stepping, colliding_particles(self.spec)
        thickness = np.concatenate([np.full(deformable.count, deformable.thickness) for deformable in self.spec.deformables])
        return CoupledSolver(
            CoupledModel(
                self.links.solver.model, self.particles.solver.model, contact_particles, 0.5 * thickness[contact_particles]
            ),
            CoupledSettings(stepping.dt, stepping.substeps, stepping.solver.plan),
        )

    def step_warnings(self, solver: CoupledSolver) -> list[str]:
        """None: the adapters ``links`` and ``particles`` issue the warnings."""
        return []

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> CoupledInputs:
        """As ``SolverAdapter.inputs``."""
        return CoupledInputs(
            self.links.inputs(values, frames=frames, actions=actions), self.particles.inputs(values, frames=frames)
        )

    def check_state(self, inputs: CoupledInputs, state: State) -> None:
        """As ``ArticulatedAdapter.check_state``."""
        super().check_state(inputs, state)
        check_coupled_coordinates(self.spec.bodies, state.joint_q)

    def state(self, values: Values) -> State:
        """As ``ArticulatedAdapter.state``."""
        links = self.links.state(values)
        return replace(links, **self.particles.state(values).arrays())

    def named_forces(self, arrays: Mapping[str, torch.Tensor]) -> Forces:
        """As ``SolverAdapter.named_forces``."""
        links, particles = self.links.named_forces(arrays), self.particles.named_forces(arrays)
        wrench = arrays["particle_wrench"]  # of each deformable body on each link
        colliding_bodies = [i for i, body in enumerate(self.spec.bodies) if body.collision is not None]
        contact = wrench[..., colliding_bodies, :].transpose(-3, -2).flatten(-3, -2)
        names = ((self.spec.bodies[i].name, body.name) for i in colliding_bodies for body in self.spec.deformables)
        return replace(
            links, body_contact=links.body_contact + wrench.sum(dim=-3), contact=torch.cat([links.contact, contact], dim=-2),
            contacts=(*links.contacts, *names), particle_contact=particles.particle_contact + arrays["link_force"],
        )  # fmt: skip

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``."""
        *links, particle_q, particle_qd, diverged = arrays
        link_states = self.links.states(values, *links, diverged)
        return States(
            link_states.body_q, link_states.body_qd, diverged, link_states.joint_q, link_states.joint_qd, particle_q, particle_qd
        )

    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``SolverAdapter.start``."""
        return self.links.start(values)[0], self.particles.start(values)[1]
