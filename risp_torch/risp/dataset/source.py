"""Training pictures from a dataset on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch.risp.dataset.batch import Batch
from risp_torch.risp.dataset.manifest import read_manifest, shard_faults
from risp_torch.risp.dataset.renderer import check_indices
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.risp.dataset.shards import open_shard
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

_MAX_LISTED = 8


class ShardSource:
    """The pictures of a folder written by ``generate``. Files are memory-mapped: only requested data are loaded."""

    concurrent = True

    @checked
    def __init__(
        self, folder: Path | str, scene: Scene | None = None, task: RispTask | None = None, *, verify: bool = False
    ) -> None:
        """Open a dataset.

        Args:
            folder: folder of the dataset.
            scene: scene that the dataset must have; None for no check.
            task: task with the training domain and state head that the dataset must have; None for no check.
            verify: whether to compare every file with its checksum; otherwise only headers and sizes are checked.

        Raises:
            UserError: the dataset does not exist, is unfinished or damaged, or has another scene, picture size, training
                domain or state head.
        """
        self.folder = Path(folder)
        self.plan = read_manifest(self.folder).plan
        if scene is not None:
            self.plan.check_scene(self.folder, scene)
        if task is not None:
            self.plan.check_task(self.folder, task)
        self.size, self.record = self.settings.size, self.settings.record
        self._shards = [open_shard(self.folder / file, self.plan, i) for i, file in enumerate(self.plan.files)]
        if verify:
            self._verify()
        self._tensors: dict[int, dict[str, np.ndarray]] = {}

    @property
    def settings(self) -> DatasetSettings:
        """Settings of the dataset."""
        return self.plan.settings

    def __len__(self) -> int:
        """Number of pictures."""
        return self.settings.images

    def batch(self, indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        """Read pictures (``Source.batch``).

        Raises:
            UserError: an index does not exist.
        """
        return Batch(
            images=self._rows("images", indices),
            jacobian=self._rows("jacobian", indices) if jacobian else None,
            outputs=self._rows("outputs", indices),
            psi=self._rows("psi", indices),
        )

    def states(self, indices: Sequence[int]) -> torch.Tensor:
        """Poses of the bodies in the pictures: [B, N, 7] float32 (m, unit quaternions)."""
        return self._rows("states", indices)

    def _rows(self, name: str, indices: Sequence[int]) -> torch.Tensor:
        check_indices(indices, len(self))
        shard_rows = [divmod(int(i), self.settings.shard_images) for i in indices]
        views = [self._open(shard)[name][row] for shard, row in shard_rows]
        return torch.from_numpy(np.stack(views))

    def _open(self, shard: int) -> dict[str, np.ndarray]:
        if shard not in self._tensors:
            self._tensors[shard] = self._shards[shard].tensors()
        return self._tensors[shard]

    def _verify(self) -> None:
        faults = shard_faults(self.folder)
        if faults:
            named = [f"{file} {fault}" for file, fault in faults.items()][:_MAX_LISTED]
            more = f"; and {len(faults) - len(named)} more" if len(faults) > len(named) else ""
            raise UserError(
                f"the dataset in {self.folder} has been changed ({'; '.join(named)}{more}): remove these files and give "
                f"'{self.plan.command(self.folder)}' again"
            )
