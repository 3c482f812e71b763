"""Numbers of a toss from its film: a scan of the mass over the flight, then Levenberg-Marquardt steps over a growing part of it.

The guess is up to five times off. A scan looks at every mass within a factor ``BEYOND`` of it, over the first frames, in which
the push acts and contact has hardly begun: the loss of a whole film has minima at wrong masses, where another motion covers the
same pixels. From its lowest value on, frames are added as the fit follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from risp_torch import Inversion, Loss, LuminanceLoss, NewtonSteps, PixelLoss, Scene, invert
from risp_torch.inversion import Comparison, film_losses
from studies.gradsim.tosses import BEYOND, MASS

SCANNED = 18  # frame intervals of the scan, and those with which the search begins
VALUES = 33  # masses of the scan, evenly in their logarithm: neighbours differ by 12 %
EXACT = 1e-11  # mean squared residual of a film without loss that a minimum at rounding leaves at most
TRIES = 6  # searches from further starts, of a film without loss that no search has explained
TOGETHER = 3  # starts of a film with loss: their scatter is part of its error bars


def identify(
    scene: Scene, video: Any, guess: Mapping[str, float], *, random: np.random.Generator, lossless: torch.Tensor | None = None,
    loss: Loss | None = None,
) -> Inversion:  # fmt: skip
    """Find the numbers that the guess names.

    Of a film without loss, or of states, the search is repeated from other numbers of the contact, drawn from all that are
    allowed, until the residual is rounding. Where the film has loss, all starts are searched, and several minima of nearly the
    same loss widen the error bars.

    Args:
        scene: the scene of the film; its own values of these numbers are not used.
        video: a film with loss (the path of an mp4); linear frames [T, H, W, 3] without; or None for a loss that needs none.
        guess: name of each unknown -> first guess; the mass is among them.
        random: for further starts.
        lossless: the pictures of ``video``, if it is a file.
        loss: of the comparison; by default pixels of a film without loss, and of one with loss its luminance, which it keeps
            at full resolution.
    """
    exact, only = lossless is None, list(guess) == [MASS]
    if loss is None:
        loss = PixelLoss() if exact else LuminanceLoss()
    best: Inversion | None = None
    for _ in range(TRIES if exact and not only else 1):
        guesses = [guess] if best is None else [drawn_start(scene, guess, random)]
        guesses += [drawn_start(scene, guess, random) for _ in range(0 if exact or only else TOGETHER - 1)]
        starts = [start | {MASS: scanned_mass(scene, video if exact else lossless, start, loss)} for start in guesses]
        result = invert(
            scene, video, list(guess), loss=loss, starts=starts, search=NewtonSteps(first_frames=min(SCANNED, scene.frames)),
            progress=False,
        )  # fmt: skip
        if best is None or result.losses[result.best] < best.losses[best.best]:
            best = result
        if best.losses[best.best] <= EXACT:
            break
    return best


def drawn_start(scene: Scene, guess: Mapping[str, float], random: np.random.Generator) -> dict[str, float]:
    """A start with the guess's mass and with other numbers from all that are allowed, evenly in their logarithm."""
    return range_guess(scene, list(guess), random) | {MASS: guess[MASS]}


def scanned_mass(scene: Scene, film: torch.Tensor | None, guess: Mapping[str, float], loss: Loss) -> float:
    """The value of ``MASS`` within a factor ``BEYOND`` of the guess with the lowest loss over the first frames.

    Other numbers have the guess's values.
    """
    frames = min(SCANNED, scene.frames)
    comparison = Comparison.of(scene, loss, film, f"list:0-{frames}")
    around = math.log10(guess[MASS]) + math.log10(BEYOND) * np.linspace(-1, 1, VALUES)
    param = scene.parameters[MASS]
    masses = np.clip(10**around, param.low, param.high)
    rows = {name: [value] * VALUES for name, value in guess.items()} | {MASS: masses.tolist()}
    values = {name: comparison.target.new_tensor(row) for name, row in rows.items()}
    losses = film_losses(scene, values, comparison, worlds=VALUES)
    return float(masses[int(losses.argmin())])


def far_guess(truth: Mapping[str, float], random: np.random.Generator, *, most: float = 5.0) -> dict[str, float]:
    """A guess of every number that is wrong by a factor up to ``most`` either way, evenly in its logarithm."""
    return {name: float(value * most ** random.uniform(-1, 1)) for name, value in truth.items()}


def range_guess(scene: Scene, names: Sequence[str], random: np.random.Generator) -> dict[str, float]:
    """A guess of every number from its whole allowed range, evenly in its logarithm."""
    guess = {}
    for name in names:
        param = scene.parameters[name]
        guess[name] = float(10 ** random.uniform(math.log10(param.low), math.log10(param.high)))
    return guess
