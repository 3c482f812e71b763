"""Fixtures of the commands' tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from risp_torch import simulate_video
from tests.reference import small_scenes

Risp = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The film of the small scene."""
    return simulate_video(small_scenes.make_scene(), tmp_path_factory.mktemp("film") / "film.mp4", crf=10)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the scene file small.py."""
    shutil.copy(small_scenes.__file__, tmp_path / "small.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def risp(folder: Path, command_line: Risp) -> Risp:
    """Runs the command line in this process, in the folder: exit status, stdout, stderr."""
    return command_line
