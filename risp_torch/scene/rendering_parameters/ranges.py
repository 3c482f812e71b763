"""Variation of a scene parameter with its entries of psi: over a range, by a factor, or over directions.

Every entry of psi is in [-1, 1]; -1 is the low end of its range and 1 the high end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch

from risp_torch.scene.json_kinds import of_kind
from ti_sim.base.errors import UserError
from ti_sim.base.rules import FiniteArray, Rule, checked

Scale = Literal["linear", "log10"]
Shape = tuple[int, ...]
AngleLimits = Annotated[Sequence[float], Rule(shape=(2,), exact=True)]


class Distribution(ABC):
    """Variation of one parameter."""

    kind: str

    @abstractmethod
    def labels(self, name: str, shape: Shape) -> list[str]:
        """One label for each entry of psi of the parameter ``name`` of this shape."""

    @abstractmethod
    def physical(self, value: torch.Tensor, psi: torch.Tensor) -> torch.Tensor:
        """Values [..., *shape] from the scene's own value [*shape] and the parameter's entries of psi [..., k]; differentiable.
        """

    @abstractmethod
    def check(self, name: str, shape: Shape) -> None:
        """Raise a UserError unless the variation is valid for the parameter ``name`` of this shape."""

    def extremes(self, count: int) -> np.ndarray:
        """Points [n, count] of psi whose values bound the range."""
        return np.stack([-np.ones(count), np.ones(count)])

    def to_json(self) -> dict[str, Any]:
        """The distribution as JSON values; ``distribution_from_json`` reads them."""
        values = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(self).items()}
        return {"kind": self.kind, **values}


@checked
@dataclass(frozen=True)
class Range(Distribution):
    """Values between two bounds.

    Attributes:
        low, high: in the parameter's unit, numbers or arrays that broadcast with it.
        scale: "linear", or "log10" for uniform decades.
        tied: whether one entry of psi sets all numbers of the parameter (for grey values) instead of one
            each.
    """

    low: FiniteArray
    high: FiniteArray
    scale: Scale = "linear"
    tied: bool = False
    kind = "range"

    def labels(self, name: str, shape: Shape) -> list[str]:
        """One per number, or one for all (``Distribution.labels``)."""
        if self.tied or shape == ():
            return [name]
        return [name + "".join(f"[{i}]" for i in index) for index in np.ndindex(*shape)]

    def physical(self, value: torch.Tensor, psi: torch.Tensor) -> torch.Tensor:
        """Low for psi = -1, high for psi = 1 (``Distribution.physical``)."""
        rows = psi.shape[:-1]
        entries = psi.reshape(rows + ((1,) * value.ndim if self.tied else value.shape)).expand(rows + value.shape)
        return between(self.low, self.high, self.scale, entries)

    def check(self, name: str, shape: Shape) -> None:
        """Raise a UserError for reversed ranges and wrong shapes (``Distribution.check``)."""
        check_limits(name, self.low, self.high, self.scale, shape)


@checked
@dataclass(frozen=True)
class Factor(Distribution):
    """The scene's own values times a factor.

    Attributes:
        low, high: bounds of the factor, above zero.
        scale: "linear" or "log10".
        tied: whether one factor multiplies all numbers (brightness); otherwise there is one for each of the last axis (a tint).
    """

    low: FiniteArray
    high: FiniteArray
    scale: Scale = "linear"
    tied: bool = False
    kind = "factor"

    def labels(self, name: str, shape: Shape) -> list[str]:
        """One for each factor (``Distribution.labels``)."""
        if self.tied or shape == ():
            return [f"{name}[factor]"]
        return [f"{name}[factor {i}]" for i in range(shape[-1])]

    def physical(self, value: torch.Tensor, psi: torch.Tensor) -> torch.Tensor:
        """The scene's values times the factors (``Distribution.physical``)."""
        factor = between(self.low, self.high, self.scale, psi)
        if not value.ndim:
            return value * factor[..., 0]
        return value * factor.reshape(psi.shape[:-1] + (1,) * (value.ndim - 1) + psi.shape[-1:])

    def check(self, name: str, shape: Shape) -> None:
        """Raise a UserError for reversed ranges and factors that are not positive (``Distribution.check``)."""
        check_limits(f"the factor of {name}", self.low, self.high, self.scale, () if self.tied or not shape else shape[-1:])
        if np.min(self.low) < 0:
            raise UserError(f"the factor of {name} has the low end {np.min(self.low):g}: give factors that are not negative")


