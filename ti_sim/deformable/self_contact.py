"""Self-contact of vertices with triangles: the force of one contact pair, its adjoint, and the sum over the pairs of a chunk.

Let y = sum_k w_k x_k be the point of the triangle (in its face, on an edge or a corner) that is closest to the vertex x,
r = x - y, d = |r| and n = r / d. The force on the vertex follows ``ti_sim.contact.law`` at the height d - h above a plane with
normal n, where h is the thickness, with the velocity relative to that point. The corners get -w_k times the force. Momentum is
conserved, and without friction also angular momentum, because the force is parallel to r. A vertex on the triangle (d = 0) has no
normal and no force.

The closest point is a continuous function of all positions, and so is the force. Its derivative jumps where the closest point
moves from one region of the triangle to another, in addition to the kinks of the contact law.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4
from ti_sim.contact.law import CONTACT_LAW, contact_force_along, contact_force_along_adjoint
from ti_sim.deformable.corners import PARTICLE, ThreadCopy, add_corner, add_state_corner, load_dual, load_position, load_velocity
from ti_sim.deformable.self_contact_layout import INTS, REALS, TABLE
from ti_sim.deformable.self_contact_lists import corner_of, first_pair, list_next_pairs
from ti_sim.deformable.triangle_distance import CORNER, FACE, FAR_EDGE, FIRST_EDGE, closest_on_triangle, is_beyond_plane


@ti.func
def contact_row(contacts: ti.template(), out: ti.template(), states: ti.template(), particle):
    """Row of ``out`` for the contact force on a particle: if elements have slots, one of the last P rows."""
    out_row = particle
    if ti.static(not isinstance(contacts.gather, ThreadCopy) and contacts.gather):
        out_row += out.shape[1] - states.shape[2]
    return out_row


@ti.func
def add_force(contacts: ti.template(), out: ti.template(), states: ti.template(), b, particle, value):
    """Add a contact force to a particle; on a GPU threads share the row and add atomically."""
    if ti.static(not isinstance(contacts.gather, ThreadCopy) and contacts.gather):
        out_row = contact_row(contacts, out, states, particle)
        for k in ti.static(range(3)):
            ti.atomic_add(out[b, out_row, k], value[k])
    else:
        add_corner(contacts.gather, out, b, 0, particle, 0, value)


@ti.func
def add_state(contacts: ti.template(), out: ti.template(), states: ti.template(), b, particle, position, velocity):
    """``add_force`` for the adjoints of a particle's position and velocity."""
    if ti.static(not isinstance(contacts.gather, ThreadCopy) and contacts.gather):
        out_row = contact_row(contacts, out, states, particle)
        for k in ti.static(range(3)):
            ti.atomic_add(out[b, out_row, PARTICLE.position + k], position[k])
            ti.atomic_add(out[b, out_row, PARTICLE.velocity + k], velocity[k])
    else:
        add_state_corner(contacts.gather, out, b, 0, particle, position, velocity)


@ti.func
def squared_contact_distance(contacts: ti.template(), b):
    """Squared distance at which contact may begin [m2]."""
    distance = contacts.reals[b, REALS.thickness] + 2 * contacts.reals[b, REALS.travel_bound]
    return distance * distance


