"""Contact of two boxes: separating axes, contact points, forces, and their adjoint (Taichi functions).

Two boxes are separated if and only if they are separated along one of 15 axes: the normals of their faces, and the cross products
of an edge of each (S. Gottschalk, M. Lin and D. Manocha, OBBTree, 1996). The contact force of overlapping boxes acts along the
axis of the largest gap, that is, of the smallest depth. Contact points of an axis:

- normal of a face: the corners of the overlap of that face with the opposing faces of the other box, projected along the normal.
  The gap of a point is its height above the face. The points share four times the stiffness, damping and tangential stiffness of
  the pair in proportion to their exterior angles, which sum to 2 pi: a corner of a rectangle gets one quarter, and a point that
  appears on a side or at a crossing of two sides changes nothing. The total is multiplied by 1 - (1 - r)^16, where r is the
  overlap divided by the area of the smaller face, so the force vanishes with the overlap. Two or three faces of a tilted box
  oppose the other box. They are weighted by max(0, cos^2 - 0.1)^2, so a single edge or corner in contact has the stiffness of its
  corners.
- two edges: their closest points, with the contact parameters of the pair.

Axes whose gap differs from the largest one by less than a width act together, with smooth weights that sum to one. The width is
0.02 of the smallest half size of both boxes. The weight of an axis of two edges decreases to zero as the edges become parallel,
or as the axis comes within ten degrees of a face normal, whose points include the crossings of edges. The force is therefore
continuous in both poses. Remaining kinks and jumps:

- the force has kinks where a corner of the overlap appears or a closest point reaches the end of an edge;
- the active side of a face is that of the centre of the other box: the force jumps if the centres pass each other, which does not
  happen to boxes that overlap by less than half their size.
"""

from ti_sim.articulated.collision import DEEP, HALF_SIZE
from ti_sim.articulated.contact_force import (
    add_contact_force,
    add_contact_force_adjoint,
    add_pose_adjoints,
    mark_pair,
    pair_margin,
    point_contact,
    shape_arm,
    shape_rotation,
    shape_vec3,
)
from ti_sim.articulated.tables import POSITION, load_vec3
from ti_sim.base.differentiable import clip, differentiable, inverse, normalize, smoothstep, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, rotation_matrix, vec3

_AXES = 15
_WIDTH = 0.02  # width within which axes act together, in smallest half sizes
_FADE = 5.0  # in widths: offset of the gap of an edge axis at half of its weight
_LATER = 1.5  # in widths: offset of the gaps of the second box's faces, so that parallel faces act once
_PARALLEL = (5e-4, 2e-3)  # squared sine of the angle between two edges: weight of their axis from 0 to 1
_FLAT = (3e-3, 3e-2)  # squared sine of the angle between the axis of two edges and the nearest face normal
_LEAST_PART = 1e-3
_FACING = 0.1  # squared cosine above which a face opposes the other box
_POINTS = 10  # maximum number of corners of an overlap, with a margin for rounding
_FULL = 16  # exponent of the growth of the stiffness with the overlap
_STRAIGHT = 1e-5  # sine of the angle below which two lines are treated as one
_FLUSH = 1e-6  # distance below which two lines are treated as one, in half sizes
_NOWHERE = -1e9  # gap of an inactive axis [m]


@differentiable(constant=("half_a", "half_b", "side", "width"))
def edge_edge_contact(d, k_a, u_a, v_a, k_b, u_b, v_b, half_a, half_b, side, width):
    """Contact of an edge of box a with one of box b.

    Args:
        d: centre of b minus centre of a [m].
        k_a: unit vector along the edge of a; u_a, v_a: the other axes of a.
        k_b: unit vector along the edge of b; u_b, v_b: the other axes of b.
        half_a: (half length of the edge, coordinates of its middle along u_a and v_a) [m].
        half_b: the same for b.
        side: 1 or -1, sign of the axis from a to b as k_a x k_b.
        width: width within which axes act together [m].

    Returns:
        (contact point minus centre of a [m], unit normal from a to b, gap [m], gap used to compare axes [m]).
    """
    across = k_a.cross(k_b) * side
    squared = across.dot(across)
    normal = normalize(across, least_squared=_PARALLEL[0])
    middle = u_a * half_a[1] + v_a * half_a[2]
    apart = d + u_b * half_b[1] + v_b * half_b[2] - middle
    gap = normal.dot(apart)
    cosine, along_a, along_b = k_a.dot(k_b), k_a.dot(apart), k_b.dot(apart)
    steep = inverse(where(squared > _PARALLEL[0], squared, 1.0))
    s = clip((along_a - cosine * along_b) * steep, -half_a[0], half_a[0])
    nearest = None
    for axis in (u_a, v_a, u_b, v_b):
        size = normal.dot(axis)
        size = size * size
        nearest = size if nearest is None else where(size > nearest, size, nearest)
    part = smoothstep((squared - _PARALLEL[0]) * (1.0 / (_PARALLEL[1] - _PARALLEL[0])))
    part = part * smoothstep((1.0 - _FLAT[0] - nearest) * (1.0 / (_FLAT[1] - _FLAT[0])))
    counts = gap - (inverse(where(part > _LEAST_PART, part, _LEAST_PART)) - 1.0) * (_FADE * width)
    return middle + k_a * s + normal * (0.5 * gap), normal, gap, counts


