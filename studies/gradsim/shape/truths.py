"""The true bodies of the study of shapes: smooth ones, and harder ones with dents and bends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from studies.gradsim.shape.solids import sphere

DIVISIONS = 4  # of the true surfaces: 2,562 vertices, none of them where a vertex of the template is


def _ellipsoid(x: np.ndarray) -> np.ndarray:
    return x * (1.25, 0.85, 0.65)


def _egg(x: np.ndarray) -> np.ndarray:
    return x * (0.85, 0.85, 1.15) * np.stack([1 - 0.25 * x[:, 2], 1 - 0.25 * x[:, 2], np.ones(len(x))], axis=1)


def _pebble(x: np.ndarray) -> np.ndarray:
    bumps = 0.14 * x[:, 0] * x[:, 1] + 0.12 * (x[:, 2] ** 3) + 0.1 * x[:, 0] * x[:, 2] - 0.12 * x[:, 1] ** 2
    return x * (1.1, 0.9, 0.8) * (1 + bumps[:, None])


def _apple(x: np.ndarray) -> np.ndarray:
    """A dent at the stalk and a smaller one at the other end."""
    top, bottom = (np.exp(-(1 - sign * x[:, 2]) / 0.12) for sign in (1, -1))
    return x * (1.0 + 0.12 * x[:, 2] - 0.5 * top - 0.25 * bottom)[:, None]


def _bean(x: np.ndarray) -> np.ndarray:
    """Long and bent: a side of it is hollow."""
    y = x * (1.3, 0.6, 0.6)
    return y + np.stack([np.zeros(len(x)), np.zeros(len(x)), 0.45 * y[:, 0] ** 2], axis=1)


TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ellipsoid": _ellipsoid, "egg": _egg, "apple": _apple, "pebble": _pebble, "bean": _bean,
}  # fmt: skip


def true_surface(name: str, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] m and faces [F, 3] of a body, turned at random and with its centre anywhere near the origin.

    Args:
        name: of ``TRUTHS``.
        seed: of the turn.
    """
    points, faces = sphere(DIVISIONS)
    random = np.random.default_rng([seed, list(TRUTHS).index(name)])
    turn, _ = np.linalg.qr(random.standard_normal((3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    return TRUTHS[name](points) @ turn.T, faces
