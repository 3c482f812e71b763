"""Motions between the frames at which they were simulated: cubic Hermite interpolation of states.

Positions follow the cubic whose ends have the positions and velocities of the states. Orientations follow a cubic in rotation
vectors: in the body's axes at the beginning of the interval, R(t) = R0 exp(r(t)), with r = 0 there and exp(r) = R0^T R1 at the
end. A body that turns with the angular velocity w in its own axes has r' = J(r)^-1 w with the right Jacobian

    J(r) = 1 - (1 - cos a) / a^2 [r] + (a - sin a) / a^3 [r]^2,  J(r)^-1 = 1 + [r] / 2 + (1 - a/2 cot(a/2)) / a^2 [r]^2,

where a = |r| and [r] is the cross-product matrix (Sola, Deray and Atchuthan, A micro Lie theory for state estimation in robotics,
2018, Eqs. 143 and 144). Both interpolants are exact to fourth order in the interval, and their derivatives at the frames are the
velocities of the states; uniform acceleration and uniform rotation, by less than half a turn in an interval, are exact. Before
the first frame the acceleration of the first interval is continued.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from risp_torch.scene.numbers import unwrapped
from risp_torch.scene.rotations import matrix_vector, quaternion_product, rotation_matrix, rotation_quaternion
from risp_torch.scene.states import States, joined_placement

# Coefficients of the series in a^2 of the factors of [r]^2 in J^-1 and J, and of [r] in J, and up to which a^2 they are used.
_INVERSE_SERIES = (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000)
_SQUARE_SERIES = (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800)
_LINEAR_SERIES = (1 / 2, -1 / 24, 1 / 720, -1 / 40320, 1 / 3628800, -1 / 479001600)
_SERIES_LIMIT = 0.1


@dataclass(frozen=True)
class Moments:
    """Times in the frame intervals of a motion.

    Attributes:
        interval: [B, M] number of the frame interval.
        fraction: [B, M] elapsed fraction of the interval, in [0, 1]; outside before the first and after the last frame.
        interval_dt: of an interval [s].
    """

    interval: torch.Tensor
    fraction: torch.Tensor
    interval_dt: float

    @staticmethod
    def of(times: torch.Tensor, interval_dt: float, intervals: int, dtype: torch.dtype) -> Moments:
        """The moments of scene times [B, M] (s, double precision) in ``intervals`` intervals of this length [s]."""
        elapsed_intervals = times / interval_dt
        interval = unwrapped(elapsed_intervals.detach()).floor().clamp(0, intervals - 1).long()
        return Moments(interval, (elapsed_intervals - interval).to(dtype), interval_dt)

    def interval_ends(self, array: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows [B, M, ...] of an array [B, frames, ...] at both ends of the intervals."""
        worlds = torch.arange(len(array), device=array.device)[:, None]
        return array[worlds, self.interval], array[worlds, self.interval + 1]


def placement_at(states: States, moments: Moments) -> torch.Tensor:
    """Placement [B, M, rows, columns] (``joined_placement``) of a motion at moments; differentiable in both."""
    body_q, _ = _bodies(states, moments)
    particle_q, _ = _particles(states, moments)
    return joined_placement(body_q, particle_q)


def states_at(states: States, moments: Moments) -> States:
    """A motion at moments; differentiable in both. Joint coordinates are None; ``body_q`` has the poses of links."""
    body_q, body_qd = _bodies(states, moments)
    particle_q, particle_qd = _particles(states, moments)
    return States(body_q, body_qd, states.diverged_step, particle_q=particle_q, particle_qd=particle_qd)


