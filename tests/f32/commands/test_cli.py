"""The command line: what each command writes, and what it says when it is asked for something wrong."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trimesh

import risp_torch
import risp_torch.inversion.diagnostics.gradient_check
from risp_torch import Scene, UserError, load_scene, read_video, scene_names, simulate_video, write_frames, write_video
from risp_torch.__main__ import COMMANDS, PROGRAM, main
from risp_torch.commands.options import add_scene_arguments
from risp_torch.commands.options import make_scene as options_make_scene
from risp_torch.commands.solver_settings import SEARCH_GROUPS, WARM_START_GROUPS
from risp_torch.inversion.diagnostics.gradient_check import FilmGradient
from tests.reference import small_scenes

Risp = Callable[..., tuple[int, str, str]]
FILM = ["video.mp4", "states.npz", "strip.png", "settings.json", "result.json"]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The film of the small scene."""
    return simulate_video(small_scenes.make_scene(), tmp_path_factory.mktemp("film") / "film.mp4", crf=10)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_refused(risp: Risp, folder: Path, arguments: list[object], culprit: str) -> None:
    """Exit status 2, one line on stderr with the culprit, and every file as it was before."""
    before = tree(folder)
    status, out, err = risp(*arguments)
    assert status == 2, (status, err)
    assert len(err.strip().splitlines()) == 1 and "error: " in err, err
    assert culprit in err, err
    assert "Traceback" not in out + err
    assert tree(folder) == before


# -- what the commands write ----------------------------------------------------------------------------------------------


def test_scenes_lists_what_ships(risp: Risp) -> None:
    status, out, _ = risp("scenes")
    assert status == 0
    assert "cube" in out and "toss" in out and "unknown: ground.contact.stiffness" in out
    assert not [line for line in out.splitlines() if line.rstrip().endswith(":")]  # no list is empty
    after_gear = out.split("\ngear ")[1].splitlines()[1]
    assert after_gear.split() == "driven by a network: gear.actuation (risp control)".split()


def test_version(risp: Risp) -> None:
    assert risp("--version") == (0, f"risp {risp_torch.__version__}\n", "")


