"""Generation of a dataset: atomic shards, in any order, by any number of processes; a killed run can be resumed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from tqdm import tqdm

from risp_torch.files.atomic import DiskFullError, remove_leftovers
from risp_torch.files.memory import check_memory, readable_bytes
from risp_torch.files.run_folder import RunFolder
from risp_torch.risp.dataset.manifest import MANIFEST, SETTINGS, Manifest, checksum, read_manifest
from risp_torch.risp.dataset.plan import Plan
from risp_torch.risp.dataset.renderer import RendererSource
from risp_torch.risp.dataset.settings import DatasetSettings
from risp_torch.risp.dataset.shards import ShardError, open_shard, write_shard
from risp_torch.risp.dataset.sheets import SHEETS, write_sheets
from risp_torch.scene.state_heads.head import warn_of_states_beyond
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, checked

if TYPE_CHECKING:
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

CHUNK = 32  # pictures rendered at once
_SPARE_BYTES = 4 << 20  # bytes for manifest and sheets


@dataclass(frozen=True)
class Generated:
    """Result of ``generate``.

    Attributes:
        plan: plan of the dataset.
        folder: folder of the dataset.
        images: pictures that this call rendered.
        seconds: wall time of rendering and writing.
        bytes: size of all existing shards.
        complete: whether the dataset is finished; otherwise other processes are still writing shards.
    """

    plan: Plan
    folder: Path
    images: int
    seconds: float
    bytes: int
    complete: bool


@checked
def generate(
    scene: Scene,
    task: RispTask,
    settings: DatasetSettings,
    folder: Path | str,
    *,
    name: str = "",
    rank: FromZero = 0,
    ranks: Count = 1,
    progress: bool = False,
) -> Generated:
    """Render a dataset, or its missing shards, into a folder.

    A killed and repeated call gives the same bytes. Several processes may share the work; the last one to
    finish writes the manifest.

    Args:
        scene: rendered by its first camera (``training_scene``).
        task: task with its states and appearances.
        settings: settings of the dataset.
        folder: created if it does not exist.
        name: name of the scene or path of its file, for the command that resumes the run; the scene's own name by default.
        rank, ranks: index of this process and number of processes; it renders every ``ranks``-th shard.
        progress: whether to show a progress bar.

    Raises:
        UserError: the folder has a dataset with other settings or other files, the disk has too little space, there are more
            processes than shards, or something cannot be rendered or written.
    """
    folder = Path(folder)
    plan = Plan.of(scene, task, settings, name=name)
    _check_size(folder, plan)  # before memory is allocated per picture
    source = RendererSource(scene, task, settings)
    if not 0 <= rank < ranks:
        raise UserError(f"this is process {rank} of {ranks}: processes are counted from 0")
    if ranks > settings.shards:
        raise UserError(
            f"{ranks} processes share {settings.shards} shards: start at most as many processes, or put fewer pictures into a "
            "shard (--shard-images)"
        )
    run = RunFolder.open_or_create(folder, plan.to_json(), shared=ranks > 1)  # locked until this function ends
    folder = run.path
    if (folder / MANIFEST).is_file():
        read_manifest(folder)  # a damaged one is an error, not a reason to write another
    missing = [shard for shard in range(settings.shards) if not _is_complete(folder, plan, shard)]
    _check_room(folder, plan, missing)
    if missing and rank == 0:
        warn_of_states_beyond(task.head, scene)
    start_time, rank_shards = time.perf_counter(), [shard for shard in missing if shard % ranks == rank]
    images = sum(len(settings.indices(shard)) for shard in rank_shards)
    total = sum(len(settings.indices(shard)) for shard in range(rank, settings.shards, ranks))
    with tqdm(total=total, initial=total - images, desc="rendering", unit="img", disable=not progress, mininterval=0.5) as bar:
        try:
            for shard in rank_shards:
                remove_leftovers(folder / plan.files[shard])
                write_shard(folder / plan.files[shard], plan, shard, _render(source, settings.indices(shard), bar))
            complete = _finish(folder, plan)
        except DiskFullError as error:
            raise DiskFullError(
                f"the disk of {folder} is full, {_complete_shards(folder, plan)} of {settings.shards} shards are safe: make "
                "room, and repeat the command to resume"
            ) from error
    present_bytes = sum((folder / file).stat().st_size for file in plan.files if (folder / file).is_file())
    return Generated(plan, folder, images, time.perf_counter() - start_time, present_bytes, complete)


def ranks_from_environment() -> tuple[int, int]:
    """Index of this process and number of processes, as set by torchrun (RANK, WORLD_SIZE); (0, 1) without it.

    Raises:
        UserError: one is missing or not a number.
    """
    texts = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]
    if texts == [None, None]:
        return 0, 1
    try:
        rank, ranks = (int(text) for text in texts if text is not None)
    except ValueError:
        named = f"RANK={texts[0]} and WORLD_SIZE={texts[1]}"
        raise UserError(f"the environment has {named}: set both to whole numbers, or none") from None
    return rank, ranks


def _render(source: RendererSource, indices: range, bar: tqdm) -> Mapping[str, torch.Tensor]:
    """The tensors of a shard."""
    chunks: dict[str, list[torch.Tensor]] = {}
    for first in range(0, len(indices), CHUNK):
        chunk = indices[first : first + CHUNK]
        batch, states = source.batch_and_states(chunk)
        for name, tensor in (vars(batch) | {"states": states}).items():
            chunks.setdefault(name, []).append(tensor.cpu())
        bar.update(len(chunk))
    return {name: torch.cat(tensors) for name, tensors in chunks.items()}


def _finish(folder: Path, plan: Plan) -> bool:
    """Write the sheets and the manifest if all shards exist; return whether they do."""
    if _complete_shards(folder, plan) < len(plan.files):
        return False
    for name in (MANIFEST, SETTINGS, *SHEETS, *plan.files):
        remove_leftovers(folder / name)
    write_sheets(folder, plan)
    checksums = [checksum(folder / file) for file in plan.files]
    if (folder / MANIFEST).is_file():
        _check_checksums(folder, checksums)
    else:
        Manifest(plan, checksums).write(folder)
    return True


def _check_checksums(folder: Path, checksums: list[str]) -> None:
    """Raise a UserError if re-rendered shards of a finished dataset differ from its checksums."""
    manifest = read_manifest(folder)
    pairs = zip(manifest.plan.files, manifest.checksums, checksums, strict=True)
    different = [file for file, expected, file_checksum in pairs if expected != file_checksum]
    if different:
        raise UserError(
            f"{', '.join(different[:8])} in {folder} differ from the manifest's checksums: remove them and give the same command "
            f"again; if they differ again, the program has changed: remove {MANIFEST} and all shards"
        )


def _is_complete(folder: Path, plan: Plan, shard: int) -> bool:
    try:
        open_shard(folder / plan.files[shard], plan, shard)
    except ShardError:
        return False
    return True


def _complete_shards(folder: Path, plan: Plan) -> int:
    return sum(_is_complete(folder, plan, shard) for shard in range(len(plan.files)))


def _check_size(folder: Path, plan: Plan) -> None:
    """Raise a UserError if the dataset is larger than its disk, or a shard than the memory."""
    existing_folder = next(ancestor for ancestor in (folder.absolute(), *folder.absolute().parents) if ancestor.is_dir())
    needed, disk = plan.settings.images * plan.image_bytes, shutil.disk_usage(existing_folder).total
    if needed > disk:
        raise UserError(
            f"a dataset of {plan.settings.images} pictures takes {readable_bytes(needed)} and the whole disk of {folder} has "
            f"{readable_bytes(disk)}: take fewer --images, a smaller --size or another --out"
        )
    count = min(plan.settings.shard_images, plan.settings.images)
    check_memory(2 * count * plan.image_bytes, f"a file of {count} pictures", "put fewer into one (--shard-images)")


def _check_room(folder: Path, plan: Plan, missing: list[int]) -> None:
    needed = sum(len(plan.settings.indices(shard)) for shard in missing) * plan.image_bytes + (_SPARE_BYTES if missing else 0)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"the dataset needs {needed / 1e9:.3g} GB more and the disk of {folder} has {free / 1e9:.3g} GB left: make room, or "
            "take fewer --images, a smaller --size or another --out"
        )
