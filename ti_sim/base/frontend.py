"""What Taichi's Python side does anew for every definition and every inlined call, done once.

Nothing here changes what is compiled: only how long it takes to find and read the source of kernels and functions. It reaches
into ``taichi.lang.kernel_impl``, as of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace


def cache_sources(kernel_impl: ModuleType) -> None:
    """Keep the source lines of every kernel and function, and what Taichi makes of them before it parses.

    A function is read at each of its calls in a kernel, thousands of times for some hundred functions.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, which is changed, as by ``skip_importer_frame``.
    """
    kernel_impl.getsourcefile, kernel_impl.getsourcelines = cache(kernel_impl.getsourcefile), cache(kernel_impl.getsourcelines)
    kernel_impl.textwrap = SimpleNamespace(fill=cache(textwrap.fill), dedent=cache(textwrap.dedent))


def skip_importer_frame(kernel_impl: ModuleType) -> None:
    """Look for no class around a definition at a module's own level.

    Whether a definition stands in a class, Taichi sees in the source of the frame around it. At a module's own level that is the
    importer, which has no source, and the search goes through all modules each time: most of what importing kernels takes.
    """
    seen_inside_class: Callable[[int], bool] = kernel_impl._inside_class

    def inside_class(level_of_class_stackframe: int) -> bool:
        try:
            around = sys._getframe(level_of_class_stackframe).f_code.co_filename
        except ValueError:  # a program's own level: nothing is around it
            return False
        return not around.startswith("<frozen importlib") and seen_inside_class(level_of_class_stackframe + 1)

    kernel_impl._inside_class = inside_class
