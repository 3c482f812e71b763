"""The pose of a body from one picture.

The pictures to explain are made with sharper edges and more samples than the search uses, and go through 8-bit sRGB, as a
photograph would. The search sees them and what is said to be known, and starts far away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from risp_torch import AmbientLight, Camera, DirectionalLight, Mesh, Scene, Surface
from risp_torch.scene.body import quaternion_product, rotation_quaternion
from risp_torch.scene.numbers import constant
from risp_torch.video import linear_to_srgb, srgb_to_linear

COLORS = np.array([
    (0.8, 0.15, 0.1), (0.1, 0.5, 0.8), (0.9, 0.75, 0.1), (0.15, 0.65, 0.2), (0.55, 0.2, 0.7), (0.9, 0.5, 0.2),
    (0.85, 0.85, 0.8), (0.2, 0.25, 0.35),
])  # fmt: skip


def photograph(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures as an 8-bit sRGB file would hold them, linear again."""
    stored = np.round(255.0 * linear_to_srgb(pictures.detach().clamp(0.0, 1.0).cpu().numpy())) / 255.0
    return constant(srgb_to_linear(stored))


def blurred(pictures: torch.Tensor, width: float) -> torch.Tensor:
    """Pictures [..., H, H, C] under a Gaussian of standard deviation ``width`` pixels, normalised at the border."""
    places = torch.arange(pictures.shape[-2], dtype=pictures.dtype, device=pictures.device)
    weights = torch.exp(-0.5 * ((places - places[:, None]) / width) ** 2)
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("ij,...jkc,lk->...ilc", weights, pictures, weights)


def levenberg_marquardt(
    residual: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, *, iterations: int, damping: float = 1.0,
    longest: float = 0.3,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Least squares of many problems side by side (Levenberg 1944, Marquardt 1963). One pass gives all columns of the Jacobians.

    Args:
        residual: from parameters [B, K] to residuals [B, ...], each row of its own problem.
        start: [B, K].
        iterations: steps tried.
        damping: at the start, in parts of the mean diagonal entry of J^T J.
        longest: norm of a step at most.

    Returns:
        Parameters [B, K] and their sums of squares [B].
    """
    count = start.shape[1]
    point, damping = start, torch.full((len(start), 1, 1), damping, dtype=torch.float64)

    def linearised(point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def moved(step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            value = residual(point + step)
            return value, value

        jacobian, value = torch.func.jacfwd(moved, has_aux=True)(point.new_zeros(count))
        return jacobian.flatten(1, -2).double().cpu(), value.flatten(1).double().cpu()

    with torch.no_grad():
        for _ in range(iterations):
            jacobian, value = linearised(point)
            losses = (value * value).sum(dim=1)
            normal = jacobian.transpose(1, 2) @ jacobian
            scale = normal.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None]
            identity = torch.eye(count, dtype=torch.float64)
            step = -torch.linalg.solve(normal + damping * scale * identity, (jacobian.transpose(1, 2) @ value[..., None]))[..., 0]
            step = step * (longest / step.norm(dim=1, keepdim=True).clamp_min(longest))
            candidate = point + step.to(point)
            found = residual(candidate).flatten(1).double().cpu()
            better = (found * found).sum(dim=1) < losses
            point = torch.where(better.to(point.device)[:, None], candidate, point)
            damping = torch.where(better[:, None, None], damping / 5.0, damping * 4.0).clamp(1e-7, 1e7)
        value = residual(point).flatten(1).double().cpu()
    return point, (value * value).sum(dim=1)


def unit_vectors(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    vectors = rng.standard_normal(shape)
    return constant(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


# -- the pose of a body -------------------------------------------------------------------------------------------------------


def angled_block() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An L with two arms of different length, width and height, which no rotation maps to itself.

    Returns:
        Vertices [12, 3] m, faces [20, 3] and the side [20] (0 to 7) to which each face belongs.
    """
    outline = np.array([(0.0, 0.0), (0.1, 0.0), (0.1, 0.035), (0.04, 0.035), (0.04, 0.075), (0.0, 0.075)])
    heights = np.array([0.03, 0.03, 0.05, 0.05, 0.06, 0.06])
    vertices = np.concatenate([np.column_stack([outline, z]) for z in (np.zeros(6), heights)])
    ends = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)])
    here, there = np.arange(6), (np.arange(6) + 1) % 6
    walls = np.stack([here, there, there + 6, here, there + 6, here + 6], axis=1).reshape(-1, 3)
    sides = np.concatenate([np.full(4, 6), np.full(4, 7), np.repeat(here, 2)])
    return vertices, np.concatenate([ends[:, ::-1], ends + 6, walls]), sides


