"""Pictures of ordinary and awkward runs are drawn, show what they should, and load matplotlib only when asked."""

import ast
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch.files.film.curves import linear_to_srgb
from risp_torch.files.report import (
    comparison_video,
    format_table,
    plot_landscape_1d,
    plot_landscape_2d,
    plot_losses,
    plot_parameters,
    write_strip,
)
from risp_torch.files.video import read_video
from tests.reference.folders import ROOT
from ti_sim.base.errors import UserError

LOSSES = np.exp(-np.linspace(0, 6, 30))[:, None] * [1.0, 0.3, 2.0]


def has_colour(path, colour, tolerance=6) -> bool:
    """Whether a picture has at least five pixels of this 8-bit colour."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return (np.abs(pixels - colour).max(axis=-1) <= tolerance).sum() >= 5


BLUE, RED = (11, 110, 153), (200, 69, 47)  # the best start; the truth


def test_losses(tmp_path):
    plot_losses(tmp_path / "loss.png", torch.tensor(LOSSES), ["start 0", "start 1", "start 2"])
    assert has_colour(tmp_path / "loss.png", BLUE)
    assert [p.name for p in tmp_path.iterdir()] == ["loss.png"]


@pytest.mark.parametrize("losses", [np.zeros((5, 1)), np.full((5, 2), np.nan), np.ones((1, 2)), -LOSSES])
def test_awkward_losses(tmp_path, losses):
    plot_losses(tmp_path / "loss.png", losses, [f"start {i}" for i in range(losses.shape[1])])
    assert (tmp_path / "loss.png").is_file()


def test_best_start_is_the_lowest_that_lives(tmp_path):
    dead = LOSSES.copy()
    dead[20:, 1] = np.nan
    plot_losses(tmp_path / "loss.png", dead, ["a", "b", "c"])
    plot_losses(tmp_path / "same.png", dead, ["a", "b", "c"], best=0)
    plot_losses(tmp_path / "other.png", dead, ["a", "b", "c"], best=2)
    picture = (tmp_path / "loss.png").read_bytes()
    assert picture == (tmp_path / "same.png").read_bytes() != (tmp_path / "other.png").read_bytes()


def test_parameters(tmp_path):
    histories = {"stiffness": 1e3 * (1 + LOSSES), "friction": torch.tensor(0.2 + LOSSES), "die.density": 1e3 + LOSSES}
    bounds = {"stiffness": (300.0, 3000.0), "friction": (0.0, None), "die.density": None}
    units = {"stiffness": "N/m", "die.density": "kg/m³"}
    truths = {"stiffness": 1e3, "friction": None}
    plot_parameters(tmp_path / "p.png", histories, bounds, units, truths, {"stiffness": "log10"}, best=1)
    assert has_colour(tmp_path / "p.png", BLUE) and has_colour(tmp_path / "p.png", RED)
    plot_parameters(tmp_path / "q.png", {"k": np.ones((1, 1))}, {}, {})
    assert not has_colour(tmp_path / "q.png", RED)


def test_landscapes(tmp_path):
    x = np.geomspace(100, 1000, 40)
    loss = np.log10(x / 300) ** 2 + 1e-4
    loss[3] = np.nan
    plot_landscape_1d(tmp_path / "1.svg", x, loss, name="k", unit="N/m", scale="log10", marks={"truth": 300.0})
    text = (tmp_path / "1.svg").read_text()
    assert text.lstrip().startswith("<?xml")
    y = np.linspace(0, 1, 20)
    grid = loss[None] + (y[:, None] - 0.4) ** 2
    marks = {"truth": (300.0, 0.4), "estimate": (320.0, 0.42)}
    options = dict(names=("k", "mu"), units=("N/m", ""), scales=("log10", "linear"))
    plot_landscape_2d(tmp_path / "2.png", x, y, grid, **options, marks=marks)
    assert has_colour(tmp_path / "2.png", RED) and has_colour(tmp_path / "2.png", BLUE)
    plot_landscape_2d(tmp_path / "flat.png", x, y, np.zeros((20, 40)), **options)
    plot_landscape_2d(tmp_path / "linear.png", x, y, 5 + grid, **options)


def test_strip_shows_target_estimate_and_difference(tmp_path):
    target = np.full((10, 8, 8, 3), 0.5, dtype=np.float32)
    estimate = np.full((10, 8, 8, 3), 0.4, dtype=np.float32)
    write_strip(tmp_path / "strip.png", target, torch.tensor(estimate), fps=200)
    first, second = linear_to_srgb(np.array([0.5, 0.4])) * 255
    for value in (first, second, 4 * (first - second)):
        assert has_colour(tmp_path / "strip.png", (round(value),) * 3, tolerance=1)
    write_strip(tmp_path / "one.png", target[:1], target[:1], frames=6)
    write_strip(tmp_path / "wide.png", target[:, :4].repeat(3, axis=2), estimate[:, :4].repeat(3, axis=2), frames=2)


def test_comparison_video(tmp_path):
    target = np.full((4, 9, 8, 3), 0.5, dtype=np.float32)
    estimate = np.full((4, 9, 8, 3), 0.4, dtype=np.float32)
    comparison_video(tmp_path / "c.mp4", target, estimate, 20)
    video = linear_to_srgb(read_video(tmp_path / "c.mp4", fps=20, size=(18, 56), frames=4)) * 255
    first, second = linear_to_srgb(np.array([0.5, 0.4])) * 255
    for column, value in ((8, first), (28, second), (48, 4 * (first - second))):
        assert np.abs(video[:, 8, column] - value).max() < 4


def test_table():
    rows = [["ground.contact.stiffness", 1234.5678, "N/m", True], ["mu", math.nan, "", False], ["k", None, "N", None]]
    assert format_table(rows, ["name", "value", "unit", "seen"]).splitlines() == [
        "name                      value  unit  seen",
        "------------------------  -----  ----  -----",
        "ground.contact.stiffness   1235  N/m   True",
        "mu                            -        False",
        "k                             -  N     -",
    ]
    assert format_table([], ["a", "b"]) == "a  b\n-  -"
    with pytest.raises(ValueError, match="row .* has 1 cells for 2 columns"):
        format_table([[1]], ["a", "b"])


def test_wrong_input_is_refused(tmp_path):
    path = tmp_path / "x.png"
    frames = np.zeros((3, 8, 8, 3))
    cases = [
        (lambda: plot_losses(path, LOSSES, ["a"]), "1 labels for 3 starts"),
        (lambda: plot_losses(path, LOSSES[:, 0], ["a"]), r"losses has shape \(30,\)"),
        (lambda: plot_losses(tmp_path / "x.bmp", LOSSES, list("abc")), "ends in .png, .pdf or .svg"),
        (lambda: plot_parameters(path, {}, {}, {}), "no parameter to plot"),
        (lambda: plot_parameters(path, {"k": [1.0]}, {}, {}), r"k has shape \(1,\)"),
        (lambda: plot_landscape_1d(path, [1, 2], [1], name="k"), "landscape of k"),
        (lambda: plot_landscape_2d(path, [1, 2], [1, 2, 3], np.ones((2, 3)), names=("k", "m")), r"\(3, 2\), at least"),
        (
            lambda: plot_landscape_2d(path, [1, 2], [1, 2], np.full((2, 2), np.nan), names=("k", "m")),
            "no finite loss",
        ),
        (lambda: write_strip(path, frames, frames[:2]), "both need the same"),
        (lambda: comparison_video(tmp_path / "x.mp4", frames, frames[..., :2], 20), "both need the same"),
    ]
    for call, message in cases:
        with pytest.raises(UserError, match=message):
            call()
    assert not list(tmp_path.iterdir())


def test_importing_loads_neither_drawing_nor_video():
    program = (
        "import sys, risp_torch.files.report, risp_torch.files.video, risp_torch.files.run_folder, risp_torch.files.suggest\n"
        "print([m for m in ('matplotlib', 'av', 'PIL') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ast.literal_eval(answer.stdout) == []
