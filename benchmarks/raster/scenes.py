"""Scenes of the rasteriser's benchmarks: spheres in many colours, boxes of tetrahedra."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from ti_render import (
    RasterSettings,
    RenderInputs,
    intrinsics_from_fov,
    look_at,
    mesh_topology,
    pack_camera,
)
from ti_sim import Sphere
from ti_sim.base.runtime import require

COVERAGE = 0.40  # of the picture, by the sphere
DISTANCE = 2.7  # m, from the camera to the middle of the sphere of radius 1 m
SOFTNESS = 1e-4  # sigma and gamma
NEAR, FAR = 1.0, 100.0  # m
LIGHT_DIRECTION = (-1.0, 0.5, -0.7)  # in which the light travels
SHININESS = 32.0


@cache
def sphere(faces: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and faces [F, 3] of a unit sphere with 80 or 5,120 (icosphere) or 1,008 (24 x 21 UV sphere) faces."""
    subdivisions = {80: 1, 5120: 4}
    if faces in subdivisions:
        mesh = Sphere(1.0, subdivisions[faces]).surface()
        return mesh.vertices, mesh.faces
    if faces != 1008:
        raise ValueError(f"no sphere of {faces} faces: choose 80, 1008 or 5120")
    return _uv_sphere(sections=24, rings=21)


def _uv_sphere(*, sections: int, rings: int) -> tuple[np.ndarray, np.ndarray]:
    """A sphere of ``rings`` rings of vertices between two poles: 2 sections rings faces."""
    polar = np.pi * np.arange(1, rings + 1) / (rings + 1)
    azimuth = 2.0 * np.pi * np.arange(sections) / sections
    ring = np.stack(np.broadcast_arrays(
        np.sin(polar)[:, None] * np.cos(azimuth), np.sin(polar)[:, None] * np.sin(azimuth), np.cos(polar)[:, None]
    ), axis=-1)  # fmt: skip
    vertices = np.concatenate([ring.reshape(-1, 3), [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0)]])
    section = np.arange(sections)
    next_section = (section + 1) % sections
    north, south = rings * sections, rings * sections + 1
    last_ring = (rings - 1) * sections
    faces = [
        np.stack([np.full(sections, north), section, next_section], 1),
        np.stack([np.full(sections, south), last_ring + next_section, last_ring + section], 1),
    ]
    for upper in range(0, last_ring, sections):
        lower = upper + sections
        faces.append(np.stack([upper + section, lower + section, lower + next_section], 1))
        faces.append(np.stack([upper + section, lower + next_section, upper + next_section], 1))
    return vertices, np.concatenate(faces)


@cache
def tetrahedra_box(columns: int, rows: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] of a cube of side 1 m and its 5 columns rows layers tetrahedra [E, 4].

    Every cell of the grid is one tetrahedron in the middle and one at each of four corners; neighbouring cells are mirror
    images, so that their faces meet.
    """
    grid = np.stack(np.meshgrid(*(np.arange(n + 1) for n in (columns, rows, layers)), indexing="ij"), axis=-1)
    vertex_number = np.arange(grid[..., 0].size).reshape(grid.shape[:3])
    cells = np.stack(np.meshgrid(*(np.arange(n) for n in (columns, rows, layers)), indexing="ij"), axis=-1).reshape(-1, 3)
    cell_tetrahedra = np.array(
        [(0, 3, 5, 6), (1, 0, 3, 5), (2, 0, 6, 3), (4, 0, 5, 6), (7, 3, 6, 5)]
    )  # corner 4 x + 2 y + z of a cell
    corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    is_mirrored = cells.sum(axis=1) % 2
    # A mirrored cell exchanges the two sides along x.
    corner_offsets = np.where(is_mirrored[:, None, None] == 1, corners * (-1, 1, 1) + (1, 0, 0), corners)
    corner_indices = cells[:, None, :] + corner_offsets
    tetrahedra = vertex_number[corner_indices[..., 0], corner_indices[..., 1], corner_indices[..., 2]][
        :, cell_tetrahedra
    ].reshape(-1, 4)
    return grid.reshape(-1, 3) / (columns, rows, layers) - 0.5, tetrahedra


def surface_of(vertices: np.ndarray, tetrahedra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] and faces [F, 3] of the surface of tetrahedra [E, 4], oriented outwards."""
    opposite_vertices = [(3, (0, 1, 2)), (2, (0, 1, 3)), (1, (0, 2, 3)), (0, (1, 2, 3))]
    faces = np.concatenate([tetrahedra[:, face] for _, face in opposite_vertices])
    opposite_vertex = np.concatenate([tetrahedra[:, vertex] for vertex, _ in opposite_vertices])
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    surface_faces = np.sort(first[count == 1])
    faces, opposite_vertex = faces[surface_faces], opposite_vertex[surface_faces]
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    points_inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), vertices[opposite_vertex] - a) > 0
    faces[points_inwards] = faces[points_inwards][:, ::-1]
    used, renumbered = np.unique(faces, return_inverse=True)
    return vertices[used], renumbered.reshape(faces.shape)


