"""Fast path of kernel launches: a few microseconds a launch, and less than one for each array that was given before.

Taichi takes about 20 us to pass an array, mostly for checks of containers, layouts and devices, and sets every argument in a new
launch context. That dominates the launch of a small kernel. Here the first launch with a kind of arguments is Taichi's. Later
ones find the compiled kernel by the kind, and reuse the context of an earlier launch: they set arrays whose address or shape
differs. Arguments that the fast path does not support take Taichi's own path: tensors with gradients, structures, matrices,
textures, return values, arguments of a wrong type. The compiled code and its results do not change. On a GPU, host arrays are
copied first (``staging``). This module patches ``taichi.lang.kernel_impl`` of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ti_sim.base.launch_arguments import ArrayKey, Parameters, parameters_of, read_arguments, set_arguments
from ti_sim.base.staging import launch_staged


class _Plan(NamedTuple):
    """A compiled kernel for one kind of arguments.

    Attributes:
        compiled: makes launch contexts.
        machine_code: of it.
        contexts: launch contexts that no launch uses, each with the arrays that are set in it. They are not references to these
            arrays: every launch compares the addresses with those of its arguments.
    """

    compiled: Any
    machine_code: Any
    contexts: list[tuple[Any, list[ArrayKey]]]


@dataclass(frozen=True, slots=True)
class _Plans:
    """The plans of a kernel by the kind of arguments, in one runtime.

    Attributes:
        parameters: of the kernel; None if the fast path does not support one of them.
        program: of the runtime.
        on_cuda: whether kernels run on CUDA, where a launch context is used once: it then refers to memory that Taichi has freed.
        plans: filled after the first launch of each kind.
    """

    parameters: Parameters | None
    program: Any
    on_cuda: bool
    plans: dict[tuple[Any, ...], _Plan] = field(default_factory=dict)


def install_fast_launch(kernel_impl: ModuleType) -> None:
    """Replace the launch of kernels by the fast path, for supported arguments.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, patched in place.
    """
    kernel = kernel_impl.Kernel
    kernel.launch_plans = None
    kernel.__call__ = _fast_call(kernel_impl, kernel.__call__)
    kernel.launch_kernel = _launch_with_staging(kernel_impl, kernel.launch_kernel)
    kernel.reset = _reset_with_plans(kernel.reset)


def _reset_with_plans(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """``Kernel.reset``, which Taichi calls when a runtime ends."""

    @wraps(original)
    def reset(kernel: Any) -> None:
        kernel.launch_plans = None
        original(kernel)

    return reset


def _fast_call(kernel_impl: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """``Kernel.__call__``, which launches by a plan if there is one for the kind of arguments."""

    @wraps(original)
    def call(kernel: Any, *args: Any, **options: Any) -> Any:
        plans = kernel.launch_plans
        if plans is None:
            plans = _make_plans(kernel_impl, kernel)
        parameters, runtime = plans.parameters, kernel.runtime
        if parameters is None or options or runtime.target_tape or runtime.fwd_mode_manager:
            return original(kernel, *args, **options)
        arguments = read_arguments(args, parameters, on_cuda=plans.on_cuda)
        if arguments is None:
            return original(kernel, *args)
        kind, arrays = arguments
        plan = plans.plans.get(kind)
        if plan is None:
            result = original(kernel, *args)
            _add_plan(kernel, plans, kind, args)
            return result
        if not _launch(kernel_impl, kernel, plans, plan, args, arrays):
            return original(kernel, *args)
        return None

    return call


def _launch(
    kernel_impl: ModuleType, kernel: Any, plans: _Plans, plan: _Plan, args: Sequence[Any], arrays: list[ArrayKey]
) -> bool:
    """Launch a kernel by a plan; return False, without a launch, if an argument is not supported.

    Args:
        kernel_impl, kernel, plans: the kernel.
        plan: for the kind of ``args``.
        args: arguments of the launch.
        arrays: address and shape of the arrays among them.
    """
    # A context is removed while it is in use: other threads, and finalizers in this one, launch with other contexts.
    try:
        context, set_arrays = plan.contexts.pop()
    except IndexError:
        context, set_arrays = plan.compiled.make_launch_context(), ()
    if not set_arguments(context, args, plans.parameters, arrays, set_arrays):
        return False
    try:
        plans.program.launch_kernel(plan.machine_code, context)
    except Exception as error:
        raise kernel_impl.handle_exception_from_cpp(error) from None
    if not plans.on_cuda:
        plan.contexts.append((context, arrays))
    return True


def _make_plans(kernel_impl: ModuleType, kernel: Any) -> _Plans:
    """Plans of a kernel in the running runtime; they are not kept while none runs."""
    program = kernel_impl.impl.get_runtime().prog
    if program is None:
        return _Plans(None, None, on_cuda=False)
    arch, archs = program.config().arch, kernel_impl._ti_core.Arch
    is_supported = arch in (archs.x64, archs.arm64, archs.cuda) and kernel.autodiff_mode == kernel_impl.AutodiffMode.NONE
    parameters = parameters_of(kernel_impl, kernel) if is_supported else None
    kernel.launch_plans = _Plans(parameters, program, on_cuda=arch == archs.cuda)
    return kernel.launch_plans


def _add_plan(kernel: Any, plans: _Plans, kind: tuple[Any, ...], args: Sequence[Any]) -> None:
    """Add the plan of a kind of arguments with which the kernel has been launched."""
    if not kernel.has_print:  # Taichi's own launch prints
        plans.plans[kind] = _plan(plans.program, kernel.compiled_kernels[kernel.ensure_compiled(*args)])


def _plan(program: Any, compiled: Any) -> _Plan:
    return _Plan(compiled, program.compile_kernel(program.config(), program.get_device_caps(), compiled), [])


def _launch_with_staging(kernel_impl: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """``Kernel.launch_kernel``, with copies of host arrays on a GPU."""
    impl, arch = kernel_impl.impl, kernel_impl._ti_core.Arch

    @wraps(original)
    def launch_kernel(kernel: Any, compiled: Any, *args: Any) -> Any:
        program = impl.get_runtime().prog
        used_arch = program.config().arch
        if used_arch not in (arch.cuda, arch.vulkan):
            return original(kernel, compiled, *args)

        def launch(copies: Sequence[Any]) -> Any:
            plans = kernel.launch_plans or _make_plans(kernel_impl, kernel)
            is_fast = plans.on_cuda and plans.parameters is not None and not kernel.has_print
            arguments = read_arguments(copies, plans.parameters, on_cuda=True) if is_fast else None
            plan = None if arguments is None else _plan(program, compiled)
            if plan is None or not _launch(kernel_impl, kernel, plans, plan, copies, arguments.arrays):
                return original(kernel, compiled, *copies)
            return None

        return launch_staged(args, launch, program.synchronize, taichi_copy if used_arch == arch.vulkan else None)

    return launch_kernel


def taichi_copy(array: np.ndarray) -> Any:
    """A Taichi array with the values of a host array."""
    lang = sys.modules["taichi.lang"]
    copy = lang.impl.ndarray(lang.util.to_taichi_type(array.dtype), array.shape)
    copy.from_numpy(array)
    return copy
