"""Cameras from known points and from pictures of boards, with error bars that hold."""

from pathlib import Path

import numpy as np
import pytest

from tests.reference.boards import board_cameras, chessboard, drawn
from ti_render import look_at
from ti_render.calibration import Board, CameraEstimate, calibrate, camera_from_points, find_board, read_points
from ti_render.calibration.estimate import perturb, write_estimates
from ti_render.camera_files import CameraRecord, read_cameras
from ti_sim import UserError

INTRINSICS = np.array([520.0, 515.0, 322.0, 238.5])
SIZE = {"width": 640, "height": 480}
RANDOM = np.random.default_rng(1)
POINTS = RANDOM.uniform([-0.3, -0.3, 0.0], [0.3, 0.3, 0.25], (12, 3))


def camera(distortion: np.ndarray | None = None, eye: tuple[float, float, float] = (0.4, -0.9, 0.6)) -> CameraRecord:
    rotation, translation = look_at(eye, (0.02, 0.0, 0.1))
    lens = np.zeros(5) if distortion is None else distortion
    return CameraRecord(name="true", intrinsics=INTRINSICS, rotation=rotation, translation=translation, distortion=lens, **SIZE)


def turn_between(a: CameraRecord, b: CameraRecord) -> np.ndarray:
    """Rotation vector from a to b about the axes of a, for small angles."""
    skew = b.rotation @ a.rotation.T - a.rotation @ b.rotation.T
    return np.array([skew[2, 1], skew[0, 2], skew[1, 0]]) / 2


# -- known points ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eye", [(0.4, -0.9, 0.6), (-1.0, 0.3, 0.05), (0.05, 0.02, 1.2)])
def test_a_pose_is_found_from_anywhere(eye: tuple[float, float, float]) -> None:
    true = camera(np.array([-0.1, 0.02, 1e-3, -5e-4, 0.0]), eye)
    found = camera_from_points(POINTS, true.project(POINTS), **SIZE, like=true)
    np.testing.assert_allclose(found.record.rotation, true.rotation, atol=1e-6)
    np.testing.assert_allclose(found.record.position(), eye, atol=1e-6)
    assert found.rms < 1e-4 and found.inliers.all() and set(found.sd) == {"position", "turn"}


def test_points_in_a_plane_give_a_pose_where_the_focal_length_is_known() -> None:
    flat, true = POINTS * [1, 1, 0], camera()
    found = camera_from_points(flat, true.project(flat), **SIZE, like=true)
    np.testing.assert_allclose(found.record.position(), (0.4, -0.9, 0.6), atol=1e-5)
    with pytest.raises(UserError, match="in a plane, which leaves the focal length open"):
        camera_from_points(flat, true.project(flat), **SIZE)


def test_a_point_in_the_wrong_place_is_told_and_moves_little() -> None:
    true = camera()
    pixels = true.project(POINTS) + 0.3 * np.random.default_rng(3).normal(size=(12, 2))
    pixels[4] += (60.0, -35.0)
    found = camera_from_points(POINTS, pixels, **SIZE, like=true)
    assert found.inliers.tolist() == [k != 4 for k in range(12)]
    assert (np.abs(found.record.position() - (0.4, -0.9, 0.6)) < 3 * found.sd["position"]).all() and found.rms < 1.0
    assert (found.sd["position"] < 5e-3).all()


def test_error_bars_of_poses_and_focal_lengths_hold() -> None:
    """Of films with square pixels: the focal length is one number."""
    true = perturb(camera(), np.r_[np.zeros(6), 0, 5.0, -2.0, 1.5, np.zeros(5)])
    held = []
    for seed in range(16):
        pixels = true.project(POINTS) + 0.5 * np.random.default_rng(seed).normal(size=(12, 2))
        found = camera_from_points(POINTS, pixels, **SIZE)
        moved, longer = found.record.position() - true.position(), found.record.intrinsics[0] - 520
        errors = np.r_[moved, turn_between(found.record, true), longer]
        bars = np.r_[found.sd["position"], found.sd["turn"], found.sd["focal"][0]]
        held.append(np.abs(errors) <= 2 * bars)
    assert 0.85 <= np.mean(held) <= 0.995, np.mean(held)


