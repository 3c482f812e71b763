"""Deformable bodies as benchmark cases, and tables that solids and cloth share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks import peaks
from benchmarks.fem_flops import step_flops
from benchmarks.other_simulators import largest_difference, newton_table, run_newton
from benchmarks.rollouts import PASS_LABELS, ROOFLINE_HEADER, Case, add_roofline_row, time_rollouts
from benchmarks.table import Table, format_number, format_ratio
from ti_sim.base.runtime import require
from ti_sim.deformable.bending import bending_edges, edge_stiffness
from ti_sim.deformable.families import TABLES
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.solids import corner_volumes, energy_constants, lame_from_young, rest_table
from ti_sim.deformable.solver import DeformableSolver
from ti_sim.deformable.triangles import membrane_constants, triangle_areas
from ti_sim.meshes.generators import box_tets
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh

SUBSTEPS = 50
COMPARED_FRAME_COUNT = 4  # frames of the comparison with Newton
GRAVITY = (0.0, 0.0, -9.81)  # m/s2

CELL = 0.05  # m, side of the cells of solids
SOLID_DT = 2e-4  # s, about a quarter of the longest stable step of linear tetrahedra
YOUNG, POISSON, DENSITY, VISCOSITY = 1e6, 0.3, 1000.0, 10.0  # Pa, 1, kg/m3, Pa s

CLOTH_SIDE = 1.0  # m
CLOTH_DT = 1e-4  # s, at most a third of the longest stable step
# N/m (Young's modulus times thickness), 1, kg/m2, N s/m, N m (of the sheet), N m s
CLOTH_STRETCHING, CLOTH_POISSON, CLOTH_DENSITY, CLOTH_VISCOSITY = 200.0, 0.3, 0.2, 5e-3
CLOTH_RIGIDITY, CLOTH_BENDING_DAMPING = 1e-5, 1e-7
CLOTH_DRAG, CLOTH_LIFT = 1.0, 0.5  # kg/m3


@dataclass(frozen=True)
class Rates:
    """Speed of a target or of another program.

    Attributes:
        forward, backward: steps/s.
    """

    forward: float
    backward: float


def solid_case(
    mesh: SolidMesh, *, frames: int, worlds: int = 1, energy: str = "neo_hookean", young: float = YOUNG,
    poisson: float = POISSON, damped: bool = True, fixed_at_both_ends: bool = False, dt: float = SOLID_DT,
    substeps: int = SUBSTEPS,
    plan: str = "auto", integrator: str = "semi_implicit",
) -> Case:  # fmt: skip
    """A cantilever box, fixed at its end of least x (or at both ends), that oscillates under gravity.

    Args:
        mesh: of one kind of solid elements.
        frames: frame intervals.
        worlds: B identical worlds.
        energy: of all elements.
        young, poisson: of linear elasticity [Pa], [1].
        damped: whether the elements are damped.
        fixed_at_both_ends: fix the end of largest x too.
        dt, substeps, plan, integrator: settings.
    """
    x = mesh.vertices[:, 0]
    is_fixed = np.isclose(x, x.min()) | (fixed_at_both_ends & np.isclose(x, x.max()))
    model = DeformableModel(
        particle_rest=mesh.vertices, fixed=np.flatnonzero(is_fixed), solid_energy=(energy,) * len(mesh.indices),
        **{TABLES[mesh.kind]: mesh.indices},
    )  # fmt: skip
    volumes = corner_volumes(mesh.kind, rest_table(mesh.kind, mesh.vertices, mesh.indices))
    material = *energy_constants(energy, *lame_from_young(young, poisson)), VISCOSITY * damped
    axial_fraction = (x - x.min()) / np.ptp(x)
    return _case(
        model, DeformableSettings(dt=dt, substeps=substeps, plan=plan, integrator=integrator), frames, worlds,
        particle_qd0=np.outer(axial_fraction * ~is_fixed, (0.3, 0.5, 0.2)),
        particle_mass=DENSITY * _lumped_sum(mesh.indices, volumes, len(x)),
        solid_material=np.tile(material, (model.solid_count, 1)),
    )  # fmt: skip


def cloth_case(mesh: SheetMesh, *, frames: int, damped: bool = True) -> Case:
    """A sheet that hangs from the corners of largest y and swings.

    Args:
        mesh: a rectangle.
        frames: frame intervals.
        damped: whether it has damping and air drag.
    """
    x, y = mesh.vertices[:, 0], mesh.vertices[:, 1]
    corners = np.flatnonzero(np.isclose(np.abs(x), x.max()) & np.isclose(y, y.max()))
    edges = bending_edges(mesh.triangles)
    model = DeformableModel(
        particle_rest=mesh.vertices, fixed=corners, tri_indices=mesh.triangles, tri_normal=np.zeros((len(mesh.triangles), 3)),
        edge_indices=edges,
    )  # fmt: skip
    stretching = membrane_constants(CLOTH_STRETCHING, CLOTH_POISSON, 1.0)
    viscous = np.array((CLOTH_VISCOSITY, CLOTH_DRAG, CLOTH_LIFT)) * damped
    stiffness = edge_stiffness(CLOTH_RIGIDITY, mesh.vertices, edges)
    bulge = np.cos(np.pi * x / np.ptp(x)) * (1.0 - (y / np.ptp(y) + 0.5) ** 2)
    return _case(
        model, DeformableSettings(dt=CLOTH_DT, substeps=SUBSTEPS), frames, 1,
        particle_qd0=np.outer(bulge, (0.2, 0.3, 1.0)),
        particle_mass=CLOTH_DENSITY / 3
        * _lumped_sum(mesh.triangles, triangle_areas(mesh.vertices, mesh.triangles)[:, None], len(x)),
        tri_material=np.tile((*stretching, *viscous), (model.triangle_count, 1)),
        edge_material=np.stack([stiffness, np.full(len(edges), CLOTH_BENDING_DAMPING * damped), np.zeros(len(edges))], axis=1),
    )  # fmt: skip


def _lumped_sum(indices: np.ndarray, element_shares: np.ndarray, particles: int) -> np.ndarray:
    """Sum [particles] of the contributions of elements, [E, corners] or [E, 1], to their corners."""
    return np.bincount(indices.ravel(), np.broadcast_to(element_shares, indices.shape).ravel(), minlength=particles)


def _case(model: DeformableModel, settings: DeformableSettings, frames: int, worlds: int, **values: Any) -> Case:
    """A case of equal worlds from one world's inputs; missing ones are zero."""
    particles, solids, triangles, edges, springs = (
        model.particle_count,
        model.solid_count,
        model.triangle_count,
        model.edge_count,
        model.spring_count,
    )
    shapes = {
        "particle_q0": (particles, 3), "particle_qd0": (particles, 3), "particle_mass": (particles,),
        "particle_contact": (particles, 4), "solid_material": (solids, 3), "solid_actuation": (frames, solids),
        "tri_material": (triangles, 5), "tri_actuation": (frames, triangles), "edge_material": (edges, 3),
        "edge_actuation": (frames, edges), "spring_material": (springs, 3), "gravity": (3,), "wind": (3,),
        "load": (frames, len(model.loaded), 3), "prescribed_qd": (frames, len(model.prescribed), 3),
        "self_contact": (4,),
    }  # fmt: skip
    values = {"particle_q0": model.particle_rest, "gravity": GRAVITY} | values
    device = require().device
    arrays = {}
    for name, shape in shapes.items():
        one_world = torch.as_tensor(np.asarray(values.get(name, np.zeros(shape))), dtype=torch.float32, device=device)
        arrays[name] = one_world.expand(worlds, *shape).contiguous()
    return Case(DeformableSolver(model, settings), DeformableInputs(**arrays), frames, worlds)


