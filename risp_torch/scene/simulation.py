"""How a scene moves: its solver, the solver's arrays, and rollouts of a batch of worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from risp_torch import bridge
from risp_torch.bridge.checks import bridge_device
from risp_torch.scene.articulation import (
    articulated_inputs,
    articulated_model,
    centers_of_mass,
    check_collision_shapes,
)
from risp_torch.scene.numbers import Values, gravity_rows
from risp_torch.scene.rotors import body_wrench, group_actions
from ti_sim.adjoint import Adjoint
from ti_sim.articulated.instant import forward_kinematics
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.rigid.model import RigidInputs, RigidModel
from ti_sim.rigid.solver import RigidSolver

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene


@dataclass(frozen=True)
class States:
    """Motion of a batch of worlds at the frames.

    Attributes:
        body_q: [B, T, N, 7] positions of the centres of mass [m] and quaternions (x, y, z, w); frame 0 is the start.
        body_qd: [B, T, N, 6] velocities [m/s] and angular velocities [rad/s], world frame.
        diverged_step: [B, N] int32, first physics step with a number that is not finite or a centre of mass beyond the scene's
            max_distance, -1 where there is none.
        joint_q: [B, T, Q] coordinates of all joints [m, rad, quaternions] in a scene with links (``ArticulatedModel``); None in
            others.
        joint_qd: [B, T, D] velocities of all joints [m/s, rad/s]; None in scenes without links.
    """

    body_q: torch.Tensor
    body_qd: torch.Tensor
    diverged_step: torch.Tensor
    joint_q: torch.Tensor | None = None
    joint_qd: torch.Tensor | None = None

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


def rigid_solver(scene: Scene) -> RigidSolver:
    """The solver of a scene of free rigid bodies."""
    model = RigidModel(
        body_names=tuple(b.name for b in scene.bodies),
        contact_points=tuple(b.points for b in scene.bodies),
        force_body=tuple(f.body for f in scene.forces),
        force_steps=tuple((f.first_step, f.last_step) for f in scene.forces),
        ground_height=scene.ground_height or 0.0,
        driven=scene.driven,
    )
    return RigidSolver(model, scene.settings)


def articulated_solver(scene: Scene) -> ArticulatedSolver:
    """The solver of a scene with links.

    Raises:
        UserError: the scene has what this solver does not.
    """
    if scene.forces or scene.driven or math.isfinite(scene.settings.max_distance):
        raise UserError(
            "a scene with links, or with bodies that meet others, has no applied forces, rotors, drag or max_distance: leave "
            "them out, or drive joints with add_motors"
        )
    given = scene.settings
    settings = ArticulatedSettings(dt=given.dt, substeps=given.substeps, integrator=given.integrator)
    model = articulated_model(scene.bodies, scene.table.values(), ground_height=scene.ground_height or 0.0)
    return ArticulatedSolver(model, settings)


def step_warnings(scene: Scene) -> list[str]:
    """Sentences about bodies for which the physics step is too long at a scene's own values.

    A spring of stiffness ke on a mass m needs steps well below sqrt(m / ke), a tangential damper kf steps below m / kf, and
    so do linear drag, and angular drag with the least moment of inertia in place of the mass.
    """
    values, dt = scene.table.values(), scene.settings.dt
    sentences = []
    for body in scene.bodies:
        mass = float(body.mass(values)[0])
        ke, kd, kf, _mu = body.contact(values)[0].tolist()
        if mass > 0 and len(body.points) and max(dt * math.sqrt(ke / mass), dt * kd / mass, dt * kf / mass) > 0.5:
            sentences.append(
                f"the step of {dt:.3g} s is too long for the contact of {body.name!r} (mass {mass:.3g} kg, stiffness "
                f"{ke:.3g} N/m, damping {kd:.3g} and friction stiffness {kf:.3g} N s/m): take more substeps"
            )
        linear, angular = body.drag(values)[0].tolist()
        least = float(torch.linalg.eigvalsh(body.inertia(values)[0]).min())
        if dt * linear > 0.5 * mass or dt * angular > 0.5 * least:
            sentences.append(
                f"the step of {dt:.3g} s is too long for the drag of {body.name!r} (mass {mass:.3g} kg, linear drag "
                f"{linear:.3g} N s/m, least moment of inertia {least:.3g} kg m2, angular drag {angular:.3g} N m s): "
                "take more substeps"
            )
    return sentences


def rigid_inputs(scene: Scene, values: Values, *, frames: int, actions: torch.Tensor | None) -> RigidInputs:
    """The rigid solver's arrays (arguments: ``Scene.rigid_inputs``)."""
    stack = torch.stack
    if actions is not None and not scene.rotors:
        raise UserError("there are actions, and the scene has no rotors: leave them out, or add rotors with add_rotors")
    some = values["gravity"]
    forces = [values[f"{f.name}.{f.kind}"] * f.scale for f in scene.forces] or [some.new_zeros(some.shape[0], 3)]
    points = [values[f"{f.name}.point"] for f in scene.forces] or [some.new_zeros(some.shape[0], 3)]
    rows = group_actions(scene.rotors, values, actions, frames)
    wrench = body_wrench(scene.rotors, values, rows, bodies=len(scene.bodies), frames=frames) if scene.driven else None
    return RigidInputs(
        body_q0=stack([b.pose(values) for b in scene.bodies], 1),
        body_qd0=stack([b.velocity(values) for b in scene.bodies], 1),
        body_mass=stack([b.mass(values) for b in scene.bodies], 1),
        body_inertia=stack([b.inertia(values) for b in scene.bodies], 1),
        body_material=stack([b.contact(values) for b in scene.bodies], 1),
        gravity=gravity_rows(values),
        body_force=stack(forces, 1),
        force_point=stack(points, 1),
        body_wrench=wrench,
        body_drag=stack([b.drag(values) for b in scene.bodies], 1) if scene.driven else None,
    )


