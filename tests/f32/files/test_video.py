"""Videos survive the way to a file and back, and every wrong one is refused with a sentence that says why."""

import json
import os
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.files.video import compress_and_decode, read_video, write_frames, write_picture, write_video
from risp_torch.risp.photoreal import write_photoreal_frames
from risp_torch.scene.pictures import read_picture
from ti_sim.base.errors import UserError


def flat_colours() -> np.ndarray:
    """One flat frame for every corner of the colour cube and some random colours; float32 [40, 32, 48, 3] linear."""
    corners = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1]), axis=-1).reshape(-1, 3)
    colours = np.concatenate([corners, np.random.default_rng(0).uniform(size=(32, 3))])
    srgb = np.round(colours * 255) / 255
    return np.broadcast_to(srgb_to_linear(srgb)[:, None, None], (40, 32, 48, 3)).astype(np.float32)


def moving_ball(frames=12, height=48, width=64) -> np.ndarray:
    """A smooth blob that moves over a colour gradient; float32 [T, H, W, 3] linear."""
    y, x = np.mgrid[:height, :width] / height
    blobs = [np.exp(-((x - 0.3 - 0.05 * t) ** 2 + (y - 0.5) ** 2) / 0.02) for t in range(frames)]
    ground = np.stack([0.2 + 0.3 * x, 0.3 * y, 0.4 - 0.2 * y], axis=-1)
    return np.clip(np.stack([ground + b[..., None] * [0.5, 0.4, 0.1] for b in blobs]), 0, 1).astype(np.float32)


def cut(path, *, keep: float):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


def write_streamable(path, frames):
    """The same video with its header in front, so that a cut file can still be opened."""
    write_video(path, frames, fps=20, crf=1)
    with av.open(str(path)) as source, av.open(str(path) + ".mp4", "w", options={"movflags": "faststart"}) as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    os.replace(str(path) + ".mp4", path)


@pytest.mark.parametrize("crf", [8, 33])
def test_compression_without_a_file_gives_the_pictures_and_the_size_of_the_file(crf, tmp_path):
    film, path = moving_ball(), tmp_path / "ball.mp4"
    write_video(path, film, fps=20, crf=crf)
    pictures, bytes_per_frame = compress_and_decode(film, fps=20, crf=crf)
    np.testing.assert_array_equal(pictures, read_video(path))
    with av.open(str(path)) as container:
        sizes = [packet.size for packet in container.demux(video=0) if packet.size]
    assert len(sizes) == len(film) and bytes_per_frame == sum(sizes) / len(sizes)


def test_srgb_curve_is_the_exact_one_and_its_own_inverse():
    x = np.linspace(-0.1, 1.2, 1001)
    np.testing.assert_allclose(srgb_to_linear(linear_to_srgb(x)), x, atol=1e-7)
    np.testing.assert_allclose(linear_to_srgb(np.array([0.0, 0.5, 1.0])), [0.0, 0.7353570, 1.0], atol=1e-6)
    np.testing.assert_allclose(linear_to_srgb(np.array(0.001)), 0.01292)
    assert linear_to_srgb(np.float32([0.3])).dtype == srgb_to_linear(np.float32([0.3])).dtype == np.float32


def test_flat_colours_come_back_within_two_of_255(tmp_path):
    frames = flat_colours()
    write_video(tmp_path / "v.mp4", frames, fps=30, crf=1)
    back = read_video(tmp_path / "v.mp4", fps=30, size=(32, 48), frames=40)
    assert back.dtype == np.float32 and back.shape == frames.shape
    assert np.abs(linear_to_srgb(back) - linear_to_srgb(frames)).max() * 255 < 2.01


def test_default_quality_keeps_a_smooth_scene(tmp_path):
    frames = moving_ball()
    write_video(tmp_path / "v.mp4", torch.tensor(frames), fps=30)
    error = np.abs(linear_to_srgb(read_video(tmp_path / "v.mp4")) - linear_to_srgb(frames)) * 255
    assert error.mean() < 1.5


