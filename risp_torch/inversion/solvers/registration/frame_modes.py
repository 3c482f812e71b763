"""The directions in which the unknowns can change the placement of each frame."""

from __future__ import annotations

import torch

MAX_MODES = 12  # directions of a frame
MIN_RELATIVE_RESPONSE = 1e-4  # of a frame's strongest direction


def frame_modes(jacobian: torch.Tensor) -> torch.Tensor:
    """Orthonormal directions of every frame along which the unknowns move its placement most (singular vectors).

    Args:
        jacobian: [n, D, K] derivative of the changes of n placements (``Tangent``) with respect to the unknowns.

    Returns:
        [n, R, D] with R <= ``MAX_MODES``; rows of zeros where a frame has fewer.
    """
    vectors, values, _ = torch.linalg.svd(jacobian, full_matrices=False)
    num_modes = min(MAX_MODES, values.shape[1])
    is_responsive = (values[:, :num_modes] > MIN_RELATIVE_RESPONSE * values[:, :1]) & (values[:, :1] > 0)
    return vectors[:, :, :num_modes].transpose(1, 2) * is_responsive[..., None]