def make_inputs(
    mesh: tuple[np.ndarray, np.ndarray], pixels: int, *, images: int = 1, **options: Any
) -> tuple[RenderInputs, RasterSettings]:
    """A mesh in many colours, with smooth normals, under one lamp, in a square picture; in torch tensors.

    A unit sphere covers about 40 % of the picture.

    Args:
        mesh: vertices [V, 3] [m] and faces [F, 3].
        pixels: side of the picture.
        images: M, each with the mesh rotated a little further.
        options: of the settings; "phong" shading by default.
    """
    vertices, faces = mesh
    tensor_options = {"dtype": torch.float32, "device": require().device}
    # A unit sphere at distance d shows a disc of the angle asin(1 / d), whose radius is 2 sqrt(coverage / pi) in NDC.
    disc_radius = 2.0 * np.sqrt(COVERAGE / np.pi)
    fov = 2.0 * np.arctan(np.tan(np.arcsin(1.0 / DISTANCE)) / disc_radius)
    camera = pack_camera(
        intrinsics_from_fov(vertical_fov=fov, width=pixels, height=pixels), *look_at((DISTANCE, 0.0, 0.0), (0.0, 0.0, 0.0))
    )
    angle = 0.5 * torch.linspace(0.0, 0.3, images, **tensor_options)
    body_q = torch.zeros(images, 1, 7, **tensor_options)
    body_q[:, 0, 5], body_q[:, 0, 6] = torch.sin(angle), torch.cos(angle)
    colour = torch.rand(1, len(faces), 3, 3, generator=torch.Generator().manual_seed(0)).to(**tensor_options)
    inputs = RenderInputs(
        mesh=mesh_topology(faces, np.zeros(len(vertices), dtype=np.int64), corner_normal=faces, like=body_q),
        vertices_rest=torch.tensor(vertices, **tensor_options),
        body_q=body_q,
        camera=torch.tensor(camera[None], **tensor_options),
        albedo=colour,
        ambient=torch.full((1, 3), 0.3, **tensor_options),
        background=torch.ones(1, 2, 3, **tensor_options),
        directional=torch.tensor([[[*LIGHT_DIRECTION, 0.7, 0.7, 0.7]]], **tensor_options),
        material=torch.tensor([[[0.2, 0.2, 0.2, SHININESS]]], **tensor_options),
    )
    options = {"shading": "phong", "sigma": SOFTNESS, "gamma": SOFTNESS, "near": NEAR, "far": FAR, **options}
    return inputs, RasterSettings(width=pixels, height=pixels, **options)


def numpy_inputs(inputs: RenderInputs) -> RenderInputs:
    """The same inputs as numpy arrays."""
    mesh = replace(inputs.mesh, **_as_numpy(inputs.mesh))
    return replace(inputs, **_as_numpy(inputs), mesh=mesh)


def _as_numpy(owner: object) -> dict[str, np.ndarray]:
    return {name: array.cpu().numpy() for name, array in vars(owner).items() if isinstance(array, torch.Tensor)}
