"""The elements of a scene's deformable bodies: which numbers they have, and how these become the solver's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from risp_torch.scene.materials import (
    Air,
    Bending,
    Elastic,
    Membrane,
    Stiffness,
    add_element_number,
    add_stiffness,
    element_rows,
)
from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.deformable.bending import bending_edges, edge_stiffness, rest_angles
from ti_sim.deformable.model import ENERGIES
from ti_sim.deformable.solids import corner_volumes, energy_constants, lame_from_young, rest_table
from ti_sim.deformable.triangles import membrane_constants, plane_strain_constants, triangle_areas, triangle_constants
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh

# For each convention, the lam / mu above which a material resists a change of size: that of the bulk (area) modulus zero.
_LEAST_SOLID = {"lame": -2 / 3, "energy": 1 / 8}
_LEAST_LINEAR = {"lame": -2 / 3, "energy": -2 / 3}
_LEAST_PLANE = {"lame": -1.0, "energy": -2 / 9}


@dataclass(frozen=True)
class Actuation:
    """Numbers over time of a body's elements.

    Attributes:
        name: of the parameter.
        groups: [E] which column of the parameter each element has, None where each has its own.
        controls: C, rows of it in a frame.
    """

    name: str
    groups: np.ndarray | None
    controls: int

    def rows(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames C, E].

        Raises:
            UserError: there are fewer frames of it than are simulated.
        """
        given = over_frames(self.name, values[self.name], frames, controls=self.controls)
        if self.groups is None:
            return given
        return given[:, :, torch.as_tensor(self.groups.astype(np.int64), device=given.device)]


@dataclass(frozen=True)
class Solid:
    """Elements of a solid.

    Attributes:
        kind: "tet", "hex" or "tet10".
        indices: [E, nodes] particles, within the body.
        shares: [E, nodes] volume that each node stands for [m3].
        energy: its name.
        stiffness: elastic constants and damping.
        actuation: change of the rest volume, or None.
    """

    kind: str
    indices: np.ndarray
    shares: np.ndarray
    energy: str
    stiffness: Stiffness
    actuation: Actuation | None


@dataclass(frozen=True)
class Sheet:
    """Triangles of a cloth or a flat body.

    Attributes:
        indices: [T, 3] particles, within the body.
        shares: [T, 3] area (of a flat body: volume) that each corner stands for [m2, m3].
        normal: [3] unit normal of a flat body's plane, zeros for a cloth.
        depth: of a flat body, by which its constants count [m]; 1 for a cloth.
        stiffness: elastic constants and damping.
        actuation: change of the rest area, or None.
        air: whether "<name>.air.drag" and "<name>.air.lift" are there.
        edges: [M, 4] bending edges.
        fold: stiffness of each edge [M] for a rigidity of 1 N m, None where the stiffness itself is given.
        turn: angles of the edges over time, or None.
    """

    indices: np.ndarray
    shares: np.ndarray
    normal: np.ndarray
    depth: float
    stiffness: Stiffness
    actuation: Actuation | None
    air: bool
    edges: np.ndarray
    fold: np.ndarray | None
    turn: Actuation | None

    def material(self, values: Values) -> torch.Tensor:
        """[B, T, 5] mu, lambda, damping [N/m, N s/m], drag, lift [kg/m3]."""
        name, elastic = self.stiffness.name, self.depth * self.stiffness.rows(values)
        if not self.air:
            return torch.nn.functional.pad(elastic, (0, 2))
        air = [element_rows(values[f"{name}.air.{key}"], len(self.indices)) for key in ("drag", "lift")]
        return torch.cat([elastic, torch.stack(air, dim=-1)], dim=-1)

    def edge_material(self, values: Values) -> torch.Tensor:
        """[B, M, 3] stiffness [N m], damping [N m s], rest angle [rad]."""
        name, count = self.stiffness.name, len(self.edges)
        if not count:
            return values["gravity"].new_zeros(len(values["gravity"]), 0, 3)
        if self.fold is None:
            stiffness = element_rows(values[f"{name}.bending.stiffness"], count)
        else:
            stiffness = values[f"{name}.bending.rigidity"][:, None] * constant(self.fold)
        others = (element_rows(values[f"{name}.bending.{key}"], count) for key in ("damping", "rest_angle"))
        return torch.stack([stiffness, *others], dim=-1)


@dataclass(frozen=True)
class Net:
    """Springs between the points of a body.

    Attributes:
        name: of the body.
        indices: [S, 2] particles, within the body.
    """

    name: str
    indices: np.ndarray

    def material(self, values: Values) -> torch.Tensor:
        """[B, S, 3] stiffness [N/m], damping [N s/m], rest length [m]."""
        keys = ("stiffness", "damping", "rest_length")
        return torch.stack([element_rows(values[f"{self.name}.{key}"], len(self.indices)) for key in keys], dim=-1)


Elements = Solid | Sheet | Net


