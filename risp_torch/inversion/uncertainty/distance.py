"""The remaining distance to the minimum."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.covariance import Uncertainty
from risp_torch.inversion.uncertainty.unobservable import size_of
from risp_torch.scene.scene import Scene

SEARCH_MARGIN = 4.0  # times the distance to the lowest loss on the line, since the minimum lies beside the line


def distance_in_newton_steps(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, step: np.ndarray, max_steps: float
) -> float:
    """Distance to the minimum in units of a Gauss-Newton step, at least 1 and at most ``max_steps``.

    The estimate from the residual (``distance_in_steps``) assumes that the residual at the minimum is that of noise.
    Where the scene lacks something, a shadow for example, that residual stays, and the estimate is the whole range. A line search
    along the step bounds it: where the loss no longer falls, the minimum is passed.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the start of the step.
        step: [K] relative to the ranges.
        max_steps: distance that the residual allows, in steps.
    """
    if max_steps <= 1.0 or not np.abs(step).max() > 0:
        return 1.0
    farthest = min(max_steps, 1.0 / np.abs(step).max())  # the ranges
    lengths = np.append(0.0, np.minimum(2.0 ** np.arange(np.ceil(np.log2(max(farthest, 2.0))) + 1), farthest))
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    points = np.clip(linearisation.scaled + lengths[:, None] * step * unknowns.scaled_range(), low, high)
    losses = losses_at(scene, linearisation.comparison, unknowns, points)
    return float(np.clip(SEARCH_MARGIN * lengths[losses.argmin()], 1.0, max_steps))


def distance_in_steps(linearisation: Linearisation, step: np.ndarray, explained: float | None) -> float:
    """Distance to the minimum in units of a Gauss-Newton step, at least 1.

    The residual of an edge that is displaced by more than its softness grows only linearly with the displacement: a step
    is then as long as the edge is soft. The ratio of its decrease of the loss to the total decrease is that of step to distance.

    Args:
        linearisation: linearisation at the start of the step.
        step: [K] relative to the ranges.
        explained: mean squared residual at the minimum; None if unknown.
    """
    if explained is None:
        return 1.0
    normal_matrix = linearisation.normal_equations[0]
    decrease = float(step @ normal_matrix @ step) / linearisation.comparison.observation_count
    return max(1.0, (linearisation.loss - explained) / max(decrease, 1e-300))


def widened_by_distance(
    bars: Uncertainty,
    unknowns: Unknowns,
    step: np.ndarray,
    *,
    model_bars: Uncertainty | None = None,
    distance: float = 1.0,
    residual_fraction: float = 1.0,
) -> tuple[Uncertainty, list[str]]:
    """Error bars that include the distance to the minimum, and a sentence about it, if the search has not converged.

    At a minimum the Gauss-Newton step is zero. If it is longer than an error bar, the bar does not include the minimum.

    Args:
        bars: error bars at the estimate.
        unknowns: unknowns of the inversion.
        step: [K] step of the unknowns, scaled units.
        model_bars: error bars of the model of the step, relative to which its length is measured; ``bars`` by default.
        distance: distance to the minimum in steps (``distance_in_steps``).
        residual_fraction: root mean square of the residual at the minimum, divided by that at the estimate: a factor
            of the error bars there.

    Returns:
        The error bars, and a sentence on the step that is longest relative to its bar; none if the search has converged.
    """
    model_bars = model_bars or bars
    observable, ranges = np.array(model_bars.observable), unknowns.scaled_range()
    step_in_bars = np.where(observable, np.abs(step) / np.maximum(residual_fraction * model_bars.sd, 1e-300), 0.0)
    if not (step_in_bars > 1).any():
        return bars, []
    worst = int(step_in_bars.argmax())
    size = size_of(abs(float(step[worst])), unknowns.units[worst], unknowns.scales[worst])
    sentence = (
        f"not converged: the next Gauss-Newton step would move {unknowns.labels[worst]} by {size.removeprefix('± ')}, "
        f"{step_in_bars[worst]:.2g} error bars; the bars are widened by the remaining distance: search longer, or from other "
        "starts"
    )
    remaining = np.minimum(distance * np.abs(step), ranges)
    return bars.wider(np.where(observable, np.hypot(bars.sd, remaining), bars.sd), "distance"), [sentence]
