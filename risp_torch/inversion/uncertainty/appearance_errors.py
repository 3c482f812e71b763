"""Shifts of an estimate by what a solved look cannot represent: lamps that are not soft, highlights, colours within a face.

Such errors have the same sign in all equally lit parts of a body, so that they add up over all blocks of the film. At the
estimate the unknowns have absorbed their sum: the residual does not show it. Films of the estimate in known looks do (a
parametric bootstrap: Efron and Tibshirani, An introduction to the bootstrap, 1993).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from risp_torch.inversion.appearance.matched_loss import SOFTNESS, MatchedLoss
from risp_torch.inversion.problem.films.rendered_film import motion_at
from risp_torch.inversion.problem.linearisation import Linearisation, linearise, newton_step
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.compression_refits import few_samples
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.rendering_parameters import RenderingParameters, default_psi
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

LOOKS = 4  # of the bootstrap: that of the scene, and others with drawn lights
MIN_LOSS = 1e-8  # mean squared residual of a look that is represented but for rounding


def look_moves(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, values: np.ndarray, explained: float | None
) -> np.ndarray:
    """Shifts of an estimate by errors of its solved look, [n, K] relative to the ranges; zeros [1, K] where nothing shows any.

    The scene is rendered at the estimate, with the edges of the loss, in its own look and under drawn lights. The look is solved
    from each of these films, and a Gauss-Newton step estimates the unknowns from it. Steps are scaled to errors as large as the
    residual that noise and compression do not explain, and by Student's t for their small number (``few_samples``).

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        values: [K] the estimate, physical units.
        explained: mean squared residual that noise and compression explain; None if unknown.
    """
    loss, moves = linearisation.comparison.loss, []
    if isinstance(loss, MatchedLoss) and explained is not None and linearisation.loss > explained:
        for film in _films_in_known_looks(scene, unknowns, values, loss):
            bound = loss.bind_target(film)
            target = bound.of_target(scene, film, list(linearisation.comparison.frames))
            own_film = linearise(scene, replace(linearisation.comparison, loss=bound, target=target), unknowns, values)
            own_film = replace(
                own_film,
                prior_matrix=linearisation.prior_matrix,
                prior_precision=linearisation.prior_precision,
                observation_variance=linearisation.observation_variance,
                prior_gradient=0.0,
            )
            if own_film.loss > MIN_LOSS:
                moves.append(newton_step(own_film) * ((linearisation.loss - explained) / own_film.loss) ** 0.5)
    return few_samples(len(moves)) * np.array(moves) if moves else np.zeros((1, len(values)))


def _films_in_known_looks(scene: Scene, unknowns: Unknowns, values: np.ndarray, loss: MatchedLoss) -> Iterator[torch.Tensor]:
    """Films [T, H, W, 3] of the estimate."""
    states, numbers = motion_at(scene, unknowns, values)
    if (edges := loss.settings.own_edges) is not None:
        scene = copy.deepcopy(scene)
        scene.style = replace(scene.style, antialias=edges.samples)
        sigma = edges.sigma(min(scene.camera.width, scene.camera.height))
        numbers[SOFTNESS] = torch.full((1,), sigma, dtype=bridge_dtype(), device=bridge_device())
    for lights in _lights(scene):
        with torch.no_grad():
            yield scene.render(states, numbers | lights)[0]


def _lights(scene: Scene) -> Iterator[dict[str, torch.Tensor]]:
    """Values [1, ...] of the parameters of lights, in place of the scene's own; those of the first look are the scene's."""
    yield {}
    try:
        distributions = {
            name: distribution for name, distribution in default_psi(scene).distributions.items() if name.startswith("light.")
        }
        psi = RenderingParameters(scene, distributions)
    except UserError:  # nothing can vary
        return
    drawn = psi.values(psi.sample(LOOKS - 1, seed=0))
    for number in range(LOOKS - 1):
        yield {name: value[number : number + 1] for name, value in drawn.items()}
