"""Options of the loss, and the loss that they describe."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from typing import Annotated, Any

from risp_torch.commands.observation_options import add_observation_arguments, film_of, masks_of, objects_of, pixel_weights_of
from risp_torch.commands.options import make_scene, make_scene_of_network, number
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
from ti_sim.base.rules import Positive, Rule

Antialias = Annotated[int, Rule(whole=True, least=1, most=16)]  # that of Scene
# Losses by their names on the command line.
LOSSES: dict[str, type[Loss]] = {
    loss.kind: loss
    for loss in (PixelLoss, LuminanceLoss, MatchedLoss, PerceptualLoss, RispLoss, StateLoss, MaskLoss, ImageTracksLoss, DepthLoss)
}  # fmt: skip
# Options of which a loss needs one.
_FILES = {
    "risp": ("network",), "state": ("states",), "mask": ("masks", "plate"), "image-tracks": ("tracks",), "depth": ("depth",)
}  # fmt: skip
# Option -> the loss that it belongs to.
_OPTION_OF = {option: loss for loss, options in _FILES.items() for option in options} | {
    "look": "matched", "weights": "perceptual", "track_points": "image-tracks", "plate_threshold": "mask", "mask_object": "mask"
}  # fmt: skip
_WEIGHTED = ("pixel", "luminance", "matched", "perceptual", "mask", "depth")  # those that weights of pixels apply to


def add_loss_arguments(parser: argparse.ArgumentParser) -> None:
    """--loss, the files that it needs, --times and --sampling."""
    parser.add_argument(
        "--loss", type=_names_of_losses, default="pixel", metavar="LOSS[+LOSS ...][,LOSS ...]",
        help="compared quantity: pixel (colours, default), luminance (what compressed films keep at full resolution), matched "
        "(colours in the look that fits best), perceptual (features of an image network), risp (predictions of a RISP "
        "network), state, mask (where bodies are), image-tracks (where points of bodies are), depth; several together with a "
        "plus, one after the other with a comma (risp,matched)",
    )  # fmt: skip
    parser.add_argument(
        "--look", type=_of_look, nargs="+", action="extend", metavar="NAME[=VALUE]",
        help="of --loss matched: what is solved of the look: exposure, shadow, colors=texel|vertex|face|body, texels=N, "
        "light=none|sh1|sh2, robust=X ...",
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
        "--times", choices=("scene", "film"),
        help="when the film's pictures were taken: at the frames of the scene, or at the film's own time stamps (default: at the "
        "time stamps where they differ from the frames and the rates are within 1 %%, else at the frames)",
    )  # fmt: skip
    parser.add_argument(
        "--noise", metavar="LOSS=SD", type=_of_loss, action="append", default=[],
        help="standard deviation of what a loss compares: pixel and mask as shares of white, image-tracks in pixels, depth in m; "
        "error bars are no smaller than it says; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--loss-weight", metavar="LOSS=X", type=_of_loss, action="append", default=[],
        help="of several losses: as how many observations one of this loss counts (default 1); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--sampling", default="all", metavar="WHICH",
        help="frames that are compared: all, last, first+last, first+middle, every:K or list:0,3,10-20 (default all)",
    )  # fmt: skip
    parser.add_argument(
        "--antialias", type=number(Antialias), metavar="N",
        help="samples along each side of a pixel instead of the scene's: 2 for films whose pixels are means of smaller ones",
    )  # fmt: skip
    add_observation_arguments(parser)


def check_loss_options(options: argparse.Namespace, *, target_needed: bool) -> None:
    """Raise a UserError unless the given files are those that the loss needs.

    Args:
        options: with those of ``add_loss_arguments``, and ``video``.
        target_needed: whether the target's film, or its states, must be given.
    """
    names = losses_of(options)
    for option, loss in _OPTION_OF.items():
        if getattr(options, option) is not None and loss not in names:
            name = option.replace("_", "-")
            raise UserError(f"--{name} belongs to --loss {loss}, not to {options.loss}: choose that loss, or leave it out")
    for loss in names:
        files = _FILES.get(loss, ())
        has_files = not files or any(getattr(options, option) is not None for option in files)
        if not has_files and (loss != "state" or target_needed):
            raise UserError(f"--loss {loss} needs {' or '.join(f'--{option} FILE' for option in files)}")
    _check_combinations(options, names)
    needs_film = options.plate is not None or any(LOSSES[loss].needs_film for loss in names)
    if needs_film and options.video is None and (target_needed or options.plate is not None):
        raise UserError(f"--loss {options.loss} needs the target's film: give --video FILE")


def _check_combinations(options: argparse.Namespace, names: list[str]) -> None:
    """Raise a UserError for options that have no effect with the others."""
    if options.masks is not None and options.plate is not None:
        raise UserError("--masks and --plate both say where bodies are: leave one out")
    if options.mask_object is not None and options.masks is None:
        raise UserError("--mask-object belongs to --masks: give those too, or leave it out")
    if options.plate_threshold is not None and options.plate is None:
        raise UserError("--plate-threshold belongs to --plate: give that too, or leave it out")
    for option in ("pixel_weights", "region"):
        if getattr(options, option) is not None and not set(names) & set(_WEIGHTED):
            name = option.replace("_", "-")
            raise UserError(f"--{name} belongs to losses that compare pictures, not to --loss {options.loss}: leave it out")
    for name, stated in (("noise", options.noise), ("loss-weight", options.loss_weight)):
        for loss, _ in stated:
            if loss not in names:
                raise UserError(f"--{name} names {loss}, and --loss is {options.loss}: choose that loss, or leave it out")


def losses_of(options: argparse.Namespace) -> list[str]:
    """Names of the losses of --loss."""
    return options.loss.replace(",", "+").split("+")


def make_compared_scene(options: argparse.Namespace) -> Any:
    """The scene; resized for a network if one is given (``make_scene_of_network``).

    Raises:
        UserError: see ``make_scene``; or --antialias is given with a network, whose pictures have samples of their own.
    """
    if "risp" in losses_of(options):
        if options.antialias is not None:
            raise UserError("--antialias does not go with --loss risp, whose network has seen pictures of one kind: leave it out")
        return make_scene_of_network(options)
    scene = make_scene(options)
    if options.antialias is not None:
        scene.style = replace(scene.style, antialias=options.antialias)
    return scene


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
    weights, stages = pixel_weights_of(options, scene), []
    for stage in options.loss.split(","):
        losses = {name: _single_loss(name, options, scene) for name in stage.split("+")}
        for name, loss in losses.items():
            if name in _WEIGHTED:
                loss.weights = weights
        noise = {name: sd for name, sd in options.noise if name in losses}
        share = {name: weight for name, weight in options.loss_weight if name in losses}
        plain = len(losses) == 1 and not noise and not share
        stages.append(losses[stage] if plain else MixedLoss(
            *(MixedPart(loss=loss, noise=noise.get(name), weight=share.get(name, 1.0)) for name, loss in losses.items())
        ))  # fmt: skip
    return stages


def _names_of_losses(text: str) -> str:
    """Names of losses with plus signs and commas between, for argparse."""
    stages = [[name.strip() for name in stage.split("+")] for stage in text.split(",")]
    for names in stages:
        for name in names:
            if name not in LOSSES:
                loss_names = ", ".join(LOSSES)
                raise argparse.ArgumentTypeError(
                    f"unknown loss {name[:40]!r}: write one of {loss_names}, several together with a plus, in turn with a comma"
                )
        if len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(f"{text[:80]!r} names a loss twice: name each once")
    return ",".join("+".join(names) for names in stages)


def _of_loss(text: str) -> tuple[str, float]:
    """Name and number of LOSS=X, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or name.strip() not in LOSSES:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not LOSS=X: write for example mask=0.1 (of {', '.join(LOSSES)})")
    return name.strip(), number(Positive)(value)


