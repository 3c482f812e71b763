"""Candidate pairs of vertices and triangles: a spatial hash of vertices, and pair lists with a skin (Taichi functions).

Contact begins when the distance of a pair is the thickness plus the distance that both approach each other in a step. A bound of
the distance that a particle moves in a step relative to the mean motion, its travel, is kept with the hash. The list of a chunk
of triangles contains all pairs closer than thickness + skin + two travels when the hash was built. It is valid until a particle
has moved by half a skin relative to the mean motion, which changes no distance, or moves faster than the bound. The forces do not
depend on the lists: they contain more pairs than touch, always in the same order (by triangle, then by particle index). If a
chunk has more pairs than the capacity of its list, the list is filled and processed several times in each step, which is slower
and has the same result.
"""

from typing import Any

from ti_sim.base.bundles import Array, Static, bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.deformable.corners import load_position, load_velocity
from ti_sim.deformable.particle_step import LARGEST
from ti_sim.deformable.self_contact_layout import INTS, REALS, TABLE
from ti_sim.deformable.triangle_distance import closest_on_triangle, is_beyond_plane


@bundle
class SelfContactArrays:
    """Arrays of self-contact that kernels read and write.

    Attributes:
        parameters: [B, 4] ke, kd, kf, mu.
        table: [N] int32 table of the model, see ``TABLE``.
        ints: [B, N] int32 hash and lists, see ``INTS``.
        reals: [B, N] hash, see ``REALS``.
        gather: as in ``DeformableArrays``.
    """

    parameters: Array
    table: Array
    ints: Array
    reals: Array
    gather: Static = False


@ti.func
def corner_of(contacts: ti.template(), triangle, corner):
    """Particle at a corner of a triangle."""
    return contacts.table[TABLE.corners + 3 * triangle + corner]


@ti.func
def first_pair(contacts: ti.template(), chunk):
    """Start of a chunk's list of (triangle, particle) in ``ints``."""
    return contacts.table[TABLE.lists_start] + 2 * chunk * contacts.table[TABLE.list_capacity]


@ti.func
def is_stale(contacts: ti.template(), b, step, zero):
    """Whether ``step`` needs a new hash.

    Args:
        zero: 0, as a run-time value: adding it atomically reads what other threads have written.
    """
    return ti.atomic_add(contacts.ints[b, INTS.next_build_step], zero) == step


@ti.func
def hash_key(contacts: ti.template(), x, y, z):
    """Bucket of the cell with integer coordinates x, y, z."""
    return ((x * 73856093) ^ (y * 19349663) ^ (z * 83492791)) & (contacts.table[TABLE.bucket_count] - 1)


@ti.func
def cell_of(contacts: ti.template(), b, x):
    """Cell of a point, as three integers of real type."""
    return ti.floor(x * contacts.reals[b, REALS.inverse_cell_size])


@ti.func
def stored_position(contacts: ti.template(), b, first, index):
    """Position ``index`` of the array of positions at ``first`` in ``reals``."""
    entry = first + 3 * index
    return vec3(contacts.reals[b, entry], contacts.reals[b, entry + 1], contacts.reals[b, entry + 2])


@ti.func
def store_position(contacts: ti.template(), b, first, index, x):
    """Write a position for ``stored_position``."""
    for k in ti.static(range(3)):
        contacts.reals[b, first + 3 * index + k] = x[k]


@ti.func
def record_vertex(contacts: ti.template(), states: ti.template(), b, row, q):
    """Read the position of vertex q from a row of states; store it with its key, and return the key."""
    x = load_position(states, b, row, contacts.table[contacts.table[TABLE.vertices_start] + q])
    store_position(contacts, b, REALS.positions, contacts.table[contacts.table[TABLE.vertices_start] + q], x)
    cell = ti.cast(cell_of(contacts, b, x), ti.i32)
    key = hash_key(contacts, cell.x, cell.y, cell.z)
    contacts.ints[b, contacts.table[TABLE.keys_start] + q] = key
    return key


@ti.func
def store_entry(contacts: ti.template(), b, q, entry):
    """Write vertex q to an entry of the hash."""
    particle = contacts.table[contacts.table[TABLE.vertices_start] + q]
    contacts.ints[b, contacts.table[TABLE.entries_start] + entry] = particle
    x = stored_position(contacts, b, REALS.positions, particle)
    store_position(contacts, b, contacts.table[TABLE.entry_positions_start], entry, x)


