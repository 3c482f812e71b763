"""A camera's pose, and optionally its focal length, from points of known positions in the world (resection).

A search (``pose_search``) selects the camera with most inliers, and robust least squares refine it. Points further than five
times the scale of the residuals from their projections are outliers; ordinary least squares of the inliers give the camera and
its standard deviations.

Alternative readings of the same table are also fitted: a mirrored picture (v measured upwards, or points with left-handed axes),
pixels of a smaller picture or as fractions of its size, and two points exchanged. If one of them fits much better, an error names
it.
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
from ti_render.calibration.pose_search import BEHIND_RESIDUAL, best_pose
from ti_render.camera_files import CameraRecord
from ti_render.camera_files.record import distort_points
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, Rule, checked

COLUMNS = ("x", "y", "z", "u", "v")
_OUTLIER_SCALES = 5.0  # a point with a larger residual, in scales, is an outlier
_MIN_SCALE = 0.1  # pixels: lower bound of the accuracy of marked points
_MAX_RMS = (1.0, 0.005)  # pixels, and a fraction of the picture's diagonal: their sum bounds the residual of a fit
# Another reading is accepted if its residuals are smaller by this factor, and significantly so (F-test).
_MIN_IMPROVEMENT, _SIGNIFICANCE = 3.0, 1e-3
_SIZE_FACTORS = (1.5, 2.0, 3.0, 4.0)  # tested ratios of the picture to a smaller picture in which points may have been marked
_MAX_EXTENT = 100.0  # m: points that extend further are probably in another unit
_MAX_FOCAL_WIDTHS = 20.0  # focal length [picture widths] beyond which perspective does not determine it
_MAX_EXCHANGES = 500
_DIFFERENCE_STEP = float(np.finfo(float).eps ** 0.5)  # of forward differences

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
    """The camera that projects points to their pixels.

    Args:
        points: [N, 3] in the world [m], z up.
        pixels: [N, 2] where they appear, v downwards; the centre of the first pixel is (0.5, 0.5).
        width, height: of the picture [px].
        focal: focal length [px]; the principal point is the middle of the picture. None with ``like``, or to estimate it.
        like: a camera with the same focal length, centre and lens.
        free_focal: estimate the focal length, too (with a fixed ratio fx / fy), starting from ``focal`` or that of ``like``.
        below_ground: accept a camera below z = 0 and all points.
        name: of the camera.

    Raises:
        UserError: too few points, points on a line or outside of the picture, no camera fits them, an alternative reading of the
            table fits much better than the documented one, or the camera has points behind it or is below the ground.
    """
    points, pixels = np.asarray(points, dtype=np.float64), np.asarray(pixels, dtype=np.float64)
    estimate_focal = free_focal or (focal is None and like is None)
    min_points = 5 if estimate_focal else 4
    if len(points) != len(pixels) or len(points) < min_points:
        raise UserError(f"{len(points)} points and {len(pixels)} pixels: a pose needs {min_points} of both at least")
    singular_values = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if not singular_values[1] > 1e-6 * singular_values[0]:
        raise UserError("the points lie on a line: add points beside it")
    if estimate_focal and singular_values[2] < 1e-3 * singular_values[0]:
        raise UserError("the points lie in a plane, which leaves the focal length open: add points off it, or give --focal")
    if like is None:
        focal_guess = focal or 1.2 * max(width, height)
        intrinsics, distortion = np.array([focal_guess, focal_guess, 0.5 * width, 0.5 * height]), np.zeros(5)
    else:
        intrinsics, distortion = like.intrinsics, like.distortion
    search = _Resection(points, intrinsics, distortion, (width, height), estimate_focal, name)
    if np.abs(pixels).max() <= 1.0 and min(width, height) > 2:
        raise UserError(_fraction_message(search, pixels))
    _refuse_outside(pixels, width, height)
    fit = search.fit(pixels)
    mirrored = search.fit(_flip_v(pixels, height))
    fault = fit.fault or (None if below_ground else fit.ground_fault) or _upside_down_fault(fit, mirrored)
    is_doubtful = fault is not None or fit.scale > 1.0 or not fit.inliers.all()
    readings = [(mirrored.mirror_description, mirrored), *(_alternative_readings(search, pixels) if is_doubtful else ())]
    better_readings = [
        (reading.scale, description, reading)
        for description, reading in readings
        if reading.is_valid and (fault or _much_better(reading, fit))
    ]
    if better_readings:
        _, description, reading = min(better_readings, key=lambda entry: entry[0])
        reason = fault or f"a camera fits these points to {fit.rms:.3g} pixels only"
        raise UserError(f"{reason}; {description} it is {reading.rms:.2f} pixels: mend the table of points")
    if fault is not None:
        raise UserError(fault)
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    remarks = [f"the points extend over {extent:.3g} m: give metres"] if extent > _MAX_EXTENT else []
    remarks += [] if fit.inliers.all() else _outlier_remarks(fit, pixels)
    return CameraEstimate(fit.camera, fit.sd, fit.residuals, fit.inliers, tuple(remarks))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The best camera for one reading of the table.

    Attributes:
        camera: the camera.
        residuals: [N, 2] px; ``BEHIND_RESIDUAL`` where a point is behind the camera.
        inliers: [N] bool, False for outliers.
        scale: standard deviation of the residuals of the inliers [px].
        sd: standard deviations, as in ``CameraEstimate``.
        points: [N, 3] in the world.
        fault: why the fit is rejected, or None.
    """

    camera: CameraRecord
    residuals: np.ndarray
    inliers: np.ndarray
    scale: float
    sd: dict[str, np.ndarray]
    points: np.ndarray
    fault: str | None

    @property
    def inlier_count(self) -> int:
        return int(self.inliers.sum())

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the inliers' residuals."""
        return max(1, 2 * self.inlier_count - 6 - ("focal" in self.sd))

    @property
    def rms(self) -> float:
        """Root mean square distance of the inliers from their projections [px]."""
        return float(np.sqrt((self.residuals[self.inliers] ** 2).sum(axis=1).mean()))

    @property
    def is_valid(self) -> bool:
        return self.fault is None and self.ground_fault is None

    @property
    def is_planar(self) -> bool:
        singular_values = np.linalg.svd(self.points - self.points.mean(axis=0), compute_uv=False)
        return bool(singular_values[2] < 0.02 * singular_values[0])

    @property
    def is_upside_down(self) -> bool:
        """Whether the picture's vertical axis points upwards in the world."""
        return bool(self.camera.rotation[1, 2] > 0.1)

    @property
    def ground_fault(self) -> str | None:
        height = float(self.camera.position()[2])
        if height >= min(0.0, float(self.points[:, 2].min())):
            return None
        return f"the camera is {-height:.3g} m below the ground (z = 0) and below all points (--below-ground accepts that)"

    @property
    def mirror_description(self) -> str:
        """Reading of the table if this fit is of mirrored pixels: mirroring u or v differs by a half turn of the picture."""
        edge = "u measured from the right edge" if self.is_upside_down else "v measured upwards"
        return f"with {edge} (or points with left-handed axes)"


