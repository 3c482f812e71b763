"""The light that a surface point sends to the eye, and its derivatives in both modes.

received = ambient + environment(n) + sum V I max(0, n . L) over directional lights + the same over point lights with I / r^2;
colour = albedo received + specular (Phong, Illumination for computer generated pictures, 1975; the highlight fades out towards
the terminator, so that the picture is continuous). Environment: Ramamoorthi and Hanrahan, An efficient representation for
irradiance environment maps (2001), eq. 7-8, over pi.
"""

from ti_render.arrays import ALBEDO_COLUMN, FLAG, LIGHT, LIT_COLUMN, MATERIAL, MOVING_COLUMN, UNIFORM
from ti_render.rows import add_to3, get3, put3
from ti_render.shading.lights import light_adjoint, light_tangent, lights_of, shadowed, towards_light
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.differentiable import differentiable, exp, log, normalize, positive_part, smoothstep, where
from ti_sim.base.rows import Row
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

UNLIT, LAMBERT, PHONG = 0, 1, 2
# Entries of a row of scratch, one for each column of tangents: barycentrics, depth, colour, normal, position, albedo, view.
SCRATCH = Row(r_dot=3, z_dot=1, colour_dot=3, normal_dot=3, point_dot=3, albedo_dot=3, view_dot=3, log_dot=1)
# Cosine of the light's angle below which a highlight fades out.
TERMINATOR = 0.1

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
def lambert(normal, to_light):
    """max(0, n . L)."""
    return positive_part(normal.dot(to_light))


@differentiable()
def highlight(normal, view, to_light, shininess):
    """max(0, R . v)^shininess with R = 2 (n . L) n - L, faded out where n . L < 0.1."""
    cosine = normal.dot(to_light)
    reflection_cosine = cosine * 2.0 * normal.dot(view) - to_light.dot(view)
    lit = reflection_cosine > 1e-6
    return where(lit, exp(shininess * log(where(lit, reflection_cosine, 1.0))), 0.0) * smoothstep(cosine * (1.0 / TERMINATOR))


@differentiable()
def view_direction(point, eye):
    """Unit vector from a point towards the eye."""
    return normalize(eye - point, min_squared=1e-30)


@ti.func
def light_surface(view: ti.template(), m, normal, point, albedo, material):
    """Colour of a surface point: unit normal, world position [m], albedo, column of its material in the uniforms."""
    colour = albedo
    if ti.static(view.shading != UNLIT):
        received, shine = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        if view.flags[FLAG.environment] == 1:
            basis = environment_basis.value(normal)
            for k in ti.static(range(9)):
                received += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis[k]
        to_eye = vec3(0)
        if ti.static(view.shading == PHONG):
            to_eye = view_direction.value(point, uniform3(view.uniforms, m, UNIFORM.eye))
        lights = lights_of(view)
        for i in range(lights.count):
            to_light, strength = towards_light(view, lights, m, i, point)
            if normal.dot(to_light) > 0:
                strength = shadowed(view, lights, m, i, point, to_light, strength)
                intensity = uniform3(view.uniforms, m, light_column(i) + LIGHT.intensity) * strength
                cosine = lambert.value(normal, to_light)
                received += intensity * cosine
                if ti.static(view.shading == PHONG):
                    shininess = view.uniforms[m, material + MATERIAL.shininess]
                    gleam = highlight.value(normal, to_eye, to_light, shininess)
                    shine += intensity * gleam
        colour = albedo * received
        if ti.static(view.shading == PHONG):
            colour += uniform3(view.uniforms, m, material) * shine
    return colour


@ti.func
def add3(target: ti.template(), row, column, v):
    """Add a vector to three neighbouring entries of a row that no other thread writes."""
    for k in ti.static(range(3)):
        target[row, column + k] = target[row, column + k] + v[k]


