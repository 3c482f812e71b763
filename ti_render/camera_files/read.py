"""Reader of all formats of camera files: the path and the content determine the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ti_render.camera_files.calibration_files import cameras_from_calibration, is_calibration
from ti_render.camera_files.checks import located
from ti_render.camera_files.colmap_text import CAMERAS_FILE, IMAGES_FILE, cameras_from_colmap
from ti_render.camera_files.markup import read_xml, read_yaml
from ti_render.camera_files.names import check_names
from ti_render.camera_files.opencv_json import cameras_from_opencv
from ti_render.camera_files.record import CameraRecord
from ti_render.camera_files.text import read_json, read_text
from ti_render.camera_files.transforms_json import cameras_from_transforms
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

_TRANSFORMS = "transforms.json"
_MARKUP_READERS = {".yml": read_yaml, ".yaml": read_yaml, ".xml": read_xml}


@checked
def read_cameras(
    path: str | Path,
    *,
    world_from_file: Any = None,
    pixel_centers: Literal["integer", "half"] | None = None,
    original_world: bool = False,
    pose_needed: bool = True,
) -> list[CameraRecord]:
    """Read the cameras of a file, in the axes and pixel coordinates of the renderer.

    Args:
        path: OpenCV JSON or a nerfstudio transforms.json (distinguished by their keys); a calibration in OpenCV's YAML or XML or
            in ROS's camera_info YAML; a folder with a transforms.json or with COLMAP's cameras.txt and images.txt; or one of
            these two files.
        world_from_file: p_world = M p_file, a similarity [4, 4] (or a rotation [3, 3]), for example ``z_up_from("y")``;
            None keeps the file's world.
        pixel_centers: for OpenCV and ROS files only: "integer" if the centre of the first pixel is (0, 0), so that cx and cy grow
            by 0.5; "half" if it is (0.5, 0.5). None takes the file's key ``pixel_centers``, or "integer", OpenCV's
            convention, without that key.
        original_world: for transforms.json only: undo the file's applied_transform and applied_scale, so that the cameras
            are in the world of the original model. ``world_from_file`` is applied after it.
        pose_needed: whether a calibration without a pose is refused; otherwise its camera has the identity pose, and only
            its focal lengths, centre and lens are meaningful.

    Returns:
        One record for each camera (OpenCV) or image (other formats), in the order of the file, with different names.

    Raises:
        UserError: the path is missing or has no known format; a key is missing or wrong; a camera is invalid; an
            option does not belong to the format. The message names the file, the camera and the remedy.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"camera file {path} does not exist (looked for {path.absolute()}): check the path")
    source = _file_or_folder(path)
    if source.is_dir():
        _refuse_options(source, "a COLMAP model", pixel_centers=pixel_centers, original_world=original_world)
        cameras = cameras_from_colmap(source)
    else:
        cameras = _read_file(source, pixel_centers=pixel_centers, original_world=original_world, pose_needed=pose_needed)
    with located(f"camera file {source}"):
        check_names(cameras)
    if world_from_file is None:
        return cameras
    with located("world_from_file"):
        return [camera.in_world(world_from_file) for camera in cameras]


def _file_or_folder(path: Path) -> Path:
    """The JSON file to read, or the folder of the COLMAP model."""
    if path.name in (CAMERAS_FILE, IMAGES_FILE):
        return path.parent
    if path.suffix.lower() == ".txt":
        raise UserError(f"camera file {path} has no known format: give a folder with {CAMERAS_FILE} and {IMAGES_FILE}")
    if not path.is_dir():
        return path
    transforms, has_colmap = path / _TRANSFORMS, (path / CAMERAS_FILE).exists() or (path / IMAGES_FILE).exists()
    if transforms.exists() and has_colmap:
        raise UserError(f"folder {path} holds {_TRANSFORMS} and a COLMAP model: give the path of {_TRANSFORMS} or {IMAGES_FILE}")
    if transforms.exists():
        return transforms
    if has_colmap:
        return path
    if (path / "images.bin").exists():
        raise UserError(f"folder {path} holds a binary COLMAP model: convert it (colmap model_converter --output_type TXT)")
    raise UserError(f"folder {path} holds no cameras: {_TRANSFORMS}, or {CAMERAS_FILE} and {IMAGES_FILE}, are looked for")


def _read_file(path: Path, *, pixel_centers: Any, original_world: bool, pose_needed: bool) -> list[CameraRecord]:
    suffix = path.suffix.lower()
    if suffix in _MARKUP_READERS:
        with located(f"camera file {path}"):
            data = _MARKUP_READERS[suffix](read_text(path))
    else:
        data = read_json(path)
    if is_calibration(data) and not ("K" in data and "R" in data):
        _refuse_options(path, "a calibration", original_world=original_world)
        with located(f"camera file {path}"):
            cameras, has_pose = cameras_from_calibration(data, pixel_centers=pixel_centers)
        if pose_needed and not has_pose:
            raise UserError(
                f"camera file {path} holds a lens and no pose: find the pose with risp camera pose --camera-file, and use the "
                "file that it writes"
            )
        return cameras
    if isinstance(data, Mapping) and "frames" in data:
        _refuse_options(path, "a transforms.json", pixel_centers=pixel_centers)
        with located(f"camera file {path}"):
            return cameras_from_transforms(data, original_world=original_world, folder=path.parent)
    if isinstance(data, list) or (isinstance(data, Mapping) and ("K" in data or "cameras" in data)):
        _refuse_options(path, "an OpenCV file", original_world=original_world)
        with located(f"camera file {path}"):
            return cameras_from_opencv(data, pixel_centers=pixel_centers)
    raise UserError(
        f"camera file {path} has none of the keys 'K', 'cameras', 'camera_matrix' (OpenCV, ROS) and 'frames' (nerfstudio): "
        "add one"
    )


def _refuse_options(path: Path, kind: str, **options: Any) -> None:
    """Refuse options that would have no effect."""
    for name, value in options.items():
        if value:
            raise UserError(f"camera file {path} is {kind}, for which there is no option {name}: leave it out")
