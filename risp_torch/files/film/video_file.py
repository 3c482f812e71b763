"""A video file: its format, from its decoded frames, and its pictures as linear colour."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import FULL, Colours, colours_of, rgb_of_luma_chroma, to_srgb_primaries
from risp_torch.files.film.curves import linear_values
from risp_torch.files.film.facts import FilmFacts, repeats_remarks
from risp_torch.files.film.placement import StoredPicture
from ti_sim.base.errors import UserError

__all__ = ["VideoFile", "decode_video", "exact_interpolation"]

_QUARTER_TURNS = {(1, 0): 0, (0, 1): 1, (-1, 0): 2, (0, -1): 3}  # by the image of (1, 0) under the display matrix
_OMITTED = "they are left out, and the times of the others stay as they are"
_SDR_ADVICE = "convert it to SDR, for example with ffmpeg's zscale and tonemap filters"


def exact_interpolation() -> Any:
    """swscale's exact arithmetic: its fast default is off by up to 3/255 on a flat colour."""
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
    return Interpolation.BILINEAR | exact


class VideoFile:
    """A video file that FFmpeg opens.

    Attributes:
        facts: its format, size, colours and times.
    """

    def __init__(self, path: Path, *, curve: str | None = None) -> None:
        """Decode the file once for its time stamps: packets may lack them, and decoders may omit frames.

        Args:
            path: the file.
            curve: name of the transfer curve (``CURVES``) that replaces the file's own.

        Raises:
            UserError: the file holds no video, or is damaged or cut short.
        """
        self.path = path
        state = os.stat(path)
        self.facts = _facts_of(path, curve, (state.st_size, state.st_mtime_ns, state.st_ino))

    def pictures(self, frames: Sequence[int], region: tuple[slice, slice]) -> Iterator[np.ndarray]:
        """Linear colour, float32 [h, w, 3], of some frames within a region of rows and columns.

        Args:
            frames: indices of the frames, ascending.
            region: rows and columns of the stored picture.

        Raises:
            UserError: the colours cannot be read, or a frame is damaged.
        """
        from av.video.reformatter import VideoReformatter

        self.facts.check_readable()
        frame_numbers = iter(frames)
        next_number = next(frame_numbers, None)
        # ``VideoFrame.reformat`` would compute swscale's filters for every frame, which takes longer than the conversion.
        reformatter = VideoReformatter()
        with _open_video(self.path) as (container, stream):
            decoded = (frame for frame in _decode_frames(container, stream) if frame is not None)
            for index, frame in enumerate(decoded):
                if next_number is None:
                    break
                if (frame.width, frame.height) != (self.facts.stored.width, self.facts.stored.height):
                    raise UserError(
                        f"video {self.path} has pictures of another size from frame {index} on: take a part before it, or "
                        "convert it"
                    )
                if index == next_number:
                    yield _linear(frame, self.facts.colours, region, reformatter)
                    next_number = next(frame_numbers, None)
        if next_number is not None:
            raise UserError(f"video {self.path} changes while it is read: copy it, and read the copy")


def decode_video(file: BinaryIO) -> tuple[np.ndarray, float]:
    """Decode a video that this program has encoded, in one pass.

    ``VideoFile`` decodes a file twice, first for the checks that files of other programs need.

    Args:
        file: the encoded video, at its first byte.

    Returns:
        The pictures, float32 [T, H, W, 3], linear colour in [0, 1], and the bytes of the video stream per frame.
    """
    import av
    from av.video.reformatter import VideoReformatter

    reformatter, packets, pictures = VideoReformatter(), _Packets(), []
    with av.open(file) as container:
        for frame in _decode_frames(container, container.streams.video[0], packets):
            colours = _frame_colours(frame, None)
            pictures.append(_linear(frame, colours, (slice(None), slice(None)), reformatter))
    return np.stack(pictures), packets.size / packets.count