def _particles(states: States, moments: Moments) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Positions and velocities of the particles, [B, M, P, 3] each, None without any."""
    if states.particle_q is None:
        return None, None
    return _cubic(*moments.interval_ends(states.particle_q), *moments.interval_ends(states.particle_qd), moments)


def _bodies(states: States, moments: Moments) -> tuple[torch.Tensor, torch.Tensor]:
    """Poses [B, M, N, 7] and velocities [B, M, N, 6] of the bodies."""
    if not states.body_q.shape[2]:
        worlds, count = moments.interval.shape
        return states.body_q.new_zeros(worlds, count, 0, 7), states.body_q.new_zeros(worlds, count, 0, 6)
    (pose0, pose1), (rate0, rate1) = moments.interval_ends(states.body_q), moments.interval_ends(states.body_qd)
    position, velocity = _cubic(pose0[..., :3], pose1[..., :3], rate0[..., :3], rate1[..., :3], moments)
    quaternion, angular_velocity = _interpolated_rotation(pose0[..., 3:], pose1[..., 3:], rate0[..., 3:], rate1[..., 3:], moments)
    return torch.cat([position, quaternion], dim=-1), torch.cat([velocity, angular_velocity], dim=-1)


def _cubic(
    first: torch.Tensor, last: torch.Tensor, first_rate: torch.Tensor, last_rate: torch.Tensor, moments: Moments
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cubic Hermite interpolant [B, M, rows, 3] of values and their rates of change at both ends, and its derivative.

    Before the first frame it is the parabola with the mean acceleration of the first interval: the cubic would amplify
    the inconsistency between positions and velocities of a first-order solver.
    """
    u, h = moments.fraction[..., None, None], moments.interval_dt
    displacement = last - first - h * first_rate
    rate_change = h * (last_rate - first_rate)
    is_before_start = u < 0
    value = torch.where(is_before_start, 0.5 * rate_change, (3.0 - 2.0 * u) * displacement + (u - 1.0) * rate_change)
    derivative = torch.where(
        is_before_start, u * rate_change, 6.0 * u * (1.0 - u) * displacement + u * (3.0 * u - 2.0) * rate_change
    )
    return first + h * u * first_rate + u * u * value, first_rate + derivative / h


def _interpolated_rotation(
    first: torch.Tensor,
    last: torch.Tensor,
    first_angular_velocity: torch.Tensor,
    last_angular_velocity: torch.Tensor,
    moments: Moments,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit quaternions [B, M, rows, 4] and angular velocities [B, M, rows, 3] (world frame) from those at both ends."""
    conjugate = torch.cat([-first[..., :3], first[..., 3:]], dim=-1)
    rotation_vector = _rotation_vector(quaternion_product(conjugate, last))
    rate0 = _in_body_frame(first, first_angular_velocity)
    rate1 = _inverse_right_jacobian(rotation_vector, _in_body_frame(last, last_angular_velocity))
    vector, rate = _cubic(torch.zeros_like(rotation_vector), rotation_vector, rate0, rate1, moments)
    rotation = quaternion_product(first, rotation_quaternion(vector))
    return rotation, matrix_vector(rotation_matrix(rotation), _right_jacobian(vector, rate))


def _in_body_frame(q: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return matrix_vector(rotation_matrix(q).mT, vector)


def _rotation_vector(q: torch.Tensor) -> torch.Tensor:
    """Rotation vector [..., 3] of a unit quaternion [..., 4], of at most half a turn, smooth at zero."""
    shorter_q = torch.where(q[..., 3:] < 0, -q, q)
    vector, cosine = shorter_q[..., :3], shorter_q[..., 3:]
    squared = (vector * vector).sum(dim=-1, keepdim=True)
    is_small = squared < 1e-4
    sine = torch.sqrt(torch.where(is_small, torch.ones_like(squared), squared))
    series = 1.0 + squared * (1 / 6 + squared * (3 / 40 + squared * (5 / 112 + squared * 35 / 1152)))
    return 2.0 * vector * torch.where(is_small, series, torch.atan2(sine, torch.where(is_small, sine, cosine)) / sine)


def _inverse_right_jacobian(r: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """J(r)^-1 x of vectors [..., 3]."""
    squared, is_small, angle = _angle(r)
    factor = torch.where(is_small, _series(_INVERSE_SERIES, squared), (1.0 - 0.5 * angle / torch.tan(0.5 * angle)) / angle**2)
    cross = torch.linalg.cross(r, x)
    return x + 0.5 * cross + factor * torch.linalg.cross(r, cross)


def _right_jacobian(r: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """J(r) x of vectors [..., 3]."""
    squared, is_small, angle = _angle(r)
    linear_factor = torch.where(is_small, _series(_LINEAR_SERIES, squared), (1.0 - torch.cos(angle)) / angle**2)
    square_factor = torch.where(is_small, _series(_SQUARE_SERIES, squared), (angle - torch.sin(angle)) / angle**3)
    cross = torch.linalg.cross(r, x)
    return x - linear_factor * cross + square_factor * torch.linalg.cross(r, cross)


def _angle(r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """|r|^2, where it is small, and |r| (1 there: derivatives of the unused branch stay finite), each [..., 1]."""
    squared = (r * r).sum(dim=-1, keepdim=True)
    is_small = squared < _SERIES_LIMIT
    return squared, is_small, torch.sqrt(torch.where(is_small, torch.ones_like(squared), squared))


def _series(coefficients: tuple[float, ...], x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = coefficient + x * total
    return total
