"""The parameter table of a scene: dotted names, their Params, and tensors of their values for a batch of worlds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device, check_worlds
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param, as_param
from ti_sim.base.rules import Rule

_MAX_LISTED = 64  # entries of an array that an error message lists

Sign = Literal["positive", "not negative", "color", "poisson"]


def split_entry(name: str) -> tuple[str, tuple[int, ...]]:
    """Name and index of an entry: ("body.velocity", (0,)) for "body.velocity[0]"; the index of a plain name is ()."""
    match = re.fullmatch(r"(.*?)((?:\[\d+\])+)", name)
    if match is None:
        return name, ()
    return match[1], tuple(int(number) for number in re.findall(r"\d+", match[2]))


def check_name(name: str) -> None:
    """Raise a UserError if a body's name cannot be the first part of parameter names."""
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        raise UserError(f"a body is called {name!r}: use letters, digits, _ and - (dots separate the parts of parameter names)")


@dataclass
class ParameterTable:
    """Named parameters of a scene. An entry of an array also has a name: "body.velocity[0]", "rotors.actions[3][1]".

    Attributes:
        params: dotted name -> Param, in the order in which the scene named them.
        signs: dotted name -> constraint on its values (``add``).
        per_area: prefixes of the contact parameters that are per area.
    """

    params: dict[str, Param]
    signs: dict[str, Sign] = field(default_factory=dict)
    per_area: set[str] = field(default_factory=set)

    def add(self, name: str, value: Any, *, unit: str, shape: tuple[int, ...] = (), sign: Sign | None = None) -> None:
        """Add a parameter to the table.

        Args:
            name: dotted name.
            value: Param, number or array; one number for a vector sets all its entries.
            unit: unit in tables, unless the Param has its own.
            shape: shape of the value.
            sign: "positive" (> 0), "not negative" (>= 0), "color" (in [0, 1]) or "poisson" (between -1 and 0.5);
                other values are errors.

        Raises:
            UserError: the name is taken, or the value is not finite or has a wrong shape or sign.
        """
        if name in self.params:
            raise UserError(f"{name!r} is in the scene already: give the second thing another name")
        Rule(shape=shape, param=True).check(name, value)
        param = as_param(value)
        filled = np.broadcast_to(np.asarray(param.value, dtype=np.float64), shape)
        for number in (param.value, param.low, param.high):
            if number is not None:
                _check_sign(name, number, param.unit or unit, sign)
        if sign is not None:
            self.signs[name] = sign
        number = float(filled) if shape == () else filled.copy()
        self.params[name] = replace(param, value=number, unit=param.unit or unit)

    def __getitem__(self, name: str) -> Param:
        base, index = split_entry(name)
        if base not in self.params:
            raise unknown_name_error("parameter", name, list(self.params))
        param = self.params[base]
        return _entry(param, self._checked_index(base, index)) if index else param

    def set(self, name: str, value: Any) -> None:
        """Set the value of a parameter, or of an entry of one, within its bounds.

        Raises:
            UserError: the name is unknown, or the value is not finite, has a wrong shape or sign, or is outside the bounds.
        """
        filled = self.filled(name, value)
        base, _ = split_entry(name)
        param = self.params[base]
        _check_sign(name, value, param.unit, self.signs.get(base))
        try:
            self.params[base] = replace(param, value=float(filled) if filled.ndim == 0 else filled)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None

    def filled(self, name: str, value: Any) -> np.ndarray:
        """The array of a parameter with this value, or with this value in the named entry.

        Raises:
            UserError: the name is unknown, or the value is not finite or has a wrong shape.
        """
        base, index = split_entry(name)
        shape = np.shape(self[name].value)
        Rule(shape=shape).check(name, value)
        entry = np.broadcast_to(np.asarray(value, dtype=np.float64), shape)
        if not index:
            return entry.copy()
        array = np.array(self.params[base].value)
        array[index] = entry
        return array

    def _checked_index(self, name: str, indices: tuple[int, ...]) -> tuple[int, ...]:
        """The index of an entry (UserError if the array does not have it)."""
        shape = np.shape(self.params[name].value)
        if len(indices) != len(shape) or any(index >= size for index, size in zip(indices, shape, strict=True)):
            entries = "".join(f"[0 to {size - 1}]" for size in shape)
            hint = f"name {name}{entries}" if shape else "it is one number"
            raise UserError(f"{name} has no entry {''.join(f'[{index}]' for index in indices)}: {hint}")
        return indices

    def drop(self, *names: str) -> None:
        """Remove parameters from the table; unknown names are ignored."""
        for name in names:
            self.params.pop(name, None)
            self.signs.pop(name, None)

    def scale(self, name: str, factor: np.ndarray) -> None:
        """Multiply a parameter and its bounds by positive numbers of its shape (a change of unit)."""
        param = self[name]
        low, high = (None if bound is None else bound * factor for bound in (param.low, param.high))
        self.params[name] = replace(param, value=param.value * factor, low=low, high=high)

    def unknowns(self) -> list[str]:
        """Names of the numbers that the scene declares unknown: Params that are not frozen."""
        return [name for name, param in self.params.items() if not param.frozen]

    def values(self, replaced: Mapping[str, torch.Tensor] | None = None, *, worlds: int | None = None) -> dict[str, torch.Tensor]:
        """Physical values of all parameters for a batch of worlds.

        Args:
            replaced: values that replace the scene's own, of the parameter's shape (equal in all worlds) or with a leading
                world axis; gradients flow through them. Named entries replace those of their arrays.
            worlds: B; by default the length of the leading axes in ``replaced``, or 1.

        Returns:
            Name -> tensor [B, *shape] in the parameter's unit, of the runtime's precision.

        Raises:
            UserError: an unknown name, a wrong shape, or batches of different lengths.
        """
        replaced = {name: self._tensor(name, value) for name, value in (replaced or {}).items()}
        batch = worlds or next((v.shape[0] for n, v in replaced.items() if v.ndim > np.ndim(self[n].value)), 1)
        dtype, device, values = bridge_dtype(), bridge_device(), {}
        for name, param in self.params.items():
            value = replaced.get(name)
            if value is None:
                value = torch.as_tensor(param.value, dtype=dtype, device=device)
            shape = np.shape(param.value)
            if value.shape == (batch, *shape):
                value = value.contiguous()  # a row per world with separate gradients: values with stride 0 below are shared
            elif value.shape != shape:
                raise UserError(f"{name} has shape {tuple(value.shape)}, and {shape} or {(batch, *shape)} is needed")
            values[name] = value.expand(batch, *shape)
        for name, value in replaced.items():
            base, index = split_entry(name)
            if index:
                values[base] = _with_entry(name, values[base], index, value)
        return values

    def _tensor(self, name: str, value: Any) -> torch.Tensor:
        param = self[name]  # raises for an unknown name first
        tensor = torch.as_tensor(value, dtype=bridge_dtype(), device=bridge_device())
        check_worlds(tensor, name)
        detached = tensor.detach()
        if not torch.isfinite(detached).all():
            raise UserError(f"{name} has values that are not finite: give finite numbers")
        sign = self.signs.get(split_entry(name)[0])
        if sign in ("positive", "not negative", "poisson"):
            _check_sign(name, detached.min().item(), param.unit, sign)
            _check_sign(name, detached.max().item(), param.unit, sign)
        return tensor


