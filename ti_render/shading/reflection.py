"""Reflected light of a surface point, and its derivatives in both modes.

irradiance = ambient + environment(n) + sum V I max(0, n . L) over directional lights + the same over point lights with I / r^2
(divided by pi); colour = albedo irradiance + specular (Phong, Illumination for computer generated pictures, 1975; the highlight
fades out towards the terminator, so that the picture is continuous). Environment: Ramamoorthi and Hanrahan, An efficient
representation for irradiance environment maps (2001), eq. 7-8, over pi.
"""

from typing import Any

from ti_render.arrays import ALBEDO_COLUMN, FLAG, LIGHT, LIT_COLUMN, MATERIAL, MOVING_COLUMN, UNIFORM
from ti_render.rows import add_to3, get3, has_nonzero, put3
from ti_render.shading.lights import light_adjoint, light_tangent, lights_of, shadowed_strength, towards_light
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle
from ti_sim.base.differentiable import differentiable, exp, log, normalize, positive_part, smoothstep, where
from ti_sim.base.rows import Row
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

UNLIT, LAMBERT, PHONG = 0, 1, 2
# Entries of a row of scratch, one for each column of tangents: of barycentrics r, depth z, colour, normal, position, albedo,
# direction to the eye, and logarithm of the weight w (``raster.softras``).
SCRATCH = Row(r_dot=3, z_dot=1, colour_dot=3, normal_dot=3, point_dot=3, albedo_dot=3, view_dot=3, log_weight_dot=1)
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
    is_positive = reflection_cosine > 1e-6
    return where(is_positive, exp(shininess * log(where(is_positive, reflection_cosine, 1.0))), 0.0) * smoothstep(
        cosine * (1.0 / TERMINATOR)
    )


@differentiable()
def view_direction(point, eye):
    """Unit vector from a point towards the eye."""
    return normalize(eye - point, min_squared=1e-30)


@ti.func
def light_surface(view: ti.template(), m, normal, point, albedo, material):
    """Colour of a surface point: unit normal, world position [m], albedo, column of its material in the uniforms."""
    colour = albedo
    if ti.static(view.shading != UNLIT):
        irradiance, specular_light = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        if view.flags[FLAG.environment] == 1:
            basis = environment_basis.value(normal)
            for k in ti.static(range(9)):
                irradiance += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis[k]
        to_eye = vec3(0)
        if ti.static(view.shading == PHONG):
            to_eye = view_direction.value(point, uniform3(view.uniforms, m, UNIFORM.eye))
        lights = lights_of(view)
        for i in range(lights.count):
            to_light, strength = towards_light(view, lights, m, i, point)
            if normal.dot(to_light) > 0:
                strength = shadowed_strength(view, lights, m, i, point, to_light, strength)
                intensity = uniform3(view.uniforms, m, light_column(i) + LIGHT.intensity) * strength
                cosine = lambert.value(normal, to_light)
                irradiance += intensity * cosine
                if ti.static(view.shading == PHONG):
                    shininess = view.uniforms[m, material + MATERIAL.shininess]
                    specular_factor = highlight.value(normal, to_eye, to_light, shininess)
                    specular_light += intensity * specular_factor
        colour = albedo * irradiance
        if ti.static(view.shading == PHONG):
            colour += uniform3(view.uniforms, m, material) * specular_light
    return colour


@ti.func
def add3(target: ti.template(), row, column, v):
    """Add a vector to three neighbouring entries of a row that no other thread writes."""
    for k in ti.static(range(3)):
        target[row, column + k] = target[row, column + k] + v[k]


@bundle
class LightSums:
    """Adjoints of ambient light, eye and material, summed over points of one material; exist while a kernel is compiled.

    A thread keeps them in registers: memory that it reads and writes for each point is slow on a GPU.
    """

    ambient_bar: Any
    eye_bar: Any
    specular_bar: Any
    shininess_bar: Any


@ti.func
def make_light_sums():
    """``LightSums`` at the start."""
    ambient_bar, eye_bar, specular_bar, shininess_bar = vec3(0), vec3(0), vec3(0), 0.0
    return LightSums(ambient_bar, eye_bar, specular_bar, shininess_bar)


@ti.func
def add_light_sums(view: ti.template(), bars: ti.template(), row, material, sums: ti.template()):
    """Add ``LightSums`` that are not zero to row ``row`` of the uniforms' adjoints, which no other thread writes."""
    if ti.static(view.shading == LAMBERT or view.shading == PHONG):
        if has_nonzero(sums.ambient_bar):
            add3(bars.uniforms, row, UNIFORM.ambient, sums.ambient_bar)
        if ti.static(view.shading == PHONG):
            if has_nonzero(sums.eye_bar) or has_nonzero(sums.specular_bar) or sums.shininess_bar != 0:
                add3(bars.uniforms, row, UNIFORM.eye, sums.eye_bar)
                add3(bars.uniforms, row, material, sums.specular_bar)
                shininess_column = material + MATERIAL.shininess
                bars.uniforms[row, shininess_column] = bars.uniforms[row, shininess_column] + sums.shininess_bar


