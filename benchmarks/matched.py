"""Inversions with the matched loss: one evaluation with its gradient, in comparison with the pixel loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from benchmarks.risp_invert import SIZE, UNKNOWNS
from benchmarks.table import Table, format_number, format_ratio
from benchmarks.timing import wall_seconds
from risp_torch import MatchedLoss, Scene
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.risp import load_task
from risp_torch.risp.task import training_scene

TITLE = "Inversions in a solved look"

TARGET_RATIO = 3.0  # times an evaluation by pixels
SMALL_PERTURBATION, LARGE_PERTURBATION = 2e-3, 1e-2  # of the range: standard deviation of the perturbations between evaluations
POINTS, SEED = 12, 0


def tables(*, quick: bool) -> Iterator[Table]:
    """All tables, as they are measured.

    Args:
        quick: a third of the points, of two scenes.
    """
    table = Table(
        f"Loss and gradient of one world, {SIZE} px, warm",
        [
            "scene", "frames", "pixels [ms]", f"matched, moves of {SMALL_PERTURBATION:.1%}", f"moves of {LARGE_PERTURBATION:.0%}",
            f"of its search, moves of {LARGE_PERTURBATION:.0%}", "target",
        ],
    )  # fmt: skip
    points = POINTS // 3 if quick else POINTS
    for name in ("quadrotor", "cube") if quick else UNKNOWNS:
        scene, film = _scene_and_film(name)
        pixels, matched = (Comparison.of(scene, loss, film) for loss in (PixelLoss(), MatchedLoss()))
        pixel_seconds = _mean_seconds(scene, name, pixels, LARGE_PERTURBATION, points)
        matched_seconds = [
            _mean_seconds(scene, name, comparison, perturbation_size, points)
            for comparison, perturbation_size in (
                (matched, SMALL_PERTURBATION),
                (matched, LARGE_PERTURBATION),
                (matched.coarse(), LARGE_PERTURBATION),
            )
        ]
        table.add(
            name,
            scene.frames,
            format_number(1e3 * pixel_seconds),
            *(format_ratio(evaluation_seconds / pixel_seconds) for evaluation_seconds in matched_seconds),
            format_ratio(TARGET_RATIO),
        )
    table.remarks.append(
        "Means over the points: times of a solved look depend on how far it is from that of the last point. The films are "
        "rasterised, in a drawn appearance of RISP's training."
    )
    yield table


def _scene_and_film(name: str) -> tuple[Scene, torch.Tensor]:
    """A scene, and its film [T, H, W, 3] in another look."""
    scene = training_scene(name, SIZE)
    domain = load_task(name, scene).domains.training
    with torch.no_grad():
        film = scene.render(scene.rollout(), domain.parameters.values(domain.appearances(1, seed=SEED)))[0].clamp(0.0, 1.0)
    return scene, film


def _mean_seconds(scene: Scene, name: str, comparison: Comparison, perturbation_size: float, points: int) -> float:
    """Mean time of an evaluation at points around the truth, after one at the truth to warm up."""
    unknowns = Unknowns.of(scene, UNKNOWNS[name])
    truth = unknowns.scaled(unknowns.current())
    perturbations = perturbation_size * np.random.default_rng(SEED).standard_normal((points, len(truth)))
    _evaluation(scene, unknowns, comparison, truth)()
    rows = truth + perturbations * unknowns.scaled_range()
    return float(np.mean([wall_seconds(_evaluation(scene, unknowns, comparison, row)) for row in rows]))


def _evaluation(scene: Scene, unknowns: Unknowns, comparison: Comparison, row: np.ndarray) -> Callable[[], None]:
    def evaluate() -> None:
        scaled = torch.as_tensor(row[None]).to(comparison.target).requires_grad_(True)
        comparison.losses(scene, unknowns.from_scaled(scaled), worlds=1).sum().backward()

    return evaluate
