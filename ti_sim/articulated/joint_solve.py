"""Solutions of M x = y for the joint-space mass matrix by the factors of an elimination (see ``dynamics``; Taichi functions)."""

from ti_sim.articulated.joints import velocity_direction
from ti_sim.articulated.link_team import level_count, link_at, links_at, synchronise
from ti_sim.articulated.tables import JOINT_WORK, TREE, WORK
from ti_sim.base.rows import add_vec3, load_vec3, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def solve_joint(world: ti.template(), b, i, kind, angular, linear):
    """Solve for the joint velocities of link i; the solutions are written to column JOINT_WORK.solution.

    Args:
        world: ``WorldArrays``.
        b: world.
        i: link.
        kind: type of its joint.
        angular: angular acceleration (or virtual velocity) of the link with the joint at rest.
        linear: linear acceleration (or virtual velocity) of its origin.

    Returns:
        (angular, linear) including the motion of the joint.
    """
    first_qd = world.tree[i, TREE.first_qd]
    for d in range(first_qd, world.tree[i, TREE.end_qd]):
        axis, is_linear = velocity_direction(world, b, i, kind, d - first_qd)
        inertial_force = load_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column).dot(angular)
        inertial_force += load_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column + 3).dot(linear)
        value = world.velocity_work[b, d, JOINT_WORK.inverse_inertia] * (
            world.velocity_work[b, d, JOINT_WORK.solution] - inertial_force
        )
        world.velocity_work[b, d, JOINT_WORK.solution] = value
        if is_linear:
            linear += value * axis
        else:
            angular += value * axis
    return angular, linear


@ti.func
def eliminate_joints(world: ti.template(), b):
    """Second sweep of a virtual solve, leaf to root, with the factors of the last elimination (``column`` and ``inverse``).

    Column JOINT_WORK.solution of the joint velocities holds the right-hand side. Overwrites the links' loads.
    """
    for i in range(world.links):
        store_vec3(world.work, b, i, WORK.load, vec3(0.0))
        store_vec3(world.work, b, i, WORK.load + 3, vec3(0.0))
    for k in range(world.links):
        i = world.links - 1 - k
        if world.tree[i, TREE.moves] == 1:
            kind, parent, first_qd = world.tree[i, TREE.kind], world.tree[i, TREE.parent], world.tree[i, TREE.first_qd]
            moment, force = load_vec3(world.work, b, i, WORK.load), load_vec3(world.work, b, i, WORK.load + 3)
            d = world.tree[i, TREE.end_qd] - 1
            while d >= first_qd:
                axis, is_linear = velocity_direction(world, b, i, kind, d - first_qd)
                axis_load = axis.dot(moment)
                if is_linear:
                    axis_load = axis.dot(force)
                drive = world.velocity_work[b, d, JOINT_WORK.solution] - axis_load
                world.velocity_work[b, d, JOINT_WORK.solution] = drive
                acceleration = world.velocity_work[b, d, JOINT_WORK.inverse_inertia] * drive
                moment += acceleration * load_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column)
                force += acceleration * load_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column + 3)
                d -= 1
            if parent >= 0:
                add_vec3(world.work, b, parent, WORK.load, moment + load_vec3(world.work, b, i, WORK.arm).cross(force))
                add_vec3(world.work, b, parent, WORK.load + 3, force)


@ti.func
def virtual_links(world: ti.template(), b, has_solution: ti.template()):
    """Third sweep of a virtual solve: virtual velocities of joints (column JOINT_WORK.solution) and links (column WORK.virtual).

    With ``has_solution``, column JOINT_WORK.solution already holds those of the joints.
    """
    for level in range(level_count(world)):
        for k in range(links_at(world, level)):
            i = link_at(world, level, k)
            parent, kind = world.tree[i, TREE.parent], world.tree[i, TREE.kind]
            angular, linear = vec3(0.0), vec3(0.0)
            if world.tree[i, TREE.moves] == 1:
                if parent >= 0:
                    angular = load_vec3(world.work, b, parent, WORK.virtual)
                    linear = load_vec3(world.work, b, parent, WORK.virtual + 3)
                linear += angular.cross(load_vec3(world.work, b, i, WORK.arm))
                if ti.static(has_solution):
                    first_qd = world.tree[i, TREE.first_qd]
                    for d in range(first_qd, world.tree[i, TREE.end_qd]):
                        axis, is_linear = velocity_direction(world, b, i, kind, d - first_qd)
                        if is_linear:
                            linear += world.velocity_work[b, d, JOINT_WORK.solution] * axis
                        else:
                            angular += world.velocity_work[b, d, JOINT_WORK.solution] * axis
                else:
                    angular, linear = solve_joint(world, b, i, kind, angular, linear)
            store_vec3(world.work, b, i, WORK.virtual, angular)
            store_vec3(world.work, b, i, WORK.virtual + 3, linear)
        synchronise(world, b)
