"""Describe a film, draw a contact sheet, and cut it for a scene."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from risp_torch.commands.options import number_parser, picture_size
from risp_torch.files.film.curves import CURVES
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count

_SHEET_SIDE = 320  # pixels of the longer side of a picture on the sheet
_DARK_FRAMES, _DARK_LEVEL = 60, 0.01  # first frames that are tested, and the linear level below which a frame is black


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """VIDEO, the part that is cut, --sheet, --out."""
    parser.add_argument("video", metavar="VIDEO", help="a video file, or a folder of PNG or JPEG pictures")
    group = parser.add_argument_group("part")
    group.add_argument(
        "--first", type=_frame_or_seconds, metavar="WHEN",
        help="first frame: its number, or seconds from the film's first one, as 1.5s",
    )  # fmt: skip
    group.add_argument("--last", type=_frame_or_seconds, metavar="WHEN", help="last frame, written as for --first")
    group.add_argument(
        "--every", type=number_parser(Count), default=1, metavar="K", help="every K-th of these frames (default 1)"
    )
    group.add_argument(
        "--crop", type=_crop, metavar="X,Y,W,H", help="upper left corner, width and height of the part [pixels as shown]"
    )
    group.add_argument(
        "--size", type=picture_size, metavar="PIXELS|WxH",
        help="size of the pictures of the part, a side or both: each pixel is the mean over the area that it covers",
    )  # fmt: skip
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--pixels", choices=("square", "stored"), default="square",
        help="make pixels square by averaging (default), or keep those that are stored",
    )  # fmt: skip
    group.add_argument("--curve", choices=tuple(CURVES), help="from numbers to light, in place of what the film says")
    parser.add_argument(
        "--pictures", type=number_parser(Count), default=16, metavar="N", help="pictures on the sheet (default 16)"
    )
    parser.add_argument("--sheet", metavar="FILE", help="PNG of the sheet (default: DIR-sheet.png, or runs/film-NAME-TIME.png)")
    parser.add_argument("--out", metavar="DIR", help="write the part as a folder of PNG with its times and placement")
    parser.add_argument("--bits", type=_bits, default=16, metavar="8|16", help="of a number in these PNG (default 16)")


def run(options: argparse.Namespace) -> int:
    """Print a description of the film, write the sheet and, with --out, the part."""
    from risp_torch.files.film.cut import Cut
    from risp_torch.files.film.film import open_film
    from risp_torch.files.film.write import write_part

    sheet = _sheet_path(options)
    film = open_film(options.video, curve=options.curve, square=options.pixels == "square")
    print(describe(film.facts))
    film.facts.check_readable()
    (first, start), (last, end) = options.first or (None, None), options.last or (None, None)
    cut = Cut(first=first, start=start, last=last, end=end, every=options.every, crop=options.crop, size=options.size)
    frames, placement = cut.frames(film.facts), cut.placement(film.full_placement)
    print("\n".join(_remarks(film, frames, placement)))
    _write_sheet(sheet, film, frames, placement, options.pictures)
    print(f"written: {sheet}")
    if options.out:
        write_part(options.out, film, cut, bits=options.bits)
        size_text = f"{placement.width}x{placement.height} pixels, {options.bits} bits"
        print(f"written: {options.out} ({len(frames)} pictures of {size_text})")
    cut_command = ("risp", "film", options.video, "--out", "DIR")
    invert_command = ("risp", "invert", "SCENE", "--video", options.out, "--unknown", "NAME")
    print_next_steps(sheet, next_command=invert_command if options.out else cut_command)
    return 0


def describe(facts: Any) -> str:
    """A table of a film's properties (``FilmFacts``)."""
    from risp_torch.files.report import format_table

    stored, colours = facts.stored, facts.colours
    aspect_text = (
        f", pixels {stored.pixel_aspect.numerator}:{stored.pixel_aspect.denominator}" if stored.pixel_aspect != 1 else ""
    )
    rotation_text = f", turned by {90 * stored.quarter_turns} degrees" if stored.quarter_turns else ""
    encoding = [
        f"{tag} {getattr(colours, tag)}{' (assumed)' if tag in colours.assumed else ''}"
        for tag in ("range", "matrix", "primaries", "curve")
    ]
    rows = [
        ("kind", f"{facts.container}, {facts.codec}, {facts.pixel_format}, {facts.bits} bits"),
        ("size as stored", f"{stored.width}x{stored.height}{aspect_text}{rotation_text}"),
        ("size as shown", "{}x{}".format(*stored.shown_size)),
        *_clock_rows(facts),
        ("colours", ", ".join(encoding) if not colours.refusal else f"{colours.refusal}: not read"),
    ]
    if facts.placement is not None:
        placement = facts.placement
        source = f"{placement.stored.width}x{placement.stored.height} pixels"
        source += f", from {placement.offset[0]:.6g},{placement.offset[1]:.6g}"
        rows.append(("cut from", f"{source}, {placement.scale[0]:.6g} x {placement.scale[1]:.6g} of them to a pixel"))
    remarks = [f"remark: {sentence}" for sentence in (*facts.remarks, *facts.omissions)]
    return "\n".join([format_table(rows, ["film", str(facts.path)]), *remarks])


