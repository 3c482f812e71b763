"""The training loop: what it minimises, and that neither kills, nor ranks, nor threads change what comes out."""

from __future__ import annotations

import csv
import importlib
import math
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from risp_torch import DivergenceError, Scene, UserError
from risp_torch.files.run_folder import FinishedError, RunFolder, to_jsonable
from risp_torch.risp import (
    Batch,
    DatasetSettings,
    NetworkSettings,
    RendererSource,
    RispNetwork,
    RispTask,
    ShardSource,
    TrainSettings,
    generate,
    load_network,
    preset,
    train,
)
from risp_torch.risp.task import load_task, training_scene
from risp_torch.risp.training.appearance_jitter import AppearanceJitter
from risp_torch.risp.training.background_augmentation import BackgroundAugmentation
from risp_torch.risp.training.losses import error_and_gradient_norm, error_and_jacobian_norm
from risp_torch.risp.training.train import held_out_count
from tests.reference.repeated import to_the_last_bit

SIZE, PICTURES = 64, 32
TRAINED, BATCH = 28, 8  # 4 are held out; 3 steps an epoch, four pictures are left over
STEPS = TRAINED // BATCH
SLOW = 3e-5  # a learning rate at which rounding does not grow: at 3e-3 another order within the batches changes outputs by 0.03
FEW = 3  # columns of dI/dpsi so few that dN/dpsi is made by them and not by the outputs
NETWORK, TABLE, CHECKPOINT = "network.safetensors", "training.csv", "checkpoint.safetensors"


def settings(**changes: object) -> TrainSettings:
    usual = {"gamma": 0.05, "epochs": 2, "batch_size": BATCH, "learning_rate": 3e-3, "width": 2, "validation": 0.125, "seed": 4}
    return TrainSettings(**usual | changes)


