"""Families of nuisance parameters: the family that explains a residual, and the omitted-variable bias of the estimate."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import Films, MaskLoss, MatchedLoss, Param, PixelLoss, load_scene
from risp_torch.inversion import Uncertainty, Unknowns
from risp_torch.inversion.diagnostics import misspecification as checked
from risp_torch.inversion.diagnostics.augmented_fit import AugmentedFit, AugmentedProblem, fit_augmented
from risp_torch.inversion.diagnostics.misspecification import (
    MAX_BLOCK_VARIANCE_RATIO,
    Diagnosis,
    Misspecification,
    diagnose,
    doubts_of_residual,
    misspecification_sentences,
)
from risp_torch.inversion.diagnostics.nuisance_parameters import (
    BODY_TURN,
    VARIANT_SIZE_CHANGE,
    Family,
    Nuisance,
    families_of,
    sizes_of,
    why_untested,
)
from risp_torch.inversion.diagnostics.score_tests import FilmErrors
from risp_torch.inversion.problem.linearisation import Linearisation, linearise
from risp_torch.inversion.uncertainty.misfit import with_omitted_variable_bias
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, compared

UNKNOWNS = Unknowns({"a": Param(1.0, low=-10.0, high=10.0)})
NOISE = 0.01
STARTS = "the start of the bodies"


def families() -> list[Family]:
    """Of a scene whose numbers b and c are 0."""
    scene = LinearScene()
    for name in ("b", "c"):
        scene.add_number(name, 0.0, unit="m")
    return [Family(f"the {name}", (Nuisance(name, np.asarray(0.3)),), scene) for name in ("b", "c")]


def at_minimum(b: float) -> Linearisation:
    """The best a for a film with a = 1 and this b, whose columns are alike, if b is taken for 0."""
    random = np.random.default_rng(0)
    first = random.normal(size=(FRAMES, SIDE))
    columns = {"a": first, "b": 0.5 * first + random.normal(size=(FRAMES, SIDE)), "c": random.normal(size=(FRAMES, SIDE))}
    patterns = {name: torch.as_tensor(column) for name, column in columns.items()}
    target = patterns["a"] + b * patterns["b"] + NOISE * torch.as_tensor(random.normal(size=(FRAMES, SIDE)))
    a = float((columns["a"] * target.cpu().numpy()).sum() / (columns["a"] ** 2).sum())
    return linearise(LinearScene(), compared(LinearLoss(patterns, target)), UNKNOWNS, np.array([a]))


def diagnosed(at: Linearisation, monkeypatch: pytest.MonkeyPatch, bar: float = 1e-3, known: bool = True) -> Diagnosis:
    """Tests of both families, with a bar of the estimate."""
    monkeypatch.setattr(checked, "families_of", lambda *_: families())
    explained = NOISE**2 if known else None
    return diagnose(
        None, UNKNOWNS, at, np.array([bar]), FilmErrors(explained), explained=explained,
        misfit=at.loss / NOISE**2 if known else None,
    )  # fmt: skip


def test_a_freed_family_finds_what_was_left_out() -> None:
    at = at_minimum(0.4)
    end = fit_augmented(at, AugmentedProblem(families()[0], at.comparison, UNKNOWNS), design_effect=1.0, rounds=5)
    assert at.scaled[0] + end.shift[0] == pytest.approx(1.0, abs=3e-3) and abs(end.shift[0]) > 0.1
    assert 0.3 * end.amplitudes[0] == pytest.approx(0.4, abs=3e-3) and end.loss < 2 * NOISE**2


def test_the_right_family_is_named_and_nothing_where_the_scene_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    at = at_minimum(0.4)
    (misspecification,) = diagnosed(at, monkeypatch).misspecifications
    assert misspecification.augmented.family.title == "the b" and misspecification.share > 0.99
    (sentence,) = misspecification_sentences([misspecification], UNKNOWNS, at.scaled)
    assert sentence.startswith("likely wrong: the b (b by 0.4 m would explain 100 % of what noise does not, with a of 0.9998; ")
    assert "make b unknown with --prior b=0.3" in sentence
    clean = at_minimum(0.0)
    for known in (True, False):
        result = diagnosed(clean, monkeypatch, known=known)
        assert result.misspecifications == [] and (result.block_variance_ratio or 1.0) < MAX_BLOCK_VARIANCE_RATIO
        assert doubts_of_residual(result, 1.0) == []
    assert misspecification_sentences([], UNKNOWNS, at.scaled) == []


def test_a_fault_that_hardly_changes_the_residual_is_named_where_it_moves_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift of many bars changes the residual by a tenth."""
    at = at_minimum(0.003)
    assert at.loss < 1.15 * NOISE**2
    (misspecification,) = diagnosed(at, monkeypatch, bar=2e-4).misspecifications
    assert misspecification.augmented.family.title == "the b" and 3e-4 < abs(misspecification.augmented.shift[0]) < 2e-3
    assert diagnosed(at, monkeypatch, bar=0.1).misspecifications == []  # it does not matter beside that bar


