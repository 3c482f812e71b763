"""Fits of pendulums with friction whose model is exact, from wrong first guesses, and doubts about fits that are wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import LinkFrame, Param, Revolute, Scene, Sphere
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.motions import (
    GrowingFits,
    JointNoise,
    JointRecording,
    MotionFit,
    MotionFitSettings,
    Window,
    fit_motions,
    split_windows,
    whole_recordings,
)
from risp_torch.motions.conclusion import disagreement, doubts_of_bounds, doubts_of_data, doubts_of_search
from risp_torch.motions.growing import default_piece_counts, distinct_minima, start_offsets
from risp_torch.motions.recorded_actions import spikes
from risp_torch.motions.search import EXPLAINED
from ti_sim import UserError

DT, NOISE = 0.01, 1e-3
TRUTH = {"upper.damping": 0.01, "lower.damping": 0.004, "lower.dry_friction": 0.09, "lower.mass": 0.5}
SETTINGS = MotionFitSettings(
    noise=JointNoise(coordinate=NOISE, start_coordinate=2e-3, start_rate=0.3), robust_scale=float("inf"), first_guesses=1
)
PLAIN = replace(SETTINGS, shortest_window=None)


def pendulum(frames: int = 200, *, motors: bool = False, length: float = 0.3, at_truth: bool = False, dt: float = DT) -> Scene:
    """Two links with viscous and dry friction, from numbers that are not ``TRUTH`` unless they are asked for."""
    scene = Scene(frame_dt=dt, frames=frames, substeps=10, name="pendulum")
    for k, (name, mass, size) in enumerate((("upper", 0.6, length), ("lower", Param(0.6, low=0.3, high=1.0), 0.2))):
        scene.add_link(
            name,
            frame=LinkFrame(parent="upper" if k else None, at_tip=k > 0, center=(0.0, 0.0, -0.9 * size), length=size, share=0.0),
            shape=Sphere(radius=0.03, subdivisions=1), mass=mass, inertia=1e-3 * np.eye(3),
            joint=Revolute(
                axis=(0.0, -1.0, 0.0), angle=Param(0.5, low=-7.0, high=7.0), rate=Param(0.0, low=-30.0, high=30.0),
                damping=Param(0.01, low=0.0, high=0.1), dry_friction=Param(0.03, low=0.0, high=0.4), dry_stiffness=100.0,
                dry_damping=1.0,
            ),
        )  # fmt: skip
    if motors:
        scene.add_motors("motors", joints=["upper", "lower"], actions=np.zeros((frames, 2)), limit=30.0)
        for name, unit, bound in (("lag", "s", 0.03), ("offset1", "N m", 0.3), ("offset2", "N m", 0.3)):
            scene.add_number(name, Param(0.0, low=-bound, high=bound, unit=unit))
    for name, value in TRUTH.items() if at_truth else ():
        scene.table.set(name, value)
    return scene


def swing(
    frames: int, angles: tuple[float, float] = (2.6, -0.8), *, seed: int = 0, actions: np.ndarray | None = None
) -> JointRecording:
    """The measured motion of the true scene from rest, by torques [frames, 2]."""
    scene = pendulum(frames, motors=actions is not None, at_truth=True)
    start = {"upper.angle": torch.tensor(angles[:1]), "lower.angle": torch.tensor(angles[1:])}
    applied = None if actions is None else torch.as_tensor(actions[None])
    joint_q = scene.rollout(start, frames=frames, actions=applied).joint_q[0].cpu().numpy()
    noise = NOISE * np.random.default_rng(seed).normal(size=joint_q.shape)
    return JointRecording(f"swing {seed}", ("upper", "lower"), joint_q + noise, DT, actions)


def away(fit: MotionFit, truth: dict[str, float] = TRUTH) -> np.ndarray:
    return np.array([(fit.values[name] - truth[name]) / fit.sd[name] for name in fit.values])


def test_a_long_window_is_fitted_from_short_ones() -> None:
    """Two seconds at once end in another minimum, with a doubt before all numbers; from short pieces the truth is found."""
    parts = whole_recordings([swing(200)], first=0)
    lost = fit_motions(pendulum(), parts, list(TRUTH), PLAIN)
    assert lost.lines()[0].startswith(f"the motions are not explained: the residual is {lost.misfit**0.5:.3g} times the noise")
    found = fit_motions(pendulum(), parts, list(TRUTH), SETTINGS)
    assert found.converged and not found.doubts and np.abs(away(found)).max() < 4, (found.doubts, away(found))
    assert found.misfit == pytest.approx(1.0, abs=0.2)
    assert [each["frames"] for each in found.to_json()["lengths"]] == [14, 26, 51, 101, 201]
    assert all(found.sd[name] < 0.02 * truth for name, truth in TRUTH.items())
    # The limit of the bars above, which another minimum exceeds, and that of residuals which noise explains.
    assert max(abs(lost.values[name] - truth) / found.sd[name] for name, truth in TRUTH.items()) > 4 and lost.misfit > EXPLAINED


def test_error_bars_of_an_exact_model_hold() -> None:
    """Of 40 to 80 numbers 95 to 97 % lie within 1.96 bars, at 50, 100 and 200 frames; here a few of them."""
    distances = []
    for seed, frames in enumerate((30, 40, 50, 60, 80)):
        angles = np.random.default_rng(seed).uniform(-2.8, 2.8, 2)
        scene = pendulum(frames, at_truth=True)
        scene.table.set("lower.mass", 0.7)
        scene.table.set("lower.dry_friction", 0.03)
        found = fit_motions(
            scene,
            whole_recordings([swing(frames, tuple(angles), seed=seed)], first=0),
            ["lower.dry_friction", "lower.mass"],
            SETTINGS,
        )
        assert found.converged and not found.doubts, (frames, found.doubts)
        distances += away(found).tolist()
    assert 0.3 < np.mean(np.square(distances)) < 2.5 and np.abs(distances).max() < 3.5, distances


def test_a_wrong_model_is_doubted() -> None:
    """A link that is 4 % longer than in the scene: short windows hide it, long ones do not."""
    scene = pendulum(100, length=0.288)
    found = fit_motions(scene, whole_recordings([swing(100)], first=0), list(TRUTH), SETTINGS)
    assert found.doubts and found.lines()[0] == found.doubts[0], found.values
    assert any(word in found.doubts[0] for word in ("not explained", "frames are explained", "disagree")), found.doubts


def test_spikes_of_torques_do_not_count() -> None:
    rng = np.random.default_rng(1)
    torque = np.repeat(rng.normal(size=(5, 2)) * (0.6, 0.2), 4, axis=0)
    motion = swing(20, actions=torque)
    recorded = torque + 0.02 * rng.normal(size=torque.shape)
    recorded[7, 0] += 17.0
    recorded[14, 1] -= 17.0
    parts = whole_recordings([replace(motion, actions=recorded)], first=0)
    names, start = ["lower.dry_friction", "lower.mass"], pendulum(20, motors=True, at_truth=True)
    exact = fit_motions(start, parts, names, PLAIN)
    assert exact.misfit > 100 and any("2 recorded actions of swing 0 stand out" in each for each in exact.doubts)
    noisy = replace(PLAIN, noise=replace(PLAIN.noise, recorded_action=0.02))
    found = fit_motions(start, parts, names, noisy)
    assert not found.doubts and np.abs(away(found)).max() < 3.5, (found.doubts, away(found))
    assert found.starts.shape == (1, 4 + 2 * 20)


def test_offset_and_lag_of_torques_are_unknowns() -> None:
    """Error bars are the bounds of Cramer and Rao, from differences of the true motion, with its start unknown, too."""
    lag, offsets, frames = 0.013, (0.05, -0.03), 50
    times = DT * (np.arange(frames + 20) + 0.5)

    def torque(at: np.ndarray) -> np.ndarray:
        return np.stack([np.sin(9 * at), 0.3 * np.cos(7 * at)], axis=1)

    motion = swing(frames + 20, (1.0, 0.3), actions=torque(times))
    late = replace(motion, actions=torque(times - lag) - offsets)
    truth = {"lower.mass": 0.5, "lag": lag, "offset1": offsets[0], "offset2": offsets[1]}
    found = fit_motions(
        pendulum(frames, motors=True, at_truth=True), [Window(late, 10, frames)], list(truth), PLAIN,
        action_offsets=("offset1", "offset2"), action_lag="lag",
    )  # fmt: skip
    assert np.abs(away(found, truth)).max() < 4, away(found, truth)
    start = {"upper.angle": 1.0, "lower.angle": 0.3, "upper.rate": 0.0, "lower.rate": 0.0}
    true = dict.fromkeys(truth, 0.0) | {"lower.mass": 0.5} | start

    def angles(name: str, change: float) -> np.ndarray:
        """Of the window, with another true number."""
        numbers = true | {name: true[name] + change}
        applied = torque(times + numbers["lag"]) + [numbers["offset1"], numbers["offset2"]]
        given = {key: torch.tensor([value]) for key, value in numbers.items() if "." in key}
        scene = pendulum(frames + 20, motors=True, at_truth=True)
        moved = scene.rollout(given, frames=frames + 20, actions=torch.as_tensor(applied[None])).joint_q[0]
        return moved[10 : 11 + frames].cpu().numpy().ravel()

    slopes = np.stack([(angles(name, 1e-5) - angles(name, -1e-5)) / 2e-5 for name in true], axis=1)
    bounds = NOISE * np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    # Two standard deviations of the root of a mean square of as many residuals.
    rtol = 2 / np.sqrt(2 * len(slopes))
    np.testing.assert_allclose([found.sd[name] for name in truth], bounds[: len(truth)], rtol=rtol)
    for options, message in (
        ({"action_lag": "delay"}, "action_lag is 'delay': name a number of pendulum"),
        ({"action_offsets": ("offset1",)}, "name a number of pendulum .* for each of its 2 motors"),
    ):
        with pytest.raises(UserError, match=message):
            fit_motions(pendulum(frames, motors=True), [Window(late, 10, frames)], ["lower.mass"], PLAIN, **options)
    with pytest.raises(UserError, match="has no actions: leave out recorded_action"):
        bare = [Window(replace(late, actions=None), 10, frames)]
        fit_motions(pendulum(frames, motors=True), bare, ["lower.mass"], PLAIN, action_lag="lag")
    with pytest.raises(UserError, match="give one"):
        JointNoise(coordinate=1.0, start_coordinate=1.0, start_rate=1.0, action=1.0, recorded_action=1.0)


def test_frame_times_may_be_rounded_to_six_decimals() -> None:
    scene = pendulum(20, dt=1 / 148)
    times = np.arange(21)[:, None]
    for dt, refused in ((0.006757, False), (0.00675676, False), (1 / 148.148, True), (0.00676, True)):
        parts = whole_recordings([JointRecording("rounded", ("upper", "lower"), 0.01 * times * (1.0, 2.0), dt)], first=0)
        if refused:
            with pytest.raises(UserError, match="has a frame every"):
                fit_motions(scene, parts, ["lower.mass"], PLAIN)
        else:
            fit_motions(scene, parts, ["lower.mass"], replace(PLAIN, iterations=1))


def test_spikes_stand_out_from_steps() -> None:
    signal = np.repeat([[0.0], [3.0], [-3.0], [1.0]], 10, axis=0)
    signal[13] += 17.0
    signal[33:35] -= 9.0
    wanted = np.zeros_like(signal)
    wanted[13], wanted[33:35] = 17.0, -9.0
    np.testing.assert_array_equal(spikes(signal), wanted)


def test_pieces_begin_where_longer_ones_begin() -> None:
    recording = JointRecording("x", ("a", "b"), np.arange(60.0).reshape(30, 2), DT)
    window = Window(recording, 2, 28, noise=np.arange(1, 29))
    four, two = split_windows([window], 4), split_windows([window], 2)
    assert [part.first for part in two] == [four[0].first, four[2].first] and four[0].first == 2
    assert four[-1].first + four[-1].frames == 30
    assert all(one.first + one.frames - 1 == other.first for one, other in zip(four[:-1], four[1:], strict=True))
    np.testing.assert_array_equal(four[2].noise, np.arange(1.0, 29.0)[four[2].first - 2 :][: four[2].frames])
    assert (
        default_piece_counts([window], 6) == [4, 2, 1]
        and default_piece_counts([window], 15) == [1]
        and default_piece_counts([window], None) == [1]
    )
    with pytest.raises(UserError, match="give at most 13 pieces"):
        split_windows([window], 14)


@pytest.mark.parametrize(
    "noise", [0.0, -1e-3, math.nan, math.inf, "small", [[0.1]] * 4, [0.1] * 3, [[0.1, 0.0]] * 4, [[0.1] * 3] * 4]
)
def test_the_noise_of_a_window_is_above_zero_and_one_in_each_frame_or_joint(noise: object) -> None:
    recording = JointRecording("x", ("a", "b"), np.zeros((10, 2)), DT)
    for right in (None, [0.1] * 4, [[0.1, 0.2]] * 4, np.full((4, 2), 0.1, dtype=np.float32), torch.ones(4)):
        Window(recording, 0, 4, noise=right)
    with pytest.raises(UserError, match="^Window: noise "):
        Window(recording, 0, 4, noise=noise if isinstance(noise, list | str) else [0.1, 0.1, noise, 0.1])


def a_fit(values: tuple[float, float], sd: tuple[float, float], **changes: object) -> MotionFit:
    """A fit of friction and mass with error bars ``sd`` and nothing to doubt."""
    unknowns = Unknowns.of(pendulum(20), ["lower.dry_friction", "lower.mass"])
    recording = JointRecording("x", ("upper", "lower"), np.zeros((21, 2)), DT)
    fields = {
        "unknowns": unknowns, "scaled": np.array(values), "covariance": np.diag(np.square(sd)),
        "windows": whole_recordings([recording], first=0), "starts": np.zeros((1, 4)), "start_sd": np.ones((1, 4)),
        "residual": np.array([NOISE]), "weights": np.array([1.0]), "cost": 1.0, "costs": [1.0], "converged": True,
    }  # fmt: skip
    return MotionFit(**(fields | changes))


def test_lengths_that_disagree_widen_the_error_bars() -> None:
    fit, near, far = a_fit((0.1, 0.5), (1e-3, 1e-3)), a_fit((0.103, 0.5), (2e-3, 2e-3)), a_fit((0.11, 0.5), (2e-3, 2e-3))
    assert not disagreement(fit, [near], lambda *_: 100.0)[1]  # within the bars of shorter windows
    assert not disagreement(fit, [far], lambda *_: 5.0)[1]  # the shorter windows fit by both
    extra, (sentence,) = disagreement(fit, [far, near], lambda *_: 100.0)
    np.testing.assert_allclose(extra, np.diag([0.5 * (0.01**2 + 0.003**2), 0.0]), atol=1e-12)
    assert "lower.dry_friction differs by 5 error bars" in sentence
    growing = GrowingFits((replace(far, windows=[*far.windows] * 4), near, fit))
    value, bar = growing.derived_number(lambda values: values["lower.dry_friction"])
    np.testing.assert_allclose((value, bar), (0.1, np.sqrt(2e-3**2 * 4 / 2 + 0.5 * (0.01**2 + 0.003**2))), rtol=1e-6)


def test_what_makes_an_estimate_doubtful() -> None:
    fit = a_fit((0.1, 0.5), (1e-3, 1e-3))
    assert not doubts_of_search(fit, []) and not doubts_of_data(fit, SETTINGS) and not doubts_of_bounds(fit)
    assert "not converged" in doubts_of_search(replace(fit, converged=False), [])[0]
    other = replace(fit, scaled=np.array([0.2, 0.5]), chi_square=8.0)
    assert "another estimate fits as well: lower.dry_friction 0.2" in doubts_of_search(fit, [other])[0]
    assert not doubts_of_search(fit, [replace(other, chi_square=10.0)])
    assert "3 standard deviations from measured ones" in doubts_of_data(replace(fit, start_distance=3.0), SETTINGS)[0]
    assert "count for 50 %" in doubts_of_data(replace(fit, weights=np.array([0.5])), SETTINGS)[0]
    assert doubts_of_bounds(replace(fit, scaled=np.array([0.0, 0.5])))[0].startswith("lower.dry_friction ended at a bound")


def test_ends_that_differ_go_on_and_starts_are_kept() -> None:
    ends = (((0.1, 0.5), 1.0), ((0.101, 0.5), 1.1), ((0.3, 0.5), 1.2), ((0.2, 0.9), 2.0))
    best, same, other, bad = (a_fit(values, (1e-3, 1e-3), cost=cost) for values, cost in ends)
    assert distinct_minima([bad, same, other, best], best.unknowns.scaled_range()) == [best, other]
    window = best.windows[0]
    shorter = replace(best, windows=split_windows([window], 2), starts=np.array([[1.0, 2, 3, 4], [5.0, 6, 7, 8]]))
    np.testing.assert_array_equal(start_offsets(shorter, [window], np.full((1, 6), 0.5)), [[0.5, 1.5, 2.5, 3.5, 0.0, 0.0]])
