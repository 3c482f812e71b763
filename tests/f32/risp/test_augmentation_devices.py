"""Augmentations stay on the device of a batch: checked with fake tensors of another device, which have no numbers."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from risp_torch import Scene
from risp_torch.risp import Batch
from risp_torch.risp.training.appearance_jitter import AppearanceJitter
from risp_torch.risp.training.background_augmentation import BackgroundAugmentation
from risp_torch.risp.training.exposure import vary_exposure
from risp_torch.scene.rendering_parameters import Factor, Range, RenderingParameters
from tests.reference import small_scenes

COUNT, SIZE, DEVICE = 4, 16, "meta"


@pytest.fixture(scope="module")
def parameters() -> RenderingParameters:
    scene: Scene = small_scenes.make_scene(size=SIZE)
    greys = {"light.key.intensity": Factor(0.6, 1.2, tied=True), "ground.color": Range(0.1, 0.6, tied=True)}
    return RenderingParameters(scene, greys)


def test_a_batch_of_a_gpu_stays_there(parameters: RenderingParameters) -> None:
    background, jitter = BackgroundAugmentation(parameters), AppearanceJitter(parameters, 0.5)
    with FakeTensorMode(allow_non_fake_inputs=True):
        images = torch.zeros((COUNT, SIZE, SIZE, 3), device=DEVICE)
        jacobian = torch.zeros((COUNT, 2, SIZE, SIZE, 3), device=DEVICE).half()
        batch = Batch(images, jacobian, torch.zeros((COUNT, 9), device=DEVICE), torch.zeros((COUNT, 2), device=DEVICE))
        batch = background(jitter(batch, seed=(1,)), seed=(1,))
        images, jacobian = vary_exposure(batch.images, batch.jacobian, seed=(1,))
        assert images.device.type == jacobian.device.type == batch.images.device.type == DEVICE
        with pytest.raises(RuntimeError, match="device"):  # a mixture of devices is an error in fake tensors, too
            vary_exposure(batch.images.cpu(), batch.jacobian, seed=(1,))
