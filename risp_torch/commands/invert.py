"""Find unknown numbers of a scene from a film of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from risp_torch.commands.loss_options import add_loss_arguments, check_loss_options, make_compared_scene, make_loss
from risp_torch.commands.options import add_bounds_argument, add_scene_arguments, bounds_of, number, settings_of_films
from risp_torch.files.run_folder import FinishedError, RunFolder, default_run_path
from risp_torch.inversion.warm_start import Population
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, Seed, Share

MOST_ROWS = 12  # numbers of one parameter that the table lists one by one
MOST_SHOWN = 6  # numbers of a start that a row shows
HEADERS = ["unknown", "estimate", "error bar"]
TRUE_HEADERS = ["unknown", "truth", "estimate", "error bar", "error"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --video, --unknown, --bounds, the loss with its files, and the settings of the search."""
    add_scene_arguments(parser, cameras="several")
    parser.add_argument(
        "--video", metavar="FILE", nargs="+",
        help="an .mp4 or a folder of PNG frames (not needed with --loss state); several films, of other motions or by other "
        "cameras, are searched together",
    )  # fmt: skip
    parser.add_argument(
        "--per-film", metavar="NAME", nargs="+", action="extend", default=[],
        help="of several films: parameters that each film has of its own, such as velocities at the start; NAME@2 is that of the "
        "second, in --bounds and --set, too",
    )  # fmt: skip
    parser.add_argument(
        "--unknown", required=True, nargs="+", action="extend", metavar="NAME",
        help="parameters to find, or single entries of them (body.velocity[0]); psi for all rendering parameters of the task",
    )  # fmt: skip
    add_bounds_argument(parser)
    parser.add_argument(
        "--smooth", type=_weight, action="append", default=[], metavar="NAME=WEIGHT",
        help="of an unknown with a number for each element: penalty on the mean squared difference of neighbours; repeatable",
    )  # fmt: skip
    add_loss_arguments(parser)
    parser.add_argument(
        "--starts", type=_starts, default=4,
        help="guesses spread over the allowed ranges, or 'scene' for one guess at the scene's own values (default 4)",
    )  # fmt: skip
    parser.add_argument(
        "--search", choices=("newton", "gradient", "wide"),
        help="Levenberg-Marquardt steps over a growing horizon, gradient steps, or Gauss-Newton steps with differences over a "
        "good part of the ranges, for losses that are rough in the small (default: wide for risp and perceptual; for pixel and "
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
        "--keep", type=_kept, nargs="+", action="extend", default=[], metavar="SHARE:STARTS",
        help="of --search gradient: after that share of the steps only so many starts, the best ones, go on (0.2:4 0.5:1)",
    )  # fmt: skip
    parser.add_argument(
        "--cma", type=number(Count), metavar="GENERATIONS", help="search without gradients from every start first (CMA-ES)"
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
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 where the search has not converged, or nothing fits the film"
    )
    parser.add_argument("--seed", type=number(Seed), default=0, help="of the starts (default 0)")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/invert-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Run the inversion, print estimates and starts, write the run's folder."""
    from risp_torch.inversion import invert

    check_loss_options(options, target_needed=True)
    bounds = dict(bounds_of(text) for text in options.bounds)
    scene = make_compared_scene(options)
    options.out = options.out or default_run_path("invert", scene.name)
    loss = make_loss(options, scene)
    psi = _psi(options, scene) if "psi" in options.unknown else None
    scene, video = _films(options, scene)
    try:
        result = invert(
            scene, video, options.unknown, starts=[{}] if options.starts == "scene" else options.starts, seed=options.seed,
            refine=options.refine, linearise_up_to=options.linearise_up_to, loss=loss,
            sampling=options.sampling, bounds=bounds, smooth=dict(options.smooth),
            psi=psi, out=options.out, settings=_search(options, scene, loss, bounds, psi), warm_start=_warm_start(options),
        )  # fmt: skip
    except FinishedError as finished:
        record = RunFolder(Path(options.out), {}).read_result()
        print("\n".join([*record.get("doubts", []), f"risp invert: {finished}"]))
        return _status(options, record.get("converged"), record.get("fits"))
    print_inversion(result)
    return _status(options, result.converged, result.fits)