@ti.func
def column(matrix, k):
    """Column k of a matrix."""
    return vec3(matrix[0, k], matrix[1, k], matrix[2, k])


@ti.func
def sign_of(x):
    """1 for numbers >= 0, else -1."""
    return ti.select(x < 0, -1.0, 1.0)


@ti.func
def edge_arguments(axis, d, a, b, half_a, half_b):
    """Arguments of ``edge_edge_contact`` for an axis of two edges, and whether the edges are not parallel."""
    i, j = (axis - 6) // 3, (axis - 6) % 3
    k_a, u_a, v_a = column(a, i), column(a, (i + 1) % 3), column(a, (i + 2) % 3)
    k_b, u_b, v_b = column(b, j), column(b, (j + 1) % 3), column(b, (j + 2) % 3)
    across = k_a.cross(k_b)
    side = sign_of(across.dot(d))
    across *= side
    places_a = vec3(
        half_a[i], sign_of(across.dot(u_a)) * half_a[(i + 1) % 3], sign_of(across.dot(v_a)) * half_a[(i + 2) % 3]
    )
    places_b = vec3(
        half_b[j], -sign_of(across.dot(u_b)) * half_b[(j + 1) % 3], -sign_of(across.dot(v_b)) * half_b[(j + 2) % 3]
    )
    return across.dot(across) > _PARALLEL[0], k_a, u_a, v_a, k_b, u_b, v_b, places_a, places_b, side


@ti.func
def face_gap(normal, d, matrix, half, own):
    """Gap of two boxes along a face normal: d between the centres, matrix and half sizes of the other box, half size of this one.
    """
    cosines = matrix.transpose() @ normal
    return normal.dot(d) - own - half.x * ti.abs(cosines.x) - half.y * ti.abs(cosines.y) - half.z * ti.abs(cosines.z)


@ti.func
def axis_gaps(d, a, b, half_a, half_b, width, margin):
    """Gaps used to compare all 15 axes, the largest gap, its axis, and whether any axis separates the boxes by a
    margin."""
    gaps = ti.Vector([_NOWHERE for _ in range(_AXES)])
    best, largest, apart = 0, _NOWHERE, False
    for axis in range(6):
        gap = 0.0
        k = axis % 3  # not axis - 3 below: LLVM's loop passes for CUDA extend a negative constant in an index without its sign
        if axis < 3:
            normal = column(a, k)
            gap = face_gap(normal * sign_of(normal.dot(d)), d, b, half_b, half_a[k])
        else:
            normal = column(b, k)
            gap = face_gap(normal * sign_of(normal.dot(d)), d, a, half_a, half_b[k])
        apart = apart or gap >= margin
        gap -= ti.select(axis < 3, 0.0, _LATER * width)
        gaps[axis] = gap
        if gap > largest:
            best, largest = axis, gap
    if not apart:
        for axis in range(6, _AXES):
            crossing, k_a, u_a, v_a, k_b, u_b, v_b, places_a, places_b, side = edge_arguments(axis, d, a, b, half_a, half_b)
            if crossing:
                _place, _normal, gap, counts = edge_edge_contact.value(
                    d, k_a, u_a, v_a, k_b, u_b, v_b, places_a, places_b, side, width
                )
                apart = apart or gap >= margin
                gaps[axis] = counts
                if counts > largest:
                    best, largest = axis, counts
    return gaps, best, largest, apart


