"""The study of DFKI's double pendulum on motions that the scene itself has made, whose numbers are known, and on its log."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import load_scene
from scenes.real import double_pendulum as pendulum
from studies.real.dfki_pendulum.log import driven, elastic, free_swing, growing_windows, numbers, torques
from studies.real.dfki_pendulum.log.log import LOG, RATE, Clock, Log, read_log
from tests.reference.data_folders import real_data_folder

FILM_DT = 1 / pendulum.RATE
TRUTH = {"upper.dry_friction": 0.14, "lower.dry_friction": 0.1, "lower.inertia[1][1]": 0.006}


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def swung() -> np.ndarray:
    """Angles [END + 1, 2] of a film that shows a free swing at its end, after a rest."""
    frames = free_swing.END - free_swing.SWING
    scene = load_scene(
        "real/double_pendulum", frames=frames, substeps=free_swing.SUBSTEPS, rate=pendulum.RATE, angles=(-2.8, -0.3)
    )
    for name, value in TRUTH.items():
        scene.table.set(name, value)
    found = np.zeros((free_swing.END + 1, 2))
    found[free_swing.SWING :] = scene.rollout(frames=frames).joint_q[0, :, :2].cpu().numpy() + 2 * np.pi * np.array([1, 0])
    return found + np.radians([-0.9, 1.6])  # rest zeros


def test_base_numbers_of_the_published_models_are_those_of_the_scene() -> None:
    model = pendulum.MODELS[numbers.GIVEN]
    scene = pendulum.make_scene(model=numbers.GIVEN)
    values = {name: float(np.asarray(scene.table[name].value)) for name in (*numbers.MASSES, *numbers.FRICTION)}
    for number in (*numbers.BASE, *numbers.JOINTS, *numbers.RATIOS):
        assert number.found(values) == pytest.approx(number.known(model)), number.name
    # Masses with other centres: the moments, which motions tell, stay.
    lower, upper = numbers.lower_mass(values), numbers.upper_mass(values)
    r1, r2 = pendulum.MODELS[numbers.IDENTIFIED]["r"]
    assert lower * r2 == pytest.approx(numbers.moment(values))
    assert upper * r1 + lower * pendulum.UPPER_LENGTH == pytest.approx(numbers.whole_moment(values))


def test_growth_upright_is_that_of_the_simulation() -> None:
    """A pendulum that is let go near upright leaves it along its fastest mode."""
    scene = load_scene("real/double_pendulum", frames=600, substeps=8, rate=RATE, angles=(np.pi, 0.0))
    for name in numbers.FRICTION:
        scene.table.set(name, 0.0)
    values = {name: float(np.asarray(scene.table[name].value)) for name in numbers.MASSES}
    moved = scene.rollout({"upper.angle": torch.tensor([np.pi + 1e-9])}).joint_q[0, :, 0].cpu().numpy() - np.pi
    rate = np.log(moved[600] / moved[520]) / (80 / RATE)
    assert rate == pytest.approx(numbers.upright_growth(values), rel=0.03)


def test_rows_compare_with_the_nearer_model() -> None:
    number = numbers.BASE[1]
    low, high = sorted(number.known(model) for model in pendulum.MODELS.values())
    identified = number.known(pendulum.MODELS[numbers.IDENTIFIED])
    for value, words in ((0.5 * (low + high), "between"), (1.2 * high, "4.0"), (0.9 * low, "1.9")):
        bar = 0.05 * high if value > high else 0.1 * low / 1.9
        (row,) = numbers.rows((number,), lambda _, value=value, bar=bar: (value, bar))
        assert row[-1] == words and row[2].startswith(f"{value:.4g}")
        assert row[-2] == f"{100 * (value / identified - 1):+.0f} %"


def test_the_free_swing_tells_its_numbers_and_its_second_half(swung: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_windows, "SHARES", (8, 1))
    monkeypatch.setattr(free_swing, "UNKNOWN", (*TRUTH, *free_swing.ZEROS))
    times = FILM_DT * np.arange(len(swung))
    noisy = swung + 0.003 * np.random.default_rng(0).normal(size=swung.shape)
    found, figures = free_swing.free_swing(times, noisy, silent)
    for name, truth in TRUTH.items():
        assert found.values[name] == pytest.approx(truth, rel=0.03), name
        value, bar = found.derived_number(lambda values, name=name: values[name])
        assert value == found.values[name] and 0 < bar < 0.1 * truth
    errors = np.array(figures["errors"])
    assert len(errors) == free_swing.END - free_swing.HALF
    assert max(figures["rms, after 1 s [deg]"] + figures["rms, first second [deg]"]) < 0.6
    length, bar = figures["first length [m]"]
    assert length == pytest.approx(0.3, rel=0.03) and bar < 0.02
    assert not figures["unseen"]  # as the first link's mass and inertia are given here, they tell the second's


def toy_log(seconds: float, torque: np.ndarray, angles: tuple[float, float] = (0.2, 0.1)) -> Log:
    """The log of the scene's own motion by torques [K, 2]."""
    frames = round(seconds * RATE)
    scene = load_scene("real/double_pendulum", frames=frames, substeps=driven.SUBSTEPS, rate=RATE, angles=angles)
    mean = 0.5 * (torque[:frames] + torque[1 : frames + 1])
    joint_q = scene.rollout(frames=frames, actions=torch.as_tensor(mean[None])).joint_q[0, :, :2].cpu().numpy()
    return Log(np.arange(frames + 1) / RATE, joint_q, torque[: frames + 1])


