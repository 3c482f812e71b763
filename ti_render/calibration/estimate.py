"""A camera with error bars of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ti_render.camera_files import CameraRecord, write_opencv_json
from ti_render.camera_files.text import read_json, write_json


@dataclass(frozen=True, eq=False)
class CameraEstimate:
    """A camera that was estimated from image points.

    Attributes:
        record: the camera.
        sd: standard deviations of what was estimated, by the names of a scene's camera: "position" [3] m, "turn" [3] rad about
            the camera's own axes, "focal" [2] px, "center" [2] px, "distortion" [5].
        residuals: [N, 2] image points minus projected points [px].
        inliers: [N] bool; False for outliers.
        remarks: sentences about points that do not fit.
    """

    record: CameraRecord
    sd: Mapping[str, np.ndarray]
    residuals: np.ndarray
    inliers: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    remarks: tuple[str, ...] = ()

    @property
    def rms(self) -> float:
        """Root mean square distance of the points that count from their projections [px]."""
        inliers = self.inliers if len(self.inliers) else np.ones(len(self.residuals), dtype=bool)
        return float(np.sqrt((self.residuals[inliers] ** 2).sum(axis=1).mean()))

    @property
    def prior_options(self) -> list[str]:
        """The options of ``risp invert`` that make the estimated numbers priors."""
        positive_sds = {name: ",".join(f"{sd_value:.3g}" for sd_value in sd) for name, sd in self.sd.items() if (sd > 0).all()}
        return [f"--prior camera.{name}={sd_text}" for name, sd_text in positive_sds.items()]

    def to_json(self) -> dict[str, Any]:
        """Error bars and residual as JSON values."""
        bars = {f"sd_{name}": sd.tolist() for name, sd in self.sd.items()}
        return {"rms_pixels": self.rms, "points": len(self.residuals)} | bars


def changed(record: CameraRecord, numbers: np.ndarray) -> CameraRecord:
    """A camera with other numbers.

    Args:
        record: the camera.
        numbers: [15] turn about the camera's own axes [rad], move in the world [m], and what is added to fx, fy, cx, cy, k1, k2,
            p1, p2, k3.
    """
    rotation = Rotation.from_rotvec(numbers[:3]).as_matrix() @ record.rotation
    return replace(
        record, rotation=rotation, translation=-rotation @ (record.position() + numbers[3:6]),
        intrinsics=record.intrinsics + numbers[6:10], distortion=record.distortion + numbers[10:15],
    )  # fmt: skip


def joint_estimates(
    records: Sequence[CameraRecord], points: Sequence[np.ndarray], pixels: Sequence[np.ndarray], *, free: int, square_pixels: bool
) -> list[CameraEstimate]:
    """Error bars of cameras with poses of their own and equal intrinsics, by the Jacobian of all projections.

    Args:
        records: the cameras, at the least squares.
        points: [N, 3] in the picture of each [m].
        pixels: [N, 2], their image points.
        free: how many of fx, fy, cx, cy, k1, k2, p1, p2, k3 were estimated; of the lens, k3 is the last.
        square_pixels: whether fx and fy are one number.
    """
    residuals = [
        image_points - record.project(positions) for record, positions, image_points in zip(records, points, pixels, strict=True)
    ]
    pose_columns, lens_columns = [], []
    lens_basis = np.eye(9)[:, :free]  # from what was estimated to the nine numbers
    if square_pixels:
        lens_basis = np.c_[lens_basis[:, 0] + lens_basis[:, 1], lens_basis[:, 2:]]
    for record, positions in zip(records, points, strict=True):
        columns = _jacobian(record, positions)
        pose_columns.append(columns[:, :6])
        lens_columns.append(columns[:, 6:] @ lens_basis)
    freedom = 2 * sum(map(len, points)) - lens_basis.shape[1] - 6 * len(records)
    variance = sum(float((residual**2).sum()) for residual in residuals) / max(1, freedom)
    inverses = [np.linalg.inv(a.T @ a) for a in pose_columns]
    mixed = [a.T @ b for a, b in zip(pose_columns, lens_columns, strict=True)]
    shared = np.linalg.inv(
        sum(b.T @ b for b in lens_columns) - sum(m.T @ inverse @ m for m, inverse in zip(mixed, inverses, strict=True))
    )
    sd = np.sqrt(variance * np.diag(lens_basis @ shared @ lens_basis.T))
    estimates = []
    for record, inverse, m, left in zip(records, inverses, mixed, residuals, strict=True):
        pose = np.sqrt(variance * np.diag(inverse + inverse @ m @ shared @ m.T @ inverse))
        bars = {"position": pose[3:], "turn": pose[:3], "focal": sd[:2], "center": sd[2:4]}
        estimates.append(CameraEstimate(record, bars | ({"distortion": sd[4:]} if free > 4 else {}), left))
    return estimates


def _jacobian(record: CameraRecord, points: np.ndarray) -> np.ndarray:
    """Derivative [2 N, 15] of the projections by the numbers of ``changed``, by central differences."""
    camera_distance = float(np.linalg.norm(record.translation))
    steps = np.r_[np.full(3, 1e-5), np.full(3, 1e-5 * camera_distance), np.full(4, 1e-2), np.full(5, 1e-5)]
    columns = [
        (changed(record, shift).project(points) - changed(record, -shift).project(points)).ravel() / (2 * step)
        for shift, step in zip(np.diag(steps), steps, strict=True)
    ]
    return np.stack(columns, axis=1)


def write_estimates(path: str | Path, estimates: Sequence[CameraEstimate]) -> None:
    """Write cameras as OpenCV JSON (``write_opencv_json``), with error bars under "calibration", which readers pass over.

    Raises:
        UserError: two cameras share a name, or the place cannot be written to.
    """
    write_opencv_json(path, [estimate.record for estimate in estimates])
    data = read_json(Path(path))
    data["calibration"] = {estimate.record.name: estimate.to_json() for estimate in estimates}
    write_json(Path(path), data)
