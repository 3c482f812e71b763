"""The clock of a film that options describe."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError

_PREFIX = "film."  # of the parameters of a clock
_RATE_TOLERANCE, _TIME_TOLERANCE = 0.01, 2e-3  # in parts of the scene's rate, and of its frame interval
_LENGTH_TOLERANCE = 1e-6  # part of a scene's length by which its film may be longer


def parameters_in_options(options: argparse.Namespace) -> list[str]:
    """Names of parameters in options other than --set."""
    option_values = [getattr(options, name, None) or [] for name in ("unknown", "bounds", "per_film")]
    return [text.partition("=")[0] for texts in option_values for text in ([texts] if isinstance(texts, str) else texts)]


def use_film(scene: Any, options: argparse.Namespace, parameter_names: Iterable[str]) -> None:
    """Give the scene the clock that the options describe; without such options the scene does not change.

    Args:
        scene: the scene.
        options: of a command with ``add_scene_arguments``.
        parameter_names: names of parameters in other options; a name of a clock's parameter adds a clock.

    Raises:
        UserError: the film has no time stamps.
    """
    if scene.clock is None and any(name.startswith(_PREFIX) for name in parameter_names):
        scene.set_film()
    uses_film_times = options.fps == "film" or options.fps is None and _film_times_differ(scene, options)
    if uses_film_times or options.fps not in (None, "scene"):
        times = _shared_time_stamps(options) if uses_film_times else np.arange(_picture_count(scene, options.fps)) / options.fps
        scene.change_film(times=times[times <= scene.frames * scene.frame_dt * (1 + _LENGTH_TOLERANCE)])
    if "exposure" in dict(options.samples):
        scene.change_film(samples=dict(options.samples)["exposure"])


def _film_times_differ(scene: Any, options: argparse.Namespace) -> bool:
    """Whether a film has nearly the scene's rate but other time stamps than its frames; prints which film."""
    from risp_torch.files.film import film_facts

    video = getattr(options, "video", None)
    videos = [video] if isinstance(video, str) else video or []
    if not videos or not all(map(os.path.exists, videos)) or scene.clock is not None and scene.clock.times is not None:
        return False
    for video in videos:
        clock = film_facts(video).clock
        if (
            clock is None
            or clock.rate is None
            or clock.first_unordered_frame is not None
            or abs(clock.rate * scene.frame_dt - 1) > _RATE_TOLERANCE
        ):
            return False
        times = clock.unrounded[: scene.frames + 1]
        time_errors = np.abs(times - scene.frame_dt * np.arange(len(times)))
        if (time_errors > clock.tick + _TIME_TOLERANCE * scene.frame_dt).any():
            rates = f"{clock.rate:.6g} pictures per second, where the scene has {1 / scene.frame_dt:.6g} frames"
            print(f"times: those of {video} ({rates})")
            return True
    return False


def _picture_count(scene: Any, fps: float) -> int:
    """Number of pictures at this rate from the start of the scene to its end."""
    return math.floor(scene.frames * scene.frame_dt * fps * (1 + _LENGTH_TOLERANCE)) + 1


def _shared_time_stamps(options: argparse.Namespace) -> np.ndarray:
    """Time stamps of the film, which several films share.

    Raises:
        UserError: there is no film, or the films have different time stamps.
    """
    videos = [options.video] if isinstance(options.video, str) else options.video or []
    if not videos:
        raise UserError("--fps film takes the time stamps of a film: give it with --video")
    first, *others = [_time_stamps(video) for video in videos]
    if any(len(stamps) != len(first) or not np.allclose(stamps, first, rtol=0.0, atol=1e-6) for stamps in others):
        raise UserError("the films have different time stamps: invert them one by one, or give films of one rate")
    return first


def _time_stamps(video: str) -> np.ndarray:
    """[T] times of a film's pictures from the first one on [s]."""
    from risp_torch.files.film import film_facts

    clock = film_facts(video).clock
    if clock is None or len(clock.times) < 2 or clock.first_unordered_frame is not None:
        raise UserError(f"{video} has no time stamps that ascend: give the rate of its pictures with --fps")
    return clock.unrounded
