"""Visibility of a directional light at a point: a soft lookup in the light's shadow map.

Williams, Casting curved shadows on curved surfaces (1978), filtered as in Reeves, Salesin and Cook (1987) over the four
texels around the point, with a soft depth test, so that the result is continuous and differentiable in everything.
"""

from ti_sim.base.differentiable import Vector, differentiable, inverse, sigmoid, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Depth of the ball's centre in a shadow map, in radii: far enough that the perspective-correct mean of depths is nearly the
# arithmetic one.
CENTRE_DEPTH = 64.0
# Entries of ``View.shadow_frame``: centre of the ball (3), radius [m], bias and width of the depth test [radii].
CENTRE, RADIUS, BIAS, TEST_WIDTH = 0, 3, 4, 5
DEPTH_CHANNEL, ALPHA_CHANNEL = 2, 3


@differentiable(constant=("centre", "inverse_radius"))
def light_space(point, to_light, centre, inverse_radius):
    """Position of a point in the shadow map of a light, (x, y) in [-1, 1] within the ball, and its depth in radii.

    The axes are the orthonormal basis of Duff et al., Building an orthonormal basis, revisited (JCGT 2017).
    """
    x, y, z = (to_light[i] for i in range(3))
    sign = where(z < 0.0, -1.0, 1.0)
    k = -inverse(sign + z)
    c = x * y * k
    row0 = Vector([sign * x * x * k + 1.0, sign * c, -(sign * x)])
    row1 = Vector([c, sign + y * y * k, -y])
    d = (point - centre) * inverse_radius
    return Vector([d.dot(row0), d.dot(row1), -d.dot(to_light) + CENTRE_DEPTH])


@differentiable(constant=("bias", "inverse_width"))
def occlusion(alpha, map_depth, depth, bias, inverse_width):
    """Fraction of the light that a texel of the map blocks from a point at ``depth``."""
    return alpha * sigmoid((depth - map_depth - bias) * inverse_width)


@ti.func
def map_taps(position, side):
    """Column and row of the texel up and left of a position in the map, and the bilinear weights of the next ones."""
    x, y = (position[0] + 1.0) * 0.5 * side - 0.5, (position[1] + 1.0) * 0.5 * side - 0.5
    # Points far outside the map are clamped to a position without taps in it.
    x, y = ti.min(ti.max(x, -3.0), side + 3.0), ti.min(ti.max(y, -3.0), side + 3.0)
    left, upper = ti.floor(x), ti.floor(y)
    return ti.cast(left, ti.i32), ti.cast(upper, ti.i32), x - left, y - upper


@ti.func
def _frame_values(frame: ti.template()):
    return vec3(frame[CENTRE], frame[CENTRE + 1], frame[CENTRE + 2]), 1.0 / frame[RADIUS], frame[BIAS], 1.0 / frame[TEST_WIDTH]


@ti.func
def _tap_weight(dx, dy, fx, fy):
    """Bilinear weight of the tap (dx, dy), each 0 or 1, and its derivatives by fx and fy."""
    wx, wy = 1.0 - fx, 1.0 - fy
    wx_by_fx, wy_by_fy = -1.0, -1.0
    if dx == 1:
        wx, wx_by_fx = fx, 1.0
    if dy == 1:
        wy, wy_by_fy = fy, 1.0
    return wx * wy, wx_by_fx * wy, wx * wy_by_fy


@ti.func
def visibility(view: ti.template(), i, point, to_light):
    """Fraction of light ``i`` (a row of the maps [M L, R, R, 4]) that reaches ``point``."""
    centre, inverse_radius, bias, inverse_width = _frame_values(view.shadow_frame)
    position = light_space.value(point, to_light, centre, inverse_radius)
    side = view.shadow_maps.shape[1]
    column, row, fx, fy = map_taps(position, side)
    visible = 1.0
    for dy in range(2):
        for dx in range(2):
            x, y = column + dx, row + dy
            if x >= 0 and y >= 0 and x < side and y < side:
                alpha = view.shadow_maps[i, y, x, ALPHA_CHANNEL]
                if alpha > 0:
                    occluded_fraction = occlusion.value(
                        alpha, view.shadow_maps[i, y, x, DEPTH_CHANNEL], position[2], bias, inverse_width
                    )
                    weight, _x, _y = _tap_weight(dx, dy, fx, fy)
                    visible -= weight * occluded_fraction
    return visible