def plan_of(case: Case) -> str:
    """The execution plan of the case's rollouts."""
    return case.solver.plan(case.inputs.world_count)


def rates_of(case: Case, seconds: Mapping[str, float]) -> dict[str, float]:
    """Steps/s by kind from seconds of a rollout by kind."""
    return {kind: case.steps / total_seconds for kind, total_seconds in seconds.items()}


def add_rates(result: Table, cells: Sequence[object], rate: Mapping[str, float], others: Sequence[Rates | None]) -> None:
    """Append a row: cells, then steps/s taped, without gradient and backward, then ratios to other rates.

    Args:
        result: the table.
        cells: the first ones of the row.
        rate: steps/s by kind.
        others: rates to compare with, two cells each, forward (taped) and backward; None leaves them empty.
    """
    rate_cells = [f"{rate[kind]:,.0f}" for kind in ("taped", "no_gradient", "backward")]
    for other in others:
        rate_cells += (
            ["", ""]
            if other is None
            else [format_ratio(rate["taped"] / other.forward), format_ratio(rate["backward"] / other.backward)]
        )
    result.add(*cells, *rate_cells)


def particles_description(case: Case) -> dict[str, Any]:
    """The first world of a case in plain numbers and lists, as ``newton_side.py`` reads it: tetrahedra, triangles, bending edges.

    Newton's tetrahedra have the same energy. The energy of its triangles has no logarithm; the constants are equal for small
    strains. Its bending moment is linear in the angle and scales with the edge's length and the triangles' area; the stiffness
    compensates this. The case must have neither damping nor air, whose laws differ.
    """
    model, settings = case.solver.model, case.solver.settings
    arrays = {name: np.asarray(getattr(case.inputs, name)[0].cpu(), dtype=np.float64) for name in vars(case.inputs)}
    mass = arrays["particle_mass"].copy()
    mass[model.fixed] = 0.0  # fixes a particle in Newton
    mu, lam = arrays["tri_material"][:, 0] / 1.5, arrays["tri_material"][:, 1]
    triangles = np.stack([mu, lam + mu / 3, *np.zeros((3, len(mu)))], axis=1)
    stiffness, _damping, angle = arrays["edge_material"].T
    edges = np.stack([stiffness / _bending_scale(model), np.zeros_like(stiffness), angle], axis=1)
    return {
        "dt": settings.dt,
        "steps": case.frames * settings.substeps,
        "gravity": arrays["gravity"].tolist(),
        "rest": np.asarray(model.particle_rest).tolist(),
        "mass": mass.tolist(),
        "q0": arrays["particle_q0"].tolist(),
        "qd0": arrays["particle_qd0"].tolist(),
        "tets": model.tet_indices.tolist(),
        "tet_materials": arrays["solid_material"].tolist(),
        "triangles": model.tri_indices.tolist(),
        "tri_materials": triangles.tolist(),
        "edges": model.edge_indices.tolist(),
        "edge_materials": edges.tolist(),
    }


