"""Calibrations of OpenCV and ROS, which give a lens and perhaps a pose, and transforms with a field of view alone."""

import numpy as np
import pytest
from PIL import Image

from tests.reference.camera_formats import CX, CY, DISTORTION, FX, FY, H, W, a_rotation, distorted, lands, put, refused
from ti_render.camera_files import read_cameras

OPENCV_YAML = """%YAML:1.0
---
calibration_time: "Fri Nov 27 10:00:00 2026"  # a comment
image_width: 640
image_height: 480
flags: 0
camera_matrix: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ 4.1e+02, 0., 3.182e+02, 0.,
       3.95e+02, 2.426e+02, 0., 0., 1. ]
distortion_coefficients: !!opencv-matrix
   rows: 5
   cols: 1
   dt: d
   data: [ -1.1e-01, 3.2e-02, 1.3e-03, -2.1e-03, 4.7e-03 ]
avg_reprojection_error: .Nan
views:
   - { name: "a.png", used: 1 }
   - "b.png"
"""
OPENCV_XML = """<?xml version="1.0"?>
<opencv_storage>
<image_Width>640</image_Width>
<image_Height>480</image_Height>
<Camera_Matrix type_id="opencv-matrix">
  <rows>3</rows><cols>3</cols><dt>d</dt>
  <data>
    410. 0. 318.2 0. 395. 242.6 0. 0. 1.</data></Camera_Matrix>
<Distortion_Coefficients type_id="opencv-matrix">
  <rows>5</rows><cols>1</cols><dt>d</dt>
  <data>-0.11 0.032 1.3e-3 -2.1e-3 4.7e-3</data></Distortion_Coefficients>
</opencv_storage>
"""
ROS_YAML = """image_width: 640
image_height: 480
camera_name: head_camera
camera_matrix:
  rows: 3
  cols: 3
  data:
  - 410
  - 0
  - 318.2
  - 0
  - 395
  - 242.6
  - 0
  - 0
  - 1
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.11, 0.032, 0.0013, -0.0021, 0.0047]
rectification_matrix: {rows: 3, cols: 3, data: [1, 0, 0, 0, 1, 0, 0, 0, 1]}
"""


@pytest.mark.parametrize(
    ("ending", "text", "name"), [("yml", OPENCV_YAML, "camera"), ("xml", OPENCV_XML, "camera"), ("yaml", ROS_YAML, "head_camera")]
)
def test_calibrations_give_a_lens(tmp_path, ending, text, name):
    path = put(tmp_path / f"lens.{ending}", text)
    (camera,) = read_cameras(path, pose_needed=False)
    np.testing.assert_allclose(camera.intrinsics, (410, 395, 318.7, 243.1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(camera.distortion, DISTORTION, rtol=0, atol=1e-12)
    assert (camera.width, camera.height, camera.name) == (640, 480, name)
    refused([str(path), "a lens and no pose", "risp camera pose --camera-file"], read_cameras, path)
    half = read_cameras(path, pose_needed=False, pixel_centers="half")[0]
    np.testing.assert_allclose(half.intrinsics[2:], (318.2, 242.6))


def test_files_that_opencv_writes(tmp_path):
    """With a pose, as a matrix and as a Rodrigues vector, in its three formats."""
    cv2 = pytest.importorskip("cv2")
    turn, shift = a_rotation(3), np.array([0.1, -0.2, 1.5])
    for ending in ("yml", "xml", "json"):
        for rotation in (turn, cv2.Rodrigues(turn)[0]):
            storage = cv2.FileStorage(str(tmp_path / f"c.{ending}"), cv2.FILE_STORAGE_WRITE)
            storage.write("camera_matrix", np.array([[FX, 0, CX - 0.5], [0, FY, CY - 0.5], [0, 0, 1]]))
            storage.write("dist_coeffs", np.array([DISTORTION]))
            storage.write("image_size", np.array([[W, H]]))
            storage.write("rvec" if rotation.size == 3 else "R", rotation)
            storage.write("tvec", shift)
            storage.release()
            (camera,) = read_cameras(tmp_path / f"c.{ending}")
            point = np.array([0.2, 0.3, 0.4])
            x, y, z = turn @ point + shift
            x, y = distorted(x / z, y / z)
            lands(camera, point, [FX * x + CX, FY * y + CY], tolerance=1e-6)


@pytest.mark.parametrize(
    ("ending", "text", "words"),
    [
        ("yml", OPENCV_YAML.replace("image_width: 640", ""), ["the key 'width' is missing"]),
        ("yml", OPENCV_YAML.replace("rows: 3", "rows: 4"), ["a matrix is", "give rows, cols and as many numbers"]),
        ("yml", OPENCV_YAML.replace("1. ]", "1."), ["opens a bracket that is not closed"]),
        ("yaml", ROS_YAML.replace("plumb_bob", "equidistant"), ["distortion model 'equidistant' is not supported"]),
        ("yaml", "[" * 500 + "]" * 500, ["nested too deeply"]), ("yaml", "- " * 500 + "a", ["levels deep"]),
        ("yml", OPENCV_YAML.replace("rows: 5", "sizes: x"), ["a matrix is"]),
        ("yaml", "words\nwithout: sense", ["line 2", "is not understood"]),
        ("yaml", "", ["none of the keys"]),
        ("xml", OPENCV_XML[:-20], ["not valid XML"]), ("xml", "<!DOCTYPE a><a>1</a>", ["has a document type"]),
        ("xml", "<a>" * 500 + "</a>" * 500, ["levels deep"]),
    ],
)  # fmt: skip
def test_calibrations_that_are_refused(tmp_path, ending, text, words):
    refused(words, read_cameras, put(tmp_path / f"lens.{ending}", text), pose_needed=False)


def test_a_field_of_view_alone_is_a_camera(tmp_path):
    """As Blender's exporters write it: no size, names of pictures without an ending."""
    frames = [{"file_path": "./train/r_0", "transform_matrix": np.eye(4).tolist()}]
    data = {"camera_angle_x": 2 * np.arctan(0.5), "frames": frames}
    path = put(tmp_path / "transforms_train.json", data)
    refused(["the size of the pictures is not known", "give w and h"], read_cameras, path)
    (tmp_path / "train").mkdir()
    Image.new("RGB", (80, 60)).save(tmp_path / "train/r_0.png")
    (camera,) = read_cameras(path)
    np.testing.assert_allclose(camera.intrinsics, (80, 80, 40, 30))
    wide = put(tmp_path / "wide.json", data | {"w": 100, "h": 50, "camera_angle_y": 2 * np.arctan(0.25), "cx": 49.0})
    np.testing.assert_allclose(read_cameras(wide)[0].intrinsics, (100, 100, 49, 25))
    tall = data | {"w": 100, "h": 50, "fl_y": 120.0}
    for angles in ({}, {"camera_angle_y": 0.3}):  # a focal length of the file has precedence over an angle
        (camera,) = read_cameras(put(tmp_path / "tall.json", tall | angles))
        np.testing.assert_allclose(camera.intrinsics, (100, 120, 50, 25))
    degrees = put(tmp_path / "a.json", data | {"camera_angle_x": 40, "w": 9, "h": 9})
    refused(["camera_angle_x is 40", "in radians"], read_cameras, degrees)
