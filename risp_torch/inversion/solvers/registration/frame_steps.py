"""Gauss-Newton steps of single frames: each placement is fitted to its own picture, while the look is held between steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.solvers.registration.tangent import Tangent, with_placement
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States

WIDTH = 1.5e-3  # of differences, relative to the size of the moving things
LENGTHS = (0.3, 1.0, 3.0, 8.0)  # of a step; a look that is held holds its frames back
DAMPING = 1e-6  # of a frame's normal equations' mean diagonal


@dataclass(frozen=True, eq=False)
class FrameSteps:
    """The pictures of one motion.

    Attributes:
        scene, comparison: those of the inversion.
        states: of one world; placements of all frames replace its own.
        values: parameter values [1, ...] of the motion.
        tangent: coordinates of changes.
        modes: [n, R, D] directions of the compared frames.
        size: m: of the moving things.
    """

    scene: Scene
    comparison: Comparison
    states: States
    values: Mapping[str, torch.Tensor]
    tangent: Tangent
    modes: torch.Tensor
    size: float

    def registered(self, placement: torch.Tensor, rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Fit the compared frames to their pictures.

        Args:
            placement: [n, rows, columns] to begin with.
            rounds: steps, before each of which the look is solved.

        Returns:
            The placements [n, rows, columns], and their normal matrices [n, R, R] along the modes before the last step.
        """
        normal = placement.new_zeros(len(placement), self.modes.shape[1], self.modes.shape[1])
        for _ in range(rounds):
            placement, normal = self._stepped(placement)
        return placement, normal

    def _stepped(self, placement: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Every placement after the length of its step that leaves least, and the normal matrices [n, R, R]."""
        frames = self._seen
        held = self.comparison.loss.near(self.scene, self._states(placement[None]), self.values, frames, follows=False)
        held = replace(self.comparison, loss=held)
        width, count = WIDTH * self.size, self.modes.shape[1]
        rows = []
        for mode in range(count):
            pair = self.tangent.moved(placement, width * self.modes[:, mode] * placement.new_tensor([1.0, -1.0])[:, None, None])
            above, below = self._observed(held, pair)
            rows.append((above - below) / (2 * width))
        residual = self.comparison.target.flatten(1) - self._observed(held, placement[None])[0]
        jacobian = torch.stack(rows, dim=1)  # [n, R, P]
        normal = torch.stack([each.double() @ each.double().T for each in jacobian])
        gradient = torch.stack([j.double() @ r.double() for j, r in zip(jacobian, residual, strict=True)])
        ridge = DAMPING * normal.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None] + torch.finfo(torch.float64).tiny
        # A row of zeros, a frame of fewer directions, has no step.
        still = (self.modes.abs().sum(dim=2) == 0).double()
        step = torch.linalg.solve(normal + torch.diag_embed(ridge + still * (1.0 + ridge)), gradient)
        change = torch.einsum("nr,nrd->nd", step.to(self.modes), self.modes)
        tries = torch.cat([placement[None], self.tangent.moved(placement, torch.stack([each * change for each in LENGTHS]))])
        left = torch.cat([self._left(held, each) for each in tries.split(self._together)])
        best = torch.where(left.isfinite(), left, torch.inf).argmin(dim=0)
        return tries[best, torch.arange(len(best), device=best.device)], normal

    @property
    def _seen(self) -> tuple[int, ...] | None:
        frames = self.comparison.frames
        return None if len(frames) == self.states.placement.shape[1] else frames

    @property
    def _together(self) -> int:
        return self.comparison.worlds_at_once

    def _left(self, held: Comparison, placements: torch.Tensor) -> torch.Tensor:
        """[B, n] sums of squared residuals of the frames of placements [B, n, rows, columns]."""
        residual = self._observed(held, placements) - self.comparison.target.flatten(1)
        return (residual.double() ** 2).sum(dim=2)

    def _observed(self, held: Comparison, placements: torch.Tensor) -> torch.Tensor:
        """Observations [B, n, P] of placements [B, n, rows, columns] of the compared frames."""
        values = {name: value[:1].expand(len(placements), *value.shape[1:]) for name, value in self.values.items()}
        return held.loss.observe(self.scene, self._states(placements), values, self._seen).flatten(2)

    def _states(self, placements: torch.Tensor) -> States:
        """The states with these placements [B, n, rows, columns] at the compared frames."""
        whole = self.states.placement[:1].expand(len(placements), -1, -1, -1).clone()
        whole[:, list(self.comparison.frames)] = placements
        return with_placement(self.states, whole, self.tangent)
