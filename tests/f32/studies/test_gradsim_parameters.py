"""Table 6 of gradSim: its rows name numbers of shipped scenes, its commands are what is run, its page counts what it says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from risp_torch import load_scene
from risp_torch.__main__ import main as risp
from studies.gradsim.__main__ import main
from studies.gradsim.cells import FAILED
from studies.gradsim.parameters import FRAMES, ROWS, Asked, commands, errors_and_bars, inside, page_text, verdict_of
from studies.gradsim.presets import PRESETS


def test_every_row_has_bounds_about_its_true_numbers_and_not_in_their_middle() -> None:
    scenes = {name: load_scene(name) for name in {row.scene for row in ROWS}}
    for row in ROWS:
        for name, (low, high, scale) in row.bounds().items():
            base, *index = name.replace("]", "").split("[")
            true = float(np.asarray(scenes[row.scene].parameters[base].value)[tuple(int(k) for k in index)])
            share = (true - low) / (high - low) if scale == "linear" else np.log(true / low) / np.log(high / low)
            assert share == pytest.approx(0.4 if row.reach is not None else 1 / 3), name
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_systems_have_at_least_the_marks_of_the_paper() -> None:
    marks = {system: sum(row.system == system for row in ROWS) for system in dict.fromkeys(row.system for row in ROWS)}
    paper = {"rigid body": 7, "simple pendulum": 3, "double pendulum": 3, "deformable object": 8, "cloth": 7}
    assert all(marks[system] >= count for system, count in paper.items())


def test_a_page_counts_errors_within_their_bars() -> None:
    row = Asked("rigid body", "velocity", "toss", ("body.velocity[0]", "body.velocity[1]"), 0.5)
    result = {
        "truth": {"body.velocity[0]": 0.8, "body.velocity[1]": 0.0},
        "error": {"body.velocity[0]": 0.2, "body.velocity[1]": -0.19},
        "bar": {"body.velocity[0]": 0.1, "body.velocity[1]": 0.1}, "relative": dict.fromkeys(row.unknown, False),
        "unit": dict.fromkeys(row.unknown, "m/s"), "converged": True, "unseen": [], "seconds": 3.2,
    }  # fmt: skip
    assert inside(result) == (1, 2)
    text = page_text([row, row], [result, {FAILED: "it fell", "seconds": 1.0}], PRESETS["tiny"])
    assert "1 of 2 errors are within" in text and "0.2 m/s; -0.19 m/s" in text and "it fell" in text


def test_errors_are_parts_of_the_truth_and_bars_are_no_decades() -> None:
    values, truth = {"a": 3.0, "b": 0.5}, {"a": 2.0, "b": 0.4}
    errors, bars = errors_and_bars(values, {"a": 0.1, "b": 0.02}, truth, {"a": True, "b": False})
    assert errors == pytest.approx({"a": 0.5, "b": 0.1})  # of the truth, not of the estimate
    assert bars == pytest.approx({"a": 0.1 * np.log(10), "b": 0.02})


def test_wide_bars_are_not_found() -> None:
    result = {"unseen": [], "converged": True, "relative": {"a": True, "b": False}, "bar": {"a": 0.29, "b": 5.0}}
    assert verdict_of(result) == "found"
    assert verdict_of(result | {"bar": {"a": 0.83, "b": 0.0}}) == "not found: bar above 30 %"
    assert verdict_of(result | {"converged": False}) == "not converged"
    assert verdict_of(result | {"unseen": ["a leaves no trace"]}) == "not told by the film"


@pytest.mark.usefixtures("undiagnosed")
def test_a_command_of_the_page_finds_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole of its smallest preset; then the two commands of the first row, typed as they stand there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FRAMES, "pendulum", 20)
    assert main(["table-6", "--preset", "tiny", "--jobs", "1", "--out", "runs/gradsim"]) == 0
    page = Path("runs/gradsim/tiny/pages/table-6.md").read_text(encoding="utf-8")
    row = next(row for row in ROWS if row.key == "simple-pendulum-position")
    cell = json.loads(Path(f"runs/gradsim/tiny/table-6/{row.key}.json").read_text(encoding="utf-8"))["result"]
    for command in commands(row, PRESETS["tiny"].size):
        assert command in page
        assert risp([*shlex.split(command)[1:], *(["--out", "runs/found"] if "invert" in command else [])]) == 0
    result = json.loads(Path("runs/found/result.json").read_text(encoding="utf-8"))["unknowns"]["pendulum.angle"]
    assert result["value"] == pytest.approx(cell["values"]["pendulum.angle"], abs=1e-5)
    assert result["sd"] == pytest.approx(cell["bar"]["pendulum.angle"], rel=1e-2)
