"""``risp film``: what it says of a film, what it draws and cuts, and what it refuses."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import Scene, load_scene, write_frames
from risp_torch.commands import invert
from risp_torch.commands.options import make_scene
from risp_torch.files.film import Cut, read_film
from risp_torch.files.film.curves import linear_to_srgb
from risp_torch.inversion.problem.films.target import load_target
from tests.reference import film_files as made
from tests.reference.film_files import BT709, LIMITED, PQ, SRGB

Risp = Callable[..., tuple[int, str, str]]
TAGS = (BT709, BT709, SRGB, LIMITED)
BLACK = made.flat_planes((16, 128, 128))


@pytest.fixture
def film(folder: Path) -> Path:
    """Twelve frames of 48x32 stored pixels, 2:3 and turned; the first three are black, and the fifth comes 64 ms late."""
    (folder / "taken").mkdir()
    (folder / "taken/notes.txt").touch()
    stamps = [9000 + 3000 * k + (5760 if k > 3 else 0) for k in range(12)]
    planes = [BLACK] * 3 + [made.pattern(seed=k) for k in range(9)]
    return made.write_film_file(
        folder / "v.mp4", planes, tags=TAGS, times=stamps, pixel_aspect=Fraction(2, 3), degrees=-90
    )


def test_it_says_what_a_film_is(risp: Risp, film: Path) -> None:
    status, out, err = risp("film", "v.mp4", "--sheet", "sheet.png")
    assert (status, err) == (0, "")
    rows = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line and not line.startswith("-"))
    said = {name.strip(): text.strip() for name, text in rows.items()}
    assert said == {
        "film": "v.mp4",
        "kind": "mov, h264, yuv444p, 8 bits",
        "size as stored": "48x32, pixels 2:3, turned by 90 degrees",
        "size as shown": "32x32",
        "frames": "12 in 0.430667 s",
        "first time stamp": "0.1 s",
        "rate": "30 frames/s, constant but for gaps",
        "gaps": "97.33 ms before frame 4",
        "colours": "range limited, matrix BT.709, primaries BT.709, curve sRGB",
    }
    assert "uneven: frames 4 to 11 are the longest even stretch (--first 4 --last 11); a camera of 32x32 pixels" in out
    assert "remark: frames 0 to 2 are black: begin with --first 3" in out and "written: sheet.png" in out
    sheet = np.asarray(Image.open("sheet.png"))
    assert sheet.ndim == 3 and sheet.std() > 20 and [path.name for path in Path().glob("*.png")] == ["sheet.png"]


def test_the_sheet_shows_the_frames_with_numbers_and_times(risp: Risp, film: Path) -> None:
    """Two pictures, enlarged by six, with a margin of 8 pixels: the first black, the last as it is read."""
    assert risp("film", "v.mp4", "--pictures", 2, "--sheet", "sheet.png")[0] == 0
    sheet = np.asarray(Image.open("sheet.png").convert("RGB"))
    last = np.round(255 * linear_to_srgb(read_film(film).pictures[-1])).astype(np.uint8).repeat(6, axis=0).repeat(6, axis=1)
    assert sheet.shape[0] > sheet.shape[1] - 300 and (sheet[8:200, 8:200] == 0).all()
    places = [(y, x) for y in (8, 8 + 192 + 2 * 18 + 8) for x in (8, 8 + 192 + 8)]
    found = [place for place in places if np.array_equal(sheet[place[0] : place[0] + 192, place[1] : place[1] + 192], last)]
    assert len(found) == 1
    captions = sheet[8 + 192 : 8 + 192 + 36, 8:200]
    assert (captions < 100).sum() > 50


def test_a_part_is_cut(risp: Risp, film: Path) -> None:
    part = ["--first", 4, "--last", "0.37s", "--every", 2, "--crop", "2,4,24,20", "--size", "12x10"]
    status, out, err = risp("film", "v.mp4", *part, "--out", "part")
    assert (status, err) == (0, "")
    assert "for a scene: frame_dt=0.06666667, frames=2, a camera of 12x10 pixels" in out
    assert "written: part-sheet.png" in out and "written: part (3 pictures of 12x10 pixels, 16 bits)" in out
    expected = read_film(film, cut=Cut(first=4, last=9, every=2, crop=(2, 4, 24, 20), size=(12, 10)))
    back = read_film("part")
    np.testing.assert_allclose(back.pictures, expected.pictures, atol=2e-5)
    np.testing.assert_allclose(back.times, [0, 1 / 15, 2 / 15], atol=1e-9)
    assert back.placement == expected.placement and back.placement.stored.quarter_turns == 1
    status, out, _ = risp("film", "part", "--sheet", "again.png")
    assert status == 0 and "cut from" in out and "rate              15 frames/s, constant\n" in out


def test_stored_pixels_and_eight_bits(risp: Risp, film: Path) -> None:
    status, out, _ = risp("film", "v.mp4", "--first", 4, "--pixels", "stored", "--bits", 8, "--out", "part")
    assert status == 0 and "remark: pixels are 1.5 times as wide as high; the camera's fx is fy over that" in out
    back = read_film("part")
    assert back.facts.bits == 8 and back.pictures.shape == (8, 48, 32, 3)
    assert back.placement.pixel_aspect == pytest.approx(1.5)


def test_masks_stay_shares(risp: Risp, folder: Path) -> None:
    """Numbers without a curve are averaged as they are, and written so."""
    share = np.zeros((8, 8), dtype=np.uint8)
    share[:, ::4] = 255
    (folder / "masks").mkdir()
    Image.fromarray(share).save(folder / "masks/0.png")
    assert risp("film", "masks", "--curve", "linear", "--size", "2x2", "--out", "small")[0] == 0
    assert (np.asarray(Image.open("small/00000.png")) == round(0.25 * 255)).all()  # pillow keeps eight of sixteen bits
    np.testing.assert_allclose(read_film("small").pictures, 0.25, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["none.mp4"], "video none.mp4 does not exist"),
        (["small.py"], "video small.py is damaged, cut short or of an unknown kind"),
        (["v.mp4", "--first", "1.5"], "'1.5' is neither a frame nor a time: write for example 40, or 1.3s"),
        (["v.mp4", "--last", "-1"], "'-1' is neither a frame nor a time"),
        (["v.mp4", "--first", "20"], "no frame of v.mp4 is left: it has frames 0 to 11 within 0.430667 s"),
        (["v.mp4", "--crop", "1,2,3"], "'1,2,3' is not X,Y,W,H"),
        (["v.mp4", "--crop", "20,0,20,20"], "the part 20,0,20,20 does not lie in a picture of 32x32 pixels"),
        (["v.mp4", "--size", "16by12"], "or write for example 128x96"),
        (["v.mp4", "--size", "16x12"], "would be squeezed: cut out a part of that shape first, for example --crop 0,4,32,24"),
        (["v.mp4", "--size", "64x64"], "films are made smaller, not larger"),
        (["v.mp4", "--every", "0"], "--every: it is 0"),
        (["v.mp4", "--curve", "srgb"], "--curve"),
        (["v.mp4", "--sheet", "sheet.jpg"], "--sheet sheet.jpg is not a .png file"),
        (["v.mp4", "--out", "part", "--sheet", "part/a.png"], "--sheet part/a.png would be a picture of the film in part"),
        (["v.mp4", "--out", "taken"], "taken already holds files that are not a video"),
    ],
)
def test_what_is_refused(risp: Risp, film: Path, arguments: list[str], culprit: str) -> None:
    status, out, err = risp("film", *arguments)
    assert status == 2 and culprit in err and len(err.strip().splitlines()) == 1
    assert not Path("part").exists()


def test_a_film_that_cannot_be_read_is_described_all_the_same(risp: Risp, folder: Path) -> None:
    made.write_film_file(folder / "hdr.mp4", made.grey_film(3), tags=(9, 9, PQ, LIMITED))
    status, out, err = risp("film", "hdr.mp4")
    assert status == 2 and "colours           HDR (PQ): not read" in out and "30 frames/s, constant" in out
    assert err == (
        "risp film: error: video hdr.mp4 is coded for HDR (PQ), which is not read: convert it to SDR, for example with ffmpeg's "
        "zscale and tonemap filters\n"
    )
    assert not (folder / "runs").exists()


# -- cameras follow -------------------------------------------------------------------------------------------------------


@pytest.fixture
def part(risp: Risp, folder: Path) -> Path:
    """A part of the film of the small scene at 48 pixels, half as large as what was cut out."""
    scene = load_scene("small.py", size=48)
    with torch.no_grad():
        write_frames("run", scene.render(scene.rollout(worlds=1))[0], fps=200)
    cut = ["--first", 1, "--crop", "8,12,32,28", "--size", "16x14"]
    assert risp("film", "run", *cut, "--out", "part")[0] == 0
    return folder / "part"


def scene_of(*words: object) -> Scene:
    """The scene of ``risp invert`` with these options."""
    parser = argparse.ArgumentParser()
    invert.add_arguments(parser)
    unknown = ["--unknown", "block.density"]
    return make_scene(parser.parse_args(["small.py", *unknown, "--frames", "2", *(str(word) for word in words)]))


def test_the_scenes_camera_follows_a_part(part: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A camera of the whole film films the part; one of the part's size, or of --size, stays."""
    followed = scene_of("--set", "size=48", "--video", "part")
    assert "camera: its 48x48 pixels become the 16x14 of part" in capsys.readouterr().out
    whole = load_scene("small.py", size=48)
    focal, center = (np.asarray(whole.table[f"camera.{name}"].value) for name in ("focal", "center"))
    np.testing.assert_allclose(followed.table["camera.focal"].value, focal / 2)
    np.testing.assert_allclose(followed.table["camera.center"].value, (center - [8, 12]) / 2)
    assert (followed.camera.width, followed.camera.height) == (16, 14)
    target = load_target(followed, "part")
    assert target.shape == (3, 14, 16, 3)
    # As the film was made: edges whose softness is a part of the whole picture, and pixels that are means of four.
    followed.sigma, followed.style = 1e-3 * (48 / 28) ** 2, replace(followed.style, antialias=2)
    with torch.no_grad():
        film = followed.render(followed.rollout(worlds=1, frames=3))[0, 1:]
    error, shifted = ((film - other).abs().mean() for other in (target, target.roll(1, dims=-2)))
    assert error < 0.1 * shifted, (error, shifted)
    given = scene_of("--set", "size=48", "--set", "camera.center=(1.0, 2.0)", "--video", "part")
    np.testing.assert_allclose(given.table["camera.center"].value, [1, 2])  # numbers that are set are those of the part


