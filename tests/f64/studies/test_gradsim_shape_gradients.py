"""Gradients of the film of a flight by vertices and mass, against central differences."""

import torch

from studies.gradsim.shape.flight import Flight


def test_film_of_a_flight_by_vertices_and_mass() -> None:
    flight = Flight(divisions=1, size=16, frames=8)
    random = torch.Generator().manual_seed(0)
    vertices = flight.template * (1 + 0.1 * torch.rand(len(flight.template), 1, generator=random, dtype=torch.float64))
    way = torch.randn(vertices.shape, generator=random, dtype=torch.float64)
    weights = torch.randn(1, 2, 16, 16, 3, generator=random, dtype=torch.float64)

    def score(vertices: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
        return (weights * flight.film(vertices, flight.poses(vertices, mass), frames=(4, 8), cameras=("left",))).sum()

    mass = torch.tensor(20.0, dtype=torch.float64, requires_grad=True)
    vertices.requires_grad_()
    score(vertices, mass).backward()
    with torch.no_grad():
        for gradient, change in ((vertices.grad, (way, 0.0)), (mass.grad, (0.0 * way, 1.0))):
            own = (gradient * torch.as_tensor(change[0] if gradient.ndim else change[1])).sum()
            step = 1e-6 if gradient.ndim else 1e-4
            ahead, behind = (score(vertices + sign * step * change[0], mass + sign * step * change[1]) for sign in (1, -1))
            torch.testing.assert_close(own, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-8)
