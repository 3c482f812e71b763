"""Whether implicit steps converge with friction: blocks, cloths and strips thrown on rough ground, with drawn numbers.

`python -m studies.engine.implicit_friction --count 200 --seed 1 --out runs/implicit_friction` resumes an interrupted study: each
finished scene is a line of results.jsonl. With --page it writes the table of docs/implicit.md.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.spatial.transform import Rotation

from risp_torch import Bending, Contact, Elastic, Scene, Shell, Start
from studies.markdown import markdown
from studies.numbered_runs import NumberedStudy
from ti_sim import ConvergenceError
from ti_sim.meshes import box_hexes, box_tet10s, sheet_grid

KINDS, INTEGRATORS = ("block", "cloth", "strip"), ("backward_euler", "bdf2", "sdirk2")
FRAME, FRAMES = 0.02, 6  # s
SHARES = ((0.0, 0.5), (0.5, 1.0), (1.0, 1.5))  # ranges of the friction coefficient in the table
GRAVITY = 9.81


@dataclass(frozen=True)
class Case:
    """A scene of the study.

    Attributes:
        number, seed: what its numbers are drawn from.
        kind: of the body.
        integrator: of the scene.
        substeps: steps of a frame of 20 ms.
        friction: coefficient.
    """

    number: int
    seed: int
    kind: str
    integrator: str
    substeps: int
    friction: float

    @classmethod
    def of(cls, number: int, seed: int) -> Self:
        """The scene of a number: kinds and integrators in turns, steps of 1 to 20 ms, coefficients of friction up to 1.5."""
        draw = np.random.default_rng([seed, number])
        substeps = int(np.rint(np.exp(draw.uniform(0.0, np.log(20.0)))))
        return cls(number, seed, KINDS[number % 3], INTEGRATORS[number // 3 % 3], substeps, float(draw.uniform(0.0, 1.5)))

    def scene(self) -> Scene:
        """The scene, which starts above the ground."""
        draw = np.random.default_rng([self.seed, self.number, 1])
        rotation = draw.uniform(-0.4, 0.4, 3)
        velocity = (*draw.uniform(-1.5, 1.5, 2), draw.uniform(-1.5, -0.2))
        stiffness = float(np.exp(draw.uniform(*np.log((1e4, 1e6)))))
        if self.kind == "block":
            mesh = box_hexes((0.2, 0.1, 0.1), (int(draw.integers(2, 5)), 2, 2))
            body: dict[str, Any] = {"material": Elastic(E=stiffness, nu=0.4, damping=1e-4 * stiffness), "density": 900.0}
            mass = 900.0 * 0.002
        elif self.kind == "cloth":
            mesh = sheet_grid((0.2, 0.2), (4, 4))
            bending, membrane = Bending(stiffness=2e-3, damping=1e-4), 1e-3 * stiffness
            body = {"material": Shell(mu=membrane, lam=membrane, damping=2e-6 * stiffness, bending=bending), "density": 0.2}
            mass = 0.2 * 0.04
        else:
            mesh = box_tet10s((0.2, 0.06, 0.004), (4, 1, 1))
            body = {"material": Elastic(E=1e3 * stiffness, nu=0.35, damping=stiffness), "density": 1200.0}
            mass = 1200.0 * 4.8e-5
        weight = GRAVITY * mass / len(mesh.vertices)  # of a particle
        depth, creep = np.exp(draw.uniform(*np.log((5e-6, 5e-4)))), np.exp(draw.uniform(*np.log((1e-3, 5e-2))))
        ke = weight / depth
        contact = Contact(
            stiffness=ke, damping=draw.uniform(0.0, 2e-3) * ke, friction=self.friction, friction_stiffness=weight / creep
        )
        lowest = Rotation.from_rotvec(rotation).apply(mesh.vertices)[:, 2].min()
        scene = Scene(frame_dt=FRAME, frames=FRAMES, substeps=self.substeps, integrator=self.integrator, name=self.kind)
        scene.add_ground(contact=contact, height=float(lowest) - draw.uniform(1e-4, 5e-3))
        add = scene.add_cloth if self.kind == "cloth" else scene.add_solid
        add("body", mesh=mesh, start=Start(rotation=rotation, velocity=velocity), **body)
        return scene


def run(case: Case) -> dict[str, Any]:
    """Simulate a scene, and that with the substeps that its error names: the row of the study."""
    began, message = time.perf_counter(), _error_of(case)
    named = re.search(r"set substeps=(\d+)", message)
    remedied = bool(named) and not _error_of(replace(case, substeps=int(named[1])))
    return {
        "number": case.number, "seed": case.seed, "kind": case.kind, "integrator": case.integrator, "friction": case.friction,
        "step": FRAME / case.substeps, "converged": not message, "error": message, "remedied": remedied,
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def _error_of(case: Case) -> str:
    """The error of a scene whose steps do not converge, else an empty text."""
    try:
        case.scene().rollout()
    except ConvergenceError as error:
        return str(error)
    return ""


def report(rows: Sequence[dict[str, Any]], seed: int) -> str:
    """Sentence and table of finished scenes: how many converged, of how many.

    Args:
        rows: lines of results.jsonl.
        seed: of the study.
    """

    def share(group: Sequence[dict[str, Any]]) -> str:
        return f"{sum(row['converged'] for row in group)} of {len(group)}" if group else "–"

    cells = [
        [kind, *(
            share([row for row in rows if row["kind"] == kind and low <= row["friction"] < high]) for low, high in SHARES
        )]
        for kind in KINDS
    ]  # fmt: skip
    table = markdown(["scene", *(f"friction {low:g} to {high:g}" for low, high in SHARES)], cells)
    steps = [1e3 * row["step"] for row in rows]
    return (
        f"Seed {seed}: {share(rows)} scenes converged, with steps of {min(steps):.3g} to {max(steps):.3g} ms; "
        f"{sum(row['remedied'] for row in rows)} others did with the substeps that their errors name.\n\n{table}\n"
    )


def _all_converge(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every scene converged, or has an error that names substeps with which it does."""
    return all(row["converged"] or row["remedied"] for row in rows)


STUDY = NumberedStudy(
    module="studies.engine.implicit_friction", summary=__doc__.splitlines()[0], page="docs/implicit.md", count=200, seed=1,
    precision="f64", run_case=lambda index, seed, folder: run(Case.of(index, seed)), report=report, passes=_all_converge,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(STUDY.main())
