"""A batch of training pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class Batch:
    """Pictures, how they change with psi, and the states they show.

    Attributes:
        images: [B, H, W, 3] float32, linear rgb in [0, 1].
        jacobian: [B, K, H, W, 3] float16, dI/dpsi per unit of psi (psi in [-1, 1]); None where it was not asked for.
        outputs: [B, S] float32, the state head's normalised outputs.
        psi: [B, K] float32, the appearances.
    """

    images: torch.Tensor
    jacobian: torch.Tensor | None
    outputs: torch.Tensor
    psi: torch.Tensor


class Source(Protocol):
    """Where training pictures come from: shards on a disk, or the renderer itself. Both give the same pictures.

    Attributes:
        size: side of the square pictures [pixels].
        record: everything that decides the pictures, in values that JSON can hold; the same for both kinds of source.
        concurrent: whether ``batch`` may be called from another thread, while the network is trained.
    """

    size: int
    record: dict[str, Any]
    concurrent: bool

    def __len__(self) -> int:
        """How many pictures there are."""

    def batch(self, indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        """The pictures of these numbers, in this order, on the CPU."""
