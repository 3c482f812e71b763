"""Unit normals of the faces and of smooth groups of corners.

Row g < G of an image's normals is that of group g: the normalised sum of the area-weighted normals of the faces with a corner in
the group; row G + f is the normal of face f. Each corner of a face has the index of its row.
"""

from ti_sim.base.bundles import Array, bundle, kernel
from ti_sim.base.differentiable import differentiable, normalize
from ti_sim.base.rows import load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Squared doubled area [m4] at or below which the normal of a face or group is zero.
MIN_SQUARED_AREA = 1e-32


@bundle
class NormalRows:
    """Which faces the rows of the normals belong to; int32, of ``MeshTopology``.

    Attributes:
        corners: [F, 8], see ``arrays.CORNER``.
        group_start: [G + 1] first entry of every smooth group in ``group_faces``.
        group_faces: faces of the groups.
    """

    corners: Array
    group_start: Array
    group_faces: Array


@differentiable()
def doubled_area_vector(a, b, c):
    """Unit normal of a triangle times its doubled area [m2]."""
    return (b - a).cross(c - a)


@differentiable()
def unit_normal(area_vector):
    """``area_vector`` scaled to length one; zero if its squared length is at most MIN_SQUARED_AREA."""
    return normalize(area_vector, min_squared=MIN_SQUARED_AREA)


@ti.func
def _corner(vertices: ti.template(), corners: ti.template(), m, f, k):
    return load_vec3(vertices, m, corners[f, k], 0)


@ti.func
def _area_vector(vertices: ti.template(), corners: ti.template(), m, f):
    return doubled_area_vector.value(
        _corner(vertices, corners, m, f, 0), _corner(vertices, corners, m, f, 1), _corner(vertices, corners, m, f, 2)
    )


@ti.func
def _row_area_vector(vertices: ti.template(), rows: ti.template(), m, i):
    """Area vector of row ``i`` of the normals; zero where it is not finite."""
    groups = rows.group_start.shape[0] - 1
    area_vector = vec3(0)
    if i >= groups:
        area_vector = _area_vector(vertices, rows.corners, m, i - groups)
    else:
        for j in range(rows.group_start[i], rows.group_start[i + 1]):
            area_vector += _area_vector(vertices, rows.corners, m, rows.group_faces[j])
    squared_area = area_vector.dot(area_vector)
    if ti.math.isnan(squared_area) or ti.math.isinf(squared_area):
        area_vector = vec3(0)
    return area_vector


@kernel
def find_normals(serial: ti.template(), vertices_world: ti.types.ndarray(), rows: NormalRows, normals: ti.types.ndarray()):
    """Find the normals of every image.

    Reads vertices_world [M, V, 3] [m]. Writes normals [M, G + F, 3]. Adjoint: ``find_normals_adjoint``; tangent:
    ``find_normals_jvp``.
    """
    ti.loop_config(serialize=serial)
    for m, i in ti.ndrange(vertices_world.shape[0], normals.shape[1]):
        normal = unit_normal.value(_row_area_vector(vertices_world, rows, m, i))
        for k in ti.static(range(3)):
            normals[m, i, k] = normal[k]


@ti.func
def _add_area_adjoint(vertices: ti.template(), corners: ti.template(), m, f, area_vector_bar, vertices_bar: ti.template()):
    bars = doubled_area_vector.vjp(
        (_corner(vertices, corners, m, f, 0), _corner(vertices, corners, m, f, 1), _corner(vertices, corners, m, f, 2)),
        area_vector_bar,
    )
    for corner, k in ti.static(ti.ndrange(3, 3)):
        vertices_bar[m, corners[f, corner], k] += bars[corner][k]


@kernel
def find_normals_adjoint(
    serial: ti.template(), vertices_world: ti.types.ndarray(), rows: NormalRows, normals_bar: ti.types.ndarray(),
    vertices_world_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``find_normals``: adds to vertices_world_bar [M, V, 3]. Rows whose adjoint is zero are skipped."""
    groups = rows.group_start.shape[0] - 1
    ti.loop_config(serialize=serial)
    for m, i in ti.ndrange(vertices_world.shape[0], normals_bar.shape[1]):
        normal_bar = load_vec3(normals_bar, m, i, 0)
        if normal_bar[0] != 0 or normal_bar[1] != 0 or normal_bar[2] != 0:
            area_vector_bar = unit_normal.vjp(_row_area_vector(vertices_world, rows, m, i), normal_bar)
            if i >= groups:
                _add_area_adjoint(vertices_world, rows.corners, m, i - groups, area_vector_bar, vertices_world_bar)
            else:
                for j in range(rows.group_start[i], rows.group_start[i + 1]):
                    _add_area_adjoint(vertices_world, rows.corners, m, rows.group_faces[j], area_vector_bar, vertices_world_bar)


@ti.func
def _area_tangent(vertices: ti.template(), dots: ti.template(), corners: ti.template(), m, f, c):
    v0, v1, v2 = corners[f, 0], corners[f, 1], corners[f, 2]
    return doubled_area_vector.jvp(
        (load_vec3(vertices, m, v0, 0), load_vec3(vertices, m, v1, 0), load_vec3(vertices, m, v2, 0)),
        (
            vec3(dots[m, v0, c, 0], dots[m, v0, c, 1], dots[m, v0, c, 2]),
            vec3(dots[m, v1, c, 0], dots[m, v1, c, 1], dots[m, v1, c, 2]),
            vec3(dots[m, v2, c, 0], dots[m, v2, c, 1], dots[m, v2, c, 2]),
        ),
    )


@kernel
def find_normals_jvp(
    vertices_world: ti.types.ndarray(), rows: NormalRows, vertices_world_dot: ti.types.ndarray(), normals_dot: ti.types.ndarray()
):
    """Tangent of ``find_normals``: reads vertices_world_dot [M, V, K, 3], writes normals_dot [M, G + F, K, 3]."""
    groups = rows.group_start.shape[0] - 1
    for m, i, c in ti.ndrange(vertices_world.shape[0], normals_dot.shape[1], normals_dot.shape[2]):
        area_vector = _row_area_vector(vertices_world, rows, m, i)
        area_vector_dot = vec3(0)
        if i >= groups:
            area_vector_dot = _area_tangent(vertices_world, vertices_world_dot, rows.corners, m, i - groups, c)
        else:
            for j in range(rows.group_start[i], rows.group_start[i + 1]):
                area_vector_dot += _area_tangent(vertices_world, vertices_world_dot, rows.corners, m, rows.group_faces[j], c)
        result = unit_normal.jvp(area_vector, area_vector_dot)
        for k in ti.static(range(3)):
            normals_dot[m, i, c, k] = result[k]
