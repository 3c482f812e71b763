"""Soft masks of bodies: what hides them, their size, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import Box, Scene, Start, UserError, check_torch, render_masks
from tests.reference.full_scene import make_full_scene
from tests.reference.plain_scene import add, plain_scene, poses_of


def stacked(count: int = 2, *, size: int = 24, ground: bool = True) -> Scene:
    """Boxes beside and behind one another."""
    scene = plain_scene(size=size, ground=ground)
    for k in range(count):
        start = Start(position=(0.02 * k - 0.02, 0.05 * k, 0.02 + 0.01 * k))
        scene.add_rigid(f"box{k}", shape=Box(0.05, 0.04, 0.03), density=800.0, start=start)
    return scene


def test_masks_are_separate_and_add_up_to_the_coverage() -> None:
    """Five bodies need two renders; one hides parts of the next, and each pixel is shared."""
    scene = stacked(5)
    poses = poses_of(scene)
    with torch.no_grad():
        masks = render_masks(scene, poses)
        assert masks.shape == (1, 2, 24, 24, 5)
        assert torch.equal(render_masks(scene, poses, bodies=["box3", "box1"], frames=[1]), masks[:, 1:, ..., [3, 1]])
        alone = render_masks(stacked(1), poses[:, :, :1])[..., 0]
    assert masks.min() >= 0 and masks.sum(-1).max() <= 1 + 1e-12
    # The first one stands before all others; where its edge is before another body, it is a little larger.
    inside = (alone > 0.999) | (alone < 1e-3)
    torch.testing.assert_close(masks[..., 0][inside], alone[inside], atol=2e-3, rtol=0)
    assert 0 <= float((masks[..., 0] - alone).sum() / (~inside).sum()) < 0.1
    assert masks[..., 1].sum() < 0.8 * masks[..., 0].sum()  # and hides the second


def test_masks_show_no_lights_colours_or_textures() -> None:
    scene = make_full_scene(size=12, cameras=True)
    poses = poses_of(scene)
    names = [body.name for body in scene.bodies]
    with torch.no_grad():
        masks = render_masks(scene, poses, camera=scene.cameras[0].name)
        for name, value in {"light.ambient.intensity": 0.9, f"{names[0]}.color": 0.1, "ground.color": 0.9}.items():
            if name in scene.parameters:
                scene.set(name, np.full(np.shape(scene.parameters[name].value), value))
        assert torch.equal(render_masks(scene, poses, camera=scene.cameras[0].name), masks)
    assert masks.shape[-1] == len([*scene.bodies, *scene.deformables]) and masks.max() > 0.9


def test_a_mask_is_as_large_as_the_body() -> None:
    """Against coverage counted in pictures of 16 times the size: the edge is out of place by less than 0.001 pixels on average,
    and by less than 0.02 where edges are as soft as a pixel.
    """
    boxes, fine = (stacked(3, size=size, ground=False) for size in (24, 16 * 24))
    poses = poses_of(boxes)
    with torch.no_grad():
        hard = render_masks(fine, poses, edge=0.1, samples=1).sum(-1) > 0.5
        share = hard.double().unflatten(-1, (24, 16)).unflatten(-3, (24, 16)).mean((-3, -1))
        at_edge = ((share > 0) & (share < 1)).sum()
        steep, soft = (
            (render_masks(boxes, poses, **options).sum(-1) - share) for options in ({}, {"edge": 0.4, "samples": 1})
        )
    assert float(steep.square().sum() / at_edge) < 0.1**2
    assert abs(float(steep.sum() / at_edge)) < 0.001 and abs(float(soft.sum() / at_edge)) < 0.02


def test_the_ground_hides_what_is_below_it() -> None:
    sunk = torch.tensor([[[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]], dtype=torch.float64)
    areas = []
    for ground in (True, False):
        scene = plain_scene(size=24, ground=ground)
        add(scene)
        with torch.no_grad():
            areas.append(float(render_masks(scene, sunk).sum()))
    assert areas[0] < 0.85 * areas[1]


def test_gradients_of_masks() -> None:
    """By poses and by the camera, of three bodies that hide one another."""
    scene = stacked(3, size=10)
    poses = poses_of(scene)[:, 1:].cpu().numpy()
    torch.manual_seed(0)
    factors = torch.randn(1, 1, 10, 10, 3, dtype=torch.float64)

    def total(at: dict[str, torch.Tensor]) -> torch.Tensor:
        values = {"camera.position": at["eye"][None], "camera.focal": at["focal"][None]}
        return (factors * render_masks(scene, at["poses"], values, edge=0.3, samples=2)).sum()

    table = scene.parameters
    point = {
        "poses": poses, "eye": np.asarray(table["camera.position"].value), "focal": np.asarray(table["camera.focal"].value)
    }  # fmt: skip
    assert check_torch(total, point, rtol=1e-5, allow_kinks=True).ok



def test_masks_that_cannot_be_made() -> None:
    scene = stacked(2)
    poses = poses_of(scene)
    with pytest.raises(UserError, match="unknown visible body 'box': did you mean 'box0'"):
        render_masks(scene, poses, bodies=["box"])
    with pytest.raises(UserError, match="edge"):
        render_masks(scene, poses, edge=0.0)