@ti.func
def light_surface_adjoint(
    view: ti.template(), bars: ti.template(), row, sums: ti.template(), m, normal, point, albedo, material, colour_bar
):
    """Adjoint of ``light_surface``: adds to the ``LightSums``, to row ``row`` of the uniforms' adjoints, which no other thread
    writes, and to those of the shadow maps; returns the adjoints of normal, point and albedo."""
    normal_bar, point_bar, albedo_bar = vec3(0), vec3(0), colour_bar
    if ti.static(view.shading != UNLIT):
        irradiance, specular_light = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        irradiance_bar, specular_light_bar = colour_bar * albedo, vec3(0)
        sums.ambient_bar += irradiance_bar
        if view.flags[FLAG.environment] == 1:
            basis_linearization = environment_basis.linearize(normal)
            basis = basis_linearization.value
            basis_bar = ti.Vector([0.0 for _ in range(9)])
            for k in ti.static(range(9)):
                coefficient = uniform3(view.uniforms, m, UNIFORM.environment + 3 * k)
                irradiance += coefficient * basis[k]
                basis_bar[k] = coefficient.dot(irradiance_bar)
                add3(bars.uniforms, row, UNIFORM.environment + 3 * k, irradiance_bar * basis[k])
            normal_term = basis_linearization.vjp([basis_bar[k] for k in range(9)])
            normal_bar += normal_term
        to_eye, to_eye_bar = vec3(0), vec3(0)
        eye = uniform3(view.uniforms, m, UNIFORM.eye)
        if ti.static(view.shading == PHONG):
            to_eye = view_direction.value(point, eye)
            specular_light_bar = colour_bar * uniform3(view.uniforms, m, material)
        lights = lights_of(view)
        for i in range(lights.count):
            column = light_column(i)
            to_light, strength = towards_light(view, lights, m, i, point)
            if normal.dot(to_light) > 0:
                strength = shadowed_strength(view, lights, m, i, point, to_light, strength)
                intensity = uniform3(view.uniforms, m, column + LIGHT.intensity)
                cosine = lambert.value(normal, to_light)
                irradiance += intensity * (strength * cosine)
                intensity_bar = irradiance_bar * cosine
                to_light_bar = vec3(0)
                normal_term, to_light_term = lambert.vjp((normal, to_light), strength * intensity.dot(irradiance_bar))
                normal_bar += normal_term
                to_light_bar += to_light_term
                if ti.static(view.shading == PHONG):
                    shininess = view.uniforms[m, material + MATERIAL.shininess]
                    specular_linearization = highlight.linearize(normal, to_eye, to_light, shininess)
                    specular_factor = specular_linearization.value
                    specular_light += intensity * (strength * specular_factor)
                    intensity_bar += specular_light_bar * specular_factor
                    normal_specular_term, to_eye_term, to_light_specular_term, shininess_bar = specular_linearization.vjp(
                        strength * intensity.dot(specular_light_bar)
                    )
                    normal_bar += normal_specular_term
                    to_eye_bar += to_eye_term
                    to_light_bar += to_light_specular_term
                    sums.shininess_bar += shininess_bar
                strength_bar = intensity.dot(intensity_bar)
                add3(bars.uniforms, row, column + LIGHT.intensity, intensity_bar * strength)
                point_bar += light_adjoint(view, bars, lights, row, m, i, point, to_light, to_light_bar, strength_bar)
        albedo_bar = colour_bar * irradiance
        if ti.static(view.shading == PHONG):
            sums.specular_bar += colour_bar * specular_light
            point_term, eye_bar = view_direction.vjp((point, eye), to_eye_bar)
            point_bar += point_term
            sums.eye_bar += eye_bar
    return normal_bar, point_bar, albedo_bar


