"""The unknowns of an inversion as one vector: names, starts, and the map to parameter values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.inversion.problem.priors import Priors, PriorsGiven, read_priors, with_bounds_of_prior
from risp_torch.inversion.problem.smoothness import Smoothness, split_priors
from risp_torch.scene.adding.camera import add_lens
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.parameters import split_entry
from risp_torch.scene.rendering_parameters import RenderingParameters, default_psi
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, Seed, checked

PSI = "psi"  # name of the vector of rendering parameters as an unknown

Bounds = Mapping[str, tuple]
UnknownNames = str | RenderingParameters | Sequence[str | RenderingParameters]


def split_psi(unknown: UnknownNames) -> tuple[list[str], RenderingParameters | None]:
    """Names of unknowns, with "psi" in place of rendering parameters, and the rendering parameters, None without them."""
    items = [unknown] if isinstance(unknown, str | RenderingParameters) else list(unknown)
    names = [PSI if isinstance(item, RenderingParameters) else item for item in items]
    return names, next((item for item in items if isinstance(item, RenderingParameters)), None)


@dataclass(frozen=True)
class Unknowns:
    """K unknowns.

    Attributes:
        params: name -> Param with both bounds, of each unknown parameter; each entry of an array counts.
        appearance: the rendering parameters of the unknown "psi"; None if it is not unknown.
        smoothness: penalty on differences between neighbouring elements.
        priors: prior knowledge of some of them.
    """

    params: dict[str, Param]
    appearance: RenderingParameters | None = None
    smoothness: Smoothness = field(default_factory=lambda: Smoothness(np.zeros((0, 2), dtype=np.int64), np.zeros(0), {}))
    priors: Priors = field(default_factory=Priors)

    @staticmethod
    def of(
        scene: Scene, names: Sequence[str], *, bounds: Bounds | None = None, psi: RenderingParameters | None = None,
        priors: PriorsGiven | None = None,
    ) -> Unknowns:  # fmt: skip
        """The named parameters of a scene.

        Args:
            scene: the scene.
            names: names of parameters or single entries ("body.velocity[0]"), and "psi" for the vector of rendering parameters.
            bounds: name -> (low, high) or (low, high, scale) in place of the parameter's own; numbers, or arrays that
                broadcast with it. An entry of an unknown array may have separate bounds.
            psi: the rendering parameters of "psi"; ``default_psi`` by default.
            priors: name -> standard deviation, or (mean, standard deviation), of a normal prior (``read_priors``), or
                ``SmoothnessPrior``. A parameter with a normal prior and without bounds has those at five standard deviations.

        Raises:
            UserError: an unknown name, no names, a name twice, a parameter without bounds and without a prior, or invalid
                bounds or priors.
        """
        if not names:
            raise UserError(f"nothing is unknown: name one of {', '.join(scene.parameters)}")
        bounds = dict(bounds or {})
        for name in bounds:
            if name not in names and split_entry(name)[0] not in names:
                raise unknown_name_error("unknown with bounds", name, list(names))
        if len(set(names)) < len(names):
            raise UserError(f"{', '.join(names)} are unknown: name each once")
        for name in names:
            base, index = split_entry(name)
            if index and base in names:
                raise UserError(f"{base} and its entry {name} are unknown: name the whole or some of its entries")
        params, appearance = {}, None
        for name in names if not isinstance(scene, Films) else ():
            add_lens(scene, split_entry(name)[0])
        for name in names:
            if name == PSI:
                appearance = psi or default_psi(scene)
                params[name] = Param(np.zeros(appearance.size), low=-1.0, high=1.0)
            else:
                params[name] = scene.table[name]
        normal_priors, smoothness_weights = split_priors(priors or {})
        scene_priors = read_priors(params, normal_priors)
        for name in names:
            if name in bounds:
                params[name] = _with_bounds(name, params[name], bounds[name])
            if name in scene_priors:
                params[name] = with_bounds_of_prior(params[name], scene_priors[name], scene.table.signs.get(split_entry(name)[0]))
            entries = {
                entry: entry_bounds for entry, entry_bounds in bounds.items() if entry != name and split_entry(entry)[0] == name
            }
            params[name] = _with_bounds_of_entries(scene, params[name], entries)
            if params[name].low is None or params[name].high is None:
                raise UserError(
                    f"{name} has no bounds: make it a Param(value, low=..., high=...) in the scene to estimate it, or give them "
                    f"with --bounds {name}=LOW:HIGH, or a standard deviation with --prior {name}=SD"
                )
        duplicates = [name for name in names if appearance is not None and split_entry(name)[0] in appearance.distributions]
        if duplicates:
            raise UserError(f"{duplicates[0]} is one of the rendering parameters of psi: make only one of the two unknown")
        return Unknowns(params, appearance, Smoothness.of(scene, params, smoothness_weights), Priors.of(params, scene_priors))

    @property
    def labels(self) -> list[str]:
        """K names, entries of vectors as "name[i]", of tables as "name[i][j]"; those of psi as "psi: parameter"."""
        labels = []
        for name, p in self.params.items():
            if name == PSI and self.appearance is not None:
                labels += [f"{PSI}: {label}" for label in self.appearance.labels]
            else:
                labels += [name + "".join(f"[{i}]" for i in index) for index in np.ndindex(*np.shape(p.value))]
        return labels

    @property
    def groups(self) -> dict[str, slice]:
        """Slice of the K numbers of each unknown parameter, by its name."""
        stops = np.cumsum([_size(p) for p in self.params.values()]).tolist()
        return {name: slice(stop - _size(p), stop) for (name, p), stop in zip(self.params.items(), stops, strict=True)}

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
        """Parameter values [S, *shape] of the scene from the optimiser's variables z [S, K], differentiable."""
        return self._scene_values(self._split(z, lambda param, columns: param.to_physical(columns)))

    def from_scaled(self, scaled: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [S, *shape] of the scene from scaled coordinates [S, K] (log10 of the value for log10)."""
        return self._scene_values(self._split(scaled, lambda param, columns: param.from_scaled(columns)))

    def physical_vector(self, z: torch.Tensor) -> torch.Tensor:
        """The K physical values [S, K] from the optimiser's variables z [S, K]."""
        values = self._split(z, lambda param, columns: param.to_physical(columns))
        return torch.cat([value.reshape(len(z), -1) for value in values.values()], dim=1)

    def penalised(self, losses: torch.Tensor, z: torch.Tensor, observations: float) -> torch.Tensor:
        """Losses [S] with priors and smoothness, differentiable.

        Args:
            losses: [S] mean squared residuals.
            z: [S, K] the optimiser's variables.
            observations: of the mean.
        """
        values = self._split(z, lambda param, columns: param.to_scaled(param.to_physical(columns)))
        scaled = torch.cat([value.reshape(len(z), -1) for value in values.values()], dim=1)
        return self.penalised_at(losses, scaled, observations)

    def penalised_at(self, losses: torch.Tensor, scaled: torch.Tensor, observations: float) -> torch.Tensor:
        """Losses [S] with priors and smoothness at scaled coordinates [S, K] (``penalised``)."""
        return self.priors.penalised(losses, scaled, observations) + self.smoothness.penalty(scaled)

    def scaled(self, physical: np.ndarray) -> np.ndarray:
        """Scaled coordinates [..., K] of physical values [..., K]."""
        return np.where(np.array(self.scales) == "log10", np.log10(np.maximum(physical, 1e-300)), physical)

    def unbounded(self, physical: np.ndarray) -> torch.Tensor:
        """The optimiser's variables z [S, K] of physical values [S, K].

        Raises:
            UserError: a value lies outside its bounds.
        """
        blocks, start = [], 0
        for name, param in self.params.items():
            size = _size(param)
            columns = physical[:, start : start + size].reshape(-1, *np.shape(param.value))
            try:
                blocks.append(np.asarray(param.to_unbounded(columns)).reshape(len(physical), -1))
            except UserError as error:
                raise UserError(f"start of {name}: {error}") from None
            start += size
        return torch.as_tensor(np.concatenate(blocks, axis=1), dtype=bridge_dtype(), device=bridge_device())

    @checked
    def starts(self, count: Count, seed: Seed) -> np.ndarray:
        """Guesses spread over the allowed ranges, [S, K] physical: each unknown takes every one of S equal strata once.

        With one unknown they are evenly spaced; with several the strata are paired by a seeded permutation. Guesses of unknowns
        with priors are the means of these; if all have one, strata are equally probable parts of them.
        """
        low, high = (self.scaled(bound) for bound in self.bounds())
        generator = np.random.default_rng(seed)
        strata = (np.arange(count) + 0.5) / count
        columns = [strata if k == 0 else generator.permutation(strata) for k in range(len(low))]
        scaled = self.priors.move_guesses(low + (high - low) * np.stack(columns, axis=1), low, high)
        return np.where(np.array(self.scales) == "log10", 10.0**scaled, scaled)

    def physical_values(self, scaled: np.ndarray) -> np.ndarray:
        """Physical values [..., K] of scaled coordinates [..., K]."""
        is_log10 = np.array(self.scales) == "log10"
        return np.where(is_log10, 10.0 ** np.where(is_log10, scaled, 0.0), scaled)

    def _scene_values(self, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Values with psi replaced by its parameters."""
        if self.appearance is None:
            return values
        psi = values.pop(PSI)
        return {**values, **self.appearance.values(psi)}

    def _split(self, rows: torch.Tensor, convert: object) -> dict[str, torch.Tensor]:
        values, start = {}, 0
        for name, param in self.params.items():
            size = _size(param)
            columns = rows[:, start : start + size].reshape(-1, *np.shape(param.value))
            values[name] = convert(param, columns)
            start += size
        return values


def _size(param: Param) -> int:
    return int(np.size(param.value))


def _with_bounds(name: str, param: Param, bounds: Sequence[Any]) -> Param:
    """The parameter with other bounds; its value, which an inversion does not use, is clipped to them."""
    if len(bounds) not in (2, 3):
        raise UserError(f"the bounds of {name} are {bounds}: give low and high, and a scale if it is another")
    low, high, scale = (*bounds, param.scale)[:3]
    try:
        for bound in (low, high):
            np.broadcast_to(np.asarray(bound, dtype=np.float64), np.shape(param.value))
        value = np.clip(param.value, np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
        return replace(param, value=value, low=low, high=high, scale=scale)
    except (UserError, ValueError, TypeError) as error:
        raise UserError(f"the bounds of {name}: {error}") from None


def _with_bounds_of_entries(scene: Scene, param: Param, entries: Mapping[str, Sequence[Any]]) -> Param:
    """An array with other bounds of single entries."""
    if not entries:
        return param
    shape = np.shape(param.value)
    value, low, high = (
        np.array(np.broadcast_to(np.nan if array is None else array, shape)) for array in (param.value, param.low, param.high)
    )
    for entry, entry_bounds in entries.items():
        entry_param = _with_bounds(entry, scene.table[entry], entry_bounds)
        if entry_param.scale != param.scale:
            raise UserError(
                f"the bounds of {entry} have the scale {entry_param.scale}, and its array {param.scale}: give both the same"
            )
        _, index = split_entry(entry)
        value[index], low[index], high[index] = entry_param.value, entry_param.low, entry_param.high
    missing = np.argwhere(np.isnan(low) | np.isnan(high))
    if len(missing):
        first = split_entry(next(iter(entries)))[0] + "".join(f"[{i}]" for i in missing[0])
        raise UserError(f"{first} has no bounds: give them with --bounds {first}=LOW:HIGH, or make only the others unknown")
    return replace(param, value=value, low=low, high=high)
