"""Time stamps: as the file has them, with gaps and jitter told, and refused where a steady rate is needed."""

import json
from fractions import Fraction

import numpy as np
import pytest

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.cut import Cut
from risp_torch.files.film.film import film_facts, open_film, read_film
from risp_torch.files.film.write import write_film, write_part
from risp_torch.files.video import read_video, write_frames
from tests.reference import film_files as made
from tests.reference.film_files import BT709, LIMITED, SRGB
from ti_sim.base.errors import UserError

TAGS = (BT709, BT709, SRGB, LIMITED)
STEADY = [9000 + 3000 * k for k in range(12)]
GAP = STEADY[:4] + [stamp + 5760 for stamp in STEADY[4:]]  # 64 ms more before frame 4


def film_with(path, stamps, time_base=Fraction(1, 90_000)):
    return made.write_film_file(path, made.grey_film(len(stamps)), tags=TAGS, times=stamps, time_base=time_base)


def test_times_are_those_of_the_file(tmp_path):
    path = film_with(tmp_path / "v.mp4", GAP)
    film = read_film(path)
    np.testing.assert_allclose(film.times, (np.array(GAP) - 9000) / 90_000, atol=1e-12)
    clock = film.facts.clock
    assert clock.start == pytest.approx(0.1) and clock.rate == pytest.approx(30) and not clock.is_even
    assert clock.gaps == [(4, pytest.approx(8760 / 90_000))] and clock.longest_even == (4, 11)
    brightness = film.pictures.mean(axis=(1, 2, 3))
    assert (np.diff(brightness) > 0).all()  # the order of the frames is that of the times


@pytest.mark.parametrize(("suffix", "rate"), [(".mp4", 30), (".mkv", 30), (".mkv", 24), (".mov", 200)])
def test_a_steady_film_is_steady_whatever_its_ticks(tmp_path, suffix, rate):
    """Matroska has milliseconds."""
    path = made.write_film_file(tmp_path / f"v{suffix}", made.grey_film(12), tags=TAGS, rate=rate)
    clock = film_facts(path).clock
    assert clock.is_even and not clock.gaps and clock.rate == pytest.approx(rate, rel=1e-9) and clock.start == 0
    assert len(read_video(path, fps=rate)) == 12
    with pytest.raises(UserError, match=f"has {rate} frames per second, and the scene has {rate + 1}"):
        read_video(path, fps=rate + 1)


def test_a_steady_rate_is_checked_by_the_time_stamps(tmp_path):
    path = film_with(tmp_path / "v.mp4", GAP)
    with pytest.raises(UserError) as caught:
        read_video(path, fps=30)
    assert str(caught.value) == (
        f"video {path} is uneven: frame 4 comes 97.33 ms after the one before it, where 33.33 ms are usual, and is 64 ms late "
        "for 30 frames per second: compare the film at its own times (--fps film), or take a part without it (risp film shows "
        "where, and cuts: --first, --last)"
    )
    assert len(read_video(path, fps=30, frames=4)) == 4 and len(read_video(path)) == 12


def test_jitter_up_to_a_tenth_of_an_interval_passes(tmp_path):
    jitter = np.random.default_rng(0).integers(-150, 151, 12)  # of 3000 ticks
    film = film_with(tmp_path / "a.mp4", [int(stamp) for stamp in STEADY + jitter])
    assert len(read_video(film, fps=30)) == 12 and 1e-3 < film_facts(film).clock.jitter < 3.4e-3
    early = STEADY.copy()
    early[7] -= 600
    with pytest.raises(UserError, match="uneven: frame 7 comes 26.67 ms after .* and is 6.67 ms early for 30 frames"):
        read_video(film_with(tmp_path / "b.mp4", early), fps=30)


def test_rounding_and_scatter_of_time_stamps_let_the_rate_be_off_by_their_share_of_an_interval():
    """Of n intervals the mean is off by a tick over n at most, or by the jitter over n: more is another rate."""
    count, rate, tick = 100, 30.0, 1e-3
    steady = np.arange(count + 1) / rate
    edge = steady.copy()
    edge[-1] += 0.9 * tick  # the mean interval is 0.9 ticks / 100 longer: relatively 2.7e-4
    Clock(edge, tick=tick).check_rate("v.mp4", rate)
    Clock(steady * (1 + 3.5e-4), tick=tick).check_rate("v.mp4", rate)  # 1e-4 and 3e-4
    for stretch, ticks in ((5e-4, tick), (3.5e-4, 0.0)):
        with pytest.raises(UserError, match="frames per second, and the scene has 30"):
            Clock(steady * (1 + stretch), tick=ticks).check_rate("v.mp4", rate)
    scattered = steady.copy()
    scattered[-1] += 0.08 / rate  # one interval is 8 % too long: 8e-4 of the mean
    Clock(scattered).check_rate("v.mp4", rate)
    with pytest.raises(UserError, match="frames per second, and the scene has 30"):
        Clock(scattered * (1 + 2e-3)).check_rate("v.mp4", rate)


def test_no_frame_may_be_more_than_a_tenth_of_an_interval_off_however_late_it_comes():
    """A rate that is off by one part in ten thousand adds up besides: 0.3 intervals in 3,000."""
    rate, count = 30.0, 3000
    steady = np.arange(count + 1) / rate
    Clock(steady * (1 + 9e-5)).check_rate("v.mp4", rate)
    late = steady[:101].copy()
    late[-1] += 0.12 / rate
    with pytest.raises(UserError, match="uneven: frame 100 comes .* and is 4 ms late for 30 frames"):
        Clock(late).check_rate("v.mp4", rate)


