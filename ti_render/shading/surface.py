"""The colour of a face at a fragment, from the attributes of its corners, and its derivatives in forward and reverse mode.

Attributes (albedo, uv, normal, world position) are interpolated with the fragment's perspective-correct barycentrics r.
"Colour" is the quantity of ``shading``: UNLIT, LAMBERT or PHONG light (``reflection``), DEPTH the camera depth, NORMAL the unit
normal.
"""

from typing import Any

from ti_render.arrays import ALBEDO_COLUMN, CORNER, FLAG, MATERIAL, MOVING_COLUMN, UNIFORM
from ti_render.geometry.normals import unit_normal
from ti_render.rows import get3, has_nonzero, put3, row_of
from ti_render.shading.reflection import LAMBERT, PHONG, SCRATCH, UNLIT, light_columns, light_surface, light_surface_adjoint
from ti_render.shading.texture import add_texels, sample_texture, texels_tangent
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

DEPTH, NORMAL = 3, 4
SHADINGS = {"none": UNLIT, "lambert": LAMBERT, "phong": PHONG, "depth": DEPTH, "normal": NORMAL}

# Layout of a face's tangents for each column: corner by corner, those of screen (3 numbers), position, normal, albedo, uv (2).
SCREEN_OFFSET, POINT_OFFSET, NORMAL_OFFSET, ALBEDO_OFFSET, UV_OFFSET, FACE_DOT_SIZE = 0, 9, 18, 27, 36, 42


@bundle
class Attributes:
    """Attributes of a face, while a kernel is compiled.

    Attributes:
        albedo, uv, normals, points: of its corners, as the columns of matrices (uv: two rows); points are in the world [m].
        texture: number of its texture, -1 for none.
        material: column of its material in the uniforms.
    """

    albedo: Any
    uv: Any
    normals: Any
    points: Any
    texture: Any
    material: Any


@ti.func
def _corner_columns(rows: ti.template(), corners: ti.template(), m, f, column):
    """Matrix whose columns are the three rows that a face's corners index."""
    a, b, c = corners[f, column], corners[f, column + 1], corners[f, column + 2]
    return mat3(
        rows[m, a, 0], rows[m, b, 0], rows[m, c, 0], rows[m, a, 1], rows[m, b, 1], rows[m, c, 1],
        rows[m, a, 2], rows[m, b, 2], rows[m, c, 2],
    )  # fmt: skip


