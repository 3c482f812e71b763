"""Options that several commands share, and the scene they describe."""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from risp_torch.commands.film_camera import follow_films
from risp_torch.commands.film_options import parameters_in_options, use_film
from risp_torch.files.suggest import unknown_name_error
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Count, Positive, Rule

# Rules of FilmClock and of the scene's style, without an import of torch.
_SAMPLES = {
    "exposure": Annotated[int, Rule(integer=True, minimum=2, maximum=1024)],
    "pixel": Annotated[int, Rule(integer=True, minimum=1, maximum=16)],
}
_UP_AXES = ("z", "y", "-y")


def add_scene_arguments(
    parser: argparse.ArgumentParser, *, precision: str | None = "f32", optional: bool = False,
    cameras: Literal["one", "one or all", "several"] = "one", with_video: bool = False,
) -> argparse._ArgumentGroup:  # fmt: skip
    """SCENE, and options that change it or its simulation.

    Args:
        parser: of a command.
        precision: default of --precision; None where the command chooses.
        optional: whether SCENE may be missing.
        cameras: meaning of --camera.
        with_video: whether the command has --video, whose time stamps can be those of the scene's film.

    Returns:
        The group of options about the scene and its film.
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
    films = parser.add_argument_group(
        "scene and film", "parameters of --set and --unknown: film.start [s], film.rate, film.exposure [s], film.line_time [s]"
    )
    films.add_argument(
        "--from", dest="result_path", metavar="RESULT.json",
        help="set the scene's parameters to the estimates of a run; --set has precedence",
    )  # fmt: skip
    films.add_argument(
        "--size", type=picture_size, metavar="PIXELS|WxH", help="size of the pictures instead of the scene's: a side, or both"
    )
    films.add_argument("--frames", type=number_parser(Count), help="frame intervals instead of the scene's, as --set frames=N")
    films.add_argument(
        "--fps", type=_film_rate if with_video else number_parser(Positive), metavar="RATE|film|scene" if with_video else "RATE",
        help="pictures per second of the film; film takes the time stamps of --video, scene a picture at every frame (default: "
        "the time stamps where they differ from the frames and the rates are within 1 %%, else the frames)"
        if with_video else "pictures per second of the film (default: one at every frame of the scene)",
    )  # fmt: skip
    films.add_argument(
        "--samples", type=_sample_count, nargs="+", action="extend", default=[], metavar="NAME=N",
        help="samples of a picture: exposure=N pictures for one of a film with film.exposure or film.line_time (default 8), "
        "pixel=N along each side of a pixel (default: the scene's)",
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
        "--camera-settings", type=_camera_setting, nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="of --camera-file: up=z|y|-y, the axis of its world that points up (default z), scale=M, metres in one of its units "
        "(default 1), depth=NEAR:FAR, distances between which objects are rendered [m] (default: the scene's)",
    )  # fmt: skip
    group = parser.add_argument_group("computation")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where kernels run")
    group.add_argument("--precision", choices=("f32", "f64"), default=precision, help="of real numbers (default f32)")
    return films


def add_bounds_argument(parser: argparse.ArgumentParser) -> None:
    """--bounds of unknowns (``bounds_of`` reads it)."""
    parser.add_argument(
        "--bounds", action="append", default=[], metavar="NAME=LOW:HIGH",
        help="range of an unknown, in place of that in the scene, numbers or vectors (body.velocity=-1,-1,0:1,1,0); "
        "LOW:HIGH:log10 for a logarithmic scale; repeatable",
    )  # fmt: skip


def add_prior_argument(parser: argparse.ArgumentParser, *, smooth: bool = False) -> None:
    """--prior of unknowns (``prior_of`` reads it), or also of their smoothness."""
    smoothness = "; or smooth:WEIGHT for values per element, a penalty on the mean squared difference of neighbours"
    parser.add_argument(
        "--prior", type=smooth_prior_of if smooth else prior_of, action="append", default=[], metavar="NAME=SD",
        help="what is known of an unknown: its standard deviation about the scene's value (NAME=MEAN:SD about another one), as "
        f"numbers or vectors (camera.turn=0.01,0.02,0.01) in its unit, or as 5%% of the mean{smoothness if smooth else ''}; "
        "repeatable",
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
        return name.strip(), (_parsed_numbers(limits[0]), _parsed_numbers(limits[1]), *limits[2:])
    except (ValueError, TypeError, SyntaxError):
        raise UserError(
            f"--bounds {text!r} is not NAME=LOW:HIGH: write for example --bounds die.position=-0.1:0.1 or "
            "--bounds die.velocity=-1,-1,0:1,1,0 (and :log10 for a logarithmic scale)"
        ) from None


class SmoothnessWeight(float):
    """Weight of the penalty on differences of neighbouring elements."""


def priors_of(options: argparse.Namespace) -> dict[str, Any]:
    """Standard deviations, means with them, and ``SmoothnessPrior`` of --prior, by the names of unknowns."""
    from risp_torch.inversion.problem.smoothness import SmoothnessPrior

    normal = {name: prior for name, prior in options.prior if not isinstance(prior, SmoothnessWeight)}
    weights = {name: float(weight) for name, weight in options.prior if isinstance(weight, SmoothnessWeight)}
    return normal | {name: SmoothnessPrior(weight, normal.get(name)) for name, weight in weights.items()}


def smooth_prior_of(text: str) -> tuple[str, Any]:
    """Name and ``SmoothnessWeight`` of NAME=smooth:WEIGHT, or ``prior_of``, for argparse."""
    name, _, prior = text.partition("=")
    kind, _, weight = prior.partition(":")
    if name.strip() and kind.strip() == "smooth":
        return name.strip(), SmoothnessWeight(number_parser(Positive)(weight))
    return prior_of(text)


def prior_of(text: str) -> tuple[str, Any]:
    """Name, and standard deviation or (mean, standard deviation), of NAME=SD or NAME=MEAN:SD, for argparse.

    Numbers are vectors, too; a standard deviation with % stays a text.
    """
    name, equals, numbers = text.partition("=")
    *mean, sd = numbers.split(":")
    try:
        if not equals or not name.strip() or len(mean) > 1:
            raise ValueError
        deviation = sd.strip() if sd.strip().endswith("%") else _parsed_numbers(sd)
        return name.strip(), (_parsed_numbers(mean[0]), deviation) if mean else deviation
    except (ValueError, TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(
            f"{format_value(text)} is not NAME=SD or NAME=MEAN:SD: write for example camera.turn=0.02, body.density=700:50 or "
            "body.mu=5%"
        ) from None


def _parsed_numbers(text: str) -> Any:
    """A number, or nested lists of them."""
    try:
        return float(text)
    except ValueError:
        value = ast.literal_eval(text.strip())
    return _floats(value)


def _floats(value: Any) -> Any:
    return [_floats(entry) for entry in value] if isinstance(value, list | tuple) else float(value)


def number_parser(kind: Any) -> Callable[[str], Any]:
    """The parser, for argparse, of a numeric option.

    Args:
        kind: an annotation with a rule, such as ``Count`` (``ti_sim.base.rules``).
    """
    rule = get_args(kind)[1]

    def parse(text: str) -> Any:
        try:
            parsed: Any = int(text) if rule.integer else float(text)
        except ValueError:
            parsed = text
        try:
            rule.check("it", parsed)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return parsed

    return parse


def picture_size(text: str) -> tuple[int, int]:
    """Width and height of WxH, or of the side of a square, for argparse."""
    width, cross, height = text.lower().partition("x")
    try:
        return number_parser(Count)(width), number_parser(Count)(height if cross else width)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or write for example 128x96") from None


def side_of(size: tuple[int, int] | None) -> int | None:
    """The side of the square pictures of a network; None where --size is left out.

    Raises:
        UserError: they are not square.
    """
    if size is None or size[0] == size[1]:
        return None if size is None else size[0]
    raise UserError(f"--size {size[0]}x{size[1]} is not square, and networks take square pictures: give one side")


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
    scene_options, accepts_any_name = _make_scene_options(options.scene)
    if frames is not None and "frames" in scene_options:
        overrides["frames"] = frames
    if not accepts_any_name:
        _check_overrides(options.scene, overrides, scene_options)
    scene = load_scene(options.scene, **overrides)
    scene.name = scene.name or options.scene
    if frames is not None:
        scene.frames = frames
    use_film(scene, options, [*settings, *parameters_in_options(options)])
    _use_camera_file(scene, options)
    follow_films(scene, options)
    if options.result_path is not None:
        from risp_torch.inversion.report.apply_result import apply_result

        apply_result(scene, options.result_path)
    for name, value in settings.items():
        if name not in overrides:
            scene.set(name, value)
    if "pixel" in dict(options.samples):
        scene.style = replace(scene.style, antialias=dict(options.samples)["pixel"])
    cameras = options.camera if isinstance(options.camera, list) else [options.camera or ALL]
    if len(cameras) == 1 and cameras[0] != ALL:  # with several, each has its own film
        scene.film_with(cameras[0])
    if options.size:
        scene.resize_camera(*options.size)
    return scene


def make_scene_of_network(options: argparse.Namespace, network: str) -> Any:
    """The scene for a network's file: with pictures of its size, and edges as soft as in those of its training."""
    from risp_torch.risp.network.file import load_network
    from risp_torch.risp.task import resize_pictures

    size = side_of(options.size) or load_network(network)[0].settings.size
    scene, _ = make_unsized_scene(options)
    resize_pictures(scene, size)
    return scene


