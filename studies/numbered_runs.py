"""Studies of many numbered runs: a line of results.jsonl each, so that an interrupted study resumes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from risp_torch import UserError
from risp_torch.programs import write_text


def run_numbered(
    run_case: Callable[[int, Path], dict[str, Any]], count: int, seed: int, out: Path, most: int | None = None
) -> list[dict[str, Any]]:
    """Do the runs that are missing, and return the rows of all.

    Args:
        run_case: makes the row of a run from its number and an empty folder; rows hold "number" and "seed".
        count: number of runs of the study.
        seed: seed of the study.
        out: folder of results.jsonl.
        most: largest number of runs of this call; all by default.

    Raises:
        UserError: the file has runs of another seed.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.jsonl"
    rows = finished_rows(path, seed, count)
    done = {row["number"] for row in rows}
    missing = [number for number in range(count) if number not in done][:most]
    for number in tqdm(missing, desc="runs", initial=len(done), total=len(done) + len(missing)):
        with tempfile.TemporaryDirectory() as folder:
            row = run_case(number, Path(folder))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(row)
    return rows


def finished_rows(path: Path, seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of the file whose numbers are below ``count``. A line that was cut off by a kill is removed from the file.

    Raises:
        UserError: the file has runs of another seed.
    """
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_text(path, whole)
    rows = [json.loads(line) for line in whole.splitlines()]
    if any(row["seed"] != seed for row in rows):
        raise UserError(f"{path} has runs of another seed: give the same --seed, or another --out")
    return [row for row in rows if row["number"] < count]
