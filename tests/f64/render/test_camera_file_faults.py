"""Camera files with faults: each is refused in one sentence that names the file, the entry and the remedy."""

import re

import numpy as np
import pytest

from tests.reference.camera_formats import (
    CX,
    CY,
    FX,
    FY,
    IMAGE,
    NAN,
    WRITERS,
    colmap,
    frame,
    opencv_entry,
    put,
    records,
    refused,
    transforms,
)
from ti_render.camera_files import read_cameras, write_colmap_text, write_opencv_json, z_up_from

TILTED = [[1, 0, 0.1], [0, 1, 0], [0, 0, 1]]
MIRROR = [[1, 0, 0], [0, 1, 0], [0, 0, -1]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"R": ...}, ["'R'", "missing"]),
        ({"t": ...}, ["'t'", "missing"]),
        ({"width": ...}, ["'width'", "missing"]),
        ({"height": ...}, ["'height'", "missing"]),
        ({"K": [[FX, 0, CX], [0, 0, CY], [0, 0, 1]]}, ["K is singular"]),
        ({"K": [[FX, 0, CX], [0, FY, CY], [0, 0, 0]]}, ["K is singular"]),
        ({"K": [[FX, 0, CX], [0, FY, CY], [0, 0, 2]]}, ["K", "last row [0.0, 0.0, 2.0]", "0, 0, 1"]),
        ({"K": [[FX, 2, CX], [0, FY, CY], [0, 0, 1]]}, ["skew", "K[0][1] = 2"]),
        ({"K": [[FX, 0, CX], [0.5, FY, CY], [0, 0, 1]]}, ["skew", "K[1][0] = 0.5"]),
        ({"K": [[-FX, 0, CX], [0, FY, CY], [0, 0, 1]]}, ["fx is -410", "above zero"]),
        ({"K": [[NAN, 0, CX], [0, FY, CY], [0, 0, 1]]}, ["K: not all entries are finite"]),
        ({"K": [FX, FY, CX, CY]}, ["K has shape [4]", "[3, 3] is needed"]),
        ({"K": [[FX, 0], [0, FY, CY], [0, 0, 1]]}, ["K is", "equally long"]),
        ({"K": "K.txt"}, ["K is 'K.txt'", "give numbers of shape [3, 3]"]),
        ({"R": TILTED}, ["R is not a rotation", "differs from the identity by 0.1"]),
        ({"R": (2 * np.eye(3)).tolist()}, ["R is not a rotation", "by 3", "without scale"]),
        ({"R": MIRROR}, ["R is a reflection", "determinant -1"]),
        ({"R": [0.1, 0.2, 0.3]}, ["R is a rotation vector", "cv2.Rodrigues"]),
        ({"R": [[1, 0, 0], [0, NAN, 0], [0, 0, 1]]}, ["R: not all entries are finite"]),
        ({"t": [0, 1]}, ["t has shape [2]", "3 numbers"]),
        ({"t": [0, 1, NAN]}, ["t: not all entries are finite"]),
        ({"dist": [0.1, 0.2, 0.3]}, ["dist has shape [3]", "4 or 5 or 8"]),
        ({"dist": [0.1, 0, 0, 0, 0, 0.2, 0, 0]}, ["dist", "beyond k3", "0.2"]),
        ({"dist": [0.1, 0, 0, NAN]}, ["dist: not all entries are finite"]),
        ({"width": 0}, ["width is 0", "at least 1"]),
        ({"height": -3}, ["height is -3"]),
        ({"height": 480.5}, ["height is 480.5", "whole number"]),
        ({"width": "640"}, ["width is '640'", "one finite number"]),
        ({"width": True}, ["width is True", "one finite number"]),
        ({"pixel_centers": "corner"}, ["pixel_centers is 'corner'", "'integer' or 'half'"]),
        ({"name": " x"}, ["camera name ' x'", "without blanks"]),
        ({"name": 5}, ["camera name 5"]),
    ],
)
def test_opencv_faults(tmp_path, changes, words):
    path = put(tmp_path / "bad.json", [opencv_entry(**({"name": "the one"} | changes))])
    named = [] if "name" in changes else ["the one"]
    refused([str(path), *named, *words], read_cameras, path)


