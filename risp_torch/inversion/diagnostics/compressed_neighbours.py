"""Compressed films of neighbours of an estimate, whose errors are those of the film of a right scene."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.films.rendered_film import film_at
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.compression import CompressedFilm, Encoder
from risp_torch.inversion.uncertainty.covariance import Uncertainty
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, checked

COUNT, BOUNDS_OF_QUALITY = 16, (0, 51)
QUALITIES_APART = (0, -1, 1)  # constant rate factors; the size of a file determines its own to about one


@checked
def compressed_neighbours(
    scene: Scene,
    unknowns: Unknowns,
    linearisation: Linearisation,
    bars: Uncertainty,
    encoder: Encoder,
    crf: int,
    *,
    count: Count = COUNT,
) -> list[CompressedFilm]:
    """The film of the estimate and those of neighbours, each after encoding and decoding.

    If the scene is right, the film is that of a point within the error bars. Its errors depend on its place on the encoder's
    grids, on its quality, and on how far edges move in parts of a pixel. Neighbours share the place, and vary the others.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        bars: of the estimate; neighbours are drawn from the normal distribution with their covariance, within the bounds.
        encoder: of the estimate's film.
        crf: constant rate factor of H.264, that of the estimate's film and of one of three neighbours; the others' are one apart.
        count: number of films; neighbours that diverge are left out.

    Returns:
        At most so many films, the estimate's first.
    """
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    draws = np.random.default_rng(0).standard_normal((count - 1, len(linearisation.scaled)))
    moves = bars.sd * (draws @ _root(bars.correlation))
    films = [encoder.film(crf)]
    for number, point in enumerate(np.clip(linearisation.scaled + moves, low, high), start=1):
        neighbour = film_at(scene, unknowns, unknowns.physical_values(point), linearisation.comparison.loss)
        if bool(neighbour.isfinite().all()):
            quality = float(np.clip(crf + QUALITIES_APART[number % 3], *BOUNDS_OF_QUALITY))
            films.append(replace(encoder, estimate=neighbour).film(quality))
    return films


def _root(matrix: np.ndarray) -> np.ndarray:
    """Symmetric root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
