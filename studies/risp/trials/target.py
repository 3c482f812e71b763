"""Target of a trial: film or picture of the true motion in a held-out appearance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch import read_video, write_frames
from risp_torch.programs import RunFolder, first_setting_difference, to_jsonable, unknown_name_error
from risp_torch.scene.bridge import bridge_device, bridge_dtype
from ti_sim import Count, FromZero, Seed, UserError, checked

if TYPE_CHECKING:
    from risp_torch import Scene, States
    from risp_torch.risp import RispTask

RENDERERS = ("mitsuba", "rasteriser")
FRAMES = "frames"
_STREAM = 79  # random stream of appearances, different from that of test sets


@checked
def target_film(
    scene: Scene, task: RispTask, trial_kind: str, motion: States, folder: Path | str, *, seed: Seed, repeat: FromZero,
    samples: Count = 64, renderer: str = "mitsuba",
) -> Path:  # fmt: skip
    """Render the true motion in the random appearance of a repeat; existing pictures are not rendered again.

    Args:
        scene, task: scene and RISP task with the domains.
        trial_kind: "identify" or "imitate" for all frames, "reach" for only the last one.
        motion: states of the true scene.
        folder: folder of the film.
        seed, repeat: seeds of the appearance and of the noise.
        samples: light paths per pixel.
        renderer: "mitsuba", or "rasteriser" for an appearance of the training domain.

    Returns:
        Folder of PNG frames.

    Raises:
        UserError: an unknown renderer, the folder holds another film, or Mitsuba is not installed.
    """
    if renderer not in RENDERERS:
        raise unknown_name_error("renderer", renderer, RENDERERS)
    number = int(np.random.SeedSequence([seed, _STREAM, repeat]).generate_state(1)[0])
    placement = motion.placement[:1, -1:] if trial_kind == "reach" else motion.placement[:1]
    settings = {"film": scene.description(), "frames": placement.shape[1], "number": number, "renderer": renderer}
    if renderer == "rasteriser":
        return _rasterised(scene, task, placement, Path(folder), settings, number)
    return _path_traced(scene, task, placement, Path(folder), settings | {"samples": samples}, number)


def read_target(scene: Scene, trial_kind: str, folder: Path | str) -> torch.Tensor:
    """The target [frames + 1, H, W, 3] in linear rgb; a single picture, the last frame, is repeated for all.

    Raises:
        UserError: see ``read_video``.
    """
    camera = scene.camera
    frames = 1 if trial_kind == "reach" else scene.frames + 1
    pictures = read_video(folder, size=(camera.height, camera.width), frames=frames)
    film = torch.as_tensor(pictures, dtype=bridge_dtype(), device=bridge_device())
    return film.expand(scene.frames + 1, *film.shape[1:])


def _path_traced(
    scene: Scene, task: RispTask, placement: torch.Tensor, folder: Path, settings: dict[str, Any], number: int
) -> Path:
    from risp_torch.risp import write_photoreal_frames

    domain = replace(task.domains.target, samples=settings["samples"])
    film = domain.film(scene, placement, seed=number)
    _same_film(folder, settings | {"domain": domain.to_json(), "appearance": film.appearance})
    write_photoreal_frames(folder, film, fps=scene.fps, masks=False)
    return folder / FRAMES


def _rasterised(
    scene: Scene, task: RispTask, placement: torch.Tensor, folder: Path, settings: dict[str, Any], number: int
) -> Path:
    domain = task.domains.training
    _same_film(folder, settings | {"domain": domain.to_json()})
    if not (folder / FRAMES).is_dir():
        with torch.no_grad():
            pictures = scene.render(placement, domain.parameters.values(domain.appearances(1, seed=number)))[0]
        write_frames(folder / FRAMES, pictures, fps=scene.fps)
    return folder / FRAMES


def _same_film(folder: Path, settings: dict[str, Any]) -> None:
    """Start a film, or raise a UserError if the folder has another one; a caller may have marked it as finished."""
    existing = RunFolder(folder, {})
    if not existing.finished:
        RunFolder.open_or_create(folder, settings)
        return
    difference = first_setting_difference(existing.read_settings(), to_jsonable(settings))
    if difference is not None:
        raise UserError(f"the film in {folder} is another one ({difference}): choose another folder")
