"""Public names: docs/api.md lists them, each is exposed once, scenes and studies import no others; its solvers are the code's.

Nothing is simulated.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import ti_sim
from risp_torch.scene.simulation.articulated import ArticulatedAdapter
from risp_torch.scene.simulation.coupled import CoupledAdapter
from risp_torch.scene.simulation.deformable import DeformableAdapter
from risp_torch.scene.simulation.rigid import RigidAdapter
from risp_torch.scene.simulation.solver_adapter import SolverAdapter
from tests.reference.folders import ROOT
from ti_sim.articulated.joints import JOINT_TYPES
from ti_sim.contact.collision import ShapeKind
from ti_sim.deformable.families import ENERGIES, FAMILIES
from ti_sim.rollout.ad_tape import SolverTape
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver

PACKAGES = ("ti_sim", "ti_render", "risp_torch")
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
RE_EXPORTED = "- re-exported from `ti_sim`:"


def sections() -> dict[str, str]:
    """Text of the page by public module."""
    parts = re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    return {title.strip("`"): text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title.startswith("`")}


def listed(text: str) -> list[str]:
    """Names in the items of a section."""
    items = re.findall(r"^- [^:]*:((?:.*\n)(?:  .*\n)*)", text, flags=re.MULTILINE)
    return [name for item in items for name in re.findall(r"`(\w+)`", item)]


PUBLIC = {module: listed(text) for module, text in sections().items()}


@cache
def statements(path: Path) -> list[ast.stmt]:
    """Statements of a file."""
    return ast.parse(path.read_text(encoding="utf-8")).body


def definition(module: str, name: str) -> tuple[str, ast.AST | None]:
    """The module that defines a name, and its class or function there; None for other values."""
    found = importlib.import_module(module)
    for node in statements(Path(found.__file__)):
        if isinstance(node, ast.ImportFrom) and node.module:
            origin = [alias.name for alias in node.names if (alias.asname or alias.name) == name]
            if origin and node.module.split(".")[0] in PACKAGES:
                return definition(node.module, origin[0])
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, node
    return module, None


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_lists_what_a_module_exposes(module: str) -> None:
    exposed = importlib.import_module(module).__all__
    assert len(set(exposed)) == len(exposed)
    assert sorted(PUBLIC[module]) == sorted(exposed)


def test_every_package_that_exposes_names_is_on_the_page() -> None:
    """Modules that are no packages have ``__all__`` for what they themselves import."""
    for package in PACKAGES:
        folder = Path(importlib.import_module(package).__file__).parent
        for path in folder.rglob("__init__.py"):
            module = ".".join(path.parent.relative_to(folder.parent).parts)
            assert ("__all__" in path.read_text(encoding="utf-8")) == (module in PUBLIC), module


def test_no_name_is_exposed_twice_in_a_package() -> None:
    """By name, and by what it stands for."""
    for package in PACKAGES:
        names = [name for module, own in PUBLIC.items() if module.split(".")[0] == package for name in own]
        assert len(set(names)) == len(names), {name for name in names if names.count(name) > 1}
        values = [getattr(importlib.import_module(module), name) for module, own in PUBLIC.items()
                  if module.split(".")[0] == package for name in own]  # fmt: skip
        named = [id(value) for value in values if hasattr(value, "__name__")]
        assert len(set(named)) == len(named)


def test_names_of_other_packages_are_listed_as_re_exported() -> None:
    for module, names in PUBLIC.items():
        package = module.split(".")[0]
        foreign = {name for name in names if definition(module, name)[0].split(".")[0] != package}
        item = re.findall(rf"^{RE_EXPORTED}((?:.*\n)(?:  .*\n)*)", sections()[module], flags=re.MULTILINE)
        assert foreign == set(re.findall(r"`(\w+)`", "".join(item))), module
        assert foreign <= set(ti_sim.__all__)
        assert all(getattr(importlib.import_module(module), name) is getattr(ti_sim, name) for name in foreign)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_classes_and_functions_have_docstrings(module: str) -> None:
    for name in PUBLIC[module]:
        value = getattr(importlib.import_module(module), name)
        node = definition(module, name)[1]
        assert node is None or ast.get_docstring(node), f"{module}.{name}"
        assert node is not None or not inspect.isclass(value) or not value.__module__.startswith(PACKAGES), f"{module}.{name}"


# The search of RISP's trials is made of steps of the inversion.
PRIVATE = {
    "studies/risp/trials/search.py": {
        "History", "SearchCheckpoint", "Smoothness", "descend", "needs_registration", "refined", "registered", "refine_whitened",
        "cma_es_search", "wide_gauss_newton",
    },
    "studies/risp/trials/bars.py": {"SearchResult", "History", "Problem", "assess"},
}  # fmt: skip


@pytest.mark.parametrize("room", ["scenes", "studies"])
def test_scenes_and_studies_import_public_names_only(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        private = PRIVATE.get(path.relative_to(ROOT).as_posix(), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.split(".")[0] in PACKAGES]
                assert set(names) <= set(PUBLIC), (path.name, names)
            if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] in PACKAGES:
                names = {alias.name for alias in node.names} - set(PUBLIC.get(node.module, ()))
                assert names <= private, (path.name, node.module, names)


# -- the table of solvers -------------------------------------------------------------------------------------------------

SOLVERS = ("Rigid", "Articulated", "Deformable", "Coupled")
ADAPTERS = dict(zip(SOLVERS, (RigidAdapter, ArticulatedAdapter, DeformableAdapter, CoupledAdapter), strict=True))
NONE = "–"
# Which fields of models, inputs and settings make a feature; every field belongs to one.
FIELDS = {
    "what moves": "body_names link_names link_parent particle_rest parts",
    "joints": "joint_type joint_axis joint_frame joint_coupling",
    "springs, damping and limits of joints": (
        "joint_stiffness joint_rest joint_damping joint_limit_low joint_limit_high joint_limit_stiffness"
    ),
    "dry friction of joints": "joint_dry_friction joint_dry_stiffness joint_dry_damping joint_bristle0",
    "elements": "tet_indices hex_indices tet10_indices tri_indices tri_normal edge_indices spring_indices solid_energy",
    "numbers of each element": "solid_material tri_material edge_material spring_material",
    "start": "body_q0 body_qd0 body_momentum0 contact_bristle0 joint_q0 joint_qd0 particle_q0 particle_qd0",
    "mass": "body_mass body_inertia link_mass link_com link_inertia joint_armature particle_mass",
    "contact with the ground": "ground_height contact_points contact body_contact link_contact particle_contact",
    "bristles and contact radii": "has_bristles has_contact_radii body_bristle body_radius link_bristle",
    "contact between bodies": "collision_shape collision_pairs particles margin",
    "self-contact": "contact_triangles self_thickness self_contact",
    "motors and servos": "motor_gain motor_limit servo_stiffness servo_damping action servo_target",
    "actuation of elements": "solid_actuation tri_actuation edge_actuation",
    "forces": "force_body force_steps body_force force_point has_wrenches body_wrench link_wrench loaded load gravity",
    "drag and wind": "body_drag wind",
    "held particles": "fixed prescribed prescribed_qd",
    "time steps": "dt substeps",
    "largest distance": "max_distance",
    "convergence of implicit steps": "implicit",
}  # fmt: skip
# The choice of a setting is a row of its own.
CHOICES = {"integrator", "plan"}
PARTS = {"articulated", "deformable", "links"}  # of coupled models and inputs, which are models and inputs; "particles" is both


def part(solver: str, kind: str) -> type:
    """A class of a solver: its Model, Inputs, Settings, Solver or Rollout."""
    return getattr(ti_sim, f"{solver}{kind}")


def own_fields(solver: str) -> list[str]:
    """Fields of model, inputs and settings."""
    if solver == "Coupled":
        return [field.name for kind in ("Model", "Settings") for field in fields(part(solver, kind)) if field.name not in PARTS]
    return [field.name for kind in ("Model", "Inputs", "Settings") for field in fields(part(solver, kind))]


def code_of(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or NONE


def fields_cell(solver: str, feature: str) -> str:
    """Fields of a solver that make a feature; a coupled one also has those of its two parts."""
    names = FIELDS[feature].split()
    own = [name for name in own_fields(solver) if name in names]
    if solver != "Coupled" or feature in ("time steps", "largest distance", "convergence of implicit steps"):
        return code_of(own)
    given = [other.lower() for other in ("Articulated", "Deformable") if any(name in names for name in own_fields(other))]
    parts = {0: [], 1: [f"as {given[0]}"] if given else [], 2: ["as both"]}[len(given)]
    return ", ".join([*parts, *([code_of(own)] if own else [])]) or NONE


def choices(solver: str, setting: str) -> tuple[str, ...]:
    """What a setting may be; () where there is none."""
    return get_args(get_type_hints(part(solver, "Settings")).get(setting, ()))


def leaves(inputs: type) -> int:
    """Number of arrays of inputs, those of its parts too."""
    hints = get_type_hints(inputs)
    nested = [hints[field.name] for field in fields(inputs)]
    return sum(leaves(kind) if isinstance(kind, type) and issubclass(kind, Arrays) else 1 for kind in nested)


def both(cells: dict[str, str]) -> str:
    """Cell of the coupled solver for what one of its parts has."""
    given = [name.lower() for name in ("Articulated", "Deformable") if cells[name] != NONE]
    return {0: NONE, 1: f"as {given[0]}" if given else NONE, 2: "as both"}[len(given)]


def integrators(solver: str) -> str:
    given = choices(solver, "integrator")
    if not given:
        assert "semi-implicit Euler" in part(solver, "Settings").__doc__
    return code_of(given or ("semi_implicit",))


def tape(solver: str) -> str:
    """A tape has the frames of its solver's rollouts."""
    tapes = [name for name in ti_sim.__all__ if inspect.isclass(item := getattr(ti_sim, name)) and issubclass(item, SolverTape)
             and item.output_names == part(solver, "Solver").frame_names]  # fmt: skip
    return code_of(tapes)


