"""Files that simulate, landscape and invert write, and values and cameras of files that commands read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from risp_torch import Scene, UserError, load_scene, read_video, write_frames
from risp_torch.commands.options import add_scene_arguments
from risp_torch.commands.options import make_scene as options_make_scene
from risp_torch.files.run_folder import RESULT_SCHEMA
from tests.reference import small_scenes

Risp = Callable[..., tuple[int, str, str]]
FILM = ["video.mp4", "states.npz", "strip.png", "settings.json", "result.json"]


def test_simulate_writes_video_states_and_strip(risp: Risp, folder: Path) -> None:
    changes = ["--set", "block.density=500", "--set", "stiffness=900"]
    status, out, _ = risp("simulate", "small.py", *changes, "--out", "run", "--crf", 8)
    assert status == 0 and "run/video.mp4" in out
    last = "look at run/strip.png and run/video.mp4; next: risp invert small.py --video run/video.mp4 --unknown NAME"
    assert out.splitlines()[-1] == last
    run = folder / "run"
    assert sorted(path.name for path in run.iterdir()) == sorted(FILM)
    scene = load_scene("small.py", stiffness=900.0)
    scene.set("block.density", 500.0)
    film = scene.render(states := scene.rollout())[0].cpu().numpy()
    written = read_video(run / "video.mp4", fps=200, size=(16, 16), frames=5)
    assert written.shape == film.shape and np.abs(written - film).mean() < 0.02
    saved = np.load(run / "states.npz")
    np.testing.assert_array_equal(saved["body_q"], states.body_q[0].cpu().numpy())
    np.testing.assert_allclose(saved["time"], np.arange(5) * 5e-3)
    assert saved["body_names"].tolist() == ["block"]
    result, settings = (json.loads((run / name).read_text()) for name in ("result.json", "settings.json"))
    assert result["schema"] == 1 and result["scene"] == "small" and result["frames"] == 5 and result["seconds"] > 0
    assert settings["parameters"]["block.density"] == 500 and settings["parameters"]["ground.contact.stiffness"] == 900
    assert settings["size"] == [16, 16] and settings["substeps"] == 10 and settings["precision"] == "f32"


def test_simulate_takes_size_and_frames_and_names_its_folder(risp: Risp, folder: Path) -> None:
    assert risp("simulate", "small.py", "--size", 24, "--frames", 2, "--set", "camera.turn=(0, 0, 0.1)")[0] == 0
    (run,) = (folder / "runs").iterdir()
    assert run.name.startswith("simulate-small-")
    assert read_video(run / "video.mp4").shape == (3, 24, 24, 3)


def test_simulate_a_scene_that_ships(risp: Risp, folder: Path) -> None:
    assert risp("simulate", "cube", "--size", 16, "--frames", 2, "--out", "cube")[0] == 0
    assert json.loads((folder / "cube" / "result.json").read_text())["scene"] == "cube"


def test_frames_mean_one_thing(folder: Path) -> None:
    """--frames is the option of make_scene where there is one, so that what a scene does continues in its later frames."""

    def made(*words: object) -> Scene:
        parser = argparse.ArgumentParser()
        add_scene_arguments(parser)
        return options_make_scene(parser.parse_args([str(word) for word in words]))

    for name, parameter, shipped in (("quadrotor", "rotors.actions", 40), ("rod", "press.force", 40)):
        usual, longer = made(name).table[parameter].value, made(name, "--frames", 60)
        assert longer.frames == 60 and len(longer.table[parameter].value) == 60
        np.testing.assert_array_equal(longer.table[parameter].value[:shipped], usual)
        same = made(name, "--set", "frames=60")
        assert same.frames == 60
        np.testing.assert_array_equal(same.table[parameter].value, longer.table[parameter].value)
    assert made("pendulum", "--frames", 70).frames == made("pendulum", "--set", "frames=70").frames == 70
    with pytest.raises(UserError, match="--frames 3 and --set frames=4 are the same option"):
        made("rod", "--frames", 3, "--set", "frames=4")


def test_states_of_joints(risp: Risp, folder: Path) -> None:
    """The angle that the saved states hold is the one that the scene sets at the start."""
    assert risp("simulate", "pendulum", "--frames", 1, "--size", 16, "--set", "pendulum.angle=0.4", "--out", "run")[0] == 0
    saved = np.load(folder / "run/states.npz")
    assert saved["joint_q"].shape == saved["joint_qd"].shape == (2, 1)
    assert saved["joint_q"][0, 0] == pytest.approx(0.4) and saved["joint_q"][1, 0] < 0.4
    assert saved["joint_q_names"].tolist() == saved["joint_qd_names"].tolist() == ["pendulum"]


def test_found_values_and_cameras_of_files_go_into_every_scene(risp: Risp, folder: Path) -> None:
    """--from puts the numbers of a result, single entries among them, into a scene; --set goes before; --camera-file films."""
    unknowns = {"block.density": {"value": 9000.0}, "block.velocity[1]": {"value": 0.25}}  # the first beyond the scene's bounds
    (folder / "found").mkdir()
    (folder / "found/result.json").write_text(json.dumps({"unknowns": unknowns}))
    arguments = ["simulate", "small.py", "--frames", 1, "--from", "found", "--set", "block.velocity[0]=-0.5"]
    turned = {"name": "left", "width": 32, "height": 24, "K": [[80, 0, 15.5], [0, 80, 11.5], [0, 0, 1]], "t": [0, 0, 0.3]}
    turned["R"] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    (folder / "cameras.json").write_text(json.dumps({"cameras": [turned | {"name": "other"}, turned]}))
    cameras = ["--camera-file", "cameras.json", "--camera", "left", "--camera-settings", "up=y", "depth=0.1:2"]
    status, _, err = risp(*arguments, *cameras, "--out", "run")
    assert status == 0, err
    parameters = json.loads((folder / "run/settings.json").read_text())["parameters"]
    assert parameters["block.density"] == 9000.0 and parameters["block.velocity"] == [-0.5, 0.25, -0.8]
    # y up: the camera of the file looks along its z, which is -y of the scene
    np.testing.assert_allclose(parameters["camera.left.position"], [0, 0.3, 0], atol=1e-12)
    assert "camera.position" not in parameters and read_video(folder / "run/video.mp4").shape == (2, 24, 32, 3)


def test_landscape_of_one_parameter(risp: Risp, folder: Path) -> None:
    status, out, _ = risp("landscape", "small.py", "--unknown", "block.density", "--grid", 5, "--out", "run")
    assert status == 0 and "block.density = 800" in out
    written = {path.name for path in (folder / "run").iterdir()}
    assert written == {"landscape.npz", "landscape.png", "result.json", "settings.json"}
    saved = np.load(folder / "run" / "landscape.npz")
    np.testing.assert_allclose(np.log10(saved["axis0"]), np.linspace(np.log10(80), np.log10(8000), 5), rtol=1e-6)
    assert saved["loss"].argmin() == 2 and saved["loss"].min() < 1e-10  # f32: the truth, to rounding
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["lowest"] == {"block.density": pytest.approx(800.0, rel=1e-5)} and result["loss"] == saved["loss"].min()


def test_landscape_by_places_in_some_frames(risp: Risp, folder: Path) -> None:
    """As many options as an inversion has: another range, a single entry, frames that count, states in place of pictures."""
    assert risp("simulate", "small.py", "--out", "truth")[0] == 0
    arguments = ["landscape", "small.py", "--unknown", "block.position[2]", "--bounds", "block.position[2]=0.015:0.035"]
    options = ["--grid", 5, "--sampling", "every:2", "--loss", "state", "--states", "truth/states.npz", "--out", "run"]
    status, out, err = risp(*arguments, *options)
    assert status == 0 and "block.position[2] = 0.025" in out, err
    settings = json.loads((folder / "run/settings.json").read_text())
    assert settings["sampling"] == "every:2" and settings["loss"]["kind"] == "state" and settings["loss"]["head"] is None
    saved = np.load(folder / "run/landscape.npz")
    assert saved["loss"].argmin() == 2 and saved["loss"][2] < 1e-12 < saved["loss"][1]


def test_landscape_of_two_parameters_against_a_video(risp: Risp, folder: Path) -> None:
    """Of pictures without compression, which hides what friction does to films of so few pixels."""
    scene = small_scenes.make_scene()
    write_frames(folder / "frames", scene.render(scene.rollout())[0].detach(), fps=200)
    names = ["block.density", "ground.contact.friction"]
    arguments = ["--unknown", names[0], names[1], "--grid", 3, "--video", "frames", "--out", "run"]
    assert risp("landscape", "small.py", *arguments)[0] == 0
    saved = np.load(folder / "run" / "landscape.npz")
    assert saved["loss"].shape == (3, 3) and np.unravel_index(saved["loss"].argmin(), (3, 3)) == (1, 1)
    assert (folder / "run" / "landscape.png").stat().st_size > 5000


def test_landscape_in_the_look_that_is_solved(risp: Risp, folder: Path) -> None:
    """The film is in other colours than the scene; at the true density the solved look leaves least."""
    scene = small_scenes.make_scene()
    scene.set("light.key.intensity", 0.3)
    scene.set("ground.color", (0.2, 0.5, 0.3))
    write_frames(folder / "frames", scene.render(scene.rollout())[0].detach(), fps=200)
    arguments = ["--unknown", "block.density", "--grid", 5, "--video", "frames", "--loss", "matched"]
    arguments += ["--look", "edges=scene", "--out", "run"]
    status, _, err = risp("landscape", "small.py", *arguments)
    assert status == 0, err
    losses = np.load(folder / "run" / "landscape.npz")["loss"]
    assert losses.argmin() == 2 and losses[2] < 0.5 * np.delete(losses, 2).min()


def test_invert_writes_result_plots_strip_and_video(risp: Risp, folder: Path, video: Path) -> None:
    status, out, err = risp(
        "invert", "small.py", "--video", video, "--unknown", "block.density", "--unknown", "block.velocity", "--starts", 2,
        "--search", "adam", "--iterations", 12, "--solver", "learning_rate=0.05", "--solver", "first_frames=2", "--seed", 3,
        "--out", "run",
    )  # fmt: skip
    assert status == 0, err
    run = folder / "run"
    texts, pictures = {"result.json", "settings.json"}, {"error_bars.png", "loss.png", "parameters.png", "strip.png"}
    assert {path.name for path in run.iterdir()} == {*texts, *pictures, "checkpoint.safetensors", "comparison.mp4"}
    result = json.loads((run / "result.json").read_text())
    assert result["schema"] == RESULT_SCHEMA and result["scene"] == "small" and result["seed"] == 3 and result["seconds"] > 0
    assert set(result) >= {"schema", "scene", "version", "seed", "settings", "unknowns", "starts", "best", "seconds"}
    labels = ["block.density", "block.velocity[0]", "block.velocity[1]", "block.velocity[2]"]
    assert list(result["unknowns"]) == labels
    density = result["unknowns"]["block.density"]
    assert set(density) >= {"value", "unit", "low", "high", "sd", "observable"}
    assert (density["unit"], density["low"], density["high"]) == ("kg/m3", 80.0, 8000.0) and 80 < density["value"] < 8000
    assert len(result["starts"]) == 2 and result["starts"][result["best"]]["status"] == "best"
    for start in result["starts"]:
        assert set(start) == {"initial", "final", "loss", "status"} and list(start["final"]) == labels
    assert result["starts"][result["best"]]["final"]["block.density"] == density["value"]
    assert result["settings"]["search"]["iterations"] == 12 and result["settings"]["search"]["first_frames"] == 2
    assert all(label in out for label in labels) and "kg/m3" in out and "start" in out
    assert read_video(run / "comparison.mp4").shape[0] == 5


def test_invert_reads_a_folder_of_pictures(risp: Risp, folder: Path) -> None:
    """And finds a single entry of a vector, between bounds of that entry, while the others keep the scene's values."""
    scene = small_scenes.make_scene()
    write_frames(folder / "frames", scene.render(scene.rollout())[0].detach(), fps=200)
    arguments = ["invert", "small.py", "--video", "frames", "--unknown", "block.density", "block.velocity[1]", "--iterations", 2]
    options = ["--starts", 2, "--bounds", "block.velocity[1]=-0.5:0.5", "--search", "rmsprop", "--out", "run"]
    status, out, _ = risp(*arguments, *options)
    assert status == 0 and "block.velocity[1]" in out
    found = json.loads((folder / "run" / "result.json").read_text())["unknowns"]
    assert list(found) == ["block.density", "block.velocity[1]"]
    assert (found["block.velocity[1]"]["low"], found["block.velocity[1]"]["high"]) == (-0.5, 0.5)
    status, out, err = risp("render", "small.py", "--from", "run", "--out", "found.png")
    assert status == 0, err
