"""Arguments of launches: whatever is handed over, and however, kernels see what Taichi itself would let them see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch

from tests.reference import launched_kernels as kernels
from tests.reference.devices import host_arguments
from tests.reference.taichi_arrays import as_numpy, taichi_array
from ti_sim.base.runtime import require, ti

MAKERS: dict[str, Callable[[np.ndarray], object]] = {
    "numpy": np.array,
    "torch": torch.tensor,
    "parameter": lambda array: torch.nn.Parameter(torch.tensor(array)),
    "taichi": taichi_array,
    "column order": np.asfortranarray,
}


def on_cpu() -> bool:
    return require().device == "cpu"


@pytest.fixture
def by_taichi(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that Taichi's own path launched."""
    names: list[str] = []
    launch_kernel = ti.lang.kernel_impl.Kernel.launch_kernel

    def launch_and_note(kernel: object, *args: object) -> object:
        names.append(kernel.func.__name__)
        return launch_kernel(kernel, *args)

    require()
    monkeypatch.setattr(ti.lang.kernel_impl.Kernel, "launch_kernel", launch_and_note)
    return names


@host_arguments
@pytest.mark.parametrize(("first", "second"), list(product(MAKERS, MAKERS)))
def test_arrays_of_every_container(first: str, second: str, by_taichi: list[str]) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), dtype=np.float32)
    source, target = MAKERS[first](x), MAKERS[second](y)
    kernels.scale_and_add(source, target, 2.0, 3, True)
    by_taichi.clear()
    kernels.scale_and_add(source, target, 2.0, 3, True)
    assert len(by_taichi) == (0 if {first, second} <= {"numpy", "torch"} and on_cpu() else 1)
    np.testing.assert_array_equal(as_numpy(target), 1 + 2 * (2 * x + 3))
    np.testing.assert_array_equal(as_numpy(source), x)


@host_arguments
@pytest.mark.parametrize("real", [2.0, 2, np.float32(2), np.float64(2), np.int64(2)])
@pytest.mark.parametrize("integer", [3, np.int32(3), np.int64(3)])
def test_numbers_of_every_type(real: object, integer: object, by_taichi: list[str]) -> None:
    x, target = np.ones(4, np.float32), np.zeros(4, np.float32)
    for _ in range(2):
        by_taichi.clear()
        kernels.scale_and_add(x, target, real, integer, True)
    assert target.tolist() == [10.0] * 4 and len(by_taichi) == (0 if on_cpu() else 1)


def test_types_and_dimensions_and_templates_may_change_from_call_to_call() -> None:
    for _ in range(2):
        for dtype, shape, shifted in product((np.float32, np.float64), ((4,), (2, 2), (1, 2, 2)), (True, False)):
            for make in (np.array, torch.tensor):
                x, target = make(np.full(shape, 0.1, dtype)), make(np.zeros(shape, dtype))
                kernels.scale_and_add(x, target, 2.0, 3, shifted)
                np.testing.assert_allclose(as_numpy(target), 0.2 + 3 * shifted, rtol=1e-6)
                assert as_numpy(target).dtype == dtype


@host_arguments
def test_a_tensor_that_keeps_a_gradient_still_gets_it() -> None:
    x = torch.arange(3, dtype=torch.float32, requires_grad=True)
    y = torch.zeros(3, requires_grad=True)
    kernels.square(x, y)
    assert y.detach().tolist() == [0.0, 1.0, 4.0]
    y.grad.fill_(1.0)
    kernels.square.grad(x, y)
    assert x.grad.tolist() == [0.0, 2.0, 4.0]


def test_kernels_that_return_something() -> None:
    assert kernels.total(np.arange(5, dtype=np.float32)) == 10.0
    assert kernels.total(torch.arange(5, dtype=torch.float32)) == 10.0


@host_arguments
def test_arrays_of_vectors() -> None:
    for make in (np.array, torch.tensor):
        points, lengths = make(np.array([[3, 4, 0], [0, 0, 2]], np.float32)), make(np.zeros(2, np.float32))
        kernels.length(points, lengths)
        assert lengths.tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "y", "two", 3, True), "cannot be converted"),
        (("x", "y", 2.0, 3.5, True), "cannot be converted"),
        (("x", "y", 2.0, 3), "missing"),
        (("x", "y", 2.0, 3, True, 1), "Too many"),
        (("strided", "y", 2.0, 3, True), "[Cc]ontiguous"),
        (("strided tensor", "y", 2.0, 3, True), "[Cc]ontiguous"),
        ((None, "y", 2.0, 3, True), "Invalid type"),
    ],
)
def test_what_is_refused_is_refused_by_taichi(arguments: tuple[object, ...], message: str) -> None:
    arrays = {
        "x": np.ones((2, 3), np.float32), "y": np.zeros((2, 3), np.float32),
        "strided": np.ones((2, 6), np.float32)[:, ::2], "strided tensor": torch.ones((2, 6))[:, ::2],
    }  # fmt: skip
    given = [arrays.get(value, value) if isinstance(value, str) else value for value in arguments]
    with pytest.raises(Exception, match=message):
        kernels.scale_and_add(*given)


def test_an_array_of_another_type_than_the_kernel_says_is_refused_every_time() -> None:
    y = np.zeros(3, np.float32)
    for _ in range(2):
        with pytest.raises(ValueError, match="dtype=f32"):
            kernels.typed(np.ones(3), y)
        kernels.typed(np.ones(3, np.float32), y)
        with pytest.raises(ValueError, match="ndim=1"):
            kernels.typed(np.ones((1, 3), np.float32), y)
    assert y.tolist() == [2.0] * 3
