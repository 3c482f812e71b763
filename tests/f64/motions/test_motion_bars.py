"""Error bars of fits to many motions, by plain numpy: degrees of freedom, and residuals of few clusters."""

from types import SimpleNamespace

import numpy as np
import pytest

from risp_torch.motions.normal_equations import SharedNormalEquations, clustered_covariance
from risp_torch.motions.search import MotionSearch

RANDOM = np.random.default_rng(0)
CLUSTERS = np.array([0, 0, 1, 2, 2, 2, 3, 4])  # of eight motions
SCORES = RANDOM.normal(size=(8, 2)) + [3.0, -1.0]
INFORMATION = np.array([[40.0, 9.0], [9.0, 30.0]])
PRECISION = np.diag([0.0, 5.0])


def search(pieces: bool = False, clusters: np.ndarray = CLUSTERS) -> SimpleNamespace:
    return SimpleNamespace(windows_are_clusters=pieces, clusters=clusters, windows=[None] * 8)


def test_numbers_that_are_fitted_take_part_of_the_scatter_of_the_clusters() -> None:
    """By (G - 1) / (G - K), where noise does not explain the residuals; the noise's covariance has the priors as they are."""
    normal = SimpleNamespace(scores=SCORES)
    for pieces, clusters, count in ((False, CLUSTERS, 5), (True, np.arange(8), 8)):
        found = MotionSearch._covariance(search(pieces), normal, INFORMATION, PRECISION, 3.0)
        scatter = clustered_covariance(INFORMATION, SCORES, clusters, PRECISION)
        np.testing.assert_allclose(found, scatter * (count - 1) / (count - 2), rtol=1e-9)
    noisy = np.linalg.inv((INFORMATION - PRECISION) / 1.5 + PRECISION)
    np.testing.assert_allclose(MotionSearch._covariance(search(), normal, INFORMATION, PRECISION, 1.5), noisy, rtol=1e-9)
    few = search(clusters=np.array([0, 0, 0, 0, 1, 1, 1, 1]))  # as many clusters as unknowns
    noisy = np.linalg.inv((INFORMATION - PRECISION) / 3.0 + PRECISION)
    np.testing.assert_allclose(MotionSearch._covariance(few, normal, INFORMATION, PRECISION, 3.0), noisy, rtol=1e-9)


def test_starts_take_as_many_degrees_of_freedom_as_the_motion_determines() -> None:
    """A start with the information d and the prior 1 takes d / (1 + d) degrees of freedom; coordinates count by their weights."""
    known = np.ones((2, 3, 1, 4), dtype=bool)
    known[1, 2] = False
    weights = np.array([[[1.0], [0.5], [1.0]], [[1.0], [1.0], [1.0]]])
    residual = np.where(known, RANDOM.normal(size=known.shape), 0.0)
    own = np.array([np.diag([1.0 + 9.0, 1.0 + 0.0]), np.diag([1.0 + 3.0, 1.0 + 1.0])])
    normal = SharedNormalEquations(own, np.zeros((2, 2, 1)), np.zeros((2, 1, 1)), np.zeros((2, 2)), np.zeros((2, 1)))
    at = SimpleNamespace(weights=weights, residual=residual, scaled=np.zeros(1))
    misfit, free = MotionSearch.misfit(SimpleNamespace(is_measured=known), at, normal)
    assert free == pytest.approx(4 * (1 + 0.5 + 1 + 1 + 1) - (0.9 + 0.0 + 0.75 + 0.5) - 1)
    squares = (weights[..., None] * residual**2).sum()
    assert misfit == pytest.approx(squares / free)
