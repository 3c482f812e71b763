"""Options of the loss, and the loss that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from risp_torch.commands.observation_options import add_observation_arguments, film_of, masks_of, pixel_weights_of
from risp_torch.commands.options import make_scene, make_scene_of_network, number_parser
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.inversion.losses.depth import DepthLoss
from risp_torch.inversion.losses.image_tracks import ImageTracksLoss
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.luminance import LuminanceLoss
from risp_torch.inversion.losses.masks import MaskLoss
from risp_torch.inversion.losses.mixed import MixedLoss, MixedPart
from risp_torch.inversion.losses.perceptual.loss import PerceptualLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.losses.state import StateLoss
from risp_torch.risp.loss import RispLoss
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive


@dataclass(frozen=True, kw_only=True)
class LossChoice:
    """A choice of --loss.

    Attributes:
        loss: its class; ``kind`` is its name on the command line.
        compares: what it compares, for the help.
        make: returns the loss for the options and the scene, without weights and noise.
        needs: options of files, of which one must be set.
        settings: other options that belong to this loss alone.
        reads_by_network: whether it takes a file of --network.
        weighs_pixels: whether --pixel-weights acts on it.
    """

    loss: type[Loss]
    compares: str
    make: Callable[[argparse.Namespace, Any], Loss]
    needs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    reads_by_network: bool = False
    weighs_pixels: bool = False


_CHOICES = (
    LossChoice(loss=PixelLoss, compares="colours", make=lambda options, scene: PixelLoss(), weighs_pixels=True),
    LossChoice(
        loss=LuminanceLoss, compares="what compressed films keep at full resolution",
        make=lambda options, scene: LuminanceLoss(), weighs_pixels=True,
    ),
    LossChoice(
        loss=MatchedLoss, compares="colours in the look that fits best",
        make=lambda options, scene: MatchedLoss(_look_of(options)), settings=("look",), weighs_pixels=True,
    ),
    LossChoice(
        loss=PerceptualLoss, compares="features of an image network",
        make=lambda options, scene: PerceptualLoss(networks_of(options).get(PerceptualLoss.kind)),
        reads_by_network=True, weighs_pixels=True,
    ),
    LossChoice(
        loss=RispLoss, compares="predictions of a RISP network", make=lambda options, scene: _risp_loss(options, scene),
        reads_by_network=True,
    ),
    LossChoice(
        loss=StateLoss, compares="states", make=lambda options, scene: _state_loss(options, scene), needs=("states",)
    ),
    LossChoice(
        loss=MaskLoss, compares="where bodies are", make=lambda options, scene: _mask_loss(options, scene),
        needs=("masks", "plate"), weighs_pixels=True,
    ),
    LossChoice(
        loss=ImageTracksLoss, compares="where points of bodies are",
        make=lambda options, scene: ImageTracksLoss(*options.tracks), needs=("tracks",),
    ),
    LossChoice(
        loss=DepthLoss, compares="depths", make=lambda options, scene: DepthLoss(options.depth), needs=("depth",),
        weighs_pixels=True,
    ),
)  # fmt: skip
# The choices of --loss by their names.
LOSSES: dict[str, LossChoice] = {choice.loss.kind: choice for choice in _CHOICES}


def add_loss_arguments(parser: argparse.ArgumentParser) -> None:
    """--loss, the files that losses compare with or need, and the weights of observations."""
    parser.add_argument(
        "--loss", type=_loss_text, default="pixel", metavar="[X*]LOSS[+[X*]LOSS ...][,LOSS ...]",
        help=f"compared quantity: {', '.join(f'{name} ({choice.compares})' for name, choice in LOSSES.items())}; default pixel; "
        "several together with a plus, each observation counted X times (pixel+2*mask), one after the other with a comma "
        "(risp,matched)",
    )  # fmt: skip
    files = parser.add_argument_group("files and settings of losses")
    add_observation_arguments(files)
    files.add_argument(
        "--states", metavar="FILE",
        help="of --loss state: states.npz of 'risp simulate', poses or particles as .npy, or a .csv table of known coordinates",
    )  # fmt: skip
    files.add_argument(
        "--network", metavar="[LOSS=]FILE", nargs="+", action="extend",
        help="network.safetensors of 'risp train' for --loss risp, or VGG-16's weights (.safetensors or .pth) for --loss "
        "perceptual (default: torchvision's, or those of the extra perceptual); of both, risp=FILE perceptual=FILE",
    )  # fmt: skip
    files.add_argument(
        "--look", type=_look_setting, nargs="+", action="extend", metavar="NAME[=VALUE]",
        help="of --loss matched: what is solved of the look: exposure, shadow, colors=texel|vertex|face|body, texels=N, "
        "light=none|sh1|sh2, robust_scale=X ...",
    )  # fmt: skip
    group = parser.add_argument_group("observations that count")
    group.add_argument(
        "--noise", metavar="[LOSS=]SD", type=_noise_setting, action="append", default=[],
        help="standard deviation of what a loss compares: pixel and mask as shares of white, image-tracks in pixels, depth in m; "
        "error bars are no smaller than it says; with LOSS= of one of several losses, repeatable",
    )  # fmt: skip
    group.add_argument(
        "--pixel-weights", metavar="PATH|X,Y,W,H", nargs="+", action="extend",
        help="which pixels count: a folder of PNG pictures, one for each frame, or one picture for all, where white counts; or a "
        "part of the pictures: left and upper edge, width and height [pixels]; or the product of both",
    )  # fmt: skip
    group.add_argument(
        "--sampling", default="all", metavar="WHICH",
        help="frames that are compared: all, last, first+last, first+middle, every:K or list:0,3,10-20 (default all)",
    )  # fmt: skip


def check_loss_options(options: argparse.Namespace, *, target_needed: bool) -> None:
    """Raise a UserError unless the given files are those that the loss needs.

    Args:
        options: with those of ``add_loss_arguments``, and ``video``.
        target_needed: whether the target's film, or its states, must be given.
    """
    names = losses_of(options)
    for loss, choice in LOSSES.items():
        for option in (*choice.needs, *choice.settings):
            if getattr(options, option) is not None and loss not in names:
                raise UserError(f"--{option} belongs to --loss {loss}, not to {options.loss}: choose that loss, or leave it out")
    for loss in names:
        files = LOSSES[loss].needs
        has_files = not files or any(getattr(options, option) is not None for option in files)
        if not has_files and (loss != "state" or target_needed):
            raise UserError(f"--loss {loss} needs {' or '.join(f'--{option} FILE' for option in files)}")
    if "risp" in names and "risp" not in networks_of(options):
        raise UserError("--loss risp needs --network FILE")
    _check_combinations(options, names)
    needs_film = options.plate is not None or any(LOSSES[loss].loss.needs_film for loss in names)
    if needs_film and options.video is None and (target_needed or options.plate is not None):
        raise UserError(f"--loss {options.loss} needs the target's film: give --video FILE")


def _check_combinations(options: argparse.Namespace, names: list[str]) -> None:
    """Raise a UserError for options that have no effect with the others."""
    if options.masks is not None and options.plate is not None:
        raise UserError("--masks and --plate both say where bodies are: leave one out")
    if len(options.tracks or []) > 2:
        raise UserError("--tracks takes a table of tracks, and one of the points on the bodies: give at most these two")
    if options.pixel_weights is not None and not any(LOSSES[loss].weighs_pixels for loss in names):
        raise UserError(f"--pixel-weights belongs to losses that compare pictures, not to --loss {options.loss}: leave it out")
    for loss, _ in options.noise:
        if loss is None and len(set(names)) > 1:
            raise UserError(f"--loss {options.loss} names several losses: write for example --noise {names[0]}=0.1")
        if loss is not None and loss not in names:
            raise UserError(f"--noise names {loss}, and --loss is {options.loss}: choose that loss, or leave it out")


def losses_of(options: argparse.Namespace) -> list[str]:
    """Names of the losses of --loss."""
    return [text.rpartition("*")[2] for text in options.loss.replace(",", "+").split("+")]


def make_compared_scene(options: argparse.Namespace) -> Any:
    """The scene; resized for a network if one is given (``make_scene_of_network``).

    Raises:
        UserError: see ``make_scene`` and ``make_unsized_scene``.
    """
    network = networks_of(options).get("risp")
    return make_scene(options) if network is None else make_scene_of_network(options, network)


def make_loss(options: argparse.Namespace, scene: Any) -> Any:
    """The one loss that the options describe (``make_losses``).

    Raises:
        UserError: there are several, one after the other.
    """
    losses = make_losses(options, scene)
    if len(losses) > 1:
        raise UserError(f"--loss {options.loss} names losses one after the other, which is for risp invert: name one of them")
    return losses[0]


def make_losses(options: argparse.Namespace, scene: Any) -> list[Loss]:
    """The losses that follow each other (errors: their classes); the state loss uses the scene's own states if none are given."""
    pixel_weights, stages = pixel_weights_of(options, scene), []
    for stage in options.loss.split(","):
        terms = [text.rpartition("*") for text in stage.split("+")]
        losses = {name: LOSSES[name].make(options, scene) for *_, name in terms}
        for name, loss in losses.items():
            if LOSSES[name].weighs_pixels:
                loss.weights = pixel_weights
        noise = {name or next(iter(losses)): sd for name, sd in options.noise if name in (None, *losses)}
        weights = {name: float(weight) for weight, _, name in terms if weight}
        is_single = len(losses) == 1 and not noise and not weights
        stages.append(losses[stage] if is_single else MixedLoss(
            *(MixedPart(loss=loss, noise=noise.get(name), weight=weights.get(name, 1.0)) for name, loss in losses.items())
        ))  # fmt: skip
    return stages


