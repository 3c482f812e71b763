"""Fits to simulated recordings whose numbers are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from risp_torch import Scene
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.motions import (
    MotionFit,
    MotionFitSettings,
    PoseNoise,
    Recording,
    Window,
    fit_motions,
    predict_motions,
    whole_recordings,
    windows,
)
from risp_torch.motions.kinds import measured_motions
from risp_torch.motions.search import MotionSearch
from tests.reference.tosses import DT, toss_scene, tosses
from ti_sim import UserError

NOISE = 1e-4
SETTINGS = MotionFitSettings(
    noise=PoseNoise(coordinate=NOISE, start_position=5e-4, start_rotation=5e-3, start_velocity=0.05, start_spin=0.5),
    robust_scale=5.0,
    iterations=25,
    first_guesses=1,
    shortest_window=None,
)
CONTACT = ["stiffness", "damping", "friction_stiffness", "friction"]
UNKNOWN = [*(f"ground.contact.{name}" for name in CONTACT), "gravity", "poses.scale"]
TRUTH = {
    "ground.contact.stiffness": 3000.0, "ground.contact.damping": 20.0, "ground.contact.friction_stiffness": 30.0,
    "ground.contact.friction": 0.22, "gravity": 9.6, "poses.scale": 0.97,
}  # fmt: skip


def fitted(recordings: list[Recording], unknown: list[str] = UNKNOWN, **options: object) -> MotionFit:
    parts = windows(recordings, frames=16, stride=15, least_motion=0.01)
    return fit_motions(toss_scene(density=bool(options.pop("density", False))), parts, unknown, SETTINGS, **options)


def at_truth() -> Scene:
    scene = toss_scene()
    for name, value in TRUTH.items():
        scene.table.set(name, value)
    return scene


@pytest.fixture(scope="module")
def sound() -> MotionFit:
    """All numbers, from tosses with noise."""
    return fitted(tosses(TRUTH, noise=NOISE), scale="poses.scale")


def test_the_numbers_of_simulated_tosses_come_back(sound: MotionFit) -> None:
    found = sound
    assert found.converged and not found.unobservable
    for name, truth in TRUTH.items():
        scaled = found.unknowns.params[name].to_scaled(np.array([found.values[name], truth]))
        assert abs(float(scaled[0] - scaled[1])) < 4 * found.sd[name], (name, found.values[name], truth)
        if name != "ground.contact.friction_stiffness":  # which sliding bodies hardly tell
            np.testing.assert_allclose(found.values[name], truth, rtol=0.05, err_msg=name)
    np.testing.assert_allclose(found.cost, 1.0, atol=0.25)  # what is left is the noise
    metre = found.derived(lambda values: values["gravity"] * values["poses.scale"])
    np.testing.assert_allclose(metre.value, 9.6 * 0.97, atol=4 * metre.sd)
    alone = found.derived(lambda values: 2 * values["gravity"])
    np.testing.assert_allclose(alone.sd, 2 * found.sd["gravity"], rtol=1e-6)


def shaken(recording: Recording, rng: np.random.Generator, amplitude: float) -> Recording:
    """The recording with an oscillation [m] of each coordinate of the position that no model explains."""
    body_q, times = recording.body_q.copy(), np.arange(len(recording)) * DT
    for k in range(3):
        body_q[:, 0, k] += amplitude * np.sin(2 * np.pi * rng.uniform(3, 12) * times + rng.uniform(0, 6.28))
    return replace(recording, body_q=body_q)


def test_windows_with_several_minima_do_not_keep_a_fit_from_converging() -> None:
    """Long windows with impacts and friction, and an error of the model: starts lag behind steps of the shared unknowns."""
    rng = np.random.default_rng(1)
    recordings = [shaken(toss, rng, 1e-3) for toss in tosses(TRUTH, count=8, noise=NOISE, seed=1)]
    parts = windows(recordings, frames=30, stride=29, least_motion=0.01)
    settings = replace(SETTINGS, iterations=40)
    found = fit_motions(toss_scene(), parts, UNKNOWN, settings, scale="poses.scale")
    assert found.converged and len(found.costs) - 1 < 40
    short = fit_motions(toss_scene(), parts, UNKNOWN, replace(settings, iterations=3), scale="poses.scale")
    assert not short.converged and short.doubts[1].startswith("not converged after 3 steps")


def test_starts_of_some_motions_are_minimised_alone() -> None:
    """At fixed shared unknowns; the other starts stay, and the costs of the minimised ones reach those of separate searches."""
    parts = windows(tosses(TRUTH, count=3, noise=NOISE), frames=16, stride=15, least_motion=0.01)
    search = search_of(parts)
    point = search.evaluate(search.initial_scaled, np.zeros_like(search.motions.starts))
    after = search.minimise_starts(point, np.array([0, 2]))
    assert (after.costs <= point.costs).all() and (after.costs[[0, 2]] < 0.9 * point.costs[[0, 2]]).all()
    np.testing.assert_array_equal(after.start_offsets[1], point.start_offsets[1])
    np.testing.assert_array_equal(after.scaled, point.scaled)
    again = search.evaluate(after.scaled, after.start_offsets)
    np.testing.assert_allclose(after.costs, again.costs, rtol=1e-9)
    np.testing.assert_allclose(after.cost, again.cost, rtol=1e-9)
    scaled, offsets = search.initial_scaled, after.start_offsets
    assert search.profile_cost(scaled, offsets) <= after.costs.sum() * (1 + 1e-9)


def test_costs_fall_as_the_linear_model_says() -> None:
    """By a short step of the shared unknown and all starts, at a robust weight of one."""
    parts = windows(tosses(TRUTH, count=2, noise=NOISE), frames=12, stride=11, least_motion=0.01)
    search = search_of(parts, start_step=1e-3)
    search.settings = replace(search.settings, robust_scale=float("inf"))
    point = search.evaluate(search.initial_scaled, np.zeros_like(search.motions.starts))
    equations = search.normal_equations(point)
    shared, local = equations.step(np.zeros((1, 1)), np.zeros(1))
    for length in (1e-3, 2e-3):
        moved = search.evaluate(
            point.scaled + length * search.ranges * shared, point.start_offsets + length * local * search.start_prior_sd
        )
        expected = equations.decreases(length * shared, length * local)
        np.testing.assert_allclose(point.costs.sum() - moved.costs.sum(), expected.sum(), rtol=0.02)
    whole, half = (equations.step(np.zeros((1, 1)), np.zeros(1), damping=damping)[0] for damping in (0.0, 1.0))
    np.testing.assert_allclose(whole, 2 * half, rtol=1e-9)


def test_error_bars_hold_the_truth_as_often_as_they_say() -> None:
    """Over ten sets of tosses, distances in error bars have a mean square of about one."""
    away = []
    for seed in range(10):
        parts = windows(tosses(TRUTH, count=8, noise=NOISE, seed=100 + seed), frames=16, stride=15, least_motion=0.01)
        found = fit_motions(at_truth(), parts, ["ground.contact.friction", "gravity"], SETTINGS, scale="poses.scale")
        for name in ("ground.contact.friction", "gravity"):
            scaled = found.unknowns.params[name].to_scaled(np.array([found.values[name], TRUTH[name]]))
            away.append(float(scaled[0] - scaled[1]) / found.sd[name])
    assert 0.4 < np.mean(np.square(away)) < 2.5, away


def test_mass_and_contact_are_known_up_to_a_common_factor() -> None:
    """Density, stiffness and both dampings: no motion tells how heavy a body is, and the fit says so by name."""
    names = ["box.density", *(f"ground.contact.{name}" for name in CONTACT[:3])]
    recordings = tosses({"ground.contact.stiffness": 3000.0, "box.density": 800.0}, noise=NOISE, density=True)
    found = fitted(recordings, [*names, "ground.contact.friction"], density=True)
    (sentence,) = found.unobservable
    assert sentence.startswith(f"{', '.join(names)} only up to a common scale"), sentence
    ratio = found.values["ground.contact.stiffness"] / found.values["box.density"]
    np.testing.assert_allclose(ratio, 3000.0 / 800.0, rtol=0.05)


def test_a_recording_that_does_not_fit_counts_little(sound: MotionFit) -> None:
    recordings = tosses(TRUTH, noise=NOISE)
    spoiled = recordings[2].body_q.copy()
    spoiled[20:, :, 0] += 0.03  # it is pushed aside, by more than any start explains
    changed = [*recordings[:2], replace(recordings[2], body_q=spoiled), *recordings[3:]]
    found = fitted(changed, scale="poses.scale")
    worst = int(np.argmin(found.weights))
    assert found.windows[worst].recording.name == "toss_2" and found.weights[worst] < 0.7
    for name in UNKNOWN:
        if name != "ground.contact.friction_stiffness":
            np.testing.assert_allclose(found.values[name], sound.values[name], rtol=0.05, err_msg=name)


def test_noise_of_a_window_weighs_its_frames() -> None:
    """Windows whose later frames are wrong, and said to be noisy, tell what their first frames tell."""
    recordings = tosses(TRUTH, noise=NOISE)
    ramp = np.clip(np.arange(40) - 16, 0, None)[:, None, None] * np.array([0, 0, 3e-4, 0, 0, 0, 0])
    parts = [Window(replace(one, body_q=one.body_q + ramp), 1, 30) for one in recordings]
    noisy = [replace(part, noise=np.where(np.arange(30) < 15, NOISE, 1.0)) for part in parts]
    least_squares = replace(SETTINGS, robust_scale=float("inf"))
    plain, weighed = (fit_motions(at_truth(), some, ["gravity"], least_squares, scale="poses.scale") for some in (parts, noisy))
    assert abs(weighed.values["gravity"] - 9.6) < 4 * weighed.sd["gravity"] < 0.2
    assert abs(plain.values["gravity"] - 9.6) > 2 * abs(weighed.values["gravity"] - 9.6)


def test_predictions_of_the_truth_are_exact_and_others_are_not() -> None:
    recordings = tosses(TRUTH, frames=30)
    recordings[0] = replace(recordings[0], body_q=recordings[0].body_q[:20])
    errors = predict_motions(toss_scene(), whole_recordings(recordings, first=1), TRUTH, scale="poses.scale")
    assert errors.position.shape == (6, 29, 1) and np.isnan(errors.position[0, 19:]).all()
    position, rotation = errors.mean()
    # Starts are differences of poses, so that predictions are not exact but near.
    assert np.median(position) < 2e-3 and np.median(rotation) < 1.0
    measured, predicted = (Rotation.from_quat(q[1:, 0, 3:]) for q in (recordings[1].body_q[1:], errors.body_q[1]))
    np.testing.assert_allclose(errors.rotation[1, 1:, 0], np.degrees((predicted * measured.inv()).magnitude()), atol=1e-6)
    motions = whole_recordings(recordings, first=1)
    worse, _ = predict_motions(toss_scene(), motions, TRUTH | {"gravity": 8.0}, scale="poses.scale").mean()
    assert (worse > position).all()
    last = errors.last()[0][:, 0]
    assert last[0] == errors.position[0, 18, 0] and last[1] == errors.position[1, 28, 0]


def test_priors_enter_the_fit() -> None:
    """A narrow prior far from the truth holds its unknown, and the error bar is that of the prior."""
    found = fitted(tosses(TRUTH, noise=NOISE), ["gravity"], priors={"gravity": (9.0, 1e-4)}, scale="poses.scale")
    assert abs(found.values["gravity"] - 9.0) < 5e-3
    assert found.sd["gravity"] < 5e-3


def test_bad_input_is_refused() -> None:
    recordings = tosses(TRUTH, count=2, frames=20)
    (part, *_), scene = windows(recordings, frames=10, stride=9, least_motion=0.01), toss_scene()
    for unknown, options, message in (
        (["box.velocity"], {}, "box.velocity is a start"),
        (["box.mass"], {}, "box.mass has no bounds"),
        (["gravity"], {"scale": "poses.size"}, "no parameter 'poses.size'"),
    ):
        with pytest.raises(UserError, match=message):
            fit_motions(scene, [part], unknown, SETTINGS, **options)
    with pytest.raises(UserError, match="has a frame every 0.02 s, and tosses every 0.01 s"):
        fit_motions(scene, [replace(part, recording=replace(part.recording, dt=2 * DT))], ["gravity"], SETTINGS)
    two = replace(part.recording, body_q=np.tile(part.recording.body_q, (1, 2, 1)))
    with pytest.raises(UserError, match="has 2 bodies, and tosses 1"):
        fit_motions(scene, [replace(part, recording=two)], ["gravity"], SETTINGS)
    with pytest.raises(UserError, match="has 20 frames, and not 10 from frame 15 on"):
        fit_motions(scene, [replace(part, first=15)], ["gravity"], SETTINGS)
    with pytest.raises(UserError, match="quaternions that are not of length 1"):
        replace(part.recording, body_q=2 * part.recording.body_q)
    with pytest.raises(UserError, match="nothing moves within 10 frames"):
        windows(recordings, frames=10, stride=9, least_motion=10.0)


def test_robust_weights_are_the_slope_of_the_cost() -> None:
    """Geman and McClure: the cost r^2 / (1 + (r / c)^2) has the slope 2 r / (1 + (r / c)^2)^2, so the weight is squared."""
    recordings = tosses(TRUTH, count=1, frames=20, noise=NOISE)
    pushed = replace(recordings[0], body_q=recordings[0].body_q + np.array([3e-4, 0, 0, 0, 0, 0, 0]))
    search = search_of([Window(pushed, 1, 12)], start_step=1e-3)
    at, step = search.evaluate(search.initial_scaled, np.zeros((1, 12))), 1e-6
    moves = np.zeros((1, 12))
    moves[0, 0] = step
    slope = (search.evaluate(search.initial_scaled, moves).costs[0] - search.evaluate(search.initial_scaled, -moves).costs[0]) / (
        2 * step
    )
    gradient = search.normal_equations(at).local_gradient[0, 0] / search.start_prior_sd[0, 0]
    assert (at.weights < 0.9).any()
    np.testing.assert_allclose(slope, -2 * gradient, rtol=1e-5)  # third derivatives: 6e-7, a hundred times that with ten steps
    square = (at.residual[0, :, 0] ** 2).mean(axis=-1)
    np.testing.assert_allclose(at.weights[0, :, 0], (1 + square / SETTINGS.robust_scale**2) ** -2.0, rtol=1e-12)


def search_of(parts: list[Window], start_step: float = SETTINGS.start_step, **options: object) -> MotionSearch:
    scene = at_truth()
    motions = measured_motions(scene, parts, SETTINGS.noise, scale="poses.scale")
    return MotionSearch(motions, parts, Unknowns.of(scene, ["gravity"], **options), replace(SETTINGS, start_step=start_step))


def test_priors_are_not_scaled_by_the_residual() -> None:
    """Of one recording whose noise is ten times the stated one, what the motion adds to a prior is a hundredth."""
    (toss,) = tosses(TRUTH, count=1, frames=30, noise=NOISE)
    search = search_of([Window(toss, 1, 20)], priors={"gravity": (9.6, 0.02)})
    normal = search.normal_equations(search.evaluate(search.initial_scaled, np.zeros((1, 12))))
    precision = search.unknowns.priors.precision(search.ranges)
    information = normal.schur_complement.sum(0) + precision
    for noise in (1.0, 100.0):
        covariance = search._covariance(normal, information, precision, noise)
        np.testing.assert_allclose(1 / covariance, normal.schur_complement.sum(0) / noise + precision, rtol=1e-6)
