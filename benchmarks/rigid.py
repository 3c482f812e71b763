"""Speed of the rigid solver: steps a second forward and backward, scaling, plans, checkpoints, and bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks import peaks, startup
from benchmarks.flops import adjoint_flops, step_flops
from benchmarks.rollouts import (
    ROOFLINE_HEADER,
    TO_MILLIONS,
    Case,
    add_roofline_row,
    scaling_table,
    time_rollouts,
    unit_frame_adjoints,
)
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import best_times
from risp_torch.scene import bridge
from ti_sim.base.runtime import require
from ti_sim.rigid.arrays import STATE
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.solver import RigidSolver
from ti_sim.rollout.adjoint import Checkpoint, StoreAll

TITLE = "Rigid bodies"

DT = 2e-4  # s
SUBSTEPS = 25
HALF_HEIGHT = 0.1  # m, half height of every body

FORWARD_TARGET, BACKWARD_TARGET = 5e6, 2e6  # steps/s
WORLDS_SPEEDUP_TARGET = 1.8  # 1,024 worlds over one, on two cores
# Public gradSim: one body with 8 contact points on two cores of the same kind, measured earlier, not in this run. steps/s.
GRADSIM_FORWARD, GRADSIM_BACKWARD = 24_900.0, 18_300.0


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of the rigid solver, as they are measured.

    Args:
        quick: fewer steps, sizes and repeats.
    """
    one_body, rates = one_body_table(quick=quick)
    yield one_body
    yield bodies_table(quick=quick)
    worlds, worlds_rates = worlds_table(quick=quick)
    yield worlds
    yield roofline_table(rates, worlds_rates, quick=quick)
    yield plans_table(quick=quick)
    yield checkpoint_table(quick=quick)
    yield startup.table(quick=quick)


def box_points() -> np.ndarray:
    """The 8 corners of a cube: lying on a side, 4 of them touch the ground."""
    return HALF_HEIGHT * np.array([(x, y, z) for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], dtype=np.float64)


def plate_points(count: int) -> np.ndarray:
    """Points distributed over the base of a lying disc: all of them touch the ground."""
    angle, radius = _sunflower(count)
    return HALF_HEIGHT * np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(count, -1.0)], axis=1)


def sphere_points(count: int) -> np.ndarray:
    """Points distributed over a sphere like the vertices of a fine mesh: about one in a hundred touches the ground."""
    angle, radius = _sunflower(count)
    z = 1.0 - 2.0 * radius**2
    rho = np.sqrt(1.0 - z * z)
    return HALF_HEIGHT * np.stack([rho * np.cos(angle), rho * np.sin(angle), z], axis=1)


