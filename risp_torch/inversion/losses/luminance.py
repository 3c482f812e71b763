"""The pixel loss of what compressed films keep at full resolution: luminance."""

from __future__ import annotations

import torch

from risp_torch.inversion.losses.pixel import PixelLoss

LUMINANCE = (0.2126, 0.7152, 0.0722)  # of linear red, green and blue with the primaries of sRGB (ITU-R BT.709, 3.2)


class LuminanceLoss(PixelLoss):
    """Mean squared difference of luminance.

    Almost all films have colour at half the resolution (4:2:0) beside the luma of every pixel, and encoders drop more of it. The
    error at edges is no noise: it shifts estimates by a part of a pixel. Luminance has no such error up to the curve of sRGB,
    since luma is a weighted mean of encoded colours. Colours of equal luminance are indistinguishable.
    """

    kind = "luminance"

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """Luminance [..., H, W, 1] (``PictureLoss.read``)."""
        return (pictures * pictures.new_tensor(LUMINANCE)).sum(dim=-1, keepdim=True)

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """Variance of the luminance of eight-bit colours, whose errors are independent (``Loss.noise_floor``)."""
        return super().noise_floor(pictures) * sum(weight**2 for weight in LUMINANCE)
