"""Tangents of the colour of a face in K directions, the columns, at neighbouring pixels of a row (``surface_lanes``).

The steps are those of ``surface.surface_columns`` and ``reflection.light_columns``. Diffuse and specular light of a lamp are two
numbers, whose derivatives by the mixed normal and the point are computed once for all columns.
"""

from typing import Any

from ti_render.arrays import ALBEDO_COLUMN, FLAG, LIGHT, LIT_COLUMN, MATERIAL, MOVING_COLUMN, UNIFORM
from ti_render.geometry.normals import unit_normal
from ti_render.rows import has_nonzero
from ti_render.shading.lights import towards_point
from ti_render.shading.reflection import PHONG, SCRATCH, UNLIT, environment_basis, highlight, lambert, view_direction
from ti_render.shading.shadow_lookup import visibility_jvp
from ti_render.shading.surface import ALBEDO_OFFSET, DEPTH, FACE_DOT_SIZE, NORMAL, NORMAL_OFFSET, POINT_OFFSET, UV_OFFSET
from ti_render.shading.surface_adjoint_lanes import sampled_textures
from ti_render.shading.surface_lanes import facing_signs, lane_towards_light, visible_fractions
from ti_render.shading.texture import texels_tangent
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, LaneVector, constant_lanes, interpolate_lanes, zero_lane_vector
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class ColumnLanes:
    """Tangents of the columns at neighbouring pixels, while a kernel is compiled.

    Attributes:
        count: K, number of columns.
        entries: workspace, an array of vectors of lanes: a ``SCRATCH`` row for each column.
        first: of the tile's entries.
        face_offset: of the tile in ``FaceTangentWork.face_dot``.
        any_moving: whether a column has MOVING_COLUMN.
    """

    count: Any
    entries: Any
    first: Any
    face_offset: Any
    any_moving: Any

    @ti.func
    def get(self, c, entry):
        """An entry of ``SCRATCH`` in column ``c``: a vector of lanes."""
        return self.entries[self.first + c * SCRATCH.size + entry]

    @ti.func
    def put(self, c, entry, lanes):
        """Write an entry."""
        self.entries[self.first + c * SCRATCH.size + entry] = lanes

    @ti.func
    def get3(self, c, entry):
        """Three neighbouring entries: a ``LaneVector``."""
        return LaneVector(self.get(c, entry), self.get(c, entry + 1), self.get(c, entry + 2))

    @ti.func
    def put3(self, c, entry, vector: ti.template()):
        """Write three neighbouring entries."""
        for k in ti.static(range(3)):
            self.put(c, entry + k, vector[k])

    @ti.func
    def add_colour(self, c, colour_dot: ti.template()):
        """Add to the tangent of the colour."""
        for k in ti.static(range(3)):
            self.put(c, SCRATCH.colour_dot + k, self.get(c, SCRATCH.colour_dot + k) + colour_dot[k])


@ti.func
def _corner_lanes(face_dot: ti.template(), offset, r: ti.template()):
    """``surface.interpolate_corners``: a ``LaneVector``."""
    return LaneVector(
        r[0] * face_dot[offset] + r[1] * face_dot[offset + 3] + r[2] * face_dot[offset + 6],
        r[0] * face_dot[offset + 1] + r[1] * face_dot[offset + 4] + r[2] * face_dot[offset + 7],
        r[0] * face_dot[offset + 2] + r[1] * face_dot[offset + 5] + r[2] * face_dot[offset + 8],
    )


@ti.func
def _two_products(a, x, b, y):
    """The ``LaneVector`` a x + b y of lanes a, b and vectors x, y."""
    return LaneVector(a * x[0] + b * y[0], a * x[1] + b * y[1], a * x[2] + b * y[2])


@ti.func
def _put_geometry(
    view: ti.template(), work: ti.template(), columns: ti.template(), attributes: ti.template(), r: ti.template()
):
    """Write the tangents of mixed normal and point to scratch, in the columns that move vertices or camera."""
    for c in range(columns.count):
        if work.column_flags[c] & MOVING_COLUMN != 0:
            r_dot, face = columns.get3(c, SCRATCH.r_dot), columns.face_offset + c * FACE_DOT_SIZE
            normal_dot = interpolate_lanes(attributes.normals, r_dot) + _corner_lanes(work.face_dot, face + NORMAL_OFFSET, r)
            columns.put3(c, SCRATCH.normal_dot, normal_dot)
            if view.flags[FLAG.position] == 1:
                point_dot = interpolate_lanes(attributes.points, r_dot) + _corner_lanes(work.face_dot, face + POINT_OFFSET, r)
                columns.put3(c, SCRATCH.point_dot, point_dot)