@ti.func
def face_attributes(faces: ti.template(), m, f):
    """``Attributes`` of a face in image m; those that the shading does not read stay zero."""
    albedo, uv, normals, points = mat3(0), mat3(0), mat3(0), mat3(0)
    texture = faces.corners[f, CORNER.texture]
    if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
        albedo_row = row_of(m, faces.albedo.shape[0], faces.images)
        for i, k in ti.static(ti.ndrange(3, 3)):
            albedo[i, k] = faces.albedo[albedo_row, f, k, i]
        if texture >= 0:
            uv_row = row_of(m, faces.uv.shape[0], faces.images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                uv[i, k] = faces.uv[uv_row, f, k, i]
    if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
        normals = _corner_columns(faces.normals, faces.corners, m, f, CORNER.normal)
        if faces.flags[FLAG.position] == 1:
            points = _corner_columns(faces.vertices, faces.corners, m, f, CORNER.vertex)
    material = light_column(faces.flags[FLAG.lights]) + MATERIAL.size * faces.corners[f, CORNER.material]
    return Attributes(albedo, uv, normals, points, texture, material)


@ti.func
def add_attribute_adjoints(faces: ti.template(), bars: ti.template(), m, f, albedo_bar, uv_bar, normals_bar, points_bar):
    """Add the adjoints of a face's ``Attributes`` that are not zero to those of the arrays that hold them."""
    if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
        if has_nonzero(albedo_bar):
            albedo_row = row_of(m, bars.albedo.shape[0], faces.images)
            for i, k in ti.static(ti.ndrange(3, 3)):
                bars.albedo[albedo_row, f, k, i] += albedo_bar[i, k]
        if has_nonzero(uv_bar):
            uv_row = row_of(m, bars.uv.shape[0], faces.images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                bars.uv[uv_row, f, k, i] += uv_bar[i, k]
    if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
        if has_nonzero(normals_bar):
            for i, k in ti.static(ti.ndrange(3, 3)):
                bars.normals[m, faces.corners[f, CORNER.normal + k], i] += normals_bar[i, k]
        if faces.flags[FLAG.position] == 1 and has_nonzero(points_bar):
            for i, k in ti.static(ti.ndrange(3, 3)):
                bars.vertices[m, faces.corners[f, k], i] += points_bar[i, k]


@ti.func
def _facing_sign(view: ti.template(), m, normal, point):
    """-1 where the normal of a two-sided surface points away from the eye, else 1."""
    sign = 1.0
    if view.flags[FLAG.two_sided] == 1 and normal.dot(uniform3(view.uniforms, m, UNIFORM.eye) - point) < 0:
        sign = -1.0
    return sign


@ti.func
def surface_colour(view: ti.template(), attributes: ti.template(), m, r, z):
    """Colour at the barycentrics ``r`` and depth ``z`` of a face with these ``Attributes``."""
    colour = vec3(z)
    if ti.static(view.shading != DEPTH):
        normal, point = vec3(0), vec3(0)
        if ti.static(view.shading != UNLIT):
            normal = unit_normal.value(attributes.normals @ r)
            point = attributes.points @ r
            normal *= _facing_sign(view, m, normal, point)
        colour = normal
        if ti.static(view.shading != NORMAL):
            albedo = attributes.albedo @ r
            if attributes.texture >= 0:
                uv = attributes.uv @ r
                texel, _u, _v = sample_texture(view, m, attributes.texture, uv[0], uv[1])
                albedo *= texel
            colour = light_surface(view, m, normal, point, albedo, attributes.material)
    return colour


@ti.func
def surface_adjoint(
    view: ti.template(), bars: ti.template(), row, light_sums: ti.template(), attributes: ti.template(), m, r, colour_bar
):
    """Adjoint of ``surface_colour``: adds to the ``LightSums``, to row ``row`` of the uniforms' adjoints, and to those of shadow
    maps and texels.

    Returns:
        the adjoints of r, of the interpolated albedo, uv, normal and position (a corner's adjoint is r times these), and of z.
    """
    r_bar, albedo_bar, uv_bar, mixed_normal_bar, point_bar, z_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0), 0.0
    if ti.static(view.shading == DEPTH):
        z_bar = colour_bar.sum()
    else:
        normal, point, sign = vec3(0), vec3(0), 1.0
        if ti.static(view.shading != UNLIT):
            normal = unit_normal.value(attributes.normals @ r)
            point = attributes.points @ r
            sign = _facing_sign(view, m, normal, point)
            normal *= sign
        normal_bar = colour_bar
        if ti.static(view.shading != NORMAL):
            albedo, uv = attributes.albedo @ r, attributes.uv @ r
            texel, colour_by_u, colour_by_v = vec3(1), vec3(0), vec3(0)
            if attributes.texture >= 0:
                texel, colour_by_u, colour_by_v = sample_texture(view, m, attributes.texture, uv[0], uv[1])
            shaded_normal_bar, shaded_point_bar, textured_albedo_bar = light_surface_adjoint(
                view, bars, row, light_sums, m, normal, point, albedo * texel, attributes.material, colour_bar
            )
            normal_bar = shaded_normal_bar
            point_bar = shaded_point_bar
            albedo_bar = textured_albedo_bar * texel
            if attributes.texture >= 0:
                texel_bar = textured_albedo_bar * albedo
                add_texels(view, bars, m, attributes.texture, uv[0], uv[1], texel_bar)
                uv_bar = vec3(colour_by_u.dot(texel_bar), colour_by_v.dot(texel_bar), 0.0)
            r_bar += attributes.albedo.transpose() @ albedo_bar + attributes.uv.transpose() @ uv_bar
        if ti.static(view.shading != UNLIT):
            mixed_normal_bar = unit_normal.vjp(attributes.normals @ r, normal_bar * sign)
            r_bar += attributes.normals.transpose() @ mixed_normal_bar + attributes.points.transpose() @ point_bar
    return r_bar, albedo_bar, uv_bar, mixed_normal_bar, point_bar, z_bar


@ti.func
def gather_face_tangents(faces: ti.template(), dots: ti.template(), work: ti.template(), face_offset, m, f):
    """Copy the tangents of a face's corners to the 42 K entries of face_dot from ``face_offset``.

    Screen, position, normal, albedo, uv, corner by corner, contiguous for the face's fragments.
    """
    for c in range(work.column_flags.shape[0]):
        offset = face_offset + c * FACE_DOT_SIZE
        for k in ti.static(range(3)):
            if work.column_flags[c] & MOVING_COLUMN != 0:
                v = faces.corners[f, CORNER.vertex + k]
                for i in ti.static(range(3)):
                    work.face_dot[offset + SCREEN_OFFSET + 3 * k + i] = dots.screen[m, v, c, i]
                if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
                    n = faces.corners[f, CORNER.normal + k]
                    for i in ti.static(range(3)):
                        work.face_dot[offset + NORMAL_OFFSET + 3 * k + i] = dots.normals[m, n, c, i]
                    if faces.flags[FLAG.position] == 1:
                        for i in ti.static(range(3)):
                            work.face_dot[offset + POINT_OFFSET + 3 * k + i] = dots.vertices[m, v, c, i]
            if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
                if work.column_flags[c] & ALBEDO_COLUMN != 0:
                    albedo_row = row_of(m, dots.albedo.shape[1], faces.images)
                    for i in ti.static(range(3)):
                        work.face_dot[offset + ALBEDO_OFFSET + 3 * k + i] = dots.albedo[c, albedo_row, f, k, i]
                    if faces.corners[f, CORNER.texture] >= 0:
                        uv_row = row_of(m, dots.uv.shape[1], faces.images)
                        for i in ti.static(range(2)):
                            work.face_dot[offset + UV_OFFSET + 2 * k + i] = dots.uv[c, uv_row, f, k, i]


@ti.func
def interpolate_corners(face_dot: ti.template(), offset, r):
    """Tangent interpolated between three corners with the barycentrics ``r``."""
    return get3(face_dot, offset) * r[0] + get3(face_dot, offset + 3) * r[1] + get3(face_dot, offset + 6) * r[2]


@ti.func
def _albedo_tangent(
    view: ti.template(), dots: ti.template(), work: ti.template(), face_offset, attributes: ti.template(), m, c, r, r_dot
):
    """Tangent of the albedo of a fragment, texture included, in column ``c``."""
    albedo_dot, offset = attributes.albedo @ r_dot, face_offset + c * FACE_DOT_SIZE
    if work.column_flags[c] & ALBEDO_COLUMN != 0:
        albedo_dot += interpolate_corners(work.face_dot, offset + ALBEDO_OFFSET, r)
    if attributes.texture >= 0:
        uv, uv_dot = attributes.uv @ r, attributes.uv @ r_dot
        texel, colour_by_u, colour_by_v = sample_texture(view, m, attributes.texture, uv[0], uv[1])
        texel_dot = vec3(0)
        if work.column_flags[c] & ALBEDO_COLUMN != 0:
            for k in ti.static(range(3)):
                uv_offset = offset + UV_OFFSET + 2 * k
                uv_dot += vec3(work.face_dot[uv_offset], work.face_dot[uv_offset + 1], 0.0) * r[k]
            texel_dot = texels_tangent(view, dots, c, m, attributes.texture, uv[0], uv[1])
        texel_dot += colour_by_u * uv_dot[0] + colour_by_v * uv_dot[1]
        albedo_dot = albedo_dot * texel + (attributes.albedo @ r) * texel_dot
    return albedo_dot


@ti.func
def surface_columns(
    view: ti.template(), dots: ti.template(), work: ti.template(), scratch_offset, face_offset, attributes: ti.template(), m, r
):
    """Tangents of ``surface_colour`` in all columns: reads r_dot, z_dot of scratch from ``scratch_offset``
    and face_dot from ``face_offset``, writes colour_dot."""
    columns = work.column_flags.shape[0]
    if ti.static(view.shading == DEPTH):
        for c in range(columns):
            column_offset = scratch_offset + c * SCRATCH.size
            put3(work.scratch, column_offset + SCRATCH.colour_dot, vec3(work.scratch[column_offset + SCRATCH.z_dot]))
    else:
        normal, point = vec3(0), vec3(0)
        if ti.static(view.shading != UNLIT):
            normal_linearization = unit_normal.linearize(attributes.normals @ r)
            point = attributes.points @ r
            sign = _facing_sign(view, m, normal_linearization.value, point)
            normal = normal_linearization.value * sign
            for c in range(columns):
                if work.column_flags[c] & MOVING_COLUMN != 0:
                    column_offset, face_column_offset = scratch_offset + c * SCRATCH.size, face_offset + c * FACE_DOT_SIZE
                    r_dot = get3(work.scratch, column_offset + SCRATCH.r_dot)
                    mixed_normal_dot = attributes.normals @ r_dot + interpolate_corners(
                        work.face_dot, face_column_offset + NORMAL_OFFSET, r
                    )
                    put3(work.scratch, column_offset + SCRATCH.normal_dot, sign * normal_linearization.jvp(mixed_normal_dot))
                    if view.flags[FLAG.position] == 1:
                        point_dot = attributes.points @ r_dot + interpolate_corners(
                            work.face_dot, face_column_offset + POINT_OFFSET, r
                        )
                        put3(work.scratch, column_offset + SCRATCH.point_dot, point_dot)
        if ti.static(view.shading == NORMAL):
            for c in range(columns):
                column_offset = scratch_offset + c * SCRATCH.size
                put3(work.scratch, column_offset + SCRATCH.colour_dot, get3(work.scratch, column_offset + SCRATCH.normal_dot))
        else:
            albedo = attributes.albedo @ r
            if attributes.texture >= 0:
                uv = attributes.uv @ r
                texel, _u, _v = sample_texture(view, m, attributes.texture, uv[0], uv[1])
                albedo *= texel
            for c in range(columns):
                if work.column_flags[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                    column_offset = scratch_offset + c * SCRATCH.size
                    r_dot = get3(work.scratch, column_offset + SCRATCH.r_dot)
                    albedo_dot = _albedo_tangent(view, dots, work, face_offset, attributes, m, c, r, r_dot)
                    put3(work.scratch, column_offset + SCRATCH.albedo_dot, albedo_dot)
            light_columns(view, dots, work, scratch_offset, m, normal, point, albedo, attributes.material)
