"""One file of a dataset: a safetensors file that is written atomically and memory-mapped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.files.atomic import write_tensors
from risp_torch.risp.dataset.plan import SCHEMA, Plan
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json

_TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
_MAX_HEADER_BYTES = 1 << 20  # bytes: a header is a few hundred
_METADATA_KEY = "json"


class ShardError(UserError):
    """A shard is missing, damaged, or belongs to another dataset.

    Attributes:
        fault: the fault, as the predicate of a sentence about the file.
    """

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path} {fault}: remove it and give the command of the dataset again, which renders what is missing")
        self.fault = fault


@dataclass(frozen=True)
class Shard:
    """Layout of a shard; made by ``open_shard``.

    Attributes:
        path: path of the file.
        offsets: name of the tensor -> offset of its first byte in the file.
        shapes: name of the tensor -> type and shape (``Plan.shapes``).
    """

    path: Path
    offsets: Mapping[str, int]
    shapes: Mapping[str, tuple[str, tuple[int, ...]]]

    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors, memory-mapped: data are loaded when they are read."""
        file = np.memmap(self.path, dtype=np.uint8, mode="r")
        result = {}
        for name, (kind, shape) in self.shapes.items():
            dtype, first = _TYPES[kind], self.offsets[name]
            result[name] = file[first : first + dtype.itemsize * int(np.prod(shape))].view(dtype).reshape(shape)
        return result


def write_shard(path: Path, plan: Plan, shard: int, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a shard atomically.

    Args:
        path: path of the file.
        plan: plan of the dataset.
        shard: index of the file.
        tensors: tensors of ``Plan.shapes``, on the CPU.

    Raises:
        UserError: the file cannot be written (``DiskFullError`` if the disk is full).
    """
    # One entry: the order of several would differ from process to process.
    metadata = {_METADATA_KEY: json.dumps(_metadata(plan, shard), sort_keys=True)}
    write_tensors(path, tensors, metadata)


def open_shard(path: Path, plan: Plan, shard: int) -> Shard:
    """Open a shard after a check of its header and size.

    Raises:
        ShardError: it is missing, damaged, or belongs to another dataset.
    """
    if os.path.lexists(path) and not path.is_file():
        raise ShardError(path, "is no file")
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = parse_json(file.read(length)) if 0 < length <= _MAX_HEADER_BYTES else None
            size = file.seek(0, 2)
        metadata = parse_json(header.pop("__metadata__")[_METADATA_KEY])
        arrays = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}
        offsets = {name: 8 + length + entry["data_offsets"][0] for name, entry in header.items()}
        data_size = 8 + length + max(entry["data_offsets"][1] for entry in header.values())
    except FileNotFoundError:
        raise ShardError(path, "is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ShardError(path, "is damaged (its header cannot be read)") from error
    if metadata != _metadata(plan, shard):
        raise ShardError(path, "belongs to another dataset")
    if arrays != plan.shapes(shard):
        raise ShardError(path, "is damaged (its header does not list the tensors of a shard)")
    if size != data_size:
        raise ShardError(path, f"is damaged (it has {size} bytes instead of {data_size})")
    return Shard(path, offsets, arrays)


def _metadata(plan: Plan, shard: int) -> dict[str, Any]:
    return {"schema": SCHEMA, "scene": plan.description["name"], "shard": shard, "digest": plan.digest}
