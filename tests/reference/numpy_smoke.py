"""Smoke by plain numpy, one world, loops over cells: what the kernels of ``ti_sim.smoke`` compute."""

from __future__ import annotations

from functools import partial

import numpy as np


def velocity_at(kind: str, x: np.ndarray, y: np.ndarray, i: int, j: int) -> tuple[float, float]:
    """Velocity where a value lies; faces beyond the walls are still."""

    def of(field: np.ndarray, a: int, b: int) -> float:
        return field[a, b] if 0 <= a < field.shape[0] and 0 <= b < field.shape[1] else 0.0

    if kind == "centre":
        return (x[i, j] + x[i + 1, j]) / 2, (y[i, j] + y[i, j + 1]) / 2
    if kind == "x":
        return x[i, j], sum(of(y, i - 1 + k, j + m) for k in (0, 1) for m in (0, 1)) / 4
    return sum(of(x, i + k, j - 1 + m) for k in (0, 1) for m in (0, 1)) / 4, y[i, j]


def mirrored(field: np.ndarray, kind: str, i: int, j: int) -> float:
    """Value of a node, mirrored at the walls; velocities across a wall, which lie on it, with the other sign."""
    sign = 1.0
    index = [i, j]
    for axis, name in enumerate("xy"):
        last = field.shape[axis] - 1
        if index[axis] < 0 or index[axis] > last:
            middle = 0.0 if index[axis] < 0 else last  # of the mirror
            if kind == name:
                sign = -sign
            else:
                middle += -0.5 if index[axis] < 0 else 0.5
            index[axis] = round(2 * middle - index[axis])
    return sign * field[index[0], index[1]]


