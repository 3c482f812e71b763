"""The last line of a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path


def print_next_steps(*files: Path | str, next_command: Sequence[Path | str] = ()) -> None:
    """Print which files to look at, and which command comes next; both can be pasted into a shell.

    Args:
        files: paths to pictures, or to files of numbers.
        next_command: words of a command line.
    """
    sentences = [f"look at {' and '.join(shlex.quote(str(file)) for file in files)}"] if files else []
    print("; ".join([*sentences, *([f"next: {shlex.join(map(str, next_command))}"] if next_command else [])]))
