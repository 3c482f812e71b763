"""Bundles of arrays as parameters of kernels: what is computed is what flat parameters compute, and gradients go through them."""

import numpy as np
import pytest
import torch

from tests.reference.devices import taichi_gradients
from tests.reference.taichi_arrays import taichi_array, taichi_zeros
from ti_sim.base.bundles import Array, Integer, Number, Static, bundle, flat, kernel, views, with_fields
from ti_sim.base.launcher import Launcher
from ti_sim.base.runtime import ti


@bundle
class Law:
    """Stiffness [N] and what scales it."""

    stiffness: Array
    power: Static
    factor: Number


@bundle
class Springs:
    """A law beside indices, with a field that is no argument."""

    index: Array
    law: Law
    count: Integer
    doubled: Static = False


@ti.func
def force(springs: ti.template(), x: ti.template(), i):
    """A force that reads every field."""
    value = springs.law.factor * springs.law.stiffness[i] * x[springs.index[i]] ** springs.law.power
    if ti.static(springs.doubled):
        value *= 2.0
    return value


@kernel
def forces(x: ti.types.ndarray(), springs: Springs, out: ti.types.ndarray()):
    """out [2, N] from x [N]: as the bundle comes, and doubled."""
    for i in range(springs.count):
        out[0, i] = force(springs, x, i)
        both = with_fields(springs, doubled=True)
        out[1, i] = force(both, x, i)


@kernel
def energy(x: ti.types.ndarray(needs_grad=True), law: Law, total: ti.types.ndarray(needs_grad=True)):
    """total [1] += sum of factor stiffness x^power, in the dialect that Taichi differentiates."""
    for i in x:
        total[0] += law.factor * law.stiffness[i] * x[i] ** law.power


def springs(power: int = 2) -> Springs:
    return Springs(np.array([2, 0, 1], dtype=np.int32), Law(np.array([1.0, 2.0, 3.0]), power, 0.5), 3)


X = np.array([0.3, 0.7, 1.1])


@pytest.mark.parametrize("power", [2, 3])
def test_fields_arrive_where_they_belong(power: int) -> None:
    given, out = springs(power), np.zeros((2, 3))
    forces(X, given, out)
    expected = 0.5 * given.law.stiffness * X[given.index] ** power
    np.testing.assert_allclose(out, [expected, 2 * expected], rtol=1e-15)


def test_calls_take_fields_one_by_one_and_views_of_tensors() -> None:
    expected, out = np.zeros((2, 3)), torch.zeros((2, 3), dtype=torch.float64)
    forces(X, springs(), expected)
    assert len(flat(springs())) == 5  # a field with a default is no argument
    forces(*views(torch.tensor(X), *flat(springs()), out))
    np.testing.assert_array_equal(out, expected)


def test_a_launcher_takes_bundles() -> None:
    expected, out = np.zeros((2, 3)), np.zeros((2, 3))
    forces(X, springs(), expected)
    Launcher(forces, X, springs(), out, integers=0)()
    np.testing.assert_array_equal(out, expected)


@taichi_gradients
def test_a_tape_differentiates_kernels_of_bundles() -> None:
    x, total = taichi_array(X, needs_grad=True), taichi_zeros(1)
    stiffness = np.array([1.0, 2.0, 3.0])
    with ti.ad.Tape(loss=total):
        energy(x, Law(stiffness, 3, 0.5), total)
    np.testing.assert_allclose(x.grad.to_numpy(), 1.5 * stiffness * X**2, rtol=1e-14)


def test_a_bundle_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'count'"):
        Springs(np.zeros(3, dtype=np.int32), springs().law)
    with pytest.raises(Exception, match="[Tt]oo few arguments|missing|argument"):
        forces(X, springs().law, np.zeros((2, 3)))
