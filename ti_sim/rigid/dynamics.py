"""Newton-Euler dynamics of one rigid body: its loads and their sum, and a semi-implicit step, with adjoints (Taichi functions).

State of a body: position x of the centre of mass [m], unit quaternion q, velocity v [m/s], angular momentum L about the centre of
mass in the world frame [kg m2/s]. With L as state variable instead of the angular velocity, the gyroscopic term w x I w of
gradSim's Eq. 2 is exact: without torque L stays bit-wise constant.
"""

from ti_sim.base.rows import WRENCH, add_vec3, load_slot_vec3, load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.team_sums import team_sum
from ti_sim.base.teams import lane_entry, lane_share
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
from ti_sim.rigid.arrays import BRISTLE_STIFFNESS, CONTACT_RADIUS, WINDOW, zero_contact
from ti_sim.rigid.body import sum_load_inputs_adjoints, sum_over_lanes, zero_load_inputs_adjoint, zero_wrench
from ti_sim.rollout.free_rotation import mean_momentum, mean_momentum_adjoint


@ti.func
def acts_on(rigid: ti.template(), a, n, step):
    """Whether applied force a acts on body n in this step."""
    is_active = rigid.force_window[a, WINDOW.first_step] <= step and step < rigid.force_window[a, WINDOW.past_step]
    return rigid.force_window[a, WINDOW.body] == n and is_active


@ti.func
def body_load(rigid: ti.template(), body: ti.template(), motion: ti.template(), step, frame):
    """``Wrench`` of all forces on a body in a step: of the ground, then those of ``add_external_loads``.

    Args:
        rigid: ``RigidArrays``.
        body, motion: the body.
        step: step of the rollout.
        frame: frame interval of the step.
    """
    load = zero_wrench()
    force, torque = contact_load(rigid, body, motion)
    load.force += force
    load.torque += torque
    add_external_loads(rigid, body, motion, step, frame, load)
    return load


@ti.func
def body_load_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), motion: ti.template(), slot, step, frame,
    load_bar: ti.template(), total: ti.template(),
):  # fmt: skip
    """Adjoint of ``body_load``: adds to the adjoints of the arrays, and to the sums ``total`` of those of body and motion.

    ``slot`` is that of the bristles at the start of the step (see ``contact_load_adjoint``).
    """
    contact = contact_load_adjoint(rigid, body, motion, slot, load_bar)
    sum_load_inputs_adjoints(total, contact)
    add_external_loads_adjoint(rigid, bars, body, motion, step, frame, load_bar, total)


@ti.func
def add_external_loads(rigid: ti.template(), body: ti.template(), motion: ti.template(), step, frame, load: ti.template()):
    """Add the applied forces, the wrench of the frame and the drag to the load of a body."""
    if rigid.force_count > 0:
        force, torque = applied_load(rigid, body, motion, step)
        load.force += force
        load.torque += torque
    if ti.static(rigid.has_wrenches):
        force, torque = driving_load(rigid, body, motion, frame)
        load.force += force
        load.torque += torque


@ti.func
def add_external_loads_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), motion: ti.template(), step, frame,
    load_bar: ti.template(), total: ti.template(),
):  # fmt: skip
    """Adjoint of ``add_external_loads``: adds to the adjoints of the arrays and to the sums ``total``."""
    if rigid.force_count > 0:
        rotation_bar, force_dot_bar = applied_load_adjoint(rigid, bars, body, motion, step, load_bar)
        total.rotation += rotation_bar
        total.force_dot_bar += force_dot_bar
    if ti.static(rigid.has_wrenches):
        driving = driving_load_adjoint(rigid, bars, body, motion, frame, load_bar)
        sum_load_inputs_adjoints(total, driving)


