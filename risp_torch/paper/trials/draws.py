"""Random sequences of actions."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ti_sim.base.rules import Count, NotNegative, Rule, checked

Lengths = Annotated[tuple[int, ...], Rule(shape=(None,), exact=True, whole=True, least=1)]


@checked
def smooth_draw(random: np.random.Generator, shape: Lengths, spread: NotNegative, *, waves: Count = 3) -> np.ndarray:
    """A random sequence without jumps: a mean and the slowest cosines over its length.

    Args:
        random: where the numbers come from.
        shape: of the sequence, frames first.
        spread: standard deviation of its values.
        waves: cosines that it is made of, the constant one included.

    Returns:
        Values of this shape.
    """
    phase = np.pi * (np.arange(shape[0]) + 0.5) / shape[0]
    basis = np.cos(np.arange(waves)[None] * phase[:, None])
    basis[:, 1:] *= np.sqrt(2.0)
    weights = random.normal(scale=spread / np.sqrt(waves), size=(waves, *shape[1:]))
    return np.tensordot(basis, weights, axes=1)