@pytest.mark.parametrize(
    ("count", "sentence"), [(3, "a pose needs 4 of both at least"), (12, "no camera sees these points so")]
)
def test_points_that_make_no_camera(count: int, sentence: str) -> None:
    pixels = np.random.default_rng(0).uniform(0, 480, (count, 2))
    with pytest.raises(UserError, match=sentence):
        camera_from_points(POINTS[:count], pixels, **SIZE, focal=500.0)


# Eight points seen by a camera of focal length 600 at EYE, and four of the ground.
EYE = (0.8, -0.9, 0.7)
EIGHT = np.random.default_rng(3).uniform([-0.25, -0.25, -0.15], [0.25, 0.25, 0.3], (8, 3))
GROUND = np.array([[-0.2, -0.2, 0.0], [0.2, -0.2, 0.0], [0.2, 0.2, 0.0], [-0.2, 0.2, 0.0]])
WALL = GROUND[:, [0, 2, 1]]


def seen(points: np.ndarray) -> np.ndarray:
    rotation, translation = look_at(EYE, (0.0, 0.0, 0.05))
    lens = np.array([600.0, 600.0, 320.0, 240.0])
    return CameraRecord(name="true", intrinsics=lens, rotation=rotation, translation=translation, **SIZE).project(points)


def upwards(pixels: np.ndarray) -> np.ndarray:
    return pixels * [1, -1] + [0, 480]


