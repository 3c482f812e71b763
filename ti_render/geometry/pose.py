"""Rest vertices moved by their bodies: p_world = p + R(q) p_rest (vertices of no body stay)."""

from ti_render.rows import row_of
from ti_sim.base.differentiable import Vector, differentiable
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, rotation_matrix, rotation_matrix_adjoint, vec3, vec4

# Vertices that one thread of an adjoint kernel sums over before it adds to shared memory.
VERTICES_PER_THREAD = 64


@ti.func
def _rest_vertex(vertices_rest: ti.template(), m, images, v):
    x = vec3(0)
    if ti.static(len(vertices_rest.shape) == 2):
        x = vec3(vertices_rest[v, 0], vertices_rest[v, 1], vertices_rest[v, 2])
    else:
        r = row_of(m, vertices_rest.shape[0], images)
        x = vec3(vertices_rest[r, v, 0], vertices_rest[r, v, 1], vertices_rest[r, v, 2])
    return x


@ti.func
def _add_rest_vertex_adjoint(vertices_rest_bar: ti.template(), m, images, v, vertex_bar):
    if ti.static(len(vertices_rest_bar.shape) == 2):
        for k in ti.static(range(3)):
            vertices_rest_bar[v, k] += vertex_bar[k]
    else:
        r = row_of(m, vertices_rest_bar.shape[0], images)
        for k in ti.static(range(3)):
            vertices_rest_bar[r, v, k] += vertex_bar[k]


@ti.func
def _body_quaternion(body_q: ti.template(), m, n):
    return vec4(body_q[m, n, 3], body_q[m, n, 4], body_q[m, n, 5], body_q[m, n, 6])


@ti.func
def _add_body_adjoint(body_q_bar: ti.template(), body_q: ti.template(), m, n, position_bar, rotation_bar):
    quaternion_bar = rotation_matrix_adjoint(_body_quaternion(body_q, m, n), rotation_bar)
    for k in ti.static(range(3)):
        body_q_bar[m, n, k] += position_bar[k]
    for k in ti.static(range(4)):
        body_q_bar[m, n, 3 + k] += quaternion_bar[k]


@ti.kernel
def pose(
    serial: ti.template(), vertices_rest: ti.types.ndarray(), vertex_body: ti.types.ndarray(), body_q: ti.types.ndarray(),
    vertices_world: ti.types.ndarray(),
):  # fmt: skip
    """Move the vertices of every image.

    Reads vertices_rest [V, 3] or [n, V, 3] [m], vertex_body [V] (-1: of no body), body_q [M, N, 7] (position [m], quaternion
    xyzw of unit length; the rotation is the polynomial I + 2 w [v]x + 2 [v]x^2 and nothing is normalised).
    Writes vertices_world [M, V, 3] [m]. Adjoint: ``pose_adjoint``, by hand.
    """
    ti.loop_config(serialize=serial)
    for m, v in ti.ndrange(vertices_world.shape[0], vertices_world.shape[1]):
        x = _rest_vertex(vertices_rest, m, vertices_world.shape[0], v)
        n = vertex_body[v]
        if n >= 0:
            x = rotation_matrix(_body_quaternion(body_q, m, n)) @ x + vec3(body_q[m, n, 0], body_q[m, n, 1], body_q[m, n, 2])
        for k in ti.static(range(3)):
            vertices_world[m, v, k] = x[k]


