"""The smooth plate of a solved look: the penalised least-squares combination of its pictures."""

import numpy as np
import pytest

from risp_torch.inversion.appearance.model.background_plate import SmoothPictures, SmoothPlate

HEIGHT, WIDTH, COUNT, BENDING = 9, 12, 4, 1e-2


def test_plate_minimises_weighted_squares_and_bending_energy():
    """Against a dense least-squares problem with a row for each coefficient; pixels of the least weight take part."""
    random = np.random.default_rng(0)
    basis = SmoothPictures.of(HEIGHT, WIDTH, count=COUNT, bending=BENDING)
    shown, weight = random.random(HEIGHT * WIDTH), random.random(HEIGHT * WIDTH)
    weight[::3] = 1e-4
    rows = np.concatenate([np.sqrt(weight)[:, None] * basis.pictures, np.diag(np.sqrt(basis.stiffness))])
    right = np.concatenate([np.sqrt(weight) * shown, np.zeros(COUNT**2)])
    coefficients = np.linalg.lstsq(rows, right, rcond=None)[0]
    plate = SmoothPlate(weight, basis).plate(weight * shown)
    np.testing.assert_allclose(plate, basis.pictures @ coefficients, rtol=1e-9)
    assert basis.energy(plate[:, None]) == pytest.approx(float((basis.stiffness * coefficients**2).sum()), rel=1e-9)


def test_energy_is_that_of_a_bent_plate():
    """Integral of the squared Laplacian over the picture, whose sides count pi for each half wave: k^4 times the mean square."""
    basis = SmoothPictures.of(200, 200, count=COUNT, bending=BENDING)
    plate = basis.pictures @ np.random.default_rng(1).normal(size=(COUNT**2, 1))
    picture = np.pad(plate.reshape(200, 200), 1, mode="edge")
    laplacian = sum(np.roll(picture, by, axis) for by in (1, -1) for axis in (0, 1))[1:-1, 1:-1] - 4 * picture[1:-1, 1:-1]
    bent = float(((laplacian * (200 / np.pi) ** 2) ** 2).sum())
    assert basis.energy(plate) == pytest.approx(BENDING * bent, rel=1e-2)
    assert basis.energy(np.ones((200 * 200, 1))) == pytest.approx(0.0, abs=1e-9)


def test_pictures_of_few_pixels_have_fewer_cosines():
    """More cosines than pixels of a side would not be independent."""
    basis = SmoothPictures.of(3, 5, count=8, bending=BENDING)
    np.testing.assert_allclose(basis.pictures.T @ basis.pictures, 15 * np.eye(9), atol=1e-12)
    assert basis.stiffness.shape == (9,)
