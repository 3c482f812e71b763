"""Caches for work that Taichi's Python front end repeats for every definition and every inlined call.

The compiled code does not change, only the time to find and read the source of kernels and functions. This module patches
``taichi.lang.kernel_impl`` of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace


def cache_sources(kernel_impl: ModuleType) -> None:
    """Cache the source lines of every kernel and function, preprocessed as Taichi does before parsing.

    Taichi reads a function at each of its calls in a kernel: thousands of times for some hundred functions.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, patched in place, as in ``skip_importer_frame``.
    """
    kernel_impl.getsourcefile, kernel_impl.getsourcelines = cache(kernel_impl.getsourcefile), cache(kernel_impl.getsourcelines)
    kernel_impl.textwrap = SimpleNamespace(fill=cache(textwrap.fill), dedent=cache(textwrap.dedent))


def skip_importer_frame(kernel_impl: ModuleType) -> None:
    """Skip Taichi's search for an enclosing class if a definition is at module level.

    Taichi reads the source of the enclosing frame to find out whether a definition is in a class. At module level that frame is
    the importer, which has no source, and the search goes through all modules each time. That is most of the import time of
    kernels.
    """
    seen_inside_class: Callable[[int], bool] = kernel_impl._inside_class

    def inside_class(level_of_class_stackframe: int) -> bool:
        try:
            around = sys._getframe(level_of_class_stackframe).f_code.co_filename
        except ValueError:  # the main program: no enclosing frame
            return False
        return not around.startswith("<frozen importlib") and seen_inside_class(level_of_class_stackframe + 1)

    kernel_impl._inside_class = inside_class