def test_the_same_pictures_give_the_same_bytes(tmp_path):
    """Whatever lies in memory that the encoder has not written to: 43 % of the films of 80 pixels were others."""
    frames, generator, seen = moving_ball(5, 80, 80), np.random.default_rng(0), set()
    for _ in range(40):
        leftovers = [generator.random(generator.integers(1, 10**5), dtype=np.float32) for _ in range(20)]
        del leftovers[::2]
        write_video(tmp_path / "v.mp4", frames, fps=200, crf=8)
        seen.add((tmp_path / "v.mp4").read_bytes())
    assert len(seen) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind threads to cores")
def test_bytes_do_not_depend_on_the_number_of_cores(tmp_path):
    """The encoder counts the cores that it may run on. 144 rows have two threads at most, 112 one."""
    frames, cores = moving_ball(20, 144, 192), os.sched_getaffinity(0)
    write_video(tmp_path / "several.mp4", frames, fps=30)
    os.sched_setaffinity(0, {min(cores)})
    try:
        write_video(tmp_path / "one.mp4", frames, fps=30)
    finally:
        os.sched_setaffinity(0, cores)
    assert b" threads=2 " in (tmp_path / "one.mp4").read_bytes()  # as it notes in the film
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "several.mp4").read_bytes()


@pytest.mark.parametrize("fps", [200, 29.97, Fraction(30000, 1001), 1, 1000, 12.5])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_rate_and_length_survive(tmp_path, fps, count):
    write_video(tmp_path / "v.mp4", moving_ball(count), fps=fps)
    assert len(read_video(tmp_path / "v.mp4", fps=fps, frames=count)) == count


def test_file_says_how_its_colours_are_coded(tmp_path):
    write_video(tmp_path / "v.mp4", moving_ball(2), fps=30)
    with av.open(str(tmp_path / "v.mp4")) as container:
        codec = container.streams.video[0].codec_context
        assert (codec.name, codec.pix_fmt) == ("h264", "yuv420p")
        assert (codec.colorspace, codec.color_primaries, codec.color_trc, codec.color_range) == (1, 1, 13, 1)


def test_only_the_first_frames_are_taken(tmp_path):
    frames = moving_ball(9)
    write_video(tmp_path / "v.mp4", frames, fps=30, crf=1)
    write_frames(tmp_path / "v", frames, fps=30)
    for path in (tmp_path / "v.mp4", tmp_path / "v"):
        np.testing.assert_array_equal(read_video(path, frames=4), read_video(path)[:4])


def test_png_frames_come_back_within_half_a_step(tmp_path):
    frames = moving_ball(3)
    write_frames(tmp_path / "v", frames, fps=200)
    back = read_video(tmp_path / "v", fps=200, size=(48, 64), frames=3)
    assert np.abs(linear_to_srgb(back) - linear_to_srgb(frames)).max() * 255 < 0.501
    assert json.loads((tmp_path / "v" / "video.json").read_text()) == dict(fps=200.0, width=64, height=48, frames=3)
    assert sorted(p.name for p in (tmp_path / "v").glob("*.png")) == ["00000.png", "00001.png", "00002.png"]


