"""Cameras of a COLMAP sparse model in text: ``cameras.txt`` and ``images.txt`` in one folder.

cameras.txt, one line for each lens: CAMERA_ID MODEL WIDTH HEIGHT PARAMS. images.txt, two lines for each image: IMAGE_ID QW QX QY
QZ TX TY TZ CAMERA_ID NAME (world to camera, OpenCV axes), then the image's points, which are not read. The centre of the
first pixel is (0.5, 0.5). A line that begins with # is a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ti_render.camera_files.checks import image_side, located, numbers
from ti_render.camera_files.names import check_names
from ti_render.camera_files.quaternion import quaternion_from_rotation, rotation_from_quaternion
from ti_render.camera_files.record import CameraRecord
from ti_render.camera_files.text import read_text, write_text
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

CAMERAS_FILE, IMAGES_FILE, POINTS_FILE = "cameras.txt", "images.txt", "points3D.txt"
_MODELS = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fx fy cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fx fy cx cy k1 k2 p1 p2",
    "FULL_OPENCV": "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6",
}
# Files that COLMAP would read together with those of this module: the folder must not contain them.
_OTHER_MODEL_FILES = tuple(f"{name}.bin" for name in ("cameras", "images", "points3D", "rigs", "frames")) + (
    "rigs.txt",
    "frames.txt",
)


@dataclass(frozen=True, kw_only=True)
class _Lens:
    width: int
    height: int
    intrinsics: tuple[float, ...]
    distortion: tuple[float, ...]


def cameras_from_colmap(folder: Path) -> list[CameraRecord]:
    """The cameras of a folder with cameras.txt and images.txt, one for each image, in the order of images.txt.

    Raises:
        UserError: a file is missing or a line is wrong (the message gives its number), the camera model is not supported,
            or an image names a camera that cameras.txt lacks.
    """
    lenses = _read_lenses(folder / CAMERAS_FILE)
    path = folder / IMAGES_FILE
    cameras = []
    for location, line in _image_lines(path):
        with located(location):
            cameras.append(_parse_image(line, lenses))
    if not cameras:
        raise UserError(f"camera file {path} has no images: two lines for each image are needed")
    return cameras


@checked
def write_colmap_text(folder: str | Path, cameras: Sequence[CameraRecord]) -> None:
    """Write cameras as a COLMAP text model without points: cameras.txt, images.txt and an empty points3D.txt.

    The model is PINHOLE without distortion, OPENCV where k3 is zero, else FULL_OPENCV. Images with the same lens share a
    camera. A camera's name becomes the name of its image.

    Args:
        folder: created if it is missing; it must not contain another model.
        cameras: with different names.

    Raises:
        UserError: there are no cameras, two share a name, the folder holds files of another model, or it cannot be
            written to.
    """
    folder = Path(folder)
    check_names(cameras)
    _check_folder(folder)
    camera_ids: dict[str, int] = {}
    image_lines = ["# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME", "# POINTS2D[] as (X, Y, POINT3D_ID)"]
    for index, camera in enumerate(cameras, start=1):
        camera_id = camera_ids.setdefault(_lens_text(camera), len(camera_ids) + 1)
        pose = _join([*quaternion_from_rotation(camera.rotation), *camera.translation])
        image_lines += [f"{index} {pose} {camera_id} {camera.name}", ""]
    lens_lines = [f"{camera_id} {text}" for text, camera_id in camera_ids.items()]
    write_text(folder / CAMERAS_FILE, "\n".join(["# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]", *lens_lines, ""]))
    write_text(folder / IMAGES_FILE, "\n".join([*image_lines, ""]))
    write_text(folder / POINTS_FILE, "# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)\n")


def _read_lenses(path: Path) -> dict[str, _Lens]:
    lenses: dict[str, _Lens] = {}
    for index, line in enumerate(read_text(path).split("\n"), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        with located(f"camera file {path}, line {index}"):
            if words[0] in lenses:
                raise UserError(f"the camera {words[0]} is listed twice: give each camera its own number")
            lenses[words[0]] = _parse_lens(words)
    return lenses


def _parse_lens(words: list[str]) -> _Lens:
    if len(words) < 4:
        raise UserError("too few words: a camera is CAMERA_ID MODEL WIDTH HEIGHT PARAMS")
    model = words[1]
    if model not in _MODELS:
        raise UserError(f"camera model {model!r} is not supported: undistort the images, or use one of {', '.join(_MODELS)}")
    keys, parameters = _MODELS[model].split(), _floats(words[4:], "the parameters")
    if len(parameters) != len(keys):
        raise UserError(f"{model} has {len(parameters)} parameters: {len(keys)} are needed ({_MODELS[model]})")
    values = dict(zip(keys, parameters, strict=True))
    for key in ("k4", "k5", "k6"):
        if values.get(key, 0.0) != 0:
            raise UserError(f"{key} of {model} is {values[key]:g}: calibrate with the model OPENCV, or with k4, k5, k6 zero")
    return _Lens(
        width=image_side(_floats(words[2:3], "WIDTH")[0], "WIDTH"),
        height=image_side(_floats(words[3:4], "HEIGHT")[0], "HEIGHT"),
        intrinsics=(values.get("fx", values.get("f")), values.get("fy", values.get("f")), values["cx"], values["cy"]),
        distortion=tuple(values.get(key, 0.0) for key in ("k1", "k2", "p1", "p2", "k3")),
    )


def _image_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The first line of each image, with its location. The second line, with the points, may be empty and must not be missing."""
    lines = iter(enumerate(read_text(path).split("\n"), start=1))
    for index, line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        yield f"camera file {path}, line {index}", line
        index, line = next(lines, (index, ""))
        with located(f"camera file {path}, line {index}"):
            _check_points(line)


