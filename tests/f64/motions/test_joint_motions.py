"""Fits to simulated coordinates of joints, whose numbers and torques are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import LinkFrame, Param, Prismatic, Revolute, Scene, Sphere
from risp_torch.motions import (
    JointNoise,
    JointRecording,
    MotionFitSettings,
    PoseNoise,
    Recording,
    Window,
    estimate_actions,
    estimate_starts,
    fit_motions,
    predict_joints,
    whole_recordings,
    windows,
)
from ti_sim import UserError

DT, FRAMES, NOISE = 0.01, 40, 1e-3
ZEROS = ("zero1", "zero2")
TRUTH = {"upper.damping": 0.03, "lower.mass": 0.5, "lower.dry_friction": 0.06, "zero1": 0.02, "zero2": -0.03}
SETTINGS = MotionFitSettings(
    noise=JointNoise(coordinate=NOISE, start_coordinate=5e-3, start_rate=0.3), robust_scale=float("inf"), iterations=25,
    first_guesses=1, shortest_window=None,
)  # fmt: skip
MOTORS = JointNoise(coordinate=NOISE, start_coordinate=5e-3, start_rate=0.3, action=(1.0, 0.3))


def pendulum() -> Scene:
    """Two links of 0.3 and 0.2 m with motors, from numbers that are not ``TRUTH``."""
    scene = Scene(frame_dt=DT, frames=FRAMES, substeps=10, name="pendulum")
    for k, (name, mass, length) in enumerate((("upper", 0.6, 0.3), ("lower", Param(0.6, low=0.3, high=1.0), 0.2))):
        friction = {"dry_friction": Param(0.03, low=0.0, high=0.2), "dry_stiffness": 100.0, "dry_damping": 1.0} if k else {}
        scene.add_link(
            name,
            frame=LinkFrame(
                parent="upper" if k else None, at_tip=k > 0, center=(0.0, 0.0, -0.9 * length), length=length, share=0.0
            ),
            shape=Sphere(radius=0.03, subdivisions=1), mass=mass, inertia=1e-3 * np.eye(3),
            joint=Revolute(
                axis=(0.0, -1.0, 0.0), angle=Param(0.5, low=-7.0, high=7.0), rate=Param(0.0, low=-30.0, high=30.0),
                damping=Param(0.01, low=0.0, high=0.1), **friction,
            ),
        )  # fmt: skip
    scene.add_motors("motors", joints=["upper", "lower"], actions=np.zeros((FRAMES, 2)), limit=10.0)
    for name in ZEROS:
        scene.add_number(name, Param(0.0, low=-0.1, high=0.1, unit="rad"))
    return scene


def true_scene() -> Scene:
    scene = pendulum()
    for name, value in TRUTH.items():
        scene.table.set(name, value)
    return scene


def recordings(count: int = 6, frames: int = FRAMES, *, noise: float = NOISE, seed: int = 0, motors: bool = True) -> list:
    """Motions from random starts, with random torques that last three frames each."""
    rng, scene = np.random.default_rng(seed), true_scene()
    actions = np.repeat(rng.normal(size=(count, frames // 3 + 1, 2)) * (0.6, 0.2), 3, axis=1)[:, :frames] * motors
    starts = {
        f"{link}.{name}": torch.as_tensor(rng.normal(size=count) * size)
        for link in ("upper", "lower") for name, size in (("angle", 1.0), ("rate", 3.0))
    }  # fmt: skip
    joint_q = scene.rollout(starts, frames=frames, actions=torch.as_tensor(actions)).joint_q.cpu().numpy()
    joint_q = joint_q + [TRUTH[name] for name in ZEROS] + noise * rng.normal(size=joint_q.shape)
    given = actions if motors else [None] * count
    return [JointRecording(f"motion {k}", ("upper", "lower"), joint_q[k], DT, given[k]) for k in range(count)]


def test_numbers_and_zeros_come_back_within_their_bars() -> None:
    found = fit_motions(pendulum(), whole_recordings(recordings(), first=0), list(TRUTH), SETTINGS, encoder_offsets=ZEROS)
    assert found.converged and not found.unobservable
    for name, truth in TRUTH.items():
        assert abs(found.values[name] - truth) < 4 * found.sd[name], (name, found.values[name], truth, found.sd[name])
        assert found.sd[name] < 0.1 * abs(truth), (name, found.sd[name])
    np.testing.assert_allclose(found.cost, 1.0, atol=0.25)  # what is left is the noise
    assert (np.abs(found.residual / NOISE - 1) < 0.3).all() and found.start_sd.shape == found.starts.shape == (6, 4)


def test_error_bars_hold_the_truth_as_often_as_they_say() -> None:
    away = []
    for seed in range(10):
        motions = whole_recordings(recordings(24, 16, seed=seed), first=0)
        found = fit_motions(true_scene(), motions, ["lower.mass"], SETTINGS, encoder_offsets=ZEROS)
        away.append((found.values["lower.mass"] - TRUTH["lower.mass"]) / found.sd["lower.mass"])
    assert 0.4 < np.mean(np.square(away)) < 2.5, away


def test_torques_of_the_recordings_are_those_of_the_simulation() -> None:
    """Predictions without them are far off; windows within a recording take the rows that are theirs."""
    motions = recordings(noise=0.0)
    parts = windows(motions, frames=15, stride=12, least_motion=0.05)
    errors = [
        np.nanmax(np.abs(predict_joints(true_scene(), some, starts=read_starts(some), encoder_offsets=ZEROS) - target(some)))
        for some in (parts, [replace(part, recording=replace(part.recording, actions=None)) for part in parts])
    ]
    assert errors[0] < 0.02 and errors[1] > 10 * errors[0], errors  # starts are parabolas through coordinates


def read_starts(parts: list[Window]) -> np.ndarray:
    return np.array([np.concatenate(part.recording.state(part.first)) for part in parts])


def target(parts: list[Window]) -> np.ndarray:
    return np.array([part.recording.joint_q[part.first : part.first + part.frames] for part in parts])


def test_predictions_end_where_windows_end() -> None:
    one, two = recordings(2, noise=0.0)
    parts = [Window(one, 0, 20), Window(two, 0, FRAMES + 1)]
    found = predict_joints(true_scene(), parts, encoder_offsets=ZEROS)
    assert found.shape == (2, FRAMES + 1, 2) and np.isnan(found[0, 20:]).all() and np.isfinite(found[0, :20]).all()
    worse = predict_joints(true_scene(), parts, {"lower.mass": 0.9}, encoder_offsets=ZEROS)
    assert np.abs(worse[1] - two.joint_q).mean() > 3 * np.abs(found[1] - two.joint_q).mean()


def test_torques_come_back_within_their_bars() -> None:
    motions = recordings(5, 18)
    parts = [Window(replace(one, actions=None), 0, len(one)) for one in motions]
    found = estimate_actions(true_scene(), parts, replace(SETTINGS, noise=MOTORS), encoder_offsets=ZEROS)
    truth = np.array([one.actions for one in motions])
    assert found.converged and found.actions.shape == truth.shape == (5, 18, 2)
    away = (found.actions - truth) / found.sd
    assert 0.5 < np.sqrt(np.mean(away**2)) < 1.5
    error, size = (np.sqrt(np.mean(np.square(each), axis=(0, 1))) for each in (found.actions - truth, truth))
    assert (error < 0.8 * size).all(), (error, size)
    # Sums of torques, which noise of coordinates hardly moves, are known far better than each.
    assert (np.abs((found.actions - truth)[:, 3:15].mean(axis=1)).max(axis=0) < 0.25 * size).all()
    assert (found.residual < 2 * NOISE).all() and found.starts.shape == (5, 4)


def test_states_of_recordings_are_those_of_parabolas() -> None:
    times = DT * np.arange(12)
    joint_q = np.stack([1 + 2 * times - 3 * times**2, 0.5 - times], axis=1)
    recording = JointRecording("parabola", ("a", "b"), joint_q, DT)
    for frame in (0, 1, 6, 11):
        place, rate = recording.state(frame)
        np.testing.assert_allclose(place, joint_q[frame], atol=1e-12)
        np.testing.assert_allclose(rate, (2 - 6 * times[frame], -1), atol=1e-10)
    assert recording.displacement(0, 2) == pytest.approx(2 * DT * 2 - 3 * (2 * DT) ** 2)


def test_prismatic_joints_are_measured_in_metres() -> None:
    """A mass on a spring: its stiffness, from the place alone."""
    scene = Scene(frame_dt=DT, frames=FRAMES, substeps=20, gravity=0.0, name="spring")
    joint = Prismatic(axis=(1.0, 0.0, 0.0), stiffness=Param(20.0, low=5.0, high=100.0, scale="log10"))
    scene.add_link("slider", joint=joint, shape=Sphere(radius=0.03), mass=0.5)
    times = DT * np.arange(FRAMES + 1)
    rate = np.sqrt(32.0 / 0.5)
    recording = JointRecording("spring", ("slider",), 0.1 * np.cos(rate * times)[:, None], DT)
    found = fit_motions(scene, whole_recordings([recording], first=0), ["slider.stiffness"], SETTINGS)
    assert found.values["slider.stiffness"] == pytest.approx(32.0, rel=5e-3)


def test_bad_input_is_refused() -> None:
    one, two = recordings(2, 12)
    scene, part = pendulum(), Window(one, 0, 10)
    poses = Recording("poses", np.tile([0.0, 0, 0, 0, 0, 0, 1], (5, 1, 1)), DT)
    pose_noise = PoseNoise(coordinate=1.0, start_position=1.0, start_rotation=1.0, start_velocity=1.0, start_spin=1.0)
    for windows_, unknown, options, message in (
        ([], ["gravity"], {}, "there is no window to fit"),
        ([part], ["upper.rate"], {}, "upper.rate is a start, and every motion has its own"),
        ([part], ["upper.damping"], {"encoder_offsets": ("zero1",)}, "name a number of pendulum"),
        ([part], ["upper.damping"], {"encoder_offsets": ("zero1", "zero3")}, "name a number of pendulum"),
        ([part], ["upper.damping"], {"scale": "zero1"}, "give a JointNoise, and no scale"),
        (
            [part, Window(poses, 0, 5)],
            ["upper.damping"],
            {},
            "coordinates of joints are needed in at least one window, and in no other windows poses",
        ),
        ([part, Window(replace(two, actions=None), 0, 5)], ["upper.damping"], {}, "only one of them has actions"),
        (
            [Window(replace(one, actions=one.actions[:, :1]), 0, 5)],
            ["upper.damping"],
            {},
            "has 1 actions, and pendulum has 2 motors",
        ),
        ([Window(replace(one, links=("upper", "hand")), 0, 5)], ["upper.damping"], {}, "pendulum has no link 'hand'"),
        ([Window(one, 8, 10)], ["upper.damping"], {}, "has 13 frames, and not 10 from frame 8 on"),
        ([Window(replace(one, dt=0.02), 0, 5)], ["upper.damping"], {}, "has a frame every 0.02 s, and pendulum every 0.01 s"),
    ):
        with pytest.raises(UserError, match=message):
            fit_motions(scene, windows_, unknown, SETTINGS, **options)
    with pytest.raises(UserError, match="the recordings have joint coordinates: give a JointNoise"):
        fit_motions(scene, [part], ["gravity"], replace(SETTINGS, noise=pose_noise))
    with pytest.raises(UserError, match="the recordings have poses: give a PoseNoise"):
        fit_motions(scene, [Window(poses, 0, 5)], ["gravity"], SETTINGS)
    for call in (lambda w: estimate_actions(scene, w, replace(SETTINGS, noise=MOTORS)), lambda w: predict_joints(scene, w)):
        for given in ([], [Window(poses, 0, 5)]):
            with pytest.raises(UserError, match="coordinates of joints are needed"):
                call(given)
    with pytest.raises(UserError, match=r"starts have the shape \(1, 3\): give \[1, 4\], coordinates and velocities"):
        predict_joints(scene, [part], starts=np.zeros((1, 3)))
    with pytest.raises(UserError, match="actions are estimated with a prior"):
        estimate_actions(scene, [part], SETTINGS)
    with pytest.raises(UserError, match=r"JointNoise: coordinate has the shape \(3,\): give one number, or 2"):
        fit_motions(scene, [part], ["gravity"], replace(SETTINGS, noise=replace(SETTINGS.noise, coordinate=(1.0, 1.0, 1.0))))
    for changes, message in (
        ({"joint_q": one.joint_q[:2]}, r"coordinates of shape \(2, 2\): give \[T, 2\] with at least 3 frames"),
        ({"actions": one.actions[:3]}, r"actions of shape \(3, 2\): give \[12, A\]"),
        ({"joint_q": one.joint_q * np.nan}, "are not finite"),
    ):
        with pytest.raises(UserError, match=message):
            replace(one, **changes)


def test_one_recording_has_error_bars_of_its_noise() -> None:
    """It has no scatter between recordings: bars are those of independent noise, and hold the truth as often as they say."""
    away = []
    for seed in range(8):
        (one,) = recordings(1, seed=50 + seed)
        found = fit_motions(
            true_scene(), [Window(one, 0, len(one))], ["lower.mass", "upper.damping"], SETTINGS, encoder_offsets=ZEROS
        )
        away += [(found.values[name] - TRUTH[name]) / found.sd[name] for name in found.values]
    assert 0.4 < np.mean(np.square(away)) < 2.0, away
    lost = fit_motions(
        true_scene(), [Window(one, 0, 3)], ["lower.mass", "upper.mass"], SETTINGS, bounds={"upper.mass": (0.1, 2.0)}
    )
    assert lost.unobservable and lost.sd["upper.mass"] > 0.05


def test_batches_and_unequal_windows_change_nothing() -> None:
    parts = [Window(one, k, 41 - 5 * k) for k, one in enumerate(recordings(3))]
    found = [
        fit_motions(pendulum(), parts, ["lower.mass"], replace(SETTINGS, worlds=worlds), encoder_offsets=ZEROS)
        for worlds in (4096, 5)
    ]
    np.testing.assert_allclose(found[0].starts, found[1].starts, rtol=1e-9)
    assert found[0].values == pytest.approx(found[1].values, rel=1e-9)


def test_a_hard_window_does_not_end_with_the_easy_ones() -> None:
    """Its first steps are too long, while the others are done after two; alone it ends where it ends beside them."""
    motions = [replace(one, actions=None) for one in recordings(4, 12, noise=0.0)]
    spun = motions[3].joint_q + np.array([0.0, 0.9])[None] * np.linspace(0, 1, 13)[:, None] ** 2
    parts = [Window(one, 0, 13) for one in (*motions[:3], replace(motions[3], joint_q=spun))]
    settings = replace(SETTINGS, noise=replace(MOTORS, coordinate=1e-4), iterations=60, tolerance=1e-6)
    together, alone = (estimate_actions(true_scene(), some, settings, encoder_offsets=ZEROS) for some in (parts, parts[3:]))
    assert together.converged and alone.converged
    np.testing.assert_allclose(together.residual[3], alone.residual[0], rtol=0.05)
    np.testing.assert_allclose(together.actions[3], alone.actions[0], atol=0.02 * np.abs(alone.actions).max())


def test_starts_by_known_numbers() -> None:
    """From a window with noise, far better than the parabola through five frames."""
    (one,) = recordings(1, noise=0.0)
    noisy = replace(one, joint_q=one.joint_q + NOISE * np.random.default_rng(5).normal(size=one.joint_q.shape))
    exact = estimate_starts(true_scene(), [Window(one, 0, 30)], SETTINGS, encoder_offsets=ZEROS)[0]
    predicted = predict_joints(true_scene(), [Window(one, 0, 40)], starts=exact[None], encoder_offsets=ZEROS)[0]
    np.testing.assert_allclose(predicted, one.joint_q[:40], atol=2e-3)  # the prior of the start pulls a little
    found = estimate_starts(true_scene(), [Window(noisy, 0, 30)], SETTINGS, encoder_offsets=ZEROS)[0]
    read = np.concatenate(noisy.state(0))
    assert np.abs(found - exact)[2:].max() < 0.5 * np.abs(read - exact)[2:].max() and found.shape == (4,)
    with pytest.warns(UserWarning, match="have not converged after 1 steps"):
        estimate_starts(
            true_scene(), [Window(noisy, 0, 30)], replace(SETTINGS, iterations=1, tolerance=1e-12), encoder_offsets=ZEROS
        )
