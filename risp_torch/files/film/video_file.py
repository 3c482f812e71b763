"""A video file: what it is, from its packets and its first frame, and its pictures as linear colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import FULL, Colours, colours_of, rgb_of_luma_chroma, to_srgb_primaries
from risp_torch.files.film.curves import linear_values
from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.placement import StoredPicture
from ti_sim.base.errors import UserError

__all__ = ["VideoFile", "exact_interpolation"]

_TURNS = {(1, 0): 0, (0, 1): 1, (-1, 0): 2, (0, -1): 3}  # where the display matrix sends the direction to the right
_SDR = "convert it to SDR, for example with ffmpeg's zscale and tonemap filters"


def exact_interpolation() -> Any:
    """swscale's exact arithmetic: its fast default is off by up to 3/255 on a flat colour."""
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
    return Interpolation.BILINEAR | exact


class VideoFile:
    """A video file that FFmpeg opens.

    Attributes:
        facts: what it is.
    """

    def __init__(self, path: Path, *, curve: str | None = None) -> None:
        """Look at every packet of the file, and at its first frame.

        Args:
            path: the file.
            curve: from numbers to light, in place of what the file says (``CURVES``).

        Raises:
            UserError: the file holds no video, or is damaged or cut short.
        """
        self.path = path
        with _opened(path) as (container, stream):
            first, stamps, size = _scan(container, stream, path)
            self.facts = _facts(path, container, stream, first, stamps, curve, size)

    def pictures(self, frames: Sequence[int], region: tuple[slice, slice]) -> Iterator[np.ndarray]:
        """Linear colour, float32 [h, w, 3], of some frames within a region of rows and columns.

        Args:
            frames: their numbers, which grow.
            region: rows and columns of the stored picture.

        Raises:
            UserError: the colours cannot be read, or a frame is damaged.
        """
        self.facts.check_readable()
        wanted = iter(frames)
        want = next(wanted, None)
        with _opened(self.path) as (container, stream):
            stream.thread_type = "AUTO"
            for index, frame in enumerate(container.decode(stream)):
                if want is None:
                    break
                if frame.is_corrupt:
                    raise UserError(f"video {self.path} is damaged at frame {index}: copy or export it again")
                if (frame.width, frame.height) != (self.facts.stored.width, self.facts.stored.height):
                    raise UserError(
                        f"video {self.path} has pictures of another size from frame {index} on: take a part before it, or "
                        "convert it"
                    )
                if index == want:
                    yield _linear(frame, self.facts.colours, region)
                    want = next(wanted, None)
        if want is not None:
            raise UserError(_cut_short(self.path, want, self.facts.frames))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its first video, with FFmpeg's errors as sentences."""
    import av

    try:
        with av.open(str(path)) as container:
            stream = container.streams.best("video")  # not a picture of the cover
            if stream is None:
                raise UserError(
                    f"{path} holds no video: give a video file or a folder of PNG frames (or copy it again, if it was cut short)"
                )
            yield container, stream
    except (av.FFmpegError, OSError) as error:
        raise UserError(
            f"video {path} is damaged, cut short or of an unknown kind ({error.strerror}): copy or export it again"
        ) from error


def _scan(container: Any, stream: Any, path: Path) -> tuple[Any, list[int | None], float]:
    """The first frame, the time stamps of the packets that are shown, in ticks of the stream, and bytes per packet."""
    first, packets, stamps, size = None, 0, [], 0
    stream.thread_type = "NONE"
    for packet in container.demux(stream):
        packets, size = packets + (packet.size > 0), size + packet.size
        if packet.is_corrupt:
            raise UserError(_cut_short(path, packets - 1, stream.frames))
        if packet.size and not packet.is_discard:  # an edit list leaves the others out
            stamps.append(packet.pts)
        first = first or next(iter(packet.decode()), None)
    if packets < stream.frames:
        raise UserError(_cut_short(path, packets, stream.frames))
    if first is None or not stamps:
        raise UserError(f"video {path} holds no frame: copy or export it again")
    if first.is_corrupt:
        raise UserError(f"video {path} is damaged at frame 0: copy or export it again")
    return first, stamps, size / packets


