"""Adjoint of the colour of a face at neighbouring pixels of a row, one pixel in each lane (``surface_lanes``).

The steps are those of ``surface.surface_adjoint`` and ``reflection.light_surface_adjoint``. Adjoints of numbers that all pixels
share are summed over the lanes.
"""

from typing import Any

from ti_render.arrays import FLAG, LIGHT, MATERIAL, UNIFORM
from ti_render.geometry.normals import unit_normal
from ti_render.shading.lights import towards_point
from ti_render.shading.reflection import PHONG, UNLIT, environment_basis, highlight, lambert, view_direction
from ti_render.shading.shadow_lookup import visibility_adjoint
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.surface_lanes import facing_signs, lane_towards_light, visible_fractions
from ti_render.shading.texture import add_texels, sample_texture
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, LaneVector, constant_lanes, interpolate_lanes, transposed_lanes, zero_lane_vector
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class SurfaceAdjoint:
    """Colour of a surface in lanes, and adjoints, while a kernel is compiled.

    Attributes:
        colour: ``LaneVector``.
        r, albedo, uv, normal, point: adjoints of the barycentrics and of the interpolated attributes; ``LaneVector``s.
        z: adjoint of the depth.
    """

    colour: Any
    r: Any
    albedo: Any
    uv: Any
    normal: Any
    point: Any
    z: Any


@ti.func
def _add_sum(bars: ti.template(), row, column, lanes):
    """Add the sum of the lanes to a uniform's adjoint, in a row that no other thread writes."""
    bars.uniforms[row, column] = bars.uniforms[row, column] + lanes.sum()


@ti.func
def _add_sums(bars: ti.template(), row, column, vector: ti.template()):
    """``_add_sum`` of the components of a ``LaneVector``."""
    for k in ti.static(range(3)):
        _add_sum(bars, row, column + k, vector[k])


@ti.func
def _light_adjoint(
    view: ti.template(), bars: ti.template(), row, m, i, point: ti.template(), to_light_bar: ti.template(), strength_bar, is_lit
):
    """``lights.light_adjoint`` of lanes with ``is_lit`` > 0: returns the adjoint of the point."""
    column, directional_count = light_column(i), view.flags[FLAG.directional]
    light, point_bar = uniform3(view.uniforms, m, column), zero_lane_vector()
    if i >= directional_count:
        point_term, light_bar = towards_point.vjp((point, light), (to_light_bar, strength_bar))
        point_bar += point_term
        _add_sums(bars, row, column, light_bar)
    else:
        _add_sums(bars, row, column, to_light_bar)
        if view.flags[FLAG.shadows] == 1:
            x_bar, y_bar, z_bar = constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0)
            for lane in range(LANES):
                if is_lit[lane] > 0:
                    lane_point = vec3(point[0][lane], point[1][lane], point[2][lane])
                    lane_point_bar, light_bar = visibility_adjoint(
                        view, bars, m * directional_count + i, lane_point, light, strength_bar[lane]
                    )
                    x_bar[lane], y_bar[lane], z_bar[lane] = lane_point_bar[0], lane_point_bar[1], lane_point_bar[2]
                    for k in ti.static(range(3)):
                        bars.uniforms[row, column + k] = bars.uniforms[row, column + k] + light_bar[k]
            point_bar += LaneVector(x_bar, y_bar, z_bar)
    return point_bar


@ti.func
def _environment_adjoint(
    view: ti.template(), bars: ti.template(), row, m, normal: ti.template(), irradiance: ti.template(),
    irradiance_bar: ti.template(),
):  # fmt: skip
    """Add the environment's light to ``irradiance``; returns the adjoint of the normal."""
    basis_linearization = environment_basis.linearize(normal)
    basis = basis_linearization.value
    basis_bar = LaneVector(*[constant_lanes(0.0) for _ in range(9)])
    for k in ti.static(range(9)):
        column = UNIFORM.environment + 3 * k
        coefficient = uniform3(view.uniforms, m, column)
        for channel in ti.static(range(3)):
            irradiance[channel] += coefficient[channel] * basis[k]
        basis_bar[k] = irradiance_bar.dot(coefficient)
        _add_sums(bars, row, column, irradiance_bar * basis[k])
    return basis_linearization.vjp([basis_bar[k] for k in range(9)])


