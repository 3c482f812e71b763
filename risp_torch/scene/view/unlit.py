"""Unlit pictures: a scene's bodies in given colours over black, without lights, textures, ground or background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.scene import bridge
from risp_torch.scene.rotations import matrix_vector, rotation_matrix
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from risp_torch.scene.view.exposed import weights_in_pixels
from ti_render import FragmentWeights, RasterSettings, RenderInputs, fragment_weights
from ti_render import render as render_arrays
from ti_sim.base.arrays import kernel_view

NO_TEXTURE, TEXTURE, VERTICES = -1, 4, slice(0, 3)  # columns of MeshTopology.corners


@dataclass(frozen=True)
class Edges:
    """Antialiasing of edges in a pixel.

    Attributes:
        samples: along each side of a pixel, which is their mean.
        width: softness of an edge in a sample [pixels].
    """

    samples: int
    width: float

    def sigma(self, side: int) -> float:
        """The softness as the rasteriser's ``sigma``, for pictures with this shorter side [pixels]."""
        return (2.0 * self.width / side) ** 2


@dataclass(frozen=True, eq=False)
class UnlitRenderInputs:
    """Render inputs of the unlit pictures of a motion, of one camera.

    Attributes:
        arrays: arrays of the renderer; the albedo is a dummy.
        settings: of the rasteriser.
        worlds, frames, moments: B, n and S: there are M = B n S pictures, ordered by world, frame and moment of the exposure.
        ground_height: height of the scene's ground [m], None without one.
        exposure_weights: [B, S, H or 1, W or 1] weights of the moments in the pixels of a frame; None for one moment.
    """

    arrays: RenderInputs
    settings: RasterSettings
    worlds: int
    frames: int
    moments: int
    ground_height: float | None
    exposure_weights: torch.Tensor | None

    @staticmethod
    def of(
        scene: Scene, states: States | torch.Tensor, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None,
        *, edges: Edges | None = None, camera: str | None = None,
    ) -> UnlitRenderInputs:  # fmt: skip
        """Render inputs of the unlit pictures of a motion.

        Args:
            scene: the scene.
            states: of B worlds, or their placement.
            values: parameter values [B, ...] that replace the scene's own.
            frames: n frame numbers; None for all.
            edges: in place of the scene's own.
            camera: its name, the first one by default.

        Raises:
            UserError: the motion was simulated for pictures of another size.
        """
        view, settings = scene.view, scene.view.raster_settings(camera=camera)
        exposed = states.exposed if isinstance(states, States) else None
        placement = view.poses(states)[:, :, None] if exposed is None else exposed.placement
        placement = placement if frames is None else placement[:, list(frames)]
        worlds, count, moments = placement.shape[:3]
        exposed_weights = None if exposed is None else weights_in_pixels(exposed, height=settings.height, width=settings.width)
        values = view.spec.table.values(values, worlds=worlds)
        scene_inputs = view.render_inputs(values, view.poses(placement.flatten(1, 2)), camera=camera)
        corners = np.array(
            scene_inputs.mesh.corners.cpu() if isinstance(scene_inputs.mesh.corners, torch.Tensor) else scene_inputs.mesh.corners
        )
        corners[:, TEXTURE] = NO_TEXTURE
        lit_corners = scene_inputs.mesh.corners
        untextured_corners = (
            torch.as_tensor(corners, device=lit_corners.device) if isinstance(lit_corners, torch.Tensor) else corners
        )
        black = scene_inputs.body_q.new_zeros(1, 2, 3)
        inputs = replace(
            scene_inputs, mesh=replace(scene_inputs.mesh, corners=untextured_corners, has_textures=False, texel_count=0),
            ambient=black[:, 0], background=black, directional=None, point=None, environment=None, material=None, uv=None,
            texels=None, background_image=None, ground=None, albedo=scene_inputs.body_q.new_zeros(1, len(corners), 3, 3),
        )  # fmt: skip
        settings = replace(settings, shading="none", ground=None, ground_texture=0, shadows=None, aggregation="softras")
        if edges is not None:
            sigma = edges.sigma(min(settings.width, settings.height))
            settings = replace(settings, antialias=edges.samples, sigma=sigma)
            gamma = scene_inputs.softness[:, 1:]
            inputs = replace(inputs, softness=torch.cat([torch.full_like(gamma, sigma), gamma], dim=1))
        return UnlitRenderInputs(inputs, settings, worlds, count, moments, view.spec.ground_height, exposed_weights)

    def of_worlds(self, worlds: Sequence[int]) -> UnlitRenderInputs:
        """The inputs of some of the worlds."""
        images_of_world = self.frames * self.moments
        images = np.concatenate([np.arange(world * images_of_world, (world + 1) * images_of_world) for world in worlds])

        def rows_of(array: torch.Tensor) -> torch.Tensor:
            count = array.shape[0]
            rows = np.asarray(worlds) if count == self.worlds else images * count // (self.worlds * images_of_world)
            return array if count == 1 else array[torch.as_tensor(rows, device=array.device)]

        tensors = {
            name: rows_of(array) for name, array in vars(self.arrays).items()
            if isinstance(array, torch.Tensor) and not (name == "vertices_rest" and array.ndim == 2)
        }  # fmt: skip
        exposure_weights = None if self.exposure_weights is None else rows_of(self.exposure_weights)
        return replace(self, arrays=replace(self.arrays, **tensors), worlds=len(worlds), exposure_weights=exposure_weights)

    @property
    def faces(self) -> np.ndarray:
        """[F, 3] vertices of the faces."""
        corners = self.arrays.mesh.corners
        return np.asarray(corners.cpu() if isinstance(corners, torch.Tensor) else corners)[:, VERTICES]

    @property
    def vertex_body(self) -> np.ndarray:
        """[V] body of every vertex."""
        body = self.arrays.mesh.vertex_body
        return np.asarray(body.cpu() if isinstance(body, torch.Tensor) else body)

    @property
    def rest(self) -> np.ndarray:
        """[V, 3] vertices in the frame of their body, of the first picture for deformable bodies [m]."""
        rest = self.arrays.vertices_rest
        return rest.detach().reshape(-1, *rest.shape[-2:])[0].cpu().numpy()

    def normals(self) -> torch.Tensor:
        """[M, F, 3] unit normals of the faces, world frame, differentiable; 0 for a face without area."""
        rest, body_q = self.arrays.vertices_rest, self.arrays.body_q
        faces = torch.as_tensor(self.faces.astype(np.int64), device=body_q.device)
        corner = rest.reshape(-1, *rest.shape[-2:])[:, faces]
        area_vector = torch.linalg.cross(corner[:, :, 1] - corner[:, :, 0], corner[:, :, 2] - corner[:, :, 0])
        normal = area_vector / area_vector.norm(dim=-1, keepdim=True).clamp_min(1e-30)
        body = torch.as_tensor(self.vertex_body.astype(np.int64), device=body_q.device)[faces[:, 0]]
        rotated = matrix_vector(rotation_matrix(body_q[..., 3:])[:, body], normal)
        return torch.where(body[:, None] >= 0, rotated, normal)

    def render(self, albedo: torch.Tensor) -> torch.Tensor:
        """Pictures [M, H, W, 4], rgb and alpha, in the colours ``albedo`` [M or 1, F, 3, 3] of the corners; differentiable."""
        return bridge.render(replace(self.arrays, albedo=albedo), self.settings)

    def film_of(self, images: torch.Tensor) -> torch.Tensor:
        """The film [B, n, H, W, C] of images [M, H, W, C]: their mean over the moments of a frame; differentiable."""
        images = images.unflatten(0, (self.worlds, self.frames, self.moments))
        if self.exposure_weights is None:
            return images[:, :, 0]
        return (self.exposure_weights.to(images)[:, None, ..., None] * images).sum(dim=2)

    def weights(self) -> tuple[FragmentWeights, torch.Tensor]:
        """Weights of the corner colours in the film, and the visible fraction of the backdrop in each picture; no gradient.

        Returns:
            Entries of the M pictures, times the weights of their moments, where these are not 0; and 1 - alpha [M, H, W].
        """
        tensors = {name: array for name, array in vars(self.arrays).items() if isinstance(array, torch.Tensor)}
        tensors = {name: kernel_view(array.detach().contiguous()) for name, array in tensors.items()}
        result = render_arrays(replace(self.arrays, **tensors), self.settings)
        return self._exposure_weighted(fragment_weights(result)), 1.0 - torch.as_tensor(result.images)[..., 3]

    def _exposure_weighted(self, entries: FragmentWeights) -> FragmentWeights:
        """The entries times the weights of their moments."""
        if self.exposure_weights is None:
            return entries
        weights = self.exposure_weights.detach().cpu().numpy()
        size = (self.settings.height, self.settings.width)
        weights = np.broadcast_to(weights, (*weights.shape[:2], *size)).reshape(*weights.shape[:2], -1)
        world, moment = entries.image // (self.frames * self.moments), entries.image % self.moments
        weight = weights[world, moment, entries.pixel]
        is_visible = weight > 0
        image, pixel, face = (entry[is_visible] for entry in (entries.image, entries.pixel, entries.face))
        return FragmentWeights(image, pixel, face, weight[is_visible, None] * entries.weight[is_visible])
