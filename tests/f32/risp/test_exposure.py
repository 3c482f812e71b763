"""Exposures of training pictures: what they draw, and derivatives that follow."""

import math

import pytest
import torch

from risp_torch.risp.training.exposure import EXPOSURE, TONE, UNCHANGED_SHARE, UNEVEN_LIGHT, WHITE_BALANCE, vary_exposure
from risp_torch.risp.training.fields import smooth_field

COUNT, SIZE, PSI = 200, 8, 3


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures without black or white, and any derivatives."""
    random = torch.Generator().manual_seed(0)
    images = 0.05 + 0.2 * torch.rand((COUNT, SIZE, SIZE, 3), generator=random)
    return images, torch.randn((COUNT, PSI, SIZE, SIZE, 3), generator=random).half()


def test_derivatives_are_those_of_the_exposed_pictures() -> None:
    """Central differences along each column of the derivatives."""
    images, jacobian = pictures()
    images, step = images.double(), 1e-4
    after, columns = vary_exposure(images, jacobian, seed=(1, 2))
    assert after.max() < 1.0  # nothing clipped: no kink
    for column in range(PSI):
        along = step * jacobian[:, column].double()
        plus, minus = (vary_exposure(images + sign * along, None, seed=(1, 2))[0] for sign in (1, -1))
        differences = (plus - minus) / (2 * step)
        torch.testing.assert_close(columns[:, column].double(), differences, rtol=3e-3, atol=2e-3)  # as half precision has them


def test_what_is_clipped_has_no_derivative() -> None:
    images, jacobian = torch.ones(COUNT, SIZE, SIZE, 3), torch.ones(COUNT, PSI, SIZE, SIZE, 3).half()
    after, columns = vary_exposure(images, jacobian, seed=(3,))
    white = (after == 1.0)[:, None].expand_as(columns)
    assert 0.2 < white.float().mean() < 0.8
    assert (columns[white] == 0).all() and (columns[~white] != 0).all()


def test_what_is_too_dark_for_a_tone_curve_has_no_derivative() -> None:
    images, jacobian = torch.full((COUNT, SIZE, SIZE, 3), 1e-5), torch.ones(COUNT, PSI, SIZE, SIZE, 3).half()
    after, columns = vary_exposure(images, jacobian, seed=(4,))
    assert torch.equal(after, vary_exposure(2 * images, None, seed=(4,))[0])  # it is the same whatever it was
    assert (columns == 0).all()


def test_some_are_left_alone_and_none_goes_beyond_the_ranges() -> None:
    images, _ = pictures()
    after, none = vary_exposure(images, None, seed=(5,))
    assert none is None and after.min() > 0 and after.max() <= 1
    same = torch.isclose(after, images, rtol=1e-5).flatten(1).all(dim=1)
    assert 0.5 * UNCHANGED_SHARE < same.float().mean() < 1.7 * UNCHANGED_SHARE
    colors = (after / images).log().mean(dim=(1, 2))[~same]
    tints = colors - colors.mean(dim=1, keepdim=True)
    assert tints.abs().max() < 2 * WHITE_BALANCE and colors.mean(dim=1).abs().median() > 0.3 * EXPOSURE


def test_exposures_balances_tones_and_light_fill_their_ranges() -> None:
    """Of two greys in 2,000 pictures: the exponent from their ratio, and from it the light, by picture, channel and place."""
    dark, bright = (
        vary_exposure(torch.full((2000, SIZE, SIZE, 3), grey), None, seed=(6,))[0].double().log() for grey in (0.1, 0.2)
    )
    exponent = (bright - dark).flatten(1).mean(dim=1) / math.log(2)
    changed = (dark - math.log(0.1)).abs().flatten(1).amax(dim=1) > 1e-4
    light = (dark / exponent[:, None, None, None] - math.log(0.1))[changed]
    channels, places = light.mean(dim=(1, 2)), light.mean(dim=3).flatten(1)
    balance = channels[:, :2] - channels[:, 1:]  # differences of two uniform numbers
    for drawn, most in (
        (exponent[changed].log(), TONE),
        (balance / math.sqrt(2), WHITE_BALANCE),
        (channels.mean(dim=1), EXPOSURE),
    ):
        assert float(drawn.std()) == pytest.approx(most / math.sqrt(3), rel=0.15)
    assert 0.2 * UNEVEN_LIGHT < float(places.std(dim=1).mean()) < 0.6 * UNEVEN_LIGHT


def test_the_same_seed_gives_the_same_pictures() -> None:
    images, jacobian = pictures()
    one, same, other = (vary_exposure(images, jacobian, seed=seed) for seed in ((0, 1), (0, 1), (0, 2)))
    assert torch.equal(one[0], same[0]) and torch.equal(one[1], same[1])
    assert (one[0] != other[0]).float().mean() > 0.7


def test_a_smooth_field_is_the_bicubic_interpolation_of_its_values() -> None:
    values = torch.randn((5, 8, 8), generator=torch.Generator().manual_seed(1))
    wanted = torch.nn.functional.interpolate(values[:, None], size=(32, 32), mode="bicubic", align_corners=False)[:, 0]
    torch.testing.assert_close(smooth_field(values, 32), wanted, rtol=1e-5, atol=1e-5)
