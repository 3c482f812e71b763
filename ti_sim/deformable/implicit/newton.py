"""Newton's method for a stage, with a line search on the incremental potential.

A direction solves with the exact Jacobian. Where that is no descent direction, it solves with the Jacobian whose element blocks
are projected to positive semi-definite ones (Teran et al., SCA 2005). Where a factor is cheap, a stage begins with a new one, and
later directions use it as it is (chord iterations) while they reduce the residual fast. The result does not depend on the kind of
direction.

The potential holds inertia, elastic energies, loads and the normal force of the ground. Damping, air and friction have none:
their work along the step is counted by the trapezoidal rule, with the forces at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.deformable.implicit.linear import LinearSolver
from ti_sim.deformable.implicit.settings import ImplicitSettings
from ti_sim.deformable.implicit.stepper import Evaluation, Stepper

_ARMIJO = 1e-4
_NOISE = 1e-12  # of the energies, relative to the sum of their sizes
_SHORTEST = 2.0**-30  # step of the line search
_LOOSEST, _FORCING = 1e-2, 0.1  # relative residual of linear solves: at first, and over Newton's last reduction
_SLOW = 0.15  # reduction of the residual, up to which directions use the factor as it is


@dataclass(frozen=True)
class StageResult:
    """How a stage ended.

    Attributes:
        converged: whether the expected next correction is within the tolerance.
        iterations: linear solves.
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
        settings: tolerance and most iterations.
        gamma: as in ``Stepper.begin`` [s].
        world, row, control, frame: as in ``kernels.evaluate``.
    """
    free = stepper.pattern.free
    positions = stepper.states[world, row, :, :3]
    at = stepper.evaluate(world, row, control, frame)
    forcing, chord, renew = _LOOSEST, False, linear.factor_is_cheap
    for iteration in range(settings.iterations):
        size = np.linalg.norm(at.residual)
        if size == 0:
            return _result(stepper, at, iteration, converged=True)
        if not np.isfinite(size):
            break
        start = positions[free]
        if chord:
            step = linear.with_last_factor(-at.residual)
        else:
            step = _newton(stepper, linear, at, forcing, world, row, control, renew=renew)
            renew = False
        after, length = _search(stepper, at, start, step, world, row, control, frame)
        if after is None:
            if not chord:
                break
            chord = False
            continue
        reduction = np.linalg.norm(after.residual) / size
        expected = length * np.abs(step).max() / gamma * reduction / max(1 - reduction, 0.1)
        at = after
        if length == 1 and expected <= settings.tolerance:
            return _result(stepper, at, iteration + 1, converged=True)
        forcing = min(max(_FORCING * min(reduction, 1.0), 1e-10), _LOOSEST)
        chord = linear.factor_is_cheap and length == 1 and reduction < _SLOW
    return _result(stepper, at, settings.iterations, converged=False)


def _newton(
    stepper: Stepper, linear: LinearSolver, at: Evaluation, forcing: float, world: int, row: int, control: int, *, renew: bool
) -> np.ndarray:
    """Newton's direction [n], or that of projected element blocks where it does not lead down; ``renew`` factors the Jacobian."""
    data = stepper.jacobian(world, row, control)
    if renew:
        linear.factor(data)
    step = linear.solve(data, -at.residual, tolerance=forcing)
    return step if at.residual @ step < 0 else _descent(stepper, linear, -at.residual, world)


def _result(stepper: Stepper, at: Evaluation, iterations: int, *, converged: bool) -> StageResult:
    sizes = np.linalg.norm(at.residual.reshape(-1, 3), axis=1)
    worst = int(np.nanargmax(sizes)) if np.isfinite(sizes).any() else 0
    return StageResult(converged, iterations, float(sizes[worst]), int(stepper.pattern.free[worst]))


def _search(
    stepper: Stepper, at: Evaluation, start: np.ndarray, step: np.ndarray, world: int, row: int, control: int, frame: int
) -> tuple[Evaluation | None, float]:
    """Halve the step until the incremental potential decreases; the row of states holds the result.

    Returns:
        (evaluation at the result, part of the step), (None, 0) if no part of it helps.
    """
    free, positions = stepper.pattern.free, stepper.states[world, row, :, :3]
    slope, length, noise = float(at.residual @ step), 1.0, stepper.energy_noise[world]
    if not slope < 0:
        return None, 0.0
    while length >= _SHORTEST:
        positions[free] = start + length * step.reshape(-1, 3)
        after = stepper.evaluate(world, row, control, frame)
        work = 0.5 * length * float((at.other + after.other) @ step)
        change = after.energy - at.energy - work
        if change <= _ARMIJO * length * slope + _NOISE * (at.scale + after.scale) + noise:
            return after, length
        length /= 2
    positions[free] = start
    return None, 0.0


def _descent(stepper: Stepper, linear: LinearSolver, right: np.ndarray, world: int) -> np.ndarray:
    """Newton's direction with projected element blocks, from the last Jacobian."""
    data = stepper.projected(world)
    linear.factor(data)
    return linear.solve(data, right, tolerance=_LOOSEST)
