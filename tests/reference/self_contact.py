"""Contact of deformable bodies with themselves and one another, in plain numpy: every vertex against every triangle.

Written from the law alone, without any search structure and without any hand-made derivative: all functions here also take
complex positions, velocities and materials, so that a complex step gives their derivatives to rounding.

A vertex x and the nearest point y = sum w_k x_k of a triangle it does not belong to, and to none of whose corners an edge joins
it, at the distance d below the thickness h: depth c = h - d, normal n = (x - y) / d, relative velocity u = v_x - sum w_k v_k,

    f = f_n n - min(mu f_n, kf q |u_t|) u_t / |u_t|,   with f_n and q of ``tests.reference.contact_law``,

on the vertex, and -w_k f on the corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.reference.contact_law import friction, normal_force
from tests.reference.deformable import step
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel

_FLAT = 1e-12  # squared sine of a triangle's angle below which its face has no region of its own


@dataclass(frozen=True)
class Surface:
    """Triangles whose corners touch one another's faces.

    Attributes:
        triangles: [S, 3] particles.
        thickness: h [m], the distance at which a vertex touches a triangle.
    """

    triangles: np.ndarray
    thickness: float

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices [N, 1] and the corners [N, 3] of the triangles they may touch: all but their own and their neighbours'."""
        neighbours: dict[int, set[int]] = {}
        for triangle in self.triangles.tolist():
            for corner in triangle:
                neighbours.setdefault(corner, set()).update(triangle)
        found = [
            (vertex, *triangle)
            for triangle in self.triangles.tolist()
            for vertex, around in sorted(neighbours.items())
            if not around.intersection(triangle)
        ]
        rows = np.array(found, dtype=int).reshape(-1, 4)
        return rows[:, :1], rows[:, 1:]


@dataclass(frozen=True)
class Touch:
    """What the pairs of a surface do at an instant.

    Attributes:
        distance: [B, N] d [m].
        normal: [B, N, 3] n, zero where d is.
        weights: [B, N, 3] w.
        force: [B, N, 3] on the vertex [N].
        code: [B, N] what formula holds: 0 for no contact, else the region of the triangle (a bit for each corner that weighs),
            plus 8 where the force pushes, plus 16 where it slips, plus 32 where it is in contact for a part of the step only.
    """

    distance: np.ndarray
    normal: np.ndarray
    weights: np.ndarray
    force: np.ndarray
    code: np.ndarray


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, -1)


def _root(square: np.ndarray) -> np.ndarray:
    """Square root with the derivative 0 at 0."""
    return np.where(square.real > 0, np.sqrt(np.where(square.real > 0, square, 1.0)), 0.0)


def _on_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Fraction of ``end`` in the nearest point of segments, from 0 to 1, [...]."""
    along = end - start
    square = _dot(along, along)
    share = _dot(point - start, along) / np.where(square.real > 0, square, 1.0)
    return np.where(share.real <= 0, 0.0, np.where(share.real >= 1, 1.0, share))


def nearest_weights(point: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Weights [..., 3] of the corners in the nearest point of triangles: of the face, or the best of the three edges.

    Args:
        point: [..., 3] m.
        corners: [..., 3, 3] m.
    """
    a, b, c = np.moveaxis(corners, -2, 0)
    e1, e2, p = b - a, c - a, point - a
    g11, g12, g22 = _dot(e1, e1), _dot(e1, e2), _dot(e2, e2)
    determinant = g11 * g22 - g12 * g12
    proper = determinant.real > _FLAT * (g11 * g22).real
    determinant = np.where(proper, determinant, 1.0)
    s = (g22 * _dot(p, e1) - g12 * _dot(p, e2)) / determinant
    t = (g11 * _dot(p, e2) - g12 * _dot(p, e1)) / determinant
    face = np.stack([1 - s - t, s, t], -1)
    candidates = []
    for start, end in ((0, 1), (1, 2), (2, 0)):
        share = _on_segment(point, corners[..., start, :], corners[..., end, :])
        weights = np.zeros(face.shape, dtype=share.dtype)
        weights[..., start], weights[..., end] = 1 - share, share
        candidates.append(weights)
    edges = np.stack(candidates)
    away = point - np.einsum("k...c,...ci->k...i", edges, corners)
    best = np.argmin(_dot(away, away).real, axis=0)
    of_edges = np.take_along_axis(edges, best[None, ..., None], axis=0)[0]
    inside = proper & (face.real >= 0).all(-1)
    return np.where(inside[..., None], face, of_edges)