@ti.func
def pair_force(contacts: ti.template(), states: ti.template(), out: ti.template(), b, row, triangle, i, dt):
    """Add the force between a triangle and particle i to ``out`` if they touch."""
    thickness = contacts.reals[b, REALS.thickness]
    a, j, k = corner_of(contacts, triangle, 0), corner_of(contacts, triangle, 1), corner_of(contacts, triangle, 2)
    origin = load_position(states, b, row, a)
    e1, e2 = load_position(states, b, row, j) - origin, load_position(states, b, row, k) - origin
    p = load_position(states, b, row, i) - origin
    if not is_beyond_plane(p, e1, e2, squared_contact_distance(contacts, b)):
        s, t, _region = closest_on_triangle(p, e1, e2)
        r = p - s * e1 - t * e2
        squared_distance = r.dot(r)
        if 0 < squared_distance and squared_distance < squared_contact_distance(contacts, b):
            d = ti.sqrt(squared_distance)
            u = load_velocity(states, b, row, i) - (1 - s - t) * load_velocity(states, b, row, a)
            u -= s * load_velocity(states, b, row, j) + t * load_velocity(states, b, row, k)
            if d - thickness < dt * ti.abs(u.dot(r)) / d:
                ke, kd = contacts.parameters[b, CONTACT_LAW.ke], contacts.parameters[b, CONTACT_LAW.kd]
                kf, mu = contacts.parameters[b, CONTACT_LAW.kf], contacts.parameters[b, CONTACT_LAW.mu]
                force, _path = contact_force_along(r / d, d - thickness, u, ke, kd, kf, mu, dt)
                add_force(contacts, out, states, b, i, force)
                add_force(contacts, out, states, b, a, -(1 - s - t) * force)
                add_force(contacts, out, states, b, j, -s * force)
                add_force(contacts, out, states, b, k, -t * force)


@ti.func
def weight_multipliers(region, e1, e2, s_bar, t_bar):
    """Multipliers (l1, l2) of the conditions r . e1 = 0 and r . e2 = 0 of the closest point in its region.

    Args:
        region: region from ``closest_on_triangle``.
        e1, e2: edges of the triangle [m].
        s_bar, t_bar: adjoints of the two weights of the closest point.
    """
    l1, l2 = 0.0, 0.0
    g11, g12, g22 = e1.dot(e1), e1.dot(e2), e2.dot(e2)
    if region == FACE:
        inverse = 1 / (g11 * g22 - g12 * g12)
        l1, l2 = (g22 * s_bar - g12 * t_bar) * inverse, (g11 * t_bar - g12 * s_bar) * inverse
    elif region != CORNER:
        # An edge has one condition, for its direction c1 e1 + c2 e2.
        c1, c2 = 0.0, 1.0
        if region == FIRST_EDGE:
            c1, c2 = 1.0, 0.0
        elif region == FAR_EDGE:
            c1 = -1.0
        length = c1 * c1 * g11 + 2 * c1 * c2 * g12 + c2 * c2 * g22
        edge_component = (c1 * s_bar + c2 * t_bar) / length
        l1, l2 = c1 * edge_component, c2 * edge_component
    return l1, l2


@ti.func
def pair_force_adjoint(
    contacts: ti.template(), states: ti.template(), dual: ti.template(), out: ti.template(), b, row, triangle, i, dt
):
    """Adjoint of ``pair_force`` with the dual [B, P, 3] of the forces: adds to out [B, rows, 6].

    Returns:
        Adjoints of (ke, kd, kf, mu), zeros if the two do not touch.
    """
    contact_bar = vec4(0.0)
    thickness = contacts.reals[b, REALS.thickness]
    a, j, k = corner_of(contacts, triangle, 0), corner_of(contacts, triangle, 1), corner_of(contacts, triangle, 2)
    origin = load_position(states, b, row, a)
    e1, e2 = load_position(states, b, row, j) - origin, load_position(states, b, row, k) - origin
    p = load_position(states, b, row, i) - origin
    if not is_beyond_plane(p, e1, e2, squared_contact_distance(contacts, b)):
        s, t, region = closest_on_triangle(p, e1, e2)
        r = p - s * e1 - t * e2
        squared_distance = r.dot(r)
        if 0 < squared_distance and squared_distance < squared_contact_distance(contacts, b):
            d = ti.sqrt(squared_distance)
            n = r / d
            va, vj, vk = load_velocity(states, b, row, a), load_velocity(states, b, row, j), load_velocity(states, b, row, k)
            u = load_velocity(states, b, row, i) - va - s * (vj - va) - t * (vk - va)
            if d - thickness < dt * ti.abs(u.dot(n)):
                wa, wj, wk = load_dual(dual, b, a), load_dual(dual, b, j), load_dual(dual, b, k)
                w = load_dual(dual, b, i) - wa - s * (wj - wa) - t * (wk - wa)
                ke, kd = contacts.parameters[b, CONTACT_LAW.ke], contacts.parameters[b, CONTACT_LAW.kd]
                kf, mu = contacts.parameters[b, CONTACT_LAW.kf], contacts.parameters[b, CONTACT_LAW.mu]
                force, n_bar, gap_bar, u_bar, contact_bar = contact_force_along_adjoint(
                    n, d - thickness, u, ke, kd, kf, mu, dt, w, vec3(0.0)
                )
                r_bar = n_bar / d + gap_bar * n
                s_bar = -force.dot(wj - wa) - u_bar.dot(vj - va) - r_bar.dot(e1)
                t_bar = -force.dot(wk - wa) - u_bar.dot(vk - va) - r_bar.dot(e2)
                l1, l2 = weight_multipliers(region, e1, e2, s_bar, t_bar)
                p_bar = r_bar + l1 * e1 + l2 * e2
                e1_bar, e2_bar = l1 * r - s * p_bar, l2 * r - t * p_bar
                add_state(contacts, out, states, b, i, p_bar, u_bar)
                add_state(contacts, out, states, b, a, -p_bar - e1_bar - e2_bar, -(1 - s - t) * u_bar)
                add_state(contacts, out, states, b, j, e1_bar, -s * u_bar)
                add_state(contacts, out, states, b, k, e2_bar, -t * u_bar)
    return contact_bar


