"""What makes the methods of the tables comparable: equal guesses and initial states, own networks, unseen looks and frames."""

from __future__ import annotations

import itertools
import json
import re
import sys
import tarfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from risp_torch import OptimiseSettings, PixelLoss, Scene, StateLoss, WideSteps
from risp_torch.files.run_folder import RunFolder
from risp_torch.files.video import read_video
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.risp import NetworkSettings, RispNetwork, save_network
from risp_torch.risp.evaluation import test_set
from studies.risp import TrialSettings, load_trials, run_trial
from studies.risp.tables import perform
from studies.risp.tables.claims import mark_done
from studies.risp.tables.plan import BLIND, METHODS, NETWORKS, PAPER_SEARCH, TABLES, TablePlan
from studies.risp.tables.presets import PRESETS, table_preset
from studies.risp.tables.results import cells_of
from studies.risp.tables.units import Unit, evaluation_name, network_name, planned, target_name, trial_name
from studies.risp.trials import run as run_module
from studies.risp.trials import search as search_module
from studies.risp.trials import target as target_module
from studies.risp.trials import trial as trial_module
from studies.risp.trials.bars import Bars
from studies.risp.trials.errors import outputs_of, unseen_errors
from studies.risp.trials.methods import IMAGE_METHODS, NETWORK_METHODS
from studies.risp.trials.paper_search import paper_unknowns
from studies.risp.trials.search import Found
from studies.risp.trials.target import target_film
from studies.risp.trials.trial import true_scene
from tests.reference.folders import ROOT
from tests.reference.trials import SIDE

KINDS = ("identify", "imitate", "reach")


