"""Self-contact in the element plan on a GPU: one thread per vertex or triangle, each triangle is a chunk.

Forces are added atomically, in any order: results are repeatable up to rounding.
"""

from ti_sim.base.bundles import kernel, with_fields
from ti_sim.base.runtime import ti
from ti_sim.deformable.corners import load_velocity
from ti_sim.deformable.self_contact import chunk_contacts, chunk_contacts_adjoint
from ti_sim.deformable.self_contact_layout import INTS, REALS, TABLE
from ti_sim.deformable.self_contact_lists import (
    SelfContactArrays,
    invalidate_list,
    min_travel,
    record_vertex,
    store_entry,
    travel_bound,
)


@kernel
def sort_vertices(
    step: int, states: ti.types.ndarray(), first_step: int, in_place: int, vertex_count: int, bucket_count: int,
    triangle_count: int, dt: float, contacts: SelfContactArrays,
):  # fmt: skip
    """Rebuild the hash in the worlds in which ``step`` needs it, as ``self_contact_lists.build_hash``."""
    for b, bucket in ti.ndrange(states.shape[0], bucket_count):
        if contacts.ints[b, INTS.next_build_step] == step:
            contacts.ints[b, contacts.table[TABLE.buckets_start] + 2 * bucket + 1] = 0
            if bucket == 0:
                contacts.ints[b, INTS.placed_count] = 0
                contacts.reals[b, REALS.travel_bound] = min_travel(contacts, b)
                for k in ti.static(range(3)):
                    contacts.reals[b, REALS.mean_velocity + k] = 0.0
    for b, q in ti.ndrange(states.shape[0], vertex_count):
        if contacts.ints[b, INTS.next_build_step] == step:
            row = (step - first_step) * (1 - in_place)
            key = record_vertex(contacts, states, b, row, q)
            ti.atomic_add(contacts.ints[b, contacts.table[TABLE.buckets_start] + 2 * key + 1], 1)
            velocity = load_velocity(states, b, row, contacts.table[contacts.table[TABLE.vertices_start] + q]) / vertex_count
            for k in ti.static(range(3)):
                ti.atomic_add(contacts.reals[b, REALS.mean_velocity + k], velocity[k])
    for b, bucket in ti.ndrange(states.shape[0], bucket_count):
        if contacts.ints[b, INTS.next_build_step] == step:
            bucket_entry = contacts.table[TABLE.buckets_start] + 2 * bucket
            first = ti.atomic_add(contacts.ints[b, INTS.placed_count], contacts.ints[b, bucket_entry + 1])
            contacts.ints[b, bucket_entry] = first
            contacts.ints[b, bucket_entry + 1] = first
    for b, q in ti.ndrange(states.shape[0], vertex_count):
        if contacts.ints[b, INTS.next_build_step] == step:
            cursor = contacts.table[TABLE.buckets_start] + 2 * contacts.ints[b, contacts.table[TABLE.keys_start] + q] + 1
            store_entry(contacts, b, q, ti.atomic_add(contacts.ints[b, cursor], 1))
            row = (step - first_step) * (1 - in_place)
            ti.atomic_max(contacts.reals[b, REALS.travel_bound], travel_bound(contacts, states, b, row, q, dt))
            if q == 0:
                contacts.ints[b, INTS.last_build_step] = step
    for b, triangle in ti.ndrange(states.shape[0], triangle_count):
        if contacts.ints[b, INTS.next_build_step] == step:
            invalidate_list(contacts, b, triangle)


@kernel
def add_contacts(
    step: int, states: ti.types.ndarray(), first_step: int, in_place: int, forces: ti.types.ndarray(), triangle_count: int,
    dt: float, contacts: SelfContactArrays,
):  # fmt: skip
    """Add the forces of self-contact before ``step`` to the last P rows of forces [B, rows, 3]."""
    for b, triangle in ti.ndrange(states.shape[0], triangle_count):
        row = (step - first_step) * (1 - in_place)
        contacts_with_slots = with_fields(contacts, gather=True)
        chunk_contacts(contacts_with_slots, states, forces, b, row, triangle, triangle_count, dt)


@kernel
def add_contacts_adjoint(
    step: int, states: ti.types.ndarray(), first_step: int, dual: ti.types.ndarray(), element_bars: ti.types.ndarray(),
    triangle_count: int, dt: float,
    contacts: SelfContactArrays, contact_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``add_contacts`` with dual [B, P, 3]: adds to the last P rows of element_bars [B, rows, 6] and to
    contact_bar [B, rows, 4]."""
    for b, triangle in ti.ndrange(states.shape[0], triangle_count):
        contacts_with_slots = with_fields(contacts, gather=True)
        chunk_contacts_adjoint(
            contacts_with_slots, contact_bar, states, dual, element_bars, b, step - first_step, triangle, triangle_count, dt
        )
