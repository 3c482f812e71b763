"""Goodness of fit: the residual that noise and compression explain, and consequences of a larger residual."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.compression import CompressedFilm, bytes_per_frame, compression_power, noise_variance
from risp_torch.inversion.linearisation import Linearisation
from risp_torch.inversion.uncertainty import Uncertainty

MISFIT = 4.0  # times the explained residual: a larger mean squared residual is a misfit


def explained_residual(
    at: Linearisation, estimate: torch.Tensor | None, pictures: torch.Tensor | None, films: list[CompressedFilm], video: object,
    floor: float,
) -> float | None:  # fmt: skip
    """Mean squared residual that rounding, noise and compression explain; None if a loss has other errors."""
    loss, frames = at.comparison.loss, list(at.comparison.frames)
    if not loss.needs_film or loss.noise is not None:
        return floor
    if loss.lasting or not (films or loss.colors_of_pixels):
        return None
    noise = 0.0
    if loss.colors_of_pixels:
        noise = noise_variance(pictures[frames] - estimate[frames], None if loss.weights is None else loss.weights.of(frames))
    return floor + noise + (compression_power(films, _bytes_per_frame(video)) if films else 0.0)


def doubts_of_misfit(misfit: float, loss: float, explained: float, *, unmoved: bool) -> list[str]:
    """A sentence if the estimate does not fit the film."""
    if misfit <= MISFIT:
        return []
    guess = ", a guess that no step has changed," if unmoved else ""
    return [
        f"nothing fits this film: the best start{guess} leaves {misfit:.2g} times what noise and compression explain (loss "
        f"{loss:.2g}, explained {explained:.2g}): another minimum, bounds without the truth, or a scene unlike the film's; the "
        f"error bars are widened {misfit**0.5:.2g} times, as if the rest were noise, and need not hold"
    ]


def widened_by_misfit(bars: Uncertainty, misfit: float, widest: np.ndarray) -> Uncertainty:
    """Error bars, limited to the widest [K] that ranges and priors allow, for an estimate that does not fit the film.

    The bars treat the residual as noise. But errors of a wrong scene or minimum are correlated over the whole film, and
    count as another ``misfit`` times what noise explains.
    """
    if misfit <= MISFIT:
        return bars
    return replace(bars, sd=np.maximum(bars.sd, np.minimum(misfit**0.5 * bars.sd, widest)))


def _bytes_per_frame(video: Any) -> float:
    """Bytes per frame of a file, or of all files of several films."""
    return sum(map(_bytes_per_frame, video)) if isinstance(video, list) else bytes_per_frame(Path(video))
