"""Gauss-Newton steps of single frames: each placement is fitted to its own picture, while the look is frozen between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.solvers.registration.tangent import Tangent, with_placement
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import Equations, LeastSquaresProblem
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Termination
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States

DIFFERENCE_WIDTH = 1.5e-3  # of differences, relative to the size of the moving bodies
# Steps with a frozen look are too short, so that longer ones are tried, too. All frames take all rounds.
POLICY = Policy(
    MeanDiagonalDamping(), FixedSteps((1e-6,), (0.3, 1.0, 3.0, 8.0)), rounds=1, termination=Termination(decrease=None),
    in_one_batch=True,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FrameSteps:
    """The pictures of one motion.

    Attributes:
        scene, comparison: those of the inversion.
        states: of one world; placements of all frames replace its own.
        values: parameter values [1, ...] of the motion.
        tangent: coordinates of changes.
        modes: [n, R, D] directions of the compared frames.
        size: length of the moving bodies [m].
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
        problem, policy = _FrameProblem(self), replace(POLICY, rounds=rounds)
        starts = minimise(problem, Starts.begin(list(placement), policy), policy)
        return torch.stack(starts.points), problem.normal

    @property
    def _compared_frames(self) -> tuple[int, ...] | None:
        frames = self.comparison.frames
        return None if len(frames) == self.states.placement.shape[1] else frames

    def _frozen(self, placement: torch.Tensor) -> Comparison:
        """The comparison with the look of placements [n, rows, columns]."""
        frames = self._compared_frames
        loss = self.comparison.loss.frozen_at(self.scene, self._states(placement[None]), self.values, frames, follows=False)
        return replace(self.comparison, loss=loss)

    def _squared_residuals(self, frozen: Comparison, placements: torch.Tensor) -> torch.Tensor:
        """[B, n] sums of squared residuals of the frames of placements [B, n, rows, columns]."""
        residual = self._observed(frozen, placements) - self.comparison.target.flatten(1)
        return (residual.double() ** 2).sum(dim=2)

    def _observed(self, frozen: Comparison, placements: torch.Tensor) -> torch.Tensor:
        """Observations [B, n, P] of placements [B, n, rows, columns] of the compared frames."""
        values = {name: value[:1].expand(len(placements), *value.shape[1:]) for name, value in self.values.items()}
        return frozen.loss.observe(self.scene, self._states(placements), values, self._compared_frames).flatten(2)

    def _states(self, placements: torch.Tensor) -> States:
        """The states with these placements [B, n, rows, columns] at the compared frames."""
        all_placements = self.states.placement[:1].expand(len(placements), -1, -1, -1).clone()
        all_placements[:, list(self.comparison.frames)] = placements
        return with_placement(self.states, all_placements, self.tangent)


class _FrameProblem(LeastSquaresProblem):
    """Every frame is a start, whose points are placements [rows, columns]; a batch of worlds has a candidate of each frame.

    Attributes:
        normal: [n, R, R] normal matrices of the last linearisation; None before that.
    """

    reevaluates = True

    def __init__(self, frames: FrameSteps) -> None:
        self.frames = frames
        self.normal: torch.Tensor | None = None

    def linearise(self, points: Sequence[torch.Tensor]) -> list[NormalEquations]:
        """Normal equations along each frame's modes, with the look of these placements (``LeastSquaresProblem.linearise``)."""
        frames, placement = self.frames, torch.stack(list(points))
        frozen, modes, width = frames._frozen(placement), frames.modes, DIFFERENCE_WIDTH * frames.size
        rows = []
        for mode in range(modes.shape[1]):
            pair = frames.tangent.moved(placement, width * modes[:, mode] * placement.new_tensor([1.0, -1.0])[:, None, None])
            forward, backward = frames._observed(frozen, pair)
            rows.append((forward - backward) / (2 * width))
        residual = frames.comparison.target.flatten(1) - frames._observed(frozen, placement[None])[0]
        columns = torch.stack(rows, dim=1).double()  # [n, R, P]
        self.normal = torch.stack([item @ item.T for item in columns])
        gradient = torch.stack([item @ r.double() for item, r in zip(columns, residual, strict=True)])
        finite = (self.normal.isfinite().all(dim=2) & gradient.isfinite()).all(dim=1)
        matrices, gradients = (
            torch.where(finite.reshape(-1, *[1] * (sums.ndim - 1)), sums, 0.0).cpu().numpy() for sums in (self.normal, gradient)
        )
        return [NormalEquations(*item, context=frozen) for item in zip(matrices, gradients, strict=True)]

    def evaluate(
        self, points: Sequence[torch.Tensor], equations: Equations, steps: Sequence[np.ndarray], before: np.ndarray, *,
        first: bool,
    ) -> tuple[list[Sequence[torch.Tensor]], np.ndarray, np.ndarray]:  # fmt: skip
        """The candidates of all frames in one batch of worlds (``LeastSquaresProblem.evaluate``)."""
        frames, placement = self.frames, torch.stack(list(points))
        amplitudes = torch.as_tensor(np.stack(steps, axis=1)).to(frames.modes)  # [M, n, R]
        candidates = frames.tangent.moved(placement, torch.einsum("mnr,nrd->mnd", amplitudes, frames.modes))
        all_placements = torch.cat([placement[None], candidates])
        batches = all_placements.split(frames.comparison.worlds_at_once)
        squared_residuals = torch.cat([frames._squared_residuals(equations[0].context, batch) for batch in batches])
        values = torch.where(squared_residuals.isfinite(), squared_residuals, torch.inf).T.cpu().numpy()
        return list(candidates.unbind(dim=1)), values[:, 1:], values[:, 0]
