"""Contact point, normal and gap of two shapes, as straight-line functions of their poses.

Spheres and capsules are lines with a radius (a sphere is a line of zero length). A small regularisation, ``_PULL`` times the
squared distance from the middle of the line, added to the squared gap, makes the closest point move continuously when two lines,
or a line and a face of a box, become parallel. Remaining kinks and jumps:

- the gap has kinks where a closest point reaches or leaves an end of a line, or an edge or corner of a box;
- inside a box the normal is that of the face of least depth: normal and force jump where two faces are equally deep;
- the closest point of a line to a mesh jumps where two points of the line are equally close;
- if the closest points of two lines coincide there is no normal: normal and force are zero.
"""

from ti_sim.base.differentiable import Vector, clip, differentiable, inverse, normalize, sqrt, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, offset_from_box, outer, vec3
from ti_sim.shapes.distance_kernels import grid_distance, grid_distance_adjoint

_PULL = 1e-3
_LEAST = 1e-24  # squared distance [m2] that is treated as zero
_HALVINGS = 40
_PLACES = 9  # points of a line at which the distance to a mesh is sampled first
_ANYWHERE = 1e9  # reach of points whose distance is computed anywhere [m]


@differentiable(constant=("h_a", "h_b", "r_a", "r_b"))
def line_line_contact(d, k_a, k_b, h_a, h_b, r_a, r_b):
    """Contact of two lines with radii.

    Args:
        d: centre of a minus centre of b [m].
        k_a: unit vector along a.
        k_b: unit vector along b.
        h_a: half length of a [m].
        h_b: half length of b [m].
        r_a: radius of a [m].
        r_b: radius of b [m].

    Returns:
        (contact point minus centre of a [m], unit normal from b to a, gap [m]); the point is midway between the surfaces.
    """
    b, along_a, along_b = k_a.dot(k_b), k_a.dot(d), k_b.dot(d)
    s = clip((b * along_b - along_a) / ((1.0 + _PULL) - b * b), -h_a, h_a)
    t = clip(b * s + along_b, -h_b, h_b)
    s = clip(b * t - along_a, -h_a, h_a)
    apart = d + k_a * s - k_b * t
    squared = apart.dot(apart)
    normal = normalize(apart, least_squared=_LEAST)
    gap = where(squared > _LEAST, sqrt(where(squared > _LEAST, squared, 1.0)), 0.0) - r_a - r_b
    return k_a * s - normal * (r_a + 0.5 * gap), normal, gap


@differentiable(constant=("half", "radius", "h", "given", "free", "outside"))
def line_box_contact(c, k, half, radius, h, given, free, outside):
    """Contact of one point of a line with a radius and a box, all in the frame of the box.

    Args:
        c: centre of the line [m].
        k: direction of the line; with ``free`` a unit vector.
        half: half sizes of the box [m].
        radius: radius of the line [m].
        h: half length of the line [m].
        given: position of the contact point on the line, in multiples of ``k``.
        free: 1 for the point closest to the box instead of the given one.
        outside: for each axis, the side of the box beyond which the closest point lies: -1, 1, or 0 for neither.

    Returns:
        (contact point minus centre of the line [m], outward unit normal of the box, gap [m], weight [1]). The weight of a given
        point is 1; that of the closest point decreases from 1 in the middle of the line to 0 at its ends, which are separate
        contacts.
    """
    open_axes = outside * outside
    pull = (k * k).dot(open_axes) + _PULL
    closest = clip(-((c - half * outside) * open_axes).dot(k) / pull, -h, h)
    s = where(free > 0.5, closest, given)
    x = c + k * s
    apart = Vector([x[i] - clip(x[i], -half[i], half[i]) for i in range(3)])
    squared = apart.dot(apart)
    beyond = squared > _LEAST
    away = normalize(apart, least_squared=_LEAST)
    side = [where(x[i] > 0.0, 1.0, -1.0) for i in range(3)]
    depth = [half[i] - x[i] * side[i] for i in range(3)]
    lower = where(depth[0] <= depth[1], depth[0], depth[1])
    inward = where(lower <= depth[2], lower, depth[2])
    faces = (
        where(lower <= depth[2], where(depth[0] <= depth[1], side[0], 0.0), 0.0),
        where(lower <= depth[2], where(depth[0] <= depth[1], 0.0, side[1]), 0.0),
        where(lower <= depth[2], 0.0, side[2]),
    )
    normal = Vector([where(beyond, away[i], faces[i]) for i in range(3)])
    gap = where(beyond, sqrt(where(beyond, squared, 1.0)), -inward) - radius
    share = s * inverse(where(h > 0.0, h, 1.0))
    weight = where(free > 0.5, 1.0 - share * share, 1.0)
    return k * s - normal * (radius + 0.5 * gap), normal, gap, weight


