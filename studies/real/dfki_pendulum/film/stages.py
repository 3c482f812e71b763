"""Stages of the study, each of which writes a file; one whose file is there is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from risp_torch import load_scene
from studies.real.dfki_pendulum.film.angles import FAR, NEAR, Closeness, fitted, halved, restarted, tracked
from studies.real.dfki_pendulum.film.arm import Arm, Look, first_plate, solved_look
from studies.real.dfki_pendulum.film.camera import camera_numbers, camera_step, first_camera
from studies.real.dfki_pendulum.film.film import FILM, REFERENCE, SIZE, read_grey, rig_mask
from studies.real.dfki_pendulum.film.steady_film import camera_motion, steadied

SETTLED = 0.1  # bars, of a step of the camera
ROUNDS = 12  # of look and camera in pictures as they are, at most


def made(path: Path, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of a file, which is made first if it is not there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(temporary, **make())
        temporary.replace(path)
    with np.load(path) as file:
        return dict(file)


def steady_film(folder: Path) -> dict[str, np.ndarray]:
    """Grey pictures as the reference's camera would see them, motions of the camera, time stamps."""
    grey, times = read_grey(folder / FILM)
    motion = camera_motion(grey, rig_mask(*grey.shape[1:]), reference=REFERENCE)
    return {"pictures": steadied(grey, motion).astype(np.float16), "motion": motion, "times": times}


def plate_frames(count: int) -> np.ndarray:
    """Frames whose median is the first plate: few of those in which the arm stands upright."""
    return np.r_[0 : min(200, count) : 5, min(680, count) : count : 5, min(210, count) : min(660, count) : 60]


FIRST_GREY = np.array([0.35, 0.02, 0.05])  # metal, black, the weight's ring: until they are solved


def track(pictures: np.ndarray, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Angles of all frames in pictures of half the size and the first look."""
    arm, small = Arm(load_scene("real/double_pendulum", size=SIZE // 2)), halved(pictures)
    look = Look(FIRST_GREY, halved(first_plate(pictures[plate_frames(len(pictures))])))
    return {"angles": tracked(arm, look, small, say=say)}


def fit(pictures: np.ndarray, angles: np.ndarray, say: Callable[[str], None], *, every: int = 12) -> dict[str, np.ndarray]:
    """Look, camera with the second length, and angles, in turn; twice, as the first angles may end in second minima.

    Pictures are compared as far and then as near ones (``Closeness``). The camera's bars add the difference of both, as what
    shapes and greys lack moves them differently.

    Args:
        pictures: [T, H, W].
        angles: [T, 2] rad to begin with.
        say: what is called now and then.
        every: look and camera are solved from each frame of this number.
    """
    plate, values = first_plate(pictures[plate_frames(len(pictures))]), first_camera()
    frames = np.arange(0, len(angles), every)
    for close in (FAR, NEAR):
        before = values
        arm, look, values, scatter, step = look_and_camera(pictures[frames], angles[frames], plate, values, close, say)
        result = fitted(arm, look, pictures, fitted(arm, look, pictures, angles, steps=2, close=FAR).angles, steps=2)
        result = restarted(arm, look, pictures, result)
        angles = result.angles
    bars = np.hypot(scatter, values - before)
    return {"angles": result.angles, "misfit": result.misfit, "bars": result.bars, "grey": look.grey, "plate": look.plate,
            "camera": values, "camera_bars": bars, "scatter": scatter, "last_step": np.abs(step / bars).max()}  # fmt: skip


def look_and_camera(
    pictures: np.ndarray, angles: np.ndarray, plate: np.ndarray, values: np.ndarray, close: Closeness, say: Callable[[str], None]
) -> tuple[Arm, Look, np.ndarray, np.ndarray, np.ndarray]:
    """Look and camera in turn until the camera's steps are small beside its bars.

    Returns:
        (arm, look, values [5] of the camera, their bars [5] by the scatter of frames, last step [5]).
    """
    arm = Arm(load_scene("real/double_pendulum", size=SIZE), camera_numbers(values, SIZE))
    for _ in range(ROUNDS):
        look, before = solved_look(pictures, arm.coverage(angles), plate), values
        for _ in range(2):
            angles, values, bars = camera_step(arm, look, pictures, angles, values, SIZE, close)
            arm = replace(arm, numbers=camera_numbers(values, SIZE))
        say(f"grey {look.grey.round(3)}, camera {values.round(4)} ± {bars.round(4)}")
        if (np.abs(values - before) < SETTLED * bars).all():
            break
    return arm, look, values, bars, values - before


def recorded(path: Path, make: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The figures of a JSON file, which is made first if it is not there."""
    if not path.is_file():
        temporary = path.with_suffix(".part")
        temporary.write_text(json.dumps(make(), indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    return json.loads(path.read_text(encoding="utf-8"))
