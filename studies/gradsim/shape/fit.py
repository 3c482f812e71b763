"""The search for vertices and mass in a film: Adam on smoothed vertices.

Steps of single vertices make spikes long before a surface has the right silhouette. The search therefore moves u with
vertices = (1 + smoothing L)^-1 u, L the graph Laplacian of the template (Nicolet, Jacobson and Jakob, Large steps in inverse
rendering of geometry, 2021): a gradient at one vertex moves its surroundings, and every surface can still be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from risp_torch.inversion import MeshNeighbours, edge_length_loss, flattening_loss, laplacian_loss, mesh_neighbours
from studies.gradsim.shape.flight import MASSES, Flight


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of the search.

    Attributes:
        iterations: steps of Adam.
        rate: of the vertices at the start [m]; it falls to a hundredth along a cosine.
        mass_rate: of the mass [decades].
        smoothing: of the vertices that are moved; 0 moves each one on its own. The default is for 642 vertices; the same bend of
            a coarser template needs less, in proportion to its vertices.
        laplacian, edges, flattening: weights of the penalties on rough meshes, per square of the radius.
        decay: whether the rates fall.
        every: frames from one that is compared to the next.
    """

    iterations: int = 300
    rate: float = 0.05
    mass_rate: float = 0.01
    smoothing: float = 20.0
    laplacian: float = 1e-2
    edges: float = 1e-4
    flattening: float = 1e-4
    decay: bool = True
    every: int = 5

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


# Of the public code: every vertex on its own, no penalty, 130 steps.
PLAIN = FitSettings(iterations=130, smoothing=0.0, laplacian=0.0, edges=0.0, flattening=0.0, decay=False)


@dataclass
class Fit:
    """Result of the search.

    Attributes:
        vertices: [V, 3] m, of the best step.
        mass: kg, of the best step.
        losses: of all steps: mean squared difference of the pictures, without penalties.
    """

    vertices: torch.Tensor
    mass: float
    losses: list[float] = field(default_factory=list)


def fit_shape(
    flight: Flight, film: torch.Tensor, *, cameras: Sequence[str], settings: FitSettings, mass: float, free_mass: bool
) -> Fit:
    """Find vertices, and the mass with them, by the pictures.

    Args:
        flight: the template and its motion.
        film: [C, frames + 1, H, W, 3] of the cameras, linear.
        cameras: C names.
        settings: of the search.
        mass: at the start, or the known one [kg].
        free_mass: whether the mass is unknown.
    """
    neighbours = mesh_neighbours(flight.faces, len(flight.template))
    frames = range(0, flight.scene.frames + 1, settings.every)
    target = film[:, list(frames)]
    smooth = smoother(neighbours, settings.smoothing).to(flight.template)
    moved = torch.linalg.solve(smooth, flight.template).requires_grad_()
    decades = torch.tensor(np.log10(mass), dtype=moved.dtype, requires_grad=free_mass)
    groups = [{"params": [moved], "lr": settings.rate}, {"params": [decades], "lr": settings.mass_rate}]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.iterations, eta_min=0.01 * settings.rate)
    best, fit = np.inf, Fit(flight.template, mass)
    for _ in range(settings.iterations):
        optimizer.zero_grad()
        vertices, weight = smooth @ moved, 10.0**decades
        pictures = flight.film(vertices, flight.poses(vertices, weight), frames=frames, cameras=cameras)
        data = (pictures - target).square().mean()
        loss = data + roughness(vertices, neighbours, settings)
        fit.losses.append(float(data.detach()))
        if float(loss.detach()) < best:
            best, fit.vertices, fit.mass = float(loss.detach()), vertices.detach().clone(), float(weight.detach())
        loss.backward()
        optimizer.step()
        if settings.decay:
            schedule.step()
    return fit


def tried_mass(flight: Flight, film: torch.Tensor, *, cameras: Sequence[str], every: int) -> float:
    """The mass of ``MASSES`` with which the film of the template is most like a film [kg].

    Args:
        flight: the template and its motion.
        film: [C, frames + 1, H, W, 3] of the cameras, linear.
        cameras: C names.
        every: frames from one that is compared to the next.
    """
    frames = range(0, flight.scene.frames + 1, every)
    losses = []
    with torch.no_grad():
        for mass in torch.as_tensor(MASSES).to(flight.template):
            pictures = flight.film(flight.template, flight.poses(flight.template, mass), frames=frames, cameras=cameras)
            losses.append(float((pictures - film[:, list(frames)]).square().mean()))
    return float(MASSES[int(np.argmin(losses))])


def smoother(neighbours: MeshNeighbours, smoothing: float) -> torch.Tensor:
    """[V, V] float64, the inverse of 1 + smoothing L, with L = valence - neighbours."""
    count = len(neighbours.valence)
    a, b = neighbours.edges.T
    laplacian = torch.diag(neighbours.valence.double())
    laplacian[a, b] -= 1
    laplacian[b, a] -= 1
    return torch.linalg.inv(torch.eye(count, dtype=torch.float64) + smoothing * laplacian)


def roughness(vertices: torch.Tensor, neighbours: MeshNeighbours, settings: FitSettings) -> torch.Tensor:
    """The penalties on a rough mesh, weighed."""
    return (
        settings.laplacian * laplacian_loss(vertices, neighbours)
        + settings.edges * edge_length_loss(vertices, neighbours)
        + settings.flattening * flattening_loss(vertices, neighbours)
    )
