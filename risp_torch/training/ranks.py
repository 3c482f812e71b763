"""One process or several: what ``torchrun`` says, and gradients that all ranks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from risp_torch.dataset import ranks_from_environment


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run.

    Attributes:
        rank: its number.
        count: how many there are.
    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and draws bars."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.count > 1:
            torch.distributed.barrier()

    def shared(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over the ranks."""
        if self.count == 1:
            return network
        return nn.parallel.DistributedDataParallel(network)

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """Mean of a tensor over the ranks, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(value)
            value /= self.count
        return value


def rank_from_environment() -> Ranks:
    """What ``torchrun`` has set: RANK of WORLD_SIZE; 0 of 1 without it (errors: ``ranks_from_environment``)."""
    return Ranks(*ranks_from_environment())


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this run, connected to one another while the block runs.

    Args:
        device: where the gradients lie: NCCL connects CUDA devices, Gloo processors.
    """
    ranks = rank_from_environment()
    if ranks.count == 1 or torch.distributed.is_initialized():
        yield ranks
        return
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ranks
    finally:
        torch.distributed.destroy_process_group()
