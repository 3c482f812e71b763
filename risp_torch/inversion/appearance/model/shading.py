"""Brightness of a face under a light from everywhere, as a function of its normal."""

from __future__ import annotations

import torch


def shading_basis(normals: torch.Tensor, count: int) -> torch.Tensor:
    """The first ``count`` (1, 4 or 9) real spherical harmonics of unit normals, scaled so that the first is 1.

    For Lambert surfaces under distant light, the irradiance is a linear function of these nine to 1 % (Ramamoorthi and
    Hanrahan, An efficient representation for irradiance environment maps, SIGGRAPH 2001).

    Args:
        normals: [..., 3].
        count: number of functions.

    Returns:
        [..., count], differentiable.
    """
    x, y, z = normals.unbind(-1)
    rows = [torch.ones_like(x)]
    if count > 1:
        rows += [x, y, z]
    if count > 4:
        rows += [x * y, y * z, z * x, x * x - y * y, 3 * z * z - 1]
    return torch.stack(rows, dim=-1)
