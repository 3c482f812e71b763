"""Forces on rigid bodies."""

from __future__ import annotations

from risp_torch.scene.adding.rigid import body_index
from risp_torch.scene.arguments import Vector
from risp_torch.scene.parts.forces import AppliedForce
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.time_stepping import MAX_STEPS
from ti_sim.base.errors import UserError
from ti_sim.base.rules import NotNegative, Positive, checked


@checked
def add_force(
    scene: SceneSpec,
    name: str,
    *,
    body: str,
    start: NotNegative,
    duration: Positive,
    force: Vector | None = None,
    impulse: Vector | None = None,
    point: Vector = (0.0, 0.0, 0.0),
) -> None:
    """Add a constant force on a body over a time window.

    Args:
        scene: the scene.
        name: first part of its parameter names ("<name>.force" or "<name>.impulse", and "<name>.point").
        body: name of the body.
        start, duration: of the window [s]; the force acts in the physics steps that begin in it.
        force: world frame [N], or
        impulse: world frame [N s], distributed evenly over the window.
        point: point of application relative to the centre of mass, body frame [m].

    Raises:
        UserError: no such body, both or neither of force and impulse, or a window outside the simulated time.
    """
    index, dt = body_index(scene, body), scene.stepping.dt
    if (force is None) == (impulse is None):
        raise UserError(f"{name} needs a force or an impulse: give exactly one of the two")
    first_step, end_step = (round(min(time / dt, 2.0**62)) for time in (start, start + duration))
    if not first_step < end_step or first_step >= scene.frames * scene.stepping.substeps:
        raise UserError(f"{name} acts from {start} s for {duration} s: that is no physics step of {dt:.3g} s")
    kind, value, unit = ("force", force, "N") if force is not None else ("impulse", impulse, "N s")
    scale = 1.0 if kind == "force" else 1.0 / ((end_step - first_step) * dt)
    scene.table.add(f"{name}.{kind}", value, unit=unit, shape=(3,))
    scene.table.add(f"{name}.point", point, unit="m", shape=(3,))
    scene.applied_forces += (AppliedForce(name, index, first_step, min(end_step, MAX_STEPS), kind, scale),)