@ti.func
def light_columns(
    view: ti.template(), dots: ti.template(), work: ti.template(), scratch_offset, m, normal, point, albedo, material
):
    """Tangents of ``light_surface`` in all columns.

    Reads normal_dot, point_dot and albedo_dot of scratch, from entry ``scratch_offset`` on, and the uniforms' tangents [M K, U];
    writes colour_dot. Gradients are computed once for all columns.
    """
    columns = work.column_flags.shape[0]
    if ti.static(view.shading == UNLIT):
        for c in range(columns):
            column_offset = scratch_offset + c * SCRATCH.size
            put3(work.scratch, column_offset + SCRATCH.colour_dot, get3(work.scratch, column_offset + SCRATCH.albedo_dot))
    else:
        irradiance, specular_light = uniform3(view.uniforms, m, UNIFORM.ambient), vec3(0)
        for c in range(columns):
            if work.column_flags[c] & LIT_COLUMN != 0:
                ambient_dot = uniform3(dots.uniforms, m * columns + c, UNIFORM.ambient)
                put3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.colour_dot, albedo * ambient_dot)
        if view.flags[FLAG.environment] == 1:
            basis_linearization = environment_basis.linearize(normal)
            basis = basis_linearization.value
            for k in ti.static(range(9)):
                irradiance += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis[k]
            for c in range(columns):
                if work.column_flags[c] & LIT_COLUMN != 0:
                    basis_dot = basis_linearization.jvp(
                        get3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.normal_dot)
                    )
                    environment_dot = vec3(0)
                    for k in ti.static(range(9)):
                        environment_dot += uniform3(view.uniforms, m, UNIFORM.environment + 3 * k) * basis_dot[k]
                        environment_dot += uniform3(dots.uniforms, m * columns + c, UNIFORM.environment + 3 * k) * basis[k]
                    add_to3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.colour_dot, albedo * environment_dot)
        to_eye, specular_color = vec3(0), vec3(0)
        if ti.static(view.shading == PHONG):
            specular_color = uniform3(view.uniforms, m, material)
            view_linearization = view_direction.linearize(point, uniform3(view.uniforms, m, UNIFORM.eye))
            to_eye = view_linearization.value
            for c in range(columns):
                if work.column_flags[c] & MOVING_COLUMN != 0:
                    eye_dot = uniform3(dots.uniforms, m * columns + c, UNIFORM.eye)
                    to_eye_dot = view_linearization.jvp(
                        (get3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.point_dot), eye_dot)
                    )
                    put3(work.scratch, scratch_offset + c * SCRATCH.size + SCRATCH.view_dot, to_eye_dot)
        lights = lights_of(view)
        for i in range(lights.count):
            column = light_column(i)
            to_light, strength = towards_light(view, lights, m, i, point)
            cosine = normal.dot(to_light)
            if cosine > 0:
                strength = shadowed_strength(view, lights, m, i, point, to_light, strength)
                intensity = uniform3(view.uniforms, m, column + LIGHT.intensity)
                irradiance += intensity * (strength * cosine)
                # Colour per unit of intensity, and its gradients by normal, light, view and shininess.
                reflected_colour = albedo * cosine
                by_normal, by_view, by_light, by_shininess = vec3(0), vec3(0), vec3(0), 0.0
                if ti.static(view.shading == PHONG):
                    shininess = view.uniforms[m, material + MATERIAL.shininess]
                    specular_linearization = highlight.linearize(normal, to_eye, to_light, shininess)
                    specular_factor = specular_linearization.value
                    normal_term, view_term, light_term, shininess_term = specular_linearization.vjp(1.0)
                    by_normal, by_view, by_light, by_shininess = normal_term, view_term, light_term, shininess_term
                    specular_light += intensity * (strength * specular_factor)
                    reflected_colour += specular_color * specular_factor
                for c in range(columns):
                    if work.column_flags[c] & LIT_COLUMN != 0:
                        column_offset, uniforms_row = c * SCRATCH.size, m * columns + c
                        point_dot = get3(work.scratch, scratch_offset + column_offset + SCRATCH.point_dot)
                        normal_dot = get3(work.scratch, scratch_offset + column_offset + SCRATCH.normal_dot)
                        to_light_dot, strength_dot = light_tangent(
                            view, dots, lights, m, i, uniforms_row, c, point, to_light, point_dot
                        )
                        reflected_colour_dot = albedo * (normal_dot.dot(to_light) + normal.dot(to_light_dot))
                        if ti.static(view.shading == PHONG):
                            reflected_colour_dot += specular_color * (
                                by_normal.dot(normal_dot)
                                + by_view.dot(get3(work.scratch, scratch_offset + column_offset + SCRATCH.view_dot))
                                + by_light.dot(to_light_dot)
                                + by_shininess * dots.uniforms[uniforms_row, material + MATERIAL.shininess]
                            )  # fmt: skip
                        result = intensity * (strength * reflected_colour_dot + strength_dot * reflected_colour)
                        intensity_dot = uniform3(dots.uniforms, uniforms_row, column + LIGHT.intensity)
                        add_to3(
                            work.scratch,
                            scratch_offset + column_offset + SCRATCH.colour_dot,
                            result + intensity_dot * (strength * reflected_colour),
                        )
        for c in range(columns):
            result, column_offset = vec3(0), c * SCRATCH.size
            if work.column_flags[c] & (MOVING_COLUMN | ALBEDO_COLUMN) != 0:
                result = get3(work.scratch, scratch_offset + column_offset + SCRATCH.albedo_dot) * irradiance
            if work.column_flags[c] & LIT_COLUMN != 0:
                result += get3(work.scratch, scratch_offset + column_offset + SCRATCH.colour_dot)
                if ti.static(view.shading == PHONG):
                    result += uniform3(dots.uniforms, m * columns + c, material) * specular_light
            if work.column_flags[c] != 0:
                put3(work.scratch, scratch_offset + column_offset + SCRATCH.colour_dot, result)
