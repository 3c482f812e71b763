"""Tables 1 and 2 of gradSim: objects, tosses, identification, the black box, the networks, and the pages."""

from __future__ import annotations

import json
import math
import os
import shutil
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trimesh

from risp_torch import UserError, film
from scenes.assets.make_objects import MAKERS, MAX_VERTICES, normalise
from studies.gradsim.__main__ import main
from studies.gradsim.cells import FAILED, Cell, run_cells, write_archive
from studies.gradsim.pages import digits
from studies.gradsim.presets import PRESETS
from studies.gradsim.rigid import black_box, networks
from studies.gradsim.rigid import cells as rigid_cells
from studies.gradsim.rigid import identify as identification
from studies.gradsim.rigid import page as rigid_page
from studies.gradsim.rigid import tables as rigid_tables
from studies.gradsim.rigid.black_box import engine_films, film_rewards, surrogate_loss
from studies.gradsim.rigid.black_box import normalised as normalised_rewards
from studies.gradsim.rigid.bullet import bullet_poses
from studies.gradsim.rigid.identify import far_guess, identify, range_guess, scanned_mass
from studies.gradsim.rigid.network_films import NetworkFilms, read_parts, write_parts
from studies.gradsim.rigid.networks import ConvLSTM
from studies.gradsim.rigid.page import Row
from studies.gradsim.rigid.tables import RATES, blind_rows, chosen_rate, network_row
from studies.gradsim.tosses import BEYOND, CONTACT, MASS, MESHES, NUMBERS, OBJECTS, RANGES, draw_toss, shaped, toss_scene

SIZE = 48


def seen(index: int, units: str = "paper"):
    """A toss, its scene, and its film."""
    toss = draw_toss(index, seed=0, units=units)
    scene = toss_scene(toss, size=SIZE)
    with torch.no_grad():
        pictures, finite = film(scene, {}, worlds=1, frames=scene.frames)
    assert finite.all()
    return toss, scene, pictures[0]


# -- objects and tosses ------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_objects_are_solids_of_few_vertices_and_as_they_are_made(make) -> None:
    path = MESHES / f"{make.__name__}.obj"
    read, (vertices, faces) = trimesh.load(path, process=False), normalise(make())
    np.testing.assert_allclose(read.vertices, vertices, atol=1e-6)
    assert read.is_watertight and read.is_winding_consistent and read.volume > 0 and len(read.vertices) <= MAX_VERTICES
    assert (read.faces == faces).all() and np.ptp(read.vertices, axis=0).max() == pytest.approx(1, abs=2e-6)
    assert make.__name__ in OBJECTS and len(OBJECTS) == 14


def test_half_of_the_objects_are_not_convex() -> None:
    meshes = [trimesh.load(MESHES / f"{name}.obj") for name in OBJECTS]
    assert sum(mesh.volume < 0.9 * mesh.convex_hull.volume for mesh in meshes) >= 7


@pytest.mark.parametrize("units", RANGES)
def test_tosses_are_drawn_from_their_ranges_and_again(units: str) -> None:
    tosses = [draw_toss(index, seed=1, units=units) for index in range(28)]
    assert tosses[3] == draw_toss(3, seed=1, units=units) != draw_toss(3, seed=2, units=units)
    for name in NUMBERS:
        low, high = RANGES[units].of(name)
        values = [toss.values[name] for toss in tosses]
        assert low <= min(values) < low + 0.25 * (high - low) and high - 0.25 * (high - low) < max(values) <= high
    assert [toss.shape for toss in tosses] == [*OBJECTS, *OBJECTS]
    assert json.loads(json.dumps(tosses[0].to_json()))["shape"] == tosses[0].shape


