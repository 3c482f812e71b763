"""Settings of the searches of an inversion, one dataclass for each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np

from risp_torch.least_squares.damping import MarquardtDamping
from risp_torch.least_squares.horizon import GrowingHorizon
from risp_torch.least_squares.loop import Policy
from risp_torch.least_squares.step_search import RelativeDampings
from risp_torch.least_squares.termination import Termination
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, Rule, UnitInterval, checked
from ti_sim.rollout.adjoint import Adjoint

MEETING_DISTANCE = 2e-3  # of the ranges: nearer starts are in one minimum of the search, which those of the refinement lie in


@checked
@dataclass(frozen=True, kw_only=True)
class NewtonSteps:
    """Settings of Levenberg-Marquardt steps over a growing horizon.

    Attributes:
        rounds: largest number of rounds. The horizon of a start grows when a round hardly lowers its loss, up to all frames.
        first_frames: frame intervals of the first horizon; None takes a sixth of the film.
        growth: factor by which the horizon grows.

    Raises:
        UserError: a setting is out of its range.
    """

    rounds: Count = 30
    first_frames: Count | None = None
    growth: Annotated[float, Rule(above=1)] = 1.25

    def horizons(self, frames: int) -> list[int]:
        """Successive horizons in frame intervals, for a film of ``frames`` intervals."""
        horizons = [min(self.first_frames or math.ceil(frames / 6), frames)]
        while horizons[-1] < frames:
            horizons.append(min(frames, max(horizons[-1] + 1, round(self.growth * horizons[-1]))))
        return horizons

    def policy(self, stages: int, *, margin: float, implicit: bool, serial: bool = False) -> Policy:
        """The parts of the search.

        Args:
            stages: number of horizons.
            margin: losses with a smaller difference count as equal.
            implicit: whether the scene has implicit steps, so that each world costs time.
            serial: whether each world costs time in the loss (``Loss.serial``).
        """
        # Worlds that cost time are tried a few at a time. Implicit scenes try longer steps first: edges in pictures make those of
        # Gauss-Newton too short.
        longer, at_once = (8.0, 2.5) if implicit else (), 4 if implicit or serial else None
        search = RelativeDampings(
            factors=10.0 ** np.arange(-2, 4), first=1e-2, least=1e-6, most=1e6, rise=30.0, longer=longer, at_once=at_once
        )
        return Policy(
            MarquardtDamping(), search, self.rounds, limit=0.15, termination=Termination(decrease=1e-4),
            horizon=GrowingHorizon(stages, settled=0.1, behind=4.0, margin=margin), meeting=MEETING_DISTANCE,
        )  # fmt: skip


OptimizerName = Literal["adam", "rmsprop", "lbfgs"]


@checked
@dataclass(frozen=True, kw_only=True)
class OptimiseSettings:
    """Settings of gradient descent.

    Attributes:
        optimizer: "adam", "rmsprop" (RISP's) or "lbfgs" (each start separately, strong Wolfe line search).
        iterations: gradient steps.
        learning_rate: size of a step, in the unbounded unit-scale variables.
        decay: whether the rate decreases by a cosine to a hundredth (adam, rmsprop) or is constant.
        smoothing: factor of rmsprop's running mean of squared gradients, in [0, 1).
        first_frames: frame intervals of the first horizon; None takes the whole film.
        growth: fraction of the iterations over which the horizon grows from ``first_frames`` to the whole film.
        keep: pairs (share of the iterations, starts), with increasing shares and decreasing numbers: after that share only this
            number of starts, those with the lowest losses, continue (successive halving); the others are stopped, are not
            refined, and take no more time. Not with lbfgs.
        adjoint: how rollouts keep states, which changes time and memory alone; None as ``Scene.rollout`` chooses.

    Raises:
        UserError: a setting is out of its range.
    """

    optimizer: OptimizerName = "adam"
    iterations: Count = 60
    learning_rate: Positive = 0.1
    decay: bool = True
    smoothing: Annotated[float, Rule(minimum=0, below=1)] = 0.9
    first_frames: Count | None = None
    growth: UnitInterval = 0.6
    keep: Annotated[tuple[tuple[float, int], ...], Rule(shape=(None, 2), empty=True, exact=True, minimum=0)] = ()
    adjoint: Adjoint | None = None

    def __post_init__(self) -> None:
        self._check_keep()

    def horizon(self, iteration: int, frames: int) -> int:
        """Horizon of the loss of an iteration, frame intervals."""
        first = min(self.first_frames or frames, frames)
        progress = min(1.0, iteration / max(1.0, self.growth * self.iterations))
        return first + round((frames - first) * progress)

    def rate(self, iteration: int) -> float:
        """Learning rate of an iteration: cosine from ``learning_rate`` to a hundredth of it, or constant without ``decay``."""
        if not self.decay:
            return self.learning_rate
        cosine = 0.5 * (1 + math.cos(math.pi * iteration / self.iterations))
        return self.learning_rate * (0.01 + 0.99 * cosine)

    def kept(self, iteration: int) -> int | None:
        """Number of starts that continue after an iteration; None if none is stopped then."""
        counts = [count for fraction, count in self.keep if math.ceil(fraction * self.iterations - 1e-9) == iteration]
        return min(counts, default=None)

    def _check_keep(self) -> None:
        if self.keep and self.optimizer == "lbfgs":
            raise UserError("keep stops starts of a batch, and lbfgs optimises each start separately: choose adam or rmsprop")
        fractions, counts = [fraction for fraction, _ in self.keep], [count for _, count in self.keep]
        is_rising = all(a < b for a, b in pairwise([0.0, *fractions, 1.0]))
        is_falling = all(a > b for a, b in pairwise([*counts, 0])) and all(count == int(count) for count in counts)
        if self.keep and not (is_rising and is_falling):
            raise UserError(
                f"keep is {', '.join(f'{fraction:g}:{count}' for fraction, count in self.keep)}: "
                "give shares of the iterations that "
                "rise between 0 and 1, each with fewer starts than before, at least 1"
            )


@checked
@dataclass(frozen=True, kw_only=True)
class WideSteps:
    """Settings of Gauss-Newton steps with wide finite differences.

    Attributes:
        widths: widths of the differences of each round, relative to the allowed ranges.
        trust_radius: first and largest radius of the trust region: change of an unknown in one round, in widths. The radius
            shrinks after a rejected step and grows after an accepted one.
        first_frames: frame intervals of the first horizon; None takes the whole film.
        growth: fraction of the rounds over which the horizon grows from ``first_frames`` to the whole film.
        spacing: rows of a sequence (such as actions) from one knot to the next: changes of sequences are piecewise linear
            between knots, which needs fewer worlds than separate rows (1).
        trial_rounds: rounds of every start; then only the best one continues.
        settling_rounds: number of last rounds, in which every step is accepted; the estimate is the mean of their ends:
            near the minimum, differences of the loss are due to small local minima. Their residuals are those
            of the point itself. 0 ends at the lowest loss.
        settling_residual_ratio: determines the widths of the settling rounds from the film instead of the allowed range: a
            direction has the width that changes the observations by this many times the residual (root mean squares), at most
            ``widths``. Rounds differ from each other as ``widths`` do, and rounds before a step longer than its width do not
            contribute to the mean. None keeps widths relative to the range.
        whiten: whether to repeat the settling rounds with whitened observations (``refine_whitened``), if the loss
            can whiten them.

    Raises:
        UserError: there are no widths, or a setting is out of its range.
    """

    widths: Annotated[tuple[float, ...], Rule(shape=(None,), exact=True, above=0, maximum=0.5)]
    trust_radius: Positive = 3.0
    first_frames: Count | None = None
    growth: UnitInterval = 0.5
    spacing: Count = 1
    trial_rounds: Count = 2
    settling_rounds: FromZero = 0
    settling_residual_ratio: Positive | None = None
    whiten: bool = False

    def __post_init__(self) -> None:
        if self.settling_rounds > len(self.widths):
            raise UserError(
                f"settling_rounds is {self.settling_rounds}: give at most as many rounds as there are widths ({len(self.widths)})"
            )
        if (self.whiten or self.settling_residual_ratio is not None) and not self.settling_rounds:
            raise UserError(
                "whiten and settling_residual_ratio are for the settling rounds: give settling_rounds of at least 1, or leave "
                "them out"
            )

    def shortened(self, rounds: int | None, first_frames: int | None) -> WideSteps:
        """The settings with fewer rounds and another initial horizon; None keeps either."""
        widths, first = self.widths[:rounds], self.first_frames if first_frames is None else first_frames
        return replace(self, widths=widths, first_frames=first, settling_rounds=min(self.settling_rounds, len(widths)))

    def last_rounds(self) -> WideSteps:
        """The settling rounds alone, over the whole film."""
        return replace(self, widths=self.widths[-self.settling_rounds :], first_frames=None, trial_rounds=1, whiten=False)

    def horizon(self, number: int, frames: int) -> int:
        """Horizon of round ``number``, frame intervals."""
        first = min(self.first_frames or frames, frames)
        return first + round((frames - first) * min(1.0, number / max(1.0, self.growth * len(self.widths))))


# The default search: the estimate is the mean end of the last seven rounds, first plain, then whitened, with widths that
# follow the film: fractions of wide bounds would be too wide.
WIDE_SEARCH = WideSteps(
    widths=(0.1,) * 3 + (0.08, 0.07, 0.06, 0.05, 0.05, 0.04, 0.04), settling_rounds=7, settling_residual_ratio=1.0, whiten=True
)


MAX_UNBOUNDED = 6.0  # limit of the unbounded variables of CMA-ES candidates: a quarter of a percent of the range from its end
Population = Annotated[int, Rule(integer=True, minimum=4, maximum=2**31 - 1)]


@checked
@dataclass(frozen=True, kw_only=True)
class CmaSettings:
    """Settings of the gradient-free search.

    Attributes:
        generations: number of generations.
        population: candidates per generation and start; None for 4 + 3 ln K with K unknowns.
        spread: standard deviation of the first generation, in the unbounded unit-scale variables.
    """

    generations: Count = 10
    population: Population | None = None
    spread: Annotated[float, Rule(above=0, below=MAX_UNBOUNDED)] = 0.5


@checked
@dataclass(frozen=True, kw_only=True)
class FindStart:
    """Settings of the search for the start.

    Attributes:
        frames: pictures after the first one from which velocities are estimated; None takes a twelfth of the film, at least two.
        candidates: number of poses, and of velocities of all poses together, that are compared.
        keep: number of poses whose velocities are estimated.

    Raises:
        UserError: a setting is out of its range.
    """

    frames: Count | None = None
    candidates: Count = 1024
    keep: Count = 8


SearchSettings = NewtonSteps | OptimiseSettings | WideSteps
