"""Videos in and out: H.264 files, folders of pictures, and the sRGB curve between a file and linear colour.

The engine works in linear colour in [0, 1]; a file holds sRGB. Sources: IEC 61966-2-1 (sRGB), ITU-R BT.709 (the
luma/chroma matrix of the files, limited range), ITU-T H.273 (code points of colour).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from risp_torch.files.atomic import replacing
from risp_torch.files.memory import check_memory
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

__all__ = [
    "linear_to_srgb", "opened_picture", "read_video", "srgb_to_linear", "write_frames", "write_picture", "write_video",
]  # fmt: skip

Rate = Annotated[float | Fraction, Rule(above=0)]  # pictures per second
Quality = Annotated[float, Rule(least=0, most=51)]  # constant rate factor of H.264
# Beside the pictures of a folder: {fps, width, height, frames}, and {"curve": "linear"} where they hold no sRGB.
DESCRIPTION, LINEAR = "video.json", "linear"
_RATE_TOLERANCE = 1e-3
# Code points of ITU-T H.273: matrix and primaries BT.709, the sRGB curve, limited ("studio") range.
_BT709, _SRGB_CURVE, _LIMITED_RANGE = 1, 13, 1
# Transfer characteristics and primaries that cannot be taken for sRGB.
_CURVES = {8: "linear light", 9: "a logarithm of light", 10: "a logarithm of light", 16: "HDR (PQ)", 18: "HDR (HLG)"}
_WIDE_GAMUTS = {9: "the wide gamut of BT.2020"}
_KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_READ_BYTES = 3 + 4 * 3 + 4 * 3  # of a pixel while a film is read: bytes, their colours, and a copy for the engine


def linear_to_srgb(linear: np.ndarray) -> np.ndarray:
    """Encode linear colour as sRGB, with the exact piecewise curve of IEC 61966-2-1.

    Args:
        linear: linear colour, any shape; [0, 1] is the range of a display, values outside are not clipped.

    Returns:
        sRGB of the same shape and float type, [0, 1] for [0, 1].
    """
    linear = np.asarray(linear)
    curve = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, curve)


def srgb_to_linear(srgb: np.ndarray) -> np.ndarray:
    """Decode sRGB to linear colour, with the exact piecewise curve of IEC 61966-2-1.

    Args:
        srgb: sRGB colour, any shape; values outside [0, 1] are not clipped.

    Returns:
        Linear colour of the same shape and float type, [0, 1] for [0, 1].
    """
    srgb = np.asarray(srgb)
    curve = ((np.maximum(srgb, 0.04045) + 0.055) / 1.055) ** 2.4
    return np.where(srgb <= 0.04045, srgb / 12.92, curve)


@checked
def write_video(path: Path | str, frames: Any, *, fps: Rate, crf: Quality = 18) -> None:
    """Write an H.264 file (mp4, yuv420p, BT.709 limited range, tagged so) that any player shows in the right colours.

    The file appears whole or not at all. yuv420p halves the resolution of colour: write targets that must be exact
    with ``write_frames``.

    Args:
        path: file to write, ending in ``.mp4``; an existing file is replaced.
        frames: [T, H, W, 3] linear colour (numpy or torch); clipped to [0, 1]. H and W even.
        fps: pictures per second, any positive rate.
        crf: constant rate factor of the encoder: 0 best, 18 hardly visible loss, 51 worst.

    Raises:
        UserError: the frames, the rate or the place cannot be used.
    """
    import av

    path = Path(path)
    pictures = _to_bytes(frames, str(path))
    rate = _rate(fps)
    _, height, width, _ = pictures.shape
    if path.suffix.lower() != ".mp4":
        raise UserError(f"{path} is not an .mp4 file: give the video a name that ends in .mp4")
    if height % 2 or width % 2:
        raise UserError(
            f"{path} cannot hold frames of {width}x{height} pixels: H.264 needs an even width and height, "
            "so change the camera's size or write a folder of PNG frames"
        )
    with replacing(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options=_encoder_options(crf))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        _tag_colours(stream.codec_context)
        for index, picture in enumerate(pictures):
            container.mux(stream.encode(_encodable_frame(picture, index, rate)))
        container.mux(stream.encode())


@checked
def write_frames(folder: Path | str, frames: Any, *, fps: Rate | None = None) -> None:
    """Write a folder of 8-bit sRGB PNG pictures ``00000.png ...`` and ``video.json`` {fps, width, height, frames}.

    The folder appears whole or not at all.

    Args:
        folder: folder to write; an existing one is replaced if it is empty or holds a video written by this function.
        frames: [T, H, W, 3] linear colour (numpy or torch); clipped to [0, 1].
        fps: pictures per second; None leaves the rate open, and readers do not check it.

    Raises:
        UserError: the frames, the rate or the place cannot be used.
    """
    from PIL import Image

    folder = Path(folder)
    pictures = _to_bytes(frames, str(folder))
    rate = None if fps is None else float(_rate(fps))
    count, height, width, _ = pictures.shape
    if folder.is_dir() and any(folder.iterdir()) and not (folder / DESCRIPTION).is_file():
        raise UserError(f"{folder} already holds files that are not a video: choose an empty or a new folder")
    with replacing(folder) as temporary:
        temporary.mkdir()
        for index, picture in enumerate(pictures):
            Image.fromarray(picture).save(temporary / f"{index:05d}.png")
        description = {"fps": rate, "width": width, "height": height, "frames": count}
        (temporary / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        if folder.is_dir():
            shutil.rmtree(folder)


def write_picture(path: Path | str, picture: Any) -> None:
    """Write an 8-bit sRGB PNG picture.

    Args:
        path: file to write, ending in ``.png``.
        picture: [H, W, 3] linear colour (numpy or torch); clipped to [0, 1].

    Raises:
        UserError: the picture or the place cannot be used.
    """
    from PIL import Image

    pictures = _to_bytes(picture[None], str(path))
    with replacing(path) as temporary:
        Image.fromarray(pictures[0]).save(temporary, format="PNG")


@checked
def read_video(
    path: Path | str,
    *,
    fps: Rate | None = None,
    size: Annotated[tuple[int, int], Rule(shape=(2,), exact=True, whole=True, least=1)] | None = None,
    frames: Count | None = None,
) -> np.ndarray:
    """Read a video file, or a folder of PNG or JPEG pictures, as linear colour, and check it against what a scene needs.

    A folder's pictures are taken in the order of their names (numbers in names count as numbers). A folder without
    ``video.json`` has no frame rate, and none is checked; one that says ``"curve": "linear"`` holds no sRGB (masks of path-traced
    films do). Pictures of 16 bits are read with the precision of 8.

    Args:
        path: the file or folder.
        fps: pictures per second that the video must have (to one in a thousand); None takes any.
        size: (height, width) in pixels that it must have; None takes any.
        frames: how many frames are needed; a longer video gives its first ones, None gives all.

    Returns:
        float32 [T, H, W, 3], linear colour in [0, 1], row 0 at the top.

    Raises:
        UserError: the video is missing, unreadable, cut short, or of another size, rate or length; its colours are of a high
            dynamic range; a picture is missing between others; it does not fit into memory.
    """
    path = Path(path)
    if path.suffix.lower() in (".npz", ".npy", ".csv"):
        raise UserError(f"{path} holds numbers and no pictures: states are compared with --loss state --states {path}")
    if not os.path.exists(path):
        raise UserError(f"video {path} does not exist: check the path")
    pictures = _read_folder(path, fps, size, frames) if path.is_dir() else _read_file(path, fps, size, frames)
    if frames is not None and len(pictures) < frames:
        raise UserError(
            f"video {path} has {len(pictures)} frames, and the scene needs {frames}: "
            "give a longer video, or simulate fewer frames"
        )
    # A byte has 256 values, so the curve is a table.
    levels = np.arange(256) / 255.0
    linear = path.is_dir() and _description(path).get("curve") == LINEAR
    return (levels if linear else srgb_to_linear(levels)).astype(np.float32)[pictures]


def _to_bytes(frames: Any, name: str) -> np.ndarray:
    """Linear frames of any container as uint8 sRGB [T, H, W, 3]."""
    if hasattr(frames, "detach"):
        frames = frames.detach().cpu().numpy()
    linear = np.asarray(frames)
    if linear.ndim != 4 or linear.shape[-1] != 3 or 0 in linear.shape:
        raise UserError(f"frames for {name} have shape {linear.shape}: [frames, height, width, 3] is needed")
    if not np.issubdtype(linear.dtype, np.floating):
        raise UserError(f"frames for {name} are {linear.dtype}: linear colour as floats in [0, 1] is needed")
    pictures = np.empty(linear.shape, dtype=np.uint8)
    for index, picture in enumerate(linear):  # one by one: what is in between takes many times the memory of the bytes
        if not np.isfinite(picture).all():
            raise UserError(
                f"frame {index} for {name} holds numbers that are not finite: look at the simulation or the picture that made it"
            )
        pictures[index] = np.round(linear_to_srgb(np.clip(picture, 0.0, 1.0)) * 255.0)
    return pictures


def _rate(fps: float | Fraction) -> Fraction:
    """A frame rate as the fraction that containers store."""
    return Fraction(fps).limit_denominator(100_000)


def _tag_colours(codec: Any) -> None:
    """Say in the file how its numbers become colours; players guess by the picture's size otherwise."""
    codec.colorspace = codec.color_primaries = _BT709
    codec.color_trc = _SRGB_CURVE
    codec.color_range = _LIMITED_RANGE