def rigid_rollout(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None, frames: int,
    actions: torch.Tensor | None, state0: tuple[torch.Tensor, torch.Tensor] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene of free rigid bodies (arguments: ``Scene.rollout``)."""
    solver = scene.solver()
    actions, worlds = _action_rows(actions, worlds)
    replaced = [name for group in scene.rotors if (name := f"{group.name}.actions") in (parameters or {})]
    if actions is not None and replaced:
        raise UserError(f"the actions are given twice, as {replaced[0]} and as actions: leave one of the two out")
    inputs = rigid_inputs(scene, scene.table.values(parameters, worlds=worlds), frames=frames, actions=actions)
    if state0 is not None:
        inputs = replace(inputs, body_q0=state0[0], body_qd0=state0[1])
    body_q, body_qd, diverged, left = bridge.rollout(solver, inputs, frames, adjoint=adjoint)
    if (diverged >= 0).any():
        solver.check_divergence_steps(diverged, left)
    return States(body_q, body_qd, diverged)


def articulated_rollout(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None, frames: int,
    actions: torch.Tensor | None, state0: tuple[torch.Tensor, torch.Tensor] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene with links (arguments: ``Scene.rollout``)."""
    actions, worlds = _action_rows(actions, worlds)
    if actions is not None and not scene.motors:
        raise UserError("there are actions, and the scene has no motors: leave them out, or add motors with add_motors")
    values = scene.table.values(parameters, worlds=worlds)
    check_collision_shapes(scene.bodies, scene.solver().model, values)
    inputs = articulated_inputs(scene.bodies, scene.motors, values, frames=frames, actions=actions)
    if state0 is not None:
        inputs = replace(inputs, joint_q0=state0[0], joint_qd0=state0[1])
    joint_q, joint_qd, link_q, link_qd, diverged = bridge.articulated_rollout(scene.solver(), inputs, frames, adjoint=adjoint)
    body_q, body_qd = centers_of_mass(scene.bodies, values, link_q, link_qd)
    return States(body_q, body_qd, diverged, joint_q, joint_qd)


def poses_of_joints(scene: Scene, values: Values, joint_q: torch.Tensor) -> torch.Tensor:
    """Poses [B, N, 7] of the centres of mass for joint coordinates (m, unit quaternions); without gradient.

    Args:
        scene: with links.
        values: parameters [B, ...].
        joint_q: [B, Q] coordinates of all joints (``ArticulatedModel``).
    """
    inputs = articulated_inputs(scene.bodies, scene.motors, values, frames=1, actions=None)
    given = ArticulatedInputs(*(array.detach().contiguous() for array in inputs.arrays()))
    joint_q = joint_q.detach().contiguous()
    link_q, link_qd = forward_kinematics(scene.solver().model, given, joint_q, torch.zeros_like(given.joint_qd0))
    return centers_of_mass(scene.bodies, values, link_q[:, None], link_qd[:, None])[0][:, 0].detach()


def _action_rows(actions: Any, worlds: int | None) -> tuple[torch.Tensor | None, int | None]:
    """Actions as a tensor of the runtime, and the number of worlds that they tell."""
    if actions is None:
        return None, worlds
    rows = torch.as_tensor(actions, dtype=bridge.bridge_dtype(), device=bridge_device())
    return rows, rows.shape[0] if worlds is None and rows.ndim == 3 and rows.shape[0] > 1 else worlds
