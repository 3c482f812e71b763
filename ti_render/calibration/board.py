"""Calibration of a camera from pictures of a chessboard or a ChArUco board (Zhang, IEEE PAMI 22, 2000), by OpenCV.

The board's corners are located with subpixel accuracy; focal lengths, centre and lens are the same in all pictures, and the pose
differs. The world frame of a pose is the board: its origin is the first inner corner (of the first and the last one, that beside
a dark square), x is along the first row, and z points out of the board towards the camera. A board on the ground defines the
plane z = 0 of the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np

from ti_render.calibration.estimate import CameraEstimate, joint_estimates
from ti_render.camera_files import CameraRecord
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, Rule, checked

Lens = Literal["none", "radial", "standard", "full"]
CornerCount = Annotated[int, Rule(integer=True, minimum=2)]
_CALIBRATION_FLAGS = {
    "none": ("FIX_K1", "FIX_K2", "FIX_K3", "ZERO_TANGENT_DIST"), "radial": ("FIX_K3", "ZERO_TANGENT_DIST"),
    "standard": ("FIX_K3",), "full": (),
}  # fmt: skip
_FREE_COUNT = {"none": 4, "radial": 6, "standard": 8, "full": 9}  # of fx, fy, cx, cy, k1, k2, p1, p2, k3
_MIN_PICTURES, _MIN_CORNERS = 3, 6
_PIXEL_CENTRE_SHIFT = 0.5  # OpenCV's pixel centres are at integers, those of records at half-integers
_BOARD_FROM_OPENCV = np.diag([1.0, -1.0, -1.0])  # from the board as OpenCV sees it (y down, z into it) to y up, z out of it


@checked
@dataclass(frozen=True, kw_only=True)
class Board:
    """A board of squares.

    Attributes:
        columns, rows: of a chessboard its inner corners along both sides, of a ChArUco board its squares.
        square: side of a square [m].
        marker: side of a marker of a ChArUco board [m]; None for a chessboard.
        dictionary: of a ChArUco board's markers, such as "4X4_50".

    Raises:
        UserError: a number is out of its range, or markers are not smaller than squares.
    """

    columns: CornerCount
    rows: CornerCount
    square: Positive
    marker: Positive | None = None
    dictionary: str = "4X4_50"

    def __post_init__(self) -> None:
        if self.marker is not None and self.marker >= self.square:
            raise UserError(f"the board's markers ({self.marker:g} m) are not smaller than its squares ({self.square:g} m)")


@checked
def find_board(picture: np.ndarray, board: Board) -> tuple[np.ndarray, np.ndarray] | None:
    """Corners of a board in a picture.

    Args:
        picture: [H, W] or [H, W, 3], uint8.
        board: the board.

    Returns:
        Positions [N, 3] on the board [m], z = 0, and pixels [N, 2] (the centre of the first pixel is (0, 0), as in OpenCV);
        None if the board is not detected.

    Raises:
        UserError: OpenCV is not installed, the picture is no uint8 array of this shape, or the dictionary is unknown.
    """
    cv2, picture = _opencv(), np.asarray(picture)
    if picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (3,)) or picture.dtype != np.uint8 or not picture.size:
        raise UserError(f"a picture of a board has shape {picture.shape} of {picture.dtype}: give [H, W] or [H, W, 3] of uint8")
    grey = picture if picture.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2GRAY)
    if board.marker is not None:
        return _find_charuco(cv2, grey, board)
    detected, corners = cv2.findChessboardCornersSB(grey, (board.columns, board.rows), flags=cv2.CALIB_CB_ACCURACY)
    if not detected:
        return None
    column_index, row_index = np.meshgrid(np.arange(board.columns), np.arange(board.rows))
    positions = board.square * np.stack([column_index.ravel(), row_index.ravel(), np.zeros(column_index.size)], axis=1)
    return positions, _order_from_dark_square(grey, _refine_corners(cv2, grey, corners), board)


@checked
def calibrate(
    pictures: Sequence[np.ndarray], board: Board, *, names: Sequence[str], lens: Lens = "standard", square_pixels: bool = True
) -> list[CameraEstimate]:
    """The camera of each picture in which the board is detected: shared intrinsics and lens, one pose per picture.

    Args:
        pictures: [H, W, 3] or [H, W] uint8 each, of one size.
        board: the board.
        names: a name for each picture.
        lens: which coefficients are estimated: "none", "radial" (k1, k2), "standard" (k1, k2, p1, p2) or "full" (with k3).
        square_pixels: whether fx = fy.

    Raises:
        UserError: OpenCV is not installed, sizes differ, the board is in fewer than three pictures, or the lens is unknown.
    """
    cv2 = _opencv()
    if len(names) != len(pictures):
        raise UserError(f"calibrate: there are {len(names)} names and {len(pictures)} pictures: give a name for each picture")
    sizes = {np.shape(picture)[:2] for picture in pictures}
    if len(sizes) > 1:
        size_list = ", ".join(" x ".join(map(str, reversed(size))) for size in sorted(sizes))
        raise UserError(f"the pictures have the sizes {size_list}: a camera is calibrated from pictures of one size")
    detections = [
        (name, detection) for name, picture in zip(names, pictures, strict=True) if (detection := find_board(picture, board))
    ]
    if len(detections) < _MIN_PICTURES:
        raise UserError(
            f"the board of {board.columns} x {board.rows} is found in {len(detections)} of {len(pictures)} pictures: three are "
            "needed at least, in which all of it is sharp and seen from different sides; check its numbers of corners"
        )
    height, width = next(iter(sizes))
    point_lists = zip(*(detection for _, detection in detections), strict=True)
    board_points, image_points = ([array.astype(np.float32) for array in arrays] for arrays in point_lists)
    flags = sum(getattr(cv2, f"CALIB_{name}") for name in _CALIBRATION_FLAGS[lens])
    initial_matrix = None
    if square_pixels:  # OpenCV keeps the initial ratio of the focal lengths
        flags |= cv2.CALIB_FIX_ASPECT_RATIO
        initial_matrix = np.eye(3)
    _, matrix, distortion, rotation_vectors, translations = cv2.calibrateCamera(
        board_points, image_points, (width, height), initial_matrix, None, flags=flags
    )
    coefficients = np.zeros(5)
    coefficients[: min(5, distortion.size)] = np.ravel(distortion)[:5]
    records = []
    for k, (name, _) in enumerate(detections):
        rotation = cv2.Rodrigues(rotation_vectors[k])[0] @ _BOARD_FROM_OPENCV
        records.append(CameraRecord(
            name=name, width=width, height=height, rotation=rotation, translation=np.ravel(translations[k]),
            distortion=coefficients, intrinsics=np.array(
                [matrix[0, 0], matrix[1, 1], matrix[0, 2] + _PIXEL_CENTRE_SHIFT, matrix[1, 2] + _PIXEL_CENTRE_SHIFT]
            ),
        ))  # fmt: skip
    return joint_estimates(
        records, [positions @ _BOARD_FROM_OPENCV for _, (positions, _) in detections],
        [pixels + _PIXEL_CENTRE_SHIFT for _, (_, pixels) in detections],
        free_count=_FREE_COUNT[lens], square_pixels=square_pixels,
    )  # fmt: skip


def _find_charuco(cv2: ModuleType, grey: np.ndarray, board: Board) -> tuple[np.ndarray, np.ndarray] | None:
    charuco = charuco_board(cv2, board)
    corners, corner_ids, _, _ = cv2.aruco.CharucoDetector(charuco).detectBoard(grey)
    if corner_ids is None or len(corner_ids) < _MIN_CORNERS:
        return None
    positions = np.asarray(charuco.getChessboardCorners(), dtype=np.float64)[np.ravel(corner_ids)]
    return positions - board.square * np.array([1.0, 1.0, 0.0]), _refine_corners(cv2, grey, corners)


def _refine_corners(cv2: ModuleType, grey: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Corners [N, 2] refined by cornerSubPix in windows that contain one corner each.

    The detectors' positions are biased by some hundredths of a pixel where squares are seen obliquely.
    """
    positions = corners.reshape(-1, 2).astype(np.float32)
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2) + 1e9 * np.eye(len(positions))
    window = int(np.clip(0.3 * np.median(distances.min(axis=1)), 2, 11))
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 50, 1e-4)
    refined_corners = cv2.cornerSubPix(grey, positions[:, None].copy(), (window, window), (-1, -1), stop)
    return refined_corners.reshape(-1, 2).astype(np.float64)