def _interpolation() -> Any:
    """swscale's exact arithmetic: its fast default is off by up to 3/255 on a flat colour."""
    from av.video.reformatter import Interpolation

    exact = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP
    return Interpolation.BILINEAR | exact


def _encoder_options(crf: float) -> dict[str, str]:
    """Options of libx264 with which the same pictures give the same bytes.

    The AVX-512 code of its macroblock tree reads memory that nothing has written at many sizes of small pictures: one
    film of 80 by 80 pixels, encoded 1,500 times, came out with other bytes 641 times; without that tree, or with AVX2, never.
    """
    return {"crf": str(crf)} | ({"x264-params": "asm=AVX2"} if torch.backends.cpu.get_cpu_capability() == "AVX512" else {})


def _encodable_frame(picture: np.ndarray, index: int, rate: Fraction) -> Any:
    """One uint8 sRGB picture [H, W, 3] as a yuv420p BT.709 frame with its time."""
    import av

    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(
        format="yuv420p",
        dst_colorspace="ITU709",
        src_color_range="JPEG",
        dst_color_range="MPEG",
        interpolation=_interpolation(),
    )
    frame.pts, frame.time_base = index, 1 / rate
    return frame


def _read_file(
    path: Path, fps: float | Fraction | None, size: tuple[int, int] | None, frames: int | None
) -> np.ndarray:
    """The first ``frames`` pictures of a video file, uint8 sRGB [T, H, W, 3]."""
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise UserError(
                    f"{path} holds no video: give a video file or a folder of PNG frames (or copy it again, if it was cut short)"
                )
            stream = container.streams.video[0]
            _check_colours(path, stream.codec_context)
            _check_size(path, (stream.height, stream.width), size)
            _check_rate(path, stream.average_rate, fps)
            _check_length(path, (stream.height, stream.width), min(frames or stream.frames, stream.frames or frames or 1))
            pictures = list(_decoded(container, stream, path, frames))
    except (av.FFmpegError, OSError) as error:
        raise UserError(
            f"video {path} is damaged, cut short or of an unknown kind ({error.strerror}): copy or export it again"
        ) from error
    if not pictures:
        raise UserError(f"video {path} holds no frame: copy or export it again")
    return np.stack(pictures)


