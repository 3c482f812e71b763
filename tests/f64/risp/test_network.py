"""The network: its layers, its derivatives in both modes and both at once, and its files."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from risp_torch import UserError
from risp_torch.risp import NetworkSettings, RispNetwork, load_network, save_network
from risp_torch.risp.network.file import check_network
from risp_torch.risp.network.resnet import _InstanceNorm, denormals_flushed
from tests.reference.dot_product import dot_product_test
from ti_sim.base.gradcheck import gradcheck

SIZE = 64
Function = Callable[[torch.Tensor], torch.Tensor]


def made(*, seed: int = 0, **settings: object) -> RispNetwork:
    torch.manual_seed(seed)
    return RispNetwork(NetworkSettings(**{"outputs": 5, "size": SIZE, "width": 1} | settings)).double()


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def record() -> dict:
    return {"scene": "cube", "task": {"gamma": 20.0, "head": {"kind": "rigid_pose"}}, "training": {"seed": 0}}


# -- layers -----------------------------------------------------------------------------------------------------------------


def test_resnet18_has_its_numbers() -> None:
    """He et al., table 1: 11.69 M with 1000 classes and batch norm's scales and shifts, none of which are here."""
    w = 64
    stem = 3 * w * 7**2
    stage_1 = 4 * w * w * 3**2
    later = sum(
        (before * after + 3 * after * after) * 3**2 + before * after  # four convolutions, and the shortcut's of one pixel
        for before, after in ((w, 2 * w), (2 * w, 4 * w), (4 * w, 8 * w))
    )
    norms = 2 * (w + 4 * w + 5 * (2 * w + 4 * w + 8 * w))
    classes = (8 * w + 1) * 1000
    assert stem + stage_1 + later + norms + classes == 11_689_512  # torchvision's resnet18
    outputs = 9
    average = RispNetwork(NetworkSettings(outputs=outputs, size=128, width=w, head="average"))
    assert count(average) == stem + stage_1 + later + (8 * w + 1) * outputs
    spatial = RispNetwork(NetworkSettings(outputs=outputs, size=128, width=w, head="spatial"))
    assert count(spatial) == stem + stage_1 + later + (8 * w * 4**2 + 1) * outputs


def count(network: RispNetwork) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_instance_norm_is_the_plain_formula() -> None:
    x = 3.0 + 2.0 * noise(2, 3, 6, 8)
    found = _InstanceNorm()(x)
    torch.testing.assert_close(found, plain_norm(x), rtol=1e-12, atol=1e-12)
    assert found.mean((2, 3)).abs().max() < 1e-12
    torch.testing.assert_close(found.var((2, 3), correction=0), torch.ones(2, 3, dtype=torch.float64), rtol=1e-4, atol=0)
    flat = torch.full((1, 1, 4, 4), 0.7, dtype=torch.float64)
    assert _InstanceNorm()(flat).abs().max() < 1e-6  # nothing is divided by 0


def plain_norm(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) / ((x - mean).square().mean((2, 3), keepdim=True) + 1e-5).sqrt()


def test_every_convolution_is_normalised_and_nothing_is_a_relu() -> None:
    modules = [module for module in made().modules() if not list(module.children())]
    kinds = [type(module).__name__ for module in modules]
    assert kinds.count("Conv2d") == kinds.count("_InstanceNorm") == 20 and kinds.count("SiLU") == 17
    assert set(kinds) == {"Conv2d", "_InstanceNorm", "SiLU", "MaxPool2d", "Identity", "Linear"}
    assert all(module.bias is None for module in modules if isinstance(module, torch.nn.Conv2d))


def test_first_weights_are_the_seeds() -> None:
    one, same, other = made(seed=1), made(seed=1), made(seed=2)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.linear.weight, other.linear.weight)


