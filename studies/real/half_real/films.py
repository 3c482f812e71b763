"""Films of measured tosses: the motion is real, and lights, materials and floor are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from risp_torch import Camera, Scene, load_scene, read_video
from risp_torch.motions import Recording, Window
from risp_torch.risp import photoreal_film, write_photoreal_frames
from scenes.real import contactnets_cube as cube
from studies.real.contactnets import SCALE
from ti_render.photoreal import MitsubaSettings

FRAMES = 40  # frame intervals of a film
BEFORE = 8  # frames of it before the first contact, where the recording has them
EMPTY = 3  # pictures after them that show the table without the cube
SIZE = 96  # pixels
SAMPLES = 64  # paths of a pixel
ROOM = 1.5  # cube sides around the path that the picture shows
DISTANCE = 1.2  # m, from the middle of the path
CAMERAS = {"front": (0.25, -0.85, 0.45), "side": (0.85, 0.25, 0.45)}  # directions in which they stand
AWAY = (3.3, -1.8, 1.35)  # m: where the cube is in the last pictures, out of sight


def window_of(toss: Recording) -> Window:
    """The frames of a film: from a little before the first contact."""
    near_ground = np.flatnonzero(cube.lowest_corner(toss.body_q[:, 0]) < cube.CONTACT_HEIGHT)
    first = max(1, int(near_ground[0]) - BEFORE) if len(near_ground) else 1
    return Window(toss, min(first, len(toss) - FRAMES - 1), FRAMES + 1)


def film_scene(window: Window, values: dict[str, float]) -> tuple[Scene, np.ndarray]:
    """The scene of a film, and the measured poses [frames, 1, 7] in its lengths.

    Args:
        window: measured frames.
        values: numbers of the fit (``mean_values``); ``poses.scale`` among them.
    """
    scene = load_scene("real/contactnets_cube", frames=FRAMES)
    for name, value in values.items():
        scene.table.set(name, value)
    poses = window.body_q.copy()
    poses[..., :3] /= values[SCALE]
    scene.use_cameras([camera_of(name, poses[:, 0, :3]) for name in CAMERAS])
    return scene, poses


def camera_of(name: str, path: np.ndarray) -> Camera:
    """The camera of this name, which sees a path [frames, 3] m from one side and above."""
    low, high = path.min(axis=0) - ROOM / 2 * cube.SIDE, path.max(axis=0) + ROOM / 2 * cube.SIDE
    middle, radius = 0.5 * (low + high), 0.5 * float(np.linalg.norm(high - low))
    eye = middle + DISTANCE * np.array(CAMERAS[name])
    fov = 2 * np.degrees(np.arcsin(min(0.9, radius / DISTANCE)))
    return Camera.look_at(
        eye=tuple(eye), target=tuple(middle), vertical_fov=float(fov), width=SIZE, height=SIZE, near=0.2, far=4.0, name=name
    )  # fmt: skip


def film_of(scene: Scene, poses: np.ndarray, folder: Path, *, camera: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Path-trace a measured motion in the look of this seed; pictures that are in the folder are kept.

    Returns:
        The film [frames, H, W, 3] and the empty table [H, W, 3], linear rgb of 8-bit pictures.
    """
    away = poses[:1].copy()
    away[..., :3] = AWAY
    filmed_poses = np.concatenate([poses, np.repeat(away, EMPTY, axis=0)])
    settings = MitsubaSettings(samples=SAMPLES, seed=seed)
    film = photoreal_film(scene, torch.as_tensor(filmed_poses)[None].float(), camera=camera, options=settings)
    write_photoreal_frames(folder, film, fps=scene.fps, masks=False)
    pictures = np.asarray(read_video(folder / "frames"), dtype=np.float64)
    return pictures[: len(poses)], pictures[len(poses) :].mean(axis=0)
