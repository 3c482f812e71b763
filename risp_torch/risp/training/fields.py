"""Smooth random fields over a picture."""

from __future__ import annotations

import functools

import torch
from torch.nn import functional


def smooth_field(values: torch.Tensor, size: int) -> torch.Tensor:
    """Smooth (bicubic) fields [B, size, size] through grids [B, n, n] of values.

    A product with fixed weights, which is much faster on a CPU than interpolating every field.
    """
    weights = _interpolation_weights(values.shape[-1], size).to(values)
    return weights.T @ values @ weights


@functools.cache
def _interpolation_weights(count: int, size: int) -> torch.Tensor:
    """Weights [count, size] of a smooth interpolation of ``count`` values."""
    units = torch.eye(count)[:, None, None].expand(-1, 1, count, -1)
    return functional.interpolate(units, size=(count, size), mode="bicubic", align_corners=False)[:, 0, 0]
