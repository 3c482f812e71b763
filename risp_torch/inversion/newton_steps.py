"""Levenberg-Marquardt steps from every start, over a horizon that grows: the usual search where few numbers are unknown.

Masses and contact numbers change a film in much the same way, so that the loss is a narrow valley, along whose floor a gradient
hardly points. A Gauss-Newton step knows how the unknowns go together. It needs a start near enough to be believed: over the first
frames of a film, where little has happened, that is nearly any start, and each frame more moves the minimum by a little only.
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

_DAMPINGS = 10.0 ** np.arange(-2, 4)  # tried in every round, in parts of the last round's
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-6, 1e6
_LONGEST = 0.15  # change of an unknown in one round, in parts of its range
_SETTLED = 0.1  # a round that lowers the loss by a smaller part ends the search over these frames
_DONE = 1e-6  # the same over the whole film
_BEHIND = 4.0  # a start is stopped when over the same frames another one has come to a loss so many times smaller


@checked
@dataclass(frozen=True, kw_only=True)
class NewtonSteps:
    """How the search goes.

    Attributes:
        rounds: at most. A start sees more frames once a round hardly lowers its loss, and ends when it sees all of them.
        first_frames: frame intervals of the film that the search begins with; None takes a sixth of them.
        growth: how many times more frames are seen next.

    Raises:
        UserError: a setting is out of its range.
    """

    rounds: Count = 30
    first_frames: Count | None = None
    growth: Annotated[float, Rule(above=1)] = 1.25

    def horizons(self, frames: int) -> list[int]:
        """Frame intervals that are seen one after another, of a film of so many."""
        seen = [min(self.first_frames or math.ceil(frames / 6), frames)]
        while seen[-1] < frames:
            seen.append(min(frames, max(seen[-1] + 1, round(self.growth * seen[-1]))))
        return seen


def newton_descend(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: NewtonSteps, history: History,
    *, near: float = 0.0, folder: RunFolder | None = None, progress: bool = True,
) -> np.ndarray:  # fmt: skip
    """Search from every start by itself.

    A round takes a Jacobian by central differences and tries steps of several dampings, in the unknowns' own scales (Marquardt,
    SIAM J. Appl. Math. 11, 1963). The best is taken if its loss over the same frames is lower.

    Args:
        scene, comparison, unknowns: of the inversion.
        values: physical values of the starts [S, K].
        settings: rounds and horizons.
        history: every round is added to it: the losses before its step, over the frames that a start sees, and the values.
        near: losses that differ by less count as equal.
        folder: where the search is saved after every round, and from where it goes on.
        progress: whether a bar is shown.

    Returns:
        Physical values [S, K] of where the starts have come to.
    """
    search, horizons = _Search(scene, comparison, unknowns), settings.horizons(comparison.last)
    run = _Run.begin(unknowns.scaled(values), len(horizons))
    first = run.resume(folder, history)
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
    """Where the S starts have come to; its arrays change.

    Attributes:
        points: [S, K] scaled units.
        damping: [S] of the last steps.
        stage: [S] which of the horizons a start sees.
        losses: [S] over these frames; NaN where the world diverged.
        left: [S, H] losses with which the starts went on to the next horizon; infinite where they did not.
        going: [S] whether a start goes on.
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
        """Stop the starts that are far behind another one over the same frames; their numbers."""
        least = self.left.min(axis=0)
        last = [row[np.isfinite(row)].size - 1 for row in self.left]
        behind = [
            start for start, stage in enumerate(last)
            if stage >= 0 and self.going[start] and self.left[start, stage] > _BEHIND * least[stage] + near
        ]  # fmt: skip
        self.going[behind] = False
        return behind

    def save(self, folder: RunFolder, history: History, number: int) -> None:
        """Save the run after so many rounds."""
        tensors = {f"run.{part.name}": torch.as_tensor(getattr(self, part.name)) for part in fields(self)}
        tensors |= {"losses": torch.stack(history.losses), "values": torch.stack(history.values)}
        folder.save_checkpoint(tensors, {"iteration": number, "stopped": history.stopped})

    def resume(self, folder: RunFolder | None, history: History) -> int:
        """Load what ``save`` wrote; the round to go on with."""
        saved = folder.load_checkpoint() if folder is not None else None
        if saved is None:
            return 0
        tensors, metadata = saved
        for part in fields(self):
            getattr(self, part.name)[...] = tensors[f"run.{part.name}"].numpy()
        history.losses.extend(tensors["losses"])
        history.values.extend(tensors["values"])
        history.stopped = list(metadata["stopped"])
        return int(metadata["iteration"])


class _Search:
    """One film and its unknowns, in scaled coordinates."""

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns) -> None:
        self.scene, self.comparison, self.unknowns = scene, comparison, unknowns
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.ranges = unknowns.scaled_range()

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
        """Where a round leads from a point [K], the damping there, and the losses before and after; NaN where worlds diverge."""
        nowhere = (point, _MOST_DAMPING, math.nan, math.nan)
        try:
            at = linearise(self.scene, seen, self.unknowns, self.unknowns.physical_values(point))
        except DivergenceError:  # neither this point nor any about it can be simulated
            return nowhere
        if not torch.isfinite(at.residual).all() or not torch.isfinite(at.jacobian).all():
            return nowhere
        dampings = damping * _DAMPINGS
        tries = [np.clip(point + self._step(at, size) * self.ranges, self.low, self.high) for size in dampings]
        losses = losses_at(self.scene, seen, self.unknowns, np.array([point, *tries]))
        best = int(losses.argmin())
        if best == 0:
            return point, min(30 * damping, _MOST_DAMPING), losses[0], losses[0]
        return tries[best - 1], float(np.clip(dampings[best - 1], _LEAST_DAMPING, _MOST_DAMPING)), losses[0], losses[best]

    def _step(self, at: Linearisation, damping: float) -> np.ndarray:
        """Damped Gauss-Newton step [K] in parts of the ranges, none longer than ``_LONGEST``.

        What the frames so far do not tell stays where it is: beside Marquardt's scales, a move over a whole range costs as much
        as the whole residual, times the damping.
        """
        normal, gradient = at.normal_equations
        normal, gradient = normal + at.prior, gradient + at.pull
        ridge = np.diag(normal) + at.loss * len(at.residual) + 1e-300
        step = np.linalg.solve(normal + damping * np.diag(ridge), gradient)
        return step * min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
