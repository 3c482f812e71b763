"""A solved look: colours, light, plate and exposure, and the film that they make of a motion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem

MIN_BRIGHTNESS_RATIO = 0.2  # ratio of a colour's mean brightness after a step to that before: below it, steps are straight


@dataclass(frozen=True, eq=False)
class Look:
    """A solved look.

    Attributes:
        colors: [N, 3] linear colours; of a shadow the colour that it adds to the plate.
        light: [L, 3] coefficients of the shading; the first is 1, since the colours have the scale.
        plate: [P, 3] linear colour behind the bodies.
        gain, offset: [n, 3] of the frames.
        objective: the sum that the look minimises, regularisation included.
        penalty: its part by regularisation.
    """

    colors: np.ndarray
    light: np.ndarray
    plate: np.ndarray
    gain: np.ndarray
    offset: np.ndarray
    objective: float
    penalty: float

    @staticmethod
    def grey(system: AppearanceSystem) -> Look:
        """Grey bodies in even light before the mean of the film."""
        frames, pixels = system.plate_share.shape
        light = np.zeros((system.basis.shape[1], 3))
        light[0] = 1.0
        return Look(
            np.repeat(system.palette.regularisation_target, 3, axis=1), light, system.film.mean(axis=0), np.ones((frames, 3)),
            np.zeros((frames, 3)), np.inf, 0.0,
        )  # fmt: skip

    def moved(self, system: AppearanceSystem, step: np.ndarray) -> Look:
        """The look after a step [N + L - 1, 3] of the colours and of the light's last coefficients.

        A colour times its mean brightness changes linearly: where a body hardly turns, only this product is identifiable, and
        colours and light that keep it lie on a curve.
        """
        colors, light = step[: len(self.colors)], step[len(self.colors) :]
        new = np.concatenate([self.light[:1], self.light[1:] + light])
        before, after = system.mean_basis @ self.light, system.mean_basis @ new
        change = after - before
        lit_colors = (self.colors + colors) * before + self.colors * change
        straight = (before <= 0) | (after < MIN_BRIGHTNESS_RATIO * before)
        return replace(
            self, colors=np.where(straight, self.colors + colors, lit_colors / np.where(straight, 1.0, after)), light=new
        )

    @cached_property
    def is_evenly_exposed(self) -> bool:
        """Whether all gains are 1 and all offsets 0."""
        return bool((self.gain == 1).all() and not self.offset.any())

    def picture(self, system: AppearanceSystem) -> np.ndarray:
        """The film [n, P, 3] in this look."""
        return self.composed(system, self.bodies(system))

    def composed(self, system: AppearanceSystem, bodies: np.ndarray) -> np.ndarray:
        """The film [n, P, 3] with these colours [R, 3] of the bodies in their pixels, before the plate."""
        pictures = system.plate_share[..., None] * self.plate
        pictures.reshape(-1, 3)[system.row] += bodies
        if not self.is_evenly_exposed:
            pictures *= self.gain[:, None]
            pictures += self.offset[:, None]
        return pictures

    def bodies(self, system: AppearanceSystem) -> np.ndarray:
        """[R, 3] what the bodies add to their pixels, without gain and offset."""
        return system.matrix @ (self.colors[system.color] * (system.basis @ self.light))
