"""The paper's own search (RISP, ICLR 2022, B.3): RMSProp on the unknowns themselves, from one guess, at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from risp_torch import OptimiseSettings
from risp_torch.inversion import Unknowns
from risp_torch.scene.bridge import bridge_device, bridge_dtype

# The rest are PyTorch's defaults, because the paper does not specify them.
PAPER_SEARCH = OptimiseSettings(optimizer="rmsprop", iterations=100, learning_rate=3e-3, decay=False, smoothing=0.99)


@dataclass(frozen=True)
class PlainUnknowns(Unknowns):
    """Unknowns that are optimised directly, without the map to their bounds.

    A variable has the unit of its parameter, or decades for log10: a learning rate of 0.003 is 0.003 kg. With
    ``relative`` its unit is half of its range, because the paper's rate is too small for forces in N. A value outside is clipped
    to the bound, with the gradient at the bound, so that it can return.

    Attributes:
        relative: whether variables are in units of half ranges.
    """

    relative: bool = False

    def physical(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameter values [S, *shape] of the scene from the optimiser's variables z [S, K], differentiable."""
        return self.from_scaled(self._scaled(z))

    def physical_vector(self, z: torch.Tensor) -> torch.Tensor:
        """The K physical values [S, K] from the optimiser's variables z [S, K]."""
        return torch.as_tensor(self.physical_values(self._scaled(z).detach().cpu().numpy())).to(z)

    def penalty(self, z: torch.Tensor) -> torch.Tensor:
        """The smoothness penalty, [S], from the optimiser's variables z [S, K], differentiable."""
        return self.smoothness.penalty(self._scaled(z))

    def unbounded(self, physical: np.ndarray) -> torch.Tensor:
        """The optimiser's variables z [S, K] of physical values [S, K]."""
        return torch.as_tensor(self.scaled(physical) / self._lengths(), dtype=bridge_dtype(), device=bridge_device())

    def _lengths(self) -> np.ndarray:
        """Scaled units in a unit of z, [K]."""
        ranges = self.scaled_range()
        return 0.5 * ranges if self.relative else np.ones(len(ranges))

    def _scaled(self, z: torch.Tensor) -> torch.Tensor:
        low, high = (torch.as_tensor(self.scaled(bound)).to(z) for bound in self.bounds())
        scaled = z * torch.as_tensor(self._lengths()).to(z)
        return scaled + (scaled.clamp(low, high) - scaled).detach()


def paper_unknowns(unknowns: Unknowns, measure: str) -> PlainUnknowns:
    """The unknowns in the variables of the paper's search: parameters in their own units, actions in halves of their ranges.

    Args:
        unknowns: of a trial.
        measure: measure of the trial, "parameter" for unknown parameters.
    """
    return PlainUnknowns(unknowns.params, unknowns.appearance, unknowns.smoothness, relative=measure != "parameter")
