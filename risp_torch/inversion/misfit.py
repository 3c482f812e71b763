"""Whether an estimate fits the film: what noise and compression explain of the residual, and what follows where they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.compression import CompressedFilm, bytes_per_frame, compression_power, noise_variance
from risp_torch.inversion.linearisation import Linearisation
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.uncertainty import Uncertainty

MISFIT = 4.0  # times what noise and compression explain: a larger mean squared residual fits nothing


def explained_residual(
    at: Linearisation, estimate: torch.Tensor | None, pictures: torch.Tensor | None, films: list[CompressedFilm], video: object,
    floor: float,
) -> float | None:  # fmt: skip
    """Mean squared residual that rounding, noise and compression explain; None where a loss has other errors, too."""
    loss, frames = at.comparison.loss, list(at.comparison.frames)
    if not loss.needs_film:
        return floor
    if loss.lasting or not (films or isinstance(loss, PixelLoss)):
        return None
    noise = noise_variance(pictures[frames] - estimate[frames]) if isinstance(loss, PixelLoss) else 0.0
    return floor + noise + (compression_power(films, _bytes_per_frame(video)) if films else 0.0)


def doubts_of_misfit(misfit: float, loss: float, explained: float, *, unmoved: bool) -> list[str]:
    """A sentence where the estimate does not fit the film."""
    if misfit <= MISFIT:
        return []
    guess = ", a guess that no step has moved," if unmoved else ""
    return [
        f"nothing fits this film: the best start{guess} leaves {misfit:.2g} times what noise and compression explain (loss "
        f"{loss:.2g}, explained {explained:.2g}): another minimum, bounds without the truth, or a scene unlike the film's; the "
        f"error bars are widened {misfit**0.5:.2g} times, as if the rest were noise, and need not hold"
    ]


def widened_by_misfit(bars: Uncertainty, misfit: float, ranges: np.ndarray) -> Uncertainty:
    """Error bars, up to the ranges [K], where an estimate does not fit the film.

    The residual is in the bars as noise. It is none: errors of a wrong scene or minimum hang together over the whole film, and
    count as another ``misfit`` times what noise explains.
    """
    if misfit <= MISFIT:
        return bars
    return replace(bars, sd=np.maximum(bars.sd, np.minimum(misfit**0.5 * bars.sd, ranges)))


def _bytes_per_frame(video: Any) -> float:
    """Of a file, or of all files whose films are compared side by side."""
    return sum(map(_bytes_per_frame, video)) if isinstance(video, list) else bytes_per_frame(Path(video))
