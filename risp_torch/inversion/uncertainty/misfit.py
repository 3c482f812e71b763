"""Goodness of fit: the residual that noise and compression explain, and consequences of a larger residual."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.effective_sample_size import design_effect
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.uncertainty.compression import CompressedFilm, compression_power, noise_variance
from risp_torch.inversion.uncertainty.covariance import Uncertainty

MISFIT_RATIO = 4.0  # times the explained residual: a larger mean squared residual is a misfit
DOUBTED_RATIO = 1.3  # times the explained residual: a larger one is reported even if it does not affect the estimate
STILL_TOLERANCE, MIN_STILL_PIXELS = 1e-4, 64  # largest change of a still pixel, and still pixels that a noise estimate needs


def explained_residual(
    linearisation: Linearisation, estimate: torch.Tensor | None, pictures: torch.Tensor | None, films: list[CompressedFilm],
    size: float | None, floor: float,
) -> float | None:  # fmt: skip
    """Mean squared residual that rounding, noise and compression explain; None if a loss has other errors."""
    loss, frames = linearisation.comparison.loss, list(linearisation.comparison.frames)
    if not loss.needs_film or loss.noise is not None:
        return floor if loss.noise is not None else max(floor, loss.rounding() or 0.0)
    if loss.temporally_correlated or not (films or loss.colors_of_pixels):
        return None
    noise = 0.0
    if loss.colors_of_pixels:
        difference = pictures[frames] - estimate[frames]
        compared = loss.read(difference) if isinstance(loss, PixelLoss) else difference
        noise = noise_variance(compared, None if loss.weights is None else loss.weights.of(frames))
    return max(floor, rounding_error(linearisation, estimate)) + noise + _compression(films, size)


def rounding_samples(loss: Loss, estimate: torch.Tensor, frames: list[int], count: int = 30) -> torch.Tensor:
    """Changes of a loss's observations by rounding to eight bits, of films that differ by parts of a grey level, [count, P].

    Areas of one colour have equal rounding errors: such errors are not independent.
    """
    random = np.random.default_rng(0)
    stored, samples = linear_to_srgb(estimate[frames].clamp(0, 1).cpu().numpy()), []
    for _ in range(count):
        samples.append(_rounded(loss, estimate, frames, np.clip(stored + random.uniform(-0.5, 0.5, 3) / 255, 0, 1)))
    return torch.stack(samples)


def local_noise(pictures: torch.Tensor, estimate: torch.Tensor, variance: float) -> torch.Tensor:
    """Variance of each observation's noise [P], relative to that of linear colours, if the noise is uniform in stored colours.

    Noise that is uniform in sRGB is larger in bright linear colours. The result is at least the noise of linear colours, since a
    film does not show which of the two it has.

    Args:
        pictures: the film [n, H, W, 3], linear rgb.
        estimate: film of the estimate [n, H, W, 3].
        variance: of linear colours.
    """
    film, simulated = (
        torch.as_tensor(linear_to_srgb(film_pictures.clamp(0, 1).cpu().numpy())) for film_pictures in (pictures, estimate)
    )
    stored = noise_variance((film - simulated).to(pictures))
    level = 1 / 255
    low, high = (simulated - level).clamp(0, 1), (simulated + level).clamp(0, 1)
    linear_difference = torch.as_tensor(srgb_to_linear(high.numpy()) - srgb_to_linear(low.numpy()))
    slope = (linear_difference / (high - low)).to(pictures)
    return (stored * slope**2 / max(variance, 1e-300)).clamp(min=1.0).flatten()


def rounding_error(linearisation: Linearisation, estimate: torch.Tensor) -> float:
    """Mean squared change of observations that are colours, by rounding the estimate's film [T, H, W, 3] to eight bits."""
    loss, frames = linearisation.comparison.loss, list(linearisation.comparison.frames)
    if not loss.colors_of_pixels:
        return 0.0
    stored = linear_to_srgb(estimate[frames].clamp(0, 1).cpu().numpy())
    return float((_rounded(loss, estimate, frames, stored).double() ** 2).sum()) / linearisation.comparison.observation_count


def _rounded(loss: Loss, estimate: torch.Tensor, frames: list[int], stored: np.ndarray) -> torch.Tensor:
    """Change [P] of the observations by rounding of stored colours [n, H, W, 3]."""
    with torch.no_grad():
        film, unrounded = (
            loss.compared(torch.as_tensor(srgb_to_linear(colors)).to(estimate), frames)
            for colors in (np.round(255 * stored) / 255, stored)
        )
    return (film - unrounded).flatten()