VERTICES, FACES, SIDES = angled_block()
WIDTH = float(np.ptp(VERTICES, axis=0).max())


def block_scene(*, size: int, sigma: float, gamma: float, antialias: int) -> Scene:
    scene = Scene(frame_dt=1.0, frames=1, substeps=1, sigma=sigma, gamma=gamma, antialias=antialias)
    block = Mesh(vertices=VERTICES, faces=FACES)
    scene.add_rigid("block", shape=block, density=1000.0, surface=Surface(face_colors=COLORS[SIDES]))
    eye = (0.08, -0.2, 0.13)
    scene.add_camera(
        Camera.look_at(eye=eye, target=(0.0, 0.0, 0.0), vertical_fov=50.0, width=size, height=size, near=0.05, far=1.0)
    )
    scene.add_light(DirectionalLight(direction=(0.4, 0.6, -1.0), intensity=0.6))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.3, 0.3, 0.3))
    scene.render(constant([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).expand(1, 1, 1, 7))
    return scene


def moved_pose(change: torch.Tensor, position: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Poses [B, 1, 1, 7]: changes [B, 6] (parts of WIDTH, rad) from positions [B, 3] and quaternions [B, 4]."""
    pose = [position + WIDTH * change[:, :3], quaternion_product(rotation_quaternion(change[:, 3:]), turn)]
    return torch.cat(pose, dim=1)[:, None, None]


def test_a_pose_from_one_picture() -> None:
    rng = np.random.default_rng(0)
    cases = 4
    true_turn, axis, way = unit_vectors(rng, cases, 4), unit_vectors(rng, cases, 3), unit_vectors(rng, cases, 3)
    truth = torch.cat([torch.zeros_like(way), true_turn], dim=1)[:, None, None]
    turn, position = quaternion_product(rotation_quaternion(math.radians(40.0) * axis), true_turn), 0.5 * WIDTH * way

    def searched(change: torch.Tensor, tries: int, iterations: int, blur: float, **look: float) -> tuple:
        small = {"size": look["size"], "sigma": 1e-7, "gamma": 1e-4, "antialias": 6}
        with torch.no_grad():
            goal = blurred(photograph(block_scene(**small).render(truth)[:, 0]), blur).repeat_interleave(tries, 0)
        scene = block_scene(**look)
        starts = [x.repeat_interleave(tries, 0) for x in (position, turn)]
        return levenberg_marquardt(
            lambda change: blurred(scene.render(moved_pose(change, *starts))[:, 0], blur) - goal, change, iterations=iterations
        )

    # Far from the truth there are other minima: look from the start, and from the start turned by 30 degrees, six ways.
    around = torch.cat([torch.zeros(1, 6), 0.5 * torch.eye(6)[3:], -0.5 * torch.eye(6)[3:]]).to(position)
    change, losses = searched(around.repeat(cases, 1), 7, 20, 4.5, size=56, sigma=3e-4, gamma=1e-2, antialias=1)
    best = losses.reshape(cases, 7).argmin(dim=1)
    change = change.reshape(cases, 7, 6)[torch.arange(cases), best]
    for blur, sigma, gamma, antialias in ((3.0, 2e-4, 1e-2, 1), (1.0, 1e-4, 3e-3, 1), (0.7, 3e-6, 1e-3, 4), (0.7, 1e-6, 2e-4, 6)):
        change, losses = searched(change, 1, 12, blur, size=112, sigma=sigma, gamma=gamma, antialias=antialias)
    pose = moved_pose(change, position, turn)[:, 0, 0]
    cosine = (pose[:, 3:].double() * true_turn.double()).sum(dim=1).abs().clamp(max=1.0)
    angles, offsets = torch.rad2deg(2 * torch.acos(cosine)), pose[:, :3].norm(dim=1) / WIDTH
    print(f"pose: angles {angles.tolist()} degrees, offsets {offsets.tolist()} widths")
    assert (angles < 1.0).all() and (offsets < 0.01).all()
