"""Trials of the quadrotor: its mass, and the thrusts of its rotors (RISP, ICLR 2022, B.1.1)."""

import numpy as np

from risp_torch import WIDE_SEARCH, Scene, WideSteps
from scenes.quadrotor import FRAMES, HOVER_THRUST, NOMINAL_MASS, THRUST_MARGIN, make_scene, manoeuvre
from studies.risp.trials.sequences import smooth_sequence
from studies.risp.trials.trial import Trial

GOAL = 30  # frames, after which the goal is to be reached
SMOOTH = 0.1  # weight of the penalty on changes of thrust


def make_trials() -> dict[str, Trial]:
    """RISP's inversions of the quadrotor.

    The mass is read from a film of the manoeuvre; unseen are its next half second, and the manoeuvre backwards. The thrusts of
    every frame are imitated with the mass known; unseen is how the same thrusts carry 100 g less. The goal to be reached is the
    manoeuvre's state after three quarters of a second, from a start that is moved, turned and pushed.
    """
    thrusts = {"unknowns": ("rotors.actions",), "smooth": SMOOTH, "refine": 2}
    return {
        "identify": Trial(
            unknowns=("quadrotor.mass",), truth={"quadrotor.mass": NOMINAL_MASS}, truths=_draw_mass, guess=_draw_mass,
            random=_draw_mass, average={"quadrotor.mass": 3.0}, measure="parameter", unit="kg",
            search=WIDE_SEARCH, starts=4, refine=6, unseen=_unseen_flights,
        ),
        "imitate": Trial(
            **thrusts, search=WideSteps(widths=(0.03,) * 5 + (0.015,) * 3, trust_radius=2, spacing=4, first_frames=10),
            truth=_thrusts(manoeuvre(NOMINAL_MASS)), guess=lambda r: _thrusts(_near_hover(r, FRAMES)),
            average=_thrusts(np.full((FRAMES, 4), HOVER_THRUST)),
            random=lambda r: _thrusts(_any_thrust(r, FRAMES)), measure="motion",
            unseen=lambda: {"100 g less": make_scene(mass=2.9)},
        ),
        "reach": Trial(
            **thrusts, search=WideSteps(widths=(0.1,) * 8 + (0.05,) * 6, trust_radius=1, trial_rounds=4), starts=8,
            truth=_thrusts(manoeuvre(NOMINAL_MASS, GOAL)), guess=lambda r: _thrusts(_near_hover(r, GOAL)),
            average=_thrusts(np.full((GOAL, 4), HOVER_THRUST)), random=lambda r: _thrusts(_any_thrust(r, GOAL)), measure="final",
            options={"frames": GOAL}, initial=_draw_start, sampling="last",
        ),
    }  # fmt: skip


def _thrusts(values: np.ndarray) -> dict[str, np.ndarray]:
    return {"rotors.actions": values}


def _draw_mass(random: np.random.Generator) -> dict[str, float]:
    return {"quadrotor.mass": float(random.uniform(2.8, 3.2))}


def _near_hover(random: np.random.Generator, frames: int) -> np.ndarray:
    """Thrusts [frames, 4] that hover, but for a smooth tenth of a newton."""
    return HOVER_THRUST + smooth_sequence(random, (frames, 4), 0.1)


def _any_thrust(random: np.random.Generator, frames: int) -> np.ndarray:
    return random.uniform(HOVER_THRUST - THRUST_MARGIN, HOVER_THRUST + THRUST_MARGIN, size=(frames, 4))


def _draw_start(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Up to 8 cm, 0.15 rad and 0.2 m/s from the manoeuvre's start along each axis."""
    return {
        "quadrotor.position": np.array([-0.1, 0.15, 0.0]) + random.uniform(-0.08, 0.08, size=3),
        "quadrotor.rotation": random.uniform(-0.15, 0.15, size=3),
        "quadrotor.velocity": random.uniform(-0.2, 0.2, size=3),
    }


def _unseen_flights() -> dict[str, Scene]:
    reversed_flight = make_scene()
    reversed_flight.set("rotors.actions", manoeuvre(NOMINAL_MASS)[::-1])
    return {"later frames": make_scene(frames=FRAMES + FRAMES // 2), "other actions": reversed_flight}
