"""Straight-line functions and their derivatives in both modes, against central differences and against each other."""

# No postponed annotations here: a kernel's must be types.
import numpy as np
import pytest

from tests.reference.dot_product import dot_product_test
from ti_sim.base.differentiable import (
    Vector,
    clip,
    differentiable,
    exp,
    inverse,
    log,
    normalize,
    positive_part,
    sigmoid,
    sin,
    smoothstep,
    sqrt,
    where,
)
from ti_sim.base.gradcheck import gradcheck
from ti_sim.base.runtime import require, ti

vec3 = ti.math.vec3


@differentiable()
def every_operation(a, b, s, t):
    """Uses each operation at least once; several results, of which one is a vector."""
    unit = normalize(a)
    mixed = (unit * 2.0 + b - a.cross(b) * s) * (1.0 - t)
    ratio = (s + 2.0) / (3.0 - t) - 1.5 / s + t / 4.0
    bent = where(a.dot(b) > 0.0, exp(-s) * log(t + 2.0), sin(s)) + smoothstep(t * 0.7) + clip(t, 0.2, 0.9)
    curve = sqrt(s * s + 1.0) * sigmoid(t - s) + inverse(s + t) + positive_part(a[0] - b[1])
    return mixed, ratio * bent - curve, Vector([a[2] * b[0], -(s * t)])


@differentiable(constant=("factor",))
def scaled(x, factor):
    """One result; the factor is not differentiated."""
    return x * x * factor


@ti.kernel
def evaluate(x: ti.types.ndarray(), y: ti.types.ndarray()):
    """Values: x [n, 8] to y [n, 6]."""
    for i in range(x.shape[0]):
        v, w, u = every_operation.value(vec3(x[i, 0], x[i, 1], x[i, 2]), vec3(x[i, 3], x[i, 4], x[i, 5]), x[i, 6], x[i, 7])
        for k in ti.static(range(3)):
            y[i, k] = v[k]
        y[i, 3] = w
        for k in ti.static(range(2)):
            y[i, 4 + k] = u[k]


@ti.kernel
def pull_back(x: ti.types.ndarray(), y_bar: ti.types.ndarray(), x_bar: ti.types.ndarray()):
    """Adjoints, inside a loop that Taichi's own autodiff could not reverse: the results are counted twice."""
    for i in range(x.shape[0]):
        for _ in range(2):
            at = every_operation.linearize(
                vec3(x[i, 0], x[i, 1], x[i, 2]), vec3(x[i, 3], x[i, 4], x[i, 5]), x[i, 6], x[i, 7]
            )
            a_bar, b_bar, s_bar, t_bar = at.vjp(
                (vec3(y_bar[i, 0], y_bar[i, 1], y_bar[i, 2]), y_bar[i, 3], ti.math.vec2(y_bar[i, 4], y_bar[i, 5]))
            )
            for k in ti.static(range(3)):
                x_bar[i, k] += 0.5 * a_bar[k]
                x_bar[i, 3 + k] += 0.5 * b_bar[k]
            x_bar[i, 6] += 0.5 * s_bar
            x_bar[i, 7] += 0.5 * t_bar


@ti.kernel
def push_forward(x: ti.types.ndarray(), x_dot: ti.types.ndarray(), y_dot: ti.types.ndarray()):
    """Tangents."""
    for i in range(x.shape[0]):
        v, w, u = every_operation.jvp(
            (vec3(x[i, 0], x[i, 1], x[i, 2]), vec3(x[i, 3], x[i, 4], x[i, 5]), x[i, 6], x[i, 7]),
            (
                vec3(x_dot[i, 0], x_dot[i, 1], x_dot[i, 2]), vec3(x_dot[i, 3], x_dot[i, 4], x_dot[i, 5]), x_dot[i, 6],
                x_dot[i, 7],
            ),
        )  # fmt: skip
        for k in ti.static(range(3)):
            y_dot[i, k] = v[k]
        y_dot[i, 3] = w
        for k in ti.static(range(2)):
            y_dot[i, 4 + k] = u[k]


@ti.kernel
def scale_and_derive(x: ti.types.ndarray(), result: ti.types.ndarray()):
    """Value, both derivatives, and the adjoint of the constant."""
    for i in range(x.shape[0]):
        result[i, 0] = scaled.value(x[i], 3.0)
        x_bar, factor_bar = scaled.vjp((x[i], 3.0), 1.0)
        result[i, 1] = x_bar
        result[i, 2] = factor_bar
        result[i, 3] = scaled.jvp((x[i], 3.0), (1.0, 5.0))


def point(seed: int) -> np.ndarray:
    """Points away from the kinks of ``where``, ``clip`` and ``positive_part``."""
    x = np.random.default_rng(seed).uniform(0.3, 0.8, (4, 8))
    x[2:, 3:6] *= -1.0  # the other side of ``where``
    x[:, 0] += 1.0
    return x


def values(x: np.ndarray) -> np.ndarray:
    require()
    y = np.zeros((len(x), 6))
    evaluate(np.ascontiguousarray(x), y)
    return y


@pytest.mark.parametrize("seed", range(3))
def test_reverse_mode_against_central_differences(seed: int) -> None:
    weight = np.random.default_rng(seed + 10).normal(size=(4, 6))

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        x_bar = np.zeros_like(at["x"])
        pull_back(np.ascontiguousarray(at["x"]), weight, x_bar)
        return float((values(at["x"]) * weight).sum()), {"x": x_bar}

    report = gradcheck(loss_and_gradient, {"x": point(seed)}, step=1e-4, rtol=1e-8)
    assert report.ok, str(report)


@pytest.mark.parametrize("seed", range(3))
def test_forward_mode_is_the_transpose_of_reverse_mode(seed: int) -> None:
    def jvp(at: dict[str, np.ndarray], tangent: dict[str, np.ndarray]) -> np.ndarray:
        y_dot = np.zeros((4, 6))
        push_forward(at["x"], np.ascontiguousarray(tangent["x"]), y_dot)
        return y_dot

    def vjp(at: dict[str, np.ndarray], adjoint: np.ndarray) -> dict[str, np.ndarray]:
        x_bar = np.zeros_like(at["x"])
        pull_back(at["x"], np.ascontiguousarray(adjoint), x_bar)
        return {"x": x_bar}

    report = dot_product_test(jvp, vjp, {"x": point(seed)}, (4, 6), rtol=1e-13, seed=seed)
    assert report.ok, str(report)


def test_one_result_is_bare_and_constants_have_no_adjoint() -> None:
    require()
    x, result = np.array([2.0, -1.5]), np.zeros((2, 4))
    scale_and_derive(x, result)
    np.testing.assert_allclose(result, np.stack([3 * x * x, 6 * x, 0 * x, 6 * x], axis=1), rtol=1e-15)
