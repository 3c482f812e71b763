"""Cameras of a scene, and their arrays in the renderer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch

from risp_torch.files.film.placement import Placement
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.arguments import Direction, Distortion, Pair, Vector
from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.camera_placement import placed_parameters
from risp_torch.scene.rotations import matrix_product, matrix_vector, rotation_matrix, rotation_quaternion
from ti_render import intrinsics_from_fov, look_at
from ti_render.geometry.lens import DISTORTION_SIZE
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, Positive, Rule, checked

ALL = "all"
_PINHOLE = ("position", "turn", "focal", "center")


@checked
@dataclass(frozen=True, kw_only=True)
class Camera:
    """Pinhole camera, OpenCV axes (x right, y down, z forward), pixel centres at half-integers, row 0 at the top.

    Attributes:
        position: camera centre, world frame [m].
        rotation: world-to-camera rotation matrix [3, 3]; not a parameter itself.
        turn: 3-vector [rad] about the camera's own axes, applied to ``rotation``.
        focal: fx, fy [pixels].
        center: cx, cy, the principal point [pixels].
        width, height: of the picture [pixels].
        near, far: depths [m] between which objects are rendered: a face with a vertex nearer than ``near`` is omitted and fades
            in up to 1.25 ``near``; objects beyond ``far`` fade into the background. The softness of the depth order is
            gamma × (far - near).
        distortion: k1, k2, p1, p2, k3 of the lens (OpenCV's model), or None for a lens without distortion.
        name: the camera's part of parameter names ("camera.left.position"); a camera without a name has "camera.position".
    """

    position: Vector
    rotation: Annotated[np.ndarray, Rule(shape=(3, 3), exact=True)]
    focal: Pair
    center: Pair
    width: Count
    height: Count
    near: Positive
    far: Positive
    turn: Vector = field(default=(0.0, 0.0, 0.0))
    distortion: Distortion | None = None
    name: str = ""

    @staticmethod
    @checked
    def look_at(
        *,
        eye: Vector,
        target: Direction,
        vertical_fov: Annotated[float, Rule(above=0, below=180)],
        width: Count = 128,
        height: Count = 128,
        near: Positive = 0.1,
        far: Positive = 10.0,
        up: Direction = (0.0, 0.0, 1.0),
        distortion: Distortion | None = None,
        name: str = "",
    ) -> Camera:
        """A camera at ``eye`` that looks at ``target``.

        Args:
            eye, target: points [m].
            vertical_fov: full vertical angle of view [degrees], without distortion.
            width, height: of the picture [pixels].
            near, far: see the class.
            up: direction that points up in the picture.
            distortion, name: see the class.
        """
        position = eye.value if isinstance(eye, Param) else eye
        rotation, _ = look_at(position, target, up)
        fx, fy, cx, cy = intrinsics_from_fov(vertical_fov=math.radians(vertical_fov), width=width, height=height)
        return Camera(
            position=eye, rotation=rotation, focal=(fx, fy), center=(cx, cy), width=width, height=height, near=near, far=far,
            distortion=distortion, name=name,
        )  # fmt: skip

    @staticmethod
    @checked
    def from_record(record: Any, *, near: Positive = 0.1, far: Positive = 10.0, name: str | None = None) -> Camera:
        """A camera from a record of ``ti_render.camera_files``.

        Args:
            record: with name, width, height, intrinsics [4] (fx, fy, cx, cy), rotation [3, 3] and translation [3] (world to
                camera) and distortion [5]. All zeros are a lens without distortion.
            near, far: see the class; camera files do not hold them.
            name: replaces the record's name, which is often that of an image file; characters not allowed in parameter names
                become "_".
        """
        name = re.sub(r"[^\w-]+", "_", record.name) if name is None else name
        rotation = np.array(record.rotation, dtype=np.float64)
        fx, fy, cx, cy = np.asarray(record.intrinsics, dtype=np.float64)
        distortion = np.asarray(record.distortion, dtype=np.float64)
        return Camera(
            position=-rotation.T @ np.asarray(record.translation, dtype=np.float64), rotation=rotation, focal=(fx, fy),
            center=(cx, cy), width=int(record.width), height=int(record.height), near=near, far=far,
            distortion=distortion if distortion.any() else None, name=name,
        )  # fmt: skip

    def placed(self, placement: Placement) -> Camera:
        """The camera of a part of its pictures, such as a crop in fewer pixels (``Film.placement``).

        Args:
            placement: of the part in the pictures that this camera takes: those of the film as shown, or as stored.

        Raises:
            UserError: the camera's pictures are of another size than the film's.
        """
        rotation, changes = placed_parameters(self.width, self.height, placement)
        distortion = None if self.distortion is None else changes["distortion"].apply(self.distortion)
        return replace(
            self, rotation=rotation @ self.rotation, focal=changes["focal"].apply(self.focal), distortion=distortion,
            center=changes["center"].apply(self.center), turn=changes["turn"].apply(self.turn), width=placement.width,
            height=placement.height,
        )  # fmt: skip


def chosen_cameras(cameras: Sequence[Camera], name: str | None) -> Sequence[Camera]:
    """The first camera for None, all for "all", or the camera with that name.

    Raises:
        UserError: there is none, or all are requested and their images differ in size or depth range.
    """
    if not cameras:
        raise UserError("the scene has no camera: add one with add_camera")
    if name is None:
        return cameras[:1]
    if name != ALL:
        matching = [camera for camera in cameras if camera.name == name]
        if not matching:
            raise unknown_name_error("camera", name, [camera.name for camera in cameras if camera.name] + [ALL])
        return matching
    for property_name in ("width", "height", "near", "far"):
        property_values = {getattr(camera, property_name) for camera in cameras}
        if len(property_values) > 1:
            listed = ", ".join(f"{value:g}" for value in sorted(property_values))
            raise UserError(
                f"the cameras have {property_name} {listed}: images of all cameras together need the same value, "
                "so change it, or render one camera at a time"
            )
    return cameras


def prefix_of(camera: Camera) -> str:
    """First part of a camera's parameter names."""
    return f"camera.{camera.name}" if camera.name else "camera"


def add_camera_parameters(table: ParameterTable, camera: Camera) -> None:
    """Add the parameters of a camera to a table."""
    prefix, add = prefix_of(camera), table.add
    add(f"{prefix}.position", camera.position, unit="m", shape=(3,))
    add(f"{prefix}.turn", camera.turn, unit="rad", shape=(3,))
    add(f"{prefix}.focal", camera.focal, unit="px", shape=(2,), sign="positive")
    add(f"{prefix}.center", camera.center, unit="px", shape=(2,))
    if camera.distortion is not None:
        add(f"{prefix}.distortion", camera.distortion, unit="", shape=(DISTORTION_SIZE,))


def drop_camera_parameters(table: ParameterTable, camera: Camera) -> None:
    """Remove the parameters of a camera from a table."""
    table.drop(*(f"{prefix_of(camera)}.{field}" for field in (*_PINHOLE, "distortion")))


def camera_names(cameras: Sequence[Camera]) -> tuple[str, ...]:
    """Names of the parameters that ``camera_rows`` reads."""
    return tuple(f"{prefix_of(camera)}.{field}" for camera in cameras for field in _PINHOLE)


def distortion_names(cameras: Sequence[Camera]) -> tuple[str, ...]:
    """Names of the parameters that ``distortion_rows`` reads."""
    return tuple(f"{prefix_of(camera)}.distortion" for camera in cameras if camera.distortion is not None)


def camera_rows(cameras: Sequence[Camera], values: Values, worlds: int) -> torch.Tensor:
    """[n, 16] for one camera, or [worlds C, 16] for C cameras, worlds outermost."""
    return _interleaved([_camera_row(camera, values) for camera in cameras], worlds)


def distortion_rows(cameras: Sequence[Camera], values: Values, worlds: int) -> torch.Tensor | None:
    """[n, 5] of one camera, or [worlds C, 5]; None if no lens has distortion."""
    if all(camera.distortion is None for camera in cameras):
        return None
    no_distortion = constant(np.zeros((1, DISTORTION_SIZE)))
    return _interleaved([values.get(f"{prefix_of(camera)}.distortion", no_distortion) for camera in cameras], worlds)


def _camera_row(camera: Camera, values: Values) -> torch.Tensor:
    position, turn, focal, center = (values[f"{prefix_of(camera)}.{column}"] for column in _PINHOLE)
    rotation = matrix_product(rotation_matrix(rotation_quaternion(turn)), constant(camera.rotation))
    rows = max(len(column) for column in (position, turn, focal, center))
    translation = -matrix_vector(rotation, position)
    return torch.cat([column.expand(rows, -1) for column in (focal, center, rotation.flatten(1), translation)], dim=-1)


def _interleaved(rows: list[torch.Tensor], worlds: int) -> torch.Tensor:
    if len(rows) == 1:
        return rows[0]
    return torch.stack([row.expand(worlds, -1) for row in rows], dim=1).flatten(0, 1)
