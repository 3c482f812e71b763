"""Unknown actions of motors from measured coordinates of joints, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from risp_torch.motions.joints import JointMotions
from risp_torch.motions.recording import Window
from risp_torch.motions.search import MotionSearch, NoUnknowns
from risp_torch.motions.settings import JointNoise, MotionFitSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@dataclass(frozen=True, eq=False)
class ActionEstimate:
    """Actions that moved the joints as measured.

    Attributes:
        actions: [M, T - 1, A] of windows, between their frames, as ``Scene.rollout`` takes them; NaN behind the end of a shorter
            window.
        sd: [M, T - 1, A] their standard deviations, by the noise of the settings.
        starts: [M, 2 D] estimated coordinates [rad or m] and velocities [rad/s or m/s] at the first frames.
        residual: [M] root mean square residual of each window [rad or m].
        converged: whether the last step changed the cost by less than the tolerance.
    """

    actions: np.ndarray
    sd: np.ndarray
    starts: np.ndarray
    residual: np.ndarray
    converged: bool


@checked
def estimate_actions(
    scene: Scene,
    windows: Sequence[Window],
    settings: MotionFitSettings,
    *,
    encoder_offsets: Sequence[str] | None = None,
    progress: bool = False,
) -> ActionEstimate:
    """Estimate the actions between the frames of windows, with the scene's current parameters.

    Without a prior the actions would fit the noise, since there are as many actions as frames. The prior
    (``JointNoise.action``) keeps actions that the motion does not determine near zero. Few frames determine the first and last
    actions of a window: let windows overlap, and use the middle of each.

    Args:
        scene: links with motors, with the recordings' frame time.
        windows: windows of recordings of joints; recorded actions are not used.
        settings: with a ``JointNoise`` that has ``action``.
        encoder_offsets: parameters: reading of each joint's encoder at coordinate 0.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, it has no motors, or ``noise.action`` is None.
    """
    noise = settings.noise
    if not isinstance(noise, JointNoise) or noise.action is None:
        raise UserError("actions are estimated with a prior: give a JointNoise with action, their standard deviation about zero")
    if not scene.motors:
        raise UserError(f"{scene.name} has no motors whose actions could be estimated: add them with add_motors")
    motions = JointMotions(scene, windows, noise, encoder_offsets=encoder_offsets)
    search = MotionSearch(motions, windows, NoUnknowns(), settings)
    solution, _, converged = search.run(progress=progress)
    starts, sd = motions.starts + solution.start_offsets, search.start_sd(search.normal_equations(solution))
    start_states = starts[:, : 2 * len(motions.links)]
    return ActionEstimate(motions.actions(starts), motions.actions(sd), start_states, search.residual_rms(solution), converged)
