"""The start of a film from its first pictures: poses of the bodies in the first one, then velocities and spins in the next.

Where the body of a guess and that of the film do not overlap, the loss has no slope, so poses are searched globally. They are
sampled between the bounds and compared with the first picture alone. The best distinct ones are refined by an evolution strategy
with separate parents, whose candidates are drawn ever closer to them, and then by Gauss-Newton steps. Velocities are found in the
same way from two pictures, and refined with a few more. Poses that look alike in the first picture are distinguished by the later
ones; if not, each becomes a start of the search for all unknowns.
"""

from __future__ import annotations

import json
import math

import numpy as np
from scipy.special import ndtr, ndtri
from tqdm import tqdm

from risp_torch.files.atomic import write_text
from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_settings import FindStart
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.start.first_pictures import check_first_picture, first_frames, start_comparisons
from risp_torch.inversion.start.refine_guesses import StartSteps
from risp_torch.inversion.start.starting_values import StartingValues
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.json_text import parse_json

_FILE = "start.json"
_MIN_DISTANCE = 0.05  # of the ranges: smallest distance of poses or velocities that count as different
_MAX_LOSS_RATIO = 4.0  # candidates with a loss this many times the lowest are no starts
_SEARCH_WIDTHS, _CHILDREN_PER_PARENT = (0.25, 0.12, 0.06, 0.03), 24  # widths of rounds, in parts of the ranges


def check_start(problem: Problem) -> None:
    """Raise a UserError if the start is to be found, and no starting value is unknown or the first picture is not compared."""
    if problem.search.find_start is not None:
        StartingValues.of(problem.scene, problem.unknowns)
        check_first_picture(problem.comparison)


def found_starts(problem: Problem, *, folder: RunFolder | None = None, progress: bool = True) -> np.ndarray:
    """The starts of a search: its own guesses, with starting values that fit the first pictures where these are to be found.

    Args:
        problem: the inversion.
        folder: folder of the run, in which the starts are kept as ``start.json``, and from which a resumed run takes them.
        progress: whether to show a progress bar.

    Returns:
        [S, K] physical values.

    Raises:
        UserError: see ``check_start``; the start in the folder is damaged; nothing moves in a film whose look is solved.
        DivergenceError: no candidate could be simulated.
    """
    unknowns = problem.unknowns
    if problem.search.find_start is None:
        return problem.initial
    if folder is not None and (folder.path / _FILE).is_file():
        return _read(folder, unknowns, problem.initial.shape)
    starting_values = StartingValues.of(problem.scene, unknowns)
    search = _Search(problem, starting_values, problem.search.find_start, progress)
    points, losses = search.run()
    starts = _starts_with_best(points, losses, unknowns.scaled(problem.initial), starting_values.all)
    values = np.clip(unknowns.physical_values(starts), *unknowns.bounds())
    if folder is not None:
        record = {"labels": unknowns.labels, "starts": values.tolist(), "losses": losses.tolist()}
        write_text(folder.path / _FILE, json.dumps(record, indent=2) + "\n")
    return values


