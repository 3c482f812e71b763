"""Fixtures of the inversions' tests."""

import pytest
import torch

from risp_torch.inversion.diagnostics.misspecification import Diagnosis
from risp_torch.inversion.run import assessment
from tests.reference.searches import pictures
from tests.reference.small_scenes import make_scene


@pytest.fixture(scope="module")
def target() -> torch.Tensor:
    """The film [T, H, W, 3] of the small scene."""
    return pictures(make_scene())


@pytest.fixture
def undiagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results without tests of the scene's known numbers, for tests of the search: they take longer than a small search."""
    monkeypatch.setattr(assessment, "diagnose", lambda *_, **__: Diagnosis())
