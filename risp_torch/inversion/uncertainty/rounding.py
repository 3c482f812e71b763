"""Scatter of an estimate by rounding: the remaining error for a film without noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation, newton_step, predict
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, checked

RELATIVE_MOVE = 1e-6  # of the range: many times the rounding of an unknown, and too little for curvature


@checked
def rounding_scatter(scene: Scene, unknowns: Unknowns, linearisation: Linearisation, *, worlds: Count = 8) -> np.ndarray:
    """Standard deviation [K] of an estimate by rounding, scaled units.

    A simulation rounds at each of its thousands of steps, and other values of the unknowns round otherwise. The errors that
    follow are those of one motion, so they are correlated over all pixels and frames, which the residual does not show.
    Films at points very near the estimate differ from its own by their Jacobian and by rounding. The Gauss-Newton step of the
    rest has the size by which rounding of film and model moves the estimate.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        worlds: number of points.

    Returns:
        Root mean square of the steps; zeros if a world diverges.
    """
    ranges, count = unknowns.scaled_range(), len(linearisation.scaled)
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    moves = RELATIVE_MOVE * np.random.default_rng(0).uniform(-1, 1, (worlds, count))
    moves = np.where(
        (linearisation.scaled + moves * ranges < low) | (linearisation.scaled + moves * ranges > high), -moves, moves
    )
    comparison = linearisation.frozen_comparison or linearisation.comparison
    points = linearisation.scaled + np.concatenate([np.zeros((1, count)), moves]) * ranges
    observed, finite = predict(scene, comparison, unknowns, points)
    if not finite.all():
        return np.zeros(count)
    steps = []
    for row, move in zip(observed[1:], moves, strict=True):
        remainder = row - observed[0] - linearisation.jacobian @ linearisation.jacobian.new_tensor(move)
        steps.append(newton_step(replace(linearisation, residual=remainder, prior_gradient=0.0)) * ranges)
    return np.sqrt(np.mean(np.square(steps), axis=0))
