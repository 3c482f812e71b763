"""The unknowns of an inversion as one vector: which numbers, their starts, the map to parameter values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.bridge import bridge_dtype
from risp_torch.bridge.checks import bridge_device
from risp_torch.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param


@dataclass(frozen=True)
class Unknowns:
    """K numbers to be found.

    Attributes:
        params: name -> Param with both bounds, of each unknown parameter; vectors count each entry.
    """

    params: dict[str, Param]

    @staticmethod
    def of(scene: Scene, names: Sequence[str]) -> Unknowns:
        """The named parameters of a scene.

        Raises:
            UserError: an unknown name, no names, or a parameter without bounds.
        """
        if not names:
            raise UserError(f"nothing is unknown: name one of {', '.join(scene.parameters)}")
        params = {}
        for name in names:
            param = scene.table[name]
            if param.low is None or param.high is None:
                raise UserError(f"{name} has no bounds: make it a Param(value, low=..., high=...) in the scene to estimate it")
            params[name] = param
        return Unknowns(params)

    @property
    def labels(self) -> list[str]:
        """K names, entries of vectors as "name[i]"."""
        return [
            name if np.ndim(p.value) == 0 else f"{name}[{i}]" for name, p in self.params.items() for i in range(_size(p))
        ]

    @property
    def units(self) -> list[str]:
        """K units."""
        return [p.unit for p in self.params.values() for _ in range(_size(p))]

    @property
    def scales(self) -> list[str]:
        """K scales, "linear" or "log10"."""
        return [p.scale for p in self.params.values() for _ in range(_size(p))]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high, [K] each, physical units."""
        low = [np.broadcast_to(p.low, np.shape(p.value)).ravel() for p in self.params.values()]
        high = [np.broadcast_to(p.high, np.shape(p.value)).ravel() for p in self.params.values()]
        return np.concatenate(low), np.concatenate(high)

    def scaled_range(self) -> np.ndarray:
        """high - low in scaled units (decades for log10), [K]."""
        ranges = [np.broadcast_to(p.range, np.shape(p.value)).ravel() for p in self.params.values()]
        return np.concatenate(ranges)

    def current(self) -> np.ndarray:
        """The scene's own values, [K], physical units."""
        return np.concatenate([np.ravel(p.value) for p in self.params.values()]).astype(np.float64)

    def physical(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [S, *shape] from the optimiser's variables z [S, K], differentiable."""
        return self._split(z, lambda param, part: param.to_physical(part))

    def from_scaled(self, scaled: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [S, *shape] from scaled coordinates [S, K] (log10 of the value where the scale is log10)."""
        return self._split(scaled, lambda param, part: param.from_scaled(part))

    def vector(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """[S, K] physical values from name -> [S, *shape]."""
        return torch.cat([values[name].reshape(values[name].shape[0], -1) for name in self.params], dim=1)

    def scaled(self, physical: np.ndarray) -> np.ndarray:
        """Scaled coordinates [..., K] of physical values [..., K]."""
        return np.where(np.array(self.scales) == "log10", np.log10(np.maximum(physical, 1e-300)), physical)

    def unbounded(self, physical: np.ndarray) -> torch.Tensor:
        """The optimiser's variables z [S, K] of physical values [S, K].

        Raises:
            UserError: a value lies outside its bounds.
        """
        parts, start = [], 0
        for name, param in self.params.items():
            size = _size(param)
            part = physical[:, start : start + size].reshape(-1, *np.shape(param.value))
            try:
                parts.append(np.asarray(param.to_unbounded(part)).reshape(len(physical), -1))
            except UserError as error:
                raise UserError(f"start of {name}: {error}") from None
            start += size
        return torch.as_tensor(np.concatenate(parts, axis=1), dtype=bridge_dtype(), device=bridge_device())

    def starts(self, count: int, seed: int) -> np.ndarray:
        """Guesses spread over the allowed ranges, [S, K] physical: each unknown takes every one of S equal strata once.

        With one unknown they are evenly spaced; with several the strata are paired by a seeded permutation.
        """
        if count < 1:
            raise UserError(f"{count} starts were asked for: ask for at least 1")
        low, high = (self.scaled(bound) for bound in self.bounds())
        generator = np.random.default_rng(seed)
        strata = (np.arange(count) + 0.5) / count
        columns = [strata if k == 0 else generator.permutation(strata) for k in range(len(low))]
        scaled = low + (high - low) * np.stack(columns, axis=1)
        return np.where(np.array(self.scales) == "log10", 10.0**scaled, scaled)

    def physical_values(self, scaled: np.ndarray) -> np.ndarray:
        """Physical values [..., K] of scaled coordinates [..., K]."""
        logs = np.array(self.scales) == "log10"
        return np.where(logs, 10.0 ** np.where(logs, scaled, 0.0), scaled)

    def _split(self, rows: torch.Tensor, convert: object) -> dict[str, torch.Tensor]:
        values, start = {}, 0
        for name, param in self.params.items():
            size = _size(param)
            part = rows[:, start : start + size].reshape(-1, *np.shape(param.value))
            values[name] = convert(param, part)
            start += size
        return values


def _size(param: Param) -> int:
    return int(np.size(param.value))