def test_a_reader_that_ends_early(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``risp scenes | head -1``: no traceback, and nothing is left that Python would fail to write at its end."""
    reading, writing = os.pipe()
    os.close(reading)
    for arguments in (["scenes"], ["--help"]):
        with os.fdopen(os.dup(writing), "w") as broken:
            monkeypatch.setattr(sys, "stdout", broken)
            assert main(arguments) == 141
            print("more", flush=True)
    os.close(writing)


def test_help_of_every_command(risp: Risp) -> None:
    status, out, _ = risp("--help")
    assert status == 0 and all(command in out for command in COMMANDS)
    for command in COMMANDS:
        status, out, _ = risp(command, "--help")
        assert status == 0 and "usage: risp" in out


def test_options_of_an_inversion_are_few_and_grouped() -> None:
    """The everyday ones stand first, and no group of any command has more than eight."""
    _, parsers = PROGRAM.parsers()
    options = [action for action in parsers["invert"]._actions if action.option_strings and action.dest != "help"]
    assert len(options) <= 35 and len(COMMANDS) == 14
    for name in ("invert", "landscape"):
        groups = [group._group_actions for group in parsers[name]._action_groups if group._group_actions]
        assert max(len(group) for group in groups) <= 8
    everyday = [action.dest for action in parsers["invert"]._optionals._group_actions]
    assert everyday == ["help", "video", "unknown", "bounds", "prior", "loss", "settings", "out"]


def test_settings_of_solvers_are_listed_with_their_meanings(risp: Risp) -> None:
    status, out, _ = risp("invert", "--solver", "help")
    assert status == 0
    assert "growth=1.25  factor by which the horizon grows." in out and "cma.generations=10  number of generations." in out
    for group in (*SEARCH_GROUPS, *WARM_START_GROUPS.values()):
        assert all(f"  {name}=" in out for name in group.names)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_last_line_of_a_command(command: str) -> None:
    """Each command ends by ``print_closing``."""
    module = importlib.import_module(f"risp_torch.commands.{command}")
    assert "print_closing(" in inspect.getsource(module)


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
    assert result["schema"] == 2 and result["scene"] == "small" and result["seed"] == 3 and result["seconds"] > 0
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
    """And finds a single entry of a vector, between bounds of its own, while the others keep the scene's values."""
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


def test_gradients_are_printed_in_a_table(risp: Risp, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [FilmGradient("block.density", 1.0, 1.0), FilmGradient("gravity[2]", 0.0, 1e-12, status="not observable")]
    checks.append(FilmGradient("hip.actions", 0.5, 0.6, 0.2, "kink, inside", 0.2, 1.0))
    asked: list[str] = []

    def check(scene: Scene, names: list[str], **options: object) -> tuple[list[FilmGradient], float]:
        asked[:] = names
        return checks, 0.5

    monkeypatch.setattr(risp_torch.inversion.diagnostics.gradient_check, "check_film_gradient", check)
    status, out, _ = risp("check", "small.py", "--gradient", "--precision", "f32")
    assert status == 0 and "right" in out and "not observable" in out and "WRONG" not in out
    assert "right, at a kink (slopes +2.0000e-01 from below, +1.0000e+00 from above)" in out
    checks.append(FilmGradient("block.velocity[1]", 1.0, -1.0, 2.0, "WRONG"))
    names = ["block.velocity[1]", "block.density"]
    status, out, _ = risp("check", "small.py", "--gradient", "--precision", "f32", "--unknown", *names, "--unknown", "gravity[2]")
    assert status == 1 and "WRONG" in out and asked == [*names, "gravity[2]"]


# -- in a process of its own ----------------------------------------------------------------------------------------------


def risp_process(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "risp_torch", *(str(argument) for argument in arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.processes
def test_gradients_in_a_process_of_its_own(folder: Path) -> None:
    names = ["block.density", "ground.contact.friction", "camera.turn"]
    unknown = [f"--unknown={name}" for name in names]
    done = risp_process("check", "small.py", "--gradient", *unknown, "--device", "cpu", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == 5 and all(name in done.stdout for name in names)
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["small.py"]


@pytest.mark.processes
def test_an_error_in_a_process_of_its_own(folder: Path) -> None:
    done = risp_process("simulate", "cub", cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    known = "ball_soft, beam, cloth, cloth_control, cube, double_pendulum, fold, gear, hand, hand_cube, jellyfish, pendulum "
    known += f"and {len(scene_names()) - 12} more"
    near = "'cube' or 'hand_cube' or 'real/contactnets_cube'"
    said = f"risp simulate: error: unknown scene 'cub': did you mean {near}? (known: {known})"
    assert done.stderr.splitlines() == [said]


# -- what it refuses ------------------------------------------------------------------------------------------------------

SIMULATE = ["simulate", "small.py", "--out", "new"]
LANDSCAPE = ["landscape", "small.py", "--unknown", "block.density", "--out", "new"]


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["simulate", "cub", "--out", "new"], "'cub': did you mean 'cube'"),
        (["simulate", "nowhere", "--out", "new"], "'nowhere': choose one of ball_soft, beam, cloth, cloth_control, cube"),
        (["simulate", "nowhere.py", "--out", "new"], "nowhere.py does not exist"),
        (["simulate", ".", "--out", "new"], "'.'"),
        ([*SIMULATE, "--fames", 3], "'--fames': did you mean --frames"),
        ([*SIMULATE, "--points", 3], "unknown option '--points' (that is an option of risp camera)"),
        ([*SIMULATE, "--nonsense"], "unknown option '--nonsense' (risp simulate --help lists the options)"),
        ([*SIMULATE, "second.py"], "unexpected argument 'second.py'"),
        ([*SIMULATE, "--set", "block.mass=3"], "'block.mass': did you mean 'block.density'"),
        ([*SIMULATE, "--frames", 0], "--frames: it is 0: give a whole number of at least 1"),
        ([*SIMULATE, "--frames", "few"], "--frames: it is 'few': give a whole number"),
        ([*SIMULATE, "--size", -4], "--size: it is -4: give a whole number"),
        ([*SIMULATE, "--device", "tpu"], "'tpu'"),
        ([*SIMULATE, "--device", "cuda"], "already runs on cpu"),
        ([*SIMULATE, "--precision", "f64"], "already runs on cpu in f32"),
        ([*SIMULATE, "--set", "stiffnes=3"], "'stiffnes': did you mean 'stiffness'"),
        ([*SIMULATE, "--set", "block.densty=3"], "'block.densty': did you mean 'block.density'"),
        ([*SIMULATE, "--set", "block.density"], "'block.density' is not NAME=VALUE"),
        ([*SIMULATE, "--set", "=3"], "'=3' is not NAME=VALUE"),
        ([*SIMULATE, "--set", "block.density=much"], "block.density is 'much': give a finite number"),
        ([*SIMULATE, "--set", "block.position=(1, 2)"], "block.position has shape (2,), and (3,) is needed"),
        ([*SIMULATE, "--set", "block.density=9e9"], "block.density: Param: start value 9e+09 lies outside its bounds [80, 8000]"),
        ([*SIMULATE, "--set", "block.density=-3"], "block.density is -3 kg/m3"),
        ([*SIMULATE, "--set", "ground.contact.damping=-1"], "ground.contact.damping is -1"),
        ([*SIMULATE, "--set", "block.velocity[3]=1"], "block.velocity has no entry [3]: name block.velocity[0 to 2]"),
        ([*SIMULATE, "--set", "block.density[0]=1"], "block.density has no entry [0]: it is one number"),
        ([*SIMULATE, "--set", "block.velocity[0]=3"], "block.velocity[0]: Param: start value 3 at [0] lies outside its bounds"),
        ([*SIMULATE, "--from", "small.py"], "small.py is not a JSON file: give the result.json of 'risp invert'"),
        ([*SIMULATE, "--from", "nowhere"], "nowhere does not exist: give the result.json"),
        ([*SIMULATE, "--camera", "left"], "no camera is called 'left'"),
        ([*SIMULATE, "--camera-settings", "up=y"], "--camera-settings belongs to --camera-file FILE"),
        ([*SIMULATE, "--set", "block.position=nan"], "block.position is 'nan': give finite numbers of shape (3,)"),
        ([*SIMULATE, "--set", "density=0"], "make_scene(density=0) of small.py: Param: value is 0"),
        ([*SIMULATE, "--set", "frames=0"], "--set frames is 0: give a whole number of at least 1"),
        ([*SIMULATE, "--set", "size=large"], "make_scene(size='large') of small.py: "),
        ([*SIMULATE, "--set", "mesh=none.stl"], "none.stl does not exist"),
        (["simulate", "cube", "--set", "die.density=0", "--out", "new"], "die.density is 0 kg/m3: give a number above zero"),
        (["simulate", "cube", "--set", "die.color=1", "--out", "new"], "'die.color': did you mean"),
        (["simulatte", "cube"], "'simulatte'"),
        (["simulate"], "SCENE"),
        (["check", "small.py", "--gradient", "--precision", "f32"], "f64"),
        (["check", "small.py", "--gradient", "--crf", "20"], "--crf has no effect with --gradient"),
        (["control", "cube"], "has no make_control: define make_control(scene) that returns a ControlTask (shipped scenes"),
        (["control", "cube"], "with one: cloth_control, gear, jellyfish, walker)"),
        (["train", "small.py", "--images", 4], "has no make_task"),
        (["landscape", "small.py", "--unknown", "block.densty", "--out", "new"], "'block.densty': did you mean 'block.density'"),
        (["landscape", "small.py", "--unknown", "block.position", "--out", "new"], "block.position has no bounds"),
        (["landscape", "small.py", "--unknown", "block.velocity", "--out", "new"], "3 numbers were named"),
        ([*LANDSCAPE, "--sampling", "some"], "sampling 'some' is unknown"),
        ([*LANDSCAPE, "--video", "run/states.npz"], "no pictures: states are compared with --loss state --states run/states.npz"),
        (["invert", "small.py", "--unknown", "block.density", "--loss", "state", "--states", "a.mp4"], "give it with --video"),
        (["landscape", "small.py", "--unknown", "block.density", "--grid", 1, "--out", "new"], "--grid: it is 1"),
        (["landscape", "small.py", "--unknown", "block.density", "block.density", "--out", "new"], "two different"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused(risp: Risp, folder: Path, arguments: list[object], culprit: str) -> None:
    assert_refused(risp, folder, arguments, culprit)


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ('{"unknowns": {"block.density": {"value": "800"}}}', "block.density is '800': give finite numbers there"),
        ('{"unknowns": {"block.density": {"value": null}}}', "block.density is None: give finite numbers there"),
        ('{"unknowns": {"block.density": {"value": [800]}}}', "damaged"), ('{"unknowns": {"block.density": 3}}', "is damaged"),
        ('{"values": {"block.density": "heavy"}}', "block.density is 'heavy': give finite numbers there"),
        ('{"lowest": {"block.density": {}}}', "block.density is {}: give finite numbers there"),
        ('{"values": {"block.density": NaN}}', "block.density is nan: give finite numbers there"),
        ('{"unknowns": {"psi: light": {"value": 0.1}}}', "is damaged"), ("[" * 100_000, "is not a JSON file"),
        ('{"values": ' * 100_000, "is not a JSON file"), ('"' + "\\ud800" * 3, "is not a JSON file"),
    ],
)  # fmt: skip
def test_results_that_hold_no_estimates_are_refused(risp: Risp, folder: Path, content: str, culprit: str) -> None:
    (folder / "found.json").write_text(content)
    assert_refused(risp, folder, [*SIMULATE, "--from", "found.json"], culprit)


@pytest.mark.parametrize("option", ["--camera-file", "--from"])
def test_deeply_nested_json_is_refused(risp: Risp, folder: Path, option: str) -> None:
    (folder / "deep.json").write_text("[" * 100_000)
    assert_refused(risp, folder, [*SIMULATE, option, "deep.json"], "deep.json")


@pytest.mark.parametrize("noise", ["1e300", "1e-300"])
def test_noise_whose_square_is_no_number_is_refused(risp: Risp, folder: Path, noise: str) -> None:
    words = ["check", "small.py", "--unknown", "block.density", "--noise", noise]
    assert_refused(risp, folder, words, f"--noise: it is {float(noise)}: give a finite number from 1e-09 to 1000000000")


@pytest.mark.parametrize(
    ("name", "source", "culprit"),
    [
        ("syntax.py", b"def make_scene(:\n", "syntax.py does not load: SyntaxError"),
        ("bytes.py", b"\xff\xfe\x00", "bytes.py does not load"),
        (
            "imports.py", b"\nimport not_a_module\n",
            "imports.py does not load: ModuleNotFoundError: No module named 'not_a_module' (imports.py, line 2)",
        ),
        ("empty.py", b"x = 1\n", "empty.py has no make_scene"),
        ("number.py", b"def make_scene():\n    return 3\n", "number.py returned int"),
        ("nothing.py", b"def make_scene():\n    pass\n", "nothing.py returned NoneType"),
        (
            "raises.py", b"def half():\n    return 1 / 0\n\ndef make_scene():\n    return half()\n",
            "raises.py failed: ZeroDivisionError: division by zero (raises.py, line 2)",
        ),
        (
            "refused.py",
            b"from risp_torch import Scene\n\ndef make_scene():\n    return Scene(frame_dt=-1, frames=1, substeps=1)\n",
            "(refused.py, line 4)",
        ),
    ],
)  # fmt: skip
def test_a_bad_scene_file_is_refused(risp: Risp, folder: Path, name: str, source: bytes, culprit: str) -> None:
    (folder / name).write_bytes(source)
    assert_refused(risp, folder, ["simulate", name, "--out", "new"], culprit)


PARTS = {
    "no bodies": "",
    "no light": "    scene.add_rigid('block', shape=Box(0.1, 0.1, 0.1), density=1.0)\n",
    "no camera": (
        "    scene.add_rigid('block', shape=Box(0.1, 0.1, 0.1), density=1.0)\n    scene.add_light(AmbientLight(intensity=1))\n"
    ),
}


@pytest.mark.parametrize("culprit", PARTS)
def test_a_scene_with_something_missing_is_refused(risp: Risp, folder: Path, culprit: str) -> None:
    head = "from risp_torch import AmbientLight, Box, Scene\ndef make_scene():\n"
    scene = "    scene = Scene(frame_dt=1, frames=1, substeps=1)\n"
    (folder / "part.py").write_text(f"{head}{scene}{PARTS[culprit]}    return scene\n")
    status, _, err = risp("simulate", "part.py", "--out", "new")
    assert status == 2 and culprit in err and len(err.strip().splitlines()) == 1
    assert not (folder / "new" / "result.json").exists()


@pytest.mark.parametrize(
    ("name", "change", "culprit"),
    [
        ("open.stl", lambda m: m.update_faces(np.arange(len(m.faces)) > 0), "open.stl is not watertight"),
        ("flat.stl", lambda m: m.apply_scale([1, 1, 0]), "flat.stl is degenerate"),
        ("inside.stl", lambda m: m.invert(), "inside.stl is inside-out"),
    ],
)  # fmt: skip
def test_a_bad_mesh_is_refused(risp: Risp, folder: Path, name: str, change: Callable, culprit: str) -> None:
    mesh = trimesh.creation.box((0.05, 0.04, 0.03))
    change(mesh)
    mesh.export(folder / name)
    assert_refused(risp, folder, ["simulate", "small.py", "--set", f"mesh={name}", "--out", "new"], culprit)


def test_a_damaged_mesh_file_is_refused(risp: Risp, folder: Path) -> None:
    (folder / "noise.obj").write_text("this is no mesh\n")
    assert_refused(risp, folder, ["simulate", "small.py", "--set", "mesh=noise.obj", "--out", "new"], "noise.obj")
    good = trimesh.creation.box((0.05, 0.04, 0.03))
    good.export(folder / "good.stl")
    arguments = ["simulate", "small.py", "--set", "mesh=good.stl", "--set", "scale=0", "--out", "new"]
    assert_refused(risp, folder, arguments, "scale is 0: give a finite number above zero")
    assert risp("simulate", "small.py", "--set", "mesh=good.stl", "--out", "new")[0] == 0


INVERT = ["invert", "small.py", "--iterations", 1, "--out", "new"]


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--unknown", "block.densty"], "'block.densty': did you mean 'block.density'"),
        (["--unknown", "block.position"], "block.position has no bounds"),
        (["--unknown", "block.density", "--size", 24], "16x16 pixels, and 24x24 are needed"),
        (["--unknown", "block.density", "--frames", 7], "has 5 frames, and the scene needs 8"),
        (["--unknown", "block.density", "--search", "adam", "--solver", "learning_rate=-1"], "--solver learning_rate is -1"),
        (["--unknown", "block.density", "--starts", 0], "--starts: it is 0: give a whole number"),
        (["--unknown", "block.density", "--search", "sgd"], "'sgd'"),
        (["--unknown", "block.density", "--solver", "learning_rat=1"], "unknown setting 'learning_rat': give one of refine, "),
        (["--unknown", "block.density", "--solver", "growth=0"], "--solver growth is 0: give "),
        ([], "--unknown"),
    ],
)
def test_a_wrong_inversion_is_refused(risp: Risp, folder: Path, video: Path, arguments: list[object], culprit: str) -> None:
    assert_refused(risp, folder, [*INVERT, "--video", video, *arguments], culprit)


def test_a_bad_video_is_refused(risp: Risp, folder: Path, video: Path) -> None:
    unknown = ["--unknown", "block.density"]
    whole = video.read_bytes()
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 3])
    (folder / "cut_later.mp4").write_bytes(whole[: len(whole) - 300])
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "folder").mkdir()
    write_video(folder / "slow.mp4", read_video(video), fps=100)
    write_video(folder / "short.mp4", read_video(video)[:3], fps=200)
    for name, culprit in (
        ("none.mp4", "none.mp4 does not exist"),
        ("cut.mp4", "cut.mp4 is damaged, cut short"),
        ("cut_later.mp4", "cut short"),
        ("empty.mp4", "empty.mp4"),
        ("folder", "folder holds no PNG or JPEG picture"),
        ("slow.mp4", "slow.mp4 has 100 frames per second, and the scene has 200"),
        ("short.mp4", "short.mp4 has 3 frames, and the scene needs 5"),
        ("small.py", "small.py"),
    ):
        assert_refused(risp, folder, [*INVERT, *unknown, "--video", name], culprit)
    assert_refused(risp, folder, [*INVERT, *unknown], "--video")
    landscape = ["landscape", "small.py", "--unknown", "block.density", "--grid", 2, "--out", "new"]
    assert_refused(risp, folder, [*landscape, "--video", "slow.mp4"], "slow.mp4")


