"""The work of each kind of unit. A killed and repeated unit gives the same numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from risp_torch.programs import RunFolder, first_setting_difference, to_jsonable
from risp_torch.risp import RispTask, load_task, training_scene
from studies.risp.tables.plan import BLIND, CHAIN, NETWORKS, PAPER_SEARCH, SAMPLING_SCENE, TablePlan
from studies.risp.tables.units import Unit, network_name, planned, target_name, trial_name
from ti_sim import UserError

if TYPE_CHECKING:
    from risp_torch import Scene
    from risp_torch.risp import StateErrors, TestSet, TrainSettings
    from studies.risp.trials.run import TrialSettings

NETWORK_FILE = "network.safetensors"
# Names of the two image-free baselines in the state evaluation.
_BLIND_READERS = {"average": "average", "random": "random, normal"}


def perform(plan: TablePlan, unit: Unit) -> None:
    """Run a unit after the units that it needs.

    Raises:
        UserError: its folder has other content, or something cannot be computed. DivergenceError: see ``invert``.
    """
    _WORK[unit.kind](plan, unit.about, plan.out / unit.name)


def _scene_and_task(plan: TablePlan, name: str) -> tuple[Scene, RispTask]:
    scene = training_scene(name, plan.preset.size)
    return scene, load_task(name, scene)


def _data(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Training pictures; none if their networks already exist."""
    learners = [name for name, unit in planned(plan).items() if str(folder.relative_to(plan.out)) in unit.needs]
    if all(RunFolder(plan.out / name, {}).finished for name in learners):
        return
    _render(plan, *_scene_and_task(plan, about["scene"]), folder)


def _render(plan: TablePlan, scene: Scene, task: RispTask, folder: Path) -> None:
    """Render the missing training pictures."""
    from risp_torch.risp import DatasetSettings, generate

    preset = plan.preset
    settings = DatasetSettings(preset.images_of(scene.name), preset.configs, seed=preset.seed, size=preset.size)
    generate(scene, task, settings, folder, progress=True)


