"""Readers and writers of camera files: OpenCV JSON, nerfstudio's transforms.json and COLMAP's text model (docs/cameras.md)."""

from ti_render.camera_files.colmap_text import write_colmap_text
from ti_render.camera_files.opencv_json import write_opencv_json
from ti_render.camera_files.read import read_cameras
from ti_render.camera_files.record import CameraRecord
from ti_render.camera_files.transforms_json import write_transforms_json
from ti_render.camera_files.world import z_up_from

__all__ = ["CameraRecord", "read_cameras", "write_colmap_text", "write_opencv_json", "write_transforms_json", "z_up_from"]
