"""Fit of a scene's parameters to many measured motions; each motion has its own initial state."""

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
    encoder_offsets: Sequence[str] | None = None,
    action_offsets: Sequence[str] | None = None,
    action_lag: str | None = None,
    progress: bool = False,
) -> MotionFit:
    """Fit parameters of a scene, the same in all motions, to measured motions.

    Every window has its own initial state (its start), which is measured up to the settings' standard deviations and estimated
    with the parameters. All simulations of a finite-difference Jacobian run in one batch, one world each. Starts are eliminated
    from the normal equations motion by motion; steps are those of Levenberg and Marquardt. The search begins with short pieces of
    the windows, from several first guesses, and their length is doubled until they are the windows (``fit_growing_windows``). A
    motion that the model does not fit gets a smaller weight (``MotionFitSettings.robust_scale``).

    Error bars come from the scatter of the recordings' gradients (``clustered_covariance``). With no more recordings than
    unknowns they come from the residual, as noise that is independent in each frame; they are then too narrow where the model
    is not exact. Where fits to shorter pieces differ by more than their noise, the differences are added. ``MotionFit.doubts``
    lists reasons why an estimate may be wrong: residuals above the noise, lengths that disagree, other estimates that fit
    equally well, a search that has not converged.

    Args:
        scene: free rigid bodies, or links whose joints were measured, with the recordings' frame time.
        windows: parts of recordings, all of poses or all of joints.
        unknown: names of parameters, or of entries.
        settings: noise and search.
        bounds, priors: of unknowns, as of ``invert``.
        scale: parameter that measured lengths are multiples of, where they are not those of the scene; for poses.
        encoder_offsets: parameters: reading of each joint's encoder at coordinate 0, by default 0; for joints.
        action_offsets: parameters, one for each motor, that are added to recorded actions [N or N m]; for joints.
        action_lag: parameter [s]: an action that acts at a time t is recorded at t + lag; for joints.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, or an unknown has no bounds, or is the start of a body or joint.
    """
    growing = fit_growing_windows(
        scene, windows, unknown, settings, bounds=bounds, priors=priors, scale=scale, encoder_offsets=encoder_offsets,
        action_offsets=action_offsets, action_lag=action_lag, progress=progress,
    )  # fmt: skip
    return conclude(growing, settings)
