"""Every number that the authoring surface takes is checked in one way, found here by introspection; no kernels run."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

import risp_torch
import ti_sim.meshes
from risp_torch import Scene
from tests.reference.malformed import call, check_refused
from ti_render import RasterSettings, ShadowSettings
from ti_sim import Checkpoint, Param, UserError
from ti_sim.base.rules import Argument, Rule, arguments_of, checked

# No numbers that an author gives: what scenes and files are read from or written to, finished arrays, and results.
NOT_WRITTEN = {"States", "Forces", "load_scene", "scene_names", "Joint", "SheetMesh", "SolidMesh", "quadratic"}
NOT_WRITTEN |= {"read_sheet_mesh", "read_solid_mesh", "write_solid_mesh"}
# Arguments that hold numbers and are checked by what reads them: a choice of particles or frames, arrays of a mesh, states.
READ_ELSEWHERE = {"fixed", "particles", "where", "texture", "image", "vertices", "faces", "value", "record", "material_batch"}
READ_ELSEWHERE |= {"frames", "states", "parameters", "actions", "state", "values", "placement", "worlds", "images", "cameras"}
READ_ELSEWHERE |= {"obstacle"}


def authoring() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Everything that a scene is written with."""
    for module in (risp_torch, ti_sim.meshes):
        for name in module.__all__:
            item = getattr(module, name)
            where = getattr(item, "__module__", "").startswith(("risp_torch.scene.", "ti_sim.shapes.", "ti_sim.meshes."))
            if where and name not in NOT_WRITTEN:
                yield name, item
    for name, method in inspect.getmembers(Scene, inspect.isfunction):
        if name.startswith(("add_", "set", "resize_")) or name in ("rollout", "render"):
            yield name, method
    yield "look_at", risp_torch.Camera.look_at
    yield from (("RasterSettings", RasterSettings), ("ShadowSettings", ShadowSettings), ("Checkpoint", Checkpoint))


def checks(target: Callable[..., Any]) -> dict[str, Argument]:
    """What the arguments of a class, function or method must be."""
    return arguments_of(target.__init__ if target is Scene else target)


AUTHORING = dict(authoring())
NUMBERS = {
    name: {argument: found for argument, found in checks(target).items() if found.rule is not None}
    for name, target in AUTHORING.items()
}  # fmt: skip


CHOICES = [(name, argument) for name, target in AUTHORING.items() for argument, found in checks(target).items() if found.choices]


@pytest.mark.parametrize(("name", "argument"), CHOICES)
def test_words_that_are_none_of_the_choices_are_refused(name: str, argument: str) -> None:
    """Misspelt ones, other types, and values that equal a choice without being one."""
    target, needs = AUTHORING[name], checks(AUTHORING[name])
    instance = object.__new__(Scene) if "self" in inspect.signature(target).parameters else None
    choices = needs[argument].choices
    for value in (f"{choices[0]}h", "", 0, True, ["down"], *([] if needs[argument].optional else [None])):
        with pytest.raises(UserError, match=rf"{argument} .* is unknown: choose .*{choices[-1]!r}"):
            call(target, needs, argument, value, instance)


@pytest.mark.parametrize("name", [name for name, numbers in NUMBERS.items() if numbers])
def test_malformed_numbers_are_refused_by_name(name: str) -> None:
    target = AUTHORING[name]
    instance = object.__new__(Scene) if "self" in inspect.signature(target).parameters else None
    for argument in NUMBERS[name]:
        check_refused(target, checks(target), argument, instance)


def test_the_search_for_numbers_finds_them() -> None:
    """None of the authoring surface's numbers is left to chance: what holds numbers has a rule, or is named above."""
    assert len(AUTHORING) > 40 and sum(map(len, NUMBERS.values())) > 200
    for name, target in AUTHORING.items():
        target = target.__init__ if target is Scene else target
        hints, found = get_type_hints(inspect.unwrap(target), include_extras=True), arguments_of(target)
        for argument in inspect.signature(target).parameters:
            if argument in found or argument in READ_ELSEWHERE or argument == "self":
                continue
            parts = {hints[argument], *get_args(hints[argument])}
            assert not parts & {int, float, Any, np.ndarray, Param}, f"{name}: {argument} has no rule"


def test_rules_let_through_what_they_should() -> None:
    number, vector = Rule(param=True), Rule(shape=(3,), param=True)
    for value in (1, 1.5, np.float32(2.0), np.array(3), torch.tensor(1.0, requires_grad=True), Param(2.0)):
        number.check("x", value)
        vector.check("x", value)  # one number for all entries
    for value in ((1, 2, 3), [1.0, 2, np.float64(3)], np.ones(3), torch.ones(3), Param([1.0, 2.0, 3.0])):
        vector.check("x", value)
    Rule(infinite=True).check("x", math.inf)
    Rule(integer=True, minimum=1).check("x", np.int64(1))
    for rule in (Rule(minimum=1, maximum=4), Rule(above=0), Rule(above=0, below=1), Rule(minimum=0, below=1), Rule(shape=(3,))):
        rule.check("x", rule.example)


def test_what_is_no_number_is_checked_by_its_class() -> None:
    @checked
    def take(name: str, *, flag: bool = False, surface: risp_torch.Surface | None = None, rest: Any = None) -> str:
        return name

    take.__globals__.setdefault("risp_torch", risp_torch)
    assert take("a", flag=np.bool_(True), surface=None, rest=3) == "a"
    for arguments, words in (
        ({"name": 3}, "take: name is 3: give a text"),
        ({"name": "a", "flag": 1}, "a.flag is 1: give True or False"),
        ({"name": "a", "surface": "red"}, "a.surface is 'red': give a Surface"),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            take(**arguments)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        take("a", colour=1)


def test_scenes_refuse_more_steps_than_can_be_counted() -> None:
    with pytest.raises(UserError, match="more steps than are counted"):
        Scene(frame_dt=1e-3, frames=10**6, substeps=10**6)
    scene = Scene(frame_dt=1e-3, frames=2, substeps=1)
    scene.add_rigid("die", shape=ti_sim.Box(1, 1, 1), mass=1.0)
    scene.add_force("push", body="die", start=0.0, duration=1e300, force=(1.0, 0.0, 0.0))
    assert scene.applied_forces[0].end_step == 2**31 - 1
    _ = scene.simulator.solver  # its table of windows holds 32 bits


def test_frames_of_a_film_are_checked() -> None:
    scene = Scene(frame_dt=1e-3, frames=2, substeps=1)
    scene.add_rigid("die", shape=ti_sim.Box(1, 1, 1), mass=1.0)
    for frames in (2.5, "all", [9], math.nan):
        with pytest.raises(UserError, match="render: frames is .*: give a slice or list of frame numbers from 0 to 2"):
            scene.render(torch.zeros(1, 3, 1, 7), frames=frames)