def gradient(solver: str) -> str:
    """The adjoint of a rollout is one of the inputs' class, with as many arrays."""
    inputs = part(solver, "Inputs")
    returned: Any = inspect.signature(part(solver, "Solver")._differentiate).return_annotation
    assert returned == inputs.__name__
    return f"all {leaves(inputs)} inputs"


def made_rows() -> dict[str, dict[str, str]]:
    """The table as the code has it."""
    rows = {feature: {solver: fields_cell(solver, feature) for solver in SOLVERS} for feature in FIELDS}
    rows["kinds of joints"] = dict.fromkeys(SOLVERS, NONE) | {"Articulated": ", ".join(JOINT_TYPES)}
    rows["kinds of elements"] = dict.fromkeys(SOLVERS, NONE) | {"Deformable": ", ".join(FAMILIES)}
    rows["energies of solids"] = dict.fromkeys(SOLVERS, NONE) | {"Deformable": ", ".join(ENERGIES)}
    rows["shapes that collide"] = dict.fromkeys(SOLVERS, NONE) | {"Articulated": ", ".join(get_args(ShapeKind))}
    for feature in ("kinds of joints", "kinds of elements", "energies of solids", "shapes that collide"):
        rows[feature]["Coupled"] = both(rows[feature])
    rows["integrators"] = {solver: integrators(solver) for solver in SOLVERS}
    rows["execution plans"] = {solver: code_of(choices(solver, "plan")) for solver in SOLVERS}
    adaptive = {solver: ADAPTERS[solver].simulate is not SolverAdapter.simulate for solver in SOLVERS}
    option = "`SolverOptions(adaptive=True)`"
    rows["adaptive steps in scenes"] = {solver: option if own else NONE for solver, own in adaptive.items()}
    rows["frames of a rollout"] = {solver: code_of(part(solver, "Solver").frame_names) for solver in SOLVERS}
    rows["forces at a state"] = {solver: code_of(part(solver, "Solver").force_names) for solver in SOLVERS}
    rows["gradients"] = {solver: gradient(solver) for solver in SOLVERS}
    rows["recorded on a tape by"] = {solver: tape(solver) for solver in SOLVERS}
    return rows


