"""A run folder is never half written, resumes only with its own settings, and refuses to be used twice."""

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from risp_torch.files.atomic import DiskFullError
from risp_torch.files.run_folder import RESULT_SCHEMA, FinishedError, RunFolder, default_run_path, inversion_result
from risp_torch.files.suggest import similar_names, unknown_name_error
from tests.reference.folders import ROOT
from ti_sim.base.errors import UserError

SETTINGS = {"scene": "cube", "optimiser": {"rate": 0.1, "steps": 20}, "unknowns": ["ground.contact.stiffness"]}
KNOWN = ["ground.contact.stiffness", "ground.contact.damping", "die.density", "light.key.intensity", "camera.position"]


def example_result(**changes):
    unknown = {"value": 1e3, "unit": "N/m", "low": 316.0, "high": 3162.0, "sd": math.nan, "observable": True}
    start = {"initial": {"k": 500.0}, "final": {"k": np.float32(1000.0)}, "loss": torch.tensor(0.5), "status": "done"}
    values = dict(scene="cube", seed=0, settings=SETTINGS, unknowns={"k": unknown}, starts=[start], best=0, seconds=1.5)
    return inversion_result(**{**values, **changes})


def test_settings_and_result_are_plain_json(tmp_path):
    settings = {"fps": Fraction(200), "video": Path("a/b.mp4"), "x": np.arange(3), "n": np.int64(3), "t": (1, 2)}
    run = RunFolder.create(tmp_path / "deep" / "run", settings)
    written = json.loads((run.path / "settings.json").read_text())
    assert written == {"fps": 200.0, "video": "a/b.mp4", "x": [0, 1, 2], "n": 3, "t": [1, 2]} == run.settings

    assert not run.finished
    run.write_result(example_result())
    result = json.loads((run.path / "result.json").read_text())
    keys = ["schema", "scene", "version", "seed", "settings", "unknowns", "starts", "best", "seconds"]
    assert run.finished and list(result) == keys and result == run.read_result()
    assert result["schema"] == RESULT_SCHEMA
    assert result["unknowns"]["k"]["sd"] is None
    assert result["starts"][0]["final"] == {"k": 1000.0} and result["starts"][0]["loss"] == 0.5
    assert sorted(p.name for p in run.path.iterdir()) == ["result.json", "settings.json"]


def test_result_must_have_its_keys_and_json_values(tmp_path):
    with pytest.raises(ValueError, match="unknown 'k' of the result lacks unit, low, high, sd, observable"):
        example_result(unknowns={"k": {"value": 1}})
    with pytest.raises(ValueError, match="start 0 of the result lacks status"):
        example_result(starts=[{"initial": {}, "final": {}, "loss": 1}])
    run = RunFolder.create(tmp_path, {})
    with pytest.raises(TypeError, match="object .* cannot be written as JSON"):
        run.write_result({"x": object()})
    assert not run.finished


def test_infinite_numbers_become_null(tmp_path):
    run = RunFolder.create(tmp_path, {})
    run.write_result({"x": [math.inf, -math.inf, np.float32("nan"), torch.tensor([math.nan, 1.0])]})
    assert run.read_result() == {"x": [None, None, None, [None, 1.0]]}


def test_finished_run_is_not_written_over(tmp_path):
    RunFolder.create(tmp_path, SETTINGS).write_result({})
    for make in (RunFolder.create, RunFolder.open_or_create):
        with pytest.raises(FinishedError, match="holds this run, already finished"):
            make(tmp_path, SETTINGS)
        with pytest.raises(UserError, match="already holds a finished run .*seed is not set there.*: choose") as error:
            make(tmp_path, SETTINGS | {"seed": 3})
        assert not isinstance(error.value, FinishedError)
        (tmp_path / "result.json").write_text('{"x": ')
        with pytest.raises(UserError, match="result.json is damaged") as error:
            make(tmp_path, SETTINGS)
        assert not isinstance(error.value, FinishedError)
        (tmp_path / "result.json").write_text("{}")


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="choose a(nother)? (folder|place)"):
            RunFolder.create(path, {})


def test_leftover_of_a_killed_write_is_no_result(tmp_path):
    run = RunFolder.create(tmp_path, SETTINGS)
    (tmp_path / ".result.json.123.tmp").write_text('{"schema"')
    (tmp_path / ".checkpoint.safetensors.123.tmp").write_bytes(b"half")
    assert not run.finished
    with pytest.raises(UserError, match="has no result.json: it has not finished"):
        run.read_result()
    again = RunFolder.open_or_create(tmp_path, SETTINGS)
    assert again == run and again.load_checkpoint() is None
    RunFolder.create(tmp_path, SETTINGS)


