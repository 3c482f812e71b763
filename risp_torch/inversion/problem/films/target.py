"""The target film: reading, checks against the scene, and its name in settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.video import read_video
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

Video = str | Path | np.ndarray | torch.Tensor


def load_target(scene: Scene, video: Video | Sequence[Video]) -> torch.Tensor:
    """The target film [frames + 1, H, W, 3] (linear rgb, working precision), checked; several films join along the width.

    Raises:
        UserError: no camera; a video that ``read_video`` cannot read; frames of another shape, not finite or outside [0, 1].
    """
    if isinstance(scene, Films):
        if len(video) != len(scene.films):
            raise UserError(f"{len(video)} films were given, and {len(scene.films)} are described: give as many")
        return torch.cat([load_target(film_scene, source) for film_scene, source in zip(scene.films, video, strict=True)], dim=-2)
    camera = scene.camera
    if camera is None:
        raise UserError("the scene has no camera: add one with add_camera")
    if isinstance(video, str | Path):
        rate = scene.fps if scene.clock is None or scene.clock.times is None else None  # time stamps need no constant rate
        frames = read_video(video, fps=rate, size=(camera.height, camera.width), frames=scene.frames + 1)
        return torch.as_tensor(frames, dtype=bridge_dtype(), device=bridge_device())
    scene_shape = (scene.frames + 1, camera.height, camera.width, 3)
    if tuple(np.shape(video)) != scene_shape:
        raise UserError(f"the target film has shape {tuple(np.shape(video))}, and the scene's films have {scene_shape}")
    frames = torch.as_tensor(video).detach().to(dtype=bridge_dtype(), device=bridge_device())
    if not torch.isfinite(frames).all() or frames.min() < -0.01 or frames.max() > 1.01:
        raise UserError(
            f"the target film has values from {float(frames.min()):.4g} to {float(frames.max()):.4g}: "
            "give finite linear colour in [0, 1] (bytes: divide by 255 and undo sRGB)"
        )
    return frames


def is_file(video: object) -> bool:
    """Whether a film, or each of several, is a video file, not a folder of frames."""
    if isinstance(video, list):
        return all(is_file(source) for source in video)
    return isinstance(video, str | Path) and Path(video).is_file()


def name_of(video: Any) -> Any:
    """A film, or each of several, for settings.json."""
    if isinstance(video, list):
        return [name_of(source) for source in video]
    return str(video) if isinstance(video, str | Path) else None if video is None else f"frames {tuple(video.shape)}"
