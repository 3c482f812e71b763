"""Background of a frame: the plate, darker where the bodies cast shadows on the ground."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.appearance.model.shadow import shadows_of
from risp_torch.inversion.appearance.settings import CAMERA_EDGES
from risp_torch.tracking.coverage import CoverageRenderer

REWEIGHTINGS = 4
RIDGE = 0.05  # weight of the square of each direction's share of the light
BRIGHTNESS_RANGE = (0.05, 1.5)  # least and largest brightness relative to the plate


def shadowed_plate(
    renderer: CoverageRenderer,
    placement: np.ndarray,
    uncovered: np.ndarray,
    picture: np.ndarray,
    plate: np.ndarray,
    robust_scale: float,
) -> np.ndarray:
    """The plate, darkened by the shadows that the bodies cast in this placement.

    Light comes from several directions (``appearance.model.shadow.slopes``). Each direction's share of the light is solved from
    the pixels that show no body, by iteratively reweighted least squares. Shadows keep the hue of the plate. In a scene without
    a ground, the function returns the plate.

    Args:
        renderer: coverage renderer of the camera.
        placement: [N, 7] poses of the bodies (m, quaternion x, y, z, w).
        uncovered: [P] fraction of a pixel that shows no body.
        picture: [P, 3] frame of the film, linear rgb.
        plate: [P, 3] the picture without bodies, linear rgb; NaN where it is unknown.
        robust_scale: residual [linear colour] at which a pixel's weight is a quarter.

    Returns:
        [P, 3] linear rgb; NaN where the plate is unknown.
    """
    unlit_inputs = renderer.unlit_inputs(placement[None], edges=CAMERA_EDGES)
    if unlit_inputs.ground_height is None:
        return plate
    shadow_coverage = shadows_of(unlit_inputs)[0].flatten(1).double().cpu().numpy()
    pixels = np.flatnonzero((uncovered > 0.999) & np.isfinite(plate).all(axis=1) & (shadow_coverage.max(axis=0) > 0))
    in_shadow, plate_colors, picture_colors = shadow_coverage[:, pixels], plate[pixels], picture[pixels]
    plate_squared = (plate_colors**2).sum(axis=1)
    darkening = 1.0 - (picture_colors * plate_colors).sum(axis=1) / np.maximum(plate_squared, 1e-9)
    pixel_weight, shadow_weight = plate_squared, np.zeros(len(shadow_coverage))
    for _ in range(REWEIGHTINGS):
        shadow_weight = np.linalg.solve(
            (in_shadow * pixel_weight) @ in_shadow.T + RIDGE * np.eye(len(shadow_coverage)),
            (in_shadow * pixel_weight) @ darkening,
        )
        residual = picture_colors - (1.0 - shadow_weight @ in_shadow)[:, None] * plate_colors
        pixel_weight = plate_squared / (1.0 + (residual**2).sum(axis=1) / robust_scale**2) ** 2
    return np.clip(1.0 - shadow_weight @ shadow_coverage, *BRIGHTNESS_RANGE)[:, None] * plate
