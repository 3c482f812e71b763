"""Distance fields of meshes: values against closed forms, continuity, adjoint, several closed parts, and bad input."""

import numpy as np
import pytest

from ti_sim import Box, Mesh, Sphere, TriangleMesh
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import offset_from_box, vec3
from ti_sim.shapes.distance import DistanceField, sample_distance, signed_distance
from ti_sim.shapes.distance_kernels import grid_distance
from ti_sim.shapes.surface import single_group_mesh


@ti.kernel
def evaluate(
    sample: ti.types.ndarray(), grid: ti.types.ndarray(), nx: int, ny: int, nz: int, reach: float,
    x: ti.types.ndarray(), result: ti.types.ndarray(), result_bar: ti.types.ndarray(), x_bar: ti.types.ndarray(),
):  # fmt: skip
    """Distance and direction at points x [P, 3], and the adjoint of x for result_bar [P, 4]."""
    for p in range(x.shape[0]):
        place, low = vec3(x[p, 0], x[p, 1], x[p, 2]), vec3(grid[0], grid[1], grid[2])
        nodes = ti.Vector([nx, ny, nz])
        distance, direction, slope, bend = grid_distance(sample, 0, nodes, low, grid[3], place, reach, True)
        bar = result_bar[p, 0] * slope + bend @ vec3(result_bar[p, 1], result_bar[p, 2], result_bar[p, 3])
        result[p, 0] = distance
        for k in ti.static(range(3)):
            result[p, 1 + k] = direction[k]
            x_bar[p, k] = bar[k]


@ti.kernel
def offsets(x: ti.types.ndarray(), low: ti.types.ndarray(), high: ti.types.ndarray(), result: ti.types.ndarray()):
    """Offsets of points x [P, 3], which are products here, from a box [P, 3]."""
    for p in range(x.shape[0]):
        place = vec3(x[p, 0], x[p, 1], x[p, 2]) * 0.1
        apart = offset_from_box(place, vec3(low[0], low[1], low[2]), vec3(high[0], high[1], high[2]))
        for k in ti.static(range(3)):
            result[p, k] = apart[k]


def at(
    field: DistanceField, x: np.ndarray, bar: np.ndarray | None = None, *, reach: float = 1e9
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and directions [P, 4] at points [P, 3], and the adjoint of the points."""
    result, x_bar = np.zeros((len(x), 4)), np.zeros(x.shape)
    grid = np.array([*field.low, field.cell])
    bar = np.zeros((len(x), 4)) if bar is None else bar
    evaluate(field.coefficients.ravel(), grid, *field.coefficients.shape, reach, x, result, bar, x_bar)
    return result, x_bar


def to_box(x: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Signed distance of points [..., 3] to a box."""
    beyond = np.abs(x) - half
    return np.linalg.norm(np.maximum(beyond, 0), axis=-1) + np.minimum(beyond.max(axis=-1), 0)


def nodes(low: np.ndarray, cell: float, counts: tuple[int, int, int]) -> np.ndarray:
    return low + cell * np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1)


