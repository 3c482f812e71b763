"""One process or several: environment of ``torchrun``, and averaging of gradients."""

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
    """Rank of this process in a run.

    Attributes:
        rank: its index.
        count: number of processes.
    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and shows progress bars."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait for all ranks."""
        if self.count > 1:
            torch.distributed.barrier()

    def data_parallel(self, network: nn.Module) -> nn.Module:
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
    """Rank from the environment of ``torchrun``, RANK of WORLD_SIZE; 0 of 1 without it (errors: ``ranks_from_environment``)."""
    return Ranks(*ranks_from_environment())


def bind_local_gpu() -> None:
    """Restrict a process started by ``torchrun`` to its own GPU; call it before any use of a GPU.

    Kernels and networks use the first visible GPU. The k-th process of a machine (LOCAL_RANK) gets the k-th of those
    in CUDA_VISIBLE_DEVICES, or of all; with more processes than GPUs, they are assigned in turn. Child processes
    see the same GPU.
    """
    local = os.environ.get("LOCAL_RANK", "")
    count = torch.cuda.device_count() if local.isdecimal() and not torch.cuda.is_initialized() else 0
    if count > 1:
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",")[:count] if named else [str(number) for number in range(count)]
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(local) % count]


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this run, connected to each other inside the block.

    Args:
        device: device of the gradients: NCCL connects CUDA devices, Gloo CPUs.

    Raises:
        UserError: two processes have the same GPU, which NCCL does not support.
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
