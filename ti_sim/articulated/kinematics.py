"""Motion of the links from the motion of the joints, root to leaf, and its adjoint, leaf to root (Taichi functions).

All quantities are in world axes, those of a link about its own origin, so small links far from the world's origin lose no digits
in f32. With r the arm from the parent's origin, j_w and j_v the angular and linear velocity of the joint (j_w', j_v' from its
accelerations), and the subscript p for the parent:

    w = w_p + j_w                v = v_p + w_p x r + j_v
    w' = w_p' + w_p x j_w + j_w'      a = a_p + w_p' x r + w_p x (w_p x r + 2 j_v) + j_v'

Virtual velocities (of the adjoint's multipliers) follow the first line.
"""

from ti_sim.articulated.contact_bristles import step_contact_bristles
from ti_sim.articulated.dry_friction import step_bristles, step_bristles_adjoint
from ti_sim.articulated.free_spin import step_freely, step_freely_adjoint
from ti_sim.articulated.joints import joint_rates, place_joint, step_joint, step_joint_adjoint
from ti_sim.articulated.link_team import in_share, share, synchronise
from ti_sim.articulated.spatial import quaternion_product, rotated
from ti_sim.articulated.tables import JOINT_WORK, LINK, TREE, WORK
from ti_sim.base.rows import load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4


@ti.func
def place_link(world: ti.template(), states: ti.template(), b, slot, i):
    """Pose and velocity of link i from those of its parent, written to ``work``; coordinates and velocities are in a row of
    ``states``.

    Returns:
        (quaternion, w, v, r, j_w, j_v, w_p).
    """
    parent, kind = world.tree[i, TREE.parent], world.tree[i, TREE.kind]
    parent_rotation = vec4(0.0, 0.0, 0.0, 1.0)
    w_p, v_p, position = vec3(0.0), vec3(0.0), vec3(0.0)
    if parent >= 0:
        parent_rotation = load_vec4(world.work, b, parent, WORK.quaternion)
        w_p = load_vec3(world.work, b, parent, WORK.spin)
        v_p = load_vec3(world.work, b, parent, WORK.velocity)
        position = load_vec3(world.work, b, parent, WORK.position)
    frame_rotation = quaternion_product(parent_rotation, load_vec4(world.link, b, i, LINK.frame_quaternion))
    r = rotated(parent_rotation, load_vec3(world.link, b, i, LINK.frame_position))
    rotation, r, axis = place_joint(world, states, b, slot, i, kind, frame_rotation, r)
    j_w, j_v = joint_rates(world, b, i, kind, rotation, axis, states, slot, world.coordinates + world.tree[i, TREE.first_qd])
    w = w_p + j_w
    v = v_p + w_p.cross(r) + j_v
    store_vec4(world.work, b, i, WORK.quaternion, rotation)
    store_vec3(world.work, b, i, WORK.spin, w)
    store_vec3(world.work, b, i, WORK.arm, r)
    store_vec3(world.work, b, i, WORK.axis, axis)
    store_vec3(world.work, b, i, WORK.position, position + r)
    store_vec3(world.work, b, i, WORK.velocity, v)
    return rotation, w, v, r, j_w, j_v, w_p


@ti.func
def step_coordinates(world: ti.template(), states: ti.template(), b, slot):
    """Semi-implicit Euler step in a row of ``states``: velocities from accelerations, then coordinates from the new velocities,
    and the deflections of bristles.

    The step of a freely rotating link conserves momentum and energy (see ``free_spin``).
    """
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        kind, first_qd = world.tree[i, TREE.kind], world.coordinates + world.tree[i, TREE.first_qd]
        if world.tree[i, TREE.spins_freely] == 1:
            step_freely(world, states, b, slot, i, kind)
        else:
            for column in range(first_qd, world.coordinates + world.tree[i, TREE.end_qd]):
                states[b, slot, column] = states[b, slot, column] + world.dt * states[b, slot, column + world.velocities]
            step_joint(world, states, b, slot, i, kind)
    if ti.static(world.with_dry_friction):
        synchronise(world, b)
        step_bristles(world, states, b, slot)
    if ti.static(world.with_contact_bristles):
        step_contact_bristles(world, states, b, slot)
    synchronise(world, b)


@ti.func
def step_coordinates_adjoint(world: ti.template(), states: ti.template(), bars: ti.template(), bar: ti.template(), b, slot, row):
    """Adjoint of ``step_coordinates``, in place in a row of ``bar``; adds to the links' adjoints.

    The row holds the adjoints of coordinates and velocities after the step and is overwritten by those before it, without the
    contribution of the accelerations: their negative adjoints are written to column JOINT_WORK.solution of the joint velocities.
    ``states`` holds coordinates, velocities and accelerations before the step in ``slot``, and the state after it in the next
    slot. The adjoints of the bristles of contacts stay those after the step: the adjoint of their forces replaces them.
    """
    if ti.static(world.with_dry_friction):
        step_bristles_adjoint(world, states, bars, bar, b, slot, row)
        synchronise(world, b)
    for k in range(share(world, world.links)):
        i = in_share(world, k)
        kind, first_qd, past_last = world.tree[i, TREE.kind], world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]
        if world.tree[i, TREE.spins_freely] == 1:
            step_freely_adjoint(world, states, bars, bar, b, slot, row, i, kind)
        else:
            step_joint_adjoint(world, states, bar, b, slot, row, i, kind)
            for d in range(first_qd, past_last):
                world.velocity_work[b, d, JOINT_WORK.solution] = -world.dt * bar[b, row, world.coordinates + d]
    synchronise(world, b)
