"""The scene: a list of things to write down, and two torch functions, ``rollout`` and ``render``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from risp_torch import bridge
from risp_torch.scene.body import Body, Values, add_contact, make_body, rotation_matrix, rotation_quaternion
from risp_torch.scene.items import AmbientLight, Camera, Contact, DirectionalLight, Surface, Vector
from risp_torch.scene.parameters import ParameterTable
from risp_torch.suggest import unknown_name_error
from ti_render import RasterSettings, RenderInputs
from ti_sim.adjoint import Adjoint
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.rigid.model import Integrator, Plan, RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.shapes import Shape, check_inertia


@dataclass(frozen=True)
class States:
    """Motion of a batch of worlds at the frames.

    Attributes:
        body_q: [B, T, N, 7] positions of the centres of mass [m] and quaternions (x, y, z, w); frame 0 is the start.
        body_qd: [B, T, N, 6] velocities [m/s] and angular velocities [rad/s], world frame.
        diverged_step: [B, N] int32, first physics step with a number that is not finite, -1 where there is none.
    """

    body_q: torch.Tensor
    body_qd: torch.Tensor
    diverged_step: torch.Tensor

    @property
    def finite(self) -> torch.Tensor:
        """[B] bool: worlds in which no body diverged."""
        return (self.diverged_step < 0).all(dim=1)


@dataclass(frozen=True)
class AppliedForce:
    """A force at a point of a body over some steps; ``scale`` turns the parameter (N or N s) into a force."""

    name: str
    body: int
    first_step: int
    last_step: int
    kind: str
    scale: float


class Scene:
    """Bodies, contact, forces, camera and lights; which numbers they have; how to simulate and render them."""

    def __init__(
        self,
        *,
        frame_dt: float,
        frames: int,
        substeps: int,
        gravity: Vector = (0.0, 0.0, -9.81),
        integrator: Integrator = "semi_implicit",
        plan: Plan = "auto",
        sigma: float = 1e-4,
        gamma: float = 1e-3,
        name: str = "",
    ) -> None:
        """An empty scene.

        Args:
            frame_dt: time between two frames [s].
            frames: frame intervals; a film of the scene has one picture more, the start.
            substeps: physics steps in a frame.
            gravity: [3] m/s2.
            integrator: "semi_implicit" or "rk4".
            plan: execution plan of the solver (``RigidSettings``).
            sigma: softness of edges in pictures, squared NDC of the shorter side.
            gamma: softness of depth order in pictures.
            name: what reports call the scene.

        Raises:
            UserError: a time or count is not positive.
        """
        if not frame_dt > 0 or frames < 1 or substeps < 1:
            raise UserError(f"frame_dt={frame_dt} s, frames={frames}, substeps={substeps}: all three must be positive")
        if not sigma > 0 or not gamma > 0:
            raise UserError(f"sigma={sigma}, gamma={gamma}: both must be positive")
        self.name = name
        self.frame_dt = frame_dt
        self.frames = frames
        self.settings = RigidSettings(dt=frame_dt / substeps, substeps=substeps, integrator=integrator, plan=plan)
        self.sigma, self.gamma = sigma, gamma
        self.table = ParameterTable({})
        self.table.add("gravity", gravity, unit="m/s2", shape=(3,))
        self.table.add("background.color", (0.9, 0.9, 0.92), unit="", shape=(3,))
        self.bodies: list[Body] = []
        self.forces: list[AppliedForce] = []
        self.camera: Camera | None = None
        self.ground_height: float | None = None
        self._ambient: list[str] = []
        self._directional: list[str] = []
        self._solver: RigidSolver | None = None
        self._mesh: dict[str, torch.Tensor] | None = None

    # -- writing a scene ------------------------------------------------------------------------------------------------

    def add_ground(self, *, contact: Contact, color: Vector = (0.45, 0.45, 0.45), height: float = 0.0) -> None:
        """The ground plane z = height [m], with its contact material and colour (linear rgb). Before the bodies."""
        if self.bodies:
            raise UserError("the ground comes before the bodies: call add_ground first")
        add_contact(self.table, "ground.contact", contact)
        self.table.add("ground.color", color, unit="", shape=(3,), sign="color")
        self.ground_height = float(height)

    def add_rigid(
        self,
        name: str,
        *,
        shape: Shape,
        density: float | Param | None = None,
        mass: float | Param | None = None,
        inertia: Any = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
        rotation: Vector = (0.0, 0.0, 0.0),
        velocity: Vector = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        contact: Contact | None = None,
        surface: Surface | None = None,
    ) -> None:
        """A rigid body.

        Args:
            name: first part of its parameter names.
            shape: geometry; its mass properties follow from it.
            density: kg/m3, or
            mass: kg (the inertia then follows from the shape, unless ``inertia`` is given).
            inertia: [3, 3] kg m2 about the centre of mass, body frame.
            position: of the centre of mass [m].
            orientation: quaternion (x, y, z, w) at the start.
            rotation: rotation vector [rad], world frame, applied after ``orientation``; the unknown part of the orientation.
            velocity: m/s.
            angular_velocity: rad/s, world frame.
            contact: material against the ground, the ground's own by default.
            surface: colours.

        Raises:
            UserError: a number or mesh is not usable; the message says which.
        """
        body = make_body(
            self.table, name, shape=shape, density=density, mass=mass, inertia=inertia, position=position,
            orientation=orientation, rotation=rotation, velocity=velocity, angular_velocity=angular_velocity,
            contact=contact, surface=surface, ground=self.ground_height is not None,
        )  # fmt: skip
        self.bodies.append(body)
        self._solver = self._mesh = None

    def add_force(
        self,
        name: str,
        *,
        body: str,
        start: float,
        duration: float,
        force: Vector | None = None,
        impulse: Vector | None = None,
        point: Vector = (0.0, 0.0, 0.0),
    ) -> None:
        """A constant force on a body over a time window.

        Args:
            name: first part of its parameter names ("<name>.force" or "<name>.impulse", and "<name>.point").
            body: name of the body.
            start, duration: of the window [s]; it covers the physics steps that begin in it.
            force: world frame [N], or
            impulse: world frame [N s], spread evenly over the window.
            point: of attack relative to the centre of mass, body frame [m].

        Raises:
            UserError: no such body, both or neither of force and impulse, or a window outside the simulated time.
        """
        names = [b.name for b in self.bodies]
        if body not in names:
            raise unknown_name_error("body", body, names)
        if (force is None) == (impulse is None):
            raise UserError(f"{name} needs a force or an impulse: give exactly one of the two")
        if not (math.isfinite(start) and math.isfinite(duration)):
            raise UserError(f"{name} acts from {start} s for {duration} s: give finite times")
        first = round(start / self.settings.dt)
        last = round((start + duration) / self.settings.dt)
        if not 0 <= first < last or first >= self.frames * self.settings.substeps:
            raise UserError(f"{name} acts from {start} s for {duration} s: that is no physics step of {self.settings.dt:.3g} s")
        self._solver = None
        kind, value, unit = ("force", force, "N") if force is not None else ("impulse", impulse, "N s")
        scale = 1.0 if kind == "force" else 1.0 / ((last - first) * self.settings.dt)
        self.table.add(f"{name}.{kind}", value, unit=unit, shape=(3,))
        self.table.add(f"{name}.point", point, unit="m", shape=(3,))
        self.forces.append(AppliedForce(name, names.index(body), first, last, kind, scale))

    def add_camera(self, camera: Camera) -> None:
        """The camera that films the scene (one).

        Raises:
            UserError: there is one already.
        """
        if self.camera is not None:
            raise UserError("the scene has a camera already: a scene has one")
        self.camera = camera
        self.table.add("camera.position", camera.position, unit="m", shape=(3,))
        self.table.add("camera.turn", camera.turn, unit="rad", shape=(3,))
        self.table.add("camera.focal", camera.focal, unit="px", shape=(2,), sign="positive")
        self.table.add("camera.center", camera.center, unit="px", shape=(2,))

    def resize_camera(self, width: int, height: int) -> None:
        """Film with another size of picture, the same view."""
        camera = self._camera().resized(width, height)
        self.camera = camera
        self.table.set("camera.focal", camera.focal)
        self.table.set("camera.center", camera.center)

    def add_light(self, light: DirectionalLight | AmbientLight) -> None:
        """A light: any number of ambient ones (they add up), one directional.

        Raises:
            UserError: a second directional light.
        """
        if isinstance(light, AmbientLight):
            self._ambient.append(light.name)
        else:
            if self._directional:
                raise UserError(f"the scene has the directional light {self._directional[0]!r} already: a scene has one")
            self._directional.append(light.name)
            direction = light.direction.value if isinstance(light.direction, Param) else light.direction
            if not np.linalg.norm(direction) > 0:
                raise UserError(f"light {light.name!r} has direction {direction}: give a vector that is not zero")
            self.table.add(f"light.{light.name}.direction", light.direction, unit="", shape=(3,))
        self.table.add(f"light.{light.name}.intensity", light.intensity, unit="", shape=(3,), sign="not negative")

    def set_background(self, color: Vector) -> None:
        """Colour behind everything, linear rgb."""
        del self.table.params["background.color"]
        self.table.add("background.color", color, unit="", shape=(3,), sign="color")

    # -- numbers --------------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Param]:
        """Every number of the scene by its dotted name."""
        return dict(self.table.params)

    @property
    def unknowns(self) -> list[str]:
        """Names of the Params that are not frozen."""
        return self.table.unknowns()

    def set(self, name: str, value: Any) -> None:
        """Give a parameter another value within its bounds (UserError otherwise)."""
        if name.endswith(".inertia") and name in self.table.params:
            check_inertia(value, name)
        self.table.set(name, value)

    # -- running --------------------------------------------------------------------------------------------------------

    def solver(self) -> RigidSolver:
        """The rigid solver of this scene, built at first use.

        Raises:
            UserError: the scene has no bodies.
        """
        if self._solver is None:
            if not self.bodies:
                raise UserError("the scene has no bodies: add one with add_rigid")
            model = RigidModel(
                body_names=tuple(b.name for b in self.bodies),
                contact_points=tuple(b.points for b in self.bodies),
                force_body=tuple(f.body for f in self.forces),
                force_steps=tuple((f.first_step, f.last_step) for f in self.forces),
                ground_height=self.ground_height or 0.0,
            )
            self._solver = RigidSolver(model, self.settings)
            for sentence in self.step_warnings():
                warnings.warn(sentence, stacklevel=3)
        return self._solver

    def step_warnings(self) -> list[str]:
        """Sentences about bodies for which the physics step is too long at the scene's own values.

        A spring of stiffness ke on a mass m needs steps well below sqrt(m / ke), a tangential damper kf steps below m / kf.
        """
        values, dt = self.table.values(), self.settings.dt
        sentences = []
        for body in self.bodies:
            mass = float(body.mass(values)[0])
            ke, kd, kf, _mu = body.contact(values)[0].tolist()
            if len(body.points) and max(dt * math.sqrt(ke / mass), dt * kd / mass, dt * kf / mass) > 0.5:
                sentences.append(
                    f"the step of {dt:.3g} s is too long for the contact of {body.name!r} (mass {mass:.3g} kg, stiffness "
                    f"{ke:.3g} N/m, damping {kd:.3g} and friction stiffness {kf:.3g} N s/m): take more substeps"
                )
        return sentences

    def description(self) -> dict[str, Any]:
        """Everything that decides a film of this scene, in values that JSON can hold (geometry as a checksum)."""
        geometry = sha256()
        for body in self.bodies:
            for array in (body.mesh.vertices, body.mesh.faces, body.points, body.orientation):
                geometry.update(np.ascontiguousarray(array).tobytes())
        camera = self.camera
        return {
            "name": self.name,
            "frame_dt": self.frame_dt,
            "frames": self.frames,
            "substeps": self.settings.substeps,
            "integrator": self.settings.integrator,
            "sigma": self.sigma,
            "gamma": self.gamma,
            "ground_height": self.ground_height,
            "bodies": [body.name for body in self.bodies],
            "geometry_sha256": geometry.hexdigest(),
            "forces": [[f.name, f.body, f.first_step, f.last_step, f.kind] for f in self.forces],
            "camera": None
            if camera is None
            else [camera.width, camera.height, camera.near, camera.far, np.asarray(camera.rotation).tolist()],
            "parameters": {name: np.asarray(param.value).tolist() for name, param in self.table.params.items()},
        }

    def rigid_inputs(self, values: Values) -> RigidInputs:
        """The solver's arrays from parameter values [B, ...] (``ParameterTable.values``); differentiable."""
        stack = torch.stack
        some = values["gravity"]
        forces = [values[f"{f.name}.{f.kind}"] * f.scale for f in self.forces] or [some.new_zeros(some.shape[0], 3)]
        points = [values[f"{f.name}.point"] for f in self.forces] or [some.new_zeros(some.shape[0], 3)]
        return RigidInputs(
            body_q0=stack([b.pose(values) for b in self.bodies], 1),
            body_qd0=stack([b.velocity(values) for b in self.bodies], 1),
            body_mass=stack([b.mass(values) for b in self.bodies], 1),
            body_inertia=stack([b.inertia(values) for b in self.bodies], 1),
            body_material=stack([b.contact(values) for b in self.bodies], 1),
            gravity=some,
            body_force=stack(forces, 1),
            force_point=stack(points, 1),
        )

    def rollout(
        self,
        parameters: Mapping[str, torch.Tensor] | None = None,
        *,
        worlds: int | None = None,
        frames: int | None = None,
        state0: tuple[torch.Tensor, torch.Tensor] | None = None,
        adjoint: Adjoint | None = None,
    ) -> States:
        """Simulate a batch of worlds.

        Args:
            parameters: values that replace the scene's own (``ParameterTable.values``); gradients flow through them.
            worlds: B, where the parameters do not tell.
            frames: frame intervals, the scene's by default.
            state0: (body_q [B, N, 7], body_qd [B, N, 6]) to start from instead of the bodies' initial values.
            adjoint: StoreAll() (default) or Checkpoint(every=k).

        Returns:
            The motion; worlds that diverged are marked.

        Raises:
            UserError: names or shapes do not fit. DivergenceError: every world diverged.
        """
        solver = self.solver()
        inputs = self.rigid_inputs(self.table.values(parameters, worlds=worlds))
        if state0 is not None:
            inputs = replace(inputs, body_q0=state0[0], body_qd0=state0[1])
        body_q, body_qd, diverged = bridge.rollout(solver, inputs, self.frames if frames is None else frames, adjoint=adjoint)
        if (diverged >= 0).any():
            solver.check_divergence_steps(diverged)
        return States(body_q, body_qd, diverged)

    def render(
        self, states: States, parameters: Mapping[str, torch.Tensor] | None = None, *, frames: Any = None, alpha: bool = False
    ) -> torch.Tensor:
        """Film a motion.

        Args:
            states: from ``rollout``.
            parameters: values that replace the scene's own; gradients flow through them and through the states.
            frames: slice or list of frame numbers, all by default.
            alpha: whether a fourth channel holds the objects' coverage.

        Returns:
            [B, T, H, W, 3 or 4] linear rgb in [0, 1]; NaN for worlds that diverged.

        Raises:
            UserError: the scene has no camera or no light, or names and shapes do not fit.
        """
        body_q = states.body_q if frames is None else states.body_q[:, frames]
        batch, count = body_q.shape[:2]
        inputs = self.render_inputs(self.table.values(parameters, worlds=batch), body_q)
        camera = self._camera()
        images = bridge.render(inputs, self.raster_settings())
        images = images.reshape(batch, count, camera.height, camera.width, 4)
        if not states.finite.all():  # a motion that does not exist has no pictures
            images = torch.where(states.finite[:, None, None, None, None], images, torch.full_like(images, torch.nan))
        return images if alpha else images[..., :3]

    def raster_settings(self) -> RasterSettings:
        """Settings of the rasteriser for this scene's camera."""
        camera = self._camera()
        return RasterSettings(
            width=camera.width, height=camera.height, sigma=self.sigma, gamma=self.gamma,
            near=camera.near, far=camera.far, ground=self.ground_height is not None,
        )  # fmt: skip

    def render_inputs(self, values: Values, body_q: torch.Tensor) -> RenderInputs:
        """The renderer's arrays from parameter values [B, ...] and poses [B, T, N, 7]; differentiable."""
        if not self._ambient and not self._directional:
            raise UserError("the scene has no light: add one with add_light")
        mesh = self._meshes(body_q)
        camera = self._camera()
        given = torch.as_tensor(camera.rotation, dtype=body_q.dtype, device=body_q.device)
        rotation = rotation_matrix(rotation_quaternion(values["camera.turn"])) @ given
        translation = -(rotation @ values["camera.position"][..., None])[..., 0]
        black = body_q.new_zeros(body_q.shape[0], 3)
        ambient = sum((values[f"light.{name}.intensity"] for name in self._ambient), black)
        down = body_q.new_tensor([0.0, 0.0, -1.0]).expand_as(black)
        light = torch.cat([down, black], dim=-1)
        for name in self._directional:
            light = torch.cat([values[f"light.{name}.direction"], values[f"light.{name}.intensity"]], dim=-1)
        ground = None
        if self.ground_height is not None:
            height = torch.full_like(black[:, :1], self.ground_height)
            ground = torch.cat([values["ground.color"], height], dim=-1)
        return RenderInputs(
            vertices_rest=mesh["vertices"],
            body_q=body_q.reshape(-1, *body_q.shape[2:]),
            faces=mesh["faces"],
            vertex_body=mesh["vertex_body"],
            camera=torch.cat([values["camera.focal"], values["camera.center"], rotation.flatten(1), translation], dim=-1),
            albedo=torch.cat([body.albedo(values) for body in self.bodies], dim=1),
            ambient=ambient,
            light=light,
            background=values["background.color"],
            ground=ground,
        )

    def _camera(self) -> Camera:
        if self.camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        return self.camera

    def _meshes(self, like: torch.Tensor) -> dict[str, torch.Tensor]:
        """All bodies' meshes as one: vertices [V, 3], faces [F, 3] and the vertices' bodies [V]."""
        if self._mesh is None or self._mesh["vertices"].dtype != like.dtype:
            offsets = np.cumsum([0] + [len(b.mesh.vertices) for b in self.bodies])
            faces = [b.mesh.faces + offset for b, offset in zip(self.bodies, offsets, strict=False)]
            owners = [np.full(len(b.mesh.vertices), i) for i, b in enumerate(self.bodies)]
            self._mesh = {
                "vertices": like.new_tensor(np.concatenate([b.mesh.vertices for b in self.bodies])),
                "faces": torch.as_tensor(np.concatenate(faces).astype(np.int32), device=like.device),
                "vertex_body": torch.as_tensor(np.concatenate(owners).astype(np.int32), device=like.device),
            }
        return self._mesh
