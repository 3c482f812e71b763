"""Actuations with several rows in a frame: the same motion as rows that are held, and the gradient of each row."""

import numpy as np
import pytest
import torch

from risp_torch import Actuation, Bending, Checkpoint, Elastic, Scene, Shell, SolverOptions, Start, UserError
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from ti_sim.meshes import box_tets, sheet_grid

FRAMES, SUBSTEPS = 3, 4
NAMES = ("block.actuation", "cloth.actuation", "cloth.bending.actuation")


def actuated(controls: int, plan: str = "auto") -> Scene:
    """A block and a cloth that fly; actuations are those of 2 rows a frame, each repeated where there are more."""
    scene = Scene(frame_dt=0.008, frames=FRAMES, substeps=SUBSTEPS, controls=controls, solver=SolverOptions(plan=plan))
    draw = np.random.default_rng(3)
    block, sheet = box_tets((0.2, 0.2, 0.2), (1, 1, 1)), sheet_grid((0.2, 0.2), (1, 1))
    rows = [
        np.repeat(draw.uniform(-0.1, 0.1, (2 * FRAMES, count)), controls // 2, axis=0)
        for count in (len(block.indices), len(sheet.triangles), 1)
    ]
    scene.add_solid(
        "block", mesh=block, material=Elastic(E=2e3, nu=0.3, damping=1.0), density=100.0, actuation=Actuation(values=rows[0]),
    )  # fmt: skip
    scene.add_cloth(
        "cloth", mesh=sheet,
        material=Shell(mu=20.0, lam=20.0, bending=Bending(stiffness=0.02, actuation=Actuation(values=rows[2]))), density=0.5,
        start=Start(position=(0.0, 0.0, 0.5)), actuation=Actuation(values=rows[1]),
    )  # fmt: skip
    return scene


def motion_and_gradient(scene: Scene) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Frames, and the gradients of a functional of them, summed over the rows that stand for one of two a frame."""
    rows = {name: torch.tensor(scene.table[name].value)[None].requires_grad_() for name in NAMES}
    states = scene.rollout(rows, adjoint=Checkpoint(every=5))
    (states.particle_q**2 + states.particle_qd**3).sum().backward()
    sums = {name: row.grad.unflatten(1, (2 * FRAMES, -1)).sum(2) for name, row in rows.items()}
    return states.particle_q.detach(), sums


@pytest.mark.parametrize("plan", ["world", "element"])
def test_rows_that_are_repeated_give_the_same(plan: str) -> None:
    expected, sums = motion_and_gradient(actuated(2, plan))
    motion, repeated = motion_and_gradient(actuated(4, plan))
    torch.testing.assert_close(motion, expected, rtol=0, atol=1e-14)
    for name in NAMES:
        assert sums[name].abs().min() > 0
        torch.testing.assert_close(repeated[name], sums[name])


def test_the_gradient_of_every_row() -> None:
    scene = actuated(2)

    def loss(rows: dict[str, torch.Tensor]) -> torch.Tensor:
        states = scene.rollout({name: row[None] for name, row in rows.items()})
        return 1e3 * (states.particle_q**2).sum() + (states.particle_qd**3).sum()

    report = check_torch(loss, {name: np.asarray(scene.table[name].value) for name in NAMES}, step=1e-4)
    assert report.ok, report.table()


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="controls=3 and substeps=4: give a number of controls that divides the substeps"):
        Scene(frame_dt=0.01, frames=2, substeps=4, controls=3)
    scene = Scene(frame_dt=0.01, frames=2, substeps=4, controls=2)
    with pytest.raises(UserError, match=r"a.actuation has shape \(2, 5\), and \(4, 5\) is needed \(2 rows a frame interval"):
        scene.add_solid(
            "a", mesh=box_tets((1, 1, 1), (1, 1, 1)), material=Elastic(E=1e3, nu=0.3), density=1.0,
            actuation=Actuation(values=np.zeros((2, 5))),
        )  # fmt: skip
    with pytest.raises(UserError, match="block.actuation is given for 3 frame intervals, and 4 are simulated"):
        actuated(2).rollout(frames=4)
