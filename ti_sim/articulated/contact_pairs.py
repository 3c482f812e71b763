"""Contact between links: the list of near pairs, the forces on both links, and their adjoint (Taichi functions).

The forces are those of ``contact_force``. Contacts of a pair:

- spheres and capsules with each other: one, at their closest points;
- sphere and box or mesh: one; capsule and box or mesh: the spheres at the two ends of the capsule, and its deepest point in a
  window that is zero at the ends (``shape_distance``);
- boxes and meshes with each other: see ``surface_contact``.

See ``ti_sim.contact.shape_geometry`` for the kinks of the geometry. The contact law has kinks where a contact begins or ends and
between sticking and sliding. With bristles, a pair has one friction force and moment for all its points (``pair_bristle``).

Only pairs whose bounding spheres, each enlarged by ``max_displacement`` of its shape and by its travel in a step, overlap are
tested. The list of these near pairs is rebuilt when the centre of a shape has moved by ``max_displacement``, less its travel,
since the last build. No contact is missed, and the motion does not depend on the time of the build. The first pair that contact
cannot resolve is recorded with the reason, see ``collision``.
"""

from typing import Any

from ti_sim.articulated.contact_bristles import clear_pairs
from ti_sim.articulated.contact_force import (
    ContactPoint,
    add_contact_force,
    add_contact_force_adjoint,
    add_pose_adjoints,
    mark_pair,
    min_resolved_gap,
    pair_margin,
    point_contact,
    point_velocity,
    shape_arm,
    shape_rotation,
    shape_travel,
)
from ti_sim.articulated.link_team import (
    contact_row_of_link,
    fault_column,
    first_contact_row,
    for_pair,
    in_share,
    is_first_lane,
    share,
    stale_column,
    synchronise,
)
from ti_sim.articulated.pair_bristle import clear_pair_adjoints, clear_patch, patch_loads, patch_loads_adjoint
from ti_sim.articulated.spatial import rotated
from ti_sim.articulated.surface_contact import surface_contacts, surface_contacts_adjoint
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.bundles import bundle
from ti_sim.base.rows import add_vec4, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import rotation_matrix, vec3
from ti_sim.contact.collision import NEAR, PAIR, SHAPE, SURFACES, TOO_DEEP, TOO_FAST, WITH_ROUND, WITH_SURFACES
from ti_sim.contact.line_contact import Line, line_shape_contact, line_shape_contact_adjoint
from ti_sim.contact.patch import empty_patch


@ti.func
def has_moved_far(world: ti.template(), b, i):
    """Whether the shape of link i has moved by ``max_displacement``, less its travel in a step, since the list was built."""
    result = False
    if world.shape[i, SHAPE.max_displacement] > 0:
        displacement = load_vec3(world.work, b, i, WORK.position) + shape_arm(world, b, i)
        displacement -= vec3(world.anchor[b, i, 0], world.anchor[b, i, 1], world.anchor[b, i, 2])
        remaining_displacement = ti.max(world.shape[i, SHAPE.max_displacement] - shape_travel(world, b, i), 0.0)
        result = displacement.dot(displacement) > remaining_displacement * remaining_displacement
    return result


@ti.func
def build_near_pairs(world: ti.template(), b):
    """Build the list of near pairs."""
    for i in range(world.links):
        if world.shape[i, SHAPE.bounding_radius] > 0:
            centre = load_vec3(world.work, b, i, WORK.position) + shape_arm(world, b, i)
            store_vec3(world.anchor, b, i, 0, centre)
    count = 0
    for p in range(world.pairs):
        i, j = world.pair[p, PAIR.first_link], world.pair[p, PAIR.second_link]
        max_separation = world.shape[i, SHAPE.bounding_radius] + world.shape[j, SHAPE.bounding_radius]
        max_separation += world.shape[i, SHAPE.max_displacement]
        max_separation += world.shape[j, SHAPE.max_displacement]
        max_separation += shape_travel(world, b, i) + shape_travel(world, b, j)
        separation = load_vec3(world.anchor, b, i, 0) - load_vec3(world.anchor, b, j, 0)
        if separation.dot(separation) < max_separation * max_separation:
            world.near_pairs[b, NEAR.first_pair + count] = p
            count += 1
    world.near_pairs[b, NEAR.count] = count
    world.near_pairs[b, NEAR.lists] = world.near_pairs[b, NEAR.lists] + 1


