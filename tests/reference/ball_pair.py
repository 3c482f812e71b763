"""Two free balls of 1 kg and 0.004 kg m2 with a bristle between them, stepped in plain numpy.

A step is semi-implicit Euler. The bristle's displacement s turns with the second ball; the step and the force are

    s <- <kt (tangential(s) + dt q u_t)> / (kt q),    force on the first = f_n n - <kt s + kf u_t>,

where <a> is a / |a| times the mean of min(|a|, mu f_n) over the path, with the normal force f_n and the fraction q of the time in
contact of ``tests.reference.contact_law``.
"""

from dataclasses import dataclass

import numpy as np

from tests.reference.contact_law import held, normal_force, path
from tests.reference.numpy_rigid import rotation

APART, STICKING, DAMPED, SLIPPING = range(4)  # not touching; both limits off; the force alone, or the displacement, is limited
_SLACK = 4e-15
_MASS, _INERTIA = 1.0, 0.004


@dataclass
class BallPair:
    """The motion of both balls.

    Attributes:
        x, v, w: [T + 1, 2, 3] positions, velocities, angular velocities in the world.
        q: [T + 1, 2, 4] quaternions x, y, z, w.
        branch: [T] what the contact does in each step.
        margin: least relative distance of any step from a jump of the second derivative: the path just meets contact or a limit.
    """

    x: np.ndarray
    v: np.ndarray
    w: np.ndarray
    q: np.ndarray
    branch: np.ndarray
    margin: float


def _share(a: np.ndarray, law: tuple) -> tuple[float, float]:
    """The mean over the path of min(|a|, mu f_n), divided by |a|, and the distance from a path that just meets this limit [m].

    ``law`` holds the arguments of ``held`` after the first.
    """
    length, (place, leaving, ke, kd, mu, dt) = float(np.linalg.norm(a)), law
    depth, travel, closing = (float(x) for x in path(*(np.array(x) for x in (place, leaving, ke, kd)), dt))
    depth -= max(length - mu * kd * closing, 0.0) / (mu * ke)
    return float(held(np.array(length), *law)) / length, abs(abs(depth) - travel)


def _turned(q: np.ndarray, w: np.ndarray, dt: float) -> np.ndarray:
    rate = 0.5 * np.array([*(w * q[3] + np.cross(w, q[:3])), -w @ q[:3]])
    q = q + dt * rate
    return q / np.linalg.norm(q)


def step_balls(
    x: np.ndarray, v: np.ndarray, w: np.ndarray, radius: float, material: tuple[float, ...], kt: float, gravity: np.ndarray,
    dt: float, steps: int,
) -> BallPair:  # fmt: skip
    """Step both balls from rest of the bristle.

    Args:
        x, v, w: [2, 3] at the start [m, m/s, rad/s].
        radius: of both [m].
        material: ke, kd, kf, mu of the pair.
        kt: bristle stiffness of the pair [N/m].
        gravity: [2, 3] acceleration of each ball [m/s2].
        dt, steps: physics step [s] and number of steps.
    """
    ke, kd, kf, mu = material
    x, v, w, q = x.copy(), v.copy(), w.copy(), np.array([[0.0, 0.0, 0.0, 1.0]] * 2)
    own, motion, branches, margin = np.zeros(3), [(x.copy(), v.copy(), w.copy(), q.copy())], [], np.inf
    for _ in range(steps):
        apart = x[0] - x[1]
        distance = np.linalg.norm(apart)
        normal, depth = apart / distance, 2 * radius - distance - _SLACK
        arm = -(radius - 0.5 * depth) * normal
        force, size, branch, after = np.zeros(3), 0.0, APART, np.zeros(3)
        u = v[0] + np.cross(w[0], arm) - v[1] - np.cross(w[1], arm + apart)
        size, fraction = (float(x) for x in normal_force(depth, u @ normal, ke, kd, dt))
        travel = dt * abs(u @ normal)
        margin = min(margin, abs(depth + travel) / radius, abs(depth - travel) / radius)
        if size > 0:
            slide, turn = u - normal * (normal @ u), rotation(q[1])
            s = turn @ own
            trial, law = s - normal * (normal @ s) + dt * fraction * slide, (depth, u @ normal, ke, kd, mu, dt)
            kept, slip_margin = _share(kt * trial, law)
            after = kept / fraction * trial
            pull = kt * after + kf * slide
            share, hold_margin = _share(pull, law)
            force = size * normal - share * pull
            slips, damped = (part < (1 - 1e-9) * fraction for part in (kept, share))
            margin = min(margin, slip_margin / radius, hold_margin / radius)
            branch = SLIPPING if slips else DAMPED if damped else STICKING
            after = turn.T @ after
        own = after
        branches.append(branch)
        for k, (sign, lever) in enumerate(((1, arm), (-1, arm + apart))):
            v[k] += dt * (sign * force / _MASS + gravity[k])
            w[k] += dt * np.cross(lever, sign * force) / _INERTIA
            x[k] += dt * v[k]
            q[k] = _turned(q[k], w[k], dt)
        motion.append((x.copy(), v.copy(), w.copy(), q.copy()))
    arrays = (np.array(part) for part in zip(*motion, strict=True))
    return BallPair(*arrays, np.array(branches), margin)
