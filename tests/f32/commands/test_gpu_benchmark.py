"""``python -m benchmarks gpu``: rows of one job, of a job that fails, and of one that runs out of time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import gpu
from benchmarks.table import Table
from ti_sim.base.runtime import require

JOB = "chain"
ROW = gpu.JOBS[JOB].rows[0][0]
PAIR = "hand"  # a job of four rows

pytestmark = pytest.mark.skipif(require().device != "cpu", reason="the table without a GPU")


def table_of(name: str, **options: float) -> Table:
    (table,) = gpu.tables(quick=True, jobs=(name,), **options)
    return table


def run_program(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Jobs run this program in place of the benchmark's."""
    monkeypatch.setattr(gpu, "PROGRAM", (sys.executable, "-c", program))


@pytest.mark.processes
def test_a_job_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    table = table_of(JOB)
    ((label, unit, gpu_cell, cpu_cell, ratio),) = table.rows
    assert (label, unit, gpu_cell, ratio) == (ROW, "ms", "", "")
    assert 0 < float(cpu_cell.replace(",", "")) < 1e5
    assert gpu.NO_GPU in table.remarks
    printed = capsys.readouterr().out.splitlines()
    assert printed == [gpu.NO_GPU, f"CPU: {ROW}: {cpu_cell} ms"]


def test_a_row_of_the_process_of_a_job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(quick: bool, left: float) -> Iterator[float]:
        assert quick and 8.0 < left < 9.0
        yield 1.5
        raise TimeoutError("> 7 s")

    monkeypatch.setitem(gpu.JOBS, PAIR, replace(gpu.JOBS[PAIR], measure=measure))
    assert gpu.main([PAIR, "--device", "cpu", "--end", str(time.time() + 9.0), "--quick"]) == 0
    first, second = (label for label, _ in gpu.JOBS[PAIR].rows[:2])
    assert capsys.readouterr().out == f'{{"row": "{first}", "value": 1.5}}\n{{"row": "{second}", "value": "> 7 s"}}\n'


def test_rows_before_a_failure_stay_and_its_message_is_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gpu.JOBS[PAIR].rows[0][0]
    row = f'{{"row": "{first}", "value": 1234.5}}'
    run_program(monkeypatch, f"print('{row}'); raise ValueError('out of | memory')")
    assert [row[3] for row in table_of(PAIR).rows] == ["1,230", *["ValueError: out of / memory"] * 3]


def test_a_job_that_runs_out_of_time_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gpu.JOBS[PAIR].rows[0][0]
    row = f'{{"row": "{first}", "value": 2.0}}'
    run_program(monkeypatch, f"import time; print('{row}', flush=True); time.sleep(60)")
    monkeypatch.setitem(gpu.JOBS, PAIR, replace(gpu.JOBS[PAIR], seconds=3.0))
    began = time.monotonic()
    assert [row[3] for row in table_of(PAIR).rows] == ["2.00", *["> 3 s"] * 3]
    assert time.monotonic() - began < 20


def test_a_job_without_time_left_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    run_program(monkeypatch, "raise SystemExit('started')")
    assert [row[3] for row in table_of(PAIR, seconds=1.0).rows] == ["no time left"] * 4


def test_ratios_are_speeds_of_the_gpu_over_those_of_the_cpu() -> None:
    assert gpu._ratio_text(2.0, 8.0, "ms") == gpu._ratio_text(8.0, 2.0, "steps/s") == "4.0 x"
    assert gpu._ratio_text("> 60 s", 8.0, "s") == ""
