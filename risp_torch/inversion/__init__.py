"""Inversion: estimate parameters of a scene from a film. Comparisons, unknowns and uncertainty are public here."""

from risp_torch.inversion.diagnostics.observability import Observability, observability
from risp_torch.inversion.losses.loss import mean_square
from risp_torch.inversion.losses.mesh_regularisation import (
    MeshNeighbours,
    edge_length_loss,
    flattening_loss,
    laplacian_loss,
    mesh_neighbours,
)
from risp_torch.inversion.losses.perceptual.loss import default_network
from risp_torch.inversion.problem.comparison import Comparison, film_losses, sampled_frames
from risp_torch.inversion.problem.linearisation import jacobian_along_eigenvectors, linearise
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.report.element_images import write_elements
from risp_torch.inversion.uncertainty.covariance import Uncertainty, error_bars

__all__ = [
    "Comparison", "MeshNeighbours", "Observability", "Uncertainty", "Unknowns", "jacobian_along_eigenvectors",
    "default_network", "edge_length_loss", "error_bars", "film_losses", "flattening_loss", "laplacian_loss", "linearise",
    "mean_square", "mesh_neighbours", "observability", "sampled_frames", "write_elements",
]  # fmt: skip