def test_a_finished_run_is_never_touched(risp: Risp, folder: Path, video: Path) -> None:
    assert risp("simulate", "small.py", "--out", "done")[0] == 0
    status, out, _ = risp("simulate", "small.py", "--out", "done")
    assert status == 0 and out == "risp simulate: done holds this run, already finished: look at the files in it\n"
    commands = (
        ["simulate", "small.py", "--set", "block.density=90", "--out", "done"],
        ["landscape", "small.py", "--unknown", "block.density", "--grid", 2, "--out", "done"],
        ["invert", "small.py", "--video", video, "--unknown", "block.density", "--iterations", 1, "--out", "done"],
    )
    for arguments in commands:
        assert_refused(risp, folder, arguments, "done already holds a finished run")


def test_an_unfinished_run_with_other_settings_is_not_touched(risp: Risp, folder: Path, video: Path) -> None:
    invert = ["invert", "small.py", "--video", video, "--unknown", "block.density", "--starts", 1, "--out", "run"]
    assert risp(*invert, "--iterations", 10)[0] == 0
    (folder / "run" / "result.json").unlink()  # as if it had been killed after its checkpoint
    culprit = "run has other settings (search.rounds is 10 there and 20 here)"
    assert_refused(risp, folder, [*invert, "--iterations", 20], culprit)