@ti.func
def line_angle(line, angles):
    """Direction [rad] of the border of an overlap along a line (see ``overlap``), from the directions of the half sides."""
    angle = 0.5 * ti.math.pi * (line - 3)
    if line < 4:
        angle = angles[line % 2] + ti.select(line >= 2, ti.math.pi, 0.0)
    return angle


@ti.func
def turned(angle):
    """The angle [rad] wrapped to [-pi, pi]."""
    return angle - 2 * ti.math.pi * ti.floor(angle / (2 * ti.math.pi) + 0.5)


@ti.func
def overlap(face, half_u, half_v):
    """Overlap of a face with a rectangle, by clipping the face at each side of the rectangle in turn.

    Args:
        face: mat3 whose columns are the middle of the face and its two half sides; rows are coordinates along the half sides of
            the rectangle and above it. The half sides are in counterclockwise order.
        half_u: half size of the rectangle along the first row [m].
        half_v: along the second [m].

    Returns:
        (number of corners, their coordinates r and s along the half sides in [-1, 1], counterclockwise, and the line of the
        border that follows each corner: 0 to 3 for the sides s = -1, r = 1, s = 1, r = -1 of the face, 4 to 7 for the sides u, v,
        -u, -v of the rectangle).
    """
    r, s = ti.Vector([0.0 for _ in range(_POINTS)]), ti.Vector([0.0 for _ in range(_POINTS)])
    line = ti.Vector([0 for _ in range(_POINTS)])
    for k in range(4):
        r[k] = ti.select(k == 1 or k == 2, 1.0, -1.0)
        s[k] = ti.select(k >= 2, 1.0, -1.0)
        line[k] = k
    count = 4
    for cut in range(4):
        row, side, half = cut % 2, 1.0 - 2.0 * (cut // 2), half_u
        if row == 1:
            half = half_v
        old_r, old_s, old_line, old_count = r, s, line, count
        count = 0
        for k in range(old_count):
            after = ti.select(k + 1 < old_count, k + 1, 0)
            here = side * (face[row, 0] + face[row, 1] * old_r[k] + face[row, 2] * old_s[k]) - half
            there = side * (face[row, 0] + face[row, 1] * old_r[after] + face[row, 2] * old_s[after]) - half
            if here <= 0 and count < _POINTS:
                r[count], s[count], line[count] = old_r[k], old_s[k], old_line[k]
                count += 1
            if (here <= 0) != (there <= 0) and count < _POINTS:
                t = here / (here - there)
                r[count] = old_r[k] + t * (old_r[after] - old_r[k])
                s[count] = old_s[k] + t * (old_s[after] - old_s[k])
                line[count] = ti.select(here <= 0, 4 + cut, old_line[k])
                count += 1
    return count, r, s, line


@ti.func
def line_row(line, face):
    """Coefficients of r and s in the equation of a line (see ``overlap``)."""
    first, second = ti.select(line % 2 == 1, 1.0, 0.0), ti.select(line % 2 == 1, 0.0, 1.0)
    if line >= 4:
        first, second = face[line % 2, 1], face[line % 2, 2]
    return first, second


@ti.func
def twin_line(line, r, s, face, angles, half_u, half_v):
    """Side of the other rectangle or face that coincides with a line at one of its points, as for flush boxes; -1 for none."""
    twin = -1
    for k in range(4):
        own, cut = line, 4 + k
        if line >= 4:
            own, cut = k, line
        row, half = cut % 2, half_u
        if row == 1:
            half = half_v
        beyond = ti.abs(face[row, 0] + face[row, 1] * r + face[row, 2] * s) / half - 1
        place = ti.abs(ti.select(own % 2 == 1, r, s)) - 1
        straight = ti.abs(turned(line_angle(cut, angles) - line_angle(own, angles))) < _STRAIGHT
        if straight and ti.abs(beyond) < _FLUSH and ti.abs(place) < _FLUSH:
            twin = own + cut - line
    return twin


@ti.func
def line_adjoint(line, other, r, s, r_bar, s_bar, part, face, face_bar: ti.template()):
    """Add the adjoint of the first of two lines that cross at (r, s) to the adjoint of a face, times a factor."""
    if line >= 4:
        row = line % 2
        o_r, o_s = line_row(other, face)
        factor = part * (r_bar * o_s - s_bar * o_r) / (face[row, 1] * o_s - o_r * face[row, 2])
        face_bar[row, 0] -= factor
        face_bar[row, 1] -= factor * r
        face_bar[row, 2] -= factor * s


@ti.func
def covered_area(count, r, s, face, half_u, half_v):
    """Overlap as a fraction of a face, area of the face relative to the rectangle, and uncovered fraction of the smaller one."""
    area = 0.0
    for v in range(count):
        after = ti.select(v + 1 < count, v + 1, 0)
        area += 0.125 * (r[v] * s[after] - r[after] * s[v])
    larger = ti.max((face[0, 1] * face[1, 2] - face[1, 1] * face[0, 2]) / (half_u * half_v), 1.0)
    return area, larger, 1 - ti.min(area * larger, 1.0)


@ti.func
def angles_adjoint(line, bar, angle_bars: ti.template()):
    """Add the adjoint of the direction of a line to those of the two half sides."""
    if line < 4:
        angle_bars[line % 2] += bar


@ti.func
def overlap_adjoint(
    count, r, s, line, face, angles, half_u, half_v, r_bar, s_bar, angle_bars, covered_bar, face_bar: ti.template()
):
    """Add the adjoints of an overlap's corners, of their angles and of the covered fraction to the adjoint of a face."""
    area, larger, missing = covered_area(count, r, s, face, half_u, half_v)
    area_bar = 0.0
    if missing > 0:
        part_bar = _FULL * missing ** (_FULL - 1) * covered_bar
        area_bar = 0.125 * larger * part_bar
        if larger > 1:
            size_bar = area / (half_u * half_v) * part_bar
            face_bar[0, 1] += face[1, 2] * size_bar
            face_bar[1, 1] -= face[0, 2] * size_bar
            face_bar[1, 2] += face[0, 1] * size_bar
            face_bar[0, 2] -= face[1, 1] * size_bar
    for k in ti.static(range(2)):
        x, y = face[0, 1 + k], face[1, 1 + k]
        face_bar[0, 1 + k] -= y * angle_bars[k] / (x * x + y * y)
        face_bar[1, 1 + k] += x * angle_bars[k] / (x * x + y * y)
    for v in range(count):
        before, after = ti.select(v > 0, v - 1, count - 1), ti.select(v + 1 < count, v + 1, 0)
        one_r_bar = r_bar[v] + (s[after] - s[before]) * area_bar
        one_s_bar = s_bar[v] + (r[before] - r[after]) * area_bar
        turn = turned(line_angle(line[v], angles) - line_angle(line[before], angles))
        if turn > _STRAIGHT and turn < ti.math.pi - _STRAIGHT:  # else the corner has no weight, and its position is undefined
            for side in range(2):
                own = ti.select(side == 0, line[before], line[v])
                other = line[before] + line[v] - own
                # Either of two flush sides may be the border: the derivative is the mean of both.
                twin = twin_line(own, r[v], s[v], face, angles, half_u, half_v)
                line_adjoint(own, other, r[v], s[v], one_r_bar, one_s_bar, ti.select(twin < 0, 1.0, 0.5), face, face_bar)
                if twin >= 0:
                    line_adjoint(twin, other, r[v], s[v], one_r_bar, one_s_bar, 0.5, face, face_bar)


@ti.func
def face_face_contacts(
    world: ti.template(), bars: ti.template(), b, i, j, frame, spread, height, half_u, half_v, weight, side,
    patch: ti.template(), adjoint: ti.template(),
):  # fmt: skip
    """Contacts of one face of link j's box with one of link i's: the forces or their adjoint (see ``face_contacts``).

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``, read with ``adjoint`` only.
        b: world.
        i: link of the rectangle.
        j: the other link.
        frame: mat3 of the rectangle's sides and its normal.
        spread: mat3 of the middle of the face minus the centre of link i's box, and its half sides, world axes.
        height: height of the rectangle above that centre [m].
        half_u: half size of the rectangle along the first side [m].
        half_v: along the second [m].
        weight: factor of all forces [1].
        side, patch, adjoint: as in ``face_contacts``.

    Returns:
        Adjoints of the weight, of ``spread`` at a fixed frame, of the positions of the points, of the origin of link i minus that
        of link j, and of the rotation of link i; zeros without ``adjoint``.
    """
    arm_i, contact = shape_arm(world, b, i), point_contact(world, b, i, j)
    apart = load_vec3(world.work, b, i, POSITION) - load_vec3(world.work, b, j, POSITION)
    normal = column(frame, 2)
    face = frame.transpose() @ spread
    face[2, 0] -= height
    margin = pair_margin(world, b, i, j)
    count, r, s, line = overlap(face, half_u, half_v)
    _area, _larger, missing = covered_area(count, r, s, face, half_u, half_v)
    covered = 1 - missing**_FULL
    angles = ti.Vector([ti.atan2(face[1, 1], face[0, 1]), ti.atan2(face[1, 2], face[0, 2])])
    face_bar, r_bar, s_bar, angle_bars = mat3(0.0), 0.0 * r, 0.0 * s, ti.Vector([0.0, 0.0])
    weight_bar, covered_bar, arm_bar, apart_bar, turn_bar = 0.0, 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    for v in range(count):
        before = ti.select(v > 0, v - 1, count - 1)
        share = 2 / ti.math.pi * turned(line_angle(line[v], angles) - line_angle(line[before], angles))
        corner = face @ vec3(1.0, r[v], s[v])
        if corner.z < margin:
            place = frame @ vec3(corner.x, corner.y, height + 0.5 * corner.z)
            if ti.static(adjoint):
                place_bar, one_apart_bar, normal_bar, gap_bar, one_bar = add_contact_force_adjoint(
                    world, bars, b, i, j, arm_i + place, apart, -normal, corner.z, weight * covered * share, contact, side, patch
                )
                arm_bar += place_bar
                apart_bar += one_apart_bar
                turn_bar += place.cross(place_bar) - normal.cross(normal_bar)
                corner_bar = frame.transpose() @ place_bar
                corner_bar.z = gap_bar + 0.5 * corner_bar.z
                face_bar += outer(corner_bar, vec3(1.0, r[v], s[v]))
                r_bar[v], s_bar[v] = column(face, 1).dot(corner_bar), column(face, 2).dot(corner_bar)
                angle_bar = 2 / ti.math.pi * weight * covered * one_bar
                angles_adjoint(line[v], angle_bar, angle_bars)
                angles_adjoint(line[before], -angle_bar, angle_bars)
                covered_bar += weight * share * one_bar
                weight_bar += covered * share * one_bar
            else:
                add_contact_force(
                    world, b, i, j, arm_i + place, apart, -normal, corner.z, weight * covered * share, contact, side, patch
                )
    if ti.static(adjoint):
        overlap_adjoint(count, r, s, line, face, angles, half_u, half_v, r_bar, s_bar, angle_bars, covered_bar, face_bar)
    return weight_bar, frame @ face_bar, arm_bar, apart_bar, turn_bar


@ti.func
def face_contacts(
    world: ti.template(), bars: ti.template(), b, i, j, a, m, half_i, half_j, k, weight, side, patch: ti.template(),
    adjoint: ti.template(),
):  # fmt: skip
    """Contacts of link j's box with the faces of link i's box along its axis k: the forces or their adjoint.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``, read with ``adjoint`` only.
        b: world.
        i: link with the face.
        j: the other link.
        a: rotation matrix of link i's box.
        m: rotation matrix of link j's box.
        half_i: half sizes of link i's box [m].
        half_j: half sizes of link j's box [m].
        k: axis of link i's box.
        weight: factor of all forces [1].
        side: 1 if link i is the first of its pair, -1 if it is the second.
        patch: of the pair (``pair_bristle``).
        adjoint: False adds the forces to both links' loads; True adds to the adjoints of both links' motion and
            contact parameters.

    Returns:
        The adjoint of the weight; zero without ``adjoint``.
    """
    arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
    between = arm_j + load_vec3(world.work, b, j, POSITION) - arm_i - load_vec3(world.work, b, i, POSITION)
    normal = column(a, k)
    normal *= sign_of(normal.dot(between))
    side_u, side_v = column(a, (k + 1) % 3), column(a, (k + 2) % 3)
    frame = ti.Matrix.cols([side_u, side_v, normal])
    cosines = m.transpose() @ normal
    parts = ti.max(cosines * cosines - _FACING, 0.0)
    parts *= parts
    total = parts.sum()
    parts /= total
    between_bar, apart_bar, arm_bar, turn_i_bar, turn_j_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0)
    part_bars = vec3(0.0)
    for n in range(3):
        if parts[n] > 0:
            out = -sign_of(cosines[n]) * half_j[n] * column(m, n)
            half_r, half_s = half_j[(n + 1) % 3] * column(m, (n + 1) % 3), half_j[(n + 2) % 3] * column(m, (n + 2) % 3)
            half_s *= sign_of(half_r.cross(half_s).dot(side_u.cross(side_v)))
            spread = ti.Matrix.cols([between + out, half_r, half_s])
            part_bar, spread_bar, one_arm_bar, one_apart_bar, one_turn_bar = face_face_contacts(
                world, bars, b, i, j, frame, spread, half_i[k], half_i[(k + 1) % 3], half_i[(k + 2) % 3],
                weight * parts[n], side, patch, adjoint,
            )  # fmt: skip
            part_bars[n] = weight * part_bar
            arm_bar += one_arm_bar
            apart_bar += one_apart_bar
            between_bar += column(spread_bar, 0)
            turn_i_bar += one_turn_bar
            turn_j_bar -= between.cross(column(spread_bar, 0))
            for c in ti.static(range(3)):
                turn = column(spread, c).cross(column(spread_bar, c))
                turn_i_bar -= turn  # the frame rotates forwards
                turn_j_bar += turn
    mean_bar = parts.dot(part_bars)
    if ti.static(adjoint):
        for n in range(3):
            cosine_bar = 4 * cosines[n] * ti.max(cosines[n] * cosines[n] - _FACING, 0.0) * (part_bars[n] - mean_bar) / total
            across = column(m, n).cross(normal) * cosine_bar
            turn_j_bar += across
            turn_i_bar -= across
        add_pose_adjoints(world, b, i, j, arm_i, arm_j, arm_bar, apart_bar, between_bar, turn_i_bar, turn_j_bar)
    return mean_bar / weight