def _decoded(container: Any, stream: Any, path: Path, wanted: int | None) -> Iterator[np.ndarray]:
    """Decode the wanted frames; the rest of the file is only counted, to notice that it was cut."""
    interpolation = _interpolation()
    given = packets = 0
    stream.thread_type = "AUTO"
    for packet in container.demux(stream):
        packets += packet.size > 0
        if packet.is_corrupt:
            raise UserError(_cut_short(path, packets - 1, stream.frames))
        if wanted is not None and given >= wanted:
            continue
        for frame in packet.decode():
            if frame.is_corrupt:
                raise UserError(f"video {path} is damaged at frame {given}: copy or export it again")
            if wanted is None or given < wanted:
                yield frame.reformat(format="rgb24", dst_color_range="JPEG", interpolation=interpolation).to_ndarray()
                given += 1
    if packets < stream.frames or (wanted is None and given < stream.frames):
        raise UserError(_cut_short(path, min(packets, given) if wanted is None else packets, stream.frames))


def _cut_short(path: Path, found: int, promised: int) -> str:
    return (
        f"video {path} is cut short: {found} of the {promised} frames it announces are there; copy or export it again"
    )


def _read_folder(
    folder: Path, fps: float | Fraction | None, size: tuple[int, int] | None, frames: int | None
) -> np.ndarray:
    """The first ``frames`` pictures of a folder, uint8 sRGB [T, H, W, 3]."""
    names = _pictures_of(folder)
    description = _description(folder)
    _check_rate(folder, description.get("fps"), fps)
    promised = description.get("frames") or 0
    if len(names) < promised:
        raise UserError(_cut_short(folder, len(names), promised))
    names = names[:frames]
    _check_numbers(folder, names)
    pictures: list[np.ndarray] = []
    for name in names:
        picture = _read_picture(name)
        _check_size(name, picture.shape[:2], size or (pictures[0].shape[:2] if pictures else None))
        if not pictures:
            _check_length(folder, picture.shape[:2], len(names))
        pictures.append(picture)
    return np.stack(pictures)


