"""Work that does not fit into memory is refused before it is tried."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import invert
from risp_torch.__main__ import PROGRAM
from risp_torch.files import memory
from risp_torch.risp import TrainSettings
from risp_torch.risp.training.ranks import Ranks
from risp_torch.risp.training.train import _check
from tests.reference.small_scenes import make_scene
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
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", ((tmp_path / "max", tmp_path / "current", tmp_path / "stat"),))
    assert memory.available_bytes() == 4000 * 1024
    system(max="1000\n")
    assert memory.available_bytes() == 1000 - 100 + 7
    system(current="2000\n")
    assert memory.available_bytes() == 0


@pytest.mark.parametrize("allocate", [lambda: np.zeros(10**17), lambda: torch.zeros(10**16)])
def test_a_command_that_runs_out_of_memory_says_so(capsys: pytest.CaptureFixture[str], allocate: object) -> None:
    assert PROGRAM.run(SimpleNamespace(command="simulate", run=lambda options: allocate())) == 2
    assert capsys.readouterr().err == "risp simulate: error: it does not fit into memory: take less of it at a time\n"


def test_motions_that_do_not_fit_are_refused_before_they_are_tried() -> None:
    scene = make_scene()
    for options in ({"worlds": 2**31 - 1}, {"frames": 2**31 - 1, "worlds": 1000}):
        with pytest.raises(UserError, match="a motion of .* worlds and .* frames would take about .* of memory"):
            scene.rollout(**options)
    many = {"block.density": torch.ones(1).expand(2**31 - 1)}
    with pytest.raises(UserError, match="a motion of 2147483647 worlds"):
        scene.rollout(many)


@pytest.mark.parametrize("renderer", ["soft", "mitsuba"])
def test_films_that_do_not_fit_are_refused(command_line: Callable, tmp_path: Path, renderer: str) -> None:
    for frames in (10**7, 10**9):
        status, out, err = command_line(
            "simulate", "toss", "--frames", frames, "--renderer", renderer, "--out", tmp_path / "film"
        )
        assert status == 2 and not out and err.count("\n") == 1
        assert f"a film of {frames + 1} pictures of 128 x 128 pixels would take about" in err and "--frames" in err
    assert not list(tmp_path.iterdir())


def test_starts_that_do_not_fit_are_refused() -> None:
    scene = make_scene()
    with torch.no_grad():
        film = scene.render(scene.rollout())[0]
    with pytest.raises(UserError, match="the films of 2000000000 starts would take about .* of memory"):
        invert(scene, film, "block.density", starts=2 * 10**9, progress=False)


def test_orders_of_pictures_that_do_not_fit_are_refused() -> None:
    class Many:
        def __len__(self) -> int:
            return 10**15

    settings = TrainSettings(gamma=0.0, epochs=1, learning_rate=1e-3, width=4)
    with pytest.raises(UserError, match="an order of 1000000000000000 pictures would take about 16 PB of memory"):
        _check(Many(), settings, Ranks())


def test_datasets_larger_than_their_disk_are_refused(command_line: Callable, tmp_path: Path) -> None:
    status, _, err = command_line("dataset", "cube", "--images", 2 * 10**9, "--out", tmp_path / "data")
    assert status == 2 and "a dataset of 2000000000 pictures takes " in err and "take fewer --images" in err
    assert not list(tmp_path.iterdir())


_PAGE_FAULTS = """
import resource
import numpy as np
from risp_torch.files.memory import keep_freed_memory
def faults():
    np.ones(10_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
default = faults()
keep_freed_memory()
print(default, faults())
"""


@pytest.mark.processes
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
def test_freed_memory_serves_the_next_film() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    program = subprocess.run([sys.executable, "-c", _PAGE_FAULTS], env=environment, capture_output=True, check=True)
    by_default, kept = (int(word) for word in program.stdout.split())
    assert kept < 100 < 150 < by_default
