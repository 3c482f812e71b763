"""Random numbers of augmentations, equal on every device."""

from __future__ import annotations

import numpy as np
import torch


class RandomNumbers:
    """Random tensors for a batch: drawn on the CPU, so that equal seeds give equal pictures on every device, and moved.

    Attributes:
        count: B, pictures of the batch.
        device: device of the tensors.
    """

    def __init__(self, stream: int, seed: tuple[int, ...], *, count: int, device: torch.device) -> None:
        """Seed the generator with the number of an augmentation (``stream``) and the seed of a batch."""
        self.count, self.device = count, device
        self._generator = torch.Generator().manual_seed(int(np.random.SeedSequence([stream, *seed]).generate_state(1)[0]))

    def uniform(self, low: float, high: float, *shape: int) -> torch.Tensor:
        """[B, *shape] float32, uniform from ``low`` to ``high``."""
        return low + (high - low) * torch.rand((self.count, *shape), generator=self._generator).to(self.device)

    def normal(self, *shape: int) -> torch.Tensor:
        """[B, *shape] float32, with mean 0 and standard deviation 1."""
        return torch.randn((self.count, *shape), generator=self._generator).to(self.device)

    def with_probability(self, probability: float, *shape: int) -> torch.Tensor:
        """[B, *shape] float32, 1 with this probability, otherwise 0."""
        return (torch.rand((self.count, *shape), generator=self._generator) < probability).float().to(self.device)