def _pictures_of(folder: Path) -> list[Path]:
    """The picture files of a folder, all of one kind, in the order of their names."""
    names = sorted((p for p in folder.iterdir() if p.suffix.lower() in _KINDS), key=_natural_order)
    kinds = sorted({_KINDS[name.suffix.lower()] for name in names})
    if not names:
        raise UserError(f"folder {folder} holds no PNG or JPEG picture: give a video file or a folder of numbered pictures")
    if len(kinds) > 1:
        raise UserError(f"folder {folder} holds {' and '.join(kinds)} pictures: leave only those of the film in it")
    return names


def numbered_pictures(folder: Path) -> list[Path]:
    """The picture files of a folder, in the order of their names (numbers in names count as numbers).

    Raises:
        UserError: there is none, there are several kinds, or one is missing between others.
    """
    names = _pictures_of(folder)
    _check_numbers(folder, names)
    return names


def _read_picture(path: Path) -> np.ndarray:
    """A picture file as uint8 sRGB [H, W, 3]."""
    from PIL import ImageOps

    def stored(image: Any) -> np.ndarray:
        if image.mode.startswith("I"):  # 16 bits of grey, which PIL's own conversion would cut off at 255
            grey = np.asarray(image, dtype=np.float64).clip(0, 65535) / 257.0
            return np.repeat(np.round(grey)[..., None], 3, axis=2).astype(np.uint8)
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))

    return opened_picture(path, f"picture {path}", stored)


