"""Numbers of a scene from many measured motions, each with a start of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from risp_torch.inversion.unknowns import Unknowns
from risp_torch.motions.kinds import measured_motions
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.search import MotionSearch
from risp_torch.motions.settings import MotionFitSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError


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
    progress: bool = False,
) -> MotionFit:
    """Fit numbers of a scene, the same in all motions, to measured motions.

    Every window is simulated from a start of its own, which is measured up to the settings' standard deviations and estimated
    with the rest. All simulations of a Jacobian, by central differences, run side by side, one world each. Starts are eliminated
    from the normal equations motion by motion; steps are those of Levenberg and Marquardt from the scene's own values. A motion
    that the model cannot follow counts less (``MotionFitSettings.robust``). Error bars come from the scatter of the recordings'
    gradients (``clustered_covariance``); with no more recordings than unknowns from what is left, as noise that is independent
    from frame to frame, which is too narrow where the model is not exact.

    Args:
        scene: free rigid bodies, or links whose joints were measured, with the recordings' frame time.
        windows: parts of recordings, all of poses or all of joints.
        unknown: names of parameters, or of entries.
        settings: noise and search.
        bounds, priors: of unknowns, as of ``invert``.
        scale: parameter that measured lengths are multiples of, where they are not those of the scene; for poses.
        zeros: numbers of what the instruments show at coordinate 0 of each joint, where that is not 0; for joints.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, or an unknown has no bounds, or is the start of a body or joint.
    """
    motions = measured_motions(scene, windows, settings.noise, scale=scale, zeros=zeros)
    for name in unknown:
        if name.split("[")[0] in motions.start_names:
            raise UserError(f"{name} is a start, and every motion has its own: leave it out")
    unknowns = Unknowns.of(scene, list(unknown), bounds=bounds, priors=priors)
    search = MotionSearch(motions, windows, unknowns, settings)
    return search.result(*search.run(progress=progress))
