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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.comparison import Comparison, film_losses
from risp_torch.inversion.losses.loss import mean_square
from risp_torch.inversion.optimise import History
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene import Scene
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import Count, FromZero, Positive, Rule, Share, checked

_LEAST_DAMPING, _MOST_DAMPING = 1e-6, 1e12  # of the normal equations' mean diagonal
_RISE = 4.0  # of the damping, until a step is short enough
_NARROWEST = 1e-5  # width of a difference in parts of the range
_SHORTER, _LONGER = 0.3, 2.0  # reach after a step that was taken back, and after one that was not


@checked
@dataclass(frozen=True, kw_only=True)
class WideSteps:
    """How the search goes.

    Attributes:
        widths: of the differences of each round, in parts of the allowed ranges.
        reach: longest change of an unknown in one round, in widths; shorter after steps that were taken back.
        first_frames: frame intervals of the film that the search begins with; None begins with the whole film.
        growth: part of the rounds over which the horizon grows from ``first_frames`` to the whole film.
        spacing: rows of a sequence (actions of so many frames) from one knot to the next: sequences change by straight lines
            between knots, which takes fewer worlds than if every row changed by itself (1).
        trial_rounds: rounds that every start takes; then the best one goes on alone.
        settling: last rounds, each of whose steps is taken whatever its loss, and the mean of where these lead is the estimate:
            near the minimum the dents decide which loss is lower, and they differ from point to point. Their residuals are those
            of the point itself. 0 ends at the lowest loss.
        narrow: of the settling rounds: their widths follow the film in place of the allowed range. A direction is as wide as
            changes the observations by so many times what the fit leaves of them (root mean squares), never wider than ``widths``
            say; rounds differ from each other as ``widths`` do, and those before a step that is longer than its width do not
            count in the mean. None leaves them parts of the range.
        whiten: whether the settling rounds are taken once more with whitened observations (``settle_whitened``), where the loss
            knows how to whiten them.

    Raises:
        UserError: there are no widths, or a setting is out of its range.
    """

    widths: Annotated[tuple[float, ...], Rule(shape=(None,), exact=True, above=0, most=0.5)]
    reach: Positive = 3.0
    first_frames: Count | None = None
    growth: Share = 0.5
    spacing: Count = 1
    trial_rounds: Count = 2
    settling: FromZero = 0
    narrow: Positive | None = None
    whiten: bool = False

    def __post_init__(self) -> None:
        if self.settling > len(self.widths):
            raise UserError(f"settling is {self.settling}: give at most as many rounds as there are widths ({len(self.widths)})")
        if (self.whiten or self.narrow is not None) and not self.settling:
            raise UserError("whiten and narrow are for the settling rounds: give settling of at least 1, or leave them out")

    def shortened(self, rounds: int | None, first_frames: int | None) -> WideSteps:
        """The first so many rounds, and another horizon to begin with; None leaves either as it is."""
        widths, first = self.widths[:rounds], self.first_frames if first_frames is None else first_frames
        return replace(self, widths=widths, first_frames=first, settling=min(self.settling, len(widths)))

    def last_rounds(self) -> WideSteps:
        """The settling rounds alone, over the whole film."""
        return replace(self, widths=self.widths[-self.settling :], first_frames=None, trial_rounds=1, whiten=False)

    def horizon(self, number: int, frames: int) -> int:
        """Frame intervals that round ``number`` sees."""
        first = min(self.first_frames or frames, frames)
        return first + round((frames - first) * min(1.0, number / max(1.0, self.growth * len(self.widths))))


# The usual search: the last seven rounds settle on the mean of where they lead, first plain, then whitened, with widths that
# follow what the film tells: where bounds are wide, parts of them would be too wide for the film.
WIDE_SEARCH = WideSteps(widths=(0.1,) * 3 + (0.08, 0.07, 0.06, 0.05, 0.05, 0.04, 0.04), settling=7, narrow=1.0, whiten=True)


