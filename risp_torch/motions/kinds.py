"""Choice of the class for the kind of recordings: poses of bodies, or coordinates of joints."""

from __future__ import annotations

from collections.abc import Sequence

from risp_torch.motions.bodies import BodyMotions
from risp_torch.motions.joints import JointMotions
from risp_torch.motions.measured import MeasuredMotions
from risp_torch.motions.recording import Recording, Window
from risp_torch.motions.settings import JointNoise, PoseNoise
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError


def measured_motions(
    scene: Scene, windows: Sequence[Window], noise: PoseNoise | JointNoise, *, scale: str | None = None,
    encoder_offsets: Sequence[str] | None = None, action_offsets: Sequence[str] | None = None, action_lag: str | None = None,
) -> MeasuredMotions:  # fmt: skip
    """Windows of one kind as ``MeasuredMotions``.

    Args:
        scene: the scene.
        windows: at least one.
        noise: standard deviations of the measurements, of the class that belongs to the recordings' kind.
        scale: parameter that measured lengths are multiples of; for poses alone.
        encoder_offsets: parameters that are added to simulated coordinates; for joints alone.
        action_offsets, action_lag: of recorded actions (``RecordedActions``); for joints alone.

    Raises:
        UserError: there is no window, something does not fit the recordings' kind, or the recordings do not fit the scene.
    """
    if not windows:
        raise UserError("there is no window to fit: give at least one")
    if isinstance(windows[0].recording, Recording):
        if not isinstance(noise, PoseNoise) or any(name is not None for name in (encoder_offsets, action_offsets, action_lag)):
            raise UserError("the recordings have poses: give a PoseNoise, and no zeros, action_offsets or action_lag of joints")
        return BodyMotions(scene, windows, noise, scale=scale)
    if not isinstance(noise, JointNoise) or scale is not None:
        raise UserError("the recordings have joint coordinates: give a JointNoise, and no scale")
    return JointMotions(
        scene, windows, noise, encoder_offsets=encoder_offsets, action_offsets=action_offsets, action_lag=action_lag
    )
