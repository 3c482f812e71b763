"""Pages of tables and figures, with the pictures that they show."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from risp_torch.programs import write_text


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        name: of its file, without ".md".
        text: in Markdown; it shows pictures as ``images/<name of the page>-<key>``.
        pictures: key, with its ending -> the file.
    """

    name: str
    text: str
    pictures: Mapping[str, Path] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the page and copies of its pictures into a folder; returns its path."""
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for key, picture in self.pictures.items():
            shutil.copyfile(picture, folder / "images" / f"{self.name}-{key}")
        write_text(folder / f"{self.name}.md", self.text.rstrip("\n") + "\n")
        return folder / f"{self.name}.md"


def digits(value: float | None) -> str:
    """Three significant digits, small and large numbers as powers of ten; "-" for what is not there."""
    if value is None or not np.isfinite(value):
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")


def share(count: int, total: int) -> str:
    """A count and its total, as text."""
    return f"{count} of {total}"