@ti.func
def update_near_pairs(world: ti.template(), b):
    """Rebuild the list of near pairs if a shape has moved by ``max_displacement`` since the last build.

    The poses of the links must be up to date. The lanes of a team share the links; lane 0 builds the list.
    """
    is_stale = world.near_pairs[b, NEAR.count] < 0
    for k in range(share(world, world.links)):
        if not is_stale:
            is_stale = has_moved_far(world, b, in_share(world, k))
    if ti.static(world.kind != "single"):
        if is_stale:
            world.near_pairs[b, stale_column(world)] = 1
        synchronise(world, b)
        is_stale = world.near_pairs[b, stale_column(world)] == 1
    if is_first_lane(world):
        if is_stale:
            build_near_pairs(world, b)
        if ti.static(world.kind != "single"):
            world.near_pairs[b, stale_column(world)] = 0
        world.near_pairs[b, NEAR.tests] = world.near_pairs[b, NEAR.tests] + world.near_pairs[b, NEAR.count]
    synchronise(world, b)


@ti.func
def check_speed(world: ti.template(), b, p, i, j):
    """Mark a near pair whose shapes move in one step by more than the smaller half size of both."""
    arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
    d = load_vec3(world.work, b, i, WORK.position) + arm_i - load_vec3(world.work, b, j, WORK.position) - arm_j
    travel = world.dt * (point_velocity(world, b, i, arm_i) - point_velocity(world, b, j, arm_j)).norm()
    max_travel = ti.min(world.shape[i, SHAPE.min_half_extent], world.shape[j, SHAPE.min_half_extent])
    max_separation = world.shape[i, SHAPE.bounding_radius] + world.shape[j, SHAPE.bounding_radius] + travel
    if travel > max_travel and d.dot(d) < max_separation * max_separation:
        mark_pair(world, b, p, TOO_FAST)


@bundle
class RoundPair:
    """A sphere or capsule of one link and the shape of another link, in a kernel.

    Attributes:
        separation: origin of the first link minus that of the second [m].
        first_arm, second_arm: from the origin of each link to the centre of its shape, world axes [m].
        second_rotation: rotation matrix of the second shape.
        line: ``Line`` of the first shape.
        margin: gap at which contact may begin [m].
    """

    separation: Any
    first_arm: Any
    second_arm: Any
    second_rotation: Any
    line: Any
    margin: Any


@ti.func
def load_round_pair(world: ti.template(), b, i, j):
    """``RoundPair`` of two links."""
    arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
    separation = load_vec3(world.work, b, i, WORK.position) - load_vec3(world.work, b, j, WORK.position)
    centre, rotation = separation + arm_i - arm_j, rotation_matrix(shape_rotation(world, b, j))
    line_direction = rotated(shape_rotation(world, b, i), vec3(0.0, 0.0, 1.0))
    half_length, radius = world.shape[i, SHAPE.half_length], world.shape[i, SHAPE.radius]
    margin = pair_margin(world, b, i, j)
    return RoundPair(separation, arm_i, arm_j, rotation, Line(centre, line_direction, half_length, radius), margin)


@ti.func
def point_on_line(world: ti.template(), p, c, h):
    """Position of contact point c of pair p on a line of half length h [m], and 1 if the point is the deepest one instead."""
    position, is_deepest = 0.0, 0.0
    if world.pair[p, PAIR.contacts] == 3:
        if c == 2:
            is_deepest = 1.0
        else:
            position = (2.0 * c - 1.0) * h
    return position, is_deepest


@ti.func
def mark_if_deep(world: ti.template(), b, p, i, j, gap):
    """Record a pair whose overlap contact does not resolve."""
    if gap < min_resolved_gap(world, i, j):
        mark_pair(world, b, p, TOO_DEEP)


@ti.func
def round_contacts(world: ti.template(), b, p, i, j, patch: ti.template()):
    """Add the forces of pair p, a sphere or capsule of link i with the shape of link j, to the loads of both links.

    Arguments are those of ``surface_contact.surface_contacts``.
    """
    pair = load_round_pair(world, b, i, j)
    for c in range(world.pair[p, PAIR.contacts]):
        position, is_deepest = point_on_line(world, p, c, pair.line.half_length)
        offset, normal, gap, weight, _s = line_shape_contact(
            world, j, pair.second_rotation, pair.line, position, is_deepest, pair.margin
        )
        if gap < pair.margin:
            mark_if_deep(world, b, p, i, j, gap)
            arm, contact = pair.first_arm + offset, point_contact(world, b, i, j)
            point = ContactPoint(arm, pair.separation, normal, gap, weight, 1.0)
            add_contact_force(world, b, i, j, point, contact, patch)


