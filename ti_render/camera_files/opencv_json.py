"""Cameras in the conventions of OpenCV, in JSON: K, R, t, dist, width and height.

One camera is an object; several are a list of objects, or an object with the list under ``cameras``:

    {"pixel_centers": "integer",
     "cameras": [{"name": "left", "width": 640, "height": 480, "K": [[fx, 0, cx], [0, fy, cy], [0, 0, 1]],
                  "R": 3 x 3, "t": [x, y, z], "dist": [k1, k2, p1, p2, k3]}]}

R and t map the world to the camera. ``dist`` and ``name`` may be left out. OpenCV puts the centre of the first pixel at
(0, 0) ("integer"), the renderer at (0.5, 0.5) ("half"): cx and cy differ by 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ti_render.camera_files.checks import located, numbers, required, vector
from ti_render.camera_files.names import check_names
from ti_render.camera_files.record import CameraRecord
from ti_render.camera_files.text import write_json
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

PixelCenters = Literal["integer", "half"]
_CENTRE_SHIFT = {"integer": 0.5, "half": 0.0}  # added to cx and cy
_DIST_LENGTHS = (4, 5, 8, 12, 14)  # lengths that OpenCV's calibration returns


def cameras_from_opencv(data: Any, *, pixel_centers: PixelCenters | None) -> list[CameraRecord]:
    """The cameras of an OpenCV JSON file.

    Args:
        data: content of the file.
        pixel_centers: convention of the file's pixel centres; None for the file's key ``pixel_centers``, or "integer",
            OpenCV's convention, without that key.

    Raises:
        UserError: a key is missing or wrong; the file and the argument disagree about the pixel centres.
    """
    shared: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    if "K" in shared:
        return [_camera(shared, "camera", {}, pixel_centers)]
    entries = shared.get("cameras", data)
    if not isinstance(entries, list):
        raise UserError(f"'cameras' is {type(entries).__name__}: give a list of cameras")
    return [_camera(entry, f"camera_{index}", shared, pixel_centers) for index, entry in enumerate(entries)]


@checked
def write_opencv_json(path: str | Path, cameras: Sequence[CameraRecord], *, pixel_centers: PixelCenters = "integer") -> None:
    """Write cameras as OpenCV JSON: K, R, t, dist, width, height and name of each.

    Args:
        path: the file; its folders are created.
        cameras: with different names.
        pixel_centers: "integer" for K of OpenCV's functions (cx and cy are 0.5 less than the record's), "half" for K of the
            renderer. The file has the choice under ``pixel_centers``, and ``read_cameras`` reads it.

    Raises:
        UserError: there are no cameras, two share a name, or the place cannot be written to.
    """
    check_names(cameras)
    entries = [_to_json(camera, _CENTRE_SHIFT[pixel_centers]) for camera in cameras]
    write_json(Path(path), {"pixel_centers": pixel_centers, "cameras": entries})


def _camera(entry: Any, default_name: str, shared: Mapping[str, Any], pixel_centers: PixelCenters | None) -> CameraRecord:
    if not isinstance(entry, Mapping):
        raise UserError(f"{default_name} is {type(entry).__name__}: give an object with K, R, t, width and height")
    name = entry.get("name", default_name)
    with located(f"camera {name!r}"):
        fx, fy, cx, cy = _intrinsics(required(entry, "K", "the 3 x 3 camera matrix"))
        shift = _CENTRE_SHIFT[_pixel_centers(entry.get("pixel_centers", shared.get("pixel_centers")), pixel_centers)]
        values = {
            "intrinsics": np.array([fx, fy, cx + shift, cy + shift]),
            "rotation": _rotation_matrix(required(entry, "R", "the 3 x 3 rotation from the world to the camera")),
            "translation": vector(required(entry, "t", "the translation from the world to the camera"), "t", lengths=(3,)),
            "distortion": _distortion(entry.get("dist")),
            "width": required(entry, "width", "the width of the image in pixels"),
            "height": required(entry, "height", "the height of the image in pixels"),
        }
    return CameraRecord(name=name, **values)


def _intrinsics(value: Any) -> tuple[float, float, float, float]:
    """fx, fy, cx, cy of a camera matrix, checked."""
    matrix = numbers(value, "K", shape=(3, 3))
    if not abs(np.linalg.det(matrix)) > 1e-12 * np.prod(np.linalg.norm(matrix, axis=1)):
        raise UserError(f"K is singular ({matrix.tolist()}): give focal lengths above zero and the last row 0, 0, 1")
    if not np.allclose(matrix[2], (0.0, 0.0, 1.0), rtol=0.0, atol=1e-9):
        raise UserError(f"K has the last row {matrix[2].tolist()}: 0, 0, 1 is needed")
    skew = float(np.abs((matrix[0, 1], matrix[1, 0])).max())
    if skew > 1e-6 * np.abs(matrix).max():  # smaller skew moves no pixel by more than a thousandth
        raise UserError(f"K has skew (K[0][1] = {matrix[0, 1]:g}, K[1][0] = {matrix[1, 0]:g}): calibrate without skew")
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2])


def _rotation_matrix(value: Any) -> np.ndarray:
    """R as numbers; the record checks that it is a rotation."""
    array = numbers(value, "R")
    if array.size == 3:
        raise UserError("R is a rotation vector: give the 3 x 3 matrix (cv2.Rodrigues makes it)")
    return array


def _distortion(value: Any) -> np.ndarray:
    """k1, k2, p1, p2, k3 of OpenCV's coefficients, of which those beyond k3 must be zero."""
    if value is None:
        return np.zeros(5)
    coefficients = vector(value, "dist", lengths=_DIST_LENGTHS)
    if np.any(coefficients[5:]):
        raise UserError(f"dist has coefficients beyond k3 ({coefficients[5:].tolist()}): calibrate with k1, k2, p1, p2, k3 only")
    return np.concatenate([coefficients, np.zeros(5)])[:5]


def _pixel_centers(file_value: Any, requested: PixelCenters | None) -> PixelCenters:
    """The convention of a camera's pixel centres."""
    if file_value is None:
        return "integer" if requested is None else requested
    if not isinstance(file_value, str) or file_value not in _CENTRE_SHIFT:
        raise UserError(f"pixel_centers is {file_value!r}: choose 'integer' or 'half'")
    if requested is not None and requested != file_value:
        raise UserError(f"the file says pixel_centers {file_value!r}, and {requested!r} was asked for: leave the option out")
    return file_value


def _to_json(camera: CameraRecord, shift: float) -> dict[str, Any]:
    fx, fy, cx, cy = camera.intrinsics.tolist()
    return {
        "name": camera.name,
        "width": camera.width,
        "height": camera.height,
        "K": [[fx, 0.0, cx - shift], [0.0, fy, cy - shift], [0.0, 0.0, 1.0]],
        "dist": camera.distortion.tolist(),
        "R": camera.rotation.tolist(),
        "t": camera.translation.tolist(),
    }
