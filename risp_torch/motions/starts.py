"""Initial states of windows, estimated with known parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from risp_torch.motions.kinds import measured_motions
from risp_torch.motions.recording import Window
from risp_torch.motions.search import MotionSearch, NoUnknowns
from risp_torch.motions.settings import MotionFitSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import checked
from ti_sim.base.warn import warn


@checked
def estimate_starts(
    scene: Scene,
    windows: Sequence[Window],
    settings: MotionFitSettings,
    *,
    scale: str | None = None,
    encoder_offsets: Sequence[str] | None = None,
    action_offsets: Sequence[str] | None = None,
    action_lag: str | None = None,
) -> np.ndarray:
    """Estimate the starts from which the scene, with its current parameters, fits windows best.

    Velocities from differences of a few frames are noisy. For a prediction, estimate the start of a window that ends where the
    prediction begins, and continue the simulation of that window.

    Args:
        scene, windows, settings, scale, encoder_offsets, action_offsets, action_lag: as of ``fit_motions``.

    Returns:
        [M, S] starts (``BodyMotions``, ``JointMotions``).

    Raises:
        UserError: the recordings do not fit the scene.

    Warns:
        UserWarning: the search of a start has not converged.
    """
    motions = measured_motions(
        scene,
        windows,
        settings.noise,
        scale=scale,
        encoder_offsets=encoder_offsets,
        action_offsets=action_offsets,
        action_lag=action_lag,
    )
    solution, _, converged = MotionSearch(motions, windows, NoUnknowns(), settings).run(progress=False)
    if not converged:
        warn(f"starts of {scene.name} have not converged after {settings.iterations} steps")
    return motions.starts + solution.start_offsets