def test_a_film_that_is_slow_and_then_fast(tmp_path):
    """Each interval is within a tenth of the usual one, and the middle is most of an interval late."""
    stamps = np.cumsum([9000] + [3200] * 10 + [2800] * 10)
    with pytest.raises(UserError, match="uneven: frame 2 .* late for 30 frames per second"):
        read_video(film_with(tmp_path / "v.mp4", [int(s) for s in stamps]), fps=30)


def test_frames_before_the_start_of_an_edit_list_are_no_frames(tmp_path):
    """mp4 files keep them, for other frames are coded with them."""
    stamps = [-9000 + 3000 * k for k in range(9)]
    path = film_with(tmp_path / "v.mp4", stamps)
    film = read_film(path)
    assert len(film.pictures) == film.facts.frames == 6 and film.clock.start == 0
    whole = read_film(film_with(tmp_path / "w.mp4", STEADY[:9]))
    np.testing.assert_array_equal(film.pictures, whole.pictures[3:])


def test_a_stream_without_times(tmp_path):
    path = made.write_film_file(tmp_path / "v.h264", made.grey_film(5), tags=TAGS)
    film = read_film(path)
    assert film.facts.remarks == ("the film has no time stamps: 25 frames per second are assumed",)
    np.testing.assert_allclose(film.times, np.arange(5) / 25)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_part_that_is_written_comes_back(tmp_path, bits):
    """Pictures to the last bit of the files, times and placement as they were; cut once more, they lie where they lay."""
    planes = [made.pattern(seed=k) for k in range(12)]
    path = made.write_film_file(tmp_path / "v.mp4", planes, tags=TAGS, times=GAP, pixel_aspect=Fraction(2, 3), degrees=90)
    cut = Cut(first=2, last=9, every=3, crop=(2, 3, 24, 20), size=(12, 10))
    film = read_film(path, cut=cut)
    np.testing.assert_allclose(film.times, (np.array(GAP)[[2, 5, 8]] - GAP[2]) / 90_000)
    assert film.clock.start == pytest.approx(GAP[2] / 90_000)
    placement = write_part(tmp_path / "part", open_film(path), cut, bits=bits)
    back = read_film(tmp_path / "part")
    assert placement == film.placement == back.placement
    steps = 2.3 / (2**bits - 1)  # the curve is steepest at white
    assert np.abs(back.pictures - film.pictures).max() < 0.51 * steps
    np.testing.assert_allclose(back.times, film.times, atol=1e-9)
    assert back.clock.start == pytest.approx(film.clock.start) and back.facts.bits == bits
    said = json.loads((tmp_path / "part/video.json").read_text())
    assert said["source"] == "v.mp4" and said["fps"] is None and (said["width"], said["height"], said["frames"]) == (12, 10, 3)
    again = read_film(tmp_path / "part", cut=Cut(first=1, crop=(2, 0, 10, 10), size=(5, 5)))
    direct = film.placement.cropped(2, 0, 10, 10).resized(5, 5)
    np.testing.assert_allclose(again.placement.offset, direct.offset)
    np.testing.assert_allclose(again.placement.scale, direct.scale)
    assert again.clock.start == pytest.approx(GAP[5] / 90_000) and len(again.times) == 2


def test_a_film_in_memory_is_written_as_one_that_is_cut(tmp_path):
    path = film_with(tmp_path / "v.mp4", STEADY)
    film = read_film(path, cut=Cut(start=0.1, end=0.2))
    assert len(film.pictures) == 4 and film.times[0] == 0
    write_film(tmp_path / "a", film, bits=8)
    write_part(tmp_path / "b", open_film(path), Cut(first=3, last=6), bits=8)
    for name in ("00000.png", "00003.png", "video.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len(read_video(tmp_path / "a", fps=30)) == 4


@pytest.mark.parametrize(
    ("cut", "culprit"),
    [
        (Cut(first=12), "no frame of .*v.mp4 is left: it has frames 0 to 11 within 0.366667 s"),
        (Cut(start=0.5), "no frame of .*v.mp4 is left"),
        (Cut(first=5, last=4), "no frame of .*v.mp4 is left"),
    ],
)
def test_no_frame_is_left(tmp_path, cut, culprit):
    path = film_with(tmp_path / "v.mp4", STEADY)
    with pytest.raises(UserError, match=culprit):
        read_film(path, cut=cut)


def test_folders_without_times(tmp_path):
    write_frames(tmp_path / "a", np.full((3, 4, 6, 3), 0.5))
    assert read_film(tmp_path / "a").times is None
    with pytest.raises(UserError, match="a has no times: give frames in place of seconds"):
        read_film(tmp_path / "a", cut=Cut(start=0.1))


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"times": [0.0, 0.1]}, r"has times of shape \[2\] for 3 pictures"),
        ({"times": [0.0, 0.2, 0.1]}, "they must grow"),
        ({"placement": {"scale": [1, 1]}}, "is not a description of a video"),
        ({"placement": 3}, "is not a description of a video"),
    ],
)
def test_descriptions_that_contradict_the_pictures(tmp_path, change, culprit):
    write_frames(tmp_path / "a", np.full((3, 4, 6, 3), 0.5), fps=30)
    path = tmp_path / "a/video.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=culprit):
        read_film(tmp_path / "a")


def test_rounded_time_stamps_are_the_steady_ones_that_they_stand_for() -> None:
    """Where there is a gap, or more jitter than rounding makes, they stay as they are."""
    rounded = Clock(np.array([0.0, 0.033, 0.067, 0.1]), tick=1e-3)
    np.testing.assert_allclose(rounded.unrounded, np.arange(4) / 30, atol=1e-12)
    for times in ([0.0, 0.033, 0.1, 0.133], [0.0, 0.03, 0.07, 0.1]):
        assert (Clock(np.array(times), tick=1e-3).unrounded == times).all()