@pytest.mark.parametrize("units", RANGES)
def test_the_hardest_contact_of_a_light_object_gains_no_energy(units: str) -> None:
    """With the largest constants and the least density: no more energy of the centre of mass than all that there was."""
    toss, ranges = draw_toss(11, seed=0, units=units), RANGES[units]
    hardest = {name: ranges.of(name)[1] for name in NUMBERS} | {MASS: ranges.density[0]}
    states = toss_scene(toss.with_values(hardest), size=SIZE).rollout()
    velocity, height = states.body_qd[0, :, 0].double(), states.body_q[0, :, 0, 2].double()
    moving = 0.5 * (velocity[:, :3] ** 2).sum(dim=1) + 9.81 * height
    solid = shaped(toss.shape, toss.sides).solid()
    turning = 0.5 * float(velocity[7, 3:].norm()) ** 2 * np.linalg.eigvalsh(solid.inertia_per_density)[-1] / solid.volume
    assert float(moving[7:].max()) <= float(moving[7]) + turning and float(moving[-1]) < 0.5 * float(moving[7])


def test_the_push_shows_the_mass() -> None:
    """In flight the centre of mass changes its velocity by impulse over mass, and falls as everything does."""
    toss, scene, _ = seen(0)
    velocity = scene.rollout().body_qd[0, 7, 0, :3].cpu().numpy()
    gained = np.array(toss.impulse) / (toss.values[MASS] * shaped(toss.shape, toss.sides).solid().volume)
    np.testing.assert_allclose(velocity, np.array(toss.velocity) + gained + (0, 0, -9.81 * 7 / 30), rtol=2e-3, atol=2e-3)


# -- identification ------------------------------------------------------------


def test_guesses_are_far_off_and_within_their_bounds() -> None:
    truth, random = {MASS: 6.0}, np.random.default_rng(0)
    factors = np.array([far_guess(truth, random)[MASS] / 6.0 for _ in range(200)])
    assert factors.min() < 0.25 and factors.max() > 4 and (np.abs(np.log(factors)) <= math.log(5)).all()
    scene = toss_scene(draw_toss(0, seed=0), size=SIZE)
    values = [range_guess(scene, [MASS], random)[MASS] for _ in range(200)]
    assert 2 / BEYOND <= min(values) < 0.5 and 50 < max(values) <= 12 * BEYOND


@pytest.mark.usefixtures("undiagnosed")
def test_a_mass_five_times_off_is_found_from_the_flight_and_then_to_rounding() -> None:
    toss, scene, pictures = seen(812)
    guess, truth = {MASS: 5 * toss.values[MASS]}, toss.values[MASS]
    scan = scanned_mass(scene, pictures, guess, identification.PixelLoss())
    assert abs(math.log(scan / truth)) <= math.log(1.13)
    result = identify(scene, pictures, guess, random=np.random.default_rng(0))
    error, bar = result.values[MASS] / truth - 1, math.log(10) * result.sd[MASS]
    assert abs(error) < 1e-5 and abs(error) < 4 * bar < 1e-4 and result.losses[result.best] < identification.EXACT


def test_searches_of_exact_films_are_repeated_until_one_explains_it_and_the_best_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further starts keep the guess's mass, and draw the other numbers."""
    other = "ground.contact.damping"
    scene, guess, begun = toss_scene(draw_toss(0, seed=0), size=8), {MASS: 3.0, other: 7.0}, []
    losses = iter([3e-5, 1e-5, 2e-5, 1e-12, 0.0])

    def searched(*_: object, starts: list[dict[str, float]], **__: object) -> SimpleNamespace:
        begun.append(starts)
        return SimpleNamespace(losses=np.array([next(losses)]), best=0)

    monkeypatch.setattr(identification, "invert", searched)
    monkeypatch.setattr(identification, "scanned_mass", lambda scene, film, each, loss: 10 * each[MASS])
    found = identify(scene, torch.zeros(3, 8, 8, 3), guess, random=np.random.default_rng(0))
    assert found.losses[0] == 1e-12 and len(begun) == 4 and begun[0] == [{MASS: 30.0, other: 7.0}]
    assert all(start[MASS] == 30.0 and start[other] != 7.0 for (start,) in begun[1:])
    losses = iter([2e-5, 1e-5, 3e-5, 4e-5, 5e-5, 6e-5])
    assert identify(scene, torch.zeros(3, 8, 8, 3), guess, random=np.random.default_rng(0)).losses[0] == 1e-5


