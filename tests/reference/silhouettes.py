"""Agreement of silhouettes, for the estimation of shapes from images."""

from __future__ import annotations

import torch

from ti_sim.base.errors import UserError


def silhouette_iou(first: torch.Tensor, second: torch.Tensor, *, threshold: float | None = None) -> torch.Tensor:
    """Intersection over union of two silhouettes.

    sum(a b) / sum(a + b - a b) over the pixels, differentiable in both (the silhouette loss of Kato, Ushiku and Harada,
    Neural 3D mesh renderer, 2018, and of Liu et al., Soft rasterizer, 2019, is 1 minus this).

    Args:
        first, second: [..., H, W] coverage in [0, 1].
        threshold: None, or the coverage above which a pixel counts as covered; there is no gradient then.

    Returns:
        [...] in [0, 1]; 1 if both are empty.

    Raises:
        UserError: the shapes differ.
    """
    if first.shape != second.shape or first.ndim < 2:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise UserError(f"the silhouettes have shapes {shapes}: give two of one shape [..., H, W]")
    if threshold is not None:
        first, second = ((coverage >= threshold).to(coverage.dtype) for coverage in (first, second))
    common = (first * second).sum(dim=(-2, -1))
    union = (first + second).sum(dim=(-2, -1)) - common
    empty = union <= 0
    return torch.where(empty, torch.ones_like(union), common / torch.where(empty, torch.ones_like(union), union))