@ti.func
def min_travel(contacts: ti.template(), b):
    """Least bound of the travel [m]; slower motions need no new hash."""
    return 0.1 * contacts.reals[b, REALS.max_displacement]


@ti.func
def travel_bound(contacts: ti.template(), states: ti.template(), b, row, q, dt):
    """Bound of the travel for vertex q [m]: 1.5 times its current travel, so that it may get faster until the next hash."""
    v = load_velocity(states, b, row, contacts.table[contacts.table[TABLE.vertices_start] + q])
    for k in ti.static(range(3)):
        v[k] -= contacts.reals[b, REALS.mean_velocity + k]
    return 1.5 * dt * v.norm()


@ti.func
def build_hash(contacts: ti.template(), states: ti.template(), b, row, step, dt):
    """Sort the vertices of world b into buckets by their positions in a row of states, with one thread.

    Lists of the buckets before are stale: the caller calls ``invalidate_list`` for each.

    Args:
        contacts: ``SelfContactArrays``.
        states: [B, rows, P, 6].
        b: world.
        row: row of the states.
        step: step that starts at this row.
        dt: physics step [s].
    """
    vertex_count, first_bucket = contacts.table[TABLE.vertex_count], contacts.table[TABLE.buckets_start]
    for bucket in range(contacts.table[TABLE.bucket_count]):
        contacts.ints[b, first_bucket + 2 * bucket + 1] = 0
    drift = vec3(0.0)
    for q in range(vertex_count):
        drift += load_velocity(states, b, row, contacts.table[contacts.table[TABLE.vertices_start] + q])
        cursor = first_bucket + 2 * record_vertex(contacts, states, b, row, q) + 1
        contacts.ints[b, cursor] = contacts.ints[b, cursor] + 1
    total = 0
    for bucket in range(contacts.table[TABLE.bucket_count]):
        count = contacts.ints[b, first_bucket + 2 * bucket + 1]
        contacts.ints[b, first_bucket + 2 * bucket] = total
        contacts.ints[b, first_bucket + 2 * bucket + 1] = total
        total += count
    for q in range(vertex_count):
        cursor = first_bucket + 2 * contacts.ints[b, contacts.table[TABLE.keys_start] + q] + 1
        entry = contacts.ints[b, cursor]
        contacts.ints[b, cursor] = entry + 1
        store_entry(contacts, b, q, entry)
    for k in ti.static(range(3)):
        contacts.reals[b, REALS.mean_velocity + k] = drift[k] / vertex_count
    travel = min_travel(contacts, b)
    for q in range(vertex_count):
        travel = ti.max(travel, travel_bound(contacts, states, b, row, q, dt))
    contacts.reals[b, REALS.travel_bound] = travel
    contacts.ints[b, INTS.last_build_step] = step


@ti.func
def invalidate_list(contacts: ti.template(), b, chunk):
    """Invalidate the list of a chunk, so that it is rebuilt at its next use."""
    contacts.ints[b, INTS.list_headers + 2 * chunk + 1] = 0


@ti.func
def rebuild_if_stale(contacts: ti.template(), states: ti.template(), b, row, step, dt):
    """Build a new hash if ``step``, whose state is in a row of states, needs one; for one thread and one chunk."""
    if is_stale(contacts, b, step, 0):
        build_hash(contacts, states, b, row, step, dt)
        invalidate_list(contacts, b, 0)


@ti.func
def mark_if_stale(contacts: ti.template(), states: ti.template(), b, row, p, step, dt):
    """Mark the hash as stale for ``step``, whose state is in a row of states, if particle p has moved too far, or moves
    too fast."""
    if contacts.table[contacts.table[TABLE.is_vertex_start] + p] == 1:
        elapsed = dt * (step - contacts.ints[b, INTS.last_build_step])
        displacement = load_position(states, b, row, p) - stored_position(contacts, b, REALS.positions, p)
        for k in ti.static(range(3)):
            displacement[k] -= elapsed * contacts.reals[b, REALS.mean_velocity + k]
        v = load_velocity(states, b, row, p)
        for k in ti.static(range(3)):
            v[k] -= contacts.reals[b, REALS.mean_velocity + k]
        squared_displacement = displacement.dot(displacement)
        max_displacement, max_travel = contacts.reals[b, REALS.max_displacement], contacts.reals[b, REALS.travel_bound]
        is_invalid = squared_displacement > max_displacement * max_displacement or dt * dt * v.dot(v) > max_travel * max_travel
        # Particles of a diverged world are ignored.
        if is_invalid and squared_displacement < LARGEST and v.dot(v) < LARGEST:
            contacts.ints[b, INTS.next_build_step] = step


