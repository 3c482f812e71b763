"""Weights of pixels: which parts of a film count, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt

from risp_torch.files.film.cut_to_film import cut_to_film
from risp_torch.files.film.film import film_facts
from risp_torch.files.levels import check_frames, read_shares
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from risp_torch.scene.view.unlit import UnlitRenderInputs
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

MIN_COVERAGE = 0.01  # part of a pixel that shows a body


@checked
@dataclass(frozen=True, eq=False)
class PixelWeights:
    """How much each pixel of a film counts: 0 for a pixel that is not compared, 1 for a whole observation.

    The squared difference of a pixel is multiplied by its weight, and the sum of the weights is the number of observations from
    which the noise is estimated. Pixels that show an occluder or a caption have weight 0: error bars are then those of a film
    without them.

    Attributes:
        values: [T, H, W] in [0, 1], or [1, H, W] for all frames.

    Raises:
        UserError: another shape, or numbers outside [0, 1].
    """

    values: torch.Tensor

    def __post_init__(self) -> None:
        values = torch.as_tensor(np.asarray(self.values) if not isinstance(self.values, torch.Tensor) else self.values)
        values = values.detach().to(dtype=bridge_dtype(), device=bridge_device())
        if values.ndim not in (2, 3) or not values.numel():
            raise UserError(f"weights of pixels have shape {tuple(values.shape)}: give [frames, height, width], or one picture")
        if not torch.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise UserError("weights of pixels are no numbers from 0 to 1: give 0 where a pixel does not count, 1 where it does")
        object.__setattr__(self, "values", values if values.ndim == 3 else values[None])

    @staticmethod
    @checked
    def read(path: Path | str, *, film: Path | str | None = None) -> PixelWeights:
        """Weights from a folder of PNG pictures, one for each frame, from one picture for all, or from .npy; white counts.

        Weights of the whole pictures from which ``film`` was cut (``risp film``) are cut and averaged in the same way.

        Raises:
            UserError: see ``read_shares`` and ``cut_to_film``.
        """
        title = "the weights of pixels"
        values = read_shares(path, title)
        return PixelWeights(torch.as_tensor(values if film is None else cut_to_film(values, film_facts(film), title)))

    @staticmethod
    def region(x: int, y: int, width: int, height: int, *, camera: Camera) -> PixelWeights:
        """Only a rectangle counts.

        Args:
            x, y: its left and upper edge [pixels], from the picture's left upper corner.
            width, height: [pixels].
            camera: of the film.

        Raises:
            UserError: the rectangle is empty or reaches beyond the picture.
        """
        if width < 1 or height < 1 or x < 0 or y < 0 or x + width > camera.width or y + height > camera.height:
            raise UserError(
                f"the region {x},{y},{width},{height} is not within pictures of {camera.width} x {camera.height} pixels: give "
                "the left and upper edge, the width and the height in pixels"
            )
        values = np.zeros((1, camera.height, camera.width))
        values[:, y : y + height, x : x + width] = 1.0
        return PixelWeights(torch.as_tensor(values))

    @staticmethod
    @checked
    def near(scene: Scene, states: States | torch.Tensor, *, distance: Positive) -> PixelWeights:
        """Only pixels near the bodies of a motion count, such as that of an estimate from which a search continues.

        Other pixels carry no information on the motion, but errors of a modelled background (``LookSettings.plate``) bias it.

        Args:
            scene: the scene.
            states: of one world, or its placement.
            distance: largest distance of a pixel's centre from that of a pixel that shows a body [pixels].

        Raises:
            UserError: the motion shows no body.
        """
        with torch.no_grad():
            unlit_inputs = UnlitRenderInputs.of(scene, states, {}, None)
            covered = unlit_inputs.film_of(1.0 - unlit_inputs.weights()[1][..., None])[0, ..., 0].cpu().numpy() > MIN_COVERAGE
        if not covered.any():
            raise UserError("no pixel shows a body: the pixels near the bodies of a motion need one that the camera sees")
        # Without a covered pixel the transform has no distance to give.
        is_near = [distance_transform_edt(~mask) <= distance if mask.any() else mask for mask in covered]
        return PixelWeights(torch.as_tensor(np.stack(is_near).astype(float)))

    def __mul__(self, other: PixelWeights) -> PixelWeights:
        """Pixels that count in both, with the product of their weights.

        Raises:
            UserError: they are of films of different sizes or lengths.
        """
        first_values, second_values = self.values, other.values
        if first_values.shape[1:] != second_values.shape[1:] or len({len(first_values), len(second_values)} - {1}) > 1:
            raise UserError(
                f"weights of pixels have shapes {tuple(first_values.shape)} and {tuple(second_values.shape)}: "
                "give them for one film"
            )
        return PixelWeights(first_values * second_values)

    def check(self, scene: Scene) -> None:
        """Raise a UserError unless the weights fit the films of a scene and some pixel counts."""
        camera = scene.camera
        if camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        size = (camera.height, camera.width)
        check_frames(self.values, "the weights of pixels", frames=scene.frames + 1, size=size, allow_single=True)
        if not (self.values[: scene.frames + 1] > 0).any():
            raise UserError("no pixel counts: all weights are zero, so make white what is to be compared")

    def of(self, frames: Sequence[int]) -> torch.Tensor:
        """[n, H, W] weights of frames, or [1, H, W] if all frames have the same."""
        return self.values if len(self.values) == 1 else self.values[list(frames)]

    def roots(self, frames: Sequence[int]) -> torch.Tensor:
        """[n or 1, H, W, 1] square roots of the weights: factors of what is compared."""
        return self.of(frames).sqrt()[..., None]

    def mean(self, frames: Sequence[int]) -> float:
        """Mean weight of a pixel in these frames."""
        return float(self.of(frames).double().mean())

    def to_json(self) -> dict[str, Any]:
        """Shape and checksum."""
        digest = sha256(self.values.float().cpu().numpy().tobytes()).hexdigest()
        return {"shape": list(self.values.shape), "sha256": digest}