@ti.func
def applied_load(rigid: ti.template(), body: ti.template(), motion: ti.template(), step):
    """Force [N] and torque about the centre of mass [N m] of the applied forces that act on a body in this step."""
    force, torque = vec3(0.0), vec3(0.0)
    for a in range(rigid.force_count):
        if acts_on(rigid, a, body.index, step):
            f = load_vec3(rigid.body_force, body.world, a, 0)
            force += f
            torque += (motion.rotation @ load_vec3(rigid.force_point, body.world, a, 0)).cross(f)
    return force, torque


@ti.func
def applied_load_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), motion: ti.template(), step, load_bar: ti.template()
):
    """Adjoint of ``applied_load``: adds to the force arrays' adjoints, returns (rotation_bar, sum of force · load_bar.force)."""
    rotation_bar = mat3(0.0)
    force_dot_bar = 0.0
    for a in range(rigid.force_count):
        if acts_on(rigid, a, body.index, step):
            f = load_vec3(rigid.body_force, body.world, a, 0)
            point = load_vec3(rigid.force_point, body.world, a, 0)
            arm_bar = f.cross(load_bar.torque)
            if body.thread.lane == 0:
                add_vec3(bars.body_force, body.world, a, 0, load_bar.force + load_bar.torque.cross(motion.rotation @ point))
                add_vec3(bars.force_point, body.world, a, 0, motion.rotation.transpose() @ arm_bar)
            rotation_bar += outer(arm_bar, point)
            force_dot_bar += f.dot(load_bar.force)
    return rotation_bar, force_dot_bar


@ti.func
def driving_load(rigid: ti.template(), body: ti.template(), motion: ti.template(), frame):
    """Force [N] and torque about the centre of mass [N m] from a body's wrench in this frame and from its drag."""
    local_force = load_slot_vec3(rigid.body_wrench, body.world, frame, body.index, WRENCH.force)
    local_torque = load_slot_vec3(rigid.body_wrench, body.world, frame, body.index, WRENCH.torque)
    return (
        motion.rotation @ local_force - body.drag.x * motion.velocity,
        motion.rotation @ local_torque - body.drag.y * motion.angular_velocity,
    )  # fmt: skip


@ti.func
def driving_load_adjoint(
    rigid: ti.template(), bars: ti.template(), body: ti.template(), motion: ti.template(), frame, load_bar: ti.template()
):
    """Adjoint of ``driving_load``: adds to the wrench's adjoint, and returns ``LoadInputsAdjoint``."""
    b, n = body.world, body.index
    local_force = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.force)
    local_torque = load_slot_vec3(rigid.body_wrench, b, frame, n, WRENCH.torque)
    local_force_bar = motion.rotation.transpose() @ load_bar.force
    local_torque_bar = motion.rotation.transpose() @ load_bar.torque
    if body.thread.lane == 0:
        for k in ti.static(range(3)):
            force_column, torque_column = WRENCH.force + k, WRENCH.torque + k
            bars.body_wrench[b, frame, n, force_column] = bars.body_wrench[b, frame, n, force_column] + local_force_bar[k]
            bars.body_wrench[b, frame, n, torque_column] = bars.body_wrench[b, frame, n, torque_column] + local_torque_bar[k]
    result = zero_load_inputs_adjoint()
    result.rotation = outer(load_bar.force, local_force) + outer(load_bar.torque, local_torque)
    result.velocity = -body.drag.x * load_bar.force
    result.angular_velocity = -body.drag.y * load_bar.torque
    result.drag = vec2(-motion.velocity.dot(load_bar.force), -motion.angular_velocity.dot(load_bar.torque))
    result.force_dot_bar = local_force.dot(local_force_bar) + body.drag.x * result.drag.x
    return result


@ti.func
def contact_margin(rigid: ti.template(), motion: ti.template(), contact, n):
    """Height below which a contact point of body n can touch [m]: the largest distance that it moves along z in a step."""
    w = motion.angular_velocity
    reach = rigid.point_reach[n] + contact[CONTACT_RADIUS]
    return rigid.dt * (ti.abs(motion.velocity.z) + ti.sqrt(w.x * w.x + w.y * w.y) * reach)


