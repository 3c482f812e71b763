"""Loss landscapes of gradSim's figures 4, 11 and 12: what is counted and measured, and their pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import PixelLoss, UserError, film, landscape
from risp_torch.inversion import Comparison
from studies.gradsim import cells
from studies.gradsim.landscapes import figures as landscapes
from studies.gradsim.landscapes.cells import Facts, reinforce_steps, rigid_losses, sampled_loss, soft_losses
from studies.gradsim.landscapes.films import DENSITY, FORCE, LAME, MASS, SIDE, frame_losses, rigid_scene, soft_scene
from studies.gradsim.landscapes.maps import valley
from studies.gradsim.landscapes.minima import curvature, local_minima, normalised, reach, slope
from studies.gradsim.landscapes.pages import COLUMNS
from studies.gradsim.landscapes.surrogate import NOISE, rewards, standardised, steps, surrogate
from studies.gradsim.presets import PRESETS

SIZE = 16


def test_minima_of_a_wave_are_counted_and_shallow_ones_left_out() -> None:
    x = np.linspace(0.0, 6.0, 301)
    wave = np.cos(2 * np.pi * x) + 0.01 * x  # dips at 0.5, 1.5 ..., the first the lowest; both ends lie high
    assert [round(float(x[i]), 1) for (i,) in local_minima(wave)] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    rough = (x - 3.0) ** 2 + 0.01 * np.cos(20 * np.pi * x)
    assert len(local_minima(rough)) > 1 and local_minima(rough, depth=0.01) == [(int(np.argmin(rough)),)]


def test_minima_in_one_dimension_are_the_places_below_both_neighbours() -> None:
    for seed in range(5):
        loss = np.random.default_rng(seed).uniform(size=60)
        padded = np.concatenate([[np.inf], loss, [np.inf]])
        below = np.flatnonzero((padded[1:-1] < padded[:-2]) & (padded[1:-1] < padded[2:]))
        assert sorted(i for (i,) in local_minima(loss, depth=0.0)) == below.tolist()


def test_a_plateau_is_one_minimum_and_infinite_losses_are_outside() -> None:
    assert len(local_minima([3.0, 1.0, 1.0, 1.0, 2.0])) == 1
    assert local_minima([np.inf, 2.0, 1.0, np.nan]) == [(2,)]
    with pytest.raises(UserError, match="finite"):
        local_minima([np.inf, np.nan])


def test_minima_of_a_map_have_the_depth_at_which_they_meet() -> None:
    axis = np.linspace(-2.0, 2.0, 41)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    two = (x**2 - 1) ** 2 + y**2 + 0.1 * x  # pits near (-1, 0) and (1, 0), which meet near (0, 0)
    assert [(round(float(axis[i]), 1), round(float(axis[j]), 1)) for i, j in local_minima(two)] == [(-1.0, 0.0), (1.0, 0.0)]
    depth = (two[20, 20] - two[30, 20]) / np.ptp(two)
    assert len(local_minima(two, depth=0.9 * depth)) == 2 and len(local_minima(two, depth=1.2 * depth)) == 1


def test_slopes_and_curvature_are_by_the_logarithm() -> None:
    x = np.geomspace(0.2, 5.0, 2001)
    loss = 3.0 * np.log(x) ** 2
    assert curvature(x, loss, 1.0) == pytest.approx(6.0, rel=1e-6)
    assert slope(x, loss, 2.0) == pytest.approx(6.0 * np.log(2.0), rel=0.01)
    assert slope(x, loss, 0.5) == pytest.approx(-6.0 * np.log(2.0), rel=0.01)
    assert reach(x, np.where(x > 2, -loss, loss), 1.0)[0] == pytest.approx(0.2)
    assert reach(x, np.where(x > 2, -loss, loss), 1.0)[1] == pytest.approx(2.0, rel=0.02)
    facts = Facts.of(x, loss)
    assert facts.minima == [pytest.approx(1.0)] and facts.deep == 1 and facts.decades == pytest.approx(np.log10(25))
    assert facts.sharpness == pytest.approx(6.0 / loss.max()) and normalised([1.0, 4.0, np.inf])[0] == 0.25


def test_the_valley_of_a_quadratic_map_is_the_ratio_of_its_eigenvalues() -> None:
    ratio = np.geomspace(0.2, 5.0, 31)
    a, b = np.meshgrid(np.log(ratio), np.log(ratio), indexing="ij")
    along, across = (a - b) / np.sqrt(2), (a + b) / np.sqrt(2)
    assert valley(ratio.tolist(), 0.03 * along**2 + across**2) == pytest.approx(0.03, rel=1e-6)


def test_the_surrogate_is_the_loss_whose_gradient_reinforce_takes() -> None:
    masses, reward, centre = np.array([0.9, 0.95, 1.02, 1.1]), np.array([-1.0, -0.4, -0.1, -0.3]), 1.0
    mean = torch.tensor(centre, dtype=torch.float64, requires_grad=True)
    logs = torch.distributions.Normal(mean, NOISE).log_prob(torch.as_tensor(masses))
    weights = torch.as_tensor((reward - reward.mean()) / reward.std())
    assert surrogate(masses, reward, centre) == pytest.approx((-weights * logs).detach().cpu().numpy())
    (weights * logs).mean().backward()
    assert steps(masses[None], reward[None], centre)[0] == pytest.approx(mean.grad.item())
    assert rewards(np.array([[1.0, 2.0], [0.5, 0.0]])).tolist() == [-3.0, -0.5]
    assert standardised(np.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_frame_losses_are_what_a_landscape_of_the_engine_gives() -> None:
    scene = rigid_scene("landing", size=SIZE)
    truth = scene.parameters[DENSITY].value
    with torch.no_grad():
        true, _ = film(scene, {}, worlds=1, frames=scene.frames)
    for sampling in ("all", "first+last", "every:5"):
        comparison = Comparison.of(scene, PixelLoss(), true[0], sampling)
        bounds = {DENSITY: (0.5 * truth, 2.0 * truth, "linear")}
        (values,), expected = landscape(scene, comparison, [DENSITY], points=4, bounds=bounds, progress=False)
        losses = frame_losses(scene, {DENSITY: values}, worlds=3)
        assert sampled_loss(losses, sampling) == pytest.approx(expected, rel=1e-4)
    assert sampled_loss(losses, "first+last", 10) == pytest.approx(losses[:, [0, 10]].mean(axis=1))


def test_the_cube_weighs_a_kilogram_a_vertex_and_is_pulled_at_two() -> None:
    scene = rigid_scene("flight", size=SIZE)
    with torch.no_grad():
        states = scene.rollout(worlds=1)
    assert scene.parameters[DENSITY].value * SIDE**3 == pytest.approx(MASS) == 8.0
    seconds = scene.frames * scene.frame_dt
    assert states.body_qd[0, -1, 0, 2].item() == pytest.approx(-2 * FORCE / MASS * seconds, rel=1e-3)


def test_grids_hold_the_truth() -> None:
    rigid = rigid_losses(kind="flight", size=SIZE, points=4, scale="linear")
    assert (rigid["ratio"][0], rigid["ratio"][-1]) == (0.1, 5.0) and 1.0 in rigid["ratio"] and len(rigid["losses"]) == 5
    assert sampled_loss(rigid["losses"], "all")[rigid["ratio"].index(1.0)] == pytest.approx(0.0, abs=1e-9)
    soft = soft_losses(kind="beam", size=SIZE, points=2, names=list(LAME))
    assert np.array(soft["all"]).shape == (3, 3) and np.argmin(soft["all"]) == 4
    scene = soft_scene("beam", size=SIZE)
    stiffer = frame_losses(scene, {LAME[0]: np.array([5000.0]), LAME[1]: np.array([1000.0])})
    assert soft["all"][2][1] == pytest.approx(float(stiffer.mean()), rel=1e-3)  # the first name comes first


def test_steps_of_the_black_box_have_the_signs_of_a_falling_reward() -> None:
    """Near the truth of a smooth film, samples of which the lighter is better drive the centre down."""
    result = reinforce_steps(kind="flight", size=SIZE, frames=10, centres=[0.7, 1.5], samples=4, draws=3, seed=0)
    assert result["right"] == [1.0, 1.0]


def test_pages_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = replace(PRESETS["tiny"], size=SIZE, small=SIZE)
    text = {name: landscapes.make(name, preset, tmp_path, jobs=1).text for name in ("figure-4", "figure-11", "figure-12")}
    assert text["figure-4"].count("| cube ") == 4 and text["figure-4"].count("| hanging beam: ") == 4
    assert text["figure-11"].count("| falling ball |") == 2 and text["figure-12"].count("| cube ") == 32
    assert all(column in text["figure-12"] for column in COLUMNS)
    monkeypatch.setattr(cells, "_perform", lambda cell, folder: pytest.fail(f"{cell.name} is made again"))
    for name, before in text.items():
        page = landscapes.make(name, preset, tmp_path, jobs=1)
        assert page.text == before
        page.write(tmp_path / "written")
        for key in page.pictures:
            assert f"images/{name}-{key}" in page.text and (tmp_path / "written" / "images" / f"{name}-{key}").is_file()
