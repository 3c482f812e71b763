"""Data sets of training pictures: the same bytes however they are made, and what is said where they do not fit.

Bytes are the same where kernels run on the CPU; on a GPU, pictures and derivatives are the same to rounding.
"""

import errno
import math
import multiprocessing
import os
import random
import shutil
import time
import warnings
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from risp_torch.__main__ import main
from risp_torch.files.atomic import DiskFullError, atomic_replacement, remove_leftovers
from risp_torch.risp import Domains, RendererSource, RigidPoseHead, ShardSource, generate
from risp_torch.risp.dataset.generate import ranks_from_environment
from risp_torch.risp.dataset.manifest import shard_faults
from risp_torch.risp.task import resize_pictures, training_scene
from risp_torch.scene.rendering_parameters import Factor, RenderingParameters
from risp_torch.scene.state_heads.head import warn_of_states_beyond
from tests.reference.repeated import are_same_shards, is_same, to_the_last_bit
from tests.reference.small_dataset import HEAD, SETTINGS, SIZE, make_task, write_in_process, write_slowly
from tests.reference.small_scenes import make_scene

# Imported once for all processes, with what would be imported while a data set is written.
MODULES = ["tests.reference.small_dataset", "PIL.ImageFont", "safetensors.torch", "torch._dynamo"]


def start_process(folder, rank=0, ranks=1):
    """``write_slowly`` in another process, forked from one that has imported its modules."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    process = context.Process(target=write_in_process, args=(str(folder), rank, ranks))
    process.start()
    return process


def hashes(folder):
    """sha256 of every file."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in Path(folder).iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scene, task and a finished data set of rendered pictures."""
    scene = make_scene(size=SIZE)
    task = make_task(scene)
    folder = tmp_path_factory.mktemp("data") / "set"
    result = generate(scene, task, SETTINGS, folder)
    assert result.complete and result.images == 11
    return scene, task, folder


@pytest.fixture
def copy(made, tmp_path):
    """A copy that a test may spoil."""
    return Path(shutil.copytree(made[2], tmp_path / "copy"))


def same(one, other):
    """Whether two batches are equal, bit by bit."""
    return all(is_same(getattr(one, name), getattr(other, name)) for name in ("images", "jacobian", "outputs", "psi"))


def same_files(one, other):
    """Whether two folders hold the same data set, byte by byte."""
    return hashes(one) == hashes(other) if to_the_last_bit() else are_same_shards(Path(one), Path(other))


def test_shards_and_renderer_give_the_same_bits(made):
    scene, task, folder = made
    shards, renderer = ShardSource(folder, scene, task, verify=True), RendererSource(scene, task, SETTINGS)
    assert len(shards) == len(renderer) == 11 and shards.size == renderer.size == SIZE and shards.record == renderer.record
    for indices in ([0], [7, 2, 10], list(range(11)), [5, 5]):
        one, other = shards.batch(indices), renderer.batch(indices)
        assert same(one, other)
        assert one.images.dtype == torch.float32 and one.jacobian.dtype == torch.float16
        assert one.jacobian.shape == (len(indices), 3, SIZE, SIZE, 3) and one.outputs.shape == (len(indices), 9)
    without = renderer.batch([4, 9], jacobian=False)
    assert without.jacobian is None and same(without, shards.batch([4, 9], jacobian=False))
    pictures = shards.batch(range(11))
    assert pictures.images.min() >= 0 and pictures.images.max() <= 1 and pictures.jacobian.abs().max() > 0.05
    outputs = task.head.outputs(scene, shards.states(range(11)))
    torch.testing.assert_close(pictures.outputs, outputs, rtol=0, atol=0 if to_the_last_bit() else 1e-6)  # 16 roundings


def test_pictures_do_not_depend_on_their_number_or_on_shards(made):
    scene, task, folder = made
    more = RendererSource(scene, task, replace(SETTINGS, images=500, shard_images=7))
    assert same(more.batch([6, 1]), ShardSource(folder).batch([6, 1]))
    other = RendererSource(scene, task, replace(SETTINGS, seed=4)).batch([6, 1])
    assert not torch.equal(other.outputs, more.batch([6, 1]).outputs)


