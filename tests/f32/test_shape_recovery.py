"""The shape of an object from the silhouettes of twelve pictures: a sphere is deformed into it, and judged from other views."""

from __future__ import annotations

import math

import numpy as np
import torch

from risp_torch import bridge
from risp_torch.mesh_losses import flattening_loss, laplacian_loss, mesh_neighbours, silhouette_iou
from risp_torch.scene.numbers import constant
from ti_render import RasterSettings, RenderInputs, intrinsics_from_fov, look_at, mesh_topology, pack_camera
from ti_sim import Sphere

SIZE = 64


def directions(count: int, *, offset: float) -> np.ndarray:
    """Directions [count, 3] spread over the sphere (a Fibonacci spiral), turned by ``offset`` rad about z."""
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, math.pi * (1 + math.sqrt(5)) * k + offset
    return np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=1)


def cameras(count: int, *, offset: float) -> torch.Tensor:
    """Cameras [count, 16] 2.6 m from the middle."""
    intrinsics = intrinsics_from_fov(vertical_fov=0.72, width=SIZE, height=SIZE)
    ways = directions(count, offset=offset)
    return constant(np.array([pack_camera(intrinsics, *look_at(2.6 * way, (0, 0, 0))) for way in ways]))


def silhouettes(
    vertices: torch.Tensor, faces: np.ndarray, camera: torch.Tensor, *, sigma: float, antialias: int = 1
) -> torch.Tensor:
    """Coverage [n, H, W] of a mesh seen by n cameras."""
    count = len(camera)
    mesh = mesh_topology(faces, np.zeros(len(vertices), np.int32), like=vertices.detach())
    inputs = RenderInputs(
        mesh=mesh, vertices_rest=vertices, body_q=constant([0, 0, 0, 0, 0, 0, 1]).expand(count, 1, 7), camera=camera,
        albedo=constant(np.zeros((1, len(faces), 3, 3))), ambient=constant([[1, 1, 1]]), background=constant(np.zeros((1, 2, 3))),
    )  # fmt: skip
    settings = RasterSettings(
        width=SIZE, height=SIZE, sigma=sigma, near=0.5, far=5.0, shading="none", antialias=antialias
    )
    return bridge.render(inputs, settings)[..., 3]


def peanut(points: np.ndarray) -> np.ndarray:
    """A bent peanut with a thick and a thin end: points [V, 3] of the unit sphere moved onto it, m."""
    x, y, z = points.T
    waist = 0.3 + 0.13 * np.cos(2.2 * math.pi * x / 1.6) + 0.06 * x
    return np.stack([0.62 * x, waist * y * 1.2, waist * z + 0.22 * (0.62 * x) ** 2 * 2 - 0.08], axis=1)


def test_a_shape_from_twelve_silhouettes() -> None:
    exact = Sphere(1.0, subdivisions=4).surface()
    target, start = constant(peanut(exact.vertices)), Sphere(0.45, subdivisions=3).surface()
    seen, unseen = cameras(12, offset=0.0), cameras(8, offset=1.3)
    goal = silhouettes(target, exact.faces, seen, sigma=1e-7, antialias=4).detach()
    neighbours = mesh_neighbours(start.faces, len(start.vertices))
    vertices = constant(start.vertices).requires_grad_()
    optimiser = torch.optim.Adam([vertices], lr=0.01, betas=(0.6, 0.95))
    for sigma, steps, smooth in ((1e-3, 60, 60.0), (2e-4, 60, 30.0), (3e-5, 60, 15.0)):
        for _ in range(steps):
            optimiser.zero_grad()
            agreement = silhouette_iou(silhouettes(vertices, start.faces, seen, sigma=sigma), goal).mean()
            loss = 1 - agreement + smooth * laplacian_loss(vertices, neighbours) + 0.01 * flattening_loss(vertices, neighbours)
            loss.backward()
            optimiser.step()

    def judged(shape: torch.Tensor) -> torch.Tensor:
        found = silhouettes(shape, start.faces, unseen, sigma=1e-7, antialias=4).detach()
        truth = silhouettes(target, exact.faces, unseen, sigma=1e-7, antialias=4).detach()
        return silhouette_iou(found, truth, threshold=0.5)

    first, last = judged(constant(start.vertices)), judged(vertices.detach())
    print(f"shape: intersection over union from unseen views {last.tolist()}, of the sphere at the start {first.tolist()}")
    assert first.mean() < 0.8, "the start is the solution already"
    assert last.min() > 0.95
