"""Control: time and memory of an iteration, from the network's weights to the picture and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from benchmarks.memory import numbers_of_child_process, peak_bytes, reset_peak, resident_bytes
from benchmarks.table import Table, format_number, format_ratio
from risp_torch import Checkpoint, Scene, load_scene
from risp_torch.control import ControlledRollout, ControlTask, GoalLoss, load_control
from ti_sim.base.runtime import require

TITLE = "Control"

TARGET = {"gear": 1.5, "walker": 0.5}  # s an iteration
MEMORY_TARGET = 1.0  # GB above the idle process
TO_BILLIONS = 1e-9
PARTS = ("network", "forward", "render", "backward", "step")


@dataclass(frozen=True)
class Case:
    """An iteration to time.

    Attributes:
        scene: with a control task.
        controls: rows of actuation in a frame.
        every: steps between two kept states, None for the square root of all.
    """

    scene: str
    controls: int
    every: int | None


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: one repeat, no memory.
    """
    table = Table(
        "One iteration towards a picture, 128 px, one world",
        ("scene", "steps", "controls", "kept states", *(f"{part} [s]" for part in PARTS), "iteration [s]", "target / iteration",
         "memory above idle [GB]"),
    )  # fmt: skip
    for case in cases():
        scene, task, seconds = fastest_iteration(case, repeats=1 if quick else 5)
        steps = scene.frames * scene.stepping.substeps
        memory = None if quick else numbers_of_child_process(
            "benchmarks.control", "print_growth", case.scene, case.controls, case.every, require().device
        )  # fmt: skip
        total = sum(seconds.values())
        table.add(
            case.scene, f"{steps:,}", f"{scene.frames * scene.stepping.controls:,}", "all" if task.checkpoint == 1 else
            f"every {task.checkpoint}", *(format_number(seconds[part]) for part in PARTS), format_number(total),
            format_ratio(TARGET[case.scene] / total), "" if memory is None else format_number(TO_BILLIONS * memory[0]),
        )  # fmt: skip
    table.remarks.append(
        "Network: sine waves, linear layer, tanh. Forward: the motion, with what its gradient needs. Render: the last frame, "
        "and the loss of its blurs. Backward: through all of it to the weights. Step: Adam. Controls: rows of actuation over the "
        "film, one a frame or one a step. The parts are those of the fastest of all iterations. Targets: gear "
        f"{TARGET['gear']} s, walker {TARGET['walker']} s, {MEMORY_TARGET:g} GB. Public gradSim needs 11 to 15 s for the physics "
        "of its gear, measured EARLIER, not in this run."
    )
    yield table


def cases() -> list[Case]:
    """Cases: a row of actuation for each frame and for each step, with all or few kept states."""
    cases = []
    for name in TARGET:
        substeps = load_scene(name).stepping.substeps
        cases += [Case(name, 1, 1), Case(name, substeps, 1), Case(name, 1, None)]
    return cases


def make_setting(case: Case) -> tuple[Scene, ControlTask, GoalLoss]:
    """Scene, task and goal of a case."""
    scene = load_scene(case.scene, controls=case.controls)
    steps = scene.frames * scene.stepping.substeps
    task = replace(load_control(case.scene, scene), checkpoint=case.every or round(steps**0.5))
    return scene, task, GoalLoss(scene, task, task.goal(scene, 0))


def fastest_iteration(case: Case, *, repeats: int) -> tuple[Scene, ControlTask, dict[str, float]]:
    """The parts [s] of the fastest iteration, after one to warm up."""
    scene, task, goal_loss = make_setting(case)
    policy = task.policy(scene, 0)
    optimizer = torch.optim.Adam(policy.parameters(), lr=task.learning_rate_for("image"))
    runs = [iteration(scene, task, goal_loss, policy, optimizer) for _ in range(1 + repeats)][1:]
    return scene, task, min(runs, key=lambda seconds: sum(seconds.values()))


def iteration(
    scene: Scene, task: ControlTask, goal_loss: GoalLoss, policy: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """One step of the search; seconds by part."""
    clock_times = [time.perf_counter()]
    optimizer.zero_grad(set_to_none=True)
    outputs = policy()
    clock_times.append(time.perf_counter())
    states = scene.rollout({task.controlled_parameter: outputs}, worlds=1, adjoint=Checkpoint(every=task.checkpoint))
    clock_times.append(time.perf_counter())
    loss = goal_loss.loss(ControlledRollout(states, outputs), "image")
    clock_times.append(time.perf_counter())
    loss.backward()
    clock_times.append(time.perf_counter())
    optimizer.step()
    clock_times.append(time.perf_counter())
    return {part: end - start for part, start, end in zip(PARTS, clock_times, clock_times[1:], strict=False)}


def print_growth(scene: str, controls: int, every: int | None, device: str) -> None:
    """Print the increase [bytes] of peak memory by three iterations in a process that has compiled all kernels."""
    from ti_sim.base.runtime import start

    start(device=device, precision="f32")
    warm_up_scene = load_scene(scene, frames=2, controls=controls)
    task = replace(load_control(scene, warm_up_scene), checkpoint=1 if every == 1 else 16)
    _run_iterations(warm_up_scene, task, 1)
    reset_peak()
    idle = resident_bytes()
    case_scene, case_task, _ = make_setting(Case(scene, controls, every))
    _run_iterations(case_scene, case_task, 3)
    print(max(0, peak_bytes() - idle))


def _run_iterations(scene: Scene, task: ControlTask, count: int) -> None:
    goal_loss, policy = GoalLoss(scene, task, task.goal(scene, 0)), task.policy(scene, 0)
    optimizer = torch.optim.Adam(policy.parameters())
    for _ in range(count):
        iteration(scene, task, goal_loss, policy, optimizer)
