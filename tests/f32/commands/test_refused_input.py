"""Wrong options, files and scenes: one sentence, exit status 2, and nothing is written; divergence has a separate status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trimesh

from risp_torch import read_video, write_video
from ti_sim.base.runtime import require

Risp = Callable[..., tuple[int, str, str]]


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


DEVICE = require().device
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
        ([*SIMULATE, "--device", "cuda" if DEVICE == "cpu" else "cpu"], f"already runs on {DEVICE}"),
        ([*SIMULATE, "--precision", "f64"], f"already runs on {DEVICE} in f32"),
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


@pytest.mark.usefixtures("undiagnosed", "unplotted")
def test_an_unfinished_run_with_other_settings_is_not_touched(risp: Risp, folder: Path, video: Path) -> None:
    invert = ["invert", "small.py", "--video", video, "--unknown", "block.density", "--starts", 1, "--out", "run"]
    assert risp(*invert, "--iterations", 1)[0] == 0
    (folder / "run" / "result.json").unlink()  # as if it had been killed after its checkpoint
    culprit = "run has other settings (search.rounds is 1 there and 2 here)"
    assert_refused(risp, folder, [*invert, "--iterations", 2], culprit)


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
