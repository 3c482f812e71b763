"""The normal force of contact in plain numpy, written from its definition: the continuous law averaged over a straight path.

With the hat function w(s) = 1 - |s| on [-1, 1] as weight of the times t + s dt, the mean of a function g of the depth c + l s is
the second difference of a second antiderivative G: (G(c + l) - 2 G(c) + G(c - l)) / l^2.
"""

import numpy as np


def onset(depth: np.ndarray, travel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of max(0, depth) and of the step function at depth 0 over a path; all arrays of one shape, or complex.

    Args:
        depth: in the middle of the path [m].
        travel: half the length of the path [m].
    """
    inside = np.abs(depth.real) < travel.real
    safe = np.where(inside, travel, 1.0)
    ramps = [np.where(at.real > 0, at, 0.0) for at in (depth - travel, depth, depth + travel)]
    squares = [ramp * ramp for ramp in ramps]

    def mean(antiderivatives: list[np.ndarray]) -> np.ndarray:
        before, middle, after = antiderivatives
        return (after - 2 * middle + before) / (safe * safe)

    cubes, deep = [square * ramp for square, ramp in zip(squares, ramps, strict=True)], depth.real > 0
    ramp, fraction = np.where(deep, depth, 0.0), np.where(deep, 1.0, 0.0)
    return np.where(inside, mean(cubes) / 6, ramp), np.where(inside, mean(squares) / 2, fraction)


def normal_force(
    depth: np.ndarray, leaving: np.ndarray, ke: np.ndarray, kd: np.ndarray, dt: float
) -> tuple[np.ndarray, np.ndarray]:
    """Normal force [N] and fraction of the time in contact.

    Args:
        depth: m; real or complex.
        leaving: normal velocity, positive apart [m/s].
        ke: N/m.
        kd: N s/m.
        dt: step [s]; 0 for the continuous law.
    """
    depth, travel, closing = path(depth, leaving, ke, kd, dt)
    mean, fraction = onset(depth, travel)
    return ke * mean + fraction * kd * closing, fraction


def path(
    depth: np.ndarray, leaving: np.ndarray, ke: np.ndarray, kd: np.ndarray, dt: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depth in contact, travel and closing speed; a separating point has the force ke max(0, c - kd u / ke)."""
    depth, leaving, ke, kd = np.broadcast_arrays(depth, leaving, ke, kd)
    apart = leaving.real > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = np.where(apart & (kd.real > 0), np.where(ke.real > 0, kd * leaving / ke, np.inf), 0.0)
    return depth - lift, dt * np.where(apart, leaving, -leaving), np.where(apart, 0.0, -leaving)


def held(
    pull: np.ndarray, depth: np.ndarray, leaving: np.ndarray, ke: np.ndarray, kd: np.ndarray, mu: np.ndarray, dt: float
) -> np.ndarray:
    """Mean over a path of min(pull, mu f_n) [N], with the normal force f_n of ``normal_force`` at each time.

    With closing speed s, f_n is kd s and ke times the depth: what is above kd s is the difference of two ramps.

    Args:
        pull: N; real or complex.
        depth, leaving, ke, kd, dt: as of ``normal_force``.
        mu: friction coefficient.
    """
    depth, travel, closing = path(depth, leaving, ke, kd, dt)
    limit, stiffness, (ramp, fraction) = mu * kd * closing, mu * ke, onset(depth, travel)
    over, stiff = pull.real > limit.real, stiffness.real > 0
    above = np.where(over & stiff, pull - limit, 0.0) / np.where(stiff, stiffness, 1.0)
    rest = np.where(stiff, onset(depth - above, travel)[0], 0.0)
    mean = fraction * np.where(over, limit, pull) + stiffness * (ramp - rest)
    return np.where(stiff & ((depth - above).real >= travel.real), pull, mean)  # exactly, where the limit is never reached


def friction(
    slip: np.ndarray, depth: np.ndarray, leaving: np.ndarray, material: tuple[np.ndarray, ...], dt: float
) -> tuple[np.ndarray, np.ndarray]:
    """Friction over the tangential speed ``slip`` [N s/m], and where its limit is reached; ``material`` is ke, kd, kf, mu."""
    ke, kd, kf, mu = material
    pull, (normal, fraction) = kf * slip, normal_force(depth, leaving, ke, kd, dt)
    moves, size = pull.real > 0, held(pull, depth, leaving, ke, kd, mu, dt)
    drag = np.where(moves, size / np.where(moves, slip, 1.0), kf * fraction * (mu.real * normal.real > 0))
    return drag, size.real < (1 - 1e-9) * (fraction * pull).real
