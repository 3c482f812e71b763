"""Pages name source files that exist."""

from __future__ import annotations

import re

import pytest

from tests.reference.folders import ROOT

USER_FILES = {"my_scene.py"}  # files that a page asks its reader to write
FOLDERS = ("ti_sim", "ti_render", "risp_torch", "scenes", "studies", "tests", "benchmarks")
SOURCES = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")] + [
    path.relative_to(ROOT) for path in ROOT.glob("*.py")
]


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_source_files_that_a_page_names_exist(page: str) -> None:
    names = set(re.findall(r"`([\w./*-]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))) - USER_FILES
    missing = sorted(name for name in names if not any(path.match(name) for path in SOURCES))
    assert not missing, f"{page} names files that do not exist: {missing}"


def test_private_names_in_the_page_of_changes_exist() -> None:
    """Names in docs/adding.md that begin with an underscore stand in the code."""
    names = set(re.findall(r"`(_\w+)`", (ROOT / "docs/adding.md").read_text(encoding="utf-8")))
    code = "\n".join((ROOT / path).read_text(encoding="utf-8") for path in SOURCES)
    missing = sorted(name for name in names if not re.search(rf"(?<!\w){name}\b", code))
    assert len(names) > 10 and not missing, f"docs/adding.md names {missing}, which the code does not have"
