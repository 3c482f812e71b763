"""Speed of cloth: steps a second of triangles with bending, air and damping, Newton, and what bounds the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import startup
from benchmarks.deformable import (
    CLOTH_SIDE,
    Rates,
    add_rates,
    cloth_case,
    newton_comparison,
    plan_of,
    rates_of,
    roofline_table,
)
from benchmarks.rollouts import Case, time_rollouts
from benchmarks.table import Table
from ti_sim.meshes.generators import sheet_grid

TITLE = "Cloth"

# Cells along a side, by number of triangles, two a cell; frames of a rollout, some tenths of a second forward.
CELLS = {512: 16, 2048: 32, 8192: 64}
FRAMES = {512: 80, 2048: 20, 8192: 6}
TARGET_RATES = Rates(8000, 4000)  # of 2,048 triangles
# Public gradSim, 2,048 triangles: two cores of the same kind, measured earlier, not in this run.
GRADSIM_RATES = Rates(1880, 433)

_NEWTON_REMARK = (
    "Physics differ: Newton's membrane has no logarithm in its energy (constants are chosen for equal small strains), its "
    "bending moment is linear in the angle and scaled by lengths (undone, for equal small angles), its damping damps rotation "
    "too, and its lift is another law."
)


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of cloth, as they are measured.

    Args:
        quick: fewer steps and repeats.
    """
    sizes, cases = sizes_table(quick=quick)
    yield sizes
    compared_cases = {f"{count:,} triangles": count for count in (512, 8192)}
    yield newton_comparison(
        "cloth", {name: sheet_case(count) for name, count in compared_cases.items()},
        {name: _frames(count, quick) for name, count in compared_cases.items()}, _NEWTON_REMARK, quick=quick,
    )  # fmt: skip
    yield roofline_table(cases, quick=quick)
    yield startup.compilation_table([("cloth", "particle_q")], quick=quick)


def sheet_case(count: int) -> Callable[..., Case]:
    """``cloth_case`` with the mesh of a square sheet of ``count`` triangles."""
    return partial(cloth_case, sheet_grid((CLOTH_SIDE, CLOTH_SIDE), (CELLS[count], CELLS[count])))


def _frames(count: int, quick: bool) -> int:
    return max(1, FRAMES[count] // (8 if quick else 1))


def sizes_table(*, quick: bool) -> tuple[Table, dict[str, tuple[Case, dict[str, float]]]]:
    """One sheet in one world; also the cases and their rates [steps/s], for the bound."""
    cases = {count: sheet_case(count)(frames=_frames(count, quick)) for count in CELLS}
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    result = Table(
        "A square sheet in one world, with bending, air and damping (steps/s)",
        ("triangles", "bending edges", "particles", "plan", "steps", "forward, taped", "forward, no gradient", "backward",
         "forward / target", "backward / target", "forward / gradSim", "backward / gradSim"),
    )  # fmt: skip
    measured = {}
    for count, case in cases.items():
        model, rate = case.solver.model, rates_of(case, best_seconds[count])
        measured[f"{count:,} triangles"] = case, rate
        cells = f"{count:,}", f"{model.edge_count:,}", f"{model.particle_count:,}", plan_of(case), f"{case.steps:,}"
        add_rates(result, cells, rate, (TARGET_RATES, GRADSIM_RATES) if count == 2048 else (None, None))
    result.remarks.append(
        f"Targets at 2,048 triangles, of the taped forward pass and the backward one: {TARGET_RATES.forward:,.0f} and "
        f"{TARGET_RATES.backward:,.0f}. Gradients to positions, velocities, masses, every triangle's constants, damping, drag "
        f"and "
        "lift, every edge's stiffness, damping and rest angle, actuations and the wind. gradSim: its public code on two cores of "
        "the same kind, measured EARLIER, not in this run; it has no gradient to stiffness, damping, drag and lift."
    )
    return result, measured
