"""Caches for work that Taichi's Python front end repeats for every definition and every inlined call, positions by lines, and
serial loops for one thread.

Results do not change, only the time to find and read the source of kernels and functions, and to launch them on one thread. This
module patches ``taichi.lang.kernel_impl`` and, while a ``LineReader`` is installed, ``taichi.lang.ast`` of the Taichi release in
pyproject.toml.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any


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
    original_inside_class: Callable[[int], bool] = kernel_impl._inside_class

    def inside_class(level_of_class_stackframe: int) -> bool:
        try:
            importer_file = sys._getframe(level_of_class_stackframe).f_code.co_filename
        except ValueError:  # the main program: no enclosing frame
            return False
        return not importer_file.startswith("<frozen importlib") and original_inside_class(level_of_class_stackframe + 1)

    kernel_impl._inside_class = inside_class


_LOOP_BUILDERS = ("build_range_for", "build_ndrange_for", "build_grouped_ndrange_for", "build_struct_for")


class LineReader:
    """Reader of kernels that records the line of each statement as the only source position.

    Taichi's own reader wraps and underlines the source lines of every node of the syntax tree, and records them with every name,
    even if no error occurs. That takes half of the time to load a cached kernel. Errors name the file, the line and the function.

    If the runtime has one CPU thread, all loops are compiled to run in the calling thread: Taichi otherwise passes each outermost
    loop to a worker thread and waits, which takes longer than the loops of a small model.
    """

    def __init__(self, lang: ModuleType) -> None:
        """Prepare the reader.

        Args:
            lang: ``taichi.lang``, of which ``ast`` and ``impl`` are patched within ``installed``.
        """
        self._impl, self._exception = lang.impl, lang.exception
        self._transformer = lang.ast.ast_transformer.ASTTransformer
        self._builder, self._context = (getattr(lang.ast.ast_transformer_utils, n) for n in ("Builder", "ASTTransformerContext"))
        self._expression, self._array = lang.expr.Expr, lang.any_array.AnyArray
        self._core, self._original_subscript = lang.impl._ti_core, lang.impl.subscript

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which Taichi reads kernels with this reader."""
        patches = [
            (self._builder, "__call__", lambda builder, context, node: self._build(builder, context, node)),
            (self._transformer, "build_Name", staticmethod(_build_name)),
            (self._context, "get_pos_info", _line_of),
            (self._impl, "subscript", self._subscript),
        ]
        config = self._impl.current_cfg()
        if config.arch in (self._core.Arch.x64, self._core.Arch.arm64) and config.cpu_max_num_threads == 1:
            patches += [(self._transformer, name, _serial(vars(self._transformer)[name])) for name in _LOOP_BUILDERS]
        originals = [(owner, name, vars(owner)[name]) for owner, name, _ in patches]
        for owner, name, value in patches:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in originals:
                setattr(owner, name, value)

    def _build(self, builder: Any, context: Any, node: ast.AST) -> Any:
        """``Builder.__call__``: the expression of a syntax node."""
        method = getattr(builder, f"build_{node.__class__.__name__}", None)
        is_statement = isinstance(node, ast.stmt)
        if is_statement:
            positions = self._impl.get_runtime().src_info_stack
            positions.append(_line_of(context, node))
        try:
            if method is None:
                raise self._exception.TaichiSyntaxError(f'Unsupported node "{node.__class__.__name__}"')
            return method(context, node)
        except Exception as error:
            raise self._with_position(error, context, node) from None
        finally:
            if is_statement:
                positions.pop()

    def _with_position(self, error: Exception, context: Any, node: ast.AST) -> Exception:
        """The error, with the position of the innermost node prepended unless it has one already."""
        if context.raised or not isinstance(node, ast.stmt | ast.expr):
            return error.with_traceback(None)
        context.raised = True
        error = self._exception.handle_exception_from_cpp(error)
        if not isinstance(error, self._exception.TaichiCompilationError):
            return self._exception.TaichiCompilationError(_line_of(context, node) + traceback.format_exc())
        return type(error)(_line_of(context, node) + str(error))

    def _subscript(self, builder: Any, value: Any, *indices: Any, skip_reordered: bool = False) -> Any:
        """``impl.subscript`` without its checks of fields, slices and vectors, for numbers as indices of arrays and matrices."""
        expression = self._expression
        is_array = type(value) is self._array or (type(value) is expression and value.is_tensor())
        if not is_array or not all(type(index) is expression or (type(index) is int and index >= 0) for index in indices):
            return self._original_subscript(builder, value, *indices, skip_reordered=skip_reordered)
        index_group = self._core.ExprGroup()
        for index in indices:
            index_group.push_back(index.ptr if type(index) is expression else expression(index).ptr)
        runtime = self._impl.get_runtime()
        position = self._core.DebugInfo(runtime.get_current_src_info())
        return expression(runtime.compiling_callable.ast_builder().expr_subscript(value.ptr, index_group, position))


def _serial(builder: staticmethod) -> staticmethod:
    """The builder of a kind of loop, whose loops run serially."""

    def build(context: Any, *arguments: Any, **options: Any) -> Any:
        context.ast_builder.parallelize(1)
        context.ast_builder.strictly_serialize()
        return builder.__func__(context, *arguments, **options)

    return staticmethod(build)


def _build_name(context: Any, node: ast.Name) -> Any:
    node.ptr = context.get_var_by_name(node.id)
    return node.ptr


def _line_of(context: Any, node: ast.AST) -> str:
    """Source position of a syntax node, for Taichi's error messages."""
    return f'File "{context.file}", line {node.lineno + context.lineno_offset}, in {context.func.func.__name__}:\n'