def make_solid(
    table: ParameterTable, name: str, mesh: SolidMesh, material: Elastic, *, actuation: Any, groups: Any, frames: int,
    controls: int,
) -> Solid:
    """Name a solid's numbers in the table and return its elements (arguments: ``Scene.add_solid``)."""
    if material.energy not in ENERGIES:
        raise UserError(f"the material of {name} has the energy {material.energy!r}: choose one of {', '.join(ENERGIES)}")
    count = len(mesh.indices)
    from_lame = partial(energy_constants, material.energy)
    stiffness = add_stiffness(
        table, name, material, count=count, units=("Pa", "Pa s"),
        from_young=lambda young, poisson: from_lame(*lame_from_young(young, poisson)), from_lame=from_lame,
        least=_LEAST_SOLID if material.energy == "neo_hookean" else _LEAST_LINEAR,
    )  # fmt: skip
    rest = rest_table(mesh.kind, mesh.vertices, mesh.indices, element_name=lambda e: f"element {e} of {name!r}")
    return Solid(
        mesh.kind, mesh.indices, corner_volumes(mesh.kind, rest), material.energy, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, groups, count=count, frames=frames, controls=controls),
    )  # fmt: skip


def make_cloth(
    table: ParameterTable, name: str, mesh: SheetMesh, material: Membrane, *, bending: Bending | None, air: Air | None,
    actuation: Any, groups: Any, frames: int, controls: int,
) -> Sheet:  # fmt: skip
    """Name a cloth's numbers in the table and return its elements (arguments: ``Scene.add_cloth``)."""
    count, thickness = len(mesh.triangles), material.thickness
    if (material.E is not None) != (thickness is not None):
        raise UserError(f"the membrane of {name} has E={material.E} and thickness={thickness}: give both, or mu and lam [N/m]")
    stiffness = add_stiffness(
        table, name, material, count=count, units=("N/m", "N s/m"),
        from_young=lambda young, poisson: membrane_constants(young, poisson, thickness), from_lame=triangle_constants,
        least=_LEAST_PLANE,
    )  # fmt: skip
    if air is not None:
        for key in ("drag", "lift"):
            add_element_number(table, f"{name}.air.{key}", getattr(air, key), count, unit="kg/m3", sign="not negative")
    edges = np.zeros((0, 4), dtype=np.int32) if bending is None else bending_edges(mesh.triangles)
    fold = turn = None
    if bending is not None:
        fold, turn = add_bending(table, name, mesh, bending, edges, frames=frames, controls=controls)
    shares = np.repeat(triangle_areas(mesh.vertices, mesh.triangles)[:, None] / 3, 3, axis=1)
    return Sheet(
        mesh.triangles, shares, np.zeros(3), 1.0, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, groups, count=count, frames=frames, controls=controls),
        air is not None, edges, fold, turn,
    )  # fmt: skip


def make_flat_body(
    table: ParameterTable, name: str, mesh: SheetMesh, material: Elastic, *, depth: float, turn: np.ndarray, actuation: Any,
    groups: Any, frames: int, controls: int,
) -> Sheet:  # fmt: skip
    """Name a flat body's numbers in the table and return its elements (arguments: ``Scene.add_flat_body``; ``turn`` [3, 3] takes
    the mesh's axes to the world's)."""
    if material.energy != "neo_hookean":
        raise UserError(f"{name} is flat and its material has the energy {material.energy!r}: flat bodies are 'neo_hookean'")
    count = len(mesh.triangles)
    stiffness = add_stiffness(
        table, name, material, count=count, units=("Pa", "Pa s"), from_young=plane_strain_constants,
        from_lame=triangle_constants, least=_LEAST_PLANE,
    )  # fmt: skip
    shares = np.repeat(depth * triangle_areas(mesh.vertices, mesh.triangles)[:, None] / 3, 3, axis=1)
    return Sheet(
        mesh.triangles, shares, turn @ plane_normal(name, mesh), depth, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, groups, count=count, frames=frames, controls=controls), False,
        np.zeros((0, 4), dtype=np.int32), None, None,
    )  # fmt: skip