@ti.func
def end_of_tested_points(rigid: ti.template(), body: ti.template(), motion: ti.template(), margin):
    """End of the range of contact points to be tested: empty without bristles where no contact point of the body can touch."""
    end = body.past_point
    if ti.static(not rigid.has_bristles):
        if motion.height - rigid.ground - rigid.point_reach[body.index] - body.contact[CONTACT_RADIUS] > margin:
            end = body.first_point
    return end


@ti.func
def point_height(rigid: ti.template(), motion: ti.template(), contact, p, local_position):
    """Height of contact point p, at ``local_position`` in the body's frame, above the ground [m]."""
    lowest_offset = contact_height(rigid.has_rims_or_patches, rigid.point, p, local_position, motion.rotation)
    return motion.height - rigid.ground + lowest_offset - contact[CONTACT_RADIUS]


@ti.func
def point_arm(rigid: ti.template(), motion: ti.template(), contact, p, local_position):
    """``contact_arm`` of contact point p, with the radius of the contact."""
    arm, weight = contact_arm(rigid.has_rims_or_patches, rigid.point, p, local_position, motion.rotation)
    arm.z -= contact[CONTACT_RADIUS]
    return arm, weight


@ti.func
def contact_load(rigid: ti.template(), body: ti.template(), motion: ti.template()):
    """Force [N] and torque about the centre of mass [N m] of the ground on the contact points of a body.

    The lanes share the points and get the same sums. With bristles it advances their displacements in
    ``rigid.bristles.current``.
    """
    force, torque = vec3(0.0), vec3(0.0)
    contact, b, lane = body.contact, body.world, body.thread.lane
    margin = contact_margin(rigid, motion, contact, body.index)
    count = end_of_tested_points(rigid, body, motion, margin) - body.first_point
    for k in range(lane_share(rigid.team, lane, count)):
        p = body.first_point + lane_entry(rigid.team, lane, k)
        local_position = point_position(rigid.point, p)
        height = point_height(rigid, motion, contact, p, local_position)
        new_displacement = vec2(0.0)
        if height < margin:
            arm, weight = point_arm(rigid, motion, contact, p, local_position)
            u = motion.velocity + motion.angular_velocity.cross(arm)
            f = vec3(0.0)
            if ti.static(rigid.has_bristles):
                s = load_bristle(rigid.bristles.current, b, 0, p)
                f, new_displacement = bristle_force(
                    height, u, s, contact[0], contact[1], contact[2], contact[3], contact[BRISTLE_STIFFNESS], rigid.dt
                )
            else:
                f = contact_force(height, u, contact[0], contact[1], contact[2], contact[3], rigid.dt)
            force += weight * f
            torque += arm.cross(weight * f)
        if ti.static(rigid.has_bristles):
            store_bristle(rigid.bristles.current, b, 0, p, new_displacement)
    if ti.static(rigid.team.kind != "single"):
        if count > 0:
            load = ti.Vector([force.x, force.y, force.z, torque.x, torque.y, torque.z])
            team_sum(rigid.team, rigid.sums, body.thread, load, count)
            for k in ti.static(range(3)):
                force[k], torque[k] = load[WRENCH.force + k], load[WRENCH.torque + k]
    return force, torque


