"""The colour of a face at a fragment, from the attributes of its corners, and its derivatives in both modes.

Attributes (albedo, texture place, normal, world position) are mixed with the fragment's perspective-correct barycentrics r. What
"colour" means is the ``shading``: UNLIT, LAMBERT or PHONG light (``lighting``), DEPTH the camera depth, NORMAL the unit normal.
"""

from ti_render.geometry.normals import unit_normal
from ti_render.rows import get3, put3, row_of
from ti_render.shading.lighting import (
    ALBEDO_COLUMN,
    BASE_DOT,
    COLOUR_DOT,
    LAMBERT,
    MOVING_COLUMN,
    NORMAL_DOT,
    PHONG,
    POINT_DOT,
    R_DOT,
    SCRATCH_SIZE,
    UNLIT,
    Z_DOT,
    light_columns,
    light_surface,
    light_surface_adjoint,
)
from ti_render.shading.texture import add_texels, sample_texture, texels_tangent
from ti_render.shading.uniforms import EYE, LIGHT_SIZE, LIGHTS, MATERIAL_SIZE, uniform3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

DEPTH, NORMAL = 3, 4
SHADINGS = {"none": UNLIT, "lambert": LAMBERT, "phong": PHONG, "depth": DEPTH, "normal": NORMAL}

# Columns of a mesh's corners: three vertices, material, texture, three rows of the normals.
VERTEX, MATERIAL, TEXTURE, NORMAL_ROW = 0, 3, 4, 5
# Entries of the flags: numbers of lights, and which features are on.
DIRECTIONALS, POINTS, WITH_ENVIRONMENT, WITH_SHADOWS, TWO_SIDED, WITH_POSITION, DISTORTED, WITH_GROUND = range(8)
# A face's tangents, for each column: corner by corner, those of screen (3 numbers), position, normal, albedo, texture place (2).
SCREEN_PART, POINT_PART, NORMAL_PART, ALBEDO_PART, UV_PART, FACE_DOT_SIZE = 0, 9, 18, 27, 36, 42
GROUND_TEXTURE, GROUND_PATTERN, BACKGROUND_IMAGE, FLAG_COUNT = 8, 9, 10, 11


@ti.func
def _corner_columns(rows: ti.template(), corners: ti.template(), m, f, column):
    """Matrix whose columns are the three rows that a face's corners name."""
    a, b, c = corners[f, column], corners[f, column + 1], corners[f, column + 2]
    return mat3(
        rows[m, a, 0], rows[m, b, 0], rows[m, c, 0], rows[m, a, 1], rows[m, b, 1], rows[m, c, 1],
        rows[m, a, 2], rows[m, b, 2], rows[m, c, 2],
    )  # fmt: skip