@ti.func
def _lit_adjoint(
    view: ti.template(), bars: ti.template(), row, m, weight, normal: ti.template(), point: ti.template(), albedo: ti.template(),
    material, colour_bar: ti.template(),
):  # fmt: skip
    """``reflection.light_surface_adjoint`` of a lit surface: returns the colour and the adjoints of normal, point and albedo."""
    irradiance, specular_light = zero_lane_vector(), zero_lane_vector()
    irradiance += uniform3(view.uniforms, m, UNIFORM.ambient)
    normal_bar, point_bar, to_eye_bar = zero_lane_vector(), zero_lane_vector(), zero_lane_vector()
    irradiance_bar = colour_bar.by_components(albedo)
    _add_sums(bars, row, UNIFORM.ambient, irradiance_bar)
    if view.flags[FLAG.environment] == 1:
        normal_bar += _environment_adjoint(view, bars, row, m, normal, irradiance, irradiance_bar)
    eye, specular = uniform3(view.uniforms, m, UNIFORM.eye), uniform3(view.uniforms, m, material)
    to_eye, specular_light_bar = zero_lane_vector(), zero_lane_vector()
    if ti.static(view.shading == PHONG):
        to_eye = view_direction.value(point, eye)
        specular_light_bar = colour_bar.by_components(specular)
    directional_count, has_shadows = view.flags[FLAG.directional], view.flags[FLAG.shadows]
    for i in range(view.flags[FLAG.lights]):
        to_light, strength = lane_towards_light(view, directional_count, m, i, point)
        cosine = lambert.value(normal, to_light)
        is_lit = weight * cosine
        if has_shadows == 1 and i < directional_count:
            light = uniform3(view.uniforms, m, light_column(i))
            strength = visible_fractions(view, m * directional_count + i, is_lit, point, light)
        intensity = uniform3(view.uniforms, m, light_column(i) + LIGHT.intensity)
        irradiance += LaneVector(intensity[0] * cosine, intensity[1] * cosine, intensity[2] * cosine) * strength
        intensity_bar, to_light_bar = irradiance_bar * cosine, zero_lane_vector()
        normal_term, to_light_term = lambert.vjp((normal, to_light), strength * irradiance_bar.dot(intensity))
        normal_bar += normal_term
        to_light_bar += to_light_term
        if ti.static(view.shading == PHONG):
            shininess_column = material + MATERIAL.shininess
            linearization = highlight.linearize(normal, to_eye, to_light, view.uniforms[m, shininess_column])
            factor = linearization.value
            specular_light += LaneVector(intensity[0] * factor, intensity[1] * factor, intensity[2] * factor) * strength
            intensity_bar += specular_light_bar * factor
            normal_specular_term, to_eye_term, to_light_specular_term, shininess_bar = linearization.vjp(
                strength * specular_light_bar.dot(intensity)
            )
            normal_bar += normal_specular_term
            to_eye_bar += to_eye_term
            to_light_bar += to_light_specular_term
            _add_sum(bars, row, shininess_column, shininess_bar)
        strength_bar = intensity_bar.dot(intensity)
        _add_sums(bars, row, light_column(i) + LIGHT.intensity, intensity_bar * strength)
        point_bar += _light_adjoint(view, bars, row, m, i, point, to_light_bar, strength_bar, is_lit)
    colour, albedo_bar = albedo.by_components(irradiance), colour_bar.by_components(irradiance)
    if ti.static(view.shading == PHONG):
        colour += specular_light.by_components(specular)
        _add_sums(bars, row, material, colour_bar.by_components(specular_light))
        point_term, eye_bar = view_direction.vjp((point, eye), to_eye_bar)
        point_bar += point_term
        _add_sums(bars, row, UNIFORM.eye, eye_bar)
    return colour, normal_bar, point_bar, albedo_bar


