"""The loss of depths: distances that a depth camera measured, compared with those of the simulated film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.levels import check_frames, read_depths
from risp_torch.inversion.losses.loss import Loss, pixel_blocks
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

LIMIT = 0.03  # m


class DepthLoss(Loss):
    """Mean squared difference of depths [m], limited where one shows a body and the other what is behind it.

    A difference d counts as L tanh(d / L) with the ``limit`` L, so that pixels on silhouettes, whose depths jump, weigh no more
    than a few others. Pixels without a depth are not compared, nor are those beyond the camera's ``far``.
    """

    kind = "depth"
    needs_film = False
    of_pictures = True
    usual_noise = 0.005

    @checked
    def __init__(
        self, depths: Any, *, weights: PixelWeights | None = None, noise: Positive | None = None, limit: Positive = LIMIT
    ) -> None:
        """A loss of depths.

        Args:
            depths: [T, H, W] along the camera's axis [m], NaN where there is none, or files as of ``read_depths``.
            weights: weight of each pixel, 1 by default.
            noise: standard deviation of a depth [m]; estimated from the residual by default.
            limit: largest difference [m].

        Raises:
            UserError: see ``read_depths``.
        """
        self.weights, self.noise, self.limit = weights, noise, float(limit)
        self.path = str(depths) if isinstance(depths, str | Path) else ""
        values = torch.as_tensor(read_depths(depths) if self.path else depths)
        values = values.detach().to(dtype=bridge_dtype(), device=bridge_device())
        if values.ndim != 3:
            raise UserError(f"the depths have shape {tuple(values.shape)}: give [frames, height, width] in metres")
        self.has_depth = torch.isfinite(values) & (values > 0)
        self.depths = torch.where(self.has_depth, values, torch.zeros_like(values))
        self._far = np.inf

    def check(self, scene: Scene) -> None:
        """Compare the depths with the camera and the film of the scene (``Loss.check``)."""
        camera = scene.camera
        if camera is None:
            raise UserError("the scene has no camera: add one with add_camera")
        check_frames(self.depths, "the depths", frames=scene.frames + 1, size=(camera.height, camera.width))
        if self.weights is not None:
            self.weights.check(scene)
        self._far = camera.far
        if not self.count(range(scene.frames + 1), ()) > 0:
            raise UserError(
                "no pixel has a depth that counts: give depths in metres, or PNG in millimetres, up to the camera's far of "
                f"{self._far:g} m"
            )

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Depths [B, n, H, W] of the motion, within the limit of the measured ones (``Loss.observe``)."""
        frames = range(states.placement.shape[1]) if frames is None else frames
        simulated = scene.render(states, values, frames=list(frames), quantity="depth")[..., 0]
        measured = self.depths[list(frames)]
        return self._root_weights(frames) * (measured + self.limit * torch.tanh((simulated - measured) / self.limit))

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The measured depths (``Loss.of_target``)."""
        return self._root_weights(frames) * self.depths[list(frames)]

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """Pixels with a depth, times their weights (``Loss.count``)."""
        return float((self._root_weights(frames) ** 2).double().sum())

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels (``Loss.blocks``)."""
        return pixel_blocks(*self.depths.shape[1:]).ravel()

    def to_json(self) -> dict[str, Any]:
        """A checksum of the depths, limit, weights and noise (``Loss.to_json``)."""
        digest = sha256(self.depths.float().cpu().numpy().tobytes()).hexdigest()
        weights = {} if self.weights is None else {"weights": self.weights.to_json()}
        return {
            "kind": self.kind, "depths": self.path or None, "depths_sha256": digest, "limit": self.limit, "noise": self.noise
        } | weights  # fmt: skip

    def _root_weights(self, frames: Sequence[int]) -> torch.Tensor:
        """[n, H, W] roots of the weights; 0 where there is no depth."""
        frames = list(frames)
        valid = (self.has_depth[frames] & (self.depths[frames] < self._far)).to(self.depths.dtype)
        return valid if self.weights is None else valid * self.weights.of(frames).sqrt()
