"""What the numbers of a film mean: range, matrix, primaries, curve and bits are those that the file says, or it is refused."""

import av
import numpy as np
import pytest
from av.video.reformatter import VideoReformatter

from risp_torch.files.film.colours import SRGB_COLOURS, Colours, colours_of
from risp_torch.files.film.film import film_facts, read_film
from risp_torch.files.film.video_file import _levels
from tests.reference import film_files as made
from tests.reference.film_files import BT601, BT709, BT2020, FULL, HLG, LIMITED, LINEAR, P3, PQ, SRGB, UNSPECIFIED
from ti_sim.base.errors import UserError

STANDARD = (BT709, BT709, SRGB, LIMITED)


def numbers(bits: int, seed: int = 0) -> list[int]:
    """A luma and two chromas of a colour that is not clipped."""
    shares = np.random.default_rng(seed).uniform([0.35, 0.45, 0.45], [0.65, 0.55, 0.55])
    return [int(share * 2**bits) for share in shares]


def read_colour(path) -> np.ndarray:
    """The one colour of a film of one frame [3]."""
    pictures = read_film(path).pictures
    assert pictures.shape == (1, made.SIZE[1], made.SIZE[0], 3) and np.ptp(pictures, axis=(0, 1, 2)).max() < 1e-6
    return pictures[0, 0, 0]


@pytest.mark.parametrize("span", [LIMITED, FULL])
@pytest.mark.parametrize("matrix", [BT709, BT601, BT2020])
@pytest.mark.parametrize(
    ("pixel_format", "chroma", "bits"),
    [
        ("yuv420p", (2, 2), 8), ("yuv444p", (1, 1), 8), ("yuv420p10le", (2, 2), 10), ("yuv422p10le", (2, 1), 10),
        ("yuv444p10le", (1, 1), 10),
    ],
)
def test_luma_and_chroma_become_colours(tmp_path, pixel_format, chroma, bits, matrix, span):
    """To a thousandth of a step of the film: no precision of ten bits is lost."""
    for seed in range(3):
        own = numbers(bits, seed)
        tags = (matrix, BT709, SRGB, span)
        planes = [made.flat_planes(own, chroma=chroma)]
        path = made.write_film_file(tmp_path / "v.mp4", planes, pixel_format=pixel_format, tags=tags)
        facts = film_facts(path)
        assert facts.bits == bits and facts.colours.range == {LIMITED: "limited", FULL: "full"}[span]
        assert facts.colours.assumed == () and facts.remarks == ()
        values = made.numbers_to_rgb(own, matrix=matrix, limited=span == LIMITED, bits=bits)
        np.testing.assert_allclose(read_colour(path), made.light_of(values, SRGB), atol=2e-5)


@pytest.mark.parametrize("curve", [SRGB, BT709, 4, 5, LINEAR])
def test_curves_are_undone(tmp_path, curve):
    for luma in (18, 30, 100, 220):
        path = made.write_film_file(tmp_path / "v.mp4", [made.flat_planes((luma, 128, 128))], tags=(BT709, BT709, curve, LIMITED))
        light = made.light_of(np.array((luma - 16) / 219), curve)
        np.testing.assert_allclose(read_colour(path), light, rtol=3e-3, atol=2e-5)  # the reference has BT.709's rounded constants


def test_another_curve_than_the_film_says(tmp_path):
    path = made.write_film_file(tmp_path / "v.mp4", [made.flat_planes((126, 128, 128))], tags=(BT709, BT709, PQ, LIMITED))
    np.testing.assert_allclose(read_film(path, curve="linear").pictures, 110 / 219, atol=1e-4)
    with pytest.raises(UserError, match="curve 'sRBG'.*did you mean 'sRGB'"):
        read_film(path, curve="sRBG")


def test_display_p3_is_converted_in_linear_light(tmp_path):
    own = numbers(8)
    path = made.write_film_file(tmp_path / "v.mp4", [made.flat_planes(own)], tags=(BT709, P3, SRGB, LIMITED))
    light = made.light_of(made.numbers_to_rgb(own, matrix=BT709, limited=True, bits=8), SRGB)
    expected = np.linalg.solve(made.XYZ_OF_SRGB, made.XYZ_OF_P3 @ light)
    np.testing.assert_allclose(read_colour(path), expected, atol=3e-4)  # the published matrices have four digits
    assert film_facts(path).colours.primaries == "Display P3" and np.abs(expected - light).max() > 0.003