def touch(surface: Surface, material: np.ndarray, q: np.ndarray, qd: np.ndarray, dt: float) -> Touch:
    """Contact of all pairs.

    Args:
        surface: triangles and thickness.
        material: [B, 4] ke [N/m], kd [N s/m], kf [N s/m], mu [1].
        q: [B, P, 3] positions, m.
        qd: [B, P, 3] velocities, m/s.
        dt: the step over which the force is averaged [s]; 0 for the continuous law.
    """
    vertex, corners = surface.pairs
    ke, kd, kf, mu = np.moveaxis(np.asarray(material)[:, None], -1, 0)
    weights = nearest_weights(q[:, vertex[:, 0]], q[:, corners])
    away = q[:, vertex[:, 0]] - np.einsum("bnk,bnki->bni", weights, q[:, corners])
    u = qd[:, vertex[:, 0]] - np.einsum("bnk,bnki->bni", weights, qd[:, corners])
    distance = _root(_dot(away, away))
    apart = distance.real > 0
    normal = away / np.where(apart, distance, 1.0)[..., None]
    depth = surface.thickness - distance
    leaving = _dot(u, normal)
    sliding = u - leaving[..., None] * normal
    pressed, fraction = normal_force(depth, leaving, ke, kd, dt)
    pushing = apart & (pressed.real > 0)
    pressed = np.where(pushing, pressed, 0.0)
    drag, slips = friction(_root(_dot(sliding, sliding)), depth, leaving, (ke, kd, kf, mu), dt)
    drag, slips = pushing * drag, pushing & slips
    force = pressed[..., None] * normal - drag[..., None] * sliding
    region = (weights.real > 0) @ np.array([1, 2, 4])
    touching = apart & ((depth.real > 0) | pushing)
    code = np.where(touching, region + 8 * pushing + 16 * slips + 32 * ((fraction.real > 0) & (fraction.real < 1)), 0)
    return Touch(distance, normal, weights, force, code)


def self_contact_forces(surface: Surface, material: np.ndarray, q: np.ndarray, qd: np.ndarray, dt: float) -> np.ndarray:
    """Forces of the contact on the particles [B, P, 3], N; arguments as ``touch``."""
    return _on_particles(surface, touch(surface, material, q, qd, dt), q.shape)


def _on_particles(surface: Surface, found: Touch, shape: tuple[int, int, int]) -> np.ndarray:
    vertex, corners = surface.pairs
    on_corners = -found.weights[..., None] * found.force[:, :, None]
    forces = np.zeros(shape, dtype=found.force.dtype)
    for world in range(len(forces)):
        np.add.at(forces[world], vertex[:, 0], found.force[world])
        np.add.at(forces[world], corners, on_corners[world])
    return forces


def self_contact_energy(surface: Surface, stiffness: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Energy ke c^2 / 2 of all pairs in contact [B], J; ``stiffness`` [B]."""
    vertex, corners = surface.pairs
    away = q[:, vertex[:, 0]] - np.einsum("bnk,bnki->bni", nearest_weights(q[:, vertex[:, 0]], q[:, corners]), q[:, corners])
    depth = surface.thickness - _root(_dot(away, away))
    return stiffness / 2 * np.sum(np.where(depth.real > 0, depth, 0.0) ** 2, -1)


def rollout(
    model: DeformableModel,
    inputs: DeformableInputs,
    surface: Surface,
    material: np.ndarray,
    *,
    dt: float,
    substeps: int,
    frames: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions and velocities at the frames, [B, frames + 1, P, 3] each, and the codes [steps, B, N] of every step.

    Args:
        model: elements, held particles and ground.
        inputs: numbers of every world.
        surface: triangles that touch one another.
        material: [B, 4], see ``touch``.
        dt: step [s].
        substeps: steps in a frame.
        frames: how many.
    """
    q, qd = np.asarray(inputs.particle_q0), np.asarray(inputs.particle_qd0)
    positions, velocities, codes = [q], [qd], []
    for frame in range(frames):
        for _ in range(substeps):
            found = touch(surface, material, q, qd, dt)
            codes.append(found.code)
            q, qd = step(model, inputs, q, qd, dt, frame, other_forces=_on_particles(surface, found, q.shape))
        positions.append(q)
        velocities.append(qd)
    return np.stack(positions, 1), np.stack(velocities, 1), np.array(codes)


def piercings(triangles: np.ndarray, q: np.ndarray) -> list[tuple[int, int, int]]:
    """Edges that pass through a triangle they share no corner with: (one end, other end, triangle) each.

    Sheets that did not pierce one another at one instant and do not at the next one have not begun to pass through each other.

    Args:
        triangles: [S, 3] particles.
        q: [P, 3] positions, m.
    """
    edges = np.unique(np.sort(np.concatenate([triangles[:, (0, 1)], triangles[:, (1, 2)], triangles[:, (2, 0)]]), axis=1), axis=0)
    at, of = (k.ravel() for k in np.indices((len(edges), len(triangles))))
    apart = ~(edges[at][:, :, None] == triangles[of][:, None]).any((1, 2))
    at, of = at[apart], of[apart]
    (p, r), (a, b, c) = np.moveaxis(q[edges[at]], 1, 0), np.moveaxis(q[triangles[of]], 1, 0)

    def volume(u: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return _dot(np.cross(v - u, w - u), x - u)

    across = volume(a, b, c, p) * volume(a, b, c, r) < 0
    inside = np.stack([volume(p, r, a, b), volume(p, r, b, c), volume(p, r, c, a)])
    found = across & ((inside > 0).all(0) | (inside < 0).all(0))
    return [(int(i), int(j), int(k)) for (i, j), k in zip(edges[at[found]], of[found], strict=True)]
