"""Flat Lambert shading of the faces' corner colours by an ambient and a directional light."""

from ti_render.rows import is_finite, row_of
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Faces that one thread of the adjoint sums over before it adds to the lights' adjoints.
CHUNK = 64
# Squared doubled area [m^4] below which a face has no normal.
DEGENERATE = 1e-32


@ti.func
def _world_vertex(vertices_world: ti.template(), m, v):
    return vec3(vertices_world[m, v, 0], vertices_world[m, v, 1], vertices_world[m, v, 2])


@ti.func
def light_vector(light: ti.template(), r):
    """Unit vector towards the light of row ``r``, and the inverse length of its direction (zero for a zero direction)."""
    d = vec3(light[r, 0], light[r, 1], light[r, 2])
    squared = d.dot(d)
    inverse = 0.0
    if is_finite(squared) and squared > 0:
        inverse = 1.0 / ti.sqrt(squared)
    return -d * inverse, inverse


@ti.func
def add_light(light_bar: ti.template(), r, towards, inverse, towards_bar, intensity_bar):
    """Adds the adjoints of the unit vector towards the light and of its intensity to row ``r`` of light_bar."""
    direction_bar = -(towards_bar - towards * towards.dot(towards_bar)) * inverse
    for k in ti.static(range(3)):
        light_bar[r, k] += direction_bar[k]
        light_bar[r, 3 + k] += intensity_bar[k]


@ti.func
def _normal(a, b, c):
    """Unit normal of a face (zero where it has none) and the inverse of its doubled area."""
    n = (b - a).cross(c - a)
    squared = n.dot(n)
    inverse = 0.0
    if is_finite(squared) and squared > DEGENERATE:
        inverse = 1.0 / ti.sqrt(squared)
        n *= inverse
    else:
        n = vec3(0)
    return n, inverse


@ti.kernel
def shade(
    vertices_world: ti.types.ndarray(), faces: ti.types.ndarray(), albedo: ti.types.ndarray(), ambient: ti.types.ndarray(),
    light: ti.types.ndarray(), lit: ti.types.ndarray(),
):  # fmt: skip
    """Light the corner colours of every image.

    Reads vertices_world [M, V, 3] [m], faces [F, 3] (counter-clockwise from outside), albedo [n, F, 3, 3], ambient [n, 3],
    light [n, 6] (direction in which it travels, intensity rgb). Writes lit [M, F, 3, 3] = albedo (ambient + intensity
    max(0, n . l)) with n the face's outward unit normal and l the unit vector towards the light. Degenerate faces have no
    normal and receive the ambient light only. Adjoint: ``shade_adjoint``, by hand.
    """
    images = vertices_world.shape[0]
    for m, f in ti.ndrange(images, faces.shape[0]):
        row_albedo = row_of(m, albedo.shape[0], images)
        row_ambient = row_of(m, ambient.shape[0], images)
        row_light = row_of(m, light.shape[0], images)
        towards, _ = light_vector(light, row_light)
        n, _ = _normal(
            _world_vertex(vertices_world, m, faces[f, 0]),
            _world_vertex(vertices_world, m, faces[f, 1]),
            _world_vertex(vertices_world, m, faces[f, 2]),
        )
        cosine = ti.max(n.dot(towards), 0.0)
        for k in ti.static(range(3)):
            received = ambient[row_ambient, k] + light[row_light, 3 + k] * cosine
            for corner in ti.static(range(3)):
                lit[m, f, corner, k] = albedo[row_albedo, f, corner, k] * received


@ti.kernel
def shade_adjoint(
    vertices_world: ti.types.ndarray(), faces: ti.types.ndarray(), albedo: ti.types.ndarray(), ambient: ti.types.ndarray(),
    light: ti.types.ndarray(), lit_bar: ti.types.ndarray(),
    vertices_world_bar: ti.types.ndarray(), albedo_bar: ti.types.ndarray(), ambient_bar: ti.types.ndarray(),
    light_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``shade``: adds to vertices_world_bar, albedo_bar, ambient_bar, light_bar (shapes of their inputs).

    Reads the inputs of ``shade`` and lit_bar [M, F, 3, 3]. A thread sums a chunk of faces and adds once to the lights'
    adjoints. Faces whose adjoint is zero are passed over.
    """
    images, count = vertices_world.shape[0], faces.shape[0]
    for m, chunk in ti.ndrange(images, (count + CHUNK - 1) // CHUNK):
        row_albedo = row_of(m, albedo.shape[0], images)
        row_ambient = row_of(m, ambient.shape[0], images)
        row_light = row_of(m, light.shape[0], images)
        towards, inverse_length = light_vector(light, row_light)
        intensity = vec3(light[row_light, 3], light[row_light, 4], light[row_light, 5])
        towards_bar, intensity_bar, ambient_sum = vec3(0), vec3(0), vec3(0)
        for f in range(chunk * CHUNK, ti.min((chunk + 1) * CHUNK, count)):
            largest = 0.0
            for corner, k in ti.static(ti.ndrange(3, 3)):
                largest = ti.max(largest, ti.abs(lit_bar[m, f, corner, k]))
            if largest > 0:
                v0, v1, v2 = faces[f, 0], faces[f, 1], faces[f, 2]
                a = _world_vertex(vertices_world, m, v0)
                b = _world_vertex(vertices_world, m, v1)
                c = _world_vertex(vertices_world, m, v2)
                n, inverse_area = _normal(a, b, c)
                cosine = ti.max(n.dot(towards), 0.0)
                received_bar = vec3(0)
                for k in ti.static(range(3)):
                    received = ambient[row_ambient, k] + intensity[k] * cosine
                    for corner in ti.static(range(3)):
                        g = lit_bar[m, f, corner, k]
                        albedo_bar[row_albedo, f, corner, k] += g * received
                        received_bar[k] += g * albedo[row_albedo, f, corner, k]
                ambient_sum += received_bar
                if cosine > 0:
                    intensity_bar += received_bar * cosine
                    cosine_bar = received_bar.dot(intensity)
                    towards_bar += n * cosine_bar
                    # n = N / |N| with N = (b - a) x (c - a)
                    area_bar = (towards - n * cosine) * (cosine_bar * inverse_area)
                    b_bar = (c - a).cross(area_bar)
                    c_bar = area_bar.cross(b - a)
                    for k in ti.static(range(3)):
                        vertices_world_bar[m, v0, k] -= b_bar[k] + c_bar[k]
                        vertices_world_bar[m, v1, k] += b_bar[k]
                        vertices_world_bar[m, v2, k] += c_bar[k]
        for k in ti.static(range(3)):
            ambient_bar[row_ambient, k] += ambient_sum[k]
        add_light(light_bar, row_light, towards, inverse_length, towards_bar, intensity_bar)
