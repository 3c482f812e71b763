"""Augmentation by exposure, white balance, tone curve and uneven light.

Cameras and path tracers differ from the rasteriser in the brightness of lit surfaces, and in light that falls off or is
shaded. Domain randomisation (Tobin et al., IROS 2017), as in ``background_augmentation``; networks with and without the
gradient loss use the same.
"""

from __future__ import annotations

import torch

from risp_torch.risp.training.fields import smooth_field
from risp_torch.risp.training.random_numbers import RandomNumbers

# Largest logarithms of factors: of exposure, of the channels relative to each other, of the tone curve's exponent, and
# the largest standard deviation of the logarithm of uneven light.
EXPOSURE, WHITE_BALANCE, TONE, UNEVEN_LIGHT = 0.35, 0.1, 0.25, 0.3
UNCHANGED_SHARE = 0.15  # of the pictures
_MIN_BRIGHTNESS = 1e-4
_STREAM = 6  # random stream


def vary_exposure(
    images: torch.Tensor, jacobian: torch.Tensor | None, *, seed: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Pictures with another exposure, white balance, tone curve and uneven light; derivatives by the chain rule.

    Args:
        images: [B, H, W, 3] in [0, 1].
        jacobian: [B, K, H, W, 3] dI/dpsi, or None.
        seed: seed of the samples; equal seeds and pictures give equal results.

    Returns:
        (pictures, derivatives) of the same shapes; about ``UNCHANGED_SHARE`` of them are unchanged.
    """
    random = RandomNumbers(_STREAM, seed, count=len(images), device=images.device)
    uniform = random.uniform
    is_changed = 1.0 - random.with_probability(UNCHANGED_SHARE, 1, 1, 1)
    uneven_light = uniform(0.0, UNEVEN_LIGHT, 1, 1) * smooth_field(random.normal(4, 4), images.shape[1])
    log_gain = uniform(-EXPOSURE, EXPOSURE, 1, 1, 1) + uniform(-WHITE_BALANCE, WHITE_BALANCE, 1, 1, 3) + uneven_light[..., None]
    gain, exponent = torch.exp(is_changed * log_gain), torch.exp(is_changed * uniform(-TONE, TONE, 1, 1, 1))
    scaled = images.clamp_min(_MIN_BRIGHTNESS) * gain
    toned = scaled**exponent
    if jacobian is not None:
        derivative = (
            exponent * toned / scaled * gain * ((toned < 1.0) & (images > _MIN_BRIGHTNESS))
        )  # zero where a value is clipped
        jacobian = jacobian * derivative[:, None].half()
    return toned.clamp(0.0, 1.0), jacobian
