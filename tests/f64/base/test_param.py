"""Param: the maps between its coordinates, in numpy and torch, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ti_sim.base.errors import UserError
from ti_sim.base.param import Param, as_param

# name -> parameter, and physical values well inside its bounds
CASES = {
    "both, linear": (Param(0.3, low=-1.0, high=2.0), np.linspace(-0.99, 1.99, 7)),
    "both, log10": (Param(1e3, low=10**2.5, high=10**3.5, scale="log10"), np.geomspace(320.0, 3100.0, 7)),
    "low, linear": (Param(5.0, low=2.0), np.array([2.001, 2.5, 5.0, 40.0, 400.0])),
    "high, linear": (Param(-1e6, high=0.0), -np.array([1e3, 1e5, 1e6, 1e7])),
    "low, log10": (Param(1e4, low=10.0, scale="log10"), np.array([10.1, 1e2, 1e4, 1e9])),
    "high, log10": (Param(1e-4, high=1.0, scale="log10"), np.array([1e-9, 1e-4, 1e-2, 0.99])),
    "none, linear": (Param(7.0), np.array([-1e3, 0.0, 7.0, 1e3])),
    "none, log10": (Param(7.0, scale="log10"), np.array([1e-6, 1.0, 1e6])),
    "arrays": (
        Param(np.array([1.0, 20.0, 300.0]), low=[0.1, 2.0, 30.0], high=1e3, scale="log10"),
        np.array([[0.2, 999.0, 31.0], [1.0, 20.0, 300.0]]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name):
    param, values = CASES[name]
    z = param.to_unbounded(values)
    assert z.dtype == np.float64 and np.isfinite(z).all()
    np.testing.assert_allclose(param.to_physical(z), values, rtol=2e-12, atol=1e-12)
    np.testing.assert_allclose(param.from_scaled(param.to_scaled(values)), values, rtol=1e-13)
    again = param.to_unbounded(param.to_physical(np.zeros(np.shape(param.value))))
    np.testing.assert_allclose(again, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_torch_gives_the_numbers_of_numpy_and_the_right_gradient(name):
    param, values = CASES[name]
    z = torch.tensor(param.to_unbounded(values), requires_grad=True)
    assert param.to_physical(z).dtype == torch.float64
    at = z.detach().cpu().numpy()
    np.testing.assert_allclose(param.to_physical(z).detach().cpu().numpy(), param.to_physical(at), rtol=1e-13)
    np.testing.assert_allclose(
        param.to_unbounded(torch.tensor(values)).cpu().numpy(), param.to_unbounded(values), rtol=1e-12, atol=1e-13
    )
    numbers = z.detach().cpu().numpy()
    (gradient,) = torch.autograd.grad(param.to_physical(z).sum(), z)
    h = 1e-5
    difference = (param.to_physical(numbers + h) - param.to_physical(numbers - h)) / (2 * h)
    noise = 1e-15 * np.abs(values).max() / h
    np.testing.assert_allclose(gradient.cpu().numpy(), difference, rtol=1e-7, atol=noise)
    assert (gradient > 0).all()  # every map grows
    _, forward = torch.func.jvp(param.to_physical, (z.detach(),), (torch.ones_like(z),))
    np.testing.assert_allclose(forward.cpu().numpy(), gradient.cpu().numpy(), rtol=1e-12)
    points = torch.tensor(values, requires_grad=True)
    (slope,) = torch.autograd.grad(param.to_scaled(points).sum(), points)
    np.testing.assert_allclose(slope.cpu().numpy(), 1 / (values * np.log(10)) if param.scale == "log10" else 1.0, rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_stays_single(name):
    param, values = CASES[name]
    z = torch.tensor(param.to_unbounded(values), dtype=torch.float32)
    physical = param.to_physical(z)
    assert physical.dtype == torch.float32
    np.testing.assert_allclose(physical.cpu().numpy(), values, rtol=1e-4, atol=1e-3)
    assert param.to_unbounded(physical).dtype == torch.float32
    assert param.to_physical(z.cpu().numpy()).dtype == np.float32


def test_formulae():
    assert Param(1.0, low=0.0, high=4.0).to_physical(0.0) == pytest.approx(2.0)
    assert Param(1.0, low=0.0, high=4.0).to_physical(np.log(3.0)) == pytest.approx(3.0)
    assert Param(100.0, low=1.0, high=1e4, scale="log10").to_physical(0.0) == pytest.approx(100.0)
    assert Param(5.0, low=2.0).to_physical(0.0) == pytest.approx(2.0 + 3.0 * np.log(2.0))
    assert Param(5.0, high=7.0).to_physical(0.0) == pytest.approx(7.0 - 2.0 * np.log(2.0))
    assert Param(5.0).to_physical(0.25) == pytest.approx(5.25)
    assert Param(5.0, scale="log10").to_physical(2.0) == pytest.approx(100.0)
    assert Param(2.0, low=2.0).to_physical(0.0) == pytest.approx(2.0 + np.log(2.0))  # on the bound: w = 1


def test_far_out_the_maps_stay_finite_and_within_the_bounds():
    z = np.array([-1e4, -40.0, 40.0, 1e4])
    for name, (param, _) in CASES.items():
        if not name.startswith("both"):
            continue
        for far in (z, z.astype(np.float32), torch.tensor(z), torch.tensor(z, dtype=torch.float32)):
            physical = np.asarray(param.to_physical(far), dtype=np.float64)
            single = str(far.dtype).endswith("float32")
            slack = 1e-7 * abs(param.high) if single else 0.0  # the bound itself rounds
            assert np.isfinite(physical).all()
            assert (physical >= param.low - slack).all() and (physical <= param.high + slack).all()
    low = Param(5.0, low=2.0)
    assert low.to_physical(-1e4) == 2.0 and np.isfinite(low.to_physical(1e4))


def test_values_on_a_bound_are_taken_just_inside():
    param = Param(0.5, low=0.0, high=1.0)
    assert param.to_unbounded(0.0) == pytest.approx(np.log(1e-6), rel=1e-6)
    assert param.to_unbounded(1.0) == pytest.approx(-np.log(1e-6), rel=1e-6)
    assert param.to_unbounded(-1e-9) == param.to_unbounded(0.0)
    assert param.to_physical(param.to_unbounded(1.0)) == pytest.approx(1 - 1e-6, abs=1e-12)
    stiff = Param(1e3, low=10**2.5, high=10**3.5, scale="log10")
    for bound in (stiff.low, stiff.high):
        assert np.isfinite(stiff.to_unbounded(np.float32(bound)))
        assert torch.isfinite(stiff.to_unbounded(torch.tensor(bound, dtype=torch.float32)))
    narrow = Param(1000.5, low=1000.0, high=1001.0)  # single precision cannot resolve the inside of its range finely
    assert np.isfinite(narrow.to_unbounded(np.array([1000.0, 1001.0], np.float32))).all()
    assert np.isfinite(Param(1.0, low=0.0).to_unbounded(0.0))


def test_values_beyond_a_bound_are_refused():
    param = Param(0.5, low=0.0, high=1.0, unit="kg")
    with pytest.raises(UserError, match=r"value 1.01 lies outside its bounds \[0, 1\] kg"):
        param.to_unbounded(1.01)
    with pytest.raises(UserError, match=r"value -3 at \[1\] lies outside"):
        param.to_unbounded(torch.tensor([0.5, -3.0]))
    with pytest.raises(UserError, match="lies outside"):
        param.to_unbounded(float("nan"))
    with pytest.raises(UserError, match="no logarithm"):
        Param(1.0, scale="log10").to_unbounded(0.0)


def test_range_is_in_scaled_units():
    assert Param(1e3, low=10**2.5, high=10**3.5, scale="log10").range == pytest.approx(1.0)
    assert Param(0.0, low=-2.0, high=3.0).range == pytest.approx(5.0)
    np.testing.assert_allclose(Param([1.0, 2.0], low=[0.0, 1.0], high=10.0).range, [10.0, 9.0])
    assert Param(1.0, low=0.0).range is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value": 5.0, "low": 10.0, "high": 20.0, "unit": "N/m"}, r"start value 5 lies outside its bounds \[10, 20\] N/m"),
        ({"value": [1.0, 5.0], "high": 4.0}, r"start value 5 at \[1\] lies outside its bounds \[-inf, 4\]"),
        ({"value": 1.0, "low": 2.0, "high": 0.0}, "low 2.0 is not below high 0.0"),
        ({"value": 1.0, "low": 1.0, "high": 1.0}, "low 1.0 is not below high 1.0"),
        ({"value": 0.0, "scale": "log10"}, "value is 0.0, and scale 'log10' needs numbers above zero"),
        ({"value": 1.0, "low": 0.0, "scale": "log10"}, "low is 0.0, and scale 'log10' needs"),
        ({"value": 1.0, "scale": "log"}, "scale 'log' is unknown: choose one of linear, log10"),
        ({"value": float("nan")}, "value is nan, which is not finite"),
        ({"value": 1.0, "high": float("inf")}, "leave it out for no bound"),
        ({"value": "heavy"}, "value is 'heavy': give a number"),
        ({"value": None}, "value is None"),
        ({"value": 1.0, "low": [0.0, 0.1]}, r"low has shape \(2,\), and the value has \(\)"),
    ],
)
def test_bad_parameters_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        Param(**options)


def test_as_param_and_containers():
    param = Param(1.0, low=0.0)
    assert as_param(param) is param
    plain = as_param([1, 2])
    assert plain.frozen and plain.value.dtype == np.float64
    assert isinstance(as_param(3).value, float)
    np.testing.assert_array_equal(Param(torch.ones(2)).value, np.ones(2))
    given = np.ones(2)
    own = Param(given)
    given[:] = 5
    np.testing.assert_array_equal(own.value, np.ones(2))


def test_the_gradient_is_whole_where_single_precision_rounds_onto_a_bound():
    narrow = Param(1000.5, low=1000.0, high=1001.0)
    z = torch.tensor([-11.0], requires_grad=True)
    physical = narrow.to_physical(z)
    assert physical.item() == 1000.0  # 1000 + 1.7e-5 rounds to it
    (gradient,) = torch.autograd.grad(physical.sum(), z)
    assert gradient.item() == pytest.approx(np.exp(-11.0), rel=1e-3)
