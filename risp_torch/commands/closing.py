"""The last line of a command."""

from __future__ import annotations

from pathlib import Path


def print_closing(*files: Path | str, following: str = "") -> None:
    """Print which files to look at, and which command comes next.

    Args:
        files: paths to pictures, or to files of numbers.
        following: a command line.
    """
    sentences = [f"look at {' and '.join(map(str, files))}"] if files else []
    print("; ".join([*sentences, *([f"next: {following}"] if following else [])]))
