"""Figure 7 of gradSim: looks of tossed objects, searches of their mass, and the page."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import film
from studies.gradsim import cells
from studies.gradsim.landscapes import looks
from studies.gradsim.landscapes.films import frame_losses
from studies.gradsim.landscapes.looks import FARTHEST, LOOKS, SEARCHES, box_uv, iterations_to, look_scene, start_factor
from studies.gradsim.presets import PRESETS
from studies.gradsim.tosses import MASS, draw_toss, shaped, toss_scene

SIZE = 24


def test_iterations_count_until_the_error_stays_below() -> None:
    assert iterations_to([1.0, 0.05, 0.2, 0.08, 0.01], 0.1) == 3
    assert iterations_to([0.05, 0.01], 0.1) == 0
    assert iterations_to([1.0, 0.05, 0.2], 0.1) is None
    assert iterations_to([1.0, 0.05, float("nan")], 0.1) is None


def test_starts_are_far_off_both_ways_and_drawn_once() -> None:
    factors = np.array([start_factor(index, seed=0) for index in range(200)])
    assert factors.min() > 1 / FARTHEST and factors.max() < FARTHEST
    assert 0.35 < (factors > 1).mean() < 0.65 and np.ptp(np.log(factors)) > 1.8 * np.log(FARTHEST)
    assert start_factor(3, seed=0) == factors[3] != start_factor(3, seed=1)


def test_looks_differ_as_they_say() -> None:
    """One colour has no brightness of its own on the body, shading has, and texture has several colours."""
    colors = {look: _first_frame(look) for look in LOOKS}
    like = {look: np.abs(frame - looks.COLOR).max(axis=1) < 1e-3 for look, frame in colors.items()}
    assert like["colour"].sum() > 100 and like["shading"].sum() == like["texture"].sum() == 0
    body = like["colour"]
    hue = {look: colors[look][body] / colors[look][body].sum(axis=1, keepdims=True) for look in ("shading", "texture")}
    assert colors["shading"][body].std(axis=0).max() > 0.02  # faces differ
    assert hue["texture"].std(axis=0).min() > 3 * hue["shading"].std(axis=0).max()


def _first_frame(look: str) -> np.ndarray:
    """Pixels [N, 3] of the first picture of a toss."""
    with torch.no_grad():
        frames, _ = film(look_scene(draw_toss(0, seed=0), look, size=64), {}, worlds=1, frames=1)
    return frames[0, 0].reshape(-1, 3).cpu().numpy()


def test_texture_is_as_dense_on_every_face() -> None:
    toss = draw_toss(9, seed=0)
    mesh = shaped(toss.shape, toss.sides).mesh()
    uv, side = box_uv(toss), np.ptp(mesh.vertices, axis=0).max()
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    first, second = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    areas = np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]) / 2
    assert areas * (side / looks.PATCHES) ** 2 == pytest.approx(np.abs(normal).max(axis=1))  # projected along one axis


@pytest.mark.usefixtures("undiagnosed")
def test_the_page_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = replace(PRESETS["tiny"], size=SIZE, small=SIZE)
    monkeypatch.setattr(looks, "toss_scene", partial(toss_scene, frames=20))
    page = looks.make("figure-7", preset, tmp_path, jobs=1)
    for search in SEARCHES.values():
        for look in LOOKS.values():
            assert f"| {search} | {look} |" in page.text
    assert "the paper's order" in page.text
    for search in SEARCHES:
        result = json.loads((tmp_path / f"looks/{search}-shading-0.json").read_text())["result"]
        assert result["history"][0] == pytest.approx(result["truth"] * start_factor(0, seed=0))
        assert result["history"][-1] == result["found"] != result["start"]
        if search != "newton":
            assert len(result["history"]) == preset.updates + 1
    assert all(f"images/figure-7-{key}" in page.text and path.is_file() for key, path in page.pictures.items())
    monkeypatch.setattr(cells, "_perform", lambda cell, folder: pytest.fail(f"{cell.name} is made again"))
    assert looks.make("figure-7", preset, tmp_path, jobs=1).text == page.text


def test_plain_descent_takes_steps_of_the_slope() -> None:
    """Against differences of the loss that another function computes, over a step on which contacts hardly change."""
    scene = look_scene(draw_toss(0, seed=0), "shading", size=SIZE)
    truth = scene.parameters[MASS].value
    with torch.no_grad():
        frames, _ = film(scene, {}, worlds=1, frames=scene.frames)
    before, after = looks.plain_descent(scene, frames[0], 2 * truth, iterations=1)
    near = frame_losses(scene, {MASS: 2 * truth * np.array([10**-0.001, 10**0.001])}).mean(axis=1)
    assert before == 2 * truth
    assert np.log10(after / before) == pytest.approx(-looks.PLAIN_RATE * (near[1] - near[0]) / 0.002, rel=0.03)


def test_errors_of_searches_that_end_early_stay() -> None:
    errors = looks._errors([{"truth": 2.0, "history": [4.0, 2.0]}, {"truth": 1.0, "history": [3.0, 2.0, 1.5]}, {"failed": "x"}])
    assert errors.tolist() == [[1.0, 0.0, 0.0], [2.0, 1.0, 0.5]]


def test_landscapes_of_a_look_are_summed_up() -> None:
    ratio = np.geomspace(0.2, 5.0, 61).tolist()
    losses = [{"ratio": ratio, "loss": (scale * np.log(ratio) ** 2).tolist()} for scale in (1.0, 2.0, 3.0)]
    alone, width, curvature, below, above = looks._shape_row([*losses, {"failed": "x"}])
    assert (alone, width, curvature) == ("3 of 3", "1.4", "4")
    assert float(below) == pytest.approx(-4 * np.log(2), rel=0.05) and float(above) == pytest.approx(4 * np.log(2), rel=0.05)
