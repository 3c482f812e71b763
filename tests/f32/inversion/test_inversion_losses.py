"""Inversions by other losses than the pixels': what they find, where, and what they refuse."""

from __future__ import annotations

import json
import pickle
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from risp_torch import (
    OptimiseSettings,
    PerceptualLoss,
    PixelLoss,
    RispLoss,
    Scene,
    StateLoss,
    UserError,
    landscape,
    load_scene,
    simulate_video,
)
from risp_torch.inversion import Comparison, Unknowns, error_bars, sampled_frames
from risp_torch.inversion.losses.perceptual.vgg import Vgg16
from risp_torch.inversion.losses.whitening import APPEARANCES, Whitening
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.risp import (
    Domains,
    NetworkSettings,
    RasteriserDomain,
    RigidPoseHead,
    RispNetwork,
    RispTask,
    load_task,
    save_network,
)
from risp_torch.scene.rendering_parameters import Range, RenderingParameters
from tests.reference import small_scenes
from tests.reference.searches import pictures, quick

STIFFNESS, DENSITY, FRICTION = "ground.contact.stiffness", "block.density", "ground.contact.friction"
HEAD = RigidPoseHead("block", low=(-0.05, -0.05, 0.0), high=(0.05, 0.05, 0.05))
FAST = OptimiseSettings(iterations=1, learning_rate=1e-6)  # Gauss-Newton alone


def bright(scene: Scene) -> dict[str, torch.Tensor]:
    """Another appearance: other lights, a pale ground."""
    return {
        "light.ambient.intensity": torch.full((3,), 0.4), "light.key.intensity": torch.full((3,), 0.5),
        "ground.color": 2.5 * torch.tensor(scene.parameters["ground.color"].value),
    }  # fmt: skip


def light_psi(scene: Scene) -> RenderingParameters:
    return RenderingParameters(scene, {"light.ambient.intensity": Range(0.1, 0.5, tied=True), "ground.color": Range(0.1, 0.6)})


