"""Options of what was seen of a film besides its colours: masks, tracks, depths, and which pixels count."""

from __future__ import annotations

import argparse
import os
from typing import Any

from risp_torch.commands.options import number
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Share


def add_observation_arguments(parser: argparse.ArgumentParser) -> None:
    """--masks, --mask-object, --plate, --tracks, --track-points, --depth, --pixel-weights, --region."""
    parser.add_argument(
        "--masks", metavar="[BODY=]PATH", nargs="+", action="extend",
        help="of --loss mask: a folder of PNG pictures (or .npy) of all bodies together, a folder with such a folder for each "
        "body, or BODY=PATH for each; white, the other value than 0, or what is not transparent is the body; masks of the whole "
        "film are cut as 'risp film' has cut that of --video",
    )  # fmt: skip
    parser.add_argument(
        "--mask-object", metavar="[BODY=]N", nargs="+", action="extend", type=_object,
        help="of --masks that hold object numbers: the number of the body, or BODY=N for each",
    )  # fmt: skip
    parser.add_argument(
        "--plate",
        metavar="FILE|median",
        help="of --loss mask, in place of --masks: masks are where the film differs from this picture, or from its own median",
    )
    parser.add_argument(
        "--plate-threshold", metavar="X", type=number(Share),
        help="of --plate: least difference, of the range of sRGB (default 0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--tracks", metavar="FILE.csv", help="of --loss image-tracks: frame, point, u, v [pixels], and if known seen and sd"
    )
    parser.add_argument(
        "--track-points", metavar="FILE.csv",
        help="of --loss image-tracks: point, body, x, y, z [m] (default: columns of --tracks)",
    )  # fmt: skip
    parser.add_argument(
        "--depth",
        metavar="PATH",
        help="of --loss depth: a folder of PNG pictures of 16 bits in millimetres, 0 where there is none, or .npy in metres",
    )
    parser.add_argument(
        "--pixel-weights",
        metavar="PATH",
        help="which pixels count: a folder of PNG pictures, one for each frame, or one picture for all; white counts",
    )
    parser.add_argument(
        "--region", metavar="X,Y,W,H", type=_region,
        help="only this part of the pictures counts: left and upper edge, width and height [pixels]",
    )  # fmt: skip


def masks_of(options: argparse.Namespace, scene: Any) -> Any:
    """The masks of --masks, or by difference from --plate."""
    from risp_torch.inversion.losses.plate_masks import MEDIAN, THRESHOLD, even_exposures, masks_by_difference, read_plate
    from risp_torch.inversion.problem.films.target import load_target

    if options.plate is not None:
        if isinstance(options.video, list) and len(options.video) > 1:
            raise UserError("--plate makes masks of one film: give one --video")
        video = load_target(scene, options.video[0] if isinstance(options.video, list) else options.video)
        if options.plate == MEDIAN:
            video = even_exposures(video)
        threshold = THRESHOLD if options.plate_threshold is None else options.plate_threshold
        return masks_by_difference(video, read_plate(options.plate, video), threshold=threshold)
    name_paths = [text.partition("=") for text in options.masks]
    if len(name_paths) == 1 and not name_paths[0][1]:
        return options.masks[0]
    named = {name.strip(): path for name, equals, path in name_paths if equals}
    if len(named) < len(name_paths):
        raise UserError("--masks with several paths takes BODY=PATH, each body once: write for example cube=masks/cube")
    return named


def film_of(options: argparse.Namespace) -> str | None:
    """The folder of --video that masks and weights belong to, such as a part; None where there is another film."""
    videos = [options.video] if isinstance(options.video, str) else options.video or []
    return videos[0] if len(videos) == 1 and os.path.isdir(videos[0]) else None


def pixel_weights_of(options: argparse.Namespace, scene: Any) -> Any:
    """Weights of the pixels from a file, a region, or both; None where all count.

    Raises:
        UserError: the weights cannot be read, or the region is not within the picture.
    """
    from risp_torch.inversion.losses.pixel_weights import PixelWeights

    factors = [] if options.pixel_weights is None else [PixelWeights.read(options.pixel_weights, film=film_of(options))]
    if options.region is not None:
        factors.append(PixelWeights.region(*options.region, camera=scene.camera))
    if not factors:
        return None
    return factors[0] if len(factors) == 1 else factors[0] * factors[1]


def objects_of(options: argparse.Namespace) -> Any:
    """The number of --mask-object, those of bodies by their names, or None.

    Raises:
        UserError: numbers with and without the name of a body, or a body twice.
    """
    if options.mask_object is None:
        return None
    numbers = dict(options.mask_object)
    if len(numbers) < len(options.mask_object) or None in numbers and len(numbers) > 1:
        raise UserError("--mask-object takes one number, or BODY=N for each body once: write for example cube=1 hand=3")
    return numbers.get(None, numbers)


def _object(text: str) -> tuple[str | None, int]:
    """Name (or None) and number of [BODY=]N, for argparse."""
    name, equals, value = text.rpartition("=")
    if not value.strip().isdecimal() or len(value) > 10 or (equals and not name.strip()):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not [BODY=]N: write for example 3, or cube=3")
    return (name.strip() if equals else None), int(value)


def _region(text: str) -> tuple[int, int, int, int]:
    """Left and upper edge, width and height of X,Y,W,H, for argparse."""
    numbers = text.split(",")
    if len(numbers) != 4 or not all(number.strip().isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not X,Y,W,H: write for example 0,16,128,96 (pixels)")
    return tuple(int(number) for number in numbers)
