"""Angles of both joints in every frame, by Gauss-Newton steps in the solved look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from studies.real.dfki_pendulum.film.arm import LOOK_SCALE, Arm, Look, geman, misfit

STEP = 0.02  # rad, of the differences of pictures
WIDEST = 0.3  # rad, of a step
RADIUS = 4  # pixels of a block within which residuals are correlated, for the bars


def halved(pictures: np.ndarray) -> np.ndarray:
    """Pictures [..., H, W] of half the size; an odd last row is left out."""
    height, width = (side // 2 for side in pictures.shape[-2:])
    return pictures[..., : 2 * height, : 2 * width].reshape(*pictures.shape[:-2], height, 2, width, 2).mean(axis=(-3, -1))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Angles of frames.

    Attributes:
        angles: [n, 2] rad.
        misfit: [n] robust sums of squared residuals.
        bars: [n, 2] rad, standard deviations: of residuals that are correlated within ``RADIUS`` pixels.
    """

    angles: np.ndarray
    misfit: np.ndarray
    bars: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """Settings of the comparison of pictures: wide far from the truth, narrow near it.

    Attributes:
        smooth: pixels, of the Gaussian that smooths both pictures.
        scale: residual from which on a pixel counts less.
    """

    smooth: float = 0.0
    scale: float = LOOK_SCALE

    def smoothed(self, pictures: np.ndarray) -> np.ndarray:
        """Pictures [..., H, W] after the Gaussian."""
        return gaussian_filter(pictures, self.smooth, axes=(-2, -1)) if self.smooth else pictures


NEAR, FAR, WIDE = Closeness(), Closeness(smooth=1.0, scale=0.2), Closeness(smooth=3.0, scale=0.5)


def angle_step(arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, close: Closeness = NEAR) -> Fitted:
    """One Gauss-Newton step of every frame by its own picture; a frame that it does not help stays where it is.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W]; pixels without a number (NaN) count nothing.
        angles: [n, 2] rad to begin with.
        close: how pictures are compared.
    """
    is_visible = np.isfinite(pictures)
    filled = np.where(is_visible, pictures, look.plate)

    def left_by(tries: np.ndarray) -> np.ndarray:
        return close.smoothed(is_visible * (filled - look.pictures(arm.coverage(tries))))

    moves = np.array([(0, 0), (STEP, 0), (-STEP, 0), (0, STEP), (0, -STEP)])
    drawn = look.pictures(arm.coverage((angles + moves[:, None]).reshape(-1, 2))).reshape(5, *pictures.shape)
    residuals = close.smoothed(is_visible * (filled - drawn))
    residual = residuals[0]
    jacobian = np.stack([residuals[2] - residuals[1], residuals[4] - residuals[3]]) / (2 * STEP)
    weight = geman(residual, close.scale)
    normal = np.einsum("inhw,jnhw->nij", weight * jacobian, jacobian, optimize=True)
    gradient = np.einsum("inhw,nhw->ni", weight * jacobian, residual, optimize=True)
    ridge = 1e-4 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 1e-9 * np.eye(2)
    step = np.clip(np.linalg.solve(normal + ridge, gradient[..., None])[..., 0], -WIDEST, WIDEST)
    before, after = misfit(residual, close.scale), misfit(left_by(angles + step), close.scale)
    better = after < before
    sensitive_weight = weight * (np.abs(jacobian).sum(axis=0) > 0.01)
    variance = (sensitive_weight * residual**2).sum(axis=(1, 2)) / np.maximum(sensitive_weight.sum(axis=(1, 2)), 1)
    inverse = np.linalg.inv(normal + ridge)
    bars = RADIUS * np.sqrt(variance[:, None] * np.diagonal(inverse, axis1=1, axis2=2))
    return Fitted(angles + better[:, None] * step, np.where(better, after, before), bars)


def fitted(
    arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, *, steps: int, close: Closeness = NEAR, batch: int = 64
) -> Fitted:
    """Some steps of all frames (``angle_step``), in batches."""
    fits = []
    for first in range(0, len(angles), batch):
        batch_slice = slice(first, first + batch)
        result = Fitted(angles[batch_slice], np.zeros(0), np.zeros(0))
        for _ in range(steps):
            result = angle_step(arm, look, pictures[batch_slice], result.angles, close)
        fits.append(result)
    return Fitted(*(np.concatenate([getattr(fit, name) for fit in fits]) for name in ("angles", "misfit", "bars")))


