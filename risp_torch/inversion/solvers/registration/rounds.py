"""Rounds of registration: frames are fitted one by one, then the unknowns to the motion of the frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.inversion.solvers.gradient_descent import History, HistoryCheckpoint
from risp_torch.inversion.solvers.refinement import MAX_VALLEY_UNKNOWNS, refined
from risp_torch.inversion.solvers.registration.frame_modes import frame_modes
from risp_torch.inversion.solvers.registration.frame_steps import FrameSteps
from risp_torch.inversion.solvers.registration.motion_loss import Reference
from risp_torch.inversion.solvers.registration.tangent import Tangent
from risp_torch.inversion.solvers.saved_search import rounds_bar
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Termination
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

FRAME_STEPS, UNKNOWN_STEPS = 4, 3  # Gauss-Newton steps of the frames, and of the unknowns, in a round
# Lengths are relative to the step to the unknowns that fit the registered frames.
POLICY = Policy(
    MeanDiagonalDamping(), FixedSteps((0.0,), (1.0, 2.0, 4.0, 0.3, 0.1)), rounds=20, termination=Termination(decrease=1e-4)
)  # fmt: skip


def needs_registration(comparison: Comparison, unknowns: Unknowns) -> bool:
    """Whether rounds of registration suit a search: several pictures, and too many unknowns for joint steps to converge."""
    loss, has_several_frames = comparison.loss, len(comparison.frames) > 1
    return loss.of_pictures and not loss.non_smooth and has_several_frames and len(unknowns.scaled_range()) > MAX_VALLEY_UNKNOWNS


def registered(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, history: History, *,
    checkpoint: SearchCheckpoint | None = None, progress: bool,
) -> np.ndarray:  # fmt: skip
    """Rounds of registration from several starts.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: [S, K] physical values.
        history: history to which the rounds are appended.
        checkpoint: saves the search after every round, and resumes it.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K]: each as it was where it diverges, or where its film has an exposure or a line time.
    """
    scaled = unknowns.scaled(values)
    starts = Starts.begin(list(scaled), POLICY, losses_at(scene, comparison, unknowns, scaled))
    starts.active[history.stopped] = False

    def record(before: Starts, after: Starts) -> None:
        if any(old is not new for old, new in zip(before.points, after.points, strict=True)):
            history.append(after.objectives, unknowns.physical_values(np.array(after.points)), comparison.target)

    saved = HistoryCheckpoint(checkpoint, history, comparison.target.device)
    with rounds_bar(saved, record, rounds=POLICY.rounds, title="registering", progress=progress, leave=False) as after_round:
        minimise(_RegistrationProblem(scene, comparison, unknowns), starts, POLICY, checkpoint=saved, after_round=after_round)
    return unknowns.physical_values(np.array(starts.points))


class _BlurError(Exception):
    """A frame of a film with an exposure or a line time shows more than one placement."""


class _RegistrationProblem(FilmProblem):
    """The film, with steps to the unknowns that fit frames registered at the point."""

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations | None]:
        """Equations of a unit matrix, whose solution is that step; None where worlds diverge, or frames are blurred."""
        equations: list[NormalEquations | None] = []
        for point in points:
            try:
                step = (self._followed_unknowns(point) - point) / self.units
                equations.append(NormalEquations(np.eye(len(step)), step))
            except (DivergenceError, _BlurError):
                equations.append(None)
        return equations

    def _followed_unknowns(self, point: np.ndarray) -> np.ndarray:
        """[K] unknowns that follow the frames registered at a point [K], in scaled coordinates."""
        row = torch.as_tensor(point[None], dtype=bridge_dtype(), device=bridge_device())
        values, frames = self.unknowns.from_scaled(row), self.comparison.frames
        with torch.no_grad():
            states = self.scene.rollout(values, worlds=1, frames=max(frames[-1], 1))
            if states.exposed is not None:
                raise _BlurError
            placement = states.placement[0, list(frames)]
            tangent = Tangent.of(self.scene, placement)
            physical = self.unknowns.physical_values(point[None])[0]
            change_reference = Reference(placement, tangent, frames, self.comparison.observation_count)
            zero_change = change_reference.comparison(placement.new_zeros(len(frames), tangent.count))
            jacobian = linearise(self.scene, zero_change, self.unknowns, physical).jacobian
            modes = frame_modes(jacobian.unflatten(0, (len(frames), tangent.count)))
            frame_steps = FrameSteps(self.scene, self.comparison, states, values, tangent, modes, tangent.extent(placement[0]))
            registered_placement, normal = frame_steps.registered(placement, FRAME_STEPS)
        weight = _root(normal).to(modes) @ modes
        reference = Reference(placement, tangent, frames, self.comparison.observation_count, weight)
        motion_comparison = reference.comparison(reference.observed(registered_placement[None])[0])
        minima, _ = refined(
            self.scene, motion_comparison, self.unknowns, physical[None], UNKNOWN_STEPS, History(), thorough=False, longer=False,
            progress=False,
        )  # fmt: skip
        return self.unknowns.scaled(minima)[0]


def _root(normal: torch.Tensor) -> torch.Tensor:
    """Symmetric roots [n, R, R] of positive matrices."""
    values, vectors = torch.linalg.eigh(normal)
    return (vectors * values.clamp_min(0.0).sqrt()[:, None]) @ vectors.transpose(1, 2)
