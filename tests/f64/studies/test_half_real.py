"""Films of measured tosses: what they show, their numbers from poses, and the study's tables. No data are needed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from risp_torch import UserError, render_masks
from risp_torch.motions import Recording, Window
from risp_torch.tracking import TrackedPoses
from scenes.real import contactnets_cube as cube
from studies.real.contactnets import LENGTHS, SCALE
from studies.real.half_real import __main__ as program
from studies.real.half_real import films, fits, plots, stages, study
from tests.reference.cube_tosses import simulated_tosses

VALUES = {
    "gravity": 9.93, SCALE: 0.9706, "ground.contact.radius": 3.4e-3, "cube.mass": 0.267, "ground.contact.friction": 0.2,
    "ground.contact.stiffness": 2e4, "ground.contact.damping": 60.0, "ground.contact.friction_stiffness": 30.0,
}  # fmt: skip


def poses(count: int, frames: int = 41, seed: int = 0) -> np.ndarray:
    """[count, frames, 1, 7] simulated tosses in the scene's lengths."""
    starts = {"height": 0.12, "spread": 0.01, "fall": 0.2, "substeps": 40}
    return simulated_tosses(VALUES, count=count, frames=frames, seed=seed, **starts)


def measured(rows: np.ndarray, name: str) -> Recording:
    """A recording of poses as they are measured, a little small."""
    rows = rows.copy()
    rows[..., :3] *= VALUES[SCALE]
    return Recording(name, rows, 1 / cube.RATE)


def test_films_show_the_measured_motion() -> None:
    """The scene of a film has the measured poses in its own lengths, and both cameras see all of the motion."""
    for k, rows in enumerate(poses(3, frames=70)):
        window = films.window_of(measured(rows, f"toss_{k}"))
        assert window.frames == films.FRAMES + 1
        scene, shown = films.film_scene(window, VALUES)
        np.testing.assert_allclose(shown, rows[window.first : window.first + window.frames], atol=1e-12)
        assert {name: float(scene.table[name].value) for name in VALUES} == pytest.approx(VALUES)
        for camera in films.CAMERAS:
            masks = render_masks(scene, torch.as_tensor(shown)[None], union=True, camera=camera)[0, ..., 0]
            assert float(masks[:, [0, -1]].max()) < 0.5 and float(masks[:, :, [0, -1]].max()) < 0.5  # not cut off
            assert float(masks.flatten(1).sum(dim=1).min()) > 50
            away = shown[:1].copy()
            away[..., :3] = films.AWAY
            assert float(render_masks(scene, torch.as_tensor(away)[None], union=True, camera=camera).max()) == 0.0


def test_contact_counts_less_than_flight_and_films_less_than_markers() -> None:
    rows = poses(1)[0]
    part = Window(Recording("toss", rows, 1 / cube.RATE), 1, 30)
    plain, filmed = fits.with_noise(part, 0.0).noise, fits.with_noise(part, 3e-4).noise
    smaller = rows[1:31, 0].copy()
    smaller[:, :3] *= cube.MEASURED_SIDE / cube.SIDE
    touched = np.maximum.accumulate(cube.lowest_corner(smaller) < cube.CONTACT_HEIGHT)
    assert touched.any() and not touched.all()
    np.testing.assert_allclose(plain, np.where(touched, cube.CONTACT_NOISE, cube.FLIGHT_NOISE))
    np.testing.assert_allclose(filmed**2, plain**2 + 9e-8)
    np.testing.assert_array_equal(fits.with_noise(part, 0.0).body_q, part.body_q)


def test_numbers_of_exact_poses_are_those_that_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "NUMBERS", ("ground.contact.friction", "gravity"))
    monkeypatch.setattr(fits, "TOLD", ("friction",))
    made = fits.load_scene
    known = {name: value for name, value in VALUES.items() if name not in ("ground.contact.friction", "gravity", SCALE)}

    def scene_of(name: str) -> object:
        scene = made(name)
        for key, value in known.items():
            scene.table.set(key, value)
        return scene

    monkeypatch.setattr(fits, "load_scene", scene_of)
    recordings = [Recording(f"toss_{k}", rows, 1 / cube.RATE) for k, rows in enumerate(poses(8))]
    for exact in (True, False):
        found = fits.fit(recordings, 16, measured=exact)
        assert not {"tosses", "numbers"} & set(found)  # names of what a stage was made from
        np.testing.assert_allclose(found["values"]["ground.contact.friction"], VALUES["ground.contact.friction"], rtol=0.01)
        np.testing.assert_allclose(found["values"]["gravity"], VALUES["gravity"], rtol=1e-3)
        assert found["converged"] and found["windows"] == 16 and found["derived"]["friction"]["sd"] > 0


