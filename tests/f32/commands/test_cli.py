"""The command line: its help, its last line, and commands in separate processes."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import risp_torch
import risp_torch.inversion.diagnostics.gradient_check
from risp_torch import Scene, scene_names
from risp_torch.__main__ import COMMANDS, PROGRAM, main
from risp_torch.commands.solver_settings import SEARCH_GROUPS, WARM_START_GROUPS
from risp_torch.inversion.diagnostics.gradient_check import FilmGradient

Risp = Callable[..., tuple[int, str, str]]


def test_scenes_lists_what_ships(risp: Risp) -> None:
    status, out, _ = risp("scenes")
    assert status == 0
    assert "cube" in out and "toss" in out and "unknown: ground.contact.stiffness" in out
    assert not [line for line in out.splitlines() if line.rstrip().endswith(":")]  # no list is empty
    after_gear = out.split("\ngear ")[1].splitlines()[1]
    assert after_gear.split() == "driven by a network: gear.actuation (risp control)".split()


def test_version(risp: Risp) -> None:
    assert risp("--version") == (0, f"risp {risp_torch.__version__}\n", "")


def test_a_reader_that_ends_early(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``risp scenes | head -1``: no traceback, and nothing is left that Python would fail to write at its end."""
    reading, writing = os.pipe()
    os.close(reading)
    for arguments in (["scenes"], ["--help"]):
        with os.fdopen(os.dup(writing), "w") as broken:
            monkeypatch.setattr(sys, "stdout", broken)
            assert main(arguments) == 141
            print("more", flush=True)
    os.close(writing)


def test_help_of_every_command(risp: Risp) -> None:
    status, out, _ = risp("--help")
    assert status == 0 and all(command in out for command in COMMANDS)
    for command in COMMANDS:
        status, out, _ = risp(command, "--help")
        assert status == 0 and "usage: risp" in out


def test_options_of_an_inversion_are_few_and_grouped() -> None:
    """The everyday ones stand first, and no group of any command has more than eight."""
    _, parsers = PROGRAM.parsers()
    options = [action for action in parsers["invert"]._actions if action.option_strings and action.dest != "help"]
    assert len(options) <= 35 and len(COMMANDS) == 14
    for name in ("invert", "landscape"):
        groups = [group._group_actions for group in parsers[name]._action_groups if group._group_actions]
        assert max(len(group) for group in groups) <= 8
    everyday = [action.dest for action in parsers["invert"]._optionals._group_actions]
    assert everyday == ["help", "video", "unknown", "bounds", "prior", "loss", "settings", "out"]


def test_settings_of_solvers_are_listed_with_their_meanings(risp: Risp) -> None:
    status, out, _ = risp("invert", "--solver", "help")
    assert status == 0
    assert "growth=1.25  factor by which the horizon grows." in out and "cma.generations=10  number of generations." in out
    for group in (*SEARCH_GROUPS, *WARM_START_GROUPS.values()):
        assert all(f"  {name}=" in out for name in group.names)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_last_line_of_a_command(command: str) -> None:
    """Each command ends by ``print_next_steps``."""
    module = importlib.import_module(f"risp_torch.commands.{command}")
    assert "print_next_steps(" in inspect.getsource(module)


def test_paths_of_the_last_line_can_be_pasted_into_a_shell(risp: Risp) -> None:
    status, out, _ = risp("simulate", "small.py", "--frames", 1, "--out", "my run")
    assert status == 0
    looked_at, command = out.splitlines()[-1].removeprefix("look at ").split("; next: ")
    assert shlex.split(looked_at) == ["my run/strip.png", "and", "my run/video.mp4"]
    assert shlex.split(command) == ["risp", "invert", "small.py", "--video", "my run/video.mp4", "--unknown", "NAME"]


def test_gradients_are_printed_in_a_table(risp: Risp, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [FilmGradient("block.density", 1.0, 1.0), FilmGradient("gravity[2]", 0.0, 1e-12, status="not observable")]
    checks.append(FilmGradient("hip.actions", 0.5, 0.6, 0.2, "kink, inside", 0.2, 1.0))
    asked: list[str] = []

    def check(scene: Scene, names: list[str], **options: object) -> tuple[list[FilmGradient], float]:
        asked[:] = names
        return checks, 0.5

    monkeypatch.setattr(risp_torch.inversion.diagnostics.gradient_check, "check_film_gradient", check)
    status, out, _ = risp("check", "small.py", "--gradient", "--precision", "f32")
    assert status == 0 and "right" in out and "not observable" in out and "WRONG" not in out
    assert "right, at a kink (slopes +2.0000e-01 from below, +1.0000e+00 from above)" in out
    checks.append(FilmGradient("block.velocity[1]", 1.0, -1.0, 2.0, "WRONG"))
    names = ["block.velocity[1]", "block.density"]
    status, out, _ = risp("check", "small.py", "--gradient", "--precision", "f32", "--unknown", *names, "--unknown", "gravity[2]")
    assert status == 1 and "WRONG" in out and asked == [*names, "gravity[2]"]


# -- in a process of its own ----------------------------------------------------------------------------------------------


def risp_process(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "risp_torch", *(str(argument) for argument in arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.processes
def test_gradients_in_a_process_of_its_own(folder: Path) -> None:
    names = ["block.density", "ground.contact.friction", "camera.turn"]
    unknown = [f"--unknown={name}" for name in names]
    done = risp_process("check", "small.py", "--gradient", *unknown, "--device", "cpu", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == 5 and all(name in done.stdout for name in names)
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["small.py"]


@pytest.mark.processes
def test_an_error_in_a_process_of_its_own(folder: Path) -> None:
    done = risp_process("simulate", "cub", cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    known = "ball_soft, beam, cloth, cloth_control, cube, double_pendulum, fold, gear, hand, hand_cube, jellyfish, pendulum "
    known += f"and {len(scene_names()) - 12} more"
    near = "'cube' or 'hand_cube' or 'real/contactnets_cube'"
    said = f"risp simulate: error: unknown scene 'cub': did you mean {near}? (known: {known})"
    assert done.stderr.splitlines() == [said]
