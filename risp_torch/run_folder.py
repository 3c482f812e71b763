"""The folder of one run: its settings, its checkpoint, its result. Every file in it is whole or absent.

``settings.json`` is what was asked for, ``checkpoint.safetensors`` is where a killed run goes on, and ``result.json``
says that the run has ended.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.atomic import replacing, write_text
from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    import torch

__all__ = [
    "RESULT_SCHEMA", "RunFolder", "default_run_path", "first_difference", "inversion_result", "plain", "program_version",
]  # fmt: skip

RESULT_SCHEMA = 1
_SETTINGS, _RESULT, _CHECKPOINT = "settings.json", "result.json", "checkpoint.safetensors"
_METADATA_KEY = "json"


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A folder that a run writes into; make one with ``create`` or ``open_or_create``.

    Attributes:
        path: the folder.
        settings: what the run was asked to do, as JSON holds it.
    """

    path: Path
    settings: dict[str, Any]

    @classmethod
    def create(cls, path: Path | str, settings: Mapping[str, Any]) -> RunFolder:
        """Start a run in ``path``.

        Args:
            path: the folder; made when it does not exist.
            settings: everything that decides the run's outcome, in values that JSON can hold (numpy and torch too).

        Raises:
            UserError: the folder holds a run, finished or begun, or cannot be written.
        """
        folder = cls(path=Path(path), settings=plain(settings))
        folder._refuse_finished()
        if (folder.path / _CHECKPOINT).is_file():
            raise UserError(
                f"{folder.path} holds an unfinished run that can be resumed ({_CHECKPOINT}): "
                "choose another folder, or remove this one"
            )
        write_text(folder.path / _SETTINGS, _to_json(folder.settings))
        return folder

    @classmethod
    def open_or_create(cls, path: Path | str, settings: Mapping[str, Any]) -> RunFolder:
        """Go on with the unfinished run in ``path``, or start one when there is none.

        Args:
            path: the folder.
            settings: as in ``create``; they must be those of the run that is there.

        Raises:
            UserError: the run there is finished, or has other settings (the first that differs is named).
        """
        folder = cls(path=Path(path), settings=plain(settings))
        folder._refuse_finished()
        if not (folder.path / _SETTINGS).is_file():
            return cls.create(path, settings)
        difference = first_difference(_read_json(folder.path / _SETTINGS), folder.settings)
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
        """Write ``result.json``, which ends the run. NaN and infinities become null.

        Args:
            result: for an inversion, what ``inversion_result`` returns.
        """
        write_text(self.path / _RESULT, _to_json(plain(result)))

    def read_settings(self) -> dict[str, Any]:
        """Read ``settings.json``.

        Raises:
            UserError: the file is missing or damaged.
        """
        return _read_json(self.path / _SETTINGS)

    def read_result(self) -> dict[str, Any]:
        """Read ``result.json``.

        Raises:
            UserError: the run is not finished, or the file is damaged.
        """
        if not self.finished:
            raise UserError(f"the run in {self.path} has no {_RESULT}: it has not finished, run it again to resume it")
        return _read_json(self.path / _RESULT)

    def save_checkpoint(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> None:
        """Save where the run is, in place of the checkpoint before.

        Args:
            tensors: named tensors of any shape, type and device; saved from the CPU.
            metadata: anything JSON can hold, such as the iteration; NaN and infinities survive.

        Raises:
            UserError: the folder cannot be written.
        """
        from safetensors.torch import save_file

        # safetensors refuses tensors that share memory or have gaps, so each is copied out.
        separate = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        with replacing(self.path / _CHECKPOINT) as temporary:
            save_file(separate, temporary, metadata={_METADATA_KEY: json.dumps(plain(metadata, keep_nan=True))})

    def load_checkpoint(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Load the last checkpoint: (tensors on the CPU, metadata), or None when there is none.

        Raises:
            UserError: the file is damaged.
        """
        from safetensors import SafetensorError, safe_open

        path = self.path / _CHECKPOINT
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}
                return tensors, json.loads((file.metadata() or {})[_METADATA_KEY])
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise UserError(f"checkpoint {path} is damaged: remove it to start the run again") from error

    def _refuse_finished(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose a folder for the run")
        if self.finished:
            raise UserError(
                f"{self.path} already holds a finished run ({_RESULT}): choose another folder, or remove this one"
            )


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
    """What an inversion writes into ``result.json``.

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


def default_run_path(kind: str, scene: str) -> Path:
    """A new folder name ``runs/<kind>-<scene>-<yyyymmdd-hhmmss>``, relative to the working folder; makes nothing.

    Args:
        kind: what the run does: "invert", "train".
        scene: name of the scene, or the path of its file.
    """
    stem = Path(scene).stem if scene.endswith(".py") else scene.rpartition(".")[2]
    stem = re.sub(r"[^\w-]+", "-", stem).strip("-") or "scene"
    path = Path("runs") / f"{kind}-{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    number = 2
    free = path
    while free.exists():
        free = path.with_name(f"{path.name}-{number}")
        number += 1
    return free


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


def plain(value: Any, *, keep_nan: bool = False) -> Any:
    """``value`` in the types that JSON has; NaN and infinities become None unless ``keep_nan``."""
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
        return {str(key): plain(item, keep_nan=keep_nan) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, keep_nan=keep_nan) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist(), keep_nan=keep_nan)
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: remove the folder to start the run again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: remove the folder to start the run again")
    return content


def first_difference(there: Any, wanted: Any, name: str = "") -> str | None:
    """The first setting that differs, as text: its dotted name and both values; None when all are equal."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        for key in [*there, *(key for key in wanted if key not in there)]:
            dotted = f"{name}.{key}" if name else key
            if key not in there:
                return f"{dotted} is not set there and {json.dumps(wanted[key])} here"
            if key not in wanted:
                return f"{dotted} is {json.dumps(there[key])} there and not set here"
            difference = first_difference(there[key], wanted[key], dotted)
            if difference is not None:
                return difference
        return None
    return None if there == wanted else f"{name} is {json.dumps(there)} there and {json.dumps(wanted)} here"