@ti.func
def chunk_contacts(contacts: ti.template(), states: ti.template(), out: ti.template(), b, row, chunk, num_chunks, dt):
    """Add the contact forces between the triangles of one of ``num_chunks`` equal chunks and the vertices.

    Args:
        contacts: ``SelfContactArrays`` with a valid hash.
        states: [B, rows, P, 6] m, m/s.
        out: forces [N], as in ``element_force``.
        b: world.
        row: row of the states.
        chunk: index of the chunk.
        num_chunks: number of chunks.
        dt: physics step [s].
    """
    triangle_count = contacts.table[TABLE.triangle_count]
    first, stop = triangle_count * chunk // num_chunks, triangle_count * (chunk + 1) // num_chunks
    triangle, last_particle = first, -1
    while triangle < stop:
        triangle, last_particle = list_next_pairs(contacts, b, chunk, first, stop, triangle, last_particle)
        first_entry = first_pair(contacts, chunk)
        for pair in range(contacts.ints[b, INTS.list_headers + 2 * chunk]):
            entry = first_entry + 2 * pair
            pair_force(contacts, states, out, b, row, contacts.ints[b, entry], contacts.ints[b, entry + 1], dt)


@ti.func
def chunk_contacts_adjoint(
    contacts: ti.template(), contact_bar: ti.template(), states: ti.template(), dual: ti.template(), out: ti.template(),
    b, row, chunk, num_chunks, dt,
):  # fmt: skip
    """Adjoint of ``chunk_contacts`` with the dual [B, P, 3] of the forces: adds to out [B, rows, 6] and to row ``chunk`` modulo
    rows of contact_bar [B, rows, 4].
    """
    triangle_count = contacts.table[TABLE.triangle_count]
    first, stop = triangle_count * chunk // num_chunks, triangle_count * (chunk + 1) // num_chunks
    triangle, last_particle = first, -1
    total = vec4(0.0)
    while triangle < stop:
        triangle, last_particle = list_next_pairs(contacts, b, chunk, first, stop, triangle, last_particle)
        first_entry = first_pair(contacts, chunk)
        for pair in range(contacts.ints[b, INTS.list_headers + 2 * chunk]):
            entry = first_entry + 2 * pair
            i = contacts.ints[b, entry + 1]
            total += pair_force_adjoint(contacts, states, dual, out, b, row, contacts.ints[b, entry], i, dt)
    if ti.abs(total).sum() > 0:
        for k in ti.static(range(4)):
            ti.atomic_add(contact_bar[b, chunk % contact_bar.shape[1], k], total[k])
