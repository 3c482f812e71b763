"""Folders of films with measured truth: what is read, what is refused, and the errors of estimates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from risp_torch import invert, load_scene, simulate_video
from risp_torch.data import ErrorRow, estimate_errors, median_errors, read_measured_films
from ti_sim import UserError

Run = Callable[..., tuple[int, str, str]]


def put(path: Path, content: Any) -> Path:
    """Write a JSON file, or an empty film."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("" if content is None else content if isinstance(content, str) else json.dumps(content))
    return path


def estimate(value: float, sd: float | None, **more: Any) -> dict[str, Any]:
    return {"value": value, "unit": "kg/m3", "low": 1.0, "high": 1e4, "sd": sd, "observable": True, "scale": "log10"} | more


def put_result(results: Path, film: str, **unknowns: dict[str, Any]) -> None:
    put(results / film / "result.json", {"unknowns": {name.replace("_", "."): about for name, about in unknowns.items()}})


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """Three films: one has its truth beside it, two share that of their folder."""
    folder = tmp_path / "films"
    put(folder / "drop.mp4", None)
    put(
        folder / "drop.json",
        {"scene": "toss", "unknown": {"body.density": 600, "body.velocity": [0.5, 0]}, "units": {"body.density": "kg/m3"}},
    )
    put(folder / "lab/b.M4V", None)
    put(folder / "lab/a.mov", None)
    put(folder / "lab/truth.json", {"scene": "toss", "unknown": {"body.density": 500.0}})
    return folder


def test_films_with_their_truth(films: Path) -> None:
    put(films / "lab/camera.json", {"width": 64})
    put(films / "runs/drop/result.json", {})
    put(films / "runs/drop/comparison.mp4", None)
    put(films / ".hidden/x.mp4", None)
    read = read_measured_films(films)
    assert [film.name for film in read] == ["drop", "lab/a", "lab/b"]
    assert read[0].truth == {"body.density": 600.0, "body.velocity[0]": 0.5, "body.velocity[1]": 0.0}
    assert (read[0].scene, read[0].units, read[0].film) == ("toss", {"body.density": "kg/m3"}, films / "drop.mp4")
    assert read[2].truth == {"body.density": 500.0} and read[2].truth_file == films / "lab/truth.json"
    put(films / "lab/a.json", {"scene": "toss", "unknown": {"body.density": 400.0}})
    assert read_measured_films(films)[1].truth == {"body.density": 400.0}  # its own goes before that of the folder


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"scene": "toss",\n', "is not JSON (line 2: "),
        ("[1]", "is not a JSON object"),
        ({"unknown": {"a": 1}}, 'names no scene: write "scene"'),
        ({"scene": "toss"}, 'has no true values: write "unknown"'),
        ({"scene": "toss", "unknown": {"a": "heavy"}}, 'the true value of a is "heavy": give a finite number'),
        ({"scene": "toss", "unknown": {"a": [1, True]}}, "the true value of a[1] is true: give a finite number"),
        ('{"scene": "toss", "unknown": {"a": NaN}}', "the true value of a is NaN: give a finite number"),
        ({"scene": "toss", "unknown": {"a": 1}, "units": "kg"}, '"units" is not an object of texts'),
        ({"scene": "toss", "unknown": {"a": 1}, "units": {"b": "kg"}}, "has a unit of b, and no true value"),
    ],
)
def test_malformed_truth(content: Any, words: str, films: Path) -> None:
    file = put(films / "drop.json", content)
    with pytest.raises(UserError) as error:
        read_measured_films(films)
    assert str(error.value).startswith(str(file)) and words in str(error.value)


def test_every_malformed_file_is_named_once(films: Path) -> None:
    put(films / "drop.json", "{")
    put(films / "lab/truth.json", "[]")
    put(films / "lone.mp4", None)
    put(films / "forgotten.json", {"scene": "toss", "unknown": {"a": 1}})
    put(films / "drop.mov", None)
    with pytest.raises(UserError) as error:
        read_measured_films(films)
    lines = str(error.value).splitlines()
    assert sorted(line.split(" ")[0].strip(":") for line in lines) == sorted(
        str(films / name) for name in ("drop.json", "lab/truth.json", "lone.mp4", "forgotten.json", "drop.mp4")
    )
    assert any("lone.mp4 has no true values: write lone.json or truth.json beside it" in line for line in lines)


