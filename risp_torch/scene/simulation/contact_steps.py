"""The longest stable step for the contact of rigid bodies, from the largest eigenvalues of their motion in contact.

A body that touches with a face at points r_p about its centre of mass moves against springs and dampers in parallel: with J_p the
map from its velocity and angular velocity to the velocity of point p, n the normal of the face, and M mass and inertia,

    K = sum_p J_p^T (ke n n^T + kt (1 - n n^T)) J_p,    D = sum_p J_p^T (kd n n^T + kf (1 - n n^T)) J_p,

with one kt for a whole face where two bodies touch (``ti_sim.articulated.pair_bristle``), a semi-implicit step of a mode stays
bounded while omega^2 dt^2 + 2 c dt <= 4 (see ``ti_sim.deformable.stable_step``), and the largest omega^2 and c are the largest
eigenvalues of M^-1 K and M^-1 D. For two moving bodies in contact, the values of the pair are at most the sums of those of both.

The features of boxes and meshes, with the weights w, have the energy ke / 2 sqrt(sum w d^4) of their depths d
(``ti_sim.articulated.surface_contact``). At equal depths, with q = J^T n and the shares s = w / sqrt(sum w), the part of ke in K
is ke (3 sum s q q^T - 2 (sum s q) (sum s q)^T / sum s), and the terms of D have the factors s.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from ti_sim.contact.collision import CollisionShape
from ti_sim.contact.surface_points import FEATURE_VECTOR, FEATURE_WEIGHT
from ti_sim.shapes.contact_points import KIND, PATCH, POSITION, RADIUS, RIM, VECTOR

_DIRECTIONS = tuple(sign * axis for axis in np.eye(3) for sign in (1.0, -1.0))
_DEPTH_TOLERANCE = 1e-3  # of a body's size: points within this height touch together


def ground_points(rows: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a body that touch a plane together.

    Args:
        rows: [P, POINT_SIZE] contact points (``ti_sim.shapes.contact_points``).
        normal: [3] direction towards the plane, in the body's axes.

    Returns:
        (positions [n, 3] m, factors of the contact parameters [n]: 1, or the areas of patches in m2).
    """
    positions, weights = rows[:, POSITION : POSITION + 3].copy(), np.ones(len(rows))
    for k, row in enumerate(rows):
        kind, vector = row[KIND], row[VECTOR:]
        if kind == PATCH:
            weights[k] = max(0.0, float(vector @ normal))
        elif kind >= RIM:
            radial = normal - (vector @ normal) * vector
            if np.linalg.norm(radial) < 1e-6:  # the circle lies on the plane: any angle
                radial = np.cross(vector, np.eye(3)[np.abs(vector).argmin()])
            radial /= np.linalg.norm(radial)
            angle = 0.5 * np.pi * (kind - RIM)
            positions[k] += row[RADIUS] * (np.cos(angle) * radial + np.sin(angle) * np.cross(vector, radial))
        else:
            positions[k] += row[RADIUS] * normal
    return _lowest(positions, weights, normal)


