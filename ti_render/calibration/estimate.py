"""A camera with standard deviations of its estimated numbers."""

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
        sd: standard deviations of the estimated numbers, by their names in a scene's camera: "position" [3] m, "turn" [3] rad
            about the camera's axes, "focal" [2] px, "center" [2] px, "distortion" [5].
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
        """Root mean square distance of the inliers from their projections [px]."""
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


def perturb(record: CameraRecord, shifts: np.ndarray) -> CameraRecord:
    """The camera with shifted numbers.

    Args:
        record: the camera.
        shifts: [15] turn about the camera's axes [rad], displacement in the world [m], and increments of fx, fy, cx, cy, k1, k2,
            p1, p2, k3.
    """
    rotation = Rotation.from_rotvec(shifts[:3]).as_matrix() @ record.rotation
    return replace(
        record, rotation=rotation, translation=-rotation @ (record.position() + shifts[3:6]),
        intrinsics=record.intrinsics + shifts[6:10], distortion=record.distortion + shifts[10:15],
    )  # fmt: skip


def joint_estimates(
    records: Sequence[CameraRecord],
    points: Sequence[np.ndarray],
    pixels: Sequence[np.ndarray],
    *,
    free_count: int,
    square_pixels: bool,
) -> list[CameraEstimate]:
    """Standard deviations of cameras with one pose each and shared intrinsics, by the Jacobian of all projections.

    Args:
        records: the cameras, estimated by least squares.
        points: [N, 3] in the picture of each [m].
        pixels: [N, 2], their image points.
        free_count: number of the leading entries of fx, fy, cx, cy, k1, k2, p1, p2, k3 that were estimated.
        square_pixels: whether fx and fy are one number.
    """
    residuals = [
        image_points - record.project(positions) for record, positions, image_points in zip(records, points, pixels, strict=True)
    ]
    pose_columns, lens_columns = [], []
    lens_basis = np.eye(9)[:, :free_count]  # from the estimated parameters to the nine numbers
    if square_pixels:
        lens_basis = np.c_[lens_basis[:, 0] + lens_basis[:, 1], lens_basis[:, 2:]]
    for record, positions in zip(records, points, strict=True):
        columns = _jacobian(record, positions)
        pose_columns.append(columns[:, :6])
        lens_columns.append(columns[:, 6:] @ lens_basis)
    degrees_of_freedom = 2 * sum(map(len, points)) - lens_basis.shape[1] - 6 * len(records)
    variance = sum(float((residual**2).sum()) for residual in residuals) / max(1, degrees_of_freedom)
    pose_inverses = [np.linalg.inv(pose_jacobian.T @ pose_jacobian) for pose_jacobian in pose_columns]
    cross_terms = [
        pose_jacobian.T @ lens_jacobian for pose_jacobian, lens_jacobian in zip(pose_columns, lens_columns, strict=True)
    ]
    lens_inverse = np.linalg.inv(
        sum(lens_jacobian.T @ lens_jacobian for lens_jacobian in lens_columns)
        - sum(
            cross_term.T @ pose_inverse @ cross_term for cross_term, pose_inverse in zip(cross_terms, pose_inverses, strict=True)
        )
    )
    lens_sd = np.sqrt(variance * np.diag(lens_basis @ lens_inverse @ lens_basis.T))
    estimates = []
    for record, pose_inverse, cross_term, residual in zip(records, pose_inverses, cross_terms, residuals, strict=True):
        pose_sd = np.sqrt(
            variance * np.diag(pose_inverse + pose_inverse @ cross_term @ lens_inverse @ cross_term.T @ pose_inverse)
        )
        sd = {"position": pose_sd[3:], "turn": pose_sd[:3], "focal": lens_sd[:2], "center": lens_sd[2:4]}
        estimates.append(CameraEstimate(record, sd | ({"distortion": lens_sd[4:]} if free_count > 4 else {}), residual))
    return estimates


def _jacobian(record: CameraRecord, points: np.ndarray) -> np.ndarray:
    """Jacobian [2 N, 15] of the projections by the shifts of ``perturb``, by central differences."""
    camera_distance = float(np.linalg.norm(record.translation))
    steps = np.r_[np.full(3, 1e-5), np.full(3, 1e-5 * camera_distance), np.full(4, 1e-2), np.full(5, 1e-5)]
    columns = [
        (perturb(record, shifts).project(points) - perturb(record, -shifts).project(points)).ravel() / (2 * step)
        for shifts, step in zip(np.diag(steps), steps, strict=True)
    ]
    return np.stack(columns, axis=1)


def write_estimates(path: str | Path, estimates: Sequence[CameraEstimate]) -> None:
    """Write cameras as OpenCV JSON (``write_opencv_json``), with error bars under "calibration", which readers ignore.

    Raises:
        UserError: two cameras share a name, or the path cannot be written to.
    """
    write_opencv_json(path, [estimate.record for estimate in estimates])
    data = read_json(Path(path))
    data["calibration"] = {estimate.record.name: estimate.to_json() for estimate in estimates}
    write_json(Path(path), data)
