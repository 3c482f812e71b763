"""The folder of one run: its settings, its checkpoint, its result. Files are written atomically.

``settings.json`` holds the settings, ``checkpoint.safetensors`` the state from which a killed run resumes, and ``result.json``
exists if the run has finished. One process at a time works in the folder.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.atomic import clear_leftovers, write_tensors, write_text
from risp_torch.files.folder_lock import FolderLock, lock_folder
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    import torch

__all__ = [
    "RESULT_SCHEMA", "FinishedError", "RunFolder", "check_result_schema", "default_run_path", "first_setting_difference",
    "inversion_result", "program_version", "to_jsonable",
]  # fmt: skip

RESULT_SCHEMA = 3
_SETTINGS, _RESULT, _CHECKPOINT = "settings.json", "result.json", "checkpoint.safetensors"
_METADATA_KEY, _RUN_KEY, _DIGEST_KEY = "json", "run", "sha256"
_RUN_FILE_SUFFIXES = {".csv", ".json", ".mp4", ".npz", ".png", ".safetensors", ".svg"}  # of files that runs write


class FinishedError(UserError):
    """The folder holds a finished run with the same settings (exit status 0)."""


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A folder that a run writes into; make one with ``create`` or ``open_or_create``.

    Attributes:
        path: the folder.
        settings: settings of the run, as JSON values.
    """

    path: Path
    settings: dict[str, Any]
    _lock: FolderLock | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path | str, settings: Mapping[str, Any], *, shared: bool = False) -> RunFolder:
        """Start a run in ``path``; the folder is locked against other processes while the returned object exists.

        Args:
            path: the folder; made if it does not exist.
            settings: all settings that determine the result of the run, as JSON values, arrays or tensors.
            shared: whether other processes with ``shared=True`` may use the folder at the same time.

        Raises:
            FinishedError: the folder holds this run, finished, with a readable result.
            UserError: the folder holds another run, an unfinished run, or other files; another process works in it; or it cannot
                be written.
        """
        folder = cls._locked(path, settings, shared=shared)
        if (folder.path / _CHECKPOINT).is_file():
            raise UserError(
                f"{folder.path} holds an unfinished run that can be resumed ({_CHECKPOINT}): "
                "choose another folder, or remove this one"
            )
        write_text(folder.path / _SETTINGS, _to_json(folder.settings))
        return folder

    @classmethod
    def open_or_create(cls, path: Path | str, settings: Mapping[str, Any], *, shared: bool = False) -> RunFolder:
        """Resume the unfinished run in ``path``, or start one if there is none.

        Args:
            path: the folder.
            settings: as in ``create``; an existing run must have equal settings.
            shared: as in ``create``.

        Raises:
            FinishedError: the run in the folder is finished.
            UserError: the run has other settings (the message names the first difference), or as ``create``.
        """
        folder = cls._locked(path, settings, shared=shared)
        if not (folder.path / _SETTINGS).is_file():
            return cls.create(path, settings, shared=shared)
        difference = first_setting_difference(_read_json(folder.path / _SETTINGS), folder.settings)
        if difference is not None:
            raise UserError(
                f"the run in {folder.path} has other settings ({difference}): "
                "resume it with its own settings, or choose another folder"
            )
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run has written its result."""
        return (self.path / _RESULT).is_file()

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json``, which marks the run as finished. NaN and infinities become null.

        Args:
            result: content of the file; for an inversion, from ``inversion_result``.
        """
        write_text(self.path / _RESULT, _to_json(to_jsonable(result)))

    def read_settings(self) -> dict[str, Any]:
        """Read ``settings.json``.

        Raises:
            UserError: the file is missing or damaged.
        """
        return _read_json(self.path / _SETTINGS)

    def read_result(self) -> dict[str, Any]:
        """Read ``result.json``.

        Raises:
            UserError: the run is not finished, the file is damaged, or another version wrote it (``check_result_schema``).
        """
        if not self.finished:
            raise UserError(f"the run in {self.path} has no {_RESULT}: it has not finished, run it again to resume it")
        record = _read_json(self.path / _RESULT)
        check_result_schema(record, self.path / _RESULT)
        return record

    def save_checkpoint(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> None:
        """Save the state of the run; it replaces the previous checkpoint.

        Args:
            tensors: named tensors of any shape, type and device.
            metadata: JSON values, such as the iteration; NaN and infinities are kept.

        Raises:
            UserError: the folder cannot be written.
        """
        # safetensors refuses tensors that share memory or are not contiguous, so each is copied.
        copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        text = json.dumps(to_jsonable(metadata, keep_nan=True))
        texts = {_METADATA_KEY: text, _RUN_KEY: self._run_digest(), _DIGEST_KEY: _digest(copies, text)}
        write_tensors(self.path / _CHECKPOINT, copies, texts)

    def load_checkpoint(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Load the last checkpoint: (tensors on the CPU, metadata), or None if there is none.

        Raises:
            UserError: the file is damaged or modified, or belongs to another run.
        """
        from safetensors import SafetensorError, safe_open

        path = self.path / _CHECKPOINT
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                texts = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
            is_intact = texts[_DIGEST_KEY] == _digest(tensors, texts[_METADATA_KEY])
            is_same_run, content = texts[_RUN_KEY] == self._run_digest(), parse_json(texts[_METADATA_KEY])
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise UserError(f"checkpoint {path} is damaged: remove it to start the run again") from error
        if not is_intact:
            raise UserError(f"checkpoint {path} is not as it was written: remove it to start the run again")
        if not is_same_run:
            raise UserError(f"checkpoint {path} is that of another run: remove it to start this run")
        return tensors, content

    @classmethod
    def _locked(cls, path: Path | str, settings: Mapping[str, Any], *, shared: bool) -> RunFolder:
        """The folder, locked, without temporary files of killed processes (errors: ``create``)."""
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: choose a folder for the run")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{path} cannot be made ({error.strerror}): choose another folder") from error
        folder = cls(path=path, settings=to_jsonable(settings), _lock=lock_folder(path, shared=shared))
        folder._refuse_finished()
        foreign_files = sorted(
            file.name for file in path.iterdir() if file.suffix in _RUN_FILE_SUFFIXES and not file.name.startswith(".")
        )
        if foreign_files and not (path / _SETTINGS).is_file():
            raise UserError(
                f"{path} holds files that are no run's ({', '.join(foreign_files[:3])}): choose a new or an empty folder"
            )
        clear_leftovers(path)
        return folder

    def _refuse_finished(self) -> None:
        if not self.finished:
            return
        stored_settings = _read_json(self.path / _SETTINGS) if (self.path / _SETTINGS).is_file() else {}
        difference = first_setting_difference(stored_settings, self.settings)
        if difference is None:
            _read_json(self.path / _RESULT)  # raises an error if the result is damaged
            raise FinishedError(f"{self.path} holds this run, already finished: look at the files in it")
        raise UserError(
            f"{self.path} already holds a finished run ({_RESULT}) of other settings ({difference}): choose another folder, or "
            "remove this one"
        )

    def _run_digest(self) -> str:
        return sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()


def inversion_result(
    *,
    scene: str,
    seed: int,
    settings: Mapping[str, Any],
    unknowns: Mapping[str, Mapping[str, Any]],
    starts: Sequence[Mapping[str, Any]],
    best: int | None,
    seconds: float,
) -> dict[str, Any]:
    """Content of an inversion's ``result.json``.

    Args:
        scene: name of the scene.
        seed: seed of the run.
        settings: settings of the run.
        unknowns: name -> {value, unit, low, high, sd, observable}.
        starts: one {initial, final, loss, status} for each start.
        best: index of the best start; None when all have failed.
        seconds: wall-clock time.

    Returns:
        {schema, scene, version, seed, settings, unknowns, starts, best, seconds}.

    Raises:
        ValueError: an unknown or a start lacks a key.
    """
    for name, unknown in unknowns.items():
        _require_keys(f"unknown {name!r}", unknown, ("value", "unit", "low", "high", "sd", "observable"))
    for index, start in enumerate(starts):
        _require_keys(f"start {index}", start, ("initial", "final", "loss", "status"))
    return {
        "schema": RESULT_SCHEMA,
        "scene": scene,
        "version": program_version(),
        "seed": seed,
        "settings": settings,
        "unknowns": unknowns,
        "starts": starts,
        "best": best,
        "seconds": seconds,
    }


def check_result_schema(record: Mapping[str, Any], path: Path) -> None:
    """Raise a UserError if a record is an inversion's result in the form of another version.

    Args:
        record: content of a JSON file.
        path: the file.
    """
    schema = record.get("schema")
    if {"unknowns", "starts"} <= set(record) and schema != RESULT_SCHEMA:
        raise UserError(
            f"{path} has schema {schema}, and this version reads schema {RESULT_SCHEMA}: run the inversion again in a new folder"
        )


@checked
def default_run_path(kind: str, scene: str) -> Path:
    """A new folder name ``runs/<kind>-<scene>-<yyyymmdd-hhmmss>``, relative to the working folder; makes nothing.

    Args:
        kind: name of the command: "invert", "train".
        scene: name of the scene, or the path of its file.
    """
    stem = Path(scene).stem if scene.endswith(".py") else scene.rpartition(".")[2]
    stem = re.sub(r"[^\w-]+", "-", stem).strip("-") or "scene"
    path = Path("runs") / f"{kind}-{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    number = 2
    free_path = path
    while free_path.exists():
        free_path = path.with_name(f"{path.name}-{number}")
        number += 1
    return free_path


def _require_keys(owner: str, mapping: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise ValueError(f"{owner} of the result lacks {', '.join(missing)}")


def program_version() -> str:
    """Version of the installed program, "unknown" where it is not installed."""
    try:
        return metadata.version("risp-taichi")
    except metadata.PackageNotFoundError:
        return "unknown"


@checked
def to_jsonable(value: Any, *, keep_nan: bool = False) -> Any:
    """``value`` converted to types of JSON; NaN and infinities become None unless ``keep_nan``."""
    return _to_jsonable(value, keep_nan)


def _to_jsonable(value: Any, keep_nan: bool) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if keep_nan or math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _to_jsonable(item, keep_nan) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_jsonable(item, keep_nan) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return _to_jsonable(value.tolist(), keep_nan)
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def _digest(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    """SHA-256 of a text and of tensors: names, types, shapes and bytes."""
    import torch

    checksum = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        checksum.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        checksum.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return checksum.hexdigest()


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: remove the folder to start the run again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: remove the folder to start the run again")
    return content


@checked
def first_setting_difference(stored: Any, requested: Any, name: str = "") -> str | None:
    """The first setting that differs, as text: its dotted name and both values; None when all are equal."""
    if isinstance(stored, dict) and isinstance(requested, dict):
        for key in [*stored, *(key for key in requested if key not in stored)]:
            dotted = f"{name}.{key}" if name else key
            if key not in stored:
                return f"{dotted} is not set there and {json.dumps(requested[key])} here"
            if key not in requested:
                return f"{dotted} is {json.dumps(stored[key])} there and not set here"
            difference = first_setting_difference(stored[key], requested[key], dotted)
            if difference is not None:
                return difference
        return None
    return None if stored == requested else f"{name} is {json.dumps(stored)} there and {json.dumps(requested)} here"