def filled(field: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """A field with the mean of the nearest values outside obstacles inside them."""
    result, nodes = field.copy(), np.argwhere(outside)
    for i, j in np.argwhere(~outside):
        distance = np.hypot(*(nodes - (i, j)).T)
        nearest = nodes[np.isclose(distance, distance.min())]
        result[i, j] = field[nearest[:, 0], nearest[:, 1]].mean()
    return result


def bilinear(values: np.ndarray, p: float) -> float:
    """Between the second and the third of four values."""
    return (1 - p) * values[1] + p * values[2]


def cubic(values: np.ndarray, p: float, small: float | None = None) -> float:
    """Hermite's cubic between the second and the third of four values, with van Albada's slopes if ``small`` is given."""
    a = np.diff(values)
    weight = np.ones(3) if small is None else 1 / (a**2 + small)  # a mean in which the smaller difference weighs more
    slope = (weight[:-1] * a[:-1] + weight[1:] * a[1:]) / (weight[:-1] + weight[1:])
    basis = 2 * p**3 - 3 * p**2 + 1, p**3 - 2 * p**2 + p, -2 * p**3 + 3 * p**2, p**3 - p**2
    return float(np.dot(basis, (values[1], slope[0], values[2], slope[1])))


def most_beyond(steps: int) -> float:
    """How far densities from 0 to 1 get below 0 or above 1 at most in steps of cubic advection.

    One limited cubic between four values from 0 to 1 exceeds them by .00319 at most: the maximum over the values and places, for
    (1, 1, 0, .415) and .969 of the interval. A step has one cubic along each axis, and the range grows with each.
    """
    return ((1 + 2 * 0.00319) ** (2 * steps) - 1) / 2


def advected(
    kind: str, field: np.ndarray, x: np.ndarray, y: np.ndarray, is_open: np.ndarray, outside: np.ndarray, scale: float,
    *, advection: str, small: float,
) -> np.ndarray:  # fmt: skip
    """A field after advection; values that are not outside are inside obstacles."""

    def followed(field: np.ndarray, scale: float) -> np.ndarray:
        source, result = filled(field, outside), np.zeros_like(field)
        margin = np.array([0.0 if kind == name else 0.5 for name in "xy"])  # from the outermost nodes to the walls
        for i, j in np.argwhere(is_open):
            u, v = velocity_at(kind, x, y, i, j)
            at = np.clip([i - scale * u, j - scale * v], -margin, np.array(field.shape) - 1 + margin)
            node = np.minimum(np.floor(at), np.array(field.shape) - 2 + 2 * margin).astype(int)
            along = [[mirrored(source, kind, node[0] + k, node[1] + m) if advection == "cubic" or {k, m} <= {0, 1} else 0.0
                      for m in range(-1, 3)] for k in range(-1, 3)]  # fmt: skip
            limit = small if kind == "centre" else None
            between = partial(cubic, small=limit) if advection == "cubic" else bilinear
            p, q = at - node
            result[i, j] = between(np.array([between(np.array(values), q) for values in along]), p)
        return result

    ahead = followed(field, scale)
    if advection != "maccormack":
        return ahead
    return is_open * (ahead + 0.5 * (field - followed(ahead, -scale)))


def divergence(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What flows out of each cell, times its side."""
    return x[1:] - x[:-1] + y[:, 1:] - y[:, :-1]


def projected(x: np.ndarray, y: np.ndarray, open_x: np.ndarray, open_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest velocities without divergence, by least squares with the whole matrix of the divergence."""
    faces = [("x", *at) for at in np.argwhere(open_x)] + [("y", *at) for at in np.argwhere(open_y)]
    rows = []
    for name, i, j in faces:
        one_x, one_y = np.zeros(x.shape), np.zeros(y.shape)
        (one_x if name == "x" else one_y)[i, j] = 1
        rows.append(divergence(one_x, one_y).ravel())
    matrix = np.array(rows).T  # [cells, faces]
    u = np.concatenate([x[open_x], y[open_y]])
    # Each region of open cells leaves a singular value that is zero up to rounding; the others are near the greatest.
    u = u - np.linalg.pinv(matrix, rcond=1e-10) @ (matrix @ u)
    new_x, new_y = np.zeros_like(x), np.zeros_like(y)
    new_x[open_x], new_y[open_y] = u[: open_x.sum()], u[open_x.sum() :]
    return new_x, new_y


def laplacian(field: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
    """Differences to the neighbours that count; none beyond the walls."""
    padded = np.pad(field, 1, mode="edge")
    counts = np.pad(np.ones_like(field) if counted is None else counted.astype(float), 1)
    total = np.zeros_like(field)
    for rows, columns in ((slice(2, None), slice(1, -1)), (slice(-2), slice(1, -1)), (slice(1, -1), slice(2, None)),
                          (slice(1, -1), slice(-2))):  # fmt: skip
        total += counts[rows, columns] * (padded[rows, columns] - field)
    return total


def confining(
    x: np.ndarray, y: np.ndarray, is_open: np.ndarray, cell: float, strength: float, small: float
) -> tuple[np.ndarray, np.ndarray]:
    """Acceleration by vorticity confinement in the cells, without the time step; vorticity is 0 beside walls and obstacles."""
    u, v = (x[1:] + x[:-1]) / 2, (y[:, 1:] + y[:, :-1]) / 2
    vorticity = np.zeros_like(u)
    vorticity[1:-1, 1:-1] = (v[2:, 1:-1] - v[:-2, 1:-1] - u[1:-1, 2:] + u[1:-1, :-2]) / (2 * cell)
    inside = is_open.copy()
    inside[1:-1, 1:-1] &= is_open[2:, 1:-1] & is_open[:-2, 1:-1] & is_open[1:-1, 2:] & is_open[1:-1, :-2]
    vorticity *= inside
    size = np.pad(np.sqrt(vorticity**2 + small**2), 1, mode="edge")
    gx, gy = size[2:, 1:-1] - size[:-2, 1:-1], size[1:-1, 2:] - size[1:-1, :-2]
    length = np.sqrt(gx**2 + gy**2 + small**2)
    return strength * cell * gy / length * vorticity, -strength * cell * gx / length * vorticity


def stepped(
    density: np.ndarray, x: np.ndarray, y: np.ndarray, *, source: np.ndarray, buoyancy: float, viscosity: float,
    confinement: float, cell: float, dt: float, masks: tuple[np.ndarray, ...], advection: str, small: float,
    small_vorticity: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step: advection, sources, viscosity, buoyancy, confinement, projection."""
    is_open, open_x, open_y, beside_x, beside_y = masks
    scale, scheme = dt / cell, {"advection": advection, "small": small}
    moved = advected("centre", density, x, y, is_open, is_open, scale, **scheme) + dt * source * is_open
    new_x = advected("x", x, x, y, open_x, beside_x, scale, **scheme)
    new_y = advected("y", y, x, y, open_y, beside_y, scale, **scheme)
    spread = viscosity * dt / cell**2
    new_x, new_y = new_x + spread * laplacian(new_x, beside_x), new_y + spread * laplacian(new_y, beside_y)
    new_y[:, 1:-1] += dt * buoyancy * (moved[:, 1:] + moved[:, :-1]) / 2
    ax, ay = confining(x, y, is_open, cell, confinement, small_vorticity)
    new_x[1:] += dt * ax / 2
    new_x[:-1] += dt * ax / 2
    new_y[:, 1:] += dt * ay / 2
    new_y[:, :-1] += dt * ay / 2
    return moved, *projected(new_x * open_x, new_y * open_y, open_x, open_y)
