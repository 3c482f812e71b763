"""A texture, a light's direction and a camera's focal length, each from one picture.

The pictures to explain have sharper edges and more samples than the search uses, and go through 8-bit sRGB as a file would.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Scene, Sphere, Surface
from risp_torch.scene.numbers import constant
from risp_torch.video import linear_to_srgb, srgb_to_linear

SHARP = {"sigma": 1e-7, "gamma": 1e-4, "antialias": 6}
SEARCH = {"sigma": 3e-5, "gamma": 1e-3, "antialias": 2}
SIX_COLORS = np.array([(0.8, 0.2, 0.1), (0.1, 0.5, 0.8), (0.9, 0.7, 0.1), (0.2, 0.6, 0.2), (0.5, 0.2, 0.7), (0.8, 0.8, 0.8)])


def photograph(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures as an 8-bit sRGB file would hold them, linear again."""
    stored = np.round(255.0 * linear_to_srgb(pictures.detach().clamp(0.0, 1.0).cpu().numpy())) / 255.0
    return constant(srgb_to_linear(stored))


def still_life(*, size: int = 80, **look: float) -> Scene:
    """A die and a ball on the ground."""
    scene = Scene(frame_dt=1.0, frames=1, substeps=1, **look)
    scene.add_ground(
        contact=Contact(stiffness=1e3, damping=1.0, friction_stiffness=1.0, friction=0.3), color=(0.5, 0.45, 0.4)
    )
    die = Surface(face_colors=SIX_COLORS)
    scene.add_rigid("die", shape=Box(0.06, 0.05, 0.05), density=1e3, position=(-0.02, 0.02, 0.03), surface=die)
    ball = Surface(color=(0.7, 0.7, 0.7), smooth=True)
    scene.add_rigid("ball", shape=Sphere(0.03), density=1e3, position=(0.07, -0.05, 0.03), surface=ball)
    scene.add_camera(
        Camera.look_at(
            eye=(0.12, -0.3, 0.25), target=(0.02, 0, 0.02), vertical_fov=40, width=size, height=size, near=0.05, far=1.0
        )
    )
    scene.add_light(DirectionalLight(direction=(0.4, 0.6, -1.0), intensity=0.6))
    scene.add_light(AmbientLight(intensity=0.25))
    return scene


def poses(scene: Scene) -> torch.Tensor:
    return scene.rigid_inputs(scene.table.values()).body_q0[:, None]


def least_squares(
    residual: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, *, iterations: int, longest: float
) -> torch.Tensor:
    """Levenberg-Marquardt with the Jacobian of forward mode, all columns in one pass: parameters [K]."""
    point, damping = start, 1e-2
    with torch.no_grad():
        value = residual(point).double().flatten()
        for _ in range(iterations):
            jacobian = torch.func.jacfwd(residual)(point).double().reshape(-1, len(point))
            normal = jacobian.T @ jacobian
            step = -torch.linalg.solve(
                normal + damping * normal.diagonal().mean() * torch.eye(len(point), dtype=torch.float64), jacobian.T @ value
            )
            candidate = point + (step * min(1.0, longest / float(step.norm()))).to(point)
            found = residual(candidate).double().flatten()
            if found.square().sum() < value.square().sum():
                point, value, damping = candidate, found, damping / 5
            else:
                damping *= 10
    return point


