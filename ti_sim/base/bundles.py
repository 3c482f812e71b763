"""A dataclass of arrays as one parameter of a kernel.

    @bundle
    class Spring:
        indices: Array
        stiffness: Array
        kind: Static
        gather: Static = False  # a field with a default is not an argument: kernels set it with ``with_fields``

    @kernel
    def advance(spring: Spring, steps: int): ...

    advance(Spring(indices, stiffness, "linear"), 10)

Before Taichi reads a kernel, each parameter annotated with a bundle is replaced by one parameter per field, named
``spring__indices`` and so on. The kernel's first statement rebuilds the bundle at compile time, so the compiled kernel has flat
parameters. This module patches ``taichi.lang.kernel_impl`` of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache, wraps
from operator import attrgetter
from typing import Annotated, Any

from ti_sim.base.arrays import Array, kernel_view
from ti_sim.base.runtime import ti

__all__ = ["Array", "Integer", "Number", "Static", "bundle", "flat", "is_bundle", "kernel", "viewed", "views", "with_fields"]

_kernel_impl = ti.lang.kernel_impl
_bundles: set[type] = set()

# Kinds of fields of a bundle, besides ``Array``.
Static = Annotated[Any, ti.template()]  # compile-time constant
Integer = Annotated[int, int]
Number = Annotated[float, float]


def bundle(cls: type) -> type:
    """Decorator: a frozen dataclass whose fields are ``Array``, ``Static``, ``Integer`` or ``Number``, or bundles themselves.

    Fields with a default are not kernel arguments. Kernels and their functions may also make bundles of local values.
    """
    cls = dataclass(frozen=True, eq=False, repr=False)(cls)  # fewer generated methods: the import takes less time
    cls._data_oriented = True  # lets a kernel assign it to a variable
    cls._is_wrapped_kernel = True  # lets a kernel call it without a warning
    _bundles.add(cls)
    return cls


def is_bundle(annotation: Any) -> bool:
    """Whether ``annotation`` is a class of bundles."""
    return isinstance(annotation, type) and annotation in _bundles


@cache
def _arguments_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """Names of the fields of a bundle that are arguments, each with its Taichi annotation or bundle class."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple((field.name, _annotation(hints[field.name])) for field in fields(cls) if _is_argument(field))


def _is_argument(field: Field) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _annotation(hint: Any) -> Any:
    return hint.__metadata__[0] if typing.get_origin(hint) is Annotated else hint


def _leaves(name: str, cls: type) -> list[tuple[str, Any]]:
    """Flat parameters (name, annotation) of a parameter that is a bundle."""
    leaves = []
    for field, annotation in _arguments_of(cls):
        path = f"{name}__{field}"
        leaves += _leaves(path, annotation) if is_bundle(annotation) else [(path, annotation)]
    return leaves


@cache
def _leaf_reader(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    """Compiled function that reads the flat arguments of a bundle, ten times as fast as a loop over its fields."""
    paths = [leaf.removeprefix("__").replace("__", ".") for leaf, _ in _leaves("", cls)]
    read = attrgetter(*paths)
    return read if len(paths) > 1 else lambda value: (read(value),)


def flat(*arguments: Any) -> tuple[Any, ...]:
    """Arguments of a kernel, each bundle replaced by its fields."""
    result: list[Any] = []
    for argument in arguments:
        if type(argument) in _bundles:
            result += _leaf_reader(type(argument))(argument)
        else:
            result.append(argument)
    return tuple(result)


def views(*arguments: Any) -> tuple[Any, ...]:
    """Flat arguments of a kernel, arrays converted by ``kernel_view``; Python and numpy scalars are unchanged."""
    return tuple(kernel_view(value) if getattr(value, "shape", ()) else value for value in flat(*arguments))


def viewed(bundle_value: Any) -> Any:
    """A bundle whose arrays are converted by ``kernel_view`` once, for several launches."""
    return _assemble(type(bundle_value), iter(views(bundle_value)))


def with_fields(bundle_value: Any, **values: Any) -> Any:
    """A copy of a bundle with other values of some fields; usable inside and outside kernels."""
    return replace(bundle_value, **values)


with_fields._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


def kernel(function: Callable[..., None]) -> Callable[..., None]:
    """``ti.kernel`` for functions whose parameters may be bundles. Calls take bundles, or their fields one by one.

    Args:
        function: kernel function; its annotations are Taichi types and bundle classes, not strings.
    """
    signature = inspect.signature(function)
    bundles = {name: parameter.annotation for name, parameter in signature.parameters.items() if is_bundle(parameter.annotation)}
    expanded = []
    for name, parameter in signature.parameters.items():
        leaves = _leaves(name, bundles[name]) if name in bundles else [(name, parameter.annotation)]
        expanded += [inspect.Parameter(leaf, parameter.kind, annotation=annotation) for leaf, annotation in leaves]
    function.__signature__ = signature.replace(parameters=expanded)
    function.bundles = bundles
    taichi_kernel = _kernel_impl._kernel_impl(function, level_of_class_stackframe=3)

    @wraps(taichi_kernel)
    def launch(*arguments: Any) -> None:
        taichi_kernel(*flat(*arguments))

    return launch


def _with_flat_parameters(original: Callable[..., tuple[ast.Module, Any]]) -> Callable[..., tuple[ast.Module, Any]]:
    """Taichi's ``_get_tree_and_ctx`` (kernel -> syntax tree and context), extended to kernels with bundles."""

    def tree_and_context(owner: Any, *arguments: Any, **options: Any) -> tuple[ast.Module, Any]:
        tree, context = original(owner, *arguments, **options)
        bundles = getattr(owner.func, "bundles", None)
        if bundles:
            _expand_bundles(tree.body[0], owner.func, bundles, context)
        return tree, context

    return tree_and_context


def _expand_bundles(definition: ast.FunctionDef, function: Callable[..., None], bundles: dict[str, type], context: Any) -> None:
    """Replace the parameters of the definition by the flat ones, and add first statements that rebuild the bundles."""
    first_parameter = definition.args.args[0]
    names = inspect.signature(function).parameters
    definition.args.args = [ast.copy_location(ast.arg(arg=name), first_parameter) for name in names]
    statements = []
    for name, cls in bundles.items():
        context.global_vars[f"make__{name}"] = _assembler(cls)
        values = [ast.Name(id=leaf, ctx=ast.Load()) for leaf, _ in _leaves(name, cls)]
        call = ast.Call(func=ast.Name(id=f"make__{name}", ctx=ast.Load()), args=values, keywords=[])
        statement = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=call)
        statements.append(ast.fix_missing_locations(ast.copy_location(statement, first_parameter)))
    definition.body[:0] = statements


@cache
def _assembler(cls: type) -> Callable[..., Any]:
    """Function that rebuilds a bundle from its flat arguments, callable in kernels."""

    def make(*values: Any) -> Any:
        return _assemble(cls, iter(values))

    make._is_wrapped_kernel = True
    return make


def _assemble(cls: type, values: Iterator[Any]) -> Any:
    return cls(*(_assemble(kind, values) if is_bundle(kind) else next(values) for _, kind in _arguments_of(cls)))


_kernel_impl._get_tree_and_ctx = _with_flat_parameters(_kernel_impl._get_tree_and_ctx)
