"""The things a scene is made of: contact materials, surfaces, lights, cameras. Every number may be a ``Param``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ti_render import intrinsics_from_fov, look_at
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param

Number = float | Param
Vector = Sequence[float] | np.ndarray | Param


@dataclass(frozen=True, kw_only=True)
class Contact:
    """Compliant contact of every contact point with the ground (gradSim, appendix A).

    Attributes:
        stiffness: ke [N/m].
        damping: kd [N s/m].
        friction_stiffness: kf [N s/m], slope of the relaxed Coulomb law at rest.
        friction: mu [1].
    """

    stiffness: Number
    damping: Number
    friction_stiffness: Number
    friction: Number


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Colours of a mesh, linear rgb in [0, 1].

    Attributes:
        color: one colour for all, or None.
        face_colors: one colour for each side of a box (six rows: +x, -x, +y, -y, +z, -z), or one for each face, or None.
        vertex_colors: one colour for each vertex [V, 3], or None.

    Exactly one of the three is given; with none, the mesh's own colours serve, or grey.
    """

    color: Vector | None = None
    face_colors: Any = None
    vertex_colors: Any = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.color, self.face_colors, self.vertex_colors)) > 1:
            raise UserError("a Surface takes one of color, face_colors and vertex_colors: leave the others out")


@dataclass(frozen=True, kw_only=True)
class DirectionalLight:
    """Parallel light. A white surface that faces a light of intensity 1 shows 1.0.

    Attributes:
        direction: in which the light travels, any length.
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names ("light.key.intensity").
    """

    direction: Vector
    intensity: Vector | Number = 1.0
    name: str = "key"


@dataclass(frozen=True, kw_only=True)
class AmbientLight:
    """Light from everywhere.

    Attributes:
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names.
    """

    intensity: Vector | Number
    name: str = "ambient"


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Pinhole camera, OpenCV axes (x right, y down, z forward), pixel centres at half-integers, row 0 at the top.

    Attributes:
        position: of the eye, world frame [m].
        rotation: world-to-camera rotation matrix [3, 3]; not a parameter itself.
        turn: 3-vector [rad] about the camera's own axes by which the camera is turned away from ``rotation``.
        focal: fx, fy [pixels].
        center: cx, cy, the principal point [pixels].
        width, height: of the picture [pixels].
        near, far: depths [m] between which objects are drawn: a face with a vertex nearer than ``near`` is left out, what lies
            beyond ``far`` fades into the background. The softness of the depth order is gamma × (far - near).
    """

    position: Vector
    rotation: np.ndarray
    focal: Vector
    center: Vector
    width: int
    height: int
    near: float
    far: float
    turn: Vector = field(default=(0.0, 0.0, 0.0))

    @staticmethod
    def look_at(
        *,
        eye: Vector,
        target: Sequence[float],
        vertical_fov: float,
        width: int = 128,
        height: int = 128,
        near: float = 0.1,
        far: float = 10.0,
        up: Sequence[float] = (0.0, 0.0, 1.0),
    ) -> Camera:
        """A camera at ``eye`` that looks at ``target``.

        Args:
            eye, target: points [m].
            vertical_fov: full vertical angle of view [degrees].
            width, height: of the picture [pixels].
            near, far: see the class.
            up: direction that points up in the picture.
        """
        position = eye.value if isinstance(eye, Param) else eye
        rotation, _ = look_at(position, target, up)
        fx, fy, cx, cy = intrinsics_from_fov(vertical_fov=math.radians(vertical_fov), width=width, height=height)
        return Camera(
            position=eye, rotation=rotation, focal=(fx, fy), center=(cx, cy), width=width, height=height, near=near, far=far
        )

    def resized(self, width: int, height: int) -> Camera:
        """The same view in another size of picture (focal lengths and principal point scale with it).

        Raises:
            UserError: focal or center is a Param: resize before making it one.
        """
        if isinstance(self.focal, Param) or isinstance(self.center, Param):
            raise UserError("the camera's focal lengths or centre are Params: choose the picture's size where they are set")
        sx, sy = width / self.width, height / self.height
        focal, center = np.asarray(self.focal) * (sx, sy), np.asarray(self.center) * (sx, sy)
        return replace(self, width=width, height=height, focal=tuple(focal), center=tuple(center))