@ti.func
def _put_albedo(
    view: ti.template(), dots: ti.template(), work: ti.template(), columns: ti.template(), attributes: ti.template(), m, weight,
    r: ti.template(),
):  # fmt: skip
    """Write the tangents of the albedo to scratch; returns the albedo. Both with the texture."""
    albedo, uv = interpolate_lanes(attributes.albedo, r), interpolate_lanes(attributes.uv, r)
    texel, by_u, by_v = sampled_textures(view, m, attributes, weight, uv)
    for c in range(columns.count):
        if work.column_flags[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
            face = columns.face_offset + c * FACE_DOT_SIZE
            r_dot = columns.get3(c, SCRATCH.r_dot)
            albedo_dot = interpolate_lanes(attributes.albedo, r_dot)
            if work.column_flags[c] & ALBEDO_COLUMN != 0:
                albedo_dot += _corner_lanes(work.face_dot, face + ALBEDO_OFFSET, r)
            if attributes.texture >= 0:
                uv_dot = interpolate_lanes(attributes.uv, r_dot)
                red, green, blue = constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0)
                if work.column_flags[c] & ALBEDO_COLUMN != 0:
                    for k in ti.static(range(3)):
                        uv_dot[0] += r[k] * work.face_dot[face + UV_OFFSET + 2 * k]
                        uv_dot[1] += r[k] * work.face_dot[face + UV_OFFSET + 2 * k + 1]
                    for lane in range(LANES):
                        if weight[lane] > 0:
                            texel_dot = texels_tangent(view, dots, c, m, attributes.texture, uv[0][lane], uv[1][lane])
                            red[lane], green[lane], blue[lane] = texel_dot[0], texel_dot[1], texel_dot[2]
                texel_dots = LaneVector(red, green, blue) + by_u * uv_dot[0] + by_v * uv_dot[1]
                albedo_dot = albedo_dot.by_components(texel) + albedo.by_components(texel_dots)
            columns.put3(c, SCRATCH.albedo_dot, albedo_dot)
    return albedo.by_components(texel)


@ti.func
def _add_environment(
    view: ti.template(), dots: ti.template(), work: ti.template(), columns: ti.template(), m,
    mixed_normal: ti.template(), normal: ti.template(), sign, weighted_albedo: ti.template(), irradiance: ti.template(),
):  # fmt: skip
    """Add the environment's light to ``irradiance``, and its tangents."""
    basis_linearization = environment_basis.linearize(normal)
    basis = basis_linearization.value
    for k in ti.static(range(9)):
        coefficient = uniform3(view.uniforms, m, UNIFORM.environment + 3 * k)
        irradiance += LaneVector(basis[k] * coefficient[0], basis[k] * coefficient[1], basis[k] * coefficient[2])
    for c in range(columns.count):
        if work.column_flags[c] & LIT_COLUMN != 0:
            normal_dot = unit_normal.jvp(mixed_normal, columns.get3(c, SCRATCH.normal_dot)) * sign
            basis_dot = basis_linearization.jvp(normal_dot)
            result = zero_lane_vector()
            for k in ti.static(range(9)):
                coefficient = uniform3(view.uniforms, m, UNIFORM.environment + 3 * k)
                coefficient_dot = uniform3(dots.uniforms, m * columns.count + c, UNIFORM.environment + 3 * k)
                for channel in ti.static(range(3)):
                    result[channel] += basis_dot[k] * coefficient[channel] + basis[k] * coefficient_dot[channel]
            columns.add_colour(c, weighted_albedo.by_components(result))


@ti.func
def _visible_tangents(
    view: ti.template(), dots: ti.template(), columns: ti.template(), m, i, c, is_lit, point: ti.template(), light, light_dot
):
    """``visibility_jvp`` in the lanes with ``is_lit`` > 0."""
    result, point_dot, directional_count = constant_lanes(0.0), columns.get3(c, SCRATCH.point_dot), view.flags[FLAG.directional]
    for lane in range(LANES):
        if is_lit[lane] > 0:
            lane_point = vec3(point[0][lane], point[1][lane], point[2][lane])
            lane_dot = vec3(point_dot[0][lane], point_dot[1][lane], point_dot[2][lane])
            result[lane] = visibility_jvp(view, dots, m * directional_count + i, lane_point, light, lane_dot, light_dot, c)
    return result