def _of_look(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE, or of NAME for what is there or not, for argparse."""
    kinds = {field.name: type(field.default) for field in fields(LookSettings)}
    name, equals, value = text.partition("=")
    kind = kinds.get(name.strip())
    if kind is None:
        raise argparse.ArgumentTypeError(f"unknown part of the look {text[:40]!r}: write one of {', '.join(kinds)}")
    if (kind is bool) == bool(equals):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: write {name.strip()}{'' if kind is bool else '=VALUE'}")
    try:
        setting = True if kind is bool else kind(value)
        LookSettings(**{name.strip(): setting})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number: write for example robust=0.1") from None
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name.strip(), setting


def _look_of(options: argparse.Namespace) -> LookSettings:
    """The settings of a solved look (UserError: one is given twice)."""
    names = [name for name, _ in options.look or []]
    if len(set(names)) < len(names):
        raise UserError(f"--look names {', '.join(names)}: name each once")
    return LookSettings(**dict(options.look or []))


def _single_loss(name: str, options: argparse.Namespace, scene: Any) -> Any:
    """The loss of this name, without weights and noise."""
    from risp_torch.risp.task import load_task

    if name == "risp":
        return RispLoss(options.network, task=load_task(options.scene, scene))
    if name == "state":
        return _state_loss(options, scene)
    if name == "mask":
        return MaskLoss(masks_of(options, scene), objects=objects_of(options), film=film_of(options))
    if name == "image-tracks":
        return ImageTracksLoss(options.tracks, options.track_points)
    if name == "depth":
        return DepthLoss(options.depth)
    if name == "perceptual":
        return PerceptualLoss(options.weights)
    if name == "luminance":
        return LuminanceLoss()
    return MatchedLoss(_look_of(options)) if name == "matched" else PixelLoss()


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