def _sunflower(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles and radii of a sunflower (Fibonacci) arrangement, uniform on the unit disc."""
    k = np.arange(count) + 0.5
    return k * np.pi * (3.0 - np.sqrt(5.0)), np.sqrt(k / count)


def make_case(
    points: np.ndarray, *, frames: int, touching_points: float, worlds: int = 1, bodies: int = 1, plan: str = "auto"
) -> Case:
    """Bodies of 1 kg that lie on the ground, slide a little and roll a little.

    Args:
        points: [P, 3] contact points of every body [m].
        frames: frame intervals.
        touching_points: number of points that carry the body; stiffness and damping are divided among them.
        worlds, bodies: B and N.
        plan: of execution.
    """
    model = RigidModel(tuple(f"body{i}" for i in range(bodies)), (points,) * bodies)
    solver = RigidSolver(model, RigidSettings(dt=DT, substeps=SUBSTEPS, plan=plan))
    tensor_options = {"dtype": torch.float32, "device": require().device}
    shape = (worlds, bodies)
    body_q0 = torch.tensor([0.0, 0.0, HALF_HEIGHT - 1e-3, 0.0, 0.0, 0.0, 1.0], **tensor_options).repeat(*shape, 1)
    body_qd0 = torch.tensor([0.1, 0.05, 0.0, 0.1, 0.2, 0.3], **tensor_options).repeat(*shape, 1)
    material = torch.tensor(
        [1e4 / touching_points, 40.0 / touching_points, 40.0 / touching_points, 0.5], **tensor_options
    ).repeat(*shape, 1)
    inputs = RigidInputs(
        body_q0=body_q0,
        body_qd0=body_qd0,
        body_mass=torch.ones(shape, **tensor_options),
        body_inertia=(4e-3 * torch.eye(3, **tensor_options)).repeat(*shape, 1, 1),
        body_contact=material,
        gravity=torch.tensor([0.0, 0.0, -9.81], **tensor_options).repeat(worlds, 1),
        body_force=torch.zeros(worlds, 1, 3, **tensor_options),
        force_point=torch.zeros(worlds, 1, 3, **tensor_options),
    )
    return Case(solver, inputs, frames, worlds * bodies)


def one_body_table(*, quick: bool) -> tuple[Table, dict[str, dict[str, float]]]:
    """One body with 8 contact points in one world; also the rates [steps/s] by case and kind, for the bound."""
    frames, repeats = (800, 3) if quick else (8000, 9)
    cases = {
        "box, 4 of 8 points touch": make_case(box_points(), frames=frames, touching_points=4),
        "plate, 8 of 8 points touch": make_case(plate_points(8), frames=frames, touching_points=8),
    }
    best_seconds = time_rollouts(cases, repeats=repeats)
    steps = frames * SUBSTEPS
    result = Table(
        f"One body with 8 contact points, one rollout of {steps:,} steps (M steps/s)",
        ("body", "forward, taped", "forward, no gradient", "backward", "forward / gradSim", "backward / gradSim"),
    )
    rates = {name: {kind: steps / seconds for kind, seconds in kinds.items()} for name, kinds in best_seconds.items()}
    autograd_rates = _autograd_rates(cases["box, 4 of 8 points touch"], repeats)
    all_rates = rates | {"the box through torch autograd (`bridge.rollout`)": autograd_rates}
    for name, kinds in all_rates.items():
        cells = [
            format_number(kinds[kind] * TO_MILLIONS) if kind in kinds else "" for kind in ("taped", "no_gradient", "backward")
        ]
        ratios = kinds["taped"] / GRADSIM_FORWARD, kinds["backward"] / GRADSIM_BACKWARD
        result.add(name, *cells, *(format_ratio(ratio) for ratio in ratios))
    result.remarks.append(
        f"Targets: {FORWARD_TARGET * TO_MILLIONS:g} forward (taped) and {BACKWARD_TARGET * TO_MILLIONS:g} backward. gradSim: "
        f"{GRADSIM_FORWARD:,.0f} and {GRADSIM_BACKWARD:,.0f} steps/s, its public code on two cores of the same kind, "
        "measured EARLIER, not in this run."
    )
    return result, rates


def _autograd_rates(case: Case, repeats: int) -> dict[str, float]:
    """Rates of ``bridge.rollout`` and of ``backward()`` with gradients of every input."""
    inputs = RigidInputs(*(array.clone().requires_grad_() for array in case.inputs.arrays()))
    body_q, body_qd, *_ = bridge.rollout(case.solver, inputs, case.frames)
    bars = torch.ones_like(body_q), torch.ones_like(body_qd)
    best_seconds = best_times(
        {
            "taped": lambda: bridge.rollout(case.solver, inputs, case.frames),
            "backward": lambda: torch.autograd.grad((body_q, body_qd), inputs.arrays(), bars, retain_graph=True),
        },
        repeats=repeats,
    )
    return {kind: case.steps / seconds for kind, seconds in best_seconds.items()}


def bodies_table(*, quick: bool) -> Table:
    """Several bodies in one world."""
    sizes = {1: 1600, 10: 160} if quick else {1: 8000, 10: 1600, 100: 160}
    cases = {str(n): make_case(box_points(), frames=frames, touching_points=4, bodies=n) for n, frames in sizes.items()}
    result, _ = scaling_table("Boxes in one world (M body-steps/s in total)", "bodies", cases, repeats=3 if quick else 9)
    return result


def worlds_table(*, quick: bool) -> tuple[Table, dict[str, float]]:
    """Several worlds with one box each; also the rates of the largest batch."""
    sizes = ((1, 1600), (64, 40)) if quick else ((1, 8000), (64, 320), (1024, 80), (1024, 8))
    cases = {
        f"{b:,} × {frames * SUBSTEPS:,} steps": make_case(box_points(), frames=frames, touching_points=4, worlds=b)
        for b, frames in sizes
    }
    result, rates = scaling_table("Worlds with one box each (M steps/s in total)", "worlds", cases, repeats=3 if quick else 9)
    result.remarks.append(
        f"Target: {WORLDS_SPEEDUP_TARGET:g} times one world's rate at 1,024 worlds on two cores. The taped batch of 2,000 steps "
        f"keeps "
        "ten times the states of the first row (106 MB), in memory that the system hands out page by page; with 200 steps all "
        "rows keep about as much."
    )
    return result, rates


def plans_table(*, quick: bool) -> Table:
    """One body with very many contact points: the world plan against the element plan."""
    sizes = (1000, 5000) if quick else (1000, 5000, 20_000, 50_000, 200_000)
    result = Table(
        "Plans: one body with many contact points, one world (us a step)",
        ("contact points", "touching", "forward, world", "forward, element", "world / element",
         "backward, world", "backward, element", "world / element"),
    )  # fmt: skip
    for label, points, touching_fraction in (("1 %", sphere_points, 0.01), ("all", plate_points, 1.0)):
        ratios = []
        for count in sizes:
            best_seconds = _plan_times(points(count), count * touching_fraction, quick)
            world, element = best_seconds["world"], best_seconds["element"]
            ratio = [world[kind] / element[kind] for kind in ("taped", "backward")]
            both = (world["taped"] + world["backward"]) / (element["taped"] + element["backward"])
            ratios.append((*ratio, both))
            cells = [
                cell for kind, r in zip(("taped", "backward"), ratio, strict=True)
                for cell in (format_number(world[kind] * 1e6), format_number(element[kind] * 1e6), format_number(r, 2))
            ]  # fmt: skip
            result.add(f"{count:,}", label, *cells)
        crossings = [_crossover(sizes, [row[i] for row in ratios]) for i in range(3)]
        result.remarks.append(
            f"{label} of the points touching: the element plan is faster from {crossings[0]} on forward, from {crossings[1]} "
            f"on backward, from {crossings[2]} on for both together."
        )
    return result


def _plan_times(points: np.ndarray, touching_points: float, quick: bool) -> dict[str, dict[str, float]]:
    """Seconds a step by plan and kind."""
    frames = max(1, min(40, 200_000 // len(points)))
    cases = {plan: make_case(points, frames=frames, touching_points=touching_points, plan=plan) for plan in ("world", "element")}
    best_seconds = time_rollouts(cases, repeats=3 if quick else 7)
    return {plan: {kind: seconds / cases[plan].steps for kind, seconds in kinds.items()} for plan, kinds in best_seconds.items()}


def _crossover(sizes: tuple[int, ...], ratios: list[float]) -> str:
    """Number of points from which the ratio stays above one, between the sizes on log-log axes."""
    below = [i for i, ratio in enumerate(ratios) if ratio < 1]
    if not below:
        return f"fewer than {sizes[0]:,} points"
    if below[-1] == len(sizes) - 1:
        return f"more than {sizes[-1]:,} points (if at all)"
    i = below[-1]
    fraction = -np.log(ratios[i]) / np.log(ratios[i + 1] / ratios[i])
    return f"about {format_number(sizes[i] * (sizes[i + 1] / sizes[i]) ** fraction, 2)} points"


def checkpoint_table(*, quick: bool) -> Table:
    """StoreAll against Checkpoint on one rollout."""
    frames, intervals = (80, (45, 500)) if quick else (800, (141, 1000, 5000))
    case = make_case(box_points(), frames=frames, touching_points=4)
    steps = frames * SUBSTEPS
    # The first interval is the square root of the steps, which takes the least memory; the others make fewer launches.
    adjoints = {"StoreAll()": StoreAll()} | {f"Checkpoint(every={every})": Checkpoint(every) for every in intervals}
    result = Table(
        f"Checkpoints: one box, {steps:,} steps",
        ("adjoint", "bytes", "less by", "forward, ms", "backward, ms", "time of both / StoreAll's", "gradient difference"),
    )
    state_bytes, gradients, functions = {}, {}, {}
    for name, adjoint in adjoints.items():
        rollout = case.solver.rollout(case.inputs, frames, adjoint=adjoint)
        bars = unit_frame_adjoints(rollout)
        gradients[name] = case.solver.rollout_adjoint(rollout, *bars)
        functions[name, "taped"] = lambda adjoint=adjoint: case.solver.rollout(case.inputs, frames, adjoint=adjoint)
        functions[name, "backward"] = lambda rollout=rollout, bars=bars: case.solver.rollout_adjoint(rollout, *bars)
        state_bytes[name] = rollout.states.nbytes + _segment_bytes(rollout.states, adjoint)
    best_seconds = best_times(functions, repeats=3 if quick else 15)
    total_seconds = {name: best_seconds[name, "taped"] + best_seconds[name, "backward"] for name in adjoints}
    reference = "StoreAll()"
    for name in adjoints:
        result.add(
            name, f"{state_bytes[name]:,}", format_ratio(state_bytes[reference] / state_bytes[name]),
            format_number(best_seconds[name, "taped"] * 1e3),
            format_number(best_seconds[name, "backward"] * 1e3), format_ratio(total_seconds[name] / total_seconds[reference]),
            f"{_difference(gradients[reference], gradients[name]):.1e}",
        )  # fmt: skip
    result.remarks.append(
        "Bytes: the kept states and, for Checkpoint, one recomputed segment. Gradient difference: the largest of all inputs, "
        "relative to the largest entry of its array (f32)."
    )
    return result


def _segment_bytes(states: torch.Tensor, adjoint: StoreAll | Checkpoint) -> int:
    return (adjoint.every + 1) * STATE.size * states.itemsize if isinstance(adjoint, Checkpoint) else 0


def _difference(a: RigidInputs, b: RigidInputs) -> float:
    pairs = zip(a.arrays(), b.arrays(), strict=True)
    return max(float((x - y).abs().max() / x.abs().max().clamp_min(1e-30)) for x, y in pairs)


def roofline_table(rates: dict[str, dict[str, float]], worlds_rates: dict[str, float], *, quick: bool) -> Table:
    """Speed of the steps relative to the peaks of the machine.

    Args:
        rates: of one world, by case and kind [steps/s].
        worlds_rates: of the largest batch of worlds with one box each, by kind [steps/s].
        quick: shorter measurements of the peaks.
    """
    peak = peaks.measure(quick=quick)
    cores = torch.get_num_threads() if require().device == "cpu" else 1
    result = Table("Bound: arithmetic and memory of a step", ROOFLINE_HEADER)
    state_bytes = STATE.size * 4
    for (name, kinds), touching_points in zip(rates.items(), (4, 8), strict=True):
        for kind, flops in (("taped", step_flops(8, touching_points)), ("backward", adjoint_flops(8, touching_points))):
            label = f"{name}: {'forward, taped' if kind == 'taped' else 'backward'}"
            add_roofline_row(result, label, kinds[kind], flops, state_bytes, peak, one_chain=True)
    for kind, flops in (("taped", step_flops(8, 4)), ("backward", adjoint_flops(8, 4))):
        label = f"the largest batch of worlds: {'forward, taped' if kind == 'taped' else 'backward'}"
        add_roofline_row(result, label, worlds_rates[kind], flops, state_bytes, peak, cores=cores)
    result.remarks.append(
        f"Measured in this run: {format_number(peak.flops_per_second / 1e9)} Gflop/s of scalar multiply-adds a core ({cores} "
        f"cores count for "
        f"the batch), {format_number(peak.multiply_add_latency * 1e9)} ns for a multiply-add that waits for the one before, and "
        f"{format_number(peak.copy_bytes_per_second / 1e9)} GB/s copied (read plus written). Flops are counted from the code as "
        f"written "
        "(`benchmarks/flops.py`), a square root or a division as one; the compiler shares some. A step of one body is a "
        "chain: contact point, force, momentum, rotation, quaternion, the next contact point."
    )
    return result