@ti.func
def light_surface_adjoint(view: ti.template(), bars: ti.template(), row, m, normal, point, albedo, material, colour_bar):
    """Adjoint of ``light_surface``: adds to row ``row`` of the uniforms' adjoints, the calling thread's own, and to those of the
    shadow maps; returns the adjoints of normal, point and albedo."""
    normal_bar, point_bar, albedo_bar = vec3(0), vec3(0), colour_bar
    if ti.static(view.shading != UNLIT):
        received, shine = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        received_bar, shine_bar = colour_bar * albedo, vec3(0)
        add3(bars.uniforms, row, UNIFORM.ambient, received_bar)
        if view.flags[FLAG.environment] == 1:
            basis_at = environment_basis.linearize(normal)
            basis = basis_at.value
            basis_bar = ti.Vector([0.0 for _ in range(9)])
            for k in ti.static(range(9)):
                coefficient = uniform3(view.uniforms, m, UNIFORM.environment + 3 * k)
                received += coefficient * basis[k]
                basis_bar[k] = coefficient.dot(received_bar)
                add3(bars.uniforms, row, UNIFORM.environment + 3 * k, received_bar * basis[k])
            g = basis_at.vjp([basis_bar[k] for k in range(9)])
            normal_bar += g
        to_eye, to_eye_bar = vec3(0), vec3(0)
        eye = uniform3(view.uniforms, m, UNIFORM.eye)
        if ti.static(view.shading == PHONG):
            to_eye = view_direction.value(point, eye)
            shine_bar = colour_bar * uniform3(view.uniforms, m, material)
        lights = lights_of(view)
        for i in range(lights.count):
            column = light_column(i)
            to_light, strength = towards_light(view, lights, m, i, point)
            if normal.dot(to_light) > 0:
                strength = shadowed(view, lights, m, i, point, to_light, strength)
                intensity = uniform3(view.uniforms, m, column + LIGHT.intensity)
                cosine = lambert.value(normal, to_light)
                received += intensity * (strength * cosine)
                intensity_bar = received_bar * cosine
                to_light_bar = vec3(0)
                g0, g1 = lambert.vjp((normal, to_light), strength * intensity.dot(received_bar))
                normal_bar += g0
                to_light_bar += g1
                if ti.static(view.shading == PHONG):
                    gloss = material + MATERIAL.shininess
                    gleam_at = highlight.linearize(normal, to_eye, to_light, view.uniforms[m, gloss])
                    gleam = gleam_at.value
                    shine += intensity * (strength * gleam)
                    intensity_bar += shine_bar * gleam
                    h0, h1, h2, shininess_bar = gleam_at.vjp(strength * intensity.dot(shine_bar))
                    normal_bar += h0
                    to_eye_bar += h1
                    to_light_bar += h2
                    bars.uniforms[row, gloss] = bars.uniforms[row, gloss] + shininess_bar
                strength_bar = intensity.dot(intensity_bar)
                add3(bars.uniforms, row, column + LIGHT.intensity, intensity_bar * strength)
                point_bar += light_adjoint(view, bars, lights, row, m, i, point, to_light, to_light_bar, strength_bar)
        albedo_bar = colour_bar * received
        if ti.static(view.shading == PHONG):
            add3(bars.uniforms, row, material, colour_bar * shine)
            e0, e1 = view_direction.vjp((point, eye), to_eye_bar)
            point_bar += e0
            add3(bars.uniforms, row, UNIFORM.eye, e1)
    return normal_bar, point_bar, albedo_bar