def test_folder_written_again_holds_the_new_video_only(tmp_path):
    write_frames(tmp_path / "v", moving_ball(5), fps=30)
    write_frames(tmp_path / "v", moving_ball(2))
    assert len(read_video(tmp_path / "v", fps=77)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_plain_folder_of_pictures_has_no_rate_and_counts_like_people(tmp_path):
    for number in (10, 11, 9):
        Image.new("RGB", (6, 4), (number, 0, 0)).save(tmp_path / f"frame_{number}.png")
    frames = read_video(tmp_path, fps=123)
    assert (np.round(linear_to_srgb(frames[:, 0, 0, 0]) * 255) == [9, 10, 11]).all()


def test_failed_write_leaves_the_old_video(tmp_path, monkeypatch):
    path = tmp_path / "v.mp4"
    write_video(path, moving_ball(3), fps=30)
    before = path.read_bytes()
    monkeypatch.setattr("risp_torch.files.video._encodable_frame", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_video(path, moving_ball(4), fps=30)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        (moving_ball(2, 47, 64), {}, "frames of 64x47 pixels: H.264 needs an even width and height"),
        (moving_ball(2)[0], {}, r"shape \(48, 64, 3\): \[frames, height, width, 3\] is needed"),
        (np.zeros((0, 4, 4, 3)), {}, r"shape \(0, 4, 4, 3\)"),
        (np.zeros((2, 4, 4, 3), dtype=np.uint8), {}, "are uint8: linear colour as floats"),
        (np.array([0.0, np.nan]).repeat(48).reshape(2, 4, 4, 3), {}, "frame 1 for .* not finite"),
        (moving_ball(2), {"fps": 0}, "fps is 0: give a finite number above zero"),
    ],
)
def test_frames_that_cannot_be_written(tmp_path, frames, options, message):
    with pytest.raises(UserError, match=message):
        write_video(tmp_path / "v.mp4", frames, **{"fps": 30, **options})
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(UserError, match="not an .mp4 file: give the video a name that ends in .mp4"):
        write_video(tmp_path / "v.avi", moving_ball(2), fps=30)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written .*: choose another place"):
        write_video(tmp_path / "file" / "v.mp4", moving_ball(2), fps=30)
    with pytest.raises(UserError, match="already holds files that are not a video"):
        write_frames(tmp_path, moving_ball(2))
    (tmp_path / "v.mp4").mkdir()
    with pytest.raises(UserError, match="v.mp4 cannot be written .*: choose another place"):
        write_video(tmp_path / "v.mp4", moving_ball(2), fps=30)


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"size": (64, 48)}, "is 64x48 pixels, and 48x64 are needed: scale the video, or change the camera's size"),
        ({"fps": 25}, "has 30 frames per second, and the scene has 25: convert the video"),
        ({"fps": 30.04}, "has 30 frames per second, and the scene has 30.04"),
        ({"frames": 5}, "has 4 frames, and the scene needs 5: give a longer video, or simulate fewer frames"),
    ],
)
def test_video_that_does_not_fit_the_scene(tmp_path, kind, needs, message):
    if kind == "file":
        write_video(tmp_path / "v.mp4", moving_ball(4), fps=30)
    else:
        write_frames(tmp_path / "v.mp4", moving_ball(4), fps=30)
    with pytest.raises(UserError, match=message) as caught:
        read_video(tmp_path / "v.mp4", **needs)
    assert "v.mp4" in str(caught.value)


def test_rate_within_a_ten_thousandth_fits(tmp_path):
    """29.97 pictures per second are not 30."""
    write_video(tmp_path / "v.mp4", moving_ball(4), fps=30)
    assert len(read_video(tmp_path / "v.mp4", fps=30.002)) == 4
    with pytest.raises(UserError, match="has 30 frames per second, and the scene has 29.97"):
        read_video(tmp_path / "v.mp4", fps=30_000 / 1001)


def test_missing_video(tmp_path):
    with pytest.raises(UserError, match="no.mp4 does not exist: check the path"):
        read_video(tmp_path / "no.mp4")


def test_file_that_is_no_video(tmp_path):
    for name, content in (("empty.mp4", b""), ("text.mp4", b"not a video at all\n" * 50)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name} is damaged, cut short or of an unknown kind .*copy or export"):
            read_video(tmp_path / name)


