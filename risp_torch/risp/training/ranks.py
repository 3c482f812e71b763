"""One process or several: what ``torchrun`` says, and gradients that all ranks share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from risp_torch.risp.dataset.generate import ranks_from_environment
from ti_sim.base.errors import UserError


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


def take_own_gpu() -> None:
    """Let a process that ``torchrun`` has started see one GPU alone, its own; before anything has used a GPU.

    Kernels and networks both take the first GPU that they see. The k-th process of a machine (LOCAL_RANK) gets the k-th of those
    that CUDA_VISIBLE_DEVICES names, or of all; where there are more processes than GPUs, they take turns. Programs that this one
    starts see the same GPU.
    """
    local = os.environ.get("LOCAL_RANK", "")
    count = torch.cuda.device_count() if local.isdecimal() and not torch.cuda.is_initialized() else 0
    if count > 1:
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",")[:count] if named else [str(number) for number in range(count)]
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(local) % count]


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this run, connected to one another while the block runs.

    Args:
        device: where the gradients lie: NCCL connects CUDA devices, Gloo processors.

    Raises:
        UserError: two processes have the same GPU, which NCCL does not connect.
    """
    ranks = rank_from_environment()
    if ranks.count == 1 or torch.distributed.is_initialized():
        yield ranks
        return
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ranks
    except torch.distributed.DistBackendError as error:
        if "Duplicate GPU" not in str(error):
            raise
        raise UserError(
            f"{ranks.count} processes share fewer GPUs: start one for each GPU (torchrun --nproc-per-node), or give --device cpu"
        ) from error
    finally:
        torch.distributed.destroy_process_group()
