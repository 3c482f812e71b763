"""Options of a search, and its settings."""

from __future__ import annotations

import argparse
from typing import Any

from risp_torch.commands.options import number
from risp_torch.inversion.problem.search_settings import Population
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, Share


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Starts, the kind of search with its settings, warm start and refinement."""
    parser.add_argument(
        "--starts", type=_starts, default=4,
        help="guesses spread over the allowed ranges, or 'scene' for one guess at the scene's own values (default 4)",
    )  # fmt: skip
    parser.add_argument(
        "--search", choices=("newton", "gradient", "wide"),
        help="Levenberg-Marquardt steps over a growing horizon, gradient steps, or Gauss-Newton steps with differences over a "
        "large part of the ranges, for losses that are locally non-smooth (default: wide for risp and perceptual; for pixel and "
        "state newton up to 40 unknowns, gradient beyond, or where one of its options is given)",
    )  # fmt: skip
    parser.add_argument(
        "--iterations", type=number(Count),
        help="rounds of --search newton (default 30), gradient steps (default 60), or wide ones (default 10)",
    )  # fmt: skip
    parser.add_argument("--optimizer", choices=("adam", "rmsprop", "lbfgs"), help="of --search gradient (default adam)")
    parser.add_argument(
        "--learning-rate", type=number(Positive), help="of --search gradient, in unit-scale variables (default 0.1)"
    )
    parser.add_argument(
        "--keep", type=_share_and_starts, nargs="+", action="extend", default=[], metavar="SHARE:STARTS",
        help="of --search gradient: after that share of the steps only that number of best starts continue (0.2:4 0.5:1)",
    )  # fmt: skip
    parser.add_argument(
        "--find-start", action="store_true",
        help="look in the film's first pictures for unknown poses and velocities that bodies begin with, before the physics",
    )  # fmt: skip
    parser.add_argument(
        "--start-frames", type=number(Count), metavar="N",
        help="of --find-start: pictures after the first one that show velocities (default: a twelfth of the film, at least 2)",
    )  # fmt: skip
    parser.add_argument(
        "--cma", type=number(Count), metavar="GENERATIONS", help="gradient-free search from every start first (CMA-ES)"
    )
    parser.add_argument("--cma-population", type=number(Population), metavar="N", help="of --cma (default 4 + 3 ln(unknowns))")
    parser.add_argument("--refine", type=number(FromZero), default=15, help="Gauss-Newton rounds after the search (default 15)")
    parser.add_argument(
        "--linearise-up-to", type=number(Count), metavar="N",
        help="most unknowns with Gauss-Newton steps and error bars (default 40, with --loss state 400)",
    )  # fmt: skip
    parser.add_argument(
        "--first-frames", type=number(Count),
        help="begin with this many frame intervals and let the horizon grow (default: a sixth of the film with --search newton, "
        "else the whole film)",
    )  # fmt: skip


def search_settings(options: argparse.Namespace, scene: Any, loss: Any, bounds: dict[str, tuple], psi: Any) -> Any:
    """Settings of the search."""
    from risp_torch.inversion import Unknowns
    from risp_torch.inversion.problem.films.multi_film import Films, for_every_film, values_for_every_film
    from risp_torch.inversion.problem.problem import usual_search
    from risp_torch.inversion.problem.search_settings import WIDE_SEARCH, NewtonSteps, OptimiseSettings

    steps = {"optimizer": options.optimizer, "learning_rate": options.learning_rate, "keep": options.keep or None}
    set_steps = {name: value for name, value in steps.items() if value is not None}
    search = {"newton": NewtonSteps, "gradient": OptimiseSettings, "wide": type(WIDE_SEARCH)}.get(options.search)
    if search is None:
        unknown, priors = options.unknown, dict(options.prior)
        if isinstance(scene, Films):
            film_parameters = (scene.per_film, len(scene.films))
            unknown, bounds = list(for_every_film(unknown, *film_parameters)), values_for_every_film(bounds, *film_parameters)
            priors = values_for_every_film(priors, *film_parameters)
        unknowns = Unknowns.of(scene, unknown, bounds=bounds, psi=psi, priors=priors)
        search = OptimiseSettings if set_steps and not loss.non_smooth else type(usual_search(loss, len(unknowns.labels)))
    if search is not OptimiseSettings:
        for name in set_steps:
            raise UserError(f"--{name.replace('_', '-')} belongs to --search gradient: choose that search, or leave it out")
    if search is NewtonSteps:
        rounds = {} if options.iterations is None else {"rounds": options.iterations}
        return NewtonSteps(first_frames=options.first_frames, **rounds)
    if search is not OptimiseSettings:
        return WIDE_SEARCH.shortened(options.iterations, options.first_frames)
    if options.keep:
        set_steps["keep"] = tuple(options.keep)
    if options.iterations:
        set_steps["iterations"] = options.iterations
    return OptimiseSettings(first_frames=options.first_frames, **set_steps)


def find_start_settings(options: argparse.Namespace) -> Any:
    """Settings of the search for the start of the film, or None."""
    from risp_torch.inversion.problem.search_settings import FindStart

    if not options.find_start:
        if options.start_frames is not None:
            raise UserError("--start-frames belongs to --find-start: give that too, or leave it out")
        return None
    return FindStart(frames=options.start_frames)


def warm_start_settings(options: argparse.Namespace) -> Any:
    """Settings of the gradient-free search, or None."""
    from risp_torch.inversion.problem.search_settings import CmaSettings

    if options.cma is None:
        if options.cma_population is not None:
            raise UserError("--cma-population belongs to --cma GENERATIONS: give that too, or leave it out")
        return None
    return CmaSettings(generations=options.cma, population=options.cma_population)


def _share_and_starts(text: str) -> tuple[float, int]:
    """Share and number of SHARE:STARTS, for argparse."""
    share, colon, count = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SHARE:STARTS: write for example 0.2:4 0.5:1")
    return number(Share)(share), number(Count)(count)


def _starts(text: str) -> int | str:
    return text if text == "scene" else number(Count)(text)
