"""Closest point of a triangle to a point (Taichi functions)."""

from ti_sim.base.runtime import ti

# Regions of a triangle that may contain the closest point: its face, the edges along e1, e2 and e2 - e1, or a corner.
FACE, FIRST_EDGE, SECOND_EDGE, FAR_EDGE, CORNER = range(5)


@ti.func
def closest_on_triangle(p, e1, e2):
    """Closest point s e1 + t e2 of the triangle with corners 0, e1 and e2, by its Voronoi regions (Ericson, Real-time collision
    detection, 2005).

    Args:
        p: point [m].
        e1, e2: two of the triangle's edges [m].

    Returns:
        (s, t, region): the weights of e1 and e2, and the region of the point.
    """
    s, t, region = 0.0, 0.0, CORNER
    d1, d2 = e1.dot(p), e2.dot(p)
    g11, g12, g22 = e1.dot(e1), e1.dot(e2), e2.dot(e2)
    d3, d4 = d1 - g11, d2 - g12
    d5, d6 = d1 - g12, d2 - g22
    n = e1.cross(e2)  # signed areas from cross products: differences of products lose digits for slim triangles
    if d1 > 0 or d2 > 0:
        c = n.dot(e1.cross(p))
        if d3 >= 0 and d4 <= d3:
            s = 1.0
        elif c <= 0 and d1 >= 0 and d3 <= 0:
            s, region = d1 / g11, FIRST_EDGE
        elif d6 >= 0 and d5 <= d6:
            t = 1.0
        else:
            b = n.dot(p.cross(e2))
            a = n.dot((p - e1).cross(p - e2))
            if b <= 0 and d2 >= 0 and d6 <= 0:
                t, region = d2 / g22, SECOND_EDGE
            elif a <= 0 and d4 - d3 >= 0 and d5 - d6 >= 0:
                t, region = (d4 - d3) / (d4 - d3 + d5 - d6), FAR_EDGE
                s = 1 - t
            else:
                area = a + b + c
                s, t, region = b / area, c / area, FACE
    return s, t, region


@ti.func
def is_beyond_plane(p, e1, e2, squared_distance):
    """Whether point p is farther from the plane of the triangle with corners 0, e1 and e2 than a distance; cheaper than the
    closest point.

    Points within 0.05 % of the distance do not count as farther, and no point does for a slim triangle, the direction of whose
    normal is rounding.

    Args:
        p: point [m].
        e1, e2: two of the triangle's edges [m].
        squared_distance: square of the distance [m2].
    """
    n = e1.cross(e2)
    height, squared_area = n.dot(p), n.dot(n)
    is_slim = squared_area < 1e-6 * e1.dot(e1) * e2.dot(e2)
    return not is_slim and height * height > 1.001 * squared_distance * squared_area