@ti.func
def edge_contact(
    world: ti.template(), bars: ti.template(), b, i, j, a, m, half_i, half_j, axis, width, weight, counts_bar,
    patch: ti.template(), adjoint: ti.template(),
):  # fmt: skip
    """Contact of an edge of link i's box with one of link j's: the force or its adjoint; arguments as in ``face_contacts``.

    With a ``weight`` of zero, only the adjoint ``counts_bar`` of the gap used to compare axes is added.

    Returns:
        The adjoint of the weight; zero without ``adjoint``.
    """
    arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
    apart = load_vec3(world.work, b, i, POSITION) - load_vec3(world.work, b, j, POSITION)
    between = arm_j - apart - arm_i
    _crossing, k_i, u_i, v_i, k_j, u_j, v_j, places_i, places_j, side = edge_arguments(axis, between, a, m, half_i, half_j)
    weight_bar = 0.0
    contact, margin = point_contact(world, b, i, j), pair_margin(world, b, i, j)
    if ti.static(adjoint):
        at = edge_edge_contact.linearize(between, k_i, u_i, v_i, k_j, u_j, v_j, places_i, places_j, side, width)
        place, normal, gap, _counts = at.value
        arm_bar, apart_bar, normal_bar, gap_bar = vec3(0.0), vec3(0.0), vec3(0.0), 0.0
        if weight > 0 and gap < margin:
            arm_bar, apart_bar, normal_bar, gap_bar, weight_bar = add_contact_force_adjoint(
                world, bars, b, i, j, arm_i + place, apart, -normal, gap, weight, contact, 1.0, patch
            )
        between_bar, k_i_bar, u_i_bar, v_i_bar, k_j_bar, u_j_bar, v_j_bar, _h, _g, _s, _w = at.vjp(
            (arm_bar, -normal_bar, gap_bar, counts_bar)
        )
        turn_i_bar = k_i.cross(k_i_bar) + u_i.cross(u_i_bar) + v_i.cross(v_i_bar)
        turn_j_bar = k_j.cross(k_j_bar) + u_j.cross(u_j_bar) + v_j.cross(v_j_bar)
        add_pose_adjoints(world, b, i, j, arm_i, arm_j, arm_bar, apart_bar, between_bar, turn_i_bar, turn_j_bar)
    else:
        place, normal, gap, _counts = edge_edge_contact.value(
            between, k_i, u_i, v_i, k_j, u_j, v_j, places_i, places_j, side, width
        )
        if gap < margin:
            add_contact_force(world, b, i, j, arm_i + place, apart, -normal, gap, weight, contact, 1.0, patch)
    return weight_bar