class Memory:
    """Pictures in memory, which notes what is asked of it."""

    size = SIZE

    def __init__(self, batch: Batch, *, columns: int = 8, concurrent: bool = False, pace: float = 0.0) -> None:
        """All pictures with so many columns of their derivatives; a batch of them takes ``pace`` seconds."""
        batch = replace(batch, jacobian=batch.jacobian[:, :columns])
        self.all, self.concurrent, self.pace = batch, concurrent, pace
        self.record = {"pictures": "of the tests"}
        self.asked: list[tuple[list[int], bool]] = []

    def __len__(self) -> int:
        return len(self.all.images)

    def batch(self, indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        self.asked.append(([int(i) for i in indices], jacobian))
        time.sleep(self.pace)
        rows = torch.as_tensor(list(indices))
        all_ = self.all
        return Batch(all_.images[rows], all_.jacobian[rows] if jacobian else None, all_.outputs[rows], all_.psi[rows])


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in one order, in this process as in the ones it starts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def cube() -> tuple[Scene, RispTask]:
    scene = training_scene("cube", SIZE)
    return scene, load_task("cube", scene)


@pytest.fixture(scope="module")
def rendered(cube: tuple[Scene, RispTask]) -> RendererSource:
    return RendererSource(*cube, DatasetSettings(images=PICTURES, seed=2, size=SIZE, shard_images=20))


@pytest.fixture(scope="module")
def pictures(rendered: RendererSource) -> Batch:
    return rendered.batch(range(PICTURES))


@pytest.fixture(scope="module")
def stored(pictures: Batch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures in a file, for other processes."""
    path = tmp_path_factory.mktemp("pictures") / "pictures.npz"
    np.savez(path, **{name: tensor.cpu().numpy() for name, tensor in vars(pictures).items()})
    return path


Run = Callable[..., Path]


@pytest.fixture
def run(cube: tuple[Scene, RispTask], pictures: Batch, tmp_path: Path) -> Run:
    """Trains in this process, by default from pictures in memory; returns the folder."""

    def start(name: str = "run", source: object = None, **changes: object) -> Path:
        source = Memory(pictures) if source is None else source
        path = train(*cube, source, settings(**changes), out=tmp_path / name, progress=False)
        assert path == tmp_path / name / NETWORK
        return path.parent

    return start


def table(folder: Path) -> list[dict[str, float]]:
    """Rows of training.csv."""
    with open(folder / TABLE, newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def numbers(folder: Path) -> list[dict[str, float]]:
    """The rows without the columns that clocks decide."""
    return [{name: value for name, value in row.items() if name not in ("seconds", "waited")} for row in table(folder)]


# -- the loop ---------------------------------------------------------------------------------------------------------------


def test_the_error_falls_and_everything_is_written(run: Run, cube: tuple[Scene, RispTask]) -> None:
    folder = run(epochs=4, learning_rate=1e-2)
    rows = table(folder)
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert rows[-1]["error"] < 0.8 * rows[0]["error"] and rows[-1]["penalty"] > 0
    assert all(row["seconds"] > 0 and 0 <= row["waited"] <= 1 for row in rows)
    files = {path.name for path in folder.iterdir()}
    assert files == {NETWORK, TABLE, CHECKPOINT, "settings.json", "result.json", "training.png", "predictions.png", "tensorboard"}
    assert list((folder / "tensorboard").glob("events.out.tfevents.*"))
    network, record = load_network(folder / NETWORK)
    assert network.settings == NetworkSettings(outputs=9, size=SIZE, width=2)
    assert record["scene"] == "cube" and record["task"] == to_jsonable(cube[1].to_json())
    assert record["training"]["gamma"] == 0.05 and record["training"]["data"] == {"pictures": "of the tests"}


def test_the_last_row_is_of_the_network_that_is_written(run: Run, pictures: Batch) -> None:
    folder = run(epochs=1)
    network, _ = load_network(folder / NETWORK)
    with torch.no_grad():
        error = (network.read(pictures.images[TRAINED:]) - pictures.outputs[TRAINED:]).abs().mean()
    assert table(folder)[-1]["validation"] == pytest.approx(float(error), rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"warmup": 0.5},
        {"warmup": 0.0, "norm": "squared", "gamma": 1e-3},
        {"regulariser": "outputs", "head": "average"},
        {"interval": 4},
    ],
    ids=["error", "squared", "outputs", "in every fourth step"],
)
def test_it_is_adam_on_error_and_weighted_penalty(changes: dict, run: Run, pictures: Batch) -> None:
    """The same run in a few plain lines, on the batches that the source was asked for."""
    columns = FEW if "regulariser" in changes else 8
    source = Memory(pictures, columns=columns)
    changes = changes | {"background_augmentation": False, "exposure_augmentation": False}
    folder = run(source=source, **changes)
    wanted = settings(**changes)
    torch.manual_seed(wanted.seed)
    network = RispNetwork(NetworkSettings(outputs=9, size=SIZE, width=2, head=wanted.head))
    optimizer = torch.optim.Adam(network.parameters(), weight_decay=1e-6, fused=True)  # rounds otherwise than unfused
    batches = [indices for indices, jacobian in source.asked if jacobian]
    assert len(batches) == 2 * STEPS
    penalised = error_and_jacobian_norm if wanted.regulariser == "outputs" else error_and_gradient_norm
    sums = []
    for step, indices in enumerate(batches):
        share = step / len(batches)
        gamma = wanted.gamma * (min(1.0, share / wanted.warmup) if wanted.warmup else 1.0)
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 + math.cos(math.pi * share)) / 2
        images = pictures.images[indices].permute(0, 3, 1, 2).contiguous()
        error, penalty = penalised(network, images, pictures.outputs[indices], source.all.jacobian[indices], norm=wanted.norm)
        there = step % wanted.interval == 0
        loss = error.mean() + (gamma * wanted.interval * penalty.mean() if there else 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums.append([loss.item(), error.mean().item() / 9, penalty.mean().item() if there else math.nan])
    for row, means in zip(table(folder), np.nanmean(np.array(sums).reshape(2, STEPS, 3), axis=1), strict=True):
        np.testing.assert_allclose([row["loss"], row["error"], row["penalty"]], means, rtol=1e-4)
    for name, weight in load_file(folder / NETWORK).items():
        torch.testing.assert_close(weight, network.state_dict()[name].detach(), rtol=1e-3, atol=1e-4)


def test_every_epoch_takes_every_picture_once_in_its_own_order(run: Run, pictures: Batch) -> None:
    source = Memory(pictures)
    run(source=source, epochs=3)
    steps = [indices for indices, jacobian in source.asked if jacobian]
    epochs = [np.concatenate(steps[first : first + STEPS]).tolist() for first in range(0, len(steps), STEPS)]
    assert len(epochs) == 3 and all(len(set(epoch)) == STEPS * BATCH and max(epoch) < TRAINED for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    held = [indices for indices, jacobian in source.asked if not jacobian]
    assert held[0] == list(range(TRAINED, PICTURES))


def test_pictures_are_moved_before_patterns_and_exposures_and_never_alike(
    run: Run, pictures: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dI/dpsi is of the picture as it was rendered, so appearance jitter comes first; each step of each epoch samples again."""
    calls: list[tuple[str, tuple[int, ...]]] = []

    def note(owner: object, attribute: str, name: str) -> None:
        function = getattr(owner, attribute)

        def noted(*given: object, seed: tuple[int, ...], **options: object) -> object:
            calls.append((name, seed))
            return function(*given, seed=seed, **options)

        monkeypatch.setattr(owner, attribute, noted)

    note(AppearanceJitter, "__call__", "moved")
    note(BackgroundAugmentation, "__call__", "patterned")
    note(importlib.import_module("risp_torch.risp.training.train"), "vary_exposure", "exposed")
    run(appearance_jitter=0.5, background_augmentation=True, exposure_augmentation=True)
    assert [name for name, _ in calls] == ["moved", "patterned", "exposed"] * (2 * STEPS)
    seeds = [seed for name, seed in calls if name == "exposed"]
    assert seeds == [(4, epoch, step, 0) for epoch in range(2) for step in range(STEPS)]
    assert [seed for name, seed in calls if name == "moved"] == seeds == [s for name, s in calls if name == "patterned"]


def test_warm_up_and_cosine_are_in_the_table(run: Run) -> None:
    rows = table(run(epochs=2, warmup=0.75, gamma=0.2))
    shares = [(STEPS - 1) / (2 * STEPS), (2 * STEPS - 1) / (2 * STEPS)]  # the last step's of each epoch
    assert [row["gamma"] for row in rows] == pytest.approx([0.2 * min(1, share / 0.75) for share in shares], rel=1e-6)
    assert [row["rate"] for row in rows] == pytest.approx([1.5e-3 * (1 + math.cos(math.pi * s)) for s in shares], rel=1e-6)


def test_warm_up_and_cosine_at_their_ends(cube: tuple[Scene, RispTask]) -> None:
    usual = settings(gamma=2.0, warmup=0.25, learning_rate=0.4)
    assert [usual.gamma_at(share) for share in (0.0, 0.125, 0.25, 0.7, 1.0)] == [0.0, 1.0, 2.0, 2.0, 2.0]
    assert [usual.rate_at(share) for share in (0.0, 0.5, 1.0)] == pytest.approx([0.4, 0.2, 0.0], abs=1e-16)
    assert settings(gamma=2.0, warmup=0.0).gamma_at(0.0) == 2.0
    paper = preset("paper", cube[1])
    assert paper.gamma == cube[1].gamma == 20.0 and preset("paper", cube[1], gamma=0.3).gamma == 0.3
    assert (paper.epochs, paper.batch_size, paper.learning_rate, paper.weight_decay, paper.width) == (100, 16, 1e-2, 1e-6, 64)


@pytest.mark.parametrize("changes", [{"regulariser": "none", "gamma": 0.0}, {"gamma": 0.0}], ids=["none", "zero"])
def test_without_gradient_loss_no_derivative_is_read(changes: dict, run: Run, pictures: Batch) -> None:
    source = Memory(pictures)
    rows = table(run(source=source, epochs=1, background_augmentation=False, **changes))
    assert source.asked and not any(jacobian for _, jacobian in source.asked)
    assert rows[0]["penalty"] == 0 and rows[0]["loss"] == pytest.approx(9 * rows[0]["error"], rel=1e-6)


def test_reading_ahead_changes_nothing(run: Run, pictures: Batch) -> None:
    in_turn, ahead = (run(str(c), Memory(pictures, concurrent=c)) for c in (False, True))
    assert (in_turn / NETWORK).read_bytes() == (ahead / NETWORK).read_bytes() and numbers(in_turn) == numbers(ahead)


def test_what_fails_while_reading_ahead_is_told(run: Run, pictures: Batch) -> None:
    source = Memory(pictures, concurrent=True)
    whole = source.batch

    def torn(indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        if len(source.asked) == 3:
            raise UserError("shard 1 is damaged")
        return whole(indices, jacobian=jacobian)

    source.batch = torn
    with pytest.raises(UserError, match="shard 1 is damaged"):
        run(source=source)


def test_waiting_for_data_is_in_the_table(run: Run, pictures: Batch) -> None:
    changes = {"epochs": 1, "regulariser": "none"}
    slow = table(run("slow", Memory(pictures, pace=0.1), **changes))[0]
    fast = table(run("fast", Memory(pictures), **changes))[0]
    assert slow["waited"] * slow["seconds"] == pytest.approx(0.1 * STEPS, rel=0.5)
    assert slow["waited"] > fast["waited"] >= 0


def test_bf16_begins_like_f32(run: Run) -> None:
    augmentation = {"background_augmentation": False, "exposure_augmentation": False}
    changes = {"epochs": 1, "warmup": 0.0, "learning_rate": SLOW} | augmentation
    half, single = (table(run(precision, precision=precision, **changes))[0] for precision in ("bf16", "f32"))
    assert half["error"] != single["error"]
    rounding = 20**0.5 * 2**-8  # of the 20 layers, whose activations have 8 bits each; processors differ in the rounding of sums
    for name, within in (("error", rounding), ("loss", rounding), ("penalty", 0.15)):
        assert half[name] == pytest.approx(single[name], rel=within), name


def test_memory_does_not_grow(run: Run, pictures: Batch) -> None:
    """Graphs of second derivatives are let go after every step."""
    source = Memory(pictures)
    pages: dict[int, int] = {}
    whole = source.batch

    def watched(indices: Sequence[int], *, jacobian: bool = True) -> Batch:
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        pages[len(source.asked)] = resident * os.sysconf("SC_PAGE_SIZE")
        return whole(indices, jacobian=jacobian)

    source.batch = watched
    run(source=source, epochs=4, batch_size=1)
    assert len(pages) > 4 * TRAINED
    assert pages[90] - pages[30] < 6e6  # a step's graph is 2 MB and more


@pytest.mark.parametrize("changes", [{"regulariser": "error"}, {"regulariser": "none", "gamma": 0.0}], ids=["grad", "no-grad"])
def test_shards_and_renderer_train_the_same(
    changes: dict, cube: tuple[Scene, RispTask], rendered: RendererSource, dataset: Path, run: Run
) -> None:
    shards = ShardSource(dataset, *cube)
    assert shards.record == rendered.record
    from_shards, from_renderer = run("shards", shards, **changes), run("renderer", rendered, **changes)
    if to_the_last_bit():
        assert numbers(from_shards) == numbers(from_renderer)
        assert (from_shards / NETWORK).read_bytes() == (from_renderer / NETWORK).read_bytes()
    else:
        assert numbers(from_shards) == [pytest.approx(row, rel=1e-2) for row in numbers(from_renderer)]


@pytest.fixture(scope="module")
def dataset(cube: tuple[Scene, RispTask], rendered: RendererSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "cube"
    generate(*cube, rendered.settings, folder)
    return folder


# -- kills and ranks ----------------------------------------------------------------------------------------------------------


def train_elsewhere(
    out: str, stored: str, source: Mapping[str, object], changes: Mapping[str, object], environment: Mapping[str, str]
) -> None:
    """What other processes run: the training of ``run``, without the renderer."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    with np.load(stored) as file:
        pictures = Batch(**{name: torch.from_numpy(array) for name, array in file.items()})
    scene = training_scene("cube", SIZE)
    train(scene, load_task("cube", scene), Memory(pictures, **source), settings(**changes), out=out, progress=False)


Start = Callable[..., BaseProcess]
# Imported once for all processes, with what would be imported during a training.
MODULES = [
    "risp_torch.risp", "scenes.cube", "tensorboardX", "matplotlib.figure", "torch._dynamo",
]  # fmt: skip


@pytest.fixture(scope="module")
def start_elsewhere(stored: Path) -> Start:
    """Starts a training in a process of its own; modules are imported once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)

    def start(
        out: Path, *, source: Mapping[str, object], environment: Mapping[str, str] | None = None, **changes: object
    ) -> BaseProcess:
        process = context.Process(target=train_elsewhere, args=(str(out), str(stored), source, changes, environment or {}))
        process.start()
        return process

    return start


def test_kills_at_random_moments_change_nothing(start_elsewhere: Start, tmp_path: Path) -> None:
    changes = {"epochs": 8, "source": {"pace": 0.01}}
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    undisturbed = start_elsewhere(straight, **changes)
    undisturbed.join(300)
    assert undisturbed.exitcode == 0
    epoch = sum(row["seconds"] for row in table(straight)) / 8
    random = np.random.default_rng()
    for file in ("settings.json", CHECKPOINT, CHECKPOINT):
        before = stamp(killed / file)
        process = start_elsewhere(killed, **changes)
        while stamp(killed / file) == before:
            assert process.is_alive(), "ended before it could be killed"
            time.sleep(0.002)
        time.sleep(random.uniform(0.0, 1.2 * epoch))
        process.kill()
        process.join(60)
        assert process.exitcode == -9 and not (killed / NETWORK).exists()
    last = start_elsewhere(killed, **changes)
    last.join(300)
    assert last.exitcode == 0
    assert (killed / NETWORK).read_bytes() == (straight / NETWORK).read_bytes()
    assert [row["epoch"] for row in table(killed)] == list(range(8)) and numbers(killed) == numbers(straight)


def stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


@pytest.mark.parametrize(("moment", "epoch"), [("before", 0), ("before", 1), ("after", 1)])
def test_an_end_beside_a_checkpoint_changes_nothing(moment: str, epoch: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments that a random kill seldom meets: just before and just after a checkpoint is written."""
    straight = run("straight")
    save, calls = RunFolder.save_checkpoint, []

    def interrupted(self: RunFolder, *given: object) -> None:
        calls.append(given)
        if len(calls) == epoch + 1 and moment == "before":
            raise KeyboardInterrupt
        save(self, *given)
        if len(calls) == epoch + 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("ended")
    ended = run("ended")
    assert (ended / NETWORK).read_bytes() == (straight / NETWORK).read_bytes()
    assert numbers(ended) == numbers(straight)


def test_a_run_goes_on_with_its_own_settings_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_result", lambda *_: None)
        run(epochs=1)
    with pytest.raises(UserError, match=r"other settings \(training\.gamma is 0\.05 there and 0\.1 here\): resume it with its"):
        run(epochs=1, gamma=0.1)
    run(epochs=1)
    with pytest.raises(FinishedError, match="holds this run, already finished"):
        run(epochs=1)


@pytest.mark.parametrize(("regulariser", "columns"), [("error", 8), ("outputs", FEW)])
def test_two_ranks_train_the_network_of_one(
    regulariser: str, columns: int, start_elsewhere: Start, run: Run, pictures: Batch, tmp_path: Path
) -> None:
    # Each rank samples its own augmentation.
    augmentation = {"background_augmentation": False, "exposure_augmentation": False}
    changes = {"regulariser": regulariser, "learning_rate": SLOW} | augmentation
    one, other = (run(str(gamma), Memory(pictures, columns=columns), gamma=gamma, **changes) for gamma in (0.05, 0.06))
    two = tmp_path / "two"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        start_elsewhere(two, source={"columns": columns}, environment=shared | {"RANK": rank}, **changes) for rank in "01"
    ]
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    with torch.no_grad():
        read, same, unlike = (load_network(folder / NETWORK)[0].read(pictures.images) for folder in (one, two, other))
    assert (read - same).abs().max() < 1e-4 < 1e-3 < (read - unlike).abs().max()  # sums are taken in another order, no more
    for a, b in zip(numbers(one), numbers(two), strict=True):
        assert a == pytest.approx(b, rel=1e-4)


# -- errors ---------------------------------------------------------------------------------------------------------------------


def test_a_training_that_diverges_says_so(run: Run, tmp_path: Path) -> None:
    with pytest.raises(DivergenceError, match="the .* of epoch 1 is not finite: take a smaller learning rate than 1e.30"):
        run("wild", learning_rate=1e30)
    assert not list(tmp_path.glob("**/checkpoint.safetensors")) and not list(tmp_path.glob("**/result.json"))


def test_too_few_pictures(run: Run, pictures: Batch) -> None:
    assert held_out_count(PICTURES, settings()) == PICTURES - TRAINED and held_out_count(4, settings(validation=0.05)) == 1
    with pytest.raises(UserError, match="the data hold 32 pictures, 28 of them to train on, and a batch takes 50: make more, or"):
        run(batch_size=50)


def test_a_batch_must_split_over_the_ranks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match="a batch of 8 is not divisible by 3 ranks: change --batch"):
        run()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": -0.1}, "gamma is -0.1: give a finite number that is not negative"),
        ({"gamma": math.nan}, "gamma is nan"),
        ({"regulariser": "both"}, "regulariser 'both' is unknown: choose 'error', 'outputs' or 'none'"),
        ({"norm": "l1"}, "norm 'l1' is unknown"),
        ({"epochs": 0}, "epochs is 0: give a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0: give a finite number above zero"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"interval": 0}, "interval is 0: give a whole number of at least 1"),
        ({"warmup": 1.5}, "warmup is 1.5: give a finite number from 0 to 1"),
        ({"validation": 0.0}, "validation is 0.0: give a finite number above zero and below 1"),
        ({"precision": "f16"}, "precision 'f16' is unknown: choose 'f32' or 'bf16'"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(changes: dict, words: str) -> None:
    with pytest.raises(UserError) as caught:
        settings(**changes)
    assert words in str(caught.value)


def test_an_unknown_preset_is_told_with_the_near_ones(cube: tuple[Scene, RispTask]) -> None:
    with pytest.raises(UserError, match="'papre'.*paper"):
        preset("papre", cube[1])
