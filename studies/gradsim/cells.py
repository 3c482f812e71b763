"""Cells of tables: pieces of work whose results are kept, one JSON file each. What is there is not done again.

A result is written at once under its name, so that a killed command leaves whole results only, and the same command resumes.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

from risp_torch import DivergenceError, UserError, start
from risp_torch.programs import to_jsonable, write_text

_PAUSE = 0.3  # s between looks whether the parent is there
FAILED = "failed"  # key of the sentence on a cell without result


@dataclass(frozen=True)
class Cell:
    """A piece of work.

    Attributes:
        name: path of its file below the folder of all, without ".json".
        work: what makes the result, JSON values by name, from ``given``: a function of a module, which other processes import.
        given: its keyword arguments, JSON values.
    """

    name: str
    work: Callable[..., Mapping[str, Any]]
    given: Mapping[str, Any] = field(default_factory=dict)

    def path(self, folder: Path) -> Path:
        """Its file."""
        return folder / f"{self.name}.json"

    def read(self, folder: Path) -> dict[str, Any] | None:
        """Its result with "seconds"; None if it is not done.

        Raises:
            UserError: the file is damaged, or was made from something else.
        """
        path = self.path(folder)
        if not path.is_file():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            arguments, result = record["given"], record["result"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}): remove it, and it is made again") from None
        if arguments != to_jsonable(dict(self.given)):
            raise UserError(f"{path} was made with other settings: give another --out, or remove it")
        return result


def run_cells(cells: Sequence[Cell], folder: Path, *, jobs: int, title: str) -> list[dict[str, Any]]:
    """Results of all cells, those that are missing made first.

    A cell that diverges, or whose input is refused, has the result {"failed": sentence}: tables count it.

    Args:
        cells: the cells.
        folder: of all results.
        jobs: processes that work at the same time; 1 works in this one.
        title: of the progress bar.

    Returns:
        Their results, in their order.

    Raises:
        UserError: a file holds a result of other settings.
    """
    missing = [cell for cell in cells if cell.read(folder) is None]
    with tqdm(total=len(cells), initial=len(cells) - len(missing), desc=title, disable=not missing) as bar:
        if jobs == 1:
            for cell in missing:
                _perform(cell, folder)
                bar.update()
        elif missing:
            with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start) as pool:
                for done in as_completed([pool.submit(_perform, cell, folder) for cell in missing]):
                    done.result()
                    bar.update()
    results = [cell.read(folder) for cell in cells]
    return [result for result in results if result is not None]


def write_archive(path: Path, folder: Path) -> None:
    """Write the results below a folder, and the pictures beside them, as a .tar.xz; equal results make equal archives.

    Unpacked where it was made, it is the folder again, from which the same command makes the same pages and does nothing else.
    Films, and what networks read of them, are left out: results hold the numbers that were found from them.

    Args:
        path: of the archive.
        folder: of all results, relative, or its members are named from its own folder on.

    Raises:
        UserError: the name is another one, there are no results, or the file cannot be written.
    """
    if path.suffixes[-2:] != [".tar", ".xz"]:
        raise UserError(f"--archive {path} is not a .tar.xz file: give it a name that ends in .tar.xz")
    files = sorted(file for suffix in ("json", "png") for file in folder.rglob(f"*.{suffix}") if "pages" not in file.parts)
    if not files:
        raise UserError(f"{folder} holds no results: make a table first")
    root = folder.parent if folder.is_absolute() else Path()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for file in files:
            content, member = file.read_bytes(), tarfile.TarInfo(file.relative_to(root).as_posix())
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed.getvalue())
    except OSError as error:
        raise UserError(f"archive {path} cannot be written ({error.strerror}): choose another --archive") from error


def without_failures(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results of cells that have one."""
    return [result for result in results if FAILED not in result]


def _start() -> None:
    """Start the runtime of a worker, which ends with the process that started it, however that ends."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()
    start(precision="f32", threads=1)


def _perform(cell: Cell, folder: Path) -> None:
    began = time.perf_counter()
    try:
        result = dict(cell.work(**cell.given))
    except (UserError, DivergenceError) as error:
        result = {FAILED: str(error)}
    result["seconds"] = time.perf_counter() - began
    path = cell.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"given": to_jsonable(dict(cell.given)), "result": to_jsonable(result)}, indent=1))
