"""Random sequences of actions."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ti_sim import Count, NotNegative, Rule, checked

Lengths = Annotated[tuple[int, ...], Rule(shape=(None,), exact=True, integer=True, minimum=1)]


@checked
def smooth_sequence(random: np.random.Generator, shape: Lengths, spread: NotNegative, *, waves: Count = 3) -> np.ndarray:
    """A smooth random sequence: a mean plus low-frequency cosines.

    Args:
        random: random generator.
        shape: shape of the sequence, frames first.
        spread: standard deviation of its values.
        waves: number of cosines, including the constant.

    Returns:
        Values of this shape.
    """
    phase = np.pi * (np.arange(shape[0]) + 0.5) / shape[0]
    basis = np.cos(np.arange(waves)[None] * phase[:, None])
    basis[:, 1:] *= np.sqrt(2.0)
    weights = random.normal(scale=spread / np.sqrt(waves), size=(waves, *shape[1:]))
    return np.tensordot(basis, weights, axes=1)
