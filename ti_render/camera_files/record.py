"""One camera of a file, in the conventions of the renderer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ti_render.camera import pack_camera
from ti_render.camera_files.checks import image_side, located, numbers, rotation
from ti_render.camera_files.world import similarity
from ti_render.geometry.lens import DISTORTION_SIZE
from ti_sim.base.errors import UserError


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraRecord:
    """A camera with its image size and pose: the entry of a camera file for one image.

    OpenCV axes (x right, y down, z forward): p_cam = R p_world + t. Pixel centres are at half-integers: the corner of
    the first pixel is (0, 0) and its centre (0.5, 0.5). The arrays are float64 and read-only.

    Attributes:
        name: of the camera or of its image file, without line breaks or blanks at its ends.
        width, height: size of the image [pixels].
        intrinsics: fx, fy, cx, cy [pixels], shape [4].
        rotation: world to camera, shape [3, 3]. A matrix that is orthonormal up to 1e-3 is replaced by the nearest rotation.
        translation: world to camera, in units of the world (m), shape [3].
        distortion: k1, k2, p1, p2, k3 of OpenCV's lens model, shape [5].

    Raises:
        UserError: a value has a wrong shape or is not finite, a side of the image is below 1, a focal length is not
            positive, the matrix is no rotation.
    """

    name: str
    width: int
    height: int
    intrinsics: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    distortion: np.ndarray = field(default_factory=lambda: np.zeros(DISTORTION_SIZE))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.splitlines() != [self.name.strip()]:
            raise UserError(f"camera name {self.name!r}: give one line of text without blanks at its ends")
        with located(f"camera {self.name!r}"):
            intrinsics = numbers(self.intrinsics, "intrinsics (fx, fy, cx, cy)", shape=(4,))
            for name, focal in zip(("fx", "fy"), intrinsics[:2], strict=True):
                if focal <= 0:
                    raise UserError(f"the focal length {name} is {focal:g} pixels: give a number above zero")
            self._set("width", image_side(self.width, "width"))
            self._set("height", image_side(self.height, "height"))
            self._set("intrinsics", intrinsics)
            self._set("rotation", rotation(self.rotation, "R"))
            self._set("translation", numbers(self.translation, "translation", shape=(3,)))
            self._set("distortion", numbers(self.distortion, "distortion (k1, k2, p1, p2, k3)", shape=(DISTORTION_SIZE,)))

    def camera_row(self) -> np.ndarray:
        """The row [16] (float64) of ``RenderInputs.camera``: fx, fy, cx, cy [pixels], R (row-major), t [m]."""
        return pack_camera(self.intrinsics, self.rotation, self.translation)

    def distortion_row(self) -> np.ndarray:
        """The row [5] (float64) of ``RenderInputs.distortion``: k1, k2, p1, p2, k3."""
        return self.distortion.copy()

    def position(self) -> np.ndarray:
        """The camera's centre in the world, -R^T t [m], shape [3], float64."""
        return -self.rotation.T @ self.translation

    def project(self, points: Any) -> np.ndarray:
        """Project points of the world into the image, with the lens distortion.

        The lens model is OpenCV's: radial 1 + k1 r^2 + k2 r^4 + k3 r^6, tangential p1 and p2 (Brown 1966).

        Args:
            points: in the world [m], shape [..., 3].

        Returns:
            Pixels u, v of shape [..., 2], float64; NaN for points that are not in front of the camera. Outside the range
            for which the lens was calibrated the polynomials fold back: points far outside the image can project into it.

        Raises:
            UserError: the points are not finite numbers with three coordinates.
        """
        points = numbers(points, "points")
        if points.ndim < 1 or points.shape[-1] != 3:
            raise UserError(f"points have shape {list(points.shape)}: [..., 3] is needed")
        camera_points = points @ self.rotation.T + self.translation
        depth = np.where(camera_points[..., 2] > 0, camera_points[..., 2], np.nan)
        fx, fy, cx, cy = self.intrinsics
        x, y = self._distort(camera_points[..., 0] / depth, camera_points[..., 1] / depth)
        return np.stack([fx * x + cx, fy * y + cy], axis=-1)

    def in_world(self, new_from_old: Any) -> CameraRecord:
        """The same camera in another world.

        Args:
            new_from_old: p_new = M p_old with M a similarity without reflection (rotation, one positive scale, shift):
                [4, 4], [3, 4] without the last row, or [3, 3] without a shift.

        Returns:
            A record that projects M p to the pixel to which this one projects p.

        Raises:
            UserError: M is no similarity.
        """
        scale, rotation_matrix, shift = similarity(new_from_old, "the change of the world")
        new_rotation = self.rotation @ rotation_matrix.T
        return replace(self, rotation=new_rotation, translation=scale * self.translation - new_rotation @ shift)

    def _distort(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distorted normalised image coordinates."""
        return distort_points(x, y, self.distortion)

    def _set(self, name: str, value: int | np.ndarray) -> None:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(self, name, value)


def distort_points(x: np.ndarray, y: np.ndarray, distortion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distorted normalised image coordinates of a lens with k1, k2, p1, p2, k3."""
    k1, k2, p1, p2, k3 = distortion
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    return (x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x), y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y)
