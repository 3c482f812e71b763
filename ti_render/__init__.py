"""What is seen: cameras, meshes, lights, soft rasterisers and their derivatives. Imports neither torch nor the physics."""

from ti_render.camera import intrinsics_from_fov, look_at, pack_camera
from ti_render.render import RenderInputs, RenderResult, check_topology, render, render_adjoint
from ti_render.settings import RasterSettings
from ti_render.tape import render_tape

__all__ = [
    "RasterSettings",
    "RenderInputs",
    "RenderResult",
    "check_topology",
    "intrinsics_from_fov",
    "look_at",
    "pack_camera",
    "render",
    "render_adjoint",
    "render_tape",
]
