"""Direction, attenuation and shadow of a light at a point, for lights of every kind, and the derivatives in both modes.

Lights are numbered: directional lights first, then point lights (``arrays.LIGHT_KINDS``). Intensities are not included here.
"""

from typing import Any

from ti_render.arrays import FLAG
from ti_render.shading.shadow_lookup import visibility, visibility_adjoint, visibility_jvp
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.differentiable import differentiable, inverse, sqrt, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Lower bound of the squared distance to a point light [m2].
MIN_SQUARED_DISTANCE = 1e-12


@differentiable()
def towards_point(point, light):
    """Unit vector from a point towards a point light, and the inverse squared distance [1/m2]."""
    offset = light - point
    squared_distance = offset.dot(offset)
    squared_distance = where(squared_distance > MIN_SQUARED_DISTANCE, squared_distance, MIN_SQUARED_DISTANCE)
    return offset * inverse(sqrt(squared_distance)), inverse(squared_distance)


@bundle
class Lights:
    """Numbers of all lights and of the directional ones, and whether there are shadows; exists while a kernel is compiled."""

    count: Any
    directional_count: Any
    has_shadows: Any


@ti.func
def lights_of(view: ti.template()):
    """``Lights`` of a picture; read once, as a loop that writes would read them in every iteration."""
    count, directional_count, has_shadows = view.flags[FLAG.lights], view.flags[FLAG.directional], view.flags[FLAG.shadows]
    return Lights(count, directional_count, has_shadows)


@ti.func
def towards_light(view: ti.template(), lights: ti.template(), m, i, point):
    """Unit vector from a point towards light ``i`` of image m, and the light's attenuation at the point (without shadows)."""
    to_light, strength = uniform3(view.uniforms, m, light_column(i)), 1.0
    if i >= lights.directional_count:
        to_light, strength = towards_point.value(point, to_light)
    return to_light, strength


@ti.func
def shadowed_strength(view: ti.template(), lights: ti.template(), m, i, point, to_light, strength):
    """Strength of a light, reduced by shadows."""
    result = strength
    if lights.has_shadows == 1 and i < lights.directional_count:
        result = visibility(view, m * lights.directional_count + i, point, to_light)
    return result


@ti.func
def light_adjoint(
    view: ti.template(), bars: ti.template(), lights: ti.template(), row, m, i, point, to_light, to_light_bar, strength_bar
):
    """Adjoint of ``towards_light`` and ``shadowed_strength``: adds to the light's row of uniforms and to the shadow maps,
    returns that of the point."""
    column, point_bar, light_bar = light_column(i), vec3(0), to_light_bar
    if i >= lights.directional_count:
        point_term, light_term = towards_point.vjp((point, uniform3(view.uniforms, m, column)), (to_light_bar, strength_bar))
        point_bar, light_bar = point_term, light_term
    elif lights.has_shadows == 1:
        shadow_point_term, shadow_light_term = visibility_adjoint(
            view, bars, m * lights.directional_count + i, point, to_light, strength_bar
        )
        point_bar = shadow_point_term
        light_bar += shadow_light_term
    for k in ti.static(range(3)):
        bars.uniforms[row, column + k] = bars.uniforms[row, column + k] + light_bar[k]
    return point_bar


@ti.func
def light_tangent(view: ti.template(), dots: ti.template(), lights: ti.template(), m, i, row, c, point, to_light, point_dot):
    """Tangents of the direction and of the strength of a light, in column ``c``; the uniforms' tangents are in row ``row``."""
    column = light_column(i)
    to_light_dot, strength_dot = uniform3(dots.uniforms, row, column), 0.0
    if i >= lights.directional_count:
        to_light_dot, strength_dot = towards_point.jvp((point, uniform3(view.uniforms, m, column)), (point_dot, to_light_dot))
    elif lights.has_shadows == 1:
        strength_dot = visibility_jvp(view, dots, m * lights.directional_count + i, point, to_light, point_dot, to_light_dot, c)
    return to_light_dot, strength_dot