def test_checkpoint_comes_back_bit_by_bit(tmp_path):
    run = RunFolder.create(tmp_path, SETTINGS)
    base = torch.randn(4, 6, dtype=torch.float64)
    tensors = {
        "weights": torch.randn(3, 2, requires_grad=True),
        "view": base[:, ::2],
        "same memory": base,
        "step": torch.tensor(7),
        "random": torch.get_rng_state(),
        "alive": torch.tensor([True, False]),
    }
    assert run.load_checkpoint() is None
    run.save_checkpoint({"old": torch.zeros(1)}, {"iteration": 1})
    run.save_checkpoint(tensors, {"iteration": 2, "best": math.inf, "loss": math.nan, "name": "k"})
    loaded, metadata = RunFolder.open_or_create(tmp_path, SETTINGS).load_checkpoint()
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor.detach())
    assert metadata["iteration"] == 2 and metadata["best"] == math.inf and math.isnan(metadata["loss"])
    assert metadata["name"] == "k"


def test_fresh_start_destroys_no_unfinished_run(tmp_path):
    RunFolder.create(tmp_path, SETTINGS).save_checkpoint({"x": torch.ones(1)}, {"iteration": 3})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="holds an unfinished run that can be resumed"):
        RunFolder.create(tmp_path, {"another": "run"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_damaged_files(tmp_path):
    run = RunFolder.create(tmp_path, SETTINGS)
    run.save_checkpoint({"x": torch.zeros(100)}, {})
    data = (tmp_path / "checkpoint.safetensors").read_bytes()
    for broken in (data[:50], data[:-10], b"", b"\x80\x04pickle"):
        (tmp_path / "checkpoint.safetensors").write_bytes(broken)
        with pytest.raises(UserError, match="checkpoint.safetensors is damaged: remove it to start the run again"):
            run.load_checkpoint()
    for broken in ("{", "[]"):
        (tmp_path / "settings.json").write_text(broken)
        with pytest.raises(UserError, match="settings.json is damaged"):
            RunFolder.open_or_create(tmp_path, SETTINGS)


def edited(path: Path, change: Callable[[dict, dict], None]) -> None:
    """Write a checkpoint anew after a change of its tensors and its metadata, with whatever texts it had."""
    with safe_open(path, framework="pt") as file:
        tensors, texts = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata())
    content = json.loads(texts["json"])
    change(tensors, content)
    save_file(tensors, path, metadata=texts | {"json": json.dumps(content)})


def test_checkpoints_that_are_not_as_written_are_refused(tmp_path):
    """An array that lacks or has another shape, and an iteration that never was, are no place to resume from."""
    run = RunFolder.create(tmp_path, SETTINGS)
    changes = (
        lambda tensors, content: tensors.pop("z"),
        lambda tensors, content: tensors.update(z=torch.zeros(5, 2)),
        lambda tensors, content: tensors.update(z=torch.ones(3, 2)),
        lambda tensors, content: content.update(iteration=10**9),
        lambda tensors, content: content.update(iteration=-5),
    )
    for change in changes:
        run.save_checkpoint({"z": torch.zeros(3, 2), "x": torch.ones(4, dtype=torch.bfloat16)}, {"iteration": 3})
        assert run.load_checkpoint()[1] == {"iteration": 3}
        edited(tmp_path / "checkpoint.safetensors", change)
        with pytest.raises(UserError, match="checkpoint.safetensors is not as it was written: remove it to start the run again"):
            run.load_checkpoint()


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    other, run = (RunFolder.create(tmp_path / str(seed), SETTINGS | {"seed": seed}) for seed in (1, 2))
    other.save_checkpoint({"z": torch.zeros(2)}, {"iteration": 3})
    shutil.copy(other.path / "checkpoint.safetensors", run.path)
    with pytest.raises(UserError, match="is that of another run: remove it to start this run"):
        run.load_checkpoint()


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path, SETTINGS)

    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DiskFullError, match="checkpoint.safetensors cannot be written .No space left on device.: make room"):
        run.save_checkpoint({"z": torch.zeros(2)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_files_of_others_are_not_replaced(tmp_path):
    (tmp_path / "video.mp4").write_bytes(b"mine")
    for make in (RunFolder.create, RunFolder.open_or_create):
        with pytest.raises(UserError, match=r"holds files that are no run's \(video.mp4\): choose a new or an empty folder"):
            make(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]


def test_leftovers_of_dead_processes_go(tmp_path):
    RunFolder.create(tmp_path, SETTINGS)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / "target").mkdir()
    gone = [f".strip.png.{dead.pid}.tmp", f".states.npz.{os.getpid()}.tmp", f"target/.a.b.{dead.pid}.tmp"]
    for name in [*gone, "kept.tmp", ".kept.tmp", f".other.png.{os.getppid()}.tmp"]:
        (tmp_path / name).write_text("")
    RunFolder.open_or_create(tmp_path, SETTINGS)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*.tmp")}
    assert left == {"kept.tmp", ".kept.tmp", f".other.png.{os.getppid()}.tmp"}


def test_one_process_at_a_time(tmp_path):
    """The lock is the process's, leaves no file, and goes with the last one that holds the folder."""
    program = (
        "import sys; from risp_torch.files.run_folder import RunFolder\n"
        "run = RunFolder.open_or_create(sys.argv[1], {}, shared=len(sys.argv) > 2)\nprint('mine', flush=True)\nsys.stdin.read()"
    )

    def elsewhere(*more):
        arguments = [sys.executable, "-c", program, str(tmp_path), *more]
        return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    process = elsewhere()
    assert process.stdout.readline() == "mine\n"
    for shared in (False, True):
        with pytest.raises(UserError, match="another process works in .*: wait until it has ended, or choose another folder"):
            RunFolder.open_or_create(tmp_path, {}, shared=shared)
    process.communicate("")
    run, again = RunFolder.open_or_create(tmp_path, {}), RunFolder.open_or_create(tmp_path, {})  # in one process
    assert run == again and [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    del run, again
    shared = RunFolder.open_or_create(tmp_path, {}, shared=True)
    assert elsewhere("shared").communicate("")[0] == "mine\n" and shared.path == tmp_path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({**SETTINGS, "optimiser": {"rate": 0.2, "steps": 20}}, r"\(optimiser.rate is 0.1 there and 0.2 here\)"),
        ({**SETTINGS, "seed": 3}, r"\(seed is not set there and 3 here\)"),
        ({"scene": "cube", "unknowns": SETTINGS["unknowns"]}, r"\(optimiser is .* there and not set here\)"),
        (
            {**SETTINGS, "unknowns": ["die.density"]},
            r"\(unknowns is \[.*stiffness.*\] there and \[.*density.*\] here\)",
        ),
    ],
)
def test_other_settings_do_not_resume(tmp_path, changed, message):
    RunFolder.create(tmp_path, SETTINGS)
    with pytest.raises(UserError, match=message):
        RunFolder.open_or_create(tmp_path, changed)


