"""Estimates in the pages are those that the commands print: tables agree with their records, and records with the code."""

from __future__ import annotations

import json
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from risp_torch import read_video
from risp_torch.__main__ import main
from studies.pages.estimates import EstimateTable, all_tables, row_of, run_commands, scene_file_of, table_text, tables_of
from tests.reference.searches import without_diagnosis, without_plots
from ti_sim import UserError

TABLES = all_tables()
# Runs whose commands take minutes: their tables are compared with the records alone.
LONG = {
    "readme-found", "readme-answer", "look-matched", "losses-found", "losses-by-pixels", "smoke-found",
    "start-start", "start-spread", "error-bars-kept",
}  # fmt: skip
PAGE = """```
risp simulate toss --out runs/a
risp invert toss --video runs/a/video.mp4 \\
    --unknown body.density --out runs/b
risp simulate toss --out runs/later
```

<!-- estimates of runs/b, truth: body.density=600 -->
old
<!-- end -->
"""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_shows_its_record(table: EstimateTable) -> None:
    """Page, commands and true values are those with which the numbers were computed; every number follows from the record."""
    record = table.record()
    assert (record["page"], record["run"], record["truth"]) == (table.page, table.run, table.truth)
    assert tuple(record["commands"]) == table.commands
    assert table_text(table.truth, record["unknowns"], record["doubts"]) == table.text


@pytest.mark.parametrize("table", [table for table in TABLES if table.name not in LONG], ids=lambda table: table.name)
def test_a_record_is_current(table: EstimateTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The film is made again, and a search over the recorded film that begins at the recorded estimate stays there.

    The estimate moves by less than a fifth of its error bar, and the bar without compression changes by less than a fifth. The
    part of compression, the scatter of three films that are encoded here, has a standard deviation of a half itself: beyond a
    fifth of the bar it changes by less than a factor of 3. Bars of an estimate without doubts have no part for a wrong scene, so
    that known numbers are not tested.
    """
    monkeypatch.chdir(tmp_path)
    record = table.record()["unknowns"]
    (tmp_path / "record.json").write_text(json.dumps({"values": {label: about["value"] for label, about in record.items()}}))
    *before, search = table.commands
    uses_scene = any("my_scene.py" in command for command in table.commands)
    run_commands(before, tmp_path, scene_file=scene_file_of(table.page) if uses_scene else None)
    if table.film is not None:
        new, recorded = (np.asarray(read_video(path)) for path in (tmp_path / table.film, table.film_path))
        assert np.sqrt(np.mean((new - recorded) ** 2)) < 0.005  # of white: another encoding of the same pictures
        shutil.copyfile(table.film_path, tmp_path / table.film)
    begun = ["--from", "record.json", "--starts", "scene", "--iterations", "2", "--solver", "refine=2"]
    begun += ["--solver", "first_frames=35"]
    with nullcontext() if table.record()["doubts"] else without_diagnosis(), without_plots():
        assert main([*shlex.split(search)[1:], *begun]) == 0
    unknowns = json.loads((tmp_path / table.run / "result.json").read_text())["unknowns"]
    for label, about in record.items():
        one_bar_off = about["value"] + about["sd"] if about["scale"] == "linear" else about["value"] * 10 ** about["sd"]
        assert abs(unknowns[label]["value"] - about["value"]) < 0.2 * abs(one_bar_off - about["value"]), label
        assert other_parts(unknowns[label]) == pytest.approx(other_parts(about), rel=0.2), label
        recorded, new = compression_part(about), compression_part(unknowns[label])
        assert recorded / 3 - 0.2 * about["sd"] < new < 3 * recorded + 0.2 * about["sd"], label


def other_parts(unknown: dict[str, Any]) -> float:
    """The error bar without the part of compression."""
    return (unknown["sd"] ** 2 - compression_part(unknown) ** 2) ** 0.5


def compression_part(unknown: dict[str, Any]) -> float:
    """The part of compression in the error bar."""
    return unknown["parts"].get("compression", 0.0)


def test_a_table_belongs_to_the_block_that_writes_its_run() -> None:
    (table,) = tables_of("page.md", PAGE)
    assert table.run == "runs/b" and table.truth == {"body.density": 600.0} and table.text == "old\n"
    assert len(table.commands) == 2
    assert table.commands[1] == "risp invert toss --video runs/a/video.mp4 --unknown body.density --out runs/b"
    with pytest.raises(UserError, match="no command above the table of runs/c has --out runs/c"):
        tables_of("page.md", PAGE.replace("of runs/b", "of runs/c"))


def test_rows_compare_with_the_truth() -> None:
    """Errors are estimate minus truth; those of logarithmic unknowns are relative to the truth, and counted in decades."""
    log = row_of("a", 2.0, {"value": 2.2, "sd": 0.02, "unit": "kg", "scale": "log10"})
    assert log == ["`a`", "2 kg", "2.2 kg", "± 4.7 %", "+10 %", "+2.1"]
    linear = row_of("b", 2.0, {"value": 1.9, "sd": 0.05, "unit": "", "scale": "linear"})
    assert linear == ["`b`", "2", "1.9", "± 0.05", "-0.1", "-2.0"]


def test_a_failing_command_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ended with status 2: risp simulate nowhere"):
        run_commands(["risp simulate nowhere"], tmp_path)
