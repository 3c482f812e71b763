"""The only module that imports Taichi: lazy initialisation and runtime settings.

The import starts nothing. The runtime starts at the first kernel launch (``require``) or when the user calls ``start``.
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
from ti_sim.base.kernel_cache import CACHED_BYTES, home_directory, writable_cache
from ti_sim.base.rules import Count, checked

os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
os.environ.setdefault("HOME", str(home_directory()))  # without it, Taichi terminates the process

try:
    import taichi as ti  # noqa: E402  (the banner is switched off first)
    from taichi.lang import matrix_ops
except ImportError as error:
    if "libX11" in str(error):
        raise ImportError("Taichi loads the library libX11, which is missing: install it (apt-get install libx11-6)") from None
    raise

from ti_sim.base.compilation import compile_one_at_a_time, compiling, in_double, refuse_launches, without_passes  # noqa: E402
from ti_sim.base.fast_launch import install_fast_launch  # noqa: E402
from ti_sim.base.frontend import LineReader, cache_sources, skip_importer_frame  # noqa: E402
from ti_sim.base.matrix_products import build_products_directly  # noqa: E402

__all__ = [
    "Runtime", "at_optimisation_level_0", "compiled_in_double", "require", "start", "ti", "with_vector_code",
    "without_cfg_optimisation", "without_subexpression_elimination",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

skip_importer_frame(ti.lang.kernel_impl)
cache_sources(ti.lang.kernel_impl)
install_fast_launch(ti.lang.kernel_impl)
build_products_directly(matrix_ops, ti.lang.impl, ti.lang.matrix.make_matrix, ti.lang.expr.Expr)
compile_one_at_a_time(ti.lang.kernel_impl, LineReader(ti.lang))

_PRECISIONS = ("f32", "f64")
_DEVICES = ("auto", "cpu", "cuda", "vulkan")
# Threads of a block on Vulkan, where a loop sets none: Mesa's software driver skips atomic operations in loops of blocks that are
# partly idle, unless a block fits into one vector of the processor.
_MESA_BLOCK_DIM = 8


@dataclass(frozen=True)
class Runtime:
    """Device and precision of the kernels.

    Attributes:
        device: "cpu", "cuda" or "vulkan".
        precision: "f32" or "f64", the type of every real number in every kernel.
        adopted: True if the user initialised Taichi before.
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
    "this process was forked from one in which the runtime had started, whose threads do not exist here: start processes with "
    "multiprocessing's 'spawn' (as DataLoader(multiprocessing_context='spawn') does), or fork before the first simulation or "
    "picture"
)


@checked
def start(*, device: str = "auto", precision: str = "f32", threads: Count | None = None) -> Runtime:
    """Start the runtime, or return the running one if its settings fit.

    Args:
        device: "auto" (CUDA if a GPU is available, else the CPU), "cpu", "cuda", or "vulkan". Vulkan is for tests of a
            GPU's kernels, on Mesa's software driver where there is no GPU; f64 has no sine, exponential or logarithm there.
        precision: "f32" or "f64".
        threads: number of CPU threads; None uses every core.

    Returns:
        The running runtime.

    Raises:
        UserError: an option is unknown, CUDA was requested and is not available, or a runtime with other settings already runs.
    """
    if device not in _DEVICES:
        raise UserError(f"device {device!r} is unknown: choose one of {', '.join(_DEVICES)}")
    if precision not in _PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown: choose one of {', '.join(_PRECISIONS)}")
    with compiling:  # several threads may call start at once
        current = _current_runtime()
        if current is None:
            return _initialise(device, precision, threads)
    if current.precision != precision or device not in ("auto", current.device):
        raise UserError(
            f"the runtime already runs on {current.device} in {current.precision}, and {device} in {precision} was asked for: "
            "choose device and precision before the first simulation or picture, or use a new process"
        )
    return current


def require() -> Runtime:
    """Return the running runtime; if none runs, start it with the defaults (or ``RISP_DEVICE``, ``RISP_PRECISION``)."""
    current = _current_runtime()
    if current is not None:
        return current
    return start(device=os.environ.get("RISP_DEVICE", "auto"), precision=os.environ.get("RISP_PRECISION", "f32"))


def _current_runtime() -> Runtime | None:
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
    elif config.arch in (ti.cuda, ti.vulkan):
        device = "cuda" if config.arch == ti.cuda else "vulkan"
    else:
        raise UserError(f"taichi was started on {config.arch}: start it on ti.cpu or ti.cuda, or let this library start it")
    return Runtime(device=device, precision=names[config.default_fp], adopted=True)