def film_of(shift: float, turn: float, name: str = "toss_1") -> stages.TrackedToss:
    """A film whose poses are off by a shift [m] along x and a turn [rad] about x."""
    true = poses(1)[0]
    found = true.copy()
    found[..., 0] += shift
    found[:, 0, 3:] = (Rotation.from_rotvec([turn, 0, 0]) * Rotation.from_quat(true[:, 0, 3:])).as_quat()
    return stages.TrackedToss(name, TrackedPoses(found, np.zeros(41)), TrackedPoses(true, np.zeros(41)))


def test_table_of_poses_tells_errors_and_what_is_lost() -> None:
    film = film_of(2e-3, 0.01)
    position, rotation = film.errors()
    np.testing.assert_allclose(position, 2e-3)
    np.testing.assert_allclose(rotation, 0.01)
    row = study.poses_table([film], [film_of(0.05, 0.1)])[-1].splitlines()[-1].split("|")
    assert [cell.strip() for cell in row[1:6]] == ["toss_1", "2.00", "2.00", "0.57", "0.57"] and row[7].strip() == "50.0 (lost)"
    assert "lost" not in study.poses_table([film], [film_of(5e-3, 0.0)])[-1]
    assert film.recording(measured=True).body_q is film.measured.body_q
    assert film.recording(measured=False).body_q is film.found.body_q and film.recording(measured=False).dt == 1 / cube.RATE


def record(friction: float, sd: float) -> dict:
    derived = {name: {"value": friction, "sd": sd} for name in fits.TOLD}
    return {"derived": derived, "values": {"gravity": 9.9}, "windows": 5, "converged": True, "unobservable": ["cube.mass alone"]}


def test_table_of_numbers_tells_differences_in_bars() -> None:
    found = {False: [record(0.2, 0.03)] * len(LENGTHS), True: [record(0.3, 0.01)] * len(LENGTHS)}
    text = "\n".join(study.numbers_table(found, [record(0.15, 0.04)] * len(LENGTHS)))
    assert "| friction | 0.2 ± 0.03 | 0.3 ± 0.01 | 0.15 ± 0.04 | +1.0 |" in text
    assert f"{LENGTHS[0]} frames 0.200 ± 0.03 (gravity 9.90 m/s2, 5 windows, converged)" in text
    assert "Not told by the films: cube.mass alone." in text


def test_predictions_are_of_held_out_tosses() -> None:
    everything = [measured(rows, f"toss_{k}") for k, rows in enumerate(poses(4))]
    scales = {name: "linear" for name in fits.NUMBERS}
    right = {"values": {name: VALUES[name] for name in fits.NUMBERS}, "scales": scales}
    heavy = {"values": right["values"] | {"gravity": 13.0}, "scales": scales}
    slippery = {"values": right["values"] | {"ground.contact.friction": 0.03}, "scales": scales}
    table = study.predictions_table({False: [heavy], True: [slippery]}, VALUES, everything, {"toss_1", "toss_3"})
    rows = [[cell.strip() for cell in line.split("|")] for line in table[-1].splitlines()[-4:]]
    assert [row[2] for row in rows] == ["2"] * 4
    films_row, known_row, measured_row, fitted_row = (float(row[3]) for row in rows)
    assert known_row == fitted_row  # gravity alone is wrong in the films' numbers here
    assert fitted_row < 1.5  # the start velocity of a recording is read off its poses
    assert films_row > 2 * fitted_row and measured_row > fitted_row and films_row != measured_row


def test_a_stage_that_is_there_is_not_done_again(tmp_path: Path) -> None:
    path = tmp_path / "toss" / "poses.json"
    both = {"seed": 3, "a": 1}
    assert stages.recorded(path, {"seed": 3}, lambda: {"a": 1}) == both == json.loads(path.read_text())
    assert stages.recorded(path, {"seed": 3}, lambda: pytest.fail("done again")) == both
    with pytest.raises(UserError, match="made from other tosses"):
        stages.recorded(path, {"seed": 4}, lambda: {"a": 1})
    guess = stages.first_guess(poses(1)[0, 0], seed=3)
    assert guess.shape == (1, 7) and not np.array_equal(guess, stages.first_guess(poses(1)[0, 0], seed=4))
    np.testing.assert_array_equal(guess, stages.first_guess(poses(1)[0, 0], seed=3))


