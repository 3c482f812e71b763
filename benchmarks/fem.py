"""Speed of solids: steps a second of tetrahedra, hexahedra and ten-node tetrahedra, memory, Newton, and what bounds the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import startup
from benchmarks.deformable import (
    CELL,
    Rates,
    add_rates,
    newton_comparison,
    plan_of,
    rates_of,
    roofline_table,
    solid_case,
)  # fmt: skip
from benchmarks.memory import numbers_of_child_process, peak_bytes, reset_peak, resident_bytes
from benchmarks.rollouts import Case, scaling_table, time_rollouts, unit_frame_adjoints
from benchmarks.table import Table, format_number, format_ratio
from ti_sim.base.runtime import require, start
from ti_sim.deformable.stable_step import stable_step
from ti_sim.meshes.generators import box_hexes, box_tet10s, box_tets
from ti_sim.meshes.solid import SolidMesh
from ti_sim.rollout.adjoint import Checkpoint

TITLE = "Deformable solids"

# Cells of boxes along x, y, z, by number of tetrahedra, five a cell; frames of a rollout, some tenths of a second forward.
CELLS = {100: (5, 2, 2), 320: (4, 4, 4), 1000: (8, 5, 5), 8640: (12, 12, 12), 10_000: (20, 10, 10)}
FRAMES = {100: 400, 320: 160, 1000: 60, 8640: 8, 10_000: 8}
TARGET_RATES = {100: Rates(100e3, 50e3), 1000: Rates(15e3, 8e3), 10_000: Rates(2500, 1500)}
# Public gradSim: two cores of the same kind, measured earlier, not in this run.
GRADSIM_RATES = {100: Rates(13_600, 8200), 1000: Rates(4000, 1500), 10_000: Rates(480, 160)}

# Kinds of elements with the same nodes at the corners of their cells: maker of the mesh, energy.
ELEMENTS = (
    ("tetrahedron", box_tets, "neo_hookean"), ("tetrahedron", box_tets, "corotated"), ("tetrahedron", box_tets, "stvk"),
    ("hexahedron", box_hexes, "neo_hookean"), ("hexahedron", box_hexes, "corotated"),
    ("ten-node tetrahedron", box_tet10s, "neo_hookean"),
)  # fmt: skip
ELEMENTS_DT = 1e-4  # s, stable for ten-node tetrahedra in the same cells

ROD_FRAME_DT, ROD_SUBSTEPS, ROD_TARGET = 0.01, 7, 500.0  # s of a video frame, steps in it, frames/s
BATCH_SPEEDUP_TARGET = 1.8  # 64 worlds over one, on two cores: as for the other solvers
MEMORY_STEPS, MEMORY_SUBSTEPS, MEMORY_TARGET = 20_000, 100, 100e6  # bytes

_NEWTON_REMARK = (
    "Both have the stable neo-Hookean energy of Smith et al. with the same constants. Damping differs: there a stress in "
    "proportion to dF/dt, which damps rotation too, and one to dJ/dt; here a viscous stress, which does not damp rotation."
)


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of solids, as they are measured.

    Args:
        quick: fewer steps, sizes and repeats.
    """
    sizes, cases = sizes_table(quick=quick)
    yield sizes
    yield elements_table(quick=quick)
    yield rod_table(quick=quick)
    yield batch_table(quick=quick)
    compared_cases = {f"{count:,} tetrahedra": count for count in (320, 8640)}
    yield newton_comparison(
        "mesh", {name: tetrahedra_case(count) for name, count in compared_cases.items()},
        {name: _frames(count, quick) for name, count in compared_cases.items()}, _NEWTON_REMARK, quick=quick,
    )  # fmt: skip
    yield memory_table()
    yield roofline_table(cases, quick=quick)
    yield startup.compilation_table([("ball_soft", "particle_q")], quick=quick)


def box_mesh(maker: Callable[..., SolidMesh], cells: tuple[int, int, int]) -> SolidMesh:
    """A box of ``cells`` cells along x, y and z, of side ``CELL``."""
    return maker([CELL * count for count in cells], cells)


def tetrahedra_case(count: int) -> Callable[..., Case]:
    """``solid_case`` with the mesh of a box of ``count`` tetrahedra."""
    return partial(solid_case, box_mesh(box_tets, CELLS[count]))


