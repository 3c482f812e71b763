"""Regularisers of meshes and the agreement of silhouettes: values by hand, gradients against central differences, errors."""

import numpy as np
import pytest
import torch

from risp_torch.mesh_losses import edge_length_loss, flattening_loss, laplacian_loss, mesh_neighbours, silhouette_iou
from ti_sim import Sphere, UserError, gradcheck

TETRAHEDRON = np.array([(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)])
BALL = Sphere(1.0, subdivisions=1).surface()


@pytest.mark.parametrize("loss", [laplacian_loss, flattening_loss, edge_length_loss])
def test_gradients_against_central_differences(loss):
    neighbours = mesh_neighbours(BALL.faces, len(BALL.vertices))
    point = BALL.vertices + 0.05 * np.random.default_rng(0).normal(size=BALL.vertices.shape)

    def loss_and_gradient(at):
        vertices = torch.tensor(at["vertices"], requires_grad=True)
        value = loss(vertices, neighbours)
        value.backward()
        return value.item(), {"vertices": vertices.grad.numpy()}

    report = gradcheck(loss_and_gradient, {"vertices": point}, step=1e-4, rtol=1e-7, max_entries=30, floor=1e-9)
    assert report.ok and report.observable > 20, report.table()


def test_silhouette_agreement_and_its_gradient():
    rng = np.random.default_rng(1)
    other = torch.tensor(rng.uniform(size=(5, 4)))

    def loss_and_gradient(at):
        first = torch.tensor(at["coverage"], requires_grad=True)
        value = silhouette_iou(first, other)
        value.backward()
        return value.item(), {"coverage": first.grad.numpy()}

    report = gradcheck(loss_and_gradient, {"coverage": rng.uniform(size=(5, 4))}, rtol=1e-7)
    assert report.ok, report.table()
    a, b = torch.zeros(4, 4), torch.zeros(4, 4)
    a[:2], b[1:3] = 1.0, 1.0
    assert silhouette_iou(a, b).item() == pytest.approx(1 / 3)
    assert silhouette_iou(a, a).item() == 1.0
    assert silhouette_iou(0 * a, 0 * b).item() == 1.0
    assert silhouette_iou(0.6 * a, 0.4 * a, threshold=0.5).item() == 0.0


def test_values_on_a_tetrahedron():
    vertices = torch.tensor([(1.0, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1)], dtype=torch.float64)
    neighbours = mesh_neighbours(TETRAHEDRON, 4)
    assert neighbours.edges.shape == (6, 2) and neighbours.face_pairs.shape == (6, 2)
    # The middle of the other three corners is -x / 3: delta = 4 x / 3 with |x|^2 = 3.
    assert laplacian_loss(vertices, neighbours).item() == pytest.approx(16 / 3)
    assert edge_length_loss(vertices, neighbours).item() == pytest.approx(8.0)
    # Outward normals of a regular tetrahedron meet at the cosine -1/3.
    assert flattening_loss(vertices, neighbours).item() == pytest.approx((1 + 1 / 3) ** 2)
    batch = torch.stack([vertices, 2 * vertices])
    torch.testing.assert_close(laplacian_loss(batch, neighbours), torch.tensor([16 / 3, 64 / 3], dtype=torch.float64))


def test_a_flat_sheet_is_flat():
    vertices = torch.tensor([(0.0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], dtype=torch.float64)
    assert flattening_loss(vertices, mesh_neighbours(np.array([(0, 1, 2), (0, 2, 3)]), 4)).item() == 0.0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mesh_neighbours(np.zeros((0, 3), int), 3), "give integers \\[F, 3\\] of at least one face"),
        (lambda: mesh_neighbours(np.array([(0, 1, 5)]), 3), "name vertices 0 to 5 of 3"),
        (lambda: mesh_neighbours(np.array([(0, 1, 2), (0, 1, 3)]), 4), "turn all faces the same way"),
        (lambda: flattening_loss(torch.zeros(3, 3), mesh_neighbours(np.array([(0, 1, 2)]), 3)), "share an edge"),
        (lambda: laplacian_loss(torch.zeros(4, 3), mesh_neighbours(np.array([(0, 1, 2)]), 3)), "give \\[..., 3, 3\\]"),
        (lambda: silhouette_iou(torch.zeros(2, 2), torch.zeros(2, 3)), "one shape"),
    ],
)
def test_errors_name_the_culprit(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()
