"""Download data sets, and check the files."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from risp_torch.data.locations import FOLDER_VARIABLE, complete_folder, data_roots, missing_files
from risp_torch.data.registry import DataFile, find_data_set
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["FetchResult", "fetch_data_set"]

_TIMEOUT = 30  # s without a response


@dataclass(frozen=True)
class FetchResult:
    """Result of a fetch.

    Attributes:
        folder: the folder of the data set.
        downloaded: names of the files that were downloaded; empty if all existed.
        unavailable: missing files that cannot be downloaded.
    """

    folder: Path
    downloaded: tuple[str, ...]
    unavailable: tuple[DataFile, ...]


@checked
def fetch_data_set(name: str, *, out: str | Path | None = None) -> FetchResult:
    """Download the missing files of a data set.

    Each file is checked before it gets its name, so that an interrupted fetch can be repeated for the remaining files.

    Args:
        name: a key of ``DATA_SETS``.
        out: parent folder of the folder NAME. By default the folder in the environment variable RISP_DATA, or else the user's
            cache; if one of them has the whole data set, nothing is downloaded or written.

    Returns:
        The folder, the downloaded files, and the unavailable ones.

    Raises:
        UserError: there is no data set of this name; a local or published file is damaged; the address cannot be reached; the
            folder cannot be written; pooch is not installed.
    """
    data_set = find_data_set(name)
    if out is None and (folder := complete_folder(data_set)) is not None:
        return FetchResult(folder, (), ())
    root_paths = data_roots() if out is None else [Path(out)]
    if not root_paths:
        raise _missing_pooch_error()
    folder = root_paths[0] / name
    missing = missing_files(data_set, folder)
    downloaded = []
    for file in missing:
        if file.url is not None:
            _download(file, folder / file.name, name)
            downloaded.append(file.name)
    return FetchResult(folder, tuple(downloaded), tuple(file for file in missing if file.url is None))


def _download(file: DataFile, path: Path, name: str) -> None:
    """Download one file of the data set ``name`` and compare its checksum; a file with another checksum is deleted."""
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError:
        raise _missing_pooch_error() from None
    pooch.get_logger().setLevel(logging.WARNING)  # the command prints its own messages
    alternative = f"set {FOLDER_VARIABLE} to a folder that holds {name}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=path.name, path=path.parent,
            downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
        )  # fmt: skip
    except RequestException as error:  # before OSError, its base class
        response = getattr(error, "response", None)
        reason = type(error).__name__ if response is None else f"status {response.status_code}"
        raise UserError(
            f"{file.name} cannot be downloaded from {file.url} ({reason}): check the network, or {alternative}"
        ) from error
    except ValueError as error:  # of another checksum
        raise UserError(
            f"what {file.url} gives is not {file.name} as it was published (another SHA-256), and is not kept: fetch again, or "
            f"{alternative}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} cannot be written ({reason}): choose another folder with --out") from error


def _missing_pooch_error() -> UserError:
    return UserError(
        f"downloads need pooch: install it with pip install 'risp-taichi[data]', or set {FOLDER_VARIABLE} to a folder that has "
        "the data"
    )
