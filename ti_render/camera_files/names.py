"""Cameras of a file have different names."""

from __future__ import annotations

from collections.abc import Sequence

from ti_render.camera_files.record import CameraRecord
from ti_sim.base.errors import UserError


def check_names(cameras: Sequence[CameraRecord]) -> None:
    """Check that there is a camera, and that no two share a name.

    Raises:
        UserError: the list is empty, or a name is listed twice.
    """
    if not cameras:
        raise UserError("there are no cameras: at least one is needed")
    previous: set[str] = set()
    for camera in cameras:
        if camera.name in previous:
            raise UserError(f"two cameras are named {camera.name!r}: give each camera its own name")
        previous.add(camera.name)
