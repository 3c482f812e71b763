"""The scene: a list of things to write down, and two torch functions, ``rollout`` and ``render``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from risp_torch.files.memory import check_memory
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.articulation import articulated_inputs, velocity_slices
from risp_torch.scene.authoring import DeformableScene
from risp_torch.scene.backdrop import Pattern
from risp_torch.scene.body import add_contact, make_body
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.description import describe
from risp_torch.scene.escapes import without_escapes
from risp_torch.scene.items import Array, Contact, Direction, Number, Pair, Picture, Quaternion, Surface, Vector, Wrap
from risp_torch.scene.joints import Joint
from risp_torch.scene.links import Link, make_link
from risp_torch.scene.motors import Motors, SinePulse, make_motors
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable, split_entry
from risp_torch.scene.robot import add_robot
from risp_torch.scene.robot_files import RobotDescription
from risp_torch.scene.rotors import Rotors, make_rotors
from risp_torch.scene.simulation import (
    AppliedForce,
    articulated_solver,
    deformable_solver,
    deformable_step_warnings,
    motion,
    poses_of_joints,
    rigid_inputs,
    rigid_solver,
    spin_warnings,
    step_warnings,
)
from risp_torch.scene.states import States, joined_placement
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Count, FromZero, NotNegative, Positive, PositiveOrInfinite, Real, Rule, checked
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.rigid.model import Integrator, Plan, RigidInputs, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.shapes import Shape, check_inertia

LAST_STEP = 2**31 - 1  # of a simulation: kernels count steps in 32 bits


class Scene(DeformableScene):
    """Bodies, contact, forces, camera and lights; which numbers they have; how to simulate and render them."""

    @checked
    def __init__(
        self,
        *,
        frame_dt: Positive,
        frames: Count,
        substeps: Count,
        gravity: Vector = (0.0, 0.0, -9.81),
        integrator: Integrator = "semi_implicit",
        plan: Plan = "auto",
        max_distance: PositiveOrInfinite = math.inf,
        controls: Count = 1,
        adaptive: bool = False,
        sigma: Number = 1e-4,
        gamma: Number = 1e-3,
        shading: Literal["none", "lambert", "phong"] = "lambert",
        aggregation: Literal["softras", "dibr"] = "softras",
        composite: Literal["alpha", "softmax"] = "alpha",
        antialias: Annotated[int, Rule(whole=True, least=1, most=16)] = 1,
        two_sided: bool = False,
        name: str = "",
    ) -> None:
        """An empty scene.

        Args:
            frame_dt: time between two frames [s].
            frames: frame intervals; a film of the scene has one picture more, the start.
            substeps: physics steps in a frame.
            gravity: [3] m/s2, or one number, its strength downwards.
            integrator: "semi_implicit" or "rk4".
            plan: execution plan of the solver (``RigidSettings``).
            max_distance: of a body's centre of mass from the origin [m]; a world in which one goes farther has failed, and is
                treated as one that diverged.
            controls: rows of actuation of deformable bodies in a frame, each held over as many steps; 1 or a divisor of substeps.
            adaptive: whether every world of a rollout of deformable bodies that meet no other bodies takes no more steps than its
                own numbers need at its start (``stable_step``, with two fifths to spare, in rungs of a fifth): an eighth of
                ``substeps`` to all. Positions are off by about what moves in half of the difference between the steps.
            sigma: softness of edges in pictures, squared NDC of the shorter side ("softness.sigma").
            gamma: softness of depth order in pictures ("softness.gamma").
            shading: "none" (colours as they are), "lambert" (matt) or "phong" (with highlights: ``Surface``).
            aggregation: how faces become a picture, "softras" or "dibr" (``RasterSettings``).
            composite: how coverage enters the colour, "alpha" or "softmax" (``RasterSettings``).
            antialias: samples along each side of a pixel.
            two_sided: whether faces are lit on their inner side too.
            name: what reports call the scene.

        Raises:
            UserError: a time, count or softness is not positive, or a choice is unknown.
        """
        if frames * substeps > LAST_STEP:
            raise UserError(f"Scene: frames {frames} of {substeps} substeps are more steps than are counted: at most {LAST_STEP}")
        if substeps % controls:
            raise UserError(f"controls={controls} and substeps={substeps}: give a number of controls that divides the substeps")
        self.name = name
        self.frame_dt, self.adaptive = frame_dt, adaptive
        self.settings = RigidSettings(
            dt=frame_dt / substeps, substeps=substeps, integrator=integrator, plan=plan, max_distance=max_distance
        )
        style = {
            "shading": shading, "aggregation": aggregation, "composite": composite, "antialias": antialias,
            "two_sided": two_sided,
        }  # fmt: skip
        table = ParameterTable({})
        strength = np.ndim(gravity.value if isinstance(gravity, Param) else gravity) == 0
        table.add("gravity", gravity, unit="m/s2", shape=() if strength else (3,))
        super().__init__(table, style, sigma=sigma, gamma=gamma, frames=frames, controls=controls)
        self.forces: list[AppliedForce] = []
        self.rotors: list[Rotors] = []
        self.motors: list[Motors] = []
        self._solver: RigidSolver | ArticulatedSolver | None = None

    # -- writing a scene ------------------------------------------------------------------------------------------------

    @checked
    def add_ground(
        self,
        *,
        contact: Contact,
        height: Real = 0.0,
        color: Vector | None = None,
        pattern: Pattern = "plain",
        second_color: Vector | None = None,
        cell: Number = 0.1,
        origin: Pair = (0.0, 0.0),
        texture: Picture | None = None,
        wrap: Wrap = "repeat",
    ) -> None:
        """The ground plane. It comes before the bodies.

        Args:
            contact: its material.
            height: z of the plane [m].
            color: linear rgb, grey by default; with a texture, a tint (white by default).
            pattern: "plain", "checker" or "texture".
            second_color: of the checker's other squares.
            cell: side of a square, or of the texture's picture [m].
            origin: x and y of a corner of the pattern [m].
            texture: a picture file, or linear rgb [h, w, 3], row 0 at the top; u grows along x, v along y.
            wrap: what the texture does beyond its edges, "repeat" or "clamp".

        Raises:
            UserError: there is a ground or a body already, an option does not fit the pattern, or a picture cannot be read.
        """
        if self.bodies or self.deformables:
            raise UserError("the ground comes before the bodies: call add_ground first")
        add_contact(self.table, "ground.contact", contact)
        self.backdrop.add_ground(
            height=height, color=color, pattern=pattern, second_color=second_color, cell=cell, origin=origin, texture=texture,
            wrap=wrap,
        )  # fmt: skip
        self._geometry = None

    @property
    def ground_height(self) -> float | None:
        """z of the ground plane [m], None without a ground."""
        return None if self.backdrop.ground is None else self.backdrop.ground.height

    @checked
    def add_rigid(
        self,
        name: str,
        *,
        shape: Shape,
        density: Number | None = None,
        mass: Number | None = None,
        inertia: Array | None = None,
        inertia_per_mass: Array | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = (0.0, 0.0, 0.0, 1.0),
        rotation: Vector = (0.0, 0.0, 0.0),
        velocity: Vector = (0.0, 0.0, 0.0),
        angular_velocity: Vector = (0.0, 0.0, 0.0),
        linear_drag: Number | None = None,
        angular_drag: Number | None = None,
        contact: Contact | None = None,
        collision: bool = False,
        surface: Surface | None = None,
    ) -> None:
        """A rigid body.

        Args:
            name: first part of its parameter names.
            shape: geometry; its mass properties follow from it.
            density: kg/m3, or
            mass: kg (the inertia then follows from the shape, unless ``inertia`` is given).
            inertia: [3, 3] kg m2 about the centre of mass, body frame.
            inertia_per_mass: [3, 3] m2, the inertia of one kilogram: the inertia then grows with the mass.
            position: of the centre of mass [m].
            orientation: quaternion (x, y, z, w) at the start.
            rotation: rotation vector [rad], world frame, applied after ``orientation``; the unknown part of the orientation.
            velocity: m/s.
            angular_velocity: rad/s, world frame.
            linear_drag: force against the velocity [N s/m], none by default.
            angular_drag: torque against the angular velocity [N m s], none by default.
            contact: material against the ground, the ground's own by default.
            collision: whether its shape meets those of other bodies with this option.
            surface: colours, texture, material.

        Raises:
            UserError: a number or mesh is not usable; the message says which.
        """
        body = make_body(
            self.table, name, shape=shape, density=density, mass=mass, inertia=inertia, inertia_per_mass=inertia_per_mass,
            position=position, orientation=orientation, rotation=rotation, velocity=velocity, angular_velocity=angular_velocity,
            linear_drag=linear_drag, angular_drag=angular_drag, contact=contact, collision=collision,
            surface=surface,
            ground=self.ground_height is not None, phong=self.style["shading"] == "phong",
        )  # fmt: skip
        self.bodies.append(body)
        self._solver = self._geometry = None

    @checked
    def add_number(self, name: str, value: Number, *, unit: str = "") -> None:
        """A number of its own, which joints share by its name (``Revolute(stiffness="finger.stiffness")``).

        Args:
            name: dotted name.
            value: number or Param.
            unit: for tables.

        Raises:
            UserError: the name is taken.
        """
        self.table.add(name, value, unit=unit)

    @checked
    def add_link(
        self,
        name: str,
        *,
        joint: Joint,
        shape: Shape,
        parent: str | None = None,
        density: Number | None = None,
        mass: Number | None = None,
        inertia: Array | None = None,
        inertia_per_mass: Array | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Quaternion = (0.0, 0.0, 0.0, 1.0),
        center: Vector = (0.0, 0.0, 0.0),
        length: Number | None = None,
        direction: Direction = (0.0, 0.0, -1.0),
        share: Real = 1.0,
        at_tip: bool = False,
        contact: Contact | None = None,
        collision: bool = False,
        surface: Surface | None = None,
    ) -> None:
        """A link that hangs on another one, or on the world, by a joint. Its frame lies in the joint. Parents come first.

        Args:
            name: first part of its parameter names.
            joint: ``Fixed``, ``Revolute``, ``Prismatic`` or ``Spherical``; its numbers are "<name>.stiffness" and so on.
            shape: geometry, centred at the centre of mass, with the axes of the link's frame.
            parent: name of the link that it hangs on, None for the world.
            density, mass, inertia, inertia_per_mass: as for ``add_rigid``.
            position: of the joint in the parent's frame, or in the world [m].
            orientation: of the joint in the parent's frame, quaternion (x, y, z, w).
            center: of mass in the link's frame [m].
            length: of the link [m], an unknown for example: it moves the centre of mass, and links that hang at the tip.
            direction: of the length in the link's frame.
            share: which part of the length lies between the joint and the centre of mass.
            at_tip: whether the joint sits at the end of the parent's length, from where ``position`` counts.
            contact: material against the ground, the ground's own by default.
            collision: whether its shape meets those of other bodies with this option.
            surface: colours, texture, material.

        Raises:
            UserError: there is no such parent, limits are reversed, or a number or mesh is not usable; the message says which.
        """
        link = make_link(
            self.table, name, bodies=self.bodies, parent=parent, joint=joint, shape=shape, density=density, mass=mass,
            inertia=inertia, inertia_per_mass=inertia_per_mass, position=position, orientation=orientation, center=center,
            length=length, direction=direction, share=share, at_tip=at_tip, contact=contact, collision=collision,
            surface=surface,
            ground=self.ground_height is not None, phong=self.style["shading"] == "phong",
        )  # fmt: skip
        self.bodies.append(link)
        self._solver = self._geometry = None

    @checked
    def add_robot(
        self,
        path: str | Path,
        *,
        name: str = "",
        position: Direction = (0.0, 0.0, 0.0),
        orientation: Quaternion = (0.0, 0.0, 0.0, 1.0),
        free_base: bool = False,
        contact: Contact | None = None,
    ) -> RobotDescription:
        """The links, joints and motors of a URDF or MJCF file.

        Link "upper arm" of the robot "arm" becomes the body "arm_upper_arm", with its numbers "arm_upper_arm.mass",
        "arm_upper_arm.damping" and so on; the motor in its joint is "arm_upper_arm.motor". A link that moves freely becomes a
        rigid body. The springs of the limits hold the joint's largest motor force, or swing at 10 Hz if that is stiffer, but
        never too stiffly for the physics step (``robot.limit_stiffness``).

        Args:
            path: of the file (``robot_files.read_robot``).
            name: first part of the names of its bodies, the file's by default; unlike the file's, it must be one that a body can
                have.
            position: of the file's origin [m].
            orientation: of the file's axes, quaternion (x, y, z, w).
            free_base: let the root link, which the file fixes to the world, move freely.
            contact: material of the whole robot against the ground ("<name>.contact.stiffness" and so on), the ground's own by
                default. Primitive collision shapes touch it as such, meshes with the corners of their convex hulls.

        Returns:
            What the file describes; ``unsupported`` has a sentence for each kind of thing that is not carried over.

        Warns:
            UserWarning: with these sentences, where there are some.

        Raises:
            UserError: the file cannot be read or describes no robot that can move, a name is taken, or there is a contact
                material and no ground.
        """
        self._solver = self._geometry = None
        return add_robot(
            self, path, name=name, position=position, orientation=orientation, free_base=free_base, contact=contact
        )

    @checked
    def add_motors(
        self,
        name: str,
        *,
        joints: Sequence[str],
        actions: Array | SinePulse = 0.0,
        gain: Number = 1.0,
        limit: PositiveOrInfinite = math.inf,
        targets: Array | None = None,
        servo_stiffness: Number = 0.0,
        servo_damping: Number = 0.0,
        shared: bool = False,
    ) -> None:
        """Motors in joints: each has the force clip(gain action + stiffness (target - position) - damping rate, -limit, limit).

        Args:
            name: first part of their parameter names ("<name>.actions", "<name>.gain" and so on).
            joints: names of their links; a spherical joint has three motors.
            actions: [frames, R] commands, each held over a frame interval (or what broadcasts to this shape), or a
                ``SinePulse``. R is the number of motors, 1 where they share one command.
            gain: force of an action of one [N, N m].
            limit: largest force either way, servo included; beyond it the gradient is zero, which is the true derivative.
            targets: [frames, R] positions of a servo [m, rad]; none by default. To hold a speed, move the target.
            servo_stiffness, servo_damping: of the servo.
            shared: whether one command serves all of them.

        Raises:
            UserError: there is no such joint or it has motors already, a shape does not fit, or a number makes no sense.
        """
        slices, taken = velocity_slices(self.bodies), {v for group in self.motors for v in group.velocities}
        chosen: list[int] = []
        for joint in joints:
            index = self._body_index(joint)
            if not isinstance(self.bodies[index], Link):
                raise UserError(f"{name} drives {joint!r}, which is a free rigid body: name links")
            own = range(slices[index].start, slices[index].stop)
            if taken.intersection(own):
                raise UserError(f"{name} drives the joint of {joint!r}, which has motors already: one group for each joint")
            chosen += own
        group = make_motors(
            self.table, name, velocities=chosen, actions=actions, gain=gain, limit=limit, targets=targets,
            servo_stiffness=servo_stiffness, servo_damping=servo_damping, shared=shared, frames=self.frames,
        )  # fmt: skip
        self.motors.append(group)

    @checked
    def add_force(
        self,
        name: str,
        *,
        body: str,
        start: NotNegative,
        duration: Positive,
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
        index = self._body_index(body)
        if (force is None) == (impulse is None):
            raise UserError(f"{name} needs a force or an impulse: give exactly one of the two")
        first, end = (round(min(time / self.settings.dt, 2.0**62)) for time in (start, start + duration))
        if not first < end or first >= self.frames * self.settings.substeps:
            raise UserError(f"{name} acts from {start} s for {duration} s: that is no physics step of {self.settings.dt:.3g} s")
        self._solver = None
        kind, value, unit = ("force", force, "N") if force is not None else ("impulse", impulse, "N s")
        scale = 1.0 if kind == "force" else 1.0 / ((end - first) * self.settings.dt)
        self.table.add(f"{name}.{kind}", value, unit=unit, shape=(3,))
        self.table.add(f"{name}.point", point, unit="m", shape=(3,))
        self.forces.append(AppliedForce(name, index, first, min(end, LAST_STEP), kind, scale))

    @checked
    def add_rotors(
        self,
        name: str,
        *,
        body: str,
        positions: Array,
        actions: Array,
        axis: Direction = (0.0, 0.0, 1.0),
        yaw_reaction: Array = 0.0,
        limit: Positive = 500.0,
    ) -> None:
        """Rotors on a body, which push it along their common axis.

        Args:
            name: first part of their parameter names ("<name>.positions", "<name>.yaw_reaction" and "<name>.actions").
            body: name of the body.
            positions: [R, 3] relative to the centre of mass, body frame [m].
            actions: [frames, R] thrusts [N], each held over a frame interval (or what broadcasts to this shape).
            axis: of the thrust, body frame, any length.
            yaw_reaction: [R] torque about the axis for each newton of thrust [m].
            limit: largest thrust either way [N]. Actions beyond it are clipped, and their gradient is zero, which is the true
                derivative: an optimiser that starts there does not get away.

        Raises:
            UserError: no such body, a shape that does not fit, or a number that makes no sense.
        """
        rotors = make_rotors(
            self.table, name, body=self._body_index(body), positions=positions, axis=axis, yaw_reaction=yaw_reaction,
            limit=limit, actions=actions, frames=self.frames,
        )  # fmt: skip
        self.rotors.append(rotors)
        self._solver = None

    def _body_index(self, name: str) -> int:
        names = [body.name for body in self.bodies]
        if name not in names:
            raise unknown_name_error("body", name, names)
        return names.index(name)

    # -- numbers --------------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Param]:
        """Every number of the scene by its dotted name."""
        return dict(self.table.params)

    @property
    def unknowns(self) -> list[str]:
        """Names of the Params that are not frozen."""
        return self.table.unknowns()

    @checked
    def set(self, name: str, value: Any) -> None:
        """Give a parameter, or one entry ("body.velocity[0]"), another value within its bounds (UserError otherwise)."""
        base, _ = split_entry(name)
        if base.endswith((".inertia", ".inertia_per_mass")) and base in self.table.params:
            solid = self.table.signs.get(f"{base.rpartition('.')[0]}.mass") != "not negative"
            check_inertia(self.table.filled(name, value), base, solid=solid)
        self.table.set(name, value)

    @property
    def driven(self) -> bool:
        """Whether any body has rotors or drag."""
        return bool(self.rotors) or any(name in self.table.params for body in self.bodies for name in body.drag_names)

    # -- running --------------------------------------------------------------------------------------------------------

    @property
    def articulated(self) -> bool:
        """Whether any body is a link or meets others; all of them then move by the articulated solver."""
        return any(isinstance(body, Link) or body.collision is not None for body in self.bodies)

    def solver(self) -> RigidSolver | ArticulatedSolver:
        """The solver of this scene, built at first use.

        Raises:
            UserError: the scene has no bodies, or mixes links with what their solver does not have.
        """
        if self._solver is None:
            if not self.bodies:
                raise UserError("the scene has no bodies: add one with add_rigid or add_link")
            self._solver = articulated_solver(self) if self.articulated else rigid_solver(self)
            for sentence in (*step_warnings(self), *spin_warnings(self)):
                warnings.warn(sentence, stacklevel=3)
        return self._solver

    def deformable_solver(self) -> DeformableSolver:
        """The solver of this scene's deformable bodies, built at first use.

        Raises:
            UserError: the scene mixes them with what their solver does not have.
        """
        if self._deformable_solver is None:
            self._deformable_solver = deformable_solver(self)
            for sentence in deformable_step_warnings(self):
                warnings.warn(sentence, stacklevel=3)
        return self._deformable_solver

    def description(self) -> dict[str, Any]:
        """Everything that decides a film of this scene, in values that JSON can hold (geometry and pictures as checksums)."""
        return describe(self)

    @checked
    def rollout(
        self,
        parameters: Mapping[str, torch.Tensor] | None = None,
        *,
        worlds: Count | None = None,
        frames: FromZero | None = None,
        actions: torch.Tensor | None = None,
        state0: tuple[torch.Tensor, ...] | None = None,
        adjoint: Adjoint | None = None,
    ) -> States:
        """Simulate a batch of worlds.

        Args:
            parameters: values that replace the scene's own (``ParameterTable.values``); gradients flow through them.
            worlds: B, where the parameters do not tell.
            frames: frame intervals, the scene's by default.
            actions: [B, F, A] thrusts [N] in place of the scene's own, for F >= frames frame intervals, the rotors of all groups
                side by side in the order in which they were added; gradients flow through them. [1, F, A] serves all worlds.
            state0: (body_q [B, N, 7], body_qd [B, N, 6]) to start from instead of the bodies' initial values; in a scene with
                links (joint_q [B, Q], joint_qd [B, D]); with deformable bodies particle_q [B, P, 3] and particle_qd [B, P, 3]
                after these, or alone where there are no others.
            adjoint: StoreAll() (default) or Checkpoint(every=k).

        Returns:
            The motion; worlds that diverged are marked, and so are those in which something flew off (``without_escapes``).

        Raises:
            UserError: names or shapes do not fit. DivergenceError: every world diverged.
        """
        count = self.frames if frames is None else frames
        _check_memory(self, parameters, worlds, count)
        states = motion(self, parameters, worlds=worlds, frames=count, actions=actions, state0=state0, adjoint=adjoint)
        return without_escapes(self, states, parameters)

    def rigid_inputs(
        self, values: Values, *, frames: int | None = None, actions: torch.Tensor | None = None
    ) -> RigidInputs:
        """The rigid solver's arrays; differentiable.

        Args:
            values: parameters [B, ...] (``ParameterTable.values``).
            frames: frame intervals that are simulated, the scene's by default.
            actions: as of ``rollout``.

        Raises:
            UserError: the actions do not fit.
        """
        return rigid_inputs(self, values, frames=self.frames if frames is None else frames, actions=actions)

    def start_poses(self, values: Values) -> torch.Tensor:
        """Poses [B, N, 7] of the centres of mass at the start (m, unit quaternions), from parameter values [B, ...].

        With deformable bodies, as ``poses``: their particles' positions, or both.
        """
        particle_q = torch.cat([part.start(values) for part in self.deformables], dim=1) if self.deformables else None
        if not self.bodies:
            return joined_placement(values["gravity"].new_zeros(len(values["gravity"]), 0, 7), particle_q)
        if not self.articulated:
            return joined_placement(self.rigid_inputs(values).body_q0, particle_q)
        inputs = articulated_inputs(self.bodies, self.motors, values, frames=1, actions=None)
        return joined_placement(poses_of_joints(self, values, inputs.joint_q0), particle_q)


def _check_memory(scene: Scene, parameters: Mapping[str, torch.Tensor] | None, worlds: int | None, frames: int) -> None:
    """Raise a UserError where the states at the frames of a motion, which is the least of it, do not fit into memory."""
    given = ((name, value) for name, value in (parameters or {}).items() if name in scene.table.params)
    batches = [len(value) for name, value in given if np.ndim(value) > np.ndim(scene.table[name].value)]
    batch = worlds or max(batches, default=1)
    rows = 13 * len(scene.bodies) + 6 * scene.particle_count
    check_memory(
        batch * (frames + 1) * rows * bridge_dtype().itemsize, f"a motion of {batch} worlds and {frames} frames",
        "simulate fewer worlds or frames at a time",
    )  # fmt: skip
