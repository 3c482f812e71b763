"""Checkpoints of searches: the state of each phase is saved in the checkpoint of a run, and loaded to resume it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.run_folder import RunFolder
from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    import torch

_ARRAY, _TENSOR, _INTEGER_KEYS = "$array", "$tensor", "$integers"


@dataclass(frozen=True)
class SearchCheckpoint:
    """Checkpoint of one phase of a search, in the folder of a run.

    Attributes:
        folder: folder of the run; None saves nothing.
        phase: name of the phase; states of other phases remain in the checkpoint.
    """

    folder: RunFolder | None
    phase: str

    def load(self) -> Any | None:
        """The last state of this phase; None if there is none. Tensors are on the CPU.

        Raises:
            UserError: the checkpoint is damaged, or of another run.
        """
        return self._phases().get(self.phase)

    def save(self, state: Any) -> None:
        """Save the state of this phase.

        Args:
            state: nested dicts (with names or integers as keys), lists and tuples (which come back as lists) of arrays, tensors,
                numbers, texts and None.

        Raises:
            UserError: the folder cannot be written.
        """
        if self.folder is None:
            return
        tensors: dict[str, torch.Tensor] = {}
        encoded = _encoded({**self._phases(), self.phase: state}, tensors)
        self.folder.save_checkpoint(tensors, {"search": encoded})

    def _phases(self) -> dict[str, Any]:
        """All states, by the name of the phase."""
        saved = None if self.folder is None else self.folder.load_checkpoint()
        if saved is None:
            return {}
        tensors, metadata = saved
        if "search" not in metadata:
            raise UserError(f"{self.folder.path} holds the checkpoint of another program: remove it to start the run again")
        return _decoded(metadata["search"], tensors)


def _encoded(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """A state as JSON values; arrays and tensors are moved to ``tensors`` and replaced by their names."""
    import torch

    if isinstance(value, torch.Tensor | np.ndarray):
        name = f"{len(tensors)}"
        tensors[name] = torch.as_tensor(value)
        return {_TENSOR if isinstance(value, torch.Tensor) else _ARRAY: name}
    if isinstance(value, Mapping):
        return dict(_encoded_items(value, tensors))
    if isinstance(value, list | tuple):
        return [_encoded(entry, tensors) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def _encoded_items(value: Mapping[Any, Any], tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, Any]]:
    """Items of a dict with names as keys; integers are marked."""
    if value and all(isinstance(key, int) for key in value):
        yield _INTEGER_KEYS, True
    for key, entry in value.items():
        yield str(key), _encoded(entry, tensors)


def _decoded(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Inverse of ``_encoded``."""
    if isinstance(value, list):
        return [_decoded(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_ARRAY}:
        return tensors[value[_ARRAY]].numpy()
    if set(value) == {_TENSOR}:
        return tensors[value[_TENSOR]]
    integers = value.get(_INTEGER_KEYS, False)
    return {int(key) if integers else key: _decoded(entry, tensors) for key, entry in value.items() if key != _INTEGER_KEYS}
