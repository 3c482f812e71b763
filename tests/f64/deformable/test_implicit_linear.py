"""Linear systems of implicit steps: solutions, and how many factors they take."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import spsolve

from tests.reference.thin_strip import jacobian_of_a_thin_strip
from ti_sim.deformable.implicit.linear import LinearSolver

TOLERANCE = 1e-9


def test_a_system_whose_residual_is_rounding_takes_one_factor() -> None:
    """The strip's residual cannot be as small as the tolerance: rounding of its products with the matrix is larger."""
    pattern, data = jacobian_of_a_thin_strip(1.0)
    matrix, solver = pattern.full(data), LinearSolver(pattern)
    right = np.tile((0.0, 0.0, 1.0), len(pattern.free))
    solution = solver.solve(data, right, tolerance=TOLERANCE, renew=True, transposed=True)
    assert np.linalg.norm(right - matrix.T @ solution) > TOLERANCE * np.linalg.norm(right)
    assert solver.factors == 1
    assert solver.unsolved_row(data, right, solution, tolerance=1e-2 * TOLERANCE) is None
    wrong = solution * (1 + 1e-4 * np.random.default_rng(0).normal(size=len(solution)))
    assert solver.unsolved_row(data, right, wrong, tolerance=TOLERANCE) is not None


def test_a_factor_is_made_anew_when_its_iterations_have_cost_more() -> None:
    """Matrices that drift away from the one of the factor, symmetric and not, against scipy's solver."""
    pattern, data = jacobian_of_a_thin_strip(1e-3)
    solver, rng = LinearSolver(pattern), np.random.default_rng(1)
    diagonal = np.flatnonzero(pattern.columns == np.repeat(np.arange(len(pattern.offsets) - 1), np.diff(pattern.offsets)))
    skew = np.flatnonzero(pattern.columns == np.repeat(np.arange(1, len(pattern.offsets)), np.diff(pattern.offsets)))
    for round_ in range(30):
        moved = data.copy()
        moved[diagonal] *= 1 + 1e-5 * min(round_, 2) * rng.uniform(0, 1, len(diagonal))
        moved[skew] *= 1 + 1e-6 * min(round_, 2) * rng.uniform(0, 1, len(skew))
        matrix, right = pattern.full(moved), rng.normal(size=3 * len(pattern.free))
        solution = solver.solve(moved, right, tolerance=TOLERANCE, renew=False)
        expected = spsolve(matrix.tocsc(), right)
        assert np.linalg.norm(solution - expected) < 10 * TOLERANCE * np.linalg.norm(expected)
    assert 6 < solver.factors < 15  # 3 without that rule
