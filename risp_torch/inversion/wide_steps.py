"""Gauss-Newton steps whose derivatives are differences over wide steps: a search for losses that are rough in the small.

What a network reads of a picture wavers as edges move through the pixels. The waves are small beside what the network reads over
the whole film, yet their slopes are not: the loss has dents everywhere, in which a search along its gradient ends. Differences
over a good part of the allowed range average over them, and so does the loss of all the points that such a difference takes.

The mean of what these points show is smooth, too, but it is not what their middle shows where observations bend: with a second
derivative H along an unknown, points w to either side of it are off by H w^2 / 2, always to the same side. The last rounds,
whose ends are averaged in any case, look at the middle itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.comparison import Comparison, film_losses
from risp_torch.inversion.optimise import History
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.wide_rounds import WideSearch
from risp_torch.inversion.wide_settings import WideSteps
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError


def wide_gauss_newton(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: WideSteps, history: History,
    *, progress: bool = True,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Levenberg-Marquardt steps with differences over wide steps, from every start and then from the best one.

    A round takes two worlds for each direction (an unknown, or a knot of a sequence), one on either side. Their mean stands for
    the observations at the point (settling rounds have a world there), their differences for the Jacobian, and the mean of their
    losses for the loss. A step after which that is larger is taken back, and a shorter one tried.

    Args:
        scene, comparison, unknowns: of the inversion.
        values: physical values of the starts [S, K].
        settings: widths, reach, horizon.
        history: every round is added to it; its losses are the means over a round's worlds.
        progress: whether a bar is shown.

    Returns:
        Physical values [S, K] of where the starts have come to, and the number of the best one, all frames and the narrowest
        differences considered: its row is the estimate, with ``settling`` the mean of where the last steps lead.

    Raises:
        DivergenceError: no start could be simulated.
    """
    search = WideSearch(scene, comparison, unknowns, settings)
    tried, points, going = unknowns.scaled(values), [None] * len(values), list(range(len(values)))
    rounds, ends = len(settings.widths), []
    bar = tqdm(total=rounds + 1, desc="inverting", disable=not progress, mininterval=0.5)
    for number in range(rounds + 1):  # the last one looks at where the last step leads
        settled = number > rounds - settings.settling
        losses = np.full(len(points), np.nan)
        for start in going:
            if settled and points[start] is None and settings.narrow is not None:  # a look with wide steps tells how narrow
                points[start] = search.at(tried[start], number, centered=True)
            new = search.at(tried[start], number, centered=settled, before=points[start] if settled else None)
            points[start] = search.better(points[start], new, any_loss=settled)
            tried[start], losses[start] = search.step(points[start]), points[start].loss
        if not np.isfinite(losses[going]).any():
            raise DivergenceError("every start of the search diverged: take smaller steps (more substeps)", body="", step=0)
        if settled:
            lowest = int(np.nanargmin(losses))
            last = tried[lowest].copy()
            ends = [*ends, last] if settings.narrow is None or search.is_near(points[lowest], last) else []
        reached = np.array([point.scaled for point in points])
        for column, rows in ((history.losses, losses), (history.values, unknowns.physical_values(reached))):
            column.append(torch.as_tensor(rows).to(comparison.target))
        if number + 1 >= settings.trial_rounds and len(going) > 1:
            going = [int(np.nanargmin(losses))]
            history.stopped = [start for start in range(len(points)) if start not in going]
        bar.set_postfix(loss=f"{np.nanmin(losses):.3e}")
        bar.update()
    bar.close()
    best = int(np.nanargmin(losses))
    if settings.settling:
        reached[best] = np.mean(ends or [last], axis=0)
    return unknowns.physical_values(reached), best


def settle_whitened(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, end: np.ndarray, settings: WideSteps, history: History,
    *, start: int = 0, seed: int = 0, progress: bool = True,
) -> tuple[np.ndarray, Comparison]:  # fmt: skip
    """Feasible generalised least squares: take the settling rounds once more, with whitened observations.

    How errors hang together is seen at the estimate that plain squares have led to, as the motions of first guesses may be too
    far from the target's. A penalty on sequences keeps its share of the loss.

    Args:
        scene, comparison, unknowns: of the inversion.
        end: where the plain search has ended, physical values [K].
        settings: of that search.
        history: the points of these rounds are added to it, without losses, as those of whitened observations are in other units.
        start: number of the start that has ended there, among those of the history.
        seed: of what is drawn to see the errors.
        progress: whether a bar is shown.

    Returns:
        Physical values [K] and the whitened comparison; ``end`` and ``comparison`` where nothing tells how to whiten, or
        ``settings`` do not ask for it.

    Raises:
        DivergenceError: the motion cannot be simulated.
    """
    row = torch.as_tensor(unknowns.scaled(end)[None]).to(comparison.target)
    values = unknowns.from_scaled(row)
    whitened = comparison.whitened(scene, values, seed=seed) if settings.whiten else None
    if whitened is None:
        return end, comparison
    share = float(film_losses(scene, values, whitened, worlds=1)[0] / film_losses(scene, values, comparison, worlds=1)[0])
    smoothness = replace(unknowns.smoothness, weights=share * unknowns.smoothness.weights)
    rounds, unknowns = History(), replace(unknowns, smoothness=smoothness)
    ends, _ = wide_gauss_newton(scene, whitened, unknowns, end[None], settings.last_rounds(), rounds, progress=progress)
    for point in rounds.values:
        shown = torch.full_like(history.values[-1], math.nan)
        shown[start] = point[0]
        history.values.append(shown)
        history.losses.append(shown.new_full((len(shown),), math.nan))
    return ends[0], whitened
