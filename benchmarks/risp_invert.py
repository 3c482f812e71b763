"""Inversions by RISP: a hundred gradient steps of one start, and of a batch of four whose worse ones stop early."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.table import Table, format_number, format_ratio
from risp_torch import OptimiseSettings, RispLoss, Scene
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import descend
from risp_torch.risp import NetworkSettings, RispNetwork, load_task
from risp_torch.risp.task import training_scene

TITLE = "Inversions by RISP"

SIZE, WIDTH, ITERATIONS, STARTS = 64, 32, 100, 4
KEEP_SCHEDULE = ((0.15, 2), (0.35, 1))
ONE_START_TARGET, BATCH_RATIO_TARGET = 60.0, 2.5  # s of one start; the batch over it
UNKNOWNS = {
    "quadrotor": ("quadrotor.mass",), "cube": ("ground.contact.stiffness",), "rod": ("rod.E",),
    "hand": tuple(f"{finger}.stiffness" for finger in ("thumb", "index", "middle", "ring", "little")),
}  # fmt: skip


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: a tenth of the steps, of two scenes.
    """
    iterations = ITERATIONS // 10 if quick else ITERATIONS
    table = Table(
        f"{iterations} steps of RMSProp, {SIZE} px, a network of width {WIDTH}",
        ["scene", "frames", "one start [s]", "target [s]", f"{STARTS} starts, keep 0.15:2 0.35:1", "all to the end"],
    )
    for name in ("quadrotor", "cube") if quick else UNKNOWNS:
        scene, comparison = _scene_and_comparison(name)
        one_start_seconds = _search_seconds(
            scene, comparison, name, OptimiseSettings(optimizer="rmsprop", iterations=iterations), 1
        )
        stopped_settings = OptimiseSettings(optimizer="rmsprop", iterations=iterations, keep=KEEP_SCHEDULE)
        stopped_seconds = _search_seconds(scene, comparison, name, stopped_settings, STARTS)
        tenth_seconds = _search_seconds(
            scene, comparison, name, OptimiseSettings(optimizer="rmsprop", iterations=iterations // 10), STARTS
        )
        target = ONE_START_TARGET * iterations / ITERATIONS
        table.add(
            name,
            scene.frames,
            format_number(one_start_seconds),
            format_number(target),
            format_ratio(stopped_seconds / one_start_seconds),
            format_ratio(10 * tenth_seconds / one_start_seconds),
        )
    table.remarks.append(
        f"Target: the batch at most {BATCH_RATIO_TARGET} times one start. Last column: estimated from a tenth of the steps."
    )
    yield table


def _scene_and_comparison(name: str) -> tuple[Scene, Comparison]:
    """A scene, and its film in its own look, compared by a network with random weights: time does not depend on them."""
    scene = training_scene(name, SIZE)
    task = load_task(name, scene)
    torch.manual_seed(0)
    loss = RispLoss(RispNetwork(NetworkSettings(outputs=task.head.size, size=SIZE, width=WIDTH)), task=task)
    with torch.no_grad():
        film = scene.render(scene.rollout())[0].clamp(0.0, 1.0)
    return scene, Comparison.of(scene, loss, film)


def _search_seconds(scene: Scene, comparison: Comparison, name: str, settings: OptimiseSettings, starts: int) -> float:
    """Time of a search from starts near the truth, after one step to warm up."""
    unknowns = Unknowns.of(scene, UNKNOWNS[name])
    lower, upper = (unknowns.scaled(bound) for bound in unknowns.bounds())
    truth = np.clip(unknowns.scaled(unknowns.current()), lower + 0.1 * (upper - lower), upper - 0.1 * (upper - lower))
    offsets = np.linspace(-0.05, 0.05, starts)[:, None] if starts > 1 else np.full((1, 1), 0.05)
    unbounded_starts = unknowns.unbounded(unknowns.physical_values(truth + offsets * (upper - lower)))
    descend(scene, comparison, unknowns, unbounded_starts, OptimiseSettings(iterations=1), progress=False)
    start_time = time.perf_counter()
    descend(scene, comparison, unknowns, unbounded_starts, settings, progress=False)
    return time.perf_counter() - start_time
