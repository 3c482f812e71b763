"""Where points appear in a scene's pictures: the renderer's projection of single points, as a torch function."""

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
    plane = camera_points[..., :2] / depth.clamp_min(cameras[0].near)[..., None]
    lens = distortion_rows(cameras, values, points.shape[0])
    if lens is not None:
        plane = _distorted(plane, lens[:, None, None])
    return row[..., 0:2] * plane + row[..., 2:4], depth


def _distorted(normalised: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
    """Places [..., 2] in the plane at depth 1 behind the lens k1, k2, p1, p2, k3 [..., 5]."""
    (x, y), (k1, k2, p1, p2, k3) = normalised.unbind(-1), lens.unbind(-1)
    squared = x * x + y * y
    radial = 1 + squared * (k1 + squared * (k2 + squared * k3))
    return torch.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (squared + 2 * x * x),
            y * radial + p1 * (squared + 2 * y * y) + 2 * p2 * x * y,
        ],
        dim=-1,
    )  # fmt: skip
