"""How a scene moves: its solver, the solver's arrays, and rollouts of a batch of worlds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch.scene import bridge
from risp_torch.scene.adaptive import adaptive_rollout
from risp_torch.scene.articulation import (
    articulated_inputs,
    articulated_model,
    centers_of_mass,
    check_collision_shapes,
)
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.bridge.once import once
from risp_torch.scene.contact_steps import contact_rates, longest_step
from risp_torch.scene.deformation import deformable_inputs, deformable_model
from risp_torch.scene.links import Link
from risp_torch.scene.numbers import Values, gravity_rows
from risp_torch.scene.rotors import body_wrench, group_actions
from risp_torch.scene.self_contact import check_start
from risp_torch.scene.states import States
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedSettings
from ti_sim.articulated.single_state import forward_kinematics
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.errors import UserError
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.solver import CoupledSolver
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableSettings
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.deformable.stable_step import stable_step
from ti_sim.rigid.model import RigidInputs, RigidModel
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Adjoint
from ti_sim.shapes.contact_points import largest_share
from ti_sim.shapes.mass import possible_inertia

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

_DRIFT = 0.05  # of an angular momentum, of which is told


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


def deformable_solver(scene: Scene) -> DeformableSolver:
    """The solver of a scene's deformable bodies.

    Raises:
        UserError: the scene has what this solver does not.
    """
    if scene.settings.integrator != "semi_implicit":
        raise UserError(
            f"deformable bodies move by semi-implicit Euler steps, and the scene has integrator {scene.settings.integrator!r}: "
            "leave it out"
        )
    met = scene.ground_height is not None or any(body.collision is not None for body in scene.bodies)
    for part in scene.deformables:
        if part.material is not None and not met:
            raise UserError(
                f"{part.name} has a contact material and meets nothing: the scene has no ground (call add_ground first), and no "
                "body with collision"
            )
    if scene.self_contact is not None:
        check_start(scene.self_contact, scene.deformables, scene.table.values())
    model = deformable_model(
        scene.deformables, scene.loads, ground_height=scene.ground_height, self_contact=scene.self_contact
    )
    given = scene.settings
    return DeformableSolver(model, DeformableSettings(dt=given.dt, substeps=given.substeps, plan=given.plan))


def step_warnings(scene: Scene) -> list[str]:
    """Sentences about bodies for which the physics step is too long at a scene's own values.

    A spring of stiffness ke on a mass m needs steps well below sqrt(m / ke), a tangential damper kf steps below m / kf, and
    so do linear drag, and angular drag with the least moment of inertia in place of the mass. What several points of a face do
    together, and how they turn a body, says ``contact_steps``; of links their joints decide that, and it is left out.
    """
    values, dt = scene.table.values(), scene.settings.dt
    sentences, stiff = [], set()
    for body in scene.bodies:
        mass = float(body.mass(values)[0])
        ke, kd, kf = (largest_share(body.points) * body.contact(values)[0, :3]).tolist()
        if mass > 0 and len(body.points) and max(dt * math.sqrt(ke / mass), dt * kd / mass, dt * kf / mass) > 0.5:
            stiff.add(body.name)
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
    steps = {name: step for name, step in _longest_contact_steps(scene, values).items() if name not in stiff and step < dt}
    if steps:
        names, longest = ", ".join(repr(name) for name in steps), min(steps.values())
        sentences.append(
            f"the step of {dt:.3g} s is too long for the contact of {names}: the points of a face act together, and turn what "
            f"they touch, which bears steps of up to about {longest:.3g} s, so take at least "
            f"{math.ceil(scene.frame_dt / longest)} substeps"
        )
    return sentences


def _longest_contact_steps(scene: Scene, values: Values) -> dict[str, float]:
    """Longest step [s] for the contact of each rigid body with the ground and with others, at the scene's own values."""
    meeting = [body for body in scene.bodies if body.collision is not None]
    rates: dict[str, np.ndarray] = {}
    for body in scene.bodies:
        others = [other for other in meeting if other is not body] if body.collision is not None else []
        partners = len(others) + (len(body.points) > 0)
        if isinstance(body, Link) or partners == 0:
            continue
        own = body.contact(values)[0]
        material = torch.stack([0.5 * (own + other.contact(values)[0]) for other in others] + [own][: partners - len(others)])
        rates[body.name] = contact_rates(
            float(body.mass(values)[0]), body.inertia(values)[0].numpy(force=True).astype(np.float64),
            material.amax(dim=0).numpy(force=True).astype(np.float64), body.points, body.collision if others else None, partners,
        )  # fmt: skip
    steps = {}
    for name, own in rates.items():
        others = [rates[other.name] for other in meeting if other.name in rates and other.name != name]
        if others and any(body.name == name for body in meeting):
            own = own + min(others, key=lambda one: longest_step(*one))  # both move
        steps[name] = longest_step(*own)
    return steps


