"""``risp render``: pictures and contact sheets of one frame, and what it says when it is asked for something wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import load_scene
from risp_torch.files.film.curves import srgb_to_linear
from risp_torch.scene.rendering_parameters import RenderingParameters
from tests.reference import full_scene

Risp = Callable[..., tuple[int, str, str]]


def pictures_of(path: Path, count: int, *, size: int = 16, columns: int = 4) -> list[np.ndarray]:
    """The pictures of a sheet, sRGB bytes [size, size, 3] each; every one is enlarged to at least 192 pixels."""
    sheet = np.asarray(Image.open(path))
    zoom = -(-192 // size)
    columns = min(columns, count)
    step_y = (sheet.shape[0] - 8) // (-(-count // columns))
    assert sheet.shape[1] == columns * (size * zoom + 8) + 8
    found = []
    for k in range(count):
        top, left = 8 + k // columns * step_y, 8 + k % columns * (size * zoom + 8)
        picture = sheet[top : top + size * zoom, left : left + size * zoom]
        assert np.array_equal(picture, picture[::zoom, ::zoom].repeat(zoom, axis=0).repeat(zoom, axis=1))
        found.append(picture[::zoom, ::zoom])
    return found


def linear(picture: np.ndarray) -> np.ndarray:
    return srgb_to_linear(picture / 255.0)


def test_the_scene_as_it_is(risp: Risp, folder: Path) -> None:
    status, out, _ = risp("render", "small.py", "--frame", 3, "--out", "picture.png")
    assert status == 0 and "written: picture.png" in out
    scene = load_scene("small.py")
    with torch.no_grad():
        wanted = scene.render(scene.rollout(), frames=[3])[0, 0].cpu().numpy()
    assert np.abs(linear(pictures_of(folder / "picture.png", 1)[0]) - wanted).max() < 0.01
    assert sorted(p.name for p in folder.iterdir() if p.suffix in (".png", ".json")) == ["picture.png"]


def test_settings_and_size_apply(risp: Risp, folder: Path) -> None:
    assert risp("render", "small.py", "--set", "light.key.intensity=0", "--size", 24, "--out", "dark.png")[0] == 0
    assert risp("render", "small.py", "--size", 24, "--out", "light.png")[0] == 0
    dark, light = (pictures_of(folder / f"{name}.png", 1, size=24)[0].astype(int) for name in ("dark", "light"))
    assert (light - dark).max() > 60 and (dark - light).max() <= 0


def test_random_appearances_are_eight_repeatable_pictures(risp: Risp, folder: Path) -> None:
    status, out, _ = risp("render", "small.py", "--frame", 2, "--psi", "random:8", "--seed", 5, "--out", "sheets/sheet.png")
    assert status == 0 and "sheets/sheet.png" in out and "sheets/sheet.json" in out
    pictures = pictures_of(folder / "sheets" / "sheet.png", 8)
    apart = min(np.abs(a.astype(int) - b).mean() for i, a in enumerate(pictures) for b in pictures[:i])
    assert apart > 3
    record = json.loads((folder / "sheets" / "sheet.json").read_text())
    assert (record["schema"], record["scene"], record["frame"], record["seed"]) == (1, "small", 2, 5)
    assert len(record["psi"]) == 8 and len(record["psi"][0]) == len(record["labels"])
    # The record is enough to make every picture again.
    scene = load_scene("small.py")
    parameters = RenderingParameters.from_json(scene, record["parameters"])
    with torch.no_grad():
        poses = scene.rollout(frames=2).body_q[:, -1:]
        for psi, values, picture in zip(record["psi"], record["values"], pictures, strict=True):
            for given in (parameters.values(torch.tensor(psi)), {n: torch.tensor(v) for n, v in values.items()}):
                assert np.abs(linear(picture) - scene.render(poses, given)[0, 0].cpu().numpy().clip(0, 1)).max() < 0.01
    assert risp("render", "small.py", "--frame", 2, "--psi", "random:8", "--seed", 5, "--out", "again.png")[0] == 0
    assert (folder / "again.png").read_bytes() == (folder / "sheets" / "sheet.png").read_bytes()
    assert risp("render", "small.py", "--frame", 2, "--psi", "random:8", "--seed", 6, "--out", "other.png")[0] == 0
    assert (folder / "other.png").read_bytes() != (folder / "sheets" / "sheet.png").read_bytes()


@pytest.mark.parametrize("quantity", ["depth", "normal", "alpha"])
def test_quantities(risp: Risp, folder: Path, quantity: str) -> None:
    assert risp("render", "small.py", "--quantity", quantity, "--out", "picture.png")[0] == 0
    shown = pictures_of(folder / "picture.png", 1)[0] / 255.0
    scene = load_scene("small.py")
    with torch.no_grad():
        poses = scene.rollout(frames=1).body_q[:, :1]
        picture = scene.render(poses, quantity="color" if quantity == "alpha" else quantity, alpha=True)[0, 0].cpu().numpy()
    if quantity == "alpha":
        wanted = picture[..., 3:].repeat(3, axis=-1)
    elif quantity == "normal":
        wanted = 0.5 + 0.5 * picture[..., :3]
    else:
        low, high = np.percentile(picture[..., 0][picture[..., 1] > 0.9], (2, 98))
        wanted = ((high - picture[..., :1]) / (high - low)).clip(0, 1).repeat(3, axis=-1)
        assert wanted.min() == 0 and wanted.max() == 1
    assert np.abs(shown - wanted).max() < 0.01


def test_all_cameras(risp: Risp, folder: Path) -> None:
    source = Path(full_scene.__file__).read_text()
    addition = '''

def make_scene(size=16):
    scene = make_full_scene(size=size, cameras=False)
    scene.add_camera(camera(size, "left", (-0.1, -0.25, 0.09)))
    scene.add_camera(camera(size, "right"))
    return scene
'''
    (folder / "full.py").write_text(source + addition)
    assert risp("render", "full.py", "--camera", "all", "--psi", "random:2", "--out", "all.png")[0] == 0
    both = pictures_of(folder / "all.png", 4)
    assert risp("render", "full.py", "--camera", "right", "--psi", "random:2", "--out", "right.png")[0] == 0
    right = pictures_of(folder / "right.png", 2)
    assert np.array_equal(both[1], right[0]) and np.array_equal(both[3], right[1])
    assert np.abs(both[0].astype(int) - both[1]).mean() > 3


def test_a_name_is_found_where_none_is_given(risp: Risp, folder: Path) -> None:
    status, out, _ = risp("render", "small.py")
    assert status == 0
    (written,) = (folder / "runs").iterdir()
    assert written.name.startswith("render-small-") and written.suffix == ".png" and str(written.name) in out


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--frame", "99"], "frame 99 was requested, but small has frames 0 to 4"),
        (["--frame", "-1"], "--frame: it is -1: give a whole number that is not negative"),
        (["--frame", "two"], "--frame: it is 'two': give a whole number"),
        (["--psi", "random"], "'random' is neither default nor random:N"),
        (["--psi", "random:0"], "--psi: it is 0: give"),
        (["--psi", "random:x"], "--psi: it is 'x': give a whole number"),
        (["--seed", "-3"], "--seed: it is -3"),
        (["--quantity", "colour"], "invalid choice: 'colour'"),
        (["--out", "picture.jpg"], "picture.jpg is not a .png file"),
        (["--out", "small.py/picture.png"], "cannot be written"),
        (["--out", "/proc/picture.png"], "/proc/picture.png cannot be written"),
        (["--out", "n" * 300 + ".png"], "cannot be written (File name too long)"),
        (["--psi", f"random:{10**9}"], f"{10**9} pictures of 16 x 16 pixels would take about"),
        (["--size", "10000000"], "a picture would take about 12 PB of memory"),
        (["--camera", "left"], "no camera is called 'left'"),
        (["--set", "light.key.intensty=1"], "did you mean 'light.key.intensity'"),
        (["--set", "block.face_colors=2.0"], "from 0 to 1"),
        (["--size", "0"], "--size: it is 0"),
        (["--quality", "3"], "unknown option '--quality'"),
    ],
)
def test_bad_input(risp: Risp, folder: Path, arguments: list[str], culprit: str) -> None:
    before = sorted(p for p in folder.rglob("*") if "__pycache__" not in p.parts)
    status, out, err = risp("render", "small.py", *arguments)
    assert status == 2, (status, err)
    assert len(err.strip().splitlines()) == 1 and "error: " in err and culprit in err, err
    assert "Traceback" not in out + err
    assert sorted(p for p in folder.rglob("*") if "__pycache__" not in p.parts) == before


def test_a_scene_without_a_camera_or_a_scene_that_is_none(risp: Risp, folder: Path) -> None:
    source = (folder / "small.py").read_text()
    cut = source[: source.index("    scene.add_camera(")] + source[source.index("    scene.add_light(") :]
    (folder / "blind.py").write_text(cut)
    status, _, err = risp("render", "blind.py")
    assert status == 2 and "the scene has no camera" in err
    status, _, err = risp("render", "tos")
    assert status == 2 and "did you mean 'toss'" in err
