"""One body of one world in a kernel: its parameters, state, motion and load, with adjoints (Taichi functions).

The bundles hold local variables of a kernel. Functions receive them as ``ti.template()`` arguments, which passes references, and
change them in place: assign to the fields, never to the name of a bundle.
"""

from typing import Any

from ti_sim.base.bundles import bundle
from ti_sim.base.rows import Row
from ti_sim.base.runtime import ti
from ti_sim.base.team_sums import team_sum
from ti_sim.base.vecmath import angular_velocity, mat3, rotation_matrix, vec2, vec3, vec4
from ti_sim.rigid.arrays import CONTACT_SIZE, DRAG, load_contact, load_gravity, zero_contact

# Columns of a ``LoadInputsAdjoint`` of contact forces, which lanes sum.
LOAD_INPUTS = Row(rotation=9, velocity=3, angular_velocity=3, height=1, contact=CONTACT_SIZE, force_dot_bar=1)


@bundle
class Body:
    """Parameters of a body.

    Attributes:
        world, index: numbers of its world and of the body.
        mass: [kg].
        inverse_inertia: 3 x 3, in the body's frame [1 / (kg m2)].
        contact: numbers of its contact (``load_contact``).
        gravity: 3-vector [m/s2].
        drag: linear [N s/m] and angular [N m s], 2-vector; zeros in a model without wrenches.
        first_point, past_point: range of its contact points.
        thread: ``TeamThread`` that computes the body. All lanes of its group compute the same state; each computes its share of
            the contact points, and the first adds to the adjoints of the inputs.
    """

    world: Any
    index: Any
    mass: Any
    inverse_inertia: Any
    contact: Any
    gravity: Any
    drag: Any
    first_point: Any
    past_point: Any
    thread: Any


@bundle
class ParameterAdjoint:
    """Sums of the adjoints of the parameters of a body (see ``Body``)."""

    mass: Any
    inverse_inertia: Any
    contact: Any
    gravity: Any
    drag: Any


@bundle
class BodyState:
    """State of a body, its adjoint, or its rate.

    Attributes:
        position: of the centre of mass [m].
        quaternion: unit quaternion (x, y, z, w).
        velocity: of the centre of mass [m/s].
        momentum: angular momentum about the centre of mass, world axes [kg m2/s].
    """

    position: Any
    quaternion: Any
    velocity: Any
    momentum: Any


@bundle
class Motion:
    """Motion of a body, which its loads read, or the adjoint of the motion.

    Attributes:
        rotation: rotation matrix.
        velocity: of the centre of mass [m/s].
        angular_velocity: world axes [rad/s].
        height: z of the centre of mass [m].
    """

    rotation: Any
    velocity: Any
    angular_velocity: Any
    height: Any


@bundle
class Wrench:
    """Force [N] and torque about the centre of mass [N m], or their adjoints."""

    force: Any
    torque: Any


@bundle
class LoadInputsAdjoint:
    """Sums of the adjoints of the inputs of a load.

    Attributes:
        rotation, velocity, angular_velocity, height: of the motion.
        contact, drag: of the body's parameters.
        force_dot_bar: sum of force · adjoint of the force, from which the adjoint of the mass follows.
    """

    rotation: Any
    velocity: Any
    angular_velocity: Any
    height: Any
    contact: Any
    drag: Any
    force_dot_bar: Any


@ti.func
def load_inertia(body_inertia: ti.template(), b, n):
    """Inertia [kg m2] of body n of world b from a [B, N, 3, 3] array."""
    inertia = mat3(0.0)
    for i, j in ti.static(ti.ndrange(3, 3)):
        inertia[i, j] = body_inertia[b, n, i, j]
    return inertia


@ti.func
def add_inertia_adjoint(body_inertia_bar: ti.template(), body: ti.template(), inverse_inertia_bar):
    """Add the inertia's adjoint -J^T J_bar J^T, for J = I^-1."""
    transposed = body.inverse_inertia.transpose()
    inertia_bar = -(transposed @ inverse_inertia_bar @ transposed)
    for i, j in ti.static(ti.ndrange(3, 3)):
        body_inertia_bar[body.world, body.index, i, j] = body_inertia_bar[body.world, body.index, i, j] + inertia_bar[i, j]


@ti.func
def load_drag(rigid: ti.template(), b, n):
    """Linear [N s/m] and angular [N m s] drag of body n of world b; zeros in a model without wrenches."""
    drag = vec2(0.0)
    if ti.static(rigid.has_wrenches):
        drag = vec2(rigid.body_drag[b, n, DRAG.linear], rigid.body_drag[b, n, DRAG.angular])
    return drag


@ti.func
def load_body(rigid: ti.template(), world, index, thread: ti.template()):
    """``Body`` of a world, for a ``TeamThread``."""
    mass = rigid.body_mass[world, index]
    inverse_inertia = load_inertia(rigid.body_inertia, world, index).inverse()
    contact, gravity, drag = load_contact(rigid, world, index), load_gravity(rigid, world), load_drag(rigid, world, index)
    first_point, past_point = rigid.point_start[index], rigid.point_start[index + 1]
    return Body(world, index, mass, inverse_inertia, contact, gravity, drag, first_point, past_point, thread)


@ti.func
def zero_parameter_adjoint():
    """Zeros."""
    mass, inverse_inertia, contact, gravity, drag = 0.0, mat3(0.0), zero_contact(), vec3(0.0), vec2(0.0)
    return ParameterAdjoint(mass, inverse_inertia, contact, gravity, drag)