@pytest.mark.parametrize("primaries", [5, BT601, 7, BT2020])
def test_white_and_grey_are_the_same_in_all_primaries(tmp_path, primaries):
    path = made.write_film_file(tmp_path / "v.mp4", [made.flat_planes((126, 128, 128))], tags=(BT709, primaries, SRGB, LIMITED))
    np.testing.assert_allclose(read_colour(path), made.light_of(np.array(110 / 219), SRGB), atol=1e-4)


def test_colours_beyond_srgb_are_clipped(tmp_path):
    green = made.flat_planes((150, 60, 40))
    path = made.write_film_file(tmp_path / "v.mp4", [green], tags=(BT709, BT2020, SRGB, LIMITED))
    assert read_colour(path)[0] == 0 and read_colour(path)[1] <= 1


def test_ten_bits_keep_their_precision(tmp_path):
    """Each luma of ten bits is a brightness of its own, and none is off by a tenth of a step."""
    luma = np.broadcast_to(np.arange(400, 448), (32, 48))
    planes = [luma, np.full((32, 48), 512), np.full((32, 48), 512)]
    path = made.write_film_file(tmp_path / "v.mp4", [planes], pixel_format="yuv444p10le", tags=STANDARD)
    row = read_film(path).pictures[0, 5, :, 1]
    light = made.light_of((np.arange(400, 448) - 64) / 876, SRGB)
    assert np.abs(row - light).max() < 0.1 * np.diff(light).min()


@pytest.mark.parametrize(
    ("tags", "culprit"),
    [
        ((BT2020, BT2020, PQ, LIMITED), "coded for HDR .PQ., which is not read: convert it to SDR"),
        ((BT2020, BT2020, HLG, LIMITED), "coded for HDR .HLG., which is not read"),
        ((BT709, BT709, 9, LIMITED), "coded for a logarithm of light, which"),
        ((BT709, BT709, 10, LIMITED), "coded for a logarithm of light, which"),
        ((BT709, BT709, 12, LIMITED), "coded for the curve of BT.1361"),
        ((BT709, BT709, 17, LIMITED), "coded for the cinema's gamma 2.6"),
        ((BT709, 8, SRGB, LIMITED), "coded for the primaries of photographic film"),
        ((BT709, 11, PQ, LIMITED), "coded for the primaries of the cinema's P3 and HDR .PQ., which"),
        ((8, BT709, SRGB, LIMITED), "coded for luma and chroma of YCgCo"),
    ],
)
def test_colours_that_are_refused(tmp_path, tags, culprit):
    path = made.write_film_file(tmp_path / "v.mp4", made.grey_film(2), tags=tags)
    with pytest.raises(UserError, match=f"^video .*v.mp4 is {culprit}"):
        read_film(path)
    assert film_facts(path).frames == 2  # what it is can still be told


def test_an_unknown_code_is_named():
    codes = {"range": 1, "matrix": 1, "primaries": 77, "curve": 3}
    refusal = colours_of(codes, rgb=False, full_by_format=False, height=100).refusal
    assert refusal == "an unknown primaries (code 77) and an unknown curve (code 3)"


@pytest.mark.parametrize(("size", "matrix", "name"), [((48, 32), BT601, "BT.601"), ((16, 720), BT709, "BT.709")])
def test_what_a_film_does_not_say_is_assumed_as_players_do(tmp_path, size, matrix, name):
    own = numbers(8)
    path = made.write_film_file(
        tmp_path / "v.mp4", [made.flat_planes(own, size=size)], tags=(UNSPECIFIED, UNSPECIFIED, UNSPECIFIED, 0)
    )
    (remark,) = film_facts(path).remarks
    assert remark == (
        "the film does not say how its colours are coded: "
        f"range limited, matrix {name}, primaries BT.709, curve sRGB assumed"
    )
    values = made.numbers_to_rgb(own, matrix=matrix, limited=True, bits=8)
    np.testing.assert_allclose(read_film(path).pictures[0, 0, 0], made.light_of(values, SRGB), atol=2e-5)


