"""The black box: REINFORCE (Williams 1992) through a simulator without gradients, as gradSim's appendix H.1 and table 5 have it.

Numbers are drawn from a normal distribution about the current estimate, films of the draws are simulated, and the estimate
follows the gradient of the draws' log-likelihood times their normalised rewards. The simulator is this engine's forward pass,
which can reproduce the film exactly and so favours the black box, or PyBullet as in the paper, whose contact differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from risp_torch import Scene, film
from studies.gradsim.rigid.bullet import bullet_films
from studies.gradsim.tosses import NUMBERS, RANGES, draw_toss, toss_scene
from ti_sim import Count, Positive, checked

# Values of each number [samples] -> films [samples, T, H, W, 3], and which are finite [samples].
Films = Callable[[Mapping[str, np.ndarray]], tuple[torch.Tensor, torch.Tensor]]
RATES = (0.01, 0.03, 0.1)  # of Adam; the paper names neither optimiser nor rate


@checked
@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """Settings, table 5 of the paper.

    Attributes:
        samples: draws of an update.
        updates: of the estimate.
        noise: standard deviation of the draws, in units of the middle of each number's range.
        decay: factor of all rewards from one update to the next.
        rate: of Adam.
    """

    samples: Count = 5
    updates: Count = 125
    noise: Positive = 0.05
    decay: Positive = 0.925
    rate: Positive = 0.03


def reinforce(
    scene: Scene, films: Films, target: torch.Tensor, guess: Mapping[str, float], middle: Mapping[str, float], settings: BlackBox,
    random: np.random.Generator,
) -> list[dict[str, float]]:  # fmt: skip
    """Estimates after every update, the guess first.

    Args:
        scene: the scene of the film, for the bounds.
        films: the simulator.
        target: the film, linear frames [T, H, W, 3].
        guess: name of each unknown -> first guess.
        middle: the same -> middle of its range, the unit of the draws.
        settings: of the search.
        random: for the draws.
    """
    names = list(guess)
    unit = np.array([middle[name] for name in names])
    least = np.array([scene.parameters[name].low for name in names]) / unit
    mean = torch.tensor(np.array([guess[name] for name in names]) / unit, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([mean], lr=settings.rate)
    estimates, weight = [dict(guess)], 1.0
    for _ in range(settings.updates):
        mean_values = mean.detach().numpy()
        draws = np.maximum(mean_values + settings.noise * random.standard_normal((settings.samples, len(names))), least)
        rewards = film_rewards(films, target, dict(zip(names, (draws * unit).T, strict=True)))
        adam.zero_grad()
        surrogate_loss(mean, torch.as_tensor(draws), weight * normalised(rewards), settings.noise).backward()
        adam.step()
        with torch.no_grad():
            mean.clamp_(min=torch.as_tensor(least))
        weight *= settings.decay
        estimates.append(dict(zip(names, (mean.detach().numpy() * unit).tolist(), strict=True)))
    return estimates


def engine_films(scene: Scene, values: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Films of a scene with other values by this engine (``Films``)."""
    count = len(next(iter(values.values())))
    rows = {name: torch.tensor(row, dtype=torch.float32) for name, row in values.items()}
    with torch.no_grad():
        return film(scene, rows, worlds=count, frames=scene.frames)


def film_rewards(films: Films, target: torch.Tensor, values: Mapping[str, np.ndarray]) -> torch.Tensor:
    """Minus the sum of the frames' distances (L2) to the film, [samples]; the lowest of the others for a world that diverges."""
    pictures, finite = films(values)
    distances = (pictures - target).flatten(2).norm(dim=2).sum(dim=1).double().cpu()
    is_finite = finite.cpu() & distances.isfinite()
    worst = distances[is_finite].max() if is_finite.any() else torch.zeros(())
    return -torch.where(is_finite, distances, worst)


def normalised(rewards: torch.Tensor) -> torch.Tensor:
    """Rewards [samples] with mean 0 and standard deviation 1; zeros where all are equal."""
    spread = rewards.std(unbiased=False)
    return (rewards - rewards.mean()) / spread if spread > 0 else torch.zeros_like(rewards)


def surrogate_loss(mean: torch.Tensor, draws: torch.Tensor, rewards: torch.Tensor, noise: float) -> torch.Tensor:
    """Minus the mean of reward times log-likelihood of the draws [samples, K]: its gradient is REINFORCE's."""
    likelihood = -((draws - mean) ** 2).sum(dim=1) / (2 * noise**2)
    return -(rewards * likelihood).mean()


def middle_of(units: str, names: Sequence[str]) -> dict[str, float]:
    """Middle of the drawn range of each number."""
    return {name: sum(RANGES[units].of(name)) / 2 for name in names}


def searched(
    index: int, *, seed: int, units: str, size: int, frames: int, unknowns: Sequence[str], updates: int, samples: int,
    rate: float, simulator: Literal["engine", "bullet"] = "engine",
) -> Mapping[str, Any]:  # fmt: skip
    """A toss by the black box, from a start in the drawn range, as a cell.

    Args:
        index, seed, units: of the toss.
        size: side of the pictures [pixels].
        frames: frame intervals.
        unknowns: names of the numbers.
        updates, samples, rate: of ``BlackBox``.
        simulator: what simulates draws.

    Raises:
        UserError: PyBullet is not installed.
    """
    toss, random = draw_toss(index, seed=seed, units=units), np.random.default_rng([seed, index, 2])
    scene = toss_scene(toss, size=size, frames=frames)
    guess = {name: float(random.uniform(*RANGES[units].of(name))) for name in NUMBERS if name in unknowns}
    with torch.no_grad():
        pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
    settings = BlackBox(samples=samples, updates=updates, rate=rate)
    films = partial(engine_films, scene) if simulator == "engine" else partial(bullet_films, scene, toss)
    estimates = reinforce(scene, films, pictures[0], guess, middle_of(units, list(guess)), settings, random)
    truth = {name: toss.values[name] for name in guess}
    curve = {name: [estimate[name] / truth[name] - 1 for estimate in estimates] for name in guess}
    return {"shape": toss.shape, "volume": toss.volume, "truth": truth, "guess": guess, "values": estimates[-1], "curve": curve,
            "error": {name: row[-1] for name, row in curve.items()}}  # fmt: skip
