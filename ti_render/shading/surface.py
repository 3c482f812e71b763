"""The colour of a face at a fragment, from the attributes of its corners, and its derivatives in both modes.

Attributes (albedo, uv, normal, world position) are mixed with the fragment's perspective-correct barycentrics r. What
"colour" means is the ``shading``: UNLIT, LAMBERT or PHONG light (``reflection``), DEPTH the camera depth, NORMAL the unit normal.
"""

from typing import Any

from ti_render.arrays import ALBEDO_COLUMN, CORNER, FLAG, MATERIAL, MOVING_COLUMN, UNIFORM
from ti_render.geometry.normals import unit_normal
from ti_render.rows import get3, put3, row_of
from ti_render.shading.reflection import LAMBERT, PHONG, SCRATCH, UNLIT, light_columns, light_surface, light_surface_adjoint
from ti_render.shading.texture import add_texels, sample_texture, texels_tangent
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

DEPTH, NORMAL = 3, 4
SHADINGS = {"none": UNLIT, "lambert": LAMBERT, "phong": PHONG, "depth": DEPTH, "normal": NORMAL}

# A face's tangents, for each column: corner by corner, those of screen (3 numbers), position, normal, albedo, uv (2).
SCREEN_PART, POINT_PART, NORMAL_PART, ALBEDO_PART, UV_PART, FACE_DOT_SIZE = 0, 9, 18, 27, 36, 42


@bundle
class Attributes:
    """Of a face, while a kernel is compiled.

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
    """Matrix whose columns are the three rows that a face's corners name."""
    a, b, c = corners[f, column], corners[f, column + 1], corners[f, column + 2]
    return mat3(
        rows[m, a, 0], rows[m, b, 0], rows[m, c, 0], rows[m, a, 1], rows[m, b, 1], rows[m, c, 1],
        rows[m, a, 2], rows[m, b, 2], rows[m, c, 2],
    )  # fmt: skip


