"""Work that does not fit into memory is refused before it is tried."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import memory
from risp_torch.__main__ import _run
from ti_sim.base.errors import UserError


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (1_500_000_000, "1.5 GB"), (23_400_000_000, "23 GB"), (9e16, "90 PB")],
)
def test_numbers_of_bytes_are_readable(count: int, text: str) -> None:
    assert memory.readable_bytes(count) == text


def test_what_fits_passes_and_what_does_not_is_named() -> None:
    memory.check_memory(999, "a film", "take less", available=1000)
    with pytest.raises(UserError, match="^a film would take about 1.1 kB of memory, and 1 kB are free: take less$"):
        memory.check_memory(1100, "a film", "take less", available=1000)
    with pytest.raises(UserError, match="an ocean would take about"):
        memory.check_memory(10**25, "an ocean", "take a pond")


def test_the_tightest_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def system(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)

    system(meminfo="MemTotal: 9000 kB\nMemAvailable: 4000 kB\n", max="max\n", current="100\n", stat="inactive_file 7\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUPS", ((tmp_path / "max", tmp_path / "current", tmp_path / "stat"),))
    assert memory.available_bytes() == 4000 * 1024
    system(max="1000\n")
    assert memory.available_bytes() == 1000 - 100 + 7
    system(current="2000\n")
    assert memory.available_bytes() == 0


@pytest.mark.parametrize("allocate", [lambda: np.zeros(10**17), lambda: torch.zeros(10**16)])
def test_a_command_that_runs_out_of_memory_says_so(capsys: pytest.CaptureFixture[str], allocate: object) -> None:
    assert _run(SimpleNamespace(command="simulate", run=lambda options: allocate())) == 2
    assert capsys.readouterr().err == "risp simulate: error: it does not fit into memory: take less of it at a time\n"
