"""Path-traced films on the command line: they resume, take looks and cameras by name, and refuse what does not fit."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ti_render.photoreal.variant as variants
from risp_torch import load_scene, read_video
from risp_torch.__main__ import main
from tests.reference import small_scenes
from tests.reference.photoreal_inputs import needs_mitsuba
from ti_render.photoreal import Appearance, draw_appearance
from ti_render.photoreal.appearance import BODY_RANGES, CHOICES, PATTERNS, SKIES
from ti_sim.base.errors import UserError

Risp = Callable[..., tuple[int, str, str]]
FILM = ["simulate", "small.py", "--renderer", "mitsuba", "--spp", "4", "--variant", "scalar_rgb", "--out", "run"]


@pytest.fixture
def risp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Risp:
    """Runs the command line in a folder with the scene file small.py: exit status, stdout, stderr."""
    shutil.copy(small_scenes.__file__, tmp_path / "small.py")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@needs_mitsuba
def test_a_film_resumes_frame_by_frame(risp: Risp, tmp_path: Path) -> None:
    status, out, err = risp(*FILM)
    assert status == 0, err
    assert "scalar_rgb" in out and "5 frames in" in out
    run = tmp_path / "run"
    names = [f"{k:05d}.png" for k in range(5)]
    assert sorted(path.name for path in (run / "frames").iterdir()) == [*names, "video.json"]
    assert sorted(path.name for path in (run / "masks" / "block").iterdir()) == [*names, "video.json"]
    assert read_video(run / "frames", fps=200, size=(16, 16)).shape == (5, 16, 16, 3) == read_video(run / "video.mp4").shape
    assert Image.open(run / "masks" / "block" / names[0]).mode == "L"
    look = Appearance.from_json((run / "appearance.json").read_text())
    assert look == draw_appearance(["block"], seed=0)

    # As if it had been killed: no result, frames and a mask missing, a picture cut short.
    files = [run / "frames" / name for name in names] + [run / "masks" / "block" / name for name in names]
    before = {path: path.read_bytes() for path in files}
    (run / "result.json").unlink()
    files[1].unlink()
    files[7].unlink()
    files[4].write_bytes(before[files[4]][:200])
    stamps = {path: path.stat().st_mtime_ns for path in files if path.exists()}
    assert risp(*FILM)[0] == 0
    assert {path: path.read_bytes() for path in files} == before
    untouched = [files[0], files[3], files[5], files[8]]
    assert [path.stat().st_mtime_ns for path in untouched] == [stamps[path] for path in untouched]
    assert json.loads((run / "result.json").read_text())["rendered"] == 3

    (run / "result.json").unlink()
    status, _, err = risp(*FILM, "--seed", 1)
    assert status == 2 and "other settings (renderer.seed is 0 there and 1 here)" in err
    assert {path: path.read_bytes() for path in files} == before


@needs_mitsuba
def test_a_look_is_taken_from_a_file(risp: Risp, tmp_path: Path) -> None:
    ranges = {name: (0.31, 0.31) for name in BODY_RANGES}
    (tmp_path / "look.json").write_text(draw_appearance(["block"], seed=5, ranges=ranges, colors="draw").to_json())
    assert risp(*FILM, "--frames", 1, "--appearance", "look.json")[0] == 0
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["renderer"]["appearance"]["numbers"]["block.roughness"] == 0.31
    assert (tmp_path / "run" / "appearance.json").read_text() == (tmp_path / "look.json").read_text()
    (tmp_path / "other.json").write_text(draw_appearance(["cube"], seed=5).to_json())
    wrong = {"other.json": "'block.roughness'", "none.json": "none.json cannot be read", "small.py": "no drawn appearance"}
    for name, culprit in wrong.items():
        status, _, err = risp(*FILM[:-1], "new", "--appearance", name)
        assert status == 2 and culprit in err and not (tmp_path / "new").exists()


@needs_mitsuba
def test_a_matching_film_has_the_colours_of_the_scene(risp: Risp, tmp_path: Path) -> None:
    assert risp(*FILM, "--appearance", "scene", "--frames", 1, "--spp", 64, "--set", "height=0.1")[0] == 0
    assert not (tmp_path / "run" / "appearance.json").exists()
    theirs = read_video(tmp_path / "run" / "frames")
    scene = small_scenes.make_scene(height=0.1)
    mine = scene.render(scene.rollout(frames=1))[0].cpu().numpy()
    assert np.abs(theirs - mine).mean() < 0.05  # soft edges, no shadow and no light that the ground takes from the block


@needs_mitsuba
def test_a_film_is_taken_with_the_camera_of_a_name(risp: Risp, tmp_path: Path) -> None:
    """Two cameras; the second has another size of picture and sees the block from above."""
    source = (tmp_path / "small.py").read_text()
    second = (
        "    from dataclasses import replace\n"
        "    eye = Camera.look_at(eye=(0, -0.01, 0.4), target=(0, 0, 0.03), vertical_fov=30.0, width=24, height=20, near=0.05)\n"
        '    scene.add_camera(replace(eye, name="above"))\n    return scene\n'
    )
    (tmp_path / "small.py").write_text(source.replace("    return scene\n", second))
    assert risp(*FILM, "--frames", 1, "--camera", "above")[0] == 0
    assert read_video(tmp_path / "run" / "frames").shape == (2, 20, 24, 3)
    mask = np.asarray(Image.open(tmp_path / "run" / "masks" / "block" / "00000.png")) / 255
    scene = load_scene(str(tmp_path / "small.py"))
    alpha = scene.render(scene.rollout(frames=1), camera="above", alpha=True)[0, 0, ..., 3].cpu().numpy()
    assert np.abs(mask - alpha).mean() < 0.05 and mask.sum() > 10
    status, _, err = risp(*FILM[:-1], "new", "--camera", "abov")
    assert status == 2 and "'abov': did you mean 'above'" in err and not (tmp_path / "new").exists()


def test_mitsuba_is_not_installed(risp: Risp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    status, _, err = risp(*FILM)
    assert status == 2 and len(err.strip().splitlines()) == 1
    assert "Mitsuba is not installed" in err and "pip install 'risp-taichi[photoreal]'" in err
    assert not (tmp_path / "run").exists()


def test_mitsuba_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    with pytest.raises(UserError, match=r"Mitsuba is not installed .*risp-taichi\[photoreal\]"):
        variants.load_mitsuba(variants.Variant("scalar_rgb", None, ""))


def test_a_library_that_mitsuba_needs_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Dr.Jit names its extension module while it handles the error of its import."""
    text = "try:\n    raise ImportError('libatomic.so.1: cannot open')\nexcept ImportError:\n    extension\n"
    (tmp_path / "mitsuba.py").write_text(text)
    monkeypatch.delitem(sys.modules, "mitsuba", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"cannot be imported \(libatomic.so.1: cannot open\): install the library .*libatomic1"):
        variants.load_mitsuba(variants.Variant("scalar_rgb", None, ""))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--spp", 4], "--spp is an option of Mitsuba: add --renderer mitsuba"),
        (["--renderer", "soft", "--seed", 4], "--seed is an option of Mitsuba"),
        (["--renderer", "mitsuba", "--appearance", "scene", "--colors", "draw"], "--appearance scene also defines the colours"),
        (["--renderer", "mitsuba", "--colors", "draw", "--appearance", "a.json"], "leave --colors out"),
        (["--renderer", "mitsuba", "--size", 17], "even sides"),
    ],
)
def test_options_that_do_not_fit_are_refused(risp: Risp, tmp_path: Path, arguments: list[object], culprit: str) -> None:
    status, _, err = risp("simulate", "small.py", *arguments, "--out", "new")
    assert status == 2 and culprit in err and not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "culprit"), [(["--seed", -1], "--seed: it is -1"), (["--spp", 0], "--spp: it is 0"), (["--seed", "x"], "'x'")]
)
def test_numbers_out_of_range_are_refused(
    risp: Risp, capsys: pytest.CaptureFixture[str], arguments: list[object], culprit: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        risp(*FILM, *arguments)
    assert stop.value.code == 2 and culprit in capsys.readouterr().err


def test_every_choice_is_a_choice() -> None:
    assert CHOICES["sky.kind"] == SKIES and CHOICES["ground.pattern"] == PATTERNS
