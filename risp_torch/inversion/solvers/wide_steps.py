"""Gauss-Newton steps with derivatives from wide finite differences: a search for losses that are locally non-smooth.

The predictions of a network fluctuate as edges move through pixels. The fluctuations are small relative to the changes over
the whole film, but their slopes are not: the loss has many local minima, in which gradient descent ends. Differences
over a large part of the allowed range average over them, and so does the mean loss of the points of such a difference.

The mean observation of these points is also smooth, but differs from that of their centre if observations are nonlinear: with a
second derivative H along an unknown, the mean of points at a distance w is biased by H w^2 / 2. The last rounds,
whose ends are averaged, evaluate the centre.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.search_settings import WideSteps
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History, HistoryCheckpoint
from risp_torch.inversion.solvers.wide_differences import Point, WideSearch
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError


def wide_gauss_newton(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: WideSteps, history: History,
    *, refining: bool = False, checkpoint: SearchCheckpoint | None = None, progress: bool = True,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Levenberg-Marquardt steps with wide finite differences, from every start and then from the best one.

    A round simulates two worlds per direction (an unknown, or a knot of a sequence), one on each side. Their mean approximates
    the observations at the point (settling rounds have a world there), their differences give the Jacobian, and the mean of their
    losses the loss. A step that increases it is rejected, and a shorter one is tried.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts [S, K].
        settings: widths, step limit, horizon.
        history: history to which every round is appended; its losses are means over a round's worlds.
        checkpoint: saves the search after every round, and resumes it.
        refining: whether the loss holds what it solves at each round's centre (``Loss.frozen_at``), for narrow differences.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] of where the starts have come to, and the number of the best one, with all frames and the narrowest
        differences: its row is the estimate, with ``settling`` the mean end of the last steps.

    Raises:
        DivergenceError: no start could be simulated.
    """
    search = WideSearch(scene, comparison, unknowns, settings, refining=refining)
    rounds, saved = len(settings.widths), HistoryCheckpoint(checkpoint, history, comparison.target.device)
    state = saved.load() or _first_state(unknowns.scaled(values))
    tried, active, averaged, last, losses = (state[name] for name in ("tried", "going", "ends", "last", "losses"))
    points = [
        None if point is None else Point(**point | {"evaluation_key": tuple(point["evaluation_key"])})
        for point in state["points"]
    ]
    bar = tqdm(total=rounds + 1, initial=state["rounds"], desc="inverting", disable=not progress, mininterval=0.5)
    for number in range(state["rounds"], rounds + 1):  # the last one evaluates the end of the last step
        settled = number > rounds - settings.settling
        losses = np.full(len(points), np.nan)
        for start in active:
            if settled and points[start] is None and settings.narrow is not None:  # wide steps determine the narrow widths
                points[start] = search.evaluate(tried[start], number, centered=True)
            new = search.evaluate(tried[start], number, centered=settled, before=points[start] if settled else None)
            points[start] = search.better(points[start], new, any_loss=settled)
            tried[start], losses[start] = search.step(points[start]), points[start].loss
        if not np.isfinite(losses[active]).any():
            raise DivergenceError("every start of the search diverged: take smaller steps (more substeps)", body="", step=0)
        if settled:
            lowest = int(np.nanargmin(losses))
            last = tried[lowest].copy()
            averaged = [*averaged, last] if settings.narrow is None or search.is_near(points[lowest], last) else []
        reached = np.array([point.scaled for point in points])
        for column, rows in ((history.losses, losses), (history.values, unknowns.physical_values(reached))):
            column.append(torch.as_tensor(rows).to(comparison.target))
        if number + 1 >= settings.trial_rounds and len(active) > 1:
            active = [int(np.nanargmin(losses))]
            history.stopped = [start for start in range(len(points)) if start not in active]
        saved.save({
            "rounds": number + 1, "tried": tried, "points": [None if p is None else vars(p) for p in points], "going": active,
            "ends": averaged, "last": last, "losses": losses,
        })  # fmt: skip
        bar.set_postfix(loss=f"{np.nanmin(losses):.3e}")
        bar.update()
    bar.close()
    best, reached = int(np.nanargmin(losses)), np.array([point.scaled for point in points])
    if settings.settling:
        reached[best] = np.mean(averaged or [last], axis=0)
    return unknowns.physical_values(reached), best


def _first_state(scaled: np.ndarray) -> dict[str, Any]:
    """The state before the first round, from starts [S, K] in scaled coordinates."""
    count = len(scaled)
    return {
        "rounds": 0, "tried": scaled, "points": [None] * count, "going": list(range(count)), "ends": [], "last": None,
        "losses": np.full(count, np.nan),
    }  # fmt: skip


def refine_whitened(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, minimum: np.ndarray, settings: WideSteps, history: History,
    *, start: int = 0, seed: int = 0, checkpoint: SearchCheckpoint | None = None, progress: bool = True,
) -> tuple[np.ndarray, Comparison]:  # fmt: skip
    """Feasible generalised least squares: repeat the settling rounds with whitened observations.

    The covariance of the errors is measured at the estimate of plain least squares, because the motions of first guesses may be
    too far from the target's. A penalty on sequences keeps its relative weight, as does the least variance that priors assume.

    Args:
        scene, comparison, unknowns: those of the inversion.
        minimum: end of the plain search, physical values [K].
        settings: settings of that search.
        history: the points of these rounds are appended, without losses, because those of whitened observations have other units.
        start: index of that start in the history.
        seed: seed of the samples for the covariance.
        checkpoint: saves these rounds, and resumes them.
        progress: whether to show a progress bar.

    Returns:
        Physical values [K] and the whitened comparison; ``minimum`` and ``comparison`` if the covariance is unknown, or
        ``settings`` do not require it.

    Raises:
        DivergenceError: the motion cannot be simulated.
    """
    row = torch.as_tensor(unknowns.scaled(minimum)[None]).to(comparison.target)
    values = unknowns.from_scaled(row)
    whitened = comparison.whitened(scene, values, seed=seed) if settings.whiten else None
    if whitened is None:
        return minimum, comparison
    share = float(film_losses(scene, values, whitened, worlds=1)[0] / film_losses(scene, values, comparison, worlds=1)[0])
    smoothness = replace(unknowns.smoothness, weights=share * unknowns.smoothness.weights)
    priors = replace(unknowns.priors, floor=share * unknowns.priors.floor)
    rounds, unknowns = History(), replace(unknowns, smoothness=smoothness, priors=priors)
    minima, _ = wide_gauss_newton(
        scene, whitened, unknowns, minimum[None], settings.last_rounds(), rounds, checkpoint=checkpoint, progress=progress
    )
    for point in rounds.values:
        row_values = torch.full_like(history.values[-1], math.nan)
        row_values[start] = point[0]
        history.values.append(row_values)
        history.losses.append(row_values.new_full((len(row_values),), math.nan))
    return minima[0], whitened
