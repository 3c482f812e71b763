"""A solved look: colours, light, plate and exposure, and the film that they make of a motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem

LEAST_BRIGHTNESS = 0.2  # ratio of a colour's mean brightness after a step to that before: below it, steps are straight


@dataclass(frozen=True, eq=False)
class Look:
    """A solved look.

    Attributes:
        colors: [N, 3] linear colours; of a shadow what it adds to the plate.
        light: [L, 3] coefficients of the shading; the first is 1, as the colours have the scale.
        plate: [P, 3] linear colour behind the bodies.
        gain, offset: [n, 3] of the frames.
        objective: the sum that the look minimises, regularisation included.
        penalty: its part by regularisation.
        rounds: steps taken.
    """

    colors: np.ndarray
    light: np.ndarray
    plate: np.ndarray
    gain: np.ndarray
    offset: np.ndarray
    objective: float
    penalty: float
    rounds: int

    @staticmethod
    def grey(footage: AppearanceSystem) -> Look:
        """Grey bodies in even light before the mean of the film."""
        frames, pixels = footage.left.shape
        light = np.zeros((footage.basis.shape[1], 3))
        light[0] = 1.0
        return Look(
            np.repeat(footage.palette.home, 3, axis=1), light, footage.film.mean(axis=0), np.ones((frames, 3)),
            np.zeros((frames, 3)), np.inf, 0.0, 0,
        )  # fmt: skip

    def moved(self, footage: AppearanceSystem, colors: np.ndarray, light: np.ndarray) -> Look:
        """The look after a step of the colours [N, 3] and of the light's last coefficients [L - 1, 3].

        What changes linearly is a colour times its mean brightness: where a body hardly turns, only this product is seen, and
        colours and light that keep it lie on a curve.
        """
        new = np.concatenate([self.light[:1], self.light[1:] + light])
        before, after = footage.mean_basis @ self.light, footage.mean_basis @ new
        change = after - before
        shown = (self.colors + colors) * before + self.colors * change
        straight = (before <= 0) | (after < LEAST_BRIGHTNESS * before)
        return replace(self, colors=np.where(straight, self.colors + colors, shown / np.where(straight, 1.0, after)), light=new)

    def picture(self, footage: AppearanceSystem) -> np.ndarray:
        """The film [n, P, 3] in this look."""
        return self.composed(footage, self.bodies(footage))

    def composed(self, footage: AppearanceSystem, bodies: np.ndarray) -> np.ndarray:
        """The film [n, P, 3] with these colours [R, 3] of the bodies in their pixels, before the plate."""
        pictures = footage.left[..., None] * self.plate
        pictures.reshape(-1, 3)[footage.row] += bodies
        pictures *= self.gain[:, None]
        pictures += self.offset[:, None]
        return pictures

    def bodies(self, footage: AppearanceSystem) -> np.ndarray:
        """[R, 3] what the bodies add to their pixels, without gain and offset."""
        return footage.matrix @ (self.colors[footage.color] * (footage.basis @ self.light))
