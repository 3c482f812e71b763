"""Contact of particles with the shapes of links, and its adjoint (Taichi functions).

The force is that of ``ti_sim.contact.law`` along the normal of the shape, with the mean contact parameters of the link and the
particle. It acts on the particle and, reversed, on the link at the position of the particle, so momentum and angular momentum are
conserved. For the kinks see ``ti_sim.contact.shape_geometry``. Only particles within the bounding sphere of a shape,
enlarged by their travel in a step, are tested.
"""

from ti_sim.articulated.contact_force import point_velocity, shape_arm, shape_rotation
from ti_sim.articulated.link_team import in_share, share
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import rotation_matrix, vec3
from ti_sim.contact.collision import SHAPE
from ti_sim.contact.law import contact_force_along, contact_force_along_adjoint
from ti_sim.contact.shape_distance import distance_adjoint, shape_distance, unit_normal
from ti_sim.contact.shape_geometry import line_line_contact
from ti_sim.deformable.corners import load_position, load_velocity


@ti.func
def point_shape_contact(world: ti.template(), i, x, margin, travel):
    """Contact of a ball of radius ``margin`` [m] at a point with link i's shape, in its frame: gap [m], normal, weight [1].

    Gaps above ``travel`` [m] may be out of range of a mesh.
    """
    gap, normal, weight, axis = 1.0, vec3(0.0), 1.0, vec3(0.0, 0.0, 1.0)
    if world.shape[i, SHAPE.radius] > 0:
        _point, surface_normal, distance = line_line_contact.value(
            x, axis, axis, 0.0, world.shape[i, SHAPE.half_length], 0.0, world.shape[i, SHAPE.radius]
        )
        gap, normal = distance - margin, surface_normal
    else:
        distance, direction, _distance_gradient, _direction_jacobian = shape_distance(world, i, x, margin + travel, False)
        normal, gap, length = unit_normal(distance, direction, margin)
        weight = length * length
    return gap, normal, weight


@ti.func
def point_shape_contact_adjoint(world: ti.template(), i, x, margin, gap_bar, normal_bar, weight_bar):
    """Adjoint of ``point_shape_contact`` with respect to the point."""
    x_bar, axis = vec3(0.0), vec3(0.0, 0.0, 1.0)
    if world.shape[i, SHAPE.radius] > 0:
        bars = line_line_contact.vjp(
            (x, axis, axis, 0.0, world.shape[i, SHAPE.half_length], 0.0, world.shape[i, SHAPE.radius]),
            (vec3(0.0), normal_bar, gap_bar),
        )
        x_bar = bars[0]
    else:
        distance, direction, distance_gradient, direction_jacobian = shape_distance(world, i, x, 1e9, True)
        normal, gap, length = unit_normal(distance, direction, margin)
        x_bar = distance_adjoint(
            normal, gap, length, distance_gradient, direction_jacobian, normal_bar, gap_bar, 2 * length * weight_bar
        )
    return x_bar


@ti.func
def may_touch(world: ti.template(), i, d, margin, travel):
    """Whether a point may touch the shape of link i in a step.

    Args:
        world: ``WorldArrays``.
        i: link.
        d: the point minus the centre of the shape [m].
        margin: distance from the shape at which the point touches it [m].
        travel: largest distance that it moves relative to the shape in a step [m].
    """
    max_separation = world.shape[i, SHAPE.bounding_radius] + margin + travel
    return d.dot(d) < max_separation * max_separation


@ti.func
def mean_contact(world: ti.template(), deformable: ti.template(), b, i, p):
    """Mean of the contact parameters of link i and particle p."""
    return 0.5 * (load_vec4(deformable.particle_contact, b, p, 0) + load_vec4(world.link, b, i, LINK.contact))


@ti.func
def add_shared(world: ti.template(), array: ti.template(), b, i, column: ti.template(), size: ti.template(), value):
    """Add a vector of ``size`` numbers to columns of row (b, i) of an array, to which other lanes of a team may add, too."""
    if ti.static(world.kind == "single"):
        for k in ti.static(range(size)):
            array[b, i, column + k] = array[b, i, column + k] + value[k]
    else:
        for k in ti.static(range(size)):
            ti.atomic_add(array[b, i, column + k], value[k])


@ti.func
def particle_point_adjoint(world: ti.template(), b, i, arm, force, u_bar):
    """``point_adjoint`` of ``articulated.contact_force``, where lanes may add to the same link."""
    add_shared(world, world.work, b, i, WORK.bars + 6, 3, arm.cross(u_bar))
    add_shared(world, world.work, b, i, WORK.bars + 9, 3, u_bar)
    add_shared(world, world.work, b, i, WORK.bars + 18, 3, -arm.cross(force))
    add_shared(world, world.work, b, i, WORK.bars + 21, 3, -force)
    spin, virtual_spin = load_vec3(world.work, b, i, WORK.spin), load_vec3(world.work, b, i, WORK.virtual)
    return u_bar.cross(spin) - force.cross(virtual_spin)


