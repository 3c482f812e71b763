"""Rigid bodies in compliant contact with the ground, stepped in plain numpy: what the kernels are compared with.

Written from the equations alone: state (x, q, v, L) with L the angular momentum in the world frame, w = R I^-1 R^T L;
for a contact point with velocity u the normal force f_n and the fraction q of the time in contact of
``tests.reference.contact_law``, and friction -min(mu f_n, kf q |u_t|) u_t / |u_t|. A driven body has a wrench in its own frame,
one for each frame interval, and drag against its velocity and angular velocity. A semi-implicit step changes both momenta by the
loads, then turns the body for dt without torque by the implicit midpoint rule, here by fixed-point iterations. Everything is
float64 and vectorised over worlds and bodies.

With bristles a contact point has a displacement s, zero where it does not touch: kt (s + dt q u_t), shortened to its mean with
the limit mu f_n at each time of the path, is q kt s after the step, and friction is -(kt s + kf u_t), shortened likewise. A
rounded model's points are balls of the body's contact radius.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.reference.contact_law import friction, held, normal_force
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings

# What one contact point does in one evaluation of the forces.
APART, UNLOADED, STICKING, SLIDING = 0, 1, 2, 3
_MOST_ROUNDS, _ROUNDING = 40, 2e-16  # of the fixed-point iterations of a turn
SLIPPED, SLIPPED_AND_SLIDING = 4, 5  # the bristle is shortened: the force is inside the friction cone, or on it


@dataclass(frozen=True)
class NumpyRollout:
    """Frames, and the branch that every contact point took in every evaluation of the forces.

    Attributes:
        body_q: [B, frames + 1, N, 7] m and quaternion x, y, z, w.
        body_qd: [B, frames + 1, N, 6] m/s and rad/s.
        momentum: [B, frames + 1, N, 3] angular momentum, world frame [kg m2/s].
        pattern: [evaluations, B, N, P] int8, APART, UNLOADED (deep but f_n = 0), STICKING, SLIDING, ...
        onset: [evaluations, B, N, P] bool, where a point is in contact for a part of the step only.
    """

    body_q: np.ndarray
    body_qd: np.ndarray
    momentum: np.ndarray
    pattern: np.ndarray
    onset: np.ndarray


def rotation(q: np.ndarray) -> np.ndarray:
    """Rotation matrices [..., 3, 3] of unit quaternions [..., 4]."""
    x, y, z, w = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def quaternion_rate(q: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(w, 0) q / 2 for world-frame angular velocities [..., 3] and quaternions [..., 4]."""
    vector, scalar = q[..., :3], q[..., 3:]
    return 0.5 * np.concatenate([scalar * w + np.cross(w, vector), -np.sum(w * vector, -1, keepdims=True)], -1)


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Products [..., 3] of matrices [..., 3, 3] and vectors [..., 3]."""
    return (matrix @ vector[..., None])[..., 0]


def unit(q: np.ndarray) -> np.ndarray:
    """Normalised quaternions."""
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def contact_arms(r: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arms [B, N, P, 3] to the places that touch, and shares [B, N, P], of contact points' rows [N, P, 8].

    A row has the position, the radius, the kind (0 ball, 1 to 4 quarters of a rim, 5 patch) and a vector (axis or area).
    """
    up = np.array([0.0, 0.0, 1.0])
    arm = np.einsum("bnij,npj->bnpi", r, rows[..., :3])
    radius, kind = rows[..., 3, None], rows[..., 4]
    if not kind.any():  # balls alone
        return arm - radius * up, np.ones(arm.shape[:-1])
    vector = np.einsum("bnij,npj->bnpi", r, rows[..., 5:])
    across = vector * vector[..., 2:] - up
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    lowest = across / np.where(length > 0, length, 1.0)
    angle = np.pi / 2 * (kind - 1)[..., None]
    round_rim = np.cos(angle) * lowest + np.sin(angle) * np.cross(vector, lowest)
    is_rim, is_patch = ((kind >= 1) & (kind <= 4))[..., None], np.broadcast_to(kind == 5, vector.shape[:-1])
    arm = arm + radius * np.where(is_rim, round_rim, -up)
    return arm, np.where(is_patch, np.maximum(0.0, -vector[..., 2]), 1.0)