def opened_picture(path: Path | str, name: str, read: Callable[[Any], np.ndarray]) -> np.ndarray:
    """What ``read`` makes of a picture file that pillow has opened.

    Args:
        path: the file.
        name: what errors call it.
        read: from pillow's picture to an array; reads all of it.

    Raises:
        UserError: the file does not exist, is damaged or no picture, or has more pixels than pillow takes for harmless
            (``PIL.Image.MAX_IMAGE_PIXELS``; a small file can hold that many).
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return read(image)
    except FileNotFoundError:
        raise UserError(f"{name} does not exist (looked for {Path(path).resolve()}): check the path") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(
            f"{name} has more than {Image.MAX_IMAGE_PIXELS / 1e6:.0f} million pixels: scale it down before it is read"
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(
            f"{name} cannot be read ({_first_line(error)}): copy it again, or save it again, for example as PNG"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _description(folder: Path) -> dict[str, Any]:
    """What ``video.json`` says; empty when there is none."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return {}
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        return {
            "fps": _optional_number(description.get("fps")), "frames": int(description.get("frames") or 0),
            "curve": description.get("curve"),
        }  # fmt: skip
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a description of a video: mend it, or remove it to read the pictures without a frame rate"
        ) from error


def _optional_number(value: Any) -> float | None:
    return None if value is None else float(value)


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """Sort key under which frame_2 comes before frame_10."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _check_numbers(folder: Path, names: Sequence[Path]) -> None:
    """Refuse numbered pictures of which one is missing.

    The names of a film differ in one number only, which grows in equal steps. Steps that are no multiples of the smallest one
    are other numbers, such as times.
    """
    parts = [[int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.stem)] for name in names]
    places = {k for row in parts if len(row) == len(parts[0]) for k, part in enumerate(row) if part != parts[0][k]}
    if len(places) != 1 or any(len(row) != len(parts[0]) for row in parts):
        return
    place = places.pop()
    numbers = [row[place] for row in parts]
    if not all(isinstance(number, int) for number in numbers):
        return
    steps = [later - sooner for sooner, later in zip(numbers, numbers[1:], strict=False)]
    least = min(steps)
    if least > 0 and all(step % least == 0 for step in steps):
        gap = next((k for k, step in enumerate(steps) if step > least), None)
        if gap is not None:
            raise UserError(
                f"folder {folder} lacks picture {numbers[gap] + least}, between {names[gap].name} and {names[gap + 1].name}: "
                "add it, or number the pictures without a gap"
            )


def _check_colours(path: Path, codec: Any) -> None:
    """Refuse a film whose numbers are not those of a display with the usual range of brightness and colour."""
    kind = _CURVES.get(codec.color_trc) or _WIDE_GAMUTS.get(codec.color_primaries)
    if kind is not None:
        raise UserError(
            f"video {path} is coded for {kind}, and sRGB or BT.709 is read: convert it to SDR, for example with ffmpeg's zscale "
            "and tonemap filters"
        )


def _check_length(path: Path, size: tuple[int, ...], frames: int) -> None:
    """Refuse a film that does not fit into memory."""
    height, width = size[:2]
    check_memory(
        _READ_BYTES * height * width * frames, f"reading {frames} frames of {width} x {height} pixels of {path}",
        "cut the film, or scale it down",
    )  # fmt: skip


def _check_size(path: Path, found: tuple[int, ...], wanted: tuple[int, int] | None) -> None:
    if wanted is not None and tuple(found) != tuple(wanted):
        raise UserError(
            f"{path} is {found[1]}x{found[0]} pixels, and {wanted[1]}x{wanted[0]} are needed: "
            "scale the video, or change the camera's size"
        )


def _check_rate(path: Path, found: float | Fraction | None, wanted: float | Fraction | None) -> None:
    if wanted is None or found is None:
        return
    if abs(float(found) / float(wanted) - 1.0) > _RATE_TOLERANCE:
        raise UserError(
            f"video {path} has {float(found):g} frames per second, and the scene has {float(wanted):g}: "
            "convert the video, or change the scene's frame time"
        )