def doubts_of_misfit(misfit: float, loss: float, explained: float, *, unmoved: bool, noise_is_known: bool = True) -> list[str]:
    """A sentence if the estimate does not fit the film; ``noise_is_known`` is false for noise estimated from the data."""
    if misfit <= MISFIT_RATIO:
        return []
    guess = ", a guess that no step has changed," if unmoved else ""
    noise = "noise and compression explain" if noise_is_known else "usual errors of such data explain"
    return [
        f"nothing fits this film: the best start{guess} leaves {misfit:.2g} times what {noise} (loss "
        f"{loss:.2g}, explained {explained:.2g}): another minimum, bounds without the truth, or a scene unlike the film's; the "
        f"error bars are widened {misfit**0.5:.2g} times, as if the rest were noise, and need not hold"
    ]


def widened_by_misfit(bars: Uncertainty, misfit: float, widest: np.ndarray) -> Uncertainty:
    """Error bars, limited to the widest [K] that ranges and priors allow, for an estimate that does not fit the film.

    The bars treat the residual as noise. But errors of a wrong scene or minimum are correlated over the whole film, and
    count as another ``misfit`` times what noise explains.
    """
    if misfit <= MISFIT_RATIO:
        return bars
    return bars.wider(np.maximum(bars.sd, np.minimum(misfit**0.5 * bars.sd, widest)), "misfit")


def with_omitted_variable_bias(bars: Uncertainty, shifts: np.ndarray, widest: np.ndarray) -> Uncertainty:
    """Error bars with the largest of N shifts [N, K] (scaled units) by misspecifications.

    They are limited to the widest [K] that ranges and priors allow.
    """
    if not len(shifts):
        return bars
    sd = np.hypot(bars.sd, np.abs(shifts).max(axis=0))
    return bars.wider(np.maximum(bars.sd, np.minimum(sd, widest)), "wrong scene")


def _compression(films: list[CompressedFilm], size: float | None) -> float:
    """Mean squared residual that compression explains; 0 for a film that is not compressed."""
    return compression_power(films, size) if films else 0.0


@dataclass(frozen=True)
class Residual:
    """Size of a residual, and the size that the film's own noise explains.

    Attributes:
        mean_square: of the observations that count.
        explained: mean square that rounding, noise and compression explain; None if unknown.
        film_noise: variance that varies fast in time where no body is (``film_noise``); None without a film.
        noise: mean square that this noise, rounding and compression leave of the loss's observations; None if unknown.
        design_effect: number of observations that count as one independent observation.
    """

    mean_square: float
    explained: float | None
    film_noise: float | None
    noise: float | None
    design_effect: float

    @staticmethod
    def of(
        linearisation: Linearisation, estimate: torch.Tensor | None, pictures: torch.Tensor | None, films: list[CompressedFilm],
        size: float | None, explained: float | None,
    ) -> Residual:  # fmt: skip
        """The residual at an estimate.

        Args:
            linearisation: linearisation there.
            estimate: its film [T, H, W, 3]; None for a loss that compares no pictures of a film.
            pictures: the film [T, H, W, 3], or None.
            films: the estimate's film after compression, where the film is compressed.
            size: bytes per frame of the film's file, where it is compressed.
            explained: mean squared residual that is explained, or None.
        """
        loss, frames = linearisation.comparison.loss, list(linearisation.comparison.frames)
        variance, noise = None, None
        if estimate is not None and pictures is not None:
            variance = film_noise(pictures, estimate)
        if variance is not None and not loss.temporally_correlated and loss.weights is None:
            noise = (
                loss.noise_floor(estimate[frames]) + _compression(films, size) + noise_through(loss, estimate, frames, variance)
            )
        return Residual(linearisation.loss, explained, variance, noise, design_effect(linearisation))

    def to_json(self) -> dict[str, float | None]:
        """All of it, and the residual over the film's noise, as JSON values."""
        ratio = None if not self.noise else self.mean_square / self.noise
        return {**asdict(self), "over_noise": ratio}


def film_noise(pictures: torch.Tensor, estimate: torch.Tensor) -> float | None:
    """Variance of fast variations in time in pixels of a film that no body covers; None if there are too few.

    That is a sixth of the mean square of second differences in time, where the film of the estimate stands still.

    Args:
        pictures: the film [T, H, W, 3], linear rgb.
        estimate: film of the estimate [T, H, W, 3].
    """
    if len(pictures) < 3:
        return None
    moves = torch.maximum((estimate[1:-1] - estimate[:-2]).abs(), (estimate[2:] - estimate[1:-1]).abs()).amax(dim=-1)
    still = moves < STILL_TOLERANCE
    if int(still.sum()) < MIN_STILL_PIXELS:
        return None
    second = (pictures[2:] - 2 * pictures[1:-1] + pictures[:-2])[still]
    return float((second.double() ** 2).mean()) / 6.0


def noise_through(loss: Loss, estimate: torch.Tensor, frames: list[int], variance: float) -> float:
    """Mean squared change of a loss's observations by noise of that variance in the film of the estimate [T, H, W, 3]."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(estimate[frames].shape, generator=random).to(estimate) * variance**0.5
    with torch.no_grad():
        change = loss.compared(estimate[frames] + noise, frames) - loss.compared(estimate[frames], frames)
    return float((change.double() ** 2).mean())