class Centroid(torch.nn.Module):
    """Reads where the block's coloured pixels are: the shares of red, green and blue do not change with grey light."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(4.0))

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """[..., 2] of [..., H, W, 3]."""
        share = pictures / (pictures.sum(-1, keepdim=True) + 1e-3)
        weight = torch.sigmoid(60.0 * ((share - share.mean(-1, keepdim=True)).norm(dim=-1) - 0.15))
        across, down = (torch.linspace(-1, 1, side).to(pictures) for side in (pictures.shape[-2], pictures.shape[-3]))
        total = weight.sum((-2, -1))
        return self.scale * torch.stack(
            [(weight.sum(-2) * across).sum(-1) / total, (weight.sum(-1) * down).sum(-1) / total], dim=-1
        )


# -- the oracle -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unplotted")
def test_true_states_give_the_stiffness_of_the_die(tmp_path: Path) -> None:
    scene = load_scene("cube", size=16)
    with torch.no_grad():
        truth = scene.rollout(worlds=1)
    head = load_task("cube", scene).head
    scene.set(STIFFNESS, 400.0)
    starts = [{STIFFNESS: 500.0}, {STIFFNESS: 2000.0}]
    loss = StateLoss(head, truth.body_q)
    settings = OptimiseSettings(iterations=8)
    result = quick(scene, None, [STIFFNESS], loss=loss, starts=starts, steps=settings, out=tmp_path / "run")
    assert abs(result.scaled_error({STIFFNESS: 1e3})[STIFFNESS]) < 1e-3
    assert result.uncertainty.observable == [True] and result.sd[STIFFNESS] < 0.01
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["settings"]["loss"]["kind"] == "state" and written["settings"]["video"] is None
    assert (tmp_path / "run" / "strip.png").is_file()  # the true motion, in the scene's own look


def test_a_scene_without_camera_needs_true_states(tmp_path: Path) -> None:
    scene = small_scenes.make_scene()
    scene.cameras = ()
    with torch.no_grad():
        loss = StateLoss(HEAD, scene.rollout(worlds=1))
    result = quick(scene, None, [DENSITY], loss=loss, starts=[{DENSITY: 700.0}], steps=FAST, out=tmp_path / "run")
    assert abs(result.scaled_error({DENSITY: 800.0})[DENSITY]) < 1e-3
    assert not (tmp_path / "run" / "strip.png").exists() and (tmp_path / "run" / "result.json").is_file()
    with pytest.raises(UserError, match="pixel loss compares films: give the target's video"):
        quick(small_scenes.make_scene(), None, [DENSITY])


def test_states_that_do_not_fit(tmp_path: Path) -> None:
    scene = small_scenes.make_scene()
    with torch.no_grad():
        poses = scene.rollout(worlds=1).body_q[0].numpy(force=True)
    np.savez(tmp_path / "short.npz", body_q=poses[:3], body_names=np.array(["block"]))
    np.savez(tmp_path / "other.npz", body_q=poses, body_names=np.array(["die"]))
    np.savez(tmp_path / "objects.npz", body_q=np.array([{"a": 1}], dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    broken = poses.copy()
    broken[2] = np.nan
    np.savez(tmp_path / "broken.npz", body_q=broken)
    for name, message in {
        "short": r"shape \(3, 1, 7\), and \(5, 1, 7\) is needed", "other": "are of die, and the scene has block",
        "objects": "holds no states", "text": "holds no states", "missing": "do not exist", "broken": "not finite",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=message):
            quick(scene, None, [DENSITY], loss=StateLoss(HEAD, tmp_path / f"{name}.npz"))


# -- RISP -----------------------------------------------------------------------------------------------------------------


def task_of(scene: Scene) -> RispTask:
    return RispTask(HEAD, Domains.default(scene, light_psi(scene)), gamma=1.0)


@pytest.mark.usefixtures("unplotted")
def test_a_network_reads_through_another_appearance(tmp_path: Path) -> None:
    scene = small_scenes.make_scene(size=32)
    scene.sigma = 1e-4
    target = pictures(scene, bright(scene))
    names = ["block.velocity"]
    bounds = {"block.velocity": ((0.3, 0.0999, -0.95), (0.7, 0.1001, -0.65))}  # y is along the view
    starts = [{"block.velocity": (0.35, 0.1, -0.7)}]
    truth = {f"block.velocity[{i}]": value for i, value in enumerate((0.5, 0.1, -0.8))}
    settings, error, bar = OptimiseSettings(iterations=10, learning_rate=0.3), {}, {}
    loop = RasteriserDomain(light_psi(scene), (0.0,) * 4)
    for name, loss in {"pixel": PixelLoss(), "risp": RispLoss(Centroid(), loop=loop)}.items():
        result = quick(
            scene, target, names, loss=loss, bounds=bounds, starts=starts, steps=settings, refine=3, out=tmp_path / name
        )  # fmt: skip
        errors = result.scaled_error(truth)
        error[name] = [abs(errors[f"block.velocity[{i}]"]) for i in (0, 2)]
        bar[name] = [result.sd[f"block.velocity[{i}]"] for i in (0, 2)]
    # The other look biases the network's readings, too, which no bar holds (``assumptions`` says so): they are compared with the
    # pixels, which end on the bound of the vertical velocity.
    assert (3 * np.array(error["risp"]) < error["pixel"]).all(), (error, bar)
    assert error["pixel"][1] == pytest.approx(0.8 - 0.65)
    assert "a bias of the network" in result.assumptions[0]
    settings = json.loads((tmp_path / "risp" / "result.json").read_text())["settings"]
    assert settings["loss"]["network_sha256"] and settings["loss"]["loop"]["psi"] == [0.0] * 4
    with pytest.raises(UserError, match="finished run"):
        quick(scene, target, names, bounds=bounds, starts=starts, out=tmp_path / "risp")


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_an_unfinished_run_with_another_loss_is_not_resumed(tmp_path: Path) -> None:
    scene = small_scenes.make_scene()
    target = pictures(scene)
    options = {"starts": 1, "steps": OptimiseSettings(iterations=1), "refine": 0, "out": tmp_path / "run"}
    quick(scene, target, [DENSITY], loss=RispLoss(Centroid()), **options)
    (tmp_path / "run" / "result.json").unlink()
    other = Centroid()
    other.scale.data.fill_(3.0)
    with pytest.raises(UserError, match="other settings .loss.network_sha256 is"):
        quick(scene, target, [DENSITY], loss=RispLoss(other), **options)
    with pytest.raises(UserError, match="other settings .sampling is"):
        quick(scene, target, [DENSITY], loss=RispLoss(Centroid()), sampling="first+last", **options)


@pytest.mark.usefixtures("undiagnosed")
def test_the_network_is_frozen_and_copied() -> None:
    scene = small_scenes.make_scene()
    network = Centroid().train()
    quick(scene, pictures(scene), [DENSITY], loss=RispLoss(network), starts=1, steps=OptimiseSettings(iterations=2), refine=0)
    assert network.training and network.scale.requires_grad and network.scale.grad is None
    assert float(network.scale.detach()) == 4.0


def test_looks_of_the_training_weigh_what_a_network_reads() -> None:
    """The errors that are whitened are those of the drawn looks, seen at the motion of the given values."""
    scene = small_scenes.make_scene(size=64)
    torch.manual_seed(0)
    task, values = task_of(scene), {DENSITY: torch.tensor([500.0])}
    loss = RispLoss(RispNetwork(NetworkSettings(outputs=9, size=64, width=2)), task=task)
    comparison = Comparison.of(scene, loss, pictures(scene), "every:2")
    weighed = comparison.whitened(scene, values, seed=3)
    with torch.no_grad():
        motion = scene.rollout(values, worlds=1)
        looks = task.domains.training.appearances(APPEARANCES, seed=3)
        shown = scene.render(motion.placement.expand(APPEARANCES, -1, -1, -1), light_psi(scene).values(looks), frames=[0, 2, 4])
        errors = loss.read(shown) - loss.observe(scene, motion, {}, [0, 2, 4])
        expected = Whitening.of(errors)
        for found, wanted in ((weighed.loss.whitening.frames, expected.frames), (weighed.target, expected(comparison.target))):
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
        plain, _ = comparison.observe(scene, values, worlds=1)
        seen, _ = weighed.observe(scene, values, worlds=1, horizon=2)
        torch.testing.assert_close(seen, expected(plain)[:, :2], rtol=1e-3, atol=1e-3)
    assert weighed.loss.to_json()["whitening_looks"] == APPEARANCES and "whitening_looks" not in loss.to_json()
    assert weighed.whitened(scene, values) is weighed
    film = pictures(scene)[:2]
    assert weighed.loss.noise_floor(film) == pytest.approx(loss.noise_floor(film) * weighed.loss.whitening.gain)


def test_looks_do_not_weigh_where_they_are_looked_for() -> None:
    scene = small_scenes.make_scene(size=64)
    loss = RispLoss(RispNetwork(NetworkSettings(outputs=9, size=64, width=2)), task=task_of(scene))
    comparison = Comparison.of(scene, loss, pictures(scene))
    assert comparison.whitened(scene, {"ground.color": torch.full((1, 3), 0.3)}) is None
    assert Comparison.of(scene, RispLoss(Centroid()), pictures(scene)).whitened(scene, {}) is None


def test_networks_that_do_not_fit(tmp_path: Path) -> None:
    scene = small_scenes.make_scene(size=64)
    task = task_of(scene)
    record = {"scene": "small", "task": task.to_json()}
    torch.manual_seed(0)
    files = {
        "good": (9, 64, record), "outputs": (4, 64, record), "size": (9, 96, record),
        "scene": (9, 64, record | {"scene": "cube"}),
        "head": (9, 64, record | {"task": {"head": task.head.to_json() | {"low": [-1.0, -1.0, -1.0]}}}),
    }  # fmt: skip
    for name, (outputs, size, content) in files.items():
        save_network(tmp_path / f"{name}.safetensors", RispNetwork(NetworkSettings(outputs=outputs, size=size, width=2)), content)
    Comparison.of(scene, RispLoss(tmp_path / "good.safetensors", task=task), pictures(scene))
    for name, message in {
        "outputs": "has 4 outputs and the state head of small has 9", "scene": "trained for the scene 'cube'",
        "size": "takes images of 96 x 96 pixels, and the camera's are 64 x 64", "head": "another state head .*low is",
        "no": "does not exist",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=message):
            Comparison.of(scene, RispLoss(tmp_path / f"{name}.safetensors", task=task), pictures(scene))
    with pytest.raises(UserError, match="Linear has no read"):
        RispLoss(torch.nn.Linear(2, 2))
    with pytest.raises(UserError, match="loop domain samples appearances"):
        RispLoss(Centroid(), loop=RasteriserDomain(light_psi(scene)))
    with pytest.raises(UserError, match="4 outputs and the scene's state head has 9"):
        RispLoss(RispNetwork(NetworkSettings(outputs=4, width=2)), task=task).check(scene)
    with pytest.raises(UserError, match="2 outputs and the scene's state head has 9"):
        RispLoss(Centroid(), task=task).check(scene)
    with pytest.raises(UserError, match=r"psi has shape \(2,\): give \[4\]"):
        RispLoss(Centroid(), loop=RasteriserDomain(light_psi(scene), (0.0, 0.0))).check(scene)
    shapeless = Centroid()
    shapeless.read = lambda pictures: pictures.mean()
    with pytest.raises(UserError, match=r"reads \(\) from pictures \(1, 64, 64, 3\)"):
        RispLoss(shapeless).check(scene)


def test_errors_of_a_network_last_over_the_film() -> None:
    """An error that stays through n frames counts once: its error bar is sqrt(n) times that of n independent ones."""
    unknowns = Unknowns.of(small_scenes.make_scene(), [DENSITY])
    random, frames = np.random.default_rng(0), 400
    drawn = {"independent": random.normal(size=(frames, 3)), "correlated": np.repeat(random.normal(size=(1, 3)), frames, 0)}
    bars = {}
    for name, rows in drawn.items():
        residual = torch.as_tensor(rows / np.sqrt((rows**2).mean()))
        loss = RispLoss(Centroid())
        comparison = Comparison(loss, residual, tuple(range(frames)), loss.blocks((3,), (0, 0)))
        jacobian = torch.as_tensor(random.choice([-1.0, 1.0], size=(3 * frames, 1)))
        at = Linearisation(residual.flatten(), jacobian, np.array([2.9]), comparison)
        bars[name] = error_bars(at, unknowns, floor=1e-9).sd[0]
    expected = 2.0 / np.sqrt(3 * frames)  # in decades, of a range of two
    assert bars["independent"] == pytest.approx(expected, rel=0.25)
    assert bars["correlated"] == pytest.approx(expected * np.sqrt(frames), rel=0.4)


# -- perceptual -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of VGG-16 under torchvision's names, with some that are not needed."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("vgg") / "vgg16.safetensors"
    save_file({**Vgg16().state_dict(), "classifier.0.bias": torch.zeros(3)}, path)
    return path


def test_features_find_the_density(weights: Path) -> None:
    scene = small_scenes.make_scene()
    target = pictures(scene)
    loss, starts = PerceptualLoss(weights), [{DENSITY: 700.0}]
    result = quick(scene, target, [DENSITY], loss=loss, sampling="first+last", starts=starts, steps=FAST, refine=4)
    assert abs(result.scaled_error({DENSITY: 800.0})[DENSITY]) < 2e-3
    assert result.uncertainty.observable == [True]


def test_a_compressed_film_by_features_of_any_module(tmp_path: Path) -> None:
    scene = small_scenes.make_scene()
    torch.manual_seed(0)
    loss = PerceptualLoss(torch.nn.Conv2d(3, 4, 3, stride=2))
    video = simulate_video(scene, tmp_path / "film.mp4", crf=5)
    result = quick(scene, video, [DENSITY], loss=loss, starts=[{DENSITY: 700.0}], steps=FAST)
    assert abs(result.scaled_error({DENSITY: 800.0})[DENSITY]) < 4 * result.sd[DENSITY] < 1.0


def test_weights_are_the_same_from_every_kind_of_file(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file

    state = load_file(weights)
    torch.save(state, tmp_path / "vgg.pth")
    models = ModuleType("torchvision.models")
    models.VGG16_Weights = SimpleNamespace(IMAGENET1K_V1="v1")
    models.vgg16 = lambda weights: SimpleNamespace(state_dict=lambda: state)
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    sums = {PerceptualLoss(path).to_json()["weights_sha256"] for path in (weights, tmp_path / "vgg.pth", None)}
    assert len(sums) == 1
    assert [tuple(maps.shape) for maps in Vgg16()(torch.zeros(1, 3, 16, 16))] == [
        (1, 64, 16, 16), (1, 128, 8, 8), (1, 256, 4, 4), (1, 512, 2, 2)
    ]  # fmt: skip


class Trap:
    """An object whose unpickling would write a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (Path(self.path),)