def test_cells_begin_up_to_five_times_off_and_report_parts_of_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Error bars are in decades, of which one is ln 10 in the logarithm."""
    factors = []

    def found(scene: object, video: object, guess: dict[str, float], **_: object) -> SimpleNamespace:
        factors.append(guess[MASS] / scene.parameters[MASS].value)
        value, bars = 1.5 * scene.parameters[MASS].value, SimpleNamespace(observable=[True], unobservable=[])
        return SimpleNamespace(
            values={MASS: value}, sd={MASS: 0.02}, unknowns=SimpleNamespace(labels=[MASS]), uncertainty=bars, converged=True,
            fits=True, misfit=1.0, losses=np.array([1e-9]), best=0, doubts=(), remarks=(), history=SimpleNamespace(losses=[1.0]),
        )  # fmt: skip

    monkeypatch.setattr(rigid_cells, "film", lambda *_, **__: (torch.zeros(1, 9, 8, 8, 3), None))
    monkeypatch.setattr(rigid_cells, "identify", found)
    asked = {"seed": 0, "units": "paper", "size": 8, "frames": 8, "unknowns": [MASS], "source": "lossless", "start": "far"}
    results = [rigid_cells.identified(index, **asked) for index in range(14)]
    assert max(np.abs(np.log(factors))) > math.log(4) and (np.abs(np.log(factors)) <= math.log(5)).all()
    assert results[0]["error"][MASS] == pytest.approx(0.5) and results[0]["bar"][MASS] == pytest.approx(0.02 * 2.302585)


# -- the black box ------------------------------------------------------------


def test_rewards_of_the_black_box_count_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalised rewards times 0.925 to the power of the updates so far (table 5 of the paper)."""
    scene, spreads, draws_of = toss_scene(draw_toss(0, seed=0), size=8), [], []

    def noted(mean: torch.Tensor, draws: torch.Tensor, rewards: torch.Tensor, noise: float) -> torch.Tensor:
        spreads.append(float(rewards.std(unbiased=False)))
        draws_of.append(draws - mean.detach())
        return surrogate_loss(mean, draws, rewards, noise)

    monkeypatch.setattr(black_box, "surrogate_loss", noted)
    settings = black_box.BlackBox(samples=64, updates=4)
    films = lambda values: (torch.as_tensor(values[MASS]).reshape(-1, 1, 1, 1, 1), torch.ones(64, dtype=torch.bool))  # noqa: E731
    random = np.random.default_rng(0)
    path = black_box.reinforce(scene, films, torch.full((1, 1, 1, 1), 8.0), {MASS: 4.0}, {MASS: 5.0}, settings, random)
    np.testing.assert_allclose(spreads, 0.925 ** np.arange(4), rtol=1e-6)
    assert torch.cat(draws_of).std() == pytest.approx(0.05, rel=0.1)
    assert [each[MASS] for each in path] == sorted(each[MASS] for each in path) and len(path) == 5  # towards a higher reward


def test_the_gradient_of_the_surrogate_is_that_of_reinforce() -> None:
    random = np.random.default_rng(0)
    mean, draws, rewards = (torch.tensor(random.normal(size=shape)) for shape in ((2,), (5, 2), (5,)))
    mean.requires_grad_(True)
    surrogate_loss(mean, draws, rewards, 0.3).backward()
    expected = -np.mean(rewards.cpu().numpy()[:, None] * (draws - mean.detach()).cpu().numpy() / 0.3**2, axis=0)
    np.testing.assert_allclose(mean.grad, expected, rtol=1e-12)


