"""Inversions of films whose pictures are not at the scene's frames: late, at other rates, blurred; by Python and by commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import PixelLoss, invert, write_frames
from risp_torch.files.film import film_facts
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.inversion.problem.linearisation import linearise, newton_step
from tests.reference.searches import pictures
from tests.reference.small_scenes import make_scene

Risp = Callable[..., tuple[int, str, str]]
SCENE = Path(__file__).parents[2] / "reference" / "small_scenes.py"
LATE = {"film.start": -5e-3 / 3}  # a third of a frame


@pytest.mark.usefixtures("undiagnosed")
def test_a_late_film() -> None:
    """Density and the time at which the scene begins; without the latter the density has its omitted-variable bias."""
    scene = make_scene(frames=8)
    scene.set_film(start=LATE["film.start"])
    film = pictures(scene)
    scene.set("film.start", 0.0)
    bounds = {"film.start": (-5e-3, 5e-3)}
    starts = [{"block.density": 500.0, "film.start": 5e-3}, {"film.start": -4e-3}]  # the first on its bound
    found = invert(scene, film, ["block.density", "film.start"], bounds=bounds, starts=starts, progress=False)
    assert found.fits
    assert found.values["block.density"] == pytest.approx(800.0, rel=1e-2)
    assert found.values["film.start"] == pytest.approx(LATE["film.start"], abs=5e-5)
    kept = invert(scene, film, ["block.density"], starts=2, progress=False)
    unknowns = Unknowns.of(scene, ["block.density"])
    step = newton_step(linearise(scene, Comparison.of(scene, PixelLoss(), film), unknowns, unknowns.current()))
    (bias,) = step * unknowns.scaled_range()  # -.022 decades by the Gauss-Newton step from the truth
    # The bias is linear but for squares of the delay of a third of a frame: 1/3 of it at most.
    assert bias < -0.01 and np.log10(kept.values["block.density"] / 800.0) == pytest.approx(bias, rel=1 / 3)


@pytest.mark.usefixtures("undiagnosed")
def test_a_blurred_slow_film() -> None:
    """Exposure and rate of a film at time stamps with a gap, with its motion known."""
    stamps = [0.0, 0.02, 0.05, 0.11, 0.14]
    scene = make_scene(frames=8)
    scene.set_film(times=stamps, rate=0.25, exposure=2e-3, samples=4)
    film = pictures(scene)
    bounds = {"film.rate": (0.15, 0.35), "film.exposure": (0.0, 4e-3)}
    starts = [{"film.rate": 0.28, "film.exposure": 1e-3}]
    found = invert(scene, film, list(bounds), bounds=bounds, starts=starts, progress=False)
    assert found.values["film.rate"] == pytest.approx(0.25, rel=1e-3)
    assert found.values["film.exposure"] == pytest.approx(2e-3, rel=2e-2)


@pytest.mark.usefixtures("unplotted")
def test_films_of_other_rates_by_commands(command_line: Risp, tmp_path: Path) -> None:
    """A film at 120 pictures a second of a scene at 200: simulated, its time stamps read, and searched."""
    size = ("--size", "16", "--frames", "8")
    late = ("--fps", "120", "--set", f"film.start={LATE['film.start']}")
    status, out, err = command_line("simulate", SCENE, *size, *late, "--crf", "0", "--out", tmp_path / "film")
    assert status == 0, err
    video = tmp_path / "film" / "video.mp4"
    np.testing.assert_allclose(film_facts(video).clock.times, np.arange(5) / 120, atol=1e-4)
    with np.load(tmp_path / "film" / "states.npz") as states:
        np.testing.assert_allclose(states["time"], np.arange(5) / 120)
        assert states["body_q"].shape == (5, 1, 7)
    unknown = ("--unknown", "film.start", "--bounds", "film.start=-0.005:0.005", "--starts", "1")
    invert_it = ("invert", SCENE, *size, "--video", video, *unknown)
    status, out, err = command_line(*invert_it, "--fps", "film", "--out", tmp_path / "found")
    assert status == 0, err
    found = json.loads((tmp_path / "found" / "result.json").read_text())["unknowns"]["film.start"]["value"]
    assert found == pytest.approx(LATE["film.start"], abs=2e-4)
    status, _, err = command_line("simulate", SCENE, *size, "--from", tmp_path / "found", "--out", tmp_path / "again")
    assert status == 0, err
    assert json.loads((tmp_path / "again" / "settings.json").read_text())["parameters"]["film.start"] == pytest.approx(found)
    assert "120 frames per second" in command_line(*invert_it)[2]


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_an_uneven_film_by_commands(command_line: Risp, tmp_path: Path) -> None:
    """Its pictures have times with a gap, and the last ones come after the scene's end."""
    stamps = [0.0, 0.004, 0.0091, 0.0187, 0.0225]
    scene = make_scene(frames=5)
    scene.set_film(times=stamps, start=LATE["film.start"])
    folder = tmp_path / "film"
    write_frames(folder, pictures(scene))
    description = json.loads((folder / "video.json").read_text())
    (folder / "video.json").write_text(json.dumps(description | {"times": [0.5 + time for time in stamps]}))
    unknown = ("--unknown", "film.start", "--bounds", "film.start=-0.005:0.005", "--starts", "1")
    invert_it = ("invert", SCENE, "--size", "16", "--frames", "5", "--video", folder, *unknown, "--out", tmp_path / "found")
    status, _, err = command_line(*invert_it, "--fps", "film")
    assert status == 0, err
    found = json.loads((tmp_path / "found" / "result.json").read_text())["unknowns"]["film.start"]["value"]
    assert found == pytest.approx(LATE["film.start"], abs=1e-4)


def test_films_without_times_by_commands(command_line: Risp, tmp_path: Path) -> None:
    write_frames(tmp_path / "film", np.full((5, 16, 16, 3), 0.5))
    invert_it = ("invert", SCENE, "--size", "16", "--unknown", "block.density", "--fps", "film", "--out", tmp_path / "found")
    status, _, err = command_line(*invert_it, "--video", tmp_path / "film")
    assert status == 2
    assert "no time stamps that ascend: give the rate of its pictures with --fps" in err
    status, _, err = command_line(*invert_it, "--loss", "state", "--states", tmp_path / "none.npz")
    assert status == 2
    assert "give it with --video" in err


def test_a_scene_without_a_clock_is_as_it_was() -> None:
    """No clock: no times; a clock at the frames gives the same pictures to rounding."""
    scene = make_scene()
    with torch.no_grad():
        plain = scene.rollout()
        assert plain.moment is None
        film = scene.render(plain)
        scene.set_film()
        clocked = scene.render(scene.rollout())
    torch.testing.assert_close(clocked, film, rtol=0, atol=2e-4)
