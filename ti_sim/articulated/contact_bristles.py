"""Bristles of contacts in the rows of states: their columns, their steps and the first state (Taichi functions).

Contact that sticks has elastic displacements as a part of the state: one for each pair of shapes that may collide (three numbers
in the frame of the second link [m], and an angle about the normal [rad], see ``pair_bristle``), and one for each contact point
with the ground (in the plane [m], see ``ti_sim.contact.bristle``). A row of states [B, rows, columns] holds, after coordinates,
velocities, accelerations and deflections of dry friction,

- the displacements before the step: of pairs (4 numbers each), of points (2 each);
- those after it, in the same order, which the forces of the step write;
- the patch of each pair in the step (11 numbers each), from which the adjoint of the step begins.

A row of adjoints holds those of the displacements, after those of velocities and of deflections of dry friction. They are the
adjoints of the displacements after a step until the adjoint of its forces replaces them by those before it.
"""

from ti_sim.articulated.link_team import in_share, share
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2
from ti_sim.contact.patch import STORED_PATCH_SIZE

PAIR_BRISTLE_SIZE = 4  # displacement and angle
POINT_BRISTLE_SIZE = 2


@ti.func
def pair_count(world: ti.template()):
    """Number of pairs that have bristles; 0 in a model without pairs, whose table of pairs has a placeholder."""
    count = 0
    if ti.static(world.with_pairs):
        count = world.pairs
    return count


@ti.func
def bristle_size(world: ti.template()):
    """Number of columns of the displacements of all bristles."""
    return PAIR_BRISTLE_SIZE * pair_count(world) + POINT_BRISTLE_SIZE * world.point.shape[0]


@ti.func
def first_bristle(world: ti.template()):
    """First column of the displacements before a step in a row of states."""
    columns = world.coordinates + 2 * world.velocities
    if ti.static(world.with_dry_friction):
        columns += world.velocities
    return columns


@ti.func
def first_bristle_bar(world: ti.template()):
    """First column of the adjoints of displacements in a row of adjoints."""
    return first_bristle(world) - world.velocities


@ti.func
def state_columns(world: ti.template()):
    """Number of columns of a row of states: coordinates, velocities, accelerations, and those of dry friction and bristles."""
    columns = first_bristle(world)
    if ti.static(world.with_contact_bristles):
        columns += 2 * bristle_size(world) + STORED_PATCH_SIZE * pair_count(world)
    return columns


@ti.func
def pair_column(p):
    """Column of the displacement of pair p among those of all bristles."""
    return PAIR_BRISTLE_SIZE * p


@ti.func
def point_column(world: ti.template(), p):
    """Column of the displacement of contact point p among those of all bristles."""
    return PAIR_BRISTLE_SIZE * pair_count(world) + POINT_BRISTLE_SIZE * p


@ti.func
def patch_column(world: ti.template(), p):
    """Column of the patch of pair p in a row of states."""
    return first_bristle(world) + 2 * bristle_size(world) + STORED_PATCH_SIZE * p


@ti.func
def load_point_displacement(rows: ti.template(), b, row, column):
    """Displacement of a contact point from a column on."""
    return vec2(rows[b, row, column], rows[b, row, column + 1])


@ti.func
def store_point_displacement(rows: ti.template(), b, row, column, s):
    """Write the displacement of a contact point from a column on."""
    for k in ti.static(range(POINT_BRISTLE_SIZE)):
        rows[b, row, column + k] = s[k]


@ti.func
def clear_pairs(world: ti.template(), states: ti.template(), b, slot):
    """Set the displacements of all pairs after the step to zero, and their patches to those of pairs that do not touch.

    The first number of a patch, the sum of the normal forces, is then zero, and the other numbers are not read.
    """
    first_new_column = first_bristle(world) + bristle_size(world)
    for n in range(share(world, pair_count(world))):
        p = in_share(world, n)
        for k in ti.static(range(PAIR_BRISTLE_SIZE)):
            states[b, slot, first_new_column + pair_column(p) + k] = 0.0
        states[b, slot, patch_column(world, p)] = 0.0


@ti.func
def step_contact_bristles(world: ti.template(), states: ti.template(), b, slot):
    """Replace the displacements before a step by those after it, which the forces of the step have written."""
    first_column, column_count = first_bristle(world), bristle_size(world)
    for n in range(share(world, column_count)):
        k = in_share(world, n)
        states[b, slot, first_column + k] = states[b, slot, first_column + column_count + k]


@ti.func
def copy_bristles(world: ti.template(), source: ti.template(), slot, target: ti.template(), target_slot, b):
    """Copy the displacements before a step from one row to another."""
    first_column = first_bristle(world)
    for n in range(share(world, bristle_size(world))):
        k = in_share(world, n)
        target[b, target_slot, first_column + k] = source[b, slot, first_column + k]


@ti.kernel
def initialise_contact_bristles(states: ti.types.ndarray(), first_column: int, column_count: int):
    """Write zeros, the displacements at the start, to slot 0 of states [B, slots, columns], from column ``first_column`` on."""
    for b, k in ti.ndrange(states.shape[0], column_count):
        states[b, 0, first_column + k] = 0.0
