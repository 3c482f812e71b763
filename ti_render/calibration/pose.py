"""A camera's pose, and if asked its focal length, from points whose places in the world are known (resection).

Robust least squares of the distances in the picture: residuals beyond a few times their scale count by their square root
(soft L1), and points that then do not fit are left out of a last, plain fit, so that one that was clicked wrongly moves the
camera little. The search begins from many directions.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from ti_render.calibration.estimate import CameraEstimate
from ti_render.camera import look_at
from ti_render.camera_files import CameraRecord
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, Rule, checked

COLUMNS = ("x", "y", "z", "u", "v")
_BEHIND = 1e4  # pixels: residual of a point behind the camera
_DIRECTIONS, _ROLLS, _TRIED = 32, 4, 5  # first guesses, and those from which the search goes on
_OUTLIER = 5.0  # scales: a point with a larger residual is not kept
_LEAST_SCALE = 0.1  # pixels

Points = Annotated[np.ndarray, Rule(shape=(None, 3), exact=True)]
Pixels = Annotated[np.ndarray, Rule(shape=(None, 2), exact=True)]


def read_points(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Points [N, 3] in m and their pixels [N, 2] from a CSV file with the columns x, y, z, u, v.

    u and v are pixels from the left and upper edge of the picture: the centre of the first pixel is (0.5, 0.5).

    Raises:
        UserError: the file cannot be read, lacks a column, or has a field that is no finite number.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"the points {path} cannot be read ({error}): give a CSV file with the columns x,y,z,u,v") from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"{path} has no column {missing[0]}: its first line must name x,y,z,u,v, and points follow")
    try:
        numbers = np.array([[float(row[name]) for name in COLUMNS] for row in rows])
    except (TypeError, ValueError):
        raise UserError(f"{path} has a field that is no number: give x,y,z,u,v of every point") from None
    if not np.isfinite(numbers).all():
        raise UserError(f"{path} has a number that is not finite: leave that point out")
    return numbers[:, :3], numbers[:, 3:]


@checked
def camera_from_points(
    points: Points, pixels: Pixels, *, width: Count, height: Count, focal: Positive | None = None,
    like: CameraRecord | None = None, free_focal: bool = False, name: str = "camera",
) -> CameraEstimate:  # fmt: skip
    """The camera that sees points where they were seen.

    Args:
        points: [N, 3] in the world [m].
        pixels: [N, 2] where they appear; the centre of the first pixel is (0.5, 0.5).
        width, height: of the picture [px].
        focal: focal length [px]; the principal point is the middle of the picture. None with ``like``, or to estimate it.
        like: a camera whose focal length, centre and lens this one has.
        free_focal: estimate the focal length, too (one for both axes' ratio), beginning at the given one.
        name: of the camera.

    Raises:
        UserError: too few points, points on a line, or no camera sees them so.
    """
    unknown_focal = free_focal or (focal is None and like is None)
    needed = 5 if unknown_focal else 4
    if len(points) != len(pixels) or len(points) < needed:
        raise UserError(f"{len(points)} points and {len(pixels)} pixels: a pose needs {needed} of both at least")
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spread[1] < 1e-6 * spread[0]:
        raise UserError("the points lie on a line: add points beside it")
    if unknown_focal and spread[2] < 1e-3 * spread[0]:
        raise UserError("the points lie in a plane, which leaves the focal length open: add points off it, or give --focal")
    if like is None:
        size = focal or 1.2 * max(width, height)
        intrinsics, distortion = np.array([size, size, 0.5 * width, 0.5 * height]), np.zeros(5)
    else:
        intrinsics, distortion = like.intrinsics, like.distortion
    search = _Resection(points, pixels, intrinsics, distortion, (width, height), unknown_focal, name)
    return search.solve()


class _Resection:
    """Residuals of one camera: six numbers of the pose (turn, move), and the logarithm of a factor of the focal length."""

    def __init__(
        self, points: np.ndarray, pixels: np.ndarray, intrinsics: np.ndarray, distortion: np.ndarray, size: tuple[int, int],
        free_focal: bool, name: str,
    ) -> None:  # fmt: skip
        self.points, self.pixels, self.intrinsics, self.distortion = points, pixels, intrinsics, distortion
        self.size, self.free_focal, self.name = size, free_focal, name

    def camera(self, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> CameraRecord:
        """The camera whose rotation and position are ``base``, turned about its own axes and moved in the world."""
        rotation = Rotation.from_rotvec(numbers[:3]).as_matrix() @ base[0]
        intrinsics = np.array(self.intrinsics)
        if self.free_focal:
            intrinsics[:2] *= math.exp(float(np.clip(numbers[6], -4, 4)))
        return CameraRecord(
            name=self.name, width=self.size[0], height=self.size[1], intrinsics=intrinsics, rotation=rotation,
            translation=-rotation @ (base[1] + numbers[3:6]), distortion=self.distortion,
        )  # fmt: skip

    def residuals(self, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> np.ndarray:
        """Pixels minus projections, [2 N]."""
        return np.nan_to_num(self.pixels - self.camera(base, numbers).project(self.points), nan=_BEHIND).ravel()

    def solve(self) -> CameraEstimate:
        """The best camera from all guesses, with error bars."""
        count = 7 if self.free_focal else 6
        bases = list(self._guesses())
        first = [np.abs(self.residuals(base, np.zeros(count))).sum() for base in bases]
        near = [bases[k] for k in np.argsort(first)[:_TRIED]]
        ends = [(base, self._fitted(base, np.zeros(count), scale=20.0)) for base in near]
        base, fit = min(ends, key=lambda end: end[1].cost)
        for _ in range(3):
            spare = max(1, self.pixels.size - count) / self.pixels.size  # a fit takes part of the residuals away
            scale = max(_LEAST_SCALE, 1.4826 * float(np.median(np.abs(self.residuals(base, fit.x)))) / spare**0.5)
            base = self._moved(base, fit.x)
            fit = self._fitted(base, np.r_[np.zeros(6), fit.x[6:]], scale=2 * scale)
        residuals = self.residuals(base, fit.x).reshape(-1, 2)
        kept = np.linalg.norm(residuals, axis=1) <= _OUTLIER * scale
        if 2 * kept.sum() <= len(kept) or scale > 0.05 * max(self.size):
            raise UserError(
                f"no camera sees these points so: the best leaves {scale:.3g} pixels; check units, axes and pixels (u to the "
                "right, v down), and the focal length"
            )
        fit = self._fitted(base, fit.x, kept=kept)
        base = self._moved(base, fit.x)
        fit = self._fitted(base, np.r_[np.zeros(6), fit.x[6:]], kept=kept)
        camera, residuals = self.camera(base, fit.x), self.residuals(base, fit.x).reshape(-1, 2)
        return CameraEstimate(camera, self._bars(fit, camera, residuals[kept]), residuals, kept)

    def _bars(self, fit: Any, camera: CameraRecord, residuals: np.ndarray) -> dict[str, np.ndarray]:
        """Standard deviations by the Jacobian of the points that are kept and the variance of their residuals."""
        free = max(1, residuals.size - len(fit.x))
        variance = float((residuals**2).sum()) / free
        sd = np.sqrt(np.maximum(np.diag(np.linalg.pinv(fit.jac.T @ fit.jac)) * variance, 0.0))
        bars = {"position": sd[3:6], "turn": sd[:3]}
        return bars | ({"focal": sd[6] * camera.intrinsics[:2]} if self.free_focal else {})

    def _fitted(
        self, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray, *, scale: float | None = None,
        kept: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        """Least squares from ``numbers``: robust ones of a scale [px], or plain ones of the points that are kept."""
        far = float(np.linalg.norm(self.points - self.points.mean(axis=0), axis=1).max())
        scales = np.r_[np.full(3, 0.1), np.full(3, 0.3 * far), np.full(len(numbers) - 6, 0.1)]
        counted = 1.0 if kept is None else np.repeat(kept, 2)
        loss = {"loss": "linear"} if scale is None else {"loss": "soft_l1", "f_scale": scale}
        return least_squares(lambda x: counted * self.residuals(base, x), numbers, x_scale=scales, max_nfev=80, **loss)

    def _moved(self, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The base with the turn and move in it, so that error bars are those about the estimate's own axes."""
        return Rotation.from_rotvec(numbers[:3]).as_matrix() @ base[0], base[1] + numbers[3:6]

    def _guesses(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rotation and position of cameras that look at the points from all around, as far away as these look large."""
        middle = self.points.mean(axis=0)
        wide = float(np.sqrt(((self.points - middle) ** 2).sum(axis=1).mean()))
        seen = float(np.sqrt(((self.pixels - self.pixels.mean(axis=0)) ** 2).sum(axis=1).mean()))
        distance = self.intrinsics[0] * wide / max(seen, 1e-9)
        for direction in _sphere(_DIRECTIONS):
            eye = middle + distance * direction
            rotation, _ = look_at(eye, middle)
            towards = self.pixels.mean(axis=0) - self.intrinsics[2:]
            aim = Rotation.from_rotvec([-towards[1] / self.intrinsics[1], towards[0] / self.intrinsics[0], 0.0]).as_matrix()
            for roll in range(_ROLLS):
                yield aim @ Rotation.from_rotvec([0, 0, roll * math.pi / 2]).as_matrix() @ rotation, eye


def _sphere(count: int) -> Sequence[np.ndarray]:
    """Directions [count, 3] spread over the sphere (a Fibonacci lattice), none of them vertical."""
    heights = 1 - (2 * np.arange(count) + 1) / count
    angles = math.pi * (3 - math.sqrt(5)) * np.arange(count)
    around = np.sqrt(1 - heights**2)
    return np.stack([around * np.cos(angles), around * np.sin(angles), heights], axis=1)