@ti.func
def face_attributes(faces: ti.template(), m, f):
    """``Attributes`` of a face in image m, as far as the shading needs them."""
    albedo, uv, normals, points = mat3(0), mat3(0), mat3(0), mat3(0)
    texture = faces.corners[f, CORNER.texture]
    if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
        r = row_of(m, faces.albedo.shape[0], faces.images)
        for i, k in ti.static(ti.ndrange(3, 3)):
            albedo[i, k] = faces.albedo[r, f, k, i]
        if texture >= 0:
            s = row_of(m, faces.uv.shape[0], faces.images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                uv[i, k] = faces.uv[s, f, k, i]
    if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
        normals = _corner_columns(faces.normals, faces.corners, m, f, CORNER.normal)
        if faces.flags[FLAG.position] == 1:
            points = _corner_columns(faces.vertices, faces.corners, m, f, CORNER.vertex)
    material = light_column(faces.flags[FLAG.lights]) + MATERIAL.size * faces.corners[f, CORNER.material]
    return Attributes(albedo, uv, normals, points, texture, material)


@ti.func
def add_attributes(faces: ti.template(), bars: ti.template(), m, f, albedo_bar, uv_bar, normals_bar, points_bar):
    """Add the adjoints of a face's ``Attributes`` to those of the arrays that they came from."""
    if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
        r = row_of(m, bars.albedo.shape[0], faces.images)
        for i, k in ti.static(ti.ndrange(3, 3)):
            bars.albedo[r, f, k, i] += albedo_bar[i, k]
        if faces.corners[f, CORNER.texture] >= 0:
            s = row_of(m, bars.uv.shape[0], faces.images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                bars.uv[s, f, k, i] += uv_bar[i, k]
    if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
        for i, k in ti.static(ti.ndrange(3, 3)):
            bars.normals[m, faces.corners[f, CORNER.normal + k], i] += normals_bar[i, k]
        if faces.flags[FLAG.position] == 1:
            for i, k in ti.static(ti.ndrange(3, 3)):
                bars.vertices[m, faces.corners[f, k], i] += points_bar[i, k]


@ti.func
def _side(view: ti.template(), m, normal, point):
    """-1 where a two-sided surface turns its back on the eye, else 1."""
    sign = 1.0
    if view.flags[FLAG.two_sided] == 1 and normal.dot(uniform3(view.uniforms, m, UNIFORM.eye) - point) < 0:
        sign = -1.0
    return sign


@ti.func
def surface_colour(view: ti.template(), face: ti.template(), m, r, z):
    """Colour at the barycentrics ``r`` and depth ``z`` of a face with these ``Attributes``."""
    colour = vec3(z)
    if ti.static(view.shading != DEPTH):
        normal, point = vec3(0), vec3(0)
        if ti.static(view.shading != UNLIT):
            normal = unit_normal.value(face.normals @ r)
            point = face.points @ r
            normal *= _side(view, m, normal, point)
        colour = normal
        if ti.static(view.shading != NORMAL):
            albedo = face.albedo @ r
            if face.texture >= 0:
                uv = face.uv @ r
                texel, _u, _v = sample_texture(view, m, face.texture, uv[0], uv[1])
                albedo *= texel
            colour = light_surface(view, m, normal, point, albedo, face.material)
    return colour


@ti.func
def surface_adjoint(view: ti.template(), bars: ti.template(), row, face: ti.template(), m, r, colour_bar):
    """Adjoint of ``surface_colour``: adds to row ``row`` of the uniforms' adjoints, and to those of shadow maps and texels.

    Returns:
        the adjoints of r, of the mixed albedo, uv, normal and position (a corner's share is r times these), and of z.
    """
    r_bar, albedo_bar, uv_bar, area_bar, point_bar, z_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0), 0.0
    if ti.static(view.shading == DEPTH):
        z_bar = colour_bar.sum()
    else:
        normal, point, sign = vec3(0), vec3(0), 1.0
        if ti.static(view.shading != UNLIT):
            normal = unit_normal.value(face.normals @ r)
            point = face.points @ r
            sign = _side(view, m, normal, point)
            normal *= sign
        normal_bar = colour_bar
        if ti.static(view.shading != NORMAL):
            albedo, uv = face.albedo @ r, face.uv @ r
            texel, along_u, along_v = vec3(1), vec3(0), vec3(0)
            if face.texture >= 0:
                texel, along_u, along_v = sample_texture(view, m, face.texture, uv[0], uv[1])
            n_bar, p_bar, lit_bar = light_surface_adjoint(
                view, bars, row, m, normal, point, albedo * texel, face.material, colour_bar
            )
            normal_bar = n_bar
            point_bar = p_bar
            albedo_bar = lit_bar * texel
            if face.texture >= 0:
                texel_bar = lit_bar * albedo
                add_texels(view, bars, m, face.texture, uv[0], uv[1], texel_bar)
                uv_bar = vec3(along_u.dot(texel_bar), along_v.dot(texel_bar), 0.0)
            r_bar += face.albedo.transpose() @ albedo_bar + face.uv.transpose() @ uv_bar
        if ti.static(view.shading != UNLIT):
            area_bar = unit_normal.vjp(face.normals @ r, normal_bar * sign)
            r_bar += face.normals.transpose() @ area_bar + face.points.transpose() @ point_bar
    return r_bar, albedo_bar, uv_bar, area_bar, point_bar, z_bar


@ti.func
def gather_face_tangents(faces: ti.template(), dots: ti.template(), work: ti.template(), face_row, m, f):
    """Copy the tangents of a face's corners to the 42 K entries of face_dot from ``face_row``.

    Screen, position, normal, albedo, uv, corner by corner: the face's fragments find them side by side.
    """
    for c in range(work.active.shape[0]):
        first = face_row + c * FACE_DOT_SIZE
        for k in ti.static(range(3)):
            if work.active[c] & MOVING_COLUMN != 0:
                v = faces.corners[f, CORNER.vertex + k]
                for i in ti.static(range(3)):
                    work.face_dot[first + SCREEN_PART + 3 * k + i] = dots.screen[m, v, c, i]
                if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
                    n = faces.corners[f, CORNER.normal + k]
                    for i in ti.static(range(3)):
                        work.face_dot[first + NORMAL_PART + 3 * k + i] = dots.normals[m, n, c, i]
                    if faces.flags[FLAG.position] == 1:
                        for i in ti.static(range(3)):
                            work.face_dot[first + POINT_PART + 3 * k + i] = dots.vertices[m, v, c, i]
            if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
                if work.active[c] & ALBEDO_COLUMN != 0:
                    r = row_of(m, dots.albedo.shape[1], faces.images)
                    for i in ti.static(range(3)):
                        work.face_dot[first + ALBEDO_PART + 3 * k + i] = dots.albedo[c, r, f, k, i]
                    if faces.corners[f, CORNER.texture] >= 0:
                        s = row_of(m, dots.uv.shape[1], faces.images)
                        for i in ti.static(range(2)):
                            work.face_dot[first + UV_PART + 2 * k + i] = dots.uv[c, s, f, k, i]


@ti.func
def corner_mix(face_dot: ti.template(), first, r):
    """Mix of the tangents of three corners."""
    return get3(face_dot, first) * r[0] + get3(face_dot, first + 3) * r[1] + get3(face_dot, first + 6) * r[2]


@ti.func
def _albedo_tangent(view: ti.template(), dots: ti.template(), work: ti.template(), face_row, face: ti.template(), m, c, r, r_dot):
    """Tangent of the albedo of a fragment, texture included, in column ``c``."""
    albedo_dot, first = face.albedo @ r_dot, face_row + c * FACE_DOT_SIZE
    if work.active[c] & ALBEDO_COLUMN != 0:
        albedo_dot += corner_mix(work.face_dot, first + ALBEDO_PART, r)
    if face.texture >= 0:
        uv, uv_dot = face.uv @ r, face.uv @ r_dot
        texel, along_u, along_v = sample_texture(view, m, face.texture, uv[0], uv[1])
        texel_dot = vec3(0)
        if work.active[c] & ALBEDO_COLUMN != 0:
            for k in ti.static(range(3)):
                corner = first + UV_PART + 2 * k
                uv_dot += vec3(work.face_dot[corner], work.face_dot[corner + 1], 0.0) * r[k]
            texel_dot = texels_tangent(view, dots, c, m, face.texture, uv[0], uv[1])
        texel_dot += along_u * uv_dot[0] + along_v * uv_dot[1]
        albedo_dot = albedo_dot * texel + (face.albedo @ r) * texel_dot
    return albedo_dot


@ti.func
def surface_columns(view: ti.template(), dots: ti.template(), work: ti.template(), row, face_row, face: ti.template(), m, r):
    """Tangents of ``surface_colour`` in all columns: reads r_dot, z_dot of scratch from ``row`` and face_dot from ``face_row``,
    writes colour_dot."""
    columns = work.active.shape[0]
    if ti.static(view.shading == DEPTH):
        for c in range(columns):
            offset = row + c * SCRATCH.size
            put3(work.scratch, offset + SCRATCH.colour_dot, vec3(work.scratch[offset + SCRATCH.z_dot]))
    else:
        normal, point = vec3(0), vec3(0)
        if ti.static(view.shading != UNLIT):
            normal_at = unit_normal.linearize(face.normals @ r)
            point = face.points @ r
            sign = _side(view, m, normal_at.value, point)
            normal = normal_at.value * sign
            for c in range(columns):
                if work.active[c] & MOVING_COLUMN != 0:
                    offset, first = row + c * SCRATCH.size, face_row + c * FACE_DOT_SIZE
                    r_dot = get3(work.scratch, offset + SCRATCH.r_dot)
                    area_dot = face.normals @ r_dot + corner_mix(work.face_dot, first + NORMAL_PART, r)
                    put3(work.scratch, offset + SCRATCH.normal_dot, sign * normal_at.jvp(area_dot))
                    if view.flags[FLAG.position] == 1:
                        point_dot = face.points @ r_dot + corner_mix(work.face_dot, first + POINT_PART, r)
                        put3(work.scratch, offset + SCRATCH.point_dot, point_dot)
        if ti.static(view.shading == NORMAL):
            for c in range(columns):
                offset = row + c * SCRATCH.size
                put3(work.scratch, offset + SCRATCH.colour_dot, get3(work.scratch, offset + SCRATCH.normal_dot))
        else:
            albedo = face.albedo @ r
            if face.texture >= 0:
                uv = face.uv @ r
                texel, _u, _v = sample_texture(view, m, face.texture, uv[0], uv[1])
                albedo *= texel
            for c in range(columns):
                if work.active[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                    offset = row + c * SCRATCH.size
                    r_dot = get3(work.scratch, offset + SCRATCH.r_dot)
                    albedo_dot = _albedo_tangent(view, dots, work, face_row, face, m, c, r, r_dot)
                    put3(work.scratch, offset + SCRATCH.albedo_dot, albedo_dot)
            light_columns(view, dots, work, row, m, normal, point, albedo, face.material)
