"""Renderer: cameras, meshes, lights, soft rasterisers and their derivatives. Imports neither torch nor the physics."""

from ti_render.camera import intrinsics_from_fov, look_at, pack_camera
from ti_render.inputs import REAL_INPUTS, RenderInputs, present_inputs
from ti_render.raster.fragment_weights import FragmentWeights, fragment_weights
from ti_render.render import RenderResult, render
from ti_render.render_adjoint import render_adjoint
from ti_render.render_jvp import render_jvp
from ti_render.settings import RasterSettings, ShadowSettings
from ti_render.tape import render_tape
from ti_render.topology import MeshTopology, mesh_topology

__all__ = [
    "REAL_INPUTS",
    "FragmentWeights",
    "MeshTopology",
    "RasterSettings",
    "RenderInputs",
    "RenderResult",
    "ShadowSettings",
    "fragment_weights",
    "present_inputs",
    "intrinsics_from_fov",
    "look_at",
    "mesh_topology",
    "pack_camera",
    "render",
    "render_adjoint",
    "render_jvp",
    "render_tape",
]
