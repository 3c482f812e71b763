"""How many Gauss-Newton steps lie before a minimum, seen by walking along the step."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.scene import Scene

BEYOND = 4.0  # times the way to the lowest loss on the line: the minimum itself lies beside it


def distance_in_newton_steps(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, step: np.ndarray, most: float
) -> float:
    """Distance to the minimum in units of a Gauss-Newton step, at least 1 and at most ``most``.

    The estimate from the residual (``distance_in_steps``) assumes that all that noise does not explain vanishes at the minimum.
    Where the scene lacks something, a shadow for example, that residual stays, and the estimate is the whole range. A line search
    along the step bounds it: where the loss no longer falls, the minimum is passed.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the start of the step.
        step: [K] relative to the ranges.
        most: distance that the residual allows, in steps.
    """
    if most <= 1.0 or not np.abs(step).max() > 0:
        return 1.0
    farthest = min(most, 1.0 / np.abs(step).max())  # the ranges
    lengths = np.append(0.0, np.minimum(2.0 ** np.arange(np.ceil(np.log2(max(farthest, 2.0))) + 1), farthest))
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    points = np.clip(linearisation.scaled + lengths[:, None] * step * unknowns.scaled_range(), low, high)
    losses = losses_at(scene, linearisation.comparison, unknowns, points)
    return float(np.clip(BEYOND * lengths[losses.argmin()], 1.0, most))