def test_sound_without_pictures(tmp_path):
    with av.open(str(tmp_path / "a.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), dtype=np.int16), format="s16", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
    with pytest.raises(UserError, match="a.wav holds no video: give a video file or a folder of PNG frames"):
        read_video(tmp_path / "a.wav")


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_file_cut_before_its_header(tmp_path, keep):
    write_video(tmp_path / "v.mp4", moving_ball(20), fps=20)
    cut(tmp_path / "v.mp4", keep=keep)
    with pytest.raises(UserError, match="v.mp4 is damaged, cut short or of an unknown kind"):
        read_video(tmp_path / "v.mp4")


@pytest.mark.parametrize("needed", [None, 2])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.99])
def test_file_cut_after_its_header(tmp_path, keep, needed):
    write_streamable(tmp_path / "v.mp4", moving_ball(20))
    assert len(read_video(tmp_path / "v.mp4", fps=20, frames=20)) == 20
    cut(tmp_path / "v.mp4", keep=keep)
    with pytest.raises(UserError, match="v.mp4 is (cut short: .* of the 20 frames|damaged).* copy or export it again"):
        read_video(tmp_path / "v.mp4", frames=needed)


def test_damaged_folders(tmp_path):
    folder = tmp_path / "v"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no PNG or JPEG picture"):
        read_video(tmp_path / "empty")

    write_frames(folder, moving_ball(3), fps=30)
    cut(folder / "00001.png", keep=0.5)
    with pytest.raises(UserError, match="picture .*00001.png cannot be read .*: copy it again"):
        read_video(folder)
    (folder / "00001.png").write_bytes(b"")
    with pytest.raises(UserError, match="picture .*00001.png cannot be read .*: copy it again"):
        read_video(folder)
    Image.new("RGB", (64, 40)).save(folder / "00001.png")
    with pytest.raises(UserError, match="00001.png is 64x40 pixels, and 64x48 are needed"):
        read_video(folder)
    (folder / "00001.png").unlink()
    with pytest.raises(UserError, match="is cut short: 2 of the 3 frames"):
        read_video(folder)
    for text in ("{", "[1]", '{"fps": "fast"}'):
        (folder / "video.json").write_text(text)
        with pytest.raises(UserError, match="video.json is not a description of a video"):
            read_video(folder)


@pytest.mark.parametrize("limit", [2000, 1000])  # pillow warns above it, and refuses above twice as much
def test_pictures_with_far_too_many_pixels(tmp_path, monkeypatch, limit):
    write_frames(tmp_path / "v", moving_ball(1), fps=30)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(UserError, match="00000.png has more than 0 million pixels: scale it down"):
        read_video(tmp_path / "v")
    with pytest.raises(UserError, match="^background: picture .*00000.png has more than"):
        read_picture(tmp_path / "v" / "00000.png", "background")


def test_films_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    write_frames(tmp_path / "v", moving_ball(3), fps=30)
    write_video(tmp_path / "v.mp4", moving_ball(3), fps=30)
    monkeypatch.setattr("risp_torch.files.memory.available_bytes", lambda: 100_000)
    for name in ("v", "v.mp4"):
        with pytest.raises(UserError, match="^reading 3 frames of 64 x 48 pixels of .* would take about 221 kB of memory, and 1"):
            read_video(tmp_path / name)
        assert len(read_video(tmp_path / name, frames=1)) == 1


def test_sixteen_bits_of_grey_keep_their_brightness(tmp_path):
    grey = np.linspace(0, 65535, 48 * 64).reshape(48, 64)
    Image.fromarray(grey.astype(np.uint16)).save(tmp_path / "0.png")
    np.testing.assert_allclose(linear_to_srgb(read_video(tmp_path))[0, ..., 1], grey / 65535, atol=1.01 / 65535)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("a_00.png", "a_01.png", "a_03.png"), "picture 2, between a_01.png and a_03.png"),
        (("0.png", "10.png", "20.png", "40.png"), "picture 30, between 20.png and 40.png"),
        (("x2_7.jpg", "x2_8.jpg", "x2_10.jpg"), "picture 9, between"),
    ],
)
def test_a_gap_in_a_folder(tmp_path, names, missing):
    for name in names:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    with pytest.raises(UserError, match=f"lacks {missing}.*without a gap"):
        read_video(tmp_path)
    assert len(read_video(tmp_path, frames=2)) == 2


