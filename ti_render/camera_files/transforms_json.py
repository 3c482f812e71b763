"""Cameras of a nerfstudio ``transforms.json`` (the format of Instant NGP, with OpenCV's lens coefficients).

fl_x, fl_y, cx, cy, w, h [pixels], k1, k2, p1, p2, k3 and camera_model are keys of the file or of a frame, and the
frame's value has precedence. Without fl_x, the horizontal focal length follows from camera_angle_x [rad]; the vertical one is
then fl_y, or follows from camera_angle_y, or equals the horizontal one; the size is w and h, or that of the pictures. Each frame
has a file_path and a transform_matrix: camera to world, [4, 4], in OpenGL axes (x right, y up, z back). The centre of the first
pixel is (0.5, 0.5). applied_transform and applied_scale are already applied to the cameras: p_file = scale (A p_original).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ti_render.camera_files.checks import image_side, located, number, numbers, required, rotation
from ti_render.camera_files.names import check_names
from ti_render.camera_files.record import CameraRecord
from ti_render.camera_files.text import write_json
from ti_render.camera_files.world import similarity
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

# All models share one formula; coefficients that are missing in the file are zero.
_MODELS = ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV")
_INTRINSICS = {
    "fl_x": "the focal length in x [pixels]",
    "fl_y": "the focal length in y [pixels]",
    "cx": "the principal point in x [pixels]",
    "cy": "the principal point in y [pixels]",
}
_DISTORTION = ("k1", "k2", "p1", "p2", "k3")
_UNSUPPORTED = ("k4", "k5", "k6")
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".PNG", ".JPG")
_OPENCV_FROM_OPENGL = np.diag([1.0, -1.0, -1.0])  # y and z change sign


def cameras_from_transforms(data: Mapping[str, Any], *, original_world: bool, folder: Path) -> list[CameraRecord]:
    """The cameras of a transforms.json, one for each frame, in the order of the file.

    Args:
        data: content of the file.
        original_world: undo the file's applied_transform and applied_scale.
        folder: of the file, to which the paths of pictures are relative.

    Raises:
        UserError: a key is missing or wrong, the camera model is not supported, or ``original_world`` is asked for and
            the file has neither applied_transform nor applied_scale.
    """
    frames = required(data, "frames", "a list of frames")
    if not isinstance(frames, list) or not frames:
        raise UserError("'frames' is not a list with at least one frame")
    cameras = [_camera(frame, index, data, folder) for index, frame in enumerate(frames)]
    if not original_world:
        return cameras
    original_from_file = _undo_applied(data)
    return [camera.in_world(original_from_file) for camera in cameras]


@checked
def write_transforms_json(path: str | Path, cameras: Sequence[CameraRecord]) -> None:
    """Write cameras as a nerfstudio transforms.json; a camera's name becomes its file_path.

    Intrinsics are keys of the file if all cameras share all of them, otherwise of the frames: nerfstudio ignores keys of
    frames that are also keys of the file.

    Args:
        path: the file; its folders are created.
        cameras: with different names.

    Raises:
        UserError: there are no cameras, two share a name, or the path cannot be written to.
    """
    check_names(cameras)
    lenses = [_lens(camera) for camera in cameras]
    shared = lenses[0] if all(lens == lenses[0] for lens in lenses) else None
    frames = [
        {"file_path": camera.name, **({} if shared else lens), "transform_matrix": _camera_to_world(camera).tolist()}
        for camera, lens in zip(cameras, lenses, strict=True)
    ]
    write_json(Path(path), {"camera_model": "OPENCV", **(shared or {}), "frames": frames})


def _camera(frame: Any, index: int, data: Mapping[str, Any], folder: Path) -> CameraRecord:
    if not isinstance(frame, Mapping):
        raise UserError(f"frame {index} is {type(frame).__name__}: give an object with file_path and transform_matrix")
    with located(f"frame {index}"):
        name = required(frame, "file_path", "the image of the frame")
    values = {**data, **frame}
    with located(f"frame {name!r}"):
        _check_model(values)
        if "fl_x" not in values and "camera_angle_x" in values:
            values |= _intrinsics_from_fov(values, folder / str(name))
        rotation_gl, eye = _pose(required(frame, "transform_matrix", "the 4 x 4 camera-to-world matrix"))
        world_to_camera = _OPENCV_FROM_OPENGL @ rotation_gl.T
        record = {
            "intrinsics": np.array([number(required(values, key, text), key) for key, text in _INTRINSICS.items()]),
            "rotation": world_to_camera,
            "translation": -world_to_camera @ eye,
            "distortion": np.array([number(values.get(key, 0.0), key) for key in _DISTORTION]),
            "width": required(values, "w", "the width of the image in pixels"),
            "height": required(values, "h", "the height of the image in pixels"),
        }
    return CameraRecord(name=name, **record)


def _intrinsics_from_fov(values: Mapping[str, Any], picture: Path) -> dict[str, Any]:
    """Size, focal lengths and centre of a file with the horizontal field of view (camera_angle_x, as Blender's exporters write).

    Size and centre are those of the picture where the file has none. The vertical focal length is fl_y of the file, else that of
    camera_angle_y, else the horizontal one: pixels are then square.
    """
    if "w" in values and "h" in values:
        width, height = values["w"], values["h"]
    else:
        width, height = _picture_size(picture)
    sides = {"x": image_side(width, "w"), "y": image_side(height, "h")}
    focal = {axis: _focal(values[key], key, sides[axis]) for axis in sides if (key := f"camera_angle_{axis}") in values}
    intrinsics = {"w": width, "h": height, "fl_x": focal["x"], "fl_y": values.get("fl_y", focal.get("y", focal["x"]))}
    return intrinsics | {key: values.get(key, 0.5 * side) for key, side in (("cx", sides["x"]), ("cy", sides["y"]))}


def _focal(angle: Any, key: str, side: int) -> float:
    """Focal length [px] of a field of view [rad] over a side [px]."""
    angle = number(angle, key)
    if not 0 < angle < np.pi:
        raise UserError(f"{key} is {angle:g}: give the field of view in radians, above 0 and below pi")
    return float(0.5 * side / np.tan(0.5 * angle))


def _picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture whose name may lack its suffix."""
    from PIL import Image

    for candidate in (path, *(path.with_name(path.name + suffix) for suffix in _IMAGE_SUFFIXES)):
        if candidate.is_file():
            try:
                with Image.open(candidate) as picture:
                    return picture.size
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
                raise UserError(f"the picture {candidate} cannot be read: give w and h in the file") from None
    raise UserError(f"the size of the pictures is not known ({path} is not there): give w and h in the file")


def _check_model(values: Mapping[str, Any]) -> None:
    """Check that the lens is one of those that OpenCV's five coefficients describe."""
    model = "OPENCV_FISHEYE" if values.get("is_fisheye") else values.get("camera_model", "OPENCV")
    if model not in _MODELS:
        raise UserError(f"camera_model {model!r} is not supported: undistort the images, or use one of {', '.join(_MODELS)}")
    for key in _UNSUPPORTED:
        if number(values.get(key, 0.0), key) != 0:
            raise UserError(f"{key} is {values[key]:g}: calibrate with k1, k2, p1, p2, k3 only")


def _pose(value: Any) -> tuple[np.ndarray, np.ndarray]:
    """Camera-to-world rotation (OpenGL axes) and position of a transform_matrix; its last row may be left out."""
    matrix = numbers(value, "transform_matrix")
    if matrix.shape not in ((4, 4), (3, 4)):
        raise UserError(f"transform_matrix has shape {list(matrix.shape)}: [4, 4] is needed")
    if not np.allclose(matrix[3:], (0.0, 0.0, 0.0, 1.0), rtol=0.0, atol=1e-9):
        raise UserError(f"transform_matrix has the last row {matrix[3].tolist()}: 0, 0, 0, 1 is needed")
    return rotation(matrix[:3, :3], "R of transform_matrix"), matrix[:3, 3]


def _undo_applied(data: Mapping[str, Any]) -> np.ndarray:
    """p_original = M p_file, [4, 4]."""
    if "applied_transform" not in data and "applied_scale" not in data:
        raise UserError("original_world was asked for, and there is no applied_transform: leave the option out")
    scale, rotation_matrix, shift = similarity(data.get("applied_transform", np.eye(4)), "applied_transform")
    applied_scale = number(data.get("applied_scale", 1.0), "applied_scale")
    if applied_scale <= 0:
        raise UserError(f"applied_scale is {applied_scale:g}: a number above zero is needed")
    original_from_file = np.eye(4)
    original_from_file[:3, :3] = rotation_matrix.T / (scale * applied_scale)
    original_from_file[:3, 3] = -rotation_matrix.T @ shift / scale
    return original_from_file


def _lens(camera: CameraRecord) -> dict[str, Any]:
    values = dict(zip(_INTRINSICS, camera.intrinsics.tolist(), strict=True))
    distortion = dict(zip(_DISTORTION, camera.distortion.tolist(), strict=True))
    return {**values, "w": camera.width, "h": camera.height, **distortion}


def _camera_to_world(camera: CameraRecord) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3] = camera.rotation.T @ _OPENCV_FROM_OPENGL
    matrix[:3, 3] = camera.position()
    return matrix
