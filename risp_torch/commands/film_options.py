"""The clock of a film that options describe."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError

_PREFIX = "film."  # of the numbers of a clock
_SAME_RATE, _AT_FRAME = 0.01, 2e-3  # of the scene's rate, and of its frame interval
_SPARE = 1e-6  # part of its length by which a film may be longer than its scene


def options_about(options: argparse.Namespace) -> list[str]:
    """Names of parameters in options other than --set."""
    option_values = [getattr(options, name, None) or [] for name in ("unknown", "bounds", "per_film")]
    return [text.partition("=")[0] for texts in option_values for text in ([texts] if isinstance(texts, str) else texts)]


def use_film(scene: Any, options: argparse.Namespace, named: Iterable[str]) -> None:
    """Give the scene the clock that the options describe; none of them leaves the scene as it is.

    Args:
        scene: the scene.
        options: of a command with ``add_scene_arguments``.
        named: names of parameters in other options; one of a clock needs one.

    Raises:
        UserError: the film has no time stamps.
    """
    if scene.clock is None and any(name.startswith(_PREFIX) for name in named):
        scene.set_film()
    by_film = options.fps == "film" or options.fps is None and _differs(scene, options)
    if by_film or options.fps not in (None, "scene"):
        times = _of_films(options) if by_film else np.arange(_longest(scene, options.fps)) / options.fps
        scene.change_film(times=times[times <= scene.frames * scene.frame_dt * (1 + _SPARE)])
    if "exposure" in dict(options.samples):
        scene.change_film(samples=dict(options.samples)["exposure"])


def _differs(scene: Any, options: argparse.Namespace) -> bool:
    """Whether a film has nearly the rate of the scene and other time stamps than its frames; says so."""
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
            or abs(clock.rate * scene.frame_dt - 1) > _SAME_RATE
        ):
            return False
        times = clock.unrounded[: scene.frames + 1]
        off = np.abs(times - scene.frame_dt * np.arange(len(times)))
        if (off > clock.tick + _AT_FRAME * scene.frame_dt).any():
            rates = f"{clock.rate:.6g} pictures per second, where the scene has {1 / scene.frame_dt:.6g} frames"
            print(f"times: those of {video} ({rates})")
            return True
    return False


def _longest(scene: Any, fps: float) -> int:
    """Pictures at this rate from the start of the scene to its end."""
    return math.floor(scene.frames * scene.frame_dt * fps * (1 + _SPARE)) + 1


def _of_films(options: argparse.Namespace) -> np.ndarray:
    """Time stamps of the film, which several films share.

    Raises:
        UserError: there is no film, or the films have different time stamps.
    """
    videos = [options.video] if isinstance(options.video, str) else options.video or []
    if not videos:
        raise UserError("--fps film takes the time stamps of a film: give it with --video")
    first, *following = [_time_stamps(video) for video in videos]
    if any(len(stamps) != len(first) or not np.allclose(stamps, first, rtol=0.0, atol=1e-6) for stamps in following):
        raise UserError("the films have different time stamps: invert them one by one, or give films of one rate")
    return first


def _time_stamps(video: str) -> np.ndarray:
    """[T] times of a film's pictures from the first one on [s]."""
    from risp_torch.files.film import film_facts

    clock = film_facts(video).clock
    if clock is None or len(clock.times) < 2 or clock.first_unordered_frame is not None:
        raise UserError(f"{video} has no time stamps that ascend: give the rate of its pictures with --fps")
    return clock.unrounded