@ti.kernel
def pose_adjoint(
    serial: ti.template(), vertices_rest: ti.types.ndarray(), vertex_body: ti.types.ndarray(), body_q: ti.types.ndarray(),
    vertices_world_bar: ti.types.ndarray(), vertices_rest_bar: ti.types.ndarray(), body_q_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``pose``: adds to vertices_rest_bar and body_q_bar (shapes of their inputs).

    Reads the inputs of ``pose`` and vertices_world_bar [M, V, 3]. A thread sums a chunk of vertices, and adds to shared
    memory once per run of vertices of the same body. Vertices whose adjoint is zero are skipped, so that an
    invisible body with a pose that is not finite does not affect the other adjoints.
    """
    images, vertices = vertices_world_bar.shape[0], vertices_world_bar.shape[1]
    ti.loop_config(serialize=serial)
    for m, chunk in ti.ndrange(images, (vertices + VERTICES_PER_THREAD - 1) // VERTICES_PER_THREAD):
        body = -1
        position_bar = vec3(0)
        rotation_bar = mat3(0)
        for v in range(chunk * VERTICES_PER_THREAD, ti.min((chunk + 1) * VERTICES_PER_THREAD, vertices)):
            vertex_bar = vec3(vertices_world_bar[m, v, 0], vertices_world_bar[m, v, 1], vertices_world_bar[m, v, 2])
            if vertex_bar[0] != 0 or vertex_bar[1] != 0 or vertex_bar[2] != 0:
                n = vertex_body[v]
                if n >= 0:
                    if n != body:
                        if body >= 0:
                            _add_body_adjoint(body_q_bar, body_q, m, body, position_bar, rotation_bar)
                        body = n
                        position_bar = vec3(0)
                        rotation_bar = mat3(0)
                    position_bar += vertex_bar
                    rotation_bar += outer(vertex_bar, _rest_vertex(vertices_rest, m, images, v))
                    vertex_bar = rotation_matrix(_body_quaternion(body_q, m, n)).transpose() @ vertex_bar
                _add_rest_vertex_adjoint(vertices_rest_bar, m, images, v, vertex_bar)
        if body >= 0:
            _add_body_adjoint(body_q_bar, body_q, m, body, position_bar, rotation_bar)


@differentiable()
def rotate(q, x):
    """R(q) x by the polynomial x + 2 w (v x x) + 2 v x (v x x) of the quaternion (v, w)."""
    v = Vector([q[0], q[1], q[2]])
    cross = v.cross(x)
    return x + cross * (q[3] * 2.0) + v.cross(cross) * 2.0


@ti.kernel
def pose_jvp(
    vertices_rest: ti.types.ndarray(), vertex_body: ti.types.ndarray(), body_q: ti.types.ndarray(),
    vertices_rest_dot: ti.types.ndarray(), body_q_dot: ti.types.ndarray(), vertices_world_dot: ti.types.ndarray(),
):  # fmt: skip
    """Tangent of ``pose``: writes vertices_world_dot [M, V, K, 3].

    Reads the inputs of ``pose`` and the tangents vertices_rest_dot [K, (n,) V, 3] and body_q_dot [K, M, N, 7].
    """
    images, columns = vertices_world_dot.shape[0], vertices_world_dot.shape[2]
    for m, v, c in ti.ndrange(images, vertices_world_dot.shape[1], columns):
        x_dot = vec3(0)
        if ti.static(len(vertices_rest.shape) == 2):
            x_dot = vec3(vertices_rest_dot[c, v, 0], vertices_rest_dot[c, v, 1], vertices_rest_dot[c, v, 2])
        else:
            r = row_of(m, vertices_rest.shape[0], images)
            x_dot = vec3(vertices_rest_dot[c, r, v, 0], vertices_rest_dot[c, r, v, 1], vertices_rest_dot[c, r, v, 2])
        n = vertex_body[v]
        if n >= 0:
            q_dot = vec4(body_q_dot[c, m, n, 3], body_q_dot[c, m, n, 4], body_q_dot[c, m, n, 5], body_q_dot[c, m, n, 6])
            x_dot = rotate.jvp((_body_quaternion(body_q, m, n), _rest_vertex(vertices_rest, m, images, v)), (q_dot, x_dot))
            x_dot += vec3(body_q_dot[c, m, n, 0], body_q_dot[c, m, n, 1], body_q_dot[c, m, n, 2])
        for k in ti.static(range(3)):
            vertices_world_dot[m, v, c, k] = x_dot[k]
