"""Speed of the articulated solver: steps a second forward and backward, batches, other simulators, and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from benchmarks import peaks
from benchmarks.articulated_flops import adjoint_flops, step_flops
from benchmarks.other_simulators import Measurement, largest_difference, links_description, newton_table, run_mujoco, run_newton
from benchmarks.rollouts import PASS_LABELS, ROOFLINE_HEADER, TO_MILLIONS, Case, add_roofline_row, scaling_table, time_rollouts
from benchmarks.table import Table, format_number, format_ratio
from risp_torch import load_scene
from risp_torch.scene.simulation.articulated import articulated_inputs
from ti_sim.articulated.model import ArticulatedInputs
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.runtime import require

TITLE = "Articulated bodies"

PENDULUM_FORWARD_TARGET, HAND_FORWARD_TARGET, HAND_BACKWARD_TARGET = 3e6, 2e5, 8e4  # steps/s; the first two forward
BATCH_SPEEDUP_TARGET = 1.8  # 64 hands over one, on two cores
NEWTON_SPEEDUP_TARGET = 10.0  # times as fast

# Frames of a rollout by scene: about a tenth of a second forward each. Those of the double pendulum are fewer, whose adjoint
# grows with time.
FRAMES = {"pendulum": 4000, "double_pendulum": 600, "hand": 800}
_ARRAYS_PER_FRAME = ("action", "servo_target", "link_wrench")
COMPARED_FRAME_COUNT = 10  # frames that other simulators run


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables of the articulated solver, as they are measured.

    Args:
        quick: fewer steps and repeats.
    """
    one_tree, rates = one_tree_table(quick=quick)
    yield one_tree
    batch, batch_rates = batch_table(quick=quick)
    yield batch
    yield from comparison_tables(quick=quick)
    yield roofline_table(rates, batch_rates, quick=quick)


def make_case(name: str, *, frames: int, worlds: int = 1, integrator: str = "semi_implicit") -> Case:
    """A scene's links and motors, in identical worlds.

    Args:
        name: of the scene.
        frames: frame intervals; the motors' actions are repeated periodically.
        worlds: B.
        integrator: of the solver.
    """
    scene = load_scene(name)
    scene_solver = scene.simulator.solver
    solver = ArticulatedSolver(scene_solver.model, replace(scene_solver.settings, integrator=integrator))
    one_world = articulated_inputs(scene.bodies, scene.motors, scene.table.values(), frames=scene.frames, actions=None)
    return Case(solver, _repeat_worlds(one_world, worlds, frames), frames, worlds)


def _repeat_worlds(one_world: ArticulatedInputs, worlds: int, frames: int) -> ArticulatedInputs:
    """One world's inputs for several, over more frames."""
    rows = torch.arange(frames, device=one_world.action.device) % one_world.frame_count
    extended = replace(one_world, **{name: getattr(one_world, name)[:, rows] for name in _ARRAYS_PER_FRAME})
    return ArticulatedInputs(
        *(array.detach().repeat(worlds, *(1,) * (array.ndim - 1)).contiguous() for array in extended.arrays())
    )


