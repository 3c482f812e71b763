"""How well a film fixes the unknowns: image Jacobian, error bars, directions that cannot be seen; Gauss-Newton steps."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from risp_torch.inversion.film import film
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene import Scene
from risp_torch.video import read_video, write_video

BLOCK = 16  # pixels: side of a macroblock of H.264, within which compression errors hang together
BLOCK_FRAMES = 4
UNSEEN = 0.25  # of the allowed range: a direction with a larger standard deviation is called unseen


@dataclass(frozen=True)
class Linearisation:
    """A film near one set of unknowns.

    Attributes:
        residual: target - film, [P] (P = frames × pixels × 3).
        jacobian: [P, K] derivative of the film with respect to the scaled unknowns divided by their ranges.
        scaled: [K] scaled coordinates of the point.
        shape: (T, H, W, 3) of the film.
    """

    residual: torch.Tensor
    jacobian: torch.Tensor
    scaled: np.ndarray
    shape: tuple[int, ...]

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
    scene: Scene, target: torch.Tensor, unknowns: Unknowns, physical: np.ndarray, *, step: float = 1e-3, frames: int | None = None
) -> Linearisation:
    """Residual and image Jacobian at ``physical`` [K], by central differences over one batch of 2 K + 1 worlds.

    Args:
        scene, target, unknowns: of the inversion.
        physical: values of the unknowns.
        step: of the differences, in parts of the allowed range (it shrinks near a bound).
        frames: frame intervals; the whole target by default.
    """
    scaled = unknowns.scaled(physical)
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    steps = np.minimum(step * ranges, np.maximum(np.minimum(scaled - low, high - scaled), 0.1 * step * ranges))
    points = np.concatenate([scaled[None], scaled + np.diag(steps), scaled - np.diag(steps)])
    count = len(scaled)
    frames = frames or target.shape[0] - 1
    with torch.no_grad():
        rows = torch.as_tensor(points, dtype=target.dtype, device=target.device)
        pictures, _ = film(scene, unknowns.from_scaled(rows), worlds=len(rows), frames=frames)
        flat = pictures.flatten(1)
        jacobian = (flat[1 : 1 + count] - flat[1 + count :]).T
        jacobian = jacobian * torch.as_tensor(ranges / (2 * steps), dtype=target.dtype, device=target.device)
        residual = (target[: frames + 1] - pictures[0]).flatten()
    return Linearisation(residual, jacobian, scaled, tuple(pictures.shape[1:]))


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
    count, frames = len(at.scaled), at.shape[0] - 1
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    room = np.maximum(np.minimum(at.scaled - low, high - at.scaled) / ranges, 0.1 * step)
    jacobian = at.jacobian
    for _ in range(rounds if count > 1 else 0):
        values, vectors = np.linalg.eigh((jacobian.T.double() @ jacobian.double()).cpu().numpy())
        response = np.sqrt(np.maximum(values, 1e-30 * max(values.max(), 1e-30)))
        steps = step * np.clip(response.max() / response, 1.0, widest)
        steps = np.minimum(steps, (room[:, None] / np.maximum(np.abs(vectors), 1e-12)).min(axis=0))
        moves = (steps * vectors).T * ranges
        rows = torch.as_tensor(np.concatenate([at.scaled + moves, at.scaled - moves])).to(jacobian)
        with torch.no_grad():
            pictures, finite = film(scene, unknowns.from_scaled(rows), worlds=len(rows), frames=frames)
        if not finite.all():
            return at
        flat = pictures.flatten(1)
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


def uncertainty(at: Linearisation, unknowns: Unknowns) -> Uncertainty:
    """Error bars at an estimate, to first order.

    The residual noise gives the covariance s2 (J^T J)^-1; compression errors hang together within macroblocks, so the
    covariance is also summed over blocks of 16 × 16 pixels and 4 frames (the cluster-robust form (J^T J)^-1 (sum_c g_c g_c^T)
    (J^T J)^-1 with block scores g_c = J_c^T r_c; Liang and Zeger, 1986), and the larger error bar of the two holds. What
    compression does alike everywhere is not in it: see ``compression_shift``.
    """
    normal, _ = _normal_equations(at)
    count = len(normal)
    noise = float((at.residual.double() ** 2).sum()) / max(1, len(at.residual) - count)
    values, vectors = np.linalg.eigh(normal)
    values = np.maximum(values, 1e-30 * max(values.max(), 1e-30))
    inverse = (vectors / values) @ vectors.T
    plain = noise * inverse
    scores = _block_scores(at)
    robust = inverse @ (scores.T @ scores) @ inverse
    sd = np.sqrt(np.maximum(np.diag(plain), np.diag(robust)))
    scale = np.sqrt(np.maximum(np.diag(plain), 1e-300))
    direction_sd = np.sqrt(np.maximum(noise, _QUANTISATION) / values)
    weak = [vectors[:, k] for k in range(count) if direction_sd[k] > UNSEEN]
    loose = np.zeros(count) if not weak else np.max(np.abs(np.stack(weak)), axis=0)
    return Uncertainty(
        sd=sd * unknowns.scaled_range(),
        correlation=plain / np.outer(scale, scale),
        observable=[bool(size < 0.3) for size in loose],
        unseen=[describe_direction(vector, unknowns) for vector in weak],
    )


def compression_shift(at: Linearisation, estimate: torch.Tensor, unknowns: Unknowns, *, fps: float) -> np.ndarray:
    """How far video compression alone moves an estimate, [K] scaled units.

    The film of the estimate is itself compressed (H.264, 4:2:0) at the quality whose errors are as large as the residual, and
    one Gauss-Newton step reads the unknowns from what comes back. Errors of compression are no noise: they blur every edge of
    every frame the same way, and no average over pixels shows it.

    Args:
        at: linearisation at the estimate.
        estimate: film of the estimate, [T, H, W, 3] linear rgb.
        unknowns: of the inversion.
        fps: frames per second.
    """
    trials = []
    with tempfile.TemporaryDirectory() as folder:
        for crf in (8, 13, 18, 23, 28, 33, 38):
            path = Path(folder) / f"{crf}.mp4"
            write_video(path, estimate.cpu().numpy(), fps=fps, crf=crf)
            returned = torch.as_tensor(read_video(path), dtype=estimate.dtype, device=estimate.device)
            residual = (returned - estimate).flatten()
            mismatch = abs(np.log(float((residual**2).mean()) + 1e-12) - np.log(at.loss + 1e-12))
            trials.append((mismatch, crf, residual))
    _, _, residual = min(trials, key=lambda trial: trial[:2])
    return newton_step(replace(at, residual=residual)) * unknowns.scaled_range()


_QUANTISATION = (1 / 255) ** 2 / 12  # variance of eight-bit pictures: no film is better than that


def describe_direction(direction: np.ndarray, unknowns: Unknowns) -> str:
    """One sentence about a direction [K] (in parts of the ranges) that the film cannot tell."""
    labels = np.array(unknowns.labels)
    parts = [str(label) for label in labels[np.abs(direction) >= 0.2]]
    if len(parts) == 1:
        return f"{parts[0]} leaves no trace in the film"
    decades = direction * unknowns.scaled_range()
    chosen = decades[np.abs(direction) >= 0.2]
    logs = all(scale == "log10" for scale, part in zip(unknowns.scales, direction, strict=True) if abs(part) >= 0.2)
    names = ", ".join(parts)
    if logs and np.ptp(chosen) < 0.15 * np.abs(chosen).mean():
        return f"{names} only up to a common scale"
    signs = ", ".join(f"{'+' if value > 0 else '-'}{label}" for label, value in zip(parts, chosen, strict=True))
    return f"{names} only in combination ({signs} together leave no trace)"


def _normal_equations(at: Linearisation) -> tuple[np.ndarray, np.ndarray]:
    jacobian = at.jacobian.double()
    return (jacobian.T @ jacobian).cpu().numpy(), (jacobian.T @ at.residual.double()).cpu().numpy()


def _block_scores(at: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c, [blocks, K]."""
    frames, height, width, channels = at.shape
    scores = (at.jacobian * at.residual[:, None]).double().reshape(frames, height, width, channels, -1).sum(3)
    pad = [-frames % BLOCK_FRAMES, -height % BLOCK, -width % BLOCK]
    scores = torch.nn.functional.pad(scores, (0, 0, 0, pad[2], 0, pad[1], 0, pad[0]))
    t, h, w = (size // block for size, block in zip(scores.shape, (BLOCK_FRAMES, BLOCK, BLOCK), strict=False))
    blocks = scores.reshape(t, BLOCK_FRAMES, h, BLOCK, w, BLOCK, -1).sum((1, 3, 5))
    return blocks.reshape(-1, blocks.shape[-1]).cpu().numpy()