def _initialise(device: str, precision: str, threads: int | None) -> Runtime:
    global _runtime
    if device == "auto":
        device = "cuda" if _cuda_is_available() else "cpu"
    elif device != "cpu" and not (_cuda_is_available() if device == "cuda" else ti.lang.misc.is_arch_supported(ti.vulkan)):
        raise UserError(
            f"device {device!r} was asked for and no {device.upper()} device answers: choose device 'cpu', or repair the driver"
        )
    options: dict[str, object] = {} if threads is None else {"cpu_max_num_threads": threads}
    if device == "vulkan":
        options["default_gpu_block_dim"] = _MESA_BLOCK_DIM
    cache = writable_cache()
    with contextlib.redirect_stdout(io.StringIO()):  # taichi prints its architecture
        ti.init(
            arch=getattr(ti, device),
            default_fp=ti.f64 if precision == "f64" else ti.f32,
            log_level=ti.ERROR,
            offline_cache=cache is not None,
            fast_math=False,
            offline_cache_file_path=str(cache),
            offline_cache_max_size_of_files=CACHED_BYTES,
            **options,
        )
    ti.lang.impl.get_runtime().materialize()  # in this thread: another one may launch the first kernel
    # Taichi writes its kernel cache when it is reset. Interpreter shutdown does not trigger that while an autograd graph is
    # alive.
    atexit.unregister(ti.reset)
    atexit.register(ti.reset)
    _runtime = Runtime(device=device, precision=precision, adopted=False)
    return _runtime


def _after_fork() -> None:
    """In a child process: the threads of the runtime exist only in the parent, so a launch would wait forever."""
    global _forked
    program = ti.lang.impl.get_runtime().prog
    if program is not None:
        _forked = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(program))  # its destructor would wait for them, too
        atexit.unregister(ti.reset)
        refuse_launches(ti.lang.kernel_impl, _FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cuda_is_available() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:  # no driver: the check in Taichi would print a warning
        return False
    return bool(ti.lang.misc.is_arch_supported(ti.cuda))


def without_cfg_optimisation(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions that launch kernels: these are compiled without Taichi's control-flow-graph (CFG) optimisation.

    The pass takes two thirds of the compile time of a large kernel, and the result runs no faster. Taichi's own autodiff needs it
    (without it, gradients are NaN), so it stays enabled for user kernels; the kernels here have hand-written adjoints.
    """
    return _compiled_without(function, ("cfg_optimization",))


def at_optimisation_level_0(function: Callable[P, R]) -> Callable[P, R]:
    """As ``without_cfg_optimisation``, and with Taichi's optimisation level 0 (``opt_level``), for the kernels of rigid bodies.

    LLVM's optimisation stays enabled. These kernels compile in two thirds of the time and run as fast. Articulated and soft
    bodies would run 5 to 10 % slower, and the rasteriser up to 40 % slower (some of its kernels also take longer to compile).
    """
    return _compiled_without(function, ("cfg_optimization", "opt_level"))


def with_vector_code(function: Callable[P, R]) -> Callable[P, R]:
    """As ``without_subexpression_elimination``, with vectors of kernels as vectors of the processor (``ti_sim.base.lanes``).

    Kernels of lanes run as fast without Taichi's elimination of subexpressions and compile three times as fast.
    """
    return _compiled_without(function, ("cfg_optimization", "advanced_optimization", "real_matrix_scalarize"))


def without_subexpression_elimination(function: Callable[P, R]) -> Callable[P, R]:
    """As ``without_cfg_optimisation``, and without Taichi's common-subexpression elimination (CSE), for kernels of thousands of
    statements.

    The time of that pass grows quadratically with the number of statements (minutes), and LLVM repeats most of its work. Such a
    kernel runs about a seventh slower.
    """
    return _compiled_without(function, ("cfg_optimization", "advanced_optimization"))


def compiled_in_double(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions whose kernels compute in double precision, whatever the working precision: their arrays are f64.

    A kernel must be launched by such functions only: it is compiled once for each kind of arguments.
    """

    @wraps(function)
    def compile_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        require()
        with in_double():
            return function(*args, **kwargs)

    return compile_and_call


def _compiled_without(function: Callable[P, R], passes: tuple[str, ...]) -> Callable[P, R]:
    """``function`` whose kernels are compiled without these passes and with short source positions in errors."""

    @wraps(function)
    def compile_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        require()
        with without_passes(passes):
            return function(*args, **kwargs)

    return compile_and_call
