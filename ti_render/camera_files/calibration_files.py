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

_KEYS = {
    "K": ("cameramatrix", "k", "intrinsicmatrix", "intrinsics"),
    "dist": ("distortioncoefficients", "distcoeffs", "distortion", "dist", "d"),
    "width": ("imagewidth", "width"),
    "height": ("imageheight", "height"),
    "R": ("rotation", "rotationmatrix", "rvec", "r"),
    "t": ("translation", "translationvector", "tvec", "t"),
    "name": ("cameraname", "name"),
}
_SIZE_KEYS = ("imagesize", "size", "resolution")
_LENS_MODELS = ("plumb_bob", "rational_polynomial")  # lens models of ROS that equal OpenCV's


def is_calibration(data: Any) -> bool:
    """Whether a file's content has a camera matrix under one of the names of these programs."""
    return isinstance(data, Mapping) and any(_normalized_key(key) in _KEYS["K"] for key in data)


def cameras_from_calibration(data: Mapping[str, Any], *, pixel_centers: PixelCenters | None) -> tuple[list[CameraRecord], bool]:
    """The camera of a calibration, and whether it has a pose; without one, its record has the identity pose.

    Args:
        data: content of the file.
        pixel_centers: convention of the file's pixel centres; None for "integer", OpenCV's own convention.

    Raises:
        UserError: a number is missing or wrong, or the lens is not OpenCV's.
    """
    by_name = {_normalized_key(key): value for key, value in data.items()}
    values = {key: _to_array(by_name[name]) for key, names in _KEYS.items() for name in names[::-1] if name in by_name}
    model = by_name.get("distortionmodel", by_name.get("model", _LENS_MODELS[0]))
    if isinstance(model, str) and model.lower() not in _LENS_MODELS:
        raise UserError(f"the distortion model {model!r} is not supported: calibrate with {_LENS_MODELS[0]}")
    image_size = next((by_name[name] for name in _SIZE_KEYS if name in by_name), None)
    if image_size is not None and "width" not in values:
        values["width"], values["height"] = numbers(_to_array(image_size), "the image size").reshape(-1)[:2].tolist()
    has_pose = "R" in values and "t" in values
    rotation_values = np.ravel(numbers(values["R"], "R")) if has_pose else np.eye(3).ravel()
    values["R"] = (
        Rotation.from_rotvec(rotation_values).as_matrix()
        if rotation_values.size == 3
        else rotation_values.reshape(3, 3)
        if rotation_values.size == 9
        else rotation_values
    )
    values["t"] = np.ravel(values["t"]) if has_pose else np.zeros(3)
    values["name"] = str(values.get("name", "camera"))
    return cameras_from_opencv(values, pixel_centers=pixel_centers), has_pose


def _normalized_key(name: Any) -> str:
    return str(name).replace("_", "").lower()


def _to_array(value: Any) -> Any:
    """An array of a matrix that is stored as rows, cols and data; other values as they are."""
    if not isinstance(value, Mapping):
        return value
    try:
        shape = np.ravel(value["sizes"]) if "sizes" in value else (value["rows"], value["cols"])
        return np.array(value["data"], dtype=np.float64).reshape([int(side) for side in shape])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"a matrix is {str(value)[:60]}: give rows, cols and as many numbers under data") from None