class _Search:
    """The search for the start of one film, in scaled coordinates."""

    def __init__(self, problem: Problem, starting_values: StartingValues, settings: FindStart, progress: bool) -> None:
        self.problem, self.starting_values, self.settings = problem, starting_values, settings
        self.unknowns, self.progress = problem.unknowns, progress
        self.coarse, self.fine = start_comparisons(problem)
        self.low, self.high = (self.unknowns.scaled(bound) for bound in self.unknowns.bounds())
        self.random = np.random.default_rng([problem.seed, 1])
        last_picture = settings.frames or max(2, math.ceil(problem.scene.frames / 12))
        self.pictures = min(1 + last_picture, len(self.fine.frames))

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Candidates [M, K] in scaled units that fit the first pictures, the best first, and their losses [M]."""
        initial = self.unknowns.scaled(self.problem.initial)
        stages = [(1, self.starting_values.poses)] if len(self.starting_values.poses) else []
        stages += [(min(2, self.pictures), self.starting_values.rates)] if len(self.starting_values.rates) else []
        picture_counts = range(min(2, self.pictures), self.pictures + 1) if len(self.starting_values.rates) else [self.pictures]
        progress_bar = tqdm(total=len(stages) + len(picture_counts), desc="finding the start", disable=not self.progress)
        points = initial
        for pictures, unknown_indices in stages:
            points, losses = self._stage(points, pictures, unknown_indices)
            progress_bar.set_postfix(loss=f"{losses[0]:.3e}")
            progress_bar.update()
        for pictures in picture_counts:
            points, losses = self._steps(self.fine, pictures).refined(points, self.starting_values.all)
            points, losses = self._distinct(points, losses, self.starting_values.all, self.settings.keep)
            progress_bar.set_postfix(loss=f"{losses[0]:.3e}")
            progress_bar.update()
        progress_bar.close()
        return points, losses

    def _stage(self, parents: np.ndarray, pictures: int, unknown_indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Spread the unknowns at ``unknown_indices``, narrow the best down, and take Gauss-Newton steps of them alone."""
        steps = self._steps(self.coarse, pictures)
        points = self._spread(parents, unknown_indices)
        losses = steps.losses(points)
        if not np.isfinite(losses).any():
            raise DivergenceError(
                "no guess of the start could be simulated: change the bounds of the starting values", body="", step=0
            )
        distance_indices = unknown_indices if pictures == 1 else self.starting_values.all
        points, losses = self._distinct(points, losses, distance_indices, 2 * self.settings.keep)
        for width in _SEARCH_WIDTHS:
            points, losses = self._best_children(steps, points, losses, unknown_indices, width)
        points, losses = self._steps(self.fine, pictures).refined(points, unknown_indices)
        return self._distinct(points, losses, distance_indices, self.settings.keep)

    def _steps(self, comparison: Comparison, pictures: int) -> StartSteps:
        return StartSteps(self.problem.scene, first_frames(comparison, pictures), self.unknowns)

    def _spread(self, parents: np.ndarray, unknown_indices: np.ndarray) -> np.ndarray:
        """[N, K] the parents in turn, with quasi-random ``unknown_indices``: uniform between the bounds, or as the priors."""
        count = max(self.settings.candidates, len(parents))
        from scipy.stats import qmc  # takes most of a second

        quasi_random = qmc.Sobol(len(unknown_indices), seed=self.random).random(2 ** math.ceil(math.log2(count)))[:count]
        points = parents[np.arange(count) % len(parents)].copy()
        points[:, unknown_indices] = self.low[unknown_indices] + quasi_random * (self.high - self.low)[unknown_indices]
        priors = self.unknowns.priors
        for k, mean, sd in zip(priors.indices, priors.mean, priors.sd, strict=True):
            (column,) = np.nonzero(unknown_indices == k)
            if len(column):
                bound_quantiles = ndtr([(self.low[k] - mean) / sd, (self.high[k] - mean) / sd])
                drawn = mean + sd * ndtri(
                    bound_quantiles[0] + (bound_quantiles[1] - bound_quantiles[0]) * quasi_random[:, column[0]]
                )
                points[:, k] = np.clip(drawn, self.low[k], self.high[k])
        return points

    def _best_children(
        self, steps: StartSteps, points: np.ndarray, losses: np.ndarray, unknown_indices: np.ndarray, width: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each point [M, K], or the best of its children, whose ``unknown_indices`` differ from it by normal steps."""
        moves = np.zeros((len(points), _CHILDREN_PER_PARENT, points.shape[1]))
        moves[..., unknown_indices] = (
            width
            * (self.high - self.low)[unknown_indices]
            * self.random.standard_normal((*moves.shape[:2], len(unknown_indices)))
        )
        children = np.clip(points[:, None] + moves, self.low, self.high)
        candidates = np.concatenate([points[:, None], children], axis=1)
        candidate_losses = np.concatenate(
            [losses[:, None], steps.losses(children.reshape(-1, points.shape[1])).reshape(len(points), -1)], 1
        )
        best = candidate_losses.argmin(axis=1)
        rows = np.arange(len(points))
        return candidates[rows, best], candidate_losses[rows, best]

    def _distinct(
        self, points: np.ndarray, losses: np.ndarray, unknown_indices: np.ndarray, most: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """At most ``most`` of the points, the best first, that differ from all better ones at ``unknown_indices``."""
        relative_points = (points / (self.high - self.low))[:, unknown_indices]
        distinct: list[int] = []
        for k in np.argsort(losses):
            is_close = any(np.abs(relative_points[k] - relative_points[better]).max() < _MIN_DISTANCE for better in distinct)
            if len(distinct) < most and np.isfinite(losses[k]) and not is_close:
                distinct.append(int(k))
        return points[distinct], losses[distinct]


def _starts_with_best(points: np.ndarray, losses: np.ndarray, guesses: np.ndarray, unknown_indices: np.ndarray) -> np.ndarray:
    """The guesses [S, K], with the ``unknown_indices`` of the candidates that fit nearly as well as the best, in turn."""
    good_points = points[losses <= _MAX_LOSS_RATIO * losses[0]]
    starts = guesses.copy()
    starts[:, unknown_indices] = good_points[np.arange(len(starts)) % len(good_points)][:, unknown_indices]
    return starts


def _read(folder: RunFolder, unknowns: Unknowns, shape: tuple[int, ...]) -> np.ndarray:
    """The starts [S, K] of an unfinished run."""
    path = folder.path / _FILE
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        starts, labels = np.array(record["starts"], dtype=np.float64), record["labels"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: remove the folder to start the run again") from error
    if labels != unknowns.labels or starts.shape != shape:
        raise UserError(f"{path} is that of another run: remove the folder to start the run again")
    return starts