def _bending_scale(model: DeformableModel) -> np.ndarray:
    """Our stiffness over Newton's of edges [M] between equal triangles, for small angles: 2 L 2 A [m3]."""
    first, second, start, end = np.moveaxis(np.asarray(model.particle_rest)[model.edge_indices], 1, 0)
    areas = sum(np.linalg.norm(np.cross(end - start, apex - start), axis=1) for apex in (first, second)) / 2
    return 2 * np.linalg.norm(end - start, axis=1) * areas


def newton_comparison(
    case_header: str, builders: Mapping[str, Callable[..., Case]], frames: Mapping[str, int], remark: str, *, quick: bool
) -> Table:
    """Steps beside those of Newton's semi-implicit solver.

    Args:
        case_header: header of the column of cases.
        builders: makes a case from ``frames`` and ``damped``, by name.
        frames: of the rollouts that are timed here, by name.
        remark: differences of the physics.
        quick: fewer repeats.
    """
    cases = {name: build(frames=frames[name]) for name, build in builders.items()}
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    our_seconds = {name: {kind: s / cases[name].steps for kind, s in kinds.items()} for name, kinds in best_seconds.items()}
    undamped_cases = {name: build(frames=COMPARED_FRAME_COUNT, damped=False) for name, build in builders.items()}
    newton = run_newton({name: particles_description(case) for name, case in undamped_cases.items()}, repeats=2 if quick else 5)
    differences = []
    if not isinstance(newton, str):
        for name, case in undamped_cases.items():
            final_positions = case.solver.rollout(case.inputs, COMPARED_FRAME_COUNT).particle_q[0, -1].cpu().numpy()
            max_displacement = np.abs(final_positions - case.inputs.particle_q0[0].cpu().numpy()).max()
            differences.append(
                f"{largest_difference(newton[name], final_positions)} m where the farthest moved {max_displacement:.1g} m "
                f"({name})"
            )
    remark_text = (
        f"Target: faster, forward and backward. The same mesh, masses and semi-implicit step. {remark} What is timed has all "
        f"forces on both sides. Positions after {COMPARED_FRAME_COUNT * SUBSTEPS} steps without damping and air differ "
        f"by {', '.join(differences)}."
    )
    return newton_table(
        "Against Newton's semi-implicit solver on the CPU: one world (us a step)", case_header, our_seconds, newton, remark_text
    )