def make_unsized_scene(options: argparse.Namespace) -> tuple[Any, int | None]:
    """The scene for pictures of networks, which get their size by ``resize_pictures``; and the side of --size, or None.

    Raises:
        UserError: see ``make_scene`` and ``side_of``; or pixels of --samples, which are those of the training.
    """
    side = side_of(options.size)
    if "pixel" in dict(options.samples):
        raise UserError("--samples pixel=N does not go with a network, whose pictures have samples of their own: leave it out")
    options.size = None
    return make_scene(options), side


def settings_of_films(options: argparse.Namespace) -> dict[str, Any]:
    """Values of --set for parameters of single films, "body.velocity@2" (``Films``)."""
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


def _make_scene_options(scene: str) -> tuple[list[str], bool]:
    """Names of the options of a scene's make_scene, and whether it accepts any other name."""
    from risp_torch.scene.load import find_make_scene

    parameters = inspect.signature(find_make_scene(scene)).parameters.values()
    option_names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return option_names, any(p.kind is p.VAR_KEYWORD for p in parameters)


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
    settings = dict(options.camera_settings)
    if options.camera_file is None:
        if settings:
            raise UserError("--camera-settings belongs to --camera-file FILE: give that too, or leave it out")
        return
    from risp_torch.scene.parts.cameras import Camera
    from ti_render.camera_files import read_cameras, z_up_from

    near, far = settings.get("depth") or ((scene.camera.near, scene.camera.far) if scene.camera is not None else (0.1, 10.0))
    world_from_file = z_up_from(settings.get("up", "z"), scale=settings.get("scale", 1.0))
    records = read_cameras(options.camera_file, world_from_file=world_from_file)
    scene.use_cameras([Camera.from_record(record, near=near, far=far) for record in records])


def _camera_setting(text: str) -> tuple[str, Any]:
    """Name and value of up=AXIS, scale=M or depth=NEAR:FAR, for argparse."""
    name, _, value = text.partition("=")
    near, colon, far = value.partition(":")
    if name == "up" and value in _UP_AXES:
        return name, value
    if name == "scale":
        return name, number_parser(Positive)(value)
    if name == "depth" and colon:
        return name, (number_parser(Positive)(near), number_parser(Positive)(far))
    raise argparse.ArgumentTypeError(
        f"{format_value(text)} is no setting of cameras: write up=z, up=y, up=-y, scale=M or depth=NEAR:FAR"
    )


def _sample_count(text: str) -> tuple[str, int]:
    """Name and number of exposure=N or pixel=N, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or name not in _SAMPLES:
        raise argparse.ArgumentTypeError(f"{format_value(text)} is no number of samples: write exposure=N or pixel=N")
    return name, number_parser(_SAMPLES[name])(value)


def _film_rate(text: str) -> float | str:
    """A rate, film or scene, for argparse."""
    if text in ("film", "scene"):
        return text
    try:
        return number_parser(Positive)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or write film or scene") from None


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set {text!r} is not NAME=VALUE: write for example --set ground.contact.friction=0.3")
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value
