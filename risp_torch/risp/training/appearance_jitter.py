"""Augmentation by appearance: training pictures moved along dI/dpsi, to first order.

A loss on the error of I + dI/dpsi d, averaged over small random d, is the plain loss plus a penalty on the derivatives of the
prediction with respect to psi (Bishop, Neural Computation 7(1), 1995: training with noise is Tikhonov regularisation): the
finite-step version of RISP's gradient loss, without second derivatives of the network. A picture is linear in each brightness of
a light, tint and grey value, so that long steps along them are close to rendered pictures;
the direction of a light is nonlinear and is changed only a little.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from risp_torch.risp.dataset.batch import Batch
from risp_torch.risp.training.random_numbers import RandomNumbers
from risp_torch.scene.rendering_parameters import Direction, RenderingParameters

PSI_BOUND = 1.2  # largest magnitude of new entries of psi
MAX_DIRECTION_STEP = 0.2  # largest step of psi for the direction of a light, if ``share`` is 1
UNCHANGED_SHARE = 0.2  # of the pictures
_STREAM = 9  # random stream


class AppearanceJitter:
    """Changes the appearance of the pictures of a training domain."""

    def __init__(self, parameters: RenderingParameters, share: float, *, fixed_psi_index: int | None = None) -> None:
        """Initialise.

        Args:
            parameters: rendering parameters of the training domain.
            share: fraction of the step from a picture's psi to a newly sampled one, in [0, 1].
            fixed_psi_index: index of an entry of psi that keeps its value: ``BackgroundAugmentation.background_psi_index``,
                where patterns are added instead.
        """
        self.share = share
        is_direction = torch.zeros(parameters.size, dtype=torch.bool)
        direction_names = [name for name, distribution in parameters.distributions.items() if isinstance(distribution, Direction)]
        is_direction[parameters.indices(direction_names)] = True
        self._is_direction, self._fixed_psi_index = is_direction, fixed_psi_index

    def __call__(self, batch: Batch, *, seed: tuple[int, ...]) -> Batch:
        """The batch with other appearances.

        Args:
            batch: batch with dI/dpsi.
            seed: seed of the steps; equal seeds and batches give equal pictures.

        Returns:
            The batch with new pictures [B, H, W, 3] in [0, 1]; states, psi and derivatives are those of the original pictures.
        """
        steps = self.steps(batch.psi, seed=seed).to(batch.images)
        change = torch.einsum("bk,bkhwc->bhwc", steps, batch.jacobian.to(batch.images.dtype))
        return replace(batch, images=(batch.images + change).clamp(0.0, 1.0))

    def steps(self, psi: torch.Tensor, *, seed: tuple[int, ...]) -> torch.Tensor:
        """Steps [B, K] of psi [B, K]; about ``UNCHANGED_SHARE`` of the rows are zero."""
        random = RandomNumbers(_STREAM, seed, count=len(psi), device=psi.device)

        def uniform(largest: float) -> torch.Tensor:
            return largest * (2.0 * random.uniform(0.0, 1.0, psi.shape[1]) - 1.0)

        steps = torch.where(self._is_direction.to(psi.device), uniform(MAX_DIRECTION_STEP), uniform(PSI_BOUND) - psi)
        has_step = 1.0 - random.with_probability(UNCHANGED_SHARE, 1)
        steps = self.share * steps * has_step
        if self._fixed_psi_index is not None:
            steps[:, self._fixed_psi_index] = 0.0
        return steps