@pytest.mark.parametrize(
    "names", [("1.png",), ("0.png", "2.png", "4.png"), ("17.033.png", "17.067.png", "17.100.png"), ("a.png", "b.png", "d.png")]
)
def test_numbers_that_have_no_gap(tmp_path, names):
    for name in names:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    assert len(read_video(tmp_path)) == len(names)


def test_folders_of_jpeg_pictures(tmp_path):
    frames = moving_ball(3)
    pictures = [Image.fromarray(np.round(255 * linear_to_srgb(frame)).astype(np.uint8)) for frame in frames]
    for k, picture in enumerate(pictures):
        picture.save(tmp_path / f"{k}.JPG", quality=95)
    np.testing.assert_allclose(read_video(tmp_path), frames, atol=0.05)
    turned = pictures[1].getexif()
    turned[274] = 3  # EXIF orientation: half a turn
    pictures[1].rotate(180).save(tmp_path / "1.JPG", quality=95, exif=turned)
    np.testing.assert_allclose(read_video(tmp_path), frames, atol=0.05)
    pictures[0].save(tmp_path / "3.png")
    with pytest.raises(UserError, match="holds JPEG and PNG pictures"):
        read_video(tmp_path)


@pytest.mark.parametrize("name", ["n" * 300 + ".png", "here/" * 2000 + "v.png"])
def test_names_that_are_too_long(tmp_path, name):
    with pytest.raises(UserError, match="cannot be written .File name too long.: choose another place"):
        write_picture(tmp_path / name, moving_ball(1)[0])
    with pytest.raises(UserError, match="does not exist: check the path"):
        read_video(tmp_path / name)
    with pytest.raises(UserError, match="cannot be read|does not exist"):
        read_picture(tmp_path / name, "texture")


def test_masks_of_path_traced_films_come_back_as_the_shares_that_they_are(tmp_path):
    share = np.linspace(0, 1, 6 * 8).reshape(6, 8)
    picture = SimpleNamespace(color=np.full((6, 8, 3), 0.5), masks={"ball": share})
    film = FilmOf([picture] * 2, bodies=["ball"], settings=SimpleNamespace(height=6, width=8))
    assert write_photoreal_frames(tmp_path, film, fps=30) == 2
    read = read_video(tmp_path / "masks" / "ball", fps=30, frames=2)
    np.testing.assert_allclose(read, np.broadcast_to(share[..., None], (2, 6, 8, 3)), atol=0.51 / 255)
    np.testing.assert_allclose(read_video(tmp_path / "frames", fps=30), np.full((2, 6, 8, 3), 0.5), atol=0.01)


class FilmOf:
    """Finished pictures in place of a film that would render them."""

    def __init__(self, pictures, **about):
        self.pictures = pictures
        vars(self).update(about)

    def __len__(self):
        return len(self.pictures)

    def picture(self, image, *, masks):
        return self.pictures[image]


@pytest.mark.parametrize("axis", [0, 1])
def test_colours_stay_where_they_are(tmp_path, axis):
    """A step of colour alone is read where it was written, to .12 of a pixel by rounding; misplaced chroma moves it by .5."""
    step = 1 / (1 + np.exp(-(np.arange(64) - 30.3) / 1.5))
    line = np.array([0.5, 0.2, 0.2]) + step[:, None] * np.array([-0.4, 0.1, 0.4])
    picture = np.broadcast_to(line[:, None] if axis == 0 else line[None], (64, 64, 3))
    write_video(tmp_path / "v.mp4", np.repeat(picture[None], 3, axis=0), fps=30, crf=0)
    change = (read_video(tmp_path / "v.mp4")[1] - picture).mean(axis=1 - axis)
    slopes = np.gradient(line, axis=0)
    moved = -(change * slopes).sum(axis=0) / (slopes * slopes).sum(axis=0)
    assert np.abs(moved).max() < 0.2, moved