@pytest.fixture(scope="module")
def network(quadrotor: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network of the quadrotor."""
    place = tmp_path_factory.mktemp("network") / "network.safetensors"
    record = {"scene": "quadrotor", "task": quadrotor["imitate"][2].to_json()}
    save_network(place, RispNetwork(NetworkSettings(outputs=9, size=SIDE, width=2)), record)
    return place


# Trials


@pytest.mark.parametrize("kind", KINDS)
def test_all_methods_begin_alike(
    kind: str, quadrotor: dict, network: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Equal guesses, initial state and search for every method that searches; none is told the truth."""
    trial, scene, task, motion = quadrotor[kind]
    target = target_film(scene, task, kind, motion, tmp_path / "film", seed=0, repeat=2, renderer="rasteriser")
    given: dict[str, dict[str, Any]] = {}
    begun: dict[str, Any] = {}  # where a search continues that does not begin at the guesses

    def spied(scene: Any, comparison: Comparison, trial: Any, guesses: Any, settings: Any, **options: Any) -> Found:
        start = {name: np.asarray(scene.table[name].value).tolist() for name in trial.initial(np.random.default_rng(0))} if (
            trial.initial) else {}
        given[method] = {
            "guesses": [{name: np.asarray(value).tolist() for name, value in guess.items()} for guess in guesses],
            "start": start, "search": asdict(settings), "options": {k: options[k] for k in ("refine", "paper", "warm", "seed")},
            "sampling": comparison.frames,
        }  # fmt: skip
        begun.update({} if options["begin"] is None else {method: options["begin"]})
        return Found({name: np.asarray(trial.truth[name], dtype=np.float64) for name in trial.unknowns}, 0.0, 0)

    monkeypatch.setattr(run_module, "search", spied)
    monkeypatch.setattr("risp_torch.PerceptualLoss", PixelLoss)  # without its weights
    bars_of: list[float] = []  # masses at which error bars are computed, which takes most of the time of a trial

    def no_bars(scene: Any, trial: Any, loss: Any, target: Any, result: Found) -> Bars:
        bars_of.append(float(result.values["quadrotor.mass"]))
        return Bars([0.1], 0.0)

    monkeypatch.setattr(run_module.Bars, "of", no_bars)
    settings = TrialSettings(size=SIDE, seed=5)
    results = {}
    for method in METHODS:
        results[method] = run_trial(
            "quadrotor", kind, method, repeat=2, settings=settings, network=network if method in NETWORK_METHODS else None,
            target=target if method in IMAGE_METHODS else None, out=tmp_path / method, progress=False,
        )  # fmt: skip
    assert set(given) == set(METHODS) - set(BLIND)
    assert bars_of == ([float(trial.truth["quadrotor.mass"])] * 2 if kind == "identify" else [])  # of the two solved looks
    assert begun == {"chain": json.loads((tmp_path / "chain" / "risp" / "result.json").read_text())["values"]}
    first = given["state"]
    assert all(other == first for other in given.values())
    assert {json.dumps([r["guess"], r["initial"]]) for r in results.values()} == {
        json.dumps([results["state"]["guess"], results["state"]["initial"]])
    }
    solved = {method for method in METHODS if (tmp_path / method / "look.png").is_file()}
    assert solved == (set() if kind == "reach" else {"matched", "chain"})
    assert len(first["guesses"]) == trial.starts and first["guesses"][0] == results["state"]["guess"]
    for guess, name in itertools.product(first["guesses"], trial.unknowns):
        assert not np.allclose(guess[name], trial.truth[name], rtol=1e-3), (kind, name)
    drawn = [json.dumps(guess) for guess in first["guesses"]]
    assert len(set(drawn)) == len(drawn)
    for name, value in results["average"]["values"].items():  # not the truth, but the middle of what guesses are drawn from
        assert np.allclose(value, trial.average[name]) and (kind != "reach" or not np.allclose(value, trial.truth[name]))


@pytest.mark.parametrize("paper", [False, True])
def test_a_search_begins_at_the_guesses(
    paper: bool, quadrotor: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither at the truth, nor at the scene's own values: what the first steps are given is what was drawn."""
    trial, scene, task, motion = quadrotor["identify"]
    comparison = Comparison.of(scene, StateLoss(task.head, motion), None)
    guesses = [trial.guess(np.random.default_rng(seed)) for seed in range(3)]
    begun: list[np.ndarray] = []

    class Begun(Exception):
        pass

    def wide(scene: Any, comparison: Any, unknowns: Unknowns, values: np.ndarray, *rest: Any, **options: Any) -> None:
        begun.append(values)
        raise Begun

    def narrow(scene: Any, comparison: Any, unknowns: Unknowns, z: torch.Tensor, *rest: Any, **options: Any) -> None:
        begun.append(unknowns.physical_vector(z).cpu().numpy())
        raise Begun

    monkeypatch.setattr(search_module, "wide_gauss_newton", wide)
    monkeypatch.setattr(search_module, "descend", narrow)
    settings = TrialSettings(search="paper" if paper else "wide", starts=3).of_search(trial)
    with pytest.raises(Begun):
        search_module.search(scene, comparison, trial, guesses, settings, refine=0, paper=paper, progress=False)
    wanted = np.array([[guess[name] for name in trial.unknowns] for guess in guesses])
    np.testing.assert_allclose(begun[0], wanted, rtol=1e-5)


def test_the_papers_search_moves_the_numbers_themselves() -> None:
    """0.003 is 0.003 kg, decades where the scale is log10, of actions 0.003 of half their range; bounds let numbers back in."""
    for name, kind, unknown in (("quadrotor", "identify", "quadrotor.mass"), ("cube", "identify", "ground.contact.stiffness")):
        trial = load_trials(name)[kind]
        scene, _ = true_scene(name, trial, SIDE)
        unknowns = paper_unknowns(Unknowns.of(scene, trial.unknowns), trial.measure)
        start = trial.guess(np.random.default_rng(1))[unknown]
        z = unknowns.unbounded(np.array([[start]]))
        moved = float(unknowns.physical_vector(z + 0.003)[0, 0])
        assert moved == pytest.approx(start * 10**0.003 if trial.log else start + 0.003, rel=1e-6)
        low, high = (float(bound[0]) for bound in unknowns.bounds())
        beyond = (unknowns.unbounded(np.array([[high]])) + 1.0).requires_grad_()
        value = unknowns.physical(beyond)[unknown]
        assert float(value.detach()) == pytest.approx(high, rel=1e-6)
        assert float(torch.autograd.grad(value.sum(), beyond)[0]) > 0
    trial = load_trials("quadrotor")["imitate"]
    scene, _ = true_scene("quadrotor", trial, SIDE)
    plain = Unknowns.of(scene, trial.unknowns)
    unknowns = paper_unknowns(plain, trial.measure)
    row = np.ravel(trial.average["rotors.actions"])[None].astype(np.float64)
    step = unknowns.physical_vector(unknowns.unbounded(row) + 0.003).cpu().numpy() - row
    np.testing.assert_allclose(step[0], 0.0015 * plain.scaled_range(), rtol=1e-3)


@pytest.mark.parametrize("name", ["quadrotor", "cube", "hand", "rod"])
def test_later_repeats_have_drawn_truths(name: str) -> None:
    """The first four have the scene's own; what is drawn depends on seed and repeat alone and lies within the bounds."""
    trial = load_trials(name)["identify"]
    scene, _ = true_scene(name, trial, SIDE)
    low, high = Unknowns.of(scene, trial.unknowns).bounds()
    assert all(trial.of_repeat(name, "identify", seed=1, repeat=repeat) is trial for repeat in range(4))
    drawn = {
        (seed, repeat): np.array([
            trial.of_repeat(name, "identify", seed=seed, repeat=repeat).truth[unknown] for unknown in trial.unknowns
        ])
        for seed in (0, 1) for repeat in range(4, 12)
    }  # fmt: skip
    assert len({tuple(truth) for truth in drawn.values()}) == 16
    assert all(np.all((truth > low) & (truth < high)) for truth in drawn.values())
    again = trial.of_repeat(name, "identify", seed=1, repeat=7).truth
    assert [again[unknown] for unknown in trial.unknowns] == drawn[1, 7].tolist()
    for kind, other in load_trials(name).items():
        assert kind == "identify" or other.truths is None


def test_a_drawn_truth_is_filmed_looked_for_and_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trial = load_trials("cube")["identify"].of_repeat("cube", "identify", seed=3, repeat=5)
    (unknown,) = trial.unknowns
    seen: list[Any] = []

    def spied(scene: Any, comparison: Comparison, trial: Any, *rest: Any, **options: Any) -> Found:
        seen.append(scene.table[unknown].value)
        return Found({name: np.asarray(trial.truth[name]) for name in trial.unknowns}, 0.0, 0)

    monkeypatch.setattr(run_module, "search", spied)
    options = {"repeat": 5, "settings": TrialSettings(size=SIDE, seed=3), "progress": False}
    result = run_trial("cube", "identify", "state", **options, out=tmp_path / "state")
    assert result["error"] == 0.0 and max(result["unseen"].values()) == 0.0 and seen == [trial.truth[unknown]]
    filmed: list[float] = []
    monkeypatch.setattr(
        target_module, "target_film", lambda scene, *rest, **options: filmed.append(float(scene.table[unknown].value))
    )
    for repeat in (0, 5):
        perform.make_target(asked(tmp_path), {"scene": "cube", "task": "identify", "repeat": repeat}, tmp_path)
    assert filmed == [1e3, trial.truth[unknown]]


def test_a_goal_shows_the_last_frame(quadrotor: dict, tmp_path: Path) -> None:
    _, scene, task, motion = quadrotor["reach"]
    shown: list[torch.Tensor] = []
    render = Scene.render

    def spied(own: Scene, placement: torch.Tensor, *rest: Any) -> torch.Tensor:
        shown.append(placement)
        return render(own, placement, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scene, "render", spied)
        folder = target_film(scene, task, "reach", motion, tmp_path / "goal", seed=0, repeat=0, renderer="rasteriser")
        film = target_film(scene, task, "identify", motion, tmp_path / "film", seed=0, repeat=0, renderer="rasteriser")
    assert torch.equal(shown[0], motion.placement[:1, -1:]) and torch.equal(shown[1], motion.placement[:1])
    goal, frames = read_video(folder), read_video(film)
    assert len(goal) == 1 and len(frames) == scene.frames + 1
    assert np.abs(goal[0] - frames[-1]).mean() < 1e-6 < np.abs(goal[0] - frames[0]).mean()
    goal_of_all = target_module.read_target(scene, "reach", folder)
    assert torch.equal(goal_of_all[0], goal_of_all[-1]) and len(goal_of_all) == scene.frames + 1


def test_random_numbers_are_not_shared(quadrotor: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Targets, test pictures, guesses and baselines draw from streams of their own; every repeat and look has its number."""
    names = ("risp_torch.risp.evaluation.test_set", "risp_torch.risp.evaluation.baselines", "studies.risp.trials.target")
    streams = [sys.modules[name]._STREAM for name in names]
    streams += [trial_module._TRUTHS, *run_module._STREAMS.values()]
    assert len(set(streams)) == len(streams)
    _, scene, task, motion = quadrotor["reach"]
    numbers: list[int] = []
    monkeypatch.setattr(target_module, "_rasterised", lambda *given: numbers.append(given[-1]) or tmp_path)
    for seed, repeat in itertools.product((0, 1), range(4)):
        target_film(scene, task, "reach", motion, tmp_path, seed=seed, repeat=repeat, renderer="rasteriser")
    drawn: list[int] = []
    parameters = task.domains.training.parameters
    domain = SimpleNamespace(appearances=lambda count, *, seed: drawn.append(seed) or torch.zeros(1, parameters.size),
                             parameters=parameters)  # fmt: skip
    renderer = SimpleNamespace(render=lambda poses, values: torch.zeros(1, len(poses[0]), 2, 2, 3))
    asked = SimpleNamespace(domains=SimpleNamespace(training=domain))
    for seed in (0, 1):
        for index in range(4):
            settings = test_set.TestSettings(seed=seed)
            list(test_set._rendered(renderer, asked, settings, index, motion.placement[0, :1]))
    assert len(numbers) == len(drawn) == 8 and len(set(numbers + drawn)) == 16


def test_a_result_tells_of_guess_estimate_and_truth(
    quadrotor: dict, network: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Losses are those that the search compared by at last; what is misread is what the network itself reads."""
    trial, scene, task, motion = quadrotor["identify"]
    target = target_film(scene, task, "identify", motion, tmp_path / "film", seed=0, repeat=1, renderer="rasteriser")
    seen: list[Comparison] = []

    def spied(scene: Any, comparison: Comparison, trial: Any, guesses: Any, settings: Any, **options: Any) -> Found:
        seen.append(comparison)
        last = replace(comparison, target=comparison.target + 0.5)
        return Found({name: np.asarray(guesses[-1][name]) for name in trial.unknowns}, 7.0, 3, last)

    monkeypatch.setattr(run_module, "search", spied)
    result = run_trial(
        "quadrotor", "identify", "full", repeat=1, settings=TrialSettings(size=SIDE, seed=5, starts=3), network=network,
        target=target, out=tmp_path / "run", progress=False,
    )  # fmt: skip
    (comparison,) = seen
    with torch.no_grad():
        observed = comparison.loss.observe(scene, motion, {}, comparison.frames)[0]
        true = task.head.outputs(scene, motion.placement[0])
    assert (result["loss_estimate"], result["iterations"]) == (7.0, 3)
    assert result["loss_truth"] == pytest.approx(float((observed - comparison.target - 0.5).square().mean()), rel=1e-4)
    assert result["reading_error"] == pytest.approx(float((comparison.target - true).abs().mean()), rel=1e-4)
    for value, error in (("guess", "guess_error"), ("values", "error")):
        distance = abs(result[value]["quadrotor.mass"] - trial.truth["quadrotor.mass"])
        assert result[error] == pytest.approx(distance, rel=1e-6)
    assert result["guess"] != result["values"]


def test_held_out_frames_are_those_after_the_film(quadrotor: dict) -> None:
    """Of a longer film the fitted frames do not count; of another motion all do."""
    trial, scene, task, _ = quadrotor["identify"]
    values = {"quadrotor.mass": np.asarray(1.02 * trial.truth["quadrotor.mass"])}
    errors = unseen_errors("quadrotor", trial, values, fitted=scene.frames)
    for label, other in trial.unseen().items():
        each = (outputs_of(other, task, values) - outputs_of(other, task, {})).abs().mean(dim=1)
        later = other.frames > scene.frames
        wanted = float(each[scene.frames + 1 :].mean()) if later else float(each.mean())
        assert errors[label] == pytest.approx(wanted, rel=1e-5) and (label == "later frames") == later
        assert abs(float(each.mean()) - float(each[scene.frames + 1 :].mean())) > 0.05 * wanted or not later


# Units of the tables


def asked(out: Path, **changes: Any) -> TablePlan:
    return TablePlan(**{"tables": ("1", "2"), "out": out, "preset": table_preset("quick", seed=3), "device": "cpu"} | changes)


def unit_of(plan: TablePlan, name: str) -> Unit:
    return planned(plan)[name]


def test_every_method_has_its_own_network_and_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a trial: which network reads, which search runs, and that all methods of a repeat look at one film."""
    plan = asked(tmp_path, scenes=("cube",), repeats=2)
    calls: dict[tuple[str, int], dict[str, Any]] = {}

    def spied(scene: str, task: str, method: str, **options: Any) -> None:
        calls[about["method"], options["repeat"]] = {"method": method, **options}

    monkeypatch.setattr(run_module, "run_trial", spied)
    monkeypatch.setattr(perform, "make_target", lambda plan, about, folder: folder)
    for repeat in range(2):  # what the chain begins at
        before = RunFolder.open_or_create(tmp_path / trial_name("cube", "identify", "full", repeat), {})
        before.write_result({"values": {"ground.contact.stiffness": 900.0 + repeat}})
    for unit in planned(plan).values():
        if unit.kind == "trial":
            about = unit.about
            perform.perform(plan, unit)
    assert {method for method, _ in calls} == {*METHODS, PAPER_SEARCH} - {"average"}
    for (method, repeat), call in calls.items():
        paper, plain = method == PAPER_SEARCH, "full" if method == PAPER_SEARCH else method
        assert call["method"] == plain and call["repeat"] == repeat
        assert call["settings"] == TrialSettings(size=64, seed=3, samples=64, search="paper" if paper else "wide")
        reader = "full" if plain == "chain" else plain
        reads = tmp_path / network_name(plan, "cube", reader) / "network.safetensors" if reader in NETWORKS else None
        assert call["network"] == reads and (reads is None or f"{reader}-seed3" in str(reads))
        assert call["begin"] == ({"ground.contact.stiffness": 900.0 + repeat} if plain == "chain" else None)
        film = None if plain in (*BLIND, "state") else tmp_path / target_name("cube", "identify", repeat)
        assert call["target"] == film
        assert call["out"] == tmp_path / trial_name("cube", "identify", method, repeat)


def test_networks_differ_in_the_gradients_alone(tmp_path: Path) -> None:
    """Both trainings have the same pictures, weights, epochs and augmentation, but for gradient loss and appearance jitter."""
    plan = asked(tmp_path, scenes=("cube",))
    _, task = perform._scene_and_task(plan, "cube")
    full, without = (perform.training_settings(plan, task, variant) for variant in ("full", "no-grad"))
    differing = {field.name for field in fields(full) if getattr(full, field.name) != getattr(without, field.name)}
    assert differing == {"regulariser", "gamma", "appearance_jitter"}
    assert (without.regulariser, without.gamma, without.appearance_jitter) == ("none", 0.0, 0.0)
    assert full.regulariser != "none" and full.gamma > 0 and full.appearance_jitter > 0


@pytest.mark.parametrize("method", NETWORKS)
def test_a_reader_is_evaluated_with_its_own_network(method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = asked(tmp_path, scenes=("cube",), preset=table_preset("tiny", seed=3))
    read: list[Path] = []
    for variant in NETWORKS:
        RunFolder.open_or_create(tmp_path / network_name(plan, "cube", variant), {}).write_result(
            {"seconds": 1.0 if variant == "full" else 2.0}
        )
    errors = SimpleNamespace(to_json=lambda: {"error": {"mean": 0.1, "sd": 0.0}})
    monkeypatch.setattr(perform, "make_pictures", lambda plan, about, folder: (None, None, [0, 0]))
    monkeypatch.setattr("risp_torch.risp.load_network", lambda path: read.append(path) or (path, {}))
    monkeypatch.setattr(
        "risp_torch.risp.evaluate",
        lambda scene, task, readers, test_set, seed: SimpleNamespace(errors=dict.fromkeys(readers, errors)),
    )  # fmt: skip
    perform.perform(plan, unit_of(plan, evaluation_name("cube", method, "soft")))
    assert read == [tmp_path / network_name(plan, "cube", method) / "network.safetensors"]
    mark_done(tmp_path / evaluation_name("cube", method, "soft"), 9.0)
    assert cells_of(plan, "1")["cube", method].seconds() == (1.0 if method == "full" else 2.0)  # of its network's training


@pytest.mark.parametrize("table", TABLES)
def test_errors_of_the_hand_are_angles(table: str, tmp_path: Path) -> None:
    """Outputs are parts of pi / 6, so errors of motions are turned into rad; stiffnesses, and other scenes, are as they are."""
    plan = asked(tmp_path, tables=(table,), scenes=("hand", "rod"), methods=("full",), repeats=2)
    for scene in plan.scenes:
        record = {"error": 0.3, "unit": "", "seconds": 1.0, "unseen": {"softer": 0.2}}
        if table == "1":
            folders, record = [evaluation_name(scene, "full", "mitsuba")], record | {"error": {"mean": 0.3, "sd": 0.1}}
        else:
            folders = [trial_name(scene, TABLES[table], "full", repeat) for repeat in range(2)]
        for name in folders:
            RunFolder.open_or_create(tmp_path / name, {}).write_result(record)
            mark_done(tmp_path / name, 1.0)
    cells = cells_of(plan, table)
    factor = np.pi / 6 if table != "2" else 1.0
    assert cells["hand", "full"].mean == pytest.approx(0.3 * factor) and cells["rod", "full"].mean == pytest.approx(0.3)
    assert cells["hand", "full"].unseen() == pytest.approx({"softer": 0.2 * np.pi / 6})
    assert cells["rod", "full"].unseen() == pytest.approx({"softer": 0.2})


# The paper's own numbers, in its own layout: rows of methods, columns of scenes (RISP, ICLR 2022, tables 1 to 4).
PAPER_ROWS = {
    "1": """
        average   0.5994 ± 0.0000 | 0.5920 ± 0.0000 | 0.2605 ± 0.0000 | 0.9792 ± 0.0000
        random    0.9661 ± 0.7548 | 0.9655 ± 0.8119 | 0.8323 ± 0.5705 | 1.2730 ± 0.7197
        no-grad   0.3114 ± 0.3191 | 0.2805 ± 0.3199 | 0.1155 ± 0.0505 | 0.0201 ± 0.0087
        full      0.1505 ± 0.1163 | 0.1642 ± 0.1887 | 0.0974 ± 0.0255 | 0.0194 ± 0.0048""",
    "2": """
        random     9.22e-2±3.83e-2 | 2.31e-1±9.57e-2 | 5.70e-1±1.62e-1 | 1.30e6±1.35e6
        pixel      7.22e-2±5.26e-2 | 2.24e-3±1.74e-3 | 1.04e-1±9.62e-2 | 8.50e5±1.42e6
        perceptual 6.45e-2±5.23e-2 | 1.16e-1±5.83e-2 | 1.10e-1±1.18e-1 | 8.32e5±1.43e6
        no-grad    6.07e-2±4.34e-2 | 1.16e-1±6.20e-2 | 4.85e-2±2.16e-2 | 8.78e4±1.52e5
        full       1.18e-2±1.93e-2 | 6.76e-3±7.23e-3 | 3.96e-2±2.73e-2 | 9.31e1±4.21e1
        state      2.36e-5±2.41e-5 | 1.15e-3±8.60e-4 | 3.92e-3±4.40e-4 | 4.36e0±3.57e0""",
    "3": """
        average    28.40 ± 0.00 | 7.62 ± 0.00 | 30.20 ± 0.00
        random     1120 ± 113 | 10.27 ± 0.91 | 29.89 ± 0.61
        pixel      12.65 ± 0.13 | 6.71 ± 0.07 | 29.57 ± 0.85
        perceptual N/A | 5.10 ± 1.80 | 14.61 ± 5.13
        no-grad    25.07 ± 5.76 | 7.12 ± 0.71 | 0.83 ± 0.35
        full       2.63 ± 1.86 | 1.52 ± 0.18 | 1.05 ± 0.27
        state      0.79 ± 0.44 | 0.02 ± 0.02 | 0.28 ± 0.16""",
    "4": """
        average    1.38 ± 0.00 | 0.23 ± 0.00 | 0.89 ± 0.00
        random     63.93 ± 9.44 | 0.32 ± 0.06 | 0.87 ± 0.06
        pixel      3.02 ± 1.35 | 0.25 ± 0.05 | 0.05 ± 0.01
        perceptual 1.59 ± 0.26 | 0.28 ± 0.05 | 0.11 ± 0.06
        no-grad    1.30 ± 0.15 | 0.23 ± 0.06 | 0.04 ± 0.0002
        full       0.54 ± 0.25 | 0.11 ± 0.02 | 0.04 ± 0.0006
        state      0.15 ± 0.09 | 0.002 ± 0.00 | 0.01 ± 0.02""",
}


@pytest.mark.parametrize("table", TABLES)
def test_the_papers_numbers_are_the_papers(table: str) -> None:
    from studies.risp.pages.paper import PAPER

    scenes = ["quadrotor", "cube", "hand", "rod"] if table in ("1", "2") else ["quadrotor", "hand", "rod"]
    read: dict[str, dict[str, tuple[float, float]]] = {scene: {} for scene in scenes}
    for line in PAPER_ROWS[table].strip().splitlines():
        method, rest = line.split(maxsplit=1)
        for scene, text in zip(scenes, rest.split("|"), strict=True):
            if text.strip() != "N/A":
                mean, sd = text.split("±")
                read[scene][method] = (float(mean), float(sd))
    assert PAPER[table] == read


def test_repeats_of_the_papers_search() -> None:
    """As many as of every other method, where tables are published."""
    assert PRESETS["quick"].paper_search == PRESETS["paper"].paper_search == 4
    for name in ("quadrotor", "cube", "hand", "rod"):
        for trial in load_trials(name).values():
            search = TrialSettings(search="paper").of_search(trial)
            assert isinstance(search, OptimiseSettings) and isinstance(trial.search, WideSteps)
            assert TrialSettings(search="paper").guesses(trial) == 1 and search.rate(0) == search.rate(99) == 3e-3


def test_the_dies_network_is_that_of_the_tables() -> None:
    """The asset is, byte for byte, what the published runs hold under the name that its README gives."""
    page = (ROOT / "scenes/assets/README.md").read_text(encoding="utf-8")
    named = re.search(r"cube_risp.safetensors` \| .*`runs/(tables/\S+safetensors)`", page)
    with tarfile.open(ROOT / "docs/results/runs.tar.xz") as archive:
        kept = archive.extractfile(f"runs/{named[1]}").read()
    assert (ROOT / "scenes/assets/cube_risp.safetensors").read_bytes() == kept
