"""Adapter of deformable bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch

from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values, gravity_rows, outside_transforms, unwrapped
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.elements import ActuationRows, Elements, Sheet, Solid, SpringNetwork, joined_rows
from risp_torch.scene.parts.loads import Load
from risp_torch.scene.parts.self_contact import SelfContact, check_start, self_contact_rows
from risp_torch.scene.simulation.adaptive import adaptive_rollout, steps_of_worlds
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.simulation.states_at_frames import stacked
from risp_torch.scene.simulation.step_warnings import deformable_step_warnings
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.deformable.implicit.ground_forces import last_stage
from ti_sim.deformable.inputs import ContinuedInputs, DeformableInputs
from ti_sim.deformable.model import SOLIDS, TABLES, DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rollout.adjoint import Adjoint


class DeformableAdapter(SolverAdapter):
    """Solids, cloths, flat bodies and springs that collide with the ground and with each other."""

    def __init__(self, spec: SceneSpec) -> None:
        """Make the adapter of a scene's deformable bodies."""
        self.spec = spec

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        return cls(spec) if spec.deformables else None

    def make_solver(self) -> DeformableSolver:
        """As ``SolverAdapter.make_solver``."""
        spec, stepping = self.spec, self.spec.stepping
        _check_features(spec)
        model = deformable_model(spec.deformables, spec.loads, ground_height=spec.ground_height, self_contact=spec.self_contact)
        settings = DeformableSettings(
            dt=stepping.dt, substeps=stepping.substeps, plan=stepping.solver.plan, integrator=stepping.integrator,
            implicit=stepping.solver.implicit,
        )
        return DeformableSolver(model, settings)

    def step_warnings(self, solver: DeformableSolver) -> list[str]:
        """As ``SolverAdapter.step_warnings``."""
        inputs = self.inputs(self.spec.table.values(), frames=1)
        return deformable_step_warnings(self.spec, solver.model, inputs)

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> DeformableInputs:
        """As ``SolverAdapter.inputs``."""
        spec = self.spec
        return deformable_inputs(spec.deformables, spec.loads, values, frames=frames, controls=spec.stepping.controls)

    def check_state(self, inputs: DeformableInputs, state: State) -> None:
        """As ``SolverAdapter.check_state``; the history of implicit steps must end in the state."""
        super().check_state(inputs, state)
        if state.particle_history is None:
            return
        with outside_transforms():
            final_stage = unwrapped(state.particle_history.detach())[:, -1]
            current = torch.cat([unwrapped(array.detach()) for array in (state.particle_q, state.particle_qd)], dim=-1)
            if final_stage.shape == current.shape and not torch.equal(
                final_stage.to(current.dtype).nan_to_num(), current.nan_to_num()
            ):
                raise UserError(
                    "state.particle_history does not end in state.particle_q and state.particle_qd: change these with "
                    "state.replace(...), which begins the multistep formula again"
                )

    def with_state(self, inputs: DeformableInputs, state: State) -> DeformableInputs:
        """As ``SolverAdapter.with_state``."""
        inputs = super().with_state(inputs, state)
        if state.particle_history is None:
            return inputs
        return ContinuedInputs(*inputs.arrays(), state.particle_history, state.particle_driving, state.particle_factor)

    def forces(self, values: Values, states: Sequence[State], *, rows: Sequence[int], actions: torch.Tensor | None) -> Forces:
        """As ``SolverAdapter.forces`` (UserError: the scene has adaptive steps)."""
        if self.spec.stepping.solver.adaptive:
            raise UserError(
                "contact forces are means over a step, and each world of an adaptive scene has its own: make the scene without "
                "SolverOptions(adaptive=True)"
            )
        return super().forces(values, states, rows=rows, actions=actions)

    def force_state(self, inputs: DeformableInputs, states: Sequence[State]) -> dict[str, torch.Tensor]:
        """As ``SolverAdapter.force_state``; of implicit steps also the first and the last of the latest stages of each state.

        A state without them is that at the end of a step without acceleration.
        """
        if not self.spec.stepping.is_implicit:
            return stacked(states)
        stage_age = 1.0 - last_stage(self.spec.stepping.integrator).gamma if self.spec.stepping.integrator == "sdirk2" else 1.0
        return stacked([_with_stages(state, stage_age * self.spec.stepping.dt) for state in states])

    def inputs_at_states(
        self, inputs: DeformableInputs, state: Mapping[str, torch.Tensor], rows: Sequence[int]
    ) -> DeformableInputs:
        """As ``SolverAdapter.inputs_at_states``."""
        if "particle_history" in state:
            inputs = ContinuedInputs(*inputs.arrays(), state["particle_history"][:, 0])
        return super().inputs_at_states(inputs, state, rows)

    def named_forces(self, arrays: Mapping[str, torch.Tensor]) -> Forces:
        """As ``SolverAdapter.named_forces``."""
        return Forces(particle_contact=arrays["ground_force"] + arrays["self_force"])

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``."""
        particle_q, particle_qd, diverged = arrays
        shape = particle_q.shape[:2]
        return States(
            particle_q.new_zeros(*shape, 0, 7), particle_q.new_zeros(*shape, 0, 6), diverged,
            particle_q=particle_q, particle_qd=particle_qd,
        )  # fmt: skip

    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``SolverAdapter.start``."""
        no_bodies = values["gravity"].new_zeros(len(values["gravity"]), 0, 7)
        return no_bodies, torch.cat([deformable.start(values) for deformable in self.spec.deformables], dim=1)

    def simulate(
        self, inputs: DeformableInputs, frames: int, *, state: State | None, adjoint: Adjoint | None, first_frame: int,
        states_per_interval: int,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:  # fmt: skip
        """As ``SolverAdapter.simulate``; in an adaptive scene the parameters of a world set its number of steps."""
        if not self.spec.stepping.solver.adaptive:
            return super().simulate(
                inputs,
                frames,
                state=state,
                adjoint=adjoint,
                first_frame=first_frame,
                states_per_interval=states_per_interval,
            )
        if state is None or state.substeps is None:
            steps = steps_of_worlds(self.solver, inputs, controls=self.spec.stepping.controls)
        else:
            steps = unwrapped(state.substeps.detach()).tolist()
        particle_q, particle_qd, diverged = adaptive_rollout(self.solver, inputs, frames, steps=steps, adjoint=adjoint)
        arrays = {"particle_q": particle_q, "particle_qd": particle_qd}
        return arrays, {"substeps": torch.tensor(steps, device=diverged.device)}, diverged


def _with_stages(state: State, stage_age: float) -> State:
    """The state with its first and last stage as history; without a history the first one is ``stage_age`` [s] earlier."""
    if state.particle_history is None:
        q, qd = state.particle_q.double(), state.particle_qd.double()
        history = torch.stack([torch.cat([q - stage_age * qd, qd], dim=-1), torch.cat([q, qd], dim=-1)], dim=1)
    else:
        history = torch.stack([state.particle_history[:, 0], state.particle_history[:, -1]], dim=1)
    return State(
        frame=state.frame, particle_q=state.particle_q, particle_qd=state.particle_qd, particle_history=history,
        substeps=state.substeps,
    )  # fmt: skip


def _check_features(spec: SceneSpec) -> None:
    """Raise a UserError if a scene has features that the deformable solver does not support."""
    if spec.stepping.integrator == "rk4":
        raise UserError(
            "deformable bodies have 'semi_implicit' and implicit integrators, but the scene has integrator 'rk4': leave it out"
        )
    has_contact_partner = spec.ground is not None or any(body.collision is not None for body in spec.bodies)
    for deformable in spec.deformables:
        if deformable.contact_name is not None and not has_contact_partner:
            raise UserError(
                f"{deformable.name} has a Contact and collides with nothing: the scene has no ground (call add_ground "
                "first), and no body with collision"
            )
    if spec.self_contact is not None:
        check_start(spec.self_contact, spec.deformables, spec.table.values())


def deformable_model(
    bodies: Sequence[Deformable], loads: Sequence[Load], *, ground_height: float | None, self_contact: SelfContact | None = None
) -> DeformableModel:
    """The model of all deformable bodies.

    Args:
        bodies: the bodies.
        loads: forces on them.
        ground_height: z of the ground [m], None without one.
        self_contact: surfaces with self-contact, or None.
    """
    solids = _solids(bodies)
    sheets = [body for body in bodies if isinstance(body.elements, Sheet)]
    spring_networks = [body for body in bodies if isinstance(body.elements, SpringNetwork)]
    tables = {
        TABLES[kind]: _concatenated(
            [body.elements.indices + body.first_particle for body in solids if body.elements.kind == kind]
        )
        for kind in SOLIDS
    }
    tables |= {
        "tri_indices": _concatenated([body.elements.indices + body.first_particle for body in sheets]),
        "tri_normal": _concatenated([np.tile(body.elements.normal, (len(body.elements.indices), 1)) for body in sheets]),
        "edge_indices": _concatenated([body.elements.edges + body.first_particle for body in sheets]),
        "spring_indices": _concatenated([body.elements.indices + body.first_particle for body in spring_networks]),
    }
    if self_contact is not None:
        tables |= {"contact_triangles": self_contact.triangles}
    has_ground = ground_height is not None
    energies = [body.elements.energy for body in solids for _ in body.elements.indices]
    return DeformableModel(
        particle_rest=np.concatenate([body.rest for body in bodies]),
        solid_energy=tuple(energies) if len(set(energies)) > 1 or set(energies) - {"neo_hookean"} else (),
        fixed=np.concatenate([body.fixed + body.first_particle for body in bodies]),
        prescribed=np.concatenate([body.prescribed + body.first_particle for body in bodies]),
        loaded=_loaded_particles(loads),
        contact=np.concatenate([body.surface_particles[: None if has_ground else 0] + body.first_particle for body in bodies]),
        ground_height=ground_height if has_ground else 0.0,
        self_thickness=0.0 if self_contact is None else self_contact.thickness,
        parts=tuple((body.name, body.first_particle, body.first_particle + body.count) for body in bodies),
        **{name: table for name, table in tables.items() if table is not None},
    )


def deformable_inputs(
    bodies: Sequence[Deformable], loads: Sequence[Load], values: Values, *, frames: int, controls: int = 1
) -> DeformableInputs:
    """The solver's arrays; differentiable.

    Args:
        bodies: the deformable bodies.
        loads: forces on them.
        values: parameters [B, ...].
        frames: frame intervals.
        controls: rows of actuation per frame.

    Raises:
        UserError: an actuation, a load or a prescribed velocity is given for fewer frames.
    """
    gravity = values["gravity"]
    worlds = len(gravity)
    solids = [body.elements for body in _solids(bodies)]
    sheets = [body.elements for body in bodies if isinstance(body.elements, Sheet)]
    spring_networks = [body.elements for body in bodies if isinstance(body.elements, SpringNetwork)]

    def actuation_rows(elements: Sequence[Elements], actuation_field: str, indices_field: str) -> torch.Tensor:
        rows = [
            _actuation_rows(getattr(k, actuation_field), values, frames, controls, count=len(getattr(k, indices_field)))
            for k in elements
        ]
        return joined_rows(rows, gravity, (worlds, frames * controls, 0), 2)

    wind = values.get("wind")
    return DeformableInputs(
        particle_q0=torch.cat([body.start(values) for body in bodies], dim=1),
        particle_qd0=torch.cat([body.start_velocity(values) for body in bodies], dim=1),
        particle_mass=torch.cat([body.mass(values) for body in bodies], dim=1),
        particle_contact=torch.cat([body.contact(values) for body in bodies], dim=1),
        solid_material=joined_rows([k.stiffness.rows(values) for k in solids], gravity, (worlds, 0, 3), 1),
        solid_actuation=actuation_rows(solids, "actuation", "indices"),
        tri_material=joined_rows([k.material(values) for k in sheets], gravity, (worlds, 0, 5), 1),
        tri_actuation=actuation_rows(sheets, "actuation", "indices"),
        edge_material=joined_rows([k.edge_material(values) for k in sheets], gravity, (worlds, 0, 3), 1),
        edge_actuation=actuation_rows(sheets, "bending_actuation", "edges"),
        spring_material=joined_rows([k.material(values) for k in spring_networks], gravity, (worlds, 0, 3), 1),
        gravity=gravity_rows(values),
        wind=gravity.new_zeros(worlds, 3) if wind is None else wind,
        load=_load_rows(loads, values, frames),
        prescribed_qd=torch.cat([body.prescribed_velocity(values, frames) for body in bodies], dim=2),
        self_contact=self_contact_rows(values),
    )


def _solids(bodies: Sequence[Deformable]) -> list[Deformable]:
    """Solid bodies in the solver's element order: by kind."""
    return [body for kind in SOLIDS for body in bodies if isinstance(body.elements, Solid) and body.elements.kind == kind]


def _concatenated(tables: list[np.ndarray]) -> np.ndarray | None:
    return np.concatenate(tables) if tables else None


def _loaded_particles(loads: Sequence[Load]) -> np.ndarray:
    """Particles with a load, each once."""
    return np.unique(np.concatenate([load.particles for load in loads])) if loads else np.zeros(0, dtype=np.int64)


def _load_rows(loads: Sequence[Load], values: Values, frames: int) -> torch.Tensor:
    """[B, frames, L, 3] forces on the particles of ``_loaded`` [N]."""
    gravity, loaded_particles = values["gravity"], _loaded_particles(loads)
    forces = gravity.new_zeros(len(gravity), frames, len(loaded_particles), 3)
    for load in loads:
        row_indices = torch.as_tensor(np.searchsorted(loaded_particles, load.particles), device=gravity.device)
        forces = forces.index_add(2, row_indices, load.particle_forces(values, frames))
    return forces


def _actuation_rows(actuation: ActuationRows | None, values: Values, frames: int, controls: int, *, count: int) -> torch.Tensor:
    gravity = values["gravity"]
    return gravity.new_zeros(len(gravity), frames * controls, count) if actuation is None else actuation.rows(values, frames)