def test_first_guesses_are_off_in_place_and_orientation() -> None:
    """By 5 mm along each axis and 0.05 rad about each axis (standard deviations), independently."""
    pose = poses(1)[0, 0]
    guesses = np.concatenate([stages.first_guess(pose, seed=seed) for seed in range(400)])
    turns = (Rotation.from_quat(guesses[:, 3:]) * Rotation.from_quat(pose[0, 3:]).inv()).as_rotvec()
    away = np.concatenate([guesses[:, :3] - pose[0, :3], turns], axis=1) / ([5e-3] * 3 + [0.05] * 3)
    np.testing.assert_allclose(away.T @ away / len(away), np.eye(6), atol=0.25)


def test_tracking_begins_with_the_first_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured poses are those of the comparison alone; each film has the plate of its camera."""
    begun = []

    def track(scene: object, films: dict, start: np.ndarray, *, plates: dict) -> TrackedPoses:
        begun.append((films, start, plates))
        return TrackedPoses(np.repeat(start[None], 41, axis=0), np.zeros(41))

    monkeypatch.setattr(stages, "film_of", lambda scene, shown, folder, *, camera, seed: (f"film {camera}", f"plate {camera}"))
    monkeypatch.setattr(stages, "track_poses", track)
    toss = measured(poses(1, frames=70)[0], "toss")
    found = stages.tracked(toss, VALUES, tmp_path, ("front", "side"), seed=5)
    ((given, start, plates),) = begun
    np.testing.assert_array_equal(start, stages.first_guess(found.measured.body_q[0], 5))
    assert (given, plates) == tuple({name: f"{what} {name}" for name in films.CAMERAS} for what in ("film", "plate"))
    window = films.window_of(toss)
    np.testing.assert_allclose(found.measured.body_q[:, 0, :3] * VALUES[SCALE], window.body_q[:, 0, :3])
    assert (found.errors()[0] > 0).any()


def test_noise_of_films_is_what_single_frames_scatter_by() -> None:
    """A tracked coordinate is a point at the corners' distance: turns count with the arm."""
    scatter, arm = (1e-4, np.radians(0.1)), 0.5 * np.sqrt(3) * cube.SIDE  # medians of the films on the page
    assert 0.7 < fits.FILM_NOISE / np.hypot(scatter[0], arm * scatter[1]) < 1.6


def test_strips_show_the_tracked_edges(tmp_path: Path) -> None:
    rows = poses(1, frames=70)[0]
    scene, shown = films.film_scene(films.window_of(measured(rows, "toss")), VALUES)
    grey = {name: np.full((len(shown), films.SIZE, films.SIZE, 3), 0.2) for name in films.CAMERAS}
    plots.strip(tmp_path / "strip.png", scene, grey, shown)
    assert (tmp_path / "strip.png").stat().st_size > 5000 and len(plots.EDGES) == 12


def test_edges_of_a_strip_are_where_the_renderer_has_them() -> None:
    rows = poses(1, frames=70)[0]
    scene, shown = films.film_scene(films.window_of(measured(rows, "toss")), VALUES)
    for name in films.CAMERAS:
        u, v = plots.corners_in(scene, name, shown[0])
        mask = render_masks(scene, torch.as_tensor(shown[:1])[None], union=True, camera=name)[0, 0, ..., 0].cpu().numpy()
        row, column = np.nonzero(mask > 0.5)
        assert abs(u.min() - column.min()) < 1.5 and abs(u.max() - column.max() - 1) < 1.5
        assert abs(v.min() - row.min()) < 1.5 and abs(v.max() - row.max() - 1) < 1.5


def test_without_fits_it_says_which_study_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "data_folder", lambda name: tmp_path)
    assert program.main(["--out", str(tmp_path / "out"), "--fits", str(tmp_path)]) == 2
    assert "studies.real contactnets" in capsys.readouterr().err and not (tmp_path / "out").exists()
