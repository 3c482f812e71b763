"""Raw films of the thrown pebble: path-traced with a wider camera than the scene's, then spoiled as films are spoiled.

``python -m studies.films.raw_film`` writes, into runs/raw:

- ``plain``: 192 x 144 pixels, 100 pictures per second; ``camera.json`` is its camera; the scene's own view is 128 pixels;
- ``clutter``: four boxes stand behind the pebble;
- ``hand``: a hand is before it for five pictures; ``hand-weights`` are black where it is;
- ``exposure``: the light that the camera lets in drifts by 30 percent;
- ``crf35.mp4``: compressed until it hurts;
- ``fps30``: 30 pictures per second;
- ``all.mp4``: all of this at once; ``all-weights`` are black where the hand is.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from risp_torch import Box, Camera, Scene, Start, Surface, UserError, load_scene, read_video, start, write_frames, write_video
from risp_torch.programs import number_parser
from risp_torch.risp import photoreal_film, write_photoreal_frames
from ti_render.camera_files import CameraRecord, write_opencv_json
from ti_render.photoreal import MitsubaSettings
from ti_sim import Count

WIDTH, HEIGHT = 192, 144  # pixels of the raw films
VIEW = 128  # pixels of a raw film that the square view of the scene is wide and high
SLOW = 30.0  # pictures per second of the slow film
DRIFT = 0.3  # part of the light that is lost from the first to the last picture
CRF = 35.0
HELD = 5  # pictures that show the hand
SKIN = np.array([0.50, 0.26, 0.17])  # linear
BOXES = {  # name -> side, x, y [m], and colour
    "left": (0.06, -0.13, 0.16, (0.15, 0.4, 0.2)), "middle": (0.09, -0.02, 0.22, (0.7, 0.65, 0.55)),
    "right": (0.05, 0.08, 0.14, (0.6, 0.2, 0.15)), "far": (0.08, 0.17, 0.24, (0.15, 0.2, 0.45)),
}  # fmt: skip
BOX_DENSITY, STIFFNESS, GRAVITY = 400.0, 800.0, 9.81  # of the boxes, and of the ground below them


def raw_scene(*, clutter: bool = False, fps: float | None = None) -> Scene:
    """The thrown pebble before a wider camera.

    Args:
        clutter: whether boxes stand behind it; they touch nothing but the ground.
        fps: pictures per second, those of the scene by default.
    """
    scene = load_scene("toss")
    angle = 2 * math.atan(HEIGHT / VIEW * math.tan(math.radians(24.0) / 2))
    wide = Camera.look_at(
        eye=(0.03, -0.62, 0.34), target=(0.0, 0.0, 0.03), vertical_fov=math.degrees(angle), width=WIDTH, height=HEIGHT, near=0.2,
        far=1.6,
    )  # fmt: skip
    scene.use_cameras([wide])
    for name, (side, x, y, color) in BOXES.items() if clutter else ():
        sag = BOX_DENSITY * side**3 * GRAVITY / (4 * STIFFNESS)
        scene.add_rigid(
            name, shape=Box(side, side, side), density=BOX_DENSITY, surface=Surface(color=color),
            start=Start(position=(x, y, side / 2 - sag)),
        )  # fmt: skip
    if fps is not None:
        scene.set_film(times=[k / fps for k in range(math.floor(scene.frames * scene.frame_dt * fps + 1e-6) + 1)])
    return scene


def path_traced(folder: Path, scene: Scene, *, seed: int, samples: int) -> np.ndarray:
    """The path-traced film [T, H, W, 3] of a scene, linear colour; what is in the folder is not rendered again.

    Args:
        folder: its pictures are in ``frames`` below.
        scene: of ``raw_scene``.
        seed: of the appearance and the noise.
        samples: light paths a pixel.
    """
    with torch.no_grad():
        film = photoreal_film(scene, scene.rollout(), options=MitsubaSettings(seed=seed, samples=samples))
    write_photoreal_frames(folder, film, fps=scene.fps)
    return read_video(folder / "frames")


def hand(pictures: np.ndarray, first: int, *, reach: float = 0.62) -> tuple[np.ndarray, np.ndarray]:
    """A film with a hand that comes in from the right and leaves again, and weights that are black where it is.

    Args:
        pictures: [T, H, W, 3] linear colour.
        first: first of the ``HELD`` pictures that show it.
        reach: how far it comes, as a part of the width from the right.

    Returns:
        The film, and weights [T, H, W, 3] that are 0 within two pixels of the hand and 1 elsewhere.
    """
    spoiled, weights = pictures.copy(), np.ones_like(pictures)
    for k in range(HELD):
        tip = WIDTH * (1 - reach * math.sin(math.pi * (k + 1) / (HELD + 1)))
        distance = _distance_of_hand(tip, 0.62 * HEIGHT)
        cover = np.clip(0.5 - distance, 0, 1)[..., None]
        shade = np.clip(1 + distance / 40, 0.5, 1)[..., None]  # rounder than flat: darker towards its middle
        spoiled[first + k] = (1 - cover) * spoiled[first + k] + cover * shade * SKIN
        weights[first + k] = (distance > 2.5)[..., None]
    return spoiled, weights


def drifted(pictures: np.ndarray) -> np.ndarray:
    """The film [T, H, W, 3] with light that fades evenly."""
    gain = np.linspace(1.0, 1.0 - DRIFT, len(pictures))
    return pictures * gain[:, None, None, None]


def write_films(out: Path, *, seed: int, samples: int) -> None:
    """Write all raw films."""
    plain = raw_scene()
    write_camera(out / "camera.json", plain.camera)
    fps = plain.fps
    pictures = path_traced(out / "traced-plain", plain, seed=seed, samples=samples)
    write_frames(out / "plain", pictures, fps=fps)
    write_frames(out / "exposure", drifted(pictures), fps=fps)
    write_video(out / "crf35.mp4", pictures, fps=fps, crf=CRF)
    held_film, weights = hand(pictures, len(pictures) // 2 - HELD // 2)
    write_frames(out / "hand", held_film, fps=fps)
    write_frames(out / "hand-weights", weights, fps=fps)
    cluttered = path_traced(out / "traced-clutter", raw_scene(clutter=True), seed=seed, samples=samples)
    write_frames(out / "clutter", cluttered, fps=fps)
    write_frames(out / "fps30", path_traced(out / "traced-fps30", raw_scene(fps=SLOW), seed=seed, samples=samples), fps=SLOW)
    pictures = path_traced(out / "traced-all", raw_scene(clutter=True, fps=SLOW), seed=seed, samples=samples)
    held_film, weights = hand(pictures, len(pictures) // 2 - HELD // 2)
    write_video(out / "all.mp4", drifted(held_film), fps=SLOW, crf=CRF)
    write_frames(out / "all-weights", weights, fps=SLOW)


def write_camera(path: Path, camera: Camera) -> None:
    """Write a camera as OpenCV JSON."""
    record = CameraRecord(
        name="raw", width=camera.width, height=camera.height, intrinsics=np.r_[camera.focal, camera.center],
        rotation=camera.rotation, translation=-camera.rotation @ np.asarray(camera.position),
    )  # fmt: skip
    write_opencv_json(path, [record])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the raw films as a command; 0, or 2 for wrong input."""
    parser = argparse.ArgumentParser(description="raw films of the thrown pebble")
    parser.add_argument("--seed", type=number_parser(Count), default=3, help="of the appearance (default 3)")
    parser.add_argument("--spp", type=number_parser(Count), default=32, help="light paths per pixel (default 32)")
    parser.add_argument("--out", default="runs/raw", help="folder (default runs/raw)")
    options = parser.parse_args(arguments)
    try:
        start(precision="f32")
        write_films(Path(options.out), seed=options.seed, samples=options.spp)
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    print(f"written: {options.out}")
    return 0


def _distance_of_hand(tip: float, row: float) -> np.ndarray:
    """[H, W] distance [pixels] of each pixel from a hand whose fingers end at the column ``tip``, negative inside."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    fingers = [_distance_of_bar(x, y, tip + 4 * abs(k - 1), row + 11 * (k - 1.5), 5.0) for k in range(4)]
    palm = _distance_of_bar(x, y, tip + 52, row, 24.0)
    return np.minimum.reduce([*fingers, palm])


def _distance_of_bar(x: np.ndarray, y: np.ndarray, tip: float, row: float, half: float) -> np.ndarray:
    """Distance from a bar along the row with a round end, which goes on to the right without an end."""
    along = np.minimum(x - (tip + half), 0.0)
    return np.hypot(along, y - row) - half


if __name__ == "__main__":
    sys.exit(main())
