"""Contact of meshes with each other and with boxes, by points and edges of either surface (Taichi functions).

The points of either shape are its corners and, where its faces are large or its edges long, points of them (``surface_points``);
each is held against the other shape: a mesh's distance field, a box along its face of least depth. One point alone has the
pair's stiffness, damping and tangential stiffness. More than four of them share four times these numbers: the forces are those
of single points, times 4 / max(4, n). A point at a distance g outside counts to n as 1 - g / w, w two hundredths of the
smallest half size, so that n is whole before a point touches, and no force jumps where one does.

A point within a face pushes along the normal of that face, which is exact where a mesh's field is round near edges; its force
fades where the normal of the other shape is more than 40 degrees off, to none at 80 degrees. All others push along the normal of
the other shape.

Sharp edges longer than the points are apart are looked at where fewer than one point counts, n < 1: each is a line, whose point
closest to the other shape has the weight (1 - n) (1 - (s / half length)^2) / 2, with s its place on the line. Two edges that
cross meet twice, each as a line of its own shape.

The slope has kinks where n is four or one, and where a point counts wholly or begins to; see ``meeting`` for those of the
shapes.
"""

from ti_sim.articulated.collision import (
    DEEP,
    FIRST_CORNER,
    FIRST_EDGE,
    FIRST_EDGES,
    FIRST_POINTS,
    HALF_SIZE,
    LEAST_HALF,
    SECOND_EDGES,
    SECOND_POINTS,
)
from ti_sim.articulated.lines import field_of, is_mesh, line_meets_shape, line_meets_shape_adjoint
from ti_sim.articulated.tables import LOAD, MOVES, POSITION, VIRTUAL, add_vec3, load_vec3
from ti_sim.articulated.touching import (
    add_pose_adjoints,
    deepest_of,
    mark_pair,
    pair_material,
    point_velocity,
    push_apart_adjoint,
    shape_arm,
    shape_rotation,
    shape_vec3,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import rotation_matrix, vec3
from ti_sim.rigid.contact import contact_force_along

_COUNTING = 0.02  # distance within which a point counts as touching, in smallest half sizes
_MOST = 4.0  # points that a pair has whole
_OPPOSED = (0.17, 0.77)  # cosine between two normals, from none of a point's force to all of it


@ti.func
def sampled(world: ti.template(), at):
    """Three numbers from a place in the row of numbers of all meshes on."""
    return vec3(world.sample[at], world.sample[at + 1], world.sample[at + 2])


@ti.func
def bounds_of(world: ti.template(), j, turn, shift, margin):
    """Bounding box of link j's shape, a box or mesh, in another frame: (lowest place, highest place) [m].

    Args:
        world: ``WorldArrays``.
        j: link.
        turn: rotation from that frame to the shape's.
        shift: origin of that frame in the shape's [m].
        margin: by which the box is grown [m].
    """
    middle, half = vec3(0.0), shape_vec3(world, j, HALF_SIZE)
    if is_mesh(world, j):
        _first, nodes, first_node, cell = field_of(world, j)
        middle = first_node + 0.5 * cell * (nodes - 1)
        half = 0.5 * cell * (nodes - 3)
    back = turn.transpose()
    centre, reach = back @ (middle - shift), ti.abs(back) @ half + margin
    return centre - reach, centre + reach


@ti.func
def crosses(x, along, low, high):
    """Whether a line crosses a box: its middle, its half, lowest and highest place of the box."""
    start, end = -1.0, 1.0
    for k in ti.static(range(3)):
        below, above = low[k] - x[k], high[k] - x[k]
        if ti.abs(along[k]) > 1e-3 * (above - below):
            start = ti.max(start, ti.min(below / along[k], above / along[k]))
            end = ti.min(end, ti.max(below / along[k], above / along[k]))
        elif below > ti.abs(along[k]) or above < -ti.abs(along[k]):
            end = start - 1
    return start <= end


@ti.func
def opposing(cosine):
    """Weight of a point whose face's normal has this cosine with that of the other shape, reversed, and its slope."""
    t = ti.max(0.0, ti.min(1.0, (cosine - _OPPOSED[0]) / (_OPPOSED[1] - _OPPOSED[0])))
    return t * t * (3 - 2 * t), 6 * t * (1 - t) / (_OPPOSED[1] - _OPPOSED[0])


@ti.func
def add_wrench(world: ti.template(), b, i, moment, force):
    """Take a force and its moment about the origin of link i off its load."""
    if world.tree[i, MOVES] == 1:
        add_vec3(world.work, b, i, LOAD, -moment)
        add_vec3(world.work, b, i, LOAD + 3, -force)


@ti.func
def meet_points(world: ti.template(), bars: ti.template(), b, p, first, second, adjoint: ti.template()):
    """Contacts of pair p, two meshes or a box and a mesh: their forces, or their adjoint (arguments of ``boxes.meet_boxes``).

    The first sweep counts the points and sums their forces, the second adds the edges, the third differentiates all of them.
    """
    counting = _COUNTING * ti.min(world.shape[first, LEAST_HALF], world.shape[second, LEAST_HALF])
    material = pair_material(world, b, first, second)
    count, deepest, crossing = 0.0, 0.0, 0
    force, moments = vec3(0.0), ti.Matrix.zero(float, 3, 2)  # on the first link; about the origins of both
    power, edge_power = 0.0, 0.0
    for sweep in range(3 if ti.static(adjoint) else 2):
        part, count_bar = 1.0, 0.0
        if sweep > 0:
            part = _MOST / ti.max(count, _MOST)
        if sweep == 1:
            force *= part
            moments *= part
        if sweep == 2:
            if count > _MOST:
                count_bar = -power * part / count
            elif count < 1:
                count_bar = -edge_power
        for half in range(2):
            i, j, points, edges = first, second, world.pair[p, FIRST_POINTS], world.pair[p, FIRST_EDGES]
            if half == 1:
                i, j, points, edges = second, first, world.pair[p, SECOND_POINTS], world.pair[p, SECOND_EDGES]
            arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
            apart = load_vec3(world.work, b, i, POSITION) - load_vec3(world.work, b, j, POSITION)
            matrix, other = rotation_matrix(shape_rotation(world, b, i)), rotation_matrix(shape_rotation(world, b, j))
            centre = apart + arm_i - arm_j
            low, high = bounds_of(world, j, other.transpose() @ matrix, other.transpose() @ centre, counting)
            begin, end = 0, points
            if sweep > 0:
                begin = ti.select(sweep == 1 or count == 0, points, 0)
                end = ti.select(count < 1 and (sweep == 1 or crossing > 0), points + edges, points)
            arm_bar, apart_bar, centre_bar, turn_i_bar, turn_j_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0)
            for c in range(begin, end):
                at, free, near = world.mesh[i, FIRST_CORNER] + 6 * c, 0.0, True
                offset, along, h, own = vec3(0.0), vec3(0.0), 0.0, vec3(0.0)
                if c < points:
                    offset, own = sampled(world, at), matrix @ sampled(world, at + 3)
                    near = (offset > low).all() and (offset < high).all()
                else:
                    at, free = world.mesh[i, FIRST_EDGE] + 6 * (c - points), 1.0
                    offset, along = sampled(world, at), sampled(world, at + 3)
                    near = crosses(offset, along, low, high)
                    h = along.norm()
                    along /= h
                place, normal, gap, weight = vec3(0.0), vec3(0.0), 1.0, 1.0
                if near:
                    offset, along = matrix @ offset, matrix @ along
                    place, normal, gap, weight = line_meets_shape(
                        world, j, other, centre + offset, along, h, 0.0, 0.0, free
                    )
                scale = part
                if free > 0:
                    scale = 0.5 * (1 - count)
                push, opposed_slope = normal, 0.0
                if own.dot(own) > 0.5:
                    push = -own
                    weight, opposed_slope = opposing(normal.dot(push))
                arm = arm_i + offset + place
                if sweep == 0 and gap < counting:
                    count += 1 - ti.max(gap, 0.0) / counting
                    deepest = ti.min(deepest, gap)
                if gap < 0 and sweep < 2:
                    u = point_velocity(world, b, i, arm) - point_velocity(world, b, j, arm + apart)
                    f = contact_force_along(push, gap, u, material.x, material.y, material.z, material.w, world.dt)
                    f *= weight
                    if free > 0:
                        f *= 0.5
                    if ti.static(adjoint):
                        y = load_vec3(world.work, b, i, VIRTUAL + 3) + load_vec3(world.work, b, i, VIRTUAL).cross(arm)
                        y -= load_vec3(world.work, b, j, VIRTUAL + 3) + load_vec3(world.work, b, j, VIRTUAL).cross(arm + apart)
                        if free > 0:
                            crossing += 1
                            edge_power -= f.dot(y)
                        else:
                            power -= f.dot(y)
                    else:
                        if free > 0:
                            f *= 1 - count
                        side = 1.0 - 2.0 * half
                        force += side * f
                        moment_i, moment_j = arm.cross(f), (arm + apart).cross(f)
                        for k in ti.static(range(3)):
                            moments[k, half] += moment_i[k]
                            moments[k, 1 - half] -= moment_j[k]
                if ti.static(adjoint):
                    if sweep == 2 and (gap < 0 or (gap < counting and free == 0)):
                        place_bar, one_apart_bar, normal_bar, gap_bar, weight_bar = vec3(0.0), vec3(0.0), vec3(0.0), 0.0, 0.0
                        if gap < 0:
                            place_bar, one_apart_bar, normal_bar, gap_bar, weight_bar = push_apart_adjoint(
                                world, bars, b, i, j, arm, apart, push, gap, scale * weight, material
                            )
                            weight_bar *= scale
                            if own.dot(own) > 0.5:
                                turn_i_bar += push.cross(normal_bar + weight_bar * opposed_slope * normal)
                                normal_bar = weight_bar * opposed_slope * push
                                weight_bar = 0.0
                        else:
                            gap_bar = -count_bar / counting
                        one_centre_bar, along_bar, one_turn_bar = line_meets_shape_adjoint(
                            world, j, other, centre + offset, along, h, 0.0, 0.0, free, place, normal, gap,
                            place_bar, normal_bar, gap_bar, weight_bar,
                        )  # fmt: skip
                        arm_bar += place_bar
                        apart_bar += one_apart_bar
                        centre_bar += one_centre_bar
                        turn_i_bar += offset.cross(one_centre_bar + place_bar) + along.cross(along_bar)
                        turn_j_bar += one_turn_bar
            if ti.static(adjoint):
                if sweep == 2:
                    add_pose_adjoints(world, b, i, j, arm_i, arm_j, arm_bar, apart_bar, -centre_bar, turn_i_bar, turn_j_bar)
    if deepest < deepest_of(world, first, second):
        mark_pair(world, b, p, DEEP)
    if ti.static(not adjoint):
        add_wrench(world, b, first, vec3(moments[0, 0], moments[1, 0], moments[2, 0]), force)
        add_wrench(world, b, second, vec3(moments[0, 1], moments[1, 1], moments[2, 1]), -force)
