"""A strip of film with the outline of the tracked cube."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from risp_torch import Scene
from scenes.real import contactnets_cube as cube

SHOWN = 6  # pictures of a row
CORNERS = 0.5 * cube.SIDE * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
EDGES = [(i, j) for i in range(8) for j in range(i) if np.abs(CORNERS[i] - CORNERS[j]).sum() < 1.5 * cube.SIDE]


def corners_in(scene: Scene, camera: str, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels u and v [8] of the corners of the cube at a pose [1, 7]."""
    lens = next(candidate for candidate in scene.cameras if candidate.name == camera)
    corners = pose[0, :3] + cube.Rotation.from_quat(pose[0, 3:]).apply(CORNERS)
    camera_coordinates = (corners - np.asarray(lens.position)) @ np.asarray(lens.rotation).T
    u, v = (np.asarray(lens.focal) * camera_coordinates[:, :2] / camera_coordinates[:, 2:] + np.asarray(lens.center)).T
    return u, v


def strip(path: Path, scene: Scene, films: Mapping[str, np.ndarray], body_q: np.ndarray) -> None:
    """Write pictures of each camera in a row, with the edges of the cube at its tracked poses.

    Args:
        path: of the PNG.
        scene: with the cameras.
        films: [T, H, W, 3] linear rgb by camera.
        body_q: [T, 1, 7].
    """
    figure = Figure(figsize=(2.0 * SHOWN, 2.1 * len(films)), layout="constrained")
    axes = figure.subplots(len(films), SHOWN, squeeze=False)
    for row, (name, film) in zip(axes, films.items(), strict=True):
        for axis, k in zip(row, np.linspace(0, len(film) - 1, SHOWN).astype(int), strict=True):
            axis.imshow(np.clip(film[k], 0, 1) ** (1 / 2.2), extent=(0, film.shape[2], film.shape[1], 0))
            u, v = corners_in(scene, name, body_q[k])
            for i, j in EDGES:
                axis.plot(u[[i, j]], v[[i, j]], color="magenta", linewidth=0.7)
            axis.set(title=f"{name}, frame {k}", xticks=[], yticks=[])
    figure.savefig(path, dpi=110)
