"""Options of a search, and its settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from risp_torch.commands.options import number_parser
from risp_torch.commands.solver_settings import (
    OPTIMIZERS,
    SEARCHES,
    WARM_START_GROUPS,
    SolverAction,
    settings_of,
    solver_texts,
    stage_settings,
)
from risp_torch.inversion.problem.search_settings import NewtonSteps, OptimiseSettings, SearchSettings
from ti_sim.base.rules import Count, Seed

if TYPE_CHECKING:
    from risp_torch.inversion.losses.loss import Loss
    from risp_torch.inversion.problem.search_stages import SearchStages


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """The kind of search, its iterations and starts, and settings of solvers."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--search", choices=tuple(SEARCHES),
        help="lm: Levenberg-Marquardt steps over a growing horizon; adam, rmsprop or lbfgs: gradient steps; wide: Gauss-Newton "
        "steps with differences over a large part of the ranges, for losses that are locally non-smooth (default: wide for risp "
        "and perceptual, else lm up to 40 unknowns and adam beyond)",
    )  # fmt: skip
    group.add_argument(
        "--iterations",
        type=number_parser(Count),
        help="largest number of steps of the search (default: lm 30, gradients 60, wide 10)",
    )
    group.add_argument(
        "--starts", type=_starts, default=4,
        help="guesses spread over the allowed ranges, or 'scene' for one guess at the scene's own values (default 4)",
    )  # fmt: skip
    group.add_argument(
        "--warm-start", nargs="+", action="extend", default=[], choices=tuple(WARM_START_GROUPS),
        help="before the search: pictures finds unknown poses and velocities of the start in the film's first pictures, cma "
        "searches without gradients from every start (CMA-ES)",
    )  # fmt: skip
    group.add_argument("--seed", type=number_parser(Seed), default=0, help="of the starts (default 0)")
    group.add_argument(
        "--solver", action=SolverAction, default=[], metavar="NAME=VALUE",
        help="another setting of a solver, such as refine=0 or first_frames=6; --solver help lists all; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit status 1 where the search has not converged, nothing fits the film, or it is not known whether",
    )


def search_stages(options: argparse.Namespace) -> SearchStages:
    """The stages of the search (``invert``)."""
    from risp_torch.inversion.problem.search_stages import SearchStages

    find_start, warm_start = warm_start_settings(options)
    stage_arguments = stage_settings(solver_texts(options))
    return SearchStages(steps=_steps_by_loss(options), find_start=find_start, warm_start=warm_start, **stage_arguments)


def _steps_by_loss(options: argparse.Namespace) -> Callable[[Loss, int], SearchSettings]:
    """The settings of the steps by the loss and the number of unknowns."""
    texts = solver_texts(options)

    def settings_for(loss: Loss, count: int) -> SearchSettings:
        from risp_torch.inversion.problem.search_stages import usual_search

        search = SEARCHES[options.search] if options.search else type(usual_search(loss, count))
        settings, iterations = settings_of(search, texts), options.iterations
        if search is OptimiseSettings:
            changes = {} if iterations is None else {"iterations": iterations}
            return replace(settings, optimizer=options.search or OPTIMIZERS[0], **changes)
        if search is NewtonSteps:
            return settings if iterations is None else replace(settings, rounds=iterations)
        return settings.shortened(iterations, None)

    return settings_for


def warm_start_settings(options: argparse.Namespace) -> tuple[Any, Any]:
    """Settings of the search in the first pictures, and of the gradient-free search; None for each that is not made."""
    texts = solver_texts(options)
    find_start, cma = (
        group.changed({name: texts[name] for name in group.names if name in texts}) if kind in options.warm_start else None
        for kind, group in WARM_START_GROUPS.items()
    )
    return find_start, cma


def _starts(text: str) -> int | str:
    return text if text == "scene" else number_parser(Count)(text)
