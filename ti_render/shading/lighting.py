"""The light that a surface point sends to the eye, and its derivatives in both modes.

received = ambient + environment(n) + sum V I max(0, n . L) over directional lights + the same over point lights with I / r^2;
colour = albedo received + specular (Phong, Illumination for computer generated pictures, 1975; the highlight fades out towards
the terminator, so that the picture is continuous). Environment: Ramamoorthi and Hanrahan, An efficient representation for
irradiance environment maps (2001), eq. 7-8, over pi.
"""

from ti_render.rows import add_to3, get3, put3
from ti_render.shading.shadow_lookup import visibility, visibility_adjoint, visibility_jvp
from ti_render.shading.uniforms import AMBIENT, ENVIRONMENT, EYE, LIGHT_SIZE, LIGHTS, uniform3
from ti_sim.base.differentiable import (
    differentiable,
    exp,
    inverse,
    log,
    normalize,
    positive_part,
    smoothstep,
    sqrt,
    where,
)  # fmt: skip
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

UNLIT, LAMBERT, PHONG = 0, 1, 2
# Entries of a row of scratch, one for each column of tangents: barycentrics, depth, colour, normal, position, albedo, view.
R_DOT, Z_DOT, COLOUR_DOT, NORMAL_DOT, POINT_DOT, BASE_DOT, VIEW_DOT, LOG_DOT = 0, 3, 4, 7, 10, 13, 16, 19
SCRATCH_SIZE = 20
# What a column of tangents changes (bits): vertices, camera or softness; light, material or (always with the first) what is lit;
# albedo or texture. Entries of scratch that a column does not need stay zero.
MOVING_COLUMN, LIT_COLUMN, ALBEDO_COLUMN = 1, 2, 4
# Cosine of the light's angle below which a highlight fades out.
TERMINATOR = 0.1
# Squared distance [m2] that a point light keeps at least.
LEAST_SQUARED = 1e-12

# Factors of the basis functions (x, y, z, ... of the unit normal) times the clamped cosine's 1, 2/3, 1/4.
_Y0, _Y1 = 0.28209479177387814, 0.4886025119029199 * 2 / 3
_Y2, _Y20, _Y22 = 1.0925484305920792 / 4, 0.31539156525252005 / 4, 0.5462742152960396 / 4


@differentiable()
def environment_basis(n):
    """The nine real spherical harmonics at the unit vector n, each times its factor of the clamped cosine over pi."""
    x, y, z = (n[i] for i in range(3))
    return (
        x * 0.0 + _Y0, y * _Y1, z * _Y1, x * _Y1, x * y * _Y2, y * z * _Y2, (z * z * 3.0 - 1.0) * _Y20, x * z * _Y2,
        (x * x - y * y) * _Y22,
    )  # fmt: skip


@differentiable()
def lambert(normal, towards):
    """max(0, n . L)."""
    return positive_part(normal.dot(towards))


@differentiable()
def highlight(normal, view, towards, shininess):
    """max(0, R . v)^shininess with R = 2 (n . L) n - L, faded out where n . L < 0.1."""
    cosine = normal.dot(towards)
    along = cosine * 2.0 * normal.dot(view) - towards.dot(view)
    lit = along > 1e-6
    return where(lit, exp(shininess * log(where(lit, along, 1.0))), 0.0) * smoothstep(cosine * (1.0 / TERMINATOR))


@differentiable()
def towards_point(point, light):
    """Unit vector from a point towards a point light, and the inverse squared distance [1/m2]."""
    d = light - point
    squared = d.dot(d)
    squared = where(squared > LEAST_SQUARED, squared, LEAST_SQUARED)
    return d * inverse(sqrt(squared)), inverse(squared)


@differentiable()
def view_direction(point, eye):
    """Unit vector from a point towards the eye."""
    return normalize(eye - point, least_squared=1e-30)


@ti.func
def light_surface(
    shading: ti.template(), uniforms: ti.template(), maps: ti.template(), frame: ti.template(), m, directionals, points,
    environment, shadows, normal, point, albedo, material,
):  # fmt: skip
    """Colour of a surface point: unit normal, world position [m], albedo, column of its material in the uniforms."""
    colour = albedo
    if ti.static(shading != UNLIT):
        received, shine = uniform3(uniforms, m, AMBIENT), vec3(0)
        if environment == 1:
            basis = environment_basis.value(normal)
            for k in ti.static(range(9)):
                received += uniform3(uniforms, m, ENVIRONMENT + 3 * k) * basis[k]
        view = vec3(0)
        if ti.static(shading == PHONG):
            view = view_direction.value(point, uniform3(uniforms, m, EYE))
        for i in range(directionals + points):
            column = LIGHTS + LIGHT_SIZE * i
            towards, strength = uniform3(uniforms, m, column), 1.0
            if i >= directionals:
                towards, strength = towards_point.value(point, towards)
            if normal.dot(towards) > 0:
                if shadows == 1 and i < directionals:
                    strength = visibility(maps, frame, m * directionals + i, point, towards)
                intensity = uniform3(uniforms, m, column + 3) * strength
                cosine = lambert.value(normal, towards)
                received += intensity * cosine
                if ti.static(shading == PHONG):
                    gleam = highlight.value(normal, view, towards, uniforms[m, material + 3])
                    shine += intensity * gleam
        colour = albedo * received
        if ti.static(shading == PHONG):
            colour += uniform3(uniforms, m, material) * shine
    return colour


