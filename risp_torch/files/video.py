"""Reading and writing of videos of scenes: H.264 files and folders of pictures.

Arrays hold linear colour in [0, 1]; files hold sRGB. Sources: ITU-R BT.709 (luma/chroma matrix of the files, limited range),
ITU-T H.273 (code points of colour). Films of other formats: ``files/film``.
"""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from risp_torch.files.atomic import atomic_replacement
from risp_torch.files.film.film import open_film, read_frames
from risp_torch.files.film.video_file import decode_video
from risp_torch.files.film.write import encode_picture, write_folder
from risp_torch.files.pictures import png_bytes
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

__all__ = ["compress_and_decode", "read_video", "write_frames", "write_picture", "write_video"]

Rate = Annotated[float | Fraction, Rule(above=0)]  # pictures per second
Quality = Annotated[float, Rule(minimum=0, maximum=51)]  # constant rate factor of H.264
# Code points of ITU-T H.273: matrix and primaries BT.709, the sRGB curve, limited ("studio") range.
_BT709, _SRGB_CURVE, _LIMITED_RANGE = 1, 13, 1


@checked
def write_video(path: Path | str, frames: Any, *, fps: Rate, crf: Quality = 18) -> None:
    """Write an H.264 file (mp4, yuv420p, BT.709 limited range) with the tags that players need for correct colours.

    The file is written atomically. yuv420p halves the resolution of colour: write targets that must be exact with
    ``write_frames``.

    Args:
        path: file to write, ending in ``.mp4``; an existing file is replaced.
        frames: [T, H, W, 3] linear colour (numpy or torch); clipped to [0, 1]. H and W even.
        fps: pictures per second, any positive rate.
        crf: constant rate factor of the encoder: 0 best, 18 hardly visible loss, 51 worst.

    Raises:
        UserError: the frames or the rate are invalid, or the path cannot be written.
    """
    import av

    path = Path(path)
    linear = _linear_frames(frames, str(path))
    if path.suffix.lower() != ".mp4":
        raise UserError(f"{path} is not an .mp4 file: give the video a name that ends in .mp4")
    _check_even(linear, str(path))
    with atomic_replacement(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        _encode(container, linear, fps=fps, crf=crf)


@checked
def compress_and_decode(frames: Any, *, fps: Rate, crf: Quality) -> tuple[np.ndarray, float]:
    """Frames after the compression of ``write_video``, as ``read_video`` returns them, without a file.

    Args:
        frames: [T, H, W, 3] linear colour (numpy or torch); clipped to [0, 1]. H and W even.
        fps: pictures per second, any positive rate.
        crf: constant rate factor of the encoder, as in ``write_video``.

    Returns:
        The decoded frames, float32 [T, H, W, 3], linear colour in [0, 1], and the bytes of the video stream per frame.

    Raises:
        UserError: the frames or the rate are invalid.
    """
    import av

    linear, file = _linear_frames(frames, "a compressed film"), BytesIO()
    _check_even(linear, "a compressed film")
    with av.open(file, "w", format="mp4") as container:
        _encode(container, linear, fps=fps, crf=crf)
    file.seek(0)
    return decode_video(file)


@checked
def write_frames(folder: Path | str, frames: Any, *, fps: Rate | None = None) -> None:
    """Write a folder of 8-bit sRGB PNG pictures ``00000.png ...`` and ``video.json`` {fps, width, height, frames}.

    The folder is written atomically.

    Args:
        folder: folder to write; an existing one is replaced if it is empty or holds a video written by this function.
        frames: [T, H, W, 3] linear colour (numpy or torch); clipped to [0, 1].
        fps: pictures per second; None if unknown, and readers do not check it.

    Raises:
        UserError: the frames or the rate are invalid, or the path cannot be written.
    """
    folder = Path(folder)
    linear = _linear_frames(frames, str(folder))
    rate = None if fps is None else float(_to_fraction(fps))
    write_folder(folder, linear, {"fps": rate, "width": None, "height": None, "frames": None}, bits=8)


def write_picture(path: Path | str, picture: Any) -> None:
    """Write an 8-bit sRGB PNG picture.

    Args:
        path: file to write, ending in ``.png``.
        picture: [H, W, 3] linear colour (numpy or torch); clipped to [0, 1].

    Raises:
        UserError: the picture is invalid, or the path cannot be written.
    """
    (linear,) = _linear_frames(picture[None], str(path))
    with atomic_replacement(path) as temporary:
        temporary.write_bytes(png_bytes(encode_picture(linear, 8)))


@checked
def read_video(
    path: Path | str,
    *,
    fps: Rate | None = None,
    size: Annotated[tuple[int, int], Rule(shape=(2,), exact=True, integer=True, minimum=1)] | None = None,
    frames: Count | None = None,
) -> np.ndarray:
    """Read a video file, or a folder of PNG or JPEG pictures, as linear colour, and check its rate, size and length.

    Frames are converted as players show them (``read_film``, which also returns their times). A folder's pictures are read in
    the natural order of their names. The rate of a folder without ``video.json`` is unknown and not checked; with
    ``"curve": "linear"`` in ``video.json``, the pictures are linear instead of sRGB (as masks of path-traced films).

    Args:
        path: the file or folder.
        fps: required pictures per second (relative tolerance 1e-4), without gaps among the required frames; None for any.
        size: required (height, width) in pixels, after rotation and conversion to square pixels; None for any.
        frames: number of frames to read, from the first; None for all.

    Returns:
        float32 [T, H, W, 3], linear colour in [0, 1], row 0 at the top.

    Raises:
        UserError: the video has another size or rate, is too short, or its frames are not equally spaced; or see ``read_film``.
    """
    film = open_film(path)
    facts, whole = film.facts, film.full_placement
    facts.check_readable()
    if size is not None and (whole.height, whole.width) != tuple(size):
        raise UserError(
            f"{path} is {whole.width}x{whole.height} pixels, and {size[1]}x{size[0]} are needed: "
            "scale the video, or change the camera's size"
        )
    if fps is not None and facts.clock is not None:
        facts.clock.check_rate(facts.path, float(fps), frames)
    if frames is not None and facts.frames < frames:
        raise UserError(
            f"video {path} has {facts.frames} frames, and the scene needs {frames}: give a longer video, or simulate fewer frames"
        )
    return read_frames(film, range(facts.frames if frames is None else frames), whole).pictures


def _linear_frames(frames: Any, name: str) -> np.ndarray:
    """Linear frames of any container as floats [T, H, W, 3]."""
    if hasattr(frames, "detach"):
        frames = frames.detach().cpu().numpy()
    linear = np.asarray(frames)
    if linear.ndim != 4 or linear.shape[-1] != 3 or 0 in linear.shape:
        raise UserError(f"frames for {name} have shape {linear.shape}: [frames, height, width, 3] is needed")
    if not np.issubdtype(linear.dtype, np.floating):
        raise UserError(f"frames for {name} are {linear.dtype}: linear colour as floats in [0, 1] is needed")
    for index, picture in enumerate(linear):
        if not np.isfinite(picture).all():
            raise UserError(
                f"frame {index} for {name} holds numbers that are not finite: look at the simulation or the picture that made it"
            )
    return linear


def _check_even(linear: np.ndarray, name: str) -> None:
    """Refuse pictures that H.264 cannot store: colours of half the resolution need even sides."""
    _, height, width, _ = linear.shape
    if height % 2 or width % 2:
        raise UserError(
            f"{name} cannot hold frames of {width}x{height} pixels: H.264 needs an even width and height, "
            "so change the camera's size or write a folder of PNG frames"
        )


def _encode(container: Any, linear: np.ndarray, *, fps: float | Fraction, crf: float) -> None:
    """Encode pictures [T, H, W, 3] into a PyAV container that is open for writing."""
    rate, (_, height, width, _) = _to_fraction(fps), linear.shape
    stream = container.add_stream("libx264", rate=rate, options=_encoder_options(crf))
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    _tag_colours(stream.codec_context)
    filter_graph = _yuv420p_filter_graph(width, height, rate)
    for index, picture in enumerate(linear):
        container.mux(stream.encode(_encodable_frame(filter_graph, encode_picture(picture, 8), index, rate)))
    container.mux(stream.encode())


def _to_fraction(fps: float | Fraction) -> Fraction:
    """A frame rate as the fraction that containers store."""
    return Fraction(fps).limit_denominator(100_000)


def _tag_colours(codec: Any) -> None:
    """Tag the file with its colour space; without tags, players guess it from the picture's size."""
    codec.colorspace = codec.color_primaries = _BT709
    codec.color_trc = _SRGB_CURVE
    codec.color_range = _LIMITED_RANGE


def _encoder_options(crf: float) -> dict[str, str]:
    """Options of libx264 for reproducible files: the same pictures give the same bytes on every machine.

    By default the number of threads depends on the number of cores, and the encoder's choices depend on the number of threads.
    The AVX-512 code of its macroblock tree reads uninitialised memory for many sizes of small pictures: of 1,500 encodings of
    one film of 80 by 80 pixels, 641 differed; without that tree, or with AVX2, none.
    """
    instructions = ":asm=AVX2" if torch.backends.cpu.get_cpu_capability() == "AVX512" else ""
    return {"crf": str(crf), "x264-params": f"threads=3{instructions}"}


def _yuv420p_filter_graph(width: int, height: int, rate: Fraction) -> Any:
    """Filter graph from sRGB pictures to yuv420p, limited range, matrix BT.709.

    The chroma sample location is type 0 of H.273 (left column, midway between two rows), which readers of H.264 assume. The
    default of swscale is the centre, which would shift colours by half a pixel relative to the luma.
    """
    import av

    filter_graph = av.filter.Graph()
    source = filter_graph.add_buffer(width=width, height=height, format="rgb24", time_base=1 / rate)
    scale_filter = filter_graph.add(
        "scale",
        "flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp:out_color_matrix=bt709:in_range=full:out_range=limited:"
        "out_chroma_loc=left",
    )
    format_filter, sink = filter_graph.add("format", "pix_fmts=yuv420p"), filter_graph.add("buffersink")
    source.link_to(scale_filter)
    scale_filter.link_to(format_filter)
    format_filter.link_to(sink)
    filter_graph.configure()
    return filter_graph


def _encodable_frame(filter_graph: Any, picture: np.ndarray, index: int, rate: Fraction) -> Any:
    """One uint8 sRGB picture [H, W, 3] as a frame that ``_yuv420p_filter_graph`` makes, with its time."""
    import av

    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    frame.pts, frame.time_base = index, 1 / rate
    filter_graph.push(frame)
    converted = filter_graph.pull()
    converted.pts, converted.time_base = index, 1 / rate
    return converted
