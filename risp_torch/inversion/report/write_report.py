"""Files of an inversion: result.json, plots of the search, and the estimate's film beside the target's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from risp_torch.files.run_folder import RunFolder, inversion_result
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.films.rendered_film import film_at, motion_at, shown_at
from risp_torch.inversion.report.element_images import write_elements
from risp_torch.inversion.report.result import Inversion
from risp_torch.scene.scene import Scene

MAX_ROWS = 40  # error bars that are drawn in parts
MAX_PANELS = 12  # entries of one parameter that are plotted separately


def write_report(scene: Scene, film: torch.Tensor | None, result: Inversion, folder: RunFolder, *, seed: int, loss: Loss) -> None:
    """Write result.json, plots of the search and of the error bars' parts, bodies coloured by element, a strip and a video.

    Args:
        scene: the scene.
        film: of the target [T, H, W, 3], which the strip and the video compare with the estimate's; None if there is no film:
            they then compare what the loss shows of both (``Loss.pictures``), if anything.
        result: result of the inversion.
        folder: folder of the run.
        seed: seed of the starts.
        loss: loss whose appearance the estimate is rendered in.
    """
    from risp_torch.files import report

    _plot_search(result, folder)
    if result.uncertainty.components:
        rows = slice(MAX_ROWS)
        bar_parts = {name: sizes[rows] for name, sizes in result.uncertainty.components.items()}
        report.plot_error_bars(folder.path / "error_bars.png", result.unknowns.labels[rows], bar_parts)
    estimate = result.final[result.best]
    write_elements(folder.path / "elements.png", scene, result.unknowns, {"estimate": estimate})
    target, render_at = (loss.pictures(scene), shown_at) if film is None else (film, film_at)
    if target is not None:
        target_pictures, estimate_pictures = target.cpu().numpy(), render_at(scene, result.unknowns, estimate, loss).cpu().numpy()
        report.write_strip(folder.path / "strip.png", target_pictures, estimate_pictures, fps=scene.fps)
        report.comparison_video(folder.path / "comparison.mp4", target_pictures, estimate_pictures, scene.fps)
        states, values = motion_at(scene, result.unknowns, estimate)
        loss.write_pictures(folder.path, scene, states, values)
    folder.write_result(
        inversion_result(
            scene=scene.name, seed=seed, settings=folder.settings, unknowns=_unknowns_to_json(result),
            starts=_starts_to_json(result), best=result.best, seconds=result.seconds,
        )
        | {"converged": result.converged, "fits": result.fits, "misfit": result.misfit, "doubts": result.doubts}
        | {"residual": result.residual and result.residual.to_json(), "misspecifications": result.misspecifications}
        | {"block_variance_ratio": result.block_variance_ratio, "assumptions": result.assumptions}
        | {"unobservable": result.uncertainty.unobservable, "remarks": result.remarks}
        | {"observable_modes": result.uncertainty.observable_modes}
    )  # fmt: skip


def _plot_search(result: Inversion, folder: RunFolder) -> None:
    """Losses during the search, small parameters during it, and large parameters at its start and end."""
    from risp_torch.files import report

    unknowns, history, best = result.unknowns, result.history, result.best
    values = torch.stack(history.values).cpu().numpy()
    low, high = unknowns.bounds()
    labels = unknowns.labels
    report.plot_losses(
        folder.path / "loss.png", torch.stack(history.losses).cpu().numpy(),
        [f"start {i + 1}" + ("" if i == best else f": {s}") for i, s in enumerate(result.status)], best=best,
    )  # fmt: skip
    sizes = {name: group.stop - group.start for name, group in unknowns.groups.items()}
    plotted_indices = [
        k for name, group in unknowns.groups.items() if sizes[name] <= MAX_PANELS for k in range(group.start, group.stop)
    ]
    if plotted_indices:
        report.plot_parameters(
            folder.path / "parameters.png", {labels[k]: values[:, :, k] for k in plotted_indices},
            {labels[k]: (low[k], high[k]) for k in plotted_indices}, dict(zip(labels, unknowns.units, strict=True)),
            None, dict(zip(labels, unknowns.scales, strict=True)), best=best,
        )  # fmt: skip
    large_parameters = {
        name: tuple(rows[best, group].reshape(np.shape(unknowns.params[name].value)) for rows in (result.initial, result.final))
        for name, group in unknowns.groups.items()
        if sizes[name] > MAX_PANELS
    }
    if large_parameters:
        report.plot_entries(
            folder.path / "entries.png", large_parameters, {name: unknowns.params[name].unit for name in large_parameters}
        )


def _unknowns_to_json(result: Inversion) -> dict[str, dict[str, Any]]:
    """Label -> estimate, error bar, unit, bounds, scale, and mean and standard deviation of a prior in that scale."""
    unknowns = result.unknowns
    low, high = unknowns.bounds()
    prior_rows = zip(unknowns.priors.indices, unknowns.priors.mean, unknowns.priors.sd, strict=True)
    priors = {int(k): {"prior": {"mean": mean, "sd": sd}} for k, mean, sd in prior_rows}
    return {
        label: {
            "value": result.values[label], "unit": unknowns.units[k], "low": low[k], "high": high[k],
            "sd": result.sd[label], "observable": result.uncertainty.observable[k], "scale": unknowns.scales[k],
            "parts": {name: float(sizes[k]) for name, sizes in result.uncertainty.components.items() if sizes[k] > 0},
        }
        | priors.get(k, {})
        for k, label in enumerate(unknowns.labels)
    }  # fmt: skip


def _starts_to_json(result: Inversion) -> list[dict[str, Any]]:
    """Where each start began and ended, its loss and status."""
    labels = result.unknowns.labels
    return [
        {
            "initial": dict(zip(labels, result.initial[s], strict=True)),
            "final": dict(zip(labels, result.final[s], strict=True)),
            "loss": result.losses[s], "status": result.status[s],
        }
        for s in range(len(result.losses))
    ]  # fmt: skip