def shown_rows() -> dict[str, dict[str, str]]:
    """The table of the page."""
    lines = [line for line in PAGE.split("## Features of each solver")[1].splitlines() if line.startswith("|")]
    head, _, *rest = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert head == ["", *SOLVERS]
    return {feature: dict(zip(SOLVERS, cells, strict=True)) for feature, *cells in rest}


def test_every_cell_of_the_table_is_what_the_code_has() -> None:
    made, shown = made_rows(), shown_rows()
    assert list(shown) == list(made)
    for feature, cells in made.items():
        assert shown[feature] == cells, feature


def test_every_solver_is_public_and_in_the_table() -> None:
    public = [item for name in ti_sim.__all__ if inspect.isclass(item := getattr(ti_sim, name)) and issubclass(item, Solver)]
    assert {item.__name__ for item in public} == {"Solver", *(f"{solver}Solver" for solver in SOLVERS)}
    for solver in SOLVERS:
        assert {f"{solver}{kind}" for kind in ("Model", "Inputs", "Settings", "Solver", "Rollout")} <= set(ti_sim.__all__)


def test_every_field_of_a_solver_is_in_the_table() -> None:
    """A new input or setting needs a row."""
    for solver in SOLVERS:
        named = [name for names in FIELDS.values() for name in names.split()]
        assert len(set(named)) == len(named)
        assert set(own_fields(solver)) <= {*named, *CHOICES}, solver