def make_net(
    table: ParameterTable, name: str, points: np.ndarray, springs: Any, *, stiffness: Any, damping: Any, rest_length: Any
) -> Net:
    """Name the springs' numbers in the table and return them (arguments: ``Scene.add_springs``)."""
    pairs = np.asarray(springs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or pairs.dtype.kind not in "iu":
        raise UserError(f"the springs of {name} have shape {pairs.shape} of {pairs.dtype}: give pairs of points, [S, 2] integers")
    wrong = np.flatnonzero(((pairs < 0) | (pairs >= len(points))).any(axis=1) | (pairs[:, 0] == pairs[:, 1]))
    if len(wrong):
        raise UserError(
            f"spring {wrong[0]} of {name} joins the points {pairs[wrong[0]].tolist()}: give two different points of 0 to "
            f"{len(points) - 1}"
        )
    lengths = np.linalg.norm(points[pairs[:, 1]] - points[pairs[:, 0]], axis=1)
    given = lengths if rest_length is None else rest_length
    for key, value, unit in (("stiffness", stiffness, "N/m"), ("damping", damping, "N s/m"), ("rest_length", given, "m")):
        sign = "positive" if key == "stiffness" else "not negative"
        add_element_number(table, f"{name}.{key}", value, len(pairs), unit=unit, sign=sign)
    return Net(name, pairs.astype(np.int32))


def add_bending(
    table: ParameterTable, name: str, mesh: SheetMesh, bending: Bending, edges: np.ndarray, *, frames: int, controls: int
) -> tuple[np.ndarray | None, Actuation | None]:
    """Name the bending numbers; stiffness of the edges per rigidity where that is given, and their actuation."""
    count, fold = len(edges), None
    if (bending.stiffness is None) == (bending.rigidity is None):
        raise UserError(f"the bending of {name} needs its stiffness or its rigidity: give exactly one of the two")
    if bending.rigidity is not None:
        fold = edge_stiffness(1.0, mesh.vertices, edges)
        table.add(f"{name}.bending.rigidity", bending.rigidity, unit="N m", sign="not negative")
    else:
        add_element_number(table, f"{name}.bending.stiffness", bending.stiffness, count, unit="N m", sign="not negative")
    add_element_number(table, f"{name}.bending.damping", bending.damping, count, unit="N m s", sign="not negative")
    rest = bending.rest_angle
    if isinstance(rest, str):
        if rest != "mesh":
            raise UserError(f"the bending of {name} has rest_angle={rest!r}: give angles [rad], or 'mesh'")
        rest = rest_angles(mesh.vertices, edges)
    add_element_number(table, f"{name}.bending.rest_angle", rest, count, unit="rad")
    turn = add_actuation(
        table, f"{name}.bending.actuation", bending.actuation, bending.actuation_groups, count=count, frames=frames,
        controls=controls, unit="rad",
    )  # fmt: skip
    return fold, turn


def add_actuation(
    table: ParameterTable, name: str, given: Any, groups: Any, *, count: int, frames: int, controls: int, unit: str = ""
) -> Actuation | None:
    """Name an actuation [frames C, E], or [frames C, G] with the group of each element; None for none.

    Raises:
        UserError: it has another size, or the groups do not fit.
    """
    if given is None:
        if groups is not None:
            raise UserError(f"{name} has groups and no values: give both")
        return None
    shape = np.shape(given.value if isinstance(given, Param) else given)
    columns, which = count, None
    if groups is not None:
        which = np.asarray(groups)
        if which.shape != (count,) or which.dtype.kind not in "iu" or which.min() < 0:
            raise UserError(
                f"the groups of {name} have shape {which.shape} of {which.dtype}: give {(count,)} whole numbers from 0 on"
            )
        columns = int(which.max()) + 1
    rows = frames * controls
    if shape != (rows, columns):
        what = "groups" if groups is not None else "elements"
        when = "frame intervals" if controls == 1 else f"{controls} rows a frame interval"
        raise UserError(f"{name} has shape {shape}, and {(rows, columns)} is needed ({when}, {what})")
    table.add(name, given, unit=unit, shape=(rows, columns))
    return Actuation(name, which, controls)


def over_frames(name: str, value: torch.Tensor, frames: int, *, controls: int = 1) -> torch.Tensor:
    """The rows of the first ``frames`` frames of a parameter [B, frame intervals times controls, ...].

    Raises:
        UserError: there are fewer.
    """
    if value.shape[1] < frames * controls:
        raise UserError(
            f"{name} is given for {value.shape[1] // controls} frame intervals, and {frames} are simulated: give more rows, or "
            "simulate fewer frames"
        )
    return value[:, : frames * controls]


def lumped(density: torch.Tensor, elements: Solid | Sheet, count: int) -> torch.Tensor:
    """Masses [B, V] of a body's particles from the densities [B, E] of its elements."""
    masses = density[:, :, None] * constant(elements.shares)
    places = torch.as_tensor(elements.indices.astype(np.int64).ravel(), device=density.device)
    return density.new_zeros(len(density), count).index_add(1, places, masses.flatten(1))


def plane_normal(name: str, mesh: SheetMesh) -> np.ndarray:
    """Unit normal [3] of a flat mesh.

    Raises:
        UserError: its triangles do not lie in one plane, or are wound in different ways.
    """
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    turned = normals @ normals[0] < 0
    if turned.any():
        raise UserError(f"{name} is a flat body, and its triangle {int(np.argmax(turned))} is wound against triangle 0: turn it")
    heights = np.abs((mesh.vertices - mesh.vertices[0]) @ normals[0])
    if heights.max() > 1e-9 * np.ptp(mesh.vertices, axis=0).max():
        raise UserError(f"{name} is a flat body, and its vertex {int(heights.argmax())} is off the plane of triangle 0: move it")
    return normals[0]


def joined_rows(parts: Sequence[torch.Tensor], like: torch.Tensor, shape: tuple[int, ...], dim: int) -> torch.Tensor:
    """Arrays of several bodies side by side along ``dim``; one of this shape (size 0 there) where there are none."""
    return torch.cat(list(parts), dim=dim) if parts else like.new_zeros(shape)
