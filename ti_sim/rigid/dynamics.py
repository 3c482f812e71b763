"""Newton-Euler dynamics of one rigid body and one step of each integrator, with adjoints (Taichi functions).

State of a body: position x of the centre of mass [m], unit quaternion q, velocity v [m/s], angular momentum L about the centre of
mass in the world frame [kg m2/s]. With L as state variable instead of the angular velocity, the gyroscopic term w x I w of
gradSim's Eq. 2 is exact: without torque L stays bit-wise constant.
"""

from ti_sim.base.rows import WRENCH, add_vec3, load_slot_vec3, load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    body_quaternion_rate,
    body_quaternion_rate_adjoint,
    mat3,
    normalized_adjoint,
    outer,
    rotation_matrix,
    vec2,
    vec3,
    vec4,
)
from ti_sim.contact.bristle import bristle_force, bristle_force_adjoint, load_bristle, store_bristle
from ti_sim.contact.law import contact_force, contact_force_adjoint
from ti_sim.contact.point_geometry import contact_arm, contact_height, contact_vector_adjoint, point_position, point_vector
from ti_sim.rigid.arrays import BRISTLE, DRAG, ROUNDING, WINDOW, no_contact
from ti_sim.rollout.free_rotation import mean_momentum, mean_momentum_adjoint


@ti.func
def acts_on(rigid: ti.template(), a, n, step):
    """Whether applied force a acts on body n in this step."""
    is_open = rigid.force_window[a, WINDOW.first_step] <= step and step < rigid.force_window[a, WINDOW.past_step]
    return rigid.force_window[a, WINDOW.body] == n and is_open


@ti.func
def applied_load(rigid: ti.template(), rotation, b, n, step):
    """Force [N] and torque about the centre of mass [N m] of the applied forces that act on body n in this step."""
    force, torque = vec3(0.0), vec3(0.0)
    for a in range(rigid.force_count):
        if acts_on(rigid, a, n, step):
            f = load_vec3(rigid.body_force, b, a, 0)
            force += f
            torque += (rotation @ load_vec3(rigid.force_point, b, a, 0)).cross(f)
    return force, torque


@ti.func
def applied_load_adjoint(
    rigid: ti.template(), bars: ti.template(), rotation, b, n, step, force_bar, torque_bar,
):  # fmt: skip
    """Adjoint of ``applied_load``: adds to the force arrays' adjoints, returns (rotation_bar, sum of force · force_bar)."""
    rotation_bar = mat3(0.0)
    work = 0.0
    for a in range(rigid.force_count):
        if acts_on(rigid, a, n, step):
            f = load_vec3(rigid.body_force, b, a, 0)
            point = load_vec3(rigid.force_point, b, a, 0)
            arm_bar = f.cross(torque_bar)
            add_vec3(bars.body_force, b, a, 0, force_bar + torque_bar.cross(rotation @ point))
            add_vec3(bars.force_point, b, a, 0, rotation.transpose() @ arm_bar)
            rotation_bar += outer(arm_bar, point)
            work += f.dot(force_bar)
    return rotation_bar, work


@ti.func
def load_drag(rigid: ti.template(), b, n):
    """Linear [N s/m] and angular [N m s] drag of body n of world b; zeros in a model that is not driven."""
    drag = vec2(0.0)
    if ti.static(rigid.driven):
        drag = vec2(rigid.body_drag[b, n, DRAG.linear], rigid.body_drag[b, n, DRAG.angular])
    return drag


@ti.func
def driving_load(rigid: ti.template(), rotation, v, w, drag, b, n, frame):
    """Force [N] and torque about the centre of mass [N m] from a body's wrench in this frame and from its drag."""
    push = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.force)
    twist = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.torque)
    return rotation @ push - drag.x * v, rotation @ twist - drag.y * w


@ti.func
def driving_load_adjoint(
    rigid: ti.template(), bars: ti.template(), rotation, v, w, drag, b, n, frame, force_bar, torque_bar
):
    """Adjoint of ``driving_load``: adds to the wrench's adjoint.

    Returns:
        (rotation_bar, v_bar, w_bar, drag_bar, force · force_bar).
    """
    push = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.force)
    twist = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.torque)
    push_bar, twist_bar = rotation.transpose() @ force_bar, rotation.transpose() @ torque_bar
    for k in ti.static(range(3)):
        bars.body_wrench[b, frame, n, WRENCH.force + k] = bars.body_wrench[b, frame, n, WRENCH.force + k] + push_bar[k]
        bars.body_wrench[b, frame, n, WRENCH.torque + k] = bars.body_wrench[b, frame, n, WRENCH.torque + k] + twist_bar[k]
    drag_bar = vec2(-v.dot(force_bar), -w.dot(torque_bar))
    work = push.dot(push_bar) + drag.x * drag_bar.x
    return outer(force_bar, push) + outer(torque_bar, twist), -drag.x * force_bar, -drag.y * torque_bar, drag_bar, work


