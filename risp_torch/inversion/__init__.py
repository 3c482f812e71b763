"""Inversion: estimate parameters of a scene from a film. Comparisons, unknowns and uncertainty are public here."""

from risp_torch.inversion.comparison import Comparison, film_losses, sampled_frames
from risp_torch.inversion.element_pictures import write_elements
from risp_torch.inversion.linearisation import along_weak_directions, linearise
from risp_torch.inversion.observability import Observability, observability
from risp_torch.inversion.uncertainty import Uncertainty, uncertainty
from risp_torch.inversion.unknowns import Unknowns

__all__ = [
    "Comparison", "Observability", "Uncertainty", "Unknowns", "along_weak_directions", "film_losses", "linearise",
    "observability", "sampled_frames", "uncertainty", "write_elements",
]  # fmt: skip
