"""Copies of host arrays for launches on a GPU. Where kernels run on the CPU, it is the device: its copies are memory
of their own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.reference import launched_kernels as kernels
from tests.reference.devices import host_arguments
from tests.reference.taichi_arrays import taichi_array
from ti_sim.base import fast_launch, launch_arguments, launcher, staging
from ti_sim.base.errors import UserError
from ti_sim.base.launcher import Launcher
from ti_sim.base.runtime import require, ti
from ti_sim.base.staging import Span, Staging, launch_staged, merge_overlapping


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """Launches, ordinary and bound ones, take the way of a GPU; the arguments that each is given."""
    on_gpu, arch = require().device != "cpu", ti.lang.impl.get_runtime().prog.config().arch
    impl, seen, given = ti.lang.kernel_impl, staging.launch_staged, []
    pretended = SimpleNamespace(
        **vars(impl) | {"_ti_core": SimpleNamespace(Arch=SimpleNamespace(cuda=arch, vulkan=None, x64=None, arm64=None))}
    )

    def launch_and_note(arguments: Sequence[Any], launch: Callable[..., Any], *options: Any) -> Any:
        def note(values: Sequence[Any]) -> Any:
            given.append(values)
            return launch(values)

        return seen(arguments, note, *options)

    monkeypatch.setattr(fast_launch, "launch_staged", launch_and_note)
    monkeypatch.setattr(launcher, "launch_staged", launch_and_note)
    if on_gpu:
        return given
    monkeypatch.setattr(staging, "DEVICE", "cpu")
    monkeypatch.setattr(launcher, "_on_gpu", lambda: True)
    launch_kernel = impl.Kernel.launch_kernel.__wrapped__
    monkeypatch.setattr(impl.Kernel, "launch_kernel", fast_launch._launch_with_staging(pretended, launch_kernel))
    monkeypatch.setattr(impl.Kernel, "__call__", impl.Kernel.__call__.__wrapped__)
    monkeypatch.setattr(launch_arguments, "_is_on_device", lambda _tensor, on_cuda: on_cuda)
    for kernel in (kernels.scale_and_add, kernels.square, kernels.add_twice):
        monkeypatch.setattr(kernel._primal, "launch_plans", None)
    return given


def staged(*arguments: object) -> Staging:
    return Staging(arguments, "cpu")


# -- spans ----------------------------------------------------------------------------------------------------------------


def test_spans_that_overlap_are_one_and_spans_that_touch_are_not() -> None:
    assert merge_overlapping([Span(8, 12), Span(0, 4), Span(4, 8)]) == [Span(0, 4), Span(4, 8), Span(8, 12)]
    assert merge_overlapping([Span(6, 12), Span(0, 4), Span(3, 7)]) == [Span(0, 12)]
    assert merge_overlapping([Span(0, 12), Span(2, 4), Span(0, 12), Span(11, 12)]) == [Span(0, 12)]
    assert merge_overlapping([]) == []


# -- copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint16])
def test_a_copy_holds_what_the_array_holds(dtype: type) -> None:
    array = np.arange(24).astype(dtype).reshape(2, 3, 4)
    copies = staged(array, 7, array[1])
    whole, number, half = copies.arguments
    assert number == 7
    assert whole.dtype == half.dtype == torch.from_numpy(array).dtype
    np.testing.assert_array_equal(whole.cpu().numpy(), array)
    np.testing.assert_array_equal(half.cpu().numpy(), array[1])
    assert half.data_ptr() - whole.data_ptr() == array[1].ctypes.data - array.ctypes.data
    assert whole.data_ptr() != array.ctypes.data and whole.is_contiguous()


def test_the_same_array_twice_has_one_copy() -> None:
    array = np.zeros(5)
    first, second = staged(array, torch.from_numpy(array)).arguments
    assert first.data_ptr() == second.data_ptr()


def test_arrays_that_lie_beside_each_other_have_copies_of_their_own() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    copies = staged(rows[0], rows[1])
    assert len(copies._copies) == 2
    for row, tensor in zip(rows, copies.arguments, strict=True):
        np.testing.assert_array_equal(tensor.cpu().numpy(), row)
    copies.arguments[0].fill_(9.0)
    copies.download()
    assert rows.tolist() == [[9.0] * 3, [3.0, 4.0, 5.0]]


def test_overlapping_parts_of_a_buffer_come_back_as_one() -> None:
    """Bytes of another type in the same buffer, too."""
    buffer = np.arange(10, dtype=np.float32)
    head, tail, bits = buffer[:6], buffer[4:], buffer.view(np.int32)[5:7]
    copies = staged(tail, bits, head)
    assert len(copies._copies) == 1
    given_tail, given_bits, given_head = copies.arguments
    given_head.mul_(2.0)
    given_tail.add_(1.0)
    assert given_bits.view(torch.float32).tolist() == [11.0, 7.0]
    assert buffer.tolist() == list(range(10))  # until the copies come back
    copies.download()
    assert buffer.tolist() == [0, 2, 4, 6, 9, 11, 7, 8, 9, 10]


def test_what_is_read_only_stays_so_also_within_an_array_that_is_not() -> None:
    alone, buffer = np.arange(3.0), np.arange(4.0)
    alone.flags.writeable = False
    locked = buffer[:3]
    locked.flags.writeable = False
    copies = staged(alone, locked, buffer[2:])
    for tensor in copies.arguments:
        tensor.fill_(5.0)
    copies.download()
    assert alone.tolist() == [0, 1, 2]
    assert buffer.tolist() == [0, 1, 5, 5]  # the entries that another argument may write


def test_what_taichi_copies_or_refuses_itself_has_no_copy() -> None:
    square = np.ones((3, 3))
    given = (
        np.zeros((0, 3)), torch.zeros(2, 0), square.T, square[:, ::2], torch.ones(3, 3).T, taichi_array(np.ones(2)), 1, None
    )
    copies = staged(*given)
    assert all(one is other for one, other in zip(copies.arguments, given, strict=True)) and not copies._copies
    copies.download()
    assert launch_staged(given, lambda values: values is given, lambda: pytest.fail("nothing was copied"))


def test_a_gradient_has_a_copy_too() -> None:
    parameter = torch.nn.Parameter(torch.arange(3.0))
    plain, kept = torch.ones(2), torch.ones(2)
    plain.grad = torch.full((2,), 4.0)
    copies = staged(parameter, plain, kept)
    one, two, three = copies.arguments
    assert one.requires_grad and one.is_leaf and one.grad.tolist() == parameter.grad.tolist() == [0.0] * 3
    assert not two.requires_grad and two.grad.tolist() == [4.0] * 2 and three.grad is None
    one.grad.add_(2.0)
    copies.download()
    assert parameter.grad.tolist() == [2.0] * 3 and parameter.tolist() == [0.0, 1.0, 2.0]


def test_numbers_that_do_not_lie_at_multiples_of_their_size_are_refused() -> None:
    shifted = np.zeros(33, dtype=np.uint8)[1:].view(np.float64)
    with pytest.raises(UserError, match="which is no multiple of 8: copy it"):
        staged(shifted)


# -- launches -------------------------------------------------------------------------------------------------------------


@host_arguments
@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_kernels_write_to_arrays_that_overlap(make: Callable[..., Any], launched: list[Sequence[Any]]) -> None:
    buffer, source = make([0.0, 0.0, 0.0, 0.0, 5.0]), make([1.0, 2.0, 3.0])
    kernels.add_twice(3, source, buffer[:3], buffer[1:4])
    assert buffer.tolist() == [1.0, 12.0, 23.0, 30.0, 5.0] and source.tolist() == [1.0, 2.0, 3.0]
    (given,) = launched
    assert given[2].data_ptr() + given[2].element_size() == given[3].data_ptr()


@host_arguments
@pytest.mark.parametrize("bound", [False, True])
def test_the_same_array_as_two_arguments(bound: bool, launched: list[Sequence[Any]]) -> None:
    array, source = np.zeros(4, np.float32), np.arange(4, dtype=np.float32)
    arguments = (source, array, array)
    launch = Launcher(kernels.add_twice, *arguments) if bound else lambda count: kernels.add_twice(count, *arguments)
    launch(4)
    source += 1.0  # on the host, between launches
    launch(2)
    assert array.tolist() == [11.0, 33.0, 22.0, 33.0]
    assert len(launched) == 2 and all(isinstance(value, torch.Tensor) for given in launched for value in given[-3:])


def test_bound_launches_without_host_arrays_keep_what_they_are_given(launched: list[Sequence[Any]]) -> None:
    array, source = taichi_array(np.zeros(4, np.float32)), taichi_array(np.arange(4, dtype=np.float32))
    launch = Launcher(kernels.add_twice, source, array, array)
    before = len(launched)  # arrays of Taichi's are filled by launches
    launch(4)
    assert len(launched) == before
    source.from_numpy(np.ones(4, np.float32))  # between launches, in the same memory
    launch(2)
    assert array.to_numpy().tolist() == [11.0, 22.0, 22.0, 33.0]


@host_arguments
def test_read_only_and_empty_arguments(launched: list[Sequence[Any]]) -> None:
    array, source, empty = np.zeros(3), np.arange(3.0), np.zeros(0)
    source.flags.writeable = False
    kernels.add_twice(3, source, array, array)
    kernels.add_twice(0, empty, empty, array)
    Launcher(kernels.add_twice, source, array, empty)(0)
    assert array.tolist() == [0.0, 11.0, 22.0] and source.tolist() == [0.0, 1.0, 2.0] and len(launched) == 3


@host_arguments
def test_arguments_that_take_taichis_own_path(launched: list[Sequence[Any]]) -> None:
    """Return values, arrays of vectors, column order, gradients."""
    assert kernels.total(np.arange(5, dtype=np.float32)) == 10.0
    points, lengths = np.array([[3, 4, 0], [0, 0, 2]], np.float32), np.zeros(2, np.float32)
    kernels.length(points, lengths)
    assert lengths.tolist() == [5.0, 2.0]
    columns, rows = np.asfortranarray(np.ones((2, 3), np.float32)), np.ones((2, 3), np.float32)
    kernels.scale_and_add(rows, columns, 2.0, 3, True)
    assert columns.tolist() == [[6.0] * 3] * 2
    x, y = torch.arange(3, dtype=torch.float32, requires_grad=True), torch.zeros(3, requires_grad=True)
    kernels.square(x, y)
    y.grad.fill_(1.0)
    kernels.square.grad(x, y)
    assert y.tolist() == [0.0, 1.0, 4.0] and x.grad.tolist() == [0.0, 2.0, 4.0] and len(launched) == 5


def test_strided_arrays_are_refused_as_on_the_cpu(launched: list[Sequence[Any]]) -> None:
    strided, y = np.ones((2, 6), np.float32)[:, ::2], np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="Non contiguous"):
        kernels.scale_and_add(strided, y, 2.0, 3, True)
    with pytest.raises(UserError, match="source is not contiguous"):
        Launcher(kernels.add_twice, strided[0], y[0], y[0])
    assert not y.any()