def _cut_short(path: Path, found: int, promised: int) -> str:
    return (
        f"video {path} is cut short: {found} of the {promised} frames it announces are there; copy or export it again"
    )


def _facts(
    path: Path, container: Any, stream: Any, first: Any, stamps: list[int | None], curve: str | None, size: float
) -> FilmFacts:
    """What the file is; ``size`` is bytes per packet."""
    turns, refusals = _turns(first)
    aspect = stream.sample_aspect_ratio or Fraction(1)
    kind = first.format
    rgb = kind.is_rgb or kind.has_palette or kind.components[0].bits == 1
    codes = {
        "range": int(first.color_range), "matrix": int(first.colorspace), "primaries": int(first.color_primaries),
        "curve": int(first.color_trc),
    }  # fmt: skip
    full_by_format = rgb or kind.name.startswith(("yuvj", "gray", "ya"))
    grey = len(kind.components) < 3
    colours = colours_of(codes, rgb=rgb or grey, full_by_format=full_by_format, height=first.height, curve=curve)
    if colours.refusal:
        refusals.append(f"is coded for {colours.refusal}, which is not read: {_SDR}")
    if kind.components[0].bits > 16:
        refusals.append(f"holds numbers of {kind.components[0].bits} bits ({kind.name}): convert it to 16 bits or fewer")
    clock, remarks = _clock(stream, stamps)
    if clock is not None and clock.disorder is not None:
        refusals.append(f"has frame {clock.disorder} at the time of the one before it or earlier: convert it, so that times grow")
    return FilmFacts(
        path=path, container=container.format.name.split(",")[0], codec=stream.codec_context.name, pixel_format=kind.name,
        bits=kind.components[0].bits, frames=len(stamps), clock=clock, colours=colours, refusals=tuple(refusals),
        stored=StoredPicture(width=first.width, height=first.height, pixel_aspect=Fraction(aspect), quarter_turns=turns),
        bytes_per_pixel=size / (first.width * first.height), remarks=tuple(remarks + _remarks(first, colours)),
    )  # fmt: skip


def _clock(stream: Any, stamps: list[int | None]) -> tuple[Clock | None, list[str]]:
    """The time stamps in the order of the frames; where there are none, those of the rate that the file names."""
    if None in stamps:
        rate = stream.average_rate or stream.guessed_rate
        named = "no time stamps" + (f": {float(rate):g} frames per second are assumed" if rate else " and no rate")
        return (Clock.steady(len(stamps), float(rate)) if rate else None), [f"the film has {named}"]
    ordered = sorted(int(stamp) for stamp in stamps if stamp is not None)
    tick = float(stream.time_base)
    times = np.array([float((stamp - ordered[0]) * stream.time_base) for stamp in ordered])
    named = float(stream.average_rate) if stream.average_rate else None
    return Clock(times, float(ordered[0] * stream.time_base), tick, named), []


def _turns(frame: Any) -> tuple[int, list[str]]:
    """Clockwise quarter turns of the display matrix, and why it cannot be followed, if so."""
    from av.sidedata.sidedata import Type

    data = frame.side_data.get(Type.DISPLAYMATRIX)
    if data is None:
        return 0, []
    # A point (x, y) is shown at (a x + c y, b x + d y); 16.16 fixed point.
    a, b, _, c, d = (value / 65536 for value in np.frombuffer(bytes(data), dtype=np.int32)[:5])
    if a * d - b * c < 0:
        return 0, ["is to be shown mirrored, and no camera sees so: mirror it with ffmpeg's filter hflip or vflip"]
    size = np.hypot(a, b)
    right = (round(a / size), round(b / size)) if size > 0 else (0, 0)
    whole = size > 0 and np.hypot(a / size - right[0], b / size - right[1]) < 1e-3 and np.hypot(c + b, d - a) < 1e-3 * size
    if not whole or right not in _TURNS:
        return 0, [f"is to be shown turned by {np.degrees(np.arctan2(b, a)):.3g} degrees: turn it with ffmpeg's filter rotate"]
    return _TURNS[right], []