class _Resection:
    """Fits of one camera: six pose parameters (rotation, translation), and the logarithm of a factor of the focal length."""

    def __init__(
        self, points: np.ndarray, intrinsics: np.ndarray, distortion: np.ndarray, image_size: tuple[int, int], free_focal: bool,
        name: str,
    ) -> None:  # fmt: skip
        self.points, self.intrinsics, self.distortion = points, intrinsics, distortion
        self.image_size, self.free_focal, self.name = image_size, free_focal, name
        self.parameter_count = 7 if free_focal else 6
        self.max_rms = _MAX_RMS[0] + _MAX_RMS[1] * math.hypot(*image_size)

    def fit(self, pixels: np.ndarray) -> _Fit:
        """The best camera for pixels [N, 2], without outliers."""
        rotation, translation, zoom, _ = self._search(self._undistorted_pixels(pixels))
        return self._refine(pixels, rotation, translation, zoom)

    def fit_exchanged(self, pixels: np.ndarray) -> list[tuple[tuple[int, int], _Fit]]:
        """The pair of points whose exchange gives the best camera, and its fit; empty where there are too many pairs."""
        pairs = list(itertools.combinations(range(len(pixels)), 2))
        if len(pairs) > _MAX_EXCHANGES:
            return []
        tables = np.repeat(pixels[None], len(pairs), axis=0)
        for table, pair in zip(tables, pairs, strict=True):
            table[list(pair)] = table[list(pair[::-1])]
        rotation, translation, zoom, index = self._search(np.stack([self._undistorted_pixels(table) for table in tables]))
        return [(pairs[index], self._refine(tables[index], rotation, translation, zoom))]

    def _search(self, ideal: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
        min_points = 6 if self.free_focal else 5
        return best_pose(
            self.points,
            ideal,
            float(self.intrinsics[0]),
            free_focal=self.free_focal,
            min_points=min_points,
            tolerance=2 * self.max_rms,
        )

    def _undistorted_pixels(self, pixels: np.ndarray) -> np.ndarray:
        """Undistorted pixels of a pinhole camera of focal length fx, from the principal point, by fixed-point iteration."""
        distorted_points = (pixels - self.intrinsics[2:]) / self.intrinsics[:2]
        k1, k2, p1, p2, k3 = self.distortion
        undistorted_points = distorted_points
        for _ in range(20):
            x, y = undistorted_points.T
            r2 = x * x + y * y
            tangential = np.stack([2 * p1 * x * y + p2 * (r2 + 2 * x * x), p1 * (r2 + 2 * y * y) + 2 * p2 * x * y], axis=1)
            undistorted_points = (distorted_points - tangential) / (1 + r2 * (k1 + r2 * (k2 + r2 * k3)))[:, None]
        return self.intrinsics[0] * np.where(np.isfinite(undistorted_points), undistorted_points, distorted_points)

    def _refine(self, pixels: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: float) -> _Fit:
        """Robust least squares from a pose, then least squares of the inliers."""
        base, parameters = (rotation, -rotation.T @ translation), np.r_[np.zeros(6), [math.log(zoom)] * self.free_focal]
        freedom_fraction = (
            max(1, pixels.size - self.parameter_count) / pixels.size
        )  # fitting reduces the residuals by this fraction
        for _ in range(3):
            scale = max(
                _MIN_SCALE, 1.4826 * float(np.median(np.abs(self.residuals(pixels, base, parameters)))) / freedom_fraction**0.5
            )
            fit = self._least_squares(pixels, base, parameters, scale=2 * scale)
            base, parameters = self._move_base(base, fit.x), np.r_[np.zeros(6), fit.x[6:]]
        inliers = np.linalg.norm(self.residuals(pixels, base, parameters).reshape(-1, 2), axis=1) <= _OUTLIER_SCALES * scale
        for _ in range(2):  # the second fit starts at the estimate: its Jacobian is about the estimate's axes
            fit = self._least_squares(pixels, base, parameters, inliers=inliers)
            base, parameters = self._move_base(base, fit.x), np.r_[np.zeros(6), fit.x[6:]]
        camera, residuals = self.camera(base, parameters), self.residuals(pixels, base, parameters).reshape(-1, 2)
        degrees_of_freedom = 2 * int(inliers.sum()) - self.parameter_count
        residual_rms = float(np.sqrt((residuals[inliers] ** 2).sum() / max(1, degrees_of_freedom)))
        sd = self._standard_deviations(fit, camera, max(residual_rms, _MIN_SCALE), max(1, degrees_of_freedom))
        return _Fit(
            camera, residuals, inliers, residual_rms, sd, self.points, self._fault(camera, residuals, inliers, residual_rms)
        )

    def _fault(self, camera: CameraRecord, residuals: np.ndarray, inliers: np.ndarray, scale: float) -> str | None:
        min_points = (5 if self.free_focal else 4) + (not inliers.all())
        if 2 * inliers.sum() <= len(inliers) or inliers.sum() < min_points or math.sqrt(2) * scale > self.max_rms:
            rms = float(np.sqrt(np.minimum((residuals**2).sum(axis=1), BEHIND_RESIDUAL**2).mean()))
            return (
                f"no camera sees these points so: the best leaves {rms:.3g} pixels; check units, axes and pixels (u to the "
                "right, v down), and the focal length"
            )
        points_behind = np.flatnonzero(
            (residuals == BEHIND_RESIDUAL).any(axis=1) | ~np.isfinite(camera.project(self.points)).all(axis=1)
        )
        if len(points_behind):
            return f"the camera that sees most points so has {_point_names(points_behind)} behind it: mend the table of points"
        if self.free_focal and camera.intrinsics[0] > _MAX_FOCAL_WIDTHS * max(self.image_size):
            return (
                "the points do not determine the focal length (the best one is beyond "
                f"{_MAX_FOCAL_WIDTHS:g} picture widths): add points at other depths, or give --focal"
            )
        return None

    def camera(self, base: tuple[np.ndarray, np.ndarray], parameters: np.ndarray) -> CameraRecord:
        """The camera whose rotation and position are ``base``, rotated about its axes and moved in the world."""
        rotation = Rotation.from_rotvec(parameters[:3]).as_matrix() @ base[0]
        intrinsics = np.array(self.intrinsics)
        if self.free_focal:
            intrinsics[:2] *= math.exp(float(np.clip(parameters[6], -4, 4)))
        return CameraRecord(
            name=self.name, width=self.image_size[0], height=self.image_size[1], intrinsics=intrinsics, rotation=rotation,
            translation=-rotation @ (base[1] + parameters[3:6]), distortion=self.distortion,
        )  # fmt: skip

    def residuals(self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], parameters: np.ndarray) -> np.ndarray:
        """Pixels minus projections of the cameras of ``parameters`` [..., 6 or 7], [..., 2 N]."""
        rotation = (
            Rotation.from_rotvec(parameters[..., :3].reshape(-1, 3)).as_matrix().reshape(*parameters.shape[:-1], 3, 3) @ base[0]
        )
        translation = rotation @ (base[1] + parameters[..., 3:6])[..., None]
        camera_points = self.points @ rotation.swapaxes(-1, -2) - translation.swapaxes(-1, -2)
        depth = np.where(camera_points[..., 2] > 0, camera_points[..., 2], np.nan)
        distorted_points = np.stack(
            distort_points(camera_points[..., 0] / depth, camera_points[..., 1] / depth, self.distortion), axis=-1
        )
        zoom = np.exp(np.clip(parameters[..., 6], -4, 4))[..., None, None] if self.free_focal else 1.0
        projected = zoom * self.intrinsics[:2] * distorted_points + self.intrinsics[2:]
        return np.nan_to_num(pixels - projected, nan=BEHIND_RESIDUAL).reshape(*parameters.shape[:-1], -1)

    def jacobian(self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], parameters: np.ndarray) -> np.ndarray:
        """Forward differences of the residuals by the parameters, [2 N, 6 or 7], from one batch of cameras."""
        perturbed = parameters + np.diag(
            np.where(parameters < 0, -_DIFFERENCE_STEP, _DIFFERENCE_STEP) * np.maximum(1.0, np.abs(parameters))
        )
        residuals = self.residuals(pixels, base, np.concatenate([parameters[None], perturbed]))
        return ((residuals[1:] - residuals[0]) / (np.diag(perturbed) - parameters)[:, None]).T

    def _standard_deviations(
        self, fit: Any, camera: CameraRecord, scale: float, degrees_of_freedom: int
    ) -> dict[str, np.ndarray]:
        """Standard deviations by the Jacobian of the inliers and the scale of their residuals.

        With few degrees of freedom the scale is uncertain: the quantile of Student's t replaces one standard deviation.
        """
        widened_scale = scale * student_t.ppf(norm.cdf(1.0), degrees_of_freedom)
        parameter_sd = widened_scale * np.sqrt(np.maximum(np.diag(np.linalg.pinv(fit.jac.T @ fit.jac)), 0.0))
        sd = {"position": parameter_sd[3:6], "turn": parameter_sd[:3]}
        return sd | ({"focal": parameter_sd[6] * camera.intrinsics[:2]} if self.free_focal else {})

    def _least_squares(
        self, pixels: np.ndarray, base: tuple[np.ndarray, np.ndarray], parameters: np.ndarray, *, scale: float | None = None,
        inliers: np.ndarray | None = None,
    ) -> Any:  # fmt: skip
        """Least squares from ``parameters``: robust with a scale [px], or ordinary for the inliers."""
        max_radius = float(np.linalg.norm(self.points - self.points.mean(axis=0), axis=1).max())
        parameter_scales = np.r_[np.full(3, 0.1), np.full(3, 0.3 * max_radius), np.full(len(parameters) - 6, 0.1)]
        weights = 1.0 if inliers is None else np.repeat(inliers, 2)
        loss = {"loss": "linear"} if scale is None else {"loss": "soft_l1", "f_scale": scale}
        return least_squares(
            lambda x: weights * self.residuals(pixels, base, x), parameters, x_scale=parameter_scales, max_nfev=80,
            jac=lambda x: np.reshape(weights, (-1, 1)) * self.jacobian(pixels, base, x), **loss,
        )  # fmt: skip

    def _move_base(self, base: tuple[np.ndarray, np.ndarray], parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The base after the rotation and displacement, so that standard deviations are about the estimate's axes."""
        return Rotation.from_rotvec(parameters[:3]).as_matrix() @ base[0], base[1] + parameters[3:6]


def _much_better(reading: _Fit, fit: _Fit) -> bool:
    """Whether the residuals of a reading are significantly smaller (F-test) and smaller by ``_MIN_IMPROVEMENT``."""
    ratio = fit.scale / max(reading.scale, _MIN_SCALE)
    return reading.inlier_count >= fit.inlier_count and ratio > max(
        _MIN_IMPROVEMENT, f_distribution.ppf(1 - _SIGNIFICANCE, fit.degrees_of_freedom, reading.degrees_of_freedom) ** 0.5
    )


def _upside_down_fault(fit: _Fit, mirrored: _Fit) -> str | None:
    """Fault of points in a plane: their mirrored picture fits a camera behind the plane, upside down."""
    if fit.is_planar and fit.is_upside_down and mirrored.is_valid and not mirrored.is_upside_down:
        return "the camera that sees these points so is upside down and behind their plane"
    return None


def _alternative_readings(search: _Resection, pixels: np.ndarray) -> list[tuple[str, _Fit]]:
    """Fits with two points exchanged, and of larger pictures: description of the reading, and its fit."""
    exchanged = [(pair, fit) for pair, fit in search.fit_exchanged(pixels) if fit.inliers.all()]
    fits = [(f"with points {first + 1} and {second + 1} exchanged", fit) for (first, second), fit in exchanged]
    width, height = search.image_size
    for factor in _SIZE_FACTORS:
        if (factor * pixels.max(axis=0) <= search.image_size).all():
            description = f"as pixels of a picture of {width / factor:.0f} x {height / factor:.0f}"
            fits.append((description, search.fit(factor * pixels)))
    return fits


def _flip_v(pixels: np.ndarray, height: float) -> np.ndarray:
    return pixels * [1, -1] + [0, height]


def _fraction_message(search: _Resection, pixels: np.ndarray) -> str:
    """Message for pixels between -1 and 1, with the reading that fits best."""
    image_size = np.array(search.image_size, dtype=float)
    scaled = {"from 0 to 1": pixels * image_size, "from -1 to 1": (pixels + 1) / 2 * image_size}
    readings = {
        f"{description}, v {v_direction}": search.fit(
            scaled_pixels if v_direction == "downwards" else _flip_v(scaled_pixels, image_size[1])
        )
        for description, scaled_pixels in scaled.items()
        if description == "from -1 to 1" or (pixels >= 0).all()
        for v_direction in ("downwards", "upwards")
    }
    description, best = min(readings.items(), key=lambda reading: (not reading[1].is_valid, reading[1].scale))
    fit_note = f" (read as shares of the picture {description}, they fit to {best.rms:.2f} pixels)" if best.is_valid else ""
    return f"u and v are between -1 and 1: give pixels from the upper left corner, v downwards{fit_note}"


def _refuse_outside(pixels: np.ndarray, width: int, height: int) -> None:
    relative_pixels = pixels / [width, height]
    outside_points = np.flatnonzero(((relative_pixels < -0.1) | (relative_pixels > 1.1)).any(axis=1))
    if len(outside_points):
        verb = "lie" if len(outside_points) > 1 else "lies"
        raise UserError(
            f"{_point_names(outside_points)} of the table {verb} outside of the picture of {width} x {height} pixels: "
            "give the size of the picture in which the points were marked, and pixels from its upper left corner"
        )


def _outlier_remarks(fit: _Fit, pixels: np.ndarray) -> list[str]:
    """Remarks about outliers, and about pairs of them that fit when exchanged."""
    outliers = np.flatnonzero(~fit.inliers)
    projected = fit.camera.project(fit.points)
    tolerance = max(_OUTLIER_SCALES * max(fit.scale, _MIN_SCALE), 1.0)
    swapped = [
        (a, b) for a, b in itertools.combinations(outliers, 2)
        if max(np.linalg.norm(projected[a] - pixels[b]), np.linalg.norm(projected[b] - pixels[a])) <= tolerance
    ]  # fmt: skip
    remarks = [f"{_point_names(np.array(pair))} have each other's pixels: exchange them in the table" for pair in swapped]
    return [f"points that do not fit and are left out: {', '.join(str(k + 1) for k in outliers)}", *remarks]


def _point_names(rows: np.ndarray) -> str:
    numbers = [str(row + 1) for row in rows[:5]]
    if len(rows) == 1:
        return f"point {numbers[0]}"
    last = numbers.pop() if len(rows) <= 5 else f"{len(rows) - 5} more"
    return f"points {', '.join(numbers)} and {last}"
