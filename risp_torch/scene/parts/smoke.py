"""Smoke of a scene: the grid's parameters as inputs of the solver, and pictures of its density."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parts.backdrop import background_rows
from risp_torch.scene.parts.cameras import Camera
from risp_torch.scene.parts.described import DescribedPart
from ti_sim.smoke import SmokeInputs, SmokeModel
from ti_sim.smoke.model import Advection


@dataclass(frozen=True, eq=False)
class Smoke(DescribedPart):
    """Smoke that fills the picture.

    Attributes:
        name: first part of its parameter names.
        model: the grid.
        advection: of ``SmokeSettings``.
    """

    name: str
    model: SmokeModel
    advection: Advection

    @property
    def picture_names(self) -> tuple[str, ...]:
        """Parameters that affect pictures and not the motion."""
        return f"{self.name}.color", f"{self.name}.opacity"

    def description(self) -> dict[str, Any]:
        """As ``DescribedPart.description``: the grid, with a checksum of its obstacles."""
        obstacle_checksum = sha256(np.ascontiguousarray(self.model.open_cells).tobytes()).hexdigest()
        return {"smoke": [self.name, list(self.model.cells), self.model.cell, self.advection, obstacle_checksum]}

    def start(self, values: Values) -> torch.Tensor:
        """Density [B, X, Y] at the start, none in obstacles, from parameter values [B, ...]."""
        return values[f"{self.name}.density"] * constant(self.model.open_cells.astype(float))

    def inputs(self, values: Values, frames: int) -> SmokeInputs:
        """The solver's arrays for ``frames`` frame intervals, from parameter values [B, ...]; differentiable."""
        arrays = {key: values[f"{self.name}.{key}"].contiguous() for key in (
            "density", "velocity_x", "velocity_y", "source", "buoyancy", "viscosity", "confinement",
        )}  # fmt: skip
        source = arrays["source"]
        if source.ndim == 3:
            source = source[:, None].expand(-1, frames, -1, -1)
        return SmokeInputs(
            density0=arrays["density"], velocity_x0=arrays["velocity_x"], velocity_y0=arrays["velocity_y"],
            source=source.contiguous(), buoyancy=arrays["buoyancy"], viscosity=arrays["viscosity"],
            confinement=arrays["confinement"],
        )  # fmt: skip

    def pictures(self, values: Values, density: torch.Tensor, camera: Camera) -> torch.Tensor:
        """Pictures [B, T, H, W, 4] of the whole box, colour and coverage; the lower left corners of box and picture coincide.

        Behind smoke of density d, 1 - exp(-opacity d) of the background is replaced by the smoke's colour (Beer and Lambert). A
        pixel is the mean over its area.

        Args:
            values: parameters [B, ...].
            density: [B, T, X, Y].
            camera: gives the pictures' size.
        """
        color, opacity = (values[name] for name in self.picture_names)
        edge_colors = background_rows(values)
        height = (torch.arange(camera.height, device=density.device, dtype=density.dtype) + 0.5) / camera.height
        height_fraction = height[:, None, None]  # from the upper edge
        top, bottom = edge_colors[:, :1, None], edge_colors[:, 1:, None]
        backdrop = top * (1 - height_fraction) + bottom * height_fraction  # [B or 1, H, 1, 3]
        coverage = 1 - torch.exp(-opacity[:, None, None, None] * density)
        cells_x, cells_y = self.model.cells
        coverage = _pixel_means(
            _pixel_means(coverage, overlaps(cells_y, camera.height)[::-1]).mT, overlaps(cells_x, camera.width)
        )[..., None]
        return torch.cat([backdrop[:, None] * (1 - coverage) + color[:, None, None, None] * coverage, coverage], dim=-1)


def _pixel_means(coverage: torch.Tensor, weights: np.ndarray) -> torch.Tensor:
    """Means [..., pixels] of values of cells [..., cells] with the weights [pixels, cells] of ``overlaps``.

    Sums over the few cells of each pixel keep the precision, which ``torch.autocast`` and TF32 take from matrix multiplications.
    """
    count = int((weights > 0).sum(axis=1).max())
    cells = np.argsort(-weights, axis=1, kind="stable")[:, :count]
    gathered = coverage.index_select(-1, torch.as_tensor(cells.ravel(), device=coverage.device))
    return (gathered.unflatten(-1, cells.shape) * constant(np.take_along_axis(weights, cells, axis=1))).sum(dim=-1)


@cache
def overlaps(cells: int, pixels: int) -> np.ndarray:
    """[pixels, cells] share of each pixel of a row that each of the cells along it covers."""
    pixel_bounds = np.linspace(0, 1, pixels + 1)
    cell_bounds = np.linspace(0, 1, cells + 1)
    low = np.maximum(pixel_bounds[:-1, None], cell_bounds[None, :-1])
    high = np.minimum(pixel_bounds[1:, None], cell_bounds[None, 1:])
    return np.clip(high - low, 0, None) * pixels
