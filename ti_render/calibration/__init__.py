"""Cameras from what they see: pictures of a board, or known points of a scene, with error bars."""

from ti_render.calibration.board import Board, calibrate, find_board
from ti_render.calibration.estimate import CameraEstimate
from ti_render.calibration.pose import camera_from_points, read_points

__all__ = ["Board", "CameraEstimate", "calibrate", "camera_from_points", "find_board", "read_points"]