def outcome(*, p_value: float = 1.0, shift_p_values: tuple[float, ...] = (1.0,), shift: float = 1.0) -> SimpleNamespace:
    """A test of a family whose step explains little, with these probabilities."""
    count = len(shift_p_values)
    return SimpleNamespace(
        p_value=p_value, shift_p_values=np.array(shift_p_values), shift=np.full(count, shift), residual_decrease=1e-9,
        block_variance_ratio=1.0, correlation_p_value=1.0,
    )  # fmt: skip


def test_the_level_of_significance_is_that_of_all_tests_and_unknowns_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five per cent of a family, twenty of all together; probabilities of shifts are multiplied by the number of unknowns."""
    at = at_minimum(0.0)
    family = families()[0]

    def explained(_: Linearisation, joint: AugmentedProblem, *__: object) -> Misspecification:
        return Misspecification(AugmentedFit(joint.family, 0, 0, 0), 1.0)

    monkeypatch.setattr(checked, "_misspecification", explained)

    def named(tests: list[SimpleNamespace], unknowns: Unknowns = UNKNOWNS) -> int:
        titled = [replace(family, title=str(k)) for k in range(len(tests))]
        joints = [(AugmentedProblem(each, at.comparison, unknowns), test) for each, test in zip(titled, tests, strict=True)]
        bars = np.full(len(unknowns.labels), 1e-3)
        return len(checked._diagnosed(joints, unknowns, at, bars, FilmErrors(NOISE**2), NOISE**2, 1.0).misspecifications)

    nothing = [outcome()] * 9
    assert named([outcome(p_value=4.9e-2)]) == 1 and named([outcome(p_value=5.1e-2)]) == 0
    assert named([outcome(p_value=1.31e-2), *nothing]) == 1 and named([outcome(p_value=1.33e-2), *nothing]) == 0  # 1 / (84.9 - 9)
    assert named([outcome(shift_p_values=(4.9e-2,))]) == 1 and named([outcome(shift_p_values=(4.9e-2,), shift=1e-9)]) == 0
    two = Unknowns({name: Param(1.0, low=-10.0, high=10.0) for name in "ab"})
    assert named([outcome(shift_p_values=(2.4e-2, 1.0))], two) == 1 and named([outcome(shift_p_values=(2.6e-2, 1.0))], two) == 0


@pytest.mark.parametrize(
    ("count", "level", "threshold"),
    [(10, 0.05, 0.040), (100, 0.05, 0.036), (1000, 0.05, 0.034), (10**5, 0.05, 0.029), (10, 0.01, 0.0094), (10, 1e-3, 9.9e-4)],
)
def test_harmonic_means_have_the_thresholds_of_the_landau_distribution(count: int, level: float, threshold: float) -> None:
    """Table 1 of Wilson (2019), to the digits that it has."""
    digit = 10.0 ** (np.floor(np.log10(threshold)) - 1)
    assert checked.p_value_of_all(np.full(count, threshold - digit / 2)) < level
    assert checked.p_value_of_all(np.full(count, threshold + digit / 2)) > level


def test_all_tests_together_have_their_level() -> None:
    random = np.random.default_rng(4)
    p_values = np.array([checked.p_value_of_all(each) for each in random.random((4000, 26))])
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=0.009)  # the harmonic mean itself: 0.07
    assert checked.p_value_of_all(np.array([0.03])) == pytest.approx(0.03)
    assert 0 <= checked.p_value_of_all(np.array([0.0, 1.0])) < 1e-200


def test_families_that_are_alike_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten names of the same number are no more tests than one: the harmonic mean of equal p-values is that of each."""
    at = at_minimum(0.0022)
    each = families()[0]
    monkeypatch.setattr(checked, "families_of", lambda *_: [replace(each, title=f"name {k}") for k in range(10)])
    errors = FilmErrors(NOISE**2)
    tests = checked._tests(None, UNKNOWNS, at, errors)
    assert len(tests) == 10 and 0.005 < tests[0][1].p_value < 0.05
    result = diagnose(None, UNKNOWNS, at, np.array([1e-4]), errors, explained=NOISE**2, misfit=1.0)
    assert len(result.misspecifications) == 10


