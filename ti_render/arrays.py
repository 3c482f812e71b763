"""Bundles of arrays that the renderer's kernels read, and the names of the columns of their rows.

An array is declared here once. The kernels of a stage, of its adjoint and of its tangent take the same bundle: the arrays that
have derivatives are a class of their own, which also holds their adjoints ("bars") or their tangents ("dots").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle
from ti_sim.base.rows import Row

T = TypeVar("T")

# Arrays of ``RenderInputs`` with a row for each light, in the order in which the lights stand in the uniforms.
LIGHT_KINDS = ("directional", "point")
LIGHT = Row(direction_or_position=3, intensity=3)
MATERIAL = Row(specular=3, shininess=1)
GROUND = Row(color=3, height=1, second_color=3, cell=1, origin=2)

# Uniforms: one row per image with the values that all its fragments share. The eye [m], the world ray of the picture's centre and
# its derivatives by the screen position (a point at camera depth z is eye + z (ray + x ray_x + y ray_y)), the ground's inverse
# depth as an affine function of the screen position (plane), and copies of inputs. From ``lights`` on the rows of all lights (of
# directional ones with the unit vector towards the light), and then those of the materials.
UNIFORM = Row(
    eye=3, ray=3, ray_x=3, ray_y=3, plane=3, sigma=1, gamma=1, ambient=3, environment=27, ground=GROUND.size, top=3, bottom=3,
    lights=0,
)  # fmt: skip

# Flags of a picture: numbers of lights (all, and of each kind) and of materials, enabled features (0 or 1), and pattern and
# texture of the ground.
FLAG = Row(
    lights=1, **dict.fromkeys(LIGHT_KINDS, 1), materials=1, environment=1, shadows=1, two_sided=1, position=1, distorted=1,
    ground=1, ground_pattern=1, ground_texture=1, background_image=1,
)  # fmt: skip

# Bits of a column of tangents, by the inputs that it changes: MOVING vertices, camera or softness; LIT any input of the lighting
# (lights, materials, and all of MOVING); ALBEDO albedo or texture; BACKDROP ground or background, other than by shadows.
MOVING_COLUMN, LIT_COLUMN, ALBEDO_COLUMN, BACKDROP_COLUMN = 1, 2, 4, 8

# A mesh's face: its vertices, material, texture (-1: none), and the rows of the normals that its corners use.
CORNER = Row(vertex=3, material=1, texture=1, normal=3)


@bundle
class UniformArrays:
    """Inputs that the uniforms hold, as of ``RenderInputs``; also their adjoints and tangents."""

    camera: Array
    softness: Array
    ambient: Array
    environment: Array
    ground: Array
    background: Array
    directional: Array
    point: Array
    material: Array

    def named(self, name: str) -> Array:
        """One of the arrays."""
        return getattr(self, name)


UniformArrays.named._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@bundle
class Picture:
    """Features and size of a picture.

    Attributes:
        flags: [FLAG.size] int32, see ``FLAG``.
        width, height: size of the picture [pixels].
    """

    flags: Array
    width: Integer
    height: Integer


@bundle
class PixelArrays:
    """Arrays that determine the colour of any pixel; also their adjoints and tangents.

    Attributes:
        texels: [n, X, 3] linear rgb of all textures.
        uniforms: [M, U], see ``UNIFORM``; their adjoints have a row for each thread.
        shadow_maps: [M L, R, R, 4] shadow maps, see ``shadow_lookup``.
        centres: [M, H, W, 2] undistorted screen positions of the pixels (a dummy without distortion).
    """

    texels: Array
    uniforms: Array
    shadow_maps: Array
    centres: Array


@bundle
class View(PixelArrays):
    """Arrays and settings that all pixels of a picture share.

    Attributes:
        shading: code of the quantity in the colour channels (``surface``).
        flags: [FLAG.size] int32, see ``FLAG``.
        textures: [T, 4] int32, see ``MeshTopology``.
        shadow_frame: [6] of the shadow maps, see ``shadow_lookup``.
        near, background_depth, depth_range: of the depth order [m] (near = 0: no near fade).
    """

    shading: Static
    flags: Array
    textures: Array
    shadow_frame: Array
    near: Number
    background_depth: Number
    depth_range: Number

    @property
    def images(self) -> Any:
        """M, the number of images."""
        return self.uniforms.shape[0]


@bundle
class FaceArrays(PixelArrays):
    """Differentiable arrays that the rasterisers read; also their adjoints and tangents.

    Attributes:
        screen: [M, V, 3] (see ``project``).
        vertices: [M, V, 3] world [m].
        normals: [M, G + F, 3].
        albedo: [n, F, 3, 3].
        uv: [n, F, 3, 2].
    """

    screen: Array
    vertices: Array
    normals: Array
    albedo: Array
    uv: Array


@bundle
class Faces(FaceArrays, View):
    """Argument of the rasterisers' kernels.

    Attributes:
        corners: [F, 8] int32, see ``CORNER``.
        contours: [M, F] int32, orientation and contour edges of the faces (``coverage.find_contours``).
        softmax_only: whether the colour is the softmax without the alpha channel (1: composite "softmax").
        edge_on_slope: slope of a face from which on it counts as nearly edge-on (``edge_on``).
    """

    corners: Array
    contours: Array
    softmax_only: Integer
    edge_on_slope: Number


@bundle
class BackdropArrays(PixelArrays):
    """Differentiable arrays of ground and background; also their adjoints and tangents.

    Attributes:
        background_image: [n, h, w, 3].
    """

    background_image: Array


@bundle
class Backdrop(BackdropArrays, View):
    """Argument of the backdrop's kernels.

    Attributes:
        nearest_only: whether the nearer one of ground and background has weight 1 in a pixel (1: DIB-R), or both are blended.
    """

    nearest_only: Integer


@bundle
class TangentWork:
    """Columns of tangents, and workspace of their kernels.

    Attributes:
        column_flags: [K] int32, bits of what each column changes (``MOVING_COLUMN`` and others).
        scratch: [threads K SCRATCH.size] of a fragment; entries that a column does not need stay zero.
    """

    column_flags: Array
    scratch: Array


@bundle
class FaceTangentWork(TangentWork):
    """``TangentWork`` with the tangents of a face's corners.

    Attributes:
        face_dot: [threads K FACE_DOT_SIZE].
    """

    face_dot: Array


def bundle_from(bundle_type: type[T], arrays: Mapping[str, Any]) -> T:
    """A bundle with the values of ``arrays`` that its fields name."""
    return bundle_type(*[arrays[name] for name in field_names(bundle_type)])


@cache
def field_names(bundle_type: type) -> tuple[str, ...]:
    """Names of the fields of a bundle."""
    return tuple(field.name for field in fields(bundle_type))