def test_cameras_of_files_follow(part: Path, folder: Path) -> None:
    turned = {"name": "left", "width": 48, "height": 48, "K": [[80, 0, 23.5], [0, 80, 23.5], [0, 0, 1]], "t": [0, 0, 0.3]}
    turned["R"] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    (folder / "cameras.json").write_text(json.dumps({"cameras": [turned | {"name": "other", "width": 30}, turned]}))
    scene = scene_of("--camera-file", "cameras.json", "--camera", "left", "--video", "part")
    np.testing.assert_allclose(scene.table["camera.left.focal"].value, [40, 40])
    np.testing.assert_allclose(scene.table["camera.left.center"].value, [8, 6])
    np.testing.assert_allclose(scene.table["camera.other.focal"].value, [80, 80])


def test_cameras_of_other_sizes(risp: Risp, part: Path) -> None:
    """With --size it is the user's word that the scene's camera shows the part; without, the sizes that fit are named."""
    assert scene_of("--size", 14, "--video", "part").camera.width == 14
    assert scene_of("--set", "size=20", "--video", "run").camera.width == 20  # as ever: the film is whole
    status, _, err = risp("invert", "small.py", "--unknown", "block.density", "--video", "part")
    assert status == 2
    assert "the camera's pictures are 16x16 pixels, and the film was cut from pictures of 48x48: give the camera that took" in err
    risp("film", "run", "--crop", "8,11,32,28", "--size", "16x14", "--out", "other")
    films = ["--video", "part", "other", "--per-film", "block.velocity"]
    status, _, err = risp("invert", "small.py", "--set", "size=48", "--unknown", "block.density", *films)
    assert status == 2 and "part and other are other parts of what a camera took: name a camera for each film" in err


def test_stored_pixels_warn_of_a_camera_with_square_ones(risp: Risp, film: Path) -> None:
    assert risp("film", "v.mp4", "--first", 4, "--pixels", "stored", "--crop", "0,0,16,16", "--out", "part")[0] == 0
    with pytest.warns(UserWarning, match="pixels of part are 1.5 times as wide as high, and the camera's focal lengths are"):
        scene_of("--video", "part")
