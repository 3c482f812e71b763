"""Films lie as they are shown: turned, in square pixels, cut out and averaged; and each pixel knows where it comes from."""

from fractions import Fraction

import numpy as np
import pytest

from risp_torch.files.film.cut import Cut
from risp_torch.files.film.film import film_facts, open_film, read_film
from risp_torch.files.film.placement import Placement, StoredPicture
from risp_torch.files.video import read_video
from tests.reference import film_files as made
from tests.reference.film_files import BT709, LIMITED, SRGB
from ti_sim.base.errors import UserError

TAGS = (BT709, BT709, SRGB, LIMITED)


def film_of_pattern(path, **options):
    """A film of one frame, and its picture as it is stored, as linear colour."""
    planes = made.pattern()
    stored = made.light_of(np.clip((planes[0] - 16) / 219, 0, 1), SRGB)
    return made.write_film_file(path, [planes], tags=TAGS, **options), np.repeat(stored[..., None], 3, axis=-1)


@pytest.mark.parametrize(("degrees", "turns"), [(None, 0), (-90, 1), (180, 2), (-180, 2), (90, 3)])
def test_the_display_rotation_is_applied(tmp_path, degrees, turns):
    """Degrees are counter-clockwise; turns clockwise."""
    path, stored = film_of_pattern(tmp_path / "v.mp4", degrees=degrees)
    film = read_film(path)
    np.testing.assert_allclose(film.pictures[0], np.rot90(stored, k=(degrees or 0) // 90), atol=2e-5)
    assert film.placement.stored.quarter_turns == turns and film.pictures[0].shape[:2] == ((48, 32) if turns % 2 else (32, 48))
    x, y = 5, 9  # each pixel of the film is that of the file at the point that the placement names
    column, row = film.placement.stored_points((x + 0.5, y + 0.5)) - 0.5
    np.testing.assert_allclose(film.pictures[0, y, x], stored[int(row), int(column)], atol=2e-5)
    np.testing.assert_array_equal(read_video(path, size=film.pictures.shape[1:3]), film.pictures)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"degrees": 45}, "is to be shown turned by -45 degrees: turn it with ffmpeg's filter rotate"),
        ({"degrees": 0, "mirrored": True}, "is to be shown mirrored, which no camera model covers"),
    ],
)
def test_other_display_matrices_are_refused(tmp_path, options, culprit):
    path, _ = film_of_pattern(tmp_path / "v.mp4", **options)
    with pytest.raises(UserError, match=f"v.mp4 {culprit}"):
        read_film(path)