def test_formats_of_full_range_need_not_say_it(tmp_path):
    own = numbers(8)
    planes = [made.flat_planes(own, chroma=(2, 2))]
    path = made.write_film_file(tmp_path / "v.mp4", planes, pixel_format="yuvj420p", tags=(BT601, BT709, SRGB, FULL))
    values = made.numbers_to_rgb(own, matrix=BT601, limited=False, bits=8)
    np.testing.assert_allclose(read_colour(path), made.light_of(values, SRGB), atol=2e-5)


def test_chroma_lies_where_the_standard_puts_it(tmp_path):
    """Of 4:2:0: midway between two rows, and on the left one of two columns; a ramp stays a ramp."""
    ramp = 100 + 2 * np.arange(24)
    rows, columns = np.full((32, 48), 120), np.full((16, 24), 128)
    for plane, axis in ((ramp[None, :] + 0 * columns, 1), (100 + 2 * np.arange(16)[:, None] + 0 * columns, 0)):
        path = made.write_film_file(tmp_path / "v.mp4", [[rows, columns, plane]], pixel_format="yuv420p", tags=STANDARD)
        red = read_film(path).pictures[0, ..., 0]
        places = np.arange(red.shape[axis])
        chroma = 100 + (places if axis == 1 else places - 0.5)
        values = [made.numbers_to_rgb((120, 128, c), matrix=BT709, limited=True, bits=8)[0] for c in chroma]
        inner = slice(4, -4)
        found = red[10, inner] if axis == 1 else red[inner, 10]
        np.testing.assert_allclose(found, made.light_of(np.array(values), SRGB)[inner], atol=2e-3)


@pytest.mark.parametrize(
    ("pixel_format", "numbers_of", "expected"),
    [
        ("gray", [[77]], 77 / 255), ("gray10le", [[300]], 300 / 1023), ("rgb24", None, None),
        ("gbrp", [[80], [160], [40]], np.array([40, 80, 160]) / 255),
        ("gbrp10le", [[80], [160], [940]], np.array([940, 80, 160]) / 1023),
    ],
)
def test_grey_and_stored_colours(pixel_format, numbers_of, expected):
    """Red, green and blue as they are; FFmpeg's planes of GBR are in this order."""
    if numbers_of is None:
        expected = np.array([10, 20, 30]) / 255
        frame = av.VideoFrame.from_ndarray(np.full((32, 48, 3), (10, 20, 30), dtype=np.uint8), format="rgb24")
    else:
        frame = made.filled_frame([np.full((32, 48), plane[0]) for plane in numbers_of], pixel_format)
    levels, bits, rgb = _levels(frame, SRGB_COLOURS, VideoReformatter())
    assert rgb == (not pixel_format.startswith("gray"))
    np.testing.assert_allclose(levels[3, 4] / (2.0**bits - 1), np.broadcast_to(expected, levels.shape[-1:]), atol=1e-9)


@pytest.mark.parametrize(("pixel_format", "bits"), [("nv12", 8), ("p010le", 10), ("yuyv422", 8), ("yuv420p12le", 12)])
def test_packed_formats_are_unpacked_exactly(pixel_format, bits):
    """Made by swscale from planes without loss, and read back as the same numbers."""
    own = numbers(bits)
    start = {8: "yuv420p", 10: "yuv420p10le", 12: "yuv420p12le"}[bits]
    frame = made.filled_frame(made.flat_planes(own, chroma=(2, 2)), start)
    limited = {"src_color_range": "MPEG", "dst_color_range": "MPEG"}
    colours = Colours(range="limited", matrix="BT.709", primaries="BT.709", curve="sRGB")
    levels, found, rgb = _levels(frame.reformat(format=pixel_format, **limited), colours, VideoReformatter())
    assert found == bits and not rgb
    np.testing.assert_allclose(levels[3, 4], own, atol=1e-6)