def test_weights_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trapped = tmp_path / "executed"
    (tmp_path / "pickled.pth").write_bytes(pickle.dumps({"features.0.weight": Trap(str(trapped))}, protocol=2))
    torch.save({"features.0.weight": Trap(str(trapped))}, tmp_path / "trap.pth")
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    (tmp_path / "text.pth").write_text("weights")
    (tmp_path / "text.safetensors").write_text("weights")
    (tmp_path / "empty.pth").write_bytes(b"")
    save_file({"features.0.weight": torch.zeros(2, 3)}, tmp_path / "shape.safetensors")
    save_file({"other": torch.zeros(2)}, tmp_path / "names.safetensors")
    for name, message in {
        "pickled.pth": "cannot be read", "trap.pth": "cannot be read", "list.pth": "holds list", "text.pth": "cannot be read",
        "text.safetensors": "cannot be read", "empty.pth": "cannot be read", "missing.pth": "do not exist",
        "shape.safetensors": r"features.0.weight is of shape \(2, 3\)", "names.safetensors": "features.0.weight is missing",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=message):
            PerceptualLoss(tmp_path / name)
    assert not trapped.exists()
    scene = small_scenes.make_scene(size=4)
    with pytest.raises(UserError, match="4 x 4 pixels, and VGG-16 needs at least 8"):
        PerceptualLoss(_random_file(tmp_path)).check(scene)
    with pytest.raises(UserError, match="features of shape .5, 12"):
        Comparison.of(small_scenes.make_scene(size=2), PerceptualLoss(torch.nn.Flatten()), torch.zeros(5, 2, 2, 3))


