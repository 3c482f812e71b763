"""How well a film fixes the unknowns: error bars, directions that cannot be seen, and the way that is left to the minimum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from risp_torch.inversion.linearisation import Linearisation
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.unseen import hardly_fixed, size_of, unseen_directions
from ti_sim.base.rules import NotNegative, checked

BLOCK_FRAMES = 4  # over which compression errors hang together
UNSEEN = 0.25  # of the allowed range: a direction with a larger standard deviation is called unseen
NO_TRACE = 1e3  # ranges: standard deviation of a direction without a trace; rounding mixes a little of it into all others
_QUANTISATION = (1 / 255) ** 2 / 12  # variance of eight-bit pictures: no film is better than that


@dataclass(frozen=True)
class Uncertainty:
    """Error bars of an estimate.

    Attributes:
        sd: [K] standard deviations, scaled units (decades for log10).
        correlation: [K, K].
        observable: K flags; False where the film leaves the unknown free over a good part of its range.
        unseen: sentences that name directions which the film cannot tell.
        modes: [K, K] unit vectors (columns, in parts of the ranges) whose amounts the film tells independently of one another,
            smoothness left out; the best known comes first. Empty where they were not computed.
        mode_sd: [K] standard deviations of their amounts.
    """

    sd: np.ndarray
    correlation: np.ndarray
    observable: list[bool]
    unseen: list[str]
    modes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mode_sd: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def observable_modes(self) -> int | None:
        """How many of the modes the film fixes to better than a quarter of the ranges; None where they were not computed."""
        return int((self.mode_sd <= UNSEEN).sum()) if len(self.mode_sd) else None

    @property
    def covariance(self) -> np.ndarray:
        """[K, K], scaled units."""
        return self.correlation * np.outer(self.sd, self.sd)


def widened(
    bars: Uncertainty, unknowns: Unknowns, scatter: np.ndarray, shift: np.ndarray
) -> Uncertainty:
    """Error bars with what no local Jacobian knows: scatter of the starts and shift by compression, [K] scaled units.

    An unknown whose error bar then is wider than a quarter of its range counts as not observable.
    """
    sd = np.sqrt(bars.sd**2 + scatter**2 + shift**2)
    wide = sd > UNSEEN * unknowns.scaled_range()
    remarks = hardly_fixed(wide & np.array(bars.observable), sd, unknowns)
    observable = [bool(seen and not much) for seen, much in zip(bars.observable, wide, strict=True)]
    return replace(bars, sd=sd, observable=observable, unseen=bars.unseen + remarks)


def reach(at: Linearisation, step: np.ndarray, explained: float | None) -> float:
    """How many times a Gauss-Newton step the way to the minimum is, at least 1.

    A body's edge that is out of place by more than its own softness changes the picture no faster the farther it is off: a step
    then is as long as the edge is soft. What it would take from the loss is to all that has to go as the step is to the way.

    Args:
        at: where the step begins.
        step: [K] in parts of the ranges.
        explained: mean squared residual that stays at the minimum; None where it is not known.
    """
    if explained is None:
        return 1.0
    normal = at.normal_equations[0]
    falls = float(step @ normal @ step) / len(at.residual)
    return max(1.0, (at.loss - explained) / max(falls, 1e-300))


def unfinished(
    bars: Uncertainty, unknowns: Unknowns, step: np.ndarray, *, own: Uncertainty | None = None, times: float = 1.0,
    fit: float = 1.0,
) -> tuple[Uncertainty, list[str]]:
    """Error bars that cover the way to the minimum, and a sentence about it, where the search has not arrived.

    At a minimum the Gauss-Newton step is zero. Where it is longer than an error bar the bar says nothing of the minimum's place.

    Args:
        bars: at the estimate.
        unknowns: of the inversion.
        step: of the unknowns, [K] scaled units.
        own: error bars of the model that the step belongs to, which its length is measured by; ``bars`` by default.
        times: the way in steps (``reach``).
        fit: part of the residual's root mean square that stays at the minimum: the error bars there are narrower by it.

    Returns:
        The error bars, and a sentence for the step that is the longest beside its bar; none where the search has arrived.
    """
    own = own or bars
    observable, ranges = np.array(own.observable), unknowns.scaled_range()
    parts = np.where(observable, np.abs(step) / np.maximum(fit * own.sd, 1e-300), 0.0)
    if not (parts > 1).any():
        return bars, []
    worst = int(parts.argmax())
    size = size_of(abs(float(step[worst])), unknowns.units[worst], unknowns.scales[worst])
    sentence = (
        f"not converged: the next Gauss-Newton step would move {unknowns.labels[worst]} by {size.removeprefix('± ')}, "
        f"{parts[worst]:.2g} error bars; the bars are widened by the way that is left: search longer, or from other starts"
    )
    way = np.minimum(times * np.abs(step), ranges)
    return replace(bars, sd=np.where(observable, np.hypot(bars.sd, way), bars.sd)), [sentence]


@dataclass(frozen=True)
class Spread:
    """Covariances of an estimate by the Gauss-Newton model of the loss, in parts of the ranges.

    Attributes:
        values: [K] eigenvalues, rising, of J^T J and smoothness.
        vectors: [K, K] their eigenvectors (columns), the principal directions.
        noise: variance of the residual, times the frames that count as one.
        plain: [K, K] covariance by independent noise.
        robust: [K, K] covariance by errors that hang together within blocks.
    """

    values: np.ndarray
    vectors: np.ndarray
    noise: float
    plain: np.ndarray
    robust: np.ndarray

    @staticmethod
    def of(at: Linearisation, floor: float | None = None) -> Spread:
        """The spread at an estimate; ``floor`` as in ``uncertainty``."""
        film, _ = at.normal_equations
        floor = _QUANTISATION if floor is None else floor
        together = _lasting(at) if at.comparison.loss.lasting else 1.0
        noise = together * float((at.residual.double() ** 2).sum()) / max(1.0, len(at.residual) - together * len(film))
        values, vectors = _eigen(film + at.prior, max(noise, floor) / NO_TRACE**2)
        inverse = (vectors / values) @ vectors.T
        scores = _block_scores(at)
        return Spread(values, vectors, noise, noise * inverse, inverse @ (scores.T @ scores + noise * at.prior) @ inverse)

    @property
    def sizes(self) -> np.ndarray:
        """[K] error bars along the principal directions, of the larger covariance."""
        variances = [np.diag(self.vectors.T @ covariance @ self.vectors) for covariance in (self.plain, self.robust)]
        return np.sqrt(np.maximum(*variances))

    def stretch(self, times: np.ndarray) -> np.ndarray:
        """Matrix [K, K] that makes moves so many times [K] as long along the principal directions."""
        return (self.vectors * times) @ self.vectors.T

    def stretched(self, times: np.ndarray) -> Spread:
        """The spread so many times [K] as wide along the principal directions."""
        stretch = self.stretch(times)
        plain, robust = (stretch @ covariance @ stretch for covariance in (self.plain, self.robust))
        return replace(self, values=self.values / times**2, plain=plain, robust=robust)


@checked
def uncertainty(
    at: Linearisation, unknowns: Unknowns, *, floor: NotNegative | None = None, spread: Spread | None = None
) -> Uncertainty:
    """Error bars at an estimate, to first order.

    The residual noise gives the covariance s2 (J^T J)^-1; compression errors hang together within macroblocks, so the
    covariance is also summed over blocks of 16 × 16 pixels and 4 frames (the cluster-robust form (J^T J)^-1 (sum_c g_c g_c^T)
    (J^T J)^-1 with block scores g_c = J_c^T r_c; Liang and Zeger, 1986), and the larger error bar of the two holds. What
    compression does alike everywhere is not in it: see ``risp_torch.inversion.compression``.

    Smoothness counts as knowledge beside the film: in error bars and in what is called unseen, and not in the modes.

    What a network errs by in one frame it errs by in the next, too. For losses whose errors last, the first covariance therefore
    counts only as many frames as are independent, by the residual's correlation over time (``_lasting``), and the blocks of the
    second are the single outputs.

    Args:
        at: linearisation at the estimate.
        unknowns: of the inversion.
        floor: variance of the observations below which no target is exact (``Loss.floor``); eight-bit pictures' by default.
        spread: covariances that are known better than those of the Gauss-Newton model (``risp_torch.inversion.flatness``).
    """
    film, _ = at.normal_equations
    count = len(film)
    spread = spread or Spread.of(at, floor)
    noise = max(spread.noise, _QUANTISATION if floor is None else floor)
    plain, vectors = spread.plain, spread.vectors
    sd = np.sqrt(np.maximum(np.diag(plain), np.diag(spread.robust)))
    scale = np.sqrt(np.maximum(np.diag(plain), 1e-300))
    direction_sd = np.sqrt(noise / spread.values)
    weak = [k for k in range(count) if direction_sd[k] > UNSEEN]
    loose = np.zeros(count) if not weak else np.abs(vectors[:, weak]).max(axis=1)
    film_values, modes = _eigen(film, noise / NO_TRACE**2)
    mode_sd = np.sqrt(noise / film_values)
    return Uncertainty(
        sd=sd * unknowns.scaled_range(),
        correlation=plain / np.outer(scale, scale),
        observable=[bool(size < 0.3) for size in loose],
        unseen=unseen_directions(vectors[:, weak], direction_sd[weak], unknowns),
        modes=modes[:, ::-1], mode_sd=mode_sd[::-1],
    )  # fmt: skip


def _eigen(matrix: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rising and at least ``least``, and eigenvectors of normal equations."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, least), vectors


def without_error_bars(count: int) -> Uncertainty:
    """What stands for error bars of K unknowns that were not computed: NaN."""
    nothing = np.full(count, np.nan)
    return Uncertainty(nothing, np.full((count, count), np.nan), [True] * count, [])


def _block_scores(at: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c, [blocks, K]."""
    blocks = torch.as_tensor(at.comparison.blocks).to(at.residual.device)
    size = int(blocks.max()) + 1
    scores = at.residual.new_zeros((size * (at.comparison.last // BLOCK_FRAMES + 1), at.jacobian.shape[1])).double()
    for frame, (jacobian, residual) in zip(at.comparison.frames, at.frames(), strict=True):
        scores.index_add_(0, frame // BLOCK_FRAMES * size + blocks, jacobian * residual[:, None])
    return scores.cpu().numpy()


def _lasting(at: Linearisation) -> float:
    """How many frames' errors count as one: 1 + 2 sum_k c_k over lags k, up to the first c_k <= 0.

    c_k is the residual's correlation with itself k frames later, summed over the observations. An error that stays the same
    through n frames gives n.
    """
    rows = at.residual.double().reshape(len(at.comparison.frames), -1)
    power = float((rows * rows).sum())
    total = 1.0
    for lag in range(1, len(rows)):
        correlation = float((rows[:-lag] * rows[lag:]).sum()) / max(power, 1e-300)
        if correlation <= 0:
            break
        total += 2.0 * correlation
    return total
