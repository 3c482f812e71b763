"""The first ten convolutions of VGG-16 (Simonyan and Zisserman, ICLR 2015, column D), and files of their weights."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

from ti_sim.base.errors import UserError

CHANNELS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512))  # of the convolutions between poolings


class Vgg16(nn.Module):
    """Feature maps relu1_2, relu2_2, relu3_3 and relu4_3 of pictures [n, 3, H, W]; weights are named as in torchvision."""

    min_size: ClassVar[int] = 2 ** (len(CHANNELS) - 1)  # pixels: the last map is then 1 x 1

    def __init__(self) -> None:
        """The layers, with random weights."""
        super().__init__()
        layers: list[nn.Module] = []
        self.stage_ends: list[int] = []  # indices of the last layer of every stage
        in_channels = 3
        for stage, widths in enumerate(CHANNELS):
            if stage:
                layers.append(nn.MaxPool2d(2))
            for width in widths:
                layers += [nn.Conv2d(in_channels, width, 3, padding=1), nn.ReLU()]
                in_channels = width
            self.stage_ends.append(len(layers) - 1)
        self.features = nn.Sequential(*layers)

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Four feature maps."""
        maps = []
        for index, layer in enumerate(self.features):
            pictures = layer(pictures)
            if index in self.stage_ends:
                maps.append(pictures)
        return maps


def load_vgg16(path: str | Path) -> Vgg16:
    """VGG-16 with the weights of a file.

    Args:
        path: .safetensors, or a .pth that holds tensors and nothing else; keys "features.0.weight" and so on; others are
            ignored.

    Raises:
        UserError: the file does not exist or has another type, or weights are missing or have another shape.
    """
    return _vgg16_with(_read_tensors(Path(path)), path)


def torchvision_vgg16() -> Vgg16 | None:
    """VGG-16 with torchvision's downloaded weights; None if it is not installed or cannot download."""
    try:
        from torchvision.models import VGG16_Weights, vgg16
    except (ImportError, RuntimeError):  # the latter if it was built for another torch
        return None
    try:
        return _vgg16_with(vgg16(weights=VGG16_Weights.IMAGENET1K_V1).state_dict(), "torchvision")
    except OSError:
        return None


def _vgg16_with(weights: dict[str, torch.Tensor], path: str | Path) -> Vgg16:
    network = Vgg16()
    parameters = network.state_dict()
    for name, parameter in parameters.items():
        weight = weights.get(name)
        if weight is None or tuple(weight.shape) != tuple(parameter.shape):
            fault = "missing" if weight is None else f"of shape {tuple(weight.shape)}"
            raise UserError(
                f"{path} does not hold the weights of VGG-16: {name} is {fault} but {tuple(parameter.shape)} is needed; give "
                "torchvision's vgg16 weights"
            )
    network.load_state_dict({name: weights[name].float() for name in parameters})
    return network


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise UserError(f"the weights {path} do not exist: give a file with the weights of VGG-16 (.safetensors or .pth)")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, OSError, RuntimeError, ValueError, EOFError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read as a file of tensors: give the weights of VGG-16 as .safetensors, or as a .pth that holds "
            "tensors only"
        ) from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds {type(content).__name__} instead of named tensors: give a state dict of VGG-16")
    return {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
