"""States of recordings, and normal equations of fits, against plain numpy and scipy."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from risp_torch.motions import Recording
from risp_torch.motions.normal_equations import SharedNormalEquations, clustered_covariance
from risp_torch.motions.recording import rotation_vector


def thrown(frames: int = 20, dt: float = 0.01) -> tuple[Recording, np.ndarray]:
    """A body in free flight that turns evenly, and its velocities [frames, 6]."""
    times = np.arange(frames) * dt
    velocity = np.array([0.3, -0.2, 1.0]) + np.array([0.0, 0.0, -9.81]) * times[:, None]
    place = np.array([0.3, -0.2, 1.0]) * times[:, None] + 0.5 * np.array([0.0, 0.0, -9.81]) * times[:, None] ** 2
    spin = np.array([2.0, -1.0, 3.0])
    turn = Rotation.from_rotvec(times[:, None] * spin) * Rotation.from_rotvec([0.4, 1.0, -0.3])
    poses = np.concatenate([place, turn.as_quat()], axis=1)[:, None]
    return Recording("flight", poses, dt), np.concatenate([velocity, np.tile(spin, (frames, 1))], axis=1)


@pytest.mark.parametrize("frame", [0, 1, 7, 18, 19])
def test_velocities_of_a_flight_are_exact(frame: int) -> None:
    recording, velocity = thrown()
    pose, found = recording.state(frame)
    np.testing.assert_array_equal(pose, recording.body_q[frame])
    np.testing.assert_allclose(found[0], velocity[frame], rtol=0, atol=1e-9)


def test_velocities_at_an_end_average_noise() -> None:
    """Of five poses with noise s the velocity has 1.3 s / dt; of three it would have 2.5 s / dt."""
    recording, velocity = thrown()
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        noisy = recording.body_q.copy()
        noisy[..., :3] += 1e-4 * rng.standard_normal(noisy[..., :3].shape)
        found.append(Recording("noisy", noisy, recording.dt).state(0)[1][0, :3])
    spread = np.std(np.array(found) - velocity[0, :3], axis=0) * recording.dt / 1e-4
    np.testing.assert_allclose(spread, 1.27, rtol=0.15)


def test_rotation_vectors_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    start, end = Rotation.random(50, random_state=1), Rotation.random(50, random_state=2)
    signs = rng.choice([-1.0, 1.0], (50, 1))  # q and -q are the same rotation
    found = rotation_vector(start.as_quat(), signs * end.as_quat())
    np.testing.assert_allclose(found, (end * start.inv()).as_rotvec(), atol=1e-12)
    np.testing.assert_allclose(rotation_vector(start.as_quat(), start.as_quat()), 0.0, atol=1e-12)


def test_elimination_is_the_dense_solution() -> None:
    rng = np.random.default_rng(3)
    motions, rows, own, shared = 4, 30, 5, 3
    jacobian, residual = rng.standard_normal((motions, rows, own + shared)), rng.standard_normal((motions, rows))
    weights = rng.uniform(0.2, 1.0, (motions, rows))
    dense = np.zeros((motions * rows, motions * own + shared))
    for m in range(motions):
        dense[m * rows : (m + 1) * rows, m * own : (m + 1) * own] = jacobian[m, :, :own]
        dense[m * rows : (m + 1) * rows, motions * own :] = jacobian[m, :, own:]
    root = np.sqrt(weights).ravel()
    wanted = np.linalg.lstsq(dense * root[:, None], residual.ravel() * root, rcond=None)[0]
    step, starts = SharedNormalEquations.of(jacobian, weights, residual, own).step(np.zeros((shared, shared)), np.zeros(shared))
    np.testing.assert_allclose(step, wanted[motions * own :], rtol=1e-9)
    np.testing.assert_allclose(starts.ravel(), wanted[: motions * own], rtol=1e-9)


def test_clustered_errors_are_those_of_repeated_draws() -> None:
    """Lines through data whose errors are shared within a cluster: bars follow the spread over draws, not the count of data."""
    rng, clusters = np.random.default_rng(5), np.repeat(np.arange(40), 6)
    slopes, bars, naive = [], [], []
    for _ in range(300):
        x = np.repeat(rng.uniform(0.5, 1.5, 40), 6)
        error = np.repeat(rng.standard_normal(40), 6) + 0.2 * rng.standard_normal(240)
        slope = float(x @ (2 * x + error) / (x @ x))
        scores = (x * (2 * x + error - slope * x))[:, None]
        covariance = clustered_covariance(np.array([[x @ x]]), scores, clusters, np.zeros((1, 1)))
        slopes.append(slope)
        bars.append(np.sqrt(covariance[0, 0]))
        naive.append(1 / np.sqrt(x @ x))
    assert abs(np.mean(bars) / np.std(slopes) - 1) < 0.12 and np.std(slopes) > 1.8 * np.mean(naive)


def test_the_sandwich_is_that_of_its_formula() -> None:
    """Scores are centred, the variance has the factor G / (G - 1), and the precision of priors is not scaled by the scatter."""
    rng = np.random.default_rng(8)
    scores, clusters = rng.normal(size=(7, 2)) + np.array([3.0, -1.0]), np.array([0, 0, 1, 2, 2, 2, 3])
    information, precision = np.array([[5.0, 1.0], [1.0, 4.0]]), np.diag([0.7, 0.0])
    sums = np.array([(scores - scores.mean(axis=0))[clusters == k].sum(axis=0) for k in range(4)])
    bread = np.linalg.inv(information)
    wanted = bread @ (sums.T @ sums * 4 / 3 + precision) @ bread
    np.testing.assert_allclose(clustered_covariance(information, scores, clusters, precision), wanted, rtol=1e-10)