@ti.func
def face_attributes(
    shading: ti.template(), flags: ti.template(), corners: ti.template(), vertices: ti.template(), normals: ti.template(),
    albedo: ti.template(), uv: ti.template(), m, images, f,
):  # fmt: skip
    """Attributes of a face's corners as the columns of matrices: albedo, texture place (two rows), normal, position."""
    base, place, mix, points = mat3(0), mat3(0), mat3(0), mat3(0)
    if ti.static(shading != DEPTH and shading != NORMAL):
        r = row_of(m, albedo.shape[0], images)
        for i, k in ti.static(ti.ndrange(3, 3)):
            base[i, k] = albedo[r, f, k, i]
        if corners[f, TEXTURE] >= 0:
            s = row_of(m, uv.shape[0], images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                place[i, k] = uv[s, f, k, i]
    if ti.static(shading != DEPTH and shading != UNLIT):
        mix = _corner_columns(normals, corners, m, f, NORMAL_ROW)
        if flags[WITH_POSITION] == 1:
            points = _corner_columns(vertices, corners, m, f, VERTEX)
    return base, place, mix, points


@ti.func
def _side(flags: ti.template(), uniforms: ti.template(), m, normal, point):
    """-1 where a two-sided surface turns its back on the eye, else 1."""
    sign = 1.0
    if flags[TWO_SIDED] == 1 and normal.dot(uniform3(uniforms, m, EYE) - point) < 0:
        sign = -1.0
    return sign


@ti.func
def material_column(flags: ti.template(), corners: ti.template(), f):
    """Column of a face's material in the uniforms."""
    return LIGHTS + LIGHT_SIZE * (flags[DIRECTIONALS] + flags[POINTS]) + MATERIAL_SIZE * corners[f, MATERIAL]


@ti.func
def surface_colour(
    shading: ti.template(), flags: ti.template(), texels: ti.template(), textures: ti.template(), uniforms: ti.template(),
    maps: ti.template(), frame: ti.template(), m, images, texture, material, base, place, mix, points, r, z,
):  # fmt: skip
    """Colour at the barycentrics ``r`` and depth ``z`` of a face with these attributes (``face_attributes``)."""
    colour = vec3(z)
    if ti.static(shading != DEPTH):
        normal, point = vec3(0), vec3(0)
        if ti.static(shading != UNLIT):
            normal = unit_normal.value(mix @ r)
            point = points @ r
            normal *= _side(flags, uniforms, m, normal, point)
        colour = normal
        if ti.static(shading != NORMAL):
            own = base @ r
            if texture >= 0:
                at = place @ r
                texel, _u, _v = sample_texture(texels, textures, m, images, texture, at[0], at[1])
                own *= texel
            colour = light_surface(
                shading, uniforms, maps, frame, m, flags[DIRECTIONALS], flags[POINTS], flags[WITH_ENVIRONMENT],
                flags[WITH_SHADOWS], normal, point, own, material,
            )  # fmt: skip
    return colour


@ti.func
def surface_adjoint(
    shading: ti.template(), flags: ti.template(), texels: ti.template(), textures: ti.template(), uniforms: ti.template(),
    maps: ti.template(), frame: ti.template(), m, images, texture, material, base, place, mix, points, r, colour_bar,
    bars: ti.template(), row, maps_bar: ti.template(), texels_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``surface_colour``: adds to bars[row], maps_bar and texels_bar.

    Returns:
        the adjoints of r, of the mixed albedo, texture place, normal and position (a corner's share is r times these), and of z.
    """
    r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar = vec3(0), vec3(0), vec3(0), vec3(0), vec3(0), 0.0
    if ti.static(shading == DEPTH):
        z_bar = colour_bar.sum()
    else:
        normal, point, sign = vec3(0), vec3(0), 1.0
        if ti.static(shading != UNLIT):
            normal = unit_normal.value(mix @ r)
            point = points @ r
            sign = _side(flags, uniforms, m, normal, point)
            normal *= sign
        normal_bar = colour_bar
        if ti.static(shading != NORMAL):
            own, at = base @ r, place @ r
            texel, along_u, along_v = vec3(1), vec3(0), vec3(0)
            if texture >= 0:
                texel, along_u, along_v = sample_texture(texels, textures, m, images, texture, at[0], at[1])
            n_bar, p_bar, lit_bar = light_surface_adjoint(
                shading, uniforms, maps, frame, m, flags[DIRECTIONALS], flags[POINTS], flags[WITH_ENVIRONMENT],
                flags[WITH_SHADOWS], normal, point, own * texel, material, colour_bar, bars, row, maps_bar,
            )  # fmt: skip
            normal_bar = n_bar
            point_bar = p_bar
            base_bar = lit_bar * texel
            if texture >= 0:
                texel_bar = lit_bar * own
                add_texels(texels_bar, textures, m, images, texture, at[0], at[1], texel_bar)
                place_bar = vec3(along_u.dot(texel_bar), along_v.dot(texel_bar), 0.0)
            r_bar += base.transpose() @ base_bar + place.transpose() @ place_bar
        if ti.static(shading != UNLIT):
            mix_bar = unit_normal.vjp(mix @ r, normal_bar * sign)
            r_bar += mix.transpose() @ mix_bar + points.transpose() @ point_bar
    return r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar


@ti.func
def gather_face_tangents(
    shading: ti.template(), flags: ti.template(), corners: ti.template(), m, images, f, active: ti.template(),
    screen_dot: ti.template(), vertices_dot: ti.template(), normals_dot: ti.template(), albedo_dot: ti.template(),
    uv_dot: ti.template(), face_dot: ti.template(), face_row,
):  # fmt: skip
    """Copy the tangents of a face's corners to the 42 K entries of face_dot from ``face_row``.

    Screen, position, normal, albedo, texture place, corner by corner: the face's fragments find them side by side.
    """
    for c in range(active.shape[0]):
        first = c * FACE_DOT_SIZE
        for k in ti.static(range(3)):
            if active[c] & MOVING_COLUMN != 0:
                v = corners[f, VERTEX + k]
                for i in ti.static(range(3)):
                    face_dot[face_row + first + SCREEN_PART + 3 * k + i] = screen_dot[m, v, c, i]
                if ti.static(shading != DEPTH and shading != UNLIT):
                    n = corners[f, NORMAL_ROW + k]
                    for i in ti.static(range(3)):
                        face_dot[face_row + first + NORMAL_PART + 3 * k + i] = normals_dot[m, n, c, i]
                    if flags[WITH_POSITION] == 1:
                        for i in ti.static(range(3)):
                            face_dot[face_row + first + POINT_PART + 3 * k + i] = vertices_dot[m, v, c, i]
            if ti.static(shading != DEPTH and shading != NORMAL):
                if active[c] & ALBEDO_COLUMN != 0:
                    r = row_of(m, albedo_dot.shape[1], images)
                    for i in ti.static(range(3)):
                        face_dot[face_row + first + ALBEDO_PART + 3 * k + i] = albedo_dot[c, r, f, k, i]
                    if corners[f, TEXTURE] >= 0:
                        s = row_of(m, uv_dot.shape[1], images)
                        for i in ti.static(range(2)):
                            face_dot[face_row + first + UV_PART + 2 * k + i] = uv_dot[c, s, f, k, i]


@ti.func
def corner_mix(face_dot: ti.template(), first, r):
    """Mix of the tangents of three corners."""
    return get3(face_dot, first) * r[0] + get3(face_dot, first + 3) * r[1] + get3(face_dot, first + 6) * r[2]


@ti.func
def _albedo_tangent(
    texels: ti.template(), textures: ti.template(), m, images, texture, base, place, r, r_dot, bits, face_dot: ti.template(),
    face_row, texels_dot: ti.template(), c,
):  # fmt: skip
    """Tangent of the albedo of a fragment, texture included."""
    own_dot = base @ r_dot
    if bits & ALBEDO_COLUMN != 0:
        own_dot += corner_mix(face_dot, face_row + c * FACE_DOT_SIZE + ALBEDO_PART, r)
    if texture >= 0:
        at, at_dot = place @ r, place @ r_dot
        texel, along_u, along_v = sample_texture(texels, textures, m, images, texture, at[0], at[1])
        texel_dot = vec3(0)
        if bits & ALBEDO_COLUMN != 0:
            first = c * FACE_DOT_SIZE + UV_PART
            for k in ti.static(range(3)):
                at_dot += vec3(face_dot[face_row + first + 2 * k], face_dot[face_row + first + 2 * k + 1], 0.0) * r[k]
            texel_dot = texels_tangent(texels_dot, textures, c, m, images, texture, at[0], at[1])
        texel_dot += along_u * at_dot[0] + along_v * at_dot[1]
        own_dot = own_dot * texel + (base @ r) * texel_dot
    return own_dot


@ti.func
def surface_columns(
    shading: ti.template(), flags: ti.template(), texels: ti.template(), textures: ti.template(), uniforms: ti.template(),
    maps: ti.template(), frame: ti.template(), m, images, texture, material, base, place, mix, points, r, active: ti.template(),
    face_dot: ti.template(), face_row, texels_dot: ti.template(), uniforms_dot: ti.template(), maps_dot: ti.template(),
    scratch: ti.template(), row,
):  # fmt: skip
    """Tangents of ``surface_colour`` in all columns: reads R_DOT, Z_DOT of scratch and face_dot, writes COLOUR_DOT."""
    columns = active.shape[0]
    if ti.static(shading == DEPTH):
        for c in range(columns):
            put3(scratch, row + c * SCRATCH_SIZE + COLOUR_DOT, vec3(scratch[row + c * SCRATCH_SIZE + Z_DOT]))
    else:
        normal, point = vec3(0), vec3(0)
        if ti.static(shading != UNLIT):
            normal_at = unit_normal.linearize(mix @ r)
            point = points @ r
            sign = _side(flags, uniforms, m, normal_at.value, point)
            normal = normal_at.value * sign
            for c in range(columns):
                if active[c] & MOVING_COLUMN != 0:
                    here = c * SCRATCH_SIZE
                    r_dot = get3(scratch, row + here + R_DOT)
                    normal_dot = sign * normal_at.jvp(
                        mix @ r_dot + corner_mix(face_dot, face_row + c * FACE_DOT_SIZE + NORMAL_PART, r)
                    )
                    put3(scratch, row + here + NORMAL_DOT, normal_dot)
                    if flags[WITH_POSITION] == 1:
                        point_dot = points @ r_dot + corner_mix(face_dot, face_row + c * FACE_DOT_SIZE + POINT_PART, r)
                        put3(scratch, row + here + POINT_DOT, point_dot)
        if ti.static(shading == NORMAL):
            for c in range(columns):
                put3(scratch, row + c * SCRATCH_SIZE + COLOUR_DOT, get3(scratch, row + c * SCRATCH_SIZE + NORMAL_DOT))
        else:
            own = base @ r
            if texture >= 0:
                at = place @ r
                texel, _u, _v = sample_texture(texels, textures, m, images, texture, at[0], at[1])
                own *= texel
            for c in range(columns):
                if active[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                    here = c * SCRATCH_SIZE
                    own_dot = _albedo_tangent(
                        texels, textures, m, images, texture, base, place, r, get3(scratch, row + here + R_DOT), active[c],
                        face_dot, face_row, texels_dot, c,
                    )  # fmt: skip
                    put3(scratch, row + here + BASE_DOT, own_dot)
            light_columns(
                shading, uniforms, maps, frame, m, flags[DIRECTIONALS], flags[POINTS], flags[WITH_ENVIRONMENT],
                flags[WITH_SHADOWS], normal, point, own, material, active, uniforms_dot, maps_dot, scratch, row,
            )  # fmt: skip
