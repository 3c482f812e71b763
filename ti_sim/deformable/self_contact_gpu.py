"""Self-contact in steps of the element plan on a GPU: a thread for each vertex or triangle, each triangle a part of its own.

Forces are added by atomic operations, in any order: results repeat to rounding.
"""

from ti_sim.base.runtime import ti
from ti_sim.deformable.corners import load_velocity
from ti_sim.deformable.self_contact import part_contacts, part_contacts_adjoint
from ti_sim.deformable.self_contact_layout import BUCKET, BUILT, DRIFT, KEY, PLACED, STALE, VERTEX
from ti_sim.deformable.self_contact_lists import enter, forget_list, place, self_contact_arrays


@ti.kernel
def sort_vertices(
    step: int, states: ti.types.ndarray(), first_step: int, in_place: int, vertices: int, buckets: int, triangles: int,
    contact_material: ti.types.ndarray(), contact_table: ti.types.ndarray(), contact_ints: ti.types.ndarray(),
    contact_reals: ti.types.ndarray(),
):  # fmt: skip
    """Build the hash anew in the worlds in which ``step`` needs it, as ``self_contact_lists.build_hash``."""
    for b, bucket in ti.ndrange(states.shape[0], buckets):
        if contact_ints[b, STALE] == step:
            contact_ints[b, contact_table[BUCKET] + 2 * bucket + 1] = 0
            if bucket == 0:
                contact_ints[b, PLACED] = 0
                for k in ti.static(range(3)):
                    contact_reals[b, DRIFT + k] = 0.0
    for b, q in ti.ndrange(states.shape[0], vertices):
        if contact_ints[b, STALE] == step:
            contacts = self_contact_arrays(True, contact_material, contact_table, contact_ints, contact_reals)
            row = (step - first_step) * (1 - in_place)
            key = enter(contacts, states, b, row, q)
            ti.atomic_add(contact_ints[b, contact_table[BUCKET] + 2 * key + 1], 1)
            velocity = load_velocity(states, b, row, contact_table[contact_table[VERTEX] + q]) / vertices
            for k in ti.static(range(3)):
                ti.atomic_add(contact_reals[b, DRIFT + k], velocity[k])
    for b, bucket in ti.ndrange(states.shape[0], buckets):
        if contact_ints[b, STALE] == step:
            at = contact_table[BUCKET] + 2 * bucket
            first = ti.atomic_add(contact_ints[b, PLACED], contact_ints[b, at + 1])
            contact_ints[b, at] = first
            contact_ints[b, at + 1] = first
    for b, q in ti.ndrange(states.shape[0], vertices):
        if contact_ints[b, STALE] == step:
            contacts = self_contact_arrays(True, contact_material, contact_table, contact_ints, contact_reals)
            end = contact_table[BUCKET] + 2 * contact_ints[b, contact_table[KEY] + q] + 1
            place(contacts, b, q, ti.atomic_add(contact_ints[b, end], 1))
            if q == 0:
                contact_ints[b, BUILT] = step
    for b, triangle in ti.ndrange(states.shape[0], triangles):
        if contact_ints[b, STALE] == step:
            contacts = self_contact_arrays(True, contact_material, contact_table, contact_ints, contact_reals)
            forget_list(contacts, b, triangle)


@ti.kernel
def add_contacts(
    step: int, states: ti.types.ndarray(), first_step: int, in_place: int, given: ti.types.ndarray(), triangles: int, dt: float,
    contact_material: ti.types.ndarray(), contact_table: ti.types.ndarray(), contact_ints: ti.types.ndarray(),
    contact_reals: ti.types.ndarray(),
):  # fmt: skip
    """Add the forces of self-contact before ``step`` to the last P rows of given [B, rows, 3]."""
    for b, triangle in ti.ndrange(states.shape[0], triangles):
        contacts = self_contact_arrays(True, contact_material, contact_table, contact_ints, contact_reals)
        row = (step - first_step) * (1 - in_place)
        part_contacts(contacts, states, given, b, row, triangle, triangles, dt)


@ti.kernel
def add_contacts_adjoint(
    step: int, states: ti.types.ndarray(), first_step: int, dual: ti.types.ndarray(), pending: ti.types.ndarray(),
    triangles: int, dt: float,
    contact_material: ti.types.ndarray(), contact_table: ti.types.ndarray(), contact_ints: ti.types.ndarray(),
    contact_reals: ti.types.ndarray(), contact_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``add_contacts`` with dual [B, P, 3]: adds to the last P rows of pending [B, rows, 6] and to contact_bar
    [B, rows, 4]."""
    for b, triangle in ti.ndrange(states.shape[0], triangles):
        contacts = self_contact_arrays(True, contact_material, contact_table, contact_ints, contact_reals)
        part_contacts_adjoint(contacts, contact_bar, states, dual, pending, b, step - first_step, triangle, triangles, dt)
