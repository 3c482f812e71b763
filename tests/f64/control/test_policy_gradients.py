"""Gradients of policies: from weights through the motion, the picture and, in a closed loop, what is seen of it."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.func import functional_call

from risp_torch import Scene
from risp_torch.control import ControlTask, FeedbackPolicy, Goal, GoalLoss, RispObserver, StateObserver, closed_loop, open_loop
from risp_torch.control.objectives import blurred
from risp_torch.control.rollouts import PolicySimulator
from risp_torch.control.windows import Windows, joined_states
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from risp_torch.risp import NetworkSettings, RispNetwork
from tests.reference.control_scene import make_control, make_scene


def setting(size: int = 16) -> tuple[Scene, ControlTask, GoalLoss]:
    scene = make_scene(frames=3, size=size)
    task = make_control(scene)
    return scene, task, GoalLoss(scene, task, task.goal(scene, 0))


def check_weights(policy: torch.nn.Module, simulate_policy: PolicySimulator, goal_loss: GoalLoss) -> None:
    """``gradcheck`` of the image objective with respect to every weight of a policy."""
    weights = {name: value.detach().cpu().numpy() for name, value in policy.named_parameters()}

    def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
        driven = simulate_policy(_With(policy, given))
        return 1e3 * goal_loss.loss(driven, "image")

    report = check_torch(loss, weights, step=1e-5, max_entries=6, floor=1e-9)
    assert report.ok, report.table()


class _With(torch.nn.Module):
    """A policy with other weights."""

    def __init__(self, policy: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.policy, self.weights = policy, weights
        self.observations = getattr(policy, "observations", None)

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        return functional_call(self.policy, self.weights, arguments)


def test_open_loop() -> None:
    scene, task, goal_loss = setting()
    check_weights(task.policy(scene, 1), open_loop(scene, task), goal_loss)


def feedback_policy(observer: StateObserver | RispObserver, scene: Scene) -> FeedbackPolicy:
    outputs = len(scene.deformables[0].elements.indices)
    return FeedbackPolicy(observer.size, outputs, hidden=(3,), limit=0.3, seed=2)


def risp_observer(scene: Scene, goal_loss: GoalLoss) -> RispObserver:
    torch.manual_seed(3)
    network = RispNetwork(NetworkSettings(outputs=2, size=64, width=2)).double().requires_grad_(False)
    return RispObserver(scene, network, goal_loss.pictures[-1])


@pytest.mark.parametrize("kind", ["state", "risp"])
def test_closed_loop(kind: str) -> None:
    """Of a network's readings the one before counts, too: the third look remembers what the first answer has moved."""
    scene, task, goal_loss = setting(size=64 if kind == "risp" else 16)
    observer = StateObserver(scene, task, goal_loss.target_positions[-1]) if kind == "state" else risp_observer(scene, goal_loss)
    every = 2 if kind == "state" else 1
    check_weights(feedback_policy(observer, scene), closed_loop(scene, task, observer, every=every), goal_loss)


def test_windows_are_one_motion() -> None:
    """Rows over time, of the actuation and of the load, are those of the window's frames."""
    scene = make_scene(frames=5)
    rows = torch.tensor(np.random.default_rng(0).uniform(-0.2, 0.2, (10, 4)))
    whole = scene.rollout({"sheet.actuation": rows}, worlds=1)
    windows = Windows(scene)
    parts, state = [], None
    for first, count in ((0, 2), (2, 2), (4, 1)):
        given = {"sheet.actuation": rows[2 * first : 2 * (first + count)]}
        parts.append(windows.rollout(first, count, given, state=state))
        state = parts[-1].last
    joined = joined_states(parts)
    torch.testing.assert_close(joined.particle_q, whole.particle_q, rtol=0, atol=1e-14)
    torch.testing.assert_close(joined.particle_qd, whole.particle_qd, rtol=0, atol=1e-13)


@pytest.mark.parametrize("measure, direction", [("center", None), ("along", (0.0, 0.0, -2.0)), ("vertices", None)])
def test_measures(measure: str, direction: tuple[float, ...] | None) -> None:
    """Errors and losses of a goal that lies (3, 0, 4) cm beside the last frame, in parts of the size of 20 cm."""
    scene, task, _ = setting()
    task = replace(task, measure=measure, direction=direction, penalty=0.0)
    driven = open_loop(scene, task)(task.policy(scene, 0))
    places = driven.states.particle_q[0, -1:].detach() - torch.tensor((0.03, 0.0, 0.04), dtype=torch.float64)
    goal_loss = GoalLoss(scene, task, Goal(places), render_goal=False)
    expected = 0.2 if measure == "along" else 0.25
    assert goal_loss.error(driven) == pytest.approx(expected, rel=1e-9)
    assert float(goal_loss.loss(driven, "state").detach()) == pytest.approx(expected**2, rel=1e-9)


def test_the_centre_is_that_of_mass() -> None:
    """What is measured and what is told of a motion, for particles of unlike masses in two bodies."""
    masses, places = np.array([1.0, 2.0, 5.0]), np.random.default_rng(1).normal(size=(3, 3, 3))
    bodies = [SimpleNamespace(mass=lambda values, part=part: torch.as_tensor(masses[part])[None]) for part in ([0, 1], [2])]
    table = SimpleNamespace(values=lambda: {})
    scene = Mock(spec=Scene, frames=2, particle_count=3, deformables=bodies, table=table, camera=None)
    task = replace(setting()[1], measure="center", direction=None, penalty=0.0)
    driven = SimpleNamespace(states=SimpleNamespace(particle_q=torch.as_tensor(places)[None]), outputs=torch.zeros(1))
    goal_loss = GoalLoss(scene, task, Goal(np.zeros((1, 3, 3))), render_goal=False)
    centers = np.einsum("p,tpk->tk", masses, places) / masses.sum()
    np.testing.assert_allclose(goal_loss.displacement(driven), centers[2] - centers[0], rtol=1e-12)
    assert goal_loss.error(driven) == pytest.approx(np.linalg.norm(centers[2]) / task.size, rel=1e-12)
    assert float(goal_loss.loss(driven, "state")) == pytest.approx((centers[2] @ centers[2]) / task.size**2, rel=1e-12)


def test_blur_is_a_gaussian() -> None:
    point = torch.zeros(1, 33, 41, 1, dtype=torch.float64)
    point[0, 16, 20] = 1.0
    picture = blurred(point, 2.0)[0, :, :, 0]
    assert float(picture.sum()) == pytest.approx(1.0)
    y, x = np.mgrid[-16:17, -20:21]
    ratio = picture[16, 23] / picture[16, 20]
    assert float(ratio) == pytest.approx(np.exp(-9 / 8))
    assert float((picture * torch.tensor(x**2 + y**2)).sum()) == pytest.approx(8.0, rel=0.05)
