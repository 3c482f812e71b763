"""Cameras of a scene: add, replace, reorder and resize them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from risp_torch.files.film.placement import Placement
from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.parts.camera_placement import placed_parameters
from risp_torch.scene.parts.cameras import ALL, Camera, add_camera_parameters, chosen_cameras, drop_camera_parameters, prefix_of
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked


@checked
def add_camera(scene: SceneSpec, camera: Camera) -> None:
    """Add a camera. The first camera is the default.

    Args:
        scene: the scene.
        camera: the camera, with its part of parameter names.

    Raises:
        UserError: the name is taken or invalid, or a second camera has no name.
    """
    names = [existing.name for existing in scene.cameras]
    if camera.name in names and not camera.name:
        raise UserError("the scene has a camera without a name already: give the cameras names (Camera(..., name='left'))")
    if camera.name in names:
        raise UserError(f"the scene has a camera {camera.name!r} already: give the second one another name")
    if camera.name == ALL or camera.name and not re.fullmatch(r"[\w-]+", camera.name):
        raise UserError(f"a camera is called {camera.name!r}: use letters, digits, _ and -, and not 'all'")
    add_camera_parameters(scene.table, camera)
    scene.cameras += (camera,)


@checked
def use_cameras(scene: SceneSpec, cameras: Sequence[Camera]) -> None:
    """Replace all cameras of the scene.

    Args:
        scene: the scene.
        cameras: at least one.

    Raises:
        UserError: there is none, or a name occurs twice or is invalid.
    """
    if not cameras:
        raise UserError("there are no cameras to film with: give at least one")
    for camera in scene.cameras:
        drop_camera_parameters(scene.table, camera)
    scene.cameras = ()
    for camera in cameras:
        add_camera(scene, camera)


@checked
def film_with(scene: SceneSpec, name: str) -> None:
    """Make the camera with this name the first one, which is the default.

    Args:
        scene: the scene.
        name: name of the camera.

    Raises:
        UserError: no camera has that name.
    """
    matching = [camera for camera in scene.cameras if camera.name == name]
    if not matching:
        names = [camera.name for camera in scene.cameras if camera.name]
        if not names:
            raise UserError(f"no camera is called {name!r}: the scene's only camera has no name, leave it out")
        raise unknown_name_error("camera", name, names)
    (chosen,) = matching
    scene.cameras = (chosen, *(camera for camera in scene.cameras if camera is not chosen))


@checked
def place_camera(scene: SceneSpec, placement: Placement, *, name: str | None = None) -> None:
    """Restrict a camera to a part of its pictures, such as the crop, in fewer pixels, that a film shows (``Film.placement``).

    Its parameters and their bounds change: focal lengths and principal point are in the part's pixels, axes those
    of a rotated picture.

    Args:
        scene: the scene.
        placement: of the part in the pictures that the camera takes: those of the film as shown, or as stored.
        name: of the camera; the first one for None.

    Raises:
        UserError: there is no such camera, or its pictures are of another size than the film's.
    """
    (camera,) = chosen_cameras(scene.cameras, name)
    rotation, changes = placed_parameters(camera.width, camera.height, placement)
    for field, change in changes.items():
        parameter_name = f"{prefix_of(camera)}.{field}"
        if field != "distortion" or camera.distortion is not None:
            scene.table.params[parameter_name] = change.apply(scene.table[parameter_name])
    cropped = replace(camera, rotation=rotation @ camera.rotation, width=placement.width, height=placement.height)
    scene.cameras = tuple(cropped if entry is camera else entry for entry in scene.cameras)


@checked
def resize_camera(scene: SceneSpec, width: Count, height: Count) -> None:
    """Change the image size of all cameras with the same field of view: focal lengths and principal points are scaled.

    Args:
        scene: the scene.
        width, height: of the images [pixels].

    Raises:
        UserError: there is no camera, or a side is less than a pixel.
    """
    chosen_cameras(scene.cameras, None)
    for camera in scene.cameras:
        factor = np.array([width / camera.width, height / camera.height])
        for field in ("focal", "center"):
            scene.table.scale(f"{prefix_of(camera)}.{field}", factor)
    scene.cameras = tuple(replace(camera, width=width, height=height) for camera in scene.cameras)


def add_lens(scene: SceneSpec, name: str) -> None:
    """Give a camera without a lens one without distortion, so that its coefficients can be unknown.

    Args:
        scene: the scene.
        name: of the coefficients, "camera.distortion" or "camera.left.distortion"; other names change nothing, nor do cameras
            that have a lens.
    """
    for camera in scene.cameras:
        if camera.distortion is None and name == f"{prefix_of(camera)}.distortion":
            with_lens = replace(camera, distortion=np.zeros(5))
            scene.table.add(name, with_lens.distortion, unit="", shape=(5,))
            scene.cameras = tuple(with_lens if entry is camera else entry for entry in scene.cameras)
