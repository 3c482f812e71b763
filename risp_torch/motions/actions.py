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
        starts: [M, 2 D] estimated coordinates and velocities at the beginnings.
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
    zeros: Sequence[str] | None = None,
    progress: bool = False,
) -> ActionEstimate:
    """The actions between the frames of windows, with the scene's numbers as they are.

    A measured motion is followed by as many actions as there are frames, so that noise would become large actions. The prior
    (``JointNoise.action``) holds those that the motion does not tell near zero. The first and last actions of a window are told
    by few frames: let windows overlap, and take the middle of each.

    Args:
        scene: links with motors, with the recordings' frame time.
        windows: parts of recordings of joints; their own actions, if they have any, are not used.
        settings: with a ``JointNoise`` that has ``action``.
        zeros: numbers of what the instruments show at coordinate 0 of each joint.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, it has no motors, or ``noise.action`` is None.
    """
    noise = settings.noise
    if not isinstance(noise, JointNoise) or noise.action is None:
        raise UserError("actions are estimated with a prior: give a JointNoise with action, their standard deviation about zero")
    if not scene.motors:
        raise UserError(f"{scene.name} has no motors whose actions could be estimated: add them with add_motors")
    motions = JointMotions(scene, windows, noise, zeros=zeros)
    search = MotionSearch(motions, windows, NoUnknowns(), settings)
    solution, _, converged = search.run(progress=progress)
    starts, sd = motions.starts + solution.moves, search.start_sd(search.normal(solution))
    state = starts[:, : 2 * len(motions.links)]
    return ActionEstimate(motions.actions(starts), motions.actions(sd), state, search.residual_sizes(solution), converged)
