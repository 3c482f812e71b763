"""Download data sets, and check what came."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from risp_torch.data.places import VARIABLE, complete_folder, missing_files, roots
from risp_torch.data.registry import DataFile, data_set_named
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["Fetched", "fetch_data_set"]

_TIMEOUT = 30  # seconds without an answer


@dataclass(frozen=True)
class Fetched:
    """Result of a fetch.

    Attributes:
        folder: the folder of the data set.
        downloaded: names of the files that were downloaded; empty where all were there.
        lacking: files that are not there and cannot be downloaded.
    """

    folder: Path
    downloaded: tuple[str, ...]
    lacking: tuple[DataFile, ...]


@checked
def fetch_data_set(name: str, *, out: str | Path | None = None) -> Fetched:
    """Download the files of a data set that are not here yet.

    Each file is checked before it gets its name, so that a fetch that is interrupted continues with the next file.

    Args:
        name: a key of ``DATA_SETS``.
        out: folder in which a folder NAME is made. By default the one that the environment variable RISP_DATA names, or else the
            user's cache; where one of them has the whole data set, nothing is downloaded or written.

    Returns:
        The folder, what was downloaded, and what cannot be.

    Raises:
        UserError: there is no data set of this name; a file is damaged, here or where it comes from; the address cannot be
            reached; the folder cannot be written; pooch is not installed.
    """
    data_set = data_set_named(name)
    if out is None and (folder := complete_folder(data_set)) is not None:
        return Fetched(folder, (), ())
    paths = roots() if out is None else [Path(out)]
    if not paths:
        raise _without_pooch()
    folder = paths[0] / name
    missing = missing_files(data_set, folder)
    downloaded = []
    for file in missing:
        if file.url is not None:
            _download(file, folder / file.name, name)
            downloaded.append(file.name)
    return Fetched(folder, tuple(downloaded), tuple(file for file in missing if file.url is None))


def _download(file: DataFile, path: Path, name: str) -> None:
    """Download one file of the data set ``name`` and check it; a file that is not the published one is not kept."""
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError:
        raise _without_pooch() from None
    pooch.get_logger().setLevel(logging.WARNING)  # the command says what it does
    elsewhere = f"set {VARIABLE} to a folder that holds {name}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=path.name, path=path.parent,
            downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
        )  # fmt: skip
    except RequestException as error:  # before OSError, of which it is one
        answer = getattr(error, "response", None)
        reason = type(error).__name__ if answer is None else f"status {answer.status_code}"
        raise UserError(
            f"{file.name} cannot be downloaded from {file.url} ({reason}): check the network, or {elsewhere}"
        ) from error
    except ValueError as error:  # of another checksum
        raise UserError(
            f"what {file.url} gives is not {file.name} as it was published (another SHA-256), and is not kept: fetch again, or "
            f"{elsewhere}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} cannot be written ({reason}): choose another folder with --out") from error


def _without_pooch() -> UserError:
    return UserError(
        f"downloads need pooch: install it with pip install 'risp-taichi[data]', or set {VARIABLE} to a folder that has the data"
    )
