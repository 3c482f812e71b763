"""Exposures, white balances, tone curves and uneven light that no scene has.

Cameras and path tracers differ from the rasteriser in how bright a lit surface comes out, and in light that falls off or is
shaded. Domain randomisation in the sense of Tobin et al. (IROS 2017), as the patterned surroundings are; networks with and
without the loss on rendering gradients get the same.
"""

from __future__ import annotations

import numpy as np
import torch

from risp_torch.risp.training.fields import smooth_field

# Largest logarithms of factors: of a picture's exposure, of its channels beside one another, of its tone curve's exponent, and
# the largest standard deviation of that of uneven light.
EXPOSURE, BALANCE, TONE, UNEVEN = 0.35, 0.1, 0.25, 0.3
PLAIN = 0.15  # share of the pictures that are left as they are
_DARKEST = 1e-4
_STREAM = 6  # of the random numbers


def exposed(
    images: torch.Tensor, jacobian: torch.Tensor | None, *, seed: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Pictures in another exposure, white balance and tone curve, and in uneven light; the derivatives by the chain rule.

    Args:
        images: [B, H, W, 3] in [0, 1].
        jacobian: [B, K, H, W, 3] dI/dpsi, or None.
        seed: of what is drawn; the same seed and pictures give the same.

    Returns:
        (pictures, derivatives) of the same shapes; about ``PLAIN`` of them are left as they are.
    """
    count, size = images.shape[:2]
    random = torch.Generator().manual_seed(int(np.random.SeedSequence([_STREAM, *seed]).generate_state(1)[0]))

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand((count, *shape), generator=random)

    changed = (torch.rand((count, 1, 1, 1), generator=random) >= PLAIN).float()
    uneven = uniform(0.0, UNEVEN, 1, 1) * smooth_field(torch.randn((count, 4, 4), generator=random), size)
    light = uniform(-EXPOSURE, EXPOSURE, 1, 1, 1) + uniform(-BALANCE, BALANCE, 1, 1, 3) + uneven[..., None]
    gain, exponent = torch.exp(changed * light), torch.exp(changed * uniform(-TONE, TONE, 1, 1, 1))
    lit = images.clamp_min(_DARKEST) * gain
    toned = lit**exponent
    if jacobian is not None:
        slope = exponent * toned / lit * gain * ((toned < 1.0) & (images > _DARKEST))  # none where either end is cut off
        jacobian = jacobian * slope[:, None].half()
    return toned.clamp(0.0, 1.0), jacobian
