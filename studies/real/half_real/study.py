"""All stages of the study, and its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import UserError, load_scene, start
from risp_torch.motions import Recording, held_out, predict_motions, whole_recordings
from scenes.real import contactnets_cube as cube
from studies.markdown import markdown
from studies.real.contactnets import DERIVED, GRAVITY, LENGTHS, SCALE, mean_values, row_of, together
from studies.real.half_real.films import CAMERAS
from studies.real.half_real.fits import TOLD, fit
from studies.real.half_real.plots import strip
from studies.real.half_real.stages import LOST, TrackedToss, recorded, scene_and_films, tracked
from ti_sim import Count, FromZero, checked

ONE = "front"  # camera of the films that are tracked by one alone
SHOWN = 0  # number of the film in the picture


@checked
def study(out: Path, fits: Path, *, films: Count, alone: FromZero, jobs: Count, say: Callable[[str], None]) -> str:
    """All stages; returns the text of ``results.md``.

    Args:
        out: folder of the results.
        fits: folder of ``studies.real contactnets``.
        films: number of tosses that are filmed by both cameras.
        alone: number of these that are tracked by one camera as well.
        jobs: number of films that are made and tracked at the same time, each in a process of its own.
        say: what is called with a line now and then.

    Raises:
        UserError: the fits are not there.
    """
    everything = cube.recordings()
    unseen = set(held_out([toss.name for toss in everything]))
    records = read_fits(fits)
    values = mean_values(records)
    tosses = [toss for toss in everything if toss.name not in unseen][:films]
    tasks = [(toss, values, out / toss.name, tuple(CAMERAS), seed) for seed, toss in enumerate(tosses)]
    tasks += [(toss, values, out / toss.name, (ONE,), seed) for seed, toss in enumerate(tosses[:alone])]
    results = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=start) as pool:
        for result in pool.map(_tracked, tasks):
            results.append(result)
            say(_line(result))
    both, single = results[: len(tosses)], results[len(tosses) :]
    settings = {"tosses": [toss.name for toss in tosses], "numbers": values}
    estimates = {
        measured: [
            recorded(out / f"{kind}-{frames}.json", settings, _fit_of(both, frames, measured=measured)) for frames in LENGTHS
        ]
        for measured, kind in ((False, "films"), (True, "measured"))
    }
    text = "\n".join([
        *poses_table(both, single), "", *numbers_table(estimates, records), "",
        *predictions_table(estimates, values, everything, unseen),
    ])  # fmt: skip
    scene, pictures = scene_and_films(tosses[SHOWN], values, out / tosses[SHOWN].name, tuple(CAMERAS), seed=SHOWN)
    strip(out / "strip.png", scene, pictures, both[SHOWN].found.body_q)
    (out / "results.md").write_text(text + "\n", encoding="utf-8")
    return text


def read_fits(folder: Path) -> list[dict[str, Any]]:
    """The fits to all tosses that are not held out, of each length, by viscous friction, which predicts better.

    Raises:
        UserError: one of them is not there.
    """
    paths = [folder / f"viscous-{frames}.json" for frames in LENGTHS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{folder} has no {', '.join(missing)}: run python -m studies.real contactnets first")
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _tracked(task: tuple[Recording, Mapping[str, float], Path, tuple[str, ...], int]) -> TrackedToss:
    """A stage in a process of its own: toss, numbers, folder, cameras, seed (``tracked``)."""
    toss, values, folder, cameras, seed = task
    return tracked(toss, values, folder, cameras, seed=seed)


def _line(film: TrackedToss) -> str:
    position, rotation = film.errors()
    return f"{film.name}: {1e3 * _rms(position):.2f} mm, {np.degrees(_rms(rotation)):.2f} degrees"


def _fit_of(films: Sequence[TrackedToss], frames: int, *, measured: bool) -> Callable[[], dict[str, Any]]:
    return lambda: fit([film.recording(measured=measured) for film in films], frames, measured=measured)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def poses_table(both: Sequence[TrackedToss], single: Sequence[TrackedToss]) -> list[str]:
    """The table of errors of the poses."""
    rows = []
    for film in both:
        position, rotation = film.errors()
        scatter = [float(tracked_toss[0]) for tracked_toss in film.found.scatter()]
        alone = next((_rms(tracked_toss.errors()[0]) for tracked_toss in single if tracked_toss.name == film.name), None)
        rows.append([
            film.name, f"{1e3 * _rms(position):.2f}", f"{1e3 * position.max():.2f}", f"{np.degrees(_rms(rotation)):.2f}",
            f"{np.degrees(rotation.max()):.2f}", f"{1e3 * scatter[0]:.2f}, {np.degrees(scatter[1]):.2f}",
            "" if alone is None else f"{1e3 * alone:.1f}" + (" (lost)" if alone > LOST else ""),
        ])  # fmt: skip
    head = [
        "film", "position, rms [mm]", "largest", "rotation, rms [deg]", "largest", "scatter [mm, deg]", "one camera, rms [mm]"
    ]  # fmt: skip
    return ["Poses from two cameras, against the measured ones:", "", markdown(head, rows)]


def numbers_table(fits: Mapping[bool, Sequence[Mapping[str, Any]]], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of numbers."""
    pixels, same, every = (together(cells, TOLD) for cells in (fits[False], fits[True], records))
    rows = []
    for name in TOLD:
        apart = (pixels[name][0] - every[name][0]) / np.hypot(pixels[name][1], every[name][1])
        cells = [f"{value[name][0]:.4g} ± {value[name][1]:.2g}" for value in (pixels, same, every)]
        rows.append([f"{name} [{DERIVED[name][0]}]" if DERIVED[name][0] else name, *cells, f"{apart:+.1f}"])
    head = [
        "", "from pixels", "from the measured poses of these frames", "from all tosses of the fit", "difference [bars of both]"
    ]  # fmt: skip
    lengths = ", ".join(
        f"{frames} frames {record['derived']['friction']['value']:.3f} ± {record['derived']['friction']['sd']:.2g}"
        f" (gravity {record['values'][GRAVITY]:.2f} m/s2, {record['windows']} windows,"
        f" {'converged' if record['converged'] else 'not converged'})"
        for frames, record in zip(LENGTHS, fits[False], strict=True)
    )
    unseen = sorted({sentence for record in fits[False] for sentence in record["unobservable"]})
    named = [f"Not told by the films: {'; '.join(unseen)}."] if unseen else []
    return ["Numbers of the contact:", "", markdown(head, rows), "", f"Friction from pixels by length: {lengths}.", *named]


def predictions_table(
    fits: Mapping[bool, Sequence[Mapping[str, Any]]], values: Mapping[str, float], everything: Sequence[Recording],
    unseen: set[str],
) -> list[str]:
    """The table of predictions of held-out tosses."""
    tosses = whole_recordings([toss for toss in everything if toss.name in unseen], first=0)
    scale = {SCALE: values[SCALE]}
    by = {
        "the films' numbers": mean_values(fits[False]) | scale,
        "the films' numbers, and gravity of all tosses": mean_values(fits[False]) | scale | {GRAVITY: values[GRAVITY]},
        "numbers of the measured poses of these frames": mean_values(fits[True]) | scale,
        "numbers of all tosses of the fit": dict(values),
    }
    scene = load_scene("real/contactnets_cube")
    rows = [row_of(name, predict_motions(scene, tosses, numbers, scale=SCALE)) for name, numbers in by.items()]
    head = ["by", "tosses", "position, median [%]", "rotation, median [deg]", "position, mean [%]", "rotation, mean [deg]"]
    return ["Predictions of the held-out tosses:", "", markdown(head, rows)]
