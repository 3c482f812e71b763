"""World points to the screen: pinhole projection into NDC of the shorter image side."""

from ti_render.geometry.pose import VERTICES_PER_THREAD
from ti_render.rows import is_finite, row_of
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

# Screen coordinates beyond this bound make a vertex invisible: their squares would overflow f32.
SCREEN_LIMIT = 1e6


@ti.func
def camera_rotation(camera: ti.template(), r):
    """R of camera row ``r``."""
    return mat3(
        camera[r, 4], camera[r, 5], camera[r, 6],
        camera[r, 7], camera[r, 8], camera[r, 9],
        camera[r, 10], camera[r, 11], camera[r, 12],
    )  # fmt: skip


@ti.func
def camera_translation(camera: ti.template(), r):
    """Translation t of camera row ``r``."""
    return vec3(camera[r, 13], camera[r, 14], camera[r, 15])


@ti.kernel
def project(
    serial: ti.template(), vertices_world: ti.types.ndarray(), camera: ti.types.ndarray(), width: int, height: int, near: float,
    screen: ti.types.ndarray(),
):  # fmt: skip
    """Project the vertices of every image.

    Reads vertices_world [M, V, 3] [m] and camera [n, 16]. Writes screen [M, V, 3] = (sx, sy, depth [m]) with
    sx = (u - width / 2) 2 / min(width, height), sy likewise downwards; a vertex that is nearer than ``near`` or not finite
    gets (0, 0, -1), and the faces that use it are left out. Adjoint: ``project_adjoint``, by hand.
    """
    scale = 2.0 / ti.min(width, height)
    images = vertices_world.shape[0]
    ti.loop_config(serialize=serial)
    for m, v in ti.ndrange(images, vertices_world.shape[1]):
        r = row_of(m, camera.shape[0], images)
        p = camera_rotation(camera, r) @ vec3(
            vertices_world[m, v, 0], vertices_world[m, v, 1], vertices_world[m, v, 2]
        ) + camera_translation(camera, r)
        x, y, z = 0.0, 0.0, -1.0
        if is_finite(p[0]) and is_finite(p[1]) and is_finite(p[2]):
            if p[2] >= near:
                inverse_depth = 1.0 / p[2]
                sx = (camera[r, 0] * p[0] * inverse_depth + camera[r, 2] - 0.5 * width) * scale
                sy = (camera[r, 1] * p[1] * inverse_depth + camera[r, 3] - 0.5 * height) * scale
                if is_finite(sx) and is_finite(sy):
                    if ti.abs(sx) < SCREEN_LIMIT and ti.abs(sy) < SCREEN_LIMIT:
                        x, y, z = sx, sy, p[2]
        screen[m, v, 0] = x
        screen[m, v, 1] = y
        screen[m, v, 2] = z


