"""Numbers of a scene from many measured motions, each with a start of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from risp_torch.motions.conclusion import conclude
from risp_torch.motions.growing import fit_growing_windows
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.settings import MotionFitSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import checked


@checked
def fit_motions(
    scene: Scene,
    windows: Sequence[Window],
    unknown: Sequence[str],
    settings: MotionFitSettings,
    *,
    bounds: dict[str, tuple] | None = None,
    priors: dict[str, Any] | None = None,
    scale: str | None = None,
    zeros: Sequence[str] | None = None,
    action_offsets: Sequence[str] | None = None,
    action_lag: str | None = None,
    progress: bool = False,
) -> MotionFit:
    """Fit numbers of a scene, the same in all motions, to measured motions.

    Every window is simulated from a start of its own, which is measured up to the settings' standard deviations and estimated
    with the rest. All simulations of a Jacobian, by central differences, run side by side, one world each. Starts are eliminated
    from the normal equations motion by motion; steps are those of Levenberg and Marquardt. The search begins with short pieces of
    the windows, from several first guesses, and their length is doubled until they are the windows (``fit_growing_windows``). A
    motion that the model cannot follow counts less (``MotionFitSettings.robust``).

    Error bars come from the scatter of the recordings' gradients (``clustered_covariance``); with no more recordings than
    unknowns from the residual as noise that is independent from frame to frame, which is too narrow where the model is not
    exact. Where fits to shorter pieces differ by more than their noise, the differences are added. ``MotionFit.doubts`` says
    why an estimate may be wrong: residuals that the noise does not explain, lengths that disagree, other estimates that fit as
    well, a search that has not ended.

    Args:
        scene: free rigid bodies, or links whose joints were measured, with the recordings' frame time.
        windows: parts of recordings, all of poses or all of joints.
        unknown: names of parameters, or of entries.
        settings: noise and search.
        bounds, priors: of unknowns, as of ``invert``.
        scale: parameter that measured lengths are multiples of, where they are not those of the scene; for poses.
        zeros: numbers of what the instruments show at coordinate 0 of each joint, where that is not 0; for joints.
        action_offsets: numbers of the scene, one for each motor, that are added to recorded actions [N or N m]; for joints.
        action_lag: number of the scene [s]: an action that acts at a time t is recorded at t + lag; for joints.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, or an unknown has no bounds, or is the start of a body or joint.
    """
    growing = fit_growing_windows(
        scene, windows, unknown, settings, bounds=bounds, priors=priors, scale=scale, zeros=zeros,
        action_offsets=action_offsets, action_lag=action_lag, progress=progress,
    )  # fmt: skip
    return conclude(growing, settings)
