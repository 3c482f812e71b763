"""Options of observations besides the colours of a film: masks, tracks, depths, and weights of pixels."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from risp_torch.commands.options import number_parser
from risp_torch.commands.paths import split_mask, split_plate
from ti_sim.base.errors import UserError
from ti_sim.base.rules import UnitInterval

_REGION = re.compile(r"\s*\d+\s*(,\s*\d+\s*){3}")  # X,Y,W,H


def add_observation_arguments(parser: argparse._ActionsContainer) -> None:
    """--masks, --plate, --tracks, --depth."""
    parser.add_argument(
        "--masks", metavar="[BODY=]PATH[:N]", nargs="+", action="extend",
        help="of --loss mask: a folder of PNG pictures (or .npy) of all bodies together, a folder with such a folder for each "
        "body, or BODY=PATH for each; white, the other value than 0, what is not transparent, or object number N is the body; "
        "masks of the whole film are cut as 'risp film' has cut that of --video",
    )  # fmt: skip
    parser.add_argument(
        "--plate", metavar="FILE|median[:X]",
        help="of --loss mask, in place of --masks: masks are where the film differs from this picture, or from its own median, "
        "by more than X of the range of sRGB (default 0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--tracks", metavar="FILE.csv", nargs="+",
        help="of --loss image-tracks: frame, point, u, v [pixels], and if known seen and sd; then, if not in the same table, "
        "point, body, x, y, z [m] of the points on the bodies",
    )  # fmt: skip
    parser.add_argument(
        "--depth", metavar="PATH",
        help="of --loss depth: a folder of PNG pictures of 16 bits in millimetres, 0 where there is none, or .npy in metres",
    )  # fmt: skip


def masks_of(options: argparse.Namespace, scene: Any) -> tuple[Any, Any]:
    """The masks of --masks, or by difference from --plate; and their object numbers, if they have some (``MaskLoss``).

    Raises:
        UserError: a body has two masks, --plate has several films, or its threshold is out of range.
    """
    if options.plate is not None:
        return _plate_masks(options, scene), None
    masks = [split_mask(text) for text in options.masks]
    if len(masks) == 1 and masks[0][0] is None:
        return masks[0][1:]
    paths = {body: path for body, path, _ in masks if body}
    numbers = {body: number for body, _, number in masks if number is not None}
    if len(paths) < len(masks):
        raise UserError("--masks with several paths takes BODY=PATH, each body once: write for example cube=masks/cube")
    folders = set(paths.values())
    return (folders.pop() if len(folders) == 1 and len(numbers) == len(paths) else paths), numbers or None


def _plate_masks(options: argparse.Namespace, scene: Any) -> Any:
    """Masks [T, H, W] where the film differs from the plate."""
    from risp_torch.inversion.losses.plate_masks import MEDIAN, THRESHOLD, even_exposures, masks_by_difference, read_plate
    from risp_torch.inversion.problem.films.target import load_target

    if isinstance(options.video, list) and len(options.video) > 1:
        raise UserError("--plate makes masks of one film: give one --video")
    plate, threshold = split_plate(options.plate)
    video = load_target(scene, options.video[0] if isinstance(options.video, list) else options.video)
    if plate == MEDIAN:
        video = even_exposures(video)
    return masks_by_difference(
        video, read_plate(plate, video), threshold=THRESHOLD if threshold is None else _threshold(threshold)
    )


def _threshold(text: str) -> float:
    """The least difference of --plate (UserError: it is out of range)."""
    try:
        return number_parser(UnitInterval)(text)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"--plate: {error}") from None


def film_of(options: argparse.Namespace) -> str | None:
    """The folder of --video that masks and weights belong to, such as a part; None for a video file or several films."""
    videos = [options.video] if isinstance(options.video, str) else options.video or []
    return videos[0] if len(videos) == 1 and os.path.isdir(videos[0]) else None


def pixel_weights_of(options: argparse.Namespace, scene: Any) -> Any:
    """Weights of the pixels from a file, a part of the pictures, or both; None where all count.

    Raises:
        UserError: the weights cannot be read, the part is not within the picture, or there are two files or parts.
    """
    from risp_torch.inversion.losses.pixel_weights import PixelWeights

    regions = [text for text in options.pixel_weights or [] if _REGION.fullmatch(text)]
    paths = [text for text in options.pixel_weights or [] if text not in regions]
    if len(regions) > 1 or len(paths) > 1:
        raise UserError("--pixel-weights takes one PATH and one part X,Y,W,H: leave the others out")
    factors = [PixelWeights.read(path, film=film_of(options)) for path in paths]
    factors += [PixelWeights.region(*map(int, region.split(",")), camera=scene.camera) for region in regions]
    if not factors:
        return None
    return factors[0] if len(factors) == 1 else factors[0] * factors[1]