def _status(options: argparse.Namespace, converged: bool | None, fits: bool | None) -> int:
    """Exit status of a finished run: 1 with --strict where the estimate is not to be trusted."""
    return 1 if options.strict and (converged is not True or fits is False) else 0


def _films(options: argparse.Namespace, scene: Any) -> tuple[Any, Any]:
    """The scene and its film; where there are several, or numbers of each, the scene of all of them.

    Raises:
        UserError: as ``Films``; or a number of each film is set that is none.
    """
    from risp_torch.inversion.films import Films

    videos, cameras = options.video or [], options.camera or []
    if len(videos) < 2 and not options.per_film:
        if len(cameras) > 1:
            raise UserError(f"{len(cameras)} cameras are named, and there is {len(videos)} film: name one camera for each film")
        return scene, videos[0] if videos else None
    if not videos:
        raise UserError("--per-film belongs to films: give them with --video, or leave it out")
    films = Films(scene, len(videos), cameras=cameras if len(cameras) > 1 else (), per_film=options.per_film)
    for name, value in settings_of_films(options).items():
        films.set(name, value)
    return films, videos


def goes_on(options: argparse.Namespace) -> bool:
    """Whether a killed run goes on where it was: Newton and gradient steps do; wide steps and L-BFGS begin again."""
    wide = options.search or ("wide" if options.loss in ("risp", "perceptual") else "newton")
    return wide != "wide" and options.optimizer != "lbfgs"


def _search(options: argparse.Namespace, scene: Any, loss: Any, bounds: dict[str, tuple], psi: Any) -> Any:
    """Settings of the search."""
    from risp_torch.inversion import WIDE_SEARCH, Films, NewtonSteps, OptimiseSettings, Unknowns
    from risp_torch.inversion.films import for_every_film, values_for_every_film
    from risp_torch.inversion.problem import usual_search

    steps = {"optimizer": options.optimizer, "learning_rate": options.learning_rate, "keep": options.keep or None}
    given = {name: value for name, value in steps.items() if value is not None}
    search = {"newton": NewtonSteps, "gradient": OptimiseSettings, "wide": type(WIDE_SEARCH)}.get(options.search)
    if search is None:
        unknown = options.unknown
        if isinstance(scene, Films):
            own = (scene.per_film, len(scene.films))
            unknown, bounds = list(for_every_film(unknown, *own)), values_for_every_film(bounds, *own)
        unknowns = Unknowns.of(scene, unknown, bounds=bounds, psi=psi)
        search = OptimiseSettings if given and not loss.rough else type(usual_search(loss, len(unknowns.labels)))
    if search is not OptimiseSettings:
        for name in given:
            raise UserError(f"--{name.replace('_', '-')} belongs to --search gradient: choose that search, or leave it out")
    if search is NewtonSteps:
        rounds = {} if options.iterations is None else {"rounds": options.iterations}
        return NewtonSteps(first_frames=options.first_frames, **rounds)
    if search is not OptimiseSettings:
        return WIDE_SEARCH.shortened(options.iterations, options.first_frames)
    if options.keep:
        given["keep"] = tuple(options.keep)
    if options.iterations:
        given["iterations"] = options.iterations
    return OptimiseSettings(first_frames=options.first_frames, **given)


def _psi(options: argparse.Namespace, scene: Any) -> Any:
    """The rendering parameters of the scene's task; None, for the usual ones, where its file has no task."""
    from risp_torch.risp.task import load_task
    from risp_torch.scene.load import has_function

    return load_task(options.scene, scene).domains.training.parameters if has_function(options.scene, "make_task") else None


def _weight(text: str) -> tuple[str, float]:
    """Name and weight of NAME=WEIGHT, for argparse."""
    name, equals, weight = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=WEIGHT: write for example beam.mu=1e-4")
    return name.strip(), number(Positive)(weight)


def _kept(text: str) -> tuple[float, int]:
    """Share and number of SHARE:STARTS, for argparse."""
    share, colon, count = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SHARE:STARTS: write for example 0.2:4 0.5:1")
    return number(Share)(share), number(Count)(count)


