"""Penalties on meshes that are not smooth, for the estimation of shapes from images; agreement with the images: ``silhouettes``.

All are torch functions with gradients. Meshes are closed or open surfaces with consistent winding; vertices that a file
splits (for texture coordinates) must be merged first, or the two sides of a seam are not connected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked


@dataclass(frozen=True, eq=False)
class MeshNeighbours:
    """Neighbouring vertices and faces of a mesh, made by ``mesh_neighbours``. int64 tensors.

    Attributes:
        faces: [F, 3] vertices of the faces.
        edges: [E, 2] vertices of the distinct edges.
        face_pairs: [P, 2] faces that share an edge; edges at the rim of an open surface have no pair.
        valence: [V] number of edges at every vertex.
    """

    faces: torch.Tensor
    edges: torch.Tensor
    face_pairs: torch.Tensor
    valence: torch.Tensor


@checked
def mesh_neighbours(
    faces: np.ndarray | torch.Tensor, vertex_count: Count, *, device: torch.device | str | None = None
) -> MeshNeighbours:
    """Find the neighbours in a mesh. Call it once per mesh.

    Args:
        faces: [F, 3] integers, vertices of the faces, with consistent winding.
        vertex_count: V.
        device: of the result; that of ``faces`` (or the CPU) by default.

    Raises:
        UserError: ``faces`` has a wrong shape or type, contains vertices that do not exist, or two faces use an edge in the same
            direction (inconsistent winding, or more than two faces share the edge).
    """
    if isinstance(faces, torch.Tensor):
        device = faces.device if device is None else device
        faces = faces.detach().cpu().numpy()
    faces = np.asarray(faces)
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0 or not np.issubdtype(faces.dtype, np.integer):
        raise UserError(f"faces is {faces.dtype} of shape {faces.shape}: give integers [F, 3] of at least one face")
    if faces.min() < 0 or faces.max() >= vertex_count:
        raise UserError(f"faces name vertices {faces.min()} to {faces.max()} of {vertex_count}: fix the mesh")
    edges, pairs = _edges_and_pairs(faces.astype(np.int64))
    valence = np.bincount(edges.reshape(-1), minlength=vertex_count)
    arrays = (faces.astype(np.int64), edges, pairs, valence.astype(np.int64))
    return MeshNeighbours(*(torch.as_tensor(array, device=device) for array in arrays))


def _edges_and_pairs(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct edges [E, 2], and the two faces [P, 2] at each edge that has two."""
    directed = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    face_of_edge = np.repeat(np.arange(len(faces)), 3)
    distinct, count = np.unique(directed, axis=0, return_counts=True)
    if count.max() > 1:
        a, b = distinct[int(np.argmax(count))]
        raise UserError(
            f"{count.max()} faces use the edge from vertex {a} to vertex {b} in the same direction: give all faces the "
            "same winding, and at most two faces at an edge"
        )
    edges, index = np.unique(np.sort(directed, axis=1), axis=0, return_inverse=True)
    order = np.argsort(index.reshape(-1), kind="stable")
    shared = np.flatnonzero(np.diff(index.reshape(-1)[order]) == 0)
    return edges, np.stack([face_of_edge[order[shared]], face_of_edge[order[shared + 1]]], axis=1)


@checked
def laplacian_loss(vertices: torch.Tensor, neighbours: MeshNeighbours) -> torch.Tensor:
    """Mean squared distance of the vertices from the mean of their neighbours.

    delta_i = x_i - (1 / d_i) sum_j x_j over the d_i neighbours j of vertex i: the Laplacian with uniform weights (Nealen,
    Igarashi, Sorkine and Alexa, Laplacian mesh optimization, 2006); the loss is the mean of |delta_i|^2. It also contracts
    the mesh: among smooth meshes, uniform ones have the lowest loss. Vertices without an edge are ignored.

    Args:
        vertices: [..., V, 3] m.
        neighbours: neighbours of the mesh.

    Returns:
        [...] m2.
    """
    _check_vertices(vertices, neighbours)
    flat = vertices.reshape(-1, *vertices.shape[-2:])
    a, b = neighbours.edges.unbind(dim=1)
    sums = torch.zeros_like(flat).index_add(1, a, flat[:, b]).index_add(1, b, flat[:, a])
    valence = neighbours.valence
    has_edge = (valence > 0).to(flat.dtype)
    delta = (flat - sums / valence.clamp_min(1).to(flat.dtype)[:, None]) * has_edge[:, None]
    return ((delta * delta).sum(dim=(1, 2)) / has_edge.sum()).reshape(vertices.shape[:-2])


@checked
def flattening_loss(vertices: torch.Tensor, neighbours: MeshNeighbours) -> torch.Tensor:
    """Deviation of neighbouring faces from a plane.

    The mean of (cos theta + 1)^2 over all edges with two faces, where theta is the angle between the faces: pi if they lie
    in one plane (Kato, Ushiku and Harada, Neural 3D mesh renderer, 2018). With unit normals n, cos theta = -n_1 . n_2. A face
    without area has no normal: it counts as perpendicular to its neighbours, and gets no gradient from them.

    Args:
        vertices: [..., V, 3] m.
        neighbours: neighbours of the mesh.

    Returns:
        [...], from 0 (flat) to 4 (folded).

    Raises:
        UserError: no two faces share an edge, or the vertices do not fit the mesh.
    """
    _check_vertices(vertices, neighbours)
    if len(neighbours.face_pairs) == 0:
        raise UserError("no two faces of the mesh share an edge: merge its vertices before computing its flattening loss")
    a, b, c = (vertices[..., neighbours.faces[:, k], :] for k in range(3))
    cross = torch.linalg.cross(b - a, c - a)
    squared = (cross * cross).sum(dim=-1, keepdim=True)
    # The gradient of both branches of where() is computed: it must also be finite in the unused one.
    has_area = squared > torch.finfo(vertices.dtype).tiny
    normals = torch.where(has_area, cross / torch.sqrt(torch.where(has_area, squared, torch.ones_like(squared))), 0.0 * cross)
    first_normal, second_normal = (normals[..., neighbours.face_pairs[:, k], :] for k in range(2))
    return ((1.0 - (first_normal * second_normal).sum(dim=-1)) ** 2).mean(dim=-1)


@checked
def edge_length_loss(vertices: torch.Tensor, neighbours: MeshNeighbours) -> torch.Tensor:
    """Mean squared length of the edges (Wang et al., Pixel2Mesh, 2018): penalises isolated distant vertices.

    Args:
        vertices: [..., V, 3] m.
        neighbours: neighbours of the mesh.

    Returns:
        [...] m2.
    """
    _check_vertices(vertices, neighbours)
    a, b = (vertices[..., neighbours.edges[:, k], :] for k in range(2))
    return ((a - b) ** 2).sum(dim=-1).mean(dim=-1)


def _check_vertices(vertices: torch.Tensor, neighbours: MeshNeighbours) -> None:
    count = len(neighbours.valence)
    if vertices.ndim < 2 or tuple(vertices.shape[-2:]) != (count, 3):
        raise UserError(f"the vertices have shape {tuple(vertices.shape)}: give [..., {count}, 3], those of the mesh")
