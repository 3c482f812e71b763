"""Implicit steps of deformable bodies: times of a step and targets, and the rod in comparison with explicit steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from benchmarks.deformable import solid_case
from benchmarks.fem import CELLS
from benchmarks.rollouts import Case, unit_frame_adjoints
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from risp_torch import Scene, load_scene
from ti_sim.meshes.generators import box_tets
from ti_sim.rollout.adjoint import StoreAll

TITLE = "Implicit steps"

INTEGRATORS = ("backward_euler", "bdf2", "sdirk2")
FRAMES, DT = 8, 0.01  # of blocks, s
TARGETS = {1000: 10.0, 10_000: 250.0}  # ms, a step forward
STRIP, STRIP_CELLS = (0.3, 0.1, 0.002), (60, 20, 1)  # m
MODULI = (1e5, 1e6, 1e7, 1e8, 1e9)  # Pa
STABLE_STEPS_PER_ROOT_PASCAL = 80 / math.sqrt(1e7)  # explicit steps of the rod in a frame, over the root of its modulus in Pa
IMPLICIT_STEPS = (("bdf2", 1), ("sdirk2", 1), ("sdirk2", 2))  # steps of the rod in a frame


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: fewer sizes and repeats.
    """
    yield _blocks(quick=quick)
    yield _rods(quick=quick)


def _blocks(*, quick: bool) -> Table:
    """Times of one step of blocks and of a thin strip."""
    table = Table(
        f"A step of {DT:g} s of a block that sways, E = 1e6 Pa, and of a strip 2 mm thick, E = 1e9 Pa [ms]",
        ("body", "integrator", "forward", "target", "backward", "backward / forward", "Newton iterations a step"),
    )
    for count in (1000,) if quick else (1000, 10_000):
        for integrator in INTEGRATORS:
            mesh = box_tets(tuple(0.05 * cells for cells in CELLS[count]), CELLS[count])
            case = solid_case(mesh, frames=FRAMES, young=1e6, dt=DT, substeps=1, integrator=integrator)
            _add(
                table,
                f"{len(mesh.indices):,} tetrahedra",
                integrator,
                case,
                format_number(TARGETS[count]),
                repeats=2 if quick else 5,
            )
    if not quick:
        mesh = box_tets(STRIP, STRIP_CELLS)
        for integrator in INTEGRATORS[1:]:
            case = solid_case(mesh, frames=FRAMES, young=1e9, dt=DT, substeps=1, integrator=integrator)
            _add(table, f"strip, {len(mesh.indices):,} tetrahedra", integrator, case, "-", repeats=2)
    table.remarks.append(
        "Backward goes from every number at every frame to every input: a Jacobian, a factor or a kept one, and one solve with "
        "the transposed matrix a stage. SDIRK2 has two stages a step, as has the first step of BDF2."
    )
    return table


def _add(table: Table, body: str, integrator: str, case: Case, target: str, *, repeats: int) -> None:
    rollout = case.solver.rollout(case.inputs, case.frames, adjoint=StoreAll())
    bars = unit_frame_adjoints(rollout)
    best_seconds = best_times(
        {
            "forward": lambda: case.solver.rollout(case.inputs, case.frames),
            "backward": lambda: case.solver.rollout_adjoint(rollout, *bars),
        },
        repeats=repeats,
    )
    forward, backward = (1e3 * best_seconds[name] / case.steps for name in ("forward", "backward"))
    iterations = rollout.motion.iterations / case.steps
    table.add(
        body,
        integrator,
        format_number(forward),
        target,
        format_number(backward),
        format_number(backward / forward, 2),
        format_number(iterations, 2),
    )


def _rods(*, quick: bool) -> Table:
    """Frames a second of the rod, by its modulus."""
    table = Table(
        "RISP's rod, 320 hexahedra: frames of 0.02 s a second, and the largest distance from its explicit motion",
        ("E [Pa]", "steps", "steps a frame", "forward", "over explicit", "forward and backward", "over explicit ",
         "distance [mm]", "largest motion [mm]"),
    )  # fmt: skip
    for young in MODULI[::2] if quick else MODULI:
        cases = {"explicit": {"substeps": max(10, math.ceil(STABLE_STEPS_PER_ROOT_PASCAL * math.sqrt(young)))}}
        cases |= {f"{name} {steps}": {"substeps": steps, "integrator": name} for name, steps in IMPLICIT_STEPS}
        scenes = {name: load_scene("rod", E=young, **options) for name, options in cases.items()}
        explicit_positions = scenes["explicit"].rollout(worlds=1).particle_q[0].double()
        motion = float((explicit_positions - explicit_positions[:1]).norm(dim=-1).max())
        best_seconds = best_times(
            {
                (name, both): lambda scene=scene, both=both: _run(scene, both=both)
                for name, scene in scenes.items()
                for both in (False, True)
            },
            repeats=1 if quick else 2,
        )
        for name, scene in scenes.items():
            max_distance = float((scene.rollout(worlds=1).particle_q[0].double() - explicit_positions).norm(dim=-1).max())
            rates = [scene.frames / best_seconds[name, both] for both in (False, True)]
            ratios = [
                "-" if name == "explicit" else format_ratio(best_seconds["explicit", both] / best_seconds[name, both])
                for both in (False, True)
            ]
            table.add(
                f"{young:.0e}", name.split(" ")[0], cases[name]["substeps"], format_number(rates[0]), ratios[0],
                format_number(rates[1]),
                ratios[1], format_number(1e3 * max_distance), format_number(1e3 * motion),
            )  # fmt: skip
    table.remarks.append(
        "Explicit: the adaptive scene, whose steps are at most the given number and as few as are stable with a margin. Backward "
        "is from the positions at all frames to the modulus. Implicit steps damp the swings that they do not resolve, which are "
        "most of what a stiff rod does here."
    )
    return table


def _run(scene: Scene, *, both: bool) -> None:
    if not both:
        scene.rollout(worlds=1)
        return
    young = torch.tensor([float(scene.parameters["rod.E"].value)], requires_grad=True)
    scene.rollout({"rod.E": young}).particle_q.sum().backward()
