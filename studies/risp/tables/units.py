"""Units of work of the tables, each with its own folder and dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from studies.risp.tables.plan import (
    ABLATIONS,
    CHAIN,
    CONFIGS,
    CURVE_SCENE,
    IMAGE_METHODS,
    NETWORKS,
    PAPER_SEARCH,
    SAMPLING_METHODS,
    SAMPLING_SCENE,
    TABLES,
    TablePlan,
)

Kind = Literal["data", "network", "test-set", "evaluation", "target", "trial", "curve", "sampling"]

# Seconds of a unit of the quick preset on one core, before measurements of its kind.
_PRIORS: dict[str, float] = {
    "data": 300, "network": 550, "test-set": 150, "evaluation": 30, "target": 30, "trial": 40, "curve": 150, "sampling": 60,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A piece of work that one process does.

    Attributes:
        name: its folder below the folder of all results.
        kind: kind of work.
        about: its arguments (scene, method, repeat, ...).
        needs: names of the units that it depends on.
    """

    name: str
    kind: Kind
    about: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Units of one group take about the same time."""
        return " ".join(str(self.about[key]) for key in ("scene", "task", "method", "configs") if key in self.about) + self.kind

    @property
    def prior(self) -> float:
        """Estimated time [s]."""
        return _PRIORS[self.kind] * (1.5 if self.kind in ("network", "curve") and self.about["method"] == "full" else 1.0)


def network_name(plan: TablePlan, scene: str, variant: str) -> str:
    """Name of the unit that trains a network."""
    return f"{scene}/{plan.preset.configs}/{variant}-seed{plan.preset.seed}"


def target_name(scene: str, task: str, repeat: int) -> str:
    """Name of the unit that films a target."""
    return f"{scene}/{task}/target-{repeat}"


def trial_name(scene: str, task: str, method: str, repeat: int) -> str:
    """Name of the unit of an inversion."""
    return f"{scene}/{task}/{method}-{repeat}"


def evaluation_name(scene: str, method: str, renderer: str) -> str:
    """Name of the unit that evaluates a predictor on a test set."""
    return f"{scene}/state/{method}-{renderer}"


def planned(plan: TablePlan) -> dict[str, Unit]:
    """All units of a plan by name, in order of dependency."""
    units: dict[str, Unit] = {}
    for unit in _all(plan):
        units.setdefault(unit.name, unit)
    return units


def _all(plan: TablePlan) -> Iterator[Unit]:
    for table in plan.numbered:
        for scene in plan.scenes_of(table):
            yield from _evaluations(plan, scene) if table == "1" else _trials(plan, table, scene)
    if ABLATIONS[0] in plan.tables:
        for configs in CONFIGS:
            for variant in NETWORKS:
                about = {"scene": CURVE_SCENE, "method": variant, "configs": configs}
                yield Unit(name=f"{ABLATIONS[0]}/{variant}-{configs}", kind="curve", about=about)
    if ABLATIONS[1] in plan.tables:
        target = _target(SAMPLING_SCENE, "identify", 0)
        yield target
        for method in SAMPLING_METHODS:
            needed = list(_network(plan, SAMPLING_SCENE, method)) if method in NETWORKS else []
            yield from needed
            about = {"scene": SAMPLING_SCENE, "task": "identify", "method": method, "repeat": 0}
            yield Unit(
                name=f"{ABLATIONS[1]}/{method}", kind="sampling", about=about, needs=_names([target, *needed[-1:]])
            )  # fmt: skip


def _evaluations(plan: TablePlan, scene: str) -> Iterator[Unit]:
    for renderer in plan.preset.renderers:
        test_set = Unit(name=f"test-sets/{scene}-{renderer}", kind="test-set", about={"scene": scene, "renderer": renderer})
        yield test_set
        for method in plan.methods_of("1"):
            needed = list(_network(plan, scene, method)) if method in NETWORKS else []
            yield from needed
            about = {"scene": scene, "method": method, "renderer": renderer}
            name = evaluation_name(scene, method, renderer)
            yield Unit(name=name, kind="evaluation", about=about, needs=_names([test_set, *needed[-1:]]))


def _trials(plan: TablePlan, table: str, scene: str) -> Iterator[Unit]:
    task = TABLES[table]
    for repeat in range(plan.repeats):
        for method in plan.methods_of(table):
            searches = [method, PAPER_SEARCH] if method == "full" and repeat < plan.preset.paper_search else [method]
            for search in ["full", CHAIN] if method == CHAIN else searches:
                yield from _trial(plan, scene, task, search, repeat)


def _trial(plan: TablePlan, scene: str, task: str, method: str, repeat: int) -> Iterator[Unit]:
    """An inversion after what it needs."""
    needed = list(_needed(plan, scene, task, "full" if method in (PAPER_SEARCH, CHAIN) else method, repeat))
    yield from needed
    dependencies = _names(unit for unit in needed if unit.kind != "data")
    dependencies += (trial_name(scene, task, "full", repeat),) if method == CHAIN else ()
    about = {"scene": scene, "task": task, "method": method, "repeat": repeat}
    yield Unit(name=trial_name(scene, task, method, repeat), kind="trial", about=about, needs=dependencies)


def _needed(plan: TablePlan, scene: str, task: str, method: str, repeat: int) -> Iterator[Unit]:
    if method in IMAGE_METHODS:
        yield _target(scene, task, repeat)
    if method in NETWORKS:
        yield from _network(plan, scene, method)


def _target(scene: str, task: str, repeat: int) -> Unit:
    about = {"scene": scene, "task": task, "repeat": repeat}
    return Unit(name=target_name(scene, task, repeat), kind="target", about=about)


def _network(plan: TablePlan, scene: str, variant: str) -> Iterator[Unit]:
    """The training pictures, then the network."""
    data = f"{scene}/{plan.preset.configs}/data"
    yield Unit(name=data, kind="data", about={"scene": scene})
    about = {"scene": scene, "method": variant}
    yield Unit(name=network_name(plan, scene, variant), kind="network", about=about, needs=(data,))


def _names(units: Iterable[Unit]) -> tuple[str, ...]:
    return tuple(unit.name for unit in units)
