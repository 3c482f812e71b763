"""The pixel loss of gradSim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.losses.loss import PictureLoss, pixel_blocks
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from ti_sim.base.rules import checked


class PixelLoss(PictureLoss):
    """Mean squared difference of linear colours (gradSim, Eq. 1's pixel-wise loss): target and simulation must have the same
    appearance.
    """

    kind = "pixel"
    usual_noise = 0.02
    colors_of_pixels = True

    @checked
    def __init__(self, *, weights: PixelWeights | None = None) -> None:
        """A loss of colours.

        Args:
            weights: weight of each pixel, 1 by default.
        """
        self.weights = weights

    def for_several_films(self) -> PixelLoss:
        """This loss: pixels of films side by side are those of one wide film (``PictureLoss.for_several_films``)."""
        return self

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """The pixels (``PictureLoss.read``)."""
        return pictures

    def weigh(self, pictures: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """The pictures times the roots of their weights, so that squares have the weights (``PictureLoss.weigh``)."""
        return pictures * self.weights.roots(frames)

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels (``Loss.blocks``)."""
        return np.repeat(pixel_blocks(*size), shape[-1])

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Variance of eight-bit pictures (``Loss.noise_floor``)."""
        return (1 / 255) ** 2 / 12

    def to_json(self) -> dict[str, Any]:
        """Its kind, and the weights (``Loss.to_json``)."""
        return {"kind": self.kind} | ({} if self.weights is None else {"weights": self.weights.to_json()})
