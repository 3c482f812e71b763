"""A camera's pose, and if asked its focal length, from points whose places in the world are known (resection).

A search (``pose_search``) finds the camera on which most points agree, and robust least squares refine it. Points further than
five times the scale of the residuals from their projections are outliers; a plain fit of the others gives the camera and its
error bars.

Other readings of the same table are fitted as well: a mirrored picture (v measured upwards, or points with left-handed axes),
pixels of a smaller picture or in shares of it, and two points exchanged. A table that fits one of them much better is an error
that names it.
"""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from scipy.stats import f as f_distribution
from scipy.stats import norm
from scipy.stats import t as student_t

from ti_render.calibration.estimate import CameraEstimate
from ti_render.calibration.pose_search import BEHIND, best_pose
from ti_render.camera_files import CameraRecord
from ti_render.camera_files.record import distorted
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, Rule, checked

COLUMNS = ("x", "y", "z", "u", "v")
_OUTLIER = 5.0  # scales: a point with a larger residual is not kept
_MIN_SCALE = 0.1  # pixels: no point is marked more exactly
_MAX_RMS = (1.0, 0.005)  # pixels, and a share of the picture's diagonal: what a camera may leave is their sum
_BETTER, _CHANCE = 3.0, 1e-3  # a reading with residuals smaller by this factor, and not by chance (F-test), is the right one
_SMALLER = (1.5, 2.0, 3.0, 4.0)  # factors of the size between pictures in which points may have been marked
_LONG = 100.0  # m: points that extend further are in another unit, if a scene has them
_LONGEST = 20.0  # focal length [picture widths] beyond which perspective does not determine it
_MAX_EXCHANGES = 500
_STEP = float(np.finfo(float).eps ** 0.5)  # of forward differences

Points = Annotated[np.ndarray, Rule(shape=(None, 3), exact=True)]
Pixels = Annotated[np.ndarray, Rule(shape=(None, 2), exact=True)]


