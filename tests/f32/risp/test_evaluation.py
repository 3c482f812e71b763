"""Test sets, errors on them, and the command that compares networks."""

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import Scene, UserError
from risp_torch.__main__ import main
from risp_torch.commands.evaluate import short_names
from risp_torch.risp import NetworkSettings, PhotorealDomain, RispNetwork, load_task, save_network
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.risp.evaluation.errors import physical_errors, state_errors
from risp_torch.risp.evaluation.evaluate import evaluate
from risp_torch.risp.evaluation.report import error_table, output_table
from risp_torch.risp.evaluation.test_set import TestSettings, make_test_set, sampled_states
from risp_torch.risp.task import training_scene
from tests.reference.photoreal_inputs import needs_mitsuba

SIDE = 16


@pytest.fixture(scope="module")
def cube():
    scene = training_scene("cube", SIDE)
    return scene, load_task("cube", scene)


@pytest.fixture(scope="module")
def small(cube):
    return make_test_set(*cube, settings(), progress=False)


def settings(**changes):
    return TestSettings(**{"renderer": "soft", "appearances": 3, "states": 4, "seed": 5} | changes)


def renders(monkeypatch, scene, *, most=None):
    """Count the calls of ``scene.render``, and stop the run after so many."""
    calls, render = [], Scene.render

    def counted(own, *given, **named):
        if own is scene:
            if most is not None and len(calls) == most:
                raise KeyboardInterrupt
            calls.append(given)
        return render(own, *given, **named)

    monkeypatch.setattr(Scene, "render", counted)
    return calls


def test_every_appearance_shows_the_same_states(small, cube):
    assert small.levels.shape == (12, SIDE, SIDE, 3) and small.levels.dtype == np.uint8
    assert small.appearance.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    blocks = small.outputs.reshape(3, 4, 9)
    assert (blocks == blocks[0]).all() and not (blocks[0, 0] == blocks[0, 1]).any()
    assert len({picture.tobytes() for picture in small.levels}) == 12
    images = small.images
    assert images.dtype == torch.float32 and 0 <= images.min() and images.max() <= 1
    scene, task = cube
    poses = sampled_states(scene, task, 4, np.random.default_rng([5, 77]))
    assert torch.allclose(task.head.outputs(scene, poses).cpu(), blocks[0])


def test_pictures_are_the_rasterisers_in_levels_of_a_film(small, cube, monkeypatch):
    scene, task = cube
    calls = renders(monkeypatch, scene)
    make_test_set(scene, task, settings(), progress=False)
    poses, values = calls[1]
    picture = scene.render(poses, values)[0, 2].numpy(force=True)
    # Half a level of sRGB is at most 0.0045 in linear colour.
    np.testing.assert_allclose(small.images[6], np.clip(picture, 0, 1), atol=5e-3)


def test_the_seed_decides_states_and_appearances(small, cube):
    again = make_test_set(*cube, settings(), progress=False)
    assert (again.levels == small.levels).all() and torch.equal(again.outputs, small.outputs)
    other = make_test_set(*cube, settings(seed=6, states=1, appearances=1), progress=False)
    assert (other.levels[0] != small.levels[0]).any() and (other.outputs[0] != small.outputs[0]).all()


def test_no_training_with_the_same_seed_has_these_states_or_appearances(small, cube, monkeypatch):
    scene, task = cube
    training = DatasetSettings(images=50, seed=5)
    states = torch.stack([task.head.sample(scene, training.state_generator(k)) for k in range(50)])
    trained = task.head.outputs(scene, states).cpu()
    assert (trained[:, None] - small.outputs[None, :4]).abs().sum(dim=-1).min() > 1e-2
    calls = renders(monkeypatch, scene)
    make_test_set(scene, task, settings(states=1), progress=False)
    (light,) = (name for name in task.domains.training.parameters.distributions if name.endswith(".direction"))
    shown = torch.stack([values[light].flatten() for _, values in calls])
    psi = torch.stack([torch.from_numpy(training.appearance(k, task.domains.training.parameters.size)) for k in range(50)])
    drawn = task.domains.training.parameters.values(psi)[light]
    assert torch.cdist(shown.float().cpu(), drawn.float()).min() > 1e-3