@ti.func
def _lit_columns(
    view: ti.template(), dots: ti.template(), work: ti.template(), columns: ti.template(), m, weight,
    mixed_normal: ti.template(), normal: ti.template(), sign, point: ti.template(), albedo: ti.template(), material,
):  # fmt: skip
    """``reflection.light_columns`` of a lit surface: adds to the tangents, returns the colour."""
    irradiance, specular_light, weighted_albedo = zero_lane_vector(), zero_lane_vector(), albedo * weight
    irradiance += uniform3(view.uniforms, m, UNIFORM.ambient)
    for c in range(columns.count):
        ambient_dot = uniform3(dots.uniforms, m * columns.count + c, UNIFORM.ambient)
        if work.column_flags[c] & LIT_COLUMN != 0 and has_nonzero(ambient_dot):
            columns.add_colour(c, weighted_albedo.by_components(ambient_dot))
    if view.flags[FLAG.environment] == 1:
        _add_environment(
            view, dots, work, columns, m, mixed_normal, normal, sign, weighted_albedo, irradiance
        )
    eye, specular_color, to_eye = uniform3(view.uniforms, m, UNIFORM.eye), vec3(0), zero_lane_vector()
    if ti.static(view.shading == PHONG):
        specular_color = uniform3(view.uniforms, m, material)
        to_eye = view_direction.value(point, eye)
    directional_count, has_shadows = view.flags[FLAG.directional], view.flags[FLAG.shadows]
    for i in range(view.flags[FLAG.lights]):
        column = light_column(i)
        light, is_shadowed = uniform3(view.uniforms, m, column), has_shadows == 1 and i < directional_count
        intensity = uniform3(view.uniforms, m, column + LIGHT.intensity)
        to_light, strength = lane_towards_light(view, directional_count, m, i, point)
        cosine, factor = lambert.value(normal, to_light), constant_lanes(0.0)
        is_lit = weight * cosine
        if is_shadowed:
            strength = visible_fractions(view, m * directional_count + i, is_lit, point, light)
        # Diffuse light strength * cosine and highlight strength * factor, and their derivatives.
        diffuse, specular = strength * cosine, constant_lanes(0.0)
        by_normal, by_light = lambert.vjp((normal, to_light), strength)
        by_point, specular_by_normal, specular_by_light = zero_lane_vector(), zero_lane_vector(), zero_lane_vector()
        specular_by_point, specular_by_eye, specular_by_shininess = zero_lane_vector(), zero_lane_vector(), constant_lanes(0.0)
        if ti.static(view.shading == PHONG):
            linearization = highlight.linearize(normal, to_eye, to_light, view.uniforms[m, material + MATERIAL.shininess])
            factor = linearization.value
            specular = strength * factor
            normal_term, to_eye_term, light_term, shininess_term = linearization.vjp(strength)
            specular_by_normal += normal_term
            specular_by_light += light_term
            specular_by_shininess += shininess_term
            point_term, eye_term = view_direction.vjp((point, eye), to_eye_term)
            specular_by_point += point_term
            specular_by_eye += eye_term
        if i >= directional_count:
            point_term, light_term = towards_point.vjp((point, light), (by_light, cosine))
            by_point += point_term
            by_light = light_term
            if ti.static(view.shading == PHONG):
                specular_point_term, specular_light_term = towards_point.vjp((point, light), (specular_by_light, factor))
                specular_by_point += specular_point_term
                specular_by_light = specular_light_term
        if columns.any_moving == 1:
            by_normal = unit_normal.vjp(mixed_normal, by_normal * sign)
            if ti.static(view.shading == PHONG):
                specular_by_normal = unit_normal.vjp(mixed_normal, specular_by_normal * sign)
        for c in range(columns.count):
            if work.column_flags[c] & LIT_COLUMN != 0:
                row = m * columns.count + c
                light_dot = uniform3(dots.uniforms, row, column)
                intensity_dot = uniform3(dots.uniforms, row, column + LIGHT.intensity)
                diffuse_dot, specular_dot = by_light.dot(light_dot), constant_lanes(0.0)
                if ti.static(view.shading == PHONG):
                    specular_dot += specular_by_light.dot(light_dot)
                    specular_dot += specular_by_eye.dot(uniform3(dots.uniforms, row, UNIFORM.eye))
                    specular_dot += specular_by_shininess * dots.uniforms[row, material + MATERIAL.shininess]
                if work.column_flags[c] & MOVING_COLUMN != 0:
                    normal_dot = columns.get3(c, SCRATCH.normal_dot)
                    point_dot = columns.get3(c, SCRATCH.point_dot)
                    diffuse_dot += by_normal.dot(normal_dot) + by_point.dot(point_dot)
                    if ti.static(view.shading == PHONG):
                        specular_dot += specular_by_normal.dot(normal_dot) + specular_by_point.dot(point_dot)
                if is_shadowed:
                    visible_dot = _visible_tangents(view, dots, columns, m, i, c, is_lit, point, light, light_dot)
                    diffuse_dot += cosine * visible_dot
                    specular_dot += factor * visible_dot
                colour_dot = weighted_albedo.by_components(_two_products(diffuse_dot, intensity, diffuse, intensity_dot))
                if ti.static(view.shading == PHONG):
                    specular_light_dot = _two_products(specular_dot, intensity, specular, intensity_dot)
                    colour_dot += specular_light_dot.by_components(specular_color) * weight
                columns.add_colour(c, colour_dot)
        irradiance += LaneVector(diffuse * intensity[0], diffuse * intensity[1], diffuse * intensity[2])
        if ti.static(view.shading == PHONG):
            specular_light += LaneVector(specular * intensity[0], specular * intensity[1], specular * intensity[2])
    weighted_irradiance, weighted_specular = irradiance * weight, specular_light * weight
    for c in range(columns.count):
        if work.column_flags[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
            albedo_dot = columns.get3(c, SCRATCH.albedo_dot)
            columns.add_colour(c, weighted_irradiance.by_components(albedo_dot))
        if ti.static(view.shading == PHONG):
            specular_color_dot = uniform3(dots.uniforms, m * columns.count + c, material)
            if work.column_flags[c] & LIT_COLUMN != 0 and has_nonzero(specular_color_dot):
                columns.add_colour(c, weighted_specular.by_components(specular_color_dot))
    return albedo.by_components(irradiance) + specular_light.by_components(specular_color)


@ti.func
def lane_surface_columns(
    view: ti.template(), dots: ti.template(), work: ti.template(), columns: ti.template(),
    attributes: ti.template(), m, weight, r: ti.template(), z,
):  # fmt: skip
    """Tangents of ``lane_colours`` in all columns, and the colour.

    Reads r_dot and z_dot of ``columns`` and ``face_dot``, and adds the colours' tangents times ``weight`` to colour_dot.

    Args:
        view, dots, work: of the pass.
        columns: ``ColumnLanes``.
        attributes, m, weight, r, z: as of ``lane_colours``.

    Returns:
        Red, green and blue, a ``LaneVector``.
    """
    colour = LaneVector(z, z, z)
    if ti.static(view.shading == DEPTH):
        for c in range(columns.count):
            z_dot = columns.get(c, SCRATCH.z_dot) * weight
            columns.add_colour(c, LaneVector(z_dot, z_dot, z_dot))
    else:
        mixed_normal, normal, point, sign = zero_lane_vector(), zero_lane_vector(), zero_lane_vector(), constant_lanes(1.0)
        if ti.static(view.shading != UNLIT):
            mixed_normal = interpolate_lanes(attributes.normals, r)
            normal = unit_normal.value(mixed_normal)
            if view.flags[FLAG.position] == 1:
                point = interpolate_lanes(attributes.points, r)
            sign = facing_signs(view, m, normal, point)
            normal = normal * sign
            if columns.any_moving == 1:
                _put_geometry(view, work, columns, attributes, r)
        colour = normal
        if ti.static(view.shading == NORMAL):
            for c in range(columns.count):
                normal_dot = unit_normal.jvp(mixed_normal, columns.get3(c, SCRATCH.normal_dot))
                columns.add_colour(c, normal_dot * (sign * weight))
        else:
            albedo = _put_albedo(view, dots, work, columns, attributes, m, weight, r)
            colour = albedo
            if ti.static(view.shading != UNLIT):
                colour = _lit_columns(
                    view, dots, work, columns, m, weight, mixed_normal, normal, sign, point, albedo,
                    attributes.material,
                )  # fmt: skip
            else:
                for c in range(columns.count):
                    if work.column_flags[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                        albedo_dot = columns.get3(c, SCRATCH.albedo_dot)
                        columns.add_colour(c, albedo_dot * weight)
    return colour
