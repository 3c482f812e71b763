"""Linear systems of a stage: sparse LDL^T of the symmetric part, as preconditioner of GMRES if the matrix is not symmetric.

A factor is reused as preconditioner over iterations and steps. It is recomputed when the iterations that a new factor would have
saved cost more than factoring. That cost is estimated from the size of the factor, not measured, so that results are repeatable.

On a GPU, ``team_linear`` solves without a factor, with the diagonal blocks as preconditioner. A system that it does not solve is
solved here, as are later ones of the same rollout.
"""

from __future__ import annotations

import numpy as np
import qdldl
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, cg, gmres, minres

from ti_sim.base.runtime import require
from ti_sim.deformable.implicit.matrix import Pattern
from ti_sim.deformable.implicit.team_linear import LAUNCH_LOCK, TeamSolver

_MAX_FACTOR_SIZE = 4e7  # entries; a larger factor takes longer than conjugate gradients with the diagonal, and gigabytes
_MAX_ITERATIONS = 60  # with a reused factor
_MAX_CHEAP_COST = 40  # cost of a factor in solves, up to which Newton's method computes a new one for each stage
_ROUNDING = 1e-15  # of a product, relative to the sum of the sizes of its terms: a residual of this size ends a solve
_MAX_SOLVE_ROUNDOFF = 1e-13  # the same after a solve with a factor, which adds rounding errors
_ATTEMPTS = 12  # refinements and restarts of GMRES
_STAGNATION_RATIO = 0.5  # of the lowest error so far: above it, another attempt does not help
_MARGIN = 10  # tolerances within which a solve may end if it stagnates by rounding
_REFINEMENT_RATIO = 0.01  # of the previous error: up to it, corrections with the factor alone continue
_MAX_DIAGONAL_ITERATIONS, _RESTART = 5000, 50  # with the diagonal
_TEAM_ATTEMPTS = 4  # of the solver on a GPU
_MAX_TEAM_TOLERANCE = 1e-5  # of that solver: larger residuals hide soft modes


def solves_by_team() -> bool:
    """Whether systems are solved on the device of the kernels."""
    return require().device != "cpu"


