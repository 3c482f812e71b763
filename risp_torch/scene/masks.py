"""Soft masks of bodies: the fraction of each pixel in which a body is visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene import bridge
from risp_torch.scene.numbers import constant
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from risp_torch.scene.view.view import View
from ti_render import RasterSettings, RenderInputs
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, checked

# Softness of an edge [pixels] and samples per side of a pixel, by default: samples average the steep edges over the pixel.
EDGE, SAMPLES = 0.08, 4
CHANNELS = 3  # bodies per render: one in each colour channel


@checked
def render_masks(
    scene: Scene,
    states: States | torch.Tensor,
    parameters: Mapping[str, torch.Tensor] | None = None,
    *,
    bodies: Sequence[str] | None = None,
    union: bool = False,
    frames: Any = None,
    camera: str | None = None,
    edge: Positive = EDGE,
    samples: Count = SAMPLES,
) -> torch.Tensor:
    """Masks of bodies, differentiable in poses, particles and the camera's numbers.

    The soft rasteriser renders without lights, each body in a separate colour channel over a black background. The ground
    hides bodies below it. A pixel's masks of all bodies add up to its coverage. Where a body occludes another one, its
    edge is farther out by up to three times its softness (``RasterSettings.composite``).

    Args:
        scene, states, parameters: as in ``Scene.render``.
        bodies: names of bodies, all visible ones by default. The others occlude them.
        union: whether one mask shows all of them.
        frames: slice or list of frame numbers, all by default.
        camera: name of a camera, the first one by default.
        edge: softness of the edges [pixels], in place of the scene's ``softness.sigma``.
        samples: per side of a pixel; the mask is their mean.

    Returns:
        [B, T, H, W, N] in [0, 1] for N bodies; N = 1 for the union.

    Raises:
        UserError: an unknown or invisible body, or see ``Scene.render``.
    """
    view = scene.view
    names = visible_bodies(scene)
    mask_names = names if bodies is None else list(bodies)
    for name in mask_names:
        if name not in names:
            raise unknown_name_error("visible body", name, names)
    values = view.spec.table.values(parameters, worlds=len(view.poses(states)))
    settings = _settings(view, camera, edge, samples)
    groups = [[names.index(name) for name in mask_names]] if union else [[names.index(name)] for name in mask_names]

    def pictures(placement: torch.Tensor) -> torch.Tensor:
        inputs = view.render_inputs(values, placement, camera=camera, quantity="depth")  # depth needs no lights
        chunks = []
        for first in range(0, len(groups), CHANNELS):
            chunk = groups[first : first + CHANNELS]
            images = bridge.render(_mask_inputs(view, inputs, chunk), settings)
            images = view.film_of(images, *placement.shape[:2], camera=camera, quantity="color", alpha=False)
            chunks.append(images[..., : len(chunk)])
        return torch.cat(chunks, dim=-1)

    return view.filmed(states, pictures, frames)


def visible_bodies(scene: Scene) -> list[str]:
    """Names of the bodies that have a visible shape, in their order.

    Raises:
        UserError: there is none.
    """
    bodies = (*scene.bodies, *scene.deformables)
    names = [body.name for body in bodies if body.surface is not None]
    if not names:
        raise UserError("no body of the scene has a visible shape: masks need one (smoke has none: compare pixels or luminance)")
    return names


def _settings(view: View, camera: str | None, edge: float, samples: int) -> RasterSettings:
    """The settings of a mask: unlit, and blended by coverage."""
    settings = view.raster_settings(camera=camera)
    shorter_side = min(settings.width, settings.height)
    return replace(
        settings, shading="none", composite="alpha", aggregation="softras", shadows=None, sigma=(2 * edge / shorter_side) ** 2,
        ground=None if settings.ground is None else "plain", antialias=samples,
    )  # fmt: skip


def _mask_inputs(view: View, inputs: RenderInputs, groups: Sequence[Sequence[int]]) -> RenderInputs:
    """The inputs with the surfaces of group k in channel k, all else black, without lights and textures."""
    colors = [np.zeros((len(surface.mesh.faces), 3, CHANNELS)) for surface in view.arrays.surfaces]
    for channel, group in enumerate(groups):
        for surface in group:
            colors[surface][..., channel] = 1.0
    ground = inputs.ground
    if ground is not None:
        ground = constant([[0.0, 0.0, 0.0, float(view.arrays.ground.height), 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
    return replace(
        inputs, mesh=view.arrays.geometry_topology, albedo=constant(np.concatenate(colors)[None]),
        background=constant(np.zeros((1, 2, 3))), ambient=constant(np.zeros((1, 3))), ground=ground, softness=None,
        **dict.fromkeys(("directional", "point", "environment", "material", "uv", "texels", "background_image")),
    )  # fmt: skip
