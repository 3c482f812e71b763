"""Generalised least squares for predictions of a network: whitening by its errors over appearances of the training domain.

The error of a network for an appearance is similar in every frame, and larger for some outputs. A plain mean of squares treats
each prediction as an independent measurement, so common errors of all frames affect the estimate. Whitened predictions have
uncorrelated errors of unit variance (Aitken 1936). The covariance of the errors is measured for a known
motion, rendered in many appearances of the training domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ti_sim.base.errors import UserError

APPEARANCES = 64  # in which a motion is rendered
FRAME_RIDGE = 0.3  # variance of errors of single frames, relative to the measured: other renderers have more errors
OUTPUT_RIDGE = 0.1  # the same of single outputs


@dataclass(frozen=True)
class Whitening:
    """A linear map of the observations of one film: ``frames`` from the left, ``outputs`` from the right.

    Attributes:
        frames: [n, n] lower triangular, so that the first frames alone are whitened by its first rows and columns.
        outputs: [D, D].
        appearances: number of appearances in which the errors were measured.
    """

    frames: torch.Tensor
    outputs: torch.Tensor
    appearances: int

    @staticmethod
    def of(errors: torch.Tensor) -> Whitening:
        """The map that whitens these errors, with the covariance modelled as a Kronecker product of frames and outputs.

        The covariance of the outputs is the mean over appearances and frames, that of the frames a mean over outputs
        after whitening: the first step of Dutilleul's iteration (J. Stat. Comput. Simul. 64, 1999).

        Args:
            errors: [N, n, D] errors in N appearances.

        Raises:
            UserError: there are no errors, or numbers that are not finite.
        """
        if not len(errors) or not torch.isfinite(errors).all() or not errors.abs().max() > 0:
            raise UserError("there are no finite errors for whitening: give some appearances that change the predictions")
        errors = errors.double()
        outputs = _covariance(torch.einsum("ntd,nte->de", errors, errors) / errors[..., 0].numel(), OUTPUT_RIDGE)
        output_map = _inverse_root(outputs)
        output_whitened = errors @ output_map.T
        frames = _covariance(
            torch.einsum("ntd,nsd->ts", output_whitened, output_whitened) / output_whitened[:, 0].numel(), FRAME_RIDGE
        )
        return Whitening(_inverse_root(frames), output_map, len(errors))

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        """Whitened observations [..., n', D] of the n' first frames, differentiable."""
        count = observations.shape[-2]
        frames, outputs = (matrix.to(observations) for matrix in (self.frames[:count, :count], self.outputs))
        return frames @ observations @ outputs.T

    @property
    def gain(self) -> float:
        """Mean variance of the mapped observations for independent errors of unit variance."""
        return float((self.frames**2).sum() * (self.outputs**2).sum()) / (len(self.frames) * len(self.outputs))


def _covariance(sample_covariance: torch.Tensor, ridge: float) -> torch.Tensor:
    """The covariance with ``ridge`` times its mean variance added to the diagonal."""
    return sample_covariance + ridge * sample_covariance.diagonal().mean() * torch.eye(len(sample_covariance)).to(
        sample_covariance
    )


def _inverse_root(covariance: torch.Tensor) -> torch.Tensor:
    """The lower triangular W with W C W^T = 1."""
    root = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(root, torch.eye(len(root)).to(root), upper=False)