@ti.func
def point_box_contact(x, half):
    """Gap and normal of a point x as in ``line_box_contact``, and derivatives as returned by ``grid_distance_slopes``."""
    apart = offset_from_box(x, -half, half)
    squared = apart.dot(apart)
    normal, gap, bend = vec3(0.0), 0.0, mat3(0.0)
    if squared > _LEAST:
        gap = ti.sqrt(squared)
        normal = apart / gap
        bend = -outer(normal, normal) / gap
        for k in ti.static(range(3)):
            if apart[k] != 0:
                bend[k, k] += 1 / gap
    else:
        depth = half - ti.abs(x)
        gap = -ti.min(depth.x, depth.y, depth.z)
        if depth.x == -gap:
            normal.x = ti.select(x.x > 0, 1.0, -1.0)
        elif depth.y == -gap:
            normal.y = ti.select(x.y > 0, 1.0, -1.0)
        else:
            normal.z = ti.select(x.z > 0, 1.0, -1.0)
    return gap, normal, normal, bend


@ti.func
def sides_of_closest(c, k, half, h):
    """Argument ``outside`` of ``line_box_contact``; the closest point is found by bisection on the derivative of the distance."""
    low, high = -h, h
    for _ in range(_HALVINGS):
        s = 0.5 * (low + high)
        x = c + s * k
        if k.dot(x - ti.max(-half, ti.min(half, x))) + _PULL * s > 0:
            high = s
        else:
            low = s
    x = c + 0.5 * (low + high) * k
    outside = vec3(0.0)
    for i in ti.static(range(3)):
        if x[i] > half[i]:
            outside[i] = 1.0
        elif x[i] < -half[i]:
            outside[i] = -1.0
    return outside


@ti.func
def closest_to_grid(sample: ti.template(), first, nodes, low, cell, c, k, h, reach):
    """Position s on the line c + s k, |s| <= h, that is closest to a solid given by its distance field (see
    ``distance_kernels``).

    With the regularisation, k . normal + _PULL s / h is zero there, unless it is an end. Bisection starts in the interval around
    the closest of a few sampled points. If the line touches the solid, that point is closer than half the sample distance;
    otherwise it is the result.
    """
    step = 2 * h / (_PLACES - 1)
    best, least = 0.0, _ANYWHERE
    for n in range(_PLACES):
        s = n * step - h
        distance, _normal = grid_distance(sample, first, nodes, low, cell, c + s * k, _ANYWHERE)
        distance += 0.5 * _PULL * s * s / h
        if distance < least:
            best, least = s, distance
    if least < reach + 0.6 * step:
        bottom, top = ti.max(best - step, -h), ti.min(best + step, h)
        for _ in range(_HALVINGS):
            s = 0.5 * (bottom + top)
            _gap, normal = grid_distance(sample, first, nodes, low, cell, c + s * k, _ANYWHERE)
            if k.dot(normal) + _PULL * s / h > 0:
                top = s
            else:
                bottom = s
        best = 0.5 * (bottom + top)
    return best


@ti.func
def closest_to_grid_adjoint(sample: ti.template(), first, nodes, low, cell, x, k, s, normal, h, s_bar):
    """Adjoint of ``closest_to_grid``, whose result s is the point x with this normal: (c_bar, k_bar).

    By the implicit function theorem; zero if the result is an end of the line.
    """
    c_bar, k_bar = vec3(0.0), vec3(0.0)
    if ti.abs(s) < (1 - 1e-6) * h:
        turn = grid_distance_adjoint(sample, first, nodes, low, cell, x, 0.0, k)
        slope = k.dot(turn) + _PULL / h
        if slope > 0:
            c_bar = -s_bar / slope * turn
            k_bar = -s_bar / slope * (normal + s * turn)
    return c_bar, k_bar
