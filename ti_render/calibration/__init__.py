"""Camera calibration with error bars, from pictures of a board or from known points of a scene."""

from ti_render.calibration.board import Board, calibrate, find_board
from ti_render.calibration.estimate import CameraEstimate
from ti_render.calibration.pose import camera_from_points, read_points

__all__ = ["Board", "CameraEstimate", "calibrate", "camera_from_points", "find_board", "read_points"]
