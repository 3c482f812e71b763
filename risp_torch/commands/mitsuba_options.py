"""The options of ``risp simulate`` that choose the renderer and set up Mitsuba."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from risp_torch.commands.options import number_parser
from ti_render.photoreal.settings import NoiseSeed
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count

if TYPE_CHECKING:
    from ti_render.photoreal import Appearance, MitsubaSettings

MITSUBA_OPTIONS = ("appearance", "seed", "spp", "variant", "colors")
RANDOM, OF_SCENE = "random", "scene"  # values of --appearance that name no file


def add_mitsuba_arguments(parser: argparse.ArgumentParser) -> None:
    """--renderer and the options of Mitsuba."""
    parser.add_argument(
        "--renderer", choices=("soft", "mitsuba"), default="soft",
        help="the differentiable rasteriser (default), or Mitsuba 3's path tracer (extra 'photoreal')",
    )  # fmt: skip
    group = parser.add_argument_group("with --renderer mitsuba")
    group.add_argument(
        "--appearance", metavar=f"{RANDOM}|{OF_SCENE}|FILE",
        help="random materials, lamps, sky and ground (default), the scene's own lights and colours with diffuse surfaces, or "
        "the appearance.json of another run",
    )  # fmt: skip
    group.add_argument("--seed", type=number_parser(NoiseSeed), metavar="N", help="seed of appearance and noise (default 0)")
    group.add_argument("--spp", type=number_parser(Count), metavar="N", help="light paths per pixel (default 64)")
    group.add_argument(
        "--variant", choices=("auto", "scalar_rgb", "llvm_ad_rgb"), help="of Mitsuba; auto (default) takes the fastest that works"
    )
    group.add_argument(
        "--colors", choices=("keep", "tint", "draw"),
        help="colours of the bodies: their own (default), these times a random one for each body, or random ones",
    )  # fmt: skip


def check_mitsuba_options(options: argparse.Namespace) -> None:
    """Raise a UserError for options of Mitsuba without effect."""
    options_set = [f"--{name}" for name in MITSUBA_OPTIONS if getattr(options, name) is not None]
    if options.renderer != "mitsuba" and options_set:
        names = " and ".join(options_set)
        raise UserError(f"{options_set[0]} is an option of Mitsuba: add --renderer mitsuba, or leave {names} out")
    if options.appearance not in (None, RANDOM) and options.colors is not None:
        raise UserError(f"--appearance {options.appearance} also defines the colours: leave --colors out")


def mitsuba_settings(options: argparse.Namespace) -> MitsubaSettings:
    """Mitsuba's settings from the options."""
    from ti_render.photoreal import MitsubaSettings

    names = {"seed": "seed", "samples": "spp", "variant": "variant"}
    settings = {name: getattr(options, option) for name, option in names.items() if getattr(options, option) is not None}
    return MitsubaSettings(look="match" if options.appearance == OF_SCENE else "photoreal", **settings)


def chosen_appearance(scene: Any, options: argparse.Namespace, mitsuba: MitsubaSettings) -> Appearance | None:
    """The appearance for the options: from a file, or random; None for the scene's own.

    Raises:
        UserError: the file cannot be read or does not fit the scene's bodies.
    """
    from ti_render.photoreal import Appearance, draw_appearance

    if mitsuba.look != "photoreal":
        return None
    bodies = scene.part_names
    if options.appearance in (None, RANDOM):
        return draw_appearance(bodies, seed=mitsuba.seed, colors=options.colors or "keep")
    try:
        text = Path(options.appearance).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"appearance {options.appearance} cannot be read ({error}): give the appearance.json of a run") from error
    appearance = Appearance.from_json(text, name=options.appearance)
    appearance.check(bodies, name=options.appearance)
    return appearance
