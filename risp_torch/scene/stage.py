"""What is seen of a scene: its bodies' surfaces, cameras, lights and background, and the torch function that films them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch

from risp_torch.scene import bridge
from risp_torch.scene.backdrop import Backdrop
from risp_torch.scene.body import Body
from risp_torch.scene.cameras import ALL, Cameras
from risp_torch.scene.deformable import Deformable
from risp_torch.scene.items import Camera, Direction, Light, Picture, Vector
from risp_torch.scene.lights import Lights
from risp_torch.scene.numbers import Values, plain, shared_rows
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.states import States, check_placement, split_placement
from risp_torch.scene.view import Field, View
from ti_render import MeshTopology, RasterSettings, RenderInputs, ShadowSettings
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, NotNegative, Positive, Rule, checked

Quantity = Literal["color", "depth", "normal"]


class Stage:
    """Bodies as they are seen, cameras and lights; how to film them."""

    def __init__(
        self, table: ParameterTable, style: Mapping[str, Any], *, sigma: float | Param, gamma: float | Param
    ) -> None:
        """A stage with nothing on it.

        Args:
            table: of the scene's numbers.
            style: shading, aggregation, composite, antialias and two_sided of ``RasterSettings``.
            sigma, gamma: softness of pictures (``Scene``).

        Raises:
            UserError: a softness is not positive, or a choice is unknown.
        """
        self.style = dict(style)
        RasterSettings(width=1, height=1, **self.style)  # refuses unknown choices here, where they were made
        self.table = table
        self.table.add("softness.sigma", sigma, unit="", sign="positive")
        self.table.add("softness.gamma", gamma, unit="", sign="positive")
        self.bodies: list[Body] = []
        self.deformables: list[Deformable] = []
        self.lights = Lights(self.table)
        self.backdrop = Backdrop(self.table)
        self.shadows: ShadowSettings | None = None
        self._cameras = Cameras(self.table)
        self._geometry: tuple[MeshTopology, torch.Tensor] | None = None

    @property
    def part_names(self) -> list[str]:
        """Names of all bodies and, after them, of the deformable ones: each is a part of the picture."""
        return [part.name for part in (*self.bodies, *self.deformables)]

    @property
    def particle_count(self) -> int:
        """P, the particles of all deformable bodies."""
        return sum(part.count for part in self.deformables)

    @checked
    def add_camera(self, camera: Camera) -> None:
        """A camera that films the scene. The first one is used where none is named.

        Raises:
            UserError: the name is taken or makes no parameter name; only one camera may have none.
        """
        self._cameras.add(camera)

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """All cameras, in the order in which they were added."""
        return tuple(self._cameras.cameras)

    @property
    def camera(self) -> Camera | None:
        """The first camera, None where there is none."""
        return self.cameras[0] if self.cameras else None

    @checked
    def use_cameras(self, cameras: Sequence[Camera]) -> None:
        """Film with these cameras in place of all that the scene has.

        Raises:
            UserError: there is none, or a name is taken twice or makes no parameter name.
        """
        self._cameras.replace(cameras)

    @checked
    def film_with(self, name: str) -> None:
        """Make the camera of this name the first one, which films where none is named.

        Raises:
            UserError: no camera has that name.
        """
        self._cameras.put_first(name)

    @checked
    def resize_camera(self, width: Count, height: Count) -> None:
        """Film with another size of picture, the same view (all cameras).

        Raises:
            UserError: there is no camera, or a side is less than a pixel.
        """
        self._cameras.chosen(None)
        self._cameras.resize(width, height)

    @checked
    def add_light(self, light: Light) -> None:
        """A light: any number of each kind. Ambient and environment lights add up.

        Raises:
            UserError: the name is taken, or a number makes no sense.
        """
        self.lights.add(light)

    @checked
    def set_background(
        self,
        color: Vector | None = None,
        *,
        top: Vector | None = None,
        bottom: Vector | None = None,
        image: Picture | None = None,
    ) -> None:
        """What is behind everything: a colour, a vertical gradient or a picture.

        Args:
            color: linear rgb, or
            top, bottom: linear rgb at the picture's upper and lower edge, or
            image: a picture file, or linear rgb [h, w, 3], row 0 at the top, stretched over the picture.

        Raises:
            UserError: not exactly one of the three, or a picture that cannot be read.
        """
        self.backdrop.set_background(color, top, bottom, image)

    @checked
    def set_shadows(
        self,
        *,
        center: Direction,
        radius: Positive,
        resolution: Annotated[int, Rule(whole=True, least=2, most=2**15)] = 128,
        sigma: Positive = 2e-4,
        bias: NotNegative = 0.04,
        width: Positive = 0.01,
    ) -> None:
        """Let directional lights cast shadows, of bodies on bodies and on the ground. (``scene.shadows = None`` takes them away.)

        Args:
            center, radius: of a ball in which all bodies lie through the whole film [m].
            resolution, sigma, bias, width: see ``ti_render.ShadowSettings``.

        Raises:
            UserError: a number is out of its range.
        """
        self.shadows = ShadowSettings(
            center=tuple(float(x) for x in center), radius=radius, resolution=resolution, sigma=sigma, bias=bias, width=width
        )

    @property
    def sigma(self) -> float:
        """Softness of edges in pictures, squared NDC of the shorter side."""
        return self.table["softness.sigma"].value

    @sigma.setter
    def sigma(self, value: float) -> None:
        self.table.set("softness.sigma", value)

    @property
    def gamma(self) -> float:
        """Softness of depth order in pictures."""
        return self.table["softness.gamma"].value

    @gamma.setter
    def gamma(self, value: float) -> None:
        self.table.set("softness.gamma", value)

    @checked
    def render(
        self,
        states: States | torch.Tensor,
        parameters: Mapping[str, torch.Tensor] | None = None,
        *,
        frames: Any = None,
        camera: str | None = None,
        quantity: Quantity = "color",
        alpha: bool = False,
        memory_limit: Positive | None = None,
    ) -> torch.Tensor:
        """Film a motion.

        Args:
            states: from ``rollout``, or poses [B, T, N, 7] (m, unit quaternions); in a scene with deformable bodies their
                placement (``poses``).
            parameters: values that replace the scene's own; gradients flow through them and through the states.
            frames: slice or list of frame numbers, all by default.
            camera: name of the camera, the first one by default; "all" for all cameras (of one size) in one call.
            quantity: "color"; "depth", camera depth [m], one channel; or "normal", world normals. Of all three what the softness
                of the edges mixes is a mixture.
            alpha: whether one more channel holds the objects' coverage.
            memory_limit: bytes of working memory for rendering (estimate: ``bridge.render``): long films are rendered in parts,
                and for the gradient rendered again part by part. The states and the pictures themselves come on top.

        Returns:
            [B, T, H, W, C], for "all" [B, T, cameras, H, W, C], linear rgb in [0, 1] (C = 3, with alpha 4; of depth 1 and 2); NaN
            for worlds that diverged.

        Raises:
            UserError: the scene has no camera or no light, names and shapes do not fit, or one picture needs more memory.
        """
        placement = self.poses(states)
        placement = placement if frames is None else _chosen_frames(placement, frames)
        batch, count = placement.shape[:2]
        inputs = self.render_inputs(self.table.values(parameters, worlds=batch), placement, camera=camera, quantity=quantity)
        images = bridge.render(inputs, self.raster_settings(camera=camera, quantity=quantity), memory_limit=memory_limit)
        images = self.film_of(images, batch, count, camera=camera, quantity=quantity, alpha=alpha)
        if isinstance(states, States) and not states.finite.all():  # a motion that does not exist has no pictures
            finite = states.finite.reshape(-1, *[1] * (images.ndim - 1))
            images = torch.where(finite, images, torch.full_like(images, torch.nan))
        return images

    def poses(self, states: States | torch.Tensor) -> torch.Tensor:
        """Where everything is at the frames of a motion: in a scene of rigid bodies and links the poses [B, T, N, 7].

        In a scene of deformable bodies these are the positions of their particles [B, T, P, 3]; in one of both [B, T, N + P, 7],
        the poses and below them the positions, each with four zeros.

        Args:
            states: from ``rollout``, or the placement itself.

        Raises:
            UserError: it has another shape.
        """
        placement = states.placement if isinstance(states, States) else states
        return check_placement(placement, bodies=len(self.bodies), particles=self.particle_count)

    def film_of(
        self, images: torch.Tensor, worlds: int, frames: int, *, camera: str | None, quantity: Quantity, alpha: bool
    ) -> torch.Tensor:
        """The renderer's images [M, (K,) H, W, 4] as a film [B, T, (cameras,) (K,) H, W, C] (arguments: ``render``)."""
        cameras = len(self._cameras.chosen(camera))
        images = images.unflatten(0, (worlds, cameras, frames)).transpose(1, 2)
        if camera != ALL:
            images = images.squeeze(2)
        if quantity == "depth":  # three equal channels and alpha
            return images[..., ::3] if alpha else images[..., :1]
        return images if alpha else images[..., :3]

    def raster_settings(self, *, camera: str | None = None, quantity: Quantity = "color") -> RasterSettings:
        """Settings of the rasteriser for a camera (arguments: ``render``)."""
        chosen, ground = self._cameras.chosen(camera)[0], self.backdrop.ground
        return RasterSettings(
            width=chosen.width, height=chosen.height, near=chosen.near, far=chosen.far, sigma=self.sigma, gamma=self.gamma,
            quantity=quantity, ground=None if ground is None else ground.pattern, ground_texture=self._view().ground_texture,
            shadows=self.shadows, **self.style,
        )  # fmt: skip

    def render_inputs(
        self, values: Values, placement: torch.Tensor, *, camera: str | None = None, quantity: Quantity = "color"
    ) -> RenderInputs:
        """The renderer's arrays from parameter values [B, ...] and poses [B, T, N, 7]; differentiable.

        Args:
            values: from ``ParameterTable.values``.
            placement: poses, with deformable bodies what ``poses`` returns.
            camera, quantity: as in ``render``. Images are ordered by world, camera, frame. After the poses of all bodies there is
                one at rest for each deformable body, whose vertices move by themselves.

        Raises:
            UserError: there is no camera, no body or no light.
        """
        parts = (*self.bodies, *self.deformables)
        if not parts:
            raise UserError("the scene has no bodies: add one with add_rigid")
        if all(part.look is None for part in parts):
            raise UserError("no body of the scene has a shape that is seen: give the robot file visual shapes, or add a body")
        if not self.lights and self.style["shading"] != "none" and quantity == "color":
            raise UserError("the scene has no light: add one with add_light")
        cameras, worlds = len(self._cameras.chosen(camera)), placement.shape[0]
        topology, vertices = self._meshes()
        rows = shared_rows(values)
        arrays = {name: field.make(rows) for name, field in self.picture_fields(worlds, camera=camera).items()}
        repeated = placement[:, None].expand(-1, cameras, *placement.shape[1:])
        body_q, particle_q = split_placement(
            repeated.flatten(0, 2), bodies=len(self.bodies), particles=self.particle_count
        )
        if particle_q is not None:
            at_rest = body_q.new_tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).expand(len(body_q), len(self.deformables), 7)
            body_q = torch.cat([body_q, at_rest], dim=1)
            vertices = self._view().moved(vertices, particle_q)
        return RenderInputs(mesh=topology, vertices_rest=vertices, body_q=body_q, **arrays)

    def picture_fields(self, worlds: int = 1, *, camera: str | None = ALL) -> dict[str, Field]:
        """The renderer's arrays besides meshes and poses, each with the parameters that it holds."""
        return self._view().fields(self.cameras if camera == ALL else self._cameras.chosen(camera), worlds)

    @property
    def picture_parameters(self) -> list[str]:
        """Names of the numbers that decide how the scene looks, and not how it moves."""
        names = {name for field in self.picture_fields().values() for name in field.names}
        return [name for name in self.table.params if name in names]

    def _view(self) -> View:
        parts = (*self.bodies, *self.deformables)
        seen = {number: part.look for number, part in enumerate(parts) if part.look is not None}
        return View(
            tuple(seen.values()), tuple(seen), self.lights, self.backdrop, phong=self.style["shading"] == "phong"
        )

    def _meshes(self) -> tuple[MeshTopology, torch.Tensor]:
        """All bodies' meshes as one and their vertices [V, 3], made once."""
        if self._geometry is None or self._geometry[1].dtype != bridge.bridge_dtype():
            view = self._view()
            topology = view.topology()
            # Kept for later calls, so that a first one within a transform of torch.func must not leave its wrappers in it.
            arrays = {name: plain(array) for name, array in vars(topology).items() if isinstance(array, torch.Tensor)}
            self._geometry = replace(topology, **arrays), view.vertices()
        return self._geometry


def _chosen_frames(placement: torch.Tensor, frames: Any) -> torch.Tensor:
    """Placement [B, T, ...] at a slice or list of frame numbers (UserError: it names none that is there)."""
    try:
        return placement[:, frames]
    except (IndexError, TypeError) as error:
        count = placement.shape[1]
        raise UserError(f"render: frames is {frames!r}: give a slice or list of frame numbers from 0 to {count - 1}") from error
