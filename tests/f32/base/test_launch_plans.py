"""Later launches reuse launch contexts of earlier ones: they see their arguments, whatever was launched before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.reference import launched_kernels as kernels
from tests.reference.devices import needs_cpu
from ti_sim.base import launch_arguments
from ti_sim.base.runtime import require, ti

pytestmark = needs_cpu("contexts are reused on the CPU")

FACTOR, SHIFT = 2.0, 3


def add_to_zeros(source: Any, shifted: bool = True) -> Any:
    """The result of ``scale_and_add`` in a new array."""
    target = np.zeros_like(source) if isinstance(source, np.ndarray) else torch.zeros_like(source)
    kernels.scale_and_add(source, target, FACTOR, SHIFT, shifted)
    return target


def contexts(kernel: Any) -> list[Any]:
    """Contexts of a kernel that wait for a launch."""
    return [context for plan in kernel._primal.launch_plans.plans.values() for context, _arrays in plan.contexts]


@pytest.fixture
def new_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan of ``scale_and_add`` before the test."""
    require()
    monkeypatch.setattr(kernels.scale_and_add._primal, "launch_plans", None)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_addresses_and_shapes_that_change(make: Callable[[np.ndarray], Any]) -> None:
    random = np.random.default_rng(0)
    kept = []
    for shape in ((2, 3), (2, 3), (3, 2), (0, 3), (5, 4), (1, 1), (2, 3)):
        source = random.normal(size=shape).astype(np.float32)
        kept.append(make(source))
        assert np.array_equal(np.asarray(add_to_zeros(kept[-1])), np.float32(FACTOR) * source + SHIFT)
    for array in kept:  # again, at the addresses of before
        assert np.array_equal(np.asarray(add_to_zeros(array)), np.float32(FACTOR) * np.asarray(array) + SHIFT)


def test_memory_that_is_freed_and_used_again() -> None:
    """By arrays of other shapes and numbers, and by arrays that change in place."""
    for size in (1000, 500, 2000) * 5:
        source = np.full((size, 1), size, np.float32)
        assert np.array_equal(add_to_zeros(source), np.full((size, 1), FACTOR * size + SHIFT, np.float32))
        del source
    changing = np.ones((4, 1), np.float32)
    add_to_zeros(changing)
    changing.shape = (2, 2)
    assert add_to_zeros(changing).shape == (2, 2)
    changing = np.ones((4, 1), np.float32)
    add_to_zeros(changing)
    changing.resize((10_000, 1), refcheck=False)  # moves
    assert add_to_zeros(changing)[:, 0].tolist() == [FACTOR + SHIFT] * 4 + [SHIFT] * 9_996
    tensor, other = torch.ones(3, 1), torch.full((5, 1), 4.0)
    add_to_zeros(tensor)
    tensor.data = other
    assert add_to_zeros(tensor)[:, 0].tolist() == [4 * FACTOR + SHIFT] * 5


def test_one_context_serves_launches_of_one_kind(new_plans: None) -> None:
    for size in (1, 2, 3):
        add_to_zeros(np.ones(size, np.float32))
    assert len(contexts(kernels.scale_and_add)) == 1  # the first launch is Taichi's
    for _ in range(3):
        add_to_zeros(np.ones(3, np.float32), shifted=False)
    assert len(contexts(kernels.scale_and_add)) == 2


def test_numbers_that_are_equal_and_differ_in_their_bits() -> None:
    x = np.ones(1, np.float32)
    for factor in (0.0, -0.0, float("nan"), 0.0, True, -0.0):
        target = np.full(1, -0.0, np.float32)
        kernels.scale_and_add(x, target, factor, 0, False)
        assert np.array_equal(target, np.float32(-0.0) + np.float32(factor) * x, equal_nan=True)
        assert np.signbit(target[0]) == np.signbit(np.float32(-0.0) + np.float32(factor) * x)[0]


def test_kinds_that_differ_in_one_argument_only() -> None:
    for _ in range(2):
        for dtype in (np.float32, np.dtype(np.float64), np.int32, np.dtype("<f4")):
            assert add_to_zeros(np.ones(2, dtype)).tolist() == [FACTOR + SHIFT] * 2
        with pytest.raises(Exception, match="[Dd]ata type|dtype|match"):
            add_to_zeros(np.ones(2, ">f4"))