def with_frame(**changes):
    return transforms(frames=[frame(**changes)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        *((transforms(**{key: ...}), [f"'{key}'", "missing"]) for key in ("fl_x", "fl_y", "cx", "cy", "w", "h")),
        (with_frame(file_path=...), ["frame 0", "'file_path'", "missing"]),
        (with_frame(transform_matrix=...), ["'transform_matrix'", "missing"]),
        (transforms(frames=[]), ["'frames'", "at least one"]),
        (transforms(frames=["a.png"]), ["frame 0 is str"]),
        (transforms(camera_model="OPENCV_FISHEYE"), ["'OPENCV_FISHEYE' is not supported", "PINHOLE", "SIMPLE_RADIAL"]),
        (with_frame(camera_model="EQUIRECTANGULAR"), ["images/1.png", "'EQUIRECTANGULAR' is not supported"]),
        (transforms(is_fisheye=True), ["'OPENCV_FISHEYE' is not supported"]),
        (transforms(k4=0.1), ["k4 is 0.1", "k3 only"]),
        (transforms(k1=NAN), ["k1 is nan", "one finite number"]),
        (transforms(cx="a"), ["cx is 'a'"]),
        (transforms(fl_x=0), ["fx is 0"]),
        (transforms(w=0), ["width is 0"]),
        (with_frame(transform_matrix=[[1, 0], [0, 1]]), ["transform_matrix has shape [2, 2]"]),
        (with_frame(transform_matrix=np.ones((4, 4)).tolist()), ["last row [1.0, 1.0, 1.0, 1.0]"]),
        (with_frame(transform_matrix=np.diag([2.0, 2, 2, 1]).tolist()), ["not a rotation", "by 3"]),
        (with_frame(transform_matrix=np.diag([-1.0, 1, 1, 1]).tolist()), ["reflection", "transform_matrix"]),
        (with_frame(transform_matrix=np.diag([NAN, 1, 1, 1]).tolist()), ["transform_matrix: not all entries are finite"]),
        (transforms(frames=[frame(), frame()]), ["two cameras are named 'images/1.png'"]),
    ],
)
def test_transforms_faults(tmp_path, data, words):
    path = put(tmp_path / "bad.json", data)
    refused([str(path), *words], read_cameras, path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["original_world", "no applied_transform"]),
        ({"applied_scale": -1}, ["applied_scale is -1"]),
        ({"applied_transform": np.zeros((3, 4)).tolist()}, ["applied_transform is singular"]),
        ({"applied_transform": TILTED}, ["applied_transform", "not a rotation", "0.1"]),
    ],
)
def test_original_world_faults(tmp_path, changes, words):
    path = put(tmp_path / "a.json", transforms(**changes))
    refused([str(path), *words], read_cameras, path, original_world=True)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"cameras": "1 FOV 640 480 1 1 1 1 1\n"}, ["cameras.txt, line 2", "'FOV' is not supported", "FULL_OPENCV"]),
        ({"cameras": "1 OPENCV 640 480 1 1 1 1\n"}, ["line 2", "OPENCV has 4 parameters: 8", "fx fy cx cy k1 k2 p1 p2"]),
        ({"cameras": "1 FULL_OPENCV 9 9 1 1 1 1 0 0 0 0 0 0 0.5 0\n"}, ["k5 of FULL_OPENCV is 0.5"]),
        ({"cameras": "1 PINHOLE 0 480 1 1 1 1\n"}, ["WIDTH is 0", "at least 1"]),
        ({"cameras": "1 PINHOLE 640 x 1 1 1 1\n"}, ["HEIGHT 'x'", "numbers are needed"]),
        ({"cameras": "1 PINHOLE 640 480 1 nan 1 1\n"}, ["line 2", "the parameters: not all entries are finite"]),
        ({"cameras": "1 PINHOLE 640 480 1 0 1 1\n"}, ["images.txt, line 2", "fy is 0"]),
        ({"cameras": "1 PINHOLE\n"}, ["too few words", "MODEL WIDTH"]),
        ({"cameras": "1 PINHOLE 9 9 1 1 1 1\n" * 2}, ["line 3", "the camera 1 is listed twice"]),
        ({"images": ""}, ["no images"]),
        ({"images": "1 1 0 0 0 0 0 0 1\n\n"}, ["images.txt, line 2", "too few words"]),
        ({"images": "1 1 0 0 0 0 0 0 4 a.png\n\n"}, ["'a.png' has the camera 4", "cameras.txt has 1"]),
        ({"images": "1 1 0 0 1 0 0 0 1 a.png\n\n"}, ["quaternion", "length 1.41421"]),
        ({"images": "1 nan 0 0 1 0 0 0 1 a.png\n\n"}, ["the pose: not all entries are finite"]),
        ({"images": "1 q 0 0 1 0 0 0 1 a.png\n\n"}, ["the pose 'q 0"]),
        ({"images": IMAGE[:-1] + IMAGE}, ["images.txt, line 3", "points", "empty line"]),
        ({"images": IMAGE[:-1] + "1 2\n"}, ["images.txt, line 3", "points"]),
        ({"images": IMAGE * 2}, ["two cameras are named 'a b.jpg'"]),
    ],
)
def test_colmap_faults(tmp_path, files, words):
    refused([str(tmp_path), *words], read_cameras, colmap(tmp_path / "m", **files))


