"""Every kind of shape, and meshes made of their surfaces."""

from __future__ import annotations

import numpy as np

from tests.reference.folders import SCENE_ASSETS
from ti_sim import Box, Capsule, Cone, Cylinder, Mesh, Sphere

EVERY_SHAPE = [
    Box(0.1, 0.2, 0.3),
    Sphere(0.5),
    Sphere(0.5, subdivisions=0),
    Capsule(0.1, 0.3),
    Cylinder(0.2, 0.1),
    Cone(0.2, 0.5, sections=3),
    Mesh(SCENE_ASSETS / "pebble.obj"),
    Mesh(SCENE_ASSETS / "wedge.stl"),
]


def rotation(seed: int) -> np.ndarray:
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)  # an odd dimension: the sign of the whole is the sign of the determinant


def as_mesh(shape, **changes) -> Mesh:
    surface = shape.surface()
    return Mesh(vertices=changes.get("vertices", surface.vertices), faces=changes.get("faces", surface.faces))


def joined(*surfaces) -> dict:
    starts = np.cumsum([0] + [len(surface.vertices) for surface in surfaces])
    faces = [surface.faces + start for surface, start in zip(surfaces, starts[:-1], strict=True)]
    return {"vertices": np.concatenate([surface.vertices for surface in surfaces]), "faces": np.concatenate(faces)}


def box_arrays() -> tuple[np.ndarray, np.ndarray]:
    surface = Box(1, 1, 1).surface()
    return surface.vertices, surface.faces.copy()