class LinearSolver:
    """Solves with the Jacobians of one pattern."""

    def __init__(self, pattern: Pattern) -> None:
        """Start without a factor.

        Args:
            pattern: the pattern of all matrices.
        """
        self._pattern = pattern
        self._factor: qdldl.Solver | None = None
        self._factor_cost = 0  # cost of a factor, in iterations
        self._fresh_iterations = 0  # iterations with a new factor
        self._excess_iterations = 0  # iterations since the last factor that a new factor would have saved
        self._uses_factor = True
        self._uses_team = solves_by_team()
        self._team_solver: TeamSolver | None = None
        self._data = np.zeros(0)  # of the last factored matrix
        self.factors = 0  # number of factorizations so far

    def memory(self) -> np.ndarray:
        """State that later solves depend on: two counts and the last factored matrix; empty if each stage makes a new factor."""
        if not self.has_factor or self.factor_is_cheap:
            return np.zeros(0)
        return np.concatenate([[self._fresh_iterations, self._excess_iterations], self._data])

    def restore(self, memory: np.ndarray) -> None:
        """Continue from the result of ``memory``."""
        if memory.size and memory[0] >= 0:
            self._make_factor(memory[2:])
            self._fresh_iterations, self._excess_iterations = int(memory[0]), int(memory[1])

    @property
    def has_factor(self) -> bool:
        """Whether there is a factor."""
        return self._factor is not None

    @property
    def factor_is_cheap(self) -> bool:
        """Whether there is a factor, which costs few solves with it."""
        return self._factor is not None and self._factor_cost <= _MAX_CHEAP_COST

    def solve_with_last_factor(self, rhs: np.ndarray) -> np.ndarray:
        """[n] solution with the last factor, for a right-hand side [n]."""
        return self._factor.solve(rhs)

    def solve(
        self, data: np.ndarray, rhs: np.ndarray, *, tolerance: float, renew: bool, transposed: bool = False,
        indefinite: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """Solve with a matrix or its transpose.

        Args:
            data: [entries] of the matrix.
            rhs: [n] right-hand side.
            tolerance: relative size of the residual and of the next correction (without a factor, of the residual) at which to
                stop.
            renew: factor this matrix, instead of first trying the factor of an earlier matrix.
            transposed: solve with the transpose.
            indefinite: whether the matrix may be indefinite (for the solver without a factor).

        Returns:
            [n] solution; NaN for a right-hand side that is not finite.
        """
        matrix = self._pattern.full(data)
        matrix = matrix.T if transposed else matrix
        rhs_norm = np.linalg.norm(rhs)
        if rhs_norm == 0 or not np.isfinite(rhs_norm):
            return np.zeros_like(rhs) if rhs_norm == 0 else np.full_like(rhs, np.nan)
        if self._uses_team and self._factor is None:
            solution = self._solve_without_factor(data, matrix, rhs, tolerance, transposed=transposed)
            if solution is not None:
                return solution
        renew = renew or self._factor is None or self._excess_iterations >= self._factor_cost
        if self._uses_factor and renew:
            self._make_factor(data)
        if not self._uses_factor:
            return _solve_with_diagonal(matrix, rhs, tolerance, indefinite=indefinite)
        max_iterations = _MAX_ITERATIONS if renew else min(self._factor_cost, _MAX_ITERATIONS)  # then a new factor
        solution, count, is_solved = self._refine_with_factor(matrix, rhs, tolerance, max_iterations)
        if not is_solved and not renew:
            renew = True
            self._make_factor(data)
            solution, count, is_solved = self._refine_with_factor(matrix, rhs, tolerance, _MAX_ITERATIONS)
        self._fresh_iterations = count if renew else self._fresh_iterations
        self._excess_iterations += max(count - self._fresh_iterations, 0)
        return solution

    def _solve_without_factor(
        self, data: np.ndarray, matrix: csr_matrix, rhs: np.ndarray, tolerance: float, *, transposed: bool
    ) -> np.ndarray | None:
        """Solution on the GPU, None if none was found there; then the processor makes factors.

        A restart removes the difference between the residual of the iterations and that of their result.
        """
        if self._team_solver is None:
            with LAUNCH_LOCK:
                self._team_solver = TeamSolver(self._pattern.columns, self._pattern.offsets)
        values, tolerance = data[self._pattern.transposed] if transposed else data, min(tolerance, _MAX_TEAM_TOLERANCE)
        solution, residual, rhs_norm = np.zeros_like(rhs), rhs, np.linalg.norm(rhs)
        for _ in range(_TEAM_ATTEMPTS):
            correction = self._team_solver.solve(values, residual, 0.5 * tolerance * rhs_norm / np.linalg.norm(residual))
            new_residual = rhs - matrix @ (solution + correction)
            if not np.linalg.norm(new_residual) < np.linalg.norm(residual):
                break
            solution, residual = solution + correction, new_residual
            if np.linalg.norm(residual) <= tolerance * rhs_norm or _is_rounding(matrix, solution, residual, _ROUNDING):
                return solution
            if np.linalg.norm(residual) > _MARGIN * tolerance * rhs_norm:
                break
        self._uses_team = False
        return None

    def _make_factor(self, data: np.ndarray) -> None:
        """Factor the symmetric part of a matrix, or decide that its factor would be too large."""
        upper = self._pattern.symmetric_upper(data)
        if self._factor is None:
            if _fill_estimate(upper) > _MAX_FACTOR_SIZE:
                self._uses_factor = False
                return
            self._factor = qdldl.Solver(upper, upper=True)
            lower = self._factor.factors()[0]
            columns = np.diff(lower.indptr).astype(float)
            self._factor_cost = max(int((columns * columns).sum() / max(4 * columns.sum(), 1)), 1)
        else:
            self._factor.update(upper, upper=True)
        self._excess_iterations = 0
        self._data = np.array(data)
        self.factors += 1

    def unsolved_row(self, data: np.ndarray, rhs: np.ndarray, solution: np.ndarray, *, tolerance: float) -> int | None:
        """Row of the largest residual of a transposed system, if it is more than ten tolerances, and more than rounding.

        Args:
            data, rhs, solution, tolerance: as in ``solve``.
        """
        if not np.isfinite(rhs).all():
            return None
        matrix = self._pattern.full(data).T
        residual = rhs - matrix @ solution
        is_within_tolerance = np.linalg.norm(residual) <= _MARGIN * tolerance * np.linalg.norm(rhs)
        if is_within_tolerance or _is_rounding(matrix, solution, residual, _MAX_SOLVE_ROUNDOFF):
            return None
        return int(np.abs(residual).argmax())

    def _refine_with_factor(
        self, matrix: csr_matrix, rhs: np.ndarray, tolerance: float, max_iterations: int
    ) -> tuple[np.ndarray, int, bool]:
        """Solution with the factor, its number of iterations, and whether it is within the tolerance or limited by rounding.

        Both the residual and the next correction must be within the tolerance (``tolerance_ratio`` at most 1): the residual of a
        stiff, thin body hides its soft modes, and corrections with the factor are too short if the matrix is far from symmetric.
        Corrections with the factor alone (iterative refinement) continue while each reduces the error strongly; GMRES follows.
        """
        solution = best_solution = self._factor.solve(rhs)
        operator = LinearOperator(matrix.shape, self._factor.solve, dtype=np.float64)
        count, lowest_ratio, is_refining = 0, np.inf, True

        def count_iteration(_residual: float) -> None:
            nonlocal count
            count += 1

        for attempt in range(_ATTEMPTS + 1):
            residual = rhs - matrix @ solution
            correction = self._factor.solve(residual)
            relative_correction = float(np.linalg.norm(correction) / np.linalg.norm(solution))
            tolerance_ratio = max(float(np.linalg.norm(residual) / np.linalg.norm(rhs)), relative_correction) / tolerance
            if tolerance_ratio <= 1 or (relative_correction <= tolerance and _is_rounding(matrix, solution, residual, _ROUNDING)):
                return solution, count, True
            is_stagnating = not is_refining and tolerance_ratio > _STAGNATION_RATIO * lowest_ratio
            is_refining = is_refining and tolerance_ratio <= _REFINEMENT_RATIO * lowest_ratio
            if tolerance_ratio < lowest_ratio:
                best_solution, lowest_ratio = solution, tolerance_ratio
            if is_stagnating or count >= max_iterations or attempt == _ATTEMPTS:
                break
            if is_refining:
                solution, count = solution + correction, count + 1
                continue
            gmres_correction, _failed = gmres(
                matrix, residual, rtol=min(0.5 / tolerance_ratio, 0.1), atol=0.0, restart=max_iterations, maxiter=1, M=operator,
                callback=count_iteration, callback_type="pr_norm",
            )  # fmt: skip
            solution = solution + gmres_correction
        return best_solution, count, lowest_ratio <= _MARGIN and is_stagnating


def _is_rounding(matrix: csr_matrix, solution: np.ndarray, residual: np.ndarray, rounding: float) -> bool:
    """Whether a residual is rounding, of this relative size, of the product with the matrix."""
    return bool(np.linalg.norm(residual) <= rounding * np.linalg.norm(abs(matrix) @ np.abs(solution)))


def _fill_estimate(upper: csr_matrix) -> float:
    """Estimate of the numbers in the factor of a matrix of a body in three dimensions (nested dissection: n^(4/3))."""
    row_count = upper.shape[0]
    return max(upper.nnz, 2.0 * row_count ** (4 / 3))


def _solve_with_diagonal(matrix: csr_matrix, rhs: np.ndarray, tolerance: float, *, indefinite: bool) -> np.ndarray:
    """Solution with the diagonal as preconditioner: conjugate gradients, MINRES, or GMRES if the matrix is not symmetric."""
    inverse_diagonal = 1 / np.abs(matrix.diagonal())
    operator = LinearOperator(matrix.shape, lambda x: inverse_diagonal * x, dtype=np.float64)
    probe = np.random.default_rng(0).normal(size=len(rhs))
    is_symmetric = np.linalg.norm(matrix @ probe - matrix.T @ probe) <= 1e-10 * np.linalg.norm(matrix @ probe)
    if is_symmetric and not indefinite:
        solution, _failed = cg(matrix, rhs, rtol=tolerance, atol=0.0, maxiter=_MAX_DIAGONAL_ITERATIONS, M=operator)
    elif is_symmetric:
        solution, _failed = minres(matrix, rhs, rtol=tolerance, maxiter=_MAX_DIAGONAL_ITERATIONS, M=operator)
    else:
        solution, _failed = gmres(
            matrix, rhs, rtol=tolerance, atol=0.0, restart=_RESTART, maxiter=_MAX_DIAGONAL_ITERATIONS // _RESTART, M=operator
        )
    return solution
