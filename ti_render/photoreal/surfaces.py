"""Triangles and materials as Mitsuba's objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ti_render.photoreal.geometry import Submesh
from ti_render.photoreal.ground import Ground

Corners = np.ndarray


def mesh_object(
    mitsuba: Any, name: str, positions: Corners, material: Any, *, normals: Corners | None = None,
    colors: Corners | None = None, uv: Corners | None = None,
) -> Any:  # fmt: skip
    """A triangle mesh whose triangles share no corners.

    Args:
        mitsuba: the module.
        name: of the mesh.
        positions: [K, 3, 3] corners in the world [m].
        material: Mitsuba's BSDF.
        normals: [K, 3, 3] unit normals of the corners, None for flat triangles.
        colors: [K, 3, 3] linear rgb of the corners, for the attribute "vertex_color".
        uv: [K, 3, 2] texture coordinates.
    """
    count = 3 * len(positions)
    properties = mitsuba.Properties()
    properties["mesh_bsdf"] = material
    mesh = mitsuba.Mesh(
        name, count, len(positions), props=properties,
        has_vertex_normals=normals is not None, has_vertex_texcoords=uv is not None,
    )  # fmt: skip
    arrays = {"vertex_positions": positions, "vertex_normals": normals, "vertex_texcoords": uv}
    parameters = mitsuba.traverse(mesh)
    parameters["faces"] = type(parameters["faces"])(np.arange(count, dtype=np.uint32))
    for key, array in arrays.items():
        if array is not None:
            parameters[key] = type(parameters[key])(np.ascontiguousarray(array, dtype=np.float32).reshape(-1))
    parameters.update()
    if colors is not None:
        mesh.add_attribute("vertex_color", 3, np.clip(colors, 0, 1).astype(np.float32).reshape(-1))
    return mesh


def ground_object(mitsuba: Any, ground: Ground, material: Any) -> Any:
    """The mesh of a ground polygon, a fan of triangles."""
    fan = np.array([(0, k, k + 1) for k in range(1, len(ground.corners) - 1)])
    uv = np.column_stack([ground.uv[:, 0], 1 - ground.uv[:, 1]])  # Mitsuba counts v from the top row
    return mesh_object(mitsuba, "ground", ground.corners[fan], material, uv=uv[fan])


def submesh_object(mitsuba: Any, name: str, submesh: Submesh, material: Any) -> Any:
    """The mesh of a submesh, with its colours as an attribute where it has no texture."""
    uv = None if submesh.uv is None else np.stack([submesh.uv[..., 0], 1 - submesh.uv[..., 1]], axis=-1)
    colors = submesh.colors if submesh.texture < 0 else None
    return mesh_object(mitsuba, name, submesh.positions, material, normals=submesh.normals, colors=colors, uv=uv)


def color_source(
    mitsuba: Any, *, color: np.ndarray | None = None, texels: np.ndarray | None = None, repeat: bool = True
) -> dict[str, Any]:
    """Mitsuba's description of a material's colour source: an image, one colour, or the mesh's vertex colours.

    Args:
        mitsuba: the module.
        color: [3] linear rgb.
        texels: [h, w, 3] linear rgb, row 0 at the top; has precedence over the colour.
        repeat: whether the image repeats.
    """
    if texels is not None:
        bitmap = mitsuba.Bitmap(np.ascontiguousarray(np.clip(texels, 0, 1), dtype=np.float32))
        wrap = "repeat" if repeat else "clamp"
        return {"type": "bitmap", "bitmap": bitmap, "raw": True, "wrap_mode": wrap, "filter_type": "bilinear"}
    if color is not None:
        return {"type": "rgb", "value": np.clip(color, 0, 1).tolist()}
    return {"type": "mesh_attribute", "name": "vertex_color"}


def diffuse(source: Mapping[str, Any], *, two_sided: bool = False) -> dict[str, Any]:
    """Mitsuba's description of an ideally diffuse material."""
    material = {"type": "diffuse", "reflectance": source}
    return {"type": "twosided", "material": material} if two_sided else material


def principled(source: Mapping[str, Any], numbers: Mapping[str, float], *, two_sided: bool = False) -> dict[str, Any]:
    """Mitsuba's description of a principled material (Burley, 2012).

    Args:
        source: of its base colour.
        numbers: roughness, and optionally metallic, specular, clearcoat; all in [0, 1].
        two_sided: whether the back has the same material.
    """
    names = ("roughness", "metallic", "specular", "clearcoat")
    material = {"type": "principled", "base_color": source, **{name: numbers[name] for name in names if name in numbers}}
    return {"type": "twosided", "material": material} if two_sided else material
