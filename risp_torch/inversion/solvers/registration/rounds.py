"""Rounds of registration: frames are fitted one by one, then the unknowns to the motion of the frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import linearise, losses_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.refinement import MOST_IN_VALLEY, refined
from risp_torch.inversion.solvers.registration.frame_modes import frame_modes
from risp_torch.inversion.solvers.registration.frame_steps import FrameSteps
from risp_torch.inversion.solvers.registration.motion_loss import Reference
from risp_torch.inversion.solvers.registration.tangent import Tangent
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

ROUNDS = 20  # at most
FRAME_STEPS, FITS = 4, 3  # Gauss-Newton steps of the frames, and of the unknowns, in a round
LENGTHS = (1.0, 2.0, 4.0, 0.3, 0.1)  # of the unknowns' way to where they follow the frames
LEAST_FALL = 1e-4  # relative decrease of the loss below which the rounds end


def is_registered(comparison: Comparison, unknowns: Unknowns) -> bool:
    """Whether rounds of registration suit a search: several pictures, and more unknowns than steps of all at once settle."""
    loss, several = comparison.loss, len(comparison.frames) > 1
    return loss.of_pictures and not loss.rough and several and len(unknowns.scaled_range()) > MOST_IN_VALLEY


def registered(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, history: History, *, progress: bool
) -> np.ndarray:
    """Rounds of registration from several starts.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: [S, K] physical values.
        history: history to which the rounds of every start are appended.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K]: each as it was where it diverges, or where its film has an exposure or a line time.
    """
    scaled = unknowns.scaled(values)
    losses = losses_at(scene, comparison, unknowns, scaled)
    for start in [s for s in np.flatnonzero(np.isfinite(losses)) if s not in history.stopped]:
        for _ in tqdm(range(ROUNDS), desc="registering", disable=not progress, leave=False):
            before = losses[start]
            try:
                scaled[start], losses[start] = _Round(scene, comparison, unknowns, scaled[start]).end(before)
            except (DivergenceError, _BlurError):
                break
            _record(history, unknowns, comparison, scaled, losses)
            if before - losses[start] < LEAST_FALL * before:
                break
    return unknowns.physical_values(scaled)


def _record(history: History, unknowns: Unknowns, comparison: Comparison, scaled: np.ndarray, losses: np.ndarray) -> None:
    for column, rows in ((history.losses, losses), (history.values, unknowns.physical_values(scaled))):
        shown = torch.as_tensor(rows).to(comparison.target)
        shown[history.stopped] = torch.nan
        column.append(shown)


class _BlurError(Exception):
    """A frame of a film with an exposure or a line time shows more than one placement."""


@dataclass(frozen=True, eq=False)
class _Round:
    """One round from a point [K] in scaled coordinates."""

    scene: Scene
    comparison: Comparison
    unknowns: Unknowns
    point: np.ndarray

    def end(self, loss: float) -> tuple[np.ndarray, float]:
        """The best point on the way to where the unknowns follow the frames, and its loss; the point itself if none is better."""
        followed = self._followed()
        low, high = (self.unknowns.scaled(bound) for bound in self.unknowns.bounds())
        tries = np.clip(self.point + np.array(LENGTHS)[:, None] * (followed - self.point), low, high)
        losses = losses_at(self.scene, self.comparison, self.unknowns, tries)
        best = int(np.argmin(losses))
        return (tries[best], float(losses[best])) if losses[best] < loss else (self.point, loss)

    def _followed(self) -> np.ndarray:
        """[K] unknowns that follow the registered frames, in scaled coordinates."""
        row = torch.as_tensor(self.point[None], dtype=bridge_dtype(), device=bridge_device())
        values, frames = self.unknowns.from_scaled(row), self.comparison.frames
        with torch.no_grad():
            states = self.scene.rollout(values, worlds=1, frames=max(frames[-1], 1))
            if states.exposed is not None:
                raise _BlurError
            placement = states.placement[0, list(frames)]
            tangent = Tangent.of(self.scene, placement)
            physical = self.unknowns.physical_values(self.point[None])[0]
            plain = Reference(placement, tangent, frames, self.comparison.count)
            still = plain.comparison(placement.new_zeros(len(frames), tangent.count))
            jacobian = linearise(self.scene, still, self.unknowns, physical).jacobian
            modes = frame_modes(jacobian.unflatten(0, (len(frames), tangent.count)))
            steps = FrameSteps(self.scene, self.comparison, states, values, tangent, modes, tangent.extent(placement[0]))
            found, normal = steps.registered(placement, FRAME_STEPS)
        weight = _root(normal).to(modes) @ modes
        reference = Reference(placement, tangent, frames, self.comparison.count, weight)
        follow = reference.comparison(reference.observed(found[None])[0])
        ends, _ = refined(
            self.scene, follow, self.unknowns, physical[None], FITS, History(), thorough=False, progress=False
        )
        return self.unknowns.scaled(ends)[0]


def _root(normal: torch.Tensor) -> torch.Tensor:
    """Symmetric roots [n, R, R] of positive matrices."""
    values, vectors = torch.linalg.eigh(normal)
    return (vectors * values.clamp_min(0.0).sqrt()[:, None]) @ vectors.transpose(1, 2)
