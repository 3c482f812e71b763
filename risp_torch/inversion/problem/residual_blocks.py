"""Blocks of observations with correlated errors, in space and in time, at several sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from risp_torch.inversion.problem.linearisation import Linearisation

BLOCK_FRAMES = 4  # over which compression errors are correlated
PICTURE_BANDS, FILM_PARTS = 4, 6  # parts of the picture and of the film: the largest blocks
MIN_BLOCKS_PER_UNKNOWN = 2  # with fewer blocks, the covariance of their scores is unreliable


def block_scores(linearisation: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c of the loss and of ``BLOCK_FRAMES`` frames, [blocks, K]."""
    (scores,) = block_scores_of(linearisation, [linearisation.residual])
    return scores


def block_scores_of(linearisation: Linearisation, residuals: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """``block_scores`` of each of several residuals, a list of [blocks, K].

    Args:
        linearisation: linearisation at the estimate.
        residuals: [P] each, or [n, P] for n of them.
    """
    frames = np.array(linearisation.comparison.frames) // BLOCK_FRAMES
    positions = np.arange(int(linearisation.comparison.blocks.max()) + 1)
    return [_sums(scores, positions, frames) for scores in _scores_of_frames(linearisation, residuals)] if len(residuals) else []


def scores_of_sizes(linearisation: Linearisation) -> list[np.ndarray]:
    """Scores of blocks of several sizes, a list of [blocks, K].

    First those of ``block_scores``. Then, for errors that reach farther, whole frames, and quarters of the picture (bands of
    successive blocks) through a sixth of the film each. Scores add up to nothing at a minimum, so that G blocks have G - 1
    degrees of freedom: their scores are multiplied by the root of G / (G - 1). Sizes with too few blocks are
    omitted, and losses with errors that are correlated in time have only the first.
    """
    (scores,) = _scores_of_frames(linearisation, [linearisation.residual])
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


def _scores_of_frames(linearisation: Linearisation, residuals: Sequence[torch.Tensor]) -> np.ndarray:
    """J^T r of every block of the loss in every frame, for each of the residuals, [residuals, frames, blocks, K] f64.

    Residuals are [P], or [n, P] for n of them, whose rows are not copied.
    """
    members, is_member = _members(linearisation.comparison.blocks)
    frame_count, unknowns = len(linearisation.comparison.frames), linearisation.jacobian.shape[1]
    blocks, max_size = members.shape
    indices = torch.as_tensor(members.ravel(), device=linearisation.jacobian.device)
    has_fillers, is_member = not is_member.all(), torch.as_tensor(is_member, device=linearisation.jacobian.device)
    groups = [torch.atleast_2d(residual) for residual in residuals]
    scores = np.zeros((sum(len(group) for group in groups), frame_count, blocks, unknowns))
    frames = zip(
        linearisation.jacobian.T.chunk(frame_count, dim=1), *(group.chunk(frame_count, dim=1) for group in groups), strict=True
    )

    def in_blocks(rows: torch.Tensor) -> torch.Tensor:
        # Blocks first and contiguous before the matrix products, which are slow in double precision over other strides.
        return rows.index_select(1, indices).view(len(rows), blocks, max_size).movedim(1, 0).contiguous().double()

    for index, (columns, *errors) in enumerate(frames):  # one frame at a time: all in double precision may need gigabytes
        terms = torch.cat([in_blocks(rows) for rows in errors], dim=1)
        if has_fillers:
            terms *= is_member[:, None]
        scores[:, index] = (terms @ in_blocks(columns).mT).movedim(1, 0).cpu().numpy()
    return scores


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
