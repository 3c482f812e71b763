"""The study of raw films: a wider camera, boxes that stand, a hand, a drift. Nothing is path-traced."""

from __future__ import annotations

import numpy as np
import torch

from risp_torch import load_scene, read_video, write_frames
from risp_torch.files.film import Cut, read_film
from studies.films.raw_film import BOXES, DRIFT, HEIGHT, HELD, WIDTH, drifted, hand, raw_scene, write_camera
from ti_render.camera_files import read_cameras


def test_a_part_of_the_wide_camera_is_the_scenes_own(tmp_path):
    wide, own = raw_scene(), load_scene("toss", size=64)
    write_frames(tmp_path / "film", np.zeros((2, HEIGHT, WIDTH, 3)), fps=100)
    part = read_film(tmp_path / "film", cut=Cut(crop=(32, 8, 128, 128), size=(64, 64)))
    placed = wide.camera.placed(part.placement)
    np.testing.assert_allclose(np.r_[placed.focal, placed.center], np.r_[own.camera.focal, own.camera.center], rtol=1e-6)
    write_camera(tmp_path / "camera.json", wide.camera)
    (record,) = read_cameras(tmp_path / "camera.json")
    np.testing.assert_allclose(record.intrinsics, np.r_[wide.camera.focal, wide.camera.center])
    np.testing.assert_allclose(record.position(), wide.camera.position, atol=1e-9)


def test_boxes_stand_and_the_pebble_does_not_notice():
    with torch.no_grad():
        states, alone = raw_scene(clutter=True).rollout(), raw_scene().rollout()
    moved = (states.body_q[0, :, 1:, :3] - states.body_q[0, :1, 1:, :3]).abs().max()
    assert states.body_q.shape[2] == 1 + len(BOXES) and float(moved) < 1e-4
    torch.testing.assert_close(states.body_q[:, :, 0], alone.body_q[:, :, 0])
    assert len(raw_scene(fps=30.0).film_times) == 11


def test_hand_and_drift(tmp_path):
    film = np.full((9, HEIGHT, WIDTH, 3), 0.4)
    spoiled, weights = hand(film, 2)
    changed = (spoiled != film).any(axis=-1)
    assert changed.any(axis=(1, 2)).tolist() == [2 <= k < 2 + HELD for k in range(9)]
    assert not (changed & (weights[..., 0] > 0)).any()
    assert 0.05 < 1 - weights[4, ..., 0].mean() < 0.6
    np.testing.assert_allclose(drifted(film)[[0, -1], 0, 0, 0], [0.4, 0.4 * (1 - DRIFT)])
    write_frames(tmp_path, weights, fps=100)
    np.testing.assert_array_equal(read_video(tmp_path), weights.astype(np.float32))