def test_open_or_create_starts_where_nothing_is(tmp_path):
    run = RunFolder.open_or_create(tmp_path / "run", SETTINGS)
    assert (run.path / "settings.json").is_file()


def test_killed_process_leaves_a_whole_checkpoint(tmp_path):
    program = (
        "import sys, torch; from risp_torch.files.run_folder import RunFolder\n"
        "run = RunFolder.create(sys.argv[1], {})\n"
        "for i in range(10**6): run.save_checkpoint({'x': torch.full((200000,), i)}, {'iteration': i})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 600
        while not (tmp_path / "checkpoint.safetensors").is_file():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    run = RunFolder.open_or_create(tmp_path, {})
    tensors, metadata = run.load_checkpoint()
    assert torch.equal(tensors["x"], torch.full((200000,), metadata["iteration"])) and not run.finished


def test_default_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = default_run_path("invert", "bouncing_ball")
    assert path.parent == Path("runs") and path.name.startswith("invert-bouncing_ball-2") and len(path.name) == 36
    assert default_run_path("invert", "my/scenes/cube.py").name.startswith("invert-cube-2")
    assert default_run_path("invert", "scenes.cube").name.startswith("invert-cube-2")
    first = default_run_path("train", "cube")
    first.mkdir(parents=True)
    assert default_run_path("train", "cube") != first


def test_near_names():
    assert similar_names("ground.contact.stifness", KNOWN) == ["ground.contact.stiffness"]
    assert similar_names("density", KNOWN) == ["die.density"]
    assert similar_names("box.density", KNOWN) == ["die.density"]
    assert similar_names("DIE.Density", KNOWN) == ["die.density"]
    assert similar_names("zzz", KNOWN) == []
    assert len(similar_names("a.mass", [f"{c}.mass" for c in "bcdefg"])) == 3


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("die.mass", "die.density"),
        ("mass", "die.density"),
        ("rod.young", "rod.E"),
        ("rod.stiffness", "rod.E"),
        ("rod.youngs_modulus", "rod.E"),
        ("rod.poisson", "rod.nu"),
        ("ground.contact.mu", "ground.contact.friction"),
        ("ground.contact.kd", "ground.contact.damping"),
        ("die.speed", "die.velocity"),
        ("die.omega", "die.angular_velocity"),
        ("die.colour", "die.face_colors"),
        ("light.key.brightness", "light.key.intensity"),
    ],
)
def test_near_names_by_meaning(name, meant):
    known = ["die.density", "die.velocity", "die.angular_velocity", "die.face_colors", "rod.E", "rod.nu", "rod.density"]
    known += ["ground.contact.stiffness", "ground.contact.damping", "ground.contact.friction", "light.key.intensity"]
    near = similar_names(name, known)
    assert meant in near if name in ("mass", "rod.stiffness") else near[0] == meant
    assert f"did you mean {near[0]!r}" in str(unknown_name_error("parameter", name, known))


def test_unknown_name_error():
    error = unknown_name_error("parameter", "ground.contact.stifness", KNOWN)
    assert isinstance(error, UserError)
    message = str(error)
    assert message.startswith("unknown parameter 'ground.contact.stifness': did you mean 'ground.contact.stiffness'")
    assert message.endswith(f" (known: {', '.join(sorted(KNOWN))})")
    assert str(unknown_name_error("scene", "zzz", ["cube", "ball"])) == "unknown scene 'zzz': choose one of ball, cube"
    assert str(unknown_name_error("scene", "x", [])) == "unknown scene 'x': there is no scene to choose from"
    many = str(unknown_name_error("scene", "zzz", [f"scene{i:02}" for i in range(20)]))
    assert many.endswith("scene11 and 8 more")
