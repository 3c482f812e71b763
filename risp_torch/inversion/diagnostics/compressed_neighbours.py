"""Compressed films of points near an estimate: samples of the errors that a film has if the scene is correct."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch

from risp_torch.inversion.diagnostics.near_motions import motions_near
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.compression import CompressedFilm, Encoder
from risp_torch.inversion.uncertainty.covariance import Uncertainty
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, checked

NUM_ENCODERS = 2  # threads that encode and decode films
NUM_FILMS, CRF_BOUNDS = 48, (0, 51)
CRF_OFFSETS = (0, -1, 1)  # of the constant rate factor, which the size of a file determines to about one


@checked
def compressed_neighbours(
    scene: Scene,
    unknowns: Unknowns,
    linearisation: Linearisation,
    bars: Uncertainty,
    encoder: Encoder,
    crf: int,
    *,
    count: Count = NUM_FILMS,
) -> Iterator[CompressedFilm]:
    """The film of the estimate and those of neighbours, each after encoding and decoding.

    If the scene is correct, the film is that of a point within the error bars. Its errors depend on the position of edges on the
    encoder's grids, on the quality, and on displacements of edges by fractions of a pixel. The films vary the last two.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        bars: of the estimate; neighbours are drawn from the normal distribution with their covariance, within the bounds.
        encoder: of the estimate's film.
        crf: constant rate factor of H.264, that of the estimate's film and of one of three neighbours; the others' are one apart.
        count: number of films; neighbours that diverge are left out.

    Yields:
        At most ``count`` films, the estimate's first; few are in memory at a time, as their pictures take much of it.
    """
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    draws = np.random.default_rng(0).standard_normal((count - 1, len(linearisation.scaled)))
    directions, scaled = bars.sd * _symmetric_root(bars.correlation), linearisation.scaled
    moves = np.clip(scaled + draws @ directions, low, high) - scaled
    with ThreadPoolExecutor(NUM_ENCODERS) as workers:  # films are encoded while the next ones are rendered
        films = deque([workers.submit(encoder.film, crf)])
        motions = motions_near(scene, unknowns, scaled, moves, directions)
        for number, (states, values) in enumerate(motions, start=1):
            with torch.no_grad():
                neighbour = linearisation.comparison.loss.render(scene, states, values)[0]
            if bool(neighbour.isfinite().all()):
                neighbour_crf = float(np.clip(crf + CRF_OFFSETS[number % 3], *CRF_BOUNDS))
                films.append(workers.submit(replace(encoder, estimate=neighbour).film, neighbour_crf))
            if len(films) > NUM_ENCODERS:
                yield films.popleft().result()
        while films:
            yield films.popleft().result()


def _symmetric_root(matrix: np.ndarray) -> np.ndarray:
    """Symmetric root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
