"""The loss of a film as a function of one or two parameters."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.unknowns import Bounds, Unknowns
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Rule, checked

Points = Annotated[int, Rule(integer=True, minimum=2, maximum=2**31 - 1)]


@checked
def landscape(
    scene: Scene,
    target: torch.Tensor | Comparison,
    names: list[str],
    *,
    points: Points = 41,
    bounds: Bounds | None = None,
    progress: bool = True,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Loss on a grid that spans the parameters' allowed ranges, evenly in their scales.

    Args:
        scene: what was filmed; its other parameters are constant.
        target: [T, H, W, 3] linear rgb to compare by pixels, or any comparison.
        names: one or two scalar parameters with bounds.
        points: grid points per parameter.
        bounds: name -> (low, high) or (low, high, scale), see ``Unknowns.of``.
        progress: whether to show a progress bar.

    Returns:
        Physical grid values of each parameter ([points] each) and losses [points] or [points, points] (first name first);
        infinite where the simulation diverged.

    Raises:
        UserError: not one or two scalar names, or fewer than two points.
    """
    unknowns = landscape_unknowns(scene, names, points=points, bounds=bounds)
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    axes = [np.linspace(a, b, points) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(names))
    comparison, losses = Comparison.of_target(target), []
    for start in tqdm(range(0, len(grid), 8), desc="landscape", disable=not progress):
        rows = torch.as_tensor(grid[start : start + 8], dtype=bridge_dtype(), device=bridge_device())
        losses.append(film_losses(scene, unknowns.from_scaled(rows), comparison, worlds=len(rows)))
    physical_axes = [
        np.power(10.0, axis) if scale == "log10" else axis for axis, scale in zip(axes, unknowns.scales, strict=True)
    ]
    return physical_axes, torch.cat(losses).cpu().numpy().reshape([points] * len(names))


@checked
def landscape_unknowns(scene: Scene, names: list[str], *, points: Points, bounds: Bounds | None = None) -> Unknowns:
    """The parameters of a landscape, checked (arguments and errors: ``landscape``)."""
    unknowns = Unknowns.of(scene, list(dict.fromkeys(names)), bounds=bounds)
    if not 1 <= len(names) <= 2 or len(unknowns.labels) != len(names):
        raise UserError(f"a landscape has one or two different scalar parameters, and {len(unknowns.labels)} numbers were named")
    return unknowns