def test_rewards_are_highest_at_the_truth_and_normalised() -> None:
    toss, scene, pictures = seen(0)
    factors = np.array([0.5, 1.0, 1.5])
    rewards = film_rewards(partial(engine_films, scene), pictures, {MASS: factors * toss.values[MASS]})
    assert rewards[1] > -1e-2 and (rewards[[0, 2]] < -1).all()
    scaled = normalised_rewards(rewards).cpu().numpy()
    np.testing.assert_allclose((scaled.mean(), scaled.std()), (0, 1), atol=1e-12)
    assert (normalised_rewards(torch.ones(3)) == 0).all()


def test_draws_that_diverge_have_the_lowest_reward() -> None:
    pictures = torch.stack([torch.full((2, 2, 2, 3), value) for value in (0.1, 0.5, 0.0, 0.2)])
    finite = torch.tensor([True, True, False, True])
    rewards = film_rewards(lambda _: (pictures, finite), torch.zeros(2, 2, 2, 3), {})
    assert rewards[2] == rewards[1] == rewards.min() and rewards[0] == rewards.max()


def test_black_boxes_and_networks_are_tested_on_held_out_tosses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate is chosen on training tosses, and the row of the table is that of the others."""
    asked: list[set[int]] = []

    def run(cells: list, folder: Path, **_: object) -> list[dict]:
        asked.append({cell.given["index"] for cell in cells})
        return [{"error": {MASS: 0.1}} for _ in cells]

    monkeypatch.setattr(rigid_tables, "run_cells", run)
    preset = PRESETS["quick"]
    rigid_tables._black_boxes("black box", "engine", "table-1", preset, tmp_path, [MASS], 1)
    chosen, tested = asked
    assert max(chosen) < preset.train <= min(tested) and tested == set(rigid_tables.test_tosses(preset))
    network = rigid_tables._network_cell(preset, tmp_path)
    assert set(network.given["test"]) == tested
    assert network.given["count"] == preset.train


def test_networks_learn_from_the_films_that_choose_no_epoch() -> None:
    learnt, held = networks.parts_of(100, 0.1)
    assert (learnt, held) == ((0, 90), (90, 100)) and networks.parts_of(2, 0.1) == ((0, 1), (1, 2))
    with pytest.raises(UserError, match="trained on 1 film, and another must choose its epoch"):
        networks.parts_of(1, 0.1)


def test_the_epoch_is_chosen_by_films_that_no_network_learns_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of twelve films ten are for training, of which two choose the epoch, also of passes while films are made; the last two are
    read by the chosen weights.
    """
    random, learnt, read = np.random.default_rng(0), [], []
    films = NetworkFilms(
        random.normal(size=(12, 2, 3, networks.MAP, networks.MAP)).astype(np.float16), random.normal(size=(12, 4)),
        np.arange(60.0).reshape(12, 5),
    )  # fmt: skip

    def epoch(network: torch.nn.Module, adam: object, scales: object, part: NetworkFilms, settings: object) -> float:
        learnt.append(part.numbers[:, 0] / 5)
        with torch.no_grad():
            for weight in network.parameters():
                weight.fill_(len(learnt))
        return 1.0

    def outputs(network: torch.nn.Module, scales: networks.Scales, part: NetworkFilms) -> torch.Tensor:
        """Nearest to the truth after the second of three epochs, the fourth pass."""
        passes = float(next(network.parameters()).detach().flatten()[0])
        read.append((part.numbers[:, 0] / 5, passes))
        return scales.targets(part) + abs(passes - 4)

    monkeypatch.setattr(networks, "_epoch", epoch)
    monkeypatch.setattr(networks, "_read", outputs)
    first, left = NetworkFilms(films.features[:10], films.known[:10], films.numbers[:10]), [True, True]
    monkeypatch.setattr(networks, "planned_parts", lambda *_: [None, None])
    monkeypatch.setattr(networks, "read_parts", lambda *_: [first] * (1 if left else 2))
    monkeypatch.setattr(networks, "_waited_for", lambda *_, least: [first] if least == 1 else [films])
    maker = SimpleNamespace(is_alive=lambda: bool(left) and left.pop())
    settings = networks.NetworkSettings(kind="convnet", epochs=3, held=0.2)
    result = networks._train(settings, tmp_path, 10, 12, [11, 10], maker)
    assert result["early"] == 2 and len(learnt) == 5 and all(list(part) == list(range(8)) for part in learnt)
    *choosing, (last, passes) = read
    assert [list(part) for part, _ in choosing] == [[8, 9]] * 3 and (list(last), passes) == ([10, 11], 4)
    assert result["epoch"] == 1 and [losses[1] for losses in result["curve"]] == pytest.approx([1, 0, 1])
    np.testing.assert_allclose(result["values"], films.numbers[[11, 10]])
    np.testing.assert_allclose(result["truth"], films.numbers[[11, 10]])
    np.testing.assert_allclose(result["mean"], films.numbers[:10].mean(axis=0))