@ti.func
def sum_parameter_adjoints(total: ti.template(), addend: ti.template()):
    """Add to the sums."""
    total.mass += addend.mass
    total.inverse_inertia += addend.inverse_inertia
    total.contact += addend.contact
    total.gravity += addend.gravity
    total.drag += addend.drag


@ti.func
def clear_parameter_adjoint(total: ti.template()):
    """Set the sums to zero."""
    total.mass = 0.0
    total.inverse_inertia = mat3(0.0)
    total.contact = zero_contact()
    total.gravity = vec3(0.0)
    total.drag = vec2(0.0)


@ti.func
def add_parameter_adjoint(bars: ti.template(), rigid: ti.template(), body: ti.template(), total: ti.template()):
    """Adjoint of ``load_body`` except for the contact: add the sums to the adjoints of the arrays."""
    b, n = body.world, body.index
    for k in ti.static(range(3)):
        ti.atomic_add(bars.gravity[b, k], total.gravity[k])  # bodies of a world share its gravity
    bars.body_mass[b, n] = bars.body_mass[b, n] + total.mass
    add_inertia_adjoint(bars.body_inertia, body, total.inverse_inertia)
    if ti.static(rigid.has_wrenches):
        for k in ti.static(range(2)):
            bars.body_drag[b, n, k] = bars.body_drag[b, n, k] + total.drag[k]


@ti.func
def zero_state():
    """Zeros."""
    position, quaternion, velocity, momentum = vec3(0.0), vec4(0.0), vec3(0.0), vec3(0.0)
    return BodyState(position, quaternion, velocity, momentum)


@ti.func
def copy_state(source: ti.template()):
    """A copy that can be changed without changing ``source``."""
    position, quaternion, velocity, momentum = source.position, source.quaternion, source.velocity, source.momentum
    return BodyState(position, quaternion, velocity, momentum)


@ti.func
def assign_state(target: ti.template(), source: ti.template()):
    """Overwrite a state, rate or adjoint."""
    target.position = source.position
    target.quaternion = source.quaternion
    target.velocity = source.velocity
    target.momentum = source.momentum


@ti.func
def add_state(total: ti.template(), addend: ti.template()):
    """Add to the sums."""
    total.position += addend.position
    total.quaternion += addend.quaternion
    total.velocity += addend.velocity
    total.momentum += addend.momentum


@ti.func
def motion_of(state: ti.template(), quaternion, body: ti.template()):
    """``Motion`` of a body in a state, for its quaternion of unit length."""
    rotation = rotation_matrix(quaternion)
    w = angular_velocity(rotation, body.inverse_inertia, state.momentum)
    v, height = state.velocity, state.position.z
    return Motion(rotation, v, w, height)


@ti.func
def zero_wrench():
    """Zeros."""
    force, torque = vec3(0.0), vec3(0.0)
    return Wrench(force, torque)


@ti.func
def zero_load_inputs_adjoint():
    """Zeros."""
    rotation, velocity, angular_velocity, height = mat3(0.0), vec3(0.0), vec3(0.0), 0.0
    contact, drag, force_dot_bar = zero_contact(), vec2(0.0), 0.0
    return LoadInputsAdjoint(rotation, velocity, angular_velocity, height, contact, drag, force_dot_bar)


@ti.func
def sum_load_inputs_adjoints(total: ti.template(), addend: ti.template()):
    """Add to the sums."""
    total.rotation += addend.rotation
    total.velocity += addend.velocity
    total.angular_velocity += addend.angular_velocity
    total.height += addend.height
    total.contact += addend.contact
    total.drag += addend.drag
    total.force_dot_bar += addend.force_dot_bar


@ti.func
def sum_over_lanes(rigid: ti.template(), thread: ti.template(), total: ti.template(), used_lanes):
    """Replace the adjoint of contact forces by its sum over the lanes (see ``team_sum``); drag has none."""
    values = ti.Vector([0.0 for _ in range(LOAD_INPUTS.size)])
    for i, j in ti.static(ti.ndrange(3, 3)):
        values[LOAD_INPUTS.rotation + 3 * i + j] = total.rotation[i, j]
    for k in ti.static(range(3)):
        values[LOAD_INPUTS.velocity + k] = total.velocity[k]
        values[LOAD_INPUTS.angular_velocity + k] = total.angular_velocity[k]
    for k in ti.static(range(CONTACT_SIZE)):
        values[LOAD_INPUTS.contact + k] = total.contact[k]
    values[LOAD_INPUTS.height], values[LOAD_INPUTS.force_dot_bar] = total.height, total.force_dot_bar
    team_sum(rigid.team, rigid.sums, thread, values, used_lanes)
    for i, j in ti.static(ti.ndrange(3, 3)):
        total.rotation[i, j] = values[LOAD_INPUTS.rotation + 3 * i + j]
    for k in ti.static(range(3)):
        total.velocity[k] = values[LOAD_INPUTS.velocity + k]
        total.angular_velocity[k] = values[LOAD_INPUTS.angular_velocity + k]
    for k in ti.static(range(CONTACT_SIZE)):
        total.contact[k] = values[LOAD_INPUTS.contact + k]
    total.height, total.force_dot_bar = values[LOAD_INPUTS.height], values[LOAD_INPUTS.force_dot_bar]
