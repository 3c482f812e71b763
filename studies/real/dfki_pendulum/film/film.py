"""The film: grey pictures of its part, and where in them the rig stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from risp_torch.files.film import Cut, read_film
from scenes.real import double_pendulum as pendulum

FILM = "experiment_swingup_pendubot_tvlqr.m4v"
FIRST, REFERENCE = 3, 60  # frame of the film that is the first picture here; number among these of the picture that others follow
SIZE = 152  # pixels, width of the pictures
LUMA = (0.2126, 0.7152, 0.0722)


def read_grey(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures [T, H, W] (linear light) of the film's part, and their time stamps [T] s."""
    size = SIZE, pendulum.film_camera(SIZE).height
    film = read_film(path, cut=Cut(first=FIRST, crop=pendulum.CROP, size=size))
    return film.pictures @ np.array(LUMA, np.float32), film.times + film.clock.start


def rig_mask(height: int, width: int) -> np.ndarray:
    """Pixels [H, W] of the reference that show the rig: pole, beam, struts, away from the pivot."""
    y, x = np.mgrid[:height, :width] + 0.5
    beam = (np.abs(y - 99) < 7) & ((x < 55) | (x > 102))
    pole = np.abs(x - 15) < 7
    left = (np.abs(y - (105 + (66 - x) * 63 / 46)) < 7) & (x < 60)
    right = (np.abs(y - (105 + (x - 95) * 67 / 57)) < 7) & (x > 106)
    return beam | pole | left | right
