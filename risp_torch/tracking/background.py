"""Background of a frame: the plate, darker where the bodies cast shadows on the ground."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.appearance.model.shadow import shadows_of
from risp_torch.inversion.appearance.settings import CAMERA_EDGES
from risp_torch.tracking.coverage import Outlines

ROUNDS = 4
PULL = 0.05  # of each direction's share of the light, to none
LIGHT = (0.05, 1.5)  # least and largest brightness of the plate


def background(
    outlines: Outlines, placement: np.ndarray, left: np.ndarray, picture: np.ndarray, plate: np.ndarray, robust: float
) -> np.ndarray:
    """The plate in the shadows that the bodies cast in this placement.

    Light comes from several directions (``look.shadow.slopes``), and each one's share is solved from the pixels that show no
    body (iteratively reweighted). Shadows keep the hue of the plate. Without a ground it is the plate itself.

    Args:
        outlines: of the camera.
        placement: [N, 7].
        left: [P] part of a pixel that shows no body.
        picture: [P, 3] of the film.
        plate: [P, 3] the picture without bodies; NaN where it is not known.
        robust: residual at which a pixel counts for a quarter.

    Returns:
        [P, 3]; NaN where the plate is not known.
    """
    unlit = outlines.unlit(placement[None], edges=CAMERA_EDGES)
    if unlit.ground is None:
        return plate
    shadows = shadows_of(unlit)[0].flatten(1).double().cpu().numpy()
    pixels = np.flatnonzero((left > 0.999) & np.isfinite(plate).all(axis=1) & (shadows.max(axis=0) > 0))
    inside, behind, observed = shadows[:, pixels], plate[pixels], picture[pixels]
    power = (behind**2).sum(axis=1)
    darker = 1.0 - (observed * behind).sum(axis=1) / np.maximum(power, 1e-9)
    weight, shadow_weight = power, np.zeros(len(shadows))
    for _ in range(ROUNDS):
        shadow_weight = np.linalg.solve((inside * weight) @ inside.T + PULL * np.eye(len(shadows)), (inside * weight) @ darker)
        residual = observed - (1.0 - shadow_weight @ inside)[:, None] * behind
        weight = power / (1.0 + (residual**2).sum(axis=1) / robust**2) ** 2
    return np.clip(1.0 - shadow_weight @ shadows, *LIGHT)[:, None] * plate
