"""The manifest of a dataset: its plan, and the checksum of every shard. A dataset with a manifest is finished."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tqdm import tqdm

from risp_torch.files.atomic import write_text
from risp_torch.risp.dataset.plan import Plan
from risp_torch.risp.dataset.shards import ShardError, open_shard
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json

MANIFEST, SETTINGS = "manifest.json", "settings.json"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """A finished dataset.

    Attributes:
        plan: plan of the dataset.
        checksums: sha256 of every shard, in order.
    """

    plan: Plan
    checksums: list[str]

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` atomically."""
        plan, files = self.plan, self.plan.files
        shards = [
            {"file": file, "images": len(plan.settings.indices(i)), "bytes": (folder / file).stat().st_size, "sha256": digest}
            for i, (file, digest) in enumerate(zip(files, self.checksums, strict=True))
        ]
        totals = {"images": plan.settings.images, "bytes": sum(shard["bytes"] for shard in shards)}
        content = {**plan.to_json(), "digest": plan.digest, "totals": totals, "shards": shards}
        write_text(folder / MANIFEST, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a finished dataset.

    Raises:
        UserError: the folder does not exist, has no dataset or an unfinished one (with the command that resumes it), or the
            manifest is damaged.
    """
    if not folder.is_dir():
        raise UserError(f"dataset folder {folder} does not exist: make it with 'risp dataset SCENE --images N --out {folder}'")
    if not (folder / MANIFEST).is_file():
        raise _unfinished(folder)
    data = _read(folder / MANIFEST)
    try:
        manifest = Manifest(Plan.from_json(data), [entry["sha256"] for entry in data["shards"]])
    except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
        raise _damaged(folder / MANIFEST) from error
    if [entry.get("file") for entry in data["shards"]] != manifest.plan.files or data.get("digest") != manifest.plan.digest:
        raise _damaged(folder / MANIFEST)
    return manifest


def shard_faults(folder: Path | str, *, progress: bool = False) -> dict[str, str]:
    """Compare every shard of a finished dataset with its checksum.

    Args:
        folder: folder of the dataset.
        progress: whether to show a progress bar.

    Returns:
        File name -> fault: missing, damaged, or not a file of the dataset.

    Raises:
        UserError: see ``read_manifest``.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    plan, faults = manifest.plan, {}
    progress_bar = tqdm(plan.files, desc="checking", unit="shard", disable=not progress, mininterval=0.5)
    for shard, (file, digest) in enumerate(zip(progress_bar, manifest.checksums, strict=True)):
        try:
            open_shard(folder / file, plan, shard)
        except ShardError as error:
            faults[file] = error.fault
            continue
        if checksum(folder / file) != digest:
            faults[file] = "is damaged (its checksum differs from the manifest's)"
    unlisted = sorted({path.name for path in folder.glob("*.safetensors")} - set(plan.files))
    return faults | dict.fromkeys(unlisted, "does not belong to the dataset")


def checksum(path: Path) -> str:
    """sha256 of a file."""
    digest = sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _unfinished(folder: Path) -> UserError:
    if not (folder / SETTINGS).is_file():
        return UserError(f"{folder} holds no dataset (no {MANIFEST}): give the folder that 'risp dataset' wrote")
    try:
        plan = Plan.from_json(_read(folder / SETTINGS))
    except (KeyError, TypeError, ValueError, AttributeError):
        return UserError(f"{folder} holds no dataset (no {MANIFEST}): give the folder that 'risp dataset' wrote")
    present = sum((folder / file).is_file() for file in plan.files)
    return UserError(
        f"the dataset in {folder} is not finished, {present} of {len(plan.files)} shards are there: "
        f"'{plan.command(folder)}' resumes it"
    )


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged: remove it and give the command of the dataset again")
