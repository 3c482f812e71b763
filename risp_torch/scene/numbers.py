"""Helpers for tensors of parameter values: rows shared by worlds, and concatenation of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device

Values = Mapping[str, torch.Tensor]


def constant(numbers: Any) -> torch.Tensor:
    """A constant tensor in the runtime's precision on its device, without gradient, also in torch.func transforms."""
    return unwrapped(torch.as_tensor(numbers, dtype=bridge_dtype(), device=bridge_device()))


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without the wrapper that torch.func transforms put around every tensor made inside them.

    A wrapper has no memory that a kernel can read and is valid only inside its transform, so it must not be cached.
    """
    return torch.func.debug_unwrap(tensor)


def outside_transforms() -> AbstractContextManager[None]:
    """Context in which new tensors belong to no ``torch.func`` transform: for what is made once, inside any call, and kept."""
    return temporarily_clear_interpreter_stack()


def gravity_rows(values: Values) -> torch.Tensor:
    """Gravity [B, 3], m/s2: the scene's vector, or its strength downwards."""
    gravity = values["gravity"]
    if gravity.ndim == 2:
        return gravity
    zero = torch.zeros_like(gravity)
    return torch.stack([zero, zero, -gravity], dim=1)


def shared_rows(values: Values) -> dict[str, torch.Tensor]:
    """Parameter values [B, ...] with one row [1, ...] if all worlds share the value.

    ``ParameterTable.values`` expands such a value without copying (stride 0), and its gradient is summed over the worlds
    in both cases. The renderer's arrays then need no row per world.
    """
    repeated = {name for name, value in values.items() if value.shape[0] > 1 and value.stride(0) == 0}
    return {name: value[:1] if name in repeated else value for name, value in values.items()}


def concatenated_rows(tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    """Concatenate tensors along ``dim`` (not the first), each of one row or of as many as the longest."""
    rows = max(tensor.shape[0] for tensor in tensors)
    return torch.cat([tensor.expand(rows, *tensor.shape[1:]) for tensor in tensors], dim=dim)
