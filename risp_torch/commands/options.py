"""Options that several commands share, and the scene they describe."""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from risp_torch.commands.film_camera import follow_films
from risp_torch.commands.film_options import options_about, use_film
from risp_torch.files.suggest import unknown_name_error
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Count, Positive, Rule

Samples = Annotated[int, Rule(whole=True, least=2, most=1024)]  # those of FilmClock, without an import of torch


def add_scene_arguments(
    parser: argparse.ArgumentParser, *, precision: str = "f32", optional: bool = False,
    cameras: Literal["one", "one or all", "several"] = "one",
) -> None:  # fmt: skip
    """SCENE, and options that change it or its simulation.

    Args:
        parser: of a command.
        precision: default of --precision.
        optional: whether SCENE may be missing.
        cameras: meaning of --camera.
    """
    parser.add_argument(
        "scene", metavar="SCENE", nargs="?" if optional else None,
        help="name of a scene (see 'risp scenes') or path of a .py file",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="another value for a parameter (dotted name), an entry of one (body.velocity[0]) or an option of make_scene; "
        "repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="found", metavar="RESULT.json",
        help="set the scene's parameters to the estimates of a run; --set has precedence",
    )  # fmt: skip
    parser.add_argument("--size", type=number(Count), metavar="PIXELS", help="side of a square picture instead of the scene's")
    parser.add_argument("--frames", type=number(Count), help="frame intervals instead of the scene's, as --set frames=N")
    group = parser.add_argument_group(
        "times of the film", "numbers of --set and --unknown: film.start [s], film.rate, film.exposure [s], film.line_time [s]"
    )
    group.add_argument(
        "--fps", type=number(Positive), metavar="RATE",
        help="pictures per second of the film (default: one at every frame of the scene)",
    )  # fmt: skip
    group.add_argument(
        "--moments", type=number(Samples), metavar="N",
        help="pictures rendered for one of a film with film.exposure or film.line_time (default 8)",
    )  # fmt: skip
    group = parser.add_argument_group("cameras")
    group.add_argument(
        "--camera", metavar="NAME", nargs="+" if cameras == "several" else None,
        help={
            "one": "name of the camera that films (default: the first one)",
            "one or all": "name of the camera that films, or all (default: the first one)",
            "several": "name of the camera that filmed (default: the first one), or one name for each film",
        }[cameras],
    )  # fmt: skip
    group.add_argument(
        "--camera-file", metavar="FILE",
        help="use the cameras of a file (OpenCV, nerfstudio or COLMAP) instead of the scene's",
    )  # fmt: skip
    group.add_argument(
        "--camera-up", choices=("z", "y", "-y"), help="of --camera-file: which axis of its world points up (default z)"
    )
    group.add_argument(
        "--camera-scale", type=number(Positive), metavar="M", help="of --camera-file: metres in one of its units (default 1)"
    )
    group.add_argument(
        "--camera-depth", type=_depths, metavar="NEAR:FAR",
        help="of --camera-file: distances between which objects are rendered [m] (default: those of the scene's first camera)",
    )  # fmt: skip
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where kernels run")
    parser.add_argument("--precision", choices=("f32", "f64"), default=precision, help="precision of all real numbers")


def add_bounds_argument(parser: argparse.ArgumentParser) -> None:
    """--bounds of unknowns (``bounds_of`` reads it)."""
    parser.add_argument(
        "--bounds", action="append", default=[], metavar="NAME=LOW:HIGH",
        help="range of an unknown, in place of that in the scene, numbers or vectors (body.velocity=-1,-1,0:1,1,0); "
        "LOW:HIGH:log10 for a logarithmic scale; repeatable",
    )  # fmt: skip


def add_prior_argument(parser: argparse.ArgumentParser) -> None:
    """--prior of unknowns (``prior_of`` reads it)."""
    parser.add_argument(
        "--prior", type=prior_of, action="append", default=[], metavar="NAME=SD",
        help="what is known of an unknown: its standard deviation about the scene's value (NAME=MEAN:SD about another one), as "
        "numbers or vectors (camera.turn=0.01,0.02,0.01) in its unit, or as 5%% of the mean; repeatable",
    )  # fmt: skip


def bounds_of(text: str) -> tuple[str, tuple]:
    """Name, and (low, high) or (low, high, scale), of NAME=LOW:HIGH[:SCALE]; the bounds are numbers or vectors.

    Raises:
        UserError: the text is not of this form.
    """
    name, equals, numbers = text.partition("=")
    limits = numbers.split(":")
    try:
        if not equals or not name.strip() or len(limits) not in (2, 3):
            raise ValueError
        return name.strip(), (_bound(limits[0]), _bound(limits[1]), *limits[2:])
    except (ValueError, TypeError, SyntaxError):
        raise UserError(
            f"--bounds {text!r} is not NAME=LOW:HIGH: write for example --bounds die.position=-0.1:0.1 or "
            "--bounds die.velocity=-1,-1,0:1,1,0 (and :log10 for a logarithmic scale)"
        ) from None


