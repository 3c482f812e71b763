"""Limited-memory BFGS updates of a kept inverse, on a quadratic objective and against the dense update."""

from dataclasses import dataclass

import numpy as np

from risp_torch.least_squares.secants import KEPT_PAIRS, Secants

SHAPE, SIZE = (7, 3), 21


@dataclass(frozen=True)
class Dense:
    """A symmetric inverse of all numbers together."""

    matrix: np.ndarray

    def step(self, right):
        return (self.matrix @ right.ravel()).reshape(SHAPE)


def positive(seed):
    root = np.random.default_rng(seed).standard_normal((SIZE, SIZE))
    return root @ root.T / SIZE + 0.3 * np.eye(SIZE)


def bfgs(inverse, pairs):
    """The dense BFGS update of an inverse (Nocedal and Wright, Numerical Optimization, 2006, eq. 6.17)."""
    for step, bent in pairs:
        rho = 1.0 / (step @ bent)
        left = np.eye(SIZE) - rho * np.outer(step, bent)
        inverse = left @ inverse @ left.T + rho * np.outer(step, step)
    return inverse


def along_a_path(hessian, count):
    """Secants of a quadratic along random points, and their pairs."""
    points = np.random.default_rng(4).standard_normal((count + 1, SIZE))
    secants = Secants()
    for point in points:
        secants.note(point.reshape(SHAPE), (-hessian @ point).reshape(SHAPE))
    steps = np.diff(points, axis=0)
    return secants, [(step, hessian @ step) for step in steps]


def test_the_corrected_inverse_is_that_of_bfgs():
    hessian, inverse = positive(0), np.linalg.inv(positive(1))
    secants, pairs = along_a_path(hessian, 4)
    right = np.random.default_rng(5).standard_normal(SIZE)
    found = secants.step(Dense(inverse), right.reshape(SHAPE))
    np.testing.assert_allclose(found.ravel(), bfgs(inverse, pairs) @ right, rtol=1e-10)


def test_the_last_change_gives_the_last_step():
    secants, pairs = along_a_path(positive(0), KEPT_PAIRS + 3)
    assert len(secants.pairs) == KEPT_PAIRS
    found = secants.step(Dense(np.eye(SIZE)), pairs[-1][1].reshape(SHAPE))
    np.testing.assert_allclose(found.ravel(), pairs[-1][0], rtol=1e-10)


def test_a_new_matrix_is_not_corrected():
    secants, _ = along_a_path(positive(0), 3)
    secants.forget()
    right = np.arange(float(SIZE)).reshape(SHAPE)
    np.testing.assert_array_equal(secants.step(Dense(2 * np.eye(SIZE)), right), 2 * right)


def test_steps_that_bend_the_wrong_way_are_left_out():
    secants = Secants()
    for point in np.random.default_rng(4).standard_normal((4, *SHAPE)):
        secants.note(point, point)
    assert secants.pairs == []
