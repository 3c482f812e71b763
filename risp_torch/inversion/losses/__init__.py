"""What a simulated film and its target are compared by: pixels, a network's features, predicted states or true states."""

from risp_torch.inversion.losses.loss import Loss, PictureLoss
from risp_torch.inversion.losses.perceptual import PerceptualLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.losses.risp import RispLoss
from risp_torch.inversion.losses.state import StateLoss

__all__ = ["Loss", "PerceptualLoss", "PictureLoss", "PixelLoss", "RispLoss", "StateLoss"]
