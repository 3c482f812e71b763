"""The two ablations on a scene of the tests: what they compute, that they resume, and what their pages say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import PixelLoss, Scene, UserError, load_scene
from risp_torch.files.run_folder import RunFolder
from risp_torch.files.video import read_video, write_frames
from risp_torch.inversion import Comparison
from risp_torch.risp import DatasetSettings, RendererSource, RispTask, load_network
from risp_torch.risp.evaluation import test_set
from risp_torch.risp.task import load_task, training_scene
from studies.risp.pages.ablations import configs_markdown, plot_configs, plot_sampling, sampling_markdown, shape_of
from studies.risp.tables import ablations
from studies.risp.tables.ablations import SAMPLINGS, configs_unit, sampled_mean, sampling_unit
from studies.risp.tables.presets import PRESETS
from tests.reference import small_scenes

TASK = """

def make_task(scene):
    from risp_torch.risp import Domains, RigidPoseHead, RispTask
    from risp_torch.scene.rendering_parameters import Range, RenderingParameters

    head = RigidPoseHead("block", low=(-0.05, -0.05, 0.0), high=(0.05, 0.05, 0.05))
    return RispTask(head, Domains.default(scene, RenderingParameters(scene, {"ground.color": Range(0.1, 0.6)})), gamma=1.0)


def make_trials():
    from risp_torch import WideSteps
    from studies.risp import Trial

    known = {"block.density": 800.0}
    return {
        "identify": Trial(
            unknowns=("block.density",), truth=known, guess=lambda r: known, average=known, random=lambda r: known,
            measure="parameter", search=WideSteps(widths=(0.1,)),
        )
    }
"""
TINY = replace(PRESETS["tiny"], curve_images=24, curve_epochs=2, changes={"batch_size": 8})


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scene file with a task and a trial, in place of the quadrotor and the rod."""
    text = Path(small_scenes.__file__).read_text().replace("frames: int = 4", "frames: int = 6")
    path = tmp_path / "small.py"
    path.write_text(text + TASK)
    for name in ("CURVE_SCENE", "SAMPLING_SCENE"):
        monkeypatch.setattr(ablations, name, str(path))
    return str(path)


