"""From a film to numbers: losses, search, error bars, the run's folder."""

from risp_torch.inversion.comparison import Comparison, film_losses, sampled_frames
from risp_torch.inversion.film import film, pixel_loss, simulate_video
from risp_torch.inversion.films import Films
from risp_torch.inversion.found import use_found
from risp_torch.inversion.invert import invert
from risp_torch.inversion.landscape import landscape
from risp_torch.inversion.linearisation import along_weak_directions, linearise
from risp_torch.inversion.losses import Loss, PerceptualLoss, PictureLoss, PixelLoss, RispLoss, StateLoss
from risp_torch.inversion.newton_steps import NewtonSteps
from risp_torch.inversion.optimise import OptimiseSettings
from risp_torch.inversion.result import Inversion
from risp_torch.inversion.uncertainty import Uncertainty, uncertainty
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.warm_start import CmaSettings
from risp_torch.inversion.wide_settings import WIDE_SEARCH, WideSteps

__all__ = [
    "WIDE_SEARCH", "CmaSettings", "Comparison", "Films", "Inversion", "Loss", "NewtonSteps", "OptimiseSettings",
    "PerceptualLoss", "PictureLoss", "PixelLoss", "RispLoss", "StateLoss", "Uncertainty", "Unknowns", "WideSteps",
    "along_weak_directions", "film", "film_losses", "invert", "landscape", "linearise", "pixel_loss", "sampled_frames",
    "simulate_video", "uncertainty", "use_found",
]  # fmt: skip
