"""The image Jacobian in the working precision of users."""

import pytest
import torch

from risp_torch import load_scene
from risp_torch.scene.rendering_parameters import default_psi, image_jacobian


@pytest.mark.parametrize("worlds", [None, 2])
def test_image_jacobian_of_a_shipped_scene_is_the_slope_of_its_pictures(worlds: int | None) -> None:
    scene = load_scene("toss")
    scene.resize_camera(24, 24)
    parameters = default_psi(scene)
    psi = parameters.sample(worlds or 1, seed=3) * 0.5
    psi = psi if worlds else psi[0]
    poses = scene.simulator.adapter.inputs(scene.table.values(), frames=scene.frames).body_q0  # [1, N, 7]
    picture, columns = image_jacobian(scene, poses[0], psi, parameters)
    assert columns.dtype == torch.float32
    assert columns.shape == (*psi.shape[:-1], parameters.size, 24, 24, 3)
    step = 2e-3
    for k in range(parameters.size):
        shift = torch.zeros_like(psi)
        shift[..., k] = step
        above, _ = image_jacobian(scene, poses[0], psi + shift, parameters)
        below, _ = image_jacobian(scene, poses[0], psi - shift, parameters)
        slope, column = (above - below) / (2 * step), columns.select(-4, k)
        error = (slope - column).norm() / column.norm().clamp_min(1e-3)
        assert error < 5e-3, f"{parameters.names[k]}: {error:.2e}"