@pytest.mark.parametrize(
    ("points", "pixels", "focal", "sentence"),
    [
        (EIGHT, upwards(seen(EIGHT)), None, r"with v measured upwards \(or points with left-handed axes\) it is 0.00 pixels"),
        (EIGHT, upwards(seen(EIGHT)), 600.0, "with v measured upwards"),
        (EIGHT, seen(EIGHT) * [-1, 1] + [640, 0], 600.0, "with u measured from the right edge"),
        (EIGHT[:, [1, 0, 2]], seen(EIGHT), 600.0, "points with left-handed axes"),
        (GROUND, upwards(seen(GROUND)), 600.0, "0.7 m below the ground .* with v measured upwards"),
        (WALL, upwards(seen(WALL)), 600.0, "upside down and behind their plane; with v measured upwards"),
        (EIGHT, seen(EIGHT) / [640, 480], None, r"read as shares of the picture from 0 to 1, v downwards, they fit to 0.0"),
        (EIGHT, upwards(seen(EIGHT)) / [320, 240] - 1, 600.0, "from -1 to 1, v upwards, they fit to 0.0"),
        (EIGHT, seen(EIGHT)[[0, 5, 2, 3, 4, 1, 6, 7]], None, "with points 2 and 6 exchanged it is 0.00"),
        (EIGHT, 0.5 * seen(EIGHT), 600.0, "as pixels of a picture of 320 x 240 it is 0.00"),
        (EIGHT, 2.0 * seen(EIGHT), 600.0, "outside of the picture of 640 x 480 pixels: give the size of the picture"),
        (EIGHT, seen(EIGHT), 200.0, "no camera sees these points so"),
    ],
)
def test_a_table_that_is_read_in_the_wrong_way_is_an_error_that_names_the_right_one(
    points: np.ndarray, pixels: np.ndarray, focal: float | None, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        camera_from_points(points, pixels, **SIZE, focal=focal)


@pytest.mark.parametrize(("points", "focal"), [(EIGHT, None), (EIGHT, 600.0), (GROUND, 600.0), (WALL, 600.0)])
def test_the_same_points_read_in_the_right_way_are_a_camera(points: np.ndarray, focal: float | None) -> None:
    random = np.random.default_rng(5)
    found = camera_from_points(points, seen(points) + 0.5 * random.normal(size=(len(points), 2)), **SIZE, focal=focal)
    np.testing.assert_array_less(np.abs(found.record.position() - EYE), 4 * found.sd["position"])
    assert found.inliers.all() and found.remarks == () and (found.sd["position"] > 1e-3).all()


def test_exchanged_points_among_enough_others_are_named_and_left_out() -> None:
    pixels = seen(EIGHT)[[0, 5, 2, 3, 4, 1, 6, 7]]
    found = camera_from_points(EIGHT, pixels, **SIZE, focal=600.0)
    np.testing.assert_allclose(found.record.position(), EYE, atol=1e-4)
    assert found.remarks == (
        "points that do not fit and are left out: 2, 6", "points 2 and 6 have each other's pixels: exchange them in the table",
    )  # fmt: skip


def test_a_camera_below_the_ground_is_accepted_where_it_is_asked_for() -> None:
    found = camera_from_points(GROUND, upwards(seen(GROUND)), **SIZE, focal=600.0, below_ground=True)
    np.testing.assert_allclose(found.record.position(), (0.8, -0.9, -0.7), atol=1e-6)


def test_points_in_millimetres_are_a_remark() -> None:
    found = camera_from_points(1000 * EIGHT, seen(EIGHT), **SIZE, focal=600.0)
    assert len(found.remarks) == 1 and "give metres" in found.remarks[0]


def test_points_are_read_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("name,x,y,z,u,v\na,0,0.5,1,320.5,240\nb, 1,2,3,4,5\n")
    points, pixels = read_points(path)
    assert points.tolist() == [[0, 0.5, 1], [1, 2, 3]] and pixels.tolist() == [[320.5, 240], [4, 5]]
    for text, sentence in (("x,y,z,u\n1,2,3,4\n", "no column v"), ("x,y,z,u,v\n1,2,3,4,q\n", "no number"), ("", "no column x")):
        path.write_text(text)
        with pytest.raises(UserError, match=sentence):
            read_points(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_points(tmp_path / "none.csv")


# -- boards ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated() -> tuple[list[CameraRecord], list[CameraEstimate]]:
    """Cameras that see a chessboard of 9 x 6 corners, and what calibration makes of their pictures."""
    pytest.importorskip("cv2", reason="boards need opencv-python-headless (extra calibration)")
    lens = np.array([-0.12, 0.05, 1e-3, -8e-4, 0.0])
    cameras = board_cameras(INTRINSICS, lens, np.array([0.1, -0.06, 0.0]), **SIZE)
    random = np.random.default_rng(0)
    pictures = [drawn(camera, chessboard(9, 6, 0.025)) for camera in cameras]
    noisy = [np.clip(picture + random.normal(0, 2, picture.shape), 0, 255).astype(np.uint8) for picture in pictures]
    names = [camera.name for camera in cameras]
    return cameras, calibrate(noisy, Board(columns=9, rows=6, square=0.025), names=names, square_pixels=False)


def test_a_chessboard_gives_lens_focal_length_and_centre(
    calibrated: tuple[list[CameraRecord], list[CameraEstimate]],
) -> None:
    cameras, estimates = calibrated
    assert len(estimates) == len(cameras) and max(estimate.rms for estimate in estimates) < 0.15
    record, sd = estimates[0].record, estimates[0].sd
    errors = np.r_[record.intrinsics - INTRINSICS, (record.distortion - cameras[0].distortion)[:4]]
    bars = np.r_[sd["focal"], sd["center"], sd["distortion"][:4]]
    assert (np.abs(errors) <= 4 * bars).all() and (bars[:4] < 3.0).all(), (errors, bars)
    assert record.distortion[4] == 0.0 == sd["distortion"][4]


def test_square_pixels_have_one_focal_length(calibrated: tuple[list[CameraRecord], list[CameraEstimate]]) -> None:
    lens, places = np.array([520.0, 520.0, 322.0, 238.5]), np.array([0.1, -0.06, 0.0])
    cameras = board_cameras(lens, np.zeros(5), places, **SIZE)
    pictures = [drawn(camera, chessboard(9, 6, 0.025)) for camera in cameras]
    names = [camera.name for camera in cameras]
    square = calibrate(pictures, Board(columns=9, rows=6, square=0.025), names=names, lens="none")[0]
    fx, fy = square.record.intrinsics[:2]
    assert fx == fy == pytest.approx(520, abs=4 * square.sd["focal"][0]) and square.sd["focal"][0] == square.sd["focal"][1] > 0


def test_poses_are_those_of_cameras_above_the_board(calibrated: tuple[list[CameraRecord], list[CameraEstimate]]) -> None:
    for true, estimate in zip(*calibrated, strict=True):
        found = estimate.record
        assert np.linalg.norm(found.position() - true.position()) < 1e-3, found.name
        assert np.abs(turn_between(found, true)).max() < 3e-3


def test_cameras_of_a_board_are_written_and_read(
    calibrated: tuple[list[CameraRecord], list[CameraEstimate]], tmp_path: Path
) -> None:
    _, estimates = calibrated
    write_estimates(tmp_path / "camera.json", estimates)
    read = read_cameras(tmp_path / "camera.json")
    assert [record.name for record in read] == [estimate.record.name for estimate in estimates]
    np.testing.assert_allclose(read[2].camera_row(), estimates[2].record.camera_row(), atol=1e-9)
    assert "--prior camera.focal=" in " ".join(estimates[0].prior_options)


def test_a_charuco_board_is_found_in_part() -> None:
    cv2 = pytest.importorskip("cv2", reason="boards need opencv-python-headless (extra calibration)")
    from ti_render.calibration.board import charuco_board

    board = Board(columns=7, rows=5, square=0.03, marker=0.022)
    sheet = charuco_board(cv2, board).generateImage((7 * 60, 5 * 60)) / 255

    def color(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        i, j = np.floor((x / 0.03 + 1) * 60).astype(int), np.floor((1 - y / 0.03) * 60).astype(int)
        inside = (i >= 0) & (i < 420) & (j >= 0) & (j < 300) & (x < 0.12)  # the last columns are covered
        return np.where(inside, sheet[np.clip(j, 0, 299), np.clip(i, 0, 419)], 1.0)

    cameras = board_cameras(INTRINSICS, np.zeros(5), np.array([0.05, -0.05, 0.0]), **SIZE)
    pictures = [drawn(camera, color) for camera in cameras]
    places, _ = find_board(pictures[0], board)
    assert 6 <= len(places) < 24
    estimates = calibrate(pictures, board, names=[camera.name for camera in cameras], lens="none", square_pixels=False)
    for true, estimate in zip(cameras, estimates, strict=True):
        away = np.abs(estimate.record.position() - true.position())
        assert (away < 4 * estimate.sd["position"]).all() and away.max() < 8e-3 and not estimate.record.distortion.any()


def test_what_boards_refuse() -> None:
    pytest.importorskip("cv2", reason="boards need opencv-python-headless (extra calibration)")
    board, grey = Board(columns=9, rows=6, square=0.025), np.full((480, 640), 128, dtype=np.uint8)
    with pytest.raises(UserError, match="found in 0 of 3 pictures"):
        calibrate([grey] * 3, board, names=["a", "b", "c"])
    with pytest.raises(UserError, match="the sizes 640 x 240, 640 x 480"):
        calibrate([grey, grey[:240]], board, names=["a", "b"])
    with pytest.raises(UserError, match="dictionary 'none' of markers is unknown"):
        find_board(grey, Board(columns=7, rows=5, square=0.03, marker=0.02, dictionary="none"))
    with pytest.raises(UserError, match="not smaller than its squares"):
        Board(columns=7, rows=5, square=0.03, marker=0.03)