@checked
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
    like: CameraRecord | None = None, free_focal: bool = False, below_ground: bool = False, name: str = "camera",
) -> CameraEstimate:  # fmt: skip
    """The camera that sees points where they were seen.

    Args:
        points: [N, 3] in the world [m], z up.
        pixels: [N, 2] where they appear, v downwards; the centre of the first pixel is (0.5, 0.5).
        width, height: of the picture [px].
        focal: focal length [px]; the principal point is the middle of the picture. None with ``like``, or to estimate it.
        like: a camera whose focal length, centre and lens this one has.
        free_focal: estimate the focal length, too (one for both axes' ratio), beginning at the given one.
        below_ground: accept a camera below z = 0 and all points.
        name: of the camera.

    Raises:
        UserError: too few points, points on a line or outside of the picture, no camera sees them so, one reading of the table
            fits much better than the one that is documented, or the camera has points behind it or is below the ground.
    """
    points, pixels = np.asarray(points, dtype=np.float64), np.asarray(pixels, dtype=np.float64)
    unknown_focal = free_focal or (focal is None and like is None)
    needed = 5 if unknown_focal else 4
    if len(points) != len(pixels) or len(points) < needed:
        raise UserError(f"{len(points)} points and {len(pixels)} pixels: a pose needs {needed} of both at least")
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if not spread[1] > 1e-6 * spread[0]:
        raise UserError("the points lie on a line: add points beside it")
    if unknown_focal and spread[2] < 1e-3 * spread[0]:
        raise UserError("the points lie in a plane, which leaves the focal length open: add points off it, or give --focal")
    if like is None:
        focal_guess = focal or 1.2 * max(width, height)
        intrinsics, distortion = np.array([focal_guess, focal_guess, 0.5 * width, 0.5 * height]), np.zeros(5)
    else:
        intrinsics, distortion = like.intrinsics, like.distortion
    search = _Resection(points, intrinsics, distortion, (width, height), unknown_focal, name)
    if np.abs(pixels).max() <= 1.0 and min(width, height) > 2:
        raise UserError(_shares(search, pixels))
    _refuse_outside(pixels, width, height)
    fit = search.fit(pixels)
    mirrored = search.fit(_upwards(pixels, height))
    problem = fit.fault or (None if below_ground else fit.ground_fault) or _upside_down_fault(fit, mirrored)
    doubtful = problem is not None or fit.scale > 1.0 or not fit.inliers.all()
    readings = [(mirrored.mirror_words, mirrored), *(_alternative_readings(search, pixels) if doubtful else ())]
    better = [
        (reading.scale, words, reading) for words, reading in readings if reading.good and (problem or _much_better(reading, fit))
    ]
    if better:
        _, words, reading = min(better, key=lambda entry: entry[0])
        reason = problem or f"a camera fits these points to {fit.rms:.3g} pixels only"
        raise UserError(f"{reason}; {words} it is {reading.rms:.2f} pixels: mend the table of points")
    if problem is not None:
        raise UserError(problem)
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    remarks = [f"the points extend over {extent:.3g} m: give metres"] if extent > _LONG else []
    remarks += [] if fit.inliers.all() else _outlier_remarks(fit, pixels)
    return CameraEstimate(fit.camera, fit.bars, fit.residuals, fit.inliers, tuple(remarks))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The best camera for one reading of the table.

    Attributes:
        camera: the camera.
        residuals: [N, 2] px; ``BEHIND`` where a point is behind the camera.
        inliers: [N] bool, which points are no outliers.
        scale: standard deviation of the residuals of the inliers [px].
        bars: standard deviations, as in ``CameraEstimate``.
        points: [N, 3] in the world.
        fault: why this is no camera, or None.
    """

    camera: CameraRecord
    residuals: np.ndarray
    inliers: np.ndarray
    scale: float
    bars: dict[str, np.ndarray]
    points: np.ndarray
    fault: str | None

    @property
    def count(self) -> int:
        return int(self.inliers.sum())

    @property
    def free(self) -> int:
        """Degrees of freedom of the residuals that are kept."""
        return max(1, 2 * self.count - 6 - ("focal" in self.bars))

    @property
    def rms(self) -> float:
        """Root mean square distance of the points that are kept from their projections [px]."""
        return float(np.sqrt((self.residuals[self.inliers] ** 2).sum(axis=1).mean()))

    @property
    def good(self) -> bool:
        return self.fault is None and self.ground_fault is None

    @property
    def planar(self) -> bool:
        spread = np.linalg.svd(self.points - self.points.mean(axis=0), compute_uv=False)
        return bool(spread[2] < 0.02 * spread[0])

    @property
    def upside_down(self) -> bool:
        """Whether the picture's lower edge shows what is above."""
        return bool(self.camera.rotation[1, 2] > 0.1)

    @property
    def ground_fault(self) -> str | None:
        height = float(self.camera.position()[2])
        if height >= min(0.0, float(self.points[:, 2].min())):
            return None
        return f"the camera is {-height:.3g} m below the ground (z = 0) and below all points (--below-ground accepts that)"

    @property
    def mirror_words(self) -> str:
        """How the table was read where the pixels of this fit are mirrored: both ways are one picture, turned by half a turn."""
        edge = "u measured from the right edge" if self.upside_down else "v measured upwards"
        return f"with {edge} (or points with left-handed axes)"