@ti.func
def light_columns(view: ti.template(), dots: ti.template(), work: ti.template(), row, m, normal, point, albedo, material):
    """Tangents of ``light_surface`` in all columns.

    Reads normal_dot, point_dot and albedo_dot (of the albedo) of scratch, which begins at ``row``, and the uniforms' tangents
    [M K, U], writes colour_dot. Gradients are found once for all columns.
    """
    columns = work.active.shape[0]
    if ti.static(view.shading == UNLIT):
        for c in range(columns):
            offset = row + c * SCRATCH.size
            put3(work.scratch, offset + SCRATCH.colour_dot, get3(work.scratch, offset + SCRATCH.albedo_dot))
    else:
        received, shine = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        for c in range(columns):
            if work.active[c] & LIT_COLUMN != 0:
                ambient_dot = uniform3(dots.uniforms, m * columns + c, UNIFORM.ambient)
                put3(work.scratch, row + c * SCRATCH.size + SCRATCH.colour_dot, albedo * ambient_dot)
        if view.flags[FLAG.environment] == 1:
            basis_at = environment_basis.linearize(normal)
            basis = basis_at.value
            for k in ti.static(range(9)):
                received += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis[k]
            for c in range(columns):
                if work.active[c] & LIT_COLUMN != 0:
                    basis_dot = basis_at.jvp(get3(work.scratch, row + c * SCRATCH.size + SCRATCH.normal_dot))
                    light_dot = vec3(0)
                    for k in ti.static(range(9)):
                        light_dot += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis_dot[k]
                        light_dot += uniform3(dots.uniforms, m * columns + c, UNIFORM.environment + 3 * k) * basis[k]
                    add_to3(work.scratch, row + c * SCRATCH.size + SCRATCH.colour_dot, albedo * light_dot)
        to_eye, gloss = vec3(0), vec3(0)
        if ti.static(view.shading == PHONG):
            gloss = uniform3(view.uniforms, m, material)
            view_at = view_direction.linearize(point, uniform3(view.uniforms, m, UNIFORM.eye))
            to_eye = view_at.value
            for c in range(columns):
                if work.active[c] & MOVING_COLUMN != 0:
                    eye_dot = uniform3(dots.uniforms, m * columns + c, UNIFORM.eye)
                    to_eye_dot = view_at.jvp((get3(work.scratch, row + c * SCRATCH.size + SCRATCH.point_dot), eye_dot))
                    put3(work.scratch, row + c * SCRATCH.size + SCRATCH.view_dot, to_eye_dot)
        lights = lights_of(view)
        for i in range(lights.count):
            column = light_column(i)
            to_light, strength = towards_light(view, lights, m, i, point)
            cosine = normal.dot(to_light)
            if cosine > 0:
                strength = shadowed(view, lights, m, i, point, to_light, strength)
                power = uniform3(view.uniforms, m, column + LIGHT.intensity)
                received += power * (strength * cosine)
                # Colour per unit of intensity, and its gradients by normal, light, view and shininess.
                answer = albedo * cosine
                by_normal, by_view, by_light, by_shininess = vec3(0), vec3(0), vec3(0), 0.0
                if ti.static(view.shading == PHONG):
                    shininess = view.uniforms[m, material + MATERIAL.shininess]
                    gleam_at = highlight.linearize(normal, to_eye, to_light, shininess)
                    gleam = gleam_at.value
                    g0, g1, g2, g3 = gleam_at.vjp(1.0)
                    by_normal, by_view, by_light, by_shininess = g0, g1, g2, g3
                    shine += power * (strength * gleam)
                    answer += gloss * gleam
                for c in range(columns):
                    if work.active[c] & LIT_COLUMN != 0:
                        offset, r = c * SCRATCH.size, m * columns + c
                        point_dot = get3(work.scratch, row + offset + SCRATCH.point_dot)
                        normal_dot = get3(work.scratch, row + offset + SCRATCH.normal_dot)
                        to_light_dot, strength_dot = light_tangent(view, dots, lights, m, i, r, c, point, to_light, point_dot)
                        answer_dot = albedo * (normal_dot.dot(to_light) + normal.dot(to_light_dot))
                        if ti.static(view.shading == PHONG):
                            answer_dot += gloss * (
                                by_normal.dot(normal_dot) + by_view.dot(get3(work.scratch, row + offset + SCRATCH.view_dot))
                                + by_light.dot(to_light_dot) + by_shininess * dots.uniforms[r, material + MATERIAL.shininess]
                            )  # fmt: skip
                        result = power * (strength * answer_dot + strength_dot * answer)
                        power_dot = uniform3(dots.uniforms, r, column + LIGHT.intensity)
                        add_to3(work.scratch, row + offset + SCRATCH.colour_dot, result + power_dot * (strength * answer))
        for c in range(columns):
            result, offset = vec3(0), c * SCRATCH.size
            if work.active[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                result = get3(work.scratch, row + offset + SCRATCH.albedo_dot) * received
            if work.active[c] & LIT_COLUMN != 0:
                result += get3(work.scratch, row + offset + SCRATCH.colour_dot)
                if ti.static(view.shading == PHONG):
                    result += uniform3(dots.uniforms, m * columns + c, material) * shine
            if work.active[c] != 0:
                put3(work.scratch, row + offset + SCRATCH.colour_dot, result)