def joined(*meshes: TriangleMesh) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of several meshes."""
    offsets = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])
    faces = [mesh.faces + offset for mesh, offset in zip(meshes, offsets, strict=False)]
    return np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces)


def test_nodes_hold_the_distance_to_a_box_at_faces_edges_and_corners() -> None:
    sides, low, cell, counts = np.array([0.9, 0.5, 0.3]), np.array([-0.7, -0.51, -0.4]), 0.06, (23, 18, 14)
    mesh = Box(*sides).surface()
    distance = signed_distance(mesh.vertices, mesh.faces, low, cell, counts)
    np.testing.assert_allclose(distance, to_box(nodes(low, cell, counts), sides / 2), atol=1e-14)


def test_parts_are_joined_and_parts_that_look_inwards_are_cavities() -> None:
    low, cell, counts = np.full(3, -0.83), 0.09, (19, 19, 19)
    x, shift = nodes(low, cell, counts), np.array([0.3, 0.1, 0.0])
    one, other = Box(0.8, 0.6, 0.4).surface(), Box(0.5, 0.5, 0.9).surface().transformed(offset=shift)
    distance = signed_distance(*joined(one, other), low, cell, counts)
    expected = np.minimum(to_box(x, np.array([0.4, 0.3, 0.2])), to_box(x - shift, np.array([0.25, 0.25, 0.45])))
    np.testing.assert_allclose(distance, expected, atol=1e-14)
    hole = Box(0.4, 0.3, 0.2).surface()
    shell = joined(one, single_group_mesh(hole.vertices, hole.faces[:, ::-1]))
    distance = signed_distance(*shell, low, cell, counts)
    expected = np.maximum(to_box(x, np.array([0.4, 0.3, 0.2])), -to_box(x, np.array([0.2, 0.15, 0.1])))
    np.testing.assert_allclose(distance, expected, atol=1e-14)


def test_field_of_a_ball_in_and_beyond_its_grid() -> None:
    """An inscribed polyhedron of 1,280 faces is up to 0.4 % of the radius inside the ball."""
    field = Sphere(0.5, subdivisions=3).distance_field
    rng = np.random.default_rng(0)
    direction = rng.standard_normal((500, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.uniform(0.2, 1.5, (500, 1))
    result, _ = at(field, radius * direction)
    near = radius[:, 0] < 0.6
    np.testing.assert_allclose(result[near, 0], radius[near, 0] - 0.5, atol=0.003)
    np.testing.assert_allclose(result[~near, 0], radius[~near, 0] - 0.5, atol=0.08)
    np.testing.assert_allclose(result[near, 1:], direction[near], atol=0.12)
    far, _ = at(field, np.array([[2.0, 0.0, 0.0]]), reach=0.5)
    assert far[0, 0] > 1e6


def test_field_of_a_box_is_exact_off_its_edges() -> None:
    box = Box(1.0, 0.5, 0.3)
    field = Mesh(vertices=box.surface().vertices + 3.0, faces=box.surface().faces).distance_field  # about its centre
    x = np.array([[0.1, 0.05, 0.14], [0.3, -0.1, 0.17], [0.3, 0.1, -0.3], [-0.46, 0.02, 0.01], [0.0, 0.26, 0.02]])
    result, _ = at(field, x)
    np.testing.assert_allclose(result[:, 0], to_box(x, np.array([0.5, 0.25, 0.15])), atol=1e-12)
    np.testing.assert_allclose(result[:, 1:], [[0, 0, 1], [0, 0, 1], [0, 0, -1], [-1, 0, 0], [0, 1, 0]], atol=1e-10)


WEDGE = Mesh(
    vertices=np.array([[0, 0, 0], [1, 0, 0], [0, 0.8, 0], [0.2, 0.1, 0.6]], dtype=float),
    faces=np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
)


def test_adjoint_against_central_differences_in_and_beyond_the_grid() -> None:
    """Kinks lie on planes half-way between the nodes and on the grid's border; points so close to them are not drawn."""
    field, rng, step = WEDGE.distance_field, np.random.default_rng(1), 1e-6
    x = rng.uniform(-0.8, 0.8, (300, 3))
    bar = rng.standard_normal((300, 4))
    u = (x - field.low) / field.cell
    safe = (np.abs(u % 1 - 0.5) > 1e-4).all(axis=1)
    result, x_bar = at(field, x, bar)
    differences = np.zeros_like(x)
    for k in range(3):
        up, down = (at(field, x + sign * step * np.eye(3)[k])[0] for sign in (1, -1))
        differences[:, k] = np.sum(bar * (up - down), axis=1) / (2 * step)
    sharp = np.abs(x_bar).max(axis=1) > 1e3  # next to a place without gradient
    assert safe.sum() > 280 and sharp.sum() < 5
    chosen = safe & ~sharp
    np.testing.assert_allclose(x_bar[chosen], differences[chosen], rtol=1e-5, atol=1e-6)


def test_a_point_within_a_box_is_exactly_there() -> None:
    low, high, x = np.array([-0.1, -0.2, 0.0]), np.array([0.1, 0.1, 0.3]), np.random.default_rng(0).uniform(-4, 4, (500, 3))
    result = np.full(x.shape, np.nan)
    offsets(x, low, high, result)
    wanted = 0.1 * x - np.clip(0.1 * x, low, high)
    np.testing.assert_allclose(result, wanted, atol=1e-16)
    assert ((result == 0) == (wanted == 0)).all() and (wanted == 0).any(axis=0).all() and (wanted != 0).any(axis=0).all()


def test_gap_and_normal_are_continuous() -> None:
    field = WEDGE.distance_field
    along = np.linspace(-0.9, 0.9, 20001)
    x = np.stack([along, 0.1 + 0.2 * along, 0.05 - 0.1 * along], axis=1)
    result, _ = at(field, x)
    jumps = np.abs(np.diff(result, axis=0)).max(axis=0)
    assert jumps[0] < 2e-4 and jumps[1:].max() < 2e-2


def test_a_shape_has_one_field_and_its_cells_can_be_chosen() -> None:
    assert WEDGE.distance_field is WEDGE.distance_field
    surface = Box(0.4, 0.2, 0.2).surface()
    fine = Mesh(vertices=surface.vertices, faces=surface.faces, field_cells=16)
    assert fine.distance_field.coefficients.shape == (21, 13, 13)
    inside = Mesh(vertices=surface.vertices, faces=surface.faces, collision=Box(0.2, 0.2, 0.1))
    result, _ = at(inside.distance_field, np.array([[0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(result[0, 0], -0.05, atol=5e-3)
    thin = Box(1.0, 1.0, 0.02).distance_field
    assert 0.002 < thin.cell < 0.01 and thin.coefficients.size <= 64**3


def test_bad_input() -> None:
    with pytest.raises(UserError, match="1 x 1 x 0.01 m with cells of 0.125 m has no node inside it: use more cells"):
        sample_distance(Box(1.0, 1.0, 0.01).surface().transformed(offset=np.array([0.0, 0.0, 0.011])), cells=8)
    with pytest.raises(UserError, match="field_cells is 2: give a whole number from 4 to 512"):
        Mesh(vertices=WEDGE.vertices, faces=WEDGE.faces, field_cells=2)
