"""Blocks of observations whose errors hang together, in space and in time, at several sizes."""

from __future__ import annotations

import numpy as np
import torch

from risp_torch.inversion.linearisation import Linearisation

BLOCK_FRAMES = 4  # over which compression errors are correlated
BANDS, PARTS = 4, 6  # of the picture and of the film: the largest blocks
LEAST_BLOCKS = 2  # for each unknown: with fewer blocks, their scores say nothing


def block_scores(at: Linearisation) -> np.ndarray:
    """J_c^T r_c of every block c of the loss and of ``BLOCK_FRAMES`` frames, [blocks, K]."""
    frames = np.array(at.comparison.frames) // BLOCK_FRAMES
    return _sums(_scores_of_frames(at), np.arange(int(at.comparison.blocks.max()) + 1), frames)


def scores_of_sizes(at: Linearisation) -> list[np.ndarray]:
    """Scores of blocks of several sizes, a list of [blocks, K].

    First those of ``block_scores``. Then, for errors that reach farther, whole frames, and quarters of the picture (bands of
    successive blocks) through a sixth of the film each. Scores add up to nothing at a minimum, so that G blocks tell of G - 1:
    theirs are multiplied by the root of G / (G - 1). Sizes of which there are too few blocks are left out, and losses whose
    errors last through the film have the first alone.
    """
    scores = _scores_of_frames(at)
    count, size, unknowns = scores.shape
    frames = np.array(at.comparison.frames)
    sizes = [_sums(scores, np.arange(size), frames // BLOCK_FRAMES)]
    if at.comparison.loss.lasting:
        return sizes
    whole = _sums(scores, np.zeros(size, dtype=np.int64), np.arange(count))
    bands = _sums(scores, np.arange(size) * BANDS // size, np.arange(count) * min(PARTS, count) // count)
    for larger in (whole, bands):
        blocks = int((np.abs(larger).sum(axis=1) > 0).sum())
        if blocks > LEAST_BLOCKS * unknowns:
            sizes.append(larger * np.sqrt(blocks / (blocks - 1)))
    return sizes


def _scores_of_frames(at: Linearisation) -> np.ndarray:
    """J^T r of every block of the loss in every frame, [frames, blocks, K]."""
    blocks = torch.as_tensor(at.comparison.blocks).to(at.residual.device)
    frames = len(at.comparison.frames)
    scores = at.residual.new_zeros((frames, int(blocks.max()) + 1, at.jacobian.shape[1])).double()
    for own, (jacobian, residual) in zip(scores, at.frames(), strict=True):
        own.index_add_(0, blocks, jacobian * residual[:, None])
    return scores.cpu().numpy()


def _sums(scores: np.ndarray, places: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Sums [n, K] of scores [frames, blocks, K] over blocks with equal ``places`` and frames with equal ``times``."""
    count = int(places.max()) + 1
    sums = np.zeros((int(times.max()) + 1, count, scores.shape[2]))
    np.add.at(sums, (times[:, None], places[None]), scores)
    return sums.reshape(-1, scores.shape[2])
