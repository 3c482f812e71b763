"""Blocks of observations with correlated errors, in space and in time, at several sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation

BLOCK_FRAMES = 4  # over which compression errors are correlated
PICTURE_BANDS, FILM_PARTS = 4, 6  # parts of the picture and of the film: the largest blocks
MIN_BLOCKS_PER_UNKNOWN = 2  # with fewer blocks, the covariance of their scores is unreliable


@dataclass(frozen=True, eq=False)
class BlockOrder:
    """Order of the observations of a film by frame and block of the loss.

    Attributes:
        members: [blocks * size] int64, observations of a frame, block by block; smaller blocks repeat their last one.
        is_member: [blocks, size] 1 for each, or 0 for one that is repeated; None if all blocks have the same size.
        blocks: number of blocks.
        frames: number of frames.
    """

    members: torch.Tensor
    is_member: torch.Tensor | None
    blocks: int
    frames: int

    @staticmethod
    def of(comparison: Comparison, device: torch.device) -> BlockOrder:
        """The order of a comparison's observations, for tensors on a device."""
        members, is_member = _members(comparison.blocks)
        fillers = None if is_member.all() else torch.as_tensor(is_member, device=device)
        return BlockOrder(torch.as_tensor(members, device=device).flatten(), fillers, len(members), len(comparison.frames))

    def ordered(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, P] of observations in this order, [frames, blocks, n, size]; 0 for those that are repeated."""
        in_frames = rows.reshape(len(rows), self.frames, -1).index_select(2, self.members)
        result = in_frames.view(len(rows), self.frames, self.blocks, -1).permute(1, 2, 0, 3).contiguous()
        return result if self.is_member is None else result.mul_(self.is_member[:, None].to(result))


def block_scores(linearisation: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c of the loss and of ``BLOCK_FRAMES`` frames, [blocks, K]."""
    (scores,) = block_scores_of(linearisation, linearisation.residual[None])
    return scores


def block_scores_of(
    linearisation: Linearisation, residuals: torch.Tensor, samples: torch.Tensor | None = None
) -> list[np.ndarray]:
    """``block_scores`` of each of several residuals, a list of [blocks, K].

    Args:
        linearisation: linearisation at the estimate.
        residuals: [n, P], whose products are summed in double precision.
        samples: more residuals, [frames, blocks, m, size] in ``BlockOrder``; their products are in working precision, as they
            only give a covariance.
    """
    intervals = np.array(linearisation.comparison.frames) // BLOCK_FRAMES
    positions = np.arange(int(linearisation.comparison.blocks.max()) + 1)
    return [_sums(scores, positions, intervals) for scores in _scores_of_frames(linearisation, residuals, samples)]


def scores_of_sizes(linearisation: Linearisation) -> list[np.ndarray]:
    """Scores of blocks of several sizes, a list of [blocks, K].

    First those of ``block_scores``. Then, for errors that reach farther, whole frames, and quarters of the picture (bands of
    successive blocks) through a sixth of the film each. Scores add up to nothing at a minimum, so that G blocks have G - 1
    degrees of freedom: their scores are multiplied by the root of G / (G - 1). Sizes with too few blocks are
    omitted, and losses with errors that are correlated in time have only the first.
    """
    (scores,) = _scores_of_frames(linearisation, linearisation.residual[None])
    frame_count, block_count, unknowns = scores.shape
    frames = np.array(linearisation.comparison.frames)
    scores_by_size = [_sums(scores, np.arange(block_count), frames // BLOCK_FRAMES)]
    if linearisation.comparison.loss.temporally_correlated:
        return scores_by_size
    frame_scores = _sums(scores, np.zeros(block_count, dtype=np.int64), np.arange(frame_count))
    bands = _sums(
        scores,
        np.arange(block_count) * PICTURE_BANDS // block_count,
        np.arange(frame_count) * min(FILM_PARTS, frame_count) // frame_count,
    )
    for coarse_scores in (frame_scores, bands):
        blocks = int((np.abs(coarse_scores).sum(axis=1) > 0).sum())
        if blocks > MIN_BLOCKS_PER_UNKNOWN * unknowns:
            scores_by_size.append(coarse_scores * np.sqrt(blocks / (blocks - 1)))
    return scores_by_size


def _scores_of_frames(
    linearisation: Linearisation, residuals: torch.Tensor, samples: torch.Tensor | None = None
) -> np.ndarray:
    """J^T r of every block of the loss in every frame, for each of the residuals (see ``block_scores_of``), [residuals, frames,
    blocks, K] f64.
    """
    order = BlockOrder.of(linearisation.comparison, linearisation.jacobian.device)
    chunks = zip(
        linearisation.jacobian.T.chunk(order.frames, dim=1), residuals.chunk(order.frames, dim=1),
        [None] * order.frames if samples is None else samples, strict=True,
    )  # fmt: skip
    frame, scores = replace(order, frames=1), []
    for columns, errors, frame_samples in chunks:  # one frame at a time: all in double precision may need gigabytes
        (ordered_columns,) = frame.ordered(columns)
        products = [frame.ordered(errors)[0].double() @ ordered_columns.double().mT]
        if frame_samples is not None:
            products.append((frame_samples @ ordered_columns.mT).double())
        scores.append(torch.cat(products, dim=1).movedim(1, 0).cpu().numpy())
    return np.stack(scores, axis=1)


def _members(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations of each block, [blocks, largest size], and 1 for each or 0 where a smaller block repeats its last one."""
    order, sizes = np.argsort(blocks, kind="stable"), np.bincount(blocks)[:, None]
    positions = np.arange(sizes.max())[None]
    first = np.cumsum(sizes)[:, None] - sizes
    return order[first + np.clip(positions, None, np.maximum(sizes - 1, 0))], (positions < sizes).astype(np.float64)


def _sums(scores: np.ndarray, positions: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Sums [n, K] of scores [frames, blocks, K] over blocks with equal ``positions`` and frames with equal ``intervals``."""
    position_count = int(positions.max()) + 1
    sums = np.zeros((int(intervals.max()) + 1, position_count, scores.shape[2]))
    np.add.at(sums, (intervals[:, None], positions[None]), scores)
    return sums.reshape(-1, scores.shape[2])


def correlation_frames(linearisation: Linearisation) -> float:
    """Correlation length of the errors in frames: 1 + 2 sum_k c_k over lags k, up to the first c_k <= 0.

    c_k is the autocorrelation of the residual at lag k, summed over the observations. An error that is constant
    through n frames gives n.
    """
    rows = linearisation.residual.double().reshape(len(linearisation.comparison.frames), -1)
    power = float((rows * rows).sum())
    total = 1.0
    for lag in range(1, len(rows)):
        correlation = float((rows[:-lag] * rows[lag:]).sum()) / max(power, 1e-300)
        if correlation <= 0:
            break
        total += 2.0 * correlation
    return total