def _order_from_dark_square(grey: np.ndarray, corners: np.ndarray, board: Board) -> np.ndarray:
    """Corners [N, 2], reversed if necessary so that the square between the first four is dark.

    The order is unique for a board with an even and an odd number of corners; otherwise both orders look the same.
    """
    rows = corners.reshape(board.rows, board.columns, 2)
    square_centres = [rows[0:2, k : k + 2].mean(axis=(0, 1)).round().astype(int) for k in (0, 1)]
    first_grey, second_grey = (float(grey[centre[1], centre[0]]) for centre in square_centres)
    return corners if first_grey <= second_grey else corners[::-1].copy()


def charuco_board(cv2: ModuleType, board: Board) -> Any:
    """OpenCV's ChArUco board.

    Raises:
        UserError: the dictionary is unknown.
    """
    dictionary_id = getattr(cv2.aruco, f"DICT_{board.dictionary}", None)
    if dictionary_id is None:
        raise UserError(f"the dictionary {board.dictionary!r} of markers is unknown: give one of OpenCV's, such as 4X4_50")
    dictionary = cv2.aruco.getPredefinedDictionary(dictionary_id)
    return cv2.aruco.CharucoBoard((board.columns, board.rows), board.square, board.marker, dictionary)


def read_grey(path: str | Path) -> np.ndarray:
    """A picture as grey levels [H, W], uint8.

    Raises:
        UserError: it cannot be read.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return np.asarray(picture.convert("L"))
    except OSError as error:
        raise UserError(f"the picture {path} cannot be read ({error}): give PNG or JPEG files") from None


def _opencv() -> ModuleType:
    try:
        import cv2
    except ImportError:
        raise UserError(
            "boards need OpenCV: install it with pip install 'risp-taichi[calibration]', or use risp camera pose"
        ) from None
    return cv2
