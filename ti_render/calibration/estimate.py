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
        kept: [N] bool; False for points that fit no camera like the others.
        remarks: sentences about points that do not fit.
    """

    record: CameraRecord
    sd: Mapping[str, np.ndarray]
    residuals: np.ndarray
    kept: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    remarks: tuple[str, ...] = ()

    @property
    def rms(self) -> float:
        """Root mean square distance of the points that count from their projections [px]."""
        kept = self.kept if len(self.kept) else np.ones(len(self.residuals), dtype=bool)
        return float(np.sqrt((self.residuals[kept] ** 2).sum(axis=1).mean()))

    @property
    def prior_options(self) -> list[str]:
        """The options of ``risp invert`` that make the estimated numbers priors."""
        shown = {name: ",".join(f"{size:.3g}" for size in sd) for name, sd in self.sd.items() if (sd > 0).all()}
        return [f"--prior camera.{name}={sizes}" for name, sizes in shown.items()]

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
    records: Sequence[CameraRecord], points: Sequence[np.ndarray], pixels: Sequence[np.ndarray], *, free: int, square: bool
) -> list[CameraEstimate]:
    """Error bars of cameras with poses of their own and equal intrinsics, by the Jacobian of all projections.

    Args:
        records: the cameras, at the least squares.
        points: [N, 3] seen by each [m].
        pixels: [N, 2] where each sees them.
        free: how many of fx, fy, cx, cy, k1, k2, p1, p2, k3 were estimated; of the lens, k3 is the last.
        square: whether fx and fy are one number.
    """
    residuals = [seen - record.project(places) for record, places, seen in zip(records, points, pixels, strict=True)]
    own, common = [], []
    spread = np.eye(9)[:, :free]  # from what was estimated to the nine numbers
    if square:
        spread = np.c_[spread[:, 0] + spread[:, 1], spread[:, 2:]]
    for record, places in zip(records, points, strict=True):
        columns = _jacobian(record, places)
        own.append(columns[:, :6])
        common.append(columns[:, 6:] @ spread)
    freedom = 2 * sum(map(len, points)) - spread.shape[1] - 6 * len(records)
    variance = sum(float((part**2).sum()) for part in residuals) / max(1, freedom)
    inverses = [np.linalg.inv(a.T @ a) for a in own]
    mixed = [a.T @ b for a, b in zip(own, common, strict=True)]
    shared = np.linalg.inv(
        sum(b.T @ b for b in common) - sum(m.T @ inverse @ m for m, inverse in zip(mixed, inverses, strict=True))
    )
    sd = np.sqrt(variance * np.diag(spread @ shared @ spread.T))
    estimates = []
    for record, inverse, m, left in zip(records, inverses, mixed, residuals, strict=True):
        pose = np.sqrt(variance * np.diag(inverse + inverse @ m @ shared @ m.T @ inverse))
        bars = {"position": pose[3:], "turn": pose[:3], "focal": sd[:2], "center": sd[2:4]}
        estimates.append(CameraEstimate(record, bars | ({"distortion": sd[4:]} if free > 4 else {}), left))
    return estimates


def _jacobian(record: CameraRecord, points: np.ndarray) -> np.ndarray:
    """Derivative [2 N, 15] of the projections by the numbers of ``changed``, by central differences."""
    size = float(np.linalg.norm(record.translation))
    steps = np.r_[np.full(3, 1e-5), np.full(3, 1e-5 * size), np.full(4, 1e-2), np.full(5, 1e-5)]
    columns = [
        (changed(record, move).project(points) - changed(record, -move).project(points)).ravel() / (2 * step)
        for move, step in zip(np.diag(steps), steps, strict=True)
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
