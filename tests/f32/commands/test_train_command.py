"""risp train: from a dataset or the renderer to a network, and what it says when it is asked for something wrong."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from risp_torch.risp import DatasetSettings, generate, load_network
from risp_torch.risp.task import load_task, training_scene

Risp = Callable[..., tuple[int, str, str]]
SMALL = ["--epochs", 1, "--batch", 8, "--width", 1]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures of the die."""
    folder = tmp_path_factory.mktemp("data") / "cube"
    scene = training_scene("cube", 64)
    generate(scene, load_task("cube", scene), DatasetSettings(images=12, seed=3, size=64, shard_images=8), folder)
    return folder


@pytest.fixture
def risp(tmp_path: Path, command_line: Risp, monkeypatch: pytest.MonkeyPatch) -> Risp:
    """Runs the command line in this process and an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    return command_line


def assert_refused(risp: Risp, arguments: list[object], words: str) -> None:
    """Exit status 2, one sentence with these words, and no run begun."""
    status, out, err = risp("train", *arguments)
    lines = [line for line in err.strip().splitlines() if not line.startswith("usage: ")]
    assert status == 2 and len(lines) == 1 and "error: " in lines[0], err
    assert words in lines[0], err
    assert "Traceback" not in out + err
    assert not Path("run").exists() and not Path("runs").exists()


# -- what it writes -----------------------------------------------------------------------------------------------------------


def test_dataset_and_renderer_give_the_same_network(risp: Risp, dataset: Path) -> None:
    status, out, _ = risp("train", "cube", "--data", dataset, "--verify", *SMALL, "--gamma", 0.02, "--out", "stored")
    assert status == 0 and "trained with gamma 0.02: stored/network.safetensors" in out
    assert "stored/predictions.png" in out and "tensorboard --logdir stored/tensorboard" in out
    status, _, _ = risp("train", "cube", "--images", 12, "--data-seed", 3, *SMALL, "--gamma", 0.02, "--out", "rendered")
    assert status == 0
    stored, rendered = (load_network(f"{name}/network.safetensors")[0].state_dict() for name in ("stored", "rendered"))
    assert all(torch.equal(weight, rendered[name]) for name, weight in stored.items())


def test_without_gradient_loss_and_without_a_folder(risp: Risp, dataset: Path) -> None:
    status, out, _ = risp("train", "cube", "--data", dataset, *SMALL, "--no-grad", "--head", "average", "--seed", 5)
    assert status == 0 and "trained with no gradient loss" in out
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("train-cube-")
    network, record = load_network(run / "network.safetensors")
    assert network.settings.head == "average" and network.settings.width == 1 and network.settings.size == 64
    assert record["training"]["regulariser"] == "none" and record["training"]["seed"] == 5
    with open(run / "training.csv", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert float(row["penalty"]) == float(row["gamma"]) == 0


def test_presets_and_what_changes_them(risp: Risp, dataset: Path) -> None:
    options = ["--regulariser", "outputs", "--norm", "squared", "--network-precision", "bf16", "--learning-rate", 1e-4]
    assert risp("train", "cube", "--data", dataset, "--preset", "paper", *SMALL, *options, "--out", "run")[0] == 0
    training = json.loads(Path("run/settings.json").read_text())["training"]
    assert training["gamma"] == 20.0  # the scene's
    assert (training["regulariser"], training["norm"], training["precision"]) == ("outputs", "squared", "bf16")
    assert (training["learning_rate"], training["epochs"], training["batch_size"], training["width"]) == (1e-4, 1, 8, 1)


# -- errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no pictures to train on: give --data DIR ('risp dataset' makes one), or --images N to render them"),
        (["--images", 12, "--verify"], "--verify compares the files of a dataset: add --data DIR, or leave it out"),
        (["--images", 12, "--no-grad", "--norm", "squared"], "--no-grad omits dI/dpsi, which --regulariser, --norm and"),
        (["--images", 12, "--no-grad", "--appearance-jitter", 0.5], "--no-grad omits dI/dpsi"),
        (["--images", 12, "--no-grad", "--regulariser", "outputs"], "--no-grad omits dI/dpsi"),
        (["--images", 12, "--no-grad", "--gamma", 1], "argument --gamma: not allowed with argument --no-grad"),
        (["--images", 12, "--gamma", -1], "--gamma: it is -1.0: give a finite number that is not negative"),
        (["--images", 12, "--gamma", "nan"], "--gamma: it is nan"),
        (["--images", 12, "--learning-rate", 0], "--learning-rate: it is 0.0"),
        (["--images", 12, "--preset", "slow"], "invalid choice: 'slow'"),
        (["--images", 12, "--configs", "few"], "the dataset's configs are 'few'"),
        (["--images", 12, "--data-seed", -1], "--data-seed: it is -1"),
        (["--images", 40, "--size", 80], "a network for images of 80 pixels was requested: use a multiple of 32, at least 64"),
        (["--images", 12], "the data hold 12 pictures, 11 of them to train on, and a batch takes 16: make more, or take smaller"),
        (["--images", 0], "--images: it is 0: give a whole number of at least 1"),
        (["--images", 12, "--epoch", "x"], "it is 'x': give a whole number"),
        (["--data", "nowhere"], "dataset folder nowhere does not exist: make it with 'risp dataset SCENE --images N"),
        (["--data", "nowhere", "--images", 3], "--images is for pictures rendered on demand, but --data has its own"),
        (["--data", "nowhere", "--configs", 1], "--configs is for pictures rendered"),
        (["--data", "."], "holds no dataset (no manifest.json): give the folder that 'risp dataset' wrote"),
    ],
    ids=str,
)
def test_wrong_options(options: list[object], words: str, risp: Risp) -> None:
    assert_refused(risp, ["cube", *options, "--out", "run"], words)


def test_a_scene_that_is_not_there_or_is_no_task(risp: Risp, tmp_path: Path) -> None:
    assert_refused(risp, ["cub", "--images", 12], "cube")
    assert_refused(risp, ["toss", "--images", 12], "make_task")


def test_data_of_another_scene(risp: Risp, dataset: Path) -> None:
    words = f"the dataset in {dataset} shows the scene cube, not quadrotor: take another folder, or make one with"
    assert_refused(risp, ["quadrotor", "--data", dataset, "--out", "run"], words)


def test_data_of_another_size_or_of_the_scene_as_it_was(risp: Risp, dataset: Path) -> None:
    words = f"the pictures in {dataset} have 64 pixels a side, not 96: leave --size out"
    assert_refused(risp, ["cube", "--data", dataset, "--size", 96], words)
    changed = ["cube", "--data", dataset, "--set", "light.key.intensity=0.5"]
    status, _, err = risp("train", *changed)
    assert status == 2 and "undo the change, or make another dataset" in err


def test_damaged_data(risp: Risp, dataset: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(dataset, copy)
    shard = copy / "shard-00001.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    assert_refused(risp, ["cube", "--data", copy, "--verify"], "shard-00001.safetensors is damaged (its checksum differs")
    shard.unlink()
    assert_refused(risp, ["cube", "--data", copy], "shard-00001.safetensors")


def test_more_ranks_than_a_batch_splits_over(risp: Risp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    options = ["cube", "--images", 40, "--out", "run"]
    assert_refused(risp, options, "a batch of 16 is not divisible by 3 ranks: change --batch")
    monkeypatch.setenv("WORLD_SIZE", "three")
    assert_refused(risp, options, "WORLD_SIZE=three: set both to whole numbers, or none")


def test_a_finished_run_is_not_trained_again(risp: Risp, dataset: Path) -> None:
    arguments = ["train", "cube", "--data", dataset, *SMALL, "--no-grad", "--out", "run"]
    assert risp(*arguments)[0] == 0
    before = Path("run/network.safetensors").read_bytes()
    status, out, err = risp(*arguments)
    assert status == 0 and out.endswith("run holds this run, already finished: look at the files in it\n") and "error" not in err
    assert Path("run/network.safetensors").read_bytes() == before
