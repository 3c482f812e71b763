"""Estimate a camera from pictures of a board, or from known points of the scene, for --camera-file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import number_parser, picture_size
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Count, Positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """board with PICTURES, --board, --square, --marker, --dictionary, --lens; pose with --points, --size and the lens; --out."""
    parser.add_argument(
        "method", choices=("board", "pose"), help="from pictures of a board, or from points of known position"
    )
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help="of board: PNG or JPEG files of one size, three or more")
    parser.add_argument("--out", required=True, metavar="FILE.json", help="the cameras, as --camera-file reads them")
    board = parser.add_argument_group("board")
    board.add_argument(
        "--board", type=_board_size, metavar="CxR", help="inner corners along both sides (9x6); of ChArUco its squares"
    )
    board.add_argument("--square", type=number_parser(Positive), metavar="M", help="side of a square [m]")
    board.add_argument("--marker", type=number_parser(Positive), metavar="M", help="ChArUco: side of a marker [m]")
    board.add_argument("--dictionary", help="ChArUco: dictionary of its markers (default 4X4_50)")
    board.add_argument(
        "--lens", choices=("none", "radial", "standard", "full"),
        help="coefficients of the lens: none, k1 k2, k1 k2 p1 p2 (default), or k1 k2 p1 p2 k3",
    )  # fmt: skip
    board.add_argument("--non-square-pixels", action="store_true", help="estimate fx and fy apart (default: one focal length)")
    pose = parser.add_argument_group("pose")
    pose.add_argument("--points", metavar="FILE.csv", help="lines x,y,z,u,v: points [m] and pixels from the upper left corner")
    pose.add_argument("--size", type=picture_size, metavar="PIXELS|WxH", help="size of the picture [px]")
    pose.add_argument("--focal", type=number_parser(Positive), metavar="PIXELS", help="focal length (default: it is estimated)")
    pose.add_argument("--camera-file", metavar="FILE", help="a camera with the focal length, centre and lens to use")
    pose.add_argument("--below-ground", action="store_true", help="accept a camera below z = 0 and all points")
    pose.add_argument("--free-focal", action="store_true", help="estimate the focal length though one is given")


def run(options: argparse.Namespace) -> int:
    """Estimate the cameras, print them with their error bars, and write them."""
    from ti_render.calibration.estimate import write_estimates

    _refuse_options_of_other_method(options)
    estimates = _from_board(options) if options.method == "board" else [_from_points(options)]
    write_estimates(options.out, estimates)
    _print_estimates(estimates)
    print(f"written: {options.out}")
    next_command = ("risp", "invert", "SCENE", "--camera-file", options.out, "--video", "FILE", "--unknown", "NAME")
    print_next_steps(options.out, next_command=next_command)
    return 0


def _from_board(options: argparse.Namespace) -> list[Any]:
    from ti_render.calibration import Board, calibrate
    from ti_render.calibration.board import read_grey

    if options.board is None or options.square is None or not options.pictures:
        raise UserError("risp camera board takes pictures, --board CxR and --square M: give all three")
    columns, rows = options.board
    dictionary_setting = {} if options.dictionary is None else {"dictionary": options.dictionary}
    board = Board(columns=columns, rows=rows, square=options.square, marker=options.marker, **dictionary_setting)
    names = [Path(path).stem for path in options.pictures]
    estimates = calibrate(
        [read_grey(path) for path in options.pictures], board, names=names, lens=options.lens or "standard",
        square_pixels=not options.non_square_pixels,
    )  # fmt: skip
    undetected = sorted(set(names) - {estimate.record.name for estimate in estimates})
    if undetected:
        print(f"the board is not found in {', '.join(undetected)}")
    return estimates


def _from_points(options: argparse.Namespace) -> Any:
    from ti_render.calibration import camera_from_points, read_points
    from ti_render.camera_files import read_cameras

    if options.points is None:
        raise UserError("risp camera pose takes --points FILE.csv: give it")
    pose_free_camera = None if options.camera_file is None else read_cameras(options.camera_file, pose_needed=False)[0]
    size = options.size or (None if pose_free_camera is None else (pose_free_camera.width, pose_free_camera.height))
    if size is None:
        raise UserError("the size of the picture is not known: give --size WxH, or a --camera-file")
    if pose_free_camera is not None and options.focal is not None:
        raise UserError("--focal and --camera-file both give a focal length: leave one out")
    points, pixels = read_points(options.points)
    return camera_from_points(
        points, pixels, width=size[0], height=size[1], focal=options.focal, like=pose_free_camera, free_focal=options.free_focal,
        below_ground=options.below_ground,
    )  # fmt: skip


def _print_estimates(estimates: list[Any]) -> None:
    """Print the first camera's intrinsics, all residuals and poses, and options that make the estimates priors."""
    from risp_torch.files.report import format_table

    first = estimates[0]
    sds = {name: list(sd) for name, sd in first.sd.items()}
    camera = first.record
    intrinsics = {"focal": camera.intrinsics[:2], "center": camera.intrinsics[2:], "distortion": camera.distortion}
    rows = [
        [f"{name}[{k}]", f"{value:.6g}", f"± {sds[name][k]:.2g}" if name in sds and sds[name][k] > 0 else "given"]
        for name, values in intrinsics.items()
        for k, value in enumerate(values)
    ]
    print(format_table(rows, ["intrinsics", "estimate", "error bar"]))
    poses = [
        [
            estimate.record.name,
            *(f"{x:.5g} ± {sd:.1g}" for x, sd in zip(estimate.record.position(), estimate.sd["position"], strict=True)),
            ", ".join(f"{sd:.1g}" for sd in estimate.sd["turn"]), f"{estimate.rms:.3f}", str(len(estimate.residuals)),
        ]
        for estimate in estimates
    ]  # fmt: skip
    print(format_table(poses, ["camera", "x [m]", "y [m]", "z [m]", "turn ± [rad]", "rms [px]", "points"]))
    for estimate in estimates:
        for remark in estimate.remarks:
            print(remark)
    print("as priors of the first camera: " + " ".join(first.prior_options))


def _refuse_options_of_other_method(options: argparse.Namespace) -> None:
    """Raise a UserError for an option of the other method."""
    options_by_method = {
        "board": ("board", "square", "marker", "dictionary", "lens", "non_square_pixels", "pictures"),
        "pose": ("points", "size", "focal", "camera_file", "free_focal", "below_ground"),
    }
    (other_method,) = set(options_by_method) - {options.method}
    for name in options_by_method[other_method]:
        if getattr(options, name):
            option_text = "pictures" if name == "pictures" else f"--{name.replace('_', '-')}"
            raise UserError(f"{option_text} belong to risp camera {other_method}: leave them out, or choose that")


def _board_size(text: str) -> tuple[int, int]:
    """Columns and rows of CxR, for argparse."""
    columns, cross, rows = text.lower().partition("x")
    if not cross:
        raise argparse.ArgumentTypeError(f"{format_value(text)} is not CxR: write for example 9x6")
    return number_parser(Count)(columns), number_parser(Count)(rows)
