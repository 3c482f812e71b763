"""``risp check``, and the verdict that ``risp invert`` begins with."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Risp = Callable[..., tuple[int, str, str]]


def test_a_film_that_ends_before_the_ground_shows_no_friction(risp: Risp, folder: Path) -> None:
    asked = ("block.density", "ground.contact.friction", "camera.turn", "--prior", "camera.turn=0.01")
    status, out, error = risp(
        "check", "small.py", "--set", "height=0.06", "--unknown", *asked, "--crf", "none", "--strict", "--out", "told"
    )
    assert status == 1 and error == ""
    assert out.startswith("the film does not identify ground.contact.friction (errors of 0.0039 in a pixel, to first order)")
    assert "not visible in this film: ground.contact.friction leaves no trace" in out and "written: told/obs" in out
    result = json.loads((folder / "told" / "result.json").read_text())
    assert len(result["singular_values"]) == 5 and np.shape(result["correlation"]) == (5, 5)
    rows = result["unknowns"]
    assert rows["block.density"]["observable"] and 0 < rows["block.density"]["alone"] <= 1.01 * rows["block.density"]["sd"]
    assert not rows["ground.contact.friction"]["observable"] and rows["camera.turn[0]"]["sd"] < 0.01
    with Image.open(folder / "told" / "observability.png") as picture:
        assert picture.width > 600 and len(picture.getcolors(10**6)) > 50


def test_compression_widens_what_a_film_tells(risp: Risp, folder: Path) -> None:
    bars = {}
    for crf in ("none", "18", "38"):
        status, out, _ = risp("check", "small.py", "--set", "size=32", "--unknown", "block.density", "--crf", crf, "--out", crf)
        assert status == 0 and out.startswith("the film identifies block.density to ± ")
        bars[crf] = json.loads((folder / crf / "result.json").read_text())["unknowns"]["block.density"]["sd"]
    assert 1.5 * bars["none"] < bars["18"] < bars["38"]


def test_other_losses_than_pixels_can_be_checked(risp: Risp, folder: Path) -> None:
    """Tracks with errors of a pixel, masks, and pixels in a solved look see a density; finer tracks see it better."""
    sizes = {}
    for kind, noise in (("matched", ()), ("mask", ()), ("image-tracks", ()), ("image-tracks", ("--noise", "0.1"))):
        out = f"{kind}{len(noise)}"
        status, told, error = risp("check", "small.py", "--unknown", "block.density", "--loss", kind, *noise, "--out", out)
        assert status == 0 and error == "", error
        result = json.loads((folder / out / "result.json").read_text())
        sizes[out] = result["unknowns"]["block.density"]["sd"]
        assert ("coordinate of a track" in told) == (kind == "image-tracks") and ("pixel on an edge" in told) == (kind == "mask")
        assert json.loads((folder / out / "settings.json").read_text())["loss"] == kind
    assert sizes["image-tracks2"] == pytest.approx(0.1 * sizes["image-tracks0"], rel=0.05)
    assert risp("check", "small.py", "--unknown", "block.density", "--loss", "depth", "--out", "refused")[0] == 2


def test_what_is_refused(risp: Risp) -> None:
    for words, sentence in (
        (["--unknown", "block.weight"], "block.weight"), (["--unknown", "block.position"], "has no bounds"),
        (["--unknown", "block.density", "--noise", "0"], "give a finite number from"),
        (["--unknown", "block.density", "--crf", "few"], "--crf"),
    ):  # fmt: skip
        status, _, error = risp("check", "small.py", *words, "--out", "refused")
        assert status == 2 and sentence in error


@pytest.mark.usefixtures("unplotted")
def test_an_inversion_begins_with_its_verdict(risp: Risp) -> None:
    assert risp("simulate", "small.py", "--out", "film")[0] == 0
    status, out, error = risp(
        "invert", "small.py", "--video", "film/video.mp4", "--unknown", "block.density", "--starts", "scene", "--iterations", 2,
        "--solver", "refine=0", "--out", "found",
    )  # fmt: skip
    assert status == 0 and error.startswith("before the search: the film identifies block.density to ±"), error
