"""How much of each pixel shows which colour of which body, for many placements at once."""

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
from risp_torch.scene.view.unlit import Edges, Unlit
from ti_sim.base.errors import UserError

EDGE = 0.5  # softness of an edge [samples]: coverage then changes evenly as an edge moves over samples
DEPTH = 1.0  # softness of the depth order [pixels at the bodies]


@dataclass(frozen=True, eq=False)
class Coverage:
    """Coverage of P pixels by the bodies in B placements.

    Attributes:
        columns: [B, N, P] part of a pixel that shows each of N colours.
        left: [B, P] part that shows no body.
    """

    columns: np.ndarray
    left: np.ndarray

    def at(self, pixels: np.ndarray) -> Coverage:
        """The same of some pixels."""
        return Coverage(self.columns[:, :, pixels], self.left[:, pixels])


class Outlines:
    """Coverage of placements in the pictures of one camera.

    Faces that are turned away are hidden, and have no part in the colours: near an edge the soft depth order would mix them in.
    """

    def __init__(self, scene: Scene, camera: str, *, samples: int) -> None:
        """Outlines of a scene's bodies.

        Args:
            scene: free rigid bodies; their surfaces are closed, as those of all shapes are.
            camera: its name.
            samples: along each side of a pixel.

        Raises:
            UserError: a body is no free rigid one, or has no visible shape.
        """
        check_bodies(scene)
        self.scene, self.camera, self.samples = scene, camera, samples
        at_rest = np.stack([np.concatenate([np.zeros(3), body.orientation]) for body in scene.bodies])
        unlit = self.unlit(at_rest[None])
        self.height, self.width = unlit.settings.height, unlit.settings.width
        self.palette = Palette.of(unlit.faces, unlit.rest, unlit.vertex_body, "vertex")

    def metres_per_pixel(self, placement: np.ndarray) -> float:
        """Size of a pixel at the nearest body of a placement [N, 7] [m]."""
        return _metres_per_pixel(self.unlit(placement[None]), placement)

    def unlit(self, placements: np.ndarray, *, edges: Edges | None = None) -> Unlit:
        """Unlit pictures of placements [B, N, 7]."""
        poses = torch.as_tensor(placements[:, None], dtype=bridge_dtype(), device=bridge_device())
        return Unlit.of(self.scene, poses, {}, None, edges=edges, camera=self.camera)

    def of(self, placements: np.ndarray) -> Coverage:
        """Coverage of placements [B, N, 7]."""
        unlit = self.unlit(placements)
        unlit = self._finer(unlit, DEPTH * _metres_per_pixel(unlit, placements[0]))
        entries, left = unlit.weights()
        left = np.clip(left.reshape(-1).double().cpu().numpy(), 0.0, 1.0)
        front = _facing(unlit)[entries.image, entries.face]
        image, sample, face, weight = (
            entry_values[front] for entry_values in (entries.image, entries.pixel, entries.face, entries.weight)
        )
        sample_index = image * (self.width * self.height * self.samples**2) + sample
        boundary_weight = np.bincount(sample_index, weight.sum(axis=1), minlength=len(left))
        visible_share = (1.0 - left) / np.maximum(boundary_weight, 1e-12) / self.samples**2
        row, column = np.divmod(sample, self.width * self.samples)
        pixel = row // self.samples * self.width + column // self.samples
        shape = (len(placements), self.palette.count, self.width * self.height)
        column_index = (image[:, None] * shape[1] + self.palette.corner[face]) * shape[2] + pixel[:, None]
        columns = np.bincount(
            column_index.ravel(), (weight * visible_share[sample_index, None]).ravel(), minlength=int(np.prod(shape))
        ).reshape(shape)
        return Coverage(columns, np.clip(1.0 - columns.sum(axis=1), 0.0, 1.0))

    def _finer(self, unlit: Unlit, depth: float) -> Unlit:
        """Pictures whose pixels are the samples, with this softness of the depth order [m]."""
        width, height = self.width * self.samples, self.height * self.samples
        sigma = Edges(samples=1, width=EDGE).sigma(min(width, height))
        gamma = depth / (unlit.settings.far - unlit.settings.near)
        softness = torch.empty_like(unlit.inputs.softness)
        softness[:, 0], softness[:, 1] = sigma, gamma
        camera = unlit.inputs.camera.clone()
        camera[:, :4] *= self.samples
        settings = replace(unlit.settings, width=width, height=height, antialias=1, sigma=sigma, gamma=gamma)
        return replace(unlit, settings=settings, inputs=replace(unlit.inputs, softness=softness, camera=camera))


def _facing(unlit: Unlit) -> np.ndarray:
    """[M, F] whether faces look at the camera."""
    row = unlit.inputs.camera[0].double().cpu().numpy()
    eye = torch.as_tensor(-row[4:13].reshape(3, 3).T @ row[13:]).to(unlit.inputs.body_q)
    corner = world_vertices(unlit)[:, torch.as_tensor(unlit.faces[:, 0].astype(np.int64))]
    return ((unlit.normals() * (eye - corner)).sum(dim=-1) > 0).cpu().numpy()


def _metres_per_pixel(unlit: Unlit, placement: np.ndarray) -> float:
    """Size of a pixel at the nearest body of a placement [N, 7] [m]."""
    row = unlit.inputs.camera[0].double().cpu().numpy()
    depth = placement[:, :3] @ row[4:13].reshape(3, 3)[2] + row[15]
    return float(np.abs(depth).min() / row[0])


def check_bodies(scene: Scene) -> None:
    """Raise a UserError where a scene has other things than free rigid bodies with a visible shape."""
    if scene.particle_count or not scene.bodies or any(isinstance(body, Link) for body in scene.bodies):
        raise UserError(f"{scene.name} has links or deformable bodies, or no body at all: poses are tracked of free rigid bodies")
    for body in scene.bodies:
        if body.surface is None:
            raise UserError(f"{body.name} has no visible shape to track")
