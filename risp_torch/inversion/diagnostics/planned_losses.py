"""Losses of data that are planned: masks and tracks of a scene's own motion, for ``risp check``."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.losses.image_tracks import ImageTracksLoss
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.masks import MaskLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.scene.masks import render_masks
from risp_torch.scene.projection import project_points
from risp_torch.scene.rotations import rotation_matrix
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States, split_placement
from ti_sim.base.errors import UserError

POINTS_PER_BODY = 8  # tracked points of a body: corners of the box around a rigid one, particles of a deformable one


@dataclass(frozen=True)
class PlannedLoss:
    """A loss of a film that is not recorded yet.

    Attributes:
        loss: the loss, with masks or tracks of the scene's own motion as its data.
        noise: usual standard deviation of an observation's errors.
        observation_name: name of an observation in a sentence, such as "pixel".
        is_compressed: whether errors of video compression are among those of the observations.
    """

    loss: Loss
    noise: float
    observation_name: str
    is_compressed: bool = False


def planned_loss(scene: Scene, kind: str) -> PlannedLoss:
    """The loss of a kind: "pixel", "matched", "mask" or "image-tracks".

    Args:
        scene: the scene, at the parameter values that are expected for the film.
        kind: kind of the loss.

    Raises:
        UserError: ``kind`` is not one of these, or the scene has no camera, or no body for masks or tracks.
    """
    if kind not in PLANNED:
        raise UserError(f"the loss {kind!r} cannot be checked before a film: choose {', '.join(PLANNED)}")
    if scene.camera is None:
        raise UserError("the scene has no camera: add one with add_camera")
    return PLANNED[kind](scene)


def _mask(scene: Scene) -> PlannedLoss:
    with torch.no_grad():
        masks = render_masks(scene, scene.rollout(), union=True)[0, ..., 0]
    return PlannedLoss(MaskLoss(masks), float(MaskLoss.usual_noise), "pixel on an edge")


def _image_tracks(scene: Scene) -> PlannedLoss:
    with torch.no_grad():
        states = scene.rollout()
        rows = list(_track_rows(scene, states))
    if not rows:
        raise UserError("the scene has no body to track: add one")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tracks.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return PlannedLoss(ImageTracksLoss(path), float(ImageTracksLoss.usual_noise), "coordinate of a track [pixels]")


def _track_rows(scene: Scene, states: States) -> list[dict[str, object]]:
    """A row for each tracked point and frame (``ImageTracksLoss``)."""
    poses, particles = split_placement(states.placement, bodies=len(scene.bodies), particles=scene.particle_count)
    points, point_labels = [], []
    for k, body in enumerate(scene.bodies):
        if body.mesh is None:
            continue
        low, high = body.mesh.vertices.min(axis=0), body.mesh.vertices.max(axis=0)
        corners = [np.where([c & 1, c & 2, c & 4], high, low) for c in range(POINTS_PER_BODY)]
        rotation = rotation_matrix(poses[:, :, k, 3:])
        for corner in corners:
            local = torch.as_tensor(corner, dtype=rotation.dtype, device=rotation.device)
            points.append(poses[:, :, k, :3] + (rotation @ local[:, None])[..., 0])
            point_labels.append((body.name, *corner.tolist()))
    first_particle = 0
    for deformable in scene.deformables:
        for particle in np.unique(np.linspace(0, deformable.count - 1, POINTS_PER_BODY).astype(int)).tolist():
            points.append(particles[:, :, first_particle + particle])
            point_labels.append((f"{deformable.name}[{particle}]", "", "", ""))
        first_particle += deformable.count
    if not points:
        return []
    pixels, _ = project_points(scene, scene.table.values(worlds=1), torch.stack(points, dim=2))
    pixels = pixels[0].cpu().numpy()
    return [
        {"frame": t, "point": f"p{p}", "body": name, "x": x, "y": y, "z": z, "u": pixels[t, p, 0], "v": pixels[t, p, 1]}
        for t in range(len(pixels))
        for p, (name, x, y, z) in enumerate(point_labels)
    ]


PLANNED: Mapping[str, Callable[[Scene], PlannedLoss]] = {
    "pixel": lambda scene: PlannedLoss(PixelLoss(), 1 / 255, "pixel", is_compressed=True),
    "matched": lambda scene: PlannedLoss(MatchedLoss(), 1 / 255, "pixel", is_compressed=True),
    "mask": _mask,
    "image-tracks": _image_tracks,
}
