"""Matrix products as expressions, built without reading a Taichi function.

Taichi's ``cross``, ``@``, ``sum``, ``transpose`` and ``outer_product`` (and with them ``dot`` and ``norm``) are Taichi functions:
at each call in a kernel, the front end walks through their source and writes every term of a product into a variable. Half of the
nodes that it visits in a kernel of spatial algebra are theirs, and the compiler removes most of the statements again. Here the
same products, with the same order of operations, are one expression each. This module patches ``taichi.lang.matrix_ops`` of the
Taichi release in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from operator import add
from types import ModuleType
from typing import Any


def build_products_directly(matrix_ops: ModuleType, impl: ModuleType, make_matrix: Callable[..., Any], expression: type) -> None:
    """Replace the products of ``matrix_ops`` inside kernels, for matrices whose shapes fit; others take Taichi's own path.

    Args:
        matrix_ops: ``taichi.lang.matrix_ops``, patched in place.
        impl: ``taichi.lang.impl``.
        make_matrix: ``taichi.lang.matrix.make_matrix``, lists of expressions -> expression of a matrix.
        expression: ``taichi.lang.expr.Expr``.
    """

    def entries(matrix: Any) -> list[Any]:
        """Entries in row-major order of a matrix, which is evaluated once, here."""
        builder = impl.get_runtime().compiling_callable.ast_builder()
        # A copy, as ``expand_exprs`` refers to a variable itself, which may change before the product is evaluated.
        return [expression(entry) for entry in builder.expand_exprs([impl.expr_init(matrix).ptr])]

    def matmul(left: Any, right: Any) -> Any:
        left_shape, right_shape = left.get_shape(), right.get_shape()
        x, y, inner = entries(left), entries(right), left_shape[-1]
        rows = [x[start : start + inner] for start in range(0, len(x), inner)]
        width = 1 if len(right_shape) == 1 else right_shape[1]
        columns = [y[start::width] for start in range(width)]
        product = [[_sum_of_products(row, column) for column in columns] for row in rows]
        if len(left_shape) == 2 and len(right_shape) == 2:
            return make_matrix(product)
        if len(left_shape) == 1 and len(right_shape) == 1:
            return product[0][0]
        return make_matrix([entry for row in product for entry in row])

    def cross(left: Any, right: Any) -> Any:
        x, y = entries(left), entries(right)
        return make_matrix([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]])

    def total(matrix: Any) -> Any:
        return reduce(add, entries(matrix))

    def transpose(matrix: Any) -> Any:
        rows, columns = matrix.get_shape()
        x = entries(matrix)
        return make_matrix([[x[i * columns + j] for i in range(rows)] for j in range(columns)])

    def outer_product(left: Any, right: Any) -> Any:
        x, y = entries(left), entries(right)
        return make_matrix([[a * b for b in y] for a in x])

    products = {
        "matmul": (matmul, lambda left, right: left[-1] == right[0]),
        "cross": (cross, lambda left, right: left == right == (3,)),
        "sum": (total, lambda left_shape: True),
        "transpose": (transpose, lambda left_shape: len(left_shape) == 2),
        "outer_product": (outer_product, lambda left, right: len(left) == len(right) == 1),
    }
    for name, (product, shapes_fit) in products.items():
        setattr(matrix_ops, name, _within_kernels(getattr(matrix_ops, name), product, shapes_fit, impl, expression))


def _sum_of_products(row: list[Any], column: list[Any]) -> Any:
    return reduce(add, [a * b for a, b in zip(row, column, strict=True)])


def _within_kernels(
    original: Callable[..., Any], product: Callable[..., Any], shapes_fit: Callable[..., bool], impl: ModuleType, expression: type
) -> Callable[..., Any]:
    """``product`` for expressions of matrices whose shapes fit, in a kernel; Taichi's own function for everything else."""

    @wraps(original)
    def dispatch(*matrices: Any, **options: Any) -> Any:
        if hasattr(matrices[0], "matrix_product"):  # ``ti_sim.base.lanes``
            return matrices[0].matrix_product(*matrices[1:])
        is_supported = not options and impl.inside_kernel() and all(type(m) is expression and m.is_tensor() for m in matrices)
        if is_supported and shapes_fit(*(m.get_shape() for m in matrices)):
            return product(*matrices)
        return original(*matrices, **options)

    return dispatch
