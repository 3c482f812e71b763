"""Newton's method for a stage, with a line search on the incremental potential.

A direction solves with the exact Jacobian. Where that is no descent direction, it solves with the Jacobian whose element blocks
are projected to positive semi-definite ones (Teran et al., SCA 2005). If factoring is cheap, every direction uses a new factor,
except that fast convergence continues with the last factor (chord iterations). The result does not depend on the kind of
direction.

A stage has converged when the next direction is short. The residual is no measure of that: in a thin body it is dominated by
stretching, which is stiff and converges first, and contains hardly any bending.

The potential holds inertia, elastic energies, loads and the normal force of the ground. Damping, air and friction have none:
their work along the step is counted by the trapezoidal rule, with the forces at both ends. If this search does not converge and
particles have friction, ``_with_friction`` solves the stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import splu

from ti_sim.deformable.implicit.linear import LinearSolver
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.implicit.stepper import Evaluation, Stepper

_ARMIJO = 1e-4
_ROUNDING = 1e-12  # of the energies, relative to the sum of their sizes
_MIN_STEP_LENGTH = 2.0**-30  # of the step, in the line search
_MAX_FORCING, _FORCING_FACTOR = 1e-2, 0.1  # relative residual of linear solves: at first, and over Newton's last reduction
_CHORD_REDUCTION = 0.4  # reduction of residual and direction, up to which the next direction is a chord iteration
_REFACTOR_REDUCTION = 0.5  # reduction above which a factor that is not cheap is recomputed
_MIN_NATURAL_LENGTH = 2.0**-12  # of the step, in the natural monotonicity test
_INITIAL_FRICTION_STEP, _MIN_FRICTION_STEP = 0.25, 1e-4  # increments of the fraction of the friction in the continuation
_MARGIN = 0.1  # of the tolerance, for directions with the last factor, which may be too short


@dataclass(frozen=True)
class StageResult:
    """Result of the solution of a stage.

    Attributes:
        converged: whether the estimated next correction is within the tolerance.
        iterations: number of linear solves.
        residual: largest residual of a particle [N].
        particle: that particle.
    """

    converged: bool
    iterations: int
    residual: float
    particle: int


def solve_stage(
    stepper: Stepper, linear: LinearSolver, settings: ImplicitSettings, *, gamma: float, world: int, row: int, control: int,
    frame: int,
) -> StageResult:  # fmt: skip
    """Find the positions of a stage, from those in its row of the states.

    Args:
        stepper: kernels, with gamma and ``hat`` set; its row of states receives positions and velocities.
        linear: solver of linear systems.
        settings: tolerance and maximum number of iterations.
        gamma: as in ``Stepper.begin`` [s].
        world, row, control, frame: as in ``kernels.evaluate``.
    """
    positions = stepper.states[world, row, :, :3]
    initial_positions = positions.copy()
    result = _with_potential(
        stepper, linear, settings, gamma=gamma, world=world, row=row, control=control, frame=frame, positions=positions
    )
    if result.converged or not stepper.has_friction(world):
        return result
    return _with_friction(
        stepper, linear, settings, result, initial_positions, gamma=gamma, world=world, row=row, control=control, frame=frame
    )


def _with_potential(
    stepper: Stepper, linear: LinearSolver, settings: ImplicitSettings, *, gamma: float, world: int, row: int, control: int,
    frame: int, positions: np.ndarray,
) -> StageResult:  # fmt: skip
    """Newton's method with the line search on the potential, from ``positions``, a view of the row of the states."""
    free = stepper.pattern.free
    evaluation = stepper.evaluate(world, row, control, frame)
    forcing, refactor = _MAX_FORCING, linear.factor_is_cheap
    chord_step: np.ndarray | None = None
    for iteration in range(settings.iterations):
        if not np.isfinite(evaluation.residual).all():
            break
        if not evaluation.residual.any():
            return _result(stepper, evaluation, iteration, converged=True)
        step = chord_step
        if step is None:
            step = _newton_direction(stepper, linear, evaluation, forcing, world, row, control, refactor=refactor)
            if not linear.has_factor and np.abs(step).max(initial=0.0) <= gamma * settings.tolerance:
                return _result(stepper, evaluation, iteration, converged=True)
        new_evaluation, length = _line_search(stepper, evaluation, positions[free], step, world, row, control, frame)
        if new_evaluation is None:
            if chord_step is None:
                break
            chord_step = None
            continue
        reduction = _norm_ratio(new_evaluation.residual, evaluation.residual)
        evaluation, chord_step = new_evaluation, None
        if linear.has_factor:
            trial_step = linear.solve_with_last_factor(-evaluation.residual)
            if np.abs(trial_step).max(initial=0.0) <= _MARGIN * gamma * settings.tolerance:
                return _result(stepper, evaluation, iteration + 1, converged=True)
            reduction = max(reduction, _norm_ratio(trial_step, step))
            if linear.factor_is_cheap and length == 1 and reduction < _CHORD_REDUCTION:
                chord_step = trial_step
        forcing = min(max(_FORCING_FACTOR * min(reduction, 1.0), 1e-10), _MAX_FORCING)
        refactor = linear.factor_is_cheap or reduction > _REFACTOR_REDUCTION
    return _result(stepper, evaluation, settings.iterations, converged=False)