@ti.func
def in_ring(contacts: ti.template(), triangle, particle):
    """Whether a particle is a corner of a triangle, or connected to one by an edge."""
    bounds_start = contacts.table[TABLE.ring_bounds_start]
    is_member = 0
    for n in range(contacts.table[bounds_start + triangle], contacts.table[bounds_start + triangle + 1]):
        if contacts.table[n] == particle:
            is_member = 1
    return is_member == 1


@ti.func
def insert(contacts: ti.template(), b, triangle, particle, first, count, capacity):
    """Insert a particle into the pairs of a triangle, which are sorted by particle; at full capacity the last one is dropped.

    Args:
        first: start of the triangle's pairs in ``ints``.
        count: number of pairs.
        capacity: maximum number of pairs.

    Returns:
        (count, dropped): the new number, and whether one was dropped.
    """
    dropped = count == capacity
    slot = count
    if dropped:
        slot = count - 1
        if contacts.ints[b, first + 2 * slot + 1] < particle:
            slot = -1
    if slot >= 0:
        while slot > 0 and contacts.ints[b, first + 2 * ti.max(slot, 1) - 1] > particle:
            contacts.ints[b, first + 2 * slot + 1] = contacts.ints[b, first + 2 * slot - 1]
            slot -= 1
        contacts.ints[b, first + 2 * slot + 1] = particle
        contacts.ints[b, first + 2 * (count - ti.cast(dropped, ti.i32))] = triangle
    return count + 1 - ti.cast(dropped, ti.i32), dropped


@bundle
class TriangleSearch:
    """Search for the vertices near a triangle, while a kernel is compiled.

    Attributes:
        triangle: its index.
        origin, e1, e2: its first corner, and its edges from there [m].
        low, high: corners of its bounding box, grown by the search radius [m].
        squared_radius: of the search [m2].
        last_particle: particles up to this index are left out.
        first: start of the triangle's pairs in ``ints``.
        capacity: maximum number of pairs.
    """

    triangle: Any
    origin: Any
    e1: Any
    e2: Any
    low: Any
    high: Any
    squared_radius: Any
    last_particle: Any
    first: Any
    capacity: Any


@ti.func
def list_entries(contacts: ti.template(), b, search: ti.template(), start, stop, cell, tests_cell, count):
    """List the vertices of a range of entries of the hash that are near a triangle.

    Args:
        search: ``TriangleSearch``.
        start, stop: the range.
        cell: cell of the vertices if ``tests_cell`` is true: cells that share a bucket would list a vertex twice.
        count: number of pairs before.

    Returns:
        (count, dropped): number of pairs, and whether one was left out.
    """
    dropped = False
    for entry in range(start, stop):
        x = stored_position(contacts, b, contacts.table[TABLE.entry_positions_start], entry)
        is_inside = (search.low <= x).all() and (x <= search.high).all()
        if is_inside and (not tests_cell or (cell_of(contacts, b, x) == cell).all()):
            particle = contacts.ints[b, contacts.table[TABLE.entries_start] + entry]
            p, e1, e2 = x - search.origin, search.e1, search.e2
            if particle > search.last_particle and not is_beyond_plane(p, e1, e2, search.squared_radius):
                s, t, _region = closest_on_triangle(p, e1, e2)
                r = p - s * e1 - t * e2
                if r.dot(r) < search.squared_radius and not in_ring(contacts, search.triangle, particle):
                    count, was_dropped = insert(contacts, b, search.triangle, particle, search.first, count, search.capacity)
                    dropped = dropped or was_dropped
    return count, dropped