def _remarks(frame: Any, colours: Colours) -> list[str]:
    """Sentences about what is assumed or left out."""
    remarks = []
    if colours.assumed:
        values = [f"{what} {getattr(colours, what)}" for what in colours.assumed]
        remarks.append(f"the film does not say how its colours are coded: {', '.join(values)} assumed")
    if frame.interlaced_frame:
        remarks.append("the film is marked as interlaced: if its odd and even rows are of different times, deinterlace it first")
    if any(component.is_alpha for component in frame.format.components):
        remarks.append("the film's transparency is left out")
    return remarks


def _linear(frame: Any, colours: Colours, region: tuple[slice, slice]) -> np.ndarray:
    """A region of a frame as linear colour with sRGB's primaries, float32 [h, w, 3]."""
    levels, bits, rgb = _levels(frame, colours)
    levels = levels[region]
    if rgb and colours.range == FULL:
        linear = linear_values(colours.curve, 2**bits)[levels]
    else:
        if rgb:
            unit = 2.0 ** (bits - 8)
            values = ((levels - np.float32(16 * unit)) / np.float32(219 * unit)).clip(0, 1)
        else:
            values = rgb_of_luma_chroma(levels, colours, bits)
        # 65536 numbers are finer than those of any film that is read: the curve is a table.
        linear = linear_values(colours.curve, 65536)[np.round(values * 65535).astype(np.uint16)]
    return to_srgb_primaries(linear, colours.primaries)


def _levels(frame: Any, colours: Colours) -> tuple[np.ndarray, int, bool]:
    """The numbers of a frame at full resolution [H, W, 3] (grey: [H, W, 1]), their bits, and whether they are red, green, blue.

    Planes that have every pixel are taken as they are. Of other luma and chroma, swscale makes planes of 16 bits, in which a
    number of b bits is shifted to the left by 16 - b: its own conversions to colours lose the precision of ten bits.
    """
    kind = frame.format
    components = [component for component in kind.components if not component.is_alpha]
    bits = components[0].bits
    rgb = kind.is_rgb or kind.has_palette or bits == 1
    whole = all((component.width, component.height) == (frame.width, frame.height) for component in components)
    planes = {component.plane for component in kind.components}
    if whole and len(planes) == len(kind.components) and bits >= 8 and not kind.has_palette and "msb" not in kind.name:
        return np.stack([_plane(frame, component.plane, bits) for component in components], axis=-1), bits, rgb
    if rgb:
        name, wide = ("rgb24", 8) if bits <= 8 else ("rgb48le", 16)
        return frame.reformat(format=name, interpolation=exact_interpolation()).to_ndarray(), wide, True
    span = "JPEG" if colours.range == FULL else "MPEG"
    made = frame.reformat(
        format="gray16le" if len(components) == 1 else "yuv444p16le", interpolation=exact_interpolation(), src_color_range=span,
        dst_color_range=span, src_colorspace="ITU709", dst_colorspace="ITU709",
    )  # fmt: skip
    shifted = np.stack([_plane(made, k, 16) for k in range(len(made.planes))], axis=-1)
    return shifted.astype(np.float32) / np.float32(2 ** (16 - bits)), bits, False


def _plane(frame: Any, index: int, bits: int) -> np.ndarray:
    """The numbers of a plane, [H, W]."""
    plane = frame.planes[index]
    kind = np.dtype(np.uint8 if bits <= 8 else ">u2" if frame.format.is_big_endian else "<u2")
    rows = np.frombuffer(plane, dtype=kind).reshape(plane.height, plane.line_size // kind.itemsize)
    return rows[: frame.height, : frame.width]
