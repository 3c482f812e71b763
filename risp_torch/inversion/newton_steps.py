"""Levenberg-Marquardt steps from every start, over a horizon that grows: the default search for few unknowns.

Masses and contact parameters have similar effects on a film, so the loss has a narrow valley, along which the gradient is
small. A Gauss-Newton step uses the correlation of the unknowns, but needs a start near the minimum. Over the first
few frames, nearly any start is near enough, and each additional frame moves the minimum only a little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Annotated

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.comparison import Comparison
from risp_torch.inversion.linearisation import Linearisation, linearise, losses_at
from risp_torch.inversion.optimise import History
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError
from ti_sim.base.rules import Count, Rule, checked

_DAMPINGS = 10.0 ** np.arange(-2, 4)  # tried in every round, relative to that of the last round
_LONGER = (8.0, 2.5)  # steps that are tried as well where worlds cost time: edges in pictures make Gauss-Newton's too short
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-6, 1e6
_LEAST_SCALE = 1e-12  # of the largest of Marquardt's scales
_LONGEST = 0.15  # largest change of an unknown in one round, relative to its range
_SETTLED = 0.1  # relative decrease of the loss below which the search over these frames ends
_DONE = 1e-6  # the same over the whole film
_BEHIND = 4.0  # a start is stopped when another one has a loss this many times smaller over the same frames


@checked
@dataclass(frozen=True, kw_only=True)
class NewtonSteps:
    """Settings of the search.

    Attributes:
        rounds: largest number of rounds. The horizon of a start grows when a round hardly lowers its loss, up to all frames.
        first_frames: frame intervals of the film that the search begins with; None takes a sixth of them.
        growth: factor by which the horizon grows.

    Raises:
        UserError: a setting is out of its range.
    """

    rounds: Count = 30
    first_frames: Count | None = None
    growth: Annotated[float, Rule(above=1)] = 1.25

    def horizons(self, frames: int) -> list[int]:
        """Successive horizons in frame intervals, for a film of ``frames`` intervals."""
        seen = [min(self.first_frames or math.ceil(frames / 6), frames)]
        while seen[-1] < frames:
            seen.append(min(frames, max(seen[-1] + 1, round(self.growth * seen[-1]))))
        return seen


def newton_descend(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: NewtonSteps, history: History,
    *, near: float = 0.0, folder: RunFolder | None = None, progress: bool = True,
) -> np.ndarray:  # fmt: skip
    """Search from every start independently.

    A round takes a Jacobian by central differences and tries steps of several dampings, in the unknowns' own scales (Marquardt,
    SIAM J. Appl. Math. 11, 1963). The best is taken if its loss over the same frames is lower; scenes with implicit steps try
    longer steps too, and larger dampings only where smaller ones do not lower it.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts [S, K].
        settings: rounds and horizons.
        history: every round appends the losses before its step, over the horizon of a start, and the values.
        near: losses with a smaller difference count as equal.
        folder: folder in which the search is saved after every round, and from which it is resumed.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] of the ends of the starts.
    """
    search, horizons = _Search(scene, comparison, unknowns), settings.horizons(comparison.last)
    run = _Run.begin(unknowns.scaled(values), len(horizons))
    first = run.resume(folder, history, comparison.target.device)
    bar = tqdm(total=settings.rounds, initial=first, desc="inverting", disable=not progress, mininterval=0.5)
    for number in range(first, settings.rounds):
        if not run.going.any():
            break
        before, losses = run.points.copy(), run.losses.copy()
        before[history.stopped] = losses[history.stopped] = math.nan
        for start in np.flatnonzero(run.going):
            losses[start] = search.round(run, start, horizons)
        history.losses.append(torch.as_tensor(losses).to(comparison.target))
        history.values.append(torch.as_tensor(unknowns.physical_values(before)).to(comparison.target))
        history.stopped = sorted({*history.stopped, *run.stop(near)})
        if folder is not None:
            run.save(folder, history, number + 1)
        bar.set_postfix(loss=f"{np.nanmin(losses, initial=math.inf):.3e}")
        bar.update()
    bar.close()
    return unknowns.physical_values(run.points)


@dataclass(frozen=True)
class _Run:
    """State of the S starts; its arrays are modified in place.

    Attributes:
        points: [S, K] scaled units.
        damping: [S] of the last steps.
        stage: [S] index of a start's horizon.
        losses: [S] over these frames; NaN where the world diverged.
        left: [S, H] losses with which the starts reached the next horizon; infinite before that.
        going: [S] whether a start is active.
    """

    points: np.ndarray
    damping: np.ndarray
    stage: np.ndarray
    losses: np.ndarray
    left: np.ndarray
    going: np.ndarray

    @staticmethod
    def begin(points: np.ndarray, stages: int) -> _Run:
        """All starts at the first horizon."""
        count = len(points)
        return _Run(
            points.copy(), np.full(count, _FIRST_DAMPING), np.zeros(count, dtype=np.int64), np.full(count, np.nan),
            np.full((count, stages), np.inf), np.ones(count, dtype=bool),
        )  # fmt: skip

    def stop(self, near: float) -> list[int]:
        """Stop the starts that are far behind another one over the same frames; return their indices."""
        least = self.left.min(axis=0)
        last = [row[np.isfinite(row)].size - 1 for row in self.left]
        behind = [
            start for start, stage in enumerate(last)
            if stage >= 0 and self.going[start] and self.left[start, stage] > _BEHIND * least[stage] + near
        ]  # fmt: skip
        self.going[behind] = False
        return behind

    def save(self, folder: RunFolder, history: History, number: int) -> None:
        """Save the run after ``number`` rounds."""
        tensors = {f"run.{part.name}": torch.as_tensor(getattr(self, part.name)) for part in fields(self)}
        tensors |= {"losses": torch.stack(history.losses), "values": torch.stack(history.values)}
        folder.save_checkpoint(tensors, {"iteration": number, "stopped": history.stopped})

    def resume(self, folder: RunFolder | None, history: History, device: torch.device) -> int:
        """Load what ``save`` wrote, the history to this device; the next round."""
        saved = folder.load_checkpoint() if folder is not None else None
        if saved is None:
            return 0
        tensors, metadata = saved
        for part in fields(self):
            getattr(self, part.name)[...] = tensors[f"run.{part.name}"].numpy()
        history.losses.extend(tensors["losses"].to(device))
        history.values.extend(tensors["values"].to(device))
        history.stopped = list(metadata["stopped"])
        return int(metadata["iteration"])


class _Search:
    """One film and its unknowns, in scaled coordinates."""

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns) -> None:
        self.scene, self.comparison, self.unknowns = scene, comparison, unknowns
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.ranges = unknowns.scaled_range()

    @property
    def one_by_one(self) -> bool:
        """Whether each world costs nearly as much as one alone."""
        return self.scene.stepping.is_implicit

    def seen(self, horizon: int) -> Comparison:
        """The comparison of the frames up to a horizon."""
        frames = self.comparison.seen(horizon)
        return replace(self.comparison, target=self.comparison.target[: len(frames)], frames=frames)

    def round(self, run: _Run, start: int, horizons: list[int]) -> float:
        """One round of a start; its loss before the step, NaN where the world diverged."""
        stage = run.stage[start]
        seen, whole = self.seen(horizons[stage]), stage == len(horizons) - 1
        point, damping, loss, lowest = self._tried(seen, run.points[start], run.damping[start])
        run.points[start], run.damping[start], run.losses[start] = point, damping, lowest
        if math.isnan(loss) or (whole and loss - lowest <= _DONE * loss):
            run.going[start] = False
        elif not whole and loss - lowest <= _SETTLED * loss:
            run.left[start, stage] = lowest
            run.stage[start] += 1
            run.damping[start] = min(damping, _FIRST_DAMPING)
        return loss

    def _tried(self, seen: Comparison, point: np.ndarray, damping: float) -> tuple[np.ndarray, float, float, float]:
        """The end of a round from a point [K], its damping, and the losses before and after; NaN if worlds diverge."""
        nowhere = (point, _MOST_DAMPING, math.nan, math.nan)
        try:
            at = linearise(self.scene, seen, self.unknowns, self.unknowns.physical_values(point))
        except DivergenceError:  # neither this point nor any about it can be simulated
            return nowhere
        if not at.is_finite:
            return nowhere
        lengths, dampings = np.ones(len(_DAMPINGS)), damping * _DAMPINGS
        if self.one_by_one:
            lengths, dampings = np.append(_LONGER, lengths), np.append(np.full(len(_LONGER), dampings[0]), dampings)
        steps = [self._step(at, size, length) for size, length in zip(dampings, lengths, strict=True)]
        tries = [np.clip(point + step * self.ranges, self.low, self.high) for step in steps]
        losses = self._losses(seen, [point, *tries])
        best = int(losses.argmin())
        if best == 0:
            return point, min(30 * damping, _MOST_DAMPING), losses[0], losses[0]
        return tries[best - 1], float(np.clip(dampings[best - 1], _LEAST_DAMPING, _MOST_DAMPING)), losses[0], losses[best]

    def _losses(self, seen: Comparison, points: list[np.ndarray]) -> np.ndarray:
        """Losses [M] at points, of which the first is where the round begins.

        Worlds with implicit steps cost time each: they are tried a few at a time, until one lowers the loss; the others have
        infinite losses.
        """
        together = 2 + len(_LONGER) if self.one_by_one else len(points)
        losses = np.full(len(points), np.inf)
        for first in range(0, len(points), together):
            some = slice(first, first + together)
            losses[some] = losses_at(self.scene, seen, self.unknowns, np.array(points[some]))
            if losses.min() < losses[0]:
                break
        return losses

    def _step(self, at: Linearisation, damping: float, length: float) -> np.ndarray:
        """Damped Gauss-Newton step [K], ``length`` times as long, in parts of the ranges, none longer than ``_LONGEST``.

        Unknowns that the current frames do not determine do not change: besides Marquardt's scales, a move over a whole range
        costs as much as the whole residual, times the damping. A residual that is zero to the last bit leaves a part of the
        largest scale, without which the matrix would be singular.
        """
        normal, gradient = at.normal_equations
        normal, gradient = normal + at.prior, gradient + at.pull
        scales = np.diag(normal)
        ridge = np.maximum(scales + at.loss * at.comparison.count, _LEAST_SCALE * scales.max() + 1e-300)
        step = length * np.linalg.solve(normal + damping * np.diag(ridge), gradient)
        return step * min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
