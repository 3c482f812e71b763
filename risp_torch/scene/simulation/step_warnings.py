"""Warnings about bodies for which the physics step of a scene is too long, at the scene's own values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.links import Link
from risp_torch.scene.simulation.contact_steps import contact_rates, longest_step
from risp_torch.scene.spec import SceneSpec
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel
from ti_sim.articulated.single_state import mass_matrix
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.stable_step import stable_step
from ti_sim.shapes.contact_points import max_parameter_factor

_MAX_DRIFT = 0.05  # relative change of angular momentum above which there is a warning


def step_warnings(spec: SceneSpec) -> list[str]:
    """Warnings about bodies for which the physics step is too long at a scene's own values.

    A spring of stiffness ke on a mass m needs steps well below sqrt(m / ke), a tangential damper kf steps below m / kf;
    the same holds for linear drag, and for angular drag with the least moment of inertia instead of the mass. For the joint
    effect of several points of a face see ``contact_steps``; links, whose joints matter too, are not checked.
    """
    values, dt = spec.table.values(), spec.stepping.dt
    sentences, warned_names = [], set()
    for body in spec.bodies:
        mass = float(body.mass(values)[0])
        ke, kd, kf = (max_parameter_factor(body.points) * body.contact(values)[0, :3]).tolist()
        ke = max(ke, max_parameter_factor(body.points) * float(body.contact_option(values, "bristle_stiffness")[0]))
        if mass > 0 and len(body.points) and max(dt * math.sqrt(ke / mass), dt * kd / mass, dt * kf / mass) > 0.5:
            warned_names.add(body.name)
            sentences.append(
                f"the step of {dt:.3g} s is too long for the contact of {body.name!r} (mass {mass:.3g} kg, stiffness "
                f"{ke:.3g} N/m, damping {kd:.3g} and friction stiffness {kf:.3g} N s/m): take more substeps"
            )
        linear, angular = body.drag(values)[0].tolist()
        min_inertia = float(torch.linalg.eigvalsh(body.inertia(values)[0]).min())
        if dt * linear > 0.5 * mass or dt * angular > 0.5 * min_inertia:
            sentences.append(
                f"the step of {dt:.3g} s is too long for the drag of {body.name!r} (mass {mass:.3g} kg, linear drag "
                f"{linear:.3g} N s/m, least moment of inertia {min_inertia:.3g} kg m2, angular drag {angular:.3g} N m s): "
                "take more substeps"
            )
    steps = {name: step for name, step in _longest_contact_steps(spec, values).items() if name not in warned_names and step < dt}
    if steps:
        names, longest = ", ".join(repr(name) for name in steps), min(steps.values())
        sentences.append(
            f"the step of {dt:.3g} s is too long for the contact of {names}: the points of a face act together and "
            f"rotate the body. The contact is stable for steps up to about {longest:.3g} s, so take at least "
            f"{math.ceil(spec.frame_dt / longest)} substeps"
        )
    return sentences


def _longest_contact_steps(spec: SceneSpec, values: Values) -> dict[str, float]:
    """Longest step [s] for the contact of each rigid body with the ground and with others, at the scene's own values."""
    colliding = [body for body in spec.bodies if body.collision is not None]
    rates: dict[str, np.ndarray] = {}
    for body in spec.bodies:
        others = [other for other in colliding if other is not body] if body.collision is not None else []
        num_partners = len(others) + (len(body.points) > 0)
        if isinstance(body, Link) or num_partners == 0:
            continue
        contact = body.contact(values)[0]
        pairs = [0.5 * (contact + other.contact(values)[0]) for other in others]
        contact_parameters = torch.stack(pairs + [contact][: num_partners - len(others)])
        kt, *other_kts = (float(each.contact_option(values, "bristle_stiffness")[0]) for each in (body, *others))
        rates[body.name] = contact_rates(
            float(body.mass(values)[0]), body.inertia(values)[0].numpy(force=True).astype(np.float64),
            contact_parameters.amax(dim=0).numpy(force=True).astype(np.float64), body.points,
            body.collision if others else None, num_partners,
            bristle=max([0.5 * (kt + other_kt) for other_kt in other_kts] + [kt][: num_partners - len(others)]),
        )  # fmt: skip
    steps = {}
    for name, body_rates in rates.items():
        other_rates = [rates[other.name] for other in colliding if other.name in rates and other.name != name]
        if other_rates and any(body.name == name for body in colliding):
            body_rates = body_rates + min(other_rates, key=lambda pair: longest_step(*pair))  # both move
        steps[name] = longest_step(*body_rates)
    return steps


