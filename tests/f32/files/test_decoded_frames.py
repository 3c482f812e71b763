"""Frames are those that decoders make: their times, what is left out at the ends, and names and titles of any kind."""

import os
import shutil
from fractions import Fraction

import av
import numpy as np
import pytest

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.cut import Cut
from risp_torch.files.film.film import film_facts, open_film, read_film
from risp_torch.files.film.write import write_film, write_part
from risp_torch.files.video import read_video, write_frames
from tests.reference import film_files as made
from ti_sim.base.errors import UserError


def moving(frame: int) -> np.ndarray:
    """A bright bar over noise, further right in each frame: uint8 [48, 64, 3]."""
    picture = np.random.default_rng(0).integers(30, 60, (48, 64, 3)).astype(np.uint8)
    picture[12:36, 1 + frame : 9 + frame] = 200
    return picture


def write(path, codec, frames, *, options=None, stamps=None, pixel_format="yuv420p", title=None):
    """A film of pictures ``moving`` at 30 frames per second."""
    with av.open(str(path), "w") as container:
        if title is not None:
            container.metadata["title"] = title
        stream = container.add_stream(codec, rate=30, options=options or {})
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixel_format
        stream.codec_context.time_base = Fraction(1, 30)
        for k, number in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(moving(number), format="rgb24").reformat(format=pixel_format)
            frame.time_base, frame.pts = Fraction(1, 30), k if stamps is None else stamps[k]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def shown_numbers(film) -> np.ndarray:
    """Which picture each frame shows, by the place of its bar."""
    profiles = film.pictures[:, 12:36].mean(axis=(1, 3))
    return np.array([np.convolve(profile, np.ones(8), "valid").argmax() - 1 for profile in profiles])


@pytest.mark.parametrize("bframes", [0, 2])
def test_a_recording_that_begins_within_a_group(tmp_path, bframes):
    """Packets before the first key frame make no picture; times are those of the pictures."""
    options = {"g": "12", "keyint_min": "12", "bf": str(bframes), "sc_threshold": "0", "crf": "12"}
    complete = write(tmp_path / "whole.ts", "libx264", range(36), options=options)
    with av.open(str(complete)) as container:
        begin = [packet.pos for packet in container.demux(video=0) if packet.size][4]
    path = tmp_path / "tv.ts"
    path.write_bytes(complete.read_bytes()[: 3 * 188] + complete.read_bytes()[begin:])  # after the tables of programmes
    with pytest.warns(UserWarning, match="tv.ts: .* at its beginning cannot be decoded"):
        film = read_film(path)
    whole = film_facts(complete)
    shown = shown_numbers(film)
    assert len(shown) <= 25 and np.array_equal(np.diff(shown), np.ones(len(shown) - 1))
    expected = whole.clock.start + whole.clock.times[shown]
    np.testing.assert_allclose(film.clock.start + film.times, expected, atol=1e-4)
    (sentence,) = film.facts.omissions
    assert "at its beginning cannot be decoded" in sentence and film.clock.is_even
    assert len(read_video(path, fps=30)) == len(shown)


def test_an_open_group_that_is_cut(tmp_path):
    """Leading pictures of the first key frame are coded from a group that is not there."""
    options = {"x265-params": "keyint=12:min-keyint=12:open-gop=1:bframes=4:b-adapt=0:scenecut=0:log-level=none:crf=12"}
    write(tmp_path / "all.mkv", "libx265", range(36), options=options)
    with av.open(str(tmp_path / "all.mkv")) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        first = [k for k, packet in enumerate(packets) if packet.is_keyframe][1]
        assert min(packet.pts for packet in packets[first:]) < packets[first].pts  # there are leading pictures
        with av.open(str(tmp_path / "cut.mkv"), "w") as output:
            stream = output.add_stream_from_template(container.streams.video[0])
            for packet in packets[first:]:
                packet.stream = stream
                output.mux(packet)
    with pytest.warns(UserWarning, match="cut.mkv: .* at its beginning cannot be decoded"):
        film, whole = read_film(tmp_path / "cut.mkv"), read_film(tmp_path / "all.mkv")
    shown = shown_numbers(film)
    np.testing.assert_allclose(film.clock.start + film.times, whole.times[shown], atol=2e-3)
    assert shown[0] == 12 and len(shown) == 24 and "at its beginning cannot be decoded" in film.facts.omissions[0]


def test_places_without_a_picture(tmp_path):
    """AVI has empty chunks where the picture before is repeated."""
    stamps = [0, 1, 2, 3, 7, 8, 9, 11, 12, 13]
    path = write(tmp_path / "drop.avi", "mjpeg", range(10), stamps=stamps, pixel_format="yuvj420p")
    with pytest.warns(UserWarning, match="drop.avi: 4 pictures of the 14 that the film announces repeat"):
        film = read_film(path)
    np.testing.assert_allclose(film.times, np.array(stamps) / 30)
    assert len(film.pictures) == 10
    assert film.facts.omissions[0].startswith("4 pictures of the 14 that the film announces repeat the one before")
    path.write_bytes(path.read_bytes()[:-2500])
    with pytest.raises(UserError, match="drop.avi is (cut short|damaged)"):
        read_film(path)


def test_frames_of_files_with_decoding_times_only(tmp_path):
    """H.264 with pictures that are coded from later ones, in AVI."""
    film = read_film(write(tmp_path / "v.avi", "libx264", range(12), options={"bf": "2", "crf": "12"}))
    np.testing.assert_allclose(film.times, np.arange(12) / 30, atol=1e-9)
    assert np.array_equal(shown_numbers(film), np.arange(12)) and film.facts.refusals == ()


