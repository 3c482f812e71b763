"""What is computed twice: on the CPU the same bits; on a GPU, where sums of atomics come in any order, the same to rounding."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from ti_sim.base.runtime import require


def to_the_last_bit() -> bool:
    """Whether kernels compute the same bits each time."""
    return require().device == "cpu"


def is_same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two tensors on the CPU, or none, hold what was computed twice; derivatives in half precision may differ in the last
    digit.
    """
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or to_the_last_bit():
        return one.dtype == other.dtype and torch.equal(one, other)
    return torch.allclose(one.float(), other.float(), rtol=2e-3, atol=1e-4)


def are_same_shards(one: Path, other: Path) -> bool:
    """Whether two folders hold files of the same names, and shards of the same tensors (``is_same``)."""
    names = [{path.name for path in folder.iterdir()} for folder in (one, other)]
    shards = [name for name in names[0] if name.endswith(".safetensors")]
    if names[0] != names[1]:
        return False
    pairs = [(load_file(one / name), load_file(other / name)) for name in shards]
    return all(a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a) for a, b in pairs)
