"""Estimate unknown parameters of a scene from a film."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from risp_torch.commands.estimates import print_inversion
from risp_torch.commands.loss_options import add_loss_arguments, check_loss_options, make_compared_scene, make_losses
from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import (
    add_bounds_argument,
    add_prior_argument,
    add_scene_arguments,
    bounds_of,
    priors_of,
    settings_of_films,
)
from risp_torch.commands.search_options import add_search_arguments, search_stages
from risp_torch.files.run_folder import FinishedError, RunFolder, default_run_path
from ti_sim.base.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The film, the unknowns, the loss, the search, and SCENE with its options."""
    parser.add_argument(
        "--video", metavar="FILE", nargs="+",
        help="an .mp4 or a folder of PNG frames (not needed with --loss state, mask, image-tracks or depth); several films, of "
        "other motions or by other cameras, are inverted together",
    )  # fmt: skip
    parser.add_argument(
        "--unknown", required=True, nargs="+", action="extend", metavar="NAME",
        help="parameters to find, or single entries of them (body.velocity[0]); psi for all rendering parameters of the task",
    )  # fmt: skip
    add_bounds_argument(parser)
    add_prior_argument(parser, smooth=True)
    add_search_arguments(parser)
    add_loss_arguments(parser)
    films = add_scene_arguments(parser, cameras="several", with_video=True)
    films.add_argument(
        "--per-film", metavar="NAME", nargs="+", action="extend", default=[],
        help="with several films: parameters that differ between films, such as initial velocities; NAME@2 is that of the "
        "second, also in --bounds and --set",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/invert-SCENE-TIME)")


def run(options: argparse.Namespace) -> int:
    """Run the inversion, print estimates and starts, write the run's folder."""
    from risp_torch.inversion.run.invert import invert

    check_loss_options(options, target_needed=True)
    search = search_stages(options)
    bounds = dict(bounds_of(text) for text in options.bounds)
    scene = make_compared_scene(options)
    options.out = options.out or default_run_path("invert", scene.name)
    losses = make_losses(options, scene)
    unknown = unknown_of(options.unknown, options, scene)
    for sentence in [
        *_unused_frame_sentences(options, scene),
        *(remark for loss in losses for remark in loss.target_used(scene)),
    ]:
        print(f"used: {sentence}")
    scene, video = _scene_and_film(options, scene)
    try:
        result = invert(
            scene, video, unknown, starts=[{}] if options.starts == "scene" else options.starts, seed=options.seed, loss=losses,
            sampling=options.sampling, bounds=bounds, priors=priors_of(options), search=search, out=options.out,
        )  # fmt: skip
    except FinishedError as finished:
        record = RunFolder(Path(options.out), {}).read_result()
        print("\n".join([*record.get("doubts", []), f"risp invert: {finished}"]))
        _print_next_steps(options)
        return _exit_status(options, record.get("converged"), record.get("fits"))
    print_inversion(result)
    _print_next_steps(options)
    return _exit_status(options, result.converged, result.fits)


def _print_next_steps(options: argparse.Namespace) -> None:
    """Print the last line of a finished run."""
    pictures = [Path(options.out) / name for name in ("strip.png", "error_bars.png")]
    print_next_steps(*(path for path in pictures if path.exists()), next_command=("risp", "show", options.out))


def _unused_frame_sentences(options: argparse.Namespace, scene: Any) -> list[str]:
    """Sentences on films that are longer than the scene, of which the first frames are compared."""
    from risp_torch.files.film import film_facts

    counts = [(video, film_facts(video).frames) for video in options.video or [] if Path(video).exists()]
    return [
        f"{video}: the first {scene.frames + 1} of {count} frames are compared; the others are after the scene's end"
        for video, count in counts
        if count > scene.frames + 1
    ]


def _exit_status(options: argparse.Namespace, converged: bool | None, fits: bool | None) -> int:
    """Exit status of a finished run: 1 with --strict if the estimate may be wrong."""
    return 1 if options.strict and (converged is not True or fits is not True) else 0


def _scene_and_film(options: argparse.Namespace, scene: Any) -> tuple[Any, Any]:
    """The scene and its film; with several films or parameters of each film, the scene of all of them.

    Raises:
        UserError: see ``Films``; or --set names a parameter that does not differ between films.
    """
    from risp_torch.inversion.problem.films.multi_film import Films

    videos, cameras = options.video or [], options.camera or []
    if len(videos) < 2 and not options.per_film:
        if len(cameras) > 1:
            raise UserError(f"{len(cameras)} cameras are named, and there is {len(videos)} film: name one camera for each film")
        return scene, videos[0] if videos else None
    if not videos:
        raise UserError("--per-film needs films: give them with --video, or leave it out")
    films = Films(scene, len(videos), cameras=cameras if len(cameras) > 1 else (), per_film=options.per_film)
    for name, value in settings_of_films(options).items():
        films.set(name, value)
    return films, videos


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: yes."""
    return True


def unknown_of(names: Sequence[str], options: argparse.Namespace, scene: Any) -> list[Any]:
    """The unknowns by name, with the rendering parameters of the scene's task in place of "psi" if its file has a task."""
    from risp_torch.risp.task import load_task
    from risp_torch.scene.load import has_function

    if "psi" not in names or not has_function(options.scene, "make_task"):
        return list(names)
    psi = load_task(options.scene, scene).domains.training.parameters
    return [psi if name == "psi" else name for name in names]
