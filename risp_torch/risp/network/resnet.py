"""ResNet-18 with instance normalisation and Swish (RISP, ICLR 2022, B.2; He et al., CVPR 2016, table 1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

HeadKind = Literal["spatial", "average"]

_STRIDE = 32  # stride of the last feature map
_MIN_IMAGE_SIZE = 2 * _STRIDE  # instance normalisation needs more than one pixel there


@checked
@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Shape of a network.

    Attributes:
        outputs: S, number of outputs.
        size: side of its square pictures [pixels], a multiple of 32, at least 64.
        width: channels of the first stage; 64 as in ResNet-18.
        head: "spatial" is a linear layer over all pixels of the last feature map; "average" averages the map first, as
            in the paper, and keeps less spatial information.
    """

    outputs: Count
    size: Count = 64
    width: Count = 16
    head: HeadKind = "spatial"

    def __post_init__(self) -> None:
        if self.size < _MIN_IMAGE_SIZE or self.size % _STRIDE:
            raise UserError(f"a network for images of {self.size} pixels was requested: use a multiple of 32, at least 64")


class RispNetwork(nn.Module):
    """Predicts normalised outputs (``StateHead``) from images of any appearance.

    Every convolution is followed by instance normalisation without parameters; Swish replaces ReLU, whose second derivative is
    zero everywhere, so that the loss on derivatives (``training.losses``) can train the network.
    """

    @checked
    def __init__(self, settings: NetworkSettings) -> None:
        """Make a network with PyTorch's usual random weights (seeded by ``torch.manual_seed``)."""
        super().__init__()
        self.settings = settings
        width = settings.width
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), _InstanceNorm(), nn.SiLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(_Block(inputs, outputs, stride=1 if inputs == outputs else 2), _Block(outputs, outputs, stride=1))
                for inputs, outputs in zip(channels, channels[1:], strict=False)
            )
        )
        side = settings.size // _STRIDE if settings.head == "spatial" else 1
        self.pool = nn.Identity() if settings.head == "spatial" else nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(8 * width * side * side, settings.outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Predict outputs.

        Args:
            images: [n, 3, size, size] linear rgb in [0, 1].

        Returns:
            [n, S] normalised outputs.
        """
        return self.linear(self.pool(self.stages(self.stem(images))).flatten(1))

    def read(self, images: torch.Tensor) -> torch.Tensor:
        """Predict outputs of images with channels last; differentiable.

        Args:
            images: [..., size, size, 3] linear rgb in [0, 1], on any device and of any real type.

        Returns:
            [..., S] normalised outputs, of the pictures' type and on their device.

        Raises:
            UserError: the pictures have another size.
        """
        size = self.settings.size
        if tuple(images.shape[-3:]) != (size, size, 3):
            shape = " x ".join(map(str, images.shape[-3:-1]))
            raise UserError(f"the network takes images of {size} x {size} pixels, but the images have {shape}: use --size {size}")
        weight = self.linear.weight
        rows = images.reshape(-1, size, size, 3).permute(0, 3, 1, 2).to(weight)
        with denormals_flushed():
            outputs = self(rows)
        return outputs.reshape(*images.shape[:-3], self.settings.outputs).to(images)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Context in which denormal numbers (below 1e-38) are flushed to zero.

    Swish produces denormal numbers for large negative inputs, and CPUs are many times slower with them.
    """
    was_flushed = float(torch.tensor(1e-39) * torch.tensor(1.0)) == 0.0  # PyTorch has no function to query the setting
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_flushed)


class _Block(nn.Module):
    """Two convolutions with a shortcut (He et al., figure 5, left)."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), _InstanceNorm(), nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), _InstanceNorm(),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), _InstanceNorm())
        self.swish = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.swish(self.residual(x) + self.shortcut(x))


class _InstanceNorm(nn.Module):
    """Each channel of each picture with mean 0 and variance 1 (Ulyanov et al., 2016), without parameters.

    PyTorch's layer norm over a channel's pixels is the fastest of its norms when it is differentiated twice backward. But the
    reverse derivative of its forward-mode derivative is wrong (instance norm's too, PyTorch 2.13;
    ``tests/f64/risp/test_network.py``), that of group norm is right, so group norm is used if the input has a tangent.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if forward_ad.unpack_dual(x).tangent is not None:
            return functional.group_norm(x.contiguous(), x.shape[1])  # its forward mode does not support other memory formats
        return functional.layer_norm(x.flatten(2), (x.shape[2] * x.shape[3],)).view_as(x)
