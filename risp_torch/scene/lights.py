"""The lights of a scene, and the renderer's arrays of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from risp_torch.scene.items import DirectionalLight, EnvironmentLight, Light, PointLight
from risp_torch.scene.numbers import Values, constant, joined
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param


@dataclass(frozen=True)
class Lights:
    """The lights of a scene.

    Attributes:
        table: where their numbers are.
        ambient, directional, point, environment: names of the lights of each kind, in the order of the scene.
    """

    table: ParameterTable
    ambient: list[str] = field(default_factory=list)
    directional: list[str] = field(default_factory=list)
    point: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ambient or self.directional or self.point or self.environment)

    def add(self, light: Light) -> None:
        """Add a light: any number of each kind; ambient and environment lights add up.

        Raises:
            UserError: a name is taken, or a number makes no sense.
        """
        prefix, add = f"light.{light.name}", self.table.add
        if any(name.startswith(f"{prefix}.") for name in self.table.params):
            raise UserError(f"the scene has a light {light.name!r} already: give the second one another name")
        if isinstance(light, DirectionalLight):
            direction = light.direction.value if isinstance(light.direction, Param) else light.direction
            if not np.linalg.norm(direction) > 0:
                raise UserError(f"light {light.name!r} has direction {direction}: give a vector that is not zero")
            add(f"{prefix}.direction", light.direction, unit="", shape=(3,))
            self.directional.append(light.name)
        elif isinstance(light, PointLight):
            add(f"{prefix}.position", light.position, unit="m", shape=(3,))
            self.point.append(light.name)
        elif isinstance(light, EnvironmentLight):
            add(f"{prefix}.coefficients", light.coefficients, unit="", shape=(9, 3))
            self.environment.append(light.name)
        else:
            self.ambient.append(light.name)
        if not isinstance(light, EnvironmentLight):
            add(f"{prefix}.intensity", light.intensity, unit="", shape=(3,), sign="not negative")

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Parameter names of the lights of the given kinds ("ambient", "directional", "point", "environment")."""
        prefixes = tuple(f"light.{name}." for kind in kinds for name in getattr(self, kind))
        return tuple(name for name in self.table.params if prefixes and name.startswith(prefixes))

    def ambient_rows(self, values: Values) -> torch.Tensor:
        """[n, 3] sum of the ambient lights, linear rgb."""
        parts = [values[f"light.{name}.intensity"] for name in self.ambient]
        return sum(parts[1:], parts[0]) if parts else constant(np.zeros((1, 3)))

    def directional_rows(self, values: Values) -> torch.Tensor | None:
        """[n, L, 6] direction of travel and intensity of the directional lights; None without any."""
        return _light_rows([(values[f"light.{n}.direction"], values[f"light.{n}.intensity"]) for n in self.directional])

    def point_rows(self, values: Values) -> torch.Tensor | None:
        """[n, P, 6] position [m] and intensity of the point lights; None without any."""
        return _light_rows([(values[f"light.{n}.position"], values[f"light.{n}.intensity"]) for n in self.point])

    def environment_rows(self, values: Values) -> torch.Tensor | None:
        """[n, 9, 3] sum of the environment lights' coefficients; None without any."""
        parts = [values[f"light.{name}.coefficients"] for name in self.environment]
        return sum(parts[1:], parts[0]) if parts else None


def _light_rows(lights: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor | None:
    if not lights:
        return None
    return joined([joined(light, dim=1)[:, None] for light in lights], dim=1)
