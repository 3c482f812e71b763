"""A batch of training pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class Batch:
    """Pictures, their derivatives with respect to psi, and their states, on the device of their source.

    Attributes:
        images: [B, H, W, 3] float32, linear rgb in [0, 1].
        jacobian: [B, K, H, W, 3] float16, dI/dpsi per unit of psi (psi in [-1, 1]); None if not requested.
        outputs: [B, S] float32, the state head's normalised outputs.
        psi: [B, K] float32, the appearances.
    """

    images: torch.Tensor
    jacobian: torch.Tensor | None
    outputs: torch.Tensor
    psi: torch.Tensor

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device."""
        return Batch(**{name: None if tensor is None else tensor.to(device) for name, tensor in vars(self).items()})


class Source(Protocol):
    """Source of training pictures: shards on a disk, or the renderer. Both give the same pictures.

    Attributes:
        size: side of the square pictures [pixels].
        record: all data that determine the pictures, as JSON values; the same for both kinds of source.
        concurrent: whether ``batch`` may be called from another thread, while the network is trained.
    """

    size: int
    record: dict[str, Any]
    concurrent: bool

    def __len__(self) -> int:
        """Number of pictures."""

    def batch(self, indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        """The pictures with these indices, in this order."""
