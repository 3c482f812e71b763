"""Fixtures of the inversions' tests."""

import pytest
import torch

from tests.reference.searches import pictures
from tests.reference.small_scenes import make_scene


@pytest.fixture(scope="module")
def target() -> torch.Tensor:
    """The film [T, H, W, 3] of the small scene."""
    return pictures(make_scene())
