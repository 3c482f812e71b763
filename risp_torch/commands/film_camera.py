"""Cameras of films that show a crop or a resized part of the recorded pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ti_sim.base.errors import UserError
from ti_sim.base.warn import warn

_SQUARE_TOLERANCE = (
    0.01  # relative difference of the pixels' aspect and that of the focal lengths, above which there is a warning
)


def follow_films(scene: Any, options: argparse.Namespace) -> None:
    """Change the scene's cameras to film the parts in --video: their crops, sizes and rotations.

    A camera whose pictures have the size of the film stays as it is. One whose pictures have the size of those that the film was
    cut from, as shown or as stored, follows (``place_camera``).

    Args:
        scene: the scene, before numbers are set: those of --set and --from are for the films' pixels.
        options: of a command with ``add_scene_arguments``.

    Raises:
        UserError: a film cannot be read; films that are other parts share a camera; the pictures of a camera are neither those of
            its film nor those that it was cut from.
    """
    from risp_torch.files.film import film_facts

    videos = [options.video] if isinstance(getattr(options, "video", None), str) else getattr(options, "video", None) or []
    if not videos or not scene.cameras:
        return
    names = options.camera if isinstance(options.camera, list) else [options.camera]
    camera_films: dict[str | None, tuple[str, Any]] = {}
    for video, name in zip(videos, names * len(videos) if len(names) == 1 else names, strict=False):
        if not Path(video).exists():
            return  # the reader of the film raises the error
        facts = film_facts(video)
        placement = facts.full_placement
        first_video, first_placement = camera_films.setdefault(name, (video, placement))
        if placement != first_placement:
            raise UserError(
                f"{first_video} and {video} are other parts of what a camera took: name a camera for each film (--camera), or "
                "cut them alike"
            )
    for name, (video, placement) in camera_films.items():
        _place_camera_for_film(
            scene, name, video, placement, resized=bool(options.size) or getattr(options, "loss", None) == "risp"
        )


def _place_camera_for_film(scene: Any, name: str | None, video: str, placement: Any, *, resized: bool) -> None:
    """Change one camera to film a part, unless its pictures have the part's size already, or are resized."""
    from risp_torch.scene.parts.cameras import chosen_cameras

    camera = chosen_cameras(scene.cameras, name)[0]
    stored, size = placement.stored, (camera.width, camera.height)
    if size == (placement.width, placement.height):
        _check_pixels(scene, camera, video, placement)
    elif size in (stored.shown_size, stored.turned_size, (stored.width, stored.height)):
        scene.place_camera(placement, name=name)
        print(f"camera: its {size[0]}x{size[1]} pixels become the {placement.width}x{placement.height} of {video}")
    elif not (resized or placement.is_whole):
        scene.place_camera(placement, name=name)  # raises an error that lists the allowed sizes


def _check_pixels(scene: Any, camera: Any, video: str, placement: Any) -> None:
    """Warn of a camera with square pixels before a film without."""
    from risp_torch.scene.parts.cameras import prefix_of

    fx, fy = scene.table[f"{prefix_of(camera)}.focal"].value
    if abs(fx * placement.pixel_aspect / fy - 1) > _SQUARE_TOLERANCE:
        warn(
            f"pixels of {video} are {placement.pixel_aspect:.4g} times as wide as high, and the camera's focal lengths are "
            f"{fx:.4g} and {fy:.4g} pixels: read the film in square pixels, or change {prefix_of(camera)}.focal",
        )
