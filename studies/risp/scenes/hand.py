"""Trials of the hand: the stiffness of its fingers, and the pulses that move them (RISP, ICLR 2022, B.1.3)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from risp_torch import Scene, WideSteps
from scenes.hand import FINGER_NAMES, FINGERS, FRAMES, make_scene
from studies.risp.trials.trial import Trial

# Pulses that are imitated: none begins with the film, which would be a bound of its delay.
IMITATED = {"thumb": (0.8, 6.0), "index": (0.75, 4.0), "middle": (0.9, 12.0), "ring": (0.7, 20.0), "little": (0.85, 16.0)}
GOAL = 40  # frames, after which the goal is to be reached


def make_trials() -> dict[str, Trial]:
    """RISP's inversions of the hand.

    The stiffness of each finger is read from a film of the pulses; unseen are the next half of its length, and other pulses.
    Amplitude and delay of the five pulses are imitated with the stiffness known; unseen is how they move a softer hand. The goal
    to be reached lies 0.8 s after a start with drawn joint angles.
    """
    stiffness = tuple(f"{finger}.stiffness" for finger in FINGER_NAMES)
    pulses = {
        "unknowns": tuple(_commands(IMITATED)), "truth": _commands(IMITATED), "guess": _draw_guess, "random": _draw_pulses,
        "average": _commands(dict.fromkeys(FINGER_NAMES, (0.5, 20.0))),
        "starts": 4,
    }  # fmt: skip
    search = WideSteps(widths=(0.1,) * 5 + (0.05,) * 4, trust_radius=2, trial_rounds=3)

    def draw(random: np.random.Generator) -> dict[str, float]:
        return dict(zip(stiffness, random.uniform(0.005, 1.0, size=len(stiffness)).tolist(), strict=True))

    return {
        "identify": Trial(
            unknowns=stiffness, truth=dict.fromkeys(stiffness, 1.0),
            truths=lambda r: dict(zip(stiffness, r.uniform(0.3, 1.2, size=len(stiffness)).tolist(), strict=True)), guess=draw,
            random=draw,
            average=dict.fromkeys(stiffness, 0.5), measure="parameter", unit="N m/rad",
            search=WideSteps(
                widths=(0.15,) * 3 + (0.1,) * 3 + (0.07, 0.06, 0.05, 0.05), trial_rounds=3, settling_rounds=4, whiten=True
            ),
            starts=2, refine=5,
            unseen=_unseen_pulses,
        ),
        "imitate": Trial(
            **pulses, search=replace(search, settling_rounds=4, whiten=True), measure="motion", refine=4,
            unseen=lambda: {"softer hand": _pulsed(stiffness=0.7)},
        ),
        "reach": Trial(
            **pulses, search=search, measure="final", refine=8, options={"frames": GOAL}, initial=_draw_start, sampling="last",
        ),
    }  # fmt: skip


def _commands(pulses: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Names and values of the ten numbers, from (amplitude, delay) of the fingers."""
    return {
        f"{finger}.motor.{key}": pulses[finger][k] for finger in FINGER_NAMES for k, key in enumerate(("amplitude", "delay"))
    }  # fmt: skip


def _draw_pulses(random: np.random.Generator) -> dict[str, float]:
    return _commands({finger: (random.uniform(0.01, 0.99), random.uniform(0.4, 39.6)) for finger in FINGER_NAMES})


def _draw_guess(random: np.random.Generator) -> dict[str, float]:
    """Pulses of middle size that begin within the first half of what is allowed."""
    return _commands({finger: (random.uniform(0.3, 0.7), random.uniform(5.0, 20.0)) for finger in FINGER_NAMES})


def _draw_start(random: np.random.Generator) -> dict[str, float]:
    """Joint angles within 0.15 rad of the straight hand."""
    counts = {finger: len(FINGERS[finger][1]) if finger in FINGERS else 2 for finger in FINGER_NAMES}
    phalanges = [f"{finger}{k + 1}" for finger, count in counts.items() for k in range(count)]
    return {f"{phalanx}.angle": float(random.uniform(-0.15, 0.15)) for phalanx in phalanges}


def _pulsed(pulses: Mapping[str, tuple[float, float]] = IMITATED, stiffness: float = 1.0) -> Scene:
    scene = make_scene(stiffness)
    for name, value in _commands(pulses).items():
        scene.set(name, value)
    return scene


def _unseen_pulses() -> dict[str, Scene]:
    return {"later frames": make_scene(frames=FRAMES + FRAMES // 2), "other actions": _pulsed()}