@ti.func
def contact_load_adjoint(rigid: ti.template(), body: ti.template(), motion: ti.template(), slot, load_bar: ti.template()):
    """Adjoint of ``contact_load``: ``LoadInputsAdjoint``, the same in all lanes.

    With bristles it reads their displacements at the start of the step from the slot of ``rigid.bristles.segment``, and replaces
    the adjoint of those at its end, ``rigid.bristles.bar``, by that of those at its start.
    """
    total = zero_load_inputs_adjoint()
    contact, b, lane = body.contact, body.world, body.thread.lane
    margin = contact_margin(rigid, motion, contact, body.index)
    count = end_of_tested_points(rigid, body, motion, margin) - body.first_point
    for k in range(lane_share(rigid.team, lane, count)):
        p = body.first_point + lane_entry(rigid.team, lane, k)
        local_position = point_position(rigid.point, p)
        height = point_height(rigid, motion, contact, p, local_position)
        s_bar = vec2(0.0)
        if height < margin:
            s, new_displacement_bar = vec2(0.0), vec2(0.0)
            if ti.static(rigid.has_bristles):
                s = load_bristle(rigid.bristles.segment, b, slot, p)
                new_displacement_bar = load_bristle(rigid.bristles.bar, b, 0, p)
            s_bar = add_point_load_adjoint(
                rigid, motion, contact, p, local_position, height, s, new_displacement_bar, load_bar, total
            )
        if ti.static(rigid.has_bristles):
            store_bristle(rigid.bristles.bar, b, 0, p, s_bar)
    if ti.static(rigid.team.kind != "single"):
        if count > 0:
            sum_over_lanes(rigid, body.thread, total, count)
    return total


@ti.func
def add_point_load_adjoint(
    rigid: ti.template(), motion: ti.template(), contact, p, local_position, height, s, new_displacement_bar,
    load_bar: ti.template(), total: ti.template(),
):  # fmt: skip
    """Adjoint of the load of one contact point.

    Args:
        rigid: ``RigidArrays``.
        motion: of the body.
        contact: numbers of the contact.
        p: the point.
        local_position: its position in the body's frame [m].
        height: its height above the ground [m].
        s: displacement of its bristle at the start of the step [m]; not used without bristles.
        new_displacement_bar: adjoint of the displacement at the end of the step.
        load_bar: adjoint of the load of the body.
        total: sums, to which the adjoints of motion and contact are added.

    Returns:
        Adjoint of s.
    """
    arm, weight = point_arm(rigid, motion, contact, p, local_position)
    v, w = motion.velocity, motion.angular_velocity
    f, f_bar, height_bar, u_bar, s_bar, contact_bar = point_load_adjoint(
        rigid, height, v + w.cross(arm), s, arm, weight, contact, load_bar.force, load_bar.torque, new_displacement_bar
    )
    arm_bar = weight * f.cross(load_bar.torque) + u_bar.cross(w)
    arm_bar.z += height_bar
    contact_bar[CONTACT_RADIUS] = -arm_bar.z
    total.height += height_bar
    total.velocity += u_bar
    total.angular_velocity += arm.cross(u_bar)
    total.rotation += outer(arm_bar, local_position)
    if ti.static(rigid.has_rims_or_patches):
        vector_bar = contact_vector_adjoint(rigid.point, p, motion.rotation, arm_bar, f.dot(f_bar))
        total.rotation += outer(vector_bar, point_vector(rigid.point, p))
    total.contact += contact_bar
    total.force_dot_bar += weight * f.dot(load_bar.force)
    return s_bar


