"""Tracked poses, and how much they scatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from risp_torch.motions.recording import Recording, rotation_vector
from ti_sim.base.errors import UserError

_EXCESS = 17.0 / 18.0  # variance of the value that four neighbours predict by their cubic, in that of one: (16 + 16 + 1 + 1) / 36
_NORMAL = 1.4826  # standard deviation over median of the absolute values of a Gaussian


@dataclass(frozen=True, eq=False)
class TrackedPoses:
    """Poses of the bodies of a film.

    Attributes:
        body_q: [T, N, 7] float64: centres of mass [m], unit quaternions (x, y, z, w).
        cost: [T] robust sum of squared residuals of all cameras' pictures, in linear colour, with the pull of the colours.
    """

    body_q: np.ndarray
    cost: np.ndarray

    def recording(self, name: str, dt: float) -> Recording:
        """The poses as a recording for ``fit_motions``.

        Args:
            name: of the recording.
            dt: time between two frames [s].

        Raises:
            UserError: there are fewer than three frames (``Recording``).
        """
        return Recording(name, self.body_q, dt)

    def scatter(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations of the poses of single frames, estimated from the film itself: of a coordinate [N] m, and of
        the rotation about an axis [N] rad.

        A pose is compared with that which the cubic through its four neighbours leads one to expect. Medians ignore the
        frames at impacts, if they are few. Errors that change slowly, as a wrong distance does, are not included.

        Raises:
            UserError: there are fewer than five frames.
        """
        if len(self.body_q) < 5:
            raise UserError(f"a scatter takes five frames, and there are {len(self.body_q)}")
        a, b, center, c, d = (self.body_q[k : len(self.body_q) - 4 + k] for k in range(5))
        move = center[..., :3] - (4 * (b + c) - (a + d))[..., :3] / 6
        turn = [rotation_vector(center[..., 3:], deviations[..., 3:]) for deviations in (a, b, c, d)]
        turn = (4 * (turn[1] + turn[2]) - (turn[0] + turn[3])) / 6
        position, rotation = (
            _NORMAL * np.median(np.abs(deviations), axis=(0, 2)) / np.sqrt(1 + _EXCESS) for deviations in (move, turn)
        )
        return position, rotation