def test_a_light_direction_from_one_picture() -> None:
    goal_scene, scene = still_life(**SHARP), still_life(**SEARCH)
    rng = np.random.default_rng(1)
    for _ in range(3):
        azimuth, elevation = rng.uniform(-math.pi, math.pi), math.radians(rng.uniform(35, 70))
        away = azimuth + math.radians(rng.uniform(100, 150)) * rng.choice([-1, 1])

        def travels(angles: torch.Tensor) -> torch.Tensor:
            a, e = angles[0], angles[1]
            return -torch.stack([torch.cos(a) * torch.cos(e), torch.sin(a) * torch.cos(e), torch.sin(e)])

        truth = travels(constant([azimuth, elevation]))
        with torch.no_grad():
            goal = photograph(goal_scene.render(poses(goal_scene), {"light.key.direction": truth}))

        def residual(angles: torch.Tensor, goal: torch.Tensor = goal) -> torch.Tensor:
            return scene.render(poses(scene), {"light.key.direction": travels(angles)}) - goal

        start = constant([away, math.radians(50.0)])
        found = travels(least_squares(residual, start, iterations=25, longest=0.4))
        angles = [math.degrees(math.acos(min(1.0, float(x @ truth)))) for x in (travels(start), found)]
        print(f"light: {angles[0]:.0f} degrees away at the start, {angles[1]:.3f} degrees at the end")
        assert angles[0] > 40
        assert angles[1] < 1.0


def test_a_focal_length_from_one_picture() -> None:
    goal_scene, scene = still_life(**SHARP), still_life(**SEARCH)
    focal = constant(scene.parameters["camera.focal"].value)
    for factor in (0.8, 1.25):
        with torch.no_grad():
            goal = photograph(goal_scene.render(poses(goal_scene), {"camera.focal": factor * focal}))

        def residual(log_scale: torch.Tensor, goal: torch.Tensor = goal) -> torch.Tensor:
            return scene.render(poses(scene), {"camera.focal": focal * torch.exp(log_scale)}) - goal

        found = float(torch.exp(least_squares(residual, constant([0.0]), iterations=20, longest=0.05)))
        print(f"focal length: {100 * (1 / factor - 1):+.0f} % at the start, {100 * (found / factor - 1):+.3f} % at the end")
        assert abs(found / factor - 1) < 5e-3


def test_a_texture_from_one_picture() -> None:
    truth = np.random.default_rng(0).uniform(0.1, 0.9, (16, 16, 3))

    def ball(texture: np.ndarray, **look: float) -> Scene:
        scene = Scene(frame_dt=1.0, frames=1, substeps=1, **look)
        scene.add_rigid(
            "ball", shape=Sphere(0.05, subdivisions=3), density=1e3, orientation=(0.3, 0.2, 0.1, 0.9),
            surface=Surface(texture=texture, smooth=True),
        )  # fmt: skip
        scene.add_camera(
            Camera.look_at(eye=(0.1, -0.2, 0.1), target=(0, 0, 0), vertical_fov=28, width=128, height=128, near=0.05, far=1.0)
        )
        scene.add_light(DirectionalLight(direction=(0.1, 0.7, -0.6), intensity=0.7))
        scene.add_light(AmbientLight(intensity=0.3))
        return scene

    # No edge has to move: the search may have sharp ones, so that none of them blurs the texture.
    sharp, scene = ball(truth, **SHARP), ball(np.full_like(truth, 0.5), sigma=1e-6, gamma=1e-4, antialias=3)
    with torch.no_grad():
        goal = photograph(sharp.render(poses(sharp)))
    logits = constant(np.zeros_like(truth)).requires_grad_()  # the texture is their sigmoid
    # The light that each texel sends to the eye, in fully lit pixels: visible is what sends at least four.
    shown = scene.render(poses(scene), {"ball.texture": torch.sigmoid(logits)})
    seen = 4 / 3 * torch.autograd.grad(shown.sum(), logits)[0].sum(dim=-1)
    visible = seen > 4.0
    optimiser = torch.optim.LBFGS([logits], lr=1.0, max_iter=50, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (scene.render(poses(scene), {"ball.texture": torch.sigmoid(logits)}) - goal).square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    error = (torch.sigmoid(logits.detach()) - constant(truth)).square()[visible].mean().item()
    start = (0.5 - constant(truth)).square()[visible].mean().item()
    psnr = [-10 * math.log10(x) for x in (start, error)]
    print(f"texture: {int(visible.sum())} of {visible.numel()} texels visible, PSNR {psnr[0]:.1f} dB, then {psnr[1]:.1f} dB")
    assert visible.sum() > 0.3 * visible.numel()
    assert psnr[1] > 30.0
