"""Lights of a scene: each kind with its parameters and its row in the renderer's array of that kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from risp_torch.scene.arguments import Vector
from risp_torch.scene.numbers import Values, concatenated_rows, constant
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Rule, checked

SUMMED = ("ambient", "environment")  # arrays of the renderer in which lights are summed; the others have a row per light
ARRAYS = ("ambient", "directional", "point", "environment")


@checked
@dataclass(frozen=True, kw_only=True)
class DirectionalLight:
    """Parallel light. A white surface that faces a light of intensity 1 has the colour 1.0.

    Attributes:
        direction: direction of travel, of any length.
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names ("light.key.intensity").
    """

    direction: Vector
    intensity: Vector = 1.0
    name: str = "key"

    array: ClassVar[str] = "directional"

    def add_to(self, table: ParameterTable, prefix: str) -> None:
        """Add its parameters to the table (UserError: the direction is zero)."""
        direction = self.direction.value if isinstance(self.direction, Param) else self.direction
        if not np.linalg.norm(direction) > 0:
            raise UserError(f"light {self.name!r} has direction {direction}: give a vector that is not zero")
        table.add(f"{prefix}.direction", self.direction, unit="", shape=(3,))
        _add_intensity(table, prefix, self.intensity)

    def row(self, values: Values, prefix: str) -> torch.Tensor:
        """[n, 1, 6] direction of travel and intensity."""
        return concatenated_rows([values[f"{prefix}.direction"], values[f"{prefix}.intensity"]], dim=1)[:, None]


@checked
@dataclass(frozen=True, kw_only=True)
class PointLight:
    """Light from a point, isotropic. A white surface that faces it at 1 m has its intensity as colour.

    Attributes:
        position: position in the world frame [m].
        intensity: linear rgb, or one number for white light; the irradiance falls with the square of the distance.
        name: the light's part of parameter names.
    """

    position: Vector
    intensity: Vector = 1.0
    name: str = "lamp"

    array: ClassVar[str] = "point"

    def add_to(self, table: ParameterTable, prefix: str) -> None:
        """Add its parameters to the table."""
        table.add(f"{prefix}.position", self.position, unit="m", shape=(3,))
        _add_intensity(table, prefix, self.intensity)

    def row(self, values: Values, prefix: str) -> torch.Tensor:
        """[n, 1, 6] position [m] and intensity."""
        return concatenated_rows([values[f"{prefix}.position"], values[f"{prefix}.intensity"]], dim=1)[:, None]


@checked
@dataclass(frozen=True, kw_only=True)
class EnvironmentLight:
    """Distant environment light: radiance from every direction in real spherical harmonics up to degree 2.

    Attributes:
        coefficients: [9, 3] linear rgb of Y00, Y1-1 (y), Y10 (z), Y11 (x), Y2-2 (xy), Y2-1 (yz), Y20 (3z^2 - 1), Y21 (xz),
            Y22 (x^2 - y^2), orthonormal on the sphere: uniform light of radiance 1 has Y00 = sqrt(4 pi) = 3.545, and acts like
            an ambient light of 1 (Ramamoorthi and Hanrahan, An efficient representation for irradiance environment maps, 2001).
        name: the light's part of parameter names.
    """

    coefficients: Annotated[Any, Rule(shape=(9, 3), param=True)]
    name: str = "environment"

    array: ClassVar[str] = "environment"

    def add_to(self, table: ParameterTable, prefix: str) -> None:
        """Add its parameters to the table."""
        table.add(f"{prefix}.coefficients", self.coefficients, unit="", shape=(9, 3))

    def row(self, values: Values, prefix: str) -> torch.Tensor:
        """[n, 9, 3] coefficients."""
        return values[f"{prefix}.coefficients"]


@checked
@dataclass(frozen=True, kw_only=True)
class AmbientLight:
    """Ambient light, equal from all directions.

    Attributes:
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names.
    """

    intensity: Vector
    name: str = "ambient"

    array: ClassVar[str] = "ambient"

    def add_to(self, table: ParameterTable, prefix: str) -> None:
        """Add its parameters to the table."""
        _add_intensity(table, prefix, self.intensity)

    def row(self, values: Values, prefix: str) -> torch.Tensor:
        """[n, 3] intensity."""
        return values[f"{prefix}.intensity"]


Light = DirectionalLight | PointLight | EnvironmentLight | AmbientLight


def prefix_of(light: Light) -> str:
    """First part of a light's parameter names."""
    return f"light.{light.name}"


def lights_of_array(lights: Sequence[Light], array: str) -> list[Light]:
    """The lights that one array of the renderer holds."""
    return [light for light in lights if light.array == array]


def light_names(lights: Sequence[Light], table: ParameterTable, array: str) -> tuple[str, ...]:
    """Names of the parameters that ``light_rows`` reads, in the table's order."""
    prefixes = tuple(f"{prefix_of(light)}." for light in lights_of_array(lights, array))
    return tuple(name for name in table.params if prefixes and name.startswith(prefixes))


def light_rows(lights: Sequence[Light], values: Values, array: str) -> torch.Tensor | None:
    """One array of the renderer (``RenderInputs``): the sum for ``SUMMED`` kinds, a row per light for others.

    Returns:
        "ambient" [n, 3], "directional" and "point" [n, L, 6], "environment" [n, 9, 3]; without lights, None, or zeros for
        "ambient".
    """
    rows = [light.row(values, prefix_of(light)) for light in lights_of_array(lights, array)]
    if array in SUMMED and rows:
        return sum(rows[1:], rows[0])
    if rows:
        return concatenated_rows(rows, dim=1)
    return constant(np.zeros((1, 3))) if array == "ambient" else None


def _add_intensity(table: ParameterTable, prefix: str, intensity: Any) -> None:
    table.add(f"{prefix}.intensity", intensity, unit="", shape=(3,), sign="not negative")
