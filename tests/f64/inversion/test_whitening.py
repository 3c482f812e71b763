"""Whitened observations: covariance, prefixes, what least squares gain, and a loss that is weighed by its training looks."""

import numpy as np
import pytest
import torch

from risp_torch import UserError
from risp_torch.inversion.losses.whitening import FRAME_RIDGE, OUTPUT_RIDGE, Whitening

FRAMES, OUTPUTS = 7, 3


def drawn(count, seed=0):
    """Errors [count, FRAMES, OUTPUTS] of which single frames and outputs do not know, and the two factors of their covariance."""
    random = np.random.default_rng(seed)
    times = np.exp(-np.abs(np.subtract.outer(np.arange(FRAMES), np.arange(FRAMES))) / 3.0)
    mixed = random.normal(size=(OUTPUTS, OUTPUTS))
    across = mixed @ mixed.T + 0.5 * np.eye(OUTPUTS)
    roots = np.linalg.cholesky(times), np.linalg.cholesky(across)
    white = random.normal(size=(count, FRAMES, OUTPUTS))
    return torch.as_tensor(np.einsum("ts,nsd,ed->nte", roots[0], white, roots[1])), times, across


def test_map_is_that_of_the_covariance():
    """W C W^T = 1 for either factor, computed here without the code under test."""
    errors, _, _ = drawn(50)
    whitening = Whitening.of(errors)
    seen = errors.cpu().numpy()
    across = sum(frame[:, None] * frame[None] for look in seen for frame in look) / (len(seen) * FRAMES)
    across += OUTPUT_RIDGE * np.trace(across) / OUTPUTS * np.eye(OUTPUTS)
    root = whitening.outputs.cpu().numpy()
    np.testing.assert_allclose(root @ across @ root.T, np.eye(OUTPUTS), atol=1e-12)
    even = [look @ root.T for look in seen]
    times = sum(column[:, None] * column[None] for look in even for column in look.T) / (len(seen) * OUTPUTS)
    times += FRAME_RIDGE * np.trace(times) / FRAMES * np.eye(FRAMES)
    root = whitening.frames.cpu().numpy()
    np.testing.assert_allclose(root @ times @ root.T, np.eye(FRAMES), atol=1e-12)
    np.testing.assert_allclose(np.triu(root, 1), 0.0)


def test_many_looks_tell_the_shape_of_the_covariance():
    """With thousands of looks the factors come close to those that the errors were drawn from."""
    errors, times, across = drawn(40_000)
    whitening = Whitening.of(errors)
    for root, factor, ridge in ((whitening.outputs, across, OUTPUT_RIDGE), (whitening.frames, times, FRAME_RIDGE)):
        expected = factor + ridge * np.trace(factor) / len(factor) * np.eye(len(factor))
        found = np.linalg.inv(root.cpu().numpy().T @ root.cpu().numpy())
        np.testing.assert_allclose(found / np.trace(found), expected / np.trace(expected), atol=0.01)


def test_first_frames_are_whitened_by_themselves():
    """A shorter film gives the first rows of the longer one, as a horizon that grows needs."""
    errors, _, _ = drawn(30)
    whitening = Whitening.of(errors)
    whole = whitening(errors)
    torch.testing.assert_close(whitening(errors[:, :4]), whole[:, :4])


def test_errors_of_a_look_leave_the_estimate():
    """A straight line whose readings are off by the same in all frames: the slope is found at least twice as well."""
    random = np.random.default_rng(2)
    line = torch.arange(FRAMES, dtype=torch.float64)[:, None] * torch.tensor([[1.0, 0.3, 0.0]])

    def looks(count):
        offset = torch.as_tensor(random.normal(size=(count, 1, OUTPUTS)))
        return offset + 0.01 * torch.as_tensor(random.normal(size=(count, FRAMES, OUTPUTS)))

    whitening, misread = Whitening.of(looks(64)), looks(200)

    def slopes(of):
        direction = of(line).flatten()
        return of(misread).flatten(1) @ direction / (direction @ direction)

    plain, weighed = slopes(lambda rows: rows).std(), slopes(whitening).std()
    assert weighed < 0.5 * plain


def test_gain_is_the_variance_of_whitened_noise():
    """Independent errors of unit variance have the variance ``gain`` afterwards, on average over frames and outputs."""
    errors, _, _ = drawn(30)
    whitening = Whitening.of(errors)
    noise = torch.as_tensor(np.random.default_rng(3).normal(size=(20_000, FRAMES, OUTPUTS)))
    assert float(whitening(noise).square().mean()) == pytest.approx(whitening.gain, rel=0.02)


def test_derivative_is_the_transposed_map():
    """<W v, g> = <v, W^T g>, and automatic derivatives agree with differences."""
    errors, _, _ = drawn(30)
    whitening = Whitening.of(errors)
    assert torch.autograd.gradcheck(whitening, (errors[:2].clone().requires_grad_(True),))


@pytest.mark.parametrize("errors", [torch.zeros(0, 4, 2), torch.zeros(3, 4, 2), torch.full((3, 4, 2), torch.nan)])
def test_errors_that_tell_nothing_are_refused(errors):
    with pytest.raises(UserError, match="no finite errors for whitening"):
        Whitening.of(errors)
