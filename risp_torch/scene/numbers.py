"""Helpers for the tensors of a scene's numbers: rows that worlds share, and parts of different numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device

Values = Mapping[str, torch.Tensor]


def constant(numbers: Any) -> torch.Tensor:
    """Numbers in the runtime's precision on its device; no part of a derivative, in torch.func's transforms neither."""
    return plain(torch.as_tensor(numbers, dtype=bridge_dtype(), device=bridge_device()))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself in place of the wrapper that transforms of torch.func put around everything made inside them.

    A wrapper has no memory that a kernel could read, and it dies with its transform: what is kept must not be one.
    """
    return torch.func.debug_unwrap(tensor)


def gravity_rows(values: Values) -> torch.Tensor:
    """Gravity [B, 3], m/s2: the scene's vector, or its strength downwards."""
    given = values["gravity"]
    if given.ndim == 2:
        return given
    none = torch.zeros_like(given)
    return torch.stack([none, none, -given], dim=1)


def shared_rows(values: Values) -> dict[str, torch.Tensor]:
    """Parameter values [B, ...] with one row [1, ...] where all worlds share it.

    ``ParameterTable.values`` repeats such a value without memory of its own (stride 0), and its gradient sums over the worlds
    either way. A picture's arrays then need no row for each world.
    """
    return {name: value[:1] if _is_repeated(value) else value for name, value in values.items()}


def joined(parts: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    """Concatenate parts along ``dim`` (not the first), each of one row or of as many as the longest."""
    rows = max(part.shape[0] for part in parts)
    return torch.cat([part.expand(rows, *part.shape[1:]) for part in parts], dim=dim)


def _is_repeated(value: torch.Tensor) -> bool:
    return value.shape[0] > 1 and value.stride(0) == 0