def test_arguments_that_are_refused_after_some_are_set(new_plans: None) -> None:
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    for _ in range(2):
        kernels.scale_and_add(x, y, FACTOR, SHIFT, True)
    other = np.full(3, 10.0, np.float32)
    for bad in (("two", SHIFT), (FACTOR, 3.5), (FACTOR, 2**70), (None, None)):
        with pytest.raises(Exception):  # noqa: B017, PT011  (by Taichi, or by its setters)
            kernels.scale_and_add(other, other, *bad, True)
    assert not contexts(kernels.scale_and_add)
    kernels.scale_and_add(x, y, FACTOR, SHIFT, True)
    assert y.tolist() == [3 * (FACTOR + SHIFT)] * 3 and other.tolist() == [10.0] * 3


def test_a_launch_that_fails_leaves_no_context(new_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        add_to_zeros(np.ones(3, np.float32))
    primal = kernels.scale_and_add._primal
    plan = next(iter(primal.launch_plans.plans.values()))
    kind = next(iter(primal.launch_plans.plans))
    primal.launch_plans.plans[kind] = plan._replace(machine_code=None)
    with pytest.raises(TypeError):
        add_to_zeros(np.ones(3, np.float32))
    assert not plan.contexts
    primal.launch_plans.plans[kind] = plan
    assert add_to_zeros(np.ones(3, np.float32)).tolist() == [FACTOR + SHIFT] * 3


def test_arrays_that_are_too_large_take_taichis_path(new_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    launch_kernel = ti.lang.kernel_impl.Kernel.launch_kernel
    monkeypatch.setattr(
        ti.lang.kernel_impl.Kernel, "launch_kernel", lambda *args: (launched.append(args), launch_kernel(*args))[1]
    )
    for size in (1, 2, 3):
        add_to_zeros(np.ones(size, np.float32))
    assert len(launched) == 1
    monkeypatch.setattr(launch_arguments, "_MAX_ARRAY_SIZE", 3)
    assert add_to_zeros(np.ones(4, np.float32)).tolist() == [FACTOR + SHIFT] * 4
    assert len(launched) == 2


def test_a_launch_while_another_sets_its_arguments(new_plans: None) -> None:
    """By code that runs in between, such as a finalizer."""

    class Launching(float):
        def __float__(self) -> float:
            inner.append(add_to_zeros(np.full(5, 7.0, np.float32)).tolist())
            return FACTOR

    inner: list[list[float]] = []
    for _ in range(3):
        target = np.zeros(3, np.float32)
        kernels.scale_and_add(np.ones(3, np.float32), target, Launching(0.0), SHIFT, True)
        assert target.tolist() == [FACTOR + SHIFT] * 3
    assert len(inner) >= 3 and all(values == [7 * FACTOR + SHIFT] * 5 for values in inner)


def test_threads_have_contexts_of_their_own() -> None:
    def launch_repeatedly(number: int) -> bool:
        size, source = 10 + number, np.full(10 + number, float(number), np.float32)
        return all(add_to_zeros(source).tolist() == [FACTOR * number + SHIFT] * size for _ in range(300))

    add_to_zeros(np.ones(1, np.float32))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(launch_repeatedly, range(8)))
    finally:
        sys.setswitchinterval(interval)


def test_addresses_are_those_that_numpy_reports() -> None:
    base = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    for array in (base, base[1], base[:, 1, 2], base[:0], np.float32(base), np.array(1.0), np.frombuffer(b"abcd", np.uint8)):
        assert launch_arguments._data_address(array) == array.ctypes.data


@pytest.mark.processes
def test_plans_end_with_the_runtime() -> None:
    source = (
        "import numpy as np\n"
        "from tests.reference import launched_kernels as kernels\n"
        "from ti_sim.base.runtime import ti\n"
        "def launch(dtype):\n"
        "    target = np.zeros(3, dtype)\n"
        "    for _ in range(3):\n"
        "        kernels.scale_and_add(np.ones(3, dtype), target, 2.0, 3, True)\n"
        "    print(target.tolist(), kernels.scale_and_add._primal.launch_plans.program is ti.lang.impl.get_runtime().prog)\n"
        "for precision, dtype in ((ti.f32, np.float32), (ti.f64, np.float64), (ti.f32, np.float32)):\n"
        "    ti.init(ti.cpu, default_fp=precision, log_level=ti.ERROR)\n"
        "    launch(dtype)\n"
        "ti.reset()\n"
        "print(kernels.scale_and_add._primal.launch_plans)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if not line.startswith("[Taichi]")]
    assert printed == ["[15.0, 15.0, 15.0] True"] * 3 + ["None"]
