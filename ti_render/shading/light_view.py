"""The scene seen from its directional lights: screen positions and depths of the vertices for the shadow maps."""

from ti_render.rows import is_finite
from ti_render.shading.shadow_lookup import CENTRE, RADIUS, light_space
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _ball_frame(frame: ti.template()):
    return vec3(frame[CENTRE], frame[CENTRE + 1], frame[CENTRE + 2]), 1.0 / frame[RADIUS]


@ti.kernel
def view_from_lights(
    vertices_world: ti.types.ndarray(), uniforms: ti.types.ndarray(), frame: ti.types.ndarray(), lights: int,
    screen: ti.types.ndarray(),
):  # fmt: skip
    """Project the vertices along the lights.

    Reads vertices_world [M, V, 3], the lights of uniforms [M, U] and the frame, writes screen [M L, V, 3] (depth -1 for vertices
    that are not finite). Adjoint: ``view_from_lights_adjoint``; tangent: ``view_from_lights_jvp``.
    """
    for i, v in ti.ndrange(screen.shape[0], screen.shape[1]):
        m, light = i // lights, i % lights
        centre, inverse_radius = _ball_frame(frame)
        position = light_space.value(
            load_vec3(vertices_world, m, v, 0), uniform3(uniforms, m, light_column(light)), centre, inverse_radius
        )
        if not (is_finite(position[0]) and is_finite(position[1]) and is_finite(position[2])) or position[2] < 2.0:
            position = vec3(0.0, 0.0, -1.0)
        for k in ti.static(range(3)):
            screen[i, v, k] = position[k]


@ti.kernel
def view_from_lights_adjoint(
    serial: ti.template(), vertices_world: ti.types.ndarray(), uniforms: ti.types.ndarray(), frame: ti.types.ndarray(),
    lights: int, screen: ti.types.ndarray(), screen_bar: ti.types.ndarray(), vertices_world_bar: ti.types.ndarray(),
    uniforms_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``view_from_lights``: adds to vertices_world_bar [M, V, 3] and uniforms_bar [M, U]."""
    ti.loop_config(serialize=serial)
    for i in range(screen.shape[0]):
        m, light = i // lights, i % lights
        centre, inverse_radius = _ball_frame(frame)
        to_light = uniform3(uniforms, m, light_column(light))
        to_light_sum = vec3(0)
        for v in range(screen.shape[1]):
            position_bar = load_vec3(screen_bar, i, v, 0)
            if screen[i, v, 2] > 0 and (position_bar[0] != 0 or position_bar[1] != 0 or position_bar[2] != 0):
                vertex_bar, to_light_bar, _c, _r = light_space.vjp(
                    (load_vec3(vertices_world, m, v, 0), to_light, centre, inverse_radius), position_bar
                )
                to_light_sum += to_light_bar
                for k in ti.static(range(3)):
                    vertices_world_bar[m, v, k] += vertex_bar[k]
        for k in ti.static(range(3)):
            uniforms_bar[m, light_column(light) + k] += to_light_sum[k]


@ti.kernel
def view_from_lights_jvp(
    vertices_world: ti.types.ndarray(), uniforms: ti.types.ndarray(), frame: ti.types.ndarray(), lights: int,
    screen: ti.types.ndarray(), vertices_world_dot: ti.types.ndarray(), uniforms_dot: ti.types.ndarray(),
    screen_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``view_from_lights``: writes screen_dot [M L, V, K, 3].

    Reads the tangents vertices_world_dot [M, V, K, 3] and uniforms_dot [M K, U].
    """
    for i, v, c in ti.ndrange(screen.shape[0], screen.shape[1], screen_dot.shape[2]):
        m, column = i // lights, light_column(i % lights)
        uniforms_row = m * screen_dot.shape[2] + c
        centre, inverse_radius = _ball_frame(frame)
        result = vec3(0)
        if screen[i, v, 2] > 0:
            result = light_space.jvp(
                (load_vec3(vertices_world, m, v, 0), uniform3(uniforms, m, column), centre, inverse_radius),
                (
                    vec3(vertices_world_dot[m, v, c, 0], vertices_world_dot[m, v, c, 1], vertices_world_dot[m, v, c, 2]),
                    uniform3(uniforms_dot, uniforms_row, column), 0.0, 0.0,
                ),
            )  # fmt: skip
        for k in ti.static(range(3)):
            screen_dot[i, v, c, k] = result[k]