def _check_points(line: str) -> None:
    """Refuse files without the lines of points: every second image would be lost silently."""
    words = line.split()
    try:
        if len(words) % 3:
            raise ValueError
        for word in words:
            float(word)
    except ValueError:
        raise UserError(
            "this line must hold the points of the image above (X Y POINT3D_ID ...), or be an empty line"
        ) from None


def _parse_image(line: str, lenses: dict[str, _Lens]) -> CameraRecord:
    words = line.split(maxsplit=9)
    if len(words) < 10:
        raise UserError("too few words: an image is IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME")
    camera_id, name = words[8], words[9]
    if camera_id not in lenses:
        raise UserError(f"image {name!r} has the camera {camera_id}, and {CAMERAS_FILE} has {', '.join(lenses) or 'none'}")
    pose = _floats(words[1:8], "the pose")
    lens = lenses[camera_id]
    return CameraRecord(
        name=name,
        width=lens.width,
        height=lens.height,
        intrinsics=np.array(lens.intrinsics),
        rotation=rotation_from_quaternion(pose[:4]),
        translation=pose[4:],
        distortion=np.array(lens.distortion),
    )


def _floats(words: list[str], name: str) -> np.ndarray:
    try:
        values = [float(word) for word in words]
    except ValueError:
        raise UserError(f"{name} {' '.join(words)!r}: numbers are needed") from None
    return numbers(np.array(values), name)


def _lens_text(camera: CameraRecord) -> str:
    """MODEL WIDTH HEIGHT PARAMS of the simplest model that represents the camera."""
    intrinsics, distortion = camera.intrinsics.tolist(), camera.distortion.tolist()
    if distortion[4] != 0:
        model, parameters = "FULL_OPENCV", [*intrinsics, *distortion, 0.0, 0.0, 0.0]
    elif any(distortion):
        model, parameters = "OPENCV", [*intrinsics, *distortion[:4]]
    else:
        model, parameters = "PINHOLE", intrinsics
    return f"{model} {camera.width} {camera.height} {_join(parameters)}"


def _join(values: Sequence[float]) -> str:
    """Numbers that read back exactly."""
    return " ".join(repr(float(value)) for value in values)


def _check_folder(folder: Path) -> None:
    """Check that the folder contains no other model: its points would refer to images that no longer exist."""
    other_file = next((name for name in _OTHER_MODEL_FILES if (folder / name).exists()), None)
    points = folder / POINTS_FILE
    if other_file is None and points.is_file():
        has_points = any(line.strip() and not line.strip().startswith("#") for line in read_text(points).split("\n"))
        other_file = POINTS_FILE if has_points else None
    if other_file is not None:
        raise UserError(f"folder {folder} holds {other_file} of another COLMAP model: choose an empty folder")