@dataclass
class _Packets:
    """Contents of the video stream of a file.

    Attributes:
        stamps: presentation times of the shown packets, in the order of the file [ticks]; None for packets without one.
        keys: whether each of these packets is a key frame.
        count: number of all packets, including those that an edit list omits.
        size: bytes of all packets.
    """

    stamps: list[int | None] = field(default_factory=list)
    keys: list[bool] = field(default_factory=list)
    count: int = 0
    size: int = 0


@contextmanager
def _open_video(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its best video stream; FFmpeg's errors become UserErrors."""
    import av

    try:
        # The prefix keeps a colon in the name from being taken for a protocol; titles may be in any encoding.
        with av.open(f"file:{path}", metadata_errors="replace") as container:
            stream = container.streams.best("video")  # not a picture of the cover
            if stream is None:
                raise UserError(
                    f"{path} holds no video: give a video file or a folder of PNG frames (or copy it again, if it was cut short)"
                )
            stream.thread_type = "AUTO"
            yield container, stream
    except (av.FFmpegError, OSError) as error:
        raise UserError(
            f"video {path} is damaged, cut short or of an unknown kind ({error.strerror}): copy or export it again"
        ) from error


def _decode_frames(container: Any, stream: Any, packets: _Packets | None = None) -> Iterator[Any | None]:
    """Decode the frames in presentation order; None for a damaged one.

    Args:
        container, stream: result of ``_open_video``.
        packets: record to which the packets are added, or None.
    """
    import av

    packets = packets or _Packets()
    for packet in container.demux(stream):
        if packet.size:
            packets.count, packets.size = packets.count + 1, packets.size + packet.size
            if not packet.is_discard:  # an edit list discards the others
                packets.stamps.append(packet.pts)
                packets.keys.append(packet.is_keyframe)
        elif packet.pts is not None:
            continue  # repeats the picture before it
        try:
            frames = packet.decode()
        except (av.InvalidDataError, EOFError):
            frames = [None]
        if packet.is_corrupt and packet.size:
            frames = [None]
        for frame in frames:
            yield None if frame is None or frame.is_corrupt else frame


@lru_cache(maxsize=32)
def _facts_of(path: Path, curve: str | None, state: tuple[int, ...]) -> FilmFacts:
    """Properties of a file; ``state`` (size, time of change, inode) is part of the cache's key, so changed files are read."""
    with _open_video(path) as (container, stream):
        packets, first_frame, stamps, damaged_frames, changes, luma = _Packets(), None, [], [], [], None
        for frame in _decode_frames(container, stream, packets):
            if frame is None:
                damaged_frames.append(len(stamps))
                continue
            first_frame = first_frame or frame
            previous, luma = luma, _first_plane(frame)
            if previous is not None:
                changes.append(np.abs(luma - previous.astype(np.int32)).mean() if previous.shape == luma.shape else np.inf)
            stamps.append((frame.pts, frame.dts))
        if first_frame is None:
            raise UserError(f"video {path} is damaged or cut short: none of its frames can be decoded; copy or export it again")
        damaged_within = [frame for frame in damaged_frames if 0 < frame < len(stamps)]
        if damaged_within:
            raise UserError(f"video {path} is damaged at frame {damaged_within[0]}: copy or export it again")
        stamps = _presentation_stamps(stamps, container.format.name)
        _check_length(path, container, stream, packets, stamps)
        facts = _facts(path, container, stream, first_frame, stamps, curve, packets.size / packets.count)
        left_out = _undecoded_remarks(packets, stamps, stream.frames) + repeats_remarks(np.array(changes))
        return replace(facts, omissions=tuple(left_out))


def _presentation_stamps(stamps: Sequence[tuple[int | None, int | None]], container: str) -> list[int | None]:
    """Time stamps of the frames [ticks] from their presentation and decoding times.

    AVI has decoding times only, which FFmpeg may return as presentation times of the packets: sorted, they are the presentation
    times of the frames.
    """
    presented_stamps = [pts for pts, _ in stamps]
    coded = [dts for _, dts in stamps]
    if None in presented_stamps and None not in coded and len(set(coded)) == len(coded):
        return sorted(coded)
    return sorted(presented_stamps) if container == "avi" and None not in presented_stamps else presented_stamps


def _check_length(path: Path, container: Any, stream: Any, packets: _Packets, stamps: list[int | None]) -> None:
    """Refuse a file with fewer frames than it announces.

    The count in an AVI file includes empty chunks, which repeat the previous picture.
    """
    if packets.count >= stream.frames:
        return
    if container.format.name == "avi" and None not in stamps and _is_complete_avi(path):
        return
    raise UserError(
        f"video {path} is cut short: {packets.count} of the {stream.frames} frames it announces are there; copy or export it "
        "again"
    )


def _is_complete_avi(path: Path) -> bool:
    """Whether an AVI file has the length in the header of its first list of chunks."""
    with open(path, "rb") as file:
        head = file.read(8)
    return len(head) == 8 and path.stat().st_size >= 8 + int.from_bytes(head[4:], "little")


def _undecoded_remarks(packets: _Packets, stamps: list[int | None], announced_frames: int) -> list[str]:
    """Sentences about packets that were not decoded to a picture.

    Args:
        packets: packets of the file.
        stamps: time stamps of the decoded frames [ticks].
        announced_frames: number of frames that the file announces; 0 if unknown.
    """
    valid_stamps = {stamp for stamp in stamps if stamp is not None}
    undecoded_packets = [k for k, stamp in enumerate(packets.stamps) if stamp not in valid_stamps]
    missing = len(packets.stamps) - len(stamps)
    sentences = []
    if missing > 0 and valid_stamps:
        first, last = min(valid_stamps), max(valid_stamps)
        # Leading pictures of a cut group follow its key frame in the file, often without a time stamp.
        leading = {k for n, k in enumerate(undecoded_packets) if k == n + packets.keys[0]}
        undecoded_first = [
            k for k in undecoded_packets if k in leading or (packets.stamps[k] is not None and packets.stamps[k] < first)
        ]
        undecoded_last = [
            k
            for k in undecoded_packets
            if k not in undecoded_first and packets.stamps[k] is not None and packets.stamps[k] > last
        ]
        num_within = max(0, missing - len(undecoded_first) - len(undecoded_last))
        for count, where in (
            (len(undecoded_first), "at its beginning"),
            (len(undecoded_last), "at its end"),
            (num_within, "between others"),
        ):
            if count:
                sentences.append(f"{_pictures(count)} {where} cannot be decoded without parts that the file lacks; {_OMITTED}")
    if announced_frames > packets.count:
        repeated = _pictures(announced_frames - packets.count)
        sentences.append(f"{repeated} of the {announced_frames} that the film announces repeat the one before; {_OMITTED}")
    return sentences


def _pictures(count: int) -> str:
    return "1 picture" if count == 1 else f"{count} pictures"


def _first_plane(frame: Any) -> np.ndarray:
    """Values of a frame's first plane (the luma, if there is one), without the padding of its lines."""
    plane, video_format = frame.planes[0], frame.format
    is_single_plane = len(frame.planes) == 1 or video_format.has_palette
    bits = video_format.padded_bits_per_pixel if is_single_plane else 8 * -(-video_format.components[0].bits // 8)
    rows = np.frombuffer(plane, dtype=np.uint8)[: plane.height * plane.line_size].reshape(plane.height, plane.line_size)
    luma = rows[:, : -(-plane.width * bits // 8)].copy()
    return luma.view(">u2" if video_format.is_big_endian else "<u2") if 8 < video_format.components[0].bits <= 16 else luma


def _facts(
    path: Path, container: Any, stream: Any, first: Any, stamps: list[int | None], curve: str | None, size: float
) -> FilmFacts:
    """Facts of the file; ``size`` is bytes per packet."""
    quarter_turns, refusals = _quarter_turns(first)
    aspect = stream.sample_aspect_ratio or Fraction(1)
    video_format, colours = first.format, _frame_colours(first, curve)
    if colours.refusal:
        refusals.append(f"is coded for {colours.refusal}, which is not read: {_SDR_ADVICE}")
    if video_format.components[0].bits > 16:
        refusals.append(
            f"holds numbers of {video_format.components[0].bits} bits ({video_format.name}): convert it to 16 bits or fewer"
        )
    clock, remarks = _clock(stream, stamps)
    if clock is not None and clock.first_unordered_frame is not None:
        refusals.append(
            f"has frame {clock.first_unordered_frame} at the time of the one before it or earlier: convert it, so that times grow"
        )
    return FilmFacts(
        path=path, container=container.format.name.split(",")[0], codec=stream.codec_context.name, pixel_format=video_format.name,
        bits=video_format.components[0].bits, frames=len(stamps), clock=clock, colours=colours, refusals=tuple(refusals),
        stored=StoredPicture(width=first.width, height=first.height, pixel_aspect=Fraction(aspect), quarter_turns=quarter_turns),
        bytes_per_pixel=size / (first.width * first.height), remarks=tuple(remarks + _remarks(first, colours)),
    )  # fmt: skip


def _frame_colours(frame: Any, curve: str | None) -> Colours:
    """Colour encoding of a frame; ``curve`` replaces the tagged transfer curve."""
    video_format = frame.format
    is_rgb = video_format.is_rgb or video_format.has_palette or video_format.components[0].bits == 1
    codes = {
        "range": int(frame.color_range), "matrix": int(frame.colorspace), "primaries": int(frame.color_primaries),
        "curve": int(frame.color_trc),
    }  # fmt: skip
    is_full_range_format = is_rgb or video_format.name.startswith(("yuvj", "gray", "ya"))
    is_grey = len(video_format.components) < 3
    return colours_of(codes, rgb=is_rgb or is_grey, full_by_format=is_full_range_format, height=frame.height, curve=curve)


def _clock(stream: Any, stamps: list[int | None]) -> tuple[Clock | None, list[str]]:
    """The time stamps of the frames; if the file has none, those of its frame rate. Also remarks."""
    if None in stamps:
        rate = stream.average_rate or stream.guessed_rate
        named = "no time stamps" + (f": {float(rate):g} frames per second are assumed" if rate else " and no rate")
        return (Clock.regular(len(stamps), float(rate)) if rate else None), [f"the film has {named}"]
    tick = float(stream.time_base)
    times = np.array([float((stamp - stamps[0]) * stream.time_base) for stamp in stamps])
    named = float(stream.average_rate) if stream.average_rate else None
    return Clock(times, float(stamps[0] * stream.time_base), tick, named), []


def _quarter_turns(frame: Any) -> tuple[int, list[str]]:
    """Clockwise quarter turns of the display matrix, and the reasons if it is not supported."""
    from av.sidedata.sidedata import Type

    data = frame.side_data.get(Type.DISPLAYMATRIX)
    if data is None:
        return 0, []
    # A point (x, y) is shown at (a x + c y, b x + d y); 16.16 fixed point.
    a, b, _, c, d = (value / 65536 for value in np.frombuffer(bytes(data), dtype=np.int32)[:5])
    if a * d - b * c < 0:
        return 0, ["is to be shown mirrored, which no camera model covers: mirror it with ffmpeg's filter hflip or vflip"]
    size = np.hypot(a, b)
    right = (round(a / size), round(b / size)) if size > 0 else (0, 0)
    is_turn = size > 0 and np.hypot(a / size - right[0], b / size - right[1]) < 1e-3 and np.hypot(c + b, d - a) < 1e-3 * size
    if not is_turn or right not in _QUARTER_TURNS:
        return 0, [f"is to be shown turned by {np.degrees(np.arctan2(b, a)):.3g} degrees: turn it with ffmpeg's filter rotate"]
    return _QUARTER_TURNS[right], []


def _remarks(frame: Any, colours: Colours) -> list[str]:
    """Sentences about assumptions and ignored properties."""
    remarks = []
    if colours.assumed:
        values = [f"{tag} {getattr(colours, tag)}" for tag in colours.assumed]
        remarks.append(f"the film does not say how its colours are coded: {', '.join(values)} assumed")
    if frame.interlaced_frame:
        remarks.append("the film is marked as interlaced: if its odd and even rows are of different times, deinterlace it first")
    if any(component.is_alpha for component in frame.format.components):
        remarks.append("the film's transparency is left out")
    return remarks


def _linear(frame: Any, colours: Colours, region: tuple[slice, slice], reformatter: Any) -> np.ndarray:
    """A region of a frame as linear colour with sRGB's primaries, float32 [h, w, 3]; ``reformatter`` is a PyAV
    ``VideoReformatter`` that keeps swscale's filters between frames."""
    levels, bits, is_rgb = _levels(frame, colours, reformatter)
    levels = levels[region]
    if is_rgb and colours.range == FULL:
        linear = linear_values(colours.curve, 2**bits)[levels]
    else:
        if is_rgb:
            level_scale = 2.0 ** (bits - 8)
            values = ((levels - np.float32(16 * level_scale)) / np.float32(219 * level_scale)).clip(0, 1)
        else:
            values = rgb_of_luma_chroma(levels, colours, bits)
        # 65536 numbers are finer than those of any film that is read: the curve is a table.
        linear = linear_values(colours.curve, 65536)[np.round(values * 65535).astype(np.uint16)]
    return to_srgb_primaries(linear, colours.primaries)


def _levels(frame: Any, colours: Colours, reformatter: Any) -> tuple[np.ndarray, int, bool]:
    """Levels of a frame at full resolution [H, W, 3] (grey: [H, W, 1]), their bits, and whether they are red, green, blue.

    Planes at full resolution are used unchanged. Subsampled planes are converted to 16 bits by swscale, which shifts levels of b
    bits to the left by 16 - b; its conversions to RGB would lose the precision of ten bits.
    """
    video_format = frame.format
    components = [component for component in video_format.components if not component.is_alpha]
    bits = components[0].bits
    is_rgb = video_format.is_rgb or video_format.has_palette or bits == 1
    full_resolution = all((component.width, component.height) == (frame.width, frame.height) for component in components)
    planes = {component.plane for component in video_format.components}
    if (
        full_resolution
        and len(planes) == len(video_format.components)
        and bits >= 8
        and not video_format.has_palette
        and "msb" not in video_format.name
    ):
        return np.stack([_plane(frame, component.plane, bits) for component in components], axis=-1), bits, is_rgb
    if is_rgb:
        name, bits_after = ("rgb24", 8) if bits <= 8 else ("rgb48le", 16)
        return reformatter.reformat(frame, format=name, interpolation=exact_interpolation()).to_ndarray(), bits_after, True
    range_name = "JPEG" if colours.range == FULL else "MPEG"
    converted = reformatter.reformat(
        frame, format="gray16le" if len(components) == 1 else "yuv444p16le", interpolation=exact_interpolation(),
        src_color_range=range_name, dst_color_range=range_name, src_colorspace="ITU709", dst_colorspace="ITU709",
    )  # fmt: skip
    shifted = np.stack([_plane(converted, k, 16) for k in range(len(converted.planes))], axis=-1)
    return shifted.astype(np.float32) / np.float32(2 ** (16 - bits)), bits, False


def _plane(frame: Any, index: int, bits: int) -> np.ndarray:
    """Levels of a plane, [H, W]."""
    plane = frame.planes[index]
    dtype = np.dtype(np.uint8 if bits <= 8 else ">u2" if frame.format.is_big_endian else "<u2")
    rows = np.frombuffer(plane, dtype=dtype).reshape(plane.height, plane.line_size // dtype.itemsize)
    return rows[: frame.height, : frame.width]