def spin_warnings(scene: Scene) -> list[str]:
    """A sentence for each free body that carries moving links and spins so fast that semi-implicit steps change its momentum.

    At an angular velocity w the angular momentum changes by up to about w^2 dt T / 2 of itself over a time T (a seventh to all of
    that in two boxes on one another); at the scene's own values.
    """
    settings, values = scene.settings, scene.table.values()
    if not scene.articulated or settings.integrator != "semi_implicit":
        return []
    sentences, time = [], scene.frames * scene.frame_dt
    for k in np.flatnonzero(scene.solver().model.has_moving_children):
        body = scene.bodies[k]
        spin = float((body.number(values, "rate") if isinstance(body, Link) else body.velocity(values)[:, 3:])[0].norm())
        drift = 0.5 * spin**2 * settings.dt * time
        if drift > _DRIFT:
            sentences.append(
                f"{body.name!r} spins at {spin:.3g} rad/s and carries links that move: semi-implicit steps of "
                f"{settings.dt:.3g} s change its angular momentum by up to about {100 * drift:.3g} % in {time:.3g} s, so use "
                f"integrator 'rk4', or at least {math.ceil(settings.substeps * drift / _DRIFT)} substeps"
            )
    return sentences


def deformable_step_warnings(scene: Scene) -> list[str]:
    """A sentence where the physics step is too long for the deformable bodies at a scene's own values (``stable_step``)."""
    values, dt = scene.table.values(), scene.settings.dt
    model, inputs = scene.deformable_solver().model, deformable_inputs(
        scene.deformables, scene.loads, values, frames=1, controls=scene.controls
    )
    meeting = meeting_particles(scene)
    if len(meeting):  # against the hardest body, too, as against a ground of its material
        hardest = torch.stack([body.contact(values) for body in scene.bodies if body.collision is not None]).amax(dim=0)
        material = inputs.particle_contact.clone()
        material[:, meeting] = torch.maximum(material[:, meeting], 0.5 * (material[:, meeting] + hardest[:, None]))
        model = replace(model, contact=np.union1d(model.contact, meeting).astype(np.int64))
        inputs = replace(inputs, particle_contact=material)
    longest = stable_step(model, inputs)
    if dt <= longest:
        return []
    names, substeps = ", ".join(repr(part.name) for part in scene.deformables), scene.frame_dt / longest
    return [
        f"the step of {dt:.3g} s is too long for {names}: the longest that elements and contacts bear at the start is about "
        f"{longest:.3g} s, so take at least {math.ceil(substeps)} substeps, better {math.ceil(1.2 * substeps)}"
    ]


