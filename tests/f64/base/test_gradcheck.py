"""gradcheck, and the dot-product test of the tests: they pass what is right and catch what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.dot_product import dot_product_test
from ti_sim.base.errors import UserError
from ti_sim.base.gradcheck import GradientError, gradcheck

POINT = {"x": np.array([[0.3, -1.2, 0.8], [2.0, 0.1, -0.4]]), "k": np.array(1.7)}


def smooth(point):
    """sum(sin(k x) + x^3) and its gradient."""
    x, k = point["x"], point["k"]
    gradient = {"x": k * np.cos(k * x) + 3 * x**2, "k": np.array((x * np.cos(k * x)).sum())}
    return float((np.sin(k * x) + x**3).sum()), gradient


def wrong_in(name, index, factor):
    def evaluate(point):
        value, gradient = smooth(point)
        gradient[name][index] *= factor
        return value, gradient

    return evaluate


@pytest.mark.parametrize("order", [2, 4])
def test_a_right_gradient_passes(order):
    report = gradcheck(smooth, POINT, order=order, rtol=1e-7)
    assert report.ok and len(report.entries) == 7 and report.observable == 7
    assert report.raise_if_wrong() is report
    assert {entry.index for entry in report.entries if entry.name == "x"} == set(np.ndindex(2, 3))
    assert [entry.index for entry in report.entries if entry.name == "k"] == [()]


def test_the_orders_converge_as_they_should():
    def error(order, step):
        return max(entry.relative for entry in gradcheck(smooth, POINT, names=["x"], order=order, step=step).entries)

    assert np.log2(error(2, 0.02) / error(2, 0.01)) == pytest.approx(2, abs=0.1)
    assert np.log2(error(4, 0.04) / error(4, 0.02)) == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize(("name", "index"), [("x", (1, 2)), ("k", ())])
@pytest.mark.parametrize("factor", [-1.0, 0.0, 1.0001])
def test_one_wrong_entry_is_found_and_named(name, index, factor):
    report = gradcheck(wrong_in(name, index, factor), POINT)
    bad = [entry for entry in report.entries if not entry.ok]
    assert not report.ok and [(entry.name, entry.index, entry.status) for entry in bad] == [(name, index, "WRONG")]
    assert report.worst is bad[0]
    with pytest.raises(GradientError, match="WRONG") as caught:
        report.raise_if_wrong()
    assert isinstance(caught.value, AssertionError) and f"{name}{list(index)}" in str(caught.value)
    assert str(caught.value).splitlines()[2].strip().startswith(f"{name}{list(index)}")  # failing entries come first


def kinked(slope):
    """|x| at zero with the given adjoint, beside a smooth part."""

    def evaluate(point):
        x = point["x"]
        return float(abs(x[0]) + x[1] ** 2), {"x": np.array([slope, 2 * x[1]])}

    return evaluate


def test_a_kink_is_told_from_a_wrong_gradient():
    point = {"x": np.array([0.0, 0.7])}
    report = gradcheck(kinked(1.0), point)
    entry = report.worst
    assert not report.ok and entry.status == "kink" and entry.index == (0,)
    assert (entry.left, entry.right) == (pytest.approx(-1), pytest.approx(1))
    assert "kink (left -1, right 1)" in report.table()
    for slope in (-1.0, 0.3, 1.0):
        assert gradcheck(kinked(slope), point, allow_kinks=True).ok
    outside = gradcheck(kinked(1.01), point, allow_kinks=True)
    assert not outside.ok and outside.worst.status == "kink"
    assert gradcheck(kinked(1.0), {"x": np.array([0.1, 0.7])}).ok


@pytest.mark.parametrize("order", [2, 4])
def test_a_wrong_gradient_of_a_curved_function_is_no_kink(order):
    def evaluate(point):
        x = point["x"]
        return float((1e3 * x**2 + x).sum()), {"x": 2.2e3 * x + 1}

    report = gradcheck(evaluate, {"x": np.array([1e-3, 0.5])}, order=order, allow_kinks=True)
    assert [entry.status for entry in report.entries] == ["WRONG", "WRONG"]


def test_a_kink_beside_the_point_is_seen_too():
    def evaluate(point):
        x = point["x"]
        return float(abs(x[0] - 0.5e-6)), {"x": np.array([-1.0])}

    report = gradcheck(evaluate, {"x": np.zeros(1)})
    assert report.worst.status == "kink"
    assert gradcheck(evaluate, {"x": np.zeros(1)}, allow_kinks=True).ok


@pytest.mark.parametrize("side", [-1, 1])
def test_a_jump_is_no_kink(side):
    def evaluate(point):
        x = point["x"]
        return float(x[0] + 1e-3 * (side * x[0] > 0)), {"x": np.array([1.0])}

    report = gradcheck(evaluate, {"x": np.zeros(1)}, allow_kinks=True)
    assert not report.ok and report.worst.status == "jump" and "jump (left" in report.table()


def test_single_precision_is_refused():
    with pytest.raises(UserError, match=r"point\['x'\] is float32.*float64"):
        gradcheck(smooth, {**POINT, "x": POINT["x"].astype(np.float32)})
    with pytest.raises(UserError, match=r"point\['n'\] is int64"):
        gradcheck(smooth, {**POINT, "n": np.arange(3)})

    def single(point):
        value, gradient = smooth(point)
        return value, {name: np.asarray(array, np.float32) for name, array in gradient.items()}

    with pytest.raises(UserError, match="the gradient of 'x' is float32"):
        gradcheck(single, POINT)
    with pytest.raises(UserError, match="the loss is float32"):
        gradcheck(lambda point: (np.float32(smooth(point)[0]), smooth(point)[1]), POINT)


def test_what_is_not_finite_is_named():
    def lost(point):
        gradient = smooth(point)[1]
        gradient["x"][1, 0] = np.nan
        return smooth(point)[0], gradient

    with pytest.raises(GradientError, match=r"gradient of 'x' at \[1, 0\] is nan"):
        gradcheck(lost, POINT)
    with pytest.raises(GradientError, match="the loss at the point itself is inf"):
        gradcheck(lambda point: (np.inf, smooth(point)[1]), POINT)

    def cliff(point):
        return (np.nan if point["x"][0, 1] > -1.2 else smooth(point)[0]), smooth(point)[1]

    with pytest.raises(GradientError, match=r"the loss at x\[0, 1\] \+1.2e-06 is nan"):
        gradcheck(cliff, POINT)


def test_missing_and_misshapen_gradients_and_bad_options_are_refused():
    with pytest.raises(GradientError, match="no gradient of 'k' came back, only of 'x'"):
        gradcheck(lambda point: (smooth(point)[0], {"x": smooth(point)[1]["x"]}), POINT)
    with pytest.raises(GradientError, match=r"gradient of 'x' has shape \(6,\), and \(2, 3\)"):
        gradcheck(lambda point: (smooth(point)[0], {"x": smooth(point)[1]["x"].ravel()}), POINT, names=["x"])
    with pytest.raises(UserError, match="point has no 'y'"):
        gradcheck(smooth, POINT, names=["y"])
    with pytest.raises(UserError, match="order 3"):
        gradcheck(smooth, POINT, order=3)
    with pytest.raises(UserError, match="step of 'k' is None"):
        gradcheck(smooth, POINT, step={"x": 1e-6})


def test_names_steps_and_the_sampled_entries():
    assert {entry.name for entry in gradcheck(smooth, POINT, names=["k"]).entries} == {"k"}
    assert gradcheck(smooth, POINT, step={"x": 1e-5, "k": 1e-4}).ok
    samples = [
        tuple(entry.index for entry in gradcheck(smooth, POINT, names=["x"], max_entries=most).entries) for most in (1, 2, 2, 5)
    ]
    assert [len(indices) for indices in samples] == [1, 2, 2, 5] and samples[1] == samples[2]
    assert any(indices != tuple(np.ndindex(2, 3))[: len(indices)] for indices in samples)


def test_large_values_take_relative_steps():
    report = gradcheck(lambda p: (float((p["x"] ** 2).sum()), {"x": 2 * p["x"]}), {"x": np.array([1e6, 1e-3])}, names=["x"])
    steps_seen = report.entries[0]
    assert steps_seen.ok and report.entries[0].relative < 1e-9


def test_the_floor_and_the_unobservable():
    def evaluate(point):
        x = point["x"]
        return float(1.0 + x[0] ** 2), {"x": np.array([2 * x[0], 0.0])}

    report = gradcheck(evaluate, {"x": np.array([0.5, 0.5])})
    assert [entry.status for entry in report.entries] == ["ok", "not observable"] and report.ok

    def forgets(point):
        value, gradient = evaluate(point)
        gradient["x"][0] = 0.0
        return value, gradient

    assert gradcheck(forgets, {"x": np.array([0.5, 0.5])}, floor=1e-3).worst.status == "WRONG"
    silent = gradcheck(forgets, {"x": np.array([0.0, 0.5])}, floor=1e-9)
    assert not silent.ok and silent.worst is None and "0 entries are observable, and 1 must be" in silent.table()
    assert gradcheck(forgets, {"x": np.array([0.0, 0.5])}, floor=1e-9, min_observable=0).ok


def test_roundoff_is_pointed_out():
    def noisy(point):
        x = point["x"]
        return float((1e6 + 1e-6 * x**2).sum()), {"x": 2e-6 * x}

    report = gradcheck(noisy, {"x": np.array([0.3])})
    assert not report.ok and report.worst.status == "WRONG" and "roundoff" in report.table()


def test_the_loss_alone_is_used_and_the_point_is_left_alone():
    calls = {"both": 0, "loss": 0}

    def both(point):
        calls["both"] += 1
        value, gradient = smooth(point)
        point["x"][:] = np.nan  # must not reach anybody else
        return value, gradient

    def loss(point):
        calls["loss"] += 1
        return smooth(point)[0]

    before = POINT["x"].copy()
    assert gradcheck(both, POINT, loss=loss, order=2).ok
    assert calls == {"both": 1, "loss": 14}
    assert gradcheck(both, POINT).ok
    np.testing.assert_array_equal(POINT["x"], before)


def test_dot_product():
    matrix = np.random.default_rng(2).standard_normal((4, 6))

    def jvp(point, tangent):
        return matrix @ (np.cos(point["x"]) * tangent["x"]).ravel() + tangent["k"]

    def vjp(point, w):
        return {"x": np.cos(point["x"]) * (matrix.T @ w).reshape(2, 3), "k": np.array(w.sum())}

    for seed in range(5):
        products = dot_product_test(jvp, vjp, POINT, (4,), seed=seed)
        assert products.ok and products.relative < 1e-12
    wrong = dot_product_test(jvp, lambda point, w: {**vjp(point, w), "k": np.array(-w.sum())}, POINT, (4,))
    assert not wrong.ok
    zero = dot_product_test(
        lambda point, tangent: np.zeros(4), lambda point, w: {name: np.zeros_like(a) for name, a in point.items()}, POINT, (4,)
    )
    assert not zero.ok
    with pytest.raises(AssertionError, match="float32"):
        dot_product_test(jvp, vjp, {"x": np.zeros(3, np.float32)}, (4,))
    with pytest.raises(AssertionError, match="J v has shape"):
        dot_product_test(jvp, vjp, POINT, (5,))


def test_an_absolute_tolerance_holds_for_every_entry() -> None:
    """atol accepts what cancellation leaves in a small entry, and no more."""
    point = {"x": np.array([1.0, 1e-9])}

    def loss_and_gradient(at: dict[str, np.ndarray], error: float) -> tuple[float, dict[str, np.ndarray]]:
        return float(0.5 * np.sum(at["x"] ** 2)), {"x": at["x"] + np.array([0.0, error])}

    assert not gradcheck(lambda at: loss_and_gradient(at, 1e-7), point).ok
    assert gradcheck(lambda at: loss_and_gradient(at, 1e-7), point, atol=2e-7).ok
    assert not gradcheck(lambda at: loss_and_gradient(at, 1e-6), point, atol=2e-7).ok
