"""The demo: its guesses, what counts as right, and the README's table, which is what it printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from risp_torch import NewtonSteps, SearchStages, invert, load_scene, simulate_video
from risp_torch.files.report import format_table
from risp_torch.inversion import Unknowns
from studies.demo import __main__ as demo


def test_the_readme_shows_what_the_demo_printed() -> None:
    """The README's table is made of the file that the demo writes, and that file has every number that the demo looks for."""
    printed = json.loads(demo.TABLE.read_text(encoding="utf-8"))
    assert [row[0] for row in printed["rows"]] == [name for job in demo.JOBS for name in job.truth]
    table = format_table(printed["rows"], printed["headers"])
    assert f"{demo.FIRST}{table}\n{demo.LAST}" in demo.README.read_text(encoding="utf-8")


def test_the_error_bars_of_the_readme_hold() -> None:
    """Errors are recomputed from truth and estimate, and lie within two error bars as printed."""
    for name, truth, estimate, bar, error in json.loads(demo.TABLE.read_text(encoding="utf-8"))["rows"]:
        true, found, width = (float(re.search(r"[\d.]+", cell)[0]) for cell in (truth, estimate, bar))
        assert true == next(job.truth[name] for job in demo.JOBS if name in job.truth)
        percent = 100 * (found / true - 1)
        assert float(error.split(" %")[0]) == pytest.approx(percent, abs=0.011)
        assert abs(percent) <= 2 * width < 2.0


@pytest.mark.usefixtures("undiagnosed")
def test_the_readme_is_current(tmp_path: Path) -> None:
    """The film of the pebble is made again, and a step over the whole film that begins at the README's estimate stays there.

    So near an estimate that has changed, one step of Newton's method goes all the way to the new one.
    """
    job, rows = demo.JOBS[1], json.loads(demo.TABLE.read_text(encoding="utf-8"))["rows"]
    printed = {row[0]: [float(re.search(r"[\d.]+", cell)[0]) for cell in row[2:4]] for row in rows if row[0] in job.truth}
    scene = load_scene(job.scene)
    video = simulate_video(scene, tmp_path / "toss.mp4", crf=18)
    start = {name: estimate for name, (estimate, _bar) in printed.items()}
    search = SearchStages(steps=NewtonSteps(first_frames=scene.frames, rounds=1), refine=1)
    again = invert(scene, video, list(printed), starts=[start], search=search, progress=False)
    for name, (estimate, bar) in printed.items():
        assert abs(100 * (again.values[name] / estimate - 1)) < 0.2 * bar + 0.005, name
        assert 100 * (10 ** again.sd[name] - 1) == pytest.approx(bar, rel=0.2, abs=0.01), name


def test_guesses_are_drawn_from_the_ranges() -> None:
    """They spread over the ranges, are the same every time, and do not lie evenly about the truth."""
    for job in demo.JOBS:
        scene, names = load_scene(job.scene, size=16), list(job.truth)
        unknowns = Unknowns.of(scene, names)
        low, high = unknowns.bounds()
        rows = np.array([[guess[name] for name in names] for guess in demo.guesses(scene, names)])
        assert rows.shape == (4, len(names)) and (rows > low).all() and (rows < high).all()
        assert demo.guesses(scene, names) == demo.guesses(scene, names) != demo.guesses(scene, names, seed=8)
        offsets = (unknowns.scaled(rows) - unknowns.scaled(np.array([*job.truth.values()]))) / unknowns.scaled_range()
        assert (np.abs(offsets.mean(axis=0)) > 0.02).all() and (np.ptp(offsets, axis=0) > 0.4).all()


def test_an_estimate_beside_its_bar_or_in_doubt_is_not_right() -> None:
    result = SimpleNamespace(doubts=[], sd={"a": 0.01}, scaled_error=lambda truth: {"a": 0.029})
    assert demo.right(result, {"a": 1.0})
    assert not demo.right(SimpleNamespace(**vars(result) | {"doubts": ["not converged"]}), {"a": 1.0})
    assert not demo.right(SimpleNamespace(**vars(result) | {"scaled_error": lambda truth: {"a": -0.031}}), {"a": 1.0})
