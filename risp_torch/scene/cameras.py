"""The cameras of a scene, and the renderer's arrays of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.body import rotation_matrix, rotation_quaternion
from risp_torch.scene.items import Camera
from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError

ALL = "all"
_PINHOLE = ("position", "turn", "focal", "center")


@dataclass
class Cameras:
    """The cameras of a scene, in the order in which they were added.

    Attributes:
        table: where their numbers are.
        cameras: their other properties.
    """

    table: ParameterTable
    cameras: list[Camera] = field(default_factory=list)

    def add(self, camera: Camera) -> None:
        """Add a camera (errors: ``Scene.add_camera``)."""
        names = [other.name for other in self.cameras]
        if camera.name in names and not camera.name:
            raise UserError("the scene has a camera without a name already: give the cameras names (Camera(..., name='left'))")
        if camera.name in names:
            raise UserError(f"the scene has a camera {camera.name!r} already: give the second one another name")
        if camera.name == ALL or camera.name and not re.fullmatch(r"[\w-]+", camera.name):
            raise UserError(f"a camera is called {camera.name!r}: use letters, digits, _ and -, and not 'all'")
        prefix, add = prefix_of(camera), self.table.add
        add(f"{prefix}.position", camera.position, unit="m", shape=(3,))
        add(f"{prefix}.turn", camera.turn, unit="rad", shape=(3,))
        add(f"{prefix}.focal", camera.focal, unit="px", shape=(2,), sign="positive")
        add(f"{prefix}.center", camera.center, unit="px", shape=(2,))
        if camera.distortion is not None:
            add(f"{prefix}.distortion", camera.distortion, unit="", shape=(5,))
        self.cameras.append(camera)

    def replace(self, cameras: Sequence[Camera]) -> None:
        """Use other cameras (errors: ``Scene.use_cameras``)."""
        if not cameras:
            raise UserError("there are no cameras to film with: give at least one")
        for camera in self.cameras:
            self.table.drop(*(f"{prefix_of(camera)}.{part}" for part in (*_PINHOLE, "distortion")))
        self.cameras.clear()
        for camera in cameras:
            self.add(camera)

    def put_first(self, name: str) -> None:
        """Order the cameras anew (errors: ``Scene.film_with``)."""
        found = [camera for camera in self.cameras if camera.name == name]
        if not found:
            names = [camera.name for camera in self.cameras if camera.name]
            if not names:
                raise UserError(f"no camera is called {name!r}: the scene's only camera has no name, leave it out")
            raise unknown_name_error("camera", name, names)
        (first,) = found
        self.cameras = [first, *(camera for camera in self.cameras if camera is not first)]

    def resize(self, width: int, height: int) -> None:
        """Change the size of all cameras' pictures; focal lengths and principal points, and their bounds, scale with it."""
        for index, camera in enumerate(self.cameras):
            self.cameras[index] = replace(camera, width=width, height=height)
            factor = np.array([width / camera.width, height / camera.height])
            for part in ("focal", "center"):
                self.table.scale(f"{prefix_of(camera)}.{part}", factor)

    def chosen(self, name: str | None) -> list[Camera]:
        """The first camera for None, all for "all", or the one of that name (errors: ``Scene.render``)."""
        if not self.cameras:
            raise UserError("the scene has no camera: add one with add_camera")
        if name is None:
            return self.cameras[:1]
        if name != ALL:
            found = [camera for camera in self.cameras if camera.name == name]
            if not found:
                raise unknown_name_error("camera", name, [camera.name for camera in self.cameras if camera.name] + [ALL])
            return found
        for property_name in ("width", "height", "near", "far"):
            different = {getattr(camera, property_name) for camera in self.cameras}
            if len(different) > 1:
                listed = ", ".join(f"{value:g}" for value in sorted(different))
                raise UserError(
                    f"the cameras have {property_name} {listed}: pictures of all cameras together need the same, "
                    "so change it, or film with one camera at a time"
                )
        return self.cameras


def prefix_of(camera: Camera) -> str:
    """First part of a camera's parameter names."""
    return f"camera.{camera.name}" if camera.name else "camera"


def camera_names(cameras: Sequence[Camera]) -> tuple[str, ...]:
    """Names of the parameters that ``camera_rows`` reads."""
    return tuple(f"{prefix_of(camera)}.{part}" for camera in cameras for part in _PINHOLE)


def distortion_names(cameras: Sequence[Camera]) -> tuple[str, ...]:
    """Names of the parameters that ``distortion_rows`` reads."""
    return tuple(f"{prefix_of(camera)}.distortion" for camera in cameras if camera.distortion is not None)


def camera_rows(cameras: Sequence[Camera], values: Values, worlds: int) -> torch.Tensor:
    """[n, 16] of one camera, or [worlds C, 16] of C cameras, for every world first to last."""
    return _by_world([_camera_row(camera, values) for camera in cameras], worlds)


def distortion_rows(cameras: Sequence[Camera], values: Values, worlds: int) -> torch.Tensor | None:
    """[n, 5] of one camera, or [worlds C, 5]; None where no lens distorts."""
    if all(camera.distortion is None for camera in cameras):
        return None
    none = constant(np.zeros((1, 5)))
    return _by_world([values.get(f"{prefix_of(camera)}.distortion", none) for camera in cameras], worlds)


def _camera_row(camera: Camera, values: Values) -> torch.Tensor:
    position, turn, focal, center = (values[f"{prefix_of(camera)}.{part}"] for part in _PINHOLE)
    rotation = rotation_matrix(rotation_quaternion(turn)) @ constant(camera.rotation)
    rows = max(len(part) for part in (position, turn, focal, center))
    translation = -(rotation @ position[..., None])[..., 0]
    return torch.cat([part.expand(rows, -1) for part in (focal, center, rotation.flatten(1), translation)], dim=-1)


def _by_world(rows: list[torch.Tensor], worlds: int) -> torch.Tensor:
    if len(rows) == 1:
        return rows[0]
    return torch.stack([row.expand(worlds, -1) for row in rows], dim=1).flatten(0, 1)
