"""Shifts of an estimate by video compression, found by estimating again from compressed films of the estimate.

A Gauss-Newton step estimates a shift where the picture changes linearly along it. Edges of a solved look are sharp, and
compression moves an estimate by more than they are soft: the step is then too short, or in the wrong direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.uncertainty.compression import CompressedFilm
from risp_torch.scene.scene import Scene

ROUNDS = 4


def refitted_moves(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, films: Sequence[CompressedFilm], size: float
) -> np.ndarray:
    """Shifts of an estimate by video compression, [n, K] relative to the ranges; that of the most similar film is first.

    The film of the estimate is compressed at the quality that gives it the size of the film's own file, and the unknowns are
    estimated from what the decoder returns, by a few Gauss-Newton rounds from the estimate. Each takes a Jacobian in the look of
    that film: with the Jacobian of the estimate, J^T r is not the gradient of the film's loss, and half of the refits end early.
    The next better and the next worse quality are also used, since a single film may have a small shift by chance. So few films
    estimate a standard deviation only roughly: the moves are multiplied by the ratio of Student's t to the normal distribution
    (Student, Biometrika 6, 1908).

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate.
        films: result of ``compressed_films``, best quality first.
        size: bytes of a frame of the film's file (``Encoding.size``).
    """
    closest = int(np.abs(np.log([film.bytes_per_frame for film in films]) - np.log(size)).argmin())
    similar = [number for number in (closest, closest - 1, closest + 1) if 0 <= number < len(films)]
    return few_samples(len(similar)) * np.array([_move(scene, unknowns, linearisation, films[number]) for number in similar])


def few_samples(count: int) -> float:
    """Factor by which a 95 % bar is wider if its standard deviation comes from a few samples of known mean (Student's t)."""
    from scipy.stats import norm, t  # takes most of a second

    return float(t.ppf(0.975, count) / norm.ppf(0.975))


def _move(scene: Scene, unknowns: Unknowns, linearisation: Linearisation, film: CompressedFilm) -> np.ndarray:
    """Shift [K] of the estimate in a compressed film, relative to the ranges."""
    loss = linearisation.comparison.loss.rebind_target(film.pictures)
    target = loss.of_target(scene, film.pictures, list(linearisation.comparison.frames))
    values = unknowns.physical_values(linearisation.scaled)[None]
    comparison = replace(linearisation.comparison, loss=loss, target=target)
    minima, _ = refined(scene, comparison, unknowns, values, ROUNDS, History(), thorough=False, progress=False)
    return (unknowns.scaled(minima[0]) - linearisation.scaled) / unknowns.scaled_range()
