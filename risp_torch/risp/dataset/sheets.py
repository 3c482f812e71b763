"""Contact sheets of a dataset: its first pictures, and the derivatives of the first one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from risp_torch.files.film.curves import srgb_to_linear
from risp_torch.risp.dataset.plan import Plan
from risp_torch.risp.dataset.shards import open_shard
from risp_torch.scene.rendering_parameters import contact_sheet

SHEETS = ("pictures.png", "derivatives.png")
_MAX_IMAGES = 8


def write_sheets(folder: Path, plan: Plan) -> None:
    """Write ``pictures.png`` and ``derivatives.png`` into the folder of a dataset.

    Zero derivatives are grey, positive ones brighter; each derivative is scaled by its largest magnitude.

    Args:
        folder: folder of the dataset.
        plan: plan of the dataset.

    Raises:
        UserError: the first shard is damaged, or the files cannot be written.
    """
    tensors = open_shard(folder / plan.files[0], plan, 0).tensors()
    pictures = tensors["images"][:_MAX_IMAGES]
    contact_sheet(folder / SHEETS[0], pictures, [f"picture {i}" for i in range(len(pictures))])
    columns = tensors["jacobian"][0].astype(np.float64)
    scales = np.abs(columns).max(axis=(1, 2, 3))
    grey = 0.5 + 0.5 * columns / np.maximum(scales, 1e-12)[:, None, None, None]
    captions = [f"{label}\nup to {scale:.2g}" for label, scale in zip(plan.labels, scales, strict=True)]
    contact_sheet(folder / SHEETS[1], srgb_to_linear(grey), captions)
