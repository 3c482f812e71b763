"""Films of the inversions of a table: target, start, and each method's estimate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import Scene, read_video
from risp_torch.programs import RunFolder
from studies.risp.pages.figures import strip_label, write_columns, write_rows, write_small_png
from studies.risp.tables.claims import done
from studies.risp.tables.plan import IMAGE_METHODS, TABLES, TablePlan
from studies.risp.tables.results import Cells
from studies.risp.tables.units import target_name, trial_name
from studies.risp.trials.errors import single_world

_SHOWN = (*IMAGE_METHODS, "state")
_REPEAT = 0  # the displayed repeat
_FRAMES = "frames"


def write_films(plan: TablePlan, table: str, scene_name: str, cells: Cells, folder: Path, *, number: Any) -> list[str]:
    """Write the strip and the video of a scene: the first repeat's target, its start, and the estimate of each method.

    Args:
        plan: the plan.
        table: its number, "2" to "4".
        scene_name: of the scene.
        cells: of the table.
        folder: for the files.
        number: formats an error.

    Returns:
        Names of the files; none if the target does not exist.
    """
    from studies.risp.trials.trial import load_trial, true_scene

    kind = TABLES[table]
    target, records = _target(plan, scene_name, kind), _records(plan, scene_name, kind)
    if target is None or not records:
        return []
    scene, _ = true_scene(scene_name, load_trial(scene_name, kind), plan.preset.size)
    first = next(iter(records.values()))
    for name, value in first["initial"].items():
        scene.set(name, value)
    start = _film(scene, first["guess"])
    films = {method: _film(scene, record["values"]) for method, record in records.items()}
    errors = {method: number(cells[scene_name, method].errors[0]) for method in films}
    unit = cells[scene_name, next(iter(films))].unit
    labels = {method: strip_label(method, f"{error} {unit}".strip()) for method, error in errors.items()}
    stem = f"{scene_name}_{kind}"
    rows = {"target": target, "start": start} | {labels[method]: film for method, film in films.items()}
    write_rows(folder / f"{stem}.png", rows, frame_dt=scene.frame_dt, last=("target",) if kind == "reach" else ())
    write_small_png(folder / f"{stem}.png")
    write_columns(
        folder / f"{stem}.mp4", {"target": target, "start": start} | dict(films.items()), frame_dt=scene.frame_dt
    )
    return [f"{stem}.png", f"{stem}.mp4"]


def _records(plan: TablePlan, scene: str, kind: str) -> dict[str, dict[str, Any]]:
    """Method -> result of the displayed repeat."""
    folders = {method: plan.out / trial_name(scene, kind, method, _REPEAT) for method in _SHOWN if method in plan.methods}
    return {method: RunFolder(folder, {}).read_result() for method, folder in folders.items() if done(folder) is not None}


def _target(plan: TablePlan, scene: str, kind: str) -> np.ndarray | None:
    """[T, H, W, 3] linear colour, [1, H, W, 3] of a goal."""
    folder = plan.out / target_name(scene, kind, _REPEAT)
    return None if done(folder) is None else read_video(folder / _FRAMES)


def _film(scene: Scene, values: Mapping[str, Any]) -> np.ndarray:
    """[T, H, W, 3] of the scene in its own appearance with these values of the unknowns."""
    rows = single_world(values)
    with torch.no_grad():
        motion = scene.rollout(rows, worlds=1)
        return scene.render(motion.placement)[0].cpu().numpy()
