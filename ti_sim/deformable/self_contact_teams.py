"""New hashes of self-contact, built while the threads of a team advance a world (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.base.teams import lane_share, team_barrier
from ti_sim.deformable.corners import load_velocity
from ti_sim.deformable.self_contact_layout import INTS, REALS, TABLE
from ti_sim.deformable.self_contact_lists import (
    build_hash,
    invalidate_list,
    is_stale,
    min_travel,
    record_vertex,
    store_entry,
    travel_bound,
)


@ti.func
def build_world_hash(
    team: ti.template(), contacts: ti.template(), states: ti.template(), b, lane, row, step, dt, chunks: ti.template(), passed
):
    """Build a new hash on the first thread of world b where ``step`` needs one; the other threads wait at a barrier.

    For few threads, each with ``chunks`` of the triangles: the order of the hash, and of all sums, is that of one thread.

    Returns:
        Number of barriers passed in the launch, of which ``passed`` before.
    """
    if is_stale(contacts, b, step, team.zero):
        if lane == 0:
            build_hash(contacts, states, b, row, step, dt)
        passed = team_barrier(team, b, lane, passed)
        for k in range(lane_share(team, lane, chunks)):
            invalidate_list(contacts, b, lane + k * team.size)
    return passed


@ti.func
def _any_stale(team: ti.template(), contacts: ti.template(), first_world, worlds, step):
    """Whether a world of a group needs a new hash. All threads of the group read the same, because the marks change only
    between two other barriers."""
    result = False
    for b in range(first_world, first_world + worlds):
        if is_stale(contacts, b, step, team.zero):
            result = True
    return result


@ti.func
def build_shared_hash(
    team: ti.template(), contacts: ti.template(), states: ti.template(), group, lane, row, step, dt, passed
):
    """``build_hash`` by all threads of a group in its worlds where ``step`` needs one, each triangle a chunk.

    Vertices of a bucket come in any order: sums of forces are repeatable up to rounding.

    Returns:
        Number of barriers passed in the launch, of which ``passed`` before.
    """
    worlds = states.shape[0] // team.groups
    first_world = group * worlds
    if _any_stale(team, contacts, first_world, worlds, step):
        buckets, vertices = contacts.table[TABLE.bucket_count], contacts.table[TABLE.vertex_count]
        triangles, first_bucket = contacts.table[TABLE.triangle_count], contacts.table[TABLE.buckets_start]
        for k in range(lane_share(team, lane, worlds * buckets)):
            i = lane + k * team.size
            b, bucket = first_world + i // buckets, i % buckets
            if contacts.ints[b, INTS.next_build_step] == step:
                contacts.ints[b, first_bucket + 2 * bucket + 1] = 0
                if bucket == 0:
                    contacts.ints[b, INTS.placed_count] = 0
                    contacts.reals[b, REALS.travel_bound] = min_travel(contacts, b)
                    for j in ti.static(range(3)):
                        contacts.reals[b, REALS.mean_velocity + j] = 0.0
        passed = team_barrier(team, group, lane, passed)
        for k in range(lane_share(team, lane, worlds * vertices)):
            i = lane + k * team.size
            b, q = first_world + i // vertices, i % vertices
            if contacts.ints[b, INTS.next_build_step] == step:
                key = record_vertex(contacts, states, b, row, q)
                ti.atomic_add(contacts.ints[b, first_bucket + 2 * key + 1], 1)
                velocity = load_velocity(states, b, row, contacts.table[contacts.table[TABLE.vertices_start] + q]) / vertices
                for j in ti.static(range(3)):
                    ti.atomic_add(contacts.reals[b, REALS.mean_velocity + j], velocity[j])
        passed = team_barrier(team, group, lane, passed)
        for k in range(lane_share(team, lane, worlds * buckets)):
            i = lane + k * team.size
            b, entry = first_world + i // buckets, first_bucket + 2 * (i % buckets)
            if contacts.ints[b, INTS.next_build_step] == step:
                first = ti.atomic_add(contacts.ints[b, INTS.placed_count], contacts.ints[b, entry + 1])
                contacts.ints[b, entry] = first
                contacts.ints[b, entry + 1] = first
        passed = team_barrier(team, group, lane, passed)
        for k in range(lane_share(team, lane, worlds * vertices)):
            i = lane + k * team.size
            b, q = first_world + i // vertices, i % vertices
            if contacts.ints[b, INTS.next_build_step] == step:
                cursor = first_bucket + 2 * contacts.ints[b, contacts.table[TABLE.keys_start] + q] + 1
                store_entry(contacts, b, q, ti.atomic_add(contacts.ints[b, cursor], 1))
                ti.atomic_max(contacts.reals[b, REALS.travel_bound], travel_bound(contacts, states, b, row, q, dt))
                if q == 0:
                    contacts.ints[b, INTS.last_build_step] = step
        for k in range(lane_share(team, lane, worlds * triangles)):
            i = lane + k * team.size
            if contacts.ints[first_world + i // triangles, INTS.next_build_step] == step:
                invalidate_list(contacts, first_world + i // triangles, i % triangles)
        passed = team_barrier(team, group, lane, passed)
    return passed
