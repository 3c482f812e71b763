"""The things a scene is made of: contact materials, surfaces, lights, cameras. Every number may be a ``Param``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from ti_render import intrinsics_from_fov, look_at
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, Positive, Real, Rule, checked

# One number, three (one for all of them), or any array: each may be a Param.
Number = Annotated[float | Param, Rule(param=True)]
Vector = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(3,), param=True)]
Pair = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(2,), param=True)]
Array = Annotated[Any, Rule(shape=None, param=True)]
Distortion = Annotated[float | Sequence[float] | np.ndarray | Param, Rule(shape=(5,), param=True)]
# Three or four numbers that are no parameters.
Direction = Annotated[Sequence[float] | np.ndarray, Rule(shape=(3,), exact=True)]
Quaternion = Annotated[Sequence[float] | np.ndarray, Rule(shape=(4,), exact=True)]
Picture = str | Path | np.ndarray | Param
Wrap = Literal["clamp", "repeat"]


@checked
@dataclass(frozen=True, kw_only=True)
class Contact:
    """Compliant contact with the ground (gradSim, appendix A).

    Attributes:
        stiffness: ke [N/m]; [N/m3] per area.
        damping: kd [N s/m]; [N s/m3] per area.
        friction_stiffness: kf [N s/m], slope of the relaxed Coulomb law at rest; [N s/m3] per area.
        friction: mu [1].
        per: what the first three numbers belong to. "point": every contact point, that is every vertex of the collision mesh, of
            a sphere its lowest point, of a capsule those of its ends, of a cylinder four of each rim. The same numbers on a finer
            mesh then are a stiffer body. "area": every square metre of surface, of which a vertex carries its share: of a rigid
            body the part that faces the ground, of a deformable one a third of the triangles about it. The motion then does not
            depend on how fine the mesh is; round shapes, too, touch with the vertices of their meshes.

    Raises:
        UserError: ``per`` is neither.
    """

    stiffness: Number
    damping: Number
    friction_stiffness: Number
    friction: Number
    per: Literal["point", "area"] = "point"

    def __post_init__(self) -> None:
        if self.per not in ("point", "area"):
            raise UserError(f"contact numbers per {self.per!r}: choose 'point' or 'area'")


@checked
@dataclass(frozen=True, kw_only=True)
class Surface:
    """How a mesh looks. Colours are linear rgb in [0, 1].

    Attributes:
        color: one colour for all, or None.
        face_colors: one colour for each side of a box (six rows: +x, -x, +y, -y, +z, -z), or one for each face, or None.
        vertex_colors: one colour for each vertex [V, 3], or None.
        texture: a picture that multiplies the colour: path of a picture file (sRGB), or linear rgb [h, w, 3], row 0 at the top.
        wrap: what the texture does beyond its edges: "repeat", as mesh files mean it, or "clamp".
        uv: texture coordinates of every face's corners [F, 3, 2] or of every vertex [V, 2]; the mesh's own by default.
        specular: share of light that is mirrored, linear rgb or one number (needs a scene with shading="phong").
        shininess: exponent of the highlight; the higher, the smaller it is (needs a scene with shading="phong").
        smooth: whether the shading is smooth across edges instead of flat on each face.
        crease_angle: with ``smooth``, edges whose faces' normals differ by more than this stay sharp [rad]; None: no edge does.

    At most one of the three kinds of colour is given. With none of them and no texture, the mesh file's own texture or colours
    serve, or else grey. With a texture alone, the colour is white.
    """

    color: Vector | None = None
    face_colors: Array | None = None
    vertex_colors: Array | None = None
    texture: Picture | None = None
    wrap: Wrap = "repeat"
    uv: Array | None = None
    specular: Vector | None = None
    shininess: Number | None = None
    smooth: bool = False
    crease_angle: Real | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.color, self.face_colors, self.vertex_colors)) > 1:
            raise UserError("a Surface takes one of color, face_colors and vertex_colors: leave the others out")
        if self.wrap not in ("clamp", "repeat"):
            raise UserError(f"a Surface has wrap {self.wrap!r}: choose clamp or repeat")
        if self.crease_angle is not None and not (self.smooth and 0 <= self.crease_angle <= math.pi):
            raise UserError(
                f"a Surface has the crease angle {self.crease_angle} and smooth={self.smooth}: give an angle from 0 to pi rad, "
                "with smooth=True"
            )


@checked
@dataclass(frozen=True, kw_only=True)
class DirectionalLight:
    """Parallel light. A white surface that faces a light of intensity 1 shows 1.0.

    Attributes:
        direction: in which the light travels, any length.
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names ("light.key.intensity").
    """

    direction: Vector
    intensity: Vector = 1.0
    name: str = "key"


@checked
@dataclass(frozen=True, kw_only=True)
class PointLight:
    """Light from a point, the same in all directions. A white surface that faces it 1 m away shows its intensity.

    Attributes:
        position: world frame [m].
        intensity: linear rgb, or one number for white light; what arrives falls with the square of the distance.
        name: the light's part of parameter names.
    """

    position: Vector
    intensity: Vector = 1.0
    name: str = "lamp"


@checked
@dataclass(frozen=True, kw_only=True)
class EnvironmentLight:
    """Light from far away all around: what arrives from every direction, in real spherical harmonics up to degree 2.

    Attributes:
        coefficients: [9, 3] linear rgb of Y00, Y1-1 (y), Y10 (z), Y11 (x), Y2-2 (xy), Y2-1 (yz), Y20 (3z^2 - 1), Y21 (xz),
            Y22 (x^2 - y^2), orthonormal on the sphere: uniform light of radiance 1 has Y00 = sqrt(4 pi) = 3.545, and acts like
            an ambient light of 1 (Ramamoorthi and Hanrahan, An efficient representation for irradiance environment maps, 2001).
        name: the light's part of parameter names.
    """

    coefficients: Annotated[Any, Rule(shape=(9, 3), param=True)]
    name: str = "environment"


@checked
@dataclass(frozen=True, kw_only=True)
class AmbientLight:
    """Light from everywhere.

    Attributes:
        intensity: linear rgb, or one number for white light.
        name: the light's part of parameter names.
    """

    intensity: Vector
    name: str = "ambient"


Light = DirectionalLight | PointLight | EnvironmentLight | AmbientLight


@checked
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
        near, far: depths [m] between which objects are drawn: a face with a vertex nearer than ``near`` is left out and fades in
            up to 1.25 ``near``, what lies beyond ``far`` fades into the background. The softness of the depth order is
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
        """A camera that ``ti_render.camera_files`` has read from a file.

        Args:
            record: with name, width, height, intrinsics [4] (fx, fy, cx, cy), rotation [3, 3] and translation [3] (world to
                camera) and distortion [5]. All zeros are a lens without distortion.
            near, far: see the class; camera files do not hold them.
            name: in place of the record's own, which is often the name of a picture file: what cannot stand in a parameter's name
                becomes "_".
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