def motion(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None, frames: int,
    actions: torch.Tensor | None, state0: tuple[torch.Tensor, ...] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene (arguments: ``Scene.rollout``)."""
    _warn_of_inertias(parameters)
    actions, worlds = _action_rows(actions, worlds)
    bodies = articulated_rollout if scene.articulated else rigid_rollout
    meeting = meeting_particles(scene)
    needed = 2 * (bool(scene.bodies) + bool(scene.deformables))
    if state0 is not None and len(state0) != needed:
        raise UserError(f"state0 has {len(state0)} arrays, and this scene needs {needed}: see Scene.rollout")
    own, particles = (None, None) if state0 is None else (state0[:2], state0[-2:])
    if not scene.deformables:
        return bodies(scene, parameters, worlds=worlds, frames=frames, actions=actions, state0=own, adjoint=adjoint)
    if len(meeting):
        return coupled_rollout(
            scene, parameters, meeting, worlds=worlds, frames=frames, actions=actions, state0=state0, adjoint=adjoint
        )
    soft = deformable_rollout(scene, parameters, worlds=worlds, frames=frames, state0=particles, adjoint=adjoint)
    if not scene.bodies:
        if actions is not None:
            raise UserError("there are actions, and the scene has no rotors and no motors: leave them out")
        return soft
    stiff = bodies(scene, parameters, worlds=worlds, frames=frames, actions=actions, state0=own, adjoint=adjoint)
    return replace(
        stiff, particle_q=soft.particle_q, particle_qd=soft.particle_qd,
        diverged_step=torch.cat([stiff.diverged_step, soft.diverged_step], dim=1),
    )  # fmt: skip


def _warn_of_inertias(parameters: Mapping[str, torch.Tensor] | None) -> None:
    """Say so where given inertias are none that bodies can have; a scene's own were checked when they were written."""
    for name, value in (parameters or {}).items():
        if name.endswith((".inertia", ".inertia_per_mass")):
            inertia = np.asarray(torch.as_tensor(value).detach().cpu(), dtype=np.float64)
            if inertia.shape[-2:] == (3, 3) and not possible_inertia(inertia).all():
                warnings.warn(
                    f"{name} has values that no body can have: a principal moment below zero, or above the sum of the other two",
                    stacklevel=5,
                )


def deformable_rollout(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None, frames: int,
    state0: tuple[torch.Tensor, torch.Tensor] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene's deformable bodies (arguments: ``Scene.rollout``)."""
    solver = scene.deformable_solver()
    inputs = _particle_inputs(scene, scene.table.values(parameters, worlds=worlds), frames=frames, state0=state0)
    roll = partial(adaptive_rollout, controls=scene.controls) if scene.adaptive else bridge.rollout
    particle_q, particle_qd, diverged = roll(solver, inputs, frames, adjoint=adjoint)
    shape = particle_q.shape[:2]
    return States(
        particle_q.new_zeros(*shape, 0, 7), particle_q.new_zeros(*shape, 0, 6), diverged,
        particle_q=particle_q, particle_qd=particle_qd,
    )  # fmt: skip


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
        body_contact=stack([b.contact(values) for b in scene.bodies], 1),
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
    replaced = [name for group in scene.rotors if (name := f"{group.name}.actions") in (parameters or {})]
    if actions is not None and replaced:
        raise UserError(f"the actions are given twice, as {replaced[0]} and as actions: leave one of the two out")
    inputs = rigid_inputs(scene, scene.table.values(parameters, worlds=worlds), frames=frames, actions=actions)
    if state0 is not None:
        inputs = replace(inputs, body_q0=state0[0], body_qd0=state0[1])
    return States(*bridge.rollout(solver, inputs, frames, adjoint=adjoint))


def articulated_rollout(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, *, worlds: int | None, frames: int,
    actions: torch.Tensor | None, state0: tuple[torch.Tensor, torch.Tensor] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene with links (arguments: ``Scene.rollout``)."""
    values = scene.table.values(parameters, worlds=worlds)
    inputs = _link_inputs(scene, values, frames=frames, actions=actions, state0=state0)
    joint_q, joint_qd, link_q, link_qd, diverged = bridge.rollout(scene.solver(), inputs, frames, adjoint=adjoint)
    body_q, body_qd = centers_of_mass(scene.bodies, values, link_q, link_qd)
    return States(body_q, body_qd, diverged, joint_q, joint_qd)


def meeting_particles(scene: Scene) -> np.ndarray:
    """Particles of surfaces with a contact material, in a scene with bodies that meet others (those have ``collision``)."""
    chosen = [part.touching + part.first for part in scene.deformables if part.material is not None]
    if not chosen or all(body.collision is None for body in scene.bodies):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(chosen)


def coupled_rollout(
    scene: Scene, parameters: Mapping[str, torch.Tensor] | None, meeting: np.ndarray, *, worlds: int | None, frames: int,
    actions: torch.Tensor | None, state0: tuple[torch.Tensor, ...] | None, adjoint: Adjoint | None,
) -> States:  # fmt: skip
    """The motion of a scene whose particles ``meeting`` meet bodies (other arguments: ``Scene.rollout``)."""
    thickness = np.concatenate([np.full(part.count, part.thickness) for part in scene.deformables])
    solver = CoupledSolver(
        CoupledModel(scene.solver().model, scene.deformable_solver().model, meeting, 0.5 * thickness[meeting]),
        CoupledSettings(scene.settings.dt, scene.settings.substeps),
    )
    values = scene.table.values(parameters, worlds=worlds)
    own, particles = (None, None) if state0 is None else (state0[:2], state0[2:])
    inputs = CoupledInputs(
        _link_inputs(scene, values, frames=frames, actions=actions, state0=own),
        _particle_inputs(scene, values, frames=frames, state0=particles),
    )
    joint_q, joint_qd, link_q, link_qd, particle_q, particle_qd, diverged = bridge.rollout(
        solver, inputs, frames, adjoint=adjoint
    )
    body_q, body_qd = centers_of_mass(scene.bodies, values, link_q, link_qd)
    return States(body_q, body_qd, diverged, joint_q, joint_qd, particle_q, particle_qd)


def _link_inputs(
    scene: Scene, values: Values, *, frames: int, actions: torch.Tensor | None, state0: tuple[torch.Tensor, ...] | None
) -> ArticulatedInputs:
    """The articulated solver's arrays (arguments: ``Scene.rollout``)."""
    if actions is not None and not scene.motors:
        raise UserError("there are actions, and the scene has no motors: leave them out, or add motors with add_motors")
    check_collision_shapes(scene.bodies, scene.solver().model, values)
    inputs = articulated_inputs(scene.bodies, scene.motors, values, frames=frames, actions=actions)
    return inputs if state0 is None else replace(inputs, joint_q0=state0[0], joint_qd0=state0[1])


def _particle_inputs(
    scene: Scene, values: Values, *, frames: int, state0: tuple[torch.Tensor, ...] | None
) -> DeformableInputs:
    """The deformable solver's arrays (arguments: ``Scene.rollout``)."""
    inputs = deformable_inputs(scene.deformables, scene.loads, values, frames=frames, controls=scene.controls)
    return inputs if state0 is None else replace(inputs, particle_q0=state0[0], particle_qd0=state0[1])


def poses_of_joints(scene: Scene, values: Values, joint_q: torch.Tensor) -> torch.Tensor:
    """Poses [B, N, 7] of the centres of mass for joint coordinates (m, unit quaternions); a derivative raises RuntimeError.

    Args:
        scene: with links.
        values: parameters [B, ...].
        joint_q: [B, Q] coordinates of all joints (``ArticulatedModel``).
    """
    inputs = articulated_inputs(scene.bodies, scene.motors, values, frames=1, actions=None)

    def poses() -> tuple[torch.Tensor]:
        given = ArticulatedInputs(*(array.detach().contiguous() for array in inputs.arrays()))
        at = joint_q.detach().contiguous()
        link_q, link_qd = forward_kinematics(scene.solver().model, given, at, torch.zeros_like(given.joint_qd0))
        return (centers_of_mass(scene.bodies, values, link_q[:, None], link_qd[:, None])[0][:, 0],)

    error = RuntimeError("trying to differentiate poses at the start of links: take the first frame of Scene.rollout for that")
    return once(poses, error, joint_q, *inputs.arrays(), *values.values())[0]


def _action_rows(actions: Any, worlds: int | None) -> tuple[torch.Tensor | None, int | None]:
    """Actions as a tensor of the runtime, and the number of worlds that they tell."""
    if actions is None:
        return None, worlds
    rows = torch.as_tensor(actions, dtype=bridge.bridge_dtype(), device=bridge_device())
    return rows, rows.shape[0] if worlds is None and rows.ndim == 3 and rows.shape[0] > 1 else worlds
