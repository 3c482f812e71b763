"""Weights for what a network reads, from what the looks of its training do to it: generalised least squares.

A network that misjudges a look misjudges it in every frame, and some outputs more than others. A plain mean of squares takes
each number for a measurement of its own, so what all frames get wrong together goes into the estimate. Whitened numbers have
errors of unit variance that hang together no more (Aitken 1936). How the errors hang together is seen where the answer is
known: one motion, rendered in many looks of the training domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ti_sim.base.errors import UserError

LOOKS = 64  # in which a motion is rendered
FRAME_RIDGE = 0.3  # variance of errors of single frames, in parts of what the looks show: other renderers have other errors, too
OUTPUT_RIDGE = 0.1  # the same of single outputs


@dataclass(frozen=True)
class Whitening:
    """A linear map of the observations of one film: ``frames`` from the left, ``outputs`` from the right.

    Attributes:
        frames: [n, n] lower triangular, so that the first frames alone are whitened by its first rows and columns.
        outputs: [D, D].
        looks: in which the errors were seen.
    """

    frames: torch.Tensor
    outputs: torch.Tensor
    looks: int

    @staticmethod
    def of(errors: torch.Tensor) -> Whitening:
        """The map that whitens such errors, whose covariance is taken as one of frames times one of outputs.

        Of the two covariances that of the outputs is the plain mean over looks and frames, that of the frames a mean over outputs
        that are whitened: the first step of Dutilleul's iteration (J. Stat. Comput. Simul. 64, 1999).

        Args:
            errors: [N, n, D] of N looks.

        Raises:
            UserError: there are no errors, or numbers that are not finite.
        """
        if not len(errors) or not torch.isfinite(errors).all() or not errors.abs().max() > 0:
            raise UserError("the looks show no errors to weigh by: give finite ones, of at least one look that changes readings")
        errors = errors.double()
        outputs = _covariance(torch.einsum("ntd,nte->de", errors, errors) / errors[..., 0].numel(), OUTPUT_RIDGE)
        white = _inverse_root(outputs)
        even = errors @ white.T
        frames = _covariance(torch.einsum("ntd,nsd->ts", even, even) / even[:, 0].numel(), FRAME_RIDGE)
        return Whitening(_inverse_root(frames), white, len(errors))

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        """Whitened observations [..., n', D] of the n' first frames, differentiable."""
        count = observations.shape[-2]
        frames, outputs = (matrix.to(observations) for matrix in (self.frames[:count, :count], self.outputs))
        return frames @ observations @ outputs.T

    @property
    def gain(self) -> float:
        """Mean variance of what the map makes of numbers whose errors are independent and of unit variance."""
        return float((self.frames**2).sum() * (self.outputs**2).sum()) / (len(self.frames) * len(self.outputs))


def _covariance(seen: torch.Tensor, ridge: float) -> torch.Tensor:
    """The covariance, with a part of its mean variance added to every variance."""
    return seen + ridge * seen.diagonal().mean() * torch.eye(len(seen)).to(seen)


def _inverse_root(covariance: torch.Tensor) -> torch.Tensor:
    """The lower triangular W with W C W^T = 1."""
    root = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(root, torch.eye(len(root)).to(root), upper=False)