def test_a_killed_test_set_goes_on_and_a_whole_one_is_read(small, cube, monkeypatch, tmp_path):
    scene, task = cube
    with monkeypatch.context() as first, pytest.raises(KeyboardInterrupt):
        renders(first, scene, most=2)
        make_test_set(scene, task, settings(), cache=tmp_path, progress=False)
    with monkeypatch.context() as second:
        calls = renders(second, scene)
        resumed = make_test_set(scene, task, settings(), cache=tmp_path, progress=False)
        assert len(calls) == 1
        read = make_test_set(scene, task, settings(), cache=tmp_path, progress=False)
        assert len(calls) == 1
    assert (resumed.levels == small.levels).all() and (read.levels == small.levels).all()
    make_test_set(scene, task, settings(states=2), cache=tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_serves_scenes_that_differ_in_their_motion_alone(cube, tmp_path):
    task = cube[1]
    for name, value in (
        ("ground.contact.stiffness", 900.0),
        ("ground.contact.stiffness", 1100.0),
        ("ground.color", (1.0, 1.0, 1.0)),
    ):
        scene = training_scene("cube", SIDE)
        scene.set(name, value)
        make_test_set(scene, task, settings(states=1), cache=tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 2


def test_foreign_and_damaged_caches_are_refused(cube, tmp_path):
    scene, task = cube
    make_test_set(scene, task, settings(states=1), cache=tmp_path, progress=False)
    (mine,) = tmp_path.iterdir()
    make_test_set(scene, task, settings(states=1, seed=9), cache=tmp_path, progress=False)
    (other,) = (folder for folder in tmp_path.iterdir() if folder != mine)
    pictures = (mine / "checkpoint.safetensors").read_bytes()
    (mine / "checkpoint.safetensors").write_bytes((other / "checkpoint.safetensors").read_bytes())
    with pytest.raises(UserError, match="checkpoint.safetensors is that of another run: remove it"):
        make_test_set(scene, task, settings(states=1), cache=tmp_path, progress=False)
    (mine / "checkpoint.safetensors").write_bytes(pictures[: len(pictures) // 2])
    with pytest.raises(UserError, match="is damaged: remove it"):
        make_test_set(scene, task, settings(states=1), cache=tmp_path, progress=False)
    (mine / "settings.json").write_text((other / "settings.json").read_text())
    with pytest.raises(UserError, match="has other settings"):
        make_test_set(scene, task, settings(states=1), cache=tmp_path, progress=False)


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="renderer 'pbrt' is unknown: choose 'soft' or 'mitsuba'"):
        settings(renderer="pbrt")


@needs_mitsuba
def test_mitsuba_shows_the_same_states_in_drawn_looks(small, cube):
    wanted = settings(renderer="mitsuba", appearances=2, states=2)
    test_set = make_test_set(*cube, wanted, progress=False)
    assert test_set.renderer == "mitsuba" and test_set.levels.shape == (4, SIDE, SIDE, 3)
    assert torch.equal(test_set.outputs[:2], small.outputs[:2])
    brightness = test_set.images.mean(dim=(1, 2, 3))
    assert ((0.05 < brightness) & (brightness < 0.8)).all()
    assert (test_set.levels[:2] != test_set.levels[2:]).mean() > 0.9


@needs_mitsuba
def test_a_drawn_film_keeps_to_the_domains_ranges(cube):
    scene, task = cube
    poses = sampled_states(scene, task, 1, np.random.default_rng(0))
    film = PhotorealDomain(ranges={"key.elevation": (0.9, 0.9)}, colors="draw", samples=4).film(scene, poses[None], seed=3)
    assert film.appearance.numbers["key.elevation"] == 0.9 and film.appearance.colors == "draw" and film.options.samples == 4
    with_masks, without = film.picture(0), film.picture(0, masks=False)
    assert set(with_masks.masks) == {"die"} and not without.masks
    assert (with_masks.color == without.color).all()


def test_errors_are_means_over_outputs_and_in_metres_and_degrees(small, cube):
    head = cube[1].head
    perfect = state_errors(small.outputs, small, head)
    assert perfect.absolute.max() == 0 and perfect.spread.max() == 0
    assert perfect.physical["position [m]"].max() == 0 and perfect.physical["rotation [deg]"].max() < 1e-5
    states = len(small) // (int(small.appearance[-1]) + 1)
    moved = small.outputs + 0.1 * torch.randn(small.outputs.shape, generator=torch.Generator().manual_seed(0))
    by_appearance = moved.double().numpy().reshape(-1, states, small.outputs.shape[1])
    np.testing.assert_allclose(
        state_errors(moved, small, head).spread, [by_appearance[:, k].std(axis=0).mean() for k in range(states)], rtol=1e-6
    )
    shifted = small.outputs.clone()
    shifted[:, 0] += 0.5
    errors = state_errors(shifted, small, head)
    np.testing.assert_allclose(errors.per_image, 0.5 / 9, rtol=1e-6)
    np.testing.assert_allclose(errors.physical["position [m]"], 0.25 * (head.high[0] - head.low[0]), rtol=1e-5)
    content = errors.to_json()
    assert content["outputs"]["x"]["mean"] == pytest.approx(0.5, rel=1e-6) and content["outputs"]["y"]["mean"] == 0
    assert content["error"]["sd"] == pytest.approx(0, abs=1e-7)


def test_the_rotation_error_is_the_angle_of_one_turn():
    zero, quarter = torch.zeros(1, dtype=torch.float64), torch.full((1,), math.pi / 2, dtype=torch.float64)
    true = {"position": torch.zeros(1, 3), "yaw": quarter, "pitch": zero, "roll": zero}
    errors = physical_errors(true | {"pitch": quarter / 3, "position": torch.tensor([[3.0, 0.0, 4.0]])}, true)
    assert errors["rotation [deg]"][0] == pytest.approx(30) and errors["position [m]"][0] == 5
    both = physical_errors(true | {"yaw": zero, "roll": quarter}, true)["rotation [deg]"][0]
    assert both == pytest.approx(120)  # quarter turns about z, then about x
    assert physical_errors({"bend": zero + 2}, {"bend": zero})["bend"][0] == 2


def test_predictions_that_cannot_be_judged_are_refused(small, cube):
    with pytest.raises(UserError, match="predictions have shape"):
        state_errors(small.outputs[:, :3], small, cube[1].head)
    with pytest.raises(UserError, match="not finite"):
        state_errors(small.outputs * torch.nan, small, cube[1].head)


class Brightness:
    """Reads every output as the picture's brightness: what it says changes with the appearance alone."""

    def read(self, images):
        return images.mean(dim=(-3, -2, -1))[:, None].expand(-1, 9)


def test_baselines_are_blind_and_random(small, cube):
    outcome = evaluate(*cube, {"brightness": Brightness()}, small, seed=1)
    assert list(outcome.errors) == ["average", "random, normal", "random state", "brightness"]
    average = outcome.predicted["average"]
    assert (average == average[0]).all() and outcome.errors["average"].spread.max() == 0
    assert average[0, :3].abs().max() < 0.1  # positions are uniform in their ranges
    assert outcome.errors["brightness"].spread.min() > 1e-3
    assert outcome.errors["random, normal"].per_image.mean() > outcome.errors["average"].per_image.mean()
    table = error_table(outcome.errors)
    assert "position [m]  rotation [deg]" in table.splitlines()[0] and len(table.splitlines()) == 6
    assert output_table(outcome.errors).splitlines()[-1].startswith("cos roll")


@pytest.fixture(scope="module")
def networks(tmp_path_factory, cube):
    """Untrained networks for the die, as ``risp train`` would write them: one good one, one of another scene."""
    folder = tmp_path_factory.mktemp("networks")
    torch.manual_seed(0)
    network = RispNetwork(NetworkSettings(outputs=9, width=2))
    record = {"task": cube[1].to_json(), "training": {}}
    save_network(folder / "cube.safetensors", network, record | {"scene": "cube"})
    save_network(folder / "toss.safetensors", network, record | {"scene": "toss"})
    (folder / "words.safetensors").write_text("no network")
    return folder


def test_the_command_prints_tables_and_writes_results(networks, tmp_path, capsys):
    out, network = tmp_path / "run", str(networks / "cube.safetensors")
    assert main([
        "evaluate", "cube", "--network", network, "--renderers", "soft", "--images", "8", "--cache", str(tmp_path / "cache"),
        "--out", str(out),
    ]) == 0  # fmt: skip
    printed = capsys.readouterr().out
    assert "8 pictures, 4 held-out appearances" in printed and "random state" in printed and "cube   " in printed
    result = json.loads((out / "result.json").read_text())
    readers = result["renderers"]["soft"]
    assert readers["cube"]["error"]["mean"] > 0 and set(readers["cube"]["physical"]) == {"position [m]", "rotation [deg]"}
    asked = json.loads((out / "settings.json").read_text())
    assert asked["size"] == 64 and asked["networks"] == {"cube": network}
    with Image.open(out / "sheet-soft-0.png") as sheet:
        assert sheet.width == 4 * 200 + 8
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--network", "words.safetensors"], "words.safetensors is not a network"),
        (["--network", "missing.safetensors"], "missing.safetensors does not exist"),
        (["--network", "toss.safetensors"], "was trained for the scene 'toss', not 'cube'"),
        (["--network", "cube.safetensors", "--size", "32"], "takes images of 64 x 64 pixels, not 32 x 32"),
    ],
)
def test_wrong_networks_are_refused_in_one_sentence(networks, tmp_path, capsys, monkeypatch, arguments, sentence):
    monkeypatch.chdir(networks)
    assert main(["evaluate", "cube", *arguments, "--renderers", "soft", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1 and not (tmp_path / "run").exists()


def test_networks_have_short_names_unless_these_are_equal():
    assert short_names(["runs/full/network.safetensors", "b.safetensors"]) == ["full", "b"]
    assert short_names(["a/b.safetensors", "c/b.safetensors"]) == ["a/b.safetensors", "c/b.safetensors"]


def test_a_number_of_pictures_that_cannot_be_shared_out_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "cube", "--network", "n.safetensors", "--images", "10"])
    assert "10 pictures are not a multiple of 4 appearances" in capsys.readouterr().err