def _loss_text(text: str) -> str:
    """Names of losses with plus signs and commas between, and weights before them, for argparse."""
    stages = [[name.strip() for name in stage.split("+")] for stage in text.split(",")]
    for parts in stages:
        names = []
        for part in parts:
            weight, star, name = part.rpartition("*")
            names.append(name)
            if star:
                number_parser(Positive)(weight)
            if name not in LOSSES:
                loss_names = ", ".join(LOSSES)
                raise argparse.ArgumentTypeError(
                    f"unknown loss {name[:40]!r}: write one of {loss_names}, several together with a plus, in turn with a comma"
                )
        if len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(f"{text[:80]!r} names a loss twice: name each once")
    return ",".join("+".join(parts) for parts in stages)


def _noise_setting(text: str) -> tuple[str | None, float]:
    """Name (or None) and number of [LOSS=]SD, for argparse."""
    name, equals, value = text.rpartition("=")
    if equals and name.strip() not in LOSSES:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not LOSS=SD: write for example mask=0.1 (of {', '.join(LOSSES)})")
    return (name.strip() if equals else None), number_parser(Positive)(value)


def _look_setting(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE, or of NAME for a flag, for argparse."""
    types = {field.name: type(field.default) for field in fields(LookSettings)}
    name, equals, value = text.partition("=")
    value_type = types.get(name.strip())
    if value_type is None:
        raise argparse.ArgumentTypeError(f"unknown part of the look {text[:40]!r}: write one of {', '.join(types)}")
    if (value_type is bool) == bool(equals):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: write {name.strip()}{'' if value_type is bool else '=VALUE'}")
    try:
        setting = True if value_type is bool else value_type(value)
        LookSettings(**{name.strip(): setting})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number: write for example robust_scale=0.1") from None
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name.strip(), setting


def _look_of(options: argparse.Namespace) -> LookSettings:
    """The settings of a solved look (UserError: one is given twice)."""
    names = [name for name, _ in options.look or []]
    if len(set(names)) < len(names):
        raise UserError(f"--look names {', '.join(names)}: name each once")
    return LookSettings(**dict(options.look or []))


def networks_of(options: argparse.Namespace) -> dict[str, str]:
    """The files of --network by their losses.

    Raises:
        UserError: no loss reads by a network, or it is not clear which loss a file belongs to.
    """
    losses = [name for name in dict.fromkeys(losses_of(options)) if LOSSES[name].reads_by_network]
    arguments = [text.partition("=") for text in options.network or []]
    files = {name: path for name, _, path in arguments if name in losses}
    unnamed = [f"{name}{equals}{path}" for name, equals, path in arguments if name not in losses]
    if unnamed and not losses:
        readers = " or ".join(name for name, choice in LOSSES.items() if choice.reads_by_network)
        raise UserError(f"--network belongs to --loss {readers}, not to {options.loss}: leave it out")
    if unnamed and (len(losses) > 1 or len(arguments) > 1) or len(files) + len(unnamed) < len(arguments):
        raise UserError(f"--network takes one file for each loss: write {' '.join(f'{name}=FILE' for name in losses)}")
    return files | dict(zip(losses, unnamed, strict=False))


def _risp_loss(options: argparse.Namespace, scene: Any) -> RispLoss:
    """RISP loss with the task of the scene."""
    from risp_torch.risp.task import load_task

    return RispLoss(networks_of(options)[RispLoss.kind], task=load_task(options.scene, scene))


def _mask_loss(options: argparse.Namespace, scene: Any) -> MaskLoss:
    """Mask loss with masks from files or from a plate."""
    masks, objects = masks_of(options, scene)
    return MaskLoss(masks, objects=objects, film=film_of(options))


def _state_loss(options: argparse.Namespace, scene: Any) -> StateLoss:
    """State loss with the state head of the scene's task, or with positions if there is no task or a table is given."""
    import torch

    from risp_torch.risp.task import load_task
    from risp_torch.scene.load import has_function

    with torch.no_grad():
        states = options.states or scene.rollout()
    is_table = options.states is not None and options.states.lower().endswith(".csv")
    has_head = not is_table and has_function(options.scene, "make_task")
    return StateLoss(load_task(options.scene, scene).head if has_head else None, states)
