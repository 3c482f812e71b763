"""``risp show``: what error bars of a finished run are made of; and ``--strict`` where it is unknown whether a film fits."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from risp_torch.commands.invert import _exit_status
from risp_torch.commands.show import shares_of

Risp = Callable[..., tuple[int, str, str]]
SCHEMA_SENTENCE = "found/result.json has schema 2, and this version reads schema 3: run the inversion again in a new folder"


def test_a_run_s_bars_are_taken_apart(risp: Risp, folder: Path) -> None:
    assert risp("simulate", "small.py", "--out", "film")[0] == 0
    words = ("--unknown", "block.density", "--starts", "scene", "--iterations", 2, "--solver", "refine=1", "--out", "found")
    assert risp("invert", "small.py", "--video", "film/video.mp4", *words)[0] == 0
    about = json.loads((folder / "found" / "result.json").read_text())["unknowns"]["block.density"]
    assert sum(size**2 for size in about["parts"].values()) ** 0.5 == pytest.approx(about["sd"], rel=1e-6)
    with Image.open(folder / "found" / "error_bars.png") as picture:
        assert picture.width > 600 and len(picture.getcolors(10**6)) > 50
    status, out, error = risp("show", "found")
    assert status == 0 and error == "" and "parts of the error bars" in out
    first, *_ = shares_of(about)
    assert first in out and "block.density" in out
    status, _, error = risp("show", "film")
    assert status == 2 and "film" in error
    path = folder / "found" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    again = ("invert", "small.py", "--video", "film/video.mp4", *words)
    for command in (("show", "found"), ("simulate", "small.py", "--from", "found", "--out", "next"), again):
        status, _, error = risp(*command)
        assert status == 2 and error.splitlines() == [f"risp {command[0]}: error: {SCHEMA_SENTENCE}"]
    (folder / "other").mkdir()
    (folder / "other" / "result.json").write_text('{"lowest": 1}')
    status, _, error = risp("show", "other")
    assert status == 2 and "other is no inversion: give the folder of a finished 'risp invert'" in error


def test_shares_are_those_of_squares_and_small_ones_are_left_out() -> None:
    shares = shares_of({"parts": {"noise": 0.3, "starts": 0.4, "curvature": 1e-3}})
    assert list(shares) == ["starts", "noise"] and shares["starts"] == pytest.approx(0.64, rel=1e-4)


@pytest.mark.parametrize(("converged", "fits", "status"), [(True, True, 0), (True, False, 1), (True, None, 1), (None, True, 1)])
def test_strict_takes_no_unknown_for_a_yes(converged: bool | None, fits: bool | None, status: int) -> None:
    assert _exit_status(Namespace(strict=True), converged, fits) == status
    assert _exit_status(Namespace(strict=False), converged, fits) == 0
