"""The motion of deformable bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch

from risp_torch.scene.numbers import Values, gravity_rows, outside_transforms, plain
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.elements import Actuation, Elements, Net, Sheet, Solid, joined_rows
from risp_torch.scene.parts.loads import Load
from risp_torch.scene.parts.self_contact import SelfContact, check_start, self_contact_rows
from risp_torch.scene.simulation.adaptive import adaptive_rollout, steps_of_worlds
from risp_torch.scene.simulation.motion import Motion
from risp_torch.scene.simulation.step_warnings import deformable_step_warnings
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.deformable.inputs import ContinuedInputs, DeformableInputs
from ti_sim.deformable.model import SOLIDS, TABLES, DeformableModel, DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rollout.adjoint import Adjoint


class DeformableMotion(Motion):
    """Solids, cloths, flat bodies and springs that collide with the ground and with each other."""

    def __init__(self, spec: SceneSpec) -> None:
        """The motion of the deformable bodies of a scene."""
        self.spec = spec

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``Motion.of``."""
        return cls(spec) if spec.deformables else None

    def make_solver(self) -> DeformableSolver:
        """As ``Motion.make_solver``."""
        spec, given = self.spec, self.spec.stepping
        _check(spec)
        model = deformable_model(spec.deformables, spec.loads, ground_height=spec.ground_height, self_contact=spec.self_contact)
        settings = DeformableSettings(
            dt=given.dt, substeps=given.substeps, plan=given.plan, integrator=given.integrator, implicit=given.implicit
        )
        return DeformableSolver(model, settings)

    def step_warnings(self, solver: DeformableSolver) -> list[str]:
        """As ``Motion.step_warnings``."""
        inputs = self.inputs(self.spec.table.values(), frames=1)
        return deformable_step_warnings(self.spec, solver.model, inputs)

    def inputs(
        self, values: Values, *, frames: int, actions: torch.Tensor | None = None
    ) -> DeformableInputs:
        """As ``Motion.inputs``."""
        spec = self.spec
        return deformable_inputs(spec.deformables, spec.loads, values, frames=frames, controls=spec.stepping.controls)

    def check_state(self, inputs: DeformableInputs, state: State) -> None:
        """As ``Motion.check_state``; the history of implicit steps must end in the state."""
        super().check_state(inputs, state)
        if state.particle_history is None:
            return
        with outside_transforms():
            end = plain(state.particle_history.detach())[:, -1]
            shown = torch.cat([plain(array.detach()) for array in (state.particle_q, state.particle_qd)], dim=-1)
            if end.shape == shown.shape and not torch.equal(end.to(shown.dtype).nan_to_num(), shown.nan_to_num()):
                raise UserError(
                    "state.particle_history does not end in state.particle_q and state.particle_qd: change these with "
                    "state.replace(...), which begins the multistep formula again"
                )

    def with_state(self, inputs: DeformableInputs, state: State) -> DeformableInputs:
        """As ``Motion.with_state``."""
        inputs = super().with_state(inputs, state)
        if state.particle_history is None:
            return inputs
        return ContinuedInputs(*inputs.arrays(), state.particle_history, state.particle_driving, state.particle_factor)

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``Motion.states``."""
        particle_q, particle_qd, diverged = arrays
        shape = particle_q.shape[:2]
        return States(
            particle_q.new_zeros(*shape, 0, 7), particle_q.new_zeros(*shape, 0, 6), diverged,
            particle_q=particle_q, particle_qd=particle_qd,
        )  # fmt: skip

    def start(self, values: Values) -> tuple[torch.Tensor, torch.Tensor]:
        """As ``Motion.start``."""
        nothing = values["gravity"].new_zeros(len(values["gravity"]), 0, 7)
        return nothing, torch.cat([part.start(values) for part in self.spec.deformables], dim=1)

    def simulate(
        self, inputs: DeformableInputs, frames: int, *, state: State | None, adjoint: Adjoint | None, first_frame: int,
        between: int,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:  # fmt: skip
        """As ``Motion.simulate``; in an adaptive scene every world takes as many steps as its parameters need at the start."""
        if not self.spec.stepping.adaptive:
            return super().simulate(
                inputs, frames, state=state, adjoint=adjoint, first_frame=first_frame, between=between
            )
        if state is None or state.substeps is None:
            steps = steps_of_worlds(self.solver, inputs, controls=self.spec.stepping.controls)
        else:
            steps = plain(state.substeps.detach()).tolist()
        particle_q, particle_qd, diverged = adaptive_rollout(self.solver, inputs, frames, steps=steps, adjoint=adjoint)
        arrays = {"particle_q": particle_q, "particle_qd": particle_qd}
        return arrays, {"substeps": torch.tensor(steps, device=diverged.device)}, diverged


def _check(spec: SceneSpec) -> None:
    """Raise a UserError if a scene has features that the deformable solver does not support."""
    if spec.stepping.integrator == "rk4":
        raise UserError(
            "deformable bodies have 'semi_implicit' and implicit integrators, but the scene has integrator 'rk4': leave it out"
        )
    touched = spec.ground is not None or any(body.collision is not None for body in spec.bodies)
    for part in spec.deformables:
        if part.contact_name is not None and not touched:
            raise UserError(
                f"{part.name} has a Contact and collides with nothing: the scene has no ground (call add_ground first), and no "
                "body with collision"
            )
    if spec.self_contact is not None:
        check_start(spec.self_contact, spec.deformables, spec.table.values())


def deformable_model(
    parts: Sequence[Deformable], loads: Sequence[Load], *, ground_height: float | None, self_contact: SelfContact | None = None
) -> DeformableModel:
    """The model of all deformable bodies.

    Args:
        parts: the bodies.
        loads: forces on them.
        ground_height: z of the ground [m], None without one.
        self_contact: surfaces with self-contact, or None.
    """
    solids = _solids(parts)
    sheets = [part for part in parts if isinstance(part.elements, Sheet)]
    nets = [part for part in parts if isinstance(part.elements, Net)]
    tables = {
        TABLES[kind]: _joined([part.elements.indices + part.first for part in solids if part.elements.kind == kind])
        for kind in SOLIDS
    }
    tables |= {
        "tri_indices": _joined([part.elements.indices + part.first for part in sheets]),
        "tri_normal": _joined([np.tile(part.elements.normal, (len(part.elements.indices), 1)) for part in sheets]),
        "edge_indices": _joined([part.elements.edges + part.first for part in sheets]),
        "spring_indices": _joined([part.elements.indices + part.first for part in nets]),
    }
    if self_contact is not None:
        tables |= {"contact_triangles": self_contact.triangles}
    grounded = ground_height is not None
    energies = [part.elements.energy for part in solids for _ in part.elements.indices]
    return DeformableModel(
        particle_rest=np.concatenate([part.rest for part in parts]),
        solid_energy=tuple(energies) if len(set(energies)) > 1 or set(energies) - {"neo_hookean"} else (),
        fixed=np.concatenate([part.fixed + part.first for part in parts]),
        prescribed=np.concatenate([part.prescribed + part.first for part in parts]),
        loaded=_loaded(loads),
        contact=np.concatenate([part.touching[: None if grounded else 0] + part.first for part in parts]),
        ground_height=ground_height if grounded else 0.0,
        self_thickness=0.0 if self_contact is None else self_contact.thickness,
        parts=tuple((part.name, part.first, part.first + part.count) for part in parts),
        **{name: table for name, table in tables.items() if table is not None},
    )


def deformable_inputs(
    parts: Sequence[Deformable], loads: Sequence[Load], values: Values, *, frames: int, controls: int = 1
) -> DeformableInputs:
    """The solver's arrays; differentiable.

    Args:
        parts: the deformable bodies.
        loads: forces on them.
        values: parameters [B, ...].
        frames: frame intervals.
        controls: rows of actuation per frame.

    Raises:
        UserError: an actuation, a load or a prescribed velocity is given for fewer frames.
    """
    some = values["gravity"]
    worlds = len(some)
    solids = [part.elements for part in _solids(parts)]
    sheets = [part.elements for part in parts if isinstance(part.elements, Sheet)]
    nets = [part.elements for part in parts if isinstance(part.elements, Net)]

    def acted(elements: Sequence[Elements], which: str, counted: str) -> torch.Tensor:
        rows = [_actuation_rows(getattr(k, which), values, frames, controls, count=len(getattr(k, counted))) for k in elements]
        return joined_rows(rows, some, (worlds, frames * controls, 0), 2)

    wind = values.get("wind")
    return DeformableInputs(
        particle_q0=torch.cat([part.start(values) for part in parts], dim=1),
        particle_qd0=torch.cat([part.start_velocity(values) for part in parts], dim=1),
        particle_mass=torch.cat([part.mass(values) for part in parts], dim=1),
        particle_contact=torch.cat([part.contact(values) for part in parts], dim=1),
        solid_material=joined_rows([k.stiffness.rows(values) for k in solids], some, (worlds, 0, 3), 1),
        solid_actuation=acted(solids, "actuation", "indices"),
        tri_material=joined_rows([k.material(values) for k in sheets], some, (worlds, 0, 5), 1),
        tri_actuation=acted(sheets, "actuation", "indices"),
        edge_material=joined_rows([k.edge_material(values) for k in sheets], some, (worlds, 0, 3), 1),
        edge_actuation=acted(sheets, "turn", "edges"),
        spring_material=joined_rows([k.material(values) for k in nets], some, (worlds, 0, 3), 1),
        gravity=gravity_rows(values),
        wind=some.new_zeros(worlds, 3) if wind is None else wind,
        load=_load_rows(loads, values, frames),
        prescribed_qd=torch.cat([part.prescribed_velocity(values, frames) for part in parts], dim=2),
        self_contact=self_contact_rows(values),
    )


def _solids(parts: Sequence[Deformable]) -> list[Deformable]:
    """Solid bodies in the solver's element order: by kind."""
    return [part for kind in SOLIDS for part in parts if isinstance(part.elements, Solid) and part.elements.kind == kind]


def _joined(tables: list[np.ndarray]) -> np.ndarray | None:
    return np.concatenate(tables) if tables else None


def _loaded(loads: Sequence[Load]) -> np.ndarray:
    """Particles with a load, each once."""
    return np.unique(np.concatenate([load.particles for load in loads])) if loads else np.zeros(0, dtype=np.int64)


def _load_rows(loads: Sequence[Load], values: Values, frames: int) -> torch.Tensor:
    """[B, frames, L, 3] forces on the particles of ``_loaded`` [N]."""
    some, loaded = values["gravity"], _loaded(loads)
    total = some.new_zeros(len(some), frames, len(loaded), 3)
    for load in loads:
        places = torch.as_tensor(np.searchsorted(loaded, load.particles), device=some.device)
        total = total.index_add(2, places, load.share(values, frames))
    return total


def _actuation_rows(actuation: Actuation | None, values: Values, frames: int, controls: int, *, count: int) -> torch.Tensor:
    some = values["gravity"]
    return some.new_zeros(len(some), frames * controls, count) if actuation is None else actuation.rows(values, frames)
