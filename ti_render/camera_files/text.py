"""Reading and writing of text files, with errors that name the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        UserError: it is missing, cannot be opened or is no text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"camera file {path} is not a text file: give JSON or COLMAP's text files") from None
    except OSError as error:
        raise UserError(f"camera file {path} cannot be read ({error.strerror}): check the path") from error


def read_json(path: Path) -> Any:
    """Content of a JSON file.

    Raises:
        UserError: it cannot be read, or is not JSON; the message has the position of the fault.
    """
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"camera file {path} is not valid JSON ({error}): mend it, or export it again") from None


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, atomically; its folders are created.

    Raises:
        UserError: the path cannot be written to.
    """
    if not path.name or "\0" in path.name:
        raise UserError(f"{str(path)!r} is no name of a file: give it one")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"camera file {path} cannot be written ({error.strerror}): choose another place for it") from error
    finally:
        if temporary.is_file():  # a successful write has moved it
            temporary.unlink()


def write_json(path: Path, data: Any) -> None:
    """Write JSON whose numbers read back exactly.

    Raises:
        UserError: the path cannot be written to.
    """
    write_text(path, json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
