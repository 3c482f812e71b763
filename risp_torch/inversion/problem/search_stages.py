"""Stages of a search: what precedes its steps, the steps, and the refinement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.search_settings import (
    WIDE_SEARCH,
    CmaSettings,
    FindStart,
    NewtonSteps,
    OptimiseSettings,
    SearchSettings,
    WideSteps,
)
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Count, FromZero, checked

# Largest number of unknowns for Gauss-Newton steps and error bars, which need two films per unknown; and without rendering.
MAX_LINEARISED, MAX_LINEARISED_WITHOUT_PICTURES = 40, 400

SearchChoice = Callable[[Loss, int], SearchSettings]  # settings by the loss and the number of unknowns


@checked
@dataclass(frozen=True, kw_only=True)
class SearchStages:
    """Stages of a search.

    Attributes:
        steps: settings of the steps from every start, or a function that makes them of the loss and the number of unknowns;
            ``usual_search`` by default.
        find_start: before the physics, look for the starting poses and velocities among the unknowns in the film's first
            pictures; every start of the search begins with one that fits them.
        warm_start: a gradient-free search from every start, before the steps.
        refine: Gauss-Newton steps after the search, while they lower the loss; none after wide steps on a non-smooth loss,
            because of its local minima.
        linearise_up_to: number of unknowns up to which Gauss-Newton steps and error bars are computed, each of which needs two
            films per unknown; 40 by default, and 400 for losses that need no film.

    Raises:
        UserError: a setting is out of its range.
    """

    steps: NewtonSteps | OptimiseSettings | WideSteps | SearchChoice | None = None
    find_start: FindStart | None = None
    warm_start: CmaSettings | None = None
    refine: FromZero = 15
    linearise_up_to: Count | None = None

    @staticmethod
    def of(search: Search | None) -> SearchStages:
        """The stages of a search of which only the steps may be set."""
        return search if isinstance(search, SearchStages) else SearchStages(steps=search)

    def resolved(self, loss: Loss, count: int) -> SearchStages:
        """The stages with settings of the steps for a loss and a number of unknowns.

        Raises:
            UserError: a function returned no settings.
        """
        if isinstance(self.steps, SearchSettings):
            return self
        steps = self.steps if isinstance(self.steps, type) else (self.steps or usual_search)(loss, count)
        if not isinstance(steps, SearchSettings):
            raise UserError(f"search made {format_value(steps)}: give NewtonSteps(), OptimiseSettings(), WideSteps()")
        return replace(self, steps=steps)

    def max_linearised(self, loss: Loss) -> int:
        """Unknowns up to which there are Gauss-Newton steps and error bars."""
        return self.linearise_up_to or (MAX_LINEARISED if loss.of_pictures else MAX_LINEARISED_WITHOUT_PICTURES)


Search = NewtonSteps | OptimiseSettings | WideSteps | SearchChoice | SearchStages


def usual_search(loss: Loss, count: int) -> SearchSettings:
    """The default search for ``count`` unknowns.

    ``WIDE_SEARCH`` for losses that are locally non-smooth (``Loss.non_smooth``); otherwise Levenberg-Marquardt steps over a
    growing horizon, and gradient steps for more than 40 unknowns, since a finite-difference Jacobian takes two films for each.
    """
    if loss.non_smooth:
        return WIDE_SEARCH
    return NewtonSteps() if count <= MAX_LINEARISED else OptimiseSettings()
