"""Where data sets are on this machine: the folder that RISP_DATA names, else the user's cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from risp_torch.data.registry import DataFile, DataSet, data_set_named
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["VARIABLE", "cache_folder", "complete_folder", "data_folder", "missing_files", "missing_data_error", "roots"]

VARIABLE = "RISP_DATA"
_EXTRA = "pip install 'risp-taichi[data]'"


@checked
def data_folder(name: str) -> Path:
    """The folder of a data set on this machine, with all its files as published. Nothing is downloaded.

    Args:
        name: a key of ``DATA_SETS``.

    Returns:
        The folder: NAME in the folder that the environment variable RISP_DATA names, or else in the user's cache.

    Raises:
        UserError: there is no data set of this name, it is not here, or one of its files is damaged.
    """
    data_set = data_set_named(name)
    folder = complete_folder(data_set)
    if folder is None:
        raise missing_data_error(data_set)
    return folder


def complete_folder(data_set: DataSet) -> Path | None:
    """The first folder that has all files of a data set; None where none has.

    Raises:
        UserError: a file there is damaged.
    """
    return next((root / data_set.name for root in roots() if not missing_files(data_set, root / data_set.name)), None)


def roots() -> list[Path]:
    """Folders that hold the folders of data sets: that of RISP_DATA, if it is set, and the user's cache, if there can be one."""
    named, cache = os.environ.get(VARIABLE), cache_folder()
    return [*([Path(named).expanduser()] if named else []), *([cache] if cache is not None else [])]


def cache_folder() -> Path | None:
    """The program's folder in the user's cache; None without pooch, which locates it and alone writes there."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("risp-taichi"))


def missing_files(data_set: DataSet, folder: Path) -> list[DataFile]:
    """Files of a data set that a folder lacks.

    Args:
        data_set: the data set.
        folder: the folder, which need not exist.

    Returns:
        The files, in the order of the data set.

    Raises:
        UserError: a file there has another checksum, or cannot be read.
    """
    missing = []
    for file in data_set.files:
        path = folder / file.name
        try:
            with open(path, "rb") as handle:
                checksum = hashlib.file_digest(handle, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            missing.append(file)
            continue
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): check its permissions") from error
        if checksum != file.sha256:
            raise UserError(f"{path} is damaged: delete it and fetch again (risp data fetch {data_set.name})")
    return missing


def missing_data_error(data_set: DataSet, folder: Path | None = None) -> UserError:
    """The error to raise where a data set is not on this machine.

    Args:
        data_set: the data set.
        folder: the folder that lacks files; by default the first one in which it is looked for.

    Returns:
        A ``UserError`` (not raised) that says what is missing, where, and how to get it.
    """
    name, paths = data_set.name, roots()
    if folder is None and not paths:
        return UserError(
            f"the data set {name} is not here: set {VARIABLE} to a folder that holds {name}, or {_EXTRA} and fetch it"
        )
    folder = paths[0] / name if folder is None else folder
    missing = missing_files(data_set, folder)
    first = missing[0]
    if all(file.url is None for file in missing):
        return UserError(
            f"{folder} lacks {first.name}, which cannot be downloaded (it is made of {first.made_of}): put it there, or set "
            f"{VARIABLE} to a folder that holds {name}/{first.name}"
        )
    return UserError(
        f"the data set {name} is not in {folder} ({first.name} is missing): run risp data fetch {name}, or set {VARIABLE} to "
        f"a folder that holds {name}"
    )
