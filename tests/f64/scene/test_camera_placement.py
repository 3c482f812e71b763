"""Cameras follow crops, sizes and turns: where points appear, and what the renderer makes of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from risp_torch import Camera, Param, Scene, UserError
from risp_torch.files.film import Placement, StoredPicture
from risp_torch.files.film.area import place_picture, stored_region
from tests.reference.small_scenes import make_scene
from ti_render.camera_files import CameraRecord

LENS = (-0.2, 0.05, 0.01, -0.02, 0.03)
POINTS = np.array([[0.1, -0.2, 0.3], [-0.3, 0.1, 0.1], [0.2, 0.3, -0.2], [0.0, 0.0, 0.0]])


def camera_of(width: int, height: int) -> Camera:
    """A camera with a lens, turned a little, whose principal point is not in the middle."""
    return Camera.look_at(
        eye=(0.4, -1.5, 0.7), target=(0.0, 0.0, 0.0), vertical_fov=50, width=width, height=height, distortion=LENS
    )


def image_points(camera: Camera) -> np.ndarray:
    """Where points of the world appear [pixels], by the renderer's own conventions of camera files."""
    record = CameraRecord(
        name="a", width=camera.width, height=camera.height, intrinsics=np.concatenate([camera.focal, camera.center]),
        rotation=camera.rotation, translation=-camera.rotation @ np.asarray(camera.position),
        distortion=np.asarray(camera.distortion),
    )  # fmt: skip
    return np.array([record.project(point) for point in POINTS])


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("aspect", [Fraction(1), Fraction(9, 16), Fraction(4, 3)])
def test_points_appear_where_the_part_has_them(turns: int, aspect: Fraction) -> None:
    """Of cameras that took the film as stored, and as turned or shown."""
    stored = StoredPicture(width=320, height=240, pixel_aspect=aspect, quarter_turns=turns)
    part = Placement.shown(stored).cropped(11, 7, 120, 90).resized(40, 30)
    camera = camera_of(320, 240)
    in_part = image_points(camera.placed(part))
    if turns == 2:  # stored and turned pictures have one size: the camera is taken for one of the picture that is shown
        half = image_points(camera)
        np.testing.assert_allclose(part.turned_points(in_part), half, atol=1e-9)
    else:
        np.testing.assert_allclose(part.stored_points(in_part), image_points(camera), atol=1e-9)
    turned = camera_of(*stored.turned_size)
    np.testing.assert_allclose(part.turned_points(image_points(turned.placed(part))), image_points(turned), atol=1e-9)
    shown = camera_of(*stored.shown_size)
    whole = Placement.shown(stored)
    expected = (whole.turned_points(image_points(shown)) - part.offset) / part.scale
    np.testing.assert_allclose(image_points(shown.placed(part)), expected, atol=1e-9)


def test_a_turn_of_the_camera_turns_with_the_picture() -> None:
    """The parameter ``turn``, about the camera's own axes, is one about the new axes."""
    from risp_torch.scene.numbers import constant
    from risp_torch.scene.rotations import rotation_matrix, rotation_quaternion

    turn = np.array([0.1, -0.2, 0.3])
    camera = Camera.look_at(eye=(0.4, -1.5, 0.7), target=(0, 0, 0), vertical_fov=50, width=64, height=48)
    part = Placement.turned(StoredPicture(width=64, height=48, quarter_turns=1))
    placed = Camera(**{**vars(camera), "turn": turn}).placed(part)

    def whole(turn: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        return rotation_matrix(rotation_quaternion(constant(turn[None])))[0].cpu().numpy() @ rotation

    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    expected = quarter @ whole(turn, camera.rotation)
    np.testing.assert_allclose(whole(np.asarray(placed.turn), placed.rotation), expected, atol=1e-12)


def render(scene: Scene) -> np.ndarray:
    with torch.no_grad():
        return scene.render(scene.rollout(worlds=1, frames=2))[0, -1].cpu().numpy()


@pytest.mark.parametrize("turns", range(4))
def test_a_part_of_a_fine_picture_is_the_followed_cameras(turns: int) -> None:
    """A crop, averaged by four, of a picture of 192 x 160 pixels, shown turned, beside what the followed camera renders.

    Both see the same: the samples of the small picture are the pixels of the fine one, and edges, whose softness is a part of the
    picture, are as soft in the world.
    """

    def scene() -> Scene:
        made = make_scene(size=192)
        made.resize_camera(192, 160)
        return made

    fine = scene()
    fine.sigma = 1e-5
    # A camera for the film as stored; for half a turn, as shown.
    stored = StoredPicture(width=192, height=160, quarter_turns=turns)
    part = Placement.shown(stored).cropped(40, 30, 96, 80).resized(24, 20)
    picture = render(fine)
    if turns == 2:
        picture = np.rot90(picture, k=2)
    expected = place_picture(picture[stored_region(part)], part)
    small = scene()
    small.place_camera(part)
    small.sigma, small.style = 4e-5, replace(small.style, antialias=4)
    assert (small.camera.width, small.camera.height) == (24, 20)
    error = np.abs(render(small) - expected)
    assert error.mean() < 1e-4 < 1e-2 < np.abs(np.roll(expected, 1, axis=1) - expected).mean()  # a pixel off would be told


def test_numbers_of_a_scene_follow_with_their_bounds() -> None:
    scene = make_scene(size=64)
    focal = scene.table["camera.focal"].value
    scene.table.params["camera.focal"] = Param(focal, low=0.5 * focal, high=2.0 * focal)
    scene.table.params["camera.center"] = Param([32.0, 32.0], low=[30.0, 28.0], high=[35.0, 33.0])
    part = Placement.turned(StoredPicture(width=64, height=64)).cropped(8, 16, 32, 32).resized(16, 16)
    scene.place_camera(part)
    followed = scene.table["camera.focal"]
    np.testing.assert_allclose([followed.value, followed.low, followed.high], np.outer([1, 0.5, 2], focal / 2))
    center = scene.table["camera.center"]
    np.testing.assert_allclose([center.value, center.low, center.high], [[12, 8], [11, 6], [13.5, 8.5]])
    assert not center.frozen and scene.camera.width == 16


def test_bounds_change_places_where_an_axis_is_reversed() -> None:
    camera = Camera.look_at(eye=(0, -1, 0), target=(0, 0, 0), vertical_fov=50, width=40, height=30)
    numbers = vars(camera) | {"center": Param([20.0, 15.0], low=[18.0, 14.0], high=[21.0, 17.0])}
    part = Placement.turned(StoredPicture(width=40, height=30, quarter_turns=1))
    center = Camera(**numbers).placed(part).center
    np.testing.assert_allclose([center.value, center.low, center.high], [[15, 20], [13, 18], [16, 21]])
    with pytest.raises(UserError, match="one bound only cannot be turned"):
        Camera(**vars(camera) | {"center": Param([20.0, 15.0], low=[18.0, 14.0])}).placed(part)


def test_a_camera_of_another_film_is_refused() -> None:
    part = Placement.shown(StoredPicture(width=1080, height=1080, pixel_aspect=Fraction(9, 16))).cropped(0, 0, 500, 500)
    culprit = "pictures are 64x48 pixels, and the film was cut from pictures of 607x1080 or 1080x1080: give the camera"
    with pytest.raises(UserError, match=culprit):
        camera_of(64, 48).placed(part)
