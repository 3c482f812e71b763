"""Appearances that were never rendered: training pictures moved along dI/dpsi, to first order.

A loss on the error of I + dI/dpsi d, averaged over small random d, is the plain loss and a penalty on the derivatives of the
prediction by psi (Bishop, Neural Computation 7(1), 1995: training with noise is Tikhonov regularisation): what RISP's gradient
loss asks for in the infinitesimal, for finite steps and without second derivatives of the network. Lights' brightness, tints and
greys take part in a picture linearly, each by itself, so that long steps along them stay close to pictures that the renderer
would make; a light's direction bends the picture and is moved little.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from risp_torch.risp.dataset.batch import Batch
from risp_torch.risp.psi import Direction, RenderingParameters

BEYOND = 1.2  # ends of the new entries of psi
TURN = 0.2  # largest step of an entry that turns a light, at a share of one
PLAIN = 0.2  # share of the pictures that stay as they are
_STREAM = 9  # of the random numbers


class Moves:
    """Moves the pictures of one training domain."""

    def __init__(self, parameters: RenderingParameters, share: float, *, fixed: int | None = None) -> None:
        """Set up.

        Args:
            parameters: of the training domain.
            share: of the way from a picture's own psi to a newly drawn one, in [0, 1].
            fixed: number of an entry of psi that keeps its value (``Surroundings.column``, which has patterns instead).
        """
        self.share = share
        turns = torch.zeros(parameters.size, dtype=torch.bool)
        turning = [name for name, spread in parameters.spreads.items() if isinstance(spread, Direction)]
        turns[parameters.indices(turning)] = True
        self._turns, self._fixed = turns, fixed

    def __call__(self, batch: Batch, *, seed: tuple[int, ...]) -> Batch:
        """The batch with other appearances.

        Args:
            batch: with dI/dpsi.
            seed: of the steps; the same seed and batch give the same pictures.

        Returns:
            The same states, psi and derivatives, which are those of the pictures before; pictures [B, H, W, 3] in [0, 1].
        """
        steps = self.steps(batch.psi, seed=seed).to(batch.images)
        moved = torch.einsum("bk,bkhwc->bhwc", steps, batch.jacobian.to(batch.images.dtype))
        return replace(batch, images=(batch.images + moved).clamp(0.0, 1.0))

    def steps(self, psi: torch.Tensor, *, seed: tuple[int, ...]) -> torch.Tensor:
        """Steps [B, K] of psi [B, K]; about ``PLAIN`` of the rows are zero."""
        random = torch.Generator().manual_seed(int(np.random.SeedSequence([_STREAM, *seed]).generate_state(1)[0]))

        def uniform(end: float) -> torch.Tensor:
            return end * (2.0 * torch.rand(psi.shape, generator=random) - 1.0)

        steps = torch.where(self._turns, uniform(TURN), uniform(BEYOND) - psi)
        moved = torch.rand((len(psi), 1), generator=random) >= PLAIN
        steps = self.share * steps * moved
        if self._fixed is not None:
            steps[:, self._fixed] = 0.0
        return steps