@ti.func
def contact_margin(rigid: ti.template(), v, w, contact, n):
    """Height below which a contact point of body n can touch [m]: the farthest that it moves along z in a step."""
    return rigid.dt * (ti.abs(v.z) + ti.sqrt(w.x * w.x + w.y * w.y) * (rigid.point_reach[n] + contact[ROUNDING]))


@ti.func
def end_of_contacts(rigid: ti.template(), x, contact, n, first, last, margin):
    """``last``, or ``first`` where no contact point of body n can touch, so that none is tested."""
    stop = last
    if x.z - rigid.ground - rigid.point_reach[n] - contact[ROUNDING] > margin:
        stop = first
    return stop


@ti.func
def contact_load(rigid: ti.template(), x, rotation, v, w, contact, b, n, first, last):
    """Force [N] and torque about the centre of mass [N m] of the ground on the contact points first..last-1.

    With bristles it advances their displacements in ``rigid.bristles.now``.
    """
    force, torque = vec3(0.0), vec3(0.0)
    margin, stop = contact_margin(rigid, v, w, contact, n), last
    if ti.static(not rigid.bristled):
        stop = end_of_contacts(rigid, x, contact, n, first, last, margin)
    for p in range(first, stop):
        local = point_position(rigid.point, p)
        height = x.z - rigid.ground + contact_height(rigid.turning, rigid.point, p, local, rotation) - contact[ROUNDING]
        after = vec2(0.0)
        if height < margin:
            arm, share = contact_arm(rigid.turning, rigid.point, p, local, rotation)
            arm.z -= contact[ROUNDING]
            f = vec3(0.0)
            if ti.static(rigid.bristled):
                s = load_bristle(rigid.bristles.now, b, 0, p)
                f, after = bristle_force(
                    height, v + w.cross(arm), s, contact[0], contact[1], contact[2], contact[3], contact[BRISTLE], rigid.dt
                )
            else:
                f = point_force(height, v + w.cross(arm), contact, rigid.dt)
            force += share * f
            torque += arm.cross(share * f)
        if ti.static(rigid.bristled):
            store_bristle(rigid.bristles.now, b, 0, p, after)
    return force, torque


@ti.func
def contact_load_adjoint(
    rigid: ti.template(), x, rotation, v, w, contact, b, n, slot, first, last, force_bar, torque_bar
):  # fmt: skip
    """Adjoint of ``contact_load``: (z_bar, rotation_bar, v_bar, w_bar, contact_bar, sum of force · force_bar).

    With bristles it reads their displacements at the start of the step from the slot of ``rigid.bristles.segment``, and replaces
    the adjoint of those at its end, ``rigid.bristles.bar``, by that of those at its start.
    """
    z_bar, work = 0.0, 0.0
    rotation_bar = mat3(0.0)
    v_bar, w_bar = vec3(0.0), vec3(0.0)
    contact_bar = no_contact()
    margin, stop = contact_margin(rigid, v, w, contact, n), last
    if ti.static(not rigid.bristled):
        stop = end_of_contacts(rigid, x, contact, n, first, last, margin)
    for p in range(first, stop):
        local = point_position(rigid.point, p)
        height = x.z - rigid.ground + contact_height(rigid.turning, rigid.point, p, local, rotation) - contact[ROUNDING]
        s_bar = vec2(0.0)
        if height < margin:
            arm, share = contact_arm(rigid.turning, rigid.point, p, local, rotation)
            arm.z -= contact[ROUNDING]
            s, after_bar = vec2(0.0), vec2(0.0)
            if ti.static(rigid.bristled):
                s, after_bar = load_bristle(rigid.bristles.segment, b, slot, p), load_bristle(rigid.bristles.bar, b, 0, p)
            f, f_bar, height_bar, u_bar, s_bar, theta_bar = point_load_adjoint(
                rigid, height, v + w.cross(arm), s, arm, share, contact, force_bar, torque_bar, after_bar
            )
            arm_bar = share * f.cross(torque_bar) + u_bar.cross(w)
            arm_bar.z += height_bar
            theta_bar[ROUNDING] = -arm_bar.z
            z_bar += height_bar
            v_bar += u_bar
            w_bar += arm.cross(u_bar)
            rotation_bar += outer(arm_bar, local)
            if ti.static(rigid.turning):
                vector_bar = contact_vector_adjoint(rigid.point, p, rotation, arm_bar, f.dot(f_bar))
                rotation_bar += outer(vector_bar, point_vector(rigid.point, p))
            contact_bar += theta_bar
            work += share * f.dot(force_bar)
        if ti.static(rigid.bristled):
            store_bristle(rigid.bristles.bar, b, 0, p, s_bar)
    return z_bar, rotation_bar, v_bar, w_bar, contact_bar, work


