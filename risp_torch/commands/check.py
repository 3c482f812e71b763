"""Tell before any film which unknowns it could show, at which noise."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from risp_torch.commands.options import (
    add_bounds_argument,
    add_prior_argument,
    add_scene_arguments,
    bounds_of,
    make_scene,
    number,
)
from risp_torch.files.video import Quality
from ti_sim.base.rules import Deviation

MOST_PAIRS = 12  # that are listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE, --unknown, --bounds, --prior, --loss, --noise, --crf, --strict, --out."""
    add_scene_arguments(parser)
    parser.add_argument(
        "--unknown", required=True, nargs="+", action="extend", metavar="NAME",
        help="parameters that an inversion would look for, or entries of them; psi for all rendering parameters of the task",
    )  # fmt: skip
    add_bounds_argument(parser)
    add_prior_argument(parser)
    parser.add_argument(
        "--loss", default="pixel", choices=("pixel", "matched", "mask", "image-tracks"),
        help="what an inversion would compare: pixels in the scene's look (default), pixels in a solved look, masks of the "
        "bodies, or tracks of eight points on each of them",
    )  # fmt: skip
    parser.add_argument(
        "--noise", type=number(Deviation),
        help="standard deviation of an observation: a pixel in linear colour from 0 to 1 (default 0.0039, a grey level of 255), "
        "the share of a pixel on an edge of a mask (default 0.2), or a coordinate of a track in pixels (default 1)",
    )  # fmt: skip
    parser.add_argument(
        "--crf", type=_quality, default=18, metavar="CRF",
        help="count the errors of an H.264 file of this constant rate factor as well: 0 best, 18 good, 28 poor; none for a film "
        "that is not compressed (default 18; pixels alone)",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="exit status 1 where an unknown is not observable")
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/check-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Print the verdict, a table of error bars and null directions; write observability.png and result.json."""
    from risp_torch.commands.invert import psi_of
    from risp_torch.commands.simulate import simulation_settings
    from risp_torch.files import report
    from risp_torch.files.run_folder import RunFolder, default_run_path
    from risp_torch.inversion.diagnostics.observability import observability, settings_of
    from risp_torch.inversion.diagnostics.planned_losses import planned_loss

    bounds = dict(bounds_of(text) for text in options.bounds)
    scene = make_scene(options)
    psi = psi_of(options, scene) if "psi" in options.unknown else None
    planned = planned_loss(scene, options.loss)
    noise, crf = options.noise or planned.noise, options.crf if planned.is_compressed else None
    observed = observability(
        scene, options.unknown, bounds=bounds, priors=dict(options.prior), psi=psi, noise=noise, crf=crf, loss=planned.loss
    )
    observed = replace(observed, unit=planned.unit)
    settings = simulation_settings(scene, options) | dict(settings_of(observed.unknowns, noise, crf)) | {"loss": options.loss}
    folder = RunFolder.create(options.out or default_run_path("check", scene.name), settings)
    ranges = observed.unknowns.scaled_range()
    labels = [f"{k + 1}  {label}" for k, label in enumerate(observed.unknowns.labels)]
    report.plot_observability(
        folder.path / "observability.png", labels, observed.shares, observed.alone / ranges, observed.bars.correlation
    )
    folder.write_result({"schema": 1, "scene": scene.name} | observed.to_json())
    _print(observed)
    print(f"written: {folder.path}/observability.png, result.json")
    return 1 if options.strict and not all(observed.bars.observable) else 0


def _quality(text: str) -> float | None:
    """A rate factor, or None, for argparse."""
    return None if text == "none" else number(Quality)(text)


def _print(observed: Any) -> None:
    """The verdict, the table, null directions, singular values and strong correlations."""
    from risp_torch.files.report import format_table

    print(observed.verdict())
    print(format_table(_rows(observed), ["unknown", "value", "error bar", "of its range", "alone"]))
    for sentence in observed.bars.unobservable:
        print(f"not visible in this film: {sentence}")
    for first, second, size in observed.strong_pairs[:MOST_PAIRS]:
        print(f"strongly correlated: {first} and {second} (correlation {size:+.3f})")
    print("singular values per range: " + ", ".join(f"{value:.3g}" for value in observed.singular))


def _rows(observed: Any) -> list[list[str]]:
    """A row for each unknown: value, error bar with the others unknown, its share of the range, and with the others known."""
    rows = []
    for k, label in enumerate(observed.unknowns.labels):
        value = f"{observed.values[k]:.5g} {observed.unknowns.units[k]}".strip()
        bar = observed.size(k, observed.bars.sd[k]) if observed.bars.observable[k] else "not observable"
        share = f"{100 * observed.shares[k]:.2g} %" if observed.shares[k] < 1 else "all"
        alone = observed.size(k, observed.alone[k]) if observed.alone[k] < observed.unknowns.scaled_range()[k] else "no trace"
        rows.append([label, value, bar, share, alone])
    return rows
