"""The contact sheets of the documentation: their script makes them, and the committed ones are small and complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from risp_torch import DirectionalLight, Sphere, Start
from studies.pages import render_sheets, sheet_stage
from tests.reference.folders import ROOT
from ti_sim.base.errors import UserError

FIGURES = ROOT / "docs/figures"
SIZE = 16


def test_a_sheet_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render_sheets.main(["backgrounds", "--size", str(SIZE), "--out", str(tmp_path)]) == 0
    path = tmp_path / "render_backgrounds.png"
    assert capsys.readouterr().out == f"written: {path}\n"
    picture = np.asarray(Image.open(path))
    side = SIZE * -(-192 // SIZE)
    assert picture.shape[1] == 3 * (side + 8) + 8 and picture.shape[0] > side + 8


def test_background_sheet_shows_what_its_captions_say() -> None:
    sheet = render_sheets.background_sheet(SIZE)
    color, gradient, image = sheet.pictures.values()
    assert np.abs(color[0] - (0.9, 0.6, 0.4)).max() < 0.01
    assert gradient[0, 0, 2] - gradient[0, 0, 0] > 0.5 and gradient[4, 0, 0] > gradient[0, 0, 0] + 0.1
    assert np.abs(image[2, 0] - image[2, -1]).max() > 0.1
    bottom = [picture[-2:] for picture in (color, gradient, image)]
    assert np.abs(bottom[0] - bottom[1]).max() < 1e-5 and np.abs(bottom[0] - bottom[2]).max() < 1e-5


def test_light_comes_from_where_it_is_said_to_come() -> None:
    """The ball is brighter on the side of the light, and its shadow falls on the other side."""
    lit = {}
    for name, direction in (("left", sheet_stage.FROM_LEFT), ("right", sheet_stage.FROM_RIGHT)):
        light = DirectionalLight(direction=direction)
        scene = sheet_stage.empty_stage(32)
        scene.add_rigid("ball", shape=Sphere(0.03, 2), density=1e3, start=Start(position=(0.0, 0.0, 0.06)))
        scene.add_light(light)
        lit[name] = sheet_stage.shot(sheet_stage.with_shadows(scene), alpha=True)
    left, right = lit["left"][..., :3].mean(axis=-1), lit["right"][..., :3].mean(axis=-1)
    body = lit["left"][..., 3] > 0.99
    columns = np.broadcast_to(np.arange(32), (32, 32))
    for picture, sign in ((left, 1), (right, -1)):
        near, far = (body & (sign * (columns - 15.5) < 0), body & (sign * (columns - 15.5) > 0))
        assert picture[near].mean() > 1.3 * picture[far].mean()
        shade = (lit["left"][..., 3] < 0.01) & (picture < 0.5 * np.median(picture[~body]))
        assert shade.sum() > 5 and (sign * (columns[shade] - 15.5) > 0).mean() > 0.8


def test_letters_read_from_left_to_right_and_from_top_to_bottom() -> None:
    picture = sheet_stage.letters(["I", "I", "I", "I", "I", "I"], columns=3, side=20)
    assert picture.shape == (40, 60, 3)
    for k, color in enumerate(sheet_stage.SIX_COLORS):
        corner = picture[k // 3 * 20 + 1, k % 3 * 20 + 1]
        assert np.abs(corner - color).max() < 0.1
        lower, upper = (picture[k // 3 * 20 + row, k % 3 * 20 + 10] for row in (17, 2))
        assert np.abs(lower - upper).max() > 0.1  # the line below the word


def test_red_is_brighter_and_blue_darker() -> None:
    picture = render_sheets.red_and_blue(np.array([[1.0, -1.0, 0.0, 0.5]]))
    np.testing.assert_allclose(picture[0, :3], [(1, 0, 0), (0, 0, 1), (1, 1, 1)], atol=1e-6)
    assert picture[0, 3, 0] == pytest.approx(1) and 0 < picture[0, 3, 1] < 1


@pytest.mark.parametrize("name", ["ligths", "shadow"])
def test_unknown_sheets_are_refused_before_any_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=f"unknown sheet '{name}': did you mean '(lights|shadows)'"):
        render_sheets.write_sheets(tmp_path, ["outputs", name])
    assert render_sheets.main([name, "--out", str(tmp_path)]) == 2
    assert "did you mean" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_without_mitsuba_its_sheet_is_left_out_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(render_sheets.importlib.util, "find_spec", lambda name: None)
    assert render_sheets.write_sheets(tmp_path, ["mitsuba"]) == []
    assert "Mitsuba is not installed" in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_the_committed_sheets_are_complete_and_small() -> None:
    sizes = {path.stem.removeprefix("render_"): path.stat().st_size for path in FIGURES.glob("render_*.png")}
    assert set(sizes) == set(render_sheets.SHEETS)
    assert max(sizes.values()) <= 250_000 and sum(sizes.values()) <= 2_000_000
