"""Spherical harmonics of a solved look's light: orthogonal functions on the sphere, of which the first is 1."""

import numpy as np
import torch

from risp_torch.inversion.appearance.model.shading import shading_basis


def test_harmonics_are_orthogonal_on_the_sphere() -> None:
    """By a product rule that is exact for polynomials of degree four."""
    z, weight = np.polynomial.legendre.leggauss(3)
    angle = 2 * np.pi * np.arange(6) / 6
    radius = np.sqrt(1 - z**2)[:, None]
    normals = np.stack([radius * np.cos(angle), radius * np.sin(angle), z[:, None] + 0 * angle], axis=-1).reshape(-1, 3)
    basis = shading_basis(torch.as_tensor(normals), 9).cpu().numpy()
    gram = basis.T @ (np.repeat(weight, 6)[:, None] / 12 * basis)
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diag(gram), [1, 1 / 3, 1 / 3, 1 / 3, 1 / 15, 1 / 15, 1 / 15, 4 / 15, 4 / 5], rtol=1e-12)
    for count in (1, 4):
        np.testing.assert_array_equal(shading_basis(torch.as_tensor(normals), count).cpu().numpy(), basis[:, :count])