@pytest.mark.parametrize(
    ("aspect", "degrees", "shown"),
    [
        (Fraction(9, 16), None, (27, 32)),
        (Fraction(4, 3), None, (48, 24)),
        (Fraction(9, 16), 90, (32, 27)),
        (Fraction(12, 11), None, (48, 29)),
        (Fraction(10, 11), 180, (43, 32)),
    ],
)
def test_pixels_are_made_square_by_averaging(tmp_path, aspect, degrees, shown):
    """A pixel as wide as high in the world, the middle in the middle, and less than a pixel is cut off."""
    path, stored = film_of_pattern(tmp_path / "v.mp4", pixel_aspect=aspect, degrees=degrees)
    film = read_film(path)
    turned = np.rot90(stored, k=(degrees or 0) // 90)
    aspect = 1 / aspect if degrees == 90 else aspect
    side = (float(1 / aspect), 1.0) if aspect < 1 else (1.0, float(aspect))
    assert (film.placement.width, film.placement.height) == shown and film.placement.pixel_aspect == pytest.approx(1, abs=1e-12)
    left, top = (0.5 * (turned.shape[1 - k] - shown[k] * side[k]) for k in (0, 1))
    assert 0 <= left < side[0] / 2 and 0 <= top < side[1] / 2
    np.testing.assert_allclose(film.pictures[0], made.area_means(turned, left, top, side, shown), atol=3e-5)
    np.testing.assert_allclose(film.placement.turned_points(np.array(shown) / 2), np.array(turned.shape[1::-1]) / 2)
    kept = read_film(path, square=False)
    np.testing.assert_allclose(kept.pictures[0], turned, atol=2e-5)
    assert kept.placement.pixel_aspect == pytest.approx(float(aspect))


def test_crop_and_size_average_exactly(tmp_path):
    path, stored = film_of_pattern(tmp_path / "v.mp4")
    film = read_film(path, cut=Cut(crop=(3, 5, 40, 24), size=(15, 9)))
    np.testing.assert_allclose(film.pictures[0], made.area_means(stored, 3, 5, (40 / 15, 24 / 9), (15, 9)), atol=3e-5)
    assert film.placement.scale == pytest.approx((8 / 3, 8 / 3)) and film.placement.offset == pytest.approx((3, 5))
    nearly = read_film(path, cut=Cut(size=(21, 14)))  # 48 : 32 is not quite 21 : 14
    assert nearly.placement.scale == pytest.approx((48 / 21, 48 / 21)) and nearly.placement.offset == pytest.approx((0, 0))
    odd = read_film(path, cut=Cut(size=(22, 15)))
    assert odd.placement.scale[0] == odd.placement.scale[1] == pytest.approx(32 / 15)
    np.testing.assert_allclose(odd.placement.turned_points((11, 7.5)), (24, 16))


def test_a_mean_is_taken_of_light_not_of_numbers(tmp_path):
    """Columns of black and white: half of the light, which is no middle number."""
    luma = np.where(np.arange(48) % 2, 235, 16) + np.zeros((32, 1), dtype=int)
    planes = [luma, np.full((32, 48), 128), np.full((32, 48), 128)]
    path = made.write_film_file(tmp_path / "v.mp4", [planes], tags=TAGS)
    np.testing.assert_allclose(read_film(path, cut=Cut(size=(24, 16))).pictures, 0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("cut", "culprit"),
    [
        (Cut(crop=(40, 0, 9, 10)), "the part 40,0,9,10 does not lie in a picture of 48x32 pixels"),
        (Cut(size=(96, 64)), "48x32 pixels cannot be made 96x64: films are made smaller, not larger"),
        (Cut(size=(20, 20)), "48x32 pixels made 20x20 would be squeezed: .* for example --crop 8,0,32,32"),
    ],
)
def test_parts_that_cannot_be_cut(tmp_path, cut, culprit):
    path, _ = film_of_pattern(tmp_path / "v.mp4")
    with pytest.raises(UserError, match=culprit):
        read_film(path, cut=cut)


def test_placements_of_all_kinds_agree_with_the_stored_pixels():
    """A smooth stored picture, read at the point that a pixel comes from, is the pixel, whatever was done to it."""
    from risp_torch.files.film.area import place_picture, stored_region

    y, x = np.mgrid[:60, :80] + 0.5
    stored = np.stack([x, y, x + 2 * y], axis=-1)  # linear: the mean over a pixel is the value at its centre
    for turns in range(4):
        for aspect in (Fraction(1), Fraction(9, 16), Fraction(3, 2)):
            whole = Placement.shown(StoredPicture(width=80, height=60, pixel_aspect=aspect, quarter_turns=turns))
            part = whole.cropped(4, 7, 30, 20).resized(15, 10).cropped(2, 1, 10, 8)
            assert Placement.from_json(part.to_json(), 10, 8) == part
            picture = place_picture(stored[stored_region(part)], part)
            centres = np.stack(np.meshgrid(np.arange(10), np.arange(8)), axis=-1) + 0.5
            points = part.stored_points(centres)
            np.testing.assert_allclose(picture[..., :2], points, atol=0.1)  # the steps of the stored pixels


def test_a_film_that_changes_its_size(tmp_path):
    """Streams that were joined; what comes before the change can be read."""
    sizes = ((48, 32), (64, 48))
    parts = [made.write_film_file(tmp_path / f"{size[0]}.h264", made.grey_film(4, size=size), tags=TAGS) for size in sizes]
    path = tmp_path / "v.h264"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    with pytest.raises(UserError, match="v.h264 has pictures of another size from frame 4 on: take a part before it"):
        read_film(path)
    assert read_film(path, cut=Cut(last=3)).pictures.shape == (4, 32, 48, 3)


def test_what_a_film_is(tmp_path):
    path, _ = film_of_pattern(tmp_path / "v.mp4", pixel_aspect=Fraction(9, 16), degrees=-90)
    facts = film_facts(path)
    assert (facts.stored.width, facts.stored.height, facts.stored.pixel_aspect) == (48, 32, Fraction(9, 16))
    assert facts.stored.turned_size == (32, 48) and facts.stored.shown_size == (32, 27)
    assert (facts.codec, facts.pixel_format, facts.bits, facts.container) == ("h264", "yuv444p", 8, "mov")
    with pytest.raises(UserError, match="v.mp4 is 32x27 pixels, and 48x32 are needed"):
        read_video(path, size=(32, 48))
    assert open_film(path).full_placement.is_whole and not open_film(path).full_placement.cropped(0, 0, 32, 26).is_whole