def _with_friction(
    stepper: Stepper, linear: LinearSolver, settings: ImplicitSettings, failed_result: StageResult,
    initial_positions: np.ndarray, *, gamma: float,
    world: int, row: int, control: int, frame: int,
) -> StageResult:  # fmt: skip
    """Solve a stage for which ``_with_potential`` failed: from its initial positions, then by continuation in the friction.

    Friction depends on the normal force, so that it has no potential, and a search on one may cycle. Here every step lowers the
    next correction (``_natural_newton``). Continuation begins without friction, and increases it in steps for which
    Newton's method converges.
    """
    positions, friction = stepper.states[world, row, :, :3], stepper.friction(world)
    full_friction, count = friction.copy(), failed_result.iterations

    def solve() -> bool:
        nonlocal count
        evaluation, iterations, converged = _natural_newton(stepper, settings, gamma, world, row, control, frame)
        count += iterations
        return converged

    try:
        positions[:] = initial_positions
        if solve():
            return _result(stepper, stepper.evaluate(world, row, control, frame), count, converged=True)
        positions[:] = initial_positions
        friction[:] = 0.0
        frictionless_result = _with_potential(
            stepper, linear, settings, gamma=gamma, world=world, row=row, control=control, frame=frame, positions=positions
        )
        count += frictionless_result.iterations
        friction_fraction, fraction_step = 0.0, _INITIAL_FRICTION_STEP
        solved_positions = positions.copy()
        while frictionless_result.converged and friction_fraction < 1 and fraction_step >= _MIN_FRICTION_STEP:
            friction[:] = min(friction_fraction + fraction_step, 1.0) * full_friction
            if solve():
                friction_fraction, fraction_step = min(friction_fraction + fraction_step, 1.0), 2 * fraction_step
                solved_positions = positions.copy()
            else:
                positions[:] = solved_positions
                fraction_step /= 4
        friction[:] = full_friction
        evaluation = stepper.evaluate(world, row, control, frame)
        return _result(stepper, evaluation, count, converged=friction_fraction == 1)
    finally:
        friction[:] = full_friction


