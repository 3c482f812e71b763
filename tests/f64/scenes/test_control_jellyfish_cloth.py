"""The jellyfish and the thrown cloth: their meshes and masses, their goals, and gradients of their policies."""

import math

import numpy as np
import pytest
import torch
from torch.func import functional_call

from risp_torch import Checkpoint, Scene
from risp_torch.control import ControlTask, GoalLoss
from risp_torch.control.rollouts import ControlledRollout
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from scenes import cloth_control, jellyfish
from ti_sim.deformable.bending import bending_edges


def short(module: object) -> tuple[Scene, ControlTask]:
    """Three frames of a scene in small pictures, and its task with blurs that suit them."""
    options = {"cells": (3, 2)} if module is cloth_control else {"controls": 2}
    scene = module.make_scene(frames=3, size=24, **options)
    if module is jellyfish:  # drag has a kink where a triangle does not move along its normal
        scene.set("jellyfish.velocity", (0.3, 0.2, 0.5))
    return scene, module.make_control(scene)


def test_the_jellyfish_has_a_round_bell_and_six_tentacles() -> None:
    mesh = jellyfish.jellyfish_mesh()
    assert len(mesh.triangles) == 6 * 5**2 + 6 * 7 == 192 and len(mesh.vertices) == 91 + 6 * 7
    bell, tentacles = mesh.vertices[: jellyfish.BELL_VERTICES], mesh.vertices[jellyfish.BELL_VERTICES :]
    np.testing.assert_allclose(np.linalg.norm(bell, axis=1), jellyfish.RADIUS, rtol=1e-12)
    rim = jellyfish.RADIUS * math.cos(jellyfish.OPENING)
    assert bell[:, 2].min() == pytest.approx(rim) and tentacles[:, 2].max() < rim
    assert tentacles[:, 2].min() == pytest.approx(rim - jellyfish.TENTACLE_LENGTH)
    assert np.ptp(mesh.vertices[:, 2]) == pytest.approx(jellyfish.HEIGHT)
    turned = mesh.vertices @ np.array([[0.5, -math.sqrt(0.75), 0], [math.sqrt(0.75), 0.5, 0], [0, 0, 1]])
    assert np.abs(turned[:, None] - mesh.vertices[None]).max(axis=2).min(axis=1).max() < 1e-12, "all sixths are alike"
    assert len(bending_edges(mesh.triangles)) == (3 * 192 - (6 * 5 - 6) - 6 * 8) // 2, "24 free edges of the bell, 8 a tentacle"


def test_edges_that_are_alike_do_the_same() -> None:
    mesh = jellyfish.jellyfish_mesh()
    edges = bending_edges(mesh.triangles)
    groups = jellyfish.edge_groups(mesh, edges)
    assert set(np.bincount(groups)) == {6, 12}
    ends = mesh.vertices[edges[:, 2:]]
    middle, lengths = ends.mean(axis=1), np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    for group in range(groups.max() + 1):
        assert np.ptp(middle[groups == group, 2]) < 1e-6 and np.ptp(lengths[groups == group]) < 1e-6


def test_the_cloth_has_a_cord_in_its_rim() -> None:
    scene = cloth_control.make_scene(cells=(8, 4), size=8)
    mass, vertices = np.asarray(scene.parameters["cloth.mass"].value), scene.deformables[0].vertices
    assert mass.sum() == pytest.approx(1.0 * 2.0**2 + 0.15 * 8.0)
    triangles = scene.deformables[0].elements.indices
    cord = mass - 4.0 / len(triangles) / 3 * np.bincount(triangles.ravel())
    x, y = (np.abs(vertices[:, axis]) > 0.999 for axis in (0, 1))
    wanted = 0.15 * (0.25 * np.where(y, np.where(x, 0.5, 1.0), 0.0) + 0.5 * np.where(x, np.where(y, 0.5, 1.0), 0.0))
    np.testing.assert_allclose(cord, wanted, atol=1e-12)


@pytest.mark.parametrize("cells", [(8, 4), (16, 16), (32, 32)])
def test_steps_are_short_enough(cells: tuple[int, int]) -> None:
    simulator = cloth_control.make_scene(cells=cells, frames=1, size=8).simulator
    assert simulator.adapter.step_warnings(simulator.solver) == []


def test_goals() -> None:
    scene, task = short(jellyfish)
    rest = scene.start_poses(scene.table.values())[0].cpu().numpy()
    for number, heights in ((0, 0.25), (4, 0.5)):
        goal = task.goal(scene, number)
        np.testing.assert_allclose(goal.placement[0] - rest, np.tile([0, 0, heights * task.size], (133, 1)), atol=1e-12)
    actuation = task.policy(scene, 0)().detach()
    assert actuation.shape == (6, 28) and float(actuation.abs().max()) <= jellyfish.MAX_ACTUATION
    scene, task = short(cloth_control)
    ends = np.stack([task.goal(scene, number).placement[-1].cpu().numpy() for number in range(3)])
    starts = np.stack([task.policy(scene, number)().detach().cpu().numpy() for number in range(3)])
    assert np.unique(ends[:, 0, 0]).size == 3 and np.unique(starts[:, 0]).size == 3
    assert (starts >= cloth_control.MIN_VELOCITY).all() and (starts <= cloth_control.MAX_VELOCITY).all()
    again = task.goal(scene, 1).placement[-1].cpu().numpy()
    np.testing.assert_array_equal(again, ends[1])


@pytest.mark.parametrize("module, objective", [(jellyfish, "image"), (jellyfish, "state"), (cloth_control, "image")])
def test_gradients_of_policies(module: object, objective: str) -> None:
    scene, task = short(module)
    aim, policy = GoalLoss(scene, task, task.goal(scene, 0), render_goal=objective == "image"), task.policy(scene, 1)
    weights = {name: value.detach().cpu().numpy() for name, value in policy.named_parameters()}

    def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
        outputs = functional_call(policy, given, ())
        states = scene.rollout({task.controlled_parameter: outputs}, worlds=1, adjoint=Checkpoint(every=11))
        return 1e4 * aim.loss(ControlledRollout(states, outputs), objective)

    report = check_torch(loss, weights, step=1e-4, rtol=1e-4, max_entries=4, floor=1e-6)
    assert report.ok, report.table()
