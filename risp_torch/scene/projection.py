"""Projection of points into a scene's pictures, as by the renderer, as a torch function."""

from __future__ import annotations

import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.cameras import camera_rows, chosen_cameras, distortion_rows
from risp_torch.scene.rotations import matrix_vector
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError


def project_points(
    scene: Scene, values: Values, points: torch.Tensor, *, camera: str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels and depths of points, differentiable in the points and the camera's numbers.

    Pinhole with OpenCV's lens model (Brown 1966), as the rasteriser has it: pixel centres at half-integers, (0, 0) at the left
    upper corner. Points nearer than the camera's ``near`` are projected as if they were at that depth.

    Args:
        scene: scene with a camera.
        values: parameter values [B, ...] (``ParameterTable.values``).
        points: [B, T, P, 3] in the world [m].
        camera: name of a camera, the first one by default.

    Returns:
        Pixels u, v [B, T, P, 2] and depths along the camera's axis [B, T, P] in m.

    Raises:
        UserError: the camera does not exist, or the points have another shape.
    """
    if points.ndim != 4 or points.shape[-1] != 3:
        raise UserError(f"points have shape {tuple(points.shape)}: give [worlds, frames, points, 3]")
    cameras = chosen_cameras(scene.cameras, camera)[:1]
    row = camera_rows(cameras, values, points.shape[0])[:, None, None]
    rotation = row[..., 4:13].unflatten(-1, (3, 3))
    camera_points = matrix_vector(rotation, points) + row[..., 13:16]
    depth = camera_points[..., 2]
    normalised = camera_points[..., :2] / depth.clamp_min(cameras[0].near)[..., None]
    distortion = distortion_rows(cameras, values, points.shape[0])
    if distortion is not None:
        normalised = _distorted(normalised, distortion[:, None, None])
    return row[..., 0:2] * normalised + row[..., 2:4], depth


def _distorted(normalised: torch.Tensor, distortion: torch.Tensor) -> torch.Tensor:
    """Points [..., 2] in the plane at depth 1 after the distortion k1, k2, p1, p2, k3 [..., 5]."""
    (x, y), (k1, k2, p1, p2, k3) = normalised.unbind(-1), distortion.unbind(-1)
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    return torch.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
            y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
        ],
        dim=-1,
    )  # fmt: skip
