"""Penalties on rough meshes: closed forms, gradients, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from risp_torch.inversion.losses.mesh_regularisation import (
    MeshNeighbours,
    edge_length_loss,
    flattening_loss,
    laplacian_loss,
    mesh_neighbours,
)
from ti_sim import Box, Sphere, UserError, gradcheck

Loss = Callable[[torch.Tensor, MeshNeighbours], torch.Tensor]
LOSSES: list[Loss] = [laplacian_loss, flattening_loss, edge_length_loss]


def sphere(subdivisions: int = 0) -> tuple[torch.Tensor, MeshNeighbours]:
    surface = Sphere(1.0, subdivisions=subdivisions).surface()
    return torch.as_tensor(surface.vertices), mesh_neighbours(surface.faces, len(surface.vertices))


def sheet(size: int) -> tuple[torch.Tensor, MeshNeighbours]:
    """A flat square grid of size x size vertices of spacing 1, two triangles a cell."""
    first = np.array([size * i + j for i in range(size - 1) for j in range(size - 1)])
    a, b, c, d = first, first + 1, first + size + 1, first + size
    faces = np.concatenate([np.stack([a, d, c], axis=1), np.stack([a, c, b], axis=1)])
    y, x = np.divmod(np.arange(size * size), size)
    return torch.as_tensor(np.stack([x, -y, 0 * x], axis=1).astype(float)), mesh_neighbours(faces, size * size)


def hinge(angle: float) -> tuple[torch.Tensor, MeshNeighbours]:
    """Two triangles with the angle [rad] between them, and a vertex that belongs to none."""
    vertices = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (math.cos(angle), 0, math.sin(angle)), (5, 5, 5)]
    faces = np.array([(0, 1, 2), (1, 0, 3)])
    return torch.tensor(vertices, dtype=torch.float64), mesh_neighbours(faces, 5)


# -- neighbours -----------------------------------------------------------------------------------------------------------


def test_neighbours_of_a_closed_mesh() -> None:
    vertices, neighbours = sphere(1)
    faces, count = neighbours.faces, len(vertices)
    assert len(neighbours.edges) == len(neighbours.face_pairs) == 3 * len(faces) // 2  # Euler: V - E + F = 2
    assert count - len(neighbours.edges) + len(faces) == 2
    assert sorted(neighbours.valence.tolist()) == [5] * 12 + [6] * 30
    for one, other in neighbours.face_pairs.tolist():
        assert one != other and len(set(faces[one].tolist()) & set(faces[other].tolist())) == 2


def test_the_rim_of_an_open_mesh_has_no_pairs() -> None:
    _, neighbours = sheet(4)
    assert len(neighbours.edges) == 3 * 4 * 2 + 9 and len(neighbours.face_pairs) == len(neighbours.edges) - 12


def test_faces_may_be_a_tensor() -> None:
    surface = Box(1.0, 2.0, 3.0).surface()
    one, other = (mesh_neighbours(faces, 8) for faces in (surface.faces, torch.as_tensor(surface.faces)))
    assert torch.equal(one.edges, other.edges) and torch.equal(one.face_pairs, other.face_pairs)


# -- closed forms ---------------------------------------------------------------------------------------------------------


def test_laplacian_of_an_icosahedron() -> None:
    # The neighbours of a vertex of the unit icosahedron lie in a plane at height 1 / sqrt(5) below it, evenly around.
    assert float(laplacian_loss(*sphere())) == pytest.approx((1.0 - 1.0 / math.sqrt(5.0)) ** 2, rel=1e-14)


def test_laplacian_of_a_sheet_is_zero_inside_it() -> None:
    vertices, neighbours = sheet(5)
    inside = torch.tensor([6, 7, 8, 11, 12, 13, 16, 17, 18])
    lifted = vertices.clone().requires_grad_()
    laplacian_loss(lifted, neighbours).backward()
    assert lifted.grad[12].abs().max() < 1e-15  # all its neighbours are inside, too
    bump = vertices.clone()
    bump[12, 2] = 0.6
    # The vertex itself moves by 0.6 from its neighbours' middle, each of its six neighbours (of valence six) by 0.1.
    rise = laplacian_loss(bump, neighbours) - laplacian_loss(vertices, neighbours)
    assert float(rise) * 25 == pytest.approx(0.6**2 + 6 * 0.1**2, rel=1e-12)
    assert neighbours.valence[inside].tolist() == [6] * 9


def test_vertices_without_an_edge_do_not_count() -> None:
    vertices, neighbours = hinge(1.0)
    moved = vertices.clone()
    moved[4] += 100.0
    assert laplacian_loss(moved, neighbours) == laplacian_loss(vertices, neighbours)
    alone = laplacian_loss(vertices[:4], mesh_neighbours(neighbours.faces, 4))
    assert float(laplacian_loss(vertices, neighbours)) == pytest.approx(float(alone), rel=1e-14)


@pytest.mark.parametrize("angle", [0.3, 0.5 * math.pi, 2.5, math.pi, 4.0])
def test_flattening_of_two_faces(angle: float) -> None:
    assert float(flattening_loss(*hinge(angle))) == pytest.approx((1.0 + math.cos(angle)) ** 2, abs=1e-14)


def test_flattening_of_a_box_and_of_a_sheet() -> None:
    surface = Box(1.0, 2.0, 3.0).surface()
    box = flattening_loss(torch.as_tensor(surface.vertices), mesh_neighbours(surface.faces, 8))
    assert float(box) == pytest.approx(12 / 18, rel=1e-14)  # twelve right angles, six flat diagonals
    assert float(flattening_loss(*sheet(4))) == pytest.approx(0.0, abs=1e-28)


def test_flattening_does_not_see_size_and_edge_length_and_laplacian_do() -> None:
    vertices, neighbours = sphere(1)
    assert float(flattening_loss(3.0 * vertices, neighbours)) == pytest.approx(float(flattening_loss(vertices, neighbours)))
    for loss in (laplacian_loss, edge_length_loss):
        assert float(loss(3.0 * vertices, neighbours)) == pytest.approx(9.0 * float(loss(vertices, neighbours)))


def test_edge_length_of_an_icosahedron() -> None:
    assert float(edge_length_loss(*sphere())) == pytest.approx(16.0 / (10.0 + 2.0 * math.sqrt(5.0)), rel=1e-14)


# -- gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_mesh_losses(loss: Loss) -> None:
    vertices, neighbours = sphere()
    point = vertices.cpu().numpy() + 0.2 * np.random.default_rng(0).standard_normal(vertices.shape)

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        moved = torch.tensor(at["vertices"], requires_grad=True)
        value = loss(moved, neighbours)
        value.backward()
        return value.item(), {"vertices": moved.grad.cpu().numpy()}

    report = gradcheck(loss_and_gradient, {"vertices": point}, rtol=1e-7, step=1e-4, min_observable=36)
    report.raise_if_wrong()
    assert report.ok


@pytest.mark.parametrize("loss", LOSSES)
def test_batches_are_rows(loss: Loss) -> None:
    vertices, neighbours = sphere()
    rows = vertices + 0.1 * torch.randn((2, 3, *vertices.shape), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = loss(rows, neighbours)
    wanted = torch.stack([torch.stack([loss(x, neighbours) for x in row]) for row in rows])
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_finite_where_a_face_has_no_area(loss: Loss) -> None:
    vertices, neighbours = sphere()
    flat = vertices.clone()
    flat[neighbours.faces[0, 0]] = flat[neighbours.faces[0, 1]]
    flat.requires_grad_()
    value = loss(flat, neighbours)
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(flat.grad).all() and flat.grad.abs().max() > 0


# -- what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faces", "message"),
    [
        (np.zeros((0, 3), int), r"faces is int64 of shape \(0, 3\): give integers"),
        (np.array([(0, 1, 2, 3)]), "give integers"),
        (np.array([(0.0, 1.0, 2.0)]), "faces is float64"),
        (np.array([(0, 1, 4)]), "faces name vertices 0 to 4 of 4: fix the mesh"),
        (np.array([(0, 1, 2), (0, 1, 3)]), "2 faces use the edge from vertex 0 to vertex 1 in the same direction"),
    ],
)
def test_faces_that_are_refused(faces: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mesh_neighbours(faces, 4)


def test_vertices_that_do_not_fit() -> None:
    vertices, neighbours = sphere()
    for loss in LOSSES:
        with pytest.raises(UserError, match=r"vertices have shape \(11, 3\): give \[..., 12, 3\]"):
            loss(vertices[1:], neighbours)
    with pytest.raises(UserError, match="no two faces of the mesh share an edge"):
        flattening_loss(vertices[:3], mesh_neighbours(np.array([(0, 1, 2)]), 3))
