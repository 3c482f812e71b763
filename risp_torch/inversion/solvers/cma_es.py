"""A gradient-free search before the descent: CMA-ES (Hansen and Ostermeier, 2001) from every start, all in one batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.search_settings import MAX_UNBOUNDED, CmaSettings
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

MAX_WORLDS = 64  # candidates of all starts that are simulated together


def cma_es_search(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, z: torch.Tensor, settings: CmaSettings, *, seed: int,
    progress: bool = True,
) -> tuple[torch.Tensor, History]:  # fmt: skip
    """Search around the starts z [S, K], over the whole film.

    Args:
        scene, comparison, unknowns: those of the inversion.
        z: unbounded variables of the starts.
        settings: generations, candidates, spread.
        seed: the same seed and starts give the same candidates.
        progress: whether to show a progress bar.

    Returns:
        The best candidate of each start [S, K] (the start if none was better), and the history: the best before each generation.

    Raises:
        UserError: pycma is not installed.
    """
    searches = _searches(z, settings, seed)
    best, best_losses, history = z.clone(), _losses(scene, comparison, unknowns, z), History()
    for _ in tqdm(range(settings.generations), desc="warming up", disable=not progress, mininterval=0.5):
        history.losses.append(torch.where(best_losses.isfinite(), best_losses, torch.nan))
        history.values.append(unknowns.physical_vector(best).detach())
        populations = [np.asarray(search.ask(), dtype=np.float64) for search in searches]
        candidates = torch.as_tensor(np.stack(populations)).to(z)
        losses = _losses(scene, comparison, unknowns, candidates.flatten(0, 1)).reshape(candidates.shape[:2])
        for search, rows, candidate_losses in zip(searches, populations, losses.double().cpu().numpy(), strict=True):
            worst = np.max(candidate_losses, where=np.isfinite(candidate_losses), initial=0.0)
            search.tell(list(rows), np.where(np.isfinite(candidate_losses), candidate_losses, 10 * worst + 1).tolist())
        lowest_losses, lowest_index = losses.min(dim=1)
        is_better = lowest_losses < best_losses
        best = torch.where(is_better[:, None], candidates[torch.arange(len(z)), lowest_index], best)
        best_losses = torch.where(is_better, lowest_losses, best_losses)
    return best, history


def _losses(scene: Scene, comparison: Comparison, unknowns: Unknowns, z: torch.Tensor) -> torch.Tensor:
    """Losses [N] of candidates z [N, K], infinite where a world diverged."""
    with torch.no_grad():
        film_loss = film_losses(scene, unknowns.physical(z), comparison, worlds=len(z), most=MAX_WORLDS)
        return unknowns.penalised(film_loss, z, comparison.observation_count)


def _searches(z: torch.Tensor, settings: CmaSettings, seed: int) -> list[Any]:
    """A search of pycma for every start."""
    cma = _pycma()
    starts = z.detach().double().cpu().numpy().clip(-0.99 * MAX_UNBOUNDED, 0.99 * MAX_UNBOUNDED)
    population = settings.population or 4 + math.floor(3 * math.log(starts.shape[1]))
    searches = []
    for number, start in enumerate(starts):
        options = {
            "popsize": population, "bounds": [-MAX_UNBOUNDED, MAX_UNBOUNDED], "verbose": -9,
            # A separate generator: otherwise pycma seeds and uses numpy's global generator.
            "seed": math.nan, "randn": _Normal(np.random.default_rng([seed, number])),
        }  # fmt: skip
        searches.append(cma.CMAEvolutionStrategy(start, settings.spread, options))
    return searches


@dataclass(frozen=True)
class _Normal:
    """numpy's ``randn`` with a separate generator."""

    random: np.random.Generator

    def __call__(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape)


def _pycma() -> ModuleType:
    try:
        import cma
    except ImportError:
        raise UserError(
            "the search without gradients needs the package cma: install it with pip install 'risp-taichi[search]', or leave out "
            "--warm-start cma (warm_start)"
        ) from None
    return cma