def prior_of(text: str) -> tuple[str, Any]:
    """Name, and standard deviation or (mean, standard deviation), of NAME=SD or NAME=MEAN:SD, for argparse.

    Numbers are vectors, too; a standard deviation with % stays a text.
    """
    name, equals, numbers = text.partition("=")
    *mean, sd = numbers.split(":")
    try:
        if not equals or not name.strip() or len(mean) > 1:
            raise ValueError
        wide = sd.strip() if sd.strip().endswith("%") else _bound(sd)
        return name.strip(), (_bound(mean[0]), wide) if mean else wide
    except (ValueError, TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(
            f"{format_value(text)} is not NAME=SD or NAME=MEAN:SD: write for example camera.turn=0.02, body.density=700:50 or "
            "body.mu=5%"
        ) from None


def _bound(text: str) -> Any:
    """A number, or nested lists of them."""
    try:
        return float(text)
    except ValueError:
        value = ast.literal_eval(text.strip())
    return _floats(value)


def _floats(value: Any) -> Any:
    return [_floats(entry) for entry in value] if isinstance(value, list | tuple) else float(value)


def number(kind: Any) -> Callable[[str], Any]:
    """The parser, for argparse, of a numeric option.

    Args:
        kind: an annotation with a rule, such as ``Count`` (``ti_sim.base.rules``).
    """
    rule = get_args(kind)[1]

    def read(text: str) -> Any:
        try:
            parsed: Any = int(text) if rule.whole else float(text)
        except ValueError:
            parsed = text
        try:
            rule.check("it", parsed)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return parsed

    return read


def make_scene(options: argparse.Namespace) -> Any:
    """Start the runtime's choice and make the scene that the options describe.

    Raises:
        UserError: see ``load_scene``; or a setting that is no NAME=VALUE, names nothing, or is out of bounds; values that do not
            fit; a camera file that cannot be used.
    """
    from risp_torch.scene.load import load_scene
    from risp_torch.scene.parts.cameras import ALL
    from ti_sim.base.runtime import start

    start(device=options.device, precision=options.precision)
    settings = dict(_setting(text) for text in options.settings)
    if hasattr(options, "per_film"):
        settings = {name: value for name, value in settings.items() if name not in settings_of_films(options)}
    frames = _frames(options, settings)
    overrides = {name: value for name, value in settings.items() if "." not in name and name not in ("gravity",)}
    scene_options, any_name = _options_of(options.scene)
    if frames is not None and "frames" in scene_options:
        overrides["frames"] = frames
    if not any_name:
        _check_overrides(options.scene, overrides, scene_options)
    scene = load_scene(options.scene, **overrides)
    scene.name = scene.name or options.scene
    if frames is not None:
        scene.frames = frames
    use_film(scene, options, [*settings, *options_about(options)])
    _use_camera_file(scene, options)
    follow_films(scene, options)
    if options.found is not None:
        from risp_torch.inversion.report.apply_result import apply_result

        apply_result(scene, options.found)
    for name, value in settings.items():
        if name not in overrides:
            scene.set(name, value)
    cameras = options.camera if isinstance(options.camera, list) else [options.camera or ALL]
    if len(cameras) == 1 and cameras[0] != ALL:  # with several, each has its own film
        scene.film_with(cameras[0])
    if options.size:
        scene.resize_camera(options.size, options.size)
    return scene


def make_scene_of_network(options: argparse.Namespace) -> Any:
    """The scene for the network of ``--network``: with pictures of its size, and edges as soft as in those of its training."""
    from risp_torch.risp.network.file import load_network
    from risp_torch.risp.task import resize_pictures

    size = options.size or load_network(options.network)[0].settings.size
    options.size = None
    scene = make_scene(options)
    resize_pictures(scene, size)
    return scene


def settings_of_films(options: argparse.Namespace) -> dict[str, Any]:
    """Values of --set for parameters of single films, "body.velocity@2" (``inversion.films``)."""
    return {name: value for name, value in (_setting(text) for text in options.settings) if "@" in name}


def _frames(options: argparse.Namespace, settings: dict[str, Any]) -> int | None:
    """Frame intervals of --frames or --set frames=, which is taken out of the settings; None where neither is given.

    Raises:
        UserError: both are given, or the number is none.
    """
    if "frames" not in settings:
        return options.frames
    frames = settings.pop("frames")
    if options.frames is not None:
        raise UserError(f"--frames {options.frames} and --set frames={frames} are the same option: leave one out")
    get_args(Count)[1].check("--set frames", frames)
    return frames


def _options_of(scene: str) -> tuple[list[str], bool]:
    """Names of the options of a scene's make_scene, and whether it accepts any other name."""
    from risp_torch.scene.load import find_make_scene

    parameters = inspect.signature(find_make_scene(scene)).parameters.values()
    named = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _check_overrides(name: str, overrides: dict[str, Any], scene_options: list[str]) -> None:
    """Raise a UserError for a setting without a dot that is not an option of make_scene."""
    from risp_torch.scene.load import load_scene

    for override in overrides:
        if override not in scene_options:
            raise unknown_name_error("parameter or option", override, [*scene_options, *load_scene(name).parameters])


def _use_camera_file(scene: Any, options: argparse.Namespace) -> None:
    """Use the cameras of --camera-file.

    Raises:
        UserError: the file cannot be read, the distances are none, or an option of the file is given without it.
    """
    set_options = [name for name in ("camera_up", "camera_scale", "camera_depth") if getattr(options, name) is not None]
    if options.camera_file is None:
        if set_options:
            raise UserError(f"--{set_options[0].replace('_', '-')} belongs to --camera-file FILE: give that too, or leave it out")
        return
    from risp_torch.scene.parts.cameras import Camera
    from ti_render.camera_files import read_cameras, z_up_from

    scale = 1.0 if options.camera_scale is None else options.camera_scale
    near, far = options.camera_depth or ((scene.camera.near, scene.camera.far) if scene.camera is not None else (0.1, 10.0))
    records = read_cameras(options.camera_file, world_from_file=z_up_from(options.camera_up or "z", scale=scale))
    scene.use_cameras([Camera.from_record(record, near=near, far=far) for record in records])


def _depths(text: str) -> tuple[float, float]:
    """Near and far of NEAR:FAR, for argparse."""
    near, colon, far = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not NEAR:FAR: write for example 0.1:5")
    return number(Positive)(near), number(Positive)(far)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set {text!r} is not NAME=VALUE: write for example --set ground.contact.friction=0.3")
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value
