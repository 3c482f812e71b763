"""Dry friction of joints: at each joint velocity an elastic bristle that slips, and its adjoint (Taichi functions).

The bristle of a joint velocity with rate w has a deflection z [m, rad], a part of the state (Jenkin's element; Iwan, A
distributed-element model for hysteresis, 1966; with a damper as in Canudas de Wit et al., A new model for control of systems with
friction, 1995). With friction f_c, stiffness s and damping c, a step and the force are

    z <- clamp(z + dt w, -f_c / s, f_c / s)          force = -clamp(s z + c w, -f_c, f_c)

Below f_c the joint is held by a damped spring: it deflects by force / s, and does not creep. Beyond, the force is f_c against the
motion. A law that depends on the rate only, such as f_c tanh(w / w_0), creeps under every load. The deflections grow with the new
velocities,
as coordinates do in a semi-implicit step, so that a bristle that sticks is integrated exactly as the spring of a joint.

Both clamps have kinks, where the derivative is one-sided: that of slipping. A derivative with respect to f_c = 0 is a right-hand
one.

States [B, rows, Q + 2 D + D] hold the deflections after the accelerations, adjoints [B, rows, Q + D + D] after the velocities.
"""

from ti_sim.articulated.joints import has_springs_and_servos
from ti_sim.articulated.link_team import in_share, share
from ti_sim.articulated.tables import JOINT
from ti_sim.base.runtime import ti


@ti.func
def deflection_column(world: ti.template(), d):
    """Column of the deflection of joint velocity d in a row of states."""
    return world.coordinates + 2 * world.velocities + d


@ti.func
def deflection_bar_column(world: ti.template(), d):
    """Column of the adjoint of the deflection of joint velocity d in a row of adjoints."""
    return world.coordinates + world.velocities + d


@ti.func
def largest_deflection(world: ti.template(), b, d):
    """Deflection f_c / s at which a bristle slips [m, rad]; 0 without stiffness."""
    limit, stiffness = 0.0, world.velocity[b, d, JOINT.dry_stiffness]
    if stiffness > 0:
        limit = world.velocity[b, d, JOINT.dry_friction] / stiffness
    return limit


@ti.func
def dry_force(world: ti.template(), states: ti.template(), b, slot, kind, d):
    """Friction force [N, N m] on joint velocity d at the state in a row of ``states``; 0 for free joints."""
    force = 0.0
    if has_springs_and_servos(kind):
        z, velocity = states[b, slot, deflection_column(world, d)], states[b, slot, world.coordinates + d]
        limit = world.velocity[b, d, JOINT.dry_friction]
        bristle_force = world.velocity[b, d, JOINT.dry_stiffness] * z + world.velocity[b, d, JOINT.dry_damping] * velocity
        force = -ti.max(-limit, ti.min(limit, bristle_force))
    return force


@ti.func
def dry_force_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, kind, d, force_bar
):
    """Adjoint of ``dry_force``: adds to adjoints of row d of the table, and of velocity and deflection in a row of ``bar``."""
    if has_springs_and_servos(kind):
        z, velocity = states[b, slot, deflection_column(world, d)], states[b, slot, world.coordinates + d]
        limit, stiffness = world.velocity[b, d, JOINT.dry_friction], world.velocity[b, d, JOINT.dry_stiffness]
        damping = world.velocity[b, d, JOINT.dry_damping]
        bristle_force = stiffness * z + damping * velocity
        if ti.abs(bristle_force) < limit:
            bar_column, rate_column = deflection_bar_column(world, d), world.coordinates + d
            bars.velocity[b, d, JOINT.dry_stiffness] = bars.velocity[b, d, JOINT.dry_stiffness] - z * force_bar
            bars.velocity[b, d, JOINT.dry_damping] = bars.velocity[b, d, JOINT.dry_damping] - velocity * force_bar
            bar[b, row, bar_column] = bar[b, row, bar_column] - stiffness * force_bar
            bar[b, row, rate_column] = bar[b, row, rate_column] - damping * force_bar
        else:
            sign = ti.math.sign(bristle_force)
            bars.velocity[b, d, JOINT.dry_friction] = bars.velocity[b, d, JOINT.dry_friction] - sign * force_bar


@ti.func
def step_bristles(world: ti.template(), states: ti.template(), b, slot):
    """Step the deflections of all joints in a row of ``states``, with the velocities after the step, which that row holds."""
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        column, limit = deflection_column(world, d), largest_deflection(world, b, d)
        z = states[b, slot, column] + world.dt * states[b, slot, world.coordinates + d]
        states[b, slot, column] = ti.max(-limit, ti.min(limit, z))


@ti.func
def step_bristles_adjoint(world: ti.template(), states: ti.template(), bars: ti.template(), bar: ti.template(), b, slot, row):
    """Adjoint of ``step_bristles`` in place in a row of ``bar``, to be called before the adjoint of the step of the velocities.

    The deflections before the step are in ``slot`` of ``states``, the velocities after it in the next slot.
    """
    for k in range(share(world, world.velocities)):
        d = in_share(world, k)
        bar_column, rate_column = deflection_bar_column(world, d), world.coordinates + d
        z = states[b, slot, deflection_column(world, d)] + world.dt * states[b, slot + 1, rate_column]
        z_bar = bar[b, row, bar_column]
        if ti.abs(z) < largest_deflection(world, b, d):
            bar[b, row, rate_column] = bar[b, row, rate_column] + world.dt * z_bar
        else:
            bar[b, row, bar_column] = 0.0
            stiffness = world.velocity[b, d, JOINT.dry_stiffness]
            if stiffness > 0:
                friction_limit_bar = ti.math.sign(z) * z_bar / stiffness
                bars.velocity[b, d, JOINT.dry_friction] = bars.velocity[b, d, JOINT.dry_friction] + friction_limit_bar
                stiffness_bar = -friction_limit_bar * world.velocity[b, d, JOINT.dry_friction] / stiffness
                bars.velocity[b, d, JOINT.dry_stiffness] = bars.velocity[b, d, JOINT.dry_stiffness] + stiffness_bar


@ti.kernel
def initialise_bristles(bristle0: ti.types.ndarray(), states: ti.types.ndarray(), column: int):
    """Write the initial deflections [B, D] to slot 0 of states [B, slots, columns], from a column on."""
    for b, d in ti.ndrange(bristle0.shape[0], bristle0.shape[1]):
        states[b, 0, column + d] = bristle0[b, d]


@ti.kernel
def initialise_bristles_adjoint(bar: ti.types.ndarray(), bristle0_bar: ti.types.ndarray(), column: int):
    """Adjoint of ``initialise_bristles``: reads row 0 of bar [B, rows, columns]."""
    for b, d in ti.ndrange(bristle0_bar.shape[0], bristle0_bar.shape[1]):
        bristle0_bar[b, d] = bar[b, 0, column + d]