def test_average_head_does_not_see_where_features_are() -> None:
    """Before the last layer, the averaged map is the same in any order of its pixels; the spatial one is not."""
    features = noise(2, 8, 2, 2)
    for head, same in (("average", True), ("spatial", False)):
        network = made(head=head)
        network.stem, network.stages = torch.nn.Identity(), torch.nn.Identity()
        with torch.no_grad():
            turned = network(features.flip(2).transpose(2, 3))
            assert torch.allclose(network(features), turned, rtol=1e-12) == same


# -- derivatives --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["rows", "pixels"])
@pytest.mark.parametrize("head", ["spatial", "average"])
def test_forward_and_reverse_mode_are_transposes(head: str, layout: str) -> None:
    network = made(head=head)
    function = network.read if layout == "pixels" else network
    x = noise(2, SIZE, SIZE, 3) if layout == "pixels" else noise(2, 3, SIZE, SIZE)

    def jvp(point: dict[str, np.ndarray], tangent: dict[str, np.ndarray]) -> np.ndarray:
        tensors = tuple(torch.tensor(array["x"]) for array in (point, tangent))
        return torch.func.jvp(function, tensors[:1], tensors[1:])[1].detach().cpu().numpy()

    def vjp(point: dict[str, np.ndarray], weights: np.ndarray) -> dict[str, np.ndarray]:
        x = torch.tensor(point["x"], requires_grad=True)
        return {"x": torch.autograd.grad(function(x), x, torch.tensor(weights))[0].cpu().numpy()}

    products = dot_product_test(jvp, vjp, {"x": x.cpu().numpy()}, (2, 5))
    assert products.ok, products


