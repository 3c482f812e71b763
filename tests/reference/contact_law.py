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

    def mean(power: int) -> np.ndarray:
        over = [np.where((depth + k * travel).real > 0, depth + k * travel, 0.0) ** power for k in (-1, 0, 1)]
        return (over[2] - 2 * over[1] + over[0]) / safe**2

    deep = depth.real > 0
    return np.where(inside, mean(3) / 6, np.where(deep, depth, 0.0)), np.where(inside, mean(2) / 2, np.where(deep, 1.0, 0.0))


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
    depth, leaving, ke, kd = np.broadcast_arrays(depth, leaving, ke, kd)
    apart = leaving.real > 0
    # A separating point has the force ke max(0, c - kd u / ke).
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = np.where(apart & (kd.real > 0), np.where(ke.real > 0, kd * leaving / ke, np.inf), 0.0)
    mean, fraction = onset(depth - lift, dt * np.where(apart, leaving, -leaving))
    return ke * mean + fraction * np.where(apart, 0.0, -kd * leaving), fraction


def held(
    pull: np.ndarray, depth: np.ndarray, leaving: np.ndarray, ke: np.ndarray, kd: np.ndarray, mu: np.ndarray, dt: float
) -> np.ndarray:
    """Mean over a path of min(pull, mu f_n) [N], with the normal force f_n of ``normal_force`` at each time.

    With closing speed s, f_n is kd s and ke times the depth: what is above kd s is the difference of two ramps.

    Args:
        pull: N.
        depth, leaving, ke, kd, dt: as of ``normal_force``, with ke > 0.
        mu: friction coefficient.
    """
    travel, closing = dt * np.abs(leaving), np.maximum(-leaving, 0.0)
    depth = depth - kd * np.maximum(leaving, 0.0) / ke
    (ramp, fraction), limit = onset(depth, travel), mu * kd * closing
    above = np.maximum(pull - limit, 0.0) / np.maximum(mu * ke, 1e-300)
    mean = fraction * np.minimum(pull, limit) + mu * ke * (ramp - onset(depth - above, travel)[0])
    return np.where(depth - above >= travel, pull, mean)  # exactly, where the limit is never reached
