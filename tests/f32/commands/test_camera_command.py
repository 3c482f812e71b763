"""``risp camera``: a pose from points and a calibration from a board, in files that --camera-file reads."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.reference.boards import board_cameras, chessboard, drawn
from tests.reference.small_scenes import make_scene
from ti_render import look_at
from ti_render.camera_files import CameraRecord, read_cameras

Risp = Callable[..., tuple[int, str, str]]


def test_points_of_the_scene_give_its_camera(risp: Risp, folder: Path) -> None:
    """The camera of the file films the same picture as the scene's own."""
    camera = make_scene().camera
    record = CameraRecord(
        name="own", width=16, height=16, intrinsics=np.r_[camera.focal, camera.center], rotation=camera.rotation,
        translation=-camera.rotation @ camera.position,
    )  # fmt: skip
    points = np.random.default_rng(0).uniform([-0.05, -0.05, 0], [0.05, 0.05, 0.06], (10, 3))
    rows = np.hstack([points, record.project(points)])
    np.savetxt(folder / "points.csv", rows, delimiter=",", header="x,y,z,u,v", comments="")
    status, out, error = risp("camera", "pose", "--points", "points.csv", "--size", "16x16", "--out", "camera.json")
    assert (status, error) == (0, "") and "as priors of the first camera: --prior camera.position=" in out
    (found,) = read_cameras(folder / "camera.json")
    np.testing.assert_allclose(found.camera_row(), record.camera_row(), rtol=1e-3, atol=1e-3)
    assert json.loads((folder / "camera.json").read_text())["calibration"]["camera"]["points"] == 10
    for name, more in (("own", ()), ("file", ("--camera-file", "camera.json"))):
        assert risp("simulate", "small.py", "--frames", 1, *more, "--out", name)[0] == 0
    strips = [np.asarray(Image.open(folder / name / "strip.png"), dtype=float) for name in ("own", "file")]
    assert np.abs(strips[0] - strips[1]).mean() < 1.0


def test_a_board_gives_cameras(risp: Risp, folder: Path) -> None:
    pytest.importorskip("cv2", reason="boards need opencv-python-headless (extra calibration)")
    intrinsics = np.array([300.0, 300.0, 160.0, 120.0])
    cameras = board_cameras(intrinsics, np.zeros(5), np.array([0.1, -0.06, 0.0]), width=320, height=240)
    for camera in cameras:
        Image.fromarray(drawn(camera, chessboard(9, 6, 0.025))).save(folder / f"{camera.name}.png")
    Image.new("L", (320, 240), 128).save(folder / "nothing.png")
    pictures = [f"{camera.name}.png" for camera in cameras] + ["nothing.png"]
    status, out, error = risp(
        "camera", "board", *pictures, "--board", "9x6", "--square", 0.025, "--lens", "none", "--out", "cameras.json"
    )
    assert (status, error) == (0, "") and "the board is not found in nothing" in out
    read = read_cameras(folder / "cameras.json")
    assert len(read) == len(cameras) and np.abs(read[0].intrinsics - intrinsics).max() < 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["board"], "takes pictures, --board CxR and --square M"),
        (["board", "--points", "p.csv"], "--points belong to risp camera pose"),
        (["pose", "a.png", "--points", "p.csv"], "pictures belong to risp camera board"),
        (["pose"], "takes --points FILE.csv"), (["pose", "--points", "p.csv"], "the size of the picture is not known"),
        (["pose", "--points", "p.csv", "--size", "9by6"], "write for example 128x96"),
        (["pose", "--points", "p.csv", "--size", "9x6"], "p.csv cannot be read"),
    ],
)  # fmt: skip
def test_what_is_refused(risp: Risp, words: list[str], sentence: str) -> None:
    status, _, error = risp("camera", *words, "--out", "camera.json")
    assert status == 2 and sentence in error


def test_points_with_v_upwards_are_refused_and_named(risp: Risp, folder: Path) -> None:
    rotation, translation = look_at((0.8, -0.9, 0.7), (0.0, 0.0, 0.0))
    record = CameraRecord(
        name="own", width=640, height=480, intrinsics=np.array([600.0, 600.0, 320.0, 240.0]), rotation=rotation,
        translation=translation,
    )  # fmt: skip
    ground = np.array([[-0.2, -0.2, 0.0], [0.2, -0.2, 0.0], [0.2, 0.2, 0.0], [-0.2, 0.2, 0.0]])
    pixels = record.project(ground) * [1, -1] + [0, 480]
    np.savetxt(folder / "points.csv", np.hstack([ground, pixels]), delimiter=",", header="x,y,z,u,v", comments="")
    words = ("camera", "pose", "--points", "points.csv", "--size", "640x480", "--focal", 600, "--out", "camera.json")
    status, _, error = risp(*words)
    assert status == 2 and "below the ground" in error and "with v measured upwards" in error
    assert not (folder / "camera.json").exists()
    assert risp(*words, "--below-ground")[0] == 0


def test_a_calibration_without_a_pose_gives_the_lens_of_one(risp: Risp, folder: Path) -> None:
    (folder / "lens.yaml").write_text(
        "image_width: 640\nimage_height: 480\n"
        "camera_matrix: {rows: 3, cols: 3, data: [600, 0, 319.5, 0, 600, 239.5, 0, 0, 1]}\n"
    )
    rotation, translation = look_at((0.8, -0.9, 0.7), (0.0, 0.0, 0.0))
    record = CameraRecord(
        name="own", width=640, height=480, intrinsics=np.array([600.0, 600.0, 320.0, 240.0]), rotation=rotation,
        translation=translation,
    )  # fmt: skip
    points = np.random.default_rng(0).uniform(-0.2, 0.2, (6, 3))
    rows = np.hstack([points, record.project(points)])
    np.savetxt(folder / "points.csv", rows, delimiter=",", header="x,y,z,u,v", comments="")
    status, _, error = risp("camera", "pose", "--points", "points.csv", "--camera-file", "lens.yaml", "--out", "camera.json")
    assert (status, error) == (0, "")
    np.testing.assert_allclose(read_cameras(folder / "camera.json")[0].position(), (0.8, -0.9, 0.7), atol=1e-4)
    status, _, error = risp("simulate", "small.py", "--camera-file", "lens.yaml", "--out", "film")
    assert status == 2 and "lens.yaml holds a lens and no pose: find the pose with risp camera pose" in error
