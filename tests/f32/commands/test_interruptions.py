"""Ctrl-C, SIGTERM, warnings, and scenes that end the program: one sentence each, and the exit status that belongs to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from risp_torch.commands import control, invert, scenes, simulate, train
from risp_torch.files.atomic import atomic_replacement

Risp = Callable[..., tuple[int, str, str]]


def interrupted(number: int) -> Callable[[Namespace], int]:
    """A command that gets a signal while it writes a file."""

    def run(options: Namespace) -> int:
        options.out = "run"
        with atomic_replacement(Path("file")) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), number)
            time.sleep(10)
        return 0

    return run


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_commands_with_a_sentence(
    number: int, status: int, command_line: Risp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(scenes, "run", interrupted(number))
    assert command_line("scenes") == (status, "", "risp scenes: stopped\n")
    monkeypatch.setattr(train, "run", interrupted(number))
    again = "risp train: stopped; repeat the command with --out run to resume the run\n"
    assert command_line("train", "cube") == (status, "", again)
    assert not list(tmp_path.iterdir())  # nor what it was writing
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_only_commands_that_go_on_say_so() -> None:
    assert control.is_resumable(Namespace()) and invert.is_resumable(Namespace()) and not hasattr(simulate, "is_resumable")


@pytest.mark.processes
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_while_modules_are_loaded(number: int, status: int) -> None:
    program = (
        "import os, sys\n"
        "class Loading:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch':\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Loading())\n"
        "sys.argv[0] = '/somewhere/bin/risp'\n"
        "import risp_torch\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "risp: stopped before it had begun\n")


def test_warnings_are_sentences(command_line: Risp, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: Namespace) -> int:
        warnings.warn("the step is\ntoo long", stacklevel=1)
        return 0

    monkeypatch.setattr(scenes, "run", run)
    shown = warnings.showwarning
    assert command_line("scenes") == (0, "", "risp scenes: warning: the step is too long\n")
    assert warnings.showwarning is shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys\nsys.exit(0)", "does not load: SystemExit: 0"),
        ("import sys\ndef make_scene(): sys.exit(5)", "make_scene() of scene.py failed: SystemExit: 5"),
    ],
)
def test_scenes_do_not_end_the_program(text: str, words: str, command_line: Risp, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scene.py").write_text(text)
    status, _, err = command_line("simulate", "scene.py")
    assert status == 2 and words in err


def test_nor_do_they_later(command_line: Risp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "run", lambda options: sys.exit(0))
    status, _, err = command_line("scenes")
    assert status == 2 and err == "risp scenes: error: the scene's file ends the program (sys.exit(0)): take that out of it\n"


def test_scene_files_are_python_files(command_line: Risp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scene.txt").write_text("")
    status, _, err = command_line("simulate", "./scene.txt")
    assert status == 2 and "scene file ./scene.txt is no Python file: give the path of a .py file" in err