def touching_points(shape: CollisionShape, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a body's shape that touch another body together, as ``ground_points``; relative to the shape's centre.

    An edge of half length h acts as two points at h / sqrt(6) from its middle: the deepest point moves along it as it tilts.
    That is the limit of depths far above the length r of ``surface_contact``; shallower edges are softer.
    """
    if shape.kind in ("box", "mesh"):
        rows = shape.features
        midpoints, half_edges = rows[:, :FEATURE_VECTOR], rows[:, FEATURE_VECTOR:FEATURE_WEIGHT]
        edge_heights = midpoints @ normal - np.abs(half_edges @ normal)  # an edge touches along its whole length, or not at all
        lowest = edge_heights >= edge_heights.max() - _DEPTH_TOLERANCE * np.ptp(midpoints, axis=0).max()
        weights = np.tile(rows[lowest, FEATURE_WEIGHT] / np.sqrt(rows[lowest, FEATURE_WEIGHT].sum()), 2)
        return np.concatenate([midpoints[lowest] + sign * half_edges[lowest] / np.sqrt(6) for sign in (-1, 1)]), 0.5 * weights
    half_length = shape.size[1] if shape.kind == "capsule" else 0.0
    positions = np.array([[0.0, 0.0, half_length], [0.0, 0.0, -half_length]][: 1 + (half_length > 0)]) + shape.size[0] * normal
    return _lowest(positions, np.ones(len(positions)), normal)


def _lowest(positions: np.ndarray, weights: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest of some positions, and their factors."""
    if not len(positions):
        return positions, weights
    depth = positions @ normal
    lowest = depth >= depth.max() - _DEPTH_TOLERANCE * np.ptp(positions, axis=0).max()
    return positions[lowest], weights[lowest]


def face_contact_rates(
    mass: float, inertia: np.ndarray, contact: np.ndarray, faces: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    *, bristle: float = 0.0, bristle_per_face: bool = False, has_features: bool = False,
) -> np.ndarray:
    """Largest omega^2 [1/s2] and c [1/s] of a body in contact with a fixed one.

    Args:
        mass: kg.
        inertia: [3, 3] kg m2 about the centre of mass.
        contact: [4] ke, kd, kf, mu of a point.
        faces: simultaneous contact faces: positions [n, 3], factors [n] and normal [3] of each.
        bristle: bristle stiffness kt of a point [N/m].
        bristle_per_face: whether ``bristle`` is the stiffness of a whole face instead.
        has_features: whether the shape is a box or mesh, whose weighted features share one stiffness.
    """
    ke, kd, kf, mu = contact
    stiffness, damping, mass_matrix = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((6, 6))
    min_inertia = 1e-9 * np.trace(inertia)  # nonzero about the axis of a thin rod
    mass_matrix[:3, :3], mass_matrix[3:, 3:] = mass * np.eye(3), inertia + min_inertia * np.eye(3)
    for positions, weights, normal in faces:
        normal_projection = np.outer(normal, normal)
        point_damping = kd * normal_projection + (kf if mu > 0 else 0.0) * (np.eye(3) - normal_projection)
        tangential_stiffness = (bristle if mu > 0 else 0.0) * (np.eye(3) - normal_projection)
        for position, weight in zip(positions, weights, strict=True):
            point_jacobian = np.hstack([np.eye(3), -np.cross(np.eye(3), position).T])
            # The patch of a pair is centred and turned by the loads of its points, which their shares are proportional to.
            point_stiffness = (3 if has_features else 1) * weight * ke * normal_projection + (
                weight / weights.sum() if bristle_per_face else weight
            ) * tangential_stiffness
            stiffness += point_jacobian.T @ point_stiffness @ point_jacobian
            damping += weight * point_jacobian.T @ point_damping @ point_jacobian
        if has_features and len(positions):
            weighted_sum = np.concatenate([weights.sum() * normal, np.cross(weights @ positions, normal)])
            stiffness -= 2 * ke * np.outer(weighted_sum, weighted_sum) / weights.sum()
    return np.array([eigh(matrix, mass_matrix, eigvals_only=True)[-1] for matrix in (stiffness, damping)])


def longest_step(omega_squared: float, damping: float) -> float:
    """Step [s] up to which a mode with ``omega_squared`` [1/s2] and c = ``damping`` [1/s] stays bounded; inf without limit."""
    if omega_squared <= 0:
        return np.inf if damping <= 0 else 2 / damping
    return 4 / (damping + np.sqrt(damping**2 + 4 * omega_squared))


def contact_rates(
    mass: float, inertia: np.ndarray, contact: np.ndarray, rows: np.ndarray, shape: CollisionShape | None, partners: int,
    *, bristle: float = 0.0,
) -> np.ndarray:
    """Largest omega^2 [1/s2] and c [1/s] of a body that touches the ground, or others, at the faces of six directions.

    Args:
        mass, inertia, contact: as in ``face_contact_rates``.
        rows: contact points with the ground, if there is one.
        shape: collision shape, centred at the centre of mass; None if the body touches only the ground.
        partners: number of other bodies, including the ground, that may touch it: with two, opposite faces touch simultaneously.
        bristle: bristle stiffness kt of a point on the ground, or of the whole contact with another body [N/m]. A body that
            touches both counts as on the ground, which is the stiffer one.
    """
    max_rates, bristle_per_face = np.zeros(2), shape is not None and not len(rows)
    for normal in _DIRECTIONS[:: 2 if partners > 1 else 1]:
        faces = [
            (*(ground_points(rows, side) if shape is None else touching_points(shape, side)), side)
            for side in (normal, -normal)[: min(partners, 2)]
        ]
        has_features = shape is not None and shape.kind in ("box", "mesh")
        max_rates = np.maximum(
            max_rates,
            face_contact_rates(
                mass, inertia, contact, faces, bristle=bristle, bristle_per_face=bristle_per_face, has_features=has_features
            ),
        )
    return max_rates