def searched(arm: Arm, look: Look, picture: np.ndarray, *, count: int = 24, best: int = 16, steps: int = 6) -> np.ndarray:
    """Angles [2] of one picture [H, W] from nothing: a grid of ``count`` angles of both joints, the best of which are fitted."""
    one = -np.pi + 2 * np.pi * np.arange(count) / count
    grid = np.stack(np.meshgrid(one, one, indexing="ij"), axis=-1).reshape(-1, 2)
    filled = WIDE.smoothed(np.where(np.isfinite(picture), picture, look.plate))
    left = [misfit(filled - WIDE.smoothed(look.pictures(arm.coverage(chunk))), WIDE.scale) for chunk in np.array_split(grid, 8)]
    starts = grid[np.argsort(np.concatenate(left))[:best]]
    pictures = np.broadcast_to(picture, (best, *picture.shape))
    for close in (WIDE, FAR):
        result = fitted(arm, look, pictures, starts, steps=steps, close=close)
        starts = result.angles
    return result.angles[result.misfit.argmin()]


LOST = 1.6  # times the median misfit of the frames before it, beyond which a frame is searched again
SETTLED = 2e-3  # rad, of a step


def tracked(
    arm: Arm, look: Look, pictures: np.ndarray, *, steps: int = 4, say: Callable[[str], None] | None = None
) -> np.ndarray:
    """Angles [n, 2] of pictures [n, H, W], each from where the two before it lead; the first one, and lost ones, afresh.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W].
        steps: of a frame, at most, with pictures that are smoothed much and then little.
        say: what is called now and then.
    """
    angles, left = np.empty((len(pictures), 2)), np.empty(len(pictures))
    for k in range(len(pictures)):
        picture = pictures[k : k + 1]
        if k == 0:
            guess = searched(arm, look, picture[0])
        else:
            guess = angles[0] if k == 1 else 2 * angles[k - 1] - angles[k - 2]
        result = refined(arm, look, picture, guess, steps)
        if k > 5 and result.misfit[0] > LOST * np.median(left[max(k - 20, 0) : k]):
            # The last angles without their rate, and a search: a fast link may turn within a frame.
            for start_angles in (angles[k - 1], searched(arm, look, picture[0])):
                restart = refined(arm, look, picture, start_angles, steps)
                result = restart if restart.misfit[0] < 0.9 * result.misfit[0] else result
        angles[k], left[k] = result.angles[0], result.misfit[0]
        if k:
            angles[k] -= 2 * np.pi * np.round((angles[k] - angles[k - 1]) / (2 * np.pi))
        if say and k % 50 == 0:
            say(f"picture {k}: {np.degrees(angles[k]).round(1)} degrees, misfit {left[k]:.2f}")
    return angles


def refined(arm: Arm, look: Look, picture: np.ndarray, guess: np.ndarray, steps: int) -> Fitted:
    """The angles of one picture [1, H, W] near a guess [2], by pictures that are smoothed much and then little."""
    result = Fitted(guess[None], np.zeros(0), np.zeros(0))
    for close in (WIDE, FAR):
        for _ in range(steps):
            before = result.angles
            result = angle_step(arm, look, picture, before, close)
            if np.abs(result.angles - before).max() < SETTLED:
                break
    return result


TURNS = np.radians([(4.0, -8.0), (-4.0, 8.0)])  # along which a wrong elbow explains most of a picture


def restarted(arm: Arm, look: Look, pictures: np.ndarray, result: Fitted) -> Fitted:
    """Angles of frames that a better fit is found for from another start: from the neighbours' course, and along ``TURNS``.

    A dark elbow before a dark thing behind it lets a frame end in a second minimum, from which no step leads back.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W].
        result: of these.
    """
    for turn in (None, *TURNS):
        start = course(result.angles) if turn is None else result.angles + turn
        restart = fitted(arm, look, pictures, fitted(arm, look, pictures, start, steps=3, close=FAR).angles, steps=2)
        better = restart.misfit < result.misfit
        rows = better[:, None]
        result = Fitted(
            np.where(rows, restart.angles, result.angles), np.where(better, restart.misfit, result.misfit),
            np.where(rows, restart.bars, result.bars),
        )  # fmt: skip
    return result


def course(angles: np.ndarray) -> np.ndarray:
    """Angles [n, 2] as their neighbours lead one to expect them: the median of both, and of the cubic through four."""
    result, (a, b, c, d) = angles.copy(), (angles[:-4], angles[1:-3], angles[3:-1], angles[4:])
    result[2:-2] = np.median([b, c, (4 * (b + c) - (a + d)) / 6], axis=0)
    return result