def _frames(count: int, quick: bool) -> int:
    return max(1, FRAMES[count] // (8 if quick else 1))


def sizes_table(*, quick: bool) -> tuple[Table, dict[str, tuple[Case, dict[str, float]]]]:
    """One world with a box of tetrahedra; also the cases and their rates [steps/s], for the bound."""
    cases = {count: tetrahedra_case(count)(frames=_frames(count, quick)) for count in TARGET_RATES}
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    result = Table(
        "Boxes of tetrahedra in one world (steps/s)",
        ("tetrahedra", "particles", "plan", "steps", "forward, taped", "forward, no gradient", "backward",
         "forward / target", "backward / target", "forward / gradSim", "backward / gradSim"),
    )  # fmt: skip
    measured = {}
    for count, case in cases.items():
        rate = rates_of(case, best_seconds[count])
        measured[f"{count:,} tetrahedra"] = case, rate
        cells = f"{count:,}", f"{case.solver.model.particle_count:,}", plan_of(case), f"{case.steps:,}"
        add_rates(result, cells, rate, (TARGET_RATES[count], GRADSIM_RATES[count]))
    result.remarks.append(
        "Targets, of the taped forward pass and the backward one: "
        + "; ".join(f"{rate.forward:,.0f} and {rate.backward:,.0f}" for rate in TARGET_RATES.values())
        + ". Neo-Hookean, damped, with gradients to positions, velocities, masses and every element's constants, damping and "
        "actuation. gradSim: its public code on two cores of the same kind, measured EARLIER, not in this run."
    )
    return result, measured


def elements_table(*, quick: bool) -> Table:
    """Kinds of elements and energies in a box of the same cells."""
    cells, frames = CELLS[1000], 4 if quick else 16
    cases = {
        (name, energy): solid_case(box_mesh(maker, cells), energy=energy, frames=frames, dt=ELEMENTS_DT)
        for name, maker, energy in ELEMENTS
    }
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    result = Table(
        f"Kinds of elements: a box of {' x '.join(map(str, cells))} cells in one world (us a step; ns an element and step)",
        ("element", "energy", "elements", "particles", "plan", "forward, taped", "backward", "forward, an element",
         "backward, an element"),
    )  # fmt: skip
    for (name, energy), case in cases.items():
        model = case.solver.model
        seconds = [best_seconds[name, energy][kind] / case.steps for kind in ("taped", "backward")]
        time_cells = [format_number(s * 1e6) for s in seconds] + [format_number(s / model.solid_count * 1e9) for s in seconds]
        result.add(name, energy, f"{model.solid_count:,}", f"{model.particle_count:,}", plan_of(case), *time_cells)
    return result


def rod_table(*, quick: bool) -> Table:
    """RISP's rod: video frames a second."""
    mesh = box_hexes((1.0, 0.2, 0.2), (20, 4, 4))
    rod_case = partial(solid_case, mesh, energy="corotated", young=1e5, poisson=0.4, damped=False, fixed_at_both_ends=True)
    case = rod_case(frames=20 if quick else 100, dt=ROD_FRAME_DT / ROD_SUBSTEPS, substeps=ROD_SUBSTEPS)
    seconds = time_rollouts({"rod": case}, repeats=3 if quick else 9)["rod"]
    result = Table(
        f"RISP's rod: 20 x 4 x 4 corotated hexahedra, E = 1e5 Pa, {ROD_SUBSTEPS} steps in a frame of {ROD_FRAME_DT:g} s "
        "(frames/s)",
        ("plan", "forward, taped", "forward, no gradient", "backward", "forward / target"),
    )
    rate = {kind: case.frames / total_seconds for kind, total_seconds in seconds.items()}
    cells = [f"{rate[kind]:,.0f}" for kind in ("taped", "no_gradient", "backward")]
    result.add(plan_of(case), *cells, format_ratio(rate["taped"] / ROD_TARGET))
    longest_step = stable_step(case.solver.model, case.inputs)
    result.remarks.append(
        f"Target: {ROD_TARGET:g} forward. The longest stable step is {1e3 * longest_step:.1f} ms, so that "
        f"{ROD_FRAME_DT / longest_step:.1f} steps in a frame are the fewest possible; large strains need more."
    )
    return result


def batch_table(*, quick: bool) -> Table:
    """Several worlds with a box of 100 tetrahedra each."""
    sizes = ((1, 50), (64, 2)) if quick else ((1, 400), (2, 400), (16, 48), (64, 12))
    cases = {f"{worlds}": tetrahedra_case(100)(frames=frames, worlds=worlds) for worlds, frames in sizes}
    result, _ = scaling_table("Worlds with 100 tetrahedra each (M steps/s in total)", "worlds", cases, repeats=3 if quick else 9)
    result.remarks.append(f"Aim: {BATCH_SPEEDUP_TARGET:g} times one world's rate at 64 worlds on two cores.")
    return result


def memory_table() -> Table:
    """Memory of a long rollout of 1,000 tetrahedra and its adjoint with checkpoints."""
    every = round(math.sqrt(MEMORY_STEPS))
    result = Table(
        f"Memory: {MEMORY_STEPS:,} steps of 1,000 tetrahedra and their adjoint (MB)",
        ("adjoint", "idle process", "kernels loaded", "peak", "above the idle process", "target"),
    )
    numbers = numbers_of_child_process("benchmarks.fem", "print_growth", 1000, MEMORY_STEPS, every, require().device)
    if numbers is None:
        result.remarks.append("Not measured: this system does not report peak memory.")
        return result
    idle_megabytes, loaded_megabytes, peak_megabytes = (1e-6 * memory_bytes for memory_bytes in numbers)
    result.add(
        f"Checkpoint(every={every})",
        *(format_number(value) for value in (idle_megabytes, loaded_megabytes, peak_megabytes, peak_megabytes - idle_megabytes)),
        f"{MEMORY_TARGET * 1e-6:g}",
    )  # fmt: skip
    result.remarks.append(
        "Resident memory of a separate process. Idle: everything is imported and the runtime has started. Kernels loaded: "
        "after a rollout of two frames and its adjoint. The inputs, the frames and all adjoints count."
    )
    return result


def print_growth(count: int, steps: int, every: int, device: str) -> None:
    """Entry point of the child process: print the bytes of the idle process, with kernels loaded, and the peak."""
    start(device=device, precision="f32")
    numbers = [resident_bytes()]
    reset_peak()
    for frames in (2, steps // MEMORY_SUBSTEPS):
        case = tetrahedra_case(count)(frames=frames, substeps=MEMORY_SUBSTEPS)
        rollout = case.solver.rollout(case.inputs, frames, adjoint=Checkpoint(every))
        case.solver.rollout_adjoint(rollout, *unit_frame_adjoints(rollout))
        numbers.append(resident_bytes())
    print(*numbers[:2], peak_bytes())