@checked
@dataclass(frozen=True)
class Direction(Distribution):
    """The direction of a directional light, by the direction towards the light.

    Attributes:
        azimuth: two angles about z, 0 at +x and growing towards +y [rad].
        elevation: two angles above the horizon [rad].
    """

    azimuth: AngleLimits
    elevation: AngleLimits
    kind = "direction"

    def labels(self, name: str, shape: Shape) -> list[str]:
        """Azimuth and elevation (``Distribution.labels``)."""
        return [f"{name}[azimuth]", f"{name}[elevation]"]

    def physical(self, value: torch.Tensor, psi: torch.Tensor) -> torch.Tensor:
        """Unit vectors in which the light travels (``Distribution.physical``)."""
        azimuth = between(*self.azimuth, "linear", psi[..., 0])
        elevation = between(*self.elevation, "linear", psi[..., 1])
        horizontal = torch.cos(elevation)
        return -torch.stack([horizontal * torch.cos(azimuth), horizontal * torch.sin(azimuth), torch.sin(elevation)], dim=-1)

    def check(self, name: str, shape: Shape) -> None:
        """Raise a UserError for reversed angles, and for parameters that are not directions (``Distribution.check``)."""
        if shape != (3,) or not name.endswith(".direction"):
            raise UserError(f"{name} is not the direction of a light: give it a Range or a Factor")
        for label, limits in (("azimuth", self.azimuth), ("elevation", self.elevation)):
            check_limits(f"the {label} of {name}", *limits, "linear", ())

    def extremes(self, count: int) -> np.ndarray:
        """A grid of directions (``Distribution.extremes``)."""
        steps = np.linspace(-1.0, 1.0, 33)
        return np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)


DISTRIBUTIONS = {distribution.kind: distribution for distribution in (Range, Factor, Direction)}


def distribution_from_json(name: str, data: Mapping[str, Any]) -> Distribution:
    """The distribution from the result of ``Distribution.to_json``.

    Raises:
        UserError: the kind is unknown, or an entry is missing or unexpected.
    """
    return of_kind(DISTRIBUTIONS, data, owner=name, verb="varies by")


def between(low: Any, high: Any, scale: Scale, psi: torch.Tensor) -> torch.Tensor:
    """Interpolation from low at psi = -1 to high at psi = 1, linear in the scale."""
    limits = [np.asarray(limit, dtype=np.float64) for limit in (low, high)]
    bottom, top = (
        torch.as_tensor(np.log10(limit) if scale == "log10" else limit, dtype=psi.dtype, device=psi.device) for limit in limits
    )
    scaled = bottom + (top - bottom) * (0.5 * (psi + 1.0))
    return 10.0**scaled if scale == "log10" else scaled


def check_limits(label: str, low: Any, high: Any, scale: str, shape: Shape) -> None:
    """Raise a UserError unless low and high are in order, and broadcast to the shape.

    Args:
        label: its name in messages.
        low, high, scale: those of the range.
        shape: shape of the parameter.
    """
    try:
        limits = [np.broadcast_to(np.asarray(limit, dtype=np.float64), shape) for limit in (low, high)]
    except ValueError:
        raise UserError(f"{label} ranges from {low} to {high}: give numbers, or arrays of shape {shape}") from None
    if not (limits[0] < limits[1]).all():
        raise UserError(f"{label} ranges from {low} to {high}: the low end must be below the high end")
    if scale == "log10" and not (limits[0] > 0).all():
        raise UserError(f"{label} ranges from {low} on the scale log10: give numbers above zero, or the scale linear")