def _natural_newton(
    stepper: Stepper, settings: ImplicitSettings, gamma: float, world: int, row: int, control: int, frame: int
) -> tuple[Evaluation, int, bool]:
    """Newton's method whose steps are shortened until they lower the next correction with the same matrix (the natural
    monotonicity test: Deuflhard, Newton Methods for Nonlinear Problems, 2004, ch. 3).

    Returns:
        (last evaluation, linear solves, whether the next correction is within the tolerance).
    """
    free, positions = stepper.pattern.free, stepper.states[world, row, :, :3]
    evaluation, length, step_tolerance = stepper.evaluate(world, row, control, frame), 1.0, _MARGIN * gamma * settings.tolerance
    for iteration in range(settings.iterations):
        if not np.isfinite(evaluation.residual).all():
            return evaluation, iteration, False
        try:
            factor = splu(stepper.pattern.full(stepper.jacobian(world, row, control)).tocsc())
        except RuntimeError:  # exactly singular
            return evaluation, iteration, False
        step, start = factor.solve(-evaluation.residual), positions[free]
        length = min(1.0, 4 * length)
        while True:
            positions[free] = start + length * step.reshape(-1, 3)
            new_evaluation = stepper.evaluate(world, row, control, frame)
            simplified_step = (
                factor.solve(-new_evaluation.residual)
                if np.isfinite(new_evaluation.residual).all()
                else np.full_like(step, np.inf)
            )
            if np.linalg.norm(simplified_step) <= (1 - length / 4) * np.linalg.norm(step):
                break
            length /= 2
            if length < _MIN_NATURAL_LENGTH:
                positions[free] = start
                return evaluation, iteration, False
        evaluation = new_evaluation
        if length == 1 and np.abs(simplified_step).max() <= step_tolerance:
            return evaluation, iteration + 1, True
    return evaluation, settings.iterations, False


def _norm_ratio(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """Ratio of the norms of two vectors, 1 where both are zero."""
    denominator_norm = np.linalg.norm(denominator)
    return float(np.linalg.norm(numerator) / denominator_norm) if denominator_norm > 0 else 1.0


def _newton_direction(
    stepper: Stepper, linear: LinearSolver, evaluation: Evaluation, forcing: float, world: int, row: int, control: int, *,
    refactor: bool,
) -> np.ndarray:  # fmt: skip
    """Newton's direction [n], or with projected element blocks where that does not descend; ``refactor`` factors the Jacobian."""
    data = stepper.jacobian(world, row, control)
    step = linear.solve(data, -evaluation.residual, tolerance=forcing, renew=refactor)
    if evaluation.residual @ step < 0:
        return step
    # Newton's direction with projected element blocks, from the last Jacobian.
    return linear.solve(stepper.projected_jacobian(world), -evaluation.residual, tolerance=_MAX_FORCING, renew=True)


def _result(stepper: Stepper, evaluation: Evaluation, iterations: int, *, converged: bool) -> StageResult:
    if not evaluation.residual.size:  # no free particles
        return StageResult(converged, iterations, 0.0, -1)
    residual_norms = np.linalg.norm(evaluation.residual.reshape(-1, 3), axis=1)
    worst = int(np.nanargmax(residual_norms)) if np.isfinite(residual_norms).any() else 0
    return StageResult(converged, iterations, float(residual_norms[worst]), int(stepper.pattern.free[worst]))


def _line_search(
    stepper: Stepper, evaluation: Evaluation, start: np.ndarray, step: np.ndarray, world: int, row: int, control: int, frame: int
) -> tuple[Evaluation | None, float]:
    """Halve the step until the incremental potential decreases; the row of states holds the result.

    Returns:
        (evaluation at the result, fraction of the step), (None, 0) if no fraction decreases the potential.
    """
    free, positions = stepper.pattern.free, stepper.states[world, row, :, :3]
    stepper.stage.reference[:] = positions[:, 2]
    directional_derivative, length, noise = float(evaluation.residual @ step), 1.0, stepper.energy_noise[world]
    if not directional_derivative < 0:
        return None, 0.0
    while length >= _MIN_STEP_LENGTH:
        positions[free] = start + length * step.reshape(-1, 3)
        new_evaluation = stepper.evaluate(world, row, control, frame)
        work = 0.5 * length * float((evaluation.non_potential + new_evaluation.non_potential) @ step)
        change = new_evaluation.energy - evaluation.energy + new_evaluation.contact - work
        if change <= _ARMIJO * length * directional_derivative + _ROUNDING * (evaluation.scale + new_evaluation.scale) + noise:
            return new_evaluation, length
        length /= 2
    positions[free] = start
    return None, 0.0