class _Resection:
    """Fits of one camera: six numbers of the pose (rotation, translation), and the logarithm of a factor of the focal length."""

    def __init__(
        self, points: np.ndarray, intrinsics: np.ndarray, distortion: np.ndarray, image_size: tuple[int, int], free_focal: bool,
        name: str,
    ) -> None:  # fmt: skip
        self.points, self.intrinsics, self.distortion = points, intrinsics, distortion
        self.size, self.free_focal, self.name = image_size, free_focal, name
        self.numbers = 7 if free_focal else 6
        self.limit = _MAX_RMS[0] + _MAX_RMS[1] * math.hypot(*image_size)

    def fit(self, pixels: np.ndarray) -> _Fit:
        """The best camera for pixels [N, 2], with outliers left out."""
        rotation, translation, zoom, _ = self._search(self._ideal(pixels))
        return self._refined(pixels, rotation, translation, zoom)

    def exchanged(self, pixels: np.ndarray) -> list[tuple[tuple[int, int], _Fit]]:
        """The best camera where two points have each other's pixels, which they are; empty where there are too many pairs."""
        pairs = list(itertools.combinations(range(len(pixels)), 2))
        if len(pairs) > _MAX_EXCHANGES:
            return []
        tables = np.repeat(pixels[None], len(pairs), axis=0)
        for table, pair in zip(tables, pairs, strict=True):
            table[list(pair)] = table[list(pair[::-1])]
        rotation, translation, zoom, index = self._search(np.stack([self._ideal(table) for table in tables]))
        return [(pairs[index], self._refined(tables[index], rotation, translation, zoom))]

    def _search(self, ideal: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
        min_points = 6 if self.free_focal else 5
        return best_pose(
            self.points,
            ideal,
            float(self.intrinsics[0]),
            free_focal=self.free_focal,
            min_points=min_points,
            tolerance=2 * self.limit,
        )

    def _ideal(self, pixels: np.ndarray) -> np.ndarray:
        """Pixels as a pinhole camera of the focal length fx would have them, from the principal point, by fixed-point steps."""
        distorted_points = (pixels - self.intrinsics[2:]) / self.intrinsics[:2]
        k1, k2, p1, p2, k3 = self.distortion
        straight = distorted_points
        for _ in range(20):
            x, y = straight.T
            r2 = x * x + y * y
            tangential = np.stack([2 * p1 * x * y + p2 * (r2 + 2 * x * x), p1 * (r2 + 2 * y * y) + 2 * p2 * x * y], axis=1)
            straight = (distorted_points - tangential) / (1 + r2 * (k1 + r2 * (k2 + r2 * k3)))[:, None]
        return self.intrinsics[0] * np.where(np.isfinite(straight), straight, distorted_points)

    def _refined(self, pixels: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: float) -> _Fit:
        """Robust least squares from a pose, outliers, and plain least squares of the others."""
        base, numbers = (rotation, -rotation.T @ translation), np.r_[np.zeros(6), [math.log(zoom)] * self.free_focal]
        spare = max(1, pixels.size - self.numbers) / pixels.size  # a fit takes part of the residuals away
        for _ in range(3):
            scale = max(_MIN_SCALE, 1.4826 * float(np.median(np.abs(self.residuals(pixels, base, numbers)))) / spare**0.5)
            fit = self._fitted(pixels, base, numbers, scale=2 * scale)
            base, numbers = self._moved(base, fit.x), np.r_[np.zeros(6), fit.x[6:]]
        inliers = np.linalg.norm(self.residuals(pixels, base, numbers).reshape(-1, 2), axis=1) <= _OUTLIER * scale
        for _ in range(2):  # the second fit begins at the estimate: its Jacobian is that about the estimate's own axes
            fit = self._fitted(pixels, base, numbers, inliers=inliers)
            base, numbers = self._moved(base, fit.x), np.r_[np.zeros(6), fit.x[6:]]
        camera, residuals = self.camera(base, numbers), self.residuals(pixels, base, numbers).reshape(-1, 2)
        free = 2 * int(inliers.sum()) - self.numbers
        residual_rms = float(np.sqrt((residuals[inliers] ** 2).sum() / max(1, free)))
        bars = self._bars(fit, camera, max(residual_rms, _MIN_SCALE), max(1, free))
        return _Fit(
            camera, residuals, inliers, residual_rms, bars, self.points, self._fault(camera, residuals, inliers, residual_rms)
        )

    def _fault(self, camera: CameraRecord, residuals: np.ndarray, inliers: np.ndarray, scale: float) -> str | None:
        min_points = (5 if self.free_focal else 4) + (not inliers.all())
        if 2 * inliers.sum() <= len(inliers) or inliers.sum() < min_points or math.sqrt(2) * scale > self.limit:
            rms = float(np.sqrt(np.minimum((residuals**2).sum(axis=1), BEHIND**2).mean()))
            return (
                f"no camera sees these points so: the best leaves {rms:.3g} pixels; check units, axes and pixels (u to the "
                "right, v down), and the focal length"
            )
        points_behind = np.flatnonzero((residuals == BEHIND).any(axis=1) | ~np.isfinite(camera.project(self.points)).all(axis=1))
        if len(points_behind):
            return f"the camera that sees most points so has {_named(points_behind)} behind it: mend the table of points"
        if self.free_focal and camera.intrinsics[0] > _LONGEST * max(self.size):
            return (
                "the points do not determine the focal length (the best one is beyond "
                f"{_LONGEST:g} picture widths): add points at other depths, or give --focal"
            )
        return None

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

    def residuals(self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> np.ndarray:
        """Pixels minus projections of the cameras of ``numbers`` [..., 6 or 7], [..., 2 N]."""
        rotation = Rotation.from_rotvec(numbers[..., :3].reshape(-1, 3)).as_matrix().reshape(*numbers.shape[:-1], 3, 3) @ base[0]
        translation = rotation @ (base[1] + numbers[..., 3:6])[..., None]
        camera_points = self.points @ rotation.swapaxes(-1, -2) - translation.swapaxes(-1, -2)
        depth = np.where(camera_points[..., 2] > 0, camera_points[..., 2], np.nan)
        bent = np.stack(distorted(camera_points[..., 0] / depth, camera_points[..., 1] / depth, self.distortion), axis=-1)
        zoom = np.exp(np.clip(numbers[..., 6], -4, 4))[..., None, None] if self.free_focal else 1.0
        projected = zoom * self.intrinsics[:2] * bent + self.intrinsics[2:]
        return np.nan_to_num(pixels - projected, nan=BEHIND).reshape(*numbers.shape[:-1], -1)

    def jacobian(self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> np.ndarray:
        """Forward differences of the residuals by the numbers, [2 N, 6 or 7], from one batch of cameras."""
        perturbed = numbers + np.diag(np.where(numbers < 0, -_STEP, _STEP) * np.maximum(1.0, np.abs(numbers)))
        base_residuals = self.residuals(pixels, base, np.concatenate([numbers[None], perturbed]))
        return ((base_residuals[1:] - base_residuals[0]) / (np.diag(perturbed) - numbers)[:, None]).T

    def _bars(self, fit: Any, camera: CameraRecord, scale: float, free: int) -> dict[str, np.ndarray]:
        """Standard deviations by the Jacobian of the points that are kept and the scale of their residuals.

        A scale that few residuals give is uncertain: bars reach as far as one deviation of Student's t does.
        """
        widened = scale * student_t.ppf(norm.cdf(1.0), free)
        sd = widened * np.sqrt(np.maximum(np.diag(np.linalg.pinv(fit.jac.T @ fit.jac)), 0.0))
        bars = {"position": sd[3:6], "turn": sd[:3]}
        return bars | ({"focal": sd[6] * camera.intrinsics[:2]} if self.free_focal else {})

    def _fitted(
        self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray, *, scale: float | None = None,
        inliers: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        """Least squares from ``numbers``: robust ones of a scale [px], or plain ones of the inliers."""
        max_radius = float(np.linalg.norm(self.points - self.points.mean(axis=0), axis=1).max())
        scales = np.r_[np.full(3, 0.1), np.full(3, 0.3 * max_radius), np.full(len(numbers) - 6, 0.1)]
        counted = 1.0 if inliers is None else np.repeat(inliers, 2)
        loss = {"loss": "linear"} if scale is None else {"loss": "soft_l1", "f_scale": scale}
        return least_squares(
            lambda x: counted * self.residuals(pixels, base, x), numbers, x_scale=scales, max_nfev=80,
            jac=lambda x: np.reshape(counted, (-1, 1)) * self.jacobian(pixels, base, x), **loss,
        )  # fmt: skip

    def _moved(self, base: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The base with the turn and move in it, so that error bars are those about the estimate's own axes."""
        return Rotation.from_rotvec(numbers[:3]).as_matrix() @ base[0], base[1] + numbers[3:6]


def _much_better(reading: _Fit, fit: _Fit) -> bool:
    """Whether a reading leaves residuals that are smaller by more than chance makes them."""
    ratio = fit.scale / max(reading.scale, _MIN_SCALE)
    return reading.count >= fit.count and ratio > max(_BETTER, f_distribution.ppf(1 - _CHANCE, fit.free, reading.free) ** 0.5)


def _upside_down_fault(fit: _Fit, mirrored: _Fit) -> str | None:
    """Points in a wall: a mirrored picture of them is that of a camera behind the wall, upside down."""
    if fit.planar and fit.upside_down and mirrored.good and not mirrored.upside_down:
        return "the camera that sees these points so is upside down and behind their plane"
    return None


def _alternative_readings(search: _Resection, pixels: np.ndarray) -> list[tuple[str, _Fit]]:
    """Fits with two points exchanged, and of larger pictures: words for the reading, and its fit."""
    exchanged = [(pair, fit) for pair, fit in search.exchanged(pixels) if fit.inliers.all()]
    fits = [(f"with points {first + 1} and {second + 1} exchanged", fit) for (first, second), fit in exchanged]
    width, height = search.size
    for factor in _SMALLER:
        if (factor * pixels.max(axis=0) <= search.size).all():
            words = f"as pixels of a picture of {width / factor:.0f} x {height / factor:.0f}"
            fits.append((words, search.fit(factor * pixels)))
    return fits


def _upwards(pixels: np.ndarray, height: float) -> np.ndarray:
    return pixels * [1, -1] + [0, height]


def _shares(search: _Resection, pixels: np.ndarray) -> str:
    """The message for pixels between -1 and 1, with the reading that fits best."""
    image_size = np.array(search.size, dtype=float)
    scaled = {"from 0 to 1": pixels * image_size, "from -1 to 1": (pixels + 1) / 2 * image_size}
    readings = {
        f"{words}, v {way}": search.fit(scaled_pixels if way == "downwards" else _upwards(scaled_pixels, image_size[1]))
        for words, scaled_pixels in scaled.items()
        if words == "from -1 to 1" or (pixels >= 0).all()
        for way in ("downwards", "upwards")
    }
    words, best = min(readings.items(), key=lambda reading: (not reading[1].good, reading[1].scale))
    fits = f" (read as shares of the picture {words}, they fit to {best.rms:.2f} pixels)" if best.good else ""
    return f"u and v are between -1 and 1: give pixels from the upper left corner, v downwards{fits}"


def _refuse_outside(pixels: np.ndarray, width: int, height: int) -> None:
    relative_pixels = pixels / [width, height]
    outside_points = np.flatnonzero(((relative_pixels < -0.1) | (relative_pixels > 1.1)).any(axis=1))
    if len(outside_points):
        verb = "lie" if len(outside_points) > 1 else "lies"
        raise UserError(
            f"{_named(outside_points)} of the table {verb} outside of the picture of {width} x {height} pixels: "
            "give the size of the picture in which the points were marked, and pixels from its upper left corner"
        )


def _outlier_remarks(fit: _Fit, pixels: np.ndarray) -> list[str]:
    """Which points do not fit, and which of them fit once exchanged."""
    outliers = np.flatnonzero(~fit.inliers)
    projected = fit.camera.project(fit.points)
    tolerance = max(_OUTLIER * max(fit.scale, _MIN_SCALE), 1.0)
    swapped = [
        (a, b) for a, b in itertools.combinations(outliers, 2)
        if max(np.linalg.norm(projected[a] - pixels[b]), np.linalg.norm(projected[b] - pixels[a])) <= tolerance
    ]  # fmt: skip
    remarks = [f"{_named(np.array(pair))} have each other's pixels: exchange them in the table" for pair in swapped]
    return [f"points that do not fit and are left out: {', '.join(str(k + 1) for k in outliers)}", *remarks]


def _named(rows: np.ndarray) -> str:
    numbers = [str(row + 1) for row in rows[:5]]
    if len(rows) == 1:
        return f"point {numbers[0]}"
    last = numbers.pop() if len(rows) <= 5 else f"{len(rows) - 5} more"
    return f"points {', '.join(numbers)} and {last}"