def test_bullet_flies_as_this_engine_does_and_a_box_rests_as_deep() -> None:
    pytest.importorskip("pybullet", reason="PyBullet is not installed")
    for index in (2, 7, 10):  # a capsule, a bowl and a bracket: inertia about axes that are not those of the mesh
        toss = draw_toss(index, seed=0)
        poses = bullet_poses(toss, frames=60)
        with torch.no_grad():
            ours = toss_scene(toss, size=8).rollout(worlds=1).body_q[0, :, 0].cpu().numpy()
        flight = slice(0, 10)
        assert np.linalg.norm(poses[flight, :3] - ours[flight, :3], axis=1).max() < 0.01
        assert np.abs((poses[flight, 3:] * ours[flight, 3:]).sum(axis=1)).min() > 1 - 1e-4
    still, values = (0.0, 0.0, 0.0), dict.fromkeys(CONTACT, 60.0) | {MASS: 4.0, "ground.contact.stiffness": 300.0}
    flat = replace(
        draw_toss(0, seed=0).with_values(values), orientation=(0.0, 0.0, 0.0, 1.0), velocity=still, angular_velocity=still,
        impulse=still,
    )  # fmt: skip
    half = np.ptp(shaped(flat.shape, flat.sides).mesh().vertices[:, 2]) / 2
    lying = bullet_poses(replace(flat, position=(0.0, 0.0, half + 0.05)), frames=120)[-1, 2]
    assert half - lying == pytest.approx(4 * flat.volume * 9.81 / (4 * 300), rel=0.01)  # m g over the springs of four corners


def test_the_rate_of_the_black_box_is_that_of_the_least_error() -> None:
    cells = [Cell(f"{rate}-{k}", dict, {"rate": rate}) for rate in RATES for k in range(2)]
    results = [{"error": {"a": error}} for error in (0.3, -0.5, 0.1, -0.2, 0.4, 0.4)]
    assert chosen_rate(results, cells) == RATES[1]
    assert chosen_rate([{FAILED: "no"}] * 2 + results[2:], cells) == RATES[1]


def test_the_worst_told_film_is_named_with_its_bar_and_the_mean_of_the_others() -> None:
    def found(error: float, bar: float, converged: bool = True) -> dict:
        return {
            "error": dict.fromkeys(NUMBERS, error), "bar": dict.fromkeys(NUMBERS, bar), "converged": converged, "shape": "box"
        }

    films = [found(-0.02, 0.01), found(0.001, 0.01), found(0.003, 0.01), found(0.5, 0.2), found(0.4, 0.01, False), {FAILED: ""}]
    lines = rigid_page._worst(films)
    assert len(lines) == len(NUMBERS) and lines[0] == "- m: 0.02 of the box, with a bar of 0.01; mean of the others 0.002"


# -- networks ------------------------------------------------------------