@pytest.mark.parametrize(("codec", "suffix"), [("libx264", "mp4"), ("mjpeg", "avi"), ("libx264", "mkv")])
def test_pictures_that_repeat_the_one_before_are_named(tmp_path, codec, suffix):
    frames = [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 10]
    pixel_format = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    options = {"qmin": "2", "qmax": "2"} if codec == "mjpeg" else {}
    facts = film_facts(write(tmp_path / f"v.{suffix}", codec, frames, options=options, pixel_format=pixel_format))
    assert facts.omissions[0].startswith("frames 4, 10 repeat the picture before") and facts.frames == 13
    still = write(tmp_path / f"s.{suffix}", codec, [0, 0, 0, 1, 2, 3, 4, 5, 5, 5], options=options, pixel_format=pixel_format)
    assert film_facts(still).omissions == ()  # at rest at both ends


def test_files_of_a_folder_that_repeat_the_one_before_are_named(tmp_path):
    for k in range(8):
        (tmp_path / f"{k:03d}.png").write_bytes(made_png(moving(k)))
    assert film_facts(tmp_path).omissions == ()
    shutil.copy(tmp_path / "003.png", tmp_path / "003 (1).png")
    assert film_facts(tmp_path).omissions[0].startswith("frame 4 repeats the picture before")


def made_png(levels: np.ndarray) -> bytes:
    from risp_torch.files.pictures import png_bytes

    return png_bytes(levels)


def test_what_a_mac_leaves_beside_pictures_is_no_picture(tmp_path):
    for k in range(3):
        (tmp_path / f"frame_{k}.png").write_bytes(made_png(moving(k)))
        (tmp_path / f"._frame_{k}.png").write_bytes(b"\0\5\x16\7" + bytes(120))
    (tmp_path / ".DS_Store").write_bytes(bytes(20))
    assert len(read_film(tmp_path).pictures) == 3


def test_names_and_titles_of_any_kind(tmp_path):
    path = write(tmp_path / "v.avi", "mjpeg", range(3), pixel_format="yuvj420p", title="Wurf aaaa")
    path.write_bytes(path.read_bytes().replace(b"Wurf aaaa", b"W\xfcrf aaaa"))
    for name in ("2026-03-01T12:30:05.avi", "http:x.avi", "a%03d.avi", "b?c=d#e.avi"):
        shutil.copy(path, tmp_path / name)
        assert film_facts(tmp_path / name).frames == 3


def test_a_pipe_and_a_link_to_itself_are_no_films(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(UserError, match="pipe.mp4 is a pipe or a device: write what it gives to a file"):
        film_facts(tmp_path / "pipe.mp4")
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    with pytest.raises(UserError, match="loop.mp4 does not exist"):
        film_facts(tmp_path / "loop.mp4")


@pytest.mark.parametrize("steps", [[1, 1, 10, 10], [1, 10], [1, 1, 1, 7, 7, 7], [2, 3, 100, 101]])
def test_two_clusters_of_intervals(steps):
    """The usual interval is one that occurs, and the film is uneven."""
    clock = Clock(np.concatenate([[0], np.cumsum(steps)]) * 0.01)
    assert not clock.is_even and 0 < clock.period < 0.04 and clock.gaps and clock.jitter >= 0
    with pytest.raises(UserError, match="frames per second|is uneven"):
        clock.check_rate("v.mp4", 100.5)


def test_a_film_is_read_anew_when_its_file_changes(tmp_path):
    path = write(tmp_path / "v.mp4", "libx264", range(5))
    assert film_facts(path).frames == 5
    write(path, "libx264", range(7))
    assert film_facts(path).frames == 7


def test_a_part_does_not_replace_its_own_film(tmp_path):
    """Also through a link, and not a folder that the film lies in; other files in a folder are not deleted."""
    write_frames(tmp_path / "film", np.random.default_rng(0).random((4, 8, 8, 3)), fps=30)
    write_frames(tmp_path / "other", np.full((2, 8, 8, 3), 0.5))
    (tmp_path / "link").symlink_to("film")
    before = sorted(path.name for path in (tmp_path / "film").iterdir())
    for place in ("film", "link", "film/part", "."):
        for written in (
            lambda target: write_part(target, open_film(tmp_path / "film"), Cut(first=2)),
            lambda target: write_film(target, read_film(tmp_path / "film", cut=Cut(first=2))),
        ):
            with pytest.raises(UserError, match="itself, which would change: choose another folder"):
                written(tmp_path / place)
    assert sorted(path.name for path in (tmp_path / "film").iterdir()) == before
    write_part(tmp_path / "other", open_film(tmp_path / "film"), Cut(first=2))
    (tmp_path / "other/notes.txt").write_text("of the day")
    with pytest.raises(UserError, match="already holds files that are not a video .notes.txt."):
        write_part(tmp_path / "other", open_film(tmp_path / "film"), Cut(first=2))


def test_bits_of_a_part_are_eight_or_sixteen(tmp_path):
    write_frames(tmp_path / "film", np.full((2, 8, 8, 3), 0.5))
    film = read_film(tmp_path / "film")
    for bits in (-1, 0, 12, 8.0, "8", None):
        with pytest.raises(UserError, match="bits .* is unknown: choose 8 or 16"):
            write_film(tmp_path / "out", film, bits=bits)


def test_reference_films_are_read_as_before(tmp_path):
    """The stamps of a plain film are those of its packets."""
    path = made.write_film_file(tmp_path / "v.mp4", made.grey_film(4), tags=(1, 1, 13, 1), times=[0, 3000, 6000, 9000])
    assert film_facts(path).omissions == () and film_facts(path).frames == 4