@dataclass(frozen=True)
class _Point:
    """Where a start has come to, and what the worlds about it told.

    Attributes:
        scaled: the point [K], scaled units.
        loss: mean over the worlds about it, penalty included; infinite where none is finite.
        normal, gradient: J^T J [M, M] and J^T r [M] of the mean loss there, penalty included, along M directions.
        asked: width and horizon that the worlds were made with: only losses of the same ones can be compared.
        reach: longest change of an unknown that is tried next, in widths.
        widths: of the differences along each direction [M], parts of the ranges.
        left: mean square of what the observations would be off by after the next step.
    """

    scaled: np.ndarray
    loss: float
    normal: np.ndarray
    gradient: np.ndarray
    asked: tuple[float, int]
    reach: float
    widths: np.ndarray
    left: float = math.inf


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
    search = _Search(scene, comparison, unknowns, settings)
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


class _Search:
    """One film and its unknowns, in scaled coordinates."""

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns, settings: WideSteps) -> None:
        self.scene, self.comparison, self.unknowns, self.settings = scene, comparison, unknowns, settings
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.ranges = unknowns.scaled_range()
        self.smooth = unknowns.smoothness.matrix(self.ranges)
        self.directions = directions(unknowns, settings.spacing)

    def at(self, point: np.ndarray, number: int, *, centered: bool = False, before: _Point | None = None) -> _Point:
        """The point, moved away from the bounds by the width of round ``number``, and the worlds about it; and at it.

        ``before`` is the point whose film tells how wide the differences are, where the settings ask for that.
        """
        width = self.settings.widths[min(number, len(self.settings.widths) - 1)]
        horizon = self.settings.horizon(number, self.comparison.last)
        widths = self._widths(width, before)
        margin = (widths[:, None] * self.directions).max(axis=0) * self.ranges
        center = np.clip(point, self.low + margin, self.high - margin)
        normal, gradient, loss, off = self._equations(center, widths, horizon, centered=centered)
        left = off - float(gradient @ np.linalg.solve(_damped(normal), gradient))
        place = center / self.ranges
        pull = self.smooth @ place
        normal = normal + self.directions @ self.smooth @ self.directions.T
        gradient = gradient - self.directions @ pull
        loss += float(place @ pull)
        return _Point(center, loss, normal, gradient, (width, horizon), self.settings.reach, widths, max(left, 0.0))

    def _widths(self, width: float, before: _Point | None) -> np.ndarray:
        """Widths of the differences along each direction [M], in parts of the ranges.

        With a normal matrix N = J^T J / P and a mean square L of what the fit leaves, a change of d^T N d = L is seen as well as
        that is: the directions' widths are sqrt(L (N^-1)_mm), with the other directions free.
        """
        widths = np.full(len(self.directions), width)
        if self.settings.narrow is None or before is None or not math.isfinite(before.left):
            return widths
        share = width / max(self.settings.widths[-self.settings.settling :])
        own = self.settings.narrow * share * np.sqrt(before.left * np.diag(np.linalg.inv(_damped(before.normal))))
        return np.clip(own, _NARROWEST, width)

    def better(self, old: _Point | None, new: _Point, *, any_loss: bool = False) -> _Point:
        """The new point, with a longer reach; or the old one with a shorter reach, if the loss was lower there.

        ``any_loss`` takes the new one wherever its loss is finite.
        """
        if old is None or (any_loss and math.isfinite(new.loss)):
            return new
        if old.asked != new.asked and math.isfinite(new.loss):
            return replace(new, reach=old.reach)
        if new.loss < old.loss:
            return replace(new, reach=min(_LONGER * old.reach, self.settings.reach))
        return replace(old, reach=_SHORTER * old.reach)

    def is_near(self, point: _Point, end: np.ndarray) -> bool:
        """Whether a step ends [K] within the differences that it was made of."""
        return bool(np.all(np.abs(end - point.scaled) <= (point.widths[:, None] * self.directions).max(axis=0) * self.ranges))

    def step(self, point: _Point) -> np.ndarray:
        """Where to go next [K]: damped until no unknown changes by more than the point's reach."""
        damping = _LEAST_DAMPING
        while True:
            step = np.linalg.solve(_damped(point.normal, damping), point.gradient)
            if np.all(np.abs(step) <= point.reach * point.widths) or damping > _MOST_DAMPING:
                return np.clip(point.scaled + step @ self.directions * self.ranges, self.low, self.high)
            damping *= _RISE

    def _equations(
        self, center: np.ndarray, widths: np.ndarray, horizon: int, *, centered: bool
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """J^T J / P [M, M] and J^T r / P [M] of P observations along M directions, the mean loss on either side, and r^T r / P.

        The residual r is that of the centre itself, or of the mean over all worlds about it.
        """
        rows, total, losses, alive = [], 0.0, 0.0, 0
        target = self.comparison.target[: len(self.comparison.seen(horizon))]
        taken = 0
        for above, below, finite in self._pairs(center, widths, horizon):
            both = finite[: len(above)] & finite[len(above) :]
            some = torch.as_tensor(widths[taken : taken + len(above)]).to(above)
            pair, taken = (above - below).flatten(1) / (2 * some[:, None]), taken + len(above)
            rows.append(torch.where(both[:, None], pair, torch.zeros_like(pair)))
            observed = torch.cat([above, below])[finite]
            total = total + observed.sum(dim=0)
            losses += float(mean_square(observed, target).sum())
            alive += int(finite.sum())
        normal, gradient = np.zeros((len(self.directions), len(self.directions))), np.zeros(len(self.directions))
        (middle,), there = self._observe(center[None], horizon) if centered else ((total / max(alive, 1),), True)
        if not alive or not there:
            return normal, gradient, math.inf, math.inf
        jacobian, residual = torch.cat(rows), (target - middle).flatten()
        count = len(residual)
        for part in torch.arange(count).split(2**16):  # in double precision, all at once may be gigabytes
            some = jacobian[:, part[0] : part[-1] + 1].double()
            normal += (some @ some.T).cpu().numpy()
            gradient += (some @ residual[part[0] : part[-1] + 1].double()).cpu().numpy()
        return normal / count, gradient / count, losses / alive, float(residual.double().square().mean())

    def _pairs(
        self, center: np.ndarray, widths: np.ndarray, horizon: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Observations [k, n, ...] on either side of the centre in some directions after others, and which are finite [2 k]."""
        moves = widths[:, None] * self.directions * self.ranges
        count = max(1, min(32, self.comparison.worlds_at_once) // 2)
        for first in range(0, len(moves), count):
            some = moves[first : first + count]
            observed, finite = self._observe(np.concatenate([center + some, center - some]), horizon)
            yield observed[: len(some)], observed[len(some) :], finite

    def _observe(self, points: np.ndarray, horizon: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations [k, n, ...] of the worlds at points [k, K], and which of them are finite [k]."""
        rows = torch.as_tensor(points, dtype=bridge_dtype(), device=bridge_device())
        try:
            with torch.no_grad():
                return self.comparison.observe(self.scene, self.unknowns.from_scaled(rows), worlds=len(rows), horizon=horizon)
        except DivergenceError:  # none of these worlds stayed finite
            target = self.comparison.target[: len(self.comparison.seen(horizon))]
            return target.expand(len(rows), *target.shape), torch.zeros(len(rows), dtype=torch.bool)


def _damped(normal: np.ndarray, damping: float = _LEAST_DAMPING) -> np.ndarray:
    """Normal equations [M, M] with so many times their mean diagonal added to the diagonal."""
    return normal + damping * (np.trace(normal) / len(normal) + 1e-300) * np.eye(len(normal))


def directions(unknowns: Unknowns, spacing: int) -> np.ndarray:
    """What changes together [M, K], in parts of the ranges: single unknowns, or hats over the rows of sequences.

    Args:
        unknowns: those with an axis are sequences along their first one.
        spacing: rows from the middle of a hat to the next one's, or a little fewer, so that one stands at either end.
    """
    blocks = []
    for name in unknowns.groups:
        shape = np.shape(unknowns.params[name].value)
        rows, columns = (shape[0], int(np.prod(shape[1:]))) if shape else (1, 1)
        knots = np.linspace(0, rows - 1, 1 + math.ceil((rows - 1) / spacing))
        hats = np.stack([np.interp(np.arange(rows), knots, unit) for unit in np.eye(len(knots))])
        blocks.append(np.kron(hats, np.eye(columns)))
    whole = np.zeros((sum(len(block) for block in blocks), len(unknowns.scaled_range())))
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole
