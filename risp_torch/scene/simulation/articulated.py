"""Adapter of links, and of rigid bodies that collide with others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import torch

from risp_torch.scene.bridge.derivative_errors import without_second_derivative
from risp_torch.scene.forces import Forces
from risp_torch.scene.numbers import Values, gravity_rows
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.links import Link, coordinate_slices, velocity_slices
from risp_torch.scene.parts.motors import Motors, split_actions
from risp_torch.scene.rotations import matrix_vector, rotation_matrix
from risp_torch.scene.simulation.rigid import bodies_with_points
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from risp_torch.scene.simulation.step_warnings import dry_friction_warnings, spin_warnings, step_warnings
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.state import State
from risp_torch.scene.states import States
from ti_sim.articulated.forces import JOINT_FORCE
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.single_state import forward_kinematics
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError

_JOINT_QUANTITIES = ("stiffness", "rest", "damping", "armature", "limit_low", "limit_high", "limit_stiffness")
_COUPLING_TOLERANCE = 1e-4  # rad or m: largest deviation of a state's coordinates from their coupling, for rounding
_DRY_FRICTION = ("dry_friction", "dry_stiffness", "dry_damping")


class ArticulatedAdapter(SolverAdapter):
    """Links with motors, and bodies that collide with each other."""

    actuator_kind = "motors"
    derived = frozenset({"body_q", "body_qd"})

    def __init__(self, spec: SceneSpec) -> None:
        """Make the adapter of a scene's bodies."""
        self.spec, self.actuators = spec, spec.motors

    @classmethod
    def of(cls, spec: SceneSpec) -> Self | None:
        """As ``SolverAdapter.of``."""
        return cls(spec) if spec.articulated else None

    def make_solver(self) -> ArticulatedSolver:
        """As ``SolverAdapter.make_solver``."""
        spec, stepping = self.spec, self.spec.stepping
        if spec.applied_forces or spec.has_rotors_or_drag or math.isfinite(stepping.solver.max_distance):
            raise UserError(
                "a scene with links, or with bodies that collide with others, has no applied forces, rotors, drag or "
                "max_distance: leave them out, or drive joints with add_motors"
            )
        settings = ArticulatedSettings(
            dt=stepping.dt, substeps=stepping.substeps, integrator=stepping.integrator, plan=stepping.solver.plan
        )
        model = articulated_model(spec.bodies, spec.table.values(), ground_height=spec.ground_height or 0.0)
        return ArticulatedSolver(model, settings)

    def step_warnings(self, solver: ArticulatedSolver) -> list[str]:
        """As ``SolverAdapter.step_warnings``."""
        values = self.spec.table.values()
        inputs = articulated_inputs(self.spec.bodies, self.spec.motors, values, frames=1, actions=None)
        return (
            step_warnings(self.spec) + spin_warnings(self.spec, solver.model)
            + dry_friction_warnings(self.spec, solver.model, inputs)
        )  # fmt: skip

    def inputs(self, values: Values, *, frames: int, actions: torch.Tensor | None = None) -> ArticulatedInputs:
        """As ``SolverAdapter.inputs``.

        Raises:
            UserError: the actions do not fit, or a parameter moves a link's collision shape.
        """
        check_collision_shapes(self.spec.bodies, self.solver.model, values)
        return articulated_inputs(self.spec.bodies, self.spec.motors, values, frames=frames, actions=actions)

    def check_state(self, inputs: ArticulatedInputs, state: State) -> None:
        """As ``SolverAdapter.check_state``; coordinates must meet the couplings of joints."""
        super().check_state(inputs, state)
        check_coupled_coordinates(self.spec.bodies, state.joint_q)

    def state(self, values: Values) -> State:
        """As ``SolverAdapter.state``; a derivative of the poses and velocities of the bodies raises RuntimeError."""
        state = super().state(values)
        body_q, body_qd = self._motion_of_joints(values, state.joint_q, state.joint_qd)
        return state.replace(body_q=body_q, body_qd=body_qd)

    def states(self, values: Values, *arrays: torch.Tensor) -> States:
        """As ``SolverAdapter.states``."""
        joint_q, joint_qd, link_q, link_qd, diverged = arrays
        body_q, body_qd = centers_of_mass(self.spec.bodies, values, link_q, link_qd)
        return States(body_q, body_qd, diverged, joint_q, joint_qd)

    def named_forces(self, arrays: Mapping[str, torch.Tensor]) -> Forces:
        """As ``SolverAdapter.named_forces``; bodies that cannot move have the forces of other bodies, not those of the ground."""
        ground_wrench, model, names = arrays["ground_wrench"], self.solver.model, self.solver.model.link_names
        bodies_on_ground = [i for i in bodies_with_points(self.spec.bodies) if model.moves[i]]
        pairs = model.candidate_pairs
        wrench = arrays["pair_wrench"][..., : len(pairs), :].unflatten(-1, (2, 6))
        body_wrench = ground_wrench
        for side in range(2):
            links = torch.tensor([pair[side] for pair in pairs], dtype=torch.int64, device=ground_wrench.device)
            body_wrench = body_wrench.index_add(-2, links, wrench[..., side, :])
        joint = arrays["joint_force"][..., : model.velocity_count, :]
        forces = {f"joint_{name}": joint[..., getattr(JOINT_FORCE, name)] for name in JOINT_FORCE.names}
        return Forces(
            body_contact=body_wrench, **forces,
            contact=torch.cat([ground_wrench[..., bodies_on_ground, :], wrench[..., 0, :]], dim=-2),
            contacts=(*((names[i], "ground") for i in bodies_on_ground), *((names[i], names[j]) for i, j in pairs)),
        )  # fmt: skip

    def start(self, values: Values) -> tuple[torch.Tensor, None]:
        """As ``SolverAdapter.start``; a derivative raises RuntimeError."""
        inputs = articulated_inputs(self.spec.bodies, self.spec.motors, values, frames=1, actions=None)
        return self.poses_of_joints(values, inputs.joint_q0), None

    def poses_of_joints(self, values: Values, joint_q: torch.Tensor) -> torch.Tensor:
        """Poses [B, N, 7] of the centres of mass (m, unit quaternions) for joint coordinates; a derivative raises RuntimeError.

        Args:
            values: parameters [B, ...].
            joint_q: [B, Q] coordinates of all joints (``ArticulatedModel``).
        """
        inputs = articulated_inputs(self.spec.bodies, self.spec.motors, values, frames=1, actions=None)
        return self._motion_of_joints(values, joint_q, torch.zeros_like(inputs.joint_qd0))[0]

    def _motion_of_joints(self, values: Values, joint_q: torch.Tensor, joint_qd: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """``poses_of_joints``, and the velocities [B, N, 6] of the centres of mass for joint velocities [B, D]."""
        inputs = articulated_inputs(self.spec.bodies, self.spec.motors, values, frames=1, actions=None)

        def compute_motion() -> tuple[torch.Tensor, ...]:
            detached_inputs = inputs.with_arrays(array.detach().contiguous() for array in inputs.arrays())
            joints = (array.detach().contiguous() for array in (joint_q, joint_qd))
            link_q, link_qd = forward_kinematics(self.solver.model, detached_inputs, *joints)
            return tuple(array[:, 0] for array in centers_of_mass(self.spec.bodies, values, link_q[:, None], link_qd[:, None]))

        error = RuntimeError("trying to differentiate initial poses of links: use the first frame of Scene.rollout")
        return without_second_derivative(compute_motion, error, joint_q, joint_qd, *inputs.arrays(), *values.values())


def articulated_model(bodies: Sequence[Body], values: Values, *, ground_height: float) -> ArticulatedModel:
    """The model of all bodies; a rigid body is attached to the world by a free joint at its centre of mass.

    Args:
        bodies: of the scene.
        values: the scene's own parameters [1, ...], which place the collision shapes.
        ground_height: z of the ground [m].
    """
    shapes = tuple(
        None if body.collision is None else replace(body.collision, position=tuple(center_of(body, values)[0].tolist()))
        for body in bodies
    )
    return ArticulatedModel(
        link_names=tuple(body.name for body in bodies),
        link_parent=tuple(body.parent if isinstance(body, Link) else -1 for body in bodies),
        joint_type=tuple(body.joint.kind if isinstance(body, Link) else "free" for body in bodies),
        joint_axis=np.array([body.axis if isinstance(body, Link) else (0.0, 0.0, 1.0) for body in bodies]),
        contact_points=tuple(body.points for body in bodies),
        ground_height=ground_height,
        collision_shape=shapes if any(shapes) else (),
        joint_coupling=tuple(
            (i, body.coupling.leader, body.coupling.multiplier)
            for i, body in enumerate(bodies) if isinstance(body, Link) and body.coupling is not None
        ),
    )  # fmt: skip


def check_collision_shapes(bodies: Sequence[Body], model: ArticulatedModel, values: Values) -> None:
    """Raise a UserError if the centre of mass of a link with a collision shape changes or requires a gradient."""
    for body, shape in zip(bodies, model.collision_shape or (), strict=False):
        if shape is not None and isinstance(body, Link):
            center = center_of(body, values)
            shape_position = center.new_tensor(shape.position)
            if center.requires_grad or not torch.allclose(center.detach(), shape_position.expand_as(center), rtol=0.0, atol=1e-6):
                raise UserError(
                    f"{body.name} has a collision shape placed by the scene's own parameters: leave "
                    "its center and length unchanged, or its collision out"
                )


def check_coupled_coordinates(bodies: Sequence[Body], joint_q: torch.Tensor) -> None:
    """Raise a UserError if coordinates [B, Q] do not meet the couplings of joints; the solver checks velocities."""
    columns = coordinate_slices(bodies)
    for body, column in zip(bodies, columns, strict=True):
        coupling = body.coupling if isinstance(body, Link) else None
        if coupling is not None:
            follower, leader = joint_q.detach()[:, column], joint_q.detach()[:, columns[coupling.leader]]
            expected = coupling.multiplier * leader + coupling.offset
            world = int((follower - expected).abs().argmax())
            if not float((follower - expected).abs().max()) <= _COUPLING_TOLERANCE * (1.0 + float(expected.abs().max())):
                raise UserError(
                    f"state.joint_q has the joint of {body.name!r} at {float(follower[world, 0]):g}, and its coupling to that of "
                    f"{bodies[coupling.leader].name!r} puts it at {float(expected[world, 0]):g}: give a state of this scene"
                )


def articulated_inputs(
    bodies: Sequence[Body], motors: Sequence[Motors], values: Values, *, frames: int, actions: torch.Tensor | None
) -> ArticulatedInputs:
    """The solver's arrays; differentiable.

    Args:
        bodies, motors: of the scene.
        values: parameters [B, ...].
        frames: frame intervals.
        actions: [B or 1, F, A] in place of the motors' own, or None.

    Raises:
        UserError: the actions do not fit.
    """
    gravity = values["gravity"]
    worlds, velocities = len(gravity), velocity_slices(bodies)[-1].stop
    quantities = {
        key: torch.cat([_joint_quantity(body, values, key) for body in bodies], dim=1) for key in _JOINT_QUANTITIES
    }
    dry_friction: dict[str, torch.Tensor] = {}
    if any(isinstance(body, Link) and "dry_friction" in body.parameter_names for body in bodies):
        dry_friction = {
            f"joint_{key}": torch.cat([_joint_quantity(body, values, key) for body in bodies], dim=1) for key in _DRY_FRICTION
        }
        dry_friction["joint_bristle0"] = gravity.new_zeros(worlds, velocities)
    action, target = gravity.new_zeros(worlds, frames, velocities), gravity.new_zeros(worlds, frames, velocities)
    gain, stiffness, damping = (gravity.new_zeros(worlds, velocities) for _ in range(3))
    limit = gravity.new_full((worlds, velocities), torch.inf)
    motor_actions = None if actions is None else split_actions(motors, actions, worlds=worlds, frames=frames)
    for k, group in enumerate(motors):
        velocity_indices = torch.tensor(group.velocities, device=gravity.device)
        group_action = group.actions(values, frames) if motor_actions is None else motor_actions[k]
        count = len(group.velocities)
        action = action.index_copy(2, velocity_indices, group_action.expand(worlds, frames, count))
        targets = group.targets(values, frames)
        if targets is not None:
            target = target.index_copy(2, velocity_indices, targets.expand(worlds, frames, count))
        keys = ("gain", "servo_stiffness", "servo_damping")
        group_values = [values[f"{group.name}.{key}"][:, None].expand(worlds, count) for key in keys]
        gain, stiffness, damping = (
            array.index_copy(1, velocity_indices, group_value)
            for array, group_value in zip((gain, stiffness, damping), group_values, strict=True)
        )
        limit = limit.index_fill(1, velocity_indices, group.limit)
    return ArticulatedInputs(
        joint_q0=torch.cat([_start(body, bodies, values) for body in bodies], dim=1),
        joint_qd0=torch.cat([_start_velocity(body, bodies, values) for body in bodies], dim=1),
        joint_frame=torch.stack([_joint_frame(body, bodies, values) for body in bodies], dim=1),
        joint_stiffness=quantities["stiffness"], joint_rest=quantities["rest"], joint_damping=quantities["damping"],
        joint_armature=quantities["armature"], joint_limit_low=quantities["limit_low"], joint_limit_high=quantities["limit_high"],
        joint_limit_stiffness=quantities["limit_stiffness"],
        motor_gain=gain, motor_limit=limit, servo_stiffness=stiffness, servo_damping=damping, action=action, servo_target=target,
        link_mass=torch.stack([body.mass(values) for body in bodies], dim=1),
        link_com=torch.stack([center_of(body, values) for body in bodies], dim=1),
        link_inertia=torch.stack([body.inertia(values) for body in bodies], dim=1),
        link_contact=torch.stack([body.contact(values) for body in bodies], dim=1),
        gravity=gravity_rows(values),
        link_wrench=gravity.new_zeros(worlds, frames, len(bodies), 6), link_bristle=_bristles(bodies, values), **dry_friction,
    )  # fmt: skip


def _bristles(bodies: Sequence[Body], values: Values) -> torch.Tensor | None:
    """[B, N] bristle stiffnesses of the bodies' contacts; None if no contact has one."""
    if not any(f"{body.contact_name}.bristle_stiffness" in values for body in bodies):
        return None
    return torch.stack([body.contact_option(values, "bristle_stiffness") for body in bodies], dim=1)


def center_of(body: Body, values: Values) -> torch.Tensor:
    """[B, 3] centre of mass in the link frame [m]; it is the origin of a rigid body's frame."""
    return body.center(values) if isinstance(body, Link) else torch.zeros_like(values[f"{body.name}.position"])


def centers_of_mass(
    bodies: Sequence[Body], values: Values, link_q: torch.Tensor, link_qd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Poses [B, T, N, 7] and velocities [B, T, N, 6] of the centres of mass from those of the link frames."""
    centers = torch.stack([center_of(body, values) for body in bodies], dim=1)[:, None]
    offsets = matrix_vector(rotation_matrix(link_q[..., 3:]), centers)
    angular_velocity = link_qd[..., 3:]
    body_q = torch.cat([link_q[..., :3] + offsets, link_q[..., 3:]], dim=-1)
    return body_q, torch.cat([link_qd[..., :3] + torch.linalg.cross(angular_velocity, offsets), angular_velocity], dim=-1)


def _joint_quantity(body: Body, values: Values, key: str) -> torch.Tensor:
    gravity = values["gravity"]
    if isinstance(body, Link) and key in body.parameter_names:
        return body.joint_quantity(values, key)
    count = body.joint.velocities if isinstance(body, Link) else 6
    default = {"limit_low": -torch.inf, "limit_high": torch.inf}.get(key, 0.0)
    return gravity.new_full((len(gravity), count), default)


def _start(body: Body, bodies: Sequence[Body], values: Values) -> torch.Tensor:
    return body.start(values, bodies) if isinstance(body, Link) else body.pose(values)


def _start_velocity(body: Body, bodies: Sequence[Body], values: Values) -> torch.Tensor:
    if isinstance(body, Link):
        return body.rate(values, bodies)
    velocity, rotation = body.velocity(values), rotation_matrix(body.pose(values)[:, 3:])
    return torch.cat([velocity[:, :3], matrix_vector(rotation.mT, velocity[:, 3:])], dim=1)


def _joint_frame(body: Body, bodies: Sequence[Body], values: Values) -> torch.Tensor:
    if not isinstance(body, Link):
        gravity = values["gravity"]
        return gravity.new_tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).expand(len(gravity), 7)
    parent = bodies[body.parent] if body.parent >= 0 else None
    return body.joint_frame(values, parent if isinstance(parent, Link) else None)
