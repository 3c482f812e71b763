"""Joint forces of springs, dampers, limits and motors, and their adjoint (Taichi functions)."""

from ti_sim.articulated.joints import has_limits, has_springs_and_servos
from ti_sim.articulated.tables import JOINT
from ti_sim.base.runtime import ti

# Width [m, rad] over which the spring of a limit sets in: as a fraction of the range between two limits, and for a single limit.
SOFT_FRACTION = 0.01
SOFT_WIDTH = 0.01


@ti.func
def soft_width(low, high):
    """Overshoot [m, rad] over which the spring of a limit sets in."""
    width = SOFT_FRACTION * (high - low)
    if ti.math.isinf(width):
        width = SOFT_WIDTH
    return width


@ti.func
def passive_force(world: ti.template(), b, d, kind, x, rate):
    """Force [N, N m] of spring and damper of joint velocity d at position x and velocity ``rate``."""
    stiffness = world.velocity[b, d, JOINT.stiffness]
    if not has_springs_and_servos(kind):
        stiffness = 0.0
    return -stiffness * (x - world.velocity[b, d, JOINT.rest]) - world.velocity[b, d, JOINT.damping] * rate


@ti.func
def passive_force_adjoint(world: ti.template(), bars: ti.template(), b, d, kind, x, rate, force_bar):
    """Adjoint of ``passive_force``: adds to the adjoints of row d, returns (x_bar, rate_bar)."""
    x_bar, damping = 0.0, world.velocity[b, d, JOINT.damping]
    bars.velocity[b, d, JOINT.damping] = bars.velocity[b, d, JOINT.damping] - rate * force_bar
    if has_springs_and_servos(kind):
        stiffness = world.velocity[b, d, JOINT.stiffness]
        x_bar -= stiffness * force_bar
        stretch = x - world.velocity[b, d, JOINT.rest]
        bars.velocity[b, d, JOINT.stiffness] = bars.velocity[b, d, JOINT.stiffness] - stretch * force_bar
        bars.velocity[b, d, JOINT.rest] = bars.velocity[b, d, JOINT.rest] + stiffness * force_bar
    return x_bar, -damping * force_bar


@ti.func
def limit_force(world: ti.template(), b, d, kind, x):
    """Force [N, N m] of the limits of joint velocity d at position x."""
    force = 0.0
    if has_limits(kind):
        low, high = world.velocity[b, d, JOINT.low], world.velocity[b, d, JOINT.high]
        if x < low:
            overshoot = low - x
            force = world.velocity[b, d, JOINT.limit_stiffness] * overshoot * overshoot / (overshoot + soft_width(low, high))
        elif x > high:
            overshoot = x - high
            force = -(world.velocity[b, d, JOINT.limit_stiffness] * overshoot * overshoot / (overshoot + soft_width(low, high)))
    return force


@ti.func
def limit_force_adjoint(world: ti.template(), bars: ti.template(), b, d, kind, x, force_bar):
    """Adjoint of ``limit_force``: adds to the adjoints of row d, returns x_bar."""
    x_bar = 0.0
    if has_limits(kind):
        low, high = world.velocity[b, d, JOINT.low], world.velocity[b, d, JOINT.high]
        if x < low or x > high:
            sign, overshoot = 1.0, low - x
            if x > high:
                sign, overshoot = -1.0, x - high
            limit_stiffness = world.velocity[b, d, JOINT.limit_stiffness]
            width = soft_width(low, high)
            ratio = overshoot / (overshoot + width)
            limit_stiffness_bar = sign * overshoot * ratio * force_bar
            bars.velocity[b, d, JOINT.limit_stiffness] = bars.velocity[b, d, JOINT.limit_stiffness] + limit_stiffness_bar
            overshoot_bar = sign * limit_stiffness * ratio * (2 - ratio) * force_bar
            x_bar -= sign * overshoot_bar
            low_bar, high_bar = overshoot_bar, 0.0
            if x > high:
                low_bar, high_bar = 0.0, -overshoot_bar
            if not ti.math.isinf(high - low):
                range_bar = -sign * SOFT_FRACTION * limit_stiffness * ratio * ratio * force_bar
                low_bar -= range_bar
                high_bar += range_bar
            bars.velocity[b, d, JOINT.low] = bars.velocity[b, d, JOINT.low] + low_bar
            bars.velocity[b, d, JOINT.high] = bars.velocity[b, d, JOINT.high] + high_bar
    return x_bar