def _warm_start(options: argparse.Namespace) -> Any:
    """Settings of the search without gradients; None where none was asked for."""
    from risp_torch.inversion import CmaSettings

    if options.cma is None:
        if options.cma_population is not None:
            raise UserError("--cma-population belongs to --cma GENERATIONS: give that too, or leave it out")
        return None
    return CmaSettings(generations=options.cma, population=options.cma_population)


def _starts(text: str) -> int | str:
    return text if text == "scene" else number(Count)(text)


def print_inversion(result: Any, truth: dict[str, float] | None = None) -> None:
    """Print doubts, estimates with error bars (and errors, where the truth is known), unseen directions and starts."""
    from risp_torch.files.report import format_table

    for sentence in result.doubts:
        print(sentence)
    print(format_table(estimate_rows(result, truth), HEADERS if truth is None else TRUE_HEADERS))
    for sentence in result.uncertainty.unseen:
        print(f"not visible in this film: {sentence}")
    for sentence in result.remarks:
        print(f"note: {sentence}")
    starts = [
        [str(i + 1), _row(result.initial[i]), _row(result.final[i]), f"{loss:.4e}", status]
        for i, (loss, status) in enumerate(zip(result.losses, result.status, strict=True))
    ]
    print(format_table(starts, ["start", "from", "to", "loss", ""]))
    if result.folder:
        print(f"pictures and numbers: {result.folder} ({result.seconds:.0f} s)")


def estimate_rows(result: Any, truth: dict[str, float] | None = None) -> list[list[str]]:
    """Rows of the table of estimates, one for each unknown: below ``HEADERS``, or ``TRUE_HEADERS`` where the truth is known."""
    unknowns = result.unknowns
    logs = dict(zip(unknowns.labels, (scale == "log10" for scale in unknowns.scales), strict=True))
    errors = result.scaled_error(truth) if truth else {}
    rows = []
    for name, part in unknowns.groups.items():
        if part.stop - part.start > MOST_ROWS:
            rows.append(_row_of_many(result, name, part, truth))
            continue
        for k in range(part.start, part.stop):
            label, unit, seen = unknowns.labels[k], unknowns.units[k], result.uncertainty.observable[k]
            value = result.values[label]
            row = [label, f"{value:.5g} {unit}".strip(), _bar(result.sd[label], logs[label]) if seen else "not observable"]
            if truth:
                error = errors[label]
                row[1:1] = [f"{truth[label]:.5g} {unit}".strip()]
                row.append(f"{100 * (10**error - 1):+.2f} % ({error:+.4f} in log10)" if logs[label] else f"{error:+.2g}")
            rows.append(row)
    return rows


def _row_of_many(result: Any, name: str, part: slice, truth: dict[str, float] | None) -> list[str]:
    """One row for a parameter of many numbers: their span, and the middle one of their error bars."""
    import numpy as np

    unknowns = result.unknowns
    labels = unknowns.labels[part]
    values, bars = (np.array([column[label] for label in labels]) for column in (result.values, result.sd))
    unseen = len(labels) - sum(result.uncertainty.observable[part])
    bar = _bar(float(np.median(bars)), unknowns.scales[part.start] == "log10")
    row = [f"{name} ({len(labels)} numbers)", _span(values, unknowns.units[part.start]), bar]
    row[2] += f" (median), {unseen} not observable" if unseen else " (median)" if np.isfinite(bars).all() else ""
    if truth:
        known = np.array([truth[label] for label in labels])
        row[1:1] = [_span(known, unknowns.units[part.start])]
        row.append(f"{np.sqrt(np.mean((values - known) ** 2)):.2g} (root mean square)")
    return row


def _span(values: Any, unit: str) -> str:
    return f"{min(values):.4g} to {max(values):.4g} {unit}".strip()


def _bar(sd: float, log: bool) -> str:
    if sd != sd:
        return "-"
    return f"± {100 * (10 ** min(sd, 9.0) - 1):.2g} %" if log else f"± {sd:.2g}"


def _row(values: Any) -> str:
    shown = ", ".join(f"{value:.5g}" for value in values[:MOST_SHOWN])
    return shown if len(values) <= MOST_SHOWN else f"{shown}, ... ({len(values)} numbers)"