def test_folders_without_films(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no films"):
        read_measured_films(tmp_path)
    with pytest.raises(UserError, match="is not a folder"):
        read_measured_films(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("row", "error", "holds"),
    [
        (ErrorRow("f", "a", "", 600.0, 606.0, 0.0022, is_log=True), 1.0, False),  # 0.00432 decades off
        (ErrorRow("f", "a", "", 600.0, 606.0, 0.0023, is_log=True), 1.0, True),
        (ErrorRow("f", "a", "", -2.0, -2.1, 0.052), -5.0, True),
        (ErrorRow("f", "a", "", -2.0, -2.1, 0.050), -5.0, False),
        (ErrorRow("f", "a", "", 0.0, 0.1, 0.1), None, True),
        (ErrorRow("f", "a", "", 600.0, 606.0), 1.0, None),
        (ErrorRow("f", "a", "", 600.0), None, None),
    ],
)
def test_errors_and_bars(row: ErrorRow, error: float | None, holds: bool | None) -> None:
    assert row.error == (None if error is None else pytest.approx(error)) and row.covers_truth is holds


def test_table_of_errors(films: Path, tmp_path: Path, command_line: Run) -> None:
    """A quantity that the result lacks, one that the film does not show, a film without a result; medians last."""
    results = tmp_path / "runs"
    put_result(results, "drop", body_density=estimate(606.0, 0.01))
    put_result(results, "lab/a", body_density=estimate(470.0, 0.001))
    status, out, err = command_line("data", "errors", films, "--results", results)
    assert (status, err) == (0, "")
    *lines, closing = out.splitlines()[2:]
    assert closing == f"next: risp show {results}/FILM"
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    assert rows == [
        ["drop", "body.density", "600 kg/m3", "606 kg/m3", "± 2.3 %", "+1.00 %", "yes"],
        ["drop", "body.velocity[0]", "0.5", "-", "-", "-", "-"],
        ["drop", "body.velocity[1]", "0", "-", "-", "-", "-"],
        ["lab/a", "body.density", "500 kg/m3", "470 kg/m3", "± 0.23 %", "-6.00 %", "no"],
        ["lab/b", "body.density", "500", "-", "-", "-", "-"],
        ["median of |error|", "body.density", "3.50 %", "1 of 2"],
        ["median of |error|", "body.velocity[0]", "-", "-"],
        ["median of |error|", "body.velocity[1]", "-", "-"],
    ]
    put_result(results, "lab/b", body_density=estimate(550.0, 0.1, observable=False))
    rows = estimate_errors(read_measured_films(films), results)
    assert rows[-1].error == pytest.approx(10.0) and rows[-1].sd is None
    assert median_errors(rows)["body.density"] == (pytest.approx(6.0), 1, 2)


def test_results_that_do_not_fit(films: Path, tmp_path: Path) -> None:
    read, results = read_measured_films(films), tmp_path / "runs"
    with pytest.raises(UserError, match="has no result of these films: run risp invert for each with --out .*runs/drop"):
        estimate_errors(read, results)
    put_result(results, "drop", body_density=estimate(606.0, 0.01, unit="g/cm3"))
    with pytest.raises(UserError, match=r"drop.json gives body.density in kg/m3, and .* in g/cm3: write the true value in"):
        estimate_errors(read, results)
    put_result(results, "drop", body_density={"sd": 1})
    with pytest.raises(UserError, match=r"result.json is damaged \(body.density\)"):
        estimate_errors(read, results)
    put(results / "drop/result.json", {"values": {}})
    with pytest.raises(UserError, match="has no estimates"):
        estimate_errors(read, results)


@pytest.mark.usefixtures("undiagnosed")
def test_a_film_and_its_inversion(tmp_path: Path, command_line: Run) -> None:
    """What ``invert`` writes for a film that is made here: the error is that of its estimate."""
    scene = load_scene("toss", size=32)
    scene.frames = 20
    film = simulate_video(scene, tmp_path / "films/toss.mp4", crf=5)
    truth = float(scene.table["body.density"].value)
    put(tmp_path / "films/toss.json", {"scene": "toss", "unknown": {"body.density": truth}, "units": {"body.density": "kg/m3"}})
    result = invert(scene, film, ["body.density"], starts=2, out=tmp_path / "runs/toss")
    (row,) = estimate_errors(read_measured_films(tmp_path / "films"), tmp_path / "runs")
    assert row.estimate == pytest.approx(result.values["body.density"]) and row.is_log and row.unit == "kg/m3"
    assert row.sd == pytest.approx(result.sd["body.density"])
    off = abs(result.scaled_error({"body.density": truth})["body.density"])
    assert abs(row.error) < 5 and row.covers_truth == (off <= 1.96 * row.sd)
    assert "toss" in command_line("data", "errors", tmp_path / "films", "--results", tmp_path / "runs")[1]
