"""Rotations as torch functions: rotation vectors, unit quaternions (x, y, z, w), matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ti_sim.base.errors import UserError


def rotation_quaternion(rotation_vector: torch.Tensor) -> torch.Tensor:
    """Unit quaternion [..., 4] of a rotation vector [..., 3] in rad, smooth at zero."""
    half2 = 0.25 * (rotation_vector * rotation_vector).sum(dim=-1, keepdim=True)
    small = half2 < 1e-6
    half = torch.sqrt(torch.where(small, torch.ones_like(half2), half2))
    sinc = torch.where(small, 1 - half2 / 6 + half2**2 / 120, torch.sin(half) / half)
    cosine = torch.where(small, 1 - half2 / 2 + half2**2 / 24, torch.cos(half))
    return torch.cat([0.5 * sinc * rotation_vector, cosine], dim=-1)


def rotation_matrix(q: torch.Tensor) -> torch.Tensor:
    """Rotation matrix [..., 3, 3] of a unit quaternion [..., 4] (x, y, z, w)."""
    x, y, z, w = q.unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1).reshape(*q.shape[:-1], 3, 3)


def matrix_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product [..., n, k] of matrices [..., n, m] and [..., m, k] of a few rows and columns, in the precision of the factors.

    It consists of multiplications and sums: ``torch.autocast`` and TF32 round the factors of matrix multiplications, also in
    backward passes.
    """
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(dim=-2)


def matrix_vector(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Product [..., n] of a matrix [..., n, m] and a vector [..., m], in the precision of both (``matrix_product``)."""
    return (matrix * vector.unsqueeze(-2)).sum(dim=-1)


def quaternion_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Hamilton product a b of quaternions (x, y, z, w): rotation b, then a."""
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    av, bv = torch.broadcast_tensors(av, bv)
    vector = aw * bv + bw * av + torch.linalg.cross(av, bv)
    return torch.cat([vector, aw * bw - (av * bv).sum(-1, keepdim=True)], dim=-1)


def unit_quaternion(name: str, orientation: Any) -> np.ndarray:
    """A given quaternion (x, y, z, w) [4], normalised.

    Raises:
        UserError: it is zero.
    """
    quaternion = np.asarray(orientation, dtype=np.float64)
    if not np.linalg.norm(quaternion) > 0:
        raise UserError(f"{name}.orientation is {orientation}: give a quaternion (x, y, z, w) that is not zero")
    return quaternion / np.linalg.norm(quaternion)
