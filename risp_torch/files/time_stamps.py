"""Time stamps of the pictures of a film file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from risp_torch.files.video import DESCRIPTION
from ti_sim.base.errors import UserError


def time_stamps(path: str | Path) -> np.ndarray:
    """[T] time stamps of a film's pictures [s], the first at 0.

    Args:
        path: a video file, or a folder of pictures whose video.json names their rate.

    Raises:
        UserError: the file cannot be read, or has no time stamps that ascend.
    """
    times = _of_folder(Path(path)) if Path(path).is_dir() else _of_file(Path(path))
    if len(times) < 2 or not (np.diff(times) > 0).all():
        raise UserError(f"{path} has no time stamps that ascend: give the rate of its pictures with --fps")
    return times - times[0]


def _of_file(path: Path) -> np.ndarray:
    """Presentation times of a video file's packets, which is not decoded."""
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise UserError(f"{path} holds no video: give a video file or a folder of pictures")
            packets = container.demux(container.streams.video[0])
            times = [packet.pts * packet.time_base for packet in packets if packet.pts is not None]
    except (av.FFmpegError, OSError) as error:
        raise UserError(f"video {path} cannot be read ({error.strerror}): copy or export it again") from error
    return np.array(sorted(float(time) for time in times))


def _of_folder(folder: Path) -> np.ndarray:
    """Multiples of the time between pictures that a folder's description names."""
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        return np.arange(int(description["frames"])) / float(description["fps"])
    except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise UserError(f"{folder} has no {DESCRIPTION} with a rate and a number of frames: give the rate with --fps") from error
