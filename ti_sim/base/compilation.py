"""Kernel compilation: one kernel at a time across threads, with the compiler passes that the calling function selects.

Taichi's front end keeps the kernel being compiled in global state, and compiler passes are settings of the whole program. Both
are accessed under one lock only. This module patches ``taichi.lang.kernel_impl`` of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from ti_sim.base.errors import UserError
from ti_sim.base.frontend import LineReader

compiling = threading.RLock()


class _ThreadSettings(threading.local):
    disabled_passes: tuple[str, ...] = ()
    in_double = False


_thread_settings = _ThreadSettings()


@contextmanager
def without_passes(passes: tuple[str, ...]) -> Iterator[None]:
    """Context in which this thread compiles kernels without these passes, in addition to those that are already disabled."""
    previous = _thread_settings.disabled_passes
    _thread_settings.disabled_passes = previous + passes
    try:
        yield
    finally:
        _thread_settings.disabled_passes = previous


@contextmanager
def in_double() -> Iterator[None]:
    """Context in which this thread compiles kernels with double precision as that of every real number and ``float`` argument."""
    previous = _thread_settings.in_double
    _thread_settings.in_double = True
    try:
        yield
    finally:
        _thread_settings.in_double = previous


@contextmanager
def _default_float(impl: ModuleType, in_double_precision: bool) -> Iterator[None]:
    """Context that sets the type of real numbers for compilation; vector types follow Taichi's default settings."""
    runtime = impl.get_runtime()
    double_type, working_type = impl.f64, impl.f64 if str(impl.current_cfg().default_fp) == "f64" else impl.f32

    def set_default(float_type: Any) -> None:
        runtime.default_fp = impl.default_cfg().default_fp = impl.current_cfg().default_fp = float_type

    if in_double_precision:
        set_default(double_type)
    try:
        yield
    finally:
        if in_double_precision:
            set_default(working_type)


def compile_one_at_a_time(kernel_impl: ModuleType, reader: LineReader) -> None:
    """Make kernels compile completely, under the lock, at their first call with a given kind of arguments.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, patched in place.
        reader: installed while kernels with disabled passes are compiled.
    """
    materialize_kernel, impl = kernel_impl.Kernel.materialize, kernel_impl.impl

    def materialize(kernel: Any, key: Any = None, args: Any = None, arg_features: Any = None) -> None:
        key = (kernel.func, 0, kernel.autodiff_mode) if key is None else key
        with compiling:
            kernel.runtime.materialize()
            if key in kernel.compiled_kernels:
                return
            config = impl.current_cfg()
            previous = {name: getattr(config, name) for name in _thread_settings.disabled_passes}
            try:
                for name in previous:
                    setattr(config, name, False)
                program = impl.get_runtime().prog
                with _default_float(impl, _thread_settings.in_double), reader.installed() if previous else nullcontext():
                    materialize_kernel(kernel, key, args, arg_features)
                    try:
                        program.compile_kernel(config, program.get_device_caps(), kernel.compiled_kernels[key])
                    except Exception as error:
                        raise kernel_impl.handle_exception_from_cpp(error) from None
            finally:
                for name, value in previous.items():
                    setattr(config, name, value)

    kernel_impl.Kernel.materialize = materialize


def refuse_launches(kernel_impl: ModuleType, message: str) -> None:
    """Make every kernel launch raise a UserError with this message."""

    def refuse(*_args: Any, **_options: Any) -> None:
        raise UserError(message)

    kernel_impl.Kernel.__call__ = kernel_impl.Kernel.materialize = refuse
