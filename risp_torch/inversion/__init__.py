"""From a film to numbers: search, error bars, the run's folder."""

from risp_torch.inversion.film import film, film_losses, pixel_loss, simulate_video
from risp_torch.inversion.invert import Inversion, invert
from risp_torch.inversion.landscape import landscape
from risp_torch.inversion.optimise import OptimiseSettings
from risp_torch.inversion.uncertainty import Uncertainty, along_weak_directions, linearise, uncertainty
from risp_torch.inversion.unknowns import Unknowns

__all__ = [
    "Inversion", "OptimiseSettings", "Uncertainty", "Unknowns", "along_weak_directions", "film", "film_losses", "invert",
    "landscape", "linearise", "pixel_loss", "simulate_video", "uncertainty",
]  # fmt: skip
