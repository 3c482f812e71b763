"""Predict the error bars of unknowns before there is a film, or check gradients against central differences."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import (
    add_bounds_argument,
    add_prior_argument,
    add_scene_arguments,
    bounds_of,
    make_scene,
    number_parser,
)
from risp_torch.files.video import Quality
from risp_torch.inversion.problem.linearisation import Step
from ti_sim.base.errors import UserError
from ti_sim.base.rules import StandardDeviation

MAX_LISTED_CORRELATIONS = 12  # strongly correlated pairs of unknowns that the output lists
ADJOINT_STEP = 1e-8  # step of the central differences that check the adjoint, in ranges
DEFAULT_CRF, UNCOMPRESSED = 18, "none"  # rate factor of a film, and the word for a film without compression


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --unknown, --gradient, --bounds, --prior, --loss, --noise, --crf, --strict, --out."""
    add_scene_arguments(parser, precision=None)
    parser.add_argument(
        "--unknown", nargs="+", action="extend", default=[], metavar="NAME",
        help="parameters that an inversion would estimate, or entries of them (default: every unknown of the scene); psi for all "
        "rendering parameters of the task",
    )  # fmt: skip
    parser.add_argument(
        "--gradient", nargs="?", type=number_parser(Step), const=ADJOINT_STEP, metavar="STEP",
        help="compare gradients of the film loss by adjoints with central differences instead, in f64, with this step relative "
        f"to the range: {ADJOINT_STEP:g} (default) checks the adjoint, 1e-3 the scale of a search; exit status 1 if one is wrong",
    )  # fmt: skip
    add_bounds_argument(parser)
    add_prior_argument(parser)
    parser.add_argument(
        "--loss", choices=("pixel", "matched", "mask", "image-tracks"),
        help="what an inversion would compare: pixels in the scene's look (default), pixels in a solved look, masks of the "
        "bodies, or tracks of eight points on each of them",
    )  # fmt: skip
    parser.add_argument(
        "--noise", type=number_parser(StandardDeviation),
        help="standard deviation of an observation: a pixel in linear colour from 0 to 1 (default 0.0039, a grey level of 255), "
        "the share of a pixel on an edge of a mask (default 0.2), or a coordinate of a track in pixels (default 1)",
    )  # fmt: skip
    parser.add_argument(
        "--crf", type=_rate_factor, metavar="CRF",
        help="count the errors of an H.264 file of this constant rate factor as well: 0 best, 18 good, 28 poor; none for a film "
        "that is not compressed (default 18; pixels alone)",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit status 1 where an unknown is not observable")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/check-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Print the verdict, a table of error bars and null directions; write observability.png and result.json.

    With --gradient print gradient, difference and verdict of every unknown, and write nothing.
    """
    options.precision = options.precision or ("f32" if options.gradient is None else "f64")
    return _predict(options) if options.gradient is None else _check_gradient(options)


def _check_gradient(options: argparse.Namespace) -> int:
    """Compare gradients with differences; 1 if one is wrong (at a kink: not between the slopes of both sides)."""
    from risp_torch.files.report import format_table
    from risp_torch.inversion.diagnostics.gradient_check import check_film_gradient

    gradient_options = ("bounds", "prior", "loss", "noise", "crf", "strict", "out")
    ineffective = [name for name in gradient_options if getattr(options, name) not in (None, False, [])]
    if ineffective:
        raise UserError(f"--{ineffective[0]} has no effect with --gradient: leave one of the two out")
    scene = make_scene(options)
    checks, loss = check_film_gradient(scene, options.unknown or scene.unknowns, step=options.gradient, progress=True)
    rows = [[c.label, f"{c.gradient:+.6e}", f"{c.difference:+.6e}", f"{c.relative:.1e}", c.verdict] for c in checks]
    print(f"{scene.name}: loss {loss:.6e} against a film with every unknown moved by 5 % of its range; gradients per range")
    print(format_table(rows, ["unknown", "gradient", "central difference", "relative", ""]))
    all_correct = all(check.ok for check in checks)
    wider_steps = () if all_correct and options.gradient == ADJOINT_STEP else ("--gradient", "1e-3")
    print_next_steps(next_command=("risp", "check", options.scene, *wider_steps))
    return 0 if all_correct else 1


def _predict(options: argparse.Namespace) -> int:
    """Predict error bars, print and write them; 1 with --strict if an unknown is not observable."""
    from risp_torch.commands.invert import unknown_of
    from risp_torch.commands.simulate import simulation_settings
    from risp_torch.files import report
    from risp_torch.files.run_folder import RunFolder, default_run_path
    from risp_torch.inversion.diagnostics.observability import observability, settings_of
    from risp_torch.inversion.diagnostics.planned_losses import planned_loss

    bounds = dict(bounds_of(text) for text in options.bounds)
    scene = make_scene(options)
    unknown, loss = options.unknown or list(scene.unknowns), options.loss or "pixel"
    if not unknown:
        raise UserError(f"{scene.name} declares no unknowns: name a parameter with --unknown")
    planned = planned_loss(scene, loss)
    noise_sd, rate_factor = options.noise or planned.noise, DEFAULT_CRF if options.crf is None else options.crf
    crf = rate_factor if planned.is_compressed and rate_factor != UNCOMPRESSED else None
    prediction = observability(
        scene, unknown_of(unknown, options, scene), bounds=bounds, priors=dict(options.prior), noise=noise_sd, crf=crf,
        loss=planned.loss,
    )  # fmt: skip
    prediction = replace(prediction, observation_name=planned.observation_name)
    settings = simulation_settings(scene, options) | dict(settings_of(prediction.unknowns, noise_sd, crf)) | {"loss": loss}
    folder = RunFolder.create(options.out or default_run_path("check", scene.name), settings)
    ranges = prediction.unknowns.scaled_range()
    labels = [f"{k + 1}  {label}" for k, label in enumerate(prediction.unknowns.labels)]
    report.plot_observability(
        folder.path / "observability.png", labels, prediction.shares, prediction.alone / ranges, prediction.bars.correlation
    )
    folder.write_result({"schema": 1, "scene": scene.name} | prediction.to_json())
    _print_prediction(prediction)
    print(f"written: {folder.path}/observability.png, result.json")
    next_command = ("risp", "invert", options.scene, "--video", "FILE", "--unknown", *unknown)
    print_next_steps(folder.path / "observability.png", next_command=next_command)
    return 1 if options.strict and not all(prediction.bars.observable) else 0


def _rate_factor(text: str) -> float | str:
    """A rate factor, or none, for argparse."""
    return text if text == UNCOMPRESSED else number_parser(Quality)(text)


def _print_prediction(prediction: Any) -> None:
    """Print the verdict, the table, null directions, singular values and strong correlations."""
    from risp_torch.files.report import format_table

    print(prediction.verdict())
    print(format_table(_rows(prediction), ["unknown", "value", "error bar", "of its range", "alone"]))
    for sentence in prediction.bars.unobservable:
        print(f"not visible in this film: {sentence}")
    for first, second, correlation in prediction.strong_pairs[:MAX_LISTED_CORRELATIONS]:
        print(f"strongly correlated: {first} and {second} (correlation {correlation:+.3f})")
    print("singular values per range: " + ", ".join(f"{value:.3g}" for value in prediction.singular))


def _rows(prediction: Any) -> list[list[str]]:
    """A row for each unknown: value, error bar with the others unknown, its share of the range, and with the others known."""
    rows = []
    for k, label in enumerate(prediction.unknowns.labels):
        value = f"{prediction.values[k]:.5g} {prediction.unknowns.units[k]}".strip()
        bar_text = prediction.size(k, prediction.bars.sd[k]) if prediction.bars.observable[k] else "not observable"
        share_text = f"{100 * prediction.shares[k]:.2g} %" if prediction.shares[k] < 1 else "all"
        bar_alone = (
            prediction.size(k, prediction.alone[k]) if prediction.alone[k] < prediction.unknowns.scaled_range()[k] else "no trace"
        )
        rows.append([label, value, bar_text, share_text, bar_alone])
    return rows