@ti.func
def visibility_adjoint(view: ti.template(), bars: ti.template(), i, point, to_light, visible_bar):
    """Adjoint of ``visibility``: adds to that of the maps, returns those of the point and of the direction."""
    centre, inverse_radius, bias, inverse_width = _frame_values(view.shadow_frame)
    linearized = light_space.linearize(point, to_light, centre, inverse_radius)
    position = linearized.value
    side = view.shadow_maps.shape[1]
    column, row, fx, fy = map_taps(position, side)
    position_bar = vec3(0)
    for dy in range(2):
        for dx in range(2):
            x, y = column + dx, row + dy
            if x >= 0 and y >= 0 and x < side and y < side:
                alpha = view.shadow_maps[i, y, x, ALPHA_CHANNEL]
                if alpha > 0:
                    texel_occlusion = occlusion.linearize(
                        alpha, view.shadow_maps[i, y, x, DEPTH_CHANNEL], position[2], bias, inverse_width
                    )
                    occluded_fraction = texel_occlusion.value
                    weight, weight_by_x, weight_by_y = _tap_weight(dx, dy, fx, fy)
                    alpha_bar, map_depth_bar, depth_bar, _b, _w = texel_occlusion.vjp(-weight * visible_bar)
                    bars.shadow_maps[i, y, x, ALPHA_CHANNEL] += alpha_bar
                    bars.shadow_maps[i, y, x, DEPTH_CHANNEL] += map_depth_bar
                    position_bar += vec3(weight_by_x * occluded_fraction, weight_by_y * occluded_fraction, 0.0) * (
                        -0.5 * side * visible_bar
                    )
                    position_bar[2] += depth_bar
    point_bar, to_light_bar, _c, _r = linearized.vjp(position_bar)
    return point_bar, to_light_bar


@ti.func
def visibility_jvp(view: ti.template(), dots: ti.template(), i, point, to_light, point_dot, to_light_dot, c):
    """Tangent of ``visibility`` in column ``c``; that of the maps is [M L, K, R, R, 4]."""
    centre, inverse_radius, bias, inverse_width = _frame_values(view.shadow_frame)
    linearized = light_space.linearize(point, to_light, centre, inverse_radius)
    position = linearized.value
    position_dot = linearized.jvp((point_dot, to_light_dot, 0.0, 0.0))
    side = view.shadow_maps.shape[1]
    column, row, fx, fy = map_taps(position, side)
    visible_dot = 0.0
    for dy in range(2):
        for dx in range(2):
            x, y = column + dx, row + dy
            if x >= 0 and y >= 0 and x < side and y < side:
                alpha = view.shadow_maps[i, y, x, ALPHA_CHANNEL]
                alpha_dot = dots.shadow_maps[i, c, y, x, ALPHA_CHANNEL]
                if alpha > 0 or alpha_dot != 0:
                    texel_occlusion = occlusion.linearize(
                        alpha, view.shadow_maps[i, y, x, DEPTH_CHANNEL], position[2], bias, inverse_width
                    )
                    occluded_fraction = texel_occlusion.value
                    occluded_dot = texel_occlusion.jvp(
                        (alpha_dot, dots.shadow_maps[i, c, y, x, DEPTH_CHANNEL], position_dot[2], 0.0, 0.0)
                    )
                    weight, weight_by_x, weight_by_y = _tap_weight(dx, dy, fx, fy)
                    visible_dot -= weight * occluded_dot + occluded_fraction * 0.5 * side * (
                        weight_by_x * position_dot[0] + weight_by_y * position_dot[1]
                    )
    return visible_dot
