"""Deformable bodies and loads of a scene as the deformable solver's model and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.scene.deformable import Deformable
from risp_torch.scene.elements import Actuation, Elements, Net, Sheet, Solid, joined_rows, over_frames
from risp_torch.scene.numbers import Values, gravity_rows
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.self_contact import SelfContact, self_contact_rows
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import SOLIDS, TABLES, DeformableModel


@dataclass(frozen=True)
class Load:
    """A force on some particles of a deformable body, in equal parts or for each of them.

    Attributes:
        name: first part of its parameter name, "<name>.force".
        particles: among all of the scene.
        direction: [3] unit vector along which the parameter is a number, None where it is a vector.
        limit: largest component (or number) either way [N].
    """

    name: str
    particles: np.ndarray
    direction: np.ndarray | None
    limit: float

    def share(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames, K, 3] force on each of the K particles [N].

        Raises:
            UserError: it is given for fewer frames than are simulated.
        """
        name = f"{self.name}.force"
        count = len(self.particles)
        force = values[name].clamp(-self.limit, self.limit)
        if force.ndim == 4:
            return over_frames(name, force, frames)
        constant_axes = 1 if self.direction is not None else 2
        if force.ndim == constant_axes:
            force = force[:, None].expand(-1, frames, *force.shape[1:])
        else:
            force = over_frames(name, force, frames)
        force = force if self.direction is None else force[..., None] * force.new_tensor(self.direction)
        return (force / count)[:, :, None].expand(-1, -1, count, 3)


def make_load(
    table: ParameterTable, name: str, *, particles: np.ndarray, force: Any, direction: Any, limit: float, frames: int
) -> Load:
    """Name a load's force in the table and return it (arguments: ``Scene.add_load``; ``particles`` among all of the scene)."""
    shape = np.shape(force.value if isinstance(force, Param) else force)
    allowed = ((3,), (frames, 3), (frames, len(particles), 3)) if direction is None else ((), (frames,))
    if shape not in allowed:
        each = f", or {allowed[-1]} (particle by particle; for a number along a direction, give the direction too)"
        hint = each if direction is None else ""
        raise UserError(f"{name}.force has shape {shape}: give {allowed[0]}, or {allowed[1]} (frame intervals){hint}")
    unit = None
    if direction is not None:
        unit = np.asarray(direction, dtype=np.float64)
        if not np.linalg.norm(unit) > 0:
            raise UserError(f"{name} has the direction {direction}: give three numbers that are not all zero")
        unit = unit / np.linalg.norm(unit)
    table.add(f"{name}.force", force, unit="N", shape=shape)
    return Load(name, particles, unit, limit)


def deformable_model(
    parts: Sequence[Deformable], loads: Sequence[Load], *, ground_height: float | None, self_contact: SelfContact | None = None
) -> DeformableModel:
    """The model of all deformable bodies.

    Args:
        parts: the bodies.
        loads: forces on them.
        ground_height: z of the ground [m], None without one.
        self_contact: surfaces that touch, or None.
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
        controls: rows of actuation in a frame.

    Raises:
        UserError: an actuation, a load or a prescribed velocity is given for fewer frames.
    """
    some = values["gravity"]
    worlds = len(some)
    solids = [part.elements for part in _solids(parts)]
    sheets = [part.elements for part in parts if isinstance(part.elements, Sheet)]
    nets = [part.elements for part in parts if isinstance(part.elements, Net)]

    def acted(elements: Sequence[Elements], which: str, counted: str) -> torch.Tensor:
        rows = [
            _actuation_rows(getattr(k, which), values, frames, controls, count=len(getattr(k, counted))) for k in elements
        ]
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
    """Solid bodies in the order in which the solver counts their elements: by kind."""
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
