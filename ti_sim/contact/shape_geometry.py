"""Contact point, normal and gap of two shapes, as straight-line functions of their poses.

Spheres and capsules are lines with a radius (a sphere is a line of zero length). A small term, ``_CENTRE_REGULARISATION`` times
the squared distance from the middle of the line, is added to the squared gap, so that the closest point moves continuously when
two lines become parallel. Remaining kinks and jumps:

- the gap has kinks where a closest point reaches or leaves an end of a line, or an edge or corner of a box;
- the deepest point of a line in a mesh jumps where two points of the line are equally deep;
- if the closest points of two lines coincide there is no normal: normal and force are zero.
"""

from ti_sim.base.differentiable import clip, differentiable, normalize, sqrt, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, offset_from_box, outer, vec3

_CENTRE_REGULARISATION = 1e-3
_MIN_SQUARED_DISTANCE = 1e-24  # squared distance [m2] that is treated as zero


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
    cosine, d_along_a, d_along_b = k_a.dot(k_b), k_a.dot(d), k_b.dot(d)
    s = clip((cosine * d_along_b - d_along_a) / ((1.0 + _CENTRE_REGULARISATION) - cosine * cosine), -h_a, h_a)
    t = clip(cosine * s + d_along_b, -h_b, h_b)
    s = clip(cosine * t - d_along_a, -h_a, h_a)
    separation = d + k_a * s - k_b * t
    squared_distance = separation.dot(separation)
    normal = normalize(separation, min_squared=_MIN_SQUARED_DISTANCE)
    is_apart = squared_distance > _MIN_SQUARED_DISTANCE
    gap = where(is_apart, sqrt(where(is_apart, squared_distance, 1.0)), 0.0) - r_a - r_b
    return k_a * s - normal * (r_a + 0.5 * gap), normal, gap


@ti.func
def eighth_power(x):
    """x^8."""
    power = x * x
    power *= power
    return power * power


@ti.func
def box_distance(x, half_size):
    """Signed distance [m] of a box with half sizes ``half_size`` at a point x of its frame, its gradient and Hessian [1/m].

    Inside, with the depths d_k below all six faces, the distance is -(sum d_k^-8)^(-1/8). It is smooth where two depths are
    equal, and differs from the smallest depth by (smallest / next)^8 / 8 of it.
    """
    min_depth = (half_size - ti.abs(x)).min()
    distance, gradient, hessian = 0.0, vec3(0.0), mat3(0.0)
    if min_depth > 0:
        total, diagonal = 0.0, vec3(0.0)
        for k in ti.static(range(3)):
            for side in ti.static((-1.0, 1.0)):
                ratio = min_depth / (half_size[k] - side * x[k])
                power = eighth_power(ratio)
                total += power
                gradient[k] += side * power * ratio
                diagonal[k] += power * ratio * ratio
        root = 1 / ti.sqrt(ti.sqrt(ti.sqrt(total)))  # depth / min_depth
        depth = min_depth * root
        gradient *= root / total
        for k in ti.static(range(3)):
            hessian[k, k] = 9 * root / (total * min_depth) * diagonal[k]
        hessian -= outer(gradient, gradient) * (9 / depth)
        distance = -depth
    else:
        offset_outside = offset_from_box(x, -half_size, half_size)
        distance = offset_outside.norm()
        if distance > 0:
            gradient = offset_outside / distance
            hessian = -outer(gradient, gradient) / distance
            for k in ti.static(range(3)):
                if offset_outside[k] != 0:
                    hessian[k, k] += 1 / distance
        else:
            for k in ti.static(range(3)):
                if half_size[k] - ti.abs(x[k]) == min_depth and gradient.dot(gradient) == 0:
                    gradient[k] = ti.select(x[k] > 0, 1.0, -1.0)
    return distance, gradient, hessian


@ti.func
def box_distance_along(x, k, half_size):
    """``box_distance`` at a point x, and its first and second derivative along a unit vector k."""
    min_depth = (half_size - ti.abs(x)).min()
    distance, derivative, second_derivative = 0.0, 0.0, 0.0
    if min_depth > 0:
        total = 0.0
        for m in ti.static(range(3)):
            for side in ti.static((-1.0, 1.0)):
                ratio = min_depth / (half_size[m] - side * x[m])
                power = eighth_power(ratio)
                total += power
                power *= ratio * k[m]
                derivative += side * power
                second_derivative += power * ratio * k[m]
        root = 1 / ti.sqrt(ti.sqrt(ti.sqrt(total)))  # depth / min_depth
        depth = min_depth * root
        derivative *= root / total
        second_derivative = 9 * (root / (total * min_depth) * second_derivative - derivative * derivative / depth)
        distance = -depth
    else:
        offset_outside = offset_from_box(x, -half_size, half_size)
        distance = offset_outside.norm()
        if distance > 0:
            derivative = k.dot(offset_outside) / distance
            for m in ti.static(range(3)):
                if offset_outside[m] != 0:
                    second_derivative += k[m] * k[m]
            second_derivative = (second_derivative - derivative * derivative) / distance
    return distance, derivative, second_derivative