@ti.kernel
def project_adjoint(
    serial: ti.template(),
    vertices_world: ti.types.ndarray(), camera: ti.types.ndarray(), width: int, height: int, screen: ti.types.ndarray(),
    screen_bar: ti.types.ndarray(), vertices_world_bar: ti.types.ndarray(), camera_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``project``: adds to vertices_world_bar [M, V, 3] and camera_bar [n, 16].

    Reads the inputs and the result of ``project`` and screen_bar [M, V, 3]. A thread sums a chunk of vertices and adds once
    to the camera's adjoint. Vertices that are not visible have no adjoint.
    """
    scale = 2.0 / ti.min(width, height)
    images, vertices = vertices_world.shape[0], vertices_world.shape[1]
    ti.loop_config(serialize=serial)
    for m, chunk in ti.ndrange(images, (vertices + VERTICES_PER_THREAD - 1) // VERTICES_PER_THREAD):
        r = row_of(m, camera.shape[0], images)
        rotation = camera_rotation(camera, r)
        translation = camera_translation(camera, r)
        rotation_bar = mat3(0)
        translation_bar = vec3(0)
        fx_bar, fy_bar, cx_bar, cy_bar = 0.0, 0.0, 0.0, 0.0
        any_visible = 0
        for v in range(chunk * VERTICES_PER_THREAD, ti.min((chunk + 1) * VERTICES_PER_THREAD, vertices)):
            sx_bar, sy_bar, depth_bar = screen_bar[m, v, 0] * scale, screen_bar[m, v, 1] * scale, screen_bar[m, v, 2]
            if screen[m, v, 2] > 0 and (sx_bar != 0 or sy_bar != 0 or depth_bar != 0):
                any_visible = 1
                world = vec3(vertices_world[m, v, 0], vertices_world[m, v, 1], vertices_world[m, v, 2])
                p = rotation @ world + translation
                inverse_depth = 1.0 / p[2]
                x, y = p[0] * inverse_depth, p[1] * inverse_depth
                cx_bar += sx_bar
                cy_bar += sy_bar
                fx_bar += sx_bar * x
                fy_bar += sy_bar * y
                sx_bar *= camera[r, 0] * inverse_depth
                sy_bar *= camera[r, 1] * inverse_depth
                p_bar = vec3(sx_bar, sy_bar, depth_bar - sx_bar * x - sy_bar * y)
                translation_bar += p_bar
                rotation_bar += outer(p_bar, world)
                world_bar = rotation.transpose() @ p_bar
                for k in ti.static(range(3)):
                    vertices_world_bar[m, v, k] += world_bar[k]
        if any_visible == 1:
            camera_bar[r, 0] += fx_bar
            camera_bar[r, 1] += fy_bar
            camera_bar[r, 2] += cx_bar
            camera_bar[r, 3] += cy_bar
            for i, j in ti.static(ti.ndrange(3, 3)):
                camera_bar[r, 4 + 3 * i + j] += rotation_bar[i, j]
            for k in ti.static(range(3)):
                camera_bar[r, 13 + k] += translation_bar[k]


@ti.kernel
def project_jvp(
    vertices_world: ti.types.ndarray(), camera: ti.types.ndarray(), width: int, height: int, screen: ti.types.ndarray(),
    vertices_world_dot: ti.types.ndarray(), camera_dot: ti.types.ndarray(), screen_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``project``: writes screen_dot [M, V, K, 3] (zero for vertices that are not visible).

    Reads the inputs and the result of ``project`` and the tangents vertices_world_dot [M, V, K, 3], camera_dot [K, n, 16].
    """
    scale = 2.0 / ti.min(width, height)
    images, columns = vertices_world.shape[0], screen_dot.shape[2]
    for m, v, c in ti.ndrange(images, vertices_world.shape[1], columns):
        r = row_of(m, camera.shape[0], images)
        result = vec3(0)
        if screen[m, v, 2] > 0:
            world = vec3(vertices_world[m, v, 0], vertices_world[m, v, 1], vertices_world[m, v, 2])
            world_dot = vec3(vertices_world_dot[m, v, c, 0], vertices_world_dot[m, v, c, 1], vertices_world_dot[m, v, c, 2])
            rotation = camera_rotation(camera, r)
            p = rotation @ world + camera_translation(camera, r)
            p_dot = rotation @ world_dot
            for i in ti.static(range(3)):
                p_dot[i] += camera_dot[c, r, 13 + i]
                for j in ti.static(range(3)):
                    p_dot[i] += camera_dot[c, r, 4 + 3 * i + j] * world[j]
            inverse_depth = 1.0 / p[2]
            x, y = p[0] * inverse_depth, p[1] * inverse_depth
            x_dot, y_dot = (p_dot[0] - x * p_dot[2]) * inverse_depth, (p_dot[1] - y * p_dot[2]) * inverse_depth
            result = vec3(
                (camera_dot[c, r, 0] * x + camera[r, 0] * x_dot + camera_dot[c, r, 2]) * scale,
                (camera_dot[c, r, 1] * y + camera[r, 1] * y_dot + camera_dot[c, r, 3]) * scale,
                p_dot[2],
            )
        for k in ti.static(range(3)):
            screen_dot[m, v, c, k] = result[k]