@ti.func
def motor_force(world: ti.template(), b, frame, d, kind, x, rate):
    """Force [N, N m] of the motor of joint velocity d, servo included, at position x and velocity ``rate``."""
    servo_stiffness, motor_limit = world.velocity[b, d, JOINT.servo_stiffness], world.velocity[b, d, JOINT.motor_limit]
    if not has_springs_and_servos(kind):
        servo_stiffness = 0.0
    unclamped_force = (
        world.velocity[b, d, JOINT.gain] * world.action[b, frame, d]
        + servo_stiffness * (world.target[b, frame, d] - x)
        - world.velocity[b, d, JOINT.servo_damping] * rate
    )
    return ti.max(-motor_limit, ti.min(motor_limit, unclamped_force))


@ti.func
def motor_force_adjoint(world: ti.template(), bars: ti.template(), b, frame, d, kind, x, rate, force_bar):
    """Adjoint of ``motor_force``: adds to the adjoints of row d, action and target, returns (x_bar, rate_bar)."""
    x_bar, rate_bar = 0.0, 0.0
    servo_stiffness, motor_limit = world.velocity[b, d, JOINT.servo_stiffness], world.velocity[b, d, JOINT.motor_limit]
    if not has_springs_and_servos(kind):
        servo_stiffness = 0.0
    gain, action, target = world.velocity[b, d, JOINT.gain], world.action[b, frame, d], world.target[b, frame, d]
    servo_damping = world.velocity[b, d, JOINT.servo_damping]
    unclamped_force = gain * action + servo_stiffness * (target - x) - servo_damping * rate
    if unclamped_force > motor_limit:
        bars.velocity[b, d, JOINT.motor_limit] = bars.velocity[b, d, JOINT.motor_limit] + force_bar
    elif unclamped_force < -motor_limit:
        bars.velocity[b, d, JOINT.motor_limit] = bars.velocity[b, d, JOINT.motor_limit] - force_bar
    else:
        bars.velocity[b, d, JOINT.gain] = bars.velocity[b, d, JOINT.gain] + action * force_bar
        bars.action[b, frame, d] = bars.action[b, frame, d] + gain * force_bar
        bars.velocity[b, d, JOINT.servo_damping] = bars.velocity[b, d, JOINT.servo_damping] - rate * force_bar
        rate_bar -= servo_damping * force_bar
        if has_springs_and_servos(kind):
            bars.velocity[b, d, JOINT.servo_stiffness] = bars.velocity[b, d, JOINT.servo_stiffness] + (target - x) * force_bar
            bars.target[b, frame, d] = bars.target[b, frame, d] + servo_stiffness * force_bar
            x_bar -= servo_stiffness * force_bar
    return x_bar, rate_bar


@ti.func
def joint_force(world: ti.template(), b, frame, d, kind, x, rate):
    """Force [N, N m] of spring, damper, limits and motor of joint velocity d at position x and velocity ``rate``."""
    passive = passive_force(world, b, d, kind, x, rate)
    return passive + limit_force(world, b, d, kind, x) + motor_force(world, b, frame, d, kind, x, rate)


@ti.func
def joint_force_adjoint(world: ti.template(), bars: ti.template(), b, frame, d, kind, x, rate, force_bar):
    """Adjoint of ``joint_force``: adds to the adjoints of row d, action and target, returns (x_bar, rate_bar)."""
    x_bar, rate_bar = passive_force_adjoint(world, bars, b, d, kind, x, rate, force_bar)
    x_bar += limit_force_adjoint(world, bars, b, d, kind, x, force_bar)
    motor_x_bar, motor_rate_bar = motor_force_adjoint(world, bars, b, frame, d, kind, x, rate, force_bar)
    return x_bar + motor_x_bar, rate_bar + motor_rate_bar