def one_tree_table(*, quick: bool) -> tuple[Table, dict[str, dict[str, float]]]:
    """One world with one tree of links; also the rates [steps/s] of the semi-implicit step by scene and kind."""
    cases, scene_and_integrator = {}, {}
    for name, frames in FRAMES.items():
        for integrator in ("semi_implicit", "rk4"):
            label = f"{name}, {integrator}"
            cases[label] = make_case(name, frames=max(1, frames // (10 if quick else 1)), integrator=integrator)
            scene_and_integrator[label] = (name, integrator)
    best_seconds = time_rollouts(cases, repeats=3 if quick else 9)
    result = Table(
        "One tree of links in one world (M steps/s)",
        ("scene", "joints", "integrator", "steps", "forward, taped", "forward, no gradient", "backward",
         "forward / target", "backward / target"),
    )  # fmt: skip
    rates = {}
    for label, (name, integrator) in scene_and_integrator.items():
        case = cases[label]
        rate = {kind: case.steps / seconds for kind, seconds in best_seconds[label].items()}
        forward = backward = ""
        if integrator == "semi_implicit":
            rates[name] = rate
            forward_target = {"pendulum": PENDULUM_FORWARD_TARGET, "hand": HAND_FORWARD_TARGET}.get(name)
            forward = format_ratio(rate["taped"] / forward_target) if forward_target else ""
            backward = format_ratio(rate["backward"] / HAND_BACKWARD_TARGET) if name == "hand" else ""
        joints = sum(kind != "fixed" for kind in case.solver.model.joint_type)
        cells = [format_number(rate[kind] * TO_MILLIONS) for kind in ("taped", "no_gradient", "backward")]
        result.add(name, joints, integrator, f"{case.steps:,}", *cells, forward, backward)
    result.remarks.append(
        f"Targets, of the taped semi-implicit step: {PENDULUM_FORWARD_TARGET * TO_MILLIONS:g} forward for the pendulum; "
        f"{HAND_FORWARD_TARGET * TO_MILLIONS:g} forward and {HAND_BACKWARD_TARGET * TO_MILLIONS:g} backward for the hand."
    )
    return result, rates


def batch_table(*, quick: bool) -> tuple[Table, dict[str, float]]:
    """Several worlds with one hand each; also the rates of the largest batch."""
    sizes = ((1, 80), (64, 8)) if quick else ((1, 800), (2, 800), (64, 80), (1024, 8))
    cases = {f"{b:,}": make_case("hand", frames=frames, worlds=b) for b, frames in sizes}
    result, rates = scaling_table("Worlds with one hand each (M steps/s in total)", "worlds", cases, repeats=3 if quick else 9)
    result.remarks.append(
        f"Target: {BATCH_SPEEDUP_TARGET:g} times one world's rate at 64 worlds on two cores. Independent multiply-adds on all "
        f"cores at "
        f"once reached {format_number(peaks.effective_cores(quick=quick), 2)} times one core's rate just after: less than the "
        f"number of "
        "cores where other jobs had a part of them."
    )
    return result, rates


def comparison_tables(*, quick: bool) -> Iterator[Table]:
    """One world against MuJoCo, forward only, and against Newton's Featherstone solver, forward and backward."""
    repeats = 3 if quick else 9
    cases = {name: make_case(name, frames=max(1, frames // (10 if quick else 1))) for name, frames in FRAMES.items()}
    descriptions = {name: links_description(case) for name, case in cases.items()}
    our_seconds = {
        name: {kind: seconds / cases[name].steps for kind, seconds in kinds.items()}
        for name, kinds in time_rollouts(cases, repeats=repeats).items()
    }
    final_positions = {
        name: case.solver.rollout(case.inputs, COMPARED_FRAME_COUNT).joint_q[0, -1].cpu().numpy() for name, case in cases.items()
    }
    steps = {name: COMPARED_FRAME_COUNT * case.solver.settings.substeps for name, case in cases.items()}
    mujoco = {name: run_mujoco(descriptions[name], compared_step=steps[name], repeats=repeats) for name in cases}
    yield mujoco_table(our_seconds, final_positions, mujoco)
    shortened = {
        name: description | {"force": description["force"][:COMPARED_FRAME_COUNT], "steps": steps[name]}
        for name, description in descriptions.items()
    }
    newton = run_newton(shortened, repeats=2 if quick else 5)
    differences = (
        ""
        if isinstance(newton, str)
        else ", ".join(f"{largest_difference(newton[name], final)} ({name})" for name, final in final_positions.items())
    )
    remark = (
        f"Target: {NEWTON_SPEEDUP_TARGET:g} times as fast, forward and backward. The same links, springs, motors and "
        f"semi-implicit step, "
        f"fixed links merged, {COMPARED_FRAME_COUNT} frames; joint positions at their end differ by {differences} rad."
    )
    title = "Against Newton's Featherstone solver on the CPU: one world, one thread (us a step)"
    yield newton_table(title, "scene", our_seconds, newton, remark)


def mujoco_table(
    our_seconds: dict[str, dict[str, float]], final_positions: dict[str, np.ndarray], mujoco: dict[str, Measurement | None]
) -> Table:
    """Forward steps beside MuJoCo's.

    Args:
        our_seconds: seconds of a step by scene and kind.
        final_positions: [Q] joint positions after the frames that are compared, by scene.
        mujoco: the same of MuJoCo.
    """
    result = Table(
        "Against MuJoCo on the CPU: one world, forward, one thread (us a step)",
        ("scene", "here, no gradient (f32)", "MuJoCo (f64)", "times as fast", "difference of joint positions, rad"),
    )
    for name, other in mujoco.items():
        seconds_here = our_seconds[name]["no_gradient"]
        if other is None:
            result.add(name, format_number(seconds_here * 1e6), "not measured", "", "")
        else:
            mujoco_seconds = other.seconds["no_gradient"]
            result.add(
                name,
                format_number(seconds_here * 1e6),
                format_number(mujoco_seconds * 1e6),
                format_ratio(mujoco_seconds / seconds_here),
                largest_difference(other, final_positions[name]),
            )
    versions = {other.version for other in mujoco.values() if other}
    result.remarks.append(
        f"{', '.join(versions)}: the same links, springs, motors and semi-implicit step in its own loop over steps "
        f"(`mujoco.rollout`), contact and implicit damping switched off, joint limits on. "
        f"Difference: after {COMPARED_FRAME_COUNT} frames."
        if versions
        else "MuJoCo is not installed (package `mujoco`)."
    )
    return result


def roofline_table(rates: dict[str, dict[str, float]], batch_rates: dict[str, float], *, quick: bool) -> Table:
    """Speed of the steps relative to the peaks of the machine.

    Args:
        rates: of one world, by scene and kind [steps/s].
        batch_rates: of the largest batch of hands, by kind [steps/s].
        quick: shorter measurements of the peaks.
    """
    peak = peaks.measure(quick=quick)
    cores = torch.get_num_threads() if require().device == "cpu" else 1
    result = Table("Bound: arithmetic and memory of a step", ROOFLINE_HEADER)
    counts = {}
    for name, kinds in rates.items():
        model = make_case(name, frames=1).solver.model
        state_bytes = 4 * (model.coordinate_count + 2 * model.velocity_count)
        counts[name] = {"taped": step_flops(model), "backward": adjoint_flops(model)}
        for kind, flops in counts[name].items():
            add_roofline_row(result, f"{name}: {PASS_LABELS[kind]}", kinds[kind], flops, state_bytes, peak, one_chain=True)
    for kind, flops in counts["hand"].items():
        label = f"the largest batch of hands: {PASS_LABELS[kind]}"
        add_roofline_row(result, label, batch_rates[kind], flops, state_bytes, peak, cores=cores)
    result.remarks.append(
        f"Measured in this run: {format_number(peak.flops_per_second / 1e9)} Gflop/s of scalar multiply-adds a core ({cores} "
        f"cores count for "
        f"the batch), {format_number(peak.multiply_add_latency * 1e9)} ns for a multiply-add that waits for the one before, and "
        f"{format_number(peak.copy_bytes_per_second / 1e9)} GB/s copied (read plus written). Flops are counted from the code as "
        f"written "
        "(`benchmarks/articulated_flops.py`), a square root, a division, a sine or a cosine as one. A step is a chain from the "
        "root to the leaves, back, and to the leaves again."
    )
    return result
