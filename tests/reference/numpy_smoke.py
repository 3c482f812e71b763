"""Smoke by plain numpy, one world, loops over cells: what the kernels of ``ti_sim.smoke`` compute."""

from __future__ import annotations

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


def traced(
    kind: str, field: np.ndarray, x: np.ndarray, y: np.ndarray, i: int, j: int, scale: float
) -> tuple[int, int, float, float]:
    """Lower left node of where a value comes from, and the parts of a cell beyond it."""
    u, v = velocity_at(kind, x, y, i, j)
    at = np.clip([i - scale * u, j - scale * v], 0, np.array(field.shape) - 1)
    node = np.minimum(np.floor(at).astype(int), np.array(field.shape) - 2)
    return (*node.tolist(), *(at - node).tolist())


def advected(
    kind: str, field: np.ndarray, x: np.ndarray, y: np.ndarray, is_open: np.ndarray, counted: np.ndarray, scale: float,
    *, second: bool = False,
) -> np.ndarray:  # fmt: skip
    """A field after advection, by MacCormack's scheme if ``second``; values that do not count are inside obstacles."""

    def plain(field: np.ndarray, scale: float) -> np.ndarray:
        result = np.zeros_like(field)
        for i, j in np.argwhere(is_open):
            a, b, p, q = traced(kind, field, x, y, i, j, scale)
            weights = np.outer([1 - p, p], [1 - q, q]) * counted[a : a + 2, b : b + 2]
            total = weights.sum()
            result[i, j] = (weights * field[a : a + 2, b : b + 2]).sum() / total if total > 0 else field[i, j]
        return result

    ahead = plain(field, scale)
    if not second:
        return ahead
    back, result = plain(ahead, -scale), np.zeros_like(field)
    for i, j in np.argwhere(is_open):
        a, b, _, _ = traced(kind, field, x, y, i, j, scale)
        others = [*field[a : a + 2, b : b + 2][counted[a : a + 2, b : b + 2]], ahead[i, j]]
        result[i, j] = np.clip(ahead[i, j] + 0.5 * (field[i, j] - back[i, j]), min(others), max(others))
    return result


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
    confinement: float, cell: float, dt: float, masks: tuple[np.ndarray, ...], small: float, second: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step: advection, sources, viscosity, buoyancy, confinement, projection."""
    is_open, open_x, open_y, beside_x, beside_y = masks
    scale = dt / cell
    moved = advected("centre", density, x, y, is_open, is_open, scale, second=second) + dt * source * is_open
    new_x = advected("x", x, x, y, open_x, beside_x, scale, second=second)
    new_y = advected("y", y, x, y, open_y, beside_y, scale, second=second)
    spread = viscosity * dt / cell**2
    new_x, new_y = new_x + spread * laplacian(new_x, beside_x), new_y + spread * laplacian(new_y, beside_y)
    new_y[:, 1:-1] += dt * buoyancy * (moved[:, 1:] + moved[:, :-1]) / 2
    ax, ay = confining(x, y, is_open, cell, confinement, small)
    new_x[1:] += dt * ax / 2
    new_x[:-1] += dt * ax / 2
    new_y[:, 1:] += dt * ay / 2
    new_y[:, :-1] += dt * ay / 2
    return moved, *projected(new_x * open_x, new_y * open_y, open_x, open_y)