def mixed(function: Function, seed: int) -> Callable[[dict[str, np.ndarray]], tuple[float, dict[str, np.ndarray]]]:
    """A number made of forward-mode derivatives at "x" along fixed tangents, and its reverse derivative."""

    def evaluate(point: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        x = torch.tensor(point["x"], requires_grad=True)
        tangent = noise(*x.shape, seed=seed) - 0.5
        _, derivative = torch.func.jvp(function, (x,), (tangent,))
        loss = (noise(*derivative.shape, seed=seed + 1) * derivative).sum()
        return float(loss.detach()), {"x": torch.autograd.grad(loss, x)[0].cpu().numpy()}

    return evaluate


@pytest.mark.parametrize("layout", ["rows", "pixels"])
def test_reverse_derivative_of_the_forward_derivative_of_the_norm(layout: str) -> None:
    x = noise(2, 3, 4, 4)
    if layout == "pixels":  # a transposed view inside, as pictures with their channels last are
        given = x.permute(0, 2, 3, 1).cpu().numpy()
        norm = lambda pixels: _InstanceNorm()(pixels.permute(0, 3, 1, 2))  # noqa: E731
    else:
        given, norm = x.cpu().numpy(), _InstanceNorm()
    gradcheck(mixed(norm, 3), {"x": given}, step=1e-4, rtol=1e-6, floor=1e-4, min_observable=80).raise_if_wrong()


@pytest.mark.parametrize(
    "function",
    [functional.instance_norm, lambda x: functional.layer_norm(x.flatten(2), (x.shape[2] * x.shape[3],)).view_as(x)],
    ids=["instance_norm", "layer_norm"],
)
def test_pytorchs_own_norms_still_need_the_detour(function: Function) -> None:
    """_InstanceNorm changes over to group norm because of these; a report that is right says that it need not any more."""
    report = gradcheck(mixed(function, 3), {"x": noise(2, 3, 4, 4).cpu().numpy()}, step=1e-4, rtol=1e-6, floor=1e-4)
    if report.ok:
        pytest.skip(f"PyTorch {torch.__version__} differentiates this norm rightly: _InstanceNorm can be simpler")
    assert report.worst is not None and report.worst.relative > 1e-3  # wrong, not merely imprecise


@pytest.mark.parametrize("head", ["spatial", "average"])
def test_reverse_derivative_of_the_forward_derivative_of_the_network(head: str) -> None:
    network = made(head=head)
    x = noise(1, 3, SIZE, SIZE).cpu().numpy()
    report = gradcheck(mixed(network, 7), {"x": x}, step=1e-6, rtol=1e-4, floor=1e-4, max_entries=10, min_observable=8)
    report.raise_if_wrong()


# -- reading pictures ---------------------------------------------------------------------------------------------------------


def test_read_takes_any_leading_axes_and_types() -> None:
    network = made()
    images = noise(2, 3, SIZE, SIZE, 3)
    with torch.no_grad():
        wanted = network(images.flatten(0, 1).permute(0, 3, 1, 2)).reshape(2, 3, 5)
        assert torch.equal(network.read(images), wanted)
        torch.testing.assert_close(network.read(images[1, 2]), wanted[1, 2], rtol=1e-10, atol=1e-12)
        assert network.read(images[:, :0]).shape == (2, 0, 5)
        for network_type, picture_type in ((torch.float64, torch.float32), (torch.float32, torch.float64)):
            read = network.to(network_type).read(images.to(picture_type))
            assert read.dtype == picture_type
            torch.testing.assert_close(read.double(), wanted, rtol=0, atol=2e-3)


def test_read_keeps_the_gradient() -> None:
    images = noise(1, 2, SIZE, SIZE, 3).float().requires_grad_()
    network = made().float().eval().requires_grad_(False)
    (gradient,) = torch.autograd.grad(network.read(images).square().sum(), images)
    assert gradient.shape == images.shape and gradient.dtype == torch.float32
    assert torch.isfinite(gradient).all() and gradient.flatten(2).abs().amax(2).min() > 0


@pytest.mark.parametrize("shape", [(2, 32, 64, 3), (64, 64), (1, 64, 64, 4), (2, 128, 128, 3)])
def test_read_refuses_pictures_of_another_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="takes images of 64 x 64 pixels, but the images have .*: use --size 64"):
        made().read(torch.zeros(shape))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 32}, "images of 32 pixels was requested: use a multiple of 32, at least 64"),
        ({"size": 80}, "images of 80 pixels"),
        ({"head": "middle"}, "head 'middle' is unknown: choose 'spatial' or 'average'"),
    ],
)
def test_settings_that_make_no_network(settings: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        made(**settings)


# -- files ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "network.safetensors"
    save_network(path, made(head="average", width=2).float(), record())
    return path


@pytest.mark.parametrize("head", ["spatial", "average"])
def test_a_network_comes_back_frozen_with_its_record(head: str, tmp_path: Path) -> None:
    network = made(head=head, width=2).float()
    path = tmp_path / "network.safetensors"
    save_network(path, network, record())
    again, content = load_network(path)
    assert again.settings == network.settings and not again.training
    assert content["scene"] == "cube" and content["task"] == record()["task"] and content["training"] == {"seed": 0}
    assert not any(parameter.requires_grad for parameter in again.parameters())
    images = noise(2, SIZE, SIZE, 3).float()
    with torch.no_grad():
        assert torch.equal(again.read(images), network.read(images))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_file_is_of_single_precision_and_names_every_weight(file: Path) -> None:
    weights = load_file(file)
    assert weights.keys() == made().state_dict().keys()
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.safetensors does not exist: give the network\.safetensors that 'risp train'"):
        load_network(tmp_path / "no.safetensors")
    with pytest.raises(UserError, match="does not exist"):
        load_network(tmp_path)


@pytest.mark.parametrize("device", ["cpux", "cuda:99", ""])
def test_a_device_that_is_none_is_named(tmp_path: Path, device: str) -> None:
    with pytest.raises(UserError, match=f"device '{device}' cannot be used .*: give 'cpu', or 'cuda' where") as error:
        load_network(tmp_path / "no.safetensors", device=device)
    assert "\n" not in str(error.value)


class _Trap:
    """An object whose unpickling would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_is_refused_unopened(kind: str, tmp_path: Path) -> None:
    trap, path = tmp_path / "sprung", tmp_path / "network.safetensors"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(_Trap(trap)))
    else:
        torch.save({"state_dict": _Trap(trap)}, path)
    with pytest.raises(UserError, match="is not a network .*: give the network.safetensors of a training run"):
        load_network(path)
    assert not trap.exists()
    if kind == "pickle":
        pickle.loads(path.read_bytes())
        assert trap.exists()  # it would have


def rewrite(file: Path, *, content: object = None, weights: dict[str, torch.Tensor] | None = None) -> None:
    """Another header (as given, or as JSON), or other weights."""
    _, before = load_network(file)
    text = content if isinstance(content, str) else json.dumps(before if content is None else content)
    save_file(load_file(file) if weights is None else weights, file, metadata={"risp_network": text})


@pytest.mark.parametrize(
    "content", [{"schema": 2, "network": {}}, {"network": {}}, [1], "null", "3", '"text"'],
)  # fmt: skip
def test_another_schema_is_refused(content: object, file: Path) -> None:
    rewrite(file, content=content)
    with pytest.raises(UserError, match="holds no RISP network of schema 1: give the network.safetensors"):
        load_network(file)


def test_other_safetensors_are_no_network(file: Path) -> None:
    save_file(load_file(file), file)
    with pytest.raises(UserError, match="holds no RISP network of schema 1"):
        load_network(file)


def test_a_header_that_is_no_json_is_refused(file: Path) -> None:
    rewrite(file, content="{not json")
    with pytest.raises(UserError, match="is not a network"):
        load_network(file)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 3}, {"outputs": 6}, {"head": "spatial"}, {"depth": 2}, {"width": None}, {"width": "2"}, {"size": 65},
        {"head": ["average"]},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_do_not_fit_the_weights_are_refused(change: dict, file: Path) -> None:
    _, content = load_network(file)
    rewrite(file, content={**content, "network": content["network"] | change})
    with pytest.raises(UserError, match="do not fit its settings: the file is damaged, train the network again"):
        load_network(file)


@pytest.mark.parametrize("network", [None, 3, "text"], ids=str)
def test_settings_that_are_no_settings_are_refused(network: object, file: Path) -> None:
    _, content = load_network(file)
    rewrite(file, content={**content, "network": network})
    with pytest.raises(UserError, match="do not fit its settings"):
        load_network(file)


@pytest.mark.parametrize("way", ["missing", "added", "shape"])
def test_weights_that_do_not_fit_are_refused(way: str, file: Path) -> None:
    weights = load_file(file)
    if way == "missing":
        del weights["linear.bias"]
    else:
        weights["linear.more" if way == "added" else "linear.bias"] = torch.zeros(3)
    rewrite(file, weights=weights)
    with pytest.raises(UserError, match="do not fit its settings"):
        load_network(file)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(share: float, file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserError, match="is not a network"):
        load_network(file)


def test_a_network_must_belong_to_the_scene(file: Path) -> None:
    network, content = load_network(file)
    check_network(network, content, scene="cube", outputs=5, size=64)
    with pytest.raises(UserError, match="the network a.file has 5 outputs and the state head of cube has 9: train one for this"):
        check_network(network, content, scene="cube", outputs=9, size=64, path="a.file")
    with pytest.raises(UserError, match="was trained for the scene 'cube', not 'quadrotor': give a network of this scene"):
        check_network(network, content, scene="quadrotor", outputs=5, size=64)
    with pytest.raises(UserError, match="takes images of 64 x 64 pixels, not 128 x 128: use --size 64"):
        check_network(network, content, scene="cube", outputs=5, size=128)


def test_denormals_are_flushed_within_and_only_there():
    """The setting of before comes back, also where it was on already, and after an error."""

    def flushed() -> bool:
        return float(torch.tensor(1e-39) * torch.tensor(1.0)) == 0

    outside = flushed()  # Taichi sets it, too
    try:
        for before in (True, False):
            torch.set_flush_denormal(before)
            with denormals_flushed():
                assert flushed()
            assert flushed() == before
        with pytest.raises(RuntimeError), denormals_flushed():
            raise RuntimeError
        assert not flushed()
    finally:
        torch.set_flush_denormal(outside)