def spin_warnings(spec: SceneSpec, model: ArticulatedModel) -> list[str]:
    """A warning for each free body with moving links that spins so fast that semi-implicit steps change its angular momentum.

    At an angular velocity w the angular momentum changes by up to about w^2 dt T / 2 relative to its value over a time T (a
    seventh to all of this for two joined boxes), at the scene's own values.

    Args:
        spec: of the scene.
        model: of its articulated bodies.
    """
    stepping, values = spec.stepping, spec.table.values()
    if stepping.integrator != "semi_implicit":
        return []
    sentences, duration = [], spec.frames * spec.frame_dt
    for k in np.flatnonzero(model.is_floating_base):
        body = spec.bodies[k]
        angular_speed = float(
            (body.rate(values, spec.bodies) if isinstance(body, Link) else body.velocity(values)[:, 3:])[0].norm()
        )
        drift = 0.5 * angular_speed**2 * stepping.dt * duration
        if drift > _MAX_DRIFT:
            sentences.append(
                f"{body.name!r} spins at {angular_speed:.3g} rad/s and has moving links: semi-implicit steps of "
                f"{stepping.dt:.3g} s change its angular momentum by up to about {100 * drift:.3g} % in {duration:.3g} s, so use "
                f"integrator 'rk4', or at least {math.ceil(stepping.substeps * drift / _MAX_DRIFT)} substeps"
            )
    return sentences


def dry_friction_warnings(spec: SceneSpec, model: ArticulatedModel, inputs: ArticulatedInputs) -> list[str]:
    """A warning if the physics step is too long for the spring and damper with which joints of dry friction stick.

    With the inertia m that moves when the joint moves and all others are free, a stiffness k needs steps well below sqrt(m / k),
    a damping c steps below m / c. 1 / m is an entry on the diagonal of the inverse of the mass matrix, here that at the start.

    Args:
        spec: of the scene.
        model: of its articulated bodies.
        inputs: the solver's arrays at the scene's own values.
    """
    if not inputs.has_dry_friction:
        return []
    detached_inputs = inputs.with_arrays(array.detach().contiguous() for array in inputs.arrays())
    inertia = mass_matrix(model, detached_inputs, detached_inputs.joint_q0)[0].numpy(force=True).astype(np.float64)
    mobility, dt = np.abs(np.diag(np.linalg.inv(inertia))), spec.stepping.dt
    friction, stiffness, damping = (
        array[0].numpy(force=True)
        for array in (detached_inputs.joint_dry_friction, detached_inputs.joint_dry_stiffness, detached_inputs.joint_dry_damping)
    )
    phase = np.where(friction > 0, dt * np.maximum(np.sqrt(stiffness * mobility), damping * mobility), 0.0)
    names = dict.fromkeys(repr(model.link_names[model.velocity_link[d]]) for d in np.flatnonzero(phase > 0.5))
    if not names:
        return []
    return [
        f"the step of {dt:.3g} s is too long for the dry friction of the joints of {', '.join(names)}: take at least "
        f"{math.ceil(spec.stepping.substeps * phase.max() / 0.5)} substeps, or a lower dry_stiffness or dry_damping"
    ]


def deformable_step_warnings(spec: SceneSpec, model: DeformableModel, inputs: DeformableInputs) -> list[str]:
    """A warning if the explicit physics step is too long for the deformable bodies (``stable_step``).

    Args:
        spec: of the scene.
        model: of its deformable bodies.
        inputs: the solver's arrays at the scene's own values.
    """
    if spec.stepping.is_implicit:
        return []
    values, dt = spec.table.values(), spec.stepping.dt
    contact_particles = colliding_particles(spec)
    if len(contact_particles):  # also against the stiffest body, as against a ground with its contact parameters
        max_contact = torch.stack([body.contact(values) for body in spec.bodies if body.collision is not None]).amax(dim=0)
        material = inputs.particle_contact.clone()
        material[:, contact_particles] = torch.maximum(
            material[:, contact_particles], 0.5 * (material[:, contact_particles] + max_contact[:, None])
        )
        model = replace(model, contact=np.union1d(model.contact, contact_particles).astype(np.int64))
        inputs = replace(inputs, particle_contact=material)
    longest = stable_step(model, inputs)
    if dt <= longest:
        return []
    names, substeps = ", ".join(repr(deformable.name) for deformable in spec.deformables), spec.frame_dt / longest
    return [
        f"the step of {dt:.3g} s is too long for {names}: the longest stable step of elements and contacts at the start is about "
        f"{longest:.3g} s, so take at least {math.ceil(substeps)} substeps, better {math.ceil(1.2 * substeps)}"
    ]


def colliding_particles(spec: SceneSpec) -> np.ndarray:
    """[M] surface particles with contact parameters in a scene with colliding bodies; none in other scenes."""
    in_contact = [deformable for deformable in spec.deformables if deformable.contact_name is not None]
    surface_particles = [deformable.surface_particles + deformable.first_particle for deformable in in_contact]
    if not surface_particles or all(body.collision is None for body in spec.bodies):
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(surface_particles)