@pytest.fixture
def without_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures rendered when they are asked for: the derivatives on the disk, which "no-grad" does not look at, take long."""

    asked: list[DatasetSettings] = []

    def made(scene: Scene, task: RispTask, settings: DatasetSettings, folder: Path, *, progress: bool) -> None:
        folder.mkdir(exist_ok=True)
        asked.append(settings)

    monkeypatch.setattr("risp_torch.risp.generate", made)
    monkeypatch.setattr("risp_torch.risp.ShardSource", lambda folder, scene, task: RendererSource(scene, task, asked[-1]))


def test_the_error_on_unseen_appearances_after_every_epoch(
    tmp_path: Path, small: str, without_derivatives: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, save, calls = tmp_path / "curve", RunFolder.save_checkpoint, []

    def killed(self: RunFolder, *given: object) -> None:
        save(self, *given)
        calls.append(self.path.name)
        if calls.count("network") == 1 and self.path.name == "network":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            configs_unit("no-grad", "1", preset=TINY, folder=folder, progress=False)
    curve = configs_unit("no-grad", "1", preset=TINY, folder=folder, progress=False)
    assert curve["epochs"] == [1, 2] and len(curve["train"]) == len(curve["test"]) == 2
    assert (curve["method"], curve["configs"], curve["images"], curve["appearances"]) == ("no-grad", "1", 24, 2)
    assert not (folder / "data").exists()
    assert configs_unit("no-grad", "1", preset=TINY, folder=folder, progress=False) == curve
    with pytest.raises(UserError, match=r"other settings \(data\.images is 24 there and 25 here\)"):
        configs_unit("no-grad", "1", preset=replace(TINY, curve_images=25), folder=folder, progress=False)

    scene = training_scene(small, TINY.size)
    test = test_set.TestSettings(appearances=2, states=2, seed=0)
    unseen = test_set.make_test_set(scene, load_task(small, scene), test, progress=False)
    with torch.no_grad():
        read = load_network(folder / "network" / "network.safetensors")[0].read(unseen.images)
    assert curve["test"][-1] == pytest.approx(float((read - unseen.outputs).abs().mean()), rel=1e-4)


def test_one_pass_gives_the_landscapes_of_all_samplings(tmp_path: Path, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = load_scene(small, size=16)
    with torch.no_grad():
        film = scene.render(scene.rollout())[0]
    frames, folder = tmp_path / "film", tmp_path / "landscape"
    write_frames(frames, film.cpu().numpy())
    save = RunFolder.save_checkpoint

    def killed(self: RunFolder, *given: object) -> None:
        save(self, *given)
        raise KeyboardInterrupt

    options = {"network": None, "target": frames, "folder": folder, "points": 5, "progress": False}
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            sampling_unit("pixel", **options)
    result = sampling_unit("pixel", **options)
    assert sampling_unit("pixel", **options) == result
    assert result["values"] == pytest.approx([80.0, 252.98, 800.0, 2529.8, 8000.0], rel=1e-4) and result["truth"] == 800.0
    assert set(result["losses"]) == set(SAMPLINGS)
    assert all(np.argmin(losses) == 2 for losses in result["losses"].values())
    scene = training_scene(small, 16)
    target = torch.as_tensor(read_video(frames, size=(16, 16), frames=7), dtype=torch.float32)
    values = {"block.density": torch.tensor(result["values"])}
    for sampling in SAMPLINGS:
        comparison = Comparison.of(scene, PixelLoss(), target, sampling)
        with torch.no_grad():
            losses = comparison.losses(scene, values, worlds=5)
        np.testing.assert_allclose(result["losses"][sampling], losses, rtol=2e-3, atol=1e-8)
    with pytest.raises(UserError, match="there are no PNG frames in"):
        sampling_unit("pixel", **options | {"target": tmp_path})
    with pytest.raises(UserError, match=r"other settings \(points is 5 there and 6 here\)"):
        sampling_unit("pixel", **options | {"points": 6})


def test_samplings_are_means_over_frames() -> None:
    losses = np.arange(22.0).reshape(2, 11)
    expected = {"all": [5.0, 16.0], "every:5": [5.0, 16.0], "first+last": [5.0, 16.0], "first+middle": [2.5, 13.5]}
    for sampling in SAMPLINGS:
        assert sampled_mean(losses, sampling).tolist() == expected[sampling]


def test_the_shape_of_a_loss_curve() -> None:
    places = np.arange(8.0)
    assert shape_of(places, (places - 3.0) ** 2) == (3.0, 1, 7.0)
    assert shape_of(places, np.array([9.0, 4.0, 5.0, 3.0, 1.0, 2.0, 2.5, 2.0])) == (4.0, 3, 4.0)
    assert shape_of(places, np.array([np.nan, 4.0, 3.0, 2.0, 3.0, 4.0, np.nan, 1.5])) == (7.0, 2, 0.0)


def test_pages_and_pictures(tmp_path: Path) -> None:
    base = {"appearances": 10, "images": 2000, "epochs": [1, 2, 3], "seconds": 1.0}
    curves = {
        f"{method}-{configs}": base | {"method": method, "configs": configs, "train": [0.3, 0.2, 0.1], "test": [0.9, 0.8, end]}
        for method, configs, end in (
            ("no-grad", "1", 0.7), ("full", "1", 0.6), ("no-grad", "10", 0.5), ("full", "10", 0.3), ("no-grad", "each", 0.4),
        )
    }  # fmt: skip
    page = configs_markdown(curves)
    assert "| 10 | 0.5000 | 0.3000 | 0.60 | 0.1000 / 0.1000 |" in page and "| each | 0.4000 | - | - |" in page
    assert "in 2 of 2 cases" in page and "0.3000 against 0.4000" in page and "lower holds here" in page
    values = np.logspace(4, 7, 13).tolist()
    losses = [(np.log10(v) - 5) ** 2 + 0.1 for v in values]
    result = {"method": "full", "name": "rod.E", "unit": "Pa", "truth": 1e5, "values": values}
    result["losses"] = dict.fromkeys(SAMPLINGS, losses) | {"first+last": [None, *losses[1:]]}
    page = sampling_markdown({"full": result, "pixel": result | {"method": "pixel"}})
    assert "| RISP | every frame | 1e+05 | +0.00 | 1 | 3.00 |" in page and page.index("| RISP |") < page.index("| pixels |")
    assert "| RISP | first and last | 1e+05 | +0.00 | 1 | 2.75 |" in page
    plot_configs(tmp_path / "configs.png", curves)
    plot_sampling(tmp_path / "sampling.png", {"full": result, "pixel": result | {"method": "pixel"}})
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("configs", "sampling"))