@ti.func
def round_contacts_adjoint(world: ti.template(), bars: ti.template(), b, p, i, j, patch: ti.template()):
    """Adjoint of ``round_contacts``; arguments are those of ``surface_contact.surface_contacts_adjoint``."""
    pair = load_round_pair(world, b, i, j)
    for c in range(world.pair[p, PAIR.contacts]):
        position, is_deepest = point_on_line(world, p, c, pair.line.half_length)
        offset, normal, gap, weight, s = line_shape_contact(
            world, j, pair.second_rotation, pair.line, position, is_deepest, pair.margin
        )
        if gap < pair.margin:
            mark_if_deep(world, b, p, i, j, gap)
            arm, contact = pair.first_arm + offset, point_contact(world, b, i, j)
            point = ContactPoint(arm, pair.separation, normal, gap, weight, 1.0)
            point_bar, separation_bar, normal_bar, gap_bar, weight_bar = add_contact_force_adjoint(
                world, bars, b, i, j, point, contact, patch
            )
            centre_bar, line_direction_bar, rotation_j_bar = line_shape_contact_adjoint(
                world, j, pair.second_rotation, pair.line, s, is_deepest, normal, gap, point_bar, normal_bar, gap_bar, weight_bar
            )
            rotation_i_bar = pair.line.direction.cross(line_direction_bar)
            add_pose_adjoints(
                world, b, i, j, pair.first_arm, pair.second_arm, point_bar, separation_bar, -centre_bar, rotation_i_bar,
                rotation_j_bar,
            )  # fmt: skip


@ti.func
def clear_contact_rows(world: ti.template(), b, p, first_column: ti.template(), column_count: ti.template()):
    """Set columns of the rows of pair p to zero, in a team."""
    if ti.static(world.kind != "single"):
        for side in range(2):
            for column in ti.static(range(first_column, first_column + column_count)):
                world.work[b, first_contact_row(world, p) + side, column] = 0.0


@ti.func
def clear_contact_parameter_rows(world: ti.template(), bars: ti.template(), b, p):
    """Set the adjoints of contact parameters in the rows of pair p to zero, in a team."""
    if ti.static(world.kind != "single"):
        for side in range(2):
            for k in ti.static(range(4)):
                bars.link[b, first_contact_row(world, p) + side, LINK.contact + k] = 0.0
            bars.link[b, first_contact_row(world, p) + side, LINK.bristle] = 0.0


@ti.func
def add_contact_rows(world: ti.template(), b, i, first_column: ti.template(), column_count: ti.template()):
    """Add columns of the rows of the near pairs of link i to those of the link, in order of the list."""
    for n in range(world.near_pairs[b, NEAR.count]):
        row = contact_row_of_link(world, world.near_pairs[b, NEAR.first_pair + n], i)
        if row >= 0:
            for column in ti.static(range(first_column, first_column + column_count)):
                world.work[b, i, column] = world.work[b, i, column] + world.work[b, row, column]


@ti.func
def add_contact_parameter_rows(world: ti.template(), bars: ti.template(), b, i):
    """Add the adjoints of contact parameters in the rows of the near pairs of link i to those of the link."""
    for n in range(world.near_pairs[b, NEAR.count]):
        row = contact_row_of_link(world, world.near_pairs[b, NEAR.first_pair + n], i)
        if row >= 0:
            add_vec4(bars.link, b, i, LINK.contact, load_vec4(bars.link, b, row, LINK.contact))
            bars.link[b, i, LINK.bristle] = bars.link[b, i, LINK.bristle] + bars.link[b, row, LINK.bristle]


@ti.func
def record_first_fault(world: ti.template(), b):
    """Record the first pair of the list that contact could not resolve in this step, as one thread does."""
    for n in range(world.near_pairs[b, NEAR.count]):
        p = world.near_pairs[b, NEAR.first_pair + n]
        fault = world.near_pairs[b, fault_column(world, p)]
        if fault > 0:
            world.near_pairs[b, fault_column(world, p)] = 0
            if world.near_pairs[b, NEAR.faulty_pair] < 0:
                world.near_pairs[b, NEAR.faulty_pair] = p
                world.near_pairs[b, NEAR.fault] = fault - 1


