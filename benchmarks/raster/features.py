"""Cost of each feature of a picture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.raster.passes import make_passes
from benchmarks.raster.scenes import make_inputs, sphere
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from ti_render import RasterSettings, RenderInputs, ShadowSettings, mesh_topology
from ti_sim.base.runtime import require

BASELINE = "plain Phong"
TEXTURE_SIDE = 256

PictureCase = tuple[RenderInputs, RasterSettings]


def features_table(pixels: int, faces: int, *, repeats: int, quick: bool) -> Table:
    """Times of pictures with one feature each, and their ratios to the plain Phong picture.

    Args:
        pixels, faces: of the scene.
        repeats: timed calls of each pass.
        quick: only shadows, anti-aliasing and textures.
    """
    cases = _cases(pixels, faces)
    if quick:
        cases = {
            name: case for name, case in cases.items() if any(word in name for word in (BASELINE, "shadow", "anti", "texture"))
        }
    functions = {}
    for name, case in cases.items():
        functions |= {(name, kind): run for kind, run in make_passes(*case, columns=False).items()}
    best_seconds = best_times(functions, repeats=repeats)
    result = Table(
        f"Cost of features at {pixels} x {pixels} pixels, {faces:,} faces, SoftRas",
        ("picture", "forward, ms", "to plain", "backward, ms", "to plain"),
    )
    for name in cases:
        cells = []
        for kind in ("forward", "backward"):
            cells += [
                format_number(best_seconds[name, kind] * 1e3),
                format_ratio(best_seconds[name, kind] / best_seconds[BASELINE, kind]),
            ]
        result.add(name, *cells)
    result.remarks.append("Each row adds the named feature to the plain Phong picture, or replaces a part of it.")
    return result


def _cases(pixels: int, faces: int) -> dict[str, PictureCase]:
    mesh = sphere(faces)
    inputs, settings = make_inputs(mesh, pixels)
    shadows = ShadowSettings(center=(0.0, 0.0, 0.0), radius=1.5)
    ground = inputs.camera.new_tensor([[0.5, 0.5, 0.5, -1.0, 0.8, 0.8, 0.8, 0.5, 0.0, 0.0]])
    map_side = shadows.resolution
    on_ground = replace(inputs, ground=ground)
    cases: dict[str, PictureCase] = {
        BASELINE: (inputs, settings),
        f"shadows (a map of {map_side} x {map_side})": (inputs, _with_changes(settings, shadows=shadows)),
        "checker ground": (on_ground, _with_changes(settings, ground="checker")),
        "checker ground and shadows": (on_ground, _with_changes(settings, ground="checker", shadows=shadows)),
        "anti-aliasing 2 x 2": (inputs, _with_changes(settings, antialias=2)),
        f"texture of {TEXTURE_SIDE} x {TEXTURE_SIDE}": (_textured(inputs, mesh), settings),
        "4 directional lights": (replace(inputs, directional=_directional_lights(inputs, 4)), settings),
        "3 point lights as well": (replace(inputs, point=_point_lights(inputs)), settings),
        "environment light as well": (replace(inputs, environment=ground.new_full((1, 9, 3), 0.1)), settings),
        "lens distortion": (replace(inputs, distortion=ground.new_tensor([[-0.1, 0.02, 0.001, 0.001, 0.0]])), settings),
        "flat normals": (replace(inputs, mesh=_topology(mesh, inputs)), settings),
        "Lambert": (inputs, _with_changes(settings, shading="lambert")),
        "only colour": (inputs, _with_changes(settings, shading="none")),
        "depth": (inputs, _with_changes(settings, quantity="depth")),
        "normals": (inputs, _with_changes(settings, quantity="normal")),
    }
    return cases


def _with_changes(settings: RasterSettings, **changes: Any) -> RasterSettings:
    return replace(settings, **changes)


def _topology(mesh: tuple[np.ndarray, np.ndarray], inputs: RenderInputs, **options: Any) -> Any:
    vertices, faces = mesh
    return mesh_topology(faces, np.zeros(len(vertices), dtype=np.int64), like=inputs.body_q, **options)


def _textured(inputs: RenderInputs, mesh: tuple[np.ndarray, np.ndarray]) -> RenderInputs:
    """A random texture on all faces, mapped by longitude and latitude."""
    vertices, faces = mesh
    tensor_options = {"dtype": torch.float32, "device": require().device}
    u, v = 0.5 + np.arctan2(vertices[:, 1], vertices[:, 0]) / (2 * np.pi), 0.5 + np.arcsin(vertices[:, 2].clip(-1, 1)) / np.pi
    topology = _topology(
        mesh, inputs, corner_normal=faces, face_texture=np.zeros(len(faces), dtype=np.int64),
        textures=np.array([(0, TEXTURE_SIDE, TEXTURE_SIDE, 1)]),
    )  # fmt: skip
    texels = torch.rand(1, TEXTURE_SIDE**2, 3, generator=torch.Generator().manual_seed(0)).to(**tensor_options)
    return replace(inputs, mesh=topology, uv=torch.tensor(np.stack([u, v], -1)[faces][None], **tensor_options), texels=texels)


def _directional_lights(inputs: RenderInputs, count: int) -> torch.Tensor:
    """``count`` directional lights of neighbouring directions."""
    lights = inputs.directional.repeat(1, count, 1)
    lights[..., 1] += torch.linspace(0.0, 0.6, count, device=lights.device)
    return lights


def _point_lights(inputs: RenderInputs) -> torch.Tensor:
    """Three point lights around the camera."""
    positions = inputs.camera.new_tensor([(2.0, 1.5, 1.5), (2.0, -1.5, 1.5), (2.0, 0.0, -1.5)])
    return torch.cat([positions, torch.full_like(positions, 0.5)], dim=1)[None]
