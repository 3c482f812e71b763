"""The gear and the walker: their meshes, their goals, and gradients of their policies."""

import numpy as np
import pytest
import torch
import trimesh
from torch.func import functional_call

from risp_torch import Checkpoint, Scene, UserError
from risp_torch.control import ControlTask, GoalLoss
from risp_torch.control.rollouts import ControlledRollout
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from scenes import gear, walker
from ti_sim.meshes import gear_tets

RADII, WIDTH = (0.4, 1.0, 1.3), 0.5
TASKS = [(gear, "state"), (walker, "image")]


def polygon_area(corners: np.ndarray) -> float:
    x, y = np.moveaxis(corners, -1, 0)
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


@pytest.mark.parametrize("teeth, cells", [(12, (4, 2, 1, 2)), (3, (2, 1, 1, 1)), (5, (6, 3, 2, 4))])
def test_gears(teeth: int, cells: tuple[int, int, int, int]) -> None:
    mesh = gear_tets(RADII, WIDTH, teeth=teeth, cells=cells)
    around, rim, tooth, axial = cells
    assert len(mesh.indices) == 5 * teeth * (around * rim + around // 2 * tooth) * axial
    surface = mesh.surface()
    outer = trimesh.Trimesh(surface.vertices, surface.faces, process=False)
    assert outer.is_watertight and outer.is_winding_consistent and outer.euler_number == 0  # one hole
    # The outline, corner by corner: the root circle's, and up and down the flanks of every tooth.
    place = np.concatenate([np.arange(around // 2 + 1) / around - 0.25, 0.25 + np.arange(1, (around + 1) // 2) / around])
    angles = 2 * np.pi * (np.arange(teeth)[:, None] + place).ravel() / teeth
    disk = [radius**2 * polygon_area(np.stack([np.cos(angles), np.sin(angles)], axis=1)) for radius in RADII[:2]]
    corner = mesh.vertices[mesh.indices]
    volumes = np.linalg.det(corner[:, 1:] - corner[:, :1]) / 6
    in_rim = np.linalg.norm(corner[:, :, :2], axis=2).max(axis=1) < 1.0 + 1e-9
    assert volumes.min() > 0 and volumes.sum() == pytest.approx(outer.volume, rel=1e-12)
    assert volumes[in_rim].sum() == pytest.approx(WIDTH * (disk[1] - disk[0]), rel=1e-12)
    turn = 2 * np.pi / teeth
    turned = mesh.vertices @ np.array([[np.cos(turn), np.sin(turn), 0], [-np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    assert np.abs(turned[:, None] - mesh.vertices[None]).max(axis=2).min(axis=1).max() < 1e-12, "all teeth are alike"
    assert np.hypot(*mesh.vertices[:, :2].T).max() == pytest.approx(RADII[2]), "the middle of a tip, or its corners"


@pytest.mark.parametrize(
    "radii, options, said",
    [
        ((0.4, 1.3, 1.0), {}, "radii is (0.4, 1.3, 1.0): give those of the hole, of the gaps and of the tips, ascending"),
        ((0.4, 1.0), {}, "radii has shape (2,), and (3,) is needed"),
        (RADII, {"teeth": 2}, "teeth is 2: give a whole number from 3 to 1000"),
        (RADII, {"cells": (3, 2, 1, 2)}, "cells is (3, 2, 1, 2): give an even number around each tooth"),
        (RADII, {"cells": (2, 2, 1)}, "cells has shape (3,), and (4,) is needed"),
    ],
)
def test_gears_that_are_none(radii: tuple[float, ...], options: dict, said: str) -> None:
    with pytest.raises(UserError) as error:
        gear_tets(radii, WIDTH, **options)
    assert str(error.value).startswith(f"gear_tets: {said}")


def test_the_walker_is_symmetric() -> None:
    mesh = walker.walker_mesh()
    assert len(mesh.triangles) == 104 and len(mesh.vertices) == 75
    corner = mesh.vertices[mesh.triangles]
    doubled = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    np.testing.assert_allclose(doubled, np.tile([0, 0, 2.0 * 1.8 / 72], (104, 1)), atol=1e-12)
    centres = corner.mean(axis=1)
    assert np.abs(centres[:, None] * (-1, 1, 1) - centres[None]).max(axis=2).min(axis=1).max() < 1e-12


def test_both_sides_of_the_gear_act_alike() -> None:
    mesh = gear_tets(gear.RADII, gear.WIDTH, teeth=gear.TEETH, cells=gear.CELLS)
    pairs, centres = gear.mirror_pairs(mesh), mesh.vertices[mesh.indices].mean(axis=1)
    assert len(pairs) == 1120 and np.bincount(pairs).tolist() == [2] * 560
    first, second = centres[np.argsort(pairs, kind="stable")].reshape(560, 2, 3).transpose(1, 0, 2)
    np.testing.assert_allclose(first, second * (1, 1, -1), atol=1e-12)


def short(module: object, size: int = 32) -> tuple[Scene, ControlTask]:
    """Two frames of a scene, the gear already on the ground."""
    scene = module.make_scene(frames=2, controls=2, size=size)
    if module is gear:
        scene.set("gear.position", (-4.0, 0.0, 1.83))
    return scene, module.make_control(scene)


def test_the_goals_lie_ahead() -> None:
    scene, task = short(gear)
    places = [float(task.goal(scene, number).placement[0, :, 0].mean()) for number in range(6)]
    assert all(0 < place < 5 for place in places) and len(set(places)) == 6
    assert task.policy(scene, 0)().shape == (4, 560) and task.size == 2 * 1.84
    scene, task = short(walker)
    goal = task.goal(scene, 0).placement[0] - scene.start_poses(scene.table.values())[0].cpu().numpy()
    np.testing.assert_allclose(goal, np.tile([1.0, 0, 0], (75, 1)), atol=1e-12)
    assert float(task.policy(scene, 0)().detach().abs().max()) <= 0.2 and task.penalty == 0.1


@pytest.mark.parametrize("module, objective", TASKS)
def test_gradients_of_policies(module: object, objective: str) -> None:
    scene, task = short(module)
    aim, policy = GoalLoss(scene, task, task.goal(scene, 0), render_goal=objective == "image"), task.policy(scene, 1)
    # Along two directions in the space of all weights: what one of them does here is hardly more than roundoff.
    ways = np.random.default_rng(4).standard_normal((2, *policy.weight.shape))
    start, ways = policy.weight.detach(), torch.as_tensor(ways).to(policy.weight)

    def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
        outputs = functional_call(policy, {"weight": start + torch.einsum("k,kes->es", given["along"], ways)}, ())
        states = scene.rollout({task.controlled_parameter: outputs}, worlds=1, adjoint=Checkpoint(every=11))
        return 1e3 * aim.loss(ControlledRollout(states, outputs), objective)

    report = check_torch(loss, {"along": np.zeros(2)}, step=1e-5, rtol=1e-5, min_observable=2)
    assert report.ok, report.table()
