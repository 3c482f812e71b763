"""Coverage of each pixel by each colour of each body, for a batch of placements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.appearance.model.palette import Palette
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.parts.links import Link
from risp_torch.scene.scene import Scene
from risp_torch.scene.view.flattened import world_vertices
from risp_torch.scene.view.unlit import Edges, UnlitRenderInputs
from ti_sim.base.errors import UserError

EDGE_SOFTNESS = 0.5  # samples: coverage then changes smoothly as an edge moves over samples
DEPTH_SOFTNESS = 1.0  # softness of the depth order, in sizes of a pixel at the bodies


@dataclass(frozen=True, eq=False)
class Coverage:
    """Coverage of P pixels by the bodies in B placements.

    Attributes:
        by_color: [B, N, P] fraction of a pixel that shows each of N colours.
        uncovered: [B, P] fraction that shows no body.
    """

    by_color: np.ndarray
    uncovered: np.ndarray

    def select(self, pixels: np.ndarray) -> Coverage:
        """The coverage of some pixels, by their indices."""
        return Coverage(self.by_color[:, :, pixels], self.uncovered[:, pixels])


class CoverageRenderer:
    """Renders the coverage of placements in the pictures of one camera.

    Back faces are culled: near an edge, the soft depth order would mix in their colours.
    """

    def __init__(self, scene: Scene, camera: str, *, samples: int) -> None:
        """Prepare the colours of a scene's bodies.

        Args:
            scene: free rigid bodies with closed surfaces.
            camera: name of the camera.
            samples: samples along each side of a pixel.

        Raises:
            UserError: a body is not a free rigid body, or has no visible shape.
        """
        check_bodies(scene)
        self.scene, self.camera, self.samples = scene, camera, samples
        initial_placement = np.stack([np.concatenate([np.zeros(3), body.orientation]) for body in scene.bodies])
        unlit_inputs = self.unlit_inputs(initial_placement[None])
        self.height, self.width = unlit_inputs.settings.height, unlit_inputs.settings.width
        self.palette = Palette.of(unlit_inputs.faces, unlit_inputs.rest, unlit_inputs.vertex_body, "vertex")

    def metres_per_pixel(self, placement: np.ndarray) -> float:
        """Size of a pixel at the nearest body of a placement [N, 7] [m]."""
        return _metres_per_pixel(self.unlit_inputs(placement[None]), placement)

    def unlit_inputs(self, placements: np.ndarray, *, edges: Edges | None = None) -> UnlitRenderInputs:
        """Inputs of pictures without lights, of placements [B, N, 7]."""
        poses = torch.as_tensor(placements[:, None], dtype=bridge_dtype(), device=bridge_device())
        return UnlitRenderInputs.of(self.scene, poses, {}, None, edges=edges, camera=self.camera)

    def of(self, placements: np.ndarray) -> Coverage:
        """Coverage of placements [B, N, 7]."""
        unlit_inputs = self.unlit_inputs(placements)
        unlit_inputs = self._supersampled(unlit_inputs, DEPTH_SOFTNESS * _metres_per_pixel(unlit_inputs, placements[0]))
        entries, uncovered = unlit_inputs.weights()
        uncovered = np.clip(uncovered.reshape(-1).double().cpu().numpy(), 0.0, 1.0)
        is_front = _is_front_facing(unlit_inputs)[entries.image, entries.face]
        image_index, sample_index, face_index, weight = (
            entry_values[is_front] for entry_values in (entries.image, entries.pixel, entries.face, entries.weight)
        )
        flat_sample = image_index * (self.width * self.height * self.samples**2) + sample_index
        front_weight = np.bincount(flat_sample, weight.sum(axis=1), minlength=len(uncovered))
        coverage_per_weight = (1.0 - uncovered) / np.maximum(front_weight, 1e-12) / self.samples**2
        sample_row, sample_column = np.divmod(sample_index, self.width * self.samples)
        pixel_index = sample_row // self.samples * self.width + sample_column // self.samples
        shape = (len(placements), self.palette.count, self.width * self.height)
        flat_entry = (image_index[:, None] * shape[1] + self.palette.corner[face_index]) * shape[2] + pixel_index[:, None]
        by_color = np.bincount(
            flat_entry.ravel(), (weight * coverage_per_weight[flat_sample, None]).ravel(), minlength=int(np.prod(shape))
        ).reshape(shape)
        return Coverage(by_color, np.clip(1.0 - by_color.sum(axis=1), 0.0, 1.0))

    def _supersampled(self, unlit_inputs: UnlitRenderInputs, depth_softness: float) -> UnlitRenderInputs:
        """Inputs of pictures with a pixel for each sample, and a softness of the depth order [m]."""
        width, height = self.width * self.samples, self.height * self.samples
        sigma = Edges(samples=1, width=EDGE_SOFTNESS).sigma(min(width, height))
        gamma = depth_softness / (unlit_inputs.settings.far - unlit_inputs.settings.near)
        softness = torch.empty_like(unlit_inputs.arrays.softness)
        softness[:, 0], softness[:, 1] = sigma, gamma
        camera = unlit_inputs.arrays.camera.clone()
        camera[:, :4] *= self.samples
        settings = replace(unlit_inputs.settings, width=width, height=height, antialias=1, sigma=sigma, gamma=gamma)
        return replace(unlit_inputs, settings=settings, arrays=replace(unlit_inputs.arrays, softness=softness, camera=camera))


def _is_front_facing(unlit_inputs: UnlitRenderInputs) -> np.ndarray:
    """[M, F] whether a face's normal points to the camera."""
    camera = unlit_inputs.arrays.camera[0].double().cpu().numpy()
    camera_position = torch.as_tensor(-camera[4:13].reshape(3, 3).T @ camera[13:]).to(unlit_inputs.arrays.body_q)
    first_corner = world_vertices(unlit_inputs)[:, torch.as_tensor(unlit_inputs.faces[:, 0].astype(np.int64))]
    return ((unlit_inputs.normals() * (camera_position - first_corner)).sum(dim=-1) > 0).cpu().numpy()


def _metres_per_pixel(unlit_inputs: UnlitRenderInputs, placement: np.ndarray) -> float:
    """Size of a pixel at the nearest body of a placement [N, 7] [m]."""
    camera = unlit_inputs.arrays.camera[0].double().cpu().numpy()
    depth = placement[:, :3] @ camera[4:13].reshape(3, 3)[2] + camera[15]
    return float(np.abs(depth).min() / camera[0])


def check_bodies(scene: Scene) -> None:
    """Raise a UserError unless all bodies of a scene are free rigid bodies with a visible shape."""
    if scene.particle_count or not scene.bodies or any(isinstance(body, Link) for body in scene.bodies):
        raise UserError(f"{scene.name} has links or deformable bodies, or no body at all: poses are tracked of free rigid bodies")
    for body in scene.bodies:
        if body.surface is None:
            raise UserError(f"{body.name} has no visible shape to track")