@ti.func
def point_force(height, u, contact, dt):
    """Force of the ground on a point without a bristle [N], for contact numbers as ``load_contact`` returns them."""
    return contact_force(height, u, contact[0], contact[1], contact[2], contact[3], dt)


@ti.func
def point_load_adjoint(rigid: ti.template(), height, u, s, arm, share, contact, force_bar, torque_bar, after_bar):
    """Adjoint of the force of the ground on one point in contact, share * f, and of its torque.

    Args:
        rigid: arrays of the bodies.
        height, u: of the point [m, m/s].
        s: displacement of its bristle at the start of the step [m]; not used without bristles.
        arm, share: of ``contact_arm``.
        contact: numbers of the contact.
        force_bar, torque_bar: adjoints of the body's load.
        after_bar: adjoint of the bristle's displacement at the end of the step.

    Returns:
        (f for a share of 1, adjoint of share * f, and the adjoints of height, u, s and the contact numbers).
    """
    f_bar = force_bar + torque_bar.cross(arm)
    f, s_bar, theta_bar = vec3(0.0), vec2(0.0), no_contact()
    height_bar, u_bar, law_bar = 0.0, vec3(0.0), vec4(0.0)
    if ti.static(rigid.bristled):
        ke, kd, kf, mu, kt = contact[0], contact[1], contact[2], contact[3], contact[BRISTLE]
        f, _after = bristle_force(height, u, s, ke, kd, kf, mu, kt, rigid.dt)
        height_bar, u_bar, s_bar, law_bar, theta_bar[BRISTLE] = bristle_force_adjoint(
            height, u, s, ke, kd, kf, mu, kt, rigid.dt, share * f_bar, after_bar
        )
    else:
        f = point_force(height, u, contact, rigid.dt)
        height_bar, u_bar, law_bar = contact_force_adjoint(
            height, u, contact[0], contact[1], contact[2], contact[3], rigid.dt, share * f_bar
        )
    for k in ti.static(range(4)):
        theta_bar[k] = law_bar[k]
    return f, f_bar, height_bar, u_bar, s_bar, theta_bar


@ti.func
def semi_implicit_update(x, q, v, momentum, force, torque, mass, inverse_inertia, gravity, dt):
    """One semi-implicit Euler step from given loads (gradSim, Eq. 4): momenta first, then the pose from the new momenta.

    The rotation over dt is torque-free motion with the new angular momentum, by the implicit midpoint rule (see
    ``ti_sim.rollout.free_rotation``).
    """
    v_next = v + dt * (force / mass + gravity)
    momentum_next = momentum + dt * torque
    mean = mean_momentum(
        rotation_matrix(q).transpose() @ momentum_next, inverse_inertia, vec3(0.0), 0.5 * dt, False
    )
    q_next = q + dt * body_quaternion_rate(q, inverse_inertia @ mean)
    return x + dt * v_next, q_next.normalized(), v_next, momentum_next


@ti.func
def semi_implicit_update_adjoint(q, momentum_next, mass, inverse_inertia, dt, x_bar, q_bar, v_bar, momentum_bar):
    """Adjoint of ``semi_implicit_update``, except for the part of the mass adjoint that needs the force.

    Returns:
        (q_bar, rotation_bar, v_next_bar, momentum_next_bar, inverse_inertia_bar). The adjoints of force and torque are dt / mass
        * v_next_bar and dt * momentum_next_bar, of gravity dt * v_next_bar, of the mass -dt / mass2 * force · v_next_bar, and of
        x, v and L before the step x_bar, v_next_bar and momentum_next_bar.
    """
    rotation = rotation_matrix(q)
    mean = mean_momentum(rotation.transpose() @ momentum_next, inverse_inertia, vec3(0.0), 0.5 * dt, False)
    w = inverse_inertia @ mean
    unit_bar = normalized_adjoint(q + dt * body_quaternion_rate(q, w), q_bar)
    rate_q_bar, w_bar = body_quaternion_rate_adjoint(q, w, dt * unit_bar)
    own_bar, inverse_inertia_bar, _none = mean_momentum_adjoint(
        mean, inverse_inertia, vec3(0.0), 0.5 * dt, inverse_inertia.transpose() @ w_bar, False
    )
    inverse_inertia_bar += outer(w_bar, mean)
    rotation_bar = outer(momentum_next, own_bar)
    return (
        unit_bar + rate_q_bar, rotation_bar, v_bar + dt * x_bar, momentum_bar + rotation @ own_bar, inverse_inertia_bar
    )  # fmt: skip