@ti.func
def add3(target: ti.template(), row, column, v):
    """Add a vector to three neighbouring entries of a row that no other thread writes."""
    for k in ti.static(range(3)):
        target[row, column + k] = target[row, column + k] + v[k]


@ti.func
def light_surface_adjoint(
    shading: ti.template(), uniforms: ti.template(), maps: ti.template(), frame: ti.template(), m, directionals, points,
    environment, shadows, normal, point, albedo, material, colour_bar, bars: ti.template(), row, maps_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``light_surface``: adds the uniforms' adjoints to ``bars[row]``, a row of the calling thread's own, and to
    maps_bar; returns the adjoints of normal, point and albedo."""
    normal_bar, point_bar, albedo_bar = vec3(0), vec3(0), colour_bar
    if ti.static(shading != UNLIT):
        received, shine = uniform3(uniforms, m, AMBIENT), vec3(0)
        received_bar, shine_bar = colour_bar * albedo, vec3(0)
        add3(bars, row, AMBIENT, received_bar)
        if environment == 1:
            basis_at = environment_basis.linearize(normal)
            basis = basis_at.value
            basis_bar = ti.Vector([0.0 for _ in range(9)])
            for k in ti.static(range(9)):
                coefficient = uniform3(uniforms, m, ENVIRONMENT + 3 * k)
                received += coefficient * basis[k]
                basis_bar[k] = coefficient.dot(received_bar)
                add3(bars, row, ENVIRONMENT + 3 * k, received_bar * basis[k])
            g = basis_at.vjp([basis_bar[k] for k in range(9)])
            normal_bar += g
        view, view_bar = vec3(0), vec3(0)
        eye = uniform3(uniforms, m, EYE)
        if ti.static(shading == PHONG):
            view = view_direction.value(point, eye)
            shine_bar = colour_bar * uniform3(uniforms, m, material)
        for i in range(directionals + points):
            column = LIGHTS + LIGHT_SIZE * i
            light = uniform3(uniforms, m, column)
            towards, strength = light, 1.0
            if i >= directionals:
                towards, strength = towards_point.value(point, light)
            if normal.dot(towards) > 0:
                if shadows == 1 and i < directionals:
                    strength = visibility(maps, frame, m * directionals + i, point, towards)
                intensity = uniform3(uniforms, m, column + 3)
                cosine = lambert.value(normal, towards)
                received += intensity * (strength * cosine)
                intensity_bar = received_bar * cosine
                towards_bar = vec3(0)
                g0, g1 = lambert.vjp((normal, towards), strength * intensity.dot(received_bar))
                normal_bar += g0
                towards_bar += g1
                if ti.static(shading == PHONG):
                    gleam_at = highlight.linearize(normal, view, towards, uniforms[m, material + 3])
                    gleam = gleam_at.value
                    shine += intensity * (strength * gleam)
                    intensity_bar += shine_bar * gleam
                    h0, h1, h2, shininess_bar = gleam_at.vjp(strength * intensity.dot(shine_bar))
                    normal_bar += h0
                    view_bar += h1
                    towards_bar += h2
                    bars[row, material + 3] = bars[row, material + 3] + shininess_bar
                strength_bar = intensity.dot(intensity_bar)
                add3(bars, row, column + 3, intensity_bar * strength)
                if i >= directionals:
                    p0, light_bar = towards_point.vjp((point, light), (towards_bar, strength_bar))
                    point_bar += p0
                    add3(bars, row, column, light_bar)
                else:
                    if shadows == 1:
                        q0, q1 = visibility_adjoint(
                            maps, frame, m * directionals + i, point, towards, strength_bar, maps_bar
                        )
                        point_bar += q0
                        towards_bar += q1
                    add3(bars, row, column, towards_bar)
        albedo_bar = colour_bar * received
        if ti.static(shading == PHONG):
            add3(bars, row, material, colour_bar * shine)
            e0, e1 = view_direction.vjp((point, eye), view_bar)
            point_bar += e0
            add3(bars, row, EYE, e1)
    return normal_bar, point_bar, albedo_bar


@ti.func
def light_columns(
    shading: ti.template(), uniforms: ti.template(), maps: ti.template(), frame: ti.template(), m, directionals, points,
    environment, shadows, normal, point, albedo, material, active: ti.template(), dots: ti.template(), maps_dot: ti.template(),
    scratch: ti.template(), row,
):  # fmt: skip
    """Tangents of ``light_surface`` in all columns.

    Reads NORMAL_DOT, POINT_DOT and BASE_DOT (of the albedo) of scratch, which begins at ``row``, and the uniforms' tangents
    ``dots`` [M K, U], writes COLOUR_DOT. Gradients are found once for all columns.
    """
    columns = active.shape[0]
    if ti.static(shading == UNLIT):
        for c in range(columns):
            put3(scratch, row + c * SCRATCH_SIZE + COLOUR_DOT, get3(scratch, row + c * SCRATCH_SIZE + BASE_DOT))
    else:
        received, shine = uniform3(uniforms, m, AMBIENT), vec3(0)
        for c in range(columns):
            if active[c] & LIT_COLUMN != 0:
                put3(scratch, row + c * SCRATCH_SIZE + COLOUR_DOT, albedo * uniform3(dots, m * columns + c, AMBIENT))
        if environment == 1:
            basis_at = environment_basis.linearize(normal)
            basis = basis_at.value
            for k in ti.static(range(9)):
                received += uniform3(uniforms, m, ENVIRONMENT + 3 * k) * basis[k]
            for c in range(columns):
                if active[c] & LIT_COLUMN != 0:
                    basis_dot = basis_at.jvp(get3(scratch, row + c * SCRATCH_SIZE + NORMAL_DOT))
                    light_dot = vec3(0)
                    for k in ti.static(range(9)):
                        light_dot += uniform3(uniforms, m, ENVIRONMENT + 3 * k) * basis_dot[k]
                        light_dot += uniform3(dots, m * columns + c, ENVIRONMENT + 3 * k) * basis[k]
                    add_to3(scratch, row + c * SCRATCH_SIZE + COLOUR_DOT, albedo * light_dot)
        view, gloss = vec3(0), vec3(0)
        if ti.static(shading == PHONG):
            gloss = uniform3(uniforms, m, material)
            view_at = view_direction.linearize(point, uniform3(uniforms, m, EYE))
            view = view_at.value
            for c in range(columns):
                if active[c] & MOVING_COLUMN != 0:
                    view_dot = view_at.jvp(
                        (get3(scratch, row + c * SCRATCH_SIZE + POINT_DOT), uniform3(dots, m * columns + c, EYE))
                    )
                    put3(scratch, row + c * SCRATCH_SIZE + VIEW_DOT, view_dot)
        for i in range(directionals + points):
            column = LIGHTS + LIGHT_SIZE * i
            light = uniform3(uniforms, m, column)
            towards, strength = light, 1.0
            if i >= directionals:
                towards, strength = towards_point.value(point, light)
            cosine = normal.dot(towards)
            if cosine > 0:
                if shadows == 1 and i < directionals:
                    strength = visibility(maps, frame, m * directionals + i, point, towards)
                power = uniform3(uniforms, m, column + 3)
                received += power * (strength * cosine)
                # Colour per unit of intensity, and its gradients by normal, light, view and shininess.
                answer = albedo * cosine
                by_normal, by_view, by_light, by_shininess = vec3(0), vec3(0), vec3(0), 0.0
                if ti.static(shading == PHONG):
                    gleam_at = highlight.linearize(normal, view, towards, uniforms[m, material + 3])
                    gleam = gleam_at.value
                    g0, g1, g2, g3 = gleam_at.vjp(1.0)
                    by_normal, by_view, by_light, by_shininess = g0, g1, g2, g3
                    shine += power * (strength * gleam)
                    answer += gloss * gleam
                for c in range(columns):
                    if active[c] & LIT_COLUMN != 0:
                        here, r = c * SCRATCH_SIZE, m * columns + c
                        towards_dot, strength_dot = uniform3(dots, r, column), 0.0
                        point_dot = get3(scratch, row + here + POINT_DOT)
                        normal_dot = get3(scratch, row + here + NORMAL_DOT)
                        if i >= directionals:
                            towards_dot, strength_dot = towards_point.jvp((point, light), (point_dot, towards_dot))
                        elif shadows == 1:
                            _v, strength_dot = visibility_jvp(
                                maps, frame, m * directionals + i, point, towards, point_dot, towards_dot, maps_dot, c
                            )
                        answer_dot = albedo * (normal_dot.dot(towards) + normal.dot(towards_dot))
                        if ti.static(shading == PHONG):
                            answer_dot += gloss * (
                                by_normal.dot(normal_dot) + by_view.dot(get3(scratch, row + here + VIEW_DOT))
                                + by_light.dot(towards_dot) + by_shininess * dots[r, material + 3]
                            )  # fmt: skip
                        result = power * (strength * answer_dot + strength_dot * answer)
                        add_to3(scratch, row + here + COLOUR_DOT, result + uniform3(dots, r, column + 3) * (strength * answer))
        for c in range(columns):
            result, here = vec3(0), c * SCRATCH_SIZE
            if active[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                result = get3(scratch, row + here + BASE_DOT) * received
            if active[c] & LIT_COLUMN != 0:
                result += get3(scratch, row + here + COLOUR_DOT)
                if ti.static(shading == PHONG):
                    result += uniform3(dots, m * columns + c, material) * shine
            if active[c] != 0:
                put3(scratch, row + here + COLOUR_DOT, result)
