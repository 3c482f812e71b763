"""All stages of the study in turn, and its tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.motions import at_bounds
from studies.real.dfki_pendulum.film.camera import CAMERA
from studies.real.dfki_pendulum.film.stages import fit, made, recorded, steady_film, track
from studies.real.dfki_pendulum.log.driven import driven
from studies.real.dfki_pendulum.log.elastic import elastic
from studies.real.dfki_pendulum.log.free_swing import free_swing
from studies.real.dfki_pendulum.log.log import LOG, Clock, Log, compared, read_log
from studies.real.dfki_pendulum.log.numbers import BASE, JOINTS, OF_IDENTIFIED_CENTRES, RATIOS, rows
from studies.real.dfki_pendulum.log.torques import torques
from studies.real.dfki_pendulum.plots import overlay, plot_angles, plot_prediction, plot_torques, write_angles
from studies.real.dfki_pendulum.tables import tables


def study(folder: Path, out: Path, say: Callable[[str], None]) -> str:
    """All stages; returns the text of ``results.md``."""
    log = read_log(folder / LOG)
    times, results, figures = film_stages(folder, out, log, say)
    clock = Clock(figures["start [s]"], figures["drift"])
    swing = recorded(out / "free_swing.json", lambda: _numbers(*free_swing(times, results["angles"], say), JOINTS + RATIOS))
    power = recorded(out / "driven.json", lambda: _numbers(*driven(log, say), BASE + OF_IDENTIFIED_CENTRES + JOINTS))
    spring = recorded(out / "elastic.json", lambda: elastic(log, say))
    moved = recorded(out / "torques.json", lambda: torques(times, results["angles"], log, clock, say))
    plot_prediction(out / "free_swing.png", times, results["angles"], np.array(swing["errors"]))
    plot_torques(out / "torques.png", np.array(moved["film, torques"]))
    text = tables(figures, swing, power, spring, moved)
    (out / "results.md").write_text(text + "\n", encoding="utf-8")
    return text


def film_stages(
    folder: Path, out: Path, log: Log, say: Callable[[str], None]
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]:
    """Time stamps [T] s, angles with their look, and the comparison with the log."""
    film = made(out / "steady.npz", lambda: steady_film(folder))
    pictures, times = film["pictures"].astype(np.float32), film["times"]
    first = made(out / "track.npz", lambda: track(pictures, say))
    results = made(out / "fit.npz", lambda: fit(pictures, first["angles"], say))
    figures = compared(times, results["angles"], log)
    camera = zip(CAMERA, results["camera"], results["camera_bars"], strict=True)
    figures |= {name: [float(value), float(bar)] for name, value, bar in camera}
    figures |= {"last step [bars]": float(results["last_step"]), "scatter of the length [m]": float(results["scatter"][4])}
    (out / "angles.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    write_angles(out / "angles.csv", times, results)
    overlay(out / "overlay.png", pictures, results, range(60, len(times), 110))
    clock = Clock(figures["start [s]"], figures["drift"])
    plot_angles(out / "angles.png", times, results["angles"], log, clock)
    return times, results, figures


def _numbers(fits: Any, figures: dict[str, object], numbers: tuple) -> dict[str, object]:
    """Figures, with the rows of a table of numbers, and what each fit found."""
    results = {"rows": rows(numbers, fits.number), "left": fits.left, "at bounds": at_bounds(fits.fits[-1])}
    return {**results, **figures, "fits": [fit.to_json() for fit in fits.fits]}