def test_shared_appearances(made):
    scene, task, _folder = made
    psi = RendererSource(scene, task, replace(SETTINGS, configs="3")).batch(range(7), jacobian=False).psi
    assert torch.equal(psi[:3], psi[3:6]) and torch.equal(psi[0], psi[6]) and len(psi.unique(dim=0)) == 3
    assert len(RendererSource(scene, task, SETTINGS).batch(range(7), jacobian=False).psi.unique(dim=0)) == 7


def test_pictures_end_at_white(made):
    scene, task, _folder = made
    distributions = {"light.key.intensity": Factor(4.0, 8.0, tied=True)}
    bright = replace(task, domains=Domains.default(scene, RenderingParameters(scene, distributions)))
    batch = RendererSource(scene, bright, SETTINGS).batch([0, 1, 2])
    white = batch.images[:, None] == 1.0
    assert batch.images.max() == 1.0 and white.any() and (batch.jacobian[white] == 0).all() and (batch.jacobian != 0).any()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Data sets that processes wrote: "whole" by one, "shared" by two, "killed-N" by one killed at N shards.

    The first one leaves its kernels to the others, which run at the same time.
    """
    root = tmp_path_factory.mktemp("processes")
    first = start_process(root / "whole")
    first.join(600)
    assert first.exitcode == 0
    moments = random.Random(int(time.time()))
    pending = {start_process(root / f"killed-{least}"): (root / f"killed-{least}", least) for least in (1, 4, 8)}
    sharing = [start_process(root / "shared", rank, 2) for rank in range(2)]
    started = [*pending, *sharing]
    try:
        deadline = time.monotonic() + 600  # starting takes a minute where others need the cores
        while pending:
            assert time.monotonic() < deadline
            for process, (folder, least) in list(pending.items()):
                if len(list(folder.glob("*.safetensors"))) >= least or not process.is_alive():
                    time.sleep(moments.uniform(0.0, 0.03))
                    process.kill()
                    del pending[process]
            time.sleep(0.001)
        for process in sharing:
            process.join(60)
        assert [process.exitcode for process in sharing] == [0, 0]
    finally:
        for process in started:
            process.kill()
            process.join()
    return root


@pytest.mark.processes
def test_killed_at_any_moment_and_started_again(processes):
    assert len(hashes(processes / "whole")) == 14  # ten shards, settings, manifest, two sheets
    folders = list(processes.glob("killed-*"))
    assert len(folders) == 3 and not all((folder / "manifest.json").is_file() for folder in folders)
    for folder in folders:
        there = len(list(folder.glob("shard*")))
        result = write_slowly(folder)
        assert there > 0 and result.complete and result.images == 40 - 4 * there
        assert same_files(folder, processes / "whole")


@pytest.mark.processes
def test_two_processes_write_the_bytes_of_one(processes):
    assert hashes(processes / "shared") == hashes(processes / "whole")


def test_ranks(tmp_path, monkeypatch):
    first = write_slowly(tmp_path, images=8, rank=1, ranks=2)
    assert not first.complete and first.images == 4
    with pytest.raises(Exception, match=r"not finished, 1 of 2 shards are there: 'risp dataset small --images 8 .* resumes it"):
        ShardSource(tmp_path)
    assert write_slowly(tmp_path, images=8, rank=0, ranks=2).complete
    with pytest.raises(Exception, match="3 processes share 2 shards"):
        write_slowly(tmp_path, images=8, rank=0, ranks=3)
    with pytest.raises(Exception, match="process 2 of 2"):
        write_slowly(tmp_path, images=8, rank=2, ranks=2)
    assert ranks_from_environment() == (0, 1)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(Exception, match="WORLD_SIZE=None.*whole numbers"):
        ranks_from_environment()
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert ranks_from_environment() == (1, 4)


def test_damaged_missing_and_foreign_files(made, copy, capsys):
    scene, task, folder = made
    assert shard_faults(copy) == {} and main(["dataset", "--verify", str(copy)]) == 0
    content = bytearray((copy / "shard-00001.safetensors").read_bytes())
    content[-7] ^= 1
    (copy / "shard-00001.safetensors").write_bytes(content)
    ShardSource(copy)  # a bit is not seen without the checksums
    (copy / "shard-00009.safetensors").write_bytes(content)
    assert list(shard_faults(copy)) == ["shard-00001.safetensors", "shard-00009.safetensors"]
    with pytest.raises(Exception, match=r"has been changed \(shard-00001.*checksum.*shard-00009.*does not belong"):
        ShardSource(copy, verify=True)
    content = (copy / "shard-00002.safetensors").read_bytes()
    (copy / "shard-00002.safetensors").write_bytes(content[:-5])
    with pytest.raises(Exception, match="shard-00002.safetensors is damaged .it has"):
        ShardSource(copy)
    (copy / "shard-00002.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(Exception, match="shard-00002.safetensors is damaged .its header"):
        ShardSource(copy)
    (copy / "shard-00000.safetensors").unlink()
    with pytest.raises(Exception, match="shard-00000.safetensors is missing"):
        ShardSource(copy)
    os.mkfifo(copy / "shard-00000.safetensors")
    with pytest.raises(Exception, match="shard-00000.safetensors is no file"):
        ShardSource(copy)
    capsys.readouterr()
    assert main(["dataset", "--verify", str(copy)]) == 1
    said = capsys.readouterr().out
    assert all(f"shard-{n:05d}.safetensors" in said for n in (0, 1, 2, 9)) and "4 bad files" in said
    for number in (1, 9):
        (copy / f"shard-{number:05d}.safetensors").unlink()
    assert generate(scene, task, SETTINGS, copy).images == 11
    assert same_files(copy, folder)


def test_changed_shard_is_not_taken_into_a_finished_set(made, copy):
    content = bytearray((copy / "shard-00001.safetensors").read_bytes())
    content[-7] ^= 1
    (copy / "shard-00001.safetensors").write_bytes(content)
    with pytest.raises(Exception, match="shard-00001.safetensors in .* differ from the manifest"):
        generate(made[0], made[1], SETTINGS, copy)


def test_other_folders(made, copy, tmp_path):
    scene, task, _folder = made
    with pytest.raises(Exception, match="folder .*nowhere does not exist: make it with 'risp dataset"):
        ShardSource(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Exception, match="empty holds no dataset"):
        ShardSource(tmp_path / "empty")
    with pytest.raises(Exception, match="settings.seed is 3 there and 5 here"):
        generate(scene, task, replace(SETTINGS, seed=5), copy)
    (copy / "manifest.json").write_text("{}")
    with pytest.raises(Exception, match="manifest.json is damaged"):
        ShardSource(copy)
    with pytest.raises(Exception, match="picture 11 was requested, but the dataset has the pictures 0 to 10"):
        ShardSource(made[2]).batch([3, 11])


def test_other_scene_psi_head_and_size(made):
    scene, task, folder = made
    other = make_scene(size=SIZE)
    other.name = "other"
    with pytest.raises(Exception, match="shows the scene small, not other"):
        ShardSource(folder, other)
    with pytest.raises(Exception, match="have 16 x 16 pixels and the scene's have 20 x 20: take --size 16"):
        ShardSource(folder, make_scene(size=20))
    with pytest.raises(Exception, match="as it was before .parameters.block.density is 800.0 there and 900.0 here"):
        ShardSource(folder, make_scene(size=SIZE, density=900.0))
    fewer = RenderingParameters(scene, {"light.key.intensity": Factor(0.6, 1.6, tied=True)})
    with pytest.raises(Exception, match=r"has light.key.direction\[azimuth\] as entry 0 where the scene's has light.key.inten"):
        ShardSource(folder, scene, replace(task, domains=Domains.default(scene, fewer)))
    distributions = task.domains.training.parameters.distributions | {"light.key.intensity": Factor(0.5, 1.6, tied=True)}
    narrower = replace(task, domains=Domains.default(scene, RenderingParameters(scene, distributions)))
    with pytest.raises(Exception, match="psi of .* is another one .parameters.light.key.intensity.low is 0.6 there and 0.5 here"):
        ShardSource(folder, scene, narrower)
    with pytest.raises(Exception, match="the state head of .* is another one .yaw"):
        ShardSource(folder, scene, replace(task, head=replace(HEAD, yaw=(-0.4, 0.5))))
    with pytest.raises(Exception, match="pictures of 16 x 16 pixels and the dataset pictures of 24 x 24"):
        RendererSource(scene, task, replace(SETTINGS, size=24))


def test_full_disk(tmp_path, monkeypatch):
    write_slowly(tmp_path / "whole")
    number, sync = 0, os.fsync

    def fsync(file):
        nonlocal number
        number += 1
        if number > 4:  # settings and three shards
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(DiskFullError, match="full, 3 of 10 shards are safe: make room, and repeat the command to resume"):
            write_slowly(tmp_path / "set")
    assert len(list((tmp_path / "set").iterdir())) == 4
    assert write_slowly(tmp_path / "set").images == 28
    assert same_files(tmp_path / "set", tmp_path / "whole")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10**5))
    with pytest.raises(Exception, match="the dataset needs .* GB more and the disk of .* has 0.0001 GB left: make room"):
        write_slowly(tmp_path / "large")


def test_only_leftovers_of_killed_processes_go(tmp_path):
    for process in (os.getppid(), 2**22 + 7):
        (tmp_path / f".file.{process}.tmp").touch()
    remove_leftovers(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == [f".file.{os.getppid()}.tmp"]
    with pytest.raises(DiskFullError, match="file cannot be written .*make room"), atomic_replacement(tmp_path / "file"):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"images": 0}, "images is 0: give a whole number of at least 1"),
        ({"seed": -1}, "seed is -1"),
        ({"shard_images": 2.5}, "shard_images is 2.5"),
        ({"configs": "some"}, "configs are 'some': give a number of appearances such as 10, or each"),
        ({"configs": "0"}, "configs are '0'"),
    ],
)
def test_wrong_settings(changed, message):
    with pytest.raises(Exception, match=message):
        replace(SETTINGS, **changed)


def test_command(tmp_path, capsys):
    scene = tmp_path / "small.py"
    scene.write_text("from tests.reference.small_dataset import make_scene, make_task\n")
    command = ["dataset", str(scene), "--images", "5", "--size", "16", "--shard-images", "2", "--out", str(tmp_path / "set")]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "5 pictures rendered" in said.out and "complete, 5 pictures" in said.out and "img" in said.err
    before = hashes(tmp_path / "set")
    assert set(before) == {
        "manifest.json", "settings.json", "pictures.png", "derivatives.png", *(f"shard-0000{i}.safetensors" for i in range(3))
    }  # fmt: skip
    made_here = training_scene(str(scene), 16)
    assert len(ShardSource(tmp_path / "set", made_here, make_task(made_here), verify=True)) == 5
    assert main(command) == 0 and "0 pictures rendered" in capsys.readouterr().out
    assert hashes(tmp_path / "set") == before
    assert main(["dataset", str(scene)]) == 2 and "--images and --out must be given" in capsys.readouterr().err
    assert main(["dataset", str(scene), "--verify", "x"]) == 2 and "leave out SCENE" in capsys.readouterr().err


def test_resized_pictures_show_bodies_as_large_as_they_are():
    shares = []
    for size, prepared in ((64, True), (64, False), (512, True)):
        scene = make_scene(size=size)
        if prepared:
            resize_pictures(scene, size)
        coverage = scene.render(scene.rollout(frames=1), alpha=True)[0, 0, ..., 3]
        assert coverage.shape == (size, size)
        shares.append(float(coverage.mean()))
    small, soft, fine = shares
    assert small == pytest.approx(fine, rel=0.01) and soft == pytest.approx(fine, rel=0.01)


def test_motions_that_training_will_not_see_are_named(tmp_path):
    """A head whose ranges hold the scene's motion is silent; of another one the outputs are named, angles of other turns not."""
    scene = make_scene(size=SIZE)
    with torch.no_grad():
        pose = scene.rollout(worlds=1).placement[0, :, 0]
    angles = HEAD.physical(HEAD.outputs(scene, pose[:, None]))
    low, high = ((pose[:, :3].amin(dim=0) - 0.01).tolist(), (pose[:, :3].amax(dim=0) + 0.01).tolist())
    ranges = {name: (float(angles[name].min()) - 0.1, float(angles[name].max()) + 0.1) for name in ("yaw", "pitch", "roll")}
    wide = RigidPoseHead("block", low=tuple(low), high=tuple(high), **ranges)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_states_beyond(wide, scene)
        warn_of_states_beyond(replace(wide, yaw=tuple(end + 2 * math.pi for end in wide.yaw)), scene)
    task = replace(make_task(scene), head=replace(wide, high=(high[0], high[1], high[2] - 0.02), roll=(0.4, 0.5)))
    with pytest.warns(UserWarning, match=r"leaves the ranges of its state head \(z by .* roll by .*widen the ranges"):
        generate(scene, task, replace(SETTINGS, images=1), tmp_path / "data")
