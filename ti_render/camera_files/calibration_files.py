"""Calibrated cameras of OpenCV's FileStorage (YAML, XML, JSON) and ROS's camera_info (YAML).

Names differ between programs: case and underscores are ignored. Matrices have rows, cols and data. A pose is a rotation (matrix
or Rodrigues vector) and a translation from the world to the camera; most of these files have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ti_render.camera_files.checks import numbers
from ti_render.camera_files.opencv_json import PixelCenters, cameras_from_opencv
from ti_render.camera_files.record import CameraRecord
from ti_sim.base.errors import UserError

_NAMES = {
    "K": ("cameramatrix", "k", "intrinsicmatrix", "intrinsics"),
    "dist": ("distortioncoefficients", "distcoeffs", "distortion", "dist", "d"),
    "width": ("imagewidth", "width"),
    "height": ("imageheight", "height"),
    "R": ("rotation", "rotationmatrix", "rvec", "r"),
    "t": ("translation", "translationvector", "tvec", "t"),
    "name": ("cameraname", "name"),
}
_SIZE = ("imagesize", "size", "resolution")
_LENSES = ("plumb_bob", "rational_polynomial")  # the lens models of ROS that are OpenCV's


def is_calibration(data: Any) -> bool:
    """Whether a file's content has a camera matrix under one of the names of these programs."""
    return isinstance(data, Mapping) and any(_plain(key) in _NAMES["K"] for key in data)


def cameras_from_calibration(data: Mapping[str, Any], *, pixel_centers: PixelCenters | None) -> tuple[list[CameraRecord], bool]:
    """The camera of a calibration, and whether it has a pose; without one, its record has the world's axes and origin.

    Args:
        data: what the file holds.
        pixel_centers: where the file's pixel centres are; None for "integer", OpenCV's own convention.

    Raises:
        UserError: a number is missing or wrong, or the lens is not OpenCV's.
    """
    by_name = {_plain(key): value for key, value in data.items()}
    matrices = {key: _matrix(by_name[name]) for key, names in _NAMES.items() for name in names[::-1] if name in by_name}
    model = by_name.get("distortionmodel", by_name.get("model", _LENSES[0]))
    if isinstance(model, str) and model.lower() not in _LENSES:
        raise UserError(f"the distortion model {model!r} is not supported: calibrate with {_LENSES[0]}")
    image_size = next((by_name[name] for name in _SIZE if name in by_name), None)
    if image_size is not None and "width" not in matrices:
        matrices["width"], matrices["height"] = numbers(_matrix(image_size), "the image size").reshape(-1)[:2].tolist()
    posed = "R" in matrices and "t" in matrices
    entries = np.ravel(numbers(matrices["R"], "R")) if posed else np.eye(3).ravel()
    matrices["R"] = (
        Rotation.from_rotvec(entries).as_matrix()
        if entries.size == 3
        else entries.reshape(3, 3)
        if entries.size == 9
        else entries
    )
    matrices["t"] = np.ravel(matrices["t"]) if posed else np.zeros(3)
    matrices["name"] = str(matrices.get("name", "camera"))
    return cameras_from_opencv(matrices, pixel_centers=pixel_centers), posed


def _plain(name: Any) -> str:
    return str(name).replace("_", "").lower()


def _matrix(value: Any) -> Any:
    """An array of a matrix that is stored as rows, cols and data; other values as they are."""
    if not isinstance(value, Mapping):
        return value
    try:
        shape = np.ravel(value["sizes"]) if "sizes" in value else (value["rows"], value["cols"])
        return np.array(value["data"], dtype=np.float64).reshape([int(side) for side in shape])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"a matrix is {str(value)[:60]}: give rows, cols and as many numbers under data") from None
