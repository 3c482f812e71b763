"""How well a film fixes the unknowns: Jacobian, error bars, directions that cannot be seen; Gauss-Newton steps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from risp_torch.bridge import bridge_dtype
from risp_torch.bridge.checks import bridge_device
from risp_torch.inversion.comparison import Comparison
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene import Scene
from risp_torch.video import read_video, write_video

BLOCK_FRAMES = 4  # over which compression errors hang together
MOST_NAMED = 12  # unknowns that a sentence lists
UNSEEN = 0.25  # of the allowed range: a direction with a larger standard deviation is called unseen


@dataclass(frozen=True)
class Linearisation:
    """The observations of a film near one set of unknowns.

    Attributes:
        residual: target - simulation, [P] (with the pixel loss, P = frames × pixels × 3).
        jacobian: [P, K] derivative of the observations with respect to the scaled unknowns divided by their ranges.
        scaled: [K] scaled coordinates of the point.
        comparison: what was observed.
    """

    residual: torch.Tensor
    jacobian: torch.Tensor
    scaled: np.ndarray
    comparison: Comparison

    @property
    def loss(self) -> float:
        """Mean squared residual."""
        return float((self.residual**2).mean())


@dataclass(frozen=True)
class Uncertainty:
    """Error bars of an estimate.

    Attributes:
        sd: [K] standard deviations, scaled units (decades for log10).
        correlation: [K, K].
        observable: K flags; False where the film leaves the unknown free over a good part of its range.
        unseen: sentences that name directions which the film cannot tell.
    """

    sd: np.ndarray
    correlation: np.ndarray
    observable: list[bool]
    unseen: list[str]


def linearise(
    scene: Scene, target: torch.Tensor | Comparison, unknowns: Unknowns, physical: np.ndarray, *, step: float = 1e-3
) -> Linearisation:
    """Residual and Jacobian of the observations at ``physical`` [K], by central differences over 2 K + 1 worlds.

    Args:
        scene, unknowns: of the inversion.
        target: a film [T, H, W, 3] to compare by pixels, or any comparison.
        physical: values of the unknowns.
        step: of the differences, in parts of the allowed range (it shrinks near a bound).
    """
    comparison = Comparison.of_film(target)
    scaled = unknowns.scaled(physical)
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    steps = np.minimum(step * ranges, np.maximum(np.minimum(scaled - low, high - scaled), 0.1 * step * ranges))
    points = np.concatenate([scaled[None], scaled + np.diag(steps), scaled - np.diag(steps)])
    count = len(scaled)
    observed, _ = _observed(scene, comparison, unknowns, points)
    jacobian = (observed[1 : 1 + count] - observed[1 + count :]).T
    jacobian = jacobian * torch.as_tensor(ranges / (2 * steps)).to(jacobian)
    return Linearisation(comparison.target.flatten() - observed[0], jacobian, scaled, comparison)


def _observed(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, scaled: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """Observations [M, P] at scaled points [M, K], as many at a time as fit into memory, and which stayed finite [M]."""
    rows = torch.as_tensor(scaled, dtype=bridge_dtype(), device=bridge_device())
    parts = []
    with torch.no_grad():
        for some in rows.split(comparison.worlds_at_once):
            observed, finite = comparison.observe(scene, unknowns.from_scaled(some), worlds=len(some))
            parts.append((observed.flatten(1), finite))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def along_weak_directions(
    scene: Scene, unknowns: Unknowns, at: Linearisation, *, rounds: int = 4, step: float = 1e-3, widest: float = 100.0
) -> Linearisation:
    """The same linearisation, its Jacobian measured along its own principal directions instead of along single unknowns.

    A difference errs by a part of what it measures. Where the responses to several unknowns cancel (all masses and contact
    numbers scaled together move no body), the errors of the single columns remain, and the direction would seem to be seen.
    So the differences are taken again along the eigenvectors of J^T J, over steps that are the wider the weaker the response,
    and the eigenvectors anew: subspace iteration, whose weakest direction converges to the one that leaves no trace.

    Args:
        scene, unknowns: of the inversion.
        at: from ``linearise``.
        rounds: of the iteration, each one batch of 2 K worlds.
        step: of the differences along the strongest direction, in parts of the allowed range (it shrinks near a bound).
        widest: how many times that step is taken along the weakest direction at most.
    """
    count = len(at.scaled)
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    room = np.maximum(np.minimum(at.scaled - low, high - at.scaled) / ranges, 0.1 * step)
    jacobian = at.jacobian
    for _ in range(rounds if count > 1 else 0):
        values, vectors = np.linalg.eigh(_normal_equations(replace(at, jacobian=jacobian))[0])
        response = np.sqrt(np.maximum(values, 1e-30 * max(values.max(), 1e-30)))
        steps = step * np.clip(response.max() / response, 1.0, widest)
        steps = np.minimum(steps, (room[:, None] / np.maximum(np.abs(vectors), 1e-12)).min(axis=0))
        moves = (steps * vectors).T * ranges
        points = np.concatenate([at.scaled + moves, at.scaled - moves])
        flat, finite = _observed(scene, at.comparison, unknowns, points)
        if not finite.all():
            return at
        directional = (flat[:count] - flat[count:]) / torch.as_tensor(2 * steps[:, None]).to(flat)
        jacobian = directional.T @ torch.as_tensor(vectors.T).to(flat)
    return replace(at, jacobian=jacobian)


def newton_step(at: Linearisation, *, damping: float = 1e-6) -> np.ndarray:
    """Levenberg-Marquardt step of the unknowns, [K] in parts of their ranges."""
    normal, gradient = _normal_equations(at)
    ridge = damping * np.trace(normal) / len(normal) + 1e-300
    return np.linalg.solve(normal + ridge * np.eye(len(normal)), gradient)


def weakest_direction(at: Linearisation) -> np.ndarray:
    """Unit direction [K] (in parts of the ranges) that changes the film least."""
    normal, _ = _normal_equations(at)
    return np.linalg.eigh(normal)[1][:, 0]


def widened(
    bars: Uncertainty, unknowns: Unknowns, scatter: np.ndarray, shift: np.ndarray
) -> Uncertainty:
    """Error bars with what no local Jacobian knows: scatter of the starts and shift by compression, [K] scaled units.

    An unknown whose error bar then is wider than a quarter of its range counts as not observable.
    """
    sd = np.sqrt(bars.sd**2 + scatter**2 + shift**2)
    wide = sd > UNSEEN * unknowns.scaled_range()
    remarks = [
        f"{label} is hardly fixed: its error bar is wider than a quarter of its range"
        for label, much, seen in zip(unknowns.labels, wide, bars.observable, strict=True)
        if much and seen
    ]
    observable = [bool(seen and not much) for seen, much in zip(bars.observable, wide, strict=True)]
    return replace(bars, sd=sd, observable=observable, unseen=bars.unseen + remarks)


def uncertainty(at: Linearisation, unknowns: Unknowns, *, floor: float | None = None) -> Uncertainty:
    """Error bars at an estimate, to first order.

    The residual noise gives the covariance s2 (J^T J)^-1; compression errors hang together within macroblocks, so the
    covariance is also summed over blocks of 16 × 16 pixels and 4 frames (the cluster-robust form (J^T J)^-1 (sum_c g_c g_c^T)
    (J^T J)^-1 with block scores g_c = J_c^T r_c; Liang and Zeger, 1986), and the larger error bar of the two holds. What
    compression does alike everywhere is not in it: see ``compression_shift``.

    What a network errs by in one frame it errs by in the next, too. For losses whose errors last, the first covariance therefore
    counts only as many frames as are independent, by the residual's correlation over time (``_lasting``), and the blocks of the
    second are the single outputs.

    Args:
        at: linearisation at the estimate.
        unknowns: of the inversion.
        floor: variance of the observations below which no target is exact (``Loss.floor``); eight-bit pictures' by default.
    """
    normal, _ = _normal_equations(at)
    count = len(normal)
    floor = _QUANTISATION if floor is None else floor
    together = _lasting(at) if at.comparison.loss.lasting else 1.0
    noise = together * float((at.residual.double() ** 2).sum()) / max(1.0, len(at.residual) - together * count)
    values, vectors = np.linalg.eigh(normal)
    values = np.maximum(values, 1e-30 * max(values.max(), 1e-30))
    inverse = (vectors / values) @ vectors.T
    plain = noise * inverse
    scores = _block_scores(at)
    robust = inverse @ (scores.T @ scores) @ inverse
    sd = np.sqrt(np.maximum(np.diag(plain), np.diag(robust)))
    scale = np.sqrt(np.maximum(np.diag(plain), 1e-300))
    direction_sd = np.sqrt(np.maximum(noise, floor) / values)
    weak = [vectors[:, k] for k in range(count) if direction_sd[k] > UNSEEN]
    loose = np.zeros(count) if not weak else np.max(np.abs(np.stack(weak)), axis=0)
    return Uncertainty(
        sd=sd * unknowns.scaled_range(),
        correlation=plain / np.outer(scale, scale),
        observable=[bool(size < 0.3) for size in loose],
        unseen=[describe_direction(vector, unknowns) for vector in weak],
    )


def without_error_bars(count: int) -> Uncertainty:
    """What stands for error bars of K unknowns that were not computed: NaN."""
    nothing = np.full(count, np.nan)
    return Uncertainty(nothing, np.full((count, count), np.nan), [True] * count, [])


def compression_shift(at: Linearisation, estimate: torch.Tensor, unknowns: Unknowns, *, fps: float) -> np.ndarray:
    """How far video compression alone moves an estimate, [K] scaled units.

    The film of the estimate is itself compressed (H.264, 4:2:0) at the quality whose errors are as large as the residual, and
    one Gauss-Newton step reads the unknowns from what comes back. Errors of compression are no noise: they blur every edge of
    every frame the same way, and no average over pixels shows it.

    Args:
        at: linearisation at the estimate, of a loss that looks at pictures.
        estimate: film of the estimate, [T, H, W, 3] linear rgb.
        unknowns: of the inversion.
        fps: frames per second.
    """
    loss, frames = at.comparison.loss, list(at.comparison.frames)
    trials = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        own = loss.read(estimate[frames])
        for crf in (8, 13, 18, 23, 28, 33, 38):
            path = Path(folder) / f"{crf}.mp4"
            write_video(path, estimate.cpu().numpy(), fps=fps, crf=crf)
            returned = torch.as_tensor(read_video(path), dtype=estimate.dtype, device=estimate.device)
            residual = (loss.read(returned[frames]) - own).flatten()
            mismatch = abs(np.log(float((residual**2).mean()) + 1e-12) - np.log(at.loss + 1e-12))
            trials.append((mismatch, crf, residual))
    _, _, residual = min(trials, key=lambda trial: trial[:2])
    return newton_step(replace(at, residual=residual)) * unknowns.scaled_range()


_QUANTISATION = (1 / 255) ** 2 / 12  # variance of eight-bit pictures: no film is better than that


def describe_direction(direction: np.ndarray, unknowns: Unknowns) -> str:
    """One sentence about a direction [K] (in parts of the ranges) that the film cannot tell."""
    labels = np.array(unknowns.labels)
    large = np.abs(direction) >= min(0.2, 0.5 * np.abs(direction).max())  # of many unknowns none need have a large part
    if large.sum() > MOST_NAMED:
        return f"{large.sum()} of the {len(labels)} unknowns, {labels[np.abs(direction).argmax()]} first, only in combination"
    parts = [str(label) for label in labels[large]]
    if len(parts) == 1:
        return f"{parts[0]} leaves no trace in the film"
    decades = direction * unknowns.scaled_range()
    chosen = decades[large]
    logs = all(scale == "log10" for scale, part in zip(unknowns.scales, large, strict=True) if part)
    names = ", ".join(parts)
    if logs and np.ptp(chosen) < 0.15 * np.abs(chosen).mean():
        return f"{names} only up to a common scale"
    signs = ", ".join(f"{'+' if value > 0 else '-'}{label}" for label, value in zip(parts, chosen, strict=True))
    return f"{names} only in combination ({signs} together leave no trace)"


def _normal_equations(at: Linearisation) -> tuple[np.ndarray, np.ndarray]:
    """J^T J [K, K] and J^T r [K]."""
    count = at.jacobian.shape[1]
    normal, gradient = at.residual.new_zeros((count, count)).double(), at.residual.new_zeros(count).double()
    for jacobian, residual in _frames(at):
        normal += jacobian.T @ jacobian
        gradient += jacobian.T @ residual
    return normal.cpu().numpy(), gradient.cpu().numpy()


def _block_scores(at: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c, [blocks, K]."""
    blocks = torch.as_tensor(at.comparison.blocks).to(at.residual.device)
    size = int(blocks.max()) + 1
    scores = at.residual.new_zeros((size * (at.comparison.last // BLOCK_FRAMES + 1), at.jacobian.shape[1])).double()
    for frame, (jacobian, residual) in zip(at.comparison.frames, _frames(at), strict=True):
        scores.index_add_(0, frame // BLOCK_FRAMES * size + blocks, jacobian * residual[:, None])
    return scores.cpu().numpy()


def _frames(at: Linearisation) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Jacobian [D, K] and residual [D] of each frame, in double precision: all frames at once may be gigabytes."""
    count = len(at.comparison.frames)
    for jacobian, residual in zip(at.jacobian.chunk(count), at.residual.chunk(count), strict=True):
        yield jacobian.double(), residual.double()


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
