"""The colour of a face at neighbouring pixels of a row, one pixel in each lane (``ti_sim.base.lanes``).

The steps are those of ``surface``, ``reflection`` and ``lights`` with the same formulas; branches become selections. Texels and
shadow maps are looked up lane by lane.
"""

from ti_render.arrays import FLAG, LIGHT, MATERIAL, UNIFORM
from ti_render.geometry.normals import unit_normal
from ti_render.shading.lights import towards_point
from ti_render.shading.reflection import PHONG, UNLIT, environment_basis, highlight, lambert, view_direction
from ti_render.shading.shadow_lookup import visibility
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.texture import sample_texture
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.lanes import (
    LANES,
    LaneVector,
    constant_lanes,
    interpolate_lanes,
    zero_lane_vector,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def facing_signs(view: ti.template(), m, normal: ti.template(), point: ti.template()):
    """-1 where the normal of a two-sided surface points away from the eye, else 1."""
    sign = constant_lanes(1.0)
    if view.flags[FLAG.two_sided] == 1:
        from_eye = point - uniform3(view.uniforms, m, UNIFORM.eye)
        sign = ti.select(normal.dot(from_eye) > 0.0, -1.0, sign)
    return sign


@ti.func
def _textured_albedo(view: ti.template(), m, attributes: ti.template(), weight, r: ti.template()):
    """Albedo, times the texels in the lanes with ``weight`` > 0."""
    albedo = interpolate_lanes(attributes.albedo, r)
    red, green, blue = albedo[0], albedo[1], albedo[2]
    if attributes.texture >= 0:
        uv = interpolate_lanes(attributes.uv, r)
        for lane in range(LANES):
            if weight[lane] > 0:
                texel, _u, _v = sample_texture(view, m, attributes.texture, uv[0][lane], uv[1][lane])
                red[lane] *= texel[0]
                green[lane] *= texel[1]
                blue[lane] *= texel[2]
    return LaneVector(red, green, blue)


@ti.func
def visible_fractions(view: ti.template(), row, is_lit, point: ti.template(), to_light):
    """Fraction of a directional light that reaches the points of the lanes with ``is_lit`` > 0."""
    result = constant_lanes(1.0)
    for lane in range(LANES):
        if is_lit[lane] > 0:
            result[lane] = visibility(view, row, vec3(point[0][lane], point[1][lane], point[2][lane]), to_light)
    return result


@ti.func
def lane_towards_light(view: ti.template(), directional_count, m, i, point: ti.template()):
    """``lights.towards_light``."""
    light = uniform3(view.uniforms, m, light_column(i))
    l0, l1, l2, strength = constant_lanes(light[0]), constant_lanes(light[1]), constant_lanes(light[2]), constant_lanes(1.0)
    if i >= directional_count:
        to_light, attenuation = towards_point.value(point, light)
        l0, l1, l2, strength = to_light[0], to_light[1], to_light[2], attenuation
    return LaneVector(l0, l1, l2), strength


@ti.func
def _lit_colour(view: ti.template(), m, weight, normal: ti.template(), point: ti.template(), albedo: ti.template(), material):
    """``reflection.light_surface`` of a lit surface."""
    ambient = uniform3(view.uniforms, m, UNIFORM.ambient)
    red, green, blue = constant_lanes(ambient[0]), constant_lanes(ambient[1]), constant_lanes(ambient[2])
    specular_red, specular_green, specular_blue = constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0)
    if view.flags[FLAG.environment] == 1:
        basis = environment_basis.value(normal)
        for k in ti.static(range(9)):
            coefficient = uniform3(view.uniforms, m, UNIFORM.environment + 3 * k)
            red += coefficient[0] * basis[k]
            green += coefficient[1] * basis[k]
            blue += coefficient[2] * basis[k]
    to_eye = zero_lane_vector()
    if ti.static(view.shading == PHONG):
        to_eye = view_direction.value(point, uniform3(view.uniforms, m, UNIFORM.eye))
    directional_count, has_shadows = view.flags[FLAG.directional], view.flags[FLAG.shadows]
    for i in range(view.flags[FLAG.lights]):
        to_light, strength = lane_towards_light(view, directional_count, m, i, point)
        cosine = lambert.value(normal, to_light)
        if has_shadows == 1 and i < directional_count:
            direction = uniform3(view.uniforms, m, light_column(i))
            strength = visible_fractions(view, m * directional_count + i, weight * cosine, point, direction)
        intensity = uniform3(view.uniforms, m, light_column(i) + LIGHT.intensity)
        diffuse = strength * cosine
        red += intensity[0] * diffuse
        green += intensity[1] * diffuse
        blue += intensity[2] * diffuse
        if ti.static(view.shading == PHONG):
            specular = strength * highlight.value(normal, to_eye, to_light, view.uniforms[m, material + MATERIAL.shininess])
            specular_red += intensity[0] * specular
            specular_green += intensity[1] * specular
            specular_blue += intensity[2] * specular
    colour = albedo.by_components(LaneVector(red, green, blue))
    if ti.static(view.shading == PHONG):
        specular_light = LaneVector(specular_red, specular_green, specular_blue)
        colour += specular_light.by_components(uniform3(view.uniforms, m, material))
    return colour


@ti.func
def lane_colours(view: ti.template(), attributes: ti.template(), m, weight, r: ti.template(), z):
    """``surface.surface_colour`` of each pixel.

    Args:
        view, attributes, m: as of ``surface_colour``.
        weight: 0 in lanes whose colour does not count.
        r: perspective-correct barycentrics, a ``LaneVector``.
        z: depths [m].

    Returns:
        Red, green and blue, a ``LaneVector``.
    """
    colour = LaneVector(z, z, z)
    if ti.static(view.shading != DEPTH):
        normal, point = zero_lane_vector(), zero_lane_vector()
        if ti.static(view.shading != UNLIT):
            normal = unit_normal.value(interpolate_lanes(attributes.normals, r))
            if view.flags[FLAG.position] == 1:
                point = interpolate_lanes(attributes.points, r)
            normal = normal * facing_signs(view, m, normal, point)
        colour = normal
        if ti.static(view.shading != NORMAL):
            colour = _textured_albedo(view, m, attributes, weight, r)
            if ti.static(view.shading != UNLIT):
                colour = _lit_colour(view, m, weight, normal, point, colour, attributes.material)
    return colour