def test_a_place_that_cannot_be_written(risp: Risp, folder: Path) -> None:
    assert_refused(risp, folder, ["simulate", "small.py", "--out", "small.py"], "small.py is the input small.py")
    assert_refused(risp, folder, ["simulate", "small.py", "--out", "small.py/run"], "small.py")


# -- divergence -----------------------------------------------------------------------------------------------------------


def write_stiff_scene(folder: Path, *, low: float) -> None:
    """stiff.py: the small scene with another range of stiffness, up to 1e38 N/m."""
    source = (folder / "small.py").read_text()
    assert "low=40.0, high=4000.0" in source
    (folder / "stiff.py").write_text(source.replace("low=40.0, high=4000.0", f"low={low}, high=1e38"))


def test_divergence_has_its_own_exit_status_and_names_body_and_step(risp: Risp, folder: Path) -> None:
    write_stiff_scene(folder, low=40.0)
    status, out, err = risp("simulate", "stiff.py", "--set", "stiffness=1e37", "--out", "run")
    assert status == 3, err
    warning, line = err.strip().splitlines()
    assert warning.startswith("risp simulate: warning: the step of ")
    assert "'block' stopped being finite at step " in line and "more substeps" in line
    assert int(line.split("at step ")[1].split()[0]) > 0
    assert not (folder / "run" / "result.json").exists() and "Traceback" not in err
    # The folder is free for another try.
    assert risp("simulate", "stiff.py", "--out", "run")[0] == 0


def test_an_inversion_of_which_every_start_diverges(risp: Risp, folder: Path, video: Path) -> None:
    write_stiff_scene(folder, low=1e36)
    arguments = ["invert", "stiff.py", "--set", "stiffness=1e37", "--video", video, "--unknown", "ground.contact.stiffness"]
    status, _, err = risp(*arguments, "--starts", 2, "--iterations", 2, "--out", "run")
    assert status == 3, err
    assert "'block' stopped being finite at step " in err and "Traceback" not in err


def test_simulate_checks_before_it_works(risp: Risp, folder: Path) -> None:
    """A picture that H.264 cannot hold and a quality out of range are refused before anything is written."""
    for arguments, hint in ((["--size", 17], "even sides"), (["--crf", 99], "give a finite number from 0 to 51")):
        status, _, err = risp("simulate", "small.py", *arguments, "--out", "run")
        assert status == 2 and hint in err
        assert not (folder / "run").exists()