def slow_torque(seconds: float) -> np.ndarray:
    at = np.arange(round(seconds * RATE) + 1) / RATE
    return np.stack([1.5 * np.sin(5 * at), 0.3 * np.cos(7 * at)], axis=1)


def test_driven_motions_are_predicted_from_the_past_alone() -> None:
    """Angles after the split change the errors and not what is predicted; torques after it change what is predicted."""
    log = toy_log(3.0, slow_torque(3.0))
    own = driven.scene_of(1.0)
    values = {name: float(np.asarray(own.table[name].value)) for name in driven.UNKNOWN}
    fits = type("Fits", (), {"values": values})()
    first = 0.8
    plain = driven.predicted(log, fits, first)
    assert max(plain["rms [deg]"]) < 0.3
    spoiled = log.joint_q.copy()
    spoiled[round(first * RATE) + 1 :] += np.radians(5.0)
    other = driven.predicted(replace(log, joint_q=spoiled), fits, first)
    for horizon in driven.HORIZONS:
        np.testing.assert_allclose(other[f"{horizon:g} s"], 5.0, atol=0.5)
    assert max(driven.predicted(replace(log, torque=1.3 * log.torque), fits, first)["rms [deg]"]) > 5 * max(plain["rms [deg]"])


def test_torques_of_a_film_are_those_of_their_intervals() -> None:
    """By the scene's own motion at the film's rate, up to steps in place of a sine: a shift by one interval would be seen."""
    at = np.arange(round(3.0 * RATE) + 1) / RATE
    log = toy_log(3.0, np.stack([3.0 * np.sin(12 * at), 0.6 * np.cos(12 * at)], axis=1))
    clock = Clock(0.4, 0.002)
    times = 0.35 + FILM_DT * np.arange(95)
    angles = log.angles_at(clock.log_times(times).clip(0, 3.0))
    at = clock.log_times(times)
    inside = np.flatnonzero((at > 0) & (at < 3.0))
    dt = (at[-1] - at[0]) / (len(at) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torques, "MODEL", numbers.GIVEN)
        noise = replace(torques.FILM, coordinate=(2e-4, 4e-4))
        places, found, sd = torques.estimated(dt, angles, int(inside[0]), int(inside[-1]), noise)
    known = log.mean_torque(at)
    assert (np.diff(places) == 1).all() and len(places) > 60
    error = np.sqrt(np.mean(np.square(found - known[places]), axis=0))
    shifted = np.sqrt(np.mean(np.square(found[1:] - known[places[:-1]]), axis=0))
    assert (error < (0.4, 0.08)).all() and (shifted > 2.0 * error).all() and (sd > 0).all(), (error, shifted)


def test_stiff_elastic_joints_move_like_rigid_ones() -> None:
    log = toy_log(0.2, slow_torque(0.2))
    scene = elastic.elastic_scene(elastic.RIGID)
    for k, name in enumerate(("upper", "lower")):
        published = pendulum.MODELS[numbers.GIVEN]
        for key, value in (("damping", published["b"][k]), ("dry_friction", published["cf"][k])):
            scene.table.set(f"{name}_rotor.{key}", value)
    start = {"upper_rotor.angle": torch.tensor([0.2]), "lower_rotor.angle": torch.tensor([0.1])}
    moved = scene.rollout(start, frames=40, actions=torch.as_tensor(log.torque[None, :40])).joint_q[0].cpu().numpy()
    np.testing.assert_allclose(moved[:, [0, 2]] + moved[:, [1, 3]], log.joint_q[:41], atol=2e-3)
    assert np.abs(moved[:, [1, 3]]).max() < 1e-3


def test_windows_of_elastic_joints_measure_rotors_and_hold_deflections() -> None:
    times = np.arange(round(11 * RATE)) / RATE
    log = Log(times, np.stack([times, -times], axis=1), np.stack([2 * times, 3 * times], axis=1))
    parts = elastic.elastic_windows(log)
    assert len(parts) == 50 and parts[0].frames == elastic.FRAMES + 1
    joint_q = parts[3].recording.joint_q
    np.testing.assert_allclose(joint_q[:, 0], elastic.PART[0] + 0.3 + np.arange(41) / RATE)
    np.testing.assert_allclose(joint_q[:, 2], -joint_q[:, 0])
    assert not joint_q[:, [1, 3]].any() and parts[3].recording.links == elastic.LINKS


@pytest.fixture
def real_log() -> Log:
    """The log of the public data set; skipped where it is not."""
    return read_log(real_data_folder("dfki_double_pendulum") / LOG)


def test_the_real_log_tells_masses_and_inertias(real_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second half of the swing-up in two windows and as a whole: base parameters within a fifth of the identified ones."""
    monkeypatch.setattr(growing_windows, "SHARES", (2, 1))
    motion = driven.logged(real_log, driven.HALF, driven.SWING_UP)
    scene = driven.scene_of(driven.SWING_UP - driven.HALF)
    found = growing_windows.grown(scene, motion, driven.UNKNOWN, driven.SETTINGS, say=silent)
    for number in numbers.BASE[:4]:
        known = number.known(pendulum.MODELS[numbers.IDENTIFIED])
        assert number.found(found.values) == pytest.approx(known, rel=0.2), number.name
    assert np.degrees(found.fits[-1].residual[0]) < 1.0
