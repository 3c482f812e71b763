"""Options of the loss, and the loss that they describe."""

from __future__ import annotations

import argparse
from typing import Any

from risp_torch.commands.options import make_scene, make_scene_of_network
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.perceptual import PerceptualLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.losses.risp import RispLoss
from risp_torch.inversion.losses.state import StateLoss
from ti_sim.base.errors import UserError

# Losses by their names on the command line.
LOSSES: dict[str, type[Loss]] = {loss.kind: loss for loss in (PixelLoss, PerceptualLoss, RispLoss, StateLoss)}
# Option -> the loss that it belongs to.
_OPTION_OF = {"network": "risp", "weights": "perceptual", "states": "state"}


def add_loss_arguments(parser: argparse.ArgumentParser) -> None:
    """--loss, the files that it needs, --times and --sampling."""
    parser.add_argument(
        "--loss", choices=tuple(LOSSES), default=PixelLoss.kind,
        help="compared quantity: colours, features of an image network, predictions of a RISP network, or states (default pixel)",
    )  # fmt: skip
    parser.add_argument("--network", metavar="FILE", help="of --loss risp: network.safetensors of 'risp train'")
    parser.add_argument(
        "--weights", metavar="FILE",
        help="of --loss perceptual: VGG-16's weights, .safetensors or .pth (default: torchvision's, or those of the extra "
        "perceptual)",
    )
    parser.add_argument(
        "--states", metavar="FILE",
        help="of --loss state: states.npz of 'risp simulate', poses or particles as .npy, or a .csv table of known coordinates",
    )  # fmt: skip
    parser.add_argument(
        "--times", choices=("scene", "film"), default="scene",
        help="when the film's pictures were taken: at the frames of the scene (default), or at the film's own time stamps",
    )  # fmt: skip
    parser.add_argument(
        "--sampling", default="all", metavar="WHICH",
        help="frames that are compared: all, last, first+last, first+middle, every:K or list:0,3,10-20 (default all)",
    )  # fmt: skip
    parser.add_argument(
        "--pixel-weights", metavar="PATH",
        help="which pixels count: a folder of PNG pictures, one for each frame, or one picture for all; white counts",
    )
    parser.add_argument(
        "--region", metavar="X,Y,W,H", type=_region,
        help="only this part of the pictures counts: left and upper edge, width and height [pixels]",
    )  # fmt: skip


def check_loss_options(options: argparse.Namespace, *, target_needed: bool) -> None:
    """Raise a UserError unless the given files are those that the loss needs.

    Args:
        options: with those of ``add_loss_arguments``, and ``video``.
        target_needed: whether the target's film, or its states, must be given.
    """
    for option, loss in _OPTION_OF.items():
        given = getattr(options, option) is not None
        if given and options.loss != loss:
            raise UserError(f"--{option} belongs to --loss {loss}, not to {options.loss}: choose that loss, or leave it out")
        needed = loss == "risp" or loss == "state" and target_needed
        if not given and options.loss == loss and needed:
            raise UserError(f"--loss {loss} needs --{option} FILE")
    if target_needed and options.video is None and LOSSES[options.loss].needs_film:
        raise UserError(f"--loss {options.loss} needs the target's film: give --video FILE")


def make_compared_scene(options: argparse.Namespace) -> Any:
    """The scene; resized for a network if one is given (``make_scene_of_network``)."""
    return make_scene_of_network(options) if options.loss == "risp" else make_scene(options)


def make_loss(options: argparse.Namespace, scene: Any) -> Any:
    """The loss that the options describe (errors: its class); the state loss uses the scene's own states if none are given."""
    weights = _pixel_weights(options, scene)
    loss = _plain_loss(options, scene)
    loss.weights = weights
    return loss


def _pixel_weights(options: argparse.Namespace, scene: Any) -> Any:
    """Weights of the pixels from a file, a region, or both; None where all count.

    Raises:
        UserError: the loss compares no pictures, or the weights do not fit.
    """
    from risp_torch.inversion.losses.pixel_weights import PixelWeights

    given = [name for name in ("pixel_weights", "region") if getattr(options, name) is not None]
    if not given:
        return None
    if options.loss in ("state", "risp"):
        name = given[0].replace("_", "-")
        raise UserError(f"--{name} belongs to losses that compare pictures, not to --loss {options.loss}: leave it out")
    parts = [] if options.pixel_weights is None else [PixelWeights.read(options.pixel_weights)]
    if options.region is not None:
        parts.append(PixelWeights.region(*options.region, camera=scene.camera))
    return parts[0] if len(parts) == 1 else parts[0] * parts[1]


def _region(text: str) -> tuple[int, int, int, int]:
    """Left and upper edge, width and height of X,Y,W,H, for argparse."""
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not X,Y,W,H: write for example 0,16,128,96 (pixels)")
    return tuple(int(part) for part in parts)


def _plain_loss(options: argparse.Namespace, scene: Any) -> Any:
    """The loss without weights."""
    from risp_torch.risp.task import load_task

    if options.loss == "risp":
        return RispLoss(options.network, task=load_task(options.scene, scene))
    if options.loss == "state":
        return _state_loss(options, scene)
    return PerceptualLoss(options.weights) if options.loss == "perceptual" else PixelLoss()


def _state_loss(options: argparse.Namespace, scene: Any) -> Any:
    """State loss with the state head of the scene's task, or with positions if there is no task or a table is given."""
    import torch

    from risp_torch.risp.task import load_task
    from risp_torch.scene.load import has_function

    with torch.no_grad():
        states = options.states or scene.rollout()
    table = options.states is not None and options.states.lower().endswith(".csv")
    by_head = not table and has_function(options.scene, "make_task")
    return StateLoss(load_task(options.scene, scene).head if by_head else None, states)