@ti.func
def list_triangle(contacts: ti.template(), b, triangle, last_particle, first, capacity):
    """List the vertices that were near a triangle when the hash was built, with indices above ``last_particle``.

    Args:
        first: start of its pairs in ``ints``.
        capacity: maximum number of pairs; the vertices with the lowest indices are kept.

    Returns:
        (count, dropped): number of listed vertices, and whether some were left out.
    """
    radius = contacts.reals[b, REALS.list_distance] + 2 * contacts.reals[b, REALS.travel_bound]
    origin = stored_position(contacts, b, REALS.positions, corner_of(contacts, triangle, 0))
    corner1 = stored_position(contacts, b, REALS.positions, corner_of(contacts, triangle, 1))
    corner2 = stored_position(contacts, b, REALS.positions, corner_of(contacts, triangle, 2))
    low, high = ti.min(origin, corner1, corner2) - radius, ti.max(origin, corner1, corner2) + radius
    search = TriangleSearch(
        triangle, origin, corner1 - origin, corner2 - origin, low, high, radius * radius, last_particle, first, capacity
    )
    low_cell = cell_of(contacts, b, low)
    span = cell_of(contacts, b, high) - low_cell + 1
    vertex_count, count, dropped = contacts.table[TABLE.vertex_count], 0, False
    if not ti.abs(low).sum() + ti.abs(high).sum() < LARGEST:
        pass  # a triangle that is not finite has no pairs
    elif span.x * span.y * span.z > vertex_count:
        # For a huge triangle, a test of every vertex is faster than a search in all cells.
        count, dropped = list_entries(contacts, b, search, 0, vertex_count, low_cell, False, count)
    else:
        # Nested loops: the divisions of integers that one loop needs take longer than the cells.
        for cell_z in range(ti.cast(span.z, ti.i32)):
            for cell_y in range(ti.cast(span.y, ti.i32)):
                for cell_x in range(ti.cast(span.x, ti.i32)):
                    cell = low_cell + vec3(cell_x, cell_y, cell_z)
                    key = hash_key(contacts, ti.cast(cell.x, ti.i32), ti.cast(cell.y, ti.i32), ti.cast(cell.z, ti.i32))
                    bucket = contacts.table[TABLE.buckets_start] + 2 * key
                    start, stop = contacts.ints[b, bucket], contacts.ints[b, bucket + 1]
                    count, was_dropped = list_entries(contacts, b, search, start, stop, cell, True, count)
                    dropped = dropped or was_dropped
    return count, dropped


@ti.func
def fill_list(contacts: ti.template(), b, chunk, triangle, last_particle, stop):
    """Fill a chunk's list with pairs of the triangles from ``triangle`` on, whose particles up to ``last_particle`` are done.

    Returns:
        (triangle, last_particle) at which to continue; triangle is ``stop`` if all pairs are listed.
    """
    first, capacity = first_pair(contacts, chunk), contacts.table[TABLE.list_capacity]
    count = 0
    while triangle < stop and count < capacity:
        num_listed, dropped = list_triangle(contacts, b, triangle, last_particle, first + 2 * count, capacity - count)
        count += num_listed
        if dropped:
            last_particle = contacts.ints[b, first + 2 * count - 1]
        else:
            triangle += 1
            last_particle = -1
    contacts.ints[b, INTS.list_headers + 2 * chunk] = count
    return triangle, last_particle


@ti.func
def list_next_pairs(contacts: ti.template(), b, chunk, first, stop, triangle, last_particle):
    """Make sure that the list of a chunk contains its next pairs: all pairs if the capacity is sufficient.

    Args:
        first, stop: first triangle of the chunk, and the one after its last.
        triangle, last_particle: where to continue (see ``fill_list``), ``first`` and -1 at the start.

    Returns:
        (triangle, last_particle) at which to continue after these pairs; triangle is ``stop`` if they are the last ones.
    """
    complete_flag = INTS.list_headers + 2 * chunk + 1
    next_triangle, next_last_particle = stop, -1
    if contacts.ints[b, complete_flag] == 0:
        next_triangle, next_last_particle = fill_list(contacts, b, chunk, triangle, last_particle, stop)
        if triangle == first and last_particle == -1 and next_triangle == stop:
            contacts.ints[b, complete_flag] = 1
    return next_triangle, next_last_particle