def _entry(param: Param, index: tuple[int, ...]) -> Param:
    """One entry of an array, with its bounds."""
    shape = np.shape(param.value)
    low, high = (None if bound is None else float(np.broadcast_to(bound, shape)[index]) for bound in (param.low, param.high))
    return replace(param, value=float(param.value[index]), low=low, high=high)


def _with_entry(name: str, array: torch.Tensor, index: tuple[int, ...], value: torch.Tensor) -> torch.Tensor:
    """The array [B, *shape] with one entry replaced by a scalar for all worlds, or [B]."""
    if value.ndim > 1 or value.ndim == 1 and len(value) != len(array):
        raise UserError(f"{name} has shape {tuple(value.shape)}, and () or {(len(array),)} is needed")
    mask = torch.zeros(array.shape[1:], dtype=torch.bool, device=array.device)
    mask[index] = True
    return torch.where(mask, value.reshape(-1, *[1] * len(index)), array)


def _check_sign(name: str, value: Any, unit: str, sign: Sign | None) -> None:
    """Raise a UserError for a number of the wrong sign, or a colour outside [0, 1]."""
    number = np.asarray(value, dtype=np.float64)
    requirements = {
        "positive": "above zero", "not negative": "that is not negative", "color": "from 0 to 1 (linear colour)",
        "poisson": "between -1 and 0.5",
    }  # fmt: skip
    violations = {
        None: False,
        "positive": (number <= 0).any(),
        "not negative": (number < 0).any(),
        "color": (number < 0).any() or (number > 1).any(),
        "poisson": (number <= -1).any() or (number >= 0.5).any(),
    }
    if violations[sign]:
        text = value if number.size <= _MAX_LISTED else f"an array with numbers from {number.min():.4g} to {number.max():.4g}"
        raise UserError(f"{name} is {text} {unit}: give a number {requirements[sign]}".replace(" :", ":"))