def _network(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Train a network, or check the existing one."""
    from risp_torch.risp import ShardSource, train
    from risp_torch.scene.bridge import bridge_device

    scene, task = _scene_and_task(plan, about["scene"])
    settings = training_settings(plan, task, about["method"])
    if RunFolder(folder, {}).finished:
        _check_finished(folder, settings)
        return
    data = folder.parent / "data"
    if not (data / "manifest.json").is_file():  # an earlier command did not need them
        _render(plan, scene, task, data)
    source = ShardSource(data, scene, task)
    train(scene, task, source, settings, out=folder, device=str(bridge_device()))


def training_settings(plan: TablePlan, task: RispTask, variant: str) -> TrainSettings:
    """Settings of a training, with rendering gradients (gradient loss and appearance jitter) or without."""
    from risp_torch.risp import preset

    without = {"regulariser": "none", "gamma": 0.0, "appearance_jitter": 0.0} if variant == "no-grad" else {}
    return preset(plan.preset.training, task, seed=plan.preset.seed, **(dict(plan.preset.changes) | without))


def _check_finished(run: Path, expected: TrainSettings) -> None:
    stored = json.loads((run / "settings.json").read_text(encoding="utf-8"))["training"]
    stored.pop("data", None)
    difference = first_setting_difference(stored, to_jsonable(expected))
    if difference is not None:
        raise UserError(f"the network in {run} was trained with other settings ({difference}): choose another --out")


def _test_set(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Test pictures."""
    make_pictures(plan, about, folder)


def make_pictures(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> tuple[Scene, RispTask, TestSet]:
    """The test set of a scene and renderer, rendered if missing, with scene and task."""
    from risp_torch.risp import TestSettings, make_test_set

    scene, task = _scene_and_task(plan, about["scene"])
    preset = plan.preset
    settings = TestSettings(
        renderer=about["renderer"], appearances=preset.test_appearances, states=preset.test_states, seed=preset.seed
    )
    return scene, task, make_test_set(scene, task, settings, cache=folder)


def _evaluation(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Errors of one predictor on a test set."""
    from risp_torch.risp import evaluate, load_network

    method = about["method"]
    scene, task, test_set = make_pictures(plan, about, plan.out / f"test-sets/{about['scene']}-{about['renderer']}")
    readers, seconds = {}, 0.0
    if method in NETWORKS:
        run = plan.out / network_name(plan, about["scene"], method)
        readers = {method: load_network(run / NETWORK_FILE)[0]}
        seconds = RunFolder(run, {}).read_result()["seconds"]
    outcome = evaluate(scene, task, readers, test_set, seed=plan.preset.seed)
    errors: StateErrors = outcome.errors[_BLIND_READERS.get(method, method)]
    result = {"pictures": len(test_set), "training_seconds": seconds} | errors.to_json()
    _write(folder, {"reader": method, "renderer": about["renderer"]}, result)


def _target(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """The target film of all methods of a repeat."""
    make_target(plan, about, folder)


def make_target(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> Path:
    """The film (of a goal: the picture) of a repeat, rendered if missing: the folder of its frames."""
    import torch

    from studies.risp.trials.target import target_film
    from studies.risp.trials.trial import load_trial, set_truth, true_scene

    preset, kind = plan.preset, about["task"]
    trial = load_trial(about["scene"], kind)
    scene, task = true_scene(about["scene"], trial, preset.size)
    set_truth(scene, trial.of_repeat(scene.name, kind, seed=preset.seed, repeat=about["repeat"]))
    with torch.no_grad():
        motion = scene.rollout()
    return target_film(
        scene, task, kind, motion, folder, seed=preset.seed, repeat=about["repeat"], samples=preset.samples,
        renderer=preset.target,
    )  # fmt: skip


def _trial(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """One inversion."""
    from studies.risp.trials.run import run_trial

    method, search = about["method"], "wide"
    if method == PAPER_SEARCH:
        method, search = "full", "paper"
    variant, first_estimate = "full" if method == CHAIN else method, None
    network = plan.out / network_name(plan, about["scene"], variant) / NETWORK_FILE if variant in NETWORKS else None
    if method == CHAIN:
        before = trial_name(about["scene"], about["task"], "full", about["repeat"])
        first_estimate = RunFolder(plan.out / before, {}).read_result()["values"]
    target = None
    if method not in (*BLIND, "state"):
        target = make_target(plan, about, plan.out / target_name(about["scene"], about["task"], about["repeat"]))
    run_trial(
        about["scene"], about["task"], method, repeat=about["repeat"], settings=trial_settings(plan, search), network=network,
        target=target, begin=first_estimate, out=folder,
    )  # fmt: skip


def trial_settings(plan: TablePlan, search: str = "wide") -> TrialSettings:
    """Settings of the inversions; with the paper's search it has its own number of iterations."""
    from studies.risp.trials.run import TrialSettings

    preset = plan.preset
    changes = dict(preset.trial) if search == "wide" else {}
    return TrialSettings(size=preset.size, seed=preset.seed, samples=preset.samples, search=search, **changes)


def _curve(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Training curves of one variant with a number of appearances of the training pictures."""
    from studies.risp.tables.ablations import configs_unit

    _write(folder, dict(about), configs_unit(about["method"], about["configs"], preset=plan.preset, folder=folder / "run"))


def _sampling(plan: TablePlan, about: Mapping[str, Any], folder: Path) -> None:
    """Loss landscape of one method for several samplings of the frames."""
    from studies.risp.tables.ablations import sampling_unit

    method = about["method"]
    network = plan.out / network_name(plan, SAMPLING_SCENE, method) / NETWORK_FILE if method in NETWORKS else None
    target = make_target(plan, about, plan.out / target_name(SAMPLING_SCENE, about["task"], about["repeat"]))
    result = sampling_unit(method, network=network, target=target, folder=folder / "run", points=plan.preset.points)
    _write(folder, dict(about), result)


def _write(folder: Path, settings: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Write a result; an existing one without a record of completion is from a killed process."""
    run = RunFolder(folder, to_jsonable(settings))
    (folder / "result.json").unlink(missing_ok=True)
    RunFolder.open_or_create(folder, settings)
    run.write_result(result)


_WORK = {
    "data": _data, "network": _network, "test-set": _test_set, "evaluation": _evaluation, "target": _target, "trial": _trial,
    "curve": _curve, "sampling": _sampling,
}  # fmt: skip
