"""Cost of self-contact: steps a second of a cloth that folds onto itself, with and without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from benchmarks.deformable import CLOTH_SIDE, cloth_case, plan_of, rates_of
from benchmarks.rollouts import PASS_LABELS, Case, time_rollouts
from benchmarks.table import Table, format_number
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.meshes.generators import sheet_grid
from ti_sim.meshes.sheet import SheetMesh

TITLE = "Self-contact"

CELLS = {512: 16, 2048: 32, 8192: 64}  # along a side, by number of triangles
FRAMES = {512: 40, 2048: 16, 8192: 12}
SHEET_THICKNESS, BEND_RADIUS = 0.6, 0.6  # of the sheet, and of the bend at the start, in sides of a cell
CONTACT_CONSTANTS = (100.0, 0.05, 0.02, 0.3)  # stiffness [N/m], damping and friction slope [N s/m], friction
CLOSING_SPEED = 1.0  # m/s, of the upper half towards the lower one
RATIO_TARGET = 2.0  # time with self-contact over the time without
# Newton's cloth with and without its default self-contact, measured earlier, not in this run.
NEWTON_RATIO = 23.0


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of self-contact, as they are measured.

    Args:
        quick: fewer steps and repeats.
    """
    yield cost_table(quick=quick)


def cost_table(*, quick: bool) -> Table:
    """Rates with and without self-contact."""
    cases = {}
    for count, cells in CELLS.items():
        mesh = sheet_grid((CLOTH_SIDE, CLOTH_SIDE), (cells, cells))
        for contact in (False, True):
            cases[count, contact] = folding_case(mesh, frames=max(FRAMES[count] // (4 if quick else 1), 1), contact=contact)
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    result = Table(
        "A square sheet that is folded in two and closes, with and without self-contact (steps/s)",
        ("triangles", "plan", "steps",
         *(f"{label}, {column}" for label in PASS_LABELS.values() for column in ("without", "with", "ratio"))),
    )  # fmt: skip
    for count in CELLS:
        case = cases[count, True]
        without_contact, with_contact = (
            rates_of(cases[count, contact], best_seconds[count, contact]) for contact in (False, True)
        )
        cells = [plan_of(case), f"{case.steps:,}"]
        for kind in PASS_LABELS:
            cells += [
                f"{without_contact[kind]:,.0f}",
                f"{with_contact[kind]:,.0f}",
                format_number(without_contact[kind] / with_contact[kind], 2),
            ]
        result.add(f"{count:,}", *cells)
    result.remarks.append(
        f"A ratio is the time with self-contact over that without it; the target is {RATIO_TARGET:g} at most at 8,192 triangles. "
        "Gradients with it include those to its stiffness, damping and friction. Newton's cloth takes "
        f"{NEWTON_RATIO:g} times as long with its self-contact as without, measured EARLIER, not in this run."
    )
    return result


def folding_case(mesh: SheetMesh, *, frames: int, contact: bool) -> Case:
    """A square sheet, free and without gravity, whose upper half comes down on the lower one.

    Args:
        mesh: a square sheet.
        frames: frame intervals.
        contact: whether self-contact is enabled.
    """
    case = cloth_case(mesh, frames=frames)
    cell_size = CLOTH_SIDE / np.sqrt(len(mesh.triangles) / 2)
    model = replace(
        case.solver.model, fixed=np.zeros(0, dtype=np.int32), self_thickness=SHEET_THICKNESS * cell_size,
        contact_triangles=mesh.triangles if contact else np.zeros((0, 3), dtype=np.int32),
    )  # fmt: skip
    start, upper = fold_sheet(mesh.vertices, BEND_RADIUS * cell_size)
    inputs = case.inputs
    values = {
        "particle_q0": start, "particle_qd0": np.outer(upper, (0.0, 0.0, -CLOSING_SPEED)), "gravity": np.zeros(3),
        "self_contact": np.array(CONTACT_CONSTANTS),
    }  # fmt: skip
    start_arrays = {name: torch.as_tensor(array).to(inputs.gravity)[None].contiguous() for name, array in values.items()}
    return replace(case, solver=DeformableSolver(model, case.solver.settings), inputs=replace(inputs, **start_arrays))


def fold_sheet(flat: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions [V, 3] of a sheet that is bent about the line x = 0, and the weight of each in the upper half [V], 0 to 1.

    Args:
        flat: [V, 3] m, in the plane z = 0.
        radius: of the bend [m].
    """
    angle = np.clip(flat[:, 0] / radius + 0.5 * np.pi, 0.0, np.pi)
    distance_beyond_bend = np.maximum(np.abs(flat[:, 0]) - 0.5 * np.pi * radius, 0.0)
    x = radius * np.sin(angle) - distance_beyond_bend
    return np.stack([x, flat[:, 1], radius * (1 - np.cos(angle))], axis=1), 0.5 * (1 - np.cos(angle))
