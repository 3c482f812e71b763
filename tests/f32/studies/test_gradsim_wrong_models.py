"""The study of wrong models: shares of a push, steps, the rule that names what is wrong, and the page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import UserError, film
from studies.gradsim.cells import run_cells
from studies.gradsim.misspecified import checks as wrong_checks
from studies.gradsim.misspecified import films as wrong_films
from studies.gradsim.misspecified import page as wrong_page
from studies.gradsim.misspecified import table as wrong_models
from studies.gradsim.misspecified.checks import (
    Fit,
    Target,
    chosen_explanation,
    examine,
    first_departed,
    fit,
    frame_squares,
    pictures_of,
)
from studies.gradsim.misspecified.scenes import (
    DAMPING,
    FRICTION,
    KINDS,
    LIGHTEST,
    STIFFNESS,
    THICKNESS,
    Model,
    draw_thrown,
    push_shares,
    scene_of,
    stable_substeps,
)
from studies.gradsim.presets import PRESETS
from studies.gradsim.tosses import MASS


def made_fit(**changes) -> Fit:
    return replace(
        Fit(density=5.0, sd=0.1, misfit=9.0, residual=1e-3, frames=12, values={}, suspects=(), remarks=()), **changes
    )


def test_a_shared_push_has_the_force_and_the_torque_of_one_at_the_point_in_every_orientation():
    random = np.random.default_rng(0)
    vertices, masses, point = random.standard_normal((20, 3)), random.uniform(0.5, 2, 20), random.standard_normal(3)
    shares, force = push_shares(vertices, masses, point), np.array([1.0, -2.0, 0.5])
    turned = np.linalg.qr(random.standard_normal((3, 3)))[0]
    torque = np.cross(vertices @ turned.T, shares[:, None] * force).sum(axis=0)
    assert np.isclose(shares.sum(), 1.0)
    assert np.allclose(torque, np.cross(turned @ point, force))


def test_a_step_that_is_called_stable_is_and_twice_its_limit_is_not():
    def largest(substeps: float, stiffness: float = 3e3, damping: float = 20.0) -> float:
        dt = 1 / 30 / substeps
        # v' = v - dt (k x + d v), x' = x + dt v'
        step = np.array([[1 - dt**2 * stiffness, dt - dt**2 * damping], [-dt * stiffness, 1 - dt * damping]])
        return np.abs(np.linalg.eigvals(step)).max()

    count = stable_substeps(1 / 30, stiffness=3e6, damping=2e3)
    assert largest(count, 3e6, 2e3) <= 1.0
    assert largest(0.5 * 0.6 * count, 3e6, 2e3) > 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_lightest_and_hardest_objects_that_are_drawn_stay_finite(kind):
    thrown = draw_thrown(kind, 0, seed=0)
    hard = {"ground.contact.stiffness": 500.0, DAMPING: 500.0, "ground.contact.friction_stiffness": 500.0}
    scene = scene_of(thrown, Model(kind=kind, known={**hard, STIFFNESS: 2e4}), size=8)
    density = LIGHTEST * 2.0 * (THICKNESS if kind == "cloth" else 1.0)
    with torch.no_grad():
        _, finite = film(scene, {MASS: torch.tensor([density])}, worlds=1, frames=scene.frames)
    assert finite.all()


def test_a_soft_object_and_a_rigid_one_of_the_same_toss_fall_alike_before_they_land():
    thrown = draw_thrown("soft", 1, seed=0)
    with torch.no_grad():
        soft = scene_of(thrown, Model(kind="soft"), size=8, frames=8).rollout().particle_q[0, -1]
        rigid = scene_of(thrown, Model(kind="rigid"), size=8, frames=8).rollout().body_q[0, -1, 0, :3]
    mass = scene_of(thrown, Model(kind="soft"), size=8, frames=8).deformables[0]
    weights = mass.mass({MASS: torch.tensor([[1.0]])})[0]
    centre = (weights[:, None] * soft).sum(dim=0) / weights.sum()
    # The volumes differ by the surface of the tetrahedra, and so do the changes of velocity by the push.
    assert torch.allclose(centre, rigid, atol=0.02)


def test_a_cloth_is_no_solid():
    with pytest.raises(UserError, match="cannot be modelled as soft"):
        scene_of(draw_thrown("cloth", 0, seed=0), Model(kind="soft"), size=8)


def test_the_part_of_a_film_ends_where_the_residual_is_nine_times_that_of_the_first_frames():
    squares = np.array([1.0, 1, 1, 1, 8, 9.5, 1, 20])
    assert first_departed(squares, 3) == 5
    assert first_departed(squares[:5], 3) == 5
    assert first_departed(np.array([0.0, 0, 0, 8 * wrong_checks.ROUNDING]), 2) == 4  # rounding is no departure
    assert first_departed(np.array([1.0, 1, np.nan]), 1) == 2


def test_frame_squares_are_means_over_pixels():
    first, second = torch.zeros(2, 3, 4, 3), torch.zeros(3, 3, 4, 3)
    second[1, 0, 0, 0] = 6.0
    assert np.allclose(frame_squares(first, Target(second)), [0.0, 36 / 36])
    luminance = (6 * 0.2126) ** 2 / 12
    assert np.allclose(frame_squares(first, Target(second, Path("film.mp4"))), [0.0, luminance])


def test_what_fits_is_named_then_what_leaves_least_if_that_is_half():
    good, half, poor = made_fit(misfit=1.0), made_fit(residual=4e-4), made_fit(residual=6e-4)
    assert chosen_explanation({"friction": half, "kind": good}, 1e-3) == "kind"
    assert chosen_explanation({"friction": half, "kind": poor}, 1e-3) == "friction"
    assert chosen_explanation({"kind": poor}, 1e-3) == "none"
    assert chosen_explanation({}, 1e-3) == "none"


def test_the_rule_finds_unmodelled_friction_and_the_density():
    thrown = draw_thrown("rigid", 0, seed=0)
    target = Target(pictures_of(scene_of(thrown, Model(kind="rigid"), size=32, frames=30), {}, frames=30))
    found = examine(thrown, Model(kind="rigid", known={FRICTION: 0.0}), target, 4.0, size=32, frames=30)
    truth = thrown.toss.values[MASS]
    assert found.named == "friction" and found.plain.misfit > 4
    assert abs(found.chosen.density / truth - 1) < 1e-4
    assert FIRST_CONTACT_AFTER < found.early.frames < 30
    assert abs(found.early.density / truth - 1) < 0.01


FIRST_CONTACT_AFTER = 10  # frames


def test_a_number_that_no_frame_shows_does_not_stop_a_search_that_has_found_the_film():
    thrown = draw_thrown("rigid", 0, seed=0)
    scene = scene_of(thrown, Model(kind="rigid"), size=32, frames=10)
    target = Target(pictures_of(scene, {}, frames=10))
    truth = thrown.toss.values[MASS]
    found = fit(scene, target, [{MASS: truth, FRICTION: 0.4}], further=[FRICTION])
    assert abs(found.density / truth - 1) < 1e-5


def test_starts_do_not_depend_on_the_truth_and_lie_in_the_drawn_range():
    starts = [wrong_films.drawn_density("rigid", np.random.default_rng(seed)) for seed in range(50)]
    assert 2.0 <= min(starts) < 3.0 and 9.0 < max(starts) <= 12.0


def test_an_estimate_counts_its_error_in_bars_of_decades():
    row = wrong_films.estimate_of(made_fit(density=11.0, sd=0.02), 10.0)
    assert np.isclose(row["error"], 0.1) and np.isclose(row["over_bar"], np.log10(1.1) / 0.02)
    assert not row["held"] and wrong_films.estimate_of(made_fit(density=10.5, sd=0.02), 10.0)["held"]


def test_the_table_has_the_means_of_its_films():
    def film_result(variant: str, named: str, errors: tuple[float, float, float]) -> dict:
        fits = {
            key: wrong_films.estimate_of(made_fit(density=10 * (1 + error)), 10.0)
            for key, error in zip(("plain", "early", "rule"), errors, strict=True)
        }
        return {
            "variant": variant, "kind": "rigid", "source": "lossless", "shape": "box", "start": 5.0, "truth": 10.0,
            "fits": fits, "named": named, "tried": {"kind": 2e-4}, "suspects": [], "seconds": 1.0,
        }  # fmt: skip

    results = [
        film_result("friction", "friction", (0.5, 0.2, 0.1)), film_result("friction", "kind", (0.1, 0.2, 0.3)),
        {"failed": "nothing could be simulated", "seconds": 1.0},
    ]  # fmt: skip
    text = wrong_page.text_of("table-4-left", PRESETS["tiny"], results, [])
    row = next(line for line in text.splitlines() if line.startswith("| unmodelled friction"))
    assert row == "| unmodelled friction | 2 | 0.187 | 0.3 | 0.2 | 0.2 | 0.0933 | NO | 1 of 2 | 2 of 2, 2 of 2 |"
    assert "named kind in place of friction" in text and "nothing could be simulated" in text


@pytest.mark.usefixtures("undiagnosed")
def test_the_page_is_made_and_a_second_call_does_no_work(tmp_path, monkeypatch):
    preset = replace(PRESETS["tiny"], small=16)
    monkeypatch.setattr(wrong_models, "VARIANTS", {key: wrong_films.VARIANTS[key] for key in ("perfect", "soft-as-rigid")})
    page = wrong_models.make("table-4-left", preset, tmp_path, jobs=1)
    assert {"perfect.png", "soft-as-rigid.png", "errors.png"} == set(page.pictures)
    assert "| perfect model | 1 | 0.107 |" in page.text and "| deformable as rigid | 1 | 0.497 |" in page.text

    monkeypatch.setattr(wrong_films, "examine", lambda *given, **more: pytest.fail("the film was examined again"))
    again = wrong_models.make("table-4-left", preset, tmp_path, jobs=1)
    assert again.text == page.text and page.write(tmp_path / "pages").is_file()
    cells = wrong_models.cells_of(preset, tmp_path)
    assert len(run_cells(cells, tmp_path, jobs=1, title="")) == 4
