"""Tracked poses, and how much they scatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from risp_torch.motions.recording import Recording, rotation_vector
from ti_sim.base.errors import UserError

# Variance of the value that the cubic through four neighbours predicts, relative to the variance of one of them.
_PREDICTION_VARIANCE = 17.0 / 18.0  # (16 + 16 + 1 + 1) / 36
_MAD_TO_SD = 1.4826  # standard deviation of a Gaussian over its median absolute deviation


@dataclass(frozen=True, eq=False)
class TrackedPoses:
    """Poses of the bodies of a film.

    Attributes:
        body_q: [T, N, 7] float64: centres of mass [m], unit quaternions (x, y, z, w).
        cost: [T] robust sum of squared residuals of all cameras' pictures, in linear colour, and of the priors of the colours.
    """

    body_q: np.ndarray
    cost: np.ndarray

    def recording(self, name: str, dt: float) -> Recording:
        """The poses as a recording for ``fit_motions``.

        Args:
            name: name of the recording.
            dt: time between two frames [s].

        Raises:
            UserError: there are fewer than three frames (``Recording``).
        """
        return Recording(name, self.body_q, dt)

    def scatter(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations of the tracking errors, estimated from the poses: of a coordinate [N] m, and of the rotation about
        an axis [N] rad.

        Each pose is compared with the prediction of the cubic through its four neighbours. The median ignores frames at impacts,
        if they are few. The estimate does not include errors that change slowly, such as a wrong distance.

        Raises:
            UserError: there are fewer than five frames.
        """
        if len(self.body_q) < 5:
            raise UserError(f"scatter needs at least five frames, and there are {len(self.body_q)}")
        a, b, center, c, d = (self.body_q[k : len(self.body_q) - 4 + k] for k in range(5))
        position_deviation = center[..., :3] - (4 * (b + c) - (a + d))[..., :3] / 6
        rotation_deviation = [rotation_vector(center[..., 3:], values[..., 3:]) for values in (a, b, c, d)]
        rotation_deviation = (
            4 * (rotation_deviation[1] + rotation_deviation[2]) - (rotation_deviation[0] + rotation_deviation[3])
        ) / 6
        position, rotation = (
            _MAD_TO_SD * np.median(np.abs(values), axis=(0, 2)) / np.sqrt(1 + _PREDICTION_VARIANCE)
            for values in (position_deviation, rotation_deviation)
        )
        return position, rotation