def _clock_rows(facts: Any) -> list[tuple[str, str]]:
    """Rows of the time stamps."""
    clock = facts.clock
    if clock is None:
        return [("frames", f"{facts.frames}, without times")]
    rows = [("frames", f"{facts.frames} in {clock.times[-1]:.6g} s"), ("first time stamp", f"{clock.start:.6g} s")]
    if clock.rate is None:
        return rows
    regularity = "constant" if clock.is_even else f"variable, intervals off by up to {1e3 * clock.jitter:.3g} ms"
    regularity = regularity if clock.is_even or clock.jitter > 0.1 * clock.period else "constant but for gaps"
    rows.append(("rate", f"{clock.rate:.6g} frames/s, {regularity}"))
    gaps = [f"{1e3 * interval:.4g} ms before frame {frame}" for frame, interval in clock.gaps]
    if gaps:
        rows.append(("gaps", ", ".join(gaps[:5]) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")))
    return rows


def _remarks(film: Any, frames: Sequence[int], placement: Any) -> list[str]:
    """Settings of a scene for this part, and remarks on uneven times and pixels that are not square."""
    clock = None if film.facts.clock is None else film.facts.clock.select(frames)
    lines = []
    if clock is not None and clock.period is not None:
        if clock.is_even:
            lines.append(f"for a scene: frame_dt={clock.period:.7g}, frames={len(frames) - 1}, ")
        else:
            first, last = (frames[k] for k in clock.longest_even)
            lines.append(f"uneven: frames {first} to {last} are the longest even stretch (--first {first} --last {last}); ")
    size = f"a camera of {placement.width}x{placement.height} pixels"
    lines = ["".join([*lines, size if lines else f"for a scene: {size}"])]
    if abs(placement.pixel_aspect - 1) > 1e-9:
        lines.append(f"remark: pixels are {placement.pixel_aspect:.6g} times as wide as high; the camera's fx is fy over that")
    return lines


def _write_sheet(path: Path, film: Any, frames: Sequence[int], placement: Any, count: int) -> None:
    """Write pictures spread over the part, and print a remark if it begins with black ones."""
    import numpy as np

    from risp_torch.scene.rendering_parameters import contact_sheet

    sheet_frames = [frames[k] for k in np.unique(np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int))]
    read_frames = sorted({*sheet_frames, *frames[:_DARK_FRAMES]})
    reduction = max(placement.width, placement.height) / _SHEET_SIDE
    sheet_placement = placement
    if reduction > 1:
        sheet_placement = placement.resampled(
            max(int(placement.width / reduction), 1), max(int(placement.height / reduction), 1), (reduction, reduction)
        )
    pictures, dark_frames = {}, []
    for frame, picture in zip(read_frames, film.pictures(read_frames, sheet_placement), strict=True):
        if frame in sheet_frames:
            pictures[frame] = picture
        if picture.max() < _DARK_LEVEL and frame in frames[:_DARK_FRAMES] and len(dark_frames) == frames.index(frame):
            dark_frames.append(frame)
    if dark_frames and len(dark_frames) < len(frames):
        dark_text = f"frame {dark_frames[0]} is" if len(dark_frames) == 1 else f"frames {dark_frames[0]} to {dark_frames[-1]} are"
        print(f"remark: {dark_text} black: begin with --first {frames[len(dark_frames)]}")
    times = None if film.facts.clock is None else film.facts.clock.times
    captions = [f"frame {frame}" + ("" if times is None else f"\n{times[frame]:.4f} s") for frame in sheet_frames]
    columns = round((len(sheet_frames) * placement.height / placement.width) ** 0.5) or 1
    contact_sheet(path, np.stack([pictures[frame] for frame in sheet_frames]), captions, columns=columns)


def _sheet_path(options: argparse.Namespace) -> Path:
    """Path of the sheet; not in the folder of the part, where every picture is a frame."""
    from risp_torch.files.folders import contains
    from risp_torch.files.run_folder import default_run_path

    name = Path(os.path.realpath(options.video)).stem or "film"
    sheet_path = f"{options.out.rstrip('/')}-sheet.png" if options.out else f"{default_run_path('film', name)}.png"
    path = Path(options.sheet or sheet_path)
    if path.suffix.lower() != ".png":
        raise UserError(f"--sheet {path} is not a .png file: give the sheet a name that ends in .png")
    if options.out and contains(options.out, path):
        raise UserError(f"--sheet {path} would be a picture of the film in {options.out}: put it elsewhere")
    return path


def _bits(text: str) -> int:
    """8 or 16, for argparse."""
    if text not in ("8", "16"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of bits of a PNG: write 8 or 16")
    return int(text)


def _frame_or_seconds(text: str) -> tuple[int | None, float | None]:
    """Frame and seconds, one of which is None, for argparse."""
    try:
        frame_and_seconds = (None, float(text[:-1])) if text.endswith("s") else (int(text), None)
    except ValueError:
        frame_and_seconds = (None, None)
    if not any(value is not None and 0 <= value < float("inf") for value in frame_and_seconds):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is neither a frame nor a time: write for example 40, or 1.3s for seconds"
        )
    return frame_and_seconds


def _crop(text: str) -> tuple[int, ...]:
    """Four whole numbers, for argparse."""
    words = text.split(",")
    if len(words) != 4 or not all(word.strip().isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not X,Y,W,H: write for example 100,40,512,512")
    return tuple(int(word) for word in words)
