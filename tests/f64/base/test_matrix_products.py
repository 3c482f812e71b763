"""Products of matrices in kernels: against numpy, with Taichi's gradients, and Taichi's errors where shapes do not fit."""

import numpy as np
import pytest

from ti_sim.base.runtime import ti, without_cfg_optimisation

Array = ti.types.ndarray()


@ti.func
def _matrices(x: ti.template(), y: ti.template()):
    left = ti.Matrix([[x[3 * i + j] for j in ti.static(range(3))] for i in ti.static(range(2))])
    right = ti.Matrix([[y[2 * i + j] for j in ti.static(range(2))] for i in ti.static(range(3))])
    return left, right


@ti.kernel
def _products(x: Array, y: Array, out: Array):
    for _ in range(1):
        left, right = _matrices(x, y)
        vector = right[:, 1]
        image = left @ vector
        row = image @ left
        products = (left @ right, right @ left, left.transpose() @ left, image.outer_product(vector))
        count = 0
        for product in ti.static(products):
            for i in ti.static(range(product.n)):
                for j in ti.static(range(product.m)):
                    out[count + i * product.m + j] = product[i, j]
            count += product.n * product.m
        turned = vector.cross(row)
        for i in ti.static(range(3)):
            out[count + i] = row[i]
            out[count + 3 + i] = turned[i]
        out[count + 6] = vector @ row
        out[count + 7] = vector.dot(row)
        out[count + 8] = left.sum()
        out[count + 9] = vector.norm()
        out[count + 10] = image[0] + image[1]
        vector, row = row, vector  # a product keeps the values that its matrices had
        out[count + 11] = (vector - turned).norm_sqr()


def _reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    left, right = x.reshape(2, 3), y.reshape(3, 2)
    vector = right[:, 1]
    image = left @ vector
    row = image @ left
    turned = np.cross(vector, row)
    numbers = [vector @ row, vector @ row, left.sum(), np.linalg.norm(vector), image.sum(), np.sum((row - turned) ** 2)]
    products = [left @ right, right @ left, left.T @ left, np.outer(image, vector), row, turned, numbers]
    return np.concatenate([np.ravel(product) for product in products])


def test_products_are_those_of_numpy() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    expected = _reference(x, y)
    out = np.full(len(expected), np.nan)
    _products(x, y, out)
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)


@ti.kernel
def _swapped(x: Array, out: Array):
    for _ in range(1):
        first, second = ti.Vector([x[0], x[1], x[2]]), ti.Vector([x[3], x[4], x[5]])
        first, second = first.cross(second), second.cross(first)
        for i in ti.static(range(3)):
            out[i] = first[i]
            out[3 + i] = second[i]


def test_a_product_keeps_the_values_that_its_matrices_had() -> None:
    x, out = np.random.default_rng(1).normal(size=6), np.empty(6)
    _swapped(x, out)
    expected = np.cross(x[:3], x[3:])
    np.testing.assert_allclose(out, [*expected, *-expected], rtol=1e-14)


@ti.func
def _after_a_change(vector: ti.template(), product: ti.template()):
    vector[0] = 100.0
    return product[1] + 0.0


@ti.kernel
def _changed(x: Array, out: Array):
    for _ in range(1):
        first, second = ti.Vector([x[0], x[1], x[2]]), ti.Vector([x[3], x[4], x[5]])
        matrix = ti.Matrix([[x[0], x[1]], [x[2], x[3]]])
        pair = ti.Vector([x[4], x[5]])
        out[0] = _after_a_change(first, first.cross(second))
        out[1] = _after_a_change(pair, matrix @ pair)


def test_a_product_that_is_passed_on_keeps_the_values_that_its_matrices_had() -> None:
    x, out = np.random.default_rng(3).normal(size=6), np.empty(2)
    _changed(x, out)
    expected = np.cross(x[:3], x[3:])[1], (x[:4].reshape(2, 2) @ x[4:])[1]
    np.testing.assert_allclose(out, expected, rtol=1e-14)


def test_the_gradient_of_taichi_passes_through_products() -> None:
    numbers = ti.field(ti.f64, shape=6, needs_grad=True)
    loss = ti.field(ti.f64, shape=(), needs_grad=True)

    @ti.kernel
    def area():
        for _ in range(1):
            first = ti.Vector([numbers[0], numbers[1], numbers[2]])
            second = ti.Vector([numbers[3], numbers[4], numbers[5]])
            loss[None] += first.cross(second).norm_sqr() + first.dot(second)

    x = np.random.default_rng(2).normal(size=6)
    numbers.from_numpy(x)
    with ti.ad.Tape(loss):
        area()
    first, second = x[:3], x[3:]
    normal = np.cross(first, second)
    expected = np.concatenate([2 * np.cross(second, normal) + second, 2 * np.cross(normal, first) + first])
    np.testing.assert_allclose(numbers.grad.to_numpy(), expected, rtol=1e-12)


@ti.kernel
def _unfit(x: Array):
    for _ in range(1):
        x[0] = (ti.Matrix([[x[0], x[1]]]) @ ti.Vector([x[0], x[1], x[2]]))[0]


def test_shapes_that_do_not_fit_get_the_error_of_taichi() -> None:
    with pytest.raises(ti.TaichiCompilationError, match=r"test_matrix_products.py.*(\n.*)*dimension mismatch"):
        _unfit(np.zeros(3))


def test_an_error_in_a_kernel_that_is_read_by_lines_names_its_line() -> None:
    line = _unfit.__wrapped__.__code__.co_firstlineno + 3
    with pytest.raises(ti.TaichiCompilationError, match=rf'^\nFile ".*test_matrix_products.py", line {line}, in _unfit'):
        without_cfg_optimisation(_unfit)(np.zeros(3))
