"""The place where a line touches a mesh is that of its largest depth, compared with many points along the line."""

import numpy as np
import pytest

from tests.reference.contact_cases import as_mesh
from ti_sim import Box
from ti_sim.base.bundles import Array, Static, bundle, kernel
from ti_sim.base.runtime import ti, without_cfg_optimisation
from ti_sim.base.vecmath import vec3
from ti_sim.contact.collision import mesh_rows, mesh_shape, shape_rows
from ti_sim.contact.shape_distance import deepest_on_line, shape_distance

LINES, POINTS = 1000, 1000


@bundle
class Shapes:
    """The arrays of ``WorldArrays`` that the distance of a shape needs."""

    mesh: Array
    shape: Array
    mesh_data: Array
    with_meshes: Static


@kernel
def search(world: Shapes, line: ti.types.ndarray(), radius: float, points: int, result: ti.types.ndarray()):
    """Depth at the place of ``deepest_on_line`` times its window, and the largest one of many points, [L, 2].

    A line [L, 7] is its middle, a unit vector along it, and half its length.
    """
    for n in range(line.shape[0]):
        c, k, h = vec3(line[n, 0], line[n, 1], line[n, 2]), vec3(line[n, 3], line[n, 4], line[n, 5]), line[n, 6]
        place, touches = deepest_on_line(world, 0, c, k, h, radius)
        for m in range(-1, points):
            s = place
            if m >= 0:
                s = h * (2.0 * m / (points - 1) - 1)
            distance, _direction, _slope, _bend = shape_distance(world, 0, c + s * k, 1.0, False)
            depth = (1 - s * s / (h * h)) * (radius - distance)
            if m == -1:
                result[n, 0] = ti.select(touches, depth, 0.0)
            else:
                result[n, 1] = ti.max(result[n, 1], depth)


def lines_into(half: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Lines [LINES, 7] that enter a face of a box beside one of its edges, and stay up to 1.5 mm below the next face."""
    axes = rng.permuted(np.tile(np.arange(3), (LINES, 1)), axis=1)
    across, below, third = (np.eye(3)[axes[:, k]] for k in range(3))
    signs = rng.choice([-1, 1], (3, LINES, 1))
    along = signs[0] * across + rng.uniform(-0.05, 0.05, (LINES, 1)) * below + rng.uniform(-0.5, 0.5, (LINES, 1)) * third
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    place = half * (signs[0] * across + signs[1] * below + rng.uniform(-0.8, 0.8, (LINES, 1)) * third)
    place -= rng.uniform(2e-4, 1.5e-3, (LINES, 1)) * signs[1] * below
    return np.concatenate([place - 0.03 * rng.uniform(-0.8, 0.8, (LINES, 1)) * along, along, np.full((LINES, 1), 0.03)], axis=1)


@pytest.mark.parametrize("radius", [1e-4, 4e-3])
def test_lines_touch_at_the_largest_of_all_maxima(radius: float) -> None:
    """The depth along a line beside a ridge of the spline has several maxima, which may be millimetres apart and nearly equal."""
    sides = (0.08, 0.06, 0.05)
    solid = mesh_shape(as_mesh(Box(*sides)))
    mesh, sample = mesh_rows((solid,))
    line = lines_into(0.5 * np.array(sides), np.random.default_rng(4))
    line[:, :3] += 0.7 * radius * np.sign(line[:, :3])
    result = np.zeros((LINES, 2))
    without_cfg_optimisation(search)(Shapes(mesh, shape_rows((solid,), np.ones(1)), sample, True), line, radius, POINTS, result)
    assert (result[:, 1] > 1e-5).sum() > 0.8 * LINES
    assert (result[:, 0] > result[:, 1] - (1e-8 if radius < 1e-3 else 1e-6)).all()  # the distance bends beyond the grid
