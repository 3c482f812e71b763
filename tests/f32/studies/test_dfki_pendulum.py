"""DFKI's double pendulum: numbers of the scene, and what the study finds in films that the scene itself has made."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from risp_torch import load_scene
from scenes.real import double_pendulum as pendulum
from studies.real.dfki_pendulum.__main__ import main
from studies.real.dfki_pendulum.film import angles as study
from studies.real.dfki_pendulum.film.arm import Arm, Look, solved_look
from studies.real.dfki_pendulum.film.camera import camera_numbers, camera_step, first_camera
from studies.real.dfki_pendulum.film.stages import made, recorded
from studies.real.dfki_pendulum.film.steady_film import camera_motion, steadied
from studies.real.dfki_pendulum.log.driven import HORIZONS
from studies.real.dfki_pendulum.log.free_swing import HALF
from studies.real.dfki_pendulum.log.log import Clock, Log, aligned, compared, wrapped
from studies.real.dfki_pendulum.plots import plot_angles, plot_prediction, plot_torques
from studies.real.dfki_pendulum.tables import tables

SIZE = 76
TRUTH = np.radians([(12.0, 25.0), (-30.0, 40.0), (95.0, -20.0), (175.0, 10.0)])


@pytest.fixture(scope="module")
def arm() -> Arm:
    return Arm(load_scene("real/double_pendulum", size=SIZE))


@pytest.fixture(scope="module")
def look(arm: Arm) -> Look:
    height = arm.scene.camera.height
    y, x = np.mgrid[:height, :SIZE] / SIZE
    return Look(np.array([0.3, 0.02, 0.1]), 0.45 + 0.05 * np.sin(9 * x) * np.cos(7 * y))


@pytest.mark.parametrize("model", pendulum.MODELS)
def test_the_scene_has_the_published_numbers(model: str) -> None:
    scene, published = pendulum.make_scene(model=model), pendulum.MODELS[model]
    for k, name in enumerate(("upper", "lower")):
        mass, center, inertia = (scene.parameters[f"{name}.{key}"].value for key in ("mass", "center", "inertia"))
        assert mass == published["m"][k] and -center[2] == published["r"][k]
        assert inertia[1, 1] + mass * center[2] ** 2 == pytest.approx(published["I"][k])
        assert scene.parameters[f"{name}.armature"].value == pytest.approx(36 * published["Ir"])


def test_positive_angles_turn_counter_clockwise_in_the_picture(arm: Arm) -> None:
    covered = arm.coverage(np.radians([(0.0, 0.0), (40.0, 0.0), (0.0, 40.0)]))[:, 3]
    columns = (covered * (np.arange(SIZE) + 0.5)).sum(axis=(1, 2)) / covered.sum(axis=(1, 2))
    assert columns[1] > columns[0] + 3 and columns[2] > columns[0] + 1


def test_angles_come_back(arm: Arm, look: Look) -> None:
    pictures = look.pictures(arm.coverage(TRUTH)) + 0.003 * np.random.default_rng(0).standard_normal((4, *look.plate.shape))
    found = study.fitted(arm, look, pictures, TRUTH + np.radians([(3.0, -4.0)]), steps=4, close=study.FAR)
    found = study.fitted(arm, look, pictures, found.angles, steps=4)
    assert np.abs(np.degrees(found.angles - TRUTH)).max() < 0.3 and (found.bars > 0).all()


def test_angles_are_found_from_nothing(arm: Arm, look: Look) -> None:
    picture = look.pictures(arm.coverage(TRUTH[:1]))[0]
    found = study.searched(arm, look, picture)
    assert np.abs(np.degrees(wrapped(found - TRUTH[0]))).max() < 0.5


def test_greys_are_solved(arm: Arm, look: Look) -> None:
    coverage = arm.coverage(TRUTH)
    solved = solved_look(look.pictures(coverage), coverage, look.plate)
    np.testing.assert_allclose(solved.grey, look.grey, atol=1e-3)
    np.testing.assert_allclose(solved.plate, look.plate, atol=1e-3)


def test_the_motion_of_the_camera_comes_back() -> None:
    rng = np.random.default_rng(1)
    texture = gaussian_filter(rng.standard_normal((60, 64)), 2.0)
    still = 0.4 + 0.1 * texture / texture.std()
    moved = np.array([1.5, -0.8, 0.01, 0.004])
    films = np.stack([still, np.nan_to_num(steadied(still[None], moved[None])[0], nan=0.4)])
    mask = np.zeros(still.shape, bool)
    mask[10:-10, 10:-10] = True
    found = camera_motion(films, mask, reference=1)[0]  # where the second picture's pixels lie in the first
    assert (np.abs(found - moved) < (0.05, 0.05, 2e-3, 2e-3)).all()


def test_the_place_in_the_log_comes_back() -> None:
    """Clocks that run at different rates; where they may not, one offset is a mean of those at all times."""
    log_times = np.arange(0, 10, 0.0025)
    joint_q = np.stack([np.sin(3 * log_times), np.cos(4 * log_times)], axis=1)
    log, clock = Log(log_times, joint_q, 0 * joint_q), Clock(1.234, 0.003)
    times = np.arange(1.5, 11, 1 / 30)
    angles = log.angles_at(clock.log_times(times))
    found = aligned(times, angles, log, first_guess=1.2)
    assert found.start == pytest.approx(1.234, abs=1e-3) and found.drift == pytest.approx(0.003, abs=2e-4)
    assert clock.offset(5.0) == pytest.approx(1.249)
    assert aligned(times, angles, log, first_guess=1.2, drifts=False).start == pytest.approx(1.249, abs=5e-3)
    assert np.isnan(log.angles_at(np.array([-0.1]))).all()


def test_mean_torques_are_those_of_the_intervals() -> None:
    log_times = np.arange(0, 2, 0.0025)
    torque = np.stack([log_times, 3 * log_times**2], axis=1)
    log = Log(log_times, 0 * torque, torque)
    ends = np.array([0.1, 0.4, 1.3])
    exact = np.stack([np.diff(ends**2) / 2, np.diff(ends**3)], axis=1) / np.diff(ends)[:, None]
    np.testing.assert_allclose(log.mean_torque(ends), exact, atol=1e-5)


def test_camera_and_second_length_come_back(arm: Arm, look: Look) -> None:
    """From pictures of another length and place of the pivot, by angles that are a little off; the first length is the scale."""
    angles = np.radians([(12.0, 25.0), (-30.0, 40.0), (95.0, -20.0), (175.0, 10.0), (60.0, 80.0), (-80.0, -60.0)])
    truth = first_camera() + np.array([0.004, -0.003, 0.01, 0.0, 0.006])
    shown = Arm(arm.scene, camera_numbers(truth, SIZE))
    pictures = look.pictures(shown.coverage(angles)) + 0.002 * np.random.default_rng(0).standard_normal((6, *look.plate.shape))
    values, found = first_camera(), angles + np.radians([(0.5, -0.5)])
    for close in (study.FAR, study.FAR, study.FAR, study.NEAR, study.NEAR, study.NEAR):
        moved = Arm(arm.scene, camera_numbers(values, SIZE))
        found, values, bars = camera_step(moved, look, pictures, found, values, SIZE, close)
    assert abs(values[4] - truth[4]) < 1e-3 and (np.abs(values[:2] - truth[:2]) < 1e-3).all()
    scale, known = (np.exp(each[2]) / each[3] for each in (values, truth))  # distance and focal length trade
    assert scale == pytest.approx(known, rel=5e-3) and (bars > 0).all()
    assert np.abs(np.degrees(found - angles)).max() < 0.5


def test_frames_in_a_second_minimum_are_found_again(arm: Arm, look: Look) -> None:
    """Frames of a smooth motion; one of them begins far off, where its own steps do not lead back."""
    course = np.radians(np.stack([np.linspace(20, 44, 9), np.linspace(-15, 17, 9)], axis=1))
    pictures = look.pictures(arm.coverage(course))
    start = course.copy()
    start[4] += np.radians((25.0, -70.0))
    lost = study.fitted(arm, look, pictures, start, steps=4)
    assert np.abs(np.degrees(lost.angles[4] - course[4])).max() > 5
    found = study.restarted(arm, look, pictures, lost)
    assert np.abs(np.degrees(found.angles - course)).max() < 0.5 and (found.misfit <= lost.misfit).all()


def test_the_course_of_neighbours() -> None:
    times = np.arange(9.0)
    smooth = np.stack([0.1 * times**2, 1 - 0.2 * times], axis=1)
    spoiled = smooth.copy()
    spoiled[4] += 3.0
    np.testing.assert_allclose(study.course(smooth)[2:-2], smooth[2:-2], atol=0.11)
    assert abs(study.course(spoiled)[4] - smooth[4]).max() < 0.11
    np.testing.assert_array_equal(study.course(smooth)[[0, 1, -2, -1]], smooth[[0, 1, -2, -1]])


def test_figures_of_the_comparison() -> None:
    """Angles that are known to be off by half a degree in one joint, from a rest whose zeros are off."""
    log_times = np.arange(0, 20, 0.0025)
    ramp = np.clip(log_times / 2, 0, 1)  # from rest
    joint_q = np.stack([ramp * np.sin(3 * log_times), ramp * np.cos(4 * log_times) - ramp], axis=1)
    log, clock = Log(log_times, joint_q, 0 * joint_q), Clock(1.915, 0.0025)
    times = np.arange(0.0, 21.0, 1 / 30)
    at = clock.log_times(times)
    angles = np.nan_to_num(log.angles_at(at.clip(0, log_times[-1]))) + np.radians([1.0, -2.0])
    alternating = np.radians(0.5) * (-1.0) ** np.arange(len(times)) * (at > 0.5)
    figures = compared(times, angles + np.stack([alternating, 0 * alternating], axis=1), log)
    assert figures["drift"] == pytest.approx(0.0025, abs=2e-4)
    offset, bar = figures["offset in the swing-up [s]"]
    assert offset == pytest.approx(clock.offset(2.2), abs=2e-3) and 0 < bar < 2e-3
    assert figures["rms, from rest [deg]"] == pytest.approx([0.5, 0.0], abs=0.05)
    assert figures["rms, raw [deg]"] == pytest.approx([np.hypot(1.0, 0.5), 2.0], abs=0.05)
    assert figures["off by more than 10 degrees, raw"] == [0, 0]


def test_without_the_data_set_it_ends_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("RISP_DATA", str(tmp_path))
    assert main(["--out", str(tmp_path / "out")]) == 2
    assert "dfki_double_pendulum" in capsys.readouterr().err


def test_stages_are_kept(tmp_path: Path) -> None:
    """A stage whose file is there is not done again, and a file is whole or not there."""
    calls = []
    for path, keep, value in (
        (tmp_path / "a.npz", made, {"x": np.arange(3.0)}), (tmp_path / "b.json", recorded, {"x": [1.5]}),
    ):  # fmt: skip
        for _ in range(2):
            found = keep(path, lambda value=value: calls.append(1) or value)
            np.testing.assert_array_equal(found["x"], value["x"])
    assert len(calls) == 2 and {path.name for path in tmp_path.iterdir()} == {"a.npz", "b.json"}


def test_tables_show_the_figures() -> None:
    """Each figure of the page in its place, from figures that are all different."""
    row = ["m2 r2", "kg m", "0.1 ± 0.01", "0.2", "0.3", "-7 %", "0.1"]
    film = {
        "moving frames": 553, "rms, raw [deg]": [1.01, 1.02], "rms, from rest [deg]": [0.61, 0.62],
        "off by more than 10 degrees, from rest": [3, 4], "lower length [m]": [0.2003, 0.0005],
        "offset in the swing-up [s]": [1.9182, 0.0014], "drift": 0.0028, "last step [bars]": 0.1,
        "offset of all frames, without drift [s]": 1.9294, "scatter of the length [m]": 4e-5,
    }  # fmt: skip
    swing = {
        "rows": [row], "left": [(16, 0.5), (1, 2.18)], "at bounds": [], "first length [m]": [0.3059, 0.025],
        "unseen": ["masses only together"], "rms, first second [deg]": [1.14, 2.29], "rms, after 1 s [deg]": [1.63, 2.48],
    }  # fmt: skip
    ahead = {"rms [deg]": [1.85, 8.36]} | {f"{time:g} s": [0.1 * time, 0.2 * time] for time in HORIZONS}
    power = {
        "rows": [row], "left": [(1, 1.21)], "at bounds": ["upper.mass"], "growth upright [1/s]": [9.0, 0.1], "fits": [],
        "2.3 to 4.3 s, from the first half": ahead,
    }  # fmt: skip
    spring = {
        "rigid": {"rms [deg]": [0.49, 0.19]}, "elastic": {"rms [deg]": [0.08, 0.13]}, "upper.stiffness": [516.6, 9.7],
        "lower.stiffness": [140.5, 16.0], "upper_rotor.armature": [0.0022, 1e-4], "lower_rotor.armature": [1e-4, 2e-4],
        "at bounds": ["lower_rotor.armature"],
    }  # fmt: skip
    names = ("rms, swing-up [%]", "rms, upright [%]", "rms, all [%]", "of no torque, swing-up [%]", "of no torque, all [%]")
    moved = {
        kind: {name: [10.0 * k + at, 10.0 * k + at + 0.5] for k, name in enumerate(names)}
        for at, kind in enumerate(("film", "encoders"))
    }
    text = tables(film, swing, power, spring, moved)
    for shown in (
        "| rms against the encoders [deg] | 1.01 | 1.02 |", "rest as zero [deg] | 0.61 | 0.62 |",
        "more than 10 degrees | 3 | 4 |",
        "Second length 0.2003 ± 0.0005 m (+0.15 %)", "1.9182 ± 0.0014 s behind", "grow by 0.28 % more", "would be 1.9294 s",
        "last step was 0.1 bars", "scatter of frames is 0.00004 m", "0.50 of 16, 2.18 of 1. At a bound: none.",
        "1.21 of 1. At a bound: upper.mass.", "0.3059 ± 0.025 m (0.3)", "Without a given mass and centre: masses only together.",
        "| rms, first second [deg] | 1.14 | 2.29 |", "| rms, after 1 s [deg] | 1.63 | 2.48 |", "| " + " | ".join(row) + " |",
        "| 2.3 to 4.3 s, from the first half | 1.85 / 8.36 | 0.01 / 0.02 |", "grow by e in 0.111 s",
        "0.49 and 0.19 degrees are left of the encoders with rigid joints, 0.08 and 0.13 with springs of 516.6 ± 9.7",
        "± 9.7 and 140.5 ± 16 N m/rad; inertia of the",
        "rotors 0.0022 ± 0.0001 and 0.0001 ± 0.0002 kg m2; at a bound: lower_rotor.armature.",
        "| from the film, first joint | 0.0 | 10.0 | 20.0 | 30.0 | 40.0 |",
        "| from the encoders, second joint | 1.5 | 11.5 | 21.5 | 31.5 | 41.5 |",
    ):  # fmt: skip
        assert shown in text, shown
    assert "fits" not in text


def test_plots_are_drawn(tmp_path: Path) -> None:
    """Of angles, of a prediction and of torques: pictures that are not empty."""
    times = np.arange(HALF + 40) / 30
    angles = np.stack([np.sin(times), np.cos(times)], axis=1)
    log = Log(times, angles, 0 * angles)
    plot_angles(tmp_path / "angles.png", times, angles, log, Clock(0.0))
    plot_prediction(tmp_path / "prediction.png", times, angles, np.ones((30, 2)))
    plot_torques(tmp_path / "torques.png", np.column_stack([times, angles, angles, angles]))
    for path in tmp_path.iterdir():
        assert np.asarray(Image.open(path).convert("L")).std() > 5, path
    assert len(list(tmp_path.iterdir())) == 3
