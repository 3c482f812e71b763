"""Growing horizons, one for each start; starts far behind another one stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class GrowingHorizon:
    """How the horizon of a start grows.

    Attributes:
        stages: number of horizons; the last one is the whole problem.
        settled: relative decrease of the objective in a round at or below which a start reaches the next horizon.
        behind: a start stops if another one has reached its horizon with an objective this many times smaller.
        margin: difference of objectives that counts as none.
    """

    stages: int
    settled: float
    behind: float
    margin: float = 0.0

    def stopped(self, reached: np.ndarray, active: np.ndarray) -> np.ndarray:
        """[S] bool: active starts far behind another one over the same horizon.

        Args:
            reached: [S, H] objectives with which the starts reached the next horizon; infinite before that.
            active: [S] bool.
        """
        least = reached.min(axis=0)
        last = np.isfinite(reached).sum(axis=1) - 1
        last_reached, best = reached[np.arange(len(reached)), last], least[last]
        return active & (last >= 0) & (last_reached > self.behind * best + self.margin)