@ti.func
def face_gap_adjoint(world: ti.template(), b, i, j, a, m, half_j, k, gap_bar):
    """Adjoint of the gap along axis k of link i's box: adds to the adjoints of both links' poses."""
    arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
    between = arm_j + load_vec3(world.work, b, j, POSITION) - arm_i - load_vec3(world.work, b, i, POSITION)
    normal = column(a, k)
    normal *= sign_of(normal.dot(between))
    normal_bar, turn_j_bar = between, vec3(0.0)
    for n in ti.static(range(3)):
        edge = sign_of(column(m, n).dot(normal)) * half_j[n] * column(m, n)
        normal_bar -= edge
        turn_j_bar -= edge.cross(normal)
    none = vec3(0.0)
    add_pose_adjoints(
        world, b, i, j, arm_i, arm_j, none, none, gap_bar * normal, gap_bar * normal.cross(normal_bar), gap_bar * turn_j_bar
    )


@ti.func
def box_box_contacts(world: ti.template(), bars: ti.template(), b, p, i, j, patch: ti.template(), adjoint: ti.template()):
    """Contact of pair p of links i and j, whose shapes are boxes: the forces or their adjoint.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``, read with ``adjoint`` only.
        b: world.
        p: pair; marked if it overlaps deeper than contact resolves.
        i: its first link.
        j: its second link.
        patch: of the pair (``pair_bristle``): the points are added to it, or their adjoints follow from it.
        adjoint: False adds the forces to both links' loads; True adds the adjoints of the negative power of the forces on the
            virtual velocities (see ``adjoint``) to those of both links' motion and contact parameters.
    """
    a, m = rotation_matrix(shape_rotation(world, b, i)), rotation_matrix(shape_rotation(world, b, j))
    half_i, half_j = shape_vec3(world, i, HALF_SIZE), shape_vec3(world, j, HALF_SIZE)
    between = load_vec3(world.work, b, j, POSITION) + shape_arm(world, b, j)
    between -= load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
    smallest = ti.min(half_i.min(), half_j.min())
    width = _WIDTH * smallest
    gaps, best, largest, separate = axis_gaps(between, a, m, half_i, half_j, width, pair_margin(world, b, i, j))
    if not separate:
        if largest < -0.5 * smallest - _LATER * width:
            mark_pair(world, b, p, DEEP)
        total, several = 0.0, 0
        for axis in range(_AXES):
            near = ti.max(1 + (gaps[axis] - largest) / width, 0.0)
            total += near * near
            several += ti.cast(near > 0, int)
        weight_bars, mean_bar, largest_bar = 0.0 * gaps, 0.0, 0.0
        sweeps = 1
        if ti.static(adjoint):
            sweeps += ti.cast(several > 1, int)  # the second pass differentiates the weights of the axes
        for sweep in range(sweeps):
            if sweep == 1:
                for axis in range(_AXES):
                    near = ti.max(1 + (gaps[axis] - largest) / width, 0.0)
                    mean_bar += near * near / total * weight_bars[axis]
                for axis in range(_AXES):
                    near = ti.max(1 + (gaps[axis] - largest) / width, 0.0)
                    largest_bar -= 2 * near * (weight_bars[axis] - mean_bar) / (total * width)
            for axis in range(_AXES):
                near = ti.max(1 + (gaps[axis] - largest) / width, 0.0)
                if near > 0:
                    weight, gap_bar = near * near / total, 0.0
                    if sweep == 1:
                        weight, gap_bar = 0.0, 2 * near * (weight_bars[axis] - mean_bar) / (total * width)
                        if axis == best:
                            gap_bar += largest_bar
                    if axis < 6:
                        one, other, k, x, y, half_x, half_y, side = i, j, axis, a, m, half_i, half_j, 1.0
                        if axis >= 3:
                            one, other, k, x, y, half_x, half_y, side = j, i, axis - 3, m, a, half_j, half_i, -1.0
                        if sweep == 0:
                            weight_bars[axis] = face_contacts(
                                world, bars, b, one, other, x, y, half_x, half_y, k, weight, side, patch, adjoint
                            )
                        elif ti.static(adjoint):
                            face_gap_adjoint(world, b, one, other, x, y, half_y, k, gap_bar)
                    else:
                        weight_bar = edge_contact(
                            world, bars, b, i, j, a, m, half_i, half_j, axis, width, weight, gap_bar, patch, adjoint
                        )
                        if sweep == 0:
                            weight_bars[axis] = weight_bar