class _Worlds:
    """The right-hand side of the equations of motion for one set of inputs."""

    def __init__(self, model: RigidModel, inputs: RigidInputs, dt: float, substeps: int) -> None:
        self.dt, self.substeps = dt, substeps
        self.wrench, self.drag = inputs.body_wrench, inputs.body_drag
        self.mass, self.material = inputs.body_mass[..., None], inputs.body_contact
        self.inverse_inertia = np.linalg.inv(inputs.body_inertia)
        self.gravity, self.height = inputs.gravity[:, None], model.ground_height
        self.bristle, self.radius = inputs.body_bristle, inputs.body_radius
        self.displacement = np.zeros(1)
        self.force, self.force_point, self.model = inputs.body_force, inputs.force_point, model
        most = max(max(len(p) for p in model.contact_points), 1)
        self.points, self.exists = np.zeros((model.body_count, most, 8)), np.zeros((model.body_count, most), bool)
        for n, points in enumerate(model.contact_points):
            self.points[n, : len(points), : points.shape[1]], self.exists[n, : len(points)] = points, True
        self.pattern: list[np.ndarray] = []
        self.onset: list[np.ndarray] = []

    def angular_velocity(self, q: np.ndarray, momentum: np.ndarray) -> np.ndarray:
        r = rotation(q)
        return times(r, times(self.inverse_inertia, times(r.swapaxes(-1, -2), momentum)))

    def force_torque(
        self, x: np.ndarray, q: np.ndarray, v: np.ndarray, momentum: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Contact and applied forces and their torques about the centre of mass, [B, N, 3] each."""
        r, w = rotation(q), self.angular_velocity(q, momentum)
        arm, share = contact_arms(r, self.points)
        if self.radius is not None:
            arm = arm - self.radius[:, :, None, None] * np.array([0.0, 0.0, 1.0])
        u = v[:, :, None] + np.cross(w[:, :, None], arm)
        depth = self.height - (x[:, :, None, 2] + arm[..., 2])
        ke, kd, kf, mu = (self.material[..., i, None] for i in range(4))
        normal, fraction = normal_force(depth, u[..., 2], ke, kd, self.dt)
        normal, fraction = np.where(self.exists, normal, 0.0), np.where(self.exists, fraction, 0.0)
        deep = ((depth > 0) | (fraction > 0)) & self.exists
        drag, sliding = friction(np.hypot(u[..., 0], u[..., 1]), depth, u[..., 2], (ke, kd, kf, mu), self.dt)
        along, kind = -np.where(deep, drag, 0.0)[..., None] * u[..., :2], np.where(sliding, SLIDING, STICKING)
        if self.bristle is not None:
            along, kind = self.bristle_friction(depth, u, normal, fraction)
        contact = share[..., None] * np.concatenate([along, normal[..., None]], -1)
        self.onset.append((fraction > 0) & (fraction < 1))
        self.pattern.append(np.where(deep, np.where(normal > 0, kind, UNLOADED), APART).astype(np.int8))
        force, torque = contact.sum(2), np.cross(arm, contact).sum(2)
        for a, (n, (first, last)) in enumerate(zip(self.model.force_body, self.model.force_steps, strict=True)):
            if first <= step < last:
                lever = np.einsum("bij,bj->bi", r[:, n], self.force_point[:, a])
                force[:, n] += self.force[:, a]
                torque[:, n] += np.cross(lever, self.force[:, a])
        if self.model.has_wrenches:
            own = np.einsum("bnij,bnkj->bnki", r, self.wrench[:, step // self.substeps].reshape(*v.shape[:2], 2, 3))
            force = force + own[:, :, 0] - self.drag[..., :1] * v
            torque = torque + own[:, :, 1] - self.drag[..., 1:] * w
        return force, torque

    def bristle_friction(
        self, depth: np.ndarray, u: np.ndarray, normal: np.ndarray, fraction: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Friction [B, N, P, 2] of points with bristles, and what each of them does; advances the displacements."""
        ke, kd, kf, mu = (self.material[..., i, None] for i in range(4))
        touching, kt, along = normal > 0, self.bristle[:, :, None], u[..., :2]

        def shortened(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            length = np.linalg.norm(a, axis=-1)
            mean = held(length, depth, u[..., 2], ke, kd, mu, self.dt)
            return (mean / np.where(length > 0, length, 1.0))[..., None] * a, mean < (1 - 1e-9) * fraction * length

        trial = self.displacement + self.dt * fraction[..., None] * along
        spring, slipped = shortened(kt[..., None] * trial)
        after = spring / np.where(touching & (kt > 0), kt * fraction, 1.0)[..., None]
        hold, sliding = shortened(kt[..., None] * after + kf[..., None] * along)
        self.displacement = np.where(touching[..., None], after, 0.0)
        names = np.array([[STICKING, SLIDING], [SLIPPED, SLIPPED_AND_SLIDING]])
        return np.where(touching[..., None], -hold, 0.0), names[slipped.astype(int), sliding.astype(int)]

    def semi_implicit(self, state: tuple[np.ndarray, ...], dt: float, step: int) -> tuple[np.ndarray, ...]:
        x, q, v, momentum = state
        force, torque = self.force_torque(x, q, v, momentum, step)
        v = v + dt * (force / self.mass + self.gravity)
        momentum = momentum + dt * torque
        return x + dt * v, self.turned(q, momentum, dt), v, momentum

    def turned(self, q: np.ndarray, momentum: np.ndarray, dt: float) -> np.ndarray:
        """Quaternions after a step without torque: the body turns by the mean of its own-axes velocities before and after."""
        r = rotation(q)
        before = after = times(r.swapaxes(-1, -2), momentum)
        for _ in range(_MOST_ROUNDS):
            spin = times(self.inverse_inertia, (before + after) / 2)
            end = unit(q + dt * quaternion_rate(q, times(r, spin)))
            previous, after = after, times(rotation(end).swapaxes(-1, -2), momentum)
            if np.abs(after - previous).max() <= _ROUNDING * np.abs(momentum).max():
                break
        return end

    def rk4(self, state: tuple[np.ndarray, ...], dt: float, step: int) -> tuple[np.ndarray, ...]:
        def rate(stage: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            x, q, v, momentum = stage
            force, torque = self.force_torque(x, unit(q), v, momentum, step)
            q_rate = quaternion_rate(q, self.angular_velocity(unit(q), momentum))
            return v, q_rate, force / self.mass + self.gravity, torque

        def moved(size: float, by: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            return tuple(s + size * k for s, k in zip(state, by, strict=True))

        k1 = rate(state)
        k2 = rate(moved(dt / 2, k1))
        k3 = rate(moved(dt / 2, k2))
        k4 = rate(moved(dt, k3))
        x, q, v, momentum = (
            s + dt / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True)
        )
        return x, unit(q), v, momentum


def rollout(model: RigidModel, settings: RigidSettings, inputs: RigidInputs, frames: int) -> NumpyRollout:
    """Simulate with the equations above; arguments as of the solver under test, arrays in numpy float64."""
    worlds = _Worlds(model, inputs, settings.dt, settings.substeps)
    advance = worlds.rk4 if settings.integrator == "rk4" else worlds.semi_implicit
    x, q = inputs.body_q0[..., :3], unit(inputs.body_q0[..., 3:])
    r = rotation(q)
    momentum = times(r, times(inputs.body_inertia, times(r.swapaxes(-1, -2), inputs.body_qd0[..., 3:])))
    state = (x, q, inputs.body_qd0[..., :3], momentum)
    kept = [state]
    for step in range(frames * settings.substeps):
        state = advance(state, settings.dt, step)
        if (step + 1) % settings.substeps == 0:
            kept.append(state)
    poses = np.stack([np.concatenate(s[:2], -1) for s in kept], 1)
    velocities = np.stack([np.concatenate([s[2], worlds.angular_velocity(s[1], s[3])], -1) for s in kept], 1)
    momenta = np.stack([s[3] for s in kept], 1)
    return NumpyRollout(poses, velocities, momenta, np.stack(worlds.pattern), np.stack(worlds.onset))
