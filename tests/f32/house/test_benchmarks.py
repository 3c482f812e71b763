"""The benchmarks, which no test runs, import only names that there are, also in the programs that they start."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from benchmarks.__main__ import NAMES
from tests.reference.folders import ROOT

FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.py"))
OURS = ("benchmarks", "risp_torch", "scenes", "ti_render", "ti_sim")


def imports(source: str) -> list[ast.ImportFrom]:
    """The imports of a file, and of the programs that stand in it as texts, one in a line."""
    nodes = list(ast.walk(ast.parse(source)))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    lines = [line for text in texts for line in re.findall(r"^from \w[\w.]* import .*$", text, flags=re.MULTILINE)]
    nodes += [ast.parse(line).body[0] for line in lines]
    return [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]


@pytest.mark.parametrize("name", FILES)
def test_imported_names_exist(name):
    """Every name imported from a package of this project is there."""
    missing = [
        f"{node.module}.{alias.name}"
        for node in imports((ROOT / name).read_text(encoding="utf-8"))
        if node.module.split(".")[0] in OURS
        for alias in node.names
        if not _has(node.module, alias.name)
    ]
    assert not missing


def _has(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def test_programs_in_texts_are_found():
    """The start-up benchmark starts programs of its own, and their imports are looked at, too."""
    modules = [node.module for node in imports((ROOT / "benchmarks" / "startup.py").read_text(encoding="utf-8"))]
    assert modules.count("risp_torch") == 2
    assert not _has("risp_torch", "no_such_name")


def test_every_benchmark_has_a_page():
    """docs/benchmarks.md lists one page for each benchmark, which names the title and the command that writes it."""
    index = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(benchmarks/([\w-]+)\.md\)", index)
    assert sorted(listed) == sorted(NAMES)
    for name in listed:
        page = (ROOT / "docs" / "benchmarks" / f"{name}.md").read_text(encoding="utf-8")
        title = importlib.import_module(f"benchmarks.{name.replace('-', '_')}").TITLE
        assert page.startswith(f"# {title}\n\nWritten by `python -m benchmarks {name}`."), name
        assert "\n- date: " in page and "\n- processor: " in page and "\n|" in page, name
