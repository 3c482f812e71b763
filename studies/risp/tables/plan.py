"""Plan of the tables: which cells to compute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from risp_torch.programs import unknown_name_error
from studies.risp.tables.presets import TablePreset
from studies.risp.trials.trial import SCENES
from ti_sim import Count, UserError, checked

TABLES = {"1": "state", "2": "identify", "3": "imitate", "4": "reach"}  # the paper's number -> task
ABLATIONS = ("ablation-configs", "ablation-sampling")
METHODS = ("average", "random", "pixel", "perceptual", "matched", "no-grad", "full", "chain", "state")
READERS = ("average", "random", "no-grad", "full")  # methods of table 1, which use single pictures
_OTHER_THAN = {"2": ("average",)}  # a prior that is symmetric about the truth has it as its mean
BLIND = ("average", "random")
IMAGE_METHODS = ("pixel", "perceptual", "matched", "no-grad", "full", "chain")
NETWORKS = ("no-grad", "full")
CHAIN = "chain"  # the full method, then the solved look
PAPER_SEARCH = "full-rmsprop"  # the full method with the paper's own optimiser
CONFIGS = ("1", "10", "each")
SAMPLING_METHODS = ("pixel", "no-grad", "full")
CURVE_SCENE, SAMPLING_SCENE = "quadrotor", "rod"


@checked
@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """Plan of some tables.

    Attributes:
        tables: keys of ``TABLES`` and names of ``ABLATIONS``.
        scenes: scenes of the tables; the paper's tables 3 and 4 have no cube.
        methods: names from ``METHODS``.
        repeats: films and first guesses of every cell.
        preset: preset of all sizes.
        out: folder of all results.
        device: where kernels and networks run: "auto", "cpu" or "cuda".

    Raises:
        UserError: a name is unknown, or a table has none of the scenes.
    """

    tables: tuple[str, ...]
    scenes: tuple[str, ...] = SCENES
    methods: tuple[str, ...] = METHODS
    repeats: Count = 4
    preset: TablePreset
    out: Path
    device: str = "auto"

    def __post_init__(self) -> None:
        _check("table", self.tables, (*TABLES, *ABLATIONS))
        _check("scene", self.scenes, SCENES)
        _check("method", self.methods, METHODS)
        for table in self.numbered:
            if not self.scenes_of(table):
                raise UserError(
                    f"table {table} has no {', '.join(self.scenes)}: choose among {', '.join(s for s in SCENES if s != 'cube')}"
                )
            if not self.methods_of(table):
                raise UserError(f"table {table} has no {', '.join(self.methods)}: choose among {', '.join(READERS)}")

    @property
    def numbered(self) -> list[str]:
        """The tables of the plan, without ablations."""
        return [table for table in self.tables if table in TABLES]

    def scenes_of(self, table: str) -> list[str]:
        """Scenes of a table, in the paper's order."""
        return [scene for scene in SCENES if scene in self.scenes and (scene != "cube" or table in ("1", "2"))]

    def methods_of(self, table: str) -> list[str]:
        """Methods of a table, in the paper's order."""
        table_methods = READERS if table == "1" else [name for name in METHODS if name not in _OTHER_THAN.get(table, ())]
        return [name for name in METHODS if name in self.methods and name in table_methods]

    def to_json(self) -> str:
        """The plan as text, for worker processes."""
        record = {name: getattr(self, name) for name in ("tables", "scenes", "methods", "repeats", "device")}
        return json.dumps(record | {"preset": self.preset.to_json(), "out": str(self.out)})

    @staticmethod
    def from_json(text: str) -> TablePlan:
        """The plan from the result of ``to_json``."""
        record: Mapping[str, Any] = json.loads(text)
        lists = {name: tuple(record[name]) for name in ("tables", "scenes", "methods")}
        preset, out = TablePreset.from_json(record["preset"]), Path(record["out"])
        return TablePlan(**lists, repeats=record["repeats"], device=record["device"], preset=preset, out=out)


def _check(kind: str, names: Sequence[str], choices: Sequence[str]) -> None:
    for name in names:
        if name not in choices:
            raise unknown_name_error(kind, name, choices)
    if not names:
        raise UserError(f"no {kind} was given: choose among {', '.join(choices)}")