@ti.func
def sampled_textures(view: ti.template(), m, attributes: ti.template(), weight, uv: ti.template()):
    """Texels of the lanes with ``weight`` > 0, and their derivatives by u and by v: ``LaneVector``s."""
    texel = LaneVector(constant_lanes(1.0), constant_lanes(1.0), constant_lanes(1.0))
    by_u, by_v = zero_lane_vector(), zero_lane_vector()
    if attributes.texture >= 0:
        red, green, blue = constant_lanes(1.0), constant_lanes(1.0), constant_lanes(1.0)
        red_by_u, green_by_u, blue_by_u = constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0)
        red_by_v, green_by_v, blue_by_v = constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0)
        for lane in range(LANES):
            if weight[lane] > 0:
                colour, colour_by_u, colour_by_v = sample_texture(view, m, attributes.texture, uv[0][lane], uv[1][lane])
                red[lane], green[lane], blue[lane] = colour[0], colour[1], colour[2]
                red_by_u[lane], green_by_u[lane], blue_by_u[lane] = colour_by_u[0], colour_by_u[1], colour_by_u[2]
                red_by_v[lane], green_by_v[lane], blue_by_v[lane] = colour_by_v[0], colour_by_v[1], colour_by_v[2]
        texel = LaneVector(red, green, blue)
        by_u, by_v = LaneVector(red_by_u, green_by_u, blue_by_u), LaneVector(red_by_v, green_by_v, blue_by_v)
    return texel, by_u, by_v


@ti.func
def lane_colours_adjoint(
    view: ti.template(), bars: ti.template(), row, attributes: ti.template(), m, weight, r: ti.template(), z,
    colour_bar: ti.template(),
):  # fmt: skip
    """``lane_colours`` and its adjoint (``surface.surface_adjoint``): adds to row ``row`` of the uniforms' adjoints, and to those
    of shadow maps and texels.

    Args:
        view, attributes, m, weight, r, z: as of ``lane_colours``.
        bars, row: as of ``surface_adjoint``.
        colour_bar: adjoint of the colours, a ``LaneVector``, zero in lanes with ``weight`` 0.

    Returns:
        ``SurfaceAdjoint``.
    """
    colour, r_bar, z_bar = LaneVector(z, z, z), zero_lane_vector(), constant_lanes(0.0)
    albedo_bar, uv_bar, normal_bar, point_bar = zero_lane_vector(), zero_lane_vector(), zero_lane_vector(), zero_lane_vector()
    if ti.static(view.shading == DEPTH):
        z_bar = colour_bar[0] + colour_bar[1] + colour_bar[2]
    else:
        mixed_normal, normal, point, sign = zero_lane_vector(), zero_lane_vector(), zero_lane_vector(), constant_lanes(1.0)
        if ti.static(view.shading != UNLIT):
            mixed_normal = interpolate_lanes(attributes.normals, r)
            normal = unit_normal.value(mixed_normal)
            if view.flags[FLAG.position] == 1:
                point = interpolate_lanes(attributes.points, r)
            sign = facing_signs(view, m, normal, point)
            normal = normal * sign
        colour, normal_bar = normal, colour_bar
        if ti.static(view.shading != NORMAL):
            plain_albedo, uv = interpolate_lanes(attributes.albedo, r), interpolate_lanes(attributes.uv, r)
            texel, by_u, by_v = sampled_textures(view, m, attributes, weight, uv)
            albedo, textured_albedo_bar = plain_albedo.by_components(texel), colour_bar * 1.0
            colour = albedo
            if ti.static(view.shading != UNLIT):
                colour, normal_bar, point_bar, textured_albedo_bar = _lit_adjoint(
                    view, bars, row, m, weight, normal, point, albedo, attributes.material, colour_bar
                )
            albedo_bar = textured_albedo_bar.by_components(texel)
            r_bar = transposed_lanes(attributes.albedo, albedo_bar)
            if attributes.texture >= 0:
                texel_bar = textured_albedo_bar.by_components(plain_albedo)
                for lane in range(LANES):
                    if weight[lane] > 0:
                        lane_bar = vec3(texel_bar[0][lane], texel_bar[1][lane], texel_bar[2][lane])
                        add_texels(view, bars, m, attributes.texture, uv[0][lane], uv[1][lane], lane_bar)
                uv_bar = LaneVector(by_u.dot(texel_bar), by_v.dot(texel_bar), constant_lanes(0.0))
                r_bar += transposed_lanes(attributes.uv, uv_bar)
        if ti.static(view.shading != UNLIT):
            normal_bar = unit_normal.vjp(mixed_normal, normal_bar * sign)
            r_bar += transposed_lanes(attributes.normals, normal_bar)
            if view.flags[FLAG.position] == 1:
                r_bar += transposed_lanes(attributes.points, point_bar)
    return SurfaceAdjoint(colour, r_bar, albedo_bar, uv_bar, normal_bar, point_bar, z_bar)