def roofline_table(cases: Mapping[str, tuple[Case, Mapping[str, float]]], *, quick: bool) -> Table:
    """Speed of the steps relative to the peaks of the machine.

    Args:
        cases: a case and its steps/s by kind, by name.
        quick: shorter measurements of the peaks.
    """
    peak = peaks.measure(quick=quick)
    threads = torch.get_num_threads() if require().device == "cpu" else 1
    result = Table("Bound: arithmetic and memory of a step", ROOFLINE_HEADER)
    for name, (case, rate) in cases.items():
        model = case.solver.model
        for kind, flops in zip(("taped", "backward"), step_flops(model), strict=True):
            plan = plan_of(case)
            add_roofline_row(
                result, f"{name}: {PASS_LABELS[kind]} ({plan})", rate[kind], flops, 24 * model.particle_count, peak,
                cores=threads if plan == "element" else 1,
            )  # fmt: skip
    last, last_rate = list(cases.values())[-1]
    table_bytes = sum(array.size for array in last.solver.model.tables.values()) * 4
    read_arrays = {
        name: array for name, array in vars(last.inputs).items() if name.endswith("_material") or name == "particle_contact"
    }
    input_bytes = sum(array.numel() for array in read_arrays.values()) * 4
    result.remarks.append(
        f"Measured in this run: {format_number(peak.flops_per_second / 1e9)} Gflop/s of scalar multiply-adds a core (the element "
        f"plan counts "
        f"{threads} cores), and {format_number(peak.copy_bytes_per_second / 1e9)} GB/s copied (read plus written). Flops are "
        f"counted from the "
        "code as written (`benchmarks/fem_flops.py`); the compiler shares some. State bytes are what a step keeps for its "
        f"adjoint; it also reads the elements' tables and materials, {format_number((table_bytes + input_bytes) * 1e-6, 2)} MB "
        f"in the "
        "last row, which the processor's caches hold. The element plan launches a kernel of two parallel loops for every step: "
        f"with next to nothing to do, {_launch_remark(last, last_rate)}."
    )
    return result


def _launch_remark(last: Case, rate: Mapping[str, float]) -> str:
    """Launch overhead: times of a step and its adjoint in the element plan on one cell, and their fractions of a case."""
    case = solid_case(box_tets((CELL,) * 3, (1, 1, 1)), frames=8, plan="element")
    seconds = {kind: total_seconds / case.steps for kind, total_seconds in time_rollouts({"": case}, repeats=5)[""].items()}
    sentences = (
        f"{format_number(1e6 * seconds[kind], 2)} us {word}"
        + (f" ({100 * seconds[kind] * rate[kind]:.0f} % of the last rows' step)" if plan_of(last) == "element" else "")
        for kind, word in (("taped", "forward"), ("backward", "backward"))
    )
    return " and ".join(sentences)