def test_the_convolutional_lstm_follows_its_equations() -> None:
    """Of one frame, by numpy: the state before it is zero."""
    torch.manual_seed(0)
    network = ConvLSTM(1, 5, 2, 3)
    features, known = torch.rand(1, 1, 5, 4, 4), torch.rand(1, 2)
    with torch.no_grad():
        frame = network.reduce(features[:, 0])
        gates = torch.nn.functional.conv2d(frame, network.gates.weight[:, :32], network.gates.bias, padding=1)
        into, _, out, new = gates.cpu().numpy().reshape(4, 32, 4, 4)
        sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
        hidden = sigmoid(out) * np.tanh(sigmoid(into) * np.tanh(new))
        expected = network.linear(torch.cat([torch.tensor(hidden).flatten()[None], known], dim=1))
        torch.testing.assert_close(network(features, known), expected)


def test_films_of_networks_are_written_once_and_checked(tmp_path: Path) -> None:
    write_parts(tmp_path, seed=0, units="paper", size=32, frames=60, count=2)
    (part,) = read_parts(tmp_path, 2)
    toss = draw_toss(1, seed=0)
    mass = toss.values[MASS] * toss.volume
    assert part.features.shape[:2] == (2, 31) and part.features.shape[3:] == (4, 4) and np.abs(part.features).max() > 0.1
    np.testing.assert_allclose(np.exp(part.numbers[1]), [mass, *[toss.values[name] for name in NUMBERS][1:]])
    before = (tmp_path / "films-00000.npz").stat().st_mtime_ns
    write_parts(tmp_path, seed=0, units="paper", size=32, frames=60, count=2)
    assert (tmp_path / "films-00000.npz").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="holds other films"):
        read_parts(tmp_path, 3)


# -- tables ------------------------------------------------------------


def test_rows_count_what_they_say() -> None:
    row = Row("ours", np.array([[0.1, 2.0], [-0.3, 0.5]]), np.array([[0.04, 1.0], [0.2, 0.04]]), np.array([2.0, 4.0]), 1.0)
    assert row.mean(0) == pytest.approx(0.2) and row.median(1) == pytest.approx(1.25) and row.mean_kg() == pytest.approx(0.7)
    assert row.mean(0, told=True) == pytest.approx(0.1) and row.mean(1, told=True) == pytest.approx(0.5)
    assert row.inside() == (1, 4) and row.told.tolist() == [[True, False], [False, True]]
    sure = Row("ours", row.errors, row.bars, row.masses, 1.0, converged=np.array([False, True]))
    assert sure.inside() == (1, 4) and sure.inside(converged=True) == (1, 2)
    assert sure.told.tolist() == [[False, False], [False, True]] and sure.mean(1, told=True) == pytest.approx(0.5)
    assert Row("ours", np.array([[0.07]]), np.array([[0.04]]), np.array([1.0]), None).inside() == (1, 1)
    assert math.isnan(Row("ours", np.array([[1.0]]), np.array([[1.0]]), np.array([1.0]), None).mean(0, told=True))


def test_blind_rows_know_the_training_tosses_alone() -> None:
    preset = PRESETS["tiny"]
    average, drawn = blind_rows(preset, [MASS])
    masses = [toss.values[MASS] * toss.volume for toss in (draw_toss(k, seed=0) for k in range(preset.train + 1))]
    assert average.errors[0, 0] == pytest.approx(np.mean(masses[:-1]) / masses[-1] - 1)
    assert any(drawn.errors[0, 0] == pytest.approx(mass / masses[-1] - 1) for mass in masses[:-1])


def test_outputs_of_networks_are_logarithms() -> None:
    result = {"values": [[math.log(2.0), 9.0]], "truth": [[math.log(1.6), 1.0]]}
    np.testing.assert_allclose(network_row("convnet", result, np.ones(1), 1).errors, [[0.25]])


