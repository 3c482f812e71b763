"""Options that several commands share, and the scene they describe."""

from __future__ import annotations

import argparse
import ast
import inspect
from typing import Any

from risp_torch.suggest import unknown_name_error
from ti_sim.base.errors import UserError


def add_scene_arguments(parser: argparse.ArgumentParser, *, precision: str = "f32", optional: bool = False) -> None:
    """SCENE (which may lack where it is optional), --set, --size, --frames, --device, --precision."""
    parser.add_argument(
        "scene", metavar="SCENE", nargs="?" if optional else None,
        help="name of a scene (see 'risp scenes') or path of a .py file",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="another value for a parameter (dotted name) or an option of make_scene; repeatable",
    )  # fmt: skip
    parser.add_argument("--size", type=positive_int, metavar="PIXELS", help="side of a square picture instead of the scene's")
    parser.add_argument("--frames", type=positive_int, help="frame intervals instead of the scene's")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where kernels run")
    parser.add_argument("--precision", choices=("f32", "f64"), default=precision, help="precision of all real numbers")


def positive_int(text: str) -> int:
    """A number of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is too small: give at least 1")
    return value


def whole_number(text: str) -> int:
    """A number from 0 to 2^32 - 1, such as a seed, for argparse."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{value} is out of range: give 0 to {2**32 - 1}")
    return value


def quality(text: str) -> float:
    """A constant rate factor of H.264, 0 to 51, for argparse."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value <= 51:
        raise argparse.ArgumentTypeError(f"{text} is out of range: give 0 (best) to 51")
    return value


def make_scene(options: argparse.Namespace) -> Any:
    """Start the runtime's choice and make the scene that the options describe.

    Raises:
        UserError: as ``load_scene``; or a setting that is no NAME=VALUE, names nothing, or is out of bounds.
    """
    from risp_torch.scene import load_scene
    from ti_sim.base.runtime import start

    start(device=options.device, precision=options.precision)
    settings = dict(_setting(text) for text in options.settings)
    overrides = {name: value for name, value in settings.items() if "." not in name and name not in ("gravity",)}
    if overrides:
        _check_overrides(options.scene, overrides)
    scene = load_scene(options.scene, **overrides)
    scene.name = scene.name or options.scene
    for name, value in settings.items():
        if name not in overrides:
            scene.set(name, value)
    if options.size:
        scene.resize_camera(options.size, options.size)
    if options.frames:
        scene.frames = options.frames
    return scene


def _check_overrides(name: str, overrides: dict[str, Any]) -> None:
    """Name both kinds of settings when one without a dot is no option of make_scene."""
    from risp_torch.scene.load import find_make_scene

    known = list(inspect.signature(find_make_scene(name)).parameters)
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(find_make_scene(name)).parameters.values()):
        return
    for given in overrides:
        if given not in known:
            from risp_torch.scene import load_scene

            raise unknown_name_error("parameter or option", given, [*known, *load_scene(name).parameters])


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set {text!r} is not NAME=VALUE: write for example --set ground.contact.friction=0.3")
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value
