"""The black box: rewards of sampled masses, and REINFORCE's loss as a function of the mass (appendices F.2 and H.1)."""

from __future__ import annotations

import math

import numpy as np

NOISE = 0.05  # standard deviation of the samples, in kg a vertex (the paper's table 5)


def rewards(frame_losses: np.ndarray) -> np.ndarray:
    """Rewards of films: minus the sum of the losses of their frames.

    Args:
        frame_losses: [N, T].

    Returns:
        [N].
    """
    return -np.asarray(frame_losses, dtype=np.float64).sum(axis=1)


def standardised(values: np.ndarray) -> np.ndarray:
    """Values [N] with mean 0 and standard deviation 1; zeros where all are alike."""
    values = np.asarray(values, dtype=np.float64)
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def surrogate(masses: np.ndarray, reward: np.ndarray, centre: float, *, noise: float = NOISE) -> np.ndarray:
    """REINFORCE's loss of a sample: its standardised reward times minus the logarithm of its density.

    Args:
        masses: [N] what is sampled.
        reward: [N].
        centre, noise: mean and standard deviation of the normal density.

    Returns:
        [N].
    """
    negative_log = ((masses - centre) / noise) ** 2 / 2 + math.log(noise * math.sqrt(2 * math.pi))
    return standardised(reward) * negative_log


def steps(samples: np.ndarray, reward: np.ndarray, centre: float, *, noise: float = NOISE) -> np.ndarray:
    """Gradient ascent's directions of the centre: the mean of standardised rewards times d log density / d centre.

    Args:
        samples: [D, S] masses of D draws of S samples.
        reward: [D, S].
        centre, noise: mean and standard deviation of the samples.

    Returns:
        [D].
    """
    weights = np.stack([standardised(row) for row in reward])
    return (weights * (samples - centre) / noise**2).mean(axis=1)
