"""Taichi has one door, the house's arrows point one way, and tests lie as the source lies. Nothing runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import risp_torch
import scenes
import studies
import ti_render
import ti_sim
from tests.reference.folders import ROOT

ROOMS = {package.__name__: Path(package.__file__).parent for package in (ti_sim, ti_render, risp_torch, scenes, studies)}


@cache
def sources(room: str) -> tuple[Path, ...]:
    """Files of a package."""
    return tuple(sorted(ROOMS[room].rglob("*.py")))


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names of everything that a file imports, at any depth; relative ones begin with a dot."""
    return imported_by(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported_by(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Dotted names that import statements among the nodes of a syntax tree import."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return frozenset(names)


def of(names: frozenset[str], *packages: str) -> set[str]:
    return {name for name in names if name.split(".")[0] in packages}


def test_taichi_has_one_door() -> None:
    doors = [path for room in ROOMS for path in sources(room) if of(imported(path), "taichi")]
    assert doors == [ROOMS["ti_sim"] / "base" / "runtime.py"]


def test_warnings_have_one_door() -> None:
    files = [path for room in ROOMS for path in sources(room)]
    doors = [path for path in files if re.search(r"\bwarnings\.warn\(", path.read_text(encoding="utf-8"))]
    assert doors == [ROOMS["ti_sim"] / "base" / "warn.py"]


def test_imports_are_absolute_but_for_scenes_from_one_another() -> None:
    """The package of the scenes has another name where it is installed."""
    for room in ROOMS:
        relative = {name for path in sources(room) for name in imported(path) if name.startswith(".")}
        assert bool(relative) == (room == "scenes"), relative
    assert not [path for room in ROOMS for path in sources(room) if of(imported(path), "risp_torch_scenes")]


def test_arrows_point_one_way() -> None:
    for path in sources("ti_sim"):
        assert not of(imported(path), "torch", "ti_render", "risp_torch", "scenes", "studies"), path
        if path.parent.name == "base":
            outside = {name for name in of(imported(path), "ti_sim") if not name.startswith("ti_sim.base.")}
            assert not outside, path
    for path in sources("ti_render"):
        assert not of(imported(path), "torch", "risp_torch", "scenes", "studies"), path
        assert all(name.startswith("ti_sim.base.") for name in of(imported(path), "ti_sim")), path
    for path in sources("risp_torch"):
        assert not of(imported(path), "scenes", "studies"), path
    for path in sources("scenes"):
        assert not of(imported(path), "scenes", "studies"), path


def test_rooms_of_risp_torch_point_one_way() -> None:
    """Imports for type checkers count as well."""
    below = {
        "files": set(), "least_squares": set(), "data": {"files"}, "scene": {"files"},
        "inversion": {"files", "least_squares", "scene"}, "risp": {"files", "scene", "inversion"},
        "motions": {"files", "least_squares", "scene", "inversion"},
        "tracking": {"files", "least_squares", "scene", "inversion", "motions"}, "control": {"files", "scene", "risp"},
    }  # fmt: skip
    below["commands"] = set(below)
    rooms = {path.name for path in ROOMS["risp_torch"].iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(below)
    for path in sources("risp_torch"):
        room, *inside = path.relative_to(ROOMS["risp_torch"]).parts
        if inside:
            others = {name.split(".")[1] for name in of(imported(path), "risp_torch") if "." in name}
            assert others <= below[room] | {room}, (path, others)


def test_rooms_of_ti_sim_point_one_way() -> None:
    """Imports for type checkers count as well. Solvers import the contact law from its room, and not from each other."""
    below = {
        "base": set(), "shapes": {"base"}, "meshes": {"base", "shapes"}, "rollout": {"base"},
        "contact": {"base", "shapes", "meshes"}, "smoke": {"base", "rollout"},
    }  # fmt: skip
    solver = {"base", "shapes", "meshes", "rollout", "contact"}
    below |= {"rigid": solver, "articulated": solver, "deformable": solver, "coupled": solver | {"articulated", "deformable"}}
    assert rooms_of("ti_sim") == set(below)
    for path in sources("ti_sim"):
        room, *inside = path.relative_to(ROOMS["ti_sim"]).parts
        if inside:
            imported_rooms = {name.split(".")[1] for name in of(imported(path), "ti_sim") if "." in name}
            assert imported_rooms <= below[room] | {room}, (path, imported_rooms)


def test_rooms_of_the_inversion_point_one_way() -> None:
    """The entrance exposes names of all of them."""
    floors = (
        {"losses"}, {"appearance", "problem"}, {"solvers"}, {"start", "uncertainty"}, {"diagnostics"}, {"report"}, {"run"},
    )  # fmt: skip
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    home = ROOMS["risp_torch"] / "inversion"
    assert {path.name for path in home.iterdir() if path.name != "__pycache__"} == {"__init__.py", *floor}
    for path in home.rglob("*/*.py"):
        room = path.relative_to(home).parts[0]
        rooms = {name.split(".")[2] for name in of(imported(path), "risp_torch") if name.startswith("risp_torch.inversion.")}
        assert all(floor[other] < floor[room] for other in rooms - {room}), (path, rooms)


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports have an order, those for type checkers too."""
    graph: dict[str, frozenset[str]] = {}
    for room, folder in ROOMS.items():
        for path in sources(room):
            name = ".".join((room, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
            graph[name] = imported(path)
    nearest = {name: {each if each in graph else each.rpartition(".")[0] for each in names} for name, names in graph.items()}
    assert not {name for name in graph if reaches(nearest, name, name)}


def reaches(graph: dict[str, set[str]], start: str, end: str) -> bool:
    """Whether imports lead from one file to another."""
    seen, waiting = set(), [start]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - seen:
            if name == end:
                return True
            seen.add(name)
            waiting.append(name)
    return False


# -- where tests are ------------------------------------------------------------------------------------------------------

LANES = tuple(ROOT / "tests" / lane for lane in ("f64", "f32"))


def rooms_of(package: str) -> set[str]:
    """Folders of a package."""
    return {path.name for path in ROOMS[package].iterdir() if (path / "__init__.py").is_file()}


def test_tests_lie_in_rooms_of_the_source() -> None:
    """``ti_render``, ``scenes`` and ``studies`` are one room each; ``house`` is for what belongs to all."""
    rooms = {"render", "scenes", "studies", "house"} | rooms_of("ti_sim") | rooms_of("risp_torch")
    files = [path for lane in LANES for path in lane.rglob("test_*.py")]
    for lane in LANES:
        assert {path.name for path in lane.iterdir() if path.is_dir() and path.name != "__pycache__"} <= rooms
        assert {len(path.relative_to(lane).parts) for path in files if path.is_relative_to(lane)} == {2}
    assert len({path.name for path in files}) == len(files)  # pytest needs names that are not twice there


def test_no_test_imports_a_test() -> None:
    """What several tests use is in ``tests/reference``, or is a fixture. Imports in programs that tests write count, too."""
    for path in (ROOT / "tests").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        names = {name.lstrip(".") for name in imported_by(nodes)}
        assert not [name for name in names if name.startswith(("tests.f64", "tests.f32", "test_"))], path
        assert not [text for text in texts if "import " in text and ("tests.f64" in text or "tests.f32" in text)], path