@ti.func
def one_pair_contacts(arrays: ti.template(), states: ti.template(), b, slot, p, patch: ti.template()):
    """Add the forces of pair p to the loads of its links.

    Args:
        arrays: ``WorldArrays``; needs the links' poses.
        states, slot: row with the bristles of the pairs.
        b: world.
        p: the pair.
        patch: its patch, which is cleared here.
    """
    i, j, kind = arrays.pair[p, PAIR.first_link], arrays.pair[p, PAIR.second_link], arrays.pair[p, PAIR.contact_kind]
    world = for_pair(arrays, p, i)
    clear_contact_rows(world, b, p, WORK.load, 6)
    check_speed(world, b, p, i, j)
    if ti.static(world.with_contact_bristles):
        clear_patch(world, b, i, j, patch)
    if kind == SURFACES:
        if ti.static(world.with_pairs & WITH_SURFACES):
            surface_contacts(world, b, p, i, j, patch)
    elif ti.static(world.with_pairs & WITH_ROUND):
        round_contacts(world, b, p, i, j, patch)
    if ti.static(world.with_contact_bristles):
        patch_loads(world, states, b, slot, p, i, j, patch)


@ti.func
def one_pair_contacts_adjoint(
    arrays: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, p, patch: ti.template()
):
    """Adjoint of ``one_pair_contacts``, as ``pair_loads_adjoint``."""
    i, j, kind = arrays.pair[p, PAIR.first_link], arrays.pair[p, PAIR.second_link], arrays.pair[p, PAIR.contact_kind]
    world = for_pair(arrays, p, i)
    clear_contact_rows(world, b, p, WORK.bars, 24)
    clear_contact_parameter_rows(world, bars, b, p)
    check_speed(world, b, p, i, j)
    if ti.static(world.with_contact_bristles):
        patch_loads_adjoint(world, bars, states, bar, b, slot, row, p, i, j, patch)
    if kind == SURFACES:
        if ti.static(world.with_pairs & WITH_SURFACES):
            surface_contacts_adjoint(world, bars, b, p, i, j, patch)
    elif ti.static(world.with_pairs & WITH_ROUND):
        round_contacts_adjoint(world, bars, b, p, i, j, patch)


@ti.func
def pair_loads(world: ti.template(), states: ti.template(), b, slot):
    """Add the forces of near pairs to the loads of the links; needs the links' poses.

    With bristles it reads their displacements before the step in a row of ``states``, and writes those after it to the same row.
    """
    update_near_pairs(world, b)
    if ti.static(world.with_contact_bristles):
        clear_pairs(world, states, b, slot)
        synchronise(world, b)
    patch = empty_patch()
    for k in range(share(world, world.near_pairs[b, NEAR.count])):
        one_pair_contacts(world, states, b, slot, world.near_pairs[b, NEAR.first_pair + in_share(world, k)], patch)
    if ti.static(world.kind != "single"):
        synchronise(world, b)
        for k in range(share(world, world.links)):
            i = in_share(world, k)
            if world.tree[i, TREE.moves] == 1:
                add_contact_rows(world, b, i, WORK.load, 6)
        if is_first_lane(world):
            record_first_fault(world, b)
        synchronise(world, b)


@ti.func
def pair_loads_adjoint(world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row):
    """Adjoint of the part of L of the pairs (see ``adjoint``): the negative power of the forces on the virtual velocities of
    their points.

    Adds to the adjoints of both links' motion and contact parameters. With bristles it replaces the adjoints of their
    displacements after the step, in a row of ``bar``, by those before it.
    """
    update_near_pairs(world, b)
    if ti.static(world.with_contact_bristles):
        clear_pair_adjoints(world, states, bar, b, slot, row)
        synchronise(world, b)
    patch = empty_patch()
    for k in range(share(world, world.near_pairs[b, NEAR.count])):
        p = world.near_pairs[b, NEAR.first_pair + in_share(world, k)]
        one_pair_contacts_adjoint(world, bars, states, bar, b, slot, row, p, patch)
    if ti.static(world.kind != "single"):
        synchronise(world, b)
        for k in range(share(world, world.links)):
            i = in_share(world, k)
            add_contact_rows(world, b, i, WORK.bars, 24)
            add_contact_parameter_rows(world, bars, b, i)
        synchronise(world, b)