@ti.func
def point_load_adjoint(rigid: ti.template(), height, u, s, arm, weight, contact, force_bar, torque_bar, new_displacement_bar):
    """Adjoint of the force of the ground on one point in contact, weight * f, and of its torque.

    Args:
        rigid: arrays of the bodies.
        height, u: of the point [m, m/s].
        s: displacement of its bristle at the start of the step [m]; not used without bristles.
        arm, weight: of ``contact_arm``.
        contact: numbers of the contact.
        force_bar, torque_bar: adjoints of the body's load.
        new_displacement_bar: adjoint of the bristle's displacement at the end of the step.

    Returns:
        (f for a weight of 1, adjoint of weight * f, and the adjoints of height, u, s and the contact numbers).
    """
    f_bar = force_bar + torque_bar.cross(arm)
    f, s_bar, contact_bar = vec3(0.0), vec2(0.0), zero_contact()
    height_bar, u_bar, law_bar = 0.0, vec3(0.0), vec4(0.0)
    if ti.static(rigid.has_bristles):
        ke, kd, kf, mu, kt = contact[0], contact[1], contact[2], contact[3], contact[BRISTLE_STIFFNESS]
        f, _new_displacement = bristle_force(height, u, s, ke, kd, kf, mu, kt, rigid.dt)
        height_bar, u_bar, s_bar, law_bar, contact_bar[BRISTLE_STIFFNESS] = bristle_force_adjoint(
            height, u, s, ke, kd, kf, mu, kt, rigid.dt, weight * f_bar, new_displacement_bar
        )
    else:
        f, height_bar, u_bar, law_bar = contact_force_adjoint(
            height, u, contact[0], contact[1], contact[2], contact[3], rigid.dt, weight * f_bar
        )
    for k in ti.static(range(4)):
        contact_bar[k] = law_bar[k]
    return f, f_bar, height_bar, u_bar, s_bar, contact_bar


@ti.func
def semi_implicit_update(state: ti.template(), load: ti.template(), body: ti.template(), dt):
    """Advance the state by one semi-implicit Euler step under a load (gradSim, Eq. 4): momenta first, then the pose from them.

    The rotation over dt is torque-free motion with the new angular momentum, by the implicit midpoint rule (see
    ``ti_sim.rollout.free_rotation``).
    """
    q = state.quaternion
    state.velocity = state.velocity + dt * (load.force / body.mass + body.gravity)
    state.momentum = state.momentum + dt * load.torque
    midpoint_momentum = mean_momentum(
        rotation_matrix(q).transpose() @ state.momentum, body.inverse_inertia, vec3(0.0), 0.5 * dt, False
    )
    q_next = q + dt * body_quaternion_rate(q, body.inverse_inertia @ midpoint_momentum)
    state.position = state.position + dt * state.velocity
    state.quaternion = q_next.normalized()


@ti.func
def semi_implicit_update_adjoint(q, momentum_next, body: ti.template(), dt, state_bar: ti.template()):
    """Adjoint of ``semi_implicit_update``, except for the adjoint of the mass, which needs the force.

    Args:
        q: quaternion before the step.
        momentum_next: angular momentum after it.
        body: the body.
        dt: step [s].
        state_bar: adjoint of the state after the step, replaced by that of the state before it at a fixed rotation matrix and
            load. Afterwards the adjoint of the force is dt / mass * state_bar.velocity, that of the torque dt *
            state_bar.momentum, that of gravity dt * state_bar.velocity, and that of the mass -dt / mass2 * force ·
            state_bar.velocity.

    Returns:
        (rotation_bar, inverse_inertia_bar).
    """
    rotation = rotation_matrix(q)
    midpoint_momentum = mean_momentum(rotation.transpose() @ momentum_next, body.inverse_inertia, vec3(0.0), 0.5 * dt, False)
    w = body.inverse_inertia @ midpoint_momentum
    raw_quaternion_bar = normalized_adjoint(q + dt * body_quaternion_rate(q, w), state_bar.quaternion)
    q_bar_from_rate, w_bar = body_quaternion_rate_adjoint(q, w, dt * raw_quaternion_bar)
    momentum_bar, inverse_inertia_bar, _armature_bar = mean_momentum_adjoint(
        midpoint_momentum, body.inverse_inertia, vec3(0.0), 0.5 * dt, body.inverse_inertia.transpose() @ w_bar, False
    )
    inverse_inertia_bar += outer(w_bar, midpoint_momentum)
    state_bar.quaternion = raw_quaternion_bar + q_bar_from_rate
    state_bar.velocity = state_bar.velocity + dt * state_bar.position
    state_bar.momentum = state_bar.momentum + rotation @ momentum_bar
    return outer(momentum_next, momentum_bar), inverse_inertia_bar
