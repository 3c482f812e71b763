"""Small inputs of the path tracer's tests: a quad, two boxes above a ground, films that match the rasteriser's."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import trimesh

from ti_render import RasterSettings, RenderInputs, look_at, mesh_topology, pack_camera
from ti_render.photoreal import MitsubaRenderer, MitsubaSettings


@functools.cache
def _why_not_mitsuba() -> str:
    """Reason that Mitsuba cannot be imported, empty if it can, by a subprocess: Mitsuba keeps the first LLVM that it finds."""
    if importlib.util.find_spec("mitsuba") is None:
        return "the extra 'photoreal' is not installed"
    trial = subprocess.run([sys.executable, "-c", "import mitsuba"], capture_output=True, text=True)
    missing = re.search(r"ImportError: (.*)", trial.stderr)
    if trial.returncode != 0 and missing is None:
        raise RuntimeError(trial.stderr)
    return f"Mitsuba needs a library of the system: {missing[1]}" if missing else ""


needs_mitsuba = pytest.mark.skipif(bool(_why_not_mitsuba()), reason=_why_not_mitsuba())

QUAD = np.array([(-1, 0, -1), (1, 0, -1), (1, 0, 1), (-1, 0, 1)], dtype=float)  # looks along -y
QUAD_FACES = np.array([(0, 1, 2), (0, 2, 3)])
STILL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def made(**arrays: object) -> RenderInputs:
    """Inputs in f32 from arrays, one picture, no light but what is given."""
    filled = {"ambient": np.zeros((1, 3)), "background": np.zeros((1, 2, 3)), "body_q": np.array([[STILL]])} | arrays
    mesh = filled.pop("mesh")
    return RenderInputs(mesh=mesh, **{name: np.asarray(value, dtype=np.float32) for name, value in filled.items()})


def topology(faces: np.ndarray, bodies: Sequence[int], **options: object) -> object:
    return mesh_topology(faces.astype(np.int32), np.asarray(bodies, dtype=np.int32), like=np.zeros(1, np.float32), **options)


def camera_row(
    eye: Sequence[float], target: Sequence[float], intrinsics: Sequence[float], up: Sequence[float] = (0, 0, 1)
) -> np.ndarray:
    return pack_camera(intrinsics, *look_at(eye, target, up))


def front_camera(size: int) -> np.ndarray:
    """A camera 5 m in front of the quad, which fills 80 % of its picture."""
    return camera_row((0, -5, 0), (0, 0, 0), (0.4 * 5 * size, 0.4 * 5 * size, size / 2, size / 2))


def matched(inputs: RenderInputs, settings: RasterSettings, **options: object) -> MitsubaRenderer:
    return MitsubaRenderer(inputs, settings, options=MitsubaSettings(look="match", variant="scalar_rgb", **options))


def two_boxes() -> RenderInputs:
    """A box in front of another one, both above a ground, and a fixed one at the side."""
    box = trimesh.creation.box((0.4, 0.4, 0.4))
    faces, count = np.asarray(box.faces), len(box.vertices)
    return made(
        mesh=topology(np.concatenate([faces, faces + count, faces + 2 * count]), np.repeat([0, 1, -1], count)),
        vertices_rest=np.concatenate([box.vertices, box.vertices, 0.4 * box.vertices + (0.7, 0, 0.4)]),
        body_q=[[(0, 0, 0.3, 0, 0, 0, 1), (-0.1, 0.6, 0.45, 0, 0, 0.2, 0.98)]],
        camera=[camera_row((0, -3, 0.8), (0, 0, 0.3), (50, 50, 20, 16))], albedo=np.full((1, 36, 3, 3), 0.6),
        ambient=[[0.4, 0.4, 0.4]], ground=[(0.5, 0.5, 0.5, 0, 0, 0, 0, 1, 0, 0)],
    )  # fmt: skip