def test_path_faults(tmp_path):
    """Files that do not exist, are no JSON or no text, or have an unknown format are refused."""
    refused(["nothing.json", "does not exist", "check the path"], read_cameras, tmp_path / "nothing.json")
    refused(["holds no cameras", "transforms.json"], read_cameras, tmp_path)
    refused(["is not valid JSON", "line 1"], read_cameras, put(tmp_path / "a.json", '{"K": '))
    refused(["K has shape []", "[3, 3] is needed"], read_cameras, put(tmp_path / "a.yml", "%YAML:1.0\n---\nK: 1"))
    refused(["'K'", "'cameras'", "'frames'"], read_cameras, put(tmp_path / "a.json", {"R": []}))
    refused(["'K'", "'frames'"], read_cameras, put(tmp_path / "a.json", "3"))
    refused(["there are no cameras"], read_cameras, put(tmp_path / "a.json", []))
    refused(["camera_0 is int"], read_cameras, put(tmp_path / "a.json", [1]))
    refused(["'cameras' is dict", "list"], read_cameras, put(tmp_path / "a.json", {"cameras": {}}))
    refused(["camera 'x'", "'K' is missing"], read_cameras, put(tmp_path / "a.json", {"cameras": [{"name": "x"}]}))
    refused(["no known format", "cameras.txt"], read_cameras, put(tmp_path / "poses.txt", "1 2 3"))
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00K")
    refused(["is not a text file"], read_cameras, tmp_path / "b.json")
    (tmp_path / "binary").mkdir()
    put(tmp_path / "binary" / "images.bin", "")
    refused(["binary COLMAP model", "model_converter"], read_cameras, tmp_path / "binary")
    (colmap(tmp_path / "half") / "images.txt").unlink()
    refused(["images.txt cannot be read"], read_cameras, tmp_path / "half")
    put(colmap(tmp_path / "both") / "transforms.json", transforms())
    refused(["transforms.json and a COLMAP model"], read_cameras, tmp_path / "both")
    assert read_cameras(tmp_path / "both" / "images.txt")[0].name == "a b.jpg"


def test_option_faults(tmp_path):
    """Options that contradict the file, or that would do nothing, are refused."""
    stated = put(tmp_path / "a.json", opencv_entry(pixel_centers="half"))
    refused(["says pixel_centers 'half'", "'integer' was asked"], read_cameras, stated, pixel_centers="integer")
    refused(["pixel_centers 'no' is unknown"], read_cameras, stated, pixel_centers="no")
    refused(["no option original_world"], read_cameras, stated, original_world=True)
    frames = put(tmp_path / "b.json", transforms())
    refused(["no option pixel_centers"], read_cameras, frames, pixel_centers="half")
    refused(["COLMAP", "no option pixel_centers"], read_cameras, colmap(tmp_path / "m"), pixel_centers="half")
    refused(["up 'x' is unknown", "'-y'"], z_up_from, "x")
    refused(["scale is 0"], z_up_from, "y", scale=0)
    for change, words in [
        (np.eye(2), ["shape [2, 2]"]),
        (np.ones((4, 4)), ["last row [1.0, 1.0, 1.0, 1.0]"]),
        (np.zeros((3, 3)), ["is singular"]),
        (np.diag([1.0, 1.0, -1.0]), ["reflection"]),
        (np.diag([1.0, 1.0, 2.0]), ["not a rotation"]),
    ]:
        refused(["world_from_file", *words], read_cameras, frames, world_from_file=change)


@pytest.mark.parametrize("format_name", WRITERS)
def test_write_faults(tmp_path, format_name):
    name, write = WRITERS[format_name]
    camera = records()[0]
    refused(["no cameras"], write, tmp_path / name, [])
    refused(["two cameras are named", camera.name], write, tmp_path / name, [camera, camera])
    assert not (tmp_path / name).exists()
    put(tmp_path / "file", "")
    refused([str(tmp_path / "file"), "cannot be written"], write, tmp_path / "file" / name, [camera])


def test_writers_spare_other_models(tmp_path):
    """Points or binaries of another model would not fit the new cameras; a failed write leaves no scrap."""
    put(colmap(tmp_path / "m") / "points3D.txt", "# points\n1 0 0 0 9 9 9 0.1 1 0\n")
    refused(["holds points3D.txt of another"], write_colmap_text, tmp_path / "m", records())
    put(colmap(tmp_path / "n") / "frames.txt", "")
    refused(["holds frames.txt"], write_colmap_text, tmp_path / "n", records())
    assert read_cameras(tmp_path / "m")[0].name == "a b.jpg"
    (tmp_path / "c.json").mkdir()
    refused(["c.json cannot be written"], write_opencv_json, tmp_path / "c.json", records())
    refused(["pixel_centers 'x' is unknown"], write_opencv_json, tmp_path / "d.json", records(), pixel_centers="x")
    assert not [path.name for path in tmp_path.iterdir() if re.search(r"\.tmp$|d\.json", path.name)]


def test_project_faults():
    refused(["points have shape [2]", "[..., 3]"], records()[0].project, [1, 2])
    refused(["points: not all entries are finite"], records()[0].project, [1, 2, NAN])