def test_amounts_of_numbers_that_are_zero_have_units() -> None:
    scene = load_scene("pendulum", size=8)
    (family,) = [f for f in families_of(scene, PixelLoss(), Unknowns.of(scene, ["pendulum.length"])) if f.title == STARTS]
    amplitudes = np.array([float(each.name == "pendulum.rate") for each in family.nuisances])
    assert scene.parameters["pendulum.rate"].value == 0
    assert re.match(r"pendulum\.rate by \d\.\d+ rad/s", checked._changes_text(AugmentedFit(family, amplitudes, np.zeros(1), 0.1)))


def test_a_residual_that_no_family_explains_is_said() -> None:
    quiet = Diagnosis([], 1.2, [])
    assert doubts_of_residual(quiet, 1.2) == [] and doubts_of_residual(quiet, None) == []
    (sentence,) = doubts_of_residual(quiet, 2.0)
    assert sentence.startswith("the scene differs from the film: the residual is no noise (it is 2 times what noise")
    (sentence,) = doubts_of_residual(Diagnosis([], 50.0, []), 1.0)
    assert "its errors are correlated, 50 times as strongly as noise and compression" in sentence
    assert doubts_of_residual(quiet, 20.0) == []  # that nothing fits the film is said by itself


def test_what_an_unknown_can_stand_for_is_an_assumption(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative by d is that by a: only their sum shows."""
    scene = LinearScene()
    scene.add_number("d", 1.0, unit="m")
    family = Family("d", (Nuisance("d", np.asarray(0.5)),), scene, assumed=True)
    monkeypatch.setattr(checked, "families_of", lambda *_: [family])
    random = np.random.default_rng(5)
    first = torch.as_tensor(random.normal(size=(FRAMES, SIDE)))
    target = 2.0 * first + NOISE * torch.as_tensor(random.normal(size=(FRAMES, SIDE)))
    at = linearise(LinearScene(), compared(LinearLoss({"a": first}, target)), UNKNOWNS, np.array([2.0]))
    monkeypatch.setattr(AugmentedProblem, "columns", lambda *_, **__: 0.5 * first.flatten()[:, None].to(at.jacobian))
    result = diagnose(None, UNKNOWNS, at, np.array([0.01]), FilmErrors(NOISE**2), explained=NOISE**2, misfit=1.0)
    (sentence,) = result.assumptions
    assert sentence.startswith("a assumes d, which this film does not show beside it")


def test_an_inversion_that_tests_nothing_says_so() -> None:
    """Solved looks, networks, several films, scenes without a camera, and many unknowns."""
    scene = load_scene("toss", size=8)
    assert why_untested(scene, PixelLoss()) is None and why_untested(scene, MaskLoss(np.zeros((2, 8, 8)))) is None
    assert why_untested(scene, MatchedLoss()).startswith("a solved look has no such tests")
    assert why_untested(Films(scene, 2, per_film=["body.velocity"]), PixelLoss()).startswith("several films")
    network, features = (why_untested(scene, SimpleNamespace(non_smooth=True, kind=kind)) for kind in ("risp", "features"))
    assert network.startswith("the risp loss is not smooth") and network.endswith("a bias of the network in the film's look")
    assert features.startswith("the features loss is not smooth") and features.endswith("(--loss mask has)")
    assert "without a camera" in why_untested(SimpleNamespace(camera=None), SimpleNamespace(non_smooth=False))
    many = Unknowns({f"a{k}": Param(1.0, low=0.0, high=2.0) for k in range(13)})
    at = SimpleNamespace(loss=1.0)
    (sentence,) = diagnose(scene, many, at, np.ones(13), FilmErrors(None), explained=None, misfit=None).assumptions
    assert sentence.endswith("none of which was tested: more than 12 unknowns have no such tests")


def test_families_have_the_numbers_of_a_scene() -> None:
    """Every physical number that is taken for known is one; a spin's size is a turn divided by the length of the film."""
    scene = load_scene("toss", size=8)
    scene.frames = 12
    found = {each.title: each for each in families_of(scene, PixelLoss(), Unknowns.of(scene, ["body.density"]))}
    assert {
        "the camera", "the camera's lens", "the film's time", "the look", "the start of the bodies", "the direction of gravity",
        "air drag", "the mass distribution", "the centre of mass", "the time step of the physics", "ground.contact.stiffness",
        "ground.contact.damping", "ground.contact.friction_stiffness", "ground.contact.friction", "push.impulse", "push.point",
        "the size of the bodies",
    } == set(found)  # fmt: skip
    sizes = {each.name: np.abs(each.move).max() for each in found["the start of the bodies"].nuisances}
    assert sizes["body.angular_velocity"] * 12 * 0.01 == pytest.approx(BODY_TURN)
    assert sizes["body.velocity"] * 12 * 0.01 == pytest.approx(sizes["body.position"])
    time = {each.name: float(each.move) for each in found["the film's time"].nuisances}
    assert time == pytest.approx({"film.start": 0.3 * 0.01, "film.rate": 0.03})  # of a frame interval, and of the rate
    inertia, drag = found["the mass distribution"].nuisances, found["air drag"].nuisances
    unit = np.asarray(found["the mass distribution"].scene.parameters["body.inertia_per_mass"].value)
    moves = sum(each.move for each in inertia)
    np.testing.assert_allclose(moves, 0.1 * unit, rtol=1e-9)  # all three second moments larger by a tenth
    assert [np.count_nonzero(np.diag(each.move)) for each in inertia] == [1, 1, 1]
    values = scene.table.values(worlds=1)
    mass, turning = float(scene.bodies[0].mass(values)[0]), float(scene.bodies[0].inertia(values)[0].trace()) / 3
    assert [float(each.move) for each in drag] == pytest.approx([0.2 * mass, 0.2 * turning])
    tilts = np.array([each.move for each in found["the direction of gravity"].nuisances])
    np.testing.assert_allclose(np.linalg.norm(tilts, axis=1), 9.81 * np.radians(2.0))
    np.testing.assert_allclose(tilts[:, 2], 0.0, atol=1e-12)
    low, _ = found["air drag"].limits(3.0)
    assert (low == 0).all()
    half = sizes_of(found["ground.contact.friction"], np.array([-1.0]))["ground.contact.friction"]
    assert half == pytest.approx(0.3 * (30.0**-0.1 - 1.0))


def test_variants_of_a_scene_differ_in_what_is_tested_alone() -> None:
    """Half the step moves the body a little, forces act at the same times; another centre of mass leaves the first picture."""
    scene = load_scene("toss", size=8)
    scene.frames = 6
    found = {each.title: each for each in families_of(scene, PixelLoss(), Unknowns.of(scene, ["body.density"]))}
    own = scene.rollout()
    (finer,) = found["the time step of the physics"].variants
    away = (finer.rollout().placement - own.placement)[0, :, 0].abs().amax(dim=0)
    assert 1e-7 < float(away.max()) < 2e-3
    assert (np.shape(sizes_of(found["the centre of mass"], np.array([1.0, 0.0, 0.0]))["body.center_of_mass"])) == (3,)
    other = found["the centre of mass"].variants[1]
    moved = other.rollout()
    first, last = ((other.render(moved, frames=[frame]) - scene.render(own, frames=[frame])).abs().max() for frame in (0, 6))
    assert float(first) < 1e-9 < 1e-3 < float(last)


def test_the_variant_of_a_size_is_the_scene_with_a_larger_body() -> None:
    """Motion and pictures are those of the scene whose mesh is read with a larger unit."""
    scene, larger = load_scene("toss", size=8), load_scene("toss", size=8, scale=1.0 + VARIANT_SIZE_CHANGE)
    scene.frames = larger.frames = 6
    found = {each.title: each for each in families_of(scene, PixelLoss(), Unknowns.of(scene, ["body.density"]))}
    (variant,) = found["the size of the bodies"].variants
    motions = [each.rollout() for each in (scene, variant, larger)]
    own, resized, other = (motion.placement for motion in motions)
    torch.testing.assert_close(resized, other, rtol=0, atol=1e-9)
    assert float((own - other).abs().max()) > 1e-6
    pictures = [each.render(motion, frames=[6]) for each, motion in zip((variant, larger), motions[1:], strict=True)]
    torch.testing.assert_close(*pictures, rtol=0, atol=1e-7)


def test_bars_reach_the_estimate_with_the_family_freed_but_not_beyond_what_is_allowed() -> None:
    bars = Uncertainty(np.array([0.03, 0.01]), np.eye(2), [True, True], [])
    wider = with_omitted_variable_bias(bars, np.array([[0.04, -0.5], [-0.01, 0.2]]), np.array([10.0, 0.3]))
    np.testing.assert_allclose(wider.sd, [0.05, 0.3])
    assert with_omitted_variable_bias(bars, np.zeros((0, 2)), np.ones(2)) is bars
