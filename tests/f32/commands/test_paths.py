"""No command writes into its own input, and paths that no file can have are refused before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from risp_torch import write_frames

Risp = Callable[..., tuple[int, str, str]]


@pytest.fixture
def inputs(folder: Path) -> dict[Path, bytes]:
    """A film, a link to it, and files that commands read; their bytes."""
    write_frames("film", np.random.default_rng(0).random((11, 8, 8, 3)), fps=30)
    Path("alias").symlink_to("film")
    Path("masks/body").mkdir(parents=True)
    Path("masks/body/0.png").write_bytes(Path("film/00000.png").read_bytes())
    for name in ("film.mov", "tracks.csv", "camera.json", "result.json", "points.csv", "board.png", "my.py", "net.safetensors"):
        Path(name).write_text("input")
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "film film --first 8 --out film", "film alias --first 8 --out film", "film film --first 8 --out alias",
        "film film/ --out film/../film", "film film --out film/part", "film film --out .", "film film/00003.png --out film",
        "film film --sheet film/00003.png", "film alias --sheet film/00003.png", "film film --sheet alias/sheet.png",
        "film film.mov --out film.mov", "film board.png --sheet board.png",
        "invert toss --video film --unknown body.density --out film",
        "invert toss --video film --unknown body.density --out film/run",
        "invert toss --video film.mov film --unknown body.density --out alias/run",
        "invert toss --masks masks --loss mask --unknown body.density --out masks/body",
        "invert toss --masks body=masks/body --loss mask --unknown body.density --out masks/body/run",
        "invert toss --tracks tracks.csv --loss image-tracks --unknown body.density --out tracks.csv",
        "invert toss --video film --camera-file camera.json --unknown body.density --out camera.json",
        "invert my.py --video film --unknown body.density --out my.py",
        "invert toss --video film --pixel-weights masks/body --unknown body.density --out masks/body",
        "landscape toss --unknown body.density --video film --out film",
        "simulate toss --from result.json --out result.json", "render toss --from result.json --out result.json",
        "camera pose --points points.csv --focal 100 --size 8x8 --out points.csv",
        "camera pose --points points.csv --camera-file camera.json --out camera.json",
        "camera board board.png --board 9x6 --square 0.01 --out board.png",
        "evaluate toss --network net.safetensors --out net.safetensors",
    ],
)
def test_no_command_writes_into_its_own_input(risp: Risp, inputs: dict[Path, bytes], command: str) -> None:
    status, out, err = risp(*command.split())
    assert status == 2 and out == "" and len(err.splitlines()) == 1
    assert "which would change: choose another place for it" in err, err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == inputs


def test_places_beside_an_input_are_written(risp: Risp, inputs: dict[Path, bytes]) -> None:
    assert risp("film", "film", "--first", 8, "--out", "films", "--sheet", "sheet.png")[0] == 0
    assert risp("film", "film", "--first", 8, "--out", "films", "--sheet", "sheet.png")[0] == 0  # replaces what it wrote
    assert len(list(Path("films").glob("*.png"))) == 3 and Path("sheet.png").is_file()
    assert all(path.read_bytes() == content for path, content in inputs.items())


@pytest.mark.parametrize(
    ("command", "culprit"),
    [
        (["film", "pipe"], "the film pipe is a pipe or a device: write what it gives to a file"),
        (["invert", "toss", "--tracks", "pipe", "--loss", "image-tracks", "--unknown", "body.density"], "--tracks pipe is"),
        (["invert", "toss", "--states", "pipe", "--loss", "state", "--unknown", "body.density"], "--states pipe is"),
        (["simulate", "toss", "--from", "pipe"], "--from pipe is a pipe"),
        (["control", "gear", "--target", "pipe"], "--target pipe is a pipe"),
        (["evaluate", "cube", "--network", "net.safetensors", "--cache", "caf\ud800"], r"--cache caf\\ud800 is no text in UTF-8"),
        (["evaluate", "cube", "--network", "net.safetensors", "--cache", "a\0b"], "has a zero byte"),
        (["dataset", "--verify", "pipe"], "--verify pipe is a pipe"),
        (["film", "film", "--out", "caf\udce9"], r"--out caf\\udce9 is no text in UTF-8: rename the file or folder"),
        (["film", "caf\udce9"], r"the film caf\\udce9 is no text in UTF-8"),
        (["simulate", "toss", "--out", "caf\udce9"], r"--out caf\\udce9 is no text in UTF-8"),
        (["film", "loop"], "video loop does not exist"),
        (["film", "film", "--out", "loop"], "loop cannot be written .*: choose another place"),
        (["film", "film", "--sheet", "loop/s.png"], "cannot be (written|used) .*: (choose another place|check the path)"),
        (["simulate", "toss", "--from", "loop"], "loop (cannot be read|does not exist|.*cannot be used)"),
    ],
)
def test_paths_that_no_file_can_have(risp: Risp, inputs: dict[Path, bytes], command: list[str], culprit: str) -> None:
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    status, _, err = risp(*command)
    assert status == 2 and re.search(culprit, err), err
