"""Inversion: estimate parameters of a scene from a film. Comparisons, unknowns and uncertainty are public here."""

from risp_torch.inversion.comparison import Comparison, film_losses, sampled_frames
from risp_torch.inversion.element_pictures import write_elements
from risp_torch.inversion.linearisation import along_weak_directions, linearise
from risp_torch.inversion.losses.loss import mean_square
from risp_torch.inversion.losses.perceptual import default_network
from risp_torch.inversion.mesh_smoothness import (
    MeshNeighbours,
    edge_length_loss,
    flattening_loss,
    laplacian_loss,
    mesh_neighbours,
)
from risp_torch.inversion.observability import Observability, observability
from risp_torch.inversion.uncertainty import Uncertainty, uncertainty
from risp_torch.inversion.unknowns import Unknowns

__all__ = [
    "Comparison", "MeshNeighbours", "Observability", "Uncertainty", "Unknowns", "along_weak_directions",
    "default_network", "edge_length_loss", "film_losses", "flattening_loss", "laplacian_loss", "linearise", "mean_square",
    "mesh_neighbours", "observability", "sampled_frames", "uncertainty", "write_elements",
]  # fmt: skip
