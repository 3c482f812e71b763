"""Control: policies, searches that resume where they were killed, closed loops, replanning, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import UserError, load_scene, write_frames
from risp_torch.control import (
    ControlTask,
    DirectPolicy,
    FeedbackPolicy,
    Goal,
    GoalLoss,
    SinePolicy,
    control,
    control_times,
    load_control,
    load_policy,
    open_loop,
    optimise,
    replan,
)
from risp_torch.files.run_folder import FinishedError
from risp_torch.files.video import write_picture
from risp_torch.risp import NetworkSettings, RispNetwork, save_network
from tests.reference import control_scene
from tests.reference.control_scene import make_control, make_scene

replan_module = sys.modules["risp_torch.control.replan"]
Risp = Callable[..., tuple[int, str, str]]
FILES = {
    "checkpoint.safetensors", "comparison.mp4", "curves.png", "policy.safetensors", "result.json", "settings.json", "strip.png",
    "target.png",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the scene file small.py."""
    shutil.copy(control_scene.__file__, tmp_path / "small.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def network_file(path: Path, *, scene: str = "small_control", outputs: int = 2) -> Path:
    torch.manual_seed(0)
    save_network(path, RispNetwork(NetworkSettings(outputs=outputs, size=64, width=2)), {"scene": scene})
    return path


# -- policies ---------------------------------------------------------------------------------------------------------------


def test_sine_policy() -> None:
    """limit tanh(W s): within the limit, zero mean over a period for one signal, and the same for the same seed."""
    times = np.linspace(0, np.pi, 64, endpoint=False)
    policy = SinePolicy(5, signals=4, frequency=2.0, limit=0.3, times=times, seed=1)
    values = policy().detach()
    assert values.shape == (64, 5) and 0 < values.abs().max() < 0.3
    torch.testing.assert_close(values[:32], -values[32:], rtol=0, atol=1e-6)  # half a period later
    signals = np.sin(2.0 * times[:, None] + 0.5 * np.pi * np.arange(4))
    expected = 0.3 * np.tanh(signals @ policy.weight.detach().cpu().numpy().T)
    np.testing.assert_allclose(values.cpu().numpy(), expected, atol=1e-6)
    again = SinePolicy(5, signals=4, frequency=2.0, limit=0.3, times=times, seed=1)
    other = SinePolicy(5, signals=4, frequency=2.0, limit=0.3, times=times, seed=2)
    assert torch.equal(again.weight, policy.weight) and not torch.equal(other.weight, policy.weight)
    fading = SinePolicy(5, signals=4, frequency=2.0, limit=0.3, times=times, fade=0.5 * times[-1], seed=1)().detach()
    torch.testing.assert_close(fading[:32], values[:32])
    share = torch.as_tensor((times[-1] - times[32:]) / (0.5 * times[-1])).to(values)
    torch.testing.assert_close(fading[32:], share[:, None] * values[32:])


def test_feedback_and_direct_policies() -> None:
    policy = FeedbackPolicy(3, 2, hidden=(4, 5), limit=0.5, seed=0)
    observation = torch.ones(2, 3, device=next(policy.parameters()).device)
    assert policy(observation).shape == (2, 2) and policy(100 * observation).abs().max() <= 0.5
    start = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(DirectPolicy(start, scale=5.0)().detach().cpu().numpy(), start, rtol=1e-6)


def test_times_of_rows() -> None:
    np.testing.assert_allclose(control_times(make_scene(frames=2, controls=4)), 0.005 * np.arange(8))


# -- searches ---------------------------------------------------------------------------------------------------------------


def searched(objective: str, **options: object) -> object:
    scene = make_scene()
    return control(scene, make_control(scene), objective=objective, seed=1, progress=False, **options)


def test_every_objective_searches() -> None:
    """Image and state go down from the same start; random keeps the least error of policies that differ."""
    image, state, random = (searched(objective).search.history for objective in ("image", "state", "random"))
    assert image.losses[-1] < image.losses[0] and state.losses[-1] < state.losses[0]
    assert image.errors[0] == state.errors[0] == random.errors[0]
    assert len(set(random.errors)) == 4
    curve = random.curve("random")
    assert (np.diff(curve) <= 0).all() and curve[-1] == min(random.errors)


def test_killed_search_goes_on_with_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searched("image", iterations=4).search
    saves, save = [], optimise._save

    def killed(*arguments: object) -> None:
        save(*arguments)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(optimise, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        searched("image", iterations=4, out=tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()
    resumed = searched("image", iterations=4, out=tmp_path / "run").search
    assert len(saves) == 5
    assert resumed.history.losses == whole.history.losses and resumed.history.errors == whole.history.errors
    assert resumed.best == whole.best and torch.equal(resumed.policy.weight, whole.policy.weight)
    scene = make_scene()
    policy = make_control(scene).policy(scene, 7)
    load_policy(tmp_path / "run" / "policy.safetensors", policy)
    assert torch.equal(policy.weight, whole.policy.weight)
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    with pytest.raises(FinishedError, match="holds this run, already finished"):
        searched("image", iterations=4, out=tmp_path / "run")


def test_videos_and_motions_are_targets(folder: Path) -> None:
    """The motion of a policy is the goal that this policy reaches: as states, and as a film of it."""
    scene = make_scene()
    task = replace(make_control(scene), frames="every:2", penalty=0.0)
    drive = open_loop(scene, task)
    with torch.no_grad():
        driven = drive(task.policy(scene, 3))
        motion = Goal(driven.states.particle_q[0])
        pictures = scene.render(driven.states, {})[0]
        write_frames(folder / "target", pictures, fps=50)
        goal_loss = GoalLoss(scene, task, motion)
        assert goal_loss.frames == (2, 4) and goal_loss.error(driven) == 0
        assert float(goal_loss.loss(driven, "image")) == 0 and float(goal_loss.loss(driven, "state")) == 0
    result = control(scene, task, target=folder / "target", seed=3, iterations=1, progress=False)
    assert result.search.history.losses[0] < 1e-5 and np.isnan(result.error)


def test_closed_loops_search() -> None:
    for options in ({"feedback": "state", "every": 3}, {"feedback": "state", "objective": "state"}):
        history = searched(**({"objective": "image", "iterations": 3} | options)).search.history
        assert history.losses[-1] < history.losses[0]


def test_replanning_makes_up_for_a_wrong_model() -> None:
    """A heavier world: with no look the plan's error stays, with a new plan every frame it is smaller."""
    model, world = make_scene(frames=6), make_scene(frames=6)
    world.set("sheet.mass", 0.07)
    goal = Goal(model.deformables[0].rest[None] + (0.04, 0.0, 0.05))
    task = replace(
        make_control(model), measure="along", direction=(1, 0, 0), controlled_parameter="push.force",
        goal=lambda scene, number: goal,
        policy=lambda scene, seed: DirectPolicy(np.zeros(6)), penalty=0.0,
    )  # fmt: skip
    goal_loss = GoalLoss(model, task, goal)
    plan = control(model, task, objective="state", iterations=40, progress=False).search
    assert plan.history.errors[plan.best] < 0.02
    errors = {}
    for every, iterations in ((6, 0), (1, 20)):
        policy = task.policy(model, 0)
        policy.load_state_dict(plan.policy.state_dict())
        result = replan(
            model, world, task, goal_loss, policy, every=every, iterations=iterations, objective="state", progress=False
        )
        assert len(result.predicted_errors) == 6 // every and result.rollout.outputs.shape == (6,)
        assert result.rollout.states.particle_q.shape[1] == 7
        errors[every] = result.error
    assert errors[1] < 0.5 * errors[6]
    # One plan of a right model keeps what it promises.
    right = replan(model, model, task, goal_loss, plan.policy, every=6, iterations=0, objective="state", progress=False)
    assert right.error == pytest.approx(right.predicted_errors[0], abs=1e-6)
    assert right.error == pytest.approx(plan.history.errors[plan.best], abs=1e-6)


def test_the_rest_of_an_aim_counts_from_where_it_begins() -> None:
    """Frame 5 of the motion is frame 2 of a rest that begins at frame 3, with the goal and the picture of frame 5."""
    scene = make_scene(frames=6)
    task = replace(make_control(scene), frames="every:2")
    ways = torch.linspace(0.0, 0.06, 7, dtype=torch.float32)[:, None, None]
    places = scene.deformables[0].rest[None] + ways.double().cpu().numpy() * np.array([1.0, 0.0, 0.0])
    pictures = ways[..., None].expand(7, scene.camera.height, scene.camera.width, 3)
    goal_loss = GoalLoss(scene, task, Goal(places), pictures=pictures)
    assert goal_loss.frames == (2, 4, 6)
    rest = goal_loss.remaining(3)
    assert rest.frames == (1, 3)
    assert torch.equal(rest.target_positions, goal_loss.target_positions[1:]) and torch.equal(
        rest.pictures, goal_loss.pictures[1:]
    )
    np.testing.assert_allclose(rest.target_positions.cpu().numpy(), places[[4, 6]], atol=1e-6)
    assert goal_loss.remaining(4).frames == (2,) and goal_loss.remaining(0).frames == goal_loss.frames


def test_the_best_weights_of_a_plan_are_kept() -> None:
    """Also where the search ends with worse ones."""
    policy = DirectPolicy(np.zeros(1))
    (weight,) = policy.parameters()

    class Jumps(torch.optim.SGD):
        def step(self) -> None:
            with torch.no_grad():
                weight.copy_(torch.full_like(weight, places.pop(0)))

    goal_loss = SimpleNamespace(
        loss=lambda driven, objective: (driven - 2.0).square().sum(), error=lambda driven: driven.sum().item()
    )
    plan = SimpleNamespace(goal_loss=goal_loss, simulate_policy=lambda policy: next(iter(policy.parameters())))
    places = [1.0, 2.5, 7.0]  # losses 4 at zero, then 1, 0.25, 25
    error = replan_module._improve(plan, policy, Jumps([weight], lr=1.0), "state", 3)
    assert float(weight.detach()) == 2.5 and error == 2.5 and not places


# -- the command ------------------------------------------------------------------------------------------------------------


def test_command_writes_the_run(command_line: Risp, folder: Path) -> None:
    status, out, err = command_line("control", "small.py", "--seed", "1", "--goal", "1", "--out", "run")
    assert status == 0, err
    assert "2 cm farther" in out and "% of the size" in out and "written: run" in out
    assert {path.name for path in (folder / "run").iterdir()} == FILES
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["objective"] == "image" and len(result["errors"]) == len(result["losses"]) == 4
    assert result["loss"] == min(result["losses"]) and result["error"] == result["errors"][result["best"]]
    # The picture that was written is a target too: the same goal but for its 8 bits.
    status, _, err = command_line(
        "control", "small.py", "--seed", "1", "--goal", "1", "--target", "run/target.png", "--iterations", "1", "--out", "again"
    )
    assert status == 0, err
    again = json.loads((folder / "again" / "result.json").read_text())
    assert again["errors"][0] == result["errors"][0]
    assert again["losses"][0] == pytest.approx(result["losses"][0], rel=0.02)


def test_command_reads_pictures_with_a_network(command_line: Risp, folder: Path) -> None:
    network = network_file(folder / "network.safetensors")
    status, out, err = command_line(
        "control", "small.py", "--feedback", "risp", "--network", network, "--every", "2", "--iterations", "1", "--out", "run"
    )
    assert status == 0, err
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert settings["feedback"] == "risp" and settings["every"] == 2 and len(settings["network_sha256"]) == 64


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--seed", "-1"], "--seed: it is -1: give a whole number"),
        (["--goal", "-2"], "--goal: it is -2: give a whole number that is not negative"),
        (["--objective", "state", "--target", "wrong.png"], "the state objective needs a goal"),
        (["--target", "wrong.png"], "wrong.png is 12x8 pixels, and 16x16 are needed"),
        (["--target", "none.png"], "none.png does not exist"),
        (["--feedback", "risp"], "a network belongs to feedback 'risp', and is needed there"),
        (["--network", "other.safetensors"], "a network belongs to feedback 'risp'"),
        (["--every", "2"], "belongs to feedback 'state' or 'risp'"),
        (["--feedback", "state", "--every", "9"], "every 9 frames: give a number from 1 to 4"),
        (["--feedback", "risp", "--network", "other.safetensors"], "was trained for the scene 'rod'"),
        (["--objective", "speed"], "invalid choice: 'speed'"),
    ],
)
def test_command_refuses(command_line: Risp, folder: Path, arguments: list[str], culprit: str) -> None:
    write_picture(folder / "wrong.png", np.full((8, 12, 3), 0.5))
    network_file(folder / "other.safetensors", scene="rod")
    status, out, err = command_line("control", "small.py", *arguments, "--out", "run")
    assert status == 2 and culprit in err and len(err.strip().splitlines()) == 1, err
    assert not (folder / "run").exists()


def test_command_refuses_a_scene_without_control(command_line: Risp, folder: Path) -> None:
    status, _, err = command_line("control", "cube")
    assert status == 2 and "cube.py has no make_control: define make_control(scene) that returns a ControlTask" in err


def test_command_refuses_a_run_of_other_settings(command_line: Risp, folder: Path) -> None:
    command = ("control", "small.py", "--iterations", "1", "--out", "run")
    assert command_line(*command)[0] == 0
    (folder / "run" / "result.json").unlink()
    status, _, err = command_line(*command, "--seed", "5")
    assert status == 2 and "other settings (seed is 0 there and 5 here)" in err
    settings = json.loads((folder / "run" / "settings.json").read_text())
    for name in ("policy_sha256", "goal_position_statistics"):  # of a scene file whose policy or goal has changed since
        (folder / "run" / "settings.json").write_text(json.dumps(settings | {name: "another"}))
        status, _, err = command_line(*command)
        assert status == 2 and f'other settings ({name} is "another"' in err, err


# -- tasks that make no sense -------------------------------------------------------------------------------------------------


def test_objectives_that_a_scene_has_not_are_listed() -> None:
    scene = make_scene()
    task = replace(make_control(scene), objectives=("state", "random"))
    with pytest.raises(UserError, match="small_control has no objective 'image': choose state or random"):
        control(scene, task, objective="image", progress=False)


def test_networks_that_do_not_fit_are_named() -> None:
    scene = make_scene()
    wide = replace(make_control(scene), policy=lambda scene, seed: SinePolicy(
        7, signals=2, frequency=1.0, limit=0.1, times=control_times(scene), seed=seed))  # fmt: skip
    with pytest.raises(UserError, match=r"numbers of shape \(8, 7\), and sheet.actuation needs \(8, 4\)"):
        control(scene, wide, progress=False)
    with pytest.raises(UserError, match="sheet.position of shape .* is not a number over time"):
        control(scene, replace(make_control(scene), controlled_parameter="sheet.position"), feedback="state", progress=False)
    with pytest.raises(UserError, match="small_control has no feedback control"):
        control(scene, replace(make_control(scene), feedback=None), feedback="state", progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": "volume"}, "measure 'volume' is unknown"),
        ({"measure": "along"}, "a direction belongs to the measure 'along'"),
        ({"objectives": ("images",)}, r"objectives is \('images',\): give a list, each 'image' or"),
    ],
)
def test_tasks_are_checked(change: dict[str, object], message: str) -> None:
    given = vars(make_control(make_scene()))
    with pytest.raises(UserError, match=message):
        ControlTask(**(given | change))


def test_goals_and_frames_are_checked() -> None:
    scene = make_scene()
    task = make_control(scene)
    with pytest.raises(UserError, match=r"goal's positions have shape \(1, 3, 3\): give finite \(1 or frames \+ 1, 6, 3\)"):
        GoalLoss(scene, task, Goal(np.zeros((1, 3, 3))))
    with pytest.raises(UserError, match="the goal has 2 rows"):
        GoalLoss(scene, task, Goal(np.zeros((2, 6, 3))))
    with pytest.raises(UserError, match="frames 'some' is unknown"):
        replace(task, frames="some").compared_frames(4)
    assert replace(task, frames="every:3").compared_frames(4) == (3, 4) and replace(task, frames="all").compared_frames(2) == (
        1,
        2,
    )


def test_names_that_a_scene_has_not_are_listed(folder: Path) -> None:
    text = Path("small.py").read_text()
    text = text.replace('controlled_parameter="sheet.actuation"', 'controlled_parameter="sheet.actuations"')
    Path("wrong.py").write_text(text)
    with pytest.raises(UserError, match="sheet.actuation"):
        load_control("wrong.py", load_scene("wrong.py"))
