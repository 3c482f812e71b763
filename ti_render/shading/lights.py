"""How much of which light reaches a point from where, for lights of every kind, and the derivatives in both modes.

A light's number counts directional lights first, then point lights (``arrays.LIGHT_KINDS``). Its intensity is left out here.
"""

from typing import Any

from ti_render.arrays import FLAG
from ti_render.shading.shadow_lookup import visibility, visibility_adjoint, visibility_jvp
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.differentiable import differentiable, inverse, sqrt, where
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Squared distance [m2] that a point light keeps at least.
MIN_SQUARED_LENGTH = 1e-12


@differentiable()
def towards_point(point, light):
    """Unit vector from a point towards a point light, and the inverse squared distance [1/m2]."""
    d = light - point
    squared = d.dot(d)
    squared = where(squared > MIN_SQUARED_LENGTH, squared, MIN_SQUARED_LENGTH)
    return d * inverse(sqrt(squared)), inverse(squared)


@bundle
class Lights:
    """Of a picture, while a kernel is compiled: numbers of all lights and of the directional ones, whether there are shadows."""

    count: Any
    directionals: Any
    shadows: Any


@ti.func
def lights_of(view: ti.template()):
    """``Lights`` of a picture; they are read once, since a loop that writes would read them each time."""
    count, directionals, shadows = view.flags[FLAG.lights], view.flags[FLAG.directional], view.flags[FLAG.shadows]
    return Lights(count, directionals, shadows)


@ti.func
def towards_light(view: ti.template(), lights: ti.template(), m, i, point):
    """Unit vector from a point towards light ``i`` of image m, and the light's strength at the point (without shadows)."""
    to_light, strength = uniform3(view.uniforms, m, light_column(i)), 1.0
    if i >= lights.directionals:
        to_light, strength = towards_point.value(point, to_light)
    return to_light, strength


@ti.func
def shadowed(view: ti.template(), lights: ti.template(), m, i, point, to_light, strength):
    """What shadows leave of the strength of a light."""
    result = strength
    if lights.shadows == 1 and i < lights.directionals:
        result = visibility(view, m * lights.directionals + i, point, to_light)
    return result


@ti.func
def light_adjoint(
    view: ti.template(), bars: ti.template(), lights: ti.template(), row, m, i, point, to_light, to_light_bar, strength_bar
):
    """Adjoint of ``towards_light`` and ``shadowed``: adds to the light's row of uniforms and to the shadow maps, returns that of
    the point."""
    column, point_bar, light_bar = light_column(i), vec3(0), to_light_bar
    if i >= lights.directionals:
        p0, p1 = towards_point.vjp((point, uniform3(view.uniforms, m, column)), (to_light_bar, strength_bar))
        point_bar, light_bar = p0, p1
    elif lights.shadows == 1:
        q0, q1 = visibility_adjoint(view, bars, m * lights.directionals + i, point, to_light, strength_bar)
        point_bar = q0
        light_bar += q1
    for k in ti.static(range(3)):
        bars.uniforms[row, column + k] = bars.uniforms[row, column + k] + light_bar[k]
    return point_bar


@ti.func
def light_tangent(view: ti.template(), dots: ti.template(), lights: ti.template(), m, i, row, c, point, to_light, point_dot):
    """Tangents of the direction and of the strength of a light, in column ``c``; the uniforms' tangents are in row ``row``."""
    column = light_column(i)
    to_light_dot, strength_dot = uniform3(dots.uniforms, row, column), 0.0
    if i >= lights.directionals:
        to_light_dot, strength_dot = towards_point.jvp((point, uniform3(view.uniforms, m, column)), (point_dot, to_light_dot))
    elif lights.shadows == 1:
        strength_dot = visibility_jvp(view, dots, m * lights.directionals + i, point, to_light, point_dot, to_light_dot, c)
    return to_light_dot, strength_dot
