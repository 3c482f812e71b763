"""Elements of deformable bodies, and the conversion of their parameters to arrays of the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parts.materials import Stiffness, element_rows
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class ActuationRows:
    """Time-dependent actuation of a body's elements.

    Attributes:
        name: name of the parameter.
        groups: [E] column of the parameter for each element, None for one column per element.
        controls: C, rows per frame.
    """

    name: str
    groups: np.ndarray | None
    controls: int

    def rows(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames C, E].

        Raises:
            UserError: it has fewer frames than are simulated.
        """
        rows = first_frames(self.name, values[self.name], frames, controls=self.controls)
        if self.groups is None:
            return rows
        return rows[:, :, torch.as_tensor(self.groups.astype(np.int64), device=rows.device)]


@dataclass(frozen=True)
class Solid:
    """Elements of a solid.

    Attributes:
        kind: "tet", "hex" or "tet10".
        indices: [E, nodes] particles, within the body.
        lumping_weights: [E, nodes] volume of each node, which multiplies the density to its lumped mass [m3].
        energy: name of the energy.
        stiffness: elastic constants and damping.
        actuation: change of the rest volume, or None.
    """

    kind: str
    indices: np.ndarray
    lumping_weights: np.ndarray
    energy: str
    stiffness: Stiffness
    actuation: ActuationRows | None


@dataclass(frozen=True)
class Sheet:
    """Triangles of a cloth or a flat body.

    Attributes:
        indices: [T, 3] particles, within the body.
        lumping_weights: [T, 3] area of each corner, for a flat body volume, which multiplies the density to its lumped mass [m2,
            m3].
        normal: [3] unit normal of a flat body's plane, zeros for a cloth.
        depth: depth of a flat body, which multiplies its constants [m]; 1 for a cloth.
        stiffness: elastic constants and damping.
        actuation: change of the rest area, or None.
        air: whether "<name>.air.drag" and "<name>.air.lift" exist.
        edges: [M, 4] bending edges.
        stiffness_per_rigidity: stiffness of each edge [M] for a rigidity of 1 N m, None if the stiffness is given.
        bending_actuation: angles added at the edges over time, or None.
    """

    indices: np.ndarray
    lumping_weights: np.ndarray
    normal: np.ndarray
    depth: float
    stiffness: Stiffness
    actuation: ActuationRows | None
    air: bool
    edges: np.ndarray
    stiffness_per_rigidity: np.ndarray | None
    bending_actuation: ActuationRows | None

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
        if self.stiffness_per_rigidity is None:
            stiffness = element_rows(values[f"{name}.bending.stiffness"], count)
        else:
            stiffness = values[f"{name}.bending.rigidity"][:, None] * constant(self.stiffness_per_rigidity)
        remaining = (element_rows(values[f"{name}.bending.{key}"], count) for key in ("damping", "rest_angle"))
        return torch.stack([stiffness, *remaining], dim=-1)


@dataclass(frozen=True)
class SpringNetwork:
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


Elements = Solid | Sheet | SpringNetwork


def first_frames(name: str, value: torch.Tensor, frames: int, *, controls: int = 1) -> torch.Tensor:
    """The rows of the first ``frames`` frames of a parameter [B, frame intervals times controls, ...].

    Raises:
        UserError: there are fewer rows.
    """
    if value.shape[1] < frames * controls:
        raise UserError(
            f"{name} is given for {value.shape[1] // controls} frame intervals, and {frames} are simulated: give more rows, or "
            "simulate fewer frames"
        )
    return value[:, : frames * controls]


def lumped_masses(density: torch.Tensor, elements: Solid | Sheet, count: int) -> torch.Tensor:
    """Masses [B, V] of a body's particles from the densities [B, E] of its elements."""
    masses = density[:, :, None] * constant(elements.lumping_weights)
    particle_indices = torch.as_tensor(elements.indices.astype(np.int64).ravel(), device=density.device)
    return density.new_zeros(len(density), count).index_add(1, particle_indices, masses.flatten(1))


def joined_rows(arrays: Sequence[torch.Tensor], like: torch.Tensor, shape: tuple[int, ...], dim: int) -> torch.Tensor:
    """Arrays of several bodies concatenated along ``dim``; without any, an array of this shape (size 0 there)."""
    return torch.cat(list(arrays), dim=dim) if arrays else like.new_zeros(shape)