@ti.func
def particle_loads(
    world: ti.template(), deformable: ti.template(), candidates: ti.template(), states: ti.template(),
    force: ti.template(), b, row, first_force_row,
):  # fmt: skip
    """Add the forces between particles and links to the forces of the particles and the loads of the links; needs the links'
    poses. The lanes of a team share the particles and add atomically, in any order.

    Args:
        world: ``WorldArrays``.
        deformable: ``DeformableArrays``.
        candidates: ``ContactParticles``.
        states: [B, rows, P, 6] of the particles.
        force: [B, rows, 3] N, added to.
        b: world.
        row: row of the states.
        first_force_row: row of the first particle in ``force``.
    """
    for i in range(world.links):
        if world.shape[i, SHAPE.bounding_radius] > 0:
            origin = load_vec3(world.work, b, i, WORK.position)
            shape_centre = origin + shape_arm(world, b, i)
            rotation = rotation_matrix(shape_rotation(world, b, i))
            for k in range(share(world, candidates.index.shape[0])):
                n = in_share(world, k)
                p = candidates.index[n]
                x = load_position(states, b, row, p)
                d = x - shape_centre
                u = load_velocity(states, b, row, p) - point_velocity(world, b, i, x - origin)
                travel = world.dt * u.norm()
                if may_touch(world, i, d, candidates.margin[n], travel):
                    local_position = rotation.transpose() @ d
                    gap, local_normal, weight = point_shape_contact(world, i, local_position, candidates.margin[n], travel)
                    if gap < travel:
                        contact = mean_contact(world, deformable, b, i, p)
                        f, _path = contact_force_along(
                            rotation @ local_normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt
                        )
                        f *= weight
                        if world.tree[i, TREE.moves] == 1:
                            add_shared(world, world.work, b, i, WORK.load, 3, (x - origin).cross(f))
                            add_shared(world, world.work, b, i, WORK.load + 3, 3, f)
                        add_shared(world, force, b, first_force_row + p, 0, 3, f)


@ti.func
def particle_loads_adjoint(
    world: ti.template(), bars: ti.template(), deformable: ti.template(), deformable_bars: ti.template(),
    candidates: ti.template(), states: ti.template(), force_bar: ti.template(), bar: ti.template(), b, row,
):  # fmt: skip
    """Adjoint of ``particle_loads`` between links with virtual velocities (see ``articulated.adjoint``) and particles.

    A force f on a particle has the adjoint w + y, with w the row of the particle in ``force_bar`` and y the virtual velocity of
    the link at the position of the particle. Adds to the adjoints of the links' motion, to those of the contact parameters of
    both, and to bar.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``.
        deformable, candidates, states, b, row: as in ``particle_loads``.
        deformable_bars: ``DeformableInputs`` of adjoints.
        force_bar: [B, P, 3] adjoint of the force on each particle.
        bar: [B, P, 6] adjoint of the particles' state.
    """
    for i in range(world.links):
        if world.shape[i, SHAPE.bounding_radius] > 0:
            origin, centre_arm = load_vec3(world.work, b, i, WORK.position), shape_arm(world, b, i)
            rotation = rotation_matrix(shape_rotation(world, b, i))
            for k in range(share(world, candidates.index.shape[0])):
                n = in_share(world, k)
                p = candidates.index[n]
                x = load_position(states, b, row, p)
                d = x - origin - centre_arm
                arm = x - origin
                u = load_velocity(states, b, row, p) - point_velocity(world, b, i, arm)
                travel = world.dt * u.norm()
                if may_touch(world, i, d, candidates.margin[n], travel):
                    local_position = rotation.transpose() @ d
                    gap, local_normal, weight = point_shape_contact(world, i, local_position, candidates.margin[n], travel)
                    if gap < travel:
                        normal = rotation @ local_normal
                        contact = mean_contact(world, deformable, b, i, p)
                        f_bar = load_vec3(force_bar, b, p, 0)
                        virtual_spin = load_vec3(world.work, b, i, WORK.virtual)
                        f_bar += load_vec3(world.work, b, i, WORK.virtual + 3) + virtual_spin.cross(arm)
                        f, normal_bar, gap_bar, u_bar, contact_bar = contact_force_along_adjoint(
                            normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt, weight * f_bar, vec3(0.0)
                        )
                        d_bar = rotation @ point_shape_contact_adjoint(
                            world, i, local_position, candidates.margin[n], gap_bar, rotation.transpose() @ normal_bar,
                            f.dot(f_bar),
                        )  # fmt: skip
                        x_bar = d_bar + particle_point_adjoint(world, b, i, arm, -weight * f, -u_bar)
                        # The frame of the shape rotates the normal forwards and the point backwards; its centre rotates with the
                        # link.
                        rotation_bar = normal.cross(normal_bar) - (d + centre_arm).cross(d_bar)
                        add_shared(world, world.work, b, i, WORK.bars, 3, rotation_bar)
                        add_shared(world, world.work, b, i, WORK.bars + 3, 3, -x_bar)
                        add_shared(world, bars.link, b, i, LINK.contact, 4, 0.5 * contact_bar)
                        add_vec4(deformable_bars.particle_contact, b, p, 0, 0.5 * contact_bar)
                        add_vec3(bar, b, p, 0, x_bar)
                        add_vec3(bar, b, p, 3, u_bar)