def _random_file(folder: Path) -> Path:
    save_file(Vgg16().state_dict(), folder / "random.safetensors")
    return folder / "random.safetensors"


# -- unknowns -------------------------------------------------------------------------------------------------------------


def test_an_appearance_is_found_with_a_density() -> None:
    scene = small_scenes.make_scene()
    psi = light_psi(scene)
    truth = torch.tensor([0.5, -0.4, 0.2, 0.6])
    target = pictures(scene, psi.values(truth))
    result = quick(scene, target, [DENSITY, psi], starts=[{DENSITY: 700.0}], steps=OptimiseSettings(iterations=10))
    assert list(result.values) == [DENSITY, *(f"psi: {label}" for label in psi.labels)]
    np.testing.assert_allclose(list(result.values.values())[1:], truth, atol=2e-3)
    assert abs(np.log10(result.values[DENSITY] / 800.0)) < 1e-3
    with pytest.raises(UserError, match="ground.color is one of the rendering parameters of psi"):
        quick(scene, target, [psi, "ground.color"], bounds={"ground.color": (0.0, 1.0)})


def test_bounds_make_a_parameter_unknown() -> None:
    scene = small_scenes.make_scene()
    bounds = {"block.position": ((-0.01, -0.01, 0.02), (0.01, 0.01, 0.04))}
    starts = [{"block.position": (0.002, 0.003, 0.027)}]
    result = quick(scene, pictures(scene), ["block.position"], bounds=bounds, starts=starts, steps=FAST)
    np.testing.assert_allclose(list(result.values.values()), [0.0, 0.0, 0.025], atol=2e-4)
    unknowns = Unknowns.of(scene, [DENSITY], bounds={DENSITY: (1000.0, 2000.0, "linear")})
    assert unknowns.current()[0] == 1000.0 and unknowns.scales == ["linear"]
    for bounds, message in (
        ({DENSITY: (2.0, 1.0)}, "the bounds of block.density: .*not below"), ({FRICTION: (0.1, 1.0)}, "unknown with bounds"),
        ({DENSITY: (1.0, 2.0, "log2")}, "scale 'log2'"), ({DENSITY: (1.0,)}, "give low and high"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            Unknowns.of(scene, [DENSITY], bounds=bounds)
    with pytest.raises(UserError, match="name each once"):
        Unknowns.of(scene, [DENSITY, DENSITY])


def test_many_unknowns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from risp_torch.commands.estimates import print_inversion

    scene = small_scenes.make_scene()
    name = "block.face_colors"
    size = scene.parameters[name].value.size
    result = quick(
        scene, pictures(scene), [DENSITY, name], bounds={name: (0.0, 1.0)}, starts=[{}], steps=OptimiseSettings(iterations=2),
        linearise_up_to=10, out=tmp_path / "run",
    )  # fmt: skip
    assert result.remarks[0] == f"{size + 1} unknowns: no Gauss-Newton steps, no error bars (linearise_up_to is 10)"
    assert np.isnan(result.sd[DENSITY]) and f"{name}[0][2]" in result.values
    for picture in ("entries.png", "parameters.png", "strip.png"):
        assert (tmp_path / "run" / picture).is_file()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["unknowns"][DENSITY]["sd"] is None
    print_inversion(result)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{name} ({size} numbers)") and " to " in line for line in lines)
    assert all(len(line) < 200 for line in lines) and f"... ({size + 1} numbers)" in "\n".join(lines)


# -- frames that count ----------------------------------------------------------------------------------------------------


def test_frames_that_count() -> None:
    assert sampled_frames("all", 4) == (0, 1, 2, 3, 4)
    assert sampled_frames("first+last", 4) == (0, 4) and sampled_frames("first+middle", 9) == (0, 4)
    assert sampled_frames("every:3", 7) == (0, 3, 6) and sampled_frames("last", 4) == (4,)
    for wrong, message in {"first": "choose all", "every": "choose all", "every:0": "every:1 to", "every:x": "every:1"}.items():
        with pytest.raises(UserError, match=message):
            sampled_frames(wrong, 4)


@pytest.mark.parametrize("sampling", ["first+last", "first+middle", "every:2"])
def test_fewer_frames_keep_the_optimum(sampling: str) -> None:
    scene = small_scenes.make_scene()
    settings = OptimiseSettings(iterations=5, first_frames=1)
    result = quick(scene, pictures(scene), [DENSITY], sampling=sampling, starts=[{DENSITY: 600.0}], steps=settings)
    assert abs(result.scaled_error({DENSITY: 800.0})[DENSITY]) < 1e-3


def test_a_landscape_of_any_comparison() -> None:
    scene = small_scenes.make_scene()
    comparison = Comparison.of(scene, RispLoss(Centroid()), pictures(scene), "every:2")
    (axis,), losses = landscape(scene, comparison, [DENSITY], points=5, progress=False)
    assert losses.argmin() == 2 and axis[2] == pytest.approx(800.0)


# -- the command line -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the small scene, its task, a network of it, its film and states."""
    text = Path(small_scenes.__file__).read_text()
    text += '''

def make_task(scene):
    from risp_torch.risp import Domains, RigidPoseHead, RispTask
    from risp_torch.scene.rendering_parameters import Range, RenderingParameters

    head = RigidPoseHead("block", low=(-0.05, -0.05, 0.0), high=(0.05, 0.05, 0.05))
    return RispTask(head, Domains.default(scene, RenderingParameters(scene, {"ground.color": Range(0.1, 0.6)})), gamma=1.0)
'''
    (tmp_path / "small.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    scene = load_scene("small.py", size=64)
    torch.manual_seed(0)
    record = {"scene": "small", "task": load_task("small.py", scene).to_json()}
    save_network("net.safetensors", RispNetwork(NetworkSettings(outputs=9, width=2)), record)
    simulate_video(scene, "film.mp4")
    with torch.no_grad():
        np.savez("states.npz", body_q=scene.rollout(worlds=1).body_q[0].numpy(force=True), body_names=np.array(["block"]))
    return tmp_path


INVERT = ["invert", "small.py", "--iterations", "1", "--solver", "refine=1", "--starts", "scene", "--out", "run"]


def risp(*arguments: str) -> int:
    from risp_torch.__main__ import main

    return main([*INVERT, *arguments])


@pytest.mark.usefixtures("unplotted")
def test_risp_from_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--video", "film.mp4", "--loss", "risp", "--network", "net.safetensors"]
    unknown = ["--unknown", DENSITY, "psi", "block.position", "--bounds", "block.position=-0.05:0.05"]
    assert risp(*files, *unknown, "--sampling", "every:2") == 0
    assert "psi: ground.color[0]" in capsys.readouterr().out
    settings = json.loads((folder / "run" / "result.json").read_text())["settings"]
    assert settings["search"]["widths"] == [0.1] and settings["search"]["settling_rounds"] == 1
    assert settings["loss"]["kind"] == "risp" and settings["loss"]["network"] == "net.safetensors"
    assert settings["loss"]["domains"]["loop"]["psi"] == settings["loss"]["loop"]["psi"] == [0.0] * 3
    assert settings["sampling"] == "every:2" and settings["psi"]["ground.color"]["kind"] == "range"


def test_true_states_from_the_command_line(folder: Path) -> None:
    assert risp("--loss", "state", "--states", "states.npz", "--unknown", DENSITY, "--bounds", f"{DENSITY}=400:1600:log10") == 0
    unknown = json.loads((folder / "run" / "result.json").read_text())["unknowns"][DENSITY]
    assert (unknown["low"], unknown["high"], unknown["scale"]) == (400.0, 1600.0, "log10")
    assert unknown["value"] == pytest.approx(800.0, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "risp"], "--loss risp needs --network FILE"),
        (["--loss", "state"], "--loss state needs --states FILE"),
        (["--network", "net.safetensors"], "--network belongs to --loss perceptual or risp, not to pixel"),
        (["--loss", "risp", "--network", "net.safetensors", "--states", "states.npz"], "--states belongs to --loss state"),
        (["--loss", "risp", "--network", "net.safetensors", "--solver", "decay=false"], "--solver decay belongs to"),
        (["--search", "wide", "--solver", "keep=0.5:1"], "--solver keep belongs to --search adam"),
        (["--loss", "risp+perceptual", "--network", "net.safetensors"], "write risp=FILE perceptual=FILE"),
        (["--loss", "risp", "--network", "film.mp4"], "film.mp4 is not a network"),
        (["--loss", "risp", "--network", "net.safetensors", "--size", "32"], "takes images of 64 x 64 pixels"),
        (["--loss", "perceptual", "--network", "small.py"], "small.py cannot be read as a file of tensors"),
        (["--loss", "state", "--states", "film.mp4"], "film.mp4 is a film or a folder: give it with --video"),
        (["--size", "64", "--sampling", "some"], "sampling 'some' is unknown"),
        (["--size", "64", "--bounds", f"{DENSITY}=4"], f"--bounds '{DENSITY}=4' is not NAME=LOW:HIGH"),
        (["--size", "64", "--bounds", f"{DENSITY}=9:4"], "the bounds of block.density"),
    ],
)
def test_wrong_combinations(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert risp("--unknown", DENSITY, "--video", "film.mp4", *arguments) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1, error
    assert not (folder / "run").exists()


def test_a_film_is_needed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert risp("--unknown", DENSITY) == 2
    assert "--loss pixel needs the target's film: give --video FILE" in capsys.readouterr().err
