"""The rows of RISP's tables: methods that estimate the unknowns of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from risp_torch.programs import unknown_name_error
from ti_sim import UserError

if TYPE_CHECKING:
    from risp_torch import Loss, PixelWeights, States
    from risp_torch.risp import RispTask

LABELS = {
    "average": "average", "random": "random", "pixel": "pixels (gradSim)", "perceptual": "perceptual",
    "matched": "matched (the look solved)", "no-grad": "RISP without gradient loss", "full": "RISP",
    "chain": "RISP, then matched", "state": "true states (oracle)",
}  # fmt: skip
METHODS = tuple(LABELS)
NETWORK_METHODS = ("no-grad", "full", "chain")
BEYOND_TEXTURE = 0.5  # robust scale [linear colour] before a smooth plate; this and the next two settled with seeds 0 and 2
ONE_COLOR = 1.0  # smoothness of the colours: in one picture free ones absorb an outline that is out of place
NEAR = 6.0  # pixels from the bodies of an estimate that count before a smooth plate
IMAGE_METHODS = ("pixel", "perceptual", "matched", *NETWORK_METHODS)


def check_method(method: str, network: Path | str | None) -> None:
    """Raise a UserError for an unknown method, or a missing or superfluous network."""
    if method not in METHODS:
        raise unknown_name_error("method", method, METHODS)
    if method in NETWORK_METHODS and network is None:
        raise UserError(f"the method {method} needs a network: give the network.safetensors of 'risp train'")
    if method not in NETWORK_METHODS and network is not None:
        raise UserError(f"the method {method} uses no network: leave it out, or choose {' or '.join(NETWORK_METHODS)}")


def make_loss(
    method: str, kind: str, task: RispTask, motion: States, network: Path | str | None,
    *, pixel_weights: PixelWeights | None = None,
) -> Loss | None:  # fmt: skip
    """The loss of a method, of a chain the first one; None for the image-free baselines.

    The one picture of "reach" fits every motion where any plate may stand behind the bodies: there it is a smooth one. A floor's
    texture is then left over, and outliers begin beyond it.

    Args:
        method: name from ``METHODS``.
        kind: of the trial.
        task: of the scene.
        motion: true motion, for the oracle.
        network: file of the ``NETWORK_METHODS``.
        pixel_weights: pixels that count before a smooth plate, all by default.

    Raises:
        UserError: see the losses, for a network that cannot be read or an extra that is not installed.
    """
    from risp_torch import LookSettings, MatchedLoss, PerceptualLoss, PixelLoss, RispLoss, StateLoss

    if method in NETWORK_METHODS:
        return RispLoss(network, task=task)
    if method == "state":
        return StateLoss(task.head, motion)
    if method == "matched":
        if kind != "reach":
            return MatchedLoss()
        look = LookSettings(plate="smooth", robust_scale=BEYOND_TEXTURE, smoothness=ONE_COLOR, edges="fine")
        return MatchedLoss(look, weights=pixel_weights)
    losses = {"pixel": PixelLoss, "perceptual": PerceptualLoss}
    return losses[method]() if method in losses else None
