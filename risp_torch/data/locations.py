"""Locations of data sets on this machine: the folder in the environment variable RISP_DATA, else the user's cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from risp_torch.data.registry import DataFile, DataSet, find_data_set
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = [
    "FOLDER_VARIABLE",
    "cache_folder",
    "complete_folder",
    "data_folder",
    "missing_files",
    "missing_data_error",
    "data_roots",
]

FOLDER_VARIABLE = "RISP_DATA"
_INSTALL_COMMAND = "pip install 'risp-taichi[data]'"


@checked
def data_folder(name: str) -> Path:
    """The folder of a data set on this machine, with all its files as published. Nothing is downloaded.

    Args:
        name: a key of ``DATA_SETS``.

    Returns:
        The folder NAME in the folder of the environment variable RISP_DATA, or else in the user's cache.

    Raises:
        UserError: there is no data set of this name, it is not here, or one of its files is damaged.
    """
    data_set = find_data_set(name)
    folder = complete_folder(data_set)
    if folder is None:
        raise missing_data_error(data_set)
    return folder


def complete_folder(data_set: DataSet) -> Path | None:
    """The first folder that has all files of a data set; None where none has.

    Raises:
        UserError: a file there is damaged.
    """
    return next((root / data_set.name for root in data_roots() if not missing_files(data_set, root / data_set.name)), None)


def data_roots() -> list[Path]:
    """Parent folders of data sets: the one in RISP_DATA, if it is set, and the user's cache, if pooch is installed."""
    variable_value, cache_root = os.environ.get(FOLDER_VARIABLE), cache_folder()
    return [*([Path(variable_value).expanduser()] if variable_value else []), *([cache_root] if cache_root is not None else [])]


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
        folder: the folder with missing files; by default the one in the first of ``data_roots``.

    Returns:
        A ``UserError`` (not raised) that names the missing files and the way to get them.
    """
    name, root_paths = data_set.name, data_roots()
    if folder is None and not root_paths:
        return UserError(
            f"the data set {name} is not here: set {FOLDER_VARIABLE} to a folder that holds {name}, or {_INSTALL_COMMAND} and "
            "fetch it"
        )
    folder = root_paths[0] / name if folder is None else folder
    missing = missing_files(data_set, folder)
    first_missing = missing[0]
    if all(file.url is None for file in missing):
        return UserError(
            f"{folder} lacks {first_missing.name}, which cannot be downloaded (it is made of {first_missing.made_of}): put it "
            f"there, or set {FOLDER_VARIABLE} to a folder that holds {name}/{first_missing.name}"
        )
    return UserError(
        f"the data set {name} is not in {folder} ({first_missing.name} is missing): run risp data fetch {name}, or set "
        f"{FOLDER_VARIABLE} to a folder that holds {name}"
    )
