"""Trials of the rod: its Young's modulus, and the force that presses it (RISP, ICLR 2022, section 4.1)."""

from dataclasses import replace
from typing import Any

import numpy as np

from risp_torch import WIDE_SEARCH, Scene, WideSteps
from scenes.rod import FORCE_LIMIT, FRAMES, make_scene
from studies.risp.trials.sequences import smooth_sequence
from studies.risp.trials.trial import Trial

GOAL = 20  # frames, after which the goal is to be reached
SMOOTH = 0.02  # weight of the penalty on changes of the force


def make_trials() -> dict[str, Trial]:
    """RISP's inversions of the rod.

    Young's modulus is read from a film of one swing of the force; unseen are the next half of its length, and another course of
    the force. The force of every frame is imitated with the modulus known; unseen is how the same force moves a softer rod. The
    goal to be reached is the imitated motion's state after 0.4 s, for a rod that is thrown up or down.
    """
    scene_options = {"substeps": 12}  # enough for a modulus that is known
    forces = {
        "unknowns": ("press.force",), "smooth": SMOOTH, "refine": 2,
        "search": WideSteps(widths=(0.05,) * 4 + (0.03,) * 3, trust_radius=2, spacing=3),
    }  # fmt: skip
    return {
        "identify": Trial(
            unknowns=("rod.E",), truth={"rod.E": 1e5}, truths=_draw_truth, guess=_draw_modulus,
            random=_draw_modulus, average={"rod.E": 10**5.5},
            measure="parameter", unit="Pa", starts=8, refine=8, search=replace(WIDE_SEARCH, trial_rounds=3),
            unseen=_unseen_swings,
        ),
        "imitate": Trial(
            **forces, truth=_force(two_swings(FRAMES)), guess=lambda r: _force(_little_force(r, FRAMES)),
            average=_force(np.zeros(FRAMES)),
            random=lambda r: _force(r.uniform(-FORCE_LIMIT, FORCE_LIMIT, size=FRAMES)), measure="motion",
            options=scene_options, unseen=lambda: {"softer rod": _pressed(two_swings(FRAMES), E=7e4, **scene_options)},
        ),
        "reach": Trial(
            **forces, truth=_force(two_swings(FRAMES)[:GOAL]), guess=lambda r: _force(_little_force(r, GOAL)),
            average=_force(np.zeros(GOAL)),
            random=lambda r: _force(r.uniform(-FORCE_LIMIT, FORCE_LIMIT, size=GOAL)), measure="final",
            options=scene_options | {"frames": GOAL}, initial=lambda r: {"rod.velocity": (0.0, 0.0, r.uniform(-0.5, 0.5))},
            sampling="last",
        ),
    }  # fmt: skip


def two_swings(frames: int) -> np.ndarray:
    """Forces [frames] in N: one swing up and down, and three smaller ones, at most 388 N."""
    phase = 2 * np.pi * np.arange(frames) / frames
    return 300 * np.sin(phase) + 150 * np.sin(3 * phase + 1)


def _force(values: np.ndarray) -> dict[str, np.ndarray]:
    return {"press.force": values}


def _draw_modulus(random: np.random.Generator) -> dict[str, float]:
    return {"rod.E": float(10 ** random.uniform(4.02, 6.98))}  # a fiftieth of a decade off the bounds


def _draw_truth(random: np.random.Generator) -> dict[str, float]:
    return {"rod.E": float(10 ** random.uniform(4.5, 5.8))}  # what training has seen: stiffer rods all look straight


def _little_force(random: np.random.Generator, frames: int) -> np.ndarray:
    return smooth_sequence(random, (frames,), 20.0)


def _pressed(force: np.ndarray, **options: Any) -> Scene:
    scene = make_scene(**options)
    scene.set("press.force", force)
    return scene


def _unseen_swings() -> dict[str, Scene]:
    return {"later frames": make_scene(frames=FRAMES + FRAMES // 2), "other actions": _pressed(two_swings(FRAMES))}
