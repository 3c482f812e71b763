"""The frozen plan of rendering: the renderer's arrays of a scene, its merged mesh, and the torch function that renders motions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch

from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import Values, shared_rows
from risp_torch.scene.parts.cameras import ALL, Camera, chosen_cameras
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.states import States, check_placement, split_placement
from risp_torch.scene.view.arrays import Field, PictureArrays
from risp_torch.scene.view.exposed import chosen_frames, exposed_pictures
from ti_render import RasterSettings, RenderInputs
from ti_sim.base.errors import UserError

Quantity = Literal["color", "depth", "normal"]
# Fields of a spec that determine the renderer's arrays.
RENDERED_PARTS = ("bodies", "deformables", "lights", "ground", "style", "smoke", "table")


@dataclass(frozen=True)
class PictureOptions:
    """Which pictures of a motion are rendered; see ``Scene.render``.

    Attributes:
        camera: name of the camera, the first one by default, or "all".
        quantity: "color", "depth" or "normal".
        alpha: whether to add a channel with the coverage.
        memory_limit: bytes.
    """

    camera: str | None = None
    quantity: Quantity = "color"
    alpha: bool = False
    memory_limit: float | None = None


@dataclass(frozen=True, eq=False)
class View:
    """Renderer of a scene of bodies, which are meshes.

    Attributes:
        spec: spec of the scene when the view was made.
        arrays: arrays of the renderer, except poses.
        has_projection: whether pictures depend on the pose and the lens of the camera.
    """

    spec: SceneSpec
    arrays: PictureArrays
    has_projection: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """The renderer of a scene; None if this class does not render it. The spec is kept."""
        bodies = enumerate((*spec.bodies, *spec.deformables))
        visible = {number: body.surface for number, body in bodies if body.surface is not None}
        return cls(spec, PictureArrays(
            spec.table, tuple(visible.values()), tuple(visible), spec.lights, spec.ground, phong=spec.style.shading == "phong"
        ))  # fmt: skip

    def with_spec(self, spec: SceneSpec) -> Self:
        """The renderer of a spec with the same meshes."""
        return replace(self, spec=spec)

    def render(
        self, states: States | torch.Tensor, parameters: Mapping[str, torch.Tensor] | None, frames: Any, options: PictureOptions
    ) -> torch.Tensor:
        """Render a motion (arguments, returns, raises: ``Scene.render``)."""
        values = self.spec.table.values(parameters, worlds=len(self.poses(states)))
        return self.filmed(states, partial(self.pictures, values, options), frames)

    def pictures(self, values: Values, options: PictureOptions, placement: torch.Tensor) -> torch.Tensor:
        """Pictures [B, T, (cameras,) H, W, C] of a placement [B, T, rows, columns], with values [B, ...] of the parameters."""
        camera, quantity = options.camera, options.quantity
        inputs = self.render_inputs(values, placement, camera=camera, quantity=quantity)
        settings = self.raster_settings(camera=camera, quantity=quantity)
        images = bridge.render(inputs, settings, memory_limit=options.memory_limit)
        return self.film_of(images, *placement.shape[:2], camera=camera, quantity=quantity, alpha=options.alpha)

    def filmed(
        self, states: States | torch.Tensor, pictures: Callable[[torch.Tensor], torch.Tensor], frames: Any = None
    ) -> torch.Tensor:
        """Images [B, T, ...] of a motion, averaged over its exposures; NaN for worlds that diverged.

        Args:
            states: from ``rollout``, or the placement.
            pictures: from a placement [B, T, rows, columns] to images [B, T, (cameras,) H, W, C], linear in the averaged
                quantity.
            frames: slice or list of frame numbers, all by default.
        """
        exposed = states.exposed if isinstance(states, States) else None
        if exposed is None:
            placement = self.poses(states)
            images = pictures(placement if frames is None else chosen_frames(placement, frames))
        else:
            images = exposed_pictures(pictures, exposed, frames)
        if isinstance(states, States) and not states.finite.all():  # diverged worlds have no images
            finite = states.finite.reshape(-1, *[1] * (images.ndim - 1))
            images = torch.where(finite, images, torch.full_like(images, torch.nan))
        return images

    def poses(self, states: States | torch.Tensor) -> torch.Tensor:
        """Placement at the frames of a motion: for rigid bodies and links the poses [B, T, N, 7].

        For deformable bodies the positions of their particles [B, T, P, 3]; for both [B, T, N + P, 7],
        the poses followed by the positions, each padded with four zeros. It is moved to the device of the kernels, as the values
        of parameters are.

        Args:
            states: from ``rollout``, or the placement itself.

        Raises:
            UserError: it has another shape.
        """
        placement = (states.placement if isinstance(states, States) else states).to(bridge_device())
        return check_placement(placement, bodies=len(self.spec.bodies), particles=self.spec.particle_count)

    def film_of(
        self, images: torch.Tensor, worlds: int, frames: int, *, camera: str | None, quantity: Quantity, alpha: bool
    ) -> torch.Tensor:
        """The renderer's images [M, (K,) H, W, 4] as a film [B, T, (cameras,) (K,) H, W, C] (arguments: ``render``)."""
        cameras = len(self._chosen_cameras(camera))
        images = images.unflatten(0, (worlds, cameras, frames)).transpose(1, 2)
        if camera != ALL:
            images = images.squeeze(2)
        if quantity == "depth":  # three equal channels and alpha
            return images[..., ::3] if alpha else images[..., :1]
        return images if alpha else images[..., :3]

    def raster_settings(self, *, camera: str | None = None, quantity: Quantity = "color") -> RasterSettings:
        """Settings of the rasteriser for a camera (arguments: ``render``)."""
        first_camera, ground, table = self._chosen_cameras(camera)[0], self.spec.ground, self.spec.table
        return RasterSettings(
            width=first_camera.width, height=first_camera.height, near=first_camera.near, far=first_camera.far,
            sigma=table["softness.sigma"].value, gamma=table["softness.gamma"].value, quantity=quantity,
            ground=None if ground is None else ground.pattern, ground_texture=self.arrays.ground_texture,
            shadows=self.spec.shadows, **vars(self.spec.style),
        )  # fmt: skip

    def render_inputs(
        self, values: Values, placement: torch.Tensor, *, camera: str | None = None, quantity: Quantity = "color"
    ) -> RenderInputs:
        """The renderer's arrays from parameter values [B, ...] and poses [B, T, N, 7]; differentiable.

        Args:
            values: from ``ParameterTable.values``.
            placement: poses, or with deformable bodies the placement from ``poses``.
            camera, quantity: as in ``render``. Images are ordered by world, camera, frame. After the poses of all bodies there is
                an identity pose for each deformable body, whose vertices are in the world frame.

        Raises:
            UserError: there is no camera, no body or no light.
        """
        bodies = (*self.spec.bodies, *self.spec.deformables)
        if not bodies:
            raise UserError("the scene has no bodies: add one with add_rigid")
        if all(body.surface is None for body in bodies):
            raise UserError("no body of the scene has a visible shape: give the robot file visual shapes, or add a body")
        if not self.spec.lights and self.spec.style.shading != "none" and quantity == "color":
            raise UserError("the scene has no light: add one with add_light")
        cameras, worlds = len(self._chosen_cameras(camera)), placement.shape[0]
        topology, vertices = self.arrays.meshes
        rows = shared_rows(values)
        arrays = {name: field.make(rows) for name, field in self.picture_fields(worlds, camera=camera).items()}
        camera_placement = placement[:, None].expand(-1, cameras, *placement.shape[1:])
        body_q, particle_q = split_placement(
            camera_placement.flatten(0, 2), bodies=len(self.spec.bodies), particles=self.spec.particle_count
        )
        if particle_q is not None:
            identity_pose = body_q.new_tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).expand(
                len(body_q), len(self.spec.deformables), 7
            )
            body_q = torch.cat([body_q, identity_pose], dim=1)
            vertices = self.arrays.deformed_vertices(vertices, particle_q)
        return RenderInputs(mesh=topology, vertices_rest=vertices, body_q=body_q, **arrays)

    def picture_fields(self, worlds: int = 1, *, camera: str | None = ALL) -> dict[str, Field]:
        """The renderer's arrays except meshes and poses, each with its parameters."""
        return self.arrays.fields(self.spec.cameras if camera == ALL else self._chosen_cameras(camera), worlds)

    @property
    def picture_parameters(self) -> list[str]:
        """Names of the numbers that affect the rendering of the scene but not its motion."""
        names = {name for field in self.picture_fields().values() for name in field.names} | set(self.shading_parameters)
        return [name for name in self.spec.table.params if name in names]

    @property
    def shading_parameters(self) -> list[str]:
        """Names of the numbers that affect pictures and are in none of the renderer's arrays."""
        return []

    def _chosen_cameras(self, camera: str | None) -> Sequence[Camera]:
        return chosen_cameras(self.spec.cameras, camera)
