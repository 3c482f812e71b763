"""Arguments of every public function and class of docs/api.md are checked in one way; found by introspection, no kernels run."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import risp_torch
from tests.reference.malformed import check_wrong_types_are_refused
from ti_sim.base.rules import arguments_of

PAGE = Path(risp_torch.__file__).parents[1] / "docs" / "api.md"
# Classes that functions return or the library builds: users make none of them.
RESULTS = {
    "ActionEstimate", "ArticulatedRollout", "Batch", "CameraEstimate", "CameraRecord", "Colours", "Comparison", "Control",
    "ControlledRollout", "ConvergenceError", "CoupledRollout", "DataFile", "DataSet", "DataSource", "DeformableRollout",
    "Derived", "DivergenceError", "ElementNumbers", "ErrorRow", "Evaluation", "FetchResult", "Film", "FilmFacts",
    "Forces", "FragmentWeights", "Generated", "GradcheckReport", "History", "Inversion", "MassProperties", "MeasuredFilm",
    "MeshNeighbours", "MeshTopology", "MotionFit", "Observability", "Picture", "PolicySearchResult",
    "PredictionErrors", "RenderResult", "ReplanResult", "RigidRollout", "RunFolder", "Runtime", "SharedNormalEquations",
    "SmokeRollout", "StateErrors", "States", "TestSet", "TrackedPoses", "TriangleMesh", "Uncertainty", "Unknowns", "Variant",
}  # fmt: skip
# Inputs of solvers and renderers, whose arrays are checked against the model that they are handed to with.
RESULTS |= {"ArticulatedInputs", "CoupledInputs", "DeformableInputs", "RenderInputs", "RigidInputs", "SmokeInputs"}
RESULTS |= {"present_inputs"}
# Records that check themselves in their initialiser, base classes and protocols, and the checks.
RESULTS |= {
    "Appearance", "array", "ArticulatedSolver", "checked", "CoupledSolver", "DeformableSolver", "DeformableTape", "Loss",
    "number_parser", "Param", "PictureLoss", "render_tape", "RigidSolver", "RigidTape", "Rule", "SmokeSolver", "Solver", "Source",
    "StateHead", "StoreAll", "Tape", "write_photoreal_frames",
}  # fmt: skip


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions and classes of the page."""
    for path in re.findall(r"^## `([\w.]+)`", PAGE.read_text(encoding="utf-8"), re.M):
        module = importlib.import_module(path)
        for name in module.__all__:
            item = getattr(module, name)
            known = inspect.isfunction(item) or (isinstance(item, type) and item.__init__ is not object.__init__)
            if known and not (isinstance(item, type) and issubclass(item, Exception)) and name not in RESULTS:
                yield f"{path}.{name}", item


PUBLIC = dict(public())


def called(target: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """The function that has the arguments of a function or class, and an instance for it; None for functions and dataclasses."""
    if not isinstance(target, type) or dataclasses.is_dataclass(target) and not issubclass(target, risp_torch.Scene):
        return target, None
    return target.__init__, object.__new__(target)


@pytest.mark.parametrize("name", PUBLIC)
def test_wrong_types_are_refused_by_name(name: str) -> None:
    function, instance = called(PUBLIC[name])
    for argument, parameter in inspect.signature(function).parameters.items():
        if argument in arguments_of(function) and parameter.kind is not parameter.VAR_POSITIONAL:
            check_wrong_types_are_refused(function, argument, instance)


def test_the_page_is_read() -> None:
    assert len(PUBLIC) > 180 and sum(len(arguments_of(called(target)[0])) for target in PUBLIC.values()) > 700