def test_small_and_large_numbers_are_short() -> None:
    assert [digits(x) for x in (0.0, 0.1234, 12.345, 1.234e-5, None, math.nan)] == ["0", "0.123", "12.3", "1.23e-5", "-", "-"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the results of both tables, whose networks are the same."""
    return tmp_path_factory.mktemp("tables") / "runs"


@pytest.mark.usefixtures("undiagnosed")
@pytest.mark.parametrize("name, rows", [("table-1", 12), ("table-2", 8)])
def test_a_tiny_table_has_all_rows_and_is_not_made_twice(
    name: str, rows: int, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identification, "TOGETHER", 1)
    monkeypatch.setattr(identification, "TRIES", 1)
    monkeypatch.setitem(PRESETS, "tiny", replace(PRESETS["tiny"], size=16, large=24, small=16, frames=10))
    command = [name, "--preset", "tiny", "--jobs", "1", "--out", str(results), "--results", str(tmp_path / "docs")]
    assert main([*command, "--archive", str(tmp_path / "kept.tar.xz")]) == 0
    page = (tmp_path / "docs" / f"{name}.md").read_text()
    table = [line.split(" | ")[0].strip("| ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(table) == rows and {"average", "random", "convnet", "convlstm", "black box", "3D supervision"} < set(table)
    assert "ours, lossless" in table and "ours, mp4" in table
    for picture in ("training", "black-box", "strip"):
        assert f"images/{name}-{picture}.png" in page and (tmp_path / "docs" / "images" / f"{name}-{picture}.png").is_file()
    made = {path: path.read_bytes() for path in results.rglob("*.json")}  # with the seconds that each took
    shutil.rmtree(results)
    with tarfile.open(tmp_path / "kept.tar.xz") as archive:
        archive.extractall(results, filter="data")
    assert main(command) == 0 and made == {path: path.read_bytes() for path in results.rglob("*.json")}
    assert (tmp_path / "docs" / f"{name}.md").read_text() == page


# -- cells ------------------------------------------------------------


def half(number: int) -> dict[str, float]:
    """A cell's work: half of an even number."""
    if number % 2:
        raise UserError(f"{number} is odd")
    return {"half": number / 2}


def test_cells_are_done_once_and_failures_are_results(tmp_path: Path) -> None:
    cells = [Cell(f"halves/{n}", half, {"number": n}) for n in (4, 3)]
    first, second = run_cells(cells, tmp_path, jobs=1, title="halves")
    assert first["half"] == 2 and second[FAILED] == "3 is odd"
    (tmp_path / "halves" / "4.json").write_text(
        json.dumps({"given": {"number": 4}, "result": {"half": 7}})
    )  # what is there counts
    assert run_cells(cells, tmp_path, jobs=1, title="halves")[0]["half"] == 7
    with pytest.raises(UserError, match="made with other settings"):
        Cell("halves/4", half, {"number": 6}).read(tmp_path)
    (tmp_path / "halves" / "4.json").write_text('{"given": {"nu')
    with pytest.raises(UserError, match="is damaged"):
        cells[0].read(tmp_path)


def test_archives_hold_all_results_and_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder, cells = Path("runs/tiny"), [Cell(f"halves/{n}", half, {"number": n}) for n in (4, 6)]
    first = run_cells(cells, folder, jobs=1, title="halves")
    for name in ("a.tar.xz", "b.tar.xz"):
        write_archive(Path(name), folder)
        os.utime(folder / "halves/4.json", (1, 1))
    assert Path("a.tar.xz").read_bytes() == Path("b.tar.xz").read_bytes()
    shutil.rmtree("runs")
    with tarfile.open("a.tar.xz") as archive:
        archive.extractall(".", filter="data")
    assert run_cells(cells, folder, jobs=1, title="halves") == first
    for path, place, words in (("a.zip", folder, "ends in .tar.xz"), ("a.tar.xz", Path("docs"), "holds no results")):
        with pytest.raises(UserError, match=words):
            write_archive(Path(path), place)


def test_wrong_names_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table-11"]) == 2 and "table-1" in capsys.readouterr().err
    assert main(["table-1", "--preset", "quik"]) == 2 and "quick" in capsys.readouterr().err
