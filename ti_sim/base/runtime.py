"""The one module that imports taichi: its lazy start, and the settings it runs with.

Importing starts nothing. The runtime begins at the first kernel launch (``require``) or when the user calls ``start``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.kernel_cache import home_directory, writable_cache
from ti_sim.base.rules import Count, checked

os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
os.environ.setdefault("HOME", str(home_directory()))  # without it, taichi ends the process

import taichi as ti  # noqa: E402  (the banner is switched off first)

from ti_sim.base.compilation import compile_one_at_a_time, compiling, refuse_launches, without  # noqa: E402
from ti_sim.base.fast_launch import install_fast_launch  # noqa: E402
from ti_sim.base.frontend import cache_sources, skip_importer_frame  # noqa: E402

__all__ = ["Runtime", "compiled_briefly", "compiled_lightly", "compiled_plainly", "require", "start", "ti"]

P = ParamSpec("P")
R = TypeVar("R")

skip_importer_frame(ti.lang.kernel_impl)
cache_sources(ti.lang.kernel_impl)
install_fast_launch(ti.lang.kernel_impl)
compile_one_at_a_time(ti.lang.kernel_impl, ti.lang.ast.ast_transformer_utils.ASTTransformerContext)

_PRECISIONS = ("f32", "f64")
_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Runtime:
    """What the kernels run on.

    Attributes:
        device: "cpu" or "cuda".
        precision: "f32" or "f64", the type of every real number in every kernel.
        adopted: True when the user had started taichi before.
    """

    device: str
    precision: str
    adopted: bool

    @property
    def numpy_dtype(self) -> type[np.floating]:
        """numpy type of the working precision."""
        return np.float64 if self.precision == "f64" else np.float32


_runtime: Runtime | None = None
_forked = False
_FORKED = (
    "this process was forked from one in which the runtime had started, whose threads do not live here: start processes by "
    "multiprocessing's 'spawn' (as DataLoader(multiprocessing_context='spawn') does), or fork before the first simulation or "
    "picture"
)


@checked
def start(*, device: str = "auto", precision: str = "f32", threads: Count | None = None) -> Runtime:
    """Start the runtime, or return the running one if its settings fit.

    Args:
        device: "auto" (CUDA where a GPU answers, else the CPU), "cpu" or "cuda".
        precision: "f32" or "f64".
        threads: CPU threads; None takes every core.

    Returns:
        The running runtime.

    Raises:
        UserError: an option is unknown, CUDA was asked for and is absent, or a runtime with other settings already runs.
    """
    if device not in _DEVICES:
        raise UserError(f"device {device!r} is unknown: choose one of {', '.join(_DEVICES)}")
    if precision not in _PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown: choose one of {', '.join(_PRECISIONS)}")
    with compiling:  # threads that start together
        running = _running()
        if running is None:
            return _initialise(device, precision, threads)
    if running.precision != precision or device not in ("auto", running.device):
        raise UserError(
            f"the runtime already runs on {running.device} in {running.precision}, and {device} in {precision} was asked for: "
            "choose device and precision before the first simulation or picture, or use a new process"
        )
    return running


def require() -> Runtime:
    """Return the running runtime, starting it with the defaults (or ``RISP_DEVICE``, ``RISP_PRECISION``) when none runs."""
    running = _running()
    if running is not None:
        return running
    return start(device=os.environ.get("RISP_DEVICE", "auto"), precision=os.environ.get("RISP_PRECISION", "f32"))


def _running() -> Runtime | None:
    """The current runtime: ours, or one that the user started with ``ti.init`` (adopted after a check)."""
    global _runtime
    if _forked:
        raise UserError(_FORKED)
    if ti.lang.impl.get_runtime().prog is None:
        _runtime = None
    elif _runtime is None:
        _runtime = _adopt()
    return _runtime


def _adopt() -> Runtime:
    config = ti.lang.impl.current_cfg()
    names = {ti.f32: "f32", ti.f64: "f64"}
    if config.default_fp not in names:
        raise UserError(
            f"taichi was started with default_fp={config.default_fp}: start it with ti.f32 or ti.f64, or leave the start to us"
        )
    if config.arch in (ti.x64, ti.arm64):
        device = "cpu"
    elif config.arch == ti.cuda:
        device = "cuda"
    else:
        raise UserError(f"taichi was started on {config.arch}: start it on ti.cpu or ti.cuda, or let this library start it")
    return Runtime(device=device, precision=names[config.default_fp], adopted=True)


def _initialise(device: str, precision: str, threads: int | None) -> Runtime:
    global _runtime
    on_cuda = device == "cuda" or (device == "auto" and _cuda_answers())
    if device == "cuda" and not _cuda_answers():
        raise UserError("device 'cuda' was asked for and no CUDA device answers: choose device 'cpu', or mend the driver")
    options: dict[str, object] = {} if threads is None else {"cpu_max_num_threads": threads}
    cache = writable_cache()
    with contextlib.redirect_stdout(io.StringIO()):  # taichi prints its architecture
        ti.init(
            arch=ti.cuda if on_cuda else ti.cpu,
            default_fp=ti.f64 if precision == "f64" else ti.f32,
            log_level=ti.ERROR,
            offline_cache=cache is not None,
            fast_math=False,
            offline_cache_file_path=str(cache),
            **options,
        )
    ti.lang.impl.get_runtime().materialize()  # by the thread that started it; the first kernel may be another thread's
    # Taichi writes its cache of kernels when it ends, which the interpreter's end does not bring about while an autograd graph is
    # alive.
    atexit.unregister(ti.reset)
    atexit.register(ti.reset)
    _runtime = Runtime(device="cuda" if on_cuda else "cpu", precision=precision, adopted=False)
    return _runtime


def _after_fork() -> None:
    """In a child process: the runtime's threads stayed in the parent, and a launch would wait for them for ever."""
    global _forked
    program = ti.lang.impl.get_runtime().prog
    if program is not None:
        _forked = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(program))  # its end would wait for them, too
        atexit.unregister(ti.reset)
        refuse_launches(ti.lang.kernel_impl, _FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cuda_answers() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:  # no driver: asking taichi would print a warning
        return False
    return bool(ti.lang.misc.is_arch_supported(ti.cuda))


def compiled_lightly(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions that launch our kernels: they are compiled without Taichi's control-flow pass.

    The pass takes two thirds of the compilation of a large kernel, and its result runs no faster. Taichi's own autodiff needs it
    (without it, gradients are NaN), so that it stays on for the kernels of users; ours have derivatives of their own.
    """
    return _compiled_without(function, ("cfg_optimization",))


def compiled_briefly(function: Callable[P, R]) -> Callable[P, R]:
    """As ``compiled_lightly``, and at Taichi's optimisation level 0, for the kernels of rigid bodies.

    LLVM's own optimisation stays on. These kernels compile in two thirds of the time and run as fast; articulated and soft bodies
    would run by 5 to 10 % slower, and the rasteriser, some of whose kernels then take longer to compile, by up to 40 %.
    """
    return _compiled_without(function, ("cfg_optimization", "opt_level"))


def compiled_plainly(function: Callable[P, R]) -> Callable[P, R]:
    """As ``compiled_lightly``, and without Taichi's search for common subexpressions, for kernels of thousands of statements.

    The search takes time that grows with their square (minutes), and LLVM does most of its work again: such a kernel runs about
    a seventh slower.
    """
    return _compiled_without(function, ("cfg_optimization", "advanced_optimization"))


def _compiled_without(function: Callable[P, R], passes: tuple[str, ...]) -> Callable[P, R]:
    """``function`` whose kernels are compiled without these passes, and with brief places in their errors."""

    @wraps(function)
    def light(*args: P.args, **kwargs: P.kwargs) -> R:
        require()
        with without(passes):
            return function(*args, **kwargs)

    return light
